//! `docs/hazards.md` promises only what is tested: `docs/hazards.tsv` names the tests of each row, in the same order, and they exist.
//!
//! A line of it is a hazard, a file and a test in it. A script of the virtual machine is a test by itself.

use crate::shell;
use anyhow::{Context, Result};

const PAGE: &str = "docs/hazards.md";
const TESTS: &str = "docs/hazards.tsv";
const COLUMNS: &str = "hazard\tfile\ttest";

/// Checks the tables and reports what it found.
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
    let hazards = rows(page);
    let mut lines = tests.lines();
    if hazards.is_empty() || lines.next() != Some(COLUMNS) {
        return vec![format!("{PAGE} has no hazards, or {TESTS} does not begin with `{COLUMNS}`")];
    }
    let lines: Vec<&str> = lines.collect();
    let expected: Vec<&str> = hazards.iter().map(|row| row[0]).collect();
    let mut listed: Vec<&str> =
        lines.iter().map(|line| line.split('\t').next().unwrap_or_default()).collect();
    listed.dedup();
    let mut found = Vec::new();
    if let Some(at) = (0..expected.len().max(listed.len())).find(|&at| expected.get(at) != listed.get(at)) {
        let [here, there] = [expected.get(at), listed.get(at)].map(|name| name.unwrap_or(&"nothing"));
        found.push(format!("row {} is `{here}` in {PAGE} and `{there}` in {TESTS}", at + 1));
    }
    let incomplete = hazards.iter().filter(|row| row.len() != 2 || row[1].is_empty());
    found.extend(incomplete.map(|row| format!("{}: nothing guards against it, or not two cells", row[0])));
    found.extend(lines.iter().filter_map(|line| finding(line, read)));
    found
}

/// The rows of all tables, without their heads: their cells.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| hazard |"));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// What is wrong with a line of the tests.
fn finding(line: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let [hazard, path, test] = line.split('\t').collect::<Vec<_>>()[..] else {
        return Some(format!("not three columns: {line}"));
    };
    let Some(text) = read(path) else { return Some(format!("{hazard}: there is no file {path}")) };
    let exists = if test.is_empty() { path.starts_with("vm/") } else { is_test(&text, test) };
    (!exists).then(|| format!("{hazard}: {path} has no test `{test}`"))
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
    const HAZARD: &str = "| hazard | what guards against it |\n|---|---|\n| falls | is held |\n";

    fn found(lines: &str) -> Vec<String> {
        findings(HAZARD, &format!("{COLUMNS}\n{lines}"), &|path| (path == "a/b.rs").then(|| FILE.into()))
    }

    #[test]
    fn every_hazard_of_the_page_names_tests_that_exist() {
        assert!(run().unwrap());
    }

    #[test]
    fn a_row_without_an_existing_test_is_found() {
        assert!(found("falls\ta/b.rs\tholds\n").is_empty());
        for line in
            ["", "a/b.rs\t", "a/b.rs\tgone", "a/b.rs\tleft_out", "a/b.rs\thelper", "a/c.rs\tholds", "holds"]
        {
            let line = if line.is_empty() { String::new() } else { format!("falls\t{line}\n") };
            assert_eq!(found(&line).len(), 1, "{line}");
        }
        assert_eq!(found(""), ["row 1 is `falls` in docs/hazards.md and `nothing` in docs/hazards.tsv"]);
        assert_eq!(findings("no table", COLUMNS, &|_| None).len(), 1);
        assert_eq!(findings(HAZARD, "", &|_| None).len(), 1);
    }
}
