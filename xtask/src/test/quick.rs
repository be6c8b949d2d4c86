//! What a change touches, in minutes: the crates it is in, and what watches their behaviour from outside.

use super::done::Outcome;
use super::parts;
use crate::tally::Tally;
use crate::{fleet, hazards, layers, lints, shell, tracked, venv};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// What judges a folder from outside and is quick: a path of the change, and tests.
const WATCHED_BY: &[(&str, &str)] = &[
    ("docs/", "tests/docs/test_site.py"),
    ("README.md", "tests/docs/test_site.py"),
    ("crates/view/src/assets/", "tests/browser/test_live.py"),
    ("crates/page/src/assets/", "tests/browser/test_live.py"),
    ("crates/page/", "tests/browser/test_reports.py"),
    ("crates/tlog", "tests/python-log"),
    ("tests/", ""),
];

/// The figures of a run in virtual time, recomputed by another implementation: for every change of a crate of the loop.
const ORACLE: &str = "tests/oracle/test_virtual.py";

/// Crates without a part in a run.
const BESIDE_A_RUN: [&str; 5] = ["xtask", "khz-bench", "khz-page", "khz-view", "khz-rtt"];

/// Runs it; true if nothing failed.
///
/// # Errors
/// On a wrong argument, or if something cannot be built or started.
pub fn run(words: &[String]) -> Result<bool> {
    let base = match words {
        [] => start_of_branch()?,
        [flag, base] if flag == "--base" => base.clone(),
        _ => bail!("usage: cargo xtask test quick [--base REV]"),
    };
    let files = changed(&base)?;
    let crates = touched(&files)?;
    println!("{} files changed since {base}; crates: {}", files.len(), listed(&crates));
    let mut sum = Tally::default();
    let mut clean = lints::quick()? & layers::run()? & tracked::run()? & hazards::run()?;
    if !crates.is_empty() {
        clean &= lints::clippy_of(&crates)?;
        sum += tests_of(&crates)?;
    }
    if files.iter().any(|file| file.starts_with("fleet/")) {
        sum += fleet::unit_tests()?;
    }
    for what in watchers(&files, &crates) {
        sum += judge(&what)?;
    }
    sum += Tally { passed: u32::from(clean), failed: u32::from(!clean), skipped: 0 };
    println!("{sum}");
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

/// The crates of the workspace that hold a file of the change.
fn touched(files: &[String]) -> Result<BTreeSet<String>> {
    let metadata = layers::metadata()?;
    let mut touched = BTreeSet::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let folder = folder_of(package)?;
        if files.iter().any(|file| Path::new(file).starts_with(&folder)) {
            touched.insert(package["name"].as_str().unwrap_or_default().to_owned());
        }
    }
    Ok(touched)
}

/// A package's folder in the workspace.
fn folder_of(package: &Value) -> Result<std::path::PathBuf> {
    let manifest = Path::new(package["manifest_path"].as_str().context("a package without a manifest")?);
    let folder = manifest.parent().context("a manifest without a folder")?;
    Ok(folder.strip_prefix(shell::root()).unwrap_or(folder).to_owned())
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

/// The Python tests that watch what changed; a change of such a test is watched by itself.
fn watchers(files: &[String], crates: &BTreeSet<String>) -> BTreeSet<String> {
    let mut watchers: BTreeSet<String> = BTreeSet::new();
    for (path, tests) in WATCHED_BY {
        for file in files.iter().filter(|file| file.starts_with(path)) {
            match *tests {
                "" if file.contains("/test_") && file.ends_with(".py") => watchers.insert(file.clone()),
                "" => false,
                tests => watchers.insert(tests.to_owned()),
            };
        }
    }
    if crates.iter().any(|name| !BESIDE_A_RUN.contains(&name.as_str())) {
        watchers.insert(ORACLE.into());
    }
    watchers.retain(|file| shell::root().join(file).exists());
    watchers
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

fn listed(crates: &BTreeSet<String>) -> String {
    if crates.is_empty() {
        return "none".into();
    }
    crates.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[&str]) -> Vec<String> {
        files.iter().map(|file| (*file).to_owned()).collect()
    }

    #[test]
    fn a_page_is_watched_by_the_site_alone() {
        let files = of(&["docs/safety.md"]);
        let crates = touched(&files).unwrap();
        assert!(crates.is_empty());
        assert_eq!(watchers(&files, &crates), BTreeSet::from(["tests/docs/test_site.py".to_owned()]));
    }

    #[test]
    fn a_crate_of_the_loop_is_watched_by_the_oracle() {
        let crates = touched(&of(&["crates/wire/src/lib.rs"])).unwrap();
        assert_eq!(crates, BTreeSet::from(["khz-wire".to_owned()]));
        assert!(watchers(&[], &crates).contains(ORACLE));
    }

    #[test]
    fn a_changed_test_is_run() {
        let files = of(&["tests/oracle/test_paced.py"]);
        assert!(watchers(&files, &BTreeSet::new()).contains("tests/oracle/test_paced.py"));
    }
}
