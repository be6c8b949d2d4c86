//! `khz log repair`: a whole log from what is left of one.

use super::shared::{Output, Progress, spare};
use crate::cmd::{show, warn};
use anyhow::{Context, Result};
use serde_json::json;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write everything intact in a damaged log to a new one, with index, links and seek markers
///
/// Exit code 0: nothing was damaged, though the index may have been missing. 1: the log was damaged, and those parts are lost.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz log repair cut.tlog -o whole.tlog")]
pub struct Args {
    /// The damaged log; it is not changed
    log: PathBuf,
    /// The new log
    #[arg(short, long)]
    output: PathBuf,
    /// Overwrite the new log if it is there
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Damaged places that are described: a record whose schema is lost has one for each sample.
const SHOWN: usize = 10;

/// Runs the command. Exit code 1 if the log was damaged, as with the other commands for logs.
pub fn run(args: Args) -> Result<ExitCode> {
    let name = args.log.display();
    let file = File::open(&args.log).with_context(|| format!("cannot open the log {name}"))?;
    let mut progress = Progress::new(file.metadata()?.len());
    spare(&args.output, &[&args.log])?;
    let out = Output::new(&args.output, args.force)?;
    let (report, out) =
        khz_tlog::repair(file, out, |at| progress.at(at)).with_context(|| name.to_string())?;
    out.keep()?;
    drop(progress);
    // An empty log is whole, and one that only lacks its index has all its samples.
    let code = ExitCode::from(u8::from(report.damages > 0));
    let errors: Vec<String> = report.errors.iter().map(ToString::to_string).collect();
    if args.json {
        let text = json!({
            "samples": report.samples, "damages": report.damages, "skipped_bytes": report.skipped_bytes,
            "was_finished": report.was_finished, "told": errors, "output": args.output,
        });
        show(&format!("{text}\n"))?;
        return Ok(code);
    }
    let end = if report.was_finished { "was finished" } else { "had no index" };
    let mut text: String = errors.iter().take(SHOWN).map(|damage| format!("{damage}\n")).collect();
    if let Some(more @ 1..) = report.damages.checked_sub(SHOWN as u64) {
        text += &format!("and {more} more damaged places\n");
    }
    text += &format!(
        "{}: {} samples from {name}, which {end}; {} damaged places, {} bytes skipped\n",
        args.output.display(),
        report.samples,
        report.damages,
        report.skipped_bytes
    );
    show(&text)?;
    if report.samples == 0 && report.damages > 0 {
        warn(format_args!("{name}: no sample could be kept; keep this log"));
    }
    Ok(code)
}
