//! One file per subcommand. Exit codes: 0 done, 1 ran but failed or degraded, 2 bad input.

mod budget;
mod bus;
mod check;
mod colour;
mod compare;
mod completions;
mod doctor;
mod drill;
mod emulate;
mod identify;
mod jitter;
mod log;
mod new;
mod param;
mod policy;
mod progress;
mod replay;
mod robot_file;
mod rtt;
mod run;
mod text;
mod view;

use anyhow::Result;
pub use kilohertz::{ending_signals, output, stop_on_signal};
use std::process::ExitCode;
pub use text::{
    complain, complaint, note, print, print_line, show, show_judged, show_progress, show_text, warn,
};

/// Exit code for bad input or usage.
pub const BAD_INPUT: u8 = 2;

/// What `khz` can do. What packagers need alone is not in its help.
#[derive(clap::Subcommand)]
pub enum Command {
    Budget(budget::Args),
    Bus(bus::Args),
    Check(check::Args),
    Compare(compare::Args),
    #[command(hide = true)]
    Completions(completions::Args),
    Doctor(doctor::Args),
    Drill(drill::Args),
    Emulate(emulate::Args),
    Identify(Box<identify::Args>),
    Jitter(Box<jitter::Args>),
    Log(Box<log::Args>),
    #[command(hide = true)]
    Man(completions::ManArgs),
    New(new::Args),
    Param(param::Args),
    Policy(policy::Args),
    Replay(replay::Args),
    Rtt(rtt::Args),
    Run(Box<run::Args>),
    View(Box<view::Args>),
}

impl Command {
    /// Does it.
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Self::Budget(args) => budget::run(args),
            Self::Bus(args) => bus::run(args),
            Self::Check(args) => check::run(args),
            Self::Compare(args) => compare::run(args),
            Self::Completions(args) => completions::run(&args),
            Self::Doctor(args) => doctor::run(args),
            Self::Drill(args) => drill::run(args),
            Self::Emulate(args) => emulate::run(args),
            Self::Identify(args) => identify::run(&args),
            Self::Jitter(args) => jitter::run(*args),
            Self::Log(args) => log::run(*args),
            Self::Man(args) => completions::man(&args),
            Self::New(args) => new::run(&args),
            Self::Param(args) => param::run(&args),
            Self::Policy(args) => policy::run(&args),
            Self::Replay(args) => replay::run(args),
            Self::Rtt(args) => rtt::run(args),
            Self::Run(args) => run::run(*args),
            Self::View(args) => view::run(*args),
        }
    }
}
