//! Every check that needs no test to run; all of them run even if the first fails.

use crate::{fleet, hazards, layers, shell, tracked};
use anyhow::Result;

/// Runs them all; true if all are clean.
///
/// # Errors
/// If a tool cannot be started.
pub fn run() -> Result<bool> {
    let results = [
        ("fmt", shell::succeeds(&mut shell::cargo(&["fmt", "--all", "--check"]))?),
        ("clippy", clippy()?),
        ("doc", documentation()?),
        ("fleet", fleet::is_clean()?),
        ("layers", layers::run()?),
        ("tracked", tracked::run()?),
        ("hazards", hazards::run()?),
        ("deny", deny()?),
    ];
    let unclean: Vec<&str> = results.iter().filter(|(_, clean)| !clean).map(|(name, _)| *name).collect();
    match unclean.as_slice() {
        [] => println!("lints: clean"),
        names => eprintln!("lints: not clean: {}", names.join(", ")),
    }
    Ok(unclean.is_empty())
}

fn clippy() -> Result<bool> {
    let arguments = ["clippy", "--quiet", "--workspace", "--all-targets", "--all-features", "--"];
    shell::succeeds(shell::cargo(&arguments).args(["-D", "warnings"]))
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
    shell::succeeds(shell::cargo(&arguments).args(["bans", "licenses", "sources"]))
}
