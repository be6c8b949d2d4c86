//! One file per subcommand. Exit codes: 0 done, 1 ran but failed or degraded, 2 bad input.

mod check;
mod emulate;
mod rtt;

use anyhow::Result;
use std::process::ExitCode;

/// Exit code for bad input or usage.
pub const BAD_INPUT: u8 = 2;

/// What `khz` can do.
#[derive(clap::Subcommand)]
pub enum Command {
    Check(check::Args),
    Emulate(emulate::Args),
    Rtt(rtt::Args),
}

impl Command {
    /// Does it.
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Self::Check(args) => check::run(args),
            Self::Emulate(args) => emulate::run(args),
            Self::Rtt(args) => rtt::run(args),
        }
    }
}

/// Tells an error and its causes on stderr.
#[expect(clippy::print_stderr, reason = "diagnostics go to stderr")]
pub fn complain(error: &anyhow::Error) {
    eprintln!("khz: {error:#}");
}
