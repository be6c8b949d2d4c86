//! The parts of the whole suite: what each runs, and beside what it may run.

use super::done::Outcome;
use crate::tally::Tally;
use crate::{debian, dist, fleet, fuzz, instructions, package, shell, venv, vm};
use anyhow::Result;
use std::path::PathBuf;

/// Runs of `khz drill campaign`.
const SCENARIOS: &str = "10000";

/// Seconds each fuzz target runs after its corpus was replayed.
const FUZZ_SECONDS: u32 = 5;

/// The part with every crate's own tests.
pub const UNITS: &str = "rust";

/// The part that builds what others test, and where `tests/dist` has it from.
pub const PACKAGES: &str = "packages";

/// The part that builds `khz-fleet`, and runs its unit tests.
const FLEET: &str = "fleet";

/// Parts that compute and read no clock: they run beside the others, at a lower priority. In this order: what others need comes first.
const BATCH: [&str; 6] = [PACKAGES, FLEET, "fuzz", "campaign", "tests/docs", "instructions"];

/// The part with the virtual machine, whose guest has robots that run in real time.
pub const GUEST: &str = "vm";

/// Folders whose tests measure time themselves: one of them at a time.
const MEASURING: [&str; 3] = ["tests/oracle", "tests/rtt", "tests/links"];

/// What each part is.
const ABOUT: &[(&str, &str)] = &[
    (UNITS, "unit, integration and documentation tests of every crate"),
    ("tests/browser", "the live page and the reports in Chromium"),
    ("tests/capi", "the C library, from C and C++"),
    ("tests/dataset", "datasets of logs, read by DuckDB and Polars"),
    ("tests/dist", "packages, tarball and wheel, installed and run"),
    ("tests/docs", "the site, and every command and snippet of the pages"),
    ("tests/fleet", "several robots over Zenoh"),
    ("tests/lerobot", "the plug-in for LeRobot"),
    ("tests/links", "programs of vendors and users drive emulated servos"),
    ("tests/live", "Foxglove's client watches a robot"),
    ("tests/mujoco", "robots with bodies in MuJoCo"),
    ("tests/official", "moteus' own programs drive emulated servos"),
    ("tests/oracle", "the figures and sentences of runs, recomputed"),
    ("tests/policy", "trained policies, compared with onnxruntime"),
    ("tests/python", "the Python package"),
    ("tests/python-log", "exported logs, read by others' packages"),
    ("tests/rtt", "UDP round trips between processes and in namespaces"),
    ("tests/schema", "the schema of robot files, as editors read it"),
    (GUEST, "CAN and real-time scheduling in a virtual machine"),
    (PACKAGES, "builds khz, the packages and the wheel that others test"),
    (FLEET, "builds khz-fleet; its unit tests"),
    ("fuzz", "every fuzz target: its corpus, then a few seconds"),
    ("campaign", "10,000 runs with injected faults"),
    ("instructions", "instructions of a tick, which may not grow"),
];

/// Beside what a part may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Computes only: at a lower priority, one at a time beside everything else.
    Batch,
    /// Has robots that run in real time.
    Clock,
    /// Measures time: no other part that does runs beside it.
    Measuring,
}

/// Every part: unit tests first, then one for each folder with Python tests, then what is slow.
pub fn all() -> Vec<String> {
    let folders = shell::entries("tests").into_iter().filter(|entry| holds_tests(entry));
    let folders = folders.map(|folder| format!("tests/{}", shell::stem(&folder)));
    let mut parts: Vec<String> = std::iter::once(UNITS.into()).chain(folders).collect();
    let others = std::iter::once(GUEST).chain(BATCH.into_iter().filter(|part| !part.starts_with("tests/")));
    parts.extend(others.map(str::to_owned));
    parts
}

/// Whether this is the part, or a file or a test of its folder.
pub fn is_of(word: &str, part: &str) -> bool {
    word == part || part.starts_with("tests/") && word.starts_with(&format!("{part}/"))
}

/// What a part is, in words.
pub fn about(part: &str) -> &'static str {
    ABOUT.iter().find(|(name, _)| *name == part).map_or("", |(_, about)| about)
}

/// Where a part runs.
pub fn lane(part: &str) -> Lane {
    let among = |parts: &[&str]| parts.iter().any(|one| is_of(part, one));
    match () {
        () if among(&BATCH) => Lane::Batch,
        () if among(&MEASURING) => Lane::Measuring,
        () => Lane::Clock,
    }
}

/// The parts that build what this one tests.
pub fn needs(part: &str) -> &'static [&'static str] {
    match part {
        PACKAGES | FLEET | UNITS | "instructions" => &[],
        part if is_of(part, fleet::TESTS) => &[PACKAGES, FLEET],
        _ => &[PACKAGES],
    }
}

/// Parts in the order in which a lane takes them: that of [`BATCH`], then that of the list.
pub fn rank(part: &str) -> usize {
    BATCH.iter().position(|batch| *batch == part).unwrap_or(BATCH.len())
}

/// Runs one part in this process.
///
/// # Errors
/// If what it needs cannot be built or started.
pub fn run(part: &str) -> Result<Outcome> {
    match part {
        UNITS => rust(),
        "campaign" => campaign(SCENARIOS),
        "instructions" => instructions::gated(),
        "fuzz" => fuzz::targets(&[], FUZZ_SECONDS).map(Outcome::Ran),
        PACKAGES => packages(),
        FLEET => fleet::unit_tests().and_then(|tally| fleet::debug_program().map(|_| Outcome::Ran(tally))),
        GUEST => machine(),
        folder => python(folder),
    }
}

fn holds_tests(folder: &std::path::Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with("test_") && name.ends_with(".py")
    })
}

/// Unit, integration and documentation tests of every crate, with every feature, as `cargo xtask lints` compiled them.
fn rust() -> Result<Outcome> {
    let arguments = ["test", "--workspace", "--all-features", "--no-fail-fast"];
    let (succeeded, text) = shell::tee(shell::linted(&mut shell::cargo(&arguments)))?;
    Ok(Outcome::Ran(Tally::of_runner(succeeded, &text)))
}

/// The tests of a folder, of a file in one, or one test, with the command, the package and the libraries they use.
fn python(what: &str) -> Result<Outcome> {
    let folder: Vec<&str> = what.split('/').take(2).collect();
    if let Err(why) = debian::provide(&folder.join("/")) {
        return Ok(Outcome::NotRun(why));
    }
    if shell::which("python3").is_none() {
        return Ok(Outcome::NotRun("no python3: install Python 3.11 or newer with its venv module".into()));
    }
    let mut command = pytest(what)?;
    if is_of(what, fleet::TESTS) {
        command.env("KHZ_FLEET", fleet::debug_program()?);
    }
    let (succeeded, text) = shell::tee(&mut command)?;
    Ok(Outcome::Ran(Tally::of_runner(succeeded, &text)))
}

/// `pytest` for what lies in `tests`: a folder, or a file in one. The command, the C library and the package are those that
/// `packages` built: nothing is compiled twice.
///
/// # Errors
/// If what they need cannot be built.
pub fn pytest(what: &str) -> Result<std::process::Command> {
    let with_package = ["tests/python", "tests/oracle", "tests/docs", "tests/lerobot"]
        .iter()
        .any(|folder| what.starts_with(folder));
    let python = if with_package { package::with_package(dist::QUICK)? } else { venv::python()? };
    let mut command = shell::command(&python, &["-m", "pytest", what]);
    let built = built()?;
    command.env("KHZ", built.join("khz")).env("KHZ_LIBRARY", &built);
    command.env("KHZ_DIST", shell::target().join(PACKAGES));
    // Examples that a test builds are those of the Rust tests.
    shell::linted(&mut command).env("KHZ_CACHE", shell::kept());
    Ok(command)
}

/// Builds what a release has for this machine, in the profile that compiles quickly, and the tests' environments.
fn packages() -> Result<Outcome> {
    for folder in shell::entries("tests") {
        // A part that needs what cannot be installed reports that itself.
        let _ = debian::provide(&format!("tests/{}", shell::stem(&folder)));
    }
    package::with_package(dist::QUICK)?;
    let folder = shell::target().join(PACKAGES);
    let _ = std::fs::remove_dir_all(&folder);
    let parts =
        ["khz", "licenses", "tarball", "deb", "wheel", "lerobot", "sdist", "sbom", "--machine", "x86_64"];
    let mut words: Vec<String> = parts.map(str::to_owned).into();
    words.extend(["--profile".into(), dist::QUICK.into(), "--out".into(), folder.display().to_string()]);
    dist::run(&words)?;
    Ok(Outcome::Ran(Tally { passed: 1, ..Tally::default() }))
}

/// Thousands of runs with faults; prints the reaction times, and the seed of a run in which something did not hold.
///
/// # Errors
/// If the command cannot be built or started.
pub fn campaign(scenarios: &str) -> Result<Outcome> {
    let words = ["drill", "campaign", "--scenarios", scenarios];
    let held = shell::succeeds(&mut shell::command(khz()?, &words))?;
    Ok(Outcome::Ran(Tally { passed: u32::from(held), failed: u32::from(!held), skipped: 0 }))
}

/// The command as packages have it, in the profile that compiles quickly.
///
/// # Errors
/// If it cannot be built.
pub fn khz() -> Result<PathBuf> {
    Ok(built()?.join("khz"))
}

/// The folder with the command and the C library.
fn built() -> Result<PathBuf> {
    dist::library(dist::QUICK)
}

fn machine() -> Result<Outcome> {
    match vm::cannot_run() {
        Some(why) => Ok(Outcome::NotRun(why)),
        None => vm::boot(&vm::scripts()).map(Outcome::Ran),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn parts_begin_with_rust_and_have_all_of_the_batch() {
        let parts = all();
        assert_eq!(parts.first().map(String::as_str), Some(UNITS));
        assert!(BATCH.iter().chain([&GUEST]).all(|batch| parts.iter().any(|part| part == batch)));
        let named: BTreeSet<&str> = ABOUT.iter().map(|(part, _)| *part).collect();
        assert_eq!(named, parts.iter().map(String::as_str).collect());
        assert!(MEASURING.iter().all(|name| parts.iter().any(|part| part == name)));
    }
}
