//! The Python package: its overhead in the loop, and 12 servos over a pty fdcanusb against the official client.
//!
//! The measuring is done in Python, `crates/bench/python/bench.py`, as a user's program would do it.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, ensure};
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/bench.py");

fn main() -> Result<()> {
    let python = std::env::var_os("PYTHON").context("start it with `cargo xtask bench python`")?;
    let status = Command::new(python).arg(SCRIPT).args(std::env::args().skip(1)).status()?;
    ensure!(status.success(), "{SCRIPT} failed");
    Ok(())
}
