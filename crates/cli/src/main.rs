//! The `khz` command: words in, calls, text and exit codes out.
#![forbid(unsafe_code)]

mod cmd;
mod duration;

use clap::Parser;
use std::process::ExitCode;

/// Run a robot's full control cycle a thousand times a second on ordinary Linux, and prove it.
#[derive(Parser)]
#[command(name = "khz", version, propagate_version = true)]
struct Khz {
    #[command(subcommand)]
    command: cmd::Command,
}

fn main() -> ExitCode {
    match Khz::parse().command.run() {
        Ok(code) => code,
        Err(error) => {
            cmd::complain(&error);
            ExitCode::from(cmd::BAD_INPUT)
        }
    }
}
