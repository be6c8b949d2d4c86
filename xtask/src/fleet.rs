//! `fleet/`, the program `khz-fleet`: a workspace of its own, because what Zenoh needs takes longer to build than all of
//! Kilohertz. Lints and tests share what they compile of it.

use crate::shell;
use crate::tally::Tally;
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

/// The folder of its tests with processes.
pub const TESTS: &str = "tests/fleet";

/// The program, built as users have it.
///
/// # Errors
/// If it cannot be built.
pub fn program() -> Result<PathBuf> {
    shell::run(&mut cargo(&["build", "--quiet", "--release"]))?;
    Ok(built("release"))
}

/// The program as tests have it: not optimised, built of what [`is_clean`] and [`unit_tests`] compiled.
///
/// # Errors
/// If it cannot be built.
pub fn debug_program() -> Result<PathBuf> {
    shell::run(shell::linted(&mut cargo(&["build", "--quiet"])))?;
    Ok(built("debug"))
}

/// Its unit tests.
///
/// # Errors
/// If cargo cannot be started.
pub fn unit_tests() -> Result<Tally> {
    let (succeeded, text) = shell::tee(shell::linted(&mut cargo(&["test", "--no-fail-fast"])))?;
    Ok(Tally::of_runner(succeeded, &text))
}

/// Whether it is formatted, and clippy finds nothing.
///
/// # Errors
/// If a tool cannot be started.
pub fn is_clean() -> Result<bool> {
    let formatted = shell::succeeds(&mut cargo(&["fmt", "--check"]))?;
    Ok(shell::is_clean(&mut cargo(&["test", "--quiet", "--no-run"]))? && formatted)
}

fn built(profile: &str) -> PathBuf {
    folder().join(profile).join("khz-fleet")
}

/// Its target folder: its own, also where the workspaces are set to share one, because features of what both need differ.
fn folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => shell::root().join(target).join("fleet"),
        None => shell::root().join("fleet/target"),
    }
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = shell::cargo(arguments);
    command.current_dir(shell::root().join("fleet")).env("CARGO_TARGET_DIR", folder());
    command
}
