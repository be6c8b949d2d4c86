//! One file per subcommand. Exit codes: 0 done, 1 ran but failed or degraded, 2 bad input.

mod budget;
mod bus;
mod check;
mod doctor;
mod drill;
mod emulate;
mod jitter;
mod log;
mod report;
mod rtt;
mod run;

use anyhow::{Context, Result};
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Exit code for bad input or usage.
pub const BAD_INPUT: u8 = 2;

/// What `khz` can do.
#[derive(clap::Subcommand)]
pub enum Command {
    Budget(budget::Args),
    Bus(bus::Args),
    Check(check::Args),
    Doctor(doctor::Args),
    Drill(drill::Args),
    Emulate(emulate::Args),
    Jitter(Box<jitter::Args>),
    Log(Box<log::Args>),
    Report(report::Args),
    Rtt(rtt::Args),
    Run(run::Args),
}

impl Command {
    /// Does it.
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Self::Budget(args) => budget::run(args),
            Self::Bus(args) => bus::run(args),
            Self::Check(args) => check::run(args),
            Self::Doctor(args) => doctor::run(args),
            Self::Drill(args) => drill::run(args),
            Self::Emulate(args) => emulate::run(args),
            Self::Jitter(args) => jitter::run(*args),
            Self::Log(args) => log::run(*args),
            Self::Report(args) => report::run(args),
            Self::Rtt(args) => rtt::run(args),
            Self::Run(args) => run::run(args),
        }
    }
}

/// Tells an error and its causes on stderr.
#[expect(clippy::print_stderr, reason = "diagnostics go to stderr")]
pub fn complain(error: &anyhow::Error) {
    eprintln!("khz: {error:#}");
}

/// Writes results to stdout; a reader that has seen enough (`| head`) is no error.
///
/// # Errors
/// If stdout cannot be written.
pub fn show(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// A flag that Ctrl-C (SIGINT) and SIGTERM set; they do nothing else from now on.
///
/// # Errors
/// If the system does not let signals be caught.
pub fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot catch signals")?;
    }
    Ok(stop)
}

/// Writes to stderr as it is, for lines that show progress.
#[expect(clippy::print_stderr, reason = "diagnostics go to stderr")]
pub fn tell(text: &str) {
    eprint!("{text}");
}
