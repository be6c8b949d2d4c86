//! `khz log`: work with logs.

mod cat;
#[cfg(feature = "parquet")]
mod dataset;
mod diff;
mod export;
mod extract;
mod info;
#[cfg(feature = "parquet")]
mod lerobot;
mod plot;
mod record;
mod repair;
mod report;
mod shared;

use anyhow::Result;
use std::process::ExitCode;

/// Inspect, convert, plot, repair and compare logs; make reports
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Info(info::Args),
    Cat(cat::Args),
    Extract(extract::Args),
    Export(export::Args),
    Plot(plot::Args),
    Diff(diff::Args),
    Repair(repair::Args),
    Report(report::Args),
    Record(record::Args),
}

/// Does what is asked. Exit codes: 0 done, 1 done but the log is damaged or the logs differ, 2 bad input.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Info(args) => info::run(args),
        Command::Cat(args) => cat::run(args),
        Command::Extract(args) => extract::run(args),
        Command::Export(args) => export::run(args),
        Command::Plot(args) => plot::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Repair(args) => repair::run(args),
        Command::Report(args) => report::run(&args),
        Command::Record(args) => record::run(args),
    }
}
