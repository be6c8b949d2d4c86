//! `khz log info`: what a log holds.

use super::shared::{Progress, conclude, open};
use crate::cmd::show;
use crate::cmd::text::{name, shortened};
use anyhow::Result;
use khz_export::{Selection, scan};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show the records of a log, with their samples, rates and sizes
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz log info run.tlog
  khz log info *.tlog --json")]
pub struct Args {
    /// The logs
    #[arg(required = true)]
    logs: Vec<PathBuf>,
    /// Print JSON, one object per log
    #[arg(long)]
    json: bool,
}

/// What is counted of one record.
#[derive(Default)]
struct Count {
    name: String,
    samples: u64,
    bytes: u64,
    first_us: Option<i64>,
    last_us: Option<i64>,
    /// Fields and their units.
    units: Vec<(String, String)>,
}

/// So many units stand in the line of a record.
const SHOWN_UNITS: usize = 20;

impl Count {
    fn seconds(&self) -> f64 {
        self.first_us.zip(self.last_us).map_or(0.0, |(first, last)| (last - first) as f64 / 1e6)
    }

    fn rate_hz(&self) -> Option<f64> {
        let seconds = self.seconds();
        (self.samples > 1 && seconds > 0.0).then(|| (self.samples - 1) as f64 / seconds)
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "samples": self.samples, "bytes": self.bytes, "rate_hz": self.rate_hz(),
            "first_us": self.first_us, "last_us": self.last_us,
            "units": self.units.iter().cloned().collect::<BTreeMap<_, _>>(),
        })
    }

    /// `position rad, velocity rad/s`: the last names of the fields, once each, as all servos have the same; without
    /// those whose name has it already (`age_us`), and not more than a person reads.
    fn units_line(&self) -> String {
        let mut parts = Vec::new();
        for (path, unit) in &self.units {
            let last = path.rsplit('.').next().unwrap_or(path);
            let part = format!("{} {}", shortened(last), name(unit));
            if !last.ends_with(&format!("_{unit}")) && !parts.contains(&part) {
                parts.push(part);
            }
        }
        if parts.len() > SHOWN_UNITS {
            let more = parts.len() - SHOWN_UNITS;
            parts.truncate(SHOWN_UNITS);
            parts.push(format!("and {more} more (--json)"));
        }
        parts.join(", ")
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for path in &args.logs {
        let outcome = info(path, args.json)?;
        if outcome != ExitCode::SUCCESS {
            code = outcome;
        }
    }
    Ok(code)
}

fn info(path: &Path, as_json: bool) -> Result<ExitCode> {
    let mut log = open(path)?;
    let mut progress = Progress::new(log.size());
    let mut counts = BTreeMap::<u64, Count>::new();
    let damage = scan(
        &mut log,
        &Selection::default(),
        |at| progress.at(at),
        |item| {
            let count = counts.entry(item.record.identifier()).or_default();
            if count.samples == 0 {
                count.name = item.record.name().into();
            }
            count.samples += 1;
            count.bytes += item.block_len;
            count.first_us = count.first_us.or(item.time_us);
            count.last_us = item.time_us.or(count.last_us);
            Ok(true)
        },
    )?;
    drop(progress);
    for record in log.records() {
        let count = counts
            .entry(record.identifier())
            .or_insert_with(|| Count { name: record.name().into(), ..Count::default() });
        count.units = record.ty().units().into_iter().map(|(path, unit)| (path, unit.to_owned())).collect();
    }
    let all: Vec<Count> = counts.into_values().collect();
    let (size, finished) = (log.size(), log.is_finished());
    show(&match as_json {
        true => json_of(path, size, finished, damage.places, &all),
        false => table(path, size, finished, &all)?,
    })?;
    Ok(conclude(path, &damage))
}

fn span(all: &[Count]) -> (Option<i64>, Option<i64>) {
    (all.iter().filter_map(|count| count.first_us).min(), all.iter().filter_map(|count| count.last_us).max())
}

fn json_of(path: &Path, size: u64, finished: bool, damages: u64, all: &[Count]) -> String {
    let (first_us, last_us) = span(all);
    let records: Vec<Value> = all.iter().map(Count::json).collect();
    let text = json!({
        "log": path, "bytes": size, "finished": finished, "damages": damages,
        "first_us": first_us, "last_us": last_us, "records": records,
    });
    format!("{text}\n")
}

fn table(path: &Path, size: u64, finished: bool, all: &[Count]) -> Result<String> {
    let mut out = String::new();
    let end = if finished { "finished" } else { "no index: it was cut off, or is being written" };
    writeln!(out, "{}: {size} bytes, {end}", path.display())?;
    if let (Some(first), Some(last)) = span(all) {
        let seconds = (last - first) as f64 / 1e6;
        writeln!(out, "{} to {}, {seconds:.3} s", khz_page::calendar(first), khz_page::calendar(last))?;
    }
    let width = all.iter().map(|count| shortened(&count.name).chars().count()).max().unwrap_or(0).max(6);
    writeln!(
        out,
        "\n{:width$} {:>12} {:>12} {:>12} {:>9}",
        "record", "samples", "bytes", "bytes/sample", "rate/s"
    )?;
    for count in all {
        let each = count.bytes.checked_div(count.samples).map_or("-".into(), |each| each.to_string());
        let rate = count.rate_hz().map_or("-".into(), |rate| format!("{rate:.1}"));
        writeln!(
            out,
            "{:width$} {:>12} {:>12} {each:>12} {rate:>9}",
            shortened(&count.name),
            count.samples,
            count.bytes
        )?;
    }
    let units = all.iter().map(|count| (shortened(&count.name), count.units_line()));
    let units: Vec<_> = units.filter(|(_, units)| !units.is_empty()).collect();
    if !units.is_empty() {
        writeln!(out, "\n{:width$} units", "record")?;
    }
    for (record, units) in units {
        writeln!(out, "{record:width$} {units}")?;
    }
    Ok(out)
}
