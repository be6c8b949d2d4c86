//! The `khz` command: words in, calls, text and exit codes out.
#![forbid(unsafe_code)]

mod cmd;
mod duration;
mod help;

use anyhow::anyhow;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Run a robot's full control cycle 1000 times a second on Linux, and prove it.
#[derive(Parser)]
#[command(name = "khz", version, propagate_version = true, help_template = help::template(&commands()))]
struct Khz {
    #[command(subcommand)]
    command: cmd::Command,
}

/// All commands, for the help that lists them.
fn commands() -> clap::Command {
    cmd::Command::augment_subcommands(clap::Command::new("khz"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_the_help_once_and_no_former_name_is_one() {
        help::tests::assert_lists(&commands());
    }
}
