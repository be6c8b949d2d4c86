//! Does a test fail when one expression is changed? All changes are compiled into one test program, each behind a number, and the
//! program runs once for each: minutes where a compilation for each takes days.
//!
//! Changed are: operators of comparison, arithmetic, logic and bits; `!` and `-` before a value, which are left out; guards, which are
//! always or never true; arms of a `match` that has another for the rest, which are left out; and functions, which return a
//! value at once. Not changed are constants, tests, and what stands in a macro.
//!
//! A mutant that makes no difference, or whose difference need not be noticed, is explained in `mutants/explained.tsv`.

mod change;

use crate::shell;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The crate, and its files whose mutants are tried.
const PACKAGE: &str = "crates/loop";
const FILES: &[&str] = &[
    "supervisor/reach.rs",
    "supervisor/guard.rs",
    "supervisor/watch.rs",
    "supervisor/watch/tally.rs",
    "supervisor/mod.rs",
];
/// The tests that have to notice, cheapest first: their crate's folder, the program, and which of them.
const TESTS: &[(&str, &[&str], &str)] = &[
    ("crates/loop", &["--lib"], "supervisor"),
    ("crates/robot", &["--test", "virtual_time"], "limits::"),
    ("crates/robot", &["--test", "virtual_time"], "held_up::"),
    ("crates/robot", &["--test", "virtual_time"], "machine::"),
    ("crates/robot", &["--test", "explore"], ""),
];
/// What mutants are, and why they may survive.
const EXPLAINED: &str = include_str!("mutants/explained.tsv");
/// The number of the mutant that runs.
const VARIABLE: &str = "KHZ_MUTANT";
/// After so many times as long as without a change a test counts as failed: it does not end.
const PATIENCE: u32 = 6;

/// What the changed crate asks.
const SWITCH: &str = "
#[doc(hidden)]
#[allow(warnings)]
pub fn mutant(number: u32) -> bool {
    static RUNS: std::sync::LazyLock<u32> =
        std::sync::LazyLock::new(|| std::env::var(\"KHZ_MUTANT\").map_or(0, |number| number.parse().unwrap()));
    *RUNS == number
}
";

/// Why a mutant may survive.
fn explanation(what: &str) -> Option<&'static str> {
    EXPLAINED
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .find_map(|(of, why)| (of == what).then_some(why))
}

/// Tries every mutant of the files whose names contain one of `words`, or of all; true if each fails a test or is explained.
///
/// # Errors
/// If the changed crate does not compile, or its tests fail without a change.
pub fn run(words: &[String]) -> Result<bool> {
    let files: Vec<_> = FILES
        .iter()
        .filter(|file| words.is_empty() || words.iter().any(|word| file.contains(word.as_str())))
        .collect();
    if files.is_empty() {
        bail!("none of the files is called so; there are: {}", FILES.join(", "));
    }
    let tree = copy_of_the_tree()?;
    let source = tree.join(PACKAGE).join("src");
    let mut mutants = vec![String::new()];
    for file in FILES {
        let path = source.join(file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let changed = match files.contains(&file) {
            true => change::changed(&text, file, &mut mutants)?,
            // No function is constant that calls one of those.
            false => text.replace("const fn ", "fn "),
        };
        fs::write(&path, changed)?;
    }
    let lib = source.join("lib.rs");
    fs::write(&lib, fs::read_to_string(&lib)? + SWITCH)?;
    let programs = build(&tree)?;
    let usual = programs
        .iter()
        .zip(TESTS)
        .map(|(program, (folder, _, which))| usual(program, which, &tree.join(folder)));
    let usual = usual.collect::<Result<Vec<_>>>()?;
    let (mut survivors, mut explained) = (0, 0);
    for (number, what) in mutants.iter().enumerate().skip(1) {
        if killed(&programs, &usual, &tree, number)? {
            continue;
        }
        match explanation(what) {
            Some(_) => explained += 1,
            None => {
                survivors += 1;
                println!("survives: {what}");
            }
        }
    }
    let of_files = |what: &str| files.iter().any(|file| what.starts_with(*file));
    let explanations = EXPLAINED.lines().filter_map(|line| Some(line.split_once('\t')?.0));
    let known = |what: &&str| mutants.iter().any(|mutant| mutant == what);
    let vain: Vec<_> = explanations.filter(|what| of_files(what) && !known(what)).collect();
    vain.iter().for_each(|what| println!("explained, but no mutant: {what}"));
    println!("{} mutants, {survivors} survive, {explained} more are explained", mutants.len() - 1);
    Ok(survivors == 0 && vain.is_empty())
}

/// Whether a test fails with this mutant.
fn killed(programs: &[PathBuf], usual: &[Duration], tree: &Path, number: usize) -> Result<bool> {
    for ((program, usual), (folder, _, which)) in programs.iter().zip(usual).zip(TESTS) {
        if !passes(program, which, &tree.join(folder), number, *usual * PATIENCE + Duration::from_secs(10))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The tracked files as they are, in a folder of their own.
fn copy_of_the_tree() -> Result<PathBuf> {
    let tree = shell::target().join("mutants");
    let files = shell::output(&mut shell::command("git", &["ls-files"]))?;
    for file in files.lines() {
        let (from, to) = (shell::root().join(file), tree.join(file));
        if !from.is_file() {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(&tree))?;
        // What is the same keeps its time, so that it is not compiled again.
        let bytes = fs::read(&from)?;
        if fs::read(&to).ok().as_ref() != Some(&bytes) {
            fs::write(&to, bytes)?;
        }
    }
    Ok(tree)
}

/// Compiles the tests; their programs. In a target folder of the copy: in the ordinary one, packages of the same name and version take
/// turns, and each run and each build after it compiles everything once more.
fn build(tree: &Path) -> Result<Vec<PathBuf>> {
    let mut programs = Vec::new();
    for (folder, test, _) in TESTS {
        let mut cargo = shell::cargo(&["test", "--release", "--no-run", "--message-format=json"]);
        cargo.args(*test).current_dir(tree.join(folder)).env("CARGO_TARGET_DIR", tree.join("target"));
        let messages = shell::output(&mut cargo)?;
        let mut programs_of = messages.lines().filter_map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(PathBuf::from(message.get("executable")?.as_str()?))
        });
        programs.push(programs_of.next_back().context("no test program")?);
    }
    Ok(programs)
}

/// How long it takes without a change.
fn usual(program: &Path, which: &str, folder: &Path) -> Result<Duration> {
    let begun = Instant::now();
    if !passes(program, which, folder, 0, Duration::from_secs(600))? {
        bail!("{} fails without a change", program.display());
    }
    Ok(begun.elapsed())
}

/// Whether the tests pass with this mutant, within this time.
fn passes(program: &Path, which: &str, folder: &Path, mutant: usize, within: Duration) -> Result<bool> {
    let mut command = Command::new(program);
    if !which.is_empty() {
        command.arg(which);
    }
    command.current_dir(folder).env(VARIABLE, mutant.to_string());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if begun.elapsed() > within {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
