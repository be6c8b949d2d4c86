//! The `khz` command: words in, calls, text and exit codes out.
#![forbid(unsafe_code)]

mod cmd;
mod duration;
mod help;

use anyhow::anyhow;
use clap::Parser;
use std::process::ExitCode;

/// Run a robot's full control cycle a thousand times a second on Linux, and prove it.
#[derive(Parser)]
#[command(name = "khz", version, propagate_version = true, help_template = help::template())]
struct Khz {
    #[command(subcommand)]
    command: cmd::Command,
}

fn main() -> ExitCode {
    let done = match Khz::try_parse() {
        Ok(khz) => khz.command.run(),
        Err(error) => Err(anyhow!(help::renamed(&error).unwrap_or_else(|| error.exit()))),
    };
    done.unwrap_or_else(|error| {
        cmd::complain(&error);
        ExitCode::from(cmd::BAD_INPUT)
    })
}
