//! Every test of the project with one command: Rust, the Python judges, fuzz corpora, the virtual machine.
//!
//! A part that cannot run here is named with the reason and the remedy; in continuous integration (`CI=true`)
//! it is a failure, so that nothing is silently left out where it matters.

use crate::tally::Tally;
use crate::{debian, dist, fleet, fuzz, shell, venv, vm};
use anyhow::{Result, bail};
use std::path::PathBuf;

/// Runs of `khz drill campaign`.
const SCENARIOS: &str = "10000";

/// Seconds each fuzz target runs after its corpus was replayed.
const FUZZ_SECONDS: u32 = 5;

/// Where `tests/dist` has its packages from.
const PACKAGES: &str = "target/packages";

/// What became of a part.
enum Outcome {
    Ran(Tally),
    NotRun(String),
}

/// Runs the named parts (all if none is named); true if nothing failed.
///
/// # Errors
/// If a name is no part's.
pub fn run(words: &[String]) -> Result<bool> {
    let parts = parts();
    if words.iter().any(|word| word == "--list") {
        parts.iter().for_each(|part| println!("{part}"));
        return Ok(true);
    }
    if let Some(word) = words.iter().find(|word| !parts.contains(word)) {
        bail!("no part is called `{word}`; there are: {}", parts.join(", "));
    }
    let chosen = parts.iter().filter(|part| words.is_empty() || words.contains(part));
    let timed = |part: &String| {
        let start = std::time::Instant::now();
        let outcome = attempt(part);
        (format!("{part} ({} s)", start.elapsed().as_secs()), outcome)
    };
    Ok(summarise(chosen.map(timed).collect()))
}

/// Rust first, then one part for each folder with Python tests, then the slow ones.
fn parts() -> Vec<String> {
    let mut parts = vec!["rust".to_owned()];
    let folders = shell::entries("tests").into_iter().filter(|entry| holds_tests(entry));
    parts.extend(folders.map(|folder| format!("tests/{}", shell::stem(&folder))));
    parts.push("campaign".into());
    if !fuzz::all().is_empty() {
        parts.push("fuzz".into());
    }
    if !vm::scripts().is_empty() {
        parts.push("vm".into());
    }
    parts
}

fn holds_tests(folder: &std::path::Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with("test_") && name.ends_with(".py")
    })
}

fn attempt(part: &str) -> Outcome {
    println!("\n── {part} ──");
    let outcome = match part {
        "rust" => rust(),
        "campaign" => campaign(),
        "fuzz" => fuzz::targets(&[], FUZZ_SECONDS).map(Outcome::Ran),
        "vm" => machine(),
        folder => python(folder),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("{part}: {error:#}");
        Outcome::Ran(Tally { failed: 1, ..Tally::default() })
    })
}

/// Unit, integration and documentation tests of every crate, with every feature.
fn rust() -> Result<Outcome> {
    let arguments = ["test", "--workspace", "--all-features", "--no-fail-fast"];
    let (succeeded, text) = shell::tee(&mut shell::cargo(&arguments))?;
    Ok(Outcome::Ran(told_or_broken(succeeded, &text)))
}

fn python(folder: &str) -> Result<Outcome> {
    if let Err(why) = debian::provide(folder) {
        return Ok(Outcome::NotRun(why));
    }
    if shell::which("python3").is_none() {
        return Ok(Outcome::NotRun("no python3: install Python 3.11 or newer with its venv module".into()));
    }
    if folder == "tests/dist" {
        packages()?;
    }
    let with_package = ["tests/python", "tests/oracle", "tests/docs"].contains(&folder);
    let python = if with_package { venv::with_package("release")? } else { venv::python()? };
    let mut command = shell::command(&python, &["-m", "pytest", folder]);
    command.env("KHZ", khz()?).env("KHZ_DIST", shell::root().join(PACKAGES));
    let mut tally = Tally::default();
    if folder == "tests/capi" {
        command.env("KHZ_LIBRARY", library()?);
    }
    if folder == fleet::TESTS {
        tally += fleet::unit_tests()?;
        command.env("KHZ_FLEET", fleet::debug_program()?);
    }
    let (succeeded, text) = shell::tee(&mut command)?;
    tally += told_or_broken(succeeded, &text);
    Ok(Outcome::Ran(tally))
}

/// What a release has for this machine, in the profile that compiles quickly.
fn packages() -> Result<()> {
    let _ = std::fs::remove_dir_all(shell::root().join(PACKAGES));
    let parts = ["khz", "licenses", "tarball", "deb", "wheel", "sdist", "sbom", "--machine", "x86_64"];
    let words = [parts.as_slice(), &["--profile", "release", "--out", PACKAGES]].concat();
    dist::run(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).map(drop)
}

/// Thousands of runs with faults; prints the reaction times, and the seed of a run in which something did not hold.
fn campaign() -> Result<Outcome> {
    let held =
        shell::succeeds(&mut shell::command(khz()?, &["drill", "campaign", "--scenarios", SCENARIOS]))?;
    Ok(Outcome::Ran(Tally { passed: u32::from(held), failed: u32::from(!held), skipped: 0 }))
}

/// The command, built as users have it.
pub fn khz() -> Result<PathBuf> {
    build_with(&[])?;
    Ok(shell::program("release", "khz"))
}

/// The C library, built together with the command: so both share what they compile. Gives its folder.
///
/// # Errors
/// If it cannot be built.
pub fn library() -> Result<PathBuf> {
    build_with(&["--package", "khz-capi"])?;
    Ok(shell::program("release", ""))
}

/// Builds the command, and what `more` names. The Python package is built in the same way, of the same crates: nothing is compiled
/// twice.
fn build_with(more: &[&str]) -> Result<()> {
    let build = ["build", "--quiet", "--release", "--package", "kilohertz-cli", "--all-features"];
    shell::run(shell::remapped(shell::cargo(&build).args(more))?)
}

fn machine() -> Result<Outcome> {
    match vm::cannot_run() {
        Some(why) => Ok(Outcome::NotRun(why)),
        None => vm::boot(&vm::scripts()).map(Outcome::Ran),
    }
}

/// What the runner counted; a runner that failed without counting a failure counts as one.
pub fn told_or_broken(succeeded: bool, text: &str) -> Tally {
    let mut tally = Tally::of(text);
    if !succeeded && tally.failed == 0 {
        tally.failed = 1;
    }
    tally
}

fn summarise(outcomes: Vec<(String, Outcome)>) -> bool {
    let mut sum = Tally::default();
    println!("\n── summary ──");
    for (part, outcome) in outcomes {
        match outcome {
            Outcome::Ran(tally) => {
                println!("{part}: {tally}");
                sum += tally;
            }
            Outcome::NotRun(why) if shell::in_ci() => {
                println!("{part}: NOT RUN, a failure here: {why}");
                sum.failed += 1;
            }
            Outcome::NotRun(why) => {
                println!("{part}: not run: {why}");
                sum.skipped += 1;
            }
        }
    }
    println!("{sum}");
    sum.failed == 0 && sum.ran()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_that_breaks_without_a_count_is_a_failure() {
        assert_eq!(told_or_broken(false, "error: could not compile").failed, 1);
        assert_eq!(told_or_broken(true, "2 passed, 0 failed").failed, 0);
    }

    #[test]
    fn nothing_run_is_no_success() {
        assert!(!summarise(vec![("rust".into(), Outcome::Ran(Tally::default()))]));
        assert!(summarise(vec![("rust".into(), Outcome::Ran(Tally { passed: 1, ..Tally::default() }))]));
    }

    #[test]
    fn parts_begin_with_rust() {
        assert_eq!(parts().first().map(String::as_str), Some("rust"));
    }
}
