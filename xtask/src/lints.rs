//! Every check that needs no test to run; all of them run even if the first fails.

use crate::tally::Tally;
use crate::test::done::{Done, Outcome};
use crate::test::times;
use crate::{fleet, hazards, layers, licences, performance, shell, tracked};
use anyhow::{Result, bail};
use std::collections::BTreeSet;
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

/// Formatting.
///
/// # Errors
/// If cargo cannot be started.
pub fn quick() -> Result<bool> {
    shell::succeeds(&mut shell::cargo(&["fmt", "--all", "--check"]))
}

fn clippy() -> Result<bool> {
    let arguments = ["clippy", "--quiet", "--workspace", "--all-targets", "--all-features", "--"];
    shell::succeeds(shell::cargo(&arguments).args(["-D", "warnings"]))
}

/// Clippy for some crates.
///
/// # Errors
/// If cargo cannot be started.
pub fn clippy_of(crates: &BTreeSet<String>) -> Result<bool> {
    let mut command = shell::cargo(&["clippy", "--quiet", "--all-targets", "--all-features"]);
    crates.iter().for_each(|name| {
        command.args(["--package", name]);
    });
    shell::succeeds(command.args(["--", "-D", "warnings"]))
}

fn documentation() -> Result<bool> {
    let arguments = ["doc", "--quiet", "--workspace", "--no-deps", "--all-features"];
    shell::succeeds(shell::cargo(&arguments).env("RUSTDOCFLAGS", "-D warnings"))
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
