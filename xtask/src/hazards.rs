//! `docs/safety.md` promises only what is tested: every row of its table of hazards names tests, and they are there.
//!
//! The last cell of a row holds paths of files and, behind each, names of tests in it, all in backticks. A script of the
//! virtual machine is a test by itself.

use crate::shell;
use anyhow::{Context, Result};

const PAGE: &str = "docs/safety.md";
const HEADING: &str = "## Hazards";

/// Checks the table and says what it found.
///
/// # Errors
/// If the page cannot be read.
pub fn run() -> Result<bool> {
    let read = |path: &str| std::fs::read_to_string(shell::root().join(path)).ok();
    let page = read(PAGE).with_context(|| format!("cannot read {PAGE}"))?;
    let wrong = findings(&page, &read);
    wrong.iter().for_each(|finding| eprintln!("hazards: {finding}"));
    if wrong.is_empty() {
        println!("hazards: every row of {PAGE} names tests that exist");
    }
    Ok(wrong.is_empty())
}

fn findings(page: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let table: Vec<&str> = rows(page).collect();
    if table.is_empty() {
        return vec![format!("{PAGE} has no table under `{HEADING}`")];
    }
    table.into_iter().flat_map(|row| row_findings(row, read)).collect()
}

/// The rows of the table, without its head.
fn rows(page: &str) -> impl Iterator<Item = &str> {
    let lines = page.lines().skip_while(|line| *line != HEADING).skip(1);
    lines.take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with('|')).skip(2)
}

fn row_findings(row: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    let [hazard, prevention, tests] = cells[..] else {
        return vec![format!("not three cells: {row}")];
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
    if named == 0 || prevention.is_empty() {
        found.push(format!("{hazard}: no test, or nothing that prevents it"));
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

    const TESTS: &str =
        "#[test]\nfn holds() {\n}\n\n#[test]\n#[ignore = \"slow\"]\nfn left_out() {\n}\n\nfn helper() {}\n";

    fn found(cell: &str) -> usize {
        let page = format!(
            "{HEADING}\n\n| a | b | c |\n|---|---|---|\n| falls | is held | {cell} |\n\n## Next\n| x |\n"
        );
        findings(&page, &|path| (path == "a/b.rs").then(|| TESTS.into())).len()
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
        assert_eq!(findings("no table", &|_| None).len(), 1);
    }
}
