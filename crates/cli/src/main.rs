//! The `khz` command: words in, calls, text and exit codes out.
#![forbid(unsafe_code)]

mod cmd;
mod duration;

use clap::Parser;
use std::process::ExitCode;

/// Run a robot's full control cycle a thousand times a second on Linux, and prove it.
#[derive(Parser)]
#[command(name = "khz", version, propagate_version = true)]
// Without an empty line between its first two, and all of it fits 25 lines.
#[command(help_template = "{about-with-newline}{usage-heading} {usage}\n\n{all-args}")]
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
