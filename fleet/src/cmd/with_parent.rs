//! `khz-fleet with-parent`: how `demo` starts its programs.

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Run a program that ends when the process that started it ends
#[derive(clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// The process that starts this
    parent: i32,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// Becomes the program.
pub fn run(args: &Args) -> Result<ExitCode> {
    set_parent_process_death_signal(Some(Signal::TERM))
        .context("cannot follow the process that started this")?;
    // It may have ended before.
    if getppid() != Pid::from_raw(args.parent) {
        bail!("the process that started this has ended");
    }
    let (program, arguments) = args.program.split_first().ok_or_else(|| anyhow!("no program"))?;
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| {
        format!("cannot start {} (the variable KHZ names the program khz)", program.to_string_lossy())
    })
}
