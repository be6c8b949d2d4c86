//! `khz-fleet top`.

use super::{show, stop_on_signal, write_raw};
use crate::cmd::ls::table;
use crate::fleet::Watch;
use crate::network::{Options, Role};
use anyhow::Result;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often the table is drawn.
const PERIOD: Duration = Duration::from_millis(500);

/// Watch the robots, until Ctrl-C
#[derive(clap::Args)]
pub struct Args {
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
}

/// Runs the command.
pub fn run(args: &Args, network: &Options) -> Result<ExitCode> {
    let stop = stop_on_signal()?;
    let session = network.session(Role::Visitor)?;
    let watch = Watch::start(&session)?;
    let begun = Instant::now();
    // Without a terminal the tables follow each other.
    let begin = if std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    while !stop.load(Ordering::Relaxed) && args.duration.is_none_or(|s| begun.elapsed().as_secs_f64() < s) {
        std::thread::sleep(PERIOD);
        let text = table(&watch.robots());
        write_raw(begin)?;
        show(&format!("{text}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
