//! `khz rtt`: round trips over UDP.

mod echo;
mod lab;
mod require;
mod send;

use anyhow::Result;
use std::process::ExitCode;

/// Measure UDP round trips: how long, how steadily, and what gets lost
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Echo(echo::Args),
    Send(send::Args),
    Lab(lab::Args),
}

/// Does it.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Echo(args) => echo::run(args),
        Command::Send(args) => send::run(args),
        Command::Lab(args) => lab::run(args),
    }
}

/// The port devices listen on by default.
const PORT: u16 = 7755;
/// The port of `khz log record` by default.
const RECORDER_PORT: u16 = 7756;

/// A real-time thread of this priority; an ordinary one for 0.
fn setup(priority: u8, cpu: Option<usize>) -> khz_rt::Setup {
    match priority {
        0 => khz_rt::Setup { cpu, ..khz_rt::Setup::ordinary() },
        _ => khz_rt::Setup { priority, cpu, ..khz_rt::Setup::default() },
    }
}
