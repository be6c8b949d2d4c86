//! `khz log report`: the page of a run, made from its log.

use crate::cmd::{output, show, warn};
use anyhow::Result;
use khz_report::run::from_log;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write the page of a run, made from its log alone
///
/// Of a damaged log the page shows what is sound and reports what is missing; the exit code is 1 then. A log does not have
/// everything that the running loop knew: the scheduling that the kernel granted, the counters of the buses' adapters, late
/// replies of each servo, how many commands were changed, and the requirements of the run.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz log report run.tlog
  khz log report run.tlog run-1.tlog --out run.html")]
pub struct Args {
    /// The log; if it is in several files, all of them, the oldest first
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// The page, which must not be there yet; by default the log's name with `.html`, and a number if that is taken
    #[arg(short, long, visible_alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite the page if it is there
    #[arg(long)]
    force: bool,
}

/// Runs the command. Exit code 1 if something is missing in the log.
pub fn run(args: &Args) -> Result<ExitCode> {
    output::check_all(&args.out, &args.logs, args.force)?;
    let run = from_log(&args.logs)?;
    let path = args.out.clone().unwrap_or_else(|| args.logs[0].with_extension("html"));
    let force = args.force && args.out.is_some();
    let path = output::save(&path, force, |file| write!(file, "{}", run.data.page()))?;
    run.missing.iter().for_each(warn);
    show(&format!("{}\n", path.display()))?;
    Ok(ExitCode::from(u8::from(!run.missing.is_empty())))
}
