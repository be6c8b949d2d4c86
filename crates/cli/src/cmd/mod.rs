//! One file per subcommand. Exit codes: 0 done, 1 ran but failed or degraded, 2 bad input.

mod budget;
mod bus;
mod check;
mod doctor;
mod drill;
mod emulate;
mod jitter;
mod log;
mod output;
mod report;
mod rtt;
mod run;
mod text;

use anyhow::{Context, Result};
use signal_hook::consts::SIGXFSZ;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
pub use text::{complain, show, show_progress, tell, tell_line};

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

/// A flag that is set by what asks for an end ([`ending_signals`]); these signals do nothing else from now on.
///
/// # Errors
/// If the system does not let signals be caught.
pub fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in ending_signals() {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot catch signals")?;
    }
    // A file at its size limit (`ulimit -f`) is an error of the write, and not the end of the process.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).context("cannot catch signals")?;
    Ok(stop)
}

/// What asks for an orderly end: Ctrl-C (SIGINT), SIGTERM, and SIGHUP, which a terminal that goes away sends, such as a
/// dropped ssh session; `nohup` has SIGHUP ignored, and so it stays. Also SIGXCPU, which a thread gets that took more CPU
/// time than a limit allows, and signals that are sent by mistake. Not SIGQUIT (Ctrl-\): it ends what does not end.
pub fn ending_signals() -> Vec<i32> {
    use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};
    let mut signals = vec![SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU];
    signals.extend(Some(SIGHUP).filter(|signal| !is_ignored(*signal)));
    signals
}

/// Whether whoever started this process had it ignore a signal. Unknown is no.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}
