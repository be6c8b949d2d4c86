//! What a change touches, in minutes: the crates it is in, and what watches their behaviour from outside.

use super::done::Outcome;
use super::parts;
use super::watch::{ORACLE, Watchers};
use crate::tally::Tally;
use crate::{fleet, hazards, layers, lints, shell, tracked, venv};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;

/// How it is called.
pub const USAGE: &str = "cargo xtask test quick [--list] [--base REV]";

/// Runs it, or with `--list` names what would run; true if nothing failed.
///
/// # Errors
/// On a wrong argument, or if something cannot be built or started.
pub fn run(words: &[String]) -> Result<bool> {
    let (flags, rest): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| *word == "--list");
    let base = match rest.as_slice() {
        [] => start_of_branch()?,
        [flag, base] if *flag == "--base" => (*base).clone(),
        _ => bail!("usage: {USAGE}"),
    };
    let files = changed(&base)?;
    let watchers = Watchers::of(&files)?;
    println!("{} files changed since {base}", files.len());
    if !flags.is_empty() {
        shell::print(&files.iter().map(|file| format!("  {file}\n")).collect::<String>());
    }
    shell::print(&(watchers.runs() + &watchers.left()));
    if flags.is_empty() { judge_all(&files, &watchers) } else { Ok(true) }
}

fn judge_all(files: &[String], watchers: &Watchers) -> Result<bool> {
    let mut sum = Tally { skipped: watchers.left_out(), ..Tally::default() };
    let mut clean = lints::quick()? & layers::run()? & tracked::run()? & hazards::run()?;
    if !watchers.crates.is_empty() {
        clean &= lints::clippy_of(&watchers.crates)?;
        sum += tests_of(&watchers.crates)?;
    }
    if files.iter().any(|file| file.starts_with("fleet/")) {
        sum += fleet::unit_tests()?;
    }
    for what in &watchers.tests {
        sum += judge(what)?;
    }
    sum += Tally { passed: u32::from(clean), failed: u32::from(!clean), skipped: 0 };
    println!("{}{sum}", watchers.left());
    Ok(sum.failed == 0)
}

/// Where this branch left `main`; on `main` itself, the commit before.
fn start_of_branch() -> Result<String> {
    let git =
        |words: &[&str]| shell::output(&mut shell::command("git", words)).map(|text| text.trim().to_owned());
    let head = git(&["rev-parse", "HEAD"])?;
    let known = |name: &&&str| git(&["rev-parse", "--verify", "--quiet", name]).is_ok();
    let main = ["origin/main", "main"].iter().find(known).context("there is no main: give --base REV")?;
    let base = git(&["merge-base", "HEAD", main])?;
    if base != head {
        return Ok(base);
    }
    let changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Ok(if changed { head } else { "HEAD~1".into() })
}

/// Files that differ from `base` in the working tree, and new ones.
fn changed(base: &str) -> Result<Vec<String>> {
    let mut text = shell::output(&mut shell::command("git", &["diff", "--name-only", base]))?;
    let new = ["ls-files", "--others", "--exclude-standard"];
    text += &shell::output(&mut shell::command("git", &new))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Unit, integration and documentation tests of these crates.
fn tests_of(crates: &BTreeSet<String>) -> Result<Tally> {
    let mut command = shell::cargo(&["test", "--all-features", "--no-fail-fast"]);
    crates.iter().for_each(|name| {
        command.args(["--package", name]);
    });
    let (succeeded, text) = shell::tee(shell::linted(&mut command))?;
    Ok(Tally::of_runner(succeeded, &text))
}

/// Runs a file or folder of Python tests; the oracle in virtual time needs no packages and does not wait for them.
fn judge(what: &str) -> Result<Tally> {
    if what == ORACLE {
        let build = ["build", "--quiet", "--workspace", "--all-features", "--bin", "khz"];
        shell::run(shell::linted(&mut shell::cargo(&build)))?;
        let mut command = shell::command(venv::python()?, &["-m", "pytest", what]);
        let khz = shell::program("debug", "khz");
        let (succeeded, text) = shell::tee(shell::linted(&mut command).env("KHZ", khz))?;
        return Ok(Tally::of_runner(succeeded, &text));
    }
    Ok(match parts::run(what)? {
        Outcome::Ran(tally) => tally,
        Outcome::NotRun(why) => {
            println!("{what}: not run: {why}");
            Tally { skipped: 1, ..Tally::default() }
        }
    })
}
