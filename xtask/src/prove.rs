//! What is too slow for every commit: run on request, with its date and result in `docs/proofs.md`.

use crate::shell;
use anyhow::{Result, bail};
use std::process::Command;

/// A proof: its name, what it needs, and its commands.
struct Proof {
    name: &'static str,
    /// Why it cannot run here, if it cannot.
    lacks: fn() -> Option<String>,
    commands: fn() -> Vec<Command>,
}

const PROOFS: &[Proof] = &[
    Proof { name: "explore", lacks: nothing, commands: explore },
    Proof { name: "loom", lacks: nothing, commands: loom },
    Proof { name: "miri", lacks: miri_is_missing, commands: miri },
    Proof { name: "mutants", lacks: nothing, commands: mutants },
];

/// Runs the named proofs (all if none is named); true if all hold. One that cannot run is no success.
///
/// # Errors
/// If a name is no proof's, or a tool cannot be started.
pub fn run(words: &[String]) -> Result<bool> {
    let names: Vec<&str> = PROOFS.iter().map(|proof| proof.name).collect();
    if words.iter().any(|word| word == "--list") {
        shell::print(&names.iter().map(|name| format!("{name}\n")).collect::<String>());
        return Ok(true);
    }
    if let Some(word) = words.iter().find(|word| !names.contains(&word.as_str())) {
        bail!("no proof is called `{word}`; there are: {}", names.join(", "));
    }
    let mut held = true;
    for proof in PROOFS.iter().filter(|proof| words.is_empty() || words.iter().any(|word| word == proof.name))
    {
        held &= prove(proof)?;
    }
    Ok(held)
}

fn prove(proof: &Proof) -> Result<bool> {
    println!("\n── {} ──", proof.name);
    if let Some(why) = (proof.lacks)() {
        println!("{}: not run: {why}", proof.name);
        return Ok(false);
    }
    let mut held = true;
    for mut command in (proof.commands)() {
        held &= shell::succeeds(&mut command)?;
    }
    println!("{}: {}", proof.name, if held { "holds" } else { "FAILED" });
    Ok(held)
}

fn nothing() -> Option<String> {
    None
}

/// Every state of the supervisor with two events in a tick.
fn explore() -> Vec<Command> {
    let test = ["test", "--release", "--package", "khz-robot", "--all-features", "--test", "explore"];
    let mut command = shell::cargo(&test);
    command.args(["--", "--include-ignored", "--nocapture", "--test-threads=1"]);
    vec![command]
}

/// Every order of the hand-overs between threads.
fn loom() -> Vec<Command> {
    vec![shell::cargo(&["test", "--release", "--package", "khz-proofs"])]
}

fn miri_is_missing() -> Option<String> {
    let works = shell::output(&mut nightly(&["miri", "--version"])).is_ok();
    (!works).then(|| "no miri: rustup toolchain install nightly --component miri,rust-src".into())
}

/// Undefined behaviour in what the interpreter can run: the pure parts of `rt`, the logs, and the recorder's ring.
fn miri() -> Vec<Command> {
    let of = |package: &str, rest: &[&str]| {
        let mut command = nightly(&["miri", "test", "--package", package]);
        command.args(rest).env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "2");
        command
    };
    vec![
        of("khz-rt", &["--lib", "--", "newest", "pace", "histogram", "profile", "late"]),
        of("khz-tlog", &["--lib"]),
        of("khz-record", &["--lib", "--", "tap"]),
    ]
}

/// Cargo of the nightly toolchain, in its own folder.
fn nightly(arguments: &[&str]) -> Command {
    let mut command = shell::command("cargo", &["+nightly"]);
    command.args(arguments).env("CARGO_TARGET_DIR", shell::target().join("miri"));
    // Cargo has named itself to this program; another toolchain is another cargo.
    command.env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    command
}

/// Does a test fail when an expression of the supervisor is changed? See `mutants`.
fn mutants() -> Vec<Command> {
    vec![shell::cargo(&["xtask", "mutants"])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_proof_is_refused() {
        assert!(run(&["magic".into()]).is_err());
        assert!(run(&["--list".into()]).unwrap());
    }
}
