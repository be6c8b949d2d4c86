//! `docs/performance.md` shows the results of `docs/performance.tsv`, one line for each figure, and whether its goal is met.
//!
//! A figure that is measured again replaces its line: history is git's.

use crate::shell;
use anyhow::{Context, Result, bail, ensure};

const RESULTS: &str = "docs/performance.tsv";
const PAGE: &str = "docs/performance.md";
const BEGIN: &str = "<!-- results: cargo xtask performance -->\n";
const END: &str = "<!-- end of results -->\n";
const COLUMNS: &str = "about\tfigure\tours\tpeer\tratio\tgoal\tof\tdate\tmachine\tcommit\tcommand";
const BENCHES: &str = "crates/bench/src/bin";

/// Writes the table into the page.
///
/// # Errors
/// If a file cannot be read or written, or a line of the results is not complete.
pub fn write() -> Result<bool> {
    let page = renewed()?;
    std::fs::write(shell::root().join(PAGE), page).with_context(|| format!("cannot write {PAGE}"))?;
    Ok(true)
}

/// Whether the page has the table of the results.
///
/// # Errors
/// As [`write()`].
pub fn is_current() -> Result<bool> {
    let current = renewed()? == read(PAGE)?;
    match current {
        true => println!("performance: {PAGE} shows {RESULTS}"),
        false => eprintln!("performance: {PAGE} does not show {RESULTS}: run `cargo xtask performance`"),
    }
    Ok(current)
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(shell::root().join(path)).with_context(|| format!("cannot read {path}"))
}

fn renewed() -> Result<String> {
    let benches = shell::entries(BENCHES).iter().map(|file| shell::stem(file)).collect::<Vec<_>>();
    let table = table(&read(RESULTS)?, &benches)?;
    let page = read(PAGE)?;
    let parts = page.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = parts.with_context(|| format!("{PAGE} lacks `{}`", BEGIN.trim()))?;
    Ok(format!("{head}{BEGIN}{table}{END}{tail}"))
}

/// The table, a heading in bold before the figures about each thing.
fn table(results: &str, benches: &[String]) -> Result<String> {
    let mut lines = results.lines();
    ensure!(lines.next() == Some(COLUMNS), "{RESULTS}: the first line is not `{COLUMNS}`");
    let mut text =
        "| figure | ours | peer | ratio | goal | met | date, machine | commit | command |\n".to_owned();
    text += "|---|---|---|---|---|---|---|---|---|\n";
    let mut before = "";
    for line in lines {
        let cells: Vec<&str> = line.split('\t').collect();
        let [about, figure, ours, peer, ratio, goal, of, date, machine, commit, command] = cells[..] else {
            bail!("{RESULTS}: {} cells instead of 11: {line}", cells.len());
        };
        let met = met(ours, ratio, goal, of).with_context(|| format!("{RESULTS}: {line}"))?;
        ensure!(is_known(command, benches), "{RESULTS}: no such bench: {command}");
        if about != before {
            text += &format!("| **{about}** | | | | | | | | |\n");
            before = about;
        }
        text += &format!(
            "| {figure} | {ours} | {peer} | {ratio} | {goal} | {met} | {date}, {machine} | {commit} | `{command}` |\n"
        );
    }
    Ok(text.replace("|  |", "| |").replace("|  |", "| |"))
}

/// Smaller is better.
fn met(ours: &str, ratio: &str, goal: &str, of: &str) -> Result<&'static str> {
    let measured = match (goal, of) {
        ("", "") => return Ok(""),
        (_, "ours") => ours,
        (_, "ratio") => ratio,
        _ => bail!("a goal is one of `ours` or of the `ratio`"),
    };
    ensure!(unit(measured) == unit(goal), "`{measured}` and the goal `{goal}` differ in their units");
    Ok(if number(measured)? <= number(goal)? { "yes" } else { "**no**" })
}

fn number(text: &str) -> Result<f64> {
    let first = text.split(' ').next().unwrap_or_default();
    first.parse().with_context(|| format!("`{text}` does not begin with a number"))
}

fn unit(text: &str) -> &str {
    text.split_once(' ').map_or("", |(_, unit)| unit)
}

/// A bench that is named must be there.
fn is_known(command: &str, benches: &[String]) -> bool {
    let Some((_, bench)) = command.split_once("cargo xtask bench ") else { return true };
    benches.iter().any(|known| bench.split(' ').next() == Some(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Result<String> {
        table(&format!("{COLUMNS}\n{line}\n"), &["tick".to_owned()])
    }

    #[test]
    fn a_goal_is_met_by_what_is_not_larger() {
        assert_eq!(met("7.1 µs", "", "15 µs", "ours").ok(), Some("yes"));
        assert_eq!(met("102 µs", "1.05", "0.5", "ratio").ok(), Some("**no**"));
        assert_eq!(met("3 µs", "", "", "").ok(), Some(""));
        assert!(met("7.1 µs", "", "15 ms", "ours").is_err());
        assert!(met("many", "", "15", "ours").is_err());
    }

    #[test]
    fn a_line_that_is_not_complete_or_names_no_bench_is_refused() {
        let line =
            |bench: &str| format!("a\tf\t1 s\t\t\t2 s\tours\td\tm\tc\tcargo xtask bench {bench} --quick");
        let table = one(&line("tick")).unwrap();
        assert!(
            table.ends_with("| f | 1 s | | | 2 s | yes | d, m | c | `cargo xtask bench tick --quick` |\n"),
            "{table}"
        );
        assert!(one(&line("tock")).is_err());
        assert!(one("a\tf").is_err());
    }

    #[test]
    fn the_page_shows_the_results() {
        assert!(is_current().unwrap());
    }
}
