//! `fleet/`, the program `khz-fleet`: a workspace of its own, because what Zenoh needs takes longer to build than all of
//! Kilohertz.

use crate::tally::Tally;
use crate::{shell, test};
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
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(shell::root().join("fleet").join(target).join("release/khz-fleet"))
}

/// Its unit tests, in release as the program is: nothing of Zenoh is compiled twice.
///
/// # Errors
/// If cargo cannot be started.
pub fn unit_tests() -> Result<Tally> {
    let (succeeded, text) = shell::tee(&mut cargo(&["test", "--release", "--no-fail-fast"]))?;
    Ok(test::told_or_broken(succeeded, &text))
}

/// Whether it is formatted, and clippy finds nothing.
///
/// # Errors
/// If a tool cannot be started.
pub fn is_clean() -> Result<bool> {
    let formatted = shell::succeeds(&mut cargo(&["fmt", "--check"]))?;
    let mut clippy = cargo(&["clippy", "--quiet", "--release", "--all-targets", "--"]);
    Ok(shell::succeeds(clippy.args(["-D", "warnings"]))? && formatted)
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = shell::cargo(arguments);
    command.current_dir(shell::root().join("fleet"));
    command
}
