//! `khz log diff`: what is different between two runs.

use super::shared::{Choice, Progress, open, printing};
use anyhow::Result;
use khz_export::{Selection, columns, scan};
use khz_tlog::Reader;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare two logs record by record: which fields differ, first and most
#[derive(clap::Args)]
pub struct Args {
    /// The log to compare with
    before: PathBuf,
    /// The other log
    after: PathBuf,
    #[command(flatten)]
    choice: Choice,
    /// Differences of numbers up to this do not count
    #[arg(long, default_value_t = 0.0)]
    tolerance: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How one field differs.
#[derive(Default)]
struct Difference {
    samples: u64,
    first: u64,
    largest: f64,
}

/// How one record differs.
#[derive(Default)]
struct Outcome {
    before: u64,
    after: u64,
    fields: BTreeMap<String, Difference>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let (mut before, mut after) = (open(&args.before)?, open(&args.after)?);
    before.survey()?;
    after.survey()?;
    let names =
        |log: &Reader<File>| log.records().iter().map(|r| r.name().to_owned()).collect::<BTreeSet<_>>();
    let wanted = |name: &&String| args.choice.records.is_empty() || args.choice.records.contains(name);
    let (one, two) = (names(&before), names(&after));
    let mut outcomes = BTreeMap::new();
    for name in one.union(&two).filter(wanted) {
        let there = (one.contains(name), two.contains(name));
        let outcome = match there {
            (true, true) => compare(name, (&args, &mut before, &mut after))?,
            (in_one, in_two) => Outcome {
                before: if in_one { count(&mut before, name)? } else { 0 },
                after: if in_two { count(&mut after, name)? } else { 0 },
                ..Outcome::default()
            },
        };
        outcomes.insert(name.clone(), outcome);
    }
    let differ = outcomes.values().any(|o| o.before != o.after || !o.fields.is_empty());
    printing(|out| {
        if args.json {
            print_json(&outcomes, out)?
        } else {
            print_text(&outcomes, out)?
        }
        Ok(ExitCode::from(u8::from(differ)))
    })
}

fn only(name: &str) -> Selection {
    Selection { records: vec![name.to_owned()], ..Selection::default() }
}

fn count(log: &mut Reader<File>, name: &str) -> Result<u64> {
    let mut samples = 0;
    scan(
        log,
        &only(name),
        |_| {},
        |_| {
            samples += 1;
            Ok(true)
        },
    )?;
    Ok(samples)
}

/// Compares the n-th samples of a record with each other; the logs are read side by side.
fn compare(
    name: &str,
    (args, before, after): (&Args, &mut Reader<File>, &mut Reader<File>),
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut selection = args.choice.selection(after)?;
    selection.records = vec![name.to_owned()];
    if let Some(from_us) = selection.from_us {
        after.seek(from_us.saturating_sub(1))?;
    } else {
        after.rewind();
    }
    after.select([name]);
    let mut own = args.choice.selection(before)?;
    own.records = vec![name.to_owned()];
    let paths: Vec<String> =
        columns(before.record(name)?.ty()).into_iter().map(|column| column.path).collect();
    let mut progress = Progress::new(before.size());
    let until = |time: Option<i64>| time.zip(selection.to_us).is_none_or(|(time, to)| time <= to);
    let mut ended = false;
    scan(
        before,
        &own,
        |at| progress.at(at),
        |item| {
            let number = outcome.before;
            outcome.before += 1;
            let other = if ended { None } else { after.next()?.filter(|other| until(other.time_us)) };
            let Some(other) = other else {
                ended = true;
                return Ok(true);
            };
            outcome.after += 1;
            let (one, two) = (item.value()?, other.value()?);
            if one == two {
                return Ok(true);
            }
            for path in &paths {
                let (one, two) = match path.as_str() {
                    "value" if one.at("value").is_none() => (Some(one), Some(two)),
                    path => (one.at(path), two.at(path)),
                };
                let numbers = one.and_then(|v| v.number()).zip(two.and_then(|v| v.number()));
                let distance = numbers.map_or(f64::INFINITY, |(one, two)| (one - two).abs());
                if one == two || distance <= args.tolerance {
                    continue;
                }
                let fresh = Difference { first: number, ..Difference::default() };
                let difference = outcome.fields.entry(path.clone()).or_insert(fresh);
                difference.samples += 1;
                difference.largest = difference.largest.max(distance);
            }
            Ok(true)
        },
    )?;
    while !ended && after.next()?.is_some_and(|other| until(other.time_us)) {
        outcome.after += 1;
    }
    Ok(outcome)
}

fn print_json(outcomes: &BTreeMap<String, Outcome>, out: &mut dyn Write) -> Result<()> {
    let field = |(path, d): (&String, &Difference)| {
        let largest = d.largest.is_finite().then_some(d.largest);
        json!({"field": path, "samples": d.samples, "first": d.first, "largest": largest})
    };
    let record = |(name, o): (&String, &Outcome)| {
        let fields: Vec<Value> = o.fields.iter().map(field).collect();
        json!({"record": name, "before": o.before, "after": o.after, "fields": fields})
    };
    let all: Vec<Value> = outcomes.iter().map(record).collect();
    Ok(writeln!(out, "{}", Value::from(all))?)
}

fn print_text(outcomes: &BTreeMap<String, Outcome>, out: &mut dyn Write) -> Result<()> {
    for (name, o) in outcomes {
        let same = if o.before == o.after && o.fields.is_empty() { ", the same" } else { "" };
        writeln!(out, "{name}: {} and {} samples{same}", o.before, o.after)?;
        for (path, d) in &o.fields {
            let most =
                if d.largest.is_finite() { format!(", at most by {:.6e}", d.largest) } else { String::new() };
            writeln!(out, "  {path}: {} samples differ, first number {}{most}", d.samples, d.first)?;
        }
    }
    Ok(())
}
