//! `khz log extract`: part of a log as a log.

use super::shared::{Choice, Output, Progress, conclude, open, spare};
use anyhow::{Result, bail};
use khz_export::{Damage, scan};
use khz_tlog::{Copier, Reader, received};
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

/// Above this share of the log's samples, going over the links costs more than reading everything.
const SPARSE: u64 = 8;

/// Write part of a log, some records or some time, to a log of its own
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz log extract run.tlog --from 10 --to 12 -o fall.tlog
  khz log extract run.tlog -r event -o events.tlog")]
pub struct Args {
    /// The log
    log: PathBuf,
    #[command(flatten)]
    choice: Choice,
    /// The new log
    #[arg(short, long)]
    output: PathBuf,
    /// Overwrite the new log if it is there
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    spare(&args.output, &[&args.log])?;
    let mut log = open(&args.log)?;
    if args.choice.records.is_empty() && args.choice.from.is_none() && args.choice.to.is_none() {
        bail!(
            "nothing to choose: give --record, --from or --to (`khz log repair LOG --output NEW` copies a whole log)"
        );
    }
    let mut copier = Copier::new(Output::new(&args.output, args.force)?)?;
    let damage = match by_links(&mut log, &args, &mut copier)? {
        Some(damage) => damage,
        None => by_reading(&mut log, &args, &mut copier)?,
    };
    // Only they show that samples may have come late.
    for record in log.records().iter().filter(|record| received::MARKS.contains(&record.name())) {
        copier.keep(record)?;
    }
    copier.finish()?.keep()?;
    Ok(conclude(&args.log, &damage))
}

/// Copies a single record of a finished log over its links, if that reads less and they are sound. None: not so.
fn by_links(log: &mut Reader<File>, args: &Args, copier: &mut Copier<Output>) -> Result<Option<Damage>> {
    let [name] = args.choice.records.as_slice() else { return Ok(None) };
    if !log.is_finished() || args.choice.from.is_some() || args.choice.to.is_some() {
        return Ok(None);
    }
    let record = log.record(name)?;
    if record.is_zstd() {
        return Ok(None);
    }
    let mut damage = Damage::default();
    let Some(last) = record.last() else { return Ok(Some(damage)) };
    let Ok(sample) = log.stored_at(last) else { return Ok(None) };
    let (gap, block) = (sample.previous.unwrap_or(0), sample.block_len);
    if gap < block * SPARSE {
        return Ok(None);
    }
    let Ok(Some(places)) = log.places(name) else { return Ok(None) };
    let mut progress = Progress::new(log.size());
    for place in places {
        progress.at(place);
        match log.stored_at(place) {
            Ok(sample) => copier.copy(&sample)?,
            Err(error) if error.is_contained() => {
                damage.places += 1;
                damage.first.get_or_insert(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Some(damage))
}

fn by_reading(log: &mut Reader<File>, args: &Args, copier: &mut Copier<Output>) -> Result<Damage> {
    let selection = args.choice.selection(log)?;
    let mut progress = Progress::new(log.size());
    Ok(scan(
        log,
        &selection,
        |at| progress.at(at),
        |item| {
            copier.copy(item)?;
            Ok(true)
        },
    )?)
}
