//! Every check that needs no test to run; all of them run even if the first fails.

use crate::tally::Tally;
use crate::test::done::{Done, Outcome};
use crate::test::times;
use crate::{fleet, hazards, layers, licences, performance, shell, tracked};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::Instant;

/// Runs them all; true if all are clean. `--times` writes how long that took into the suite's table.
///
/// # Errors
/// On a wrong argument, or if a tool cannot be started.
pub fn run(words: &[String]) -> Result<bool> {
    if let Some(word) = words.iter().find(|word| **word != "--times") {
        bail!("no such option: {word}");
    }
    let start = Instant::now();
    // What takes seconds first.
    let results = [
        ("fmt", quick()?),
        ("layers", layers::run()?),
        ("tracked", tracked::run()?),
        ("hazards", hazards::run()?),
        ("performance", performance::is_current()?),
        ("licences", licences::run()?),
        ("deny", deny()?),
        ("clippy", clippy()?),
        ("doc", documentation()?),
        ("fleet", fleet::is_clean()?),
    ];
    let unclean: Vec<&str> = results.iter().filter(|(_, clean)| !clean).map(|(name, _)| *name).collect();
    match unclean.as_slice() {
        [] => println!("lints: clean"),
        names => eprintln!("lints: not clean: {}", names.join(", ")),
    }
    let failed = unclean.len() as u32;
    let tally = Tally { passed: results.len() as u32 - failed, failed, skipped: 0 };
    let done = Done::since("lints", Outcome::Ran(tally), start);
    println!("lints ({} s, {} s of processor time)", done.wall_s, done.cpu_s);
    times::grown(std::slice::from_ref(&done)).iter().for_each(|line| println!("{line}"));
    if !words.is_empty() {
        times::write(&[done])?;
    }
    Ok(unclean.is_empty())
}

/// Formatting, of the fuzz targets, too: what clippy finds in those is an error where they are built.
///
/// # Errors
/// If cargo cannot be started.
pub fn quick() -> Result<bool> {
    let targets = ["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"];
    Ok(shell::succeeds(&mut shell::cargo(&["fmt", "--all", "--check"]))?
        & shell::succeeds(&mut shell::cargo(&targets))?)
}

/// Compiles the tests' programs, which are then there for them.
fn clippy() -> Result<bool> {
    shell::is_clean(&mut shell::cargo(&["test", "--quiet", "--no-run", "--workspace", "--all-features"]))
}

/// Clippy for some crates, as [`clippy`].
///
/// # Errors
/// If cargo cannot be started.
pub fn clippy_of(crates: &BTreeSet<String>) -> Result<bool> {
    let mut command = shell::cargo(&["test", "--quiet", "--no-run", "--all-features"]);
    crates.iter().for_each(|name| {
        command.args(["--package", name]);
    });
    shell::is_clean(&mut command)
}

/// In place of tests in documentation rustdoc is given the documentation itself ([`document`]): as it is, of the libraries that clippy
/// compiled. `cargo doc` would check all that others wrote once more, for metadata that has everything twice.
fn documentation() -> Result<bool> {
    let arguments = ["test", "--quiet", "--doc", "--workspace", "--all-features", "--no-fail-fast"];
    let this = std::env::current_exe().context("where is this program?")?;
    let mut command = shell::cargo(&arguments);
    shell::succeeds(
        shell::linted(&mut command).env("RUSTDOC", this).env(AS_RUSTDOC, shell::target().join("doc-lints")),
    )
}

/// The same with everything that has no tests in its documentation: programs, and Python's module.
///
/// # Errors
/// If cargo cannot be started.
pub fn whole_documentation() -> Result<bool> {
    let arguments = ["doc", "--quiet", "--workspace", "--no-deps", "--all-features"];
    shell::succeeds(shell::cargo(&arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Set for the process that is to [`document`]: to the folder where the pages go.
pub const AS_RUSTDOC: &str = "KHZ_XTASK_IS_RUSTDOC";

/// Calls rustdoc as cargo asked for a library's tests, but for its pages, in which a warning is an error.
///
/// # Errors
/// If rustdoc cannot be started.
pub fn document(words: &[String], out: &OsStr) -> Result<bool> {
    // Where cargo starts it, from where its paths lead.
    let mut command = std::process::Command::new("rustdoc");
    command.args(["-D", "warnings", "--out-dir"]).arg(out);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--test" => {}
            "--test-run-directory" | "--test-args" => drop(words.next()),
            word => drop(command.arg(word)),
        }
    }
    Ok(command.status().context("cannot start rustdoc")?.success())
}

/// Licences, sources and duplicates of what others wrote, where cargo-deny is there to look: to compile it takes longer than
/// all other lints. Its advisories come over the network, and change while we do not: `docs/releasing.md` has that command.
fn deny() -> Result<bool> {
    if shell::which("cargo-deny").is_none() {
        println!("deny: not run: type `cargo install --locked cargo-deny`");
        return Ok(true);
    }
    let arguments = ["deny", "--offline", "--log-level", "error", "check", "--hide-inclusion-graph"];
    let checks = |folder| {
        let mut command = shell::cargo(&arguments);
        shell::succeeds(command.args(["bans", "licenses", "sources"]).current_dir(shell::root().join(folder)))
    };
    Ok(checks("")? & checks("fleet")?)
}
