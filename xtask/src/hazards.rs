//! `docs/safety.md` promises only what is tested: every hazard of its table has a row in `docs/hazards.md`, in the same order, which names
//! tests that are there.
//!
//! The second cell of such a row holds paths of files and, behind each, names of tests in it, all in backticks. A script of the
//! virtual machine is a test by itself.

use crate::shell;
use anyhow::{Context, Result};

const PAGE: &str = "docs/safety.md";
const HEADING: &str = "## Hazards";
const TESTS: &str = "docs/hazards.md";

/// Checks the tables and says what it found.
///
/// # Errors
/// If a page cannot be read.
pub fn run() -> Result<bool> {
    let read = |path: &str| std::fs::read_to_string(shell::root().join(path)).ok();
    let page = |path| read(path).with_context(|| format!("cannot read {path}"));
    let wrong = findings(&page(PAGE)?, &page(TESTS)?, &read);
    wrong.iter().for_each(|finding| eprintln!("hazards: {finding}"));
    if wrong.is_empty() {
        println!("hazards: every hazard of {PAGE} has tests in {TESTS}, which exist");
    }
    Ok(wrong.is_empty())
}

fn findings(page: &str, tests: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let section = page.lines().skip_while(|line| *line != HEADING).skip(1);
    let hazards = rows(section.take_while(|line| !line.starts_with("## ")));
    let tests = rows(tests.lines());
    if hazards.is_empty() {
        return vec![format!("{PAGE} has no table under `{HEADING}`")];
    }
    let first = |row: &Vec<&str>| row.first().copied().unwrap_or_default().to_owned();
    let names = |rows: &[Vec<&str>]| rows.iter().map(first).collect::<Vec<_>>();
    let (expected, listed) = (names(&hazards), names(&tests));
    let mut found = Vec::new();
    if let Some(at) = (0..expected.len().max(listed.len())).find(|&at| expected.get(at) != listed.get(at)) {
        let [here, there] =
            [expected.get(at), listed.get(at)].map(|name| name.map_or("nothing", String::as_str));
        found.push(format!("row {} is `{here}` in {PAGE} and `{there}` in {TESTS}", at + 1));
    }
    found.extend(
        hazards
            .iter()
            .filter(|row| row.len() != 2 || row[1].is_empty())
            .map(|row| format!("{}: nothing that prevents it, or not two cells", first(row))),
    );
    found.extend(tests.iter().flat_map(|row| row_findings(row, read)));
    found
}

/// The rows of a table, without its head: their cells.
fn rows<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Vec<&'a str>> {
    let rows = lines.filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

fn row_findings(row: &[&str], read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let [hazard, tests] = row[..] else {
        return vec![format!("not two cells: {}", row.join(" | "))];
    };
    let mut found = Vec::new();
    let mut named = 0;
    let mut file = None;
    for word in tests.split('`').skip(1).step_by(2) {
        if word.contains('/') {
            let text = read(word);
            if text.is_none() {
                found.push(format!("{hazard}: there is no file {word}"));
            }
            named += usize::from(word.starts_with("vm/"));
            file = Some((word, text.unwrap_or_default()));
        } else if let Some((path, text)) = &file {
            named += 1;
            if !is_test(text, word) {
                found.push(format!("{hazard}: {path} has no test {word}"));
            }
        }
    }
    if named == 0 {
        found.push(format!("{hazard}: no test"));
    }
    found
}

/// A function of this name that the test runner finds, and that is not left out.
fn is_test(text: &str, name: &str) -> bool {
    if text.contains(&format!("def {name}(")) {
        return name.starts_with("test_");
    }
    let Some((before, after)) = text.split_once(&format!("fn {name}(")) else { return false };
    // What stands above a function, up to the end of what is before it.
    let above: Vec<&str> = before.lines().rev().take_while(|line| !line.is_empty() && *line != "}").collect();
    let generated = after.lines().next().is_some_and(|line| line.contains(" in "));
    let marked = above.iter().any(|line| line.trim() == "#[test]") || generated;
    marked && !above.iter().any(|line| line.trim().starts_with("#[ignore"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "#[test]\nfn holds() {\n}\n\n#[test]\n#[ignore = \"slow\"]\nfn left_out() {\n}\n\nfn helper() {}\n";

    fn found(cell: &str) -> usize {
        let page = format!("{HEADING}\n\n| a | b |\n|---|---|\n| falls | is held |\n\n## Next\n| x |\n");
        let tests = format!("| a | b |\n|---|---|\n| falls | {cell} |\n");
        findings(&page, &tests, &|path| (path == "a/b.rs").then(|| FILE.into())).len()
    }

    #[test]
    fn every_hazard_of_the_safety_page_names_tests_that_exist() {
        assert!(run().unwrap());
    }

    #[test]
    fn a_row_without_an_existing_test_is_found() {
        assert_eq!(found("`a/b.rs` `holds`"), 0);
        let wrong = [
            "",
            "`a/b.rs`",
            "`a/b.rs` `holds`, `gone`",
            "`a/b.rs` `left_out`",
            "`a/b.rs` `helper`",
            "`holds`",
        ];
        for cell in wrong {
            assert_eq!(found(cell), 1, "{cell}");
        }
        assert_eq!(found("`a/c.rs` `holds`"), 2);
        assert_eq!(findings("no table", "", &|_| None).len(), 1);
        let page = format!("{HEADING}\n| a | b |\n|---|---|\n| falls | is held |\n");
        assert_eq!(
            findings(&page, "", &|_| None),
            ["row 1 is `falls` in docs/safety.md and `nothing` in docs/hazards.md"]
        );
    }
}
