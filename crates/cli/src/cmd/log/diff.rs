//! `khz log diff`: what is different between two runs.

use super::shared::{Choice, Progress, conclude, open};
use crate::cmd::{show, text};
use anyhow::{Context, Result, bail};
use khz_export::{Damage, Scan, Selection, columns, scan};
use khz_tlog::{Item, Reader, RecordInfo, Value};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs::File;
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
struct Outcome {
    before: u64,
    after: u64,
    fields: BTreeMap<String, Difference>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let (mut before, mut after) = (open(&args.before)?, open(&args.after)?);
    // Each log's times count from its own first sample, which is found while no record is selected.
    let (in_before, in_after) = (args.choice.selection(&mut before)?, args.choice.selection(&mut after)?);
    before.survey()?;
    after.survey()?;
    for name in &args.choice.records {
        if before.record(name).is_err() && after.record(name).is_err() {
            let known: BTreeSet<_> =
                before.records().iter().chain(after.records()).map(RecordInfo::name).collect();
            let known = known.into_iter().map(text::name).collect::<Vec<_>>().join(", ");
            bail!("no record named {name:?} in either log; they have {known}");
        }
    }
    let one = count(&mut before, &in_before).with_context(|| args.before.display().to_string())?;
    let two = count(&mut after, &in_after).with_context(|| args.after.display().to_string())?;
    let mut outcomes = BTreeMap::new();
    for name in one.samples.keys().chain(two.samples.keys()).collect::<BTreeSet<_>>() {
        let counted = (one.samples.get(name).copied(), two.samples.get(name).copied());
        let fields = match counted {
            (Some(_), Some(_)) => {
                let only = |all: &Selection| Selection { records: vec![name.clone()], ..all.clone() };
                compare(args.tolerance, (&mut before, &only(&in_before)), (&mut after, &only(&in_after)))?
            }
            _ => BTreeMap::new(),
        };
        let (before, after) = (counted.0.unwrap_or(0), counted.1.unwrap_or(0));
        outcomes.insert(name.clone(), Outcome { before, after, fields });
    }
    let differ = outcomes.values().any(|o| o.before != o.after || !o.fields.is_empty());
    show(&if args.json { json_of(&outcomes) } else { text_of(&outcomes)? })?;
    let codes = [conclude(&args.before, &one.damage), conclude(&args.after, &two.damage)];
    let sound = codes == [ExitCode::SUCCESS; 2];
    Ok(ExitCode::from(u8::from(differ || !sound)))
}

/// What of the wanted lies in a log.
#[derive(Default)]
struct Counted {
    samples: BTreeMap<String, u64>,
    damage: Damage,
}

/// Counts the samples of the records that are wanted and there.
fn count(log: &mut Reader<File>, selection: &Selection) -> Result<Counted> {
    let mut there = selection.clone();
    there.records.retain(|name| log.record(name).is_ok());
    if there.records.is_empty() && !selection.records.is_empty() {
        return Ok(Counted::default());
    }
    let wanted = |record: &&RecordInfo| {
        there.records.is_empty() || there.records.iter().any(|name| name == record.name())
    };
    let mut samples: BTreeMap<String, u64> =
        log.records().iter().filter(wanted).map(|record| (record.name().to_owned(), 0)).collect();
    let mut progress = Progress::new(log.size());
    let damage = scan(
        log,
        &there,
        |at| progress.at(at),
        |item| {
            item.value()?;
            match samples.get_mut(item.record.name()) {
                Some(samples) => *samples += 1,
                // Its schema lies behind damage.
                None => _ = samples.insert(item.record.name().to_owned(), 1),
            }
            Ok(true)
        },
    )?;
    Ok(Counted { samples, damage })
}

/// Compares the n-th samples of the one selected record with each other; the logs are read side by side. Their damage
/// has been seen when they were counted.
fn compare(
    tolerance: f64,
    (before, in_before): (&mut Reader<File>, &Selection),
    (after, in_after): (&mut Reader<File>, &Selection),
) -> Result<BTreeMap<String, Difference>> {
    let paths: BTreeSet<String> = [&*before, &*after]
        .into_iter()
        .flat_map(Reader::records)
        .filter(|record| in_before.records.iter().any(|name| name == record.name()))
        .flat_map(|record| columns(record.ty()))
        .map(|column| column.path)
        .collect();
    let mut progress = Progress::new(before.size());
    let (mut before, mut after) = (Scan::begin(before, in_before)?, Scan::begin(after, in_after)?);
    let (mut fields, mut number) = (BTreeMap::new(), 0);
    let mut pair = |before: &Item<'_>| {
        progress.at(before.position);
        let one = before.value()?;
        let there = after.step(|after| {
            tell_apart(one, after.value()?, (&paths, tolerance), |path, distance| {
                let fresh = || Difference { first: number, ..Difference::default() };
                let difference = fields.entry(path.to_owned()).or_insert_with(fresh);
                difference.samples += 1;
                difference.largest = difference.largest.max(distance);
            });
            Ok(())
        })?;
        number += 1;
        Ok(there.is_some())
    };
    while before.step(&mut pair)? == Some(true) {}
    Ok(fields)
}

/// Tells of each field that differs, and by how much: infinity where no number says it.
fn tell_apart(
    one: Value<'_>,
    two: Value<'_>,
    (paths, tolerance): (&BTreeSet<String>, f64),
    mut differs: impl FnMut(&str, f64),
) {
    if one == two {
        return;
    }
    for path in paths {
        let (one, two) = match path.as_str() {
            "value" if one.at("value").is_none() && two.at("value").is_none() => (Some(one), Some(two)),
            path => (one.at(path), two.at(path)),
        };
        let numbers = one.and_then(|v| v.number()).zip(two.and_then(|v| v.number()));
        let distance = numbers.map_or(f64::INFINITY, |(one, two)| (one - two).abs());
        if one == two || distance <= tolerance {
            continue;
        }
        // Between NaN and a number there is no distance.
        differs(path, if distance.is_nan() { f64::INFINITY } else { distance });
    }
}

fn json_of(outcomes: &BTreeMap<String, Outcome>) -> String {
    let field = |(path, d): (&String, &Difference)| {
        let largest = d.largest.is_finite().then_some(d.largest);
        json!({"field": path, "samples": d.samples, "first": d.first, "largest": largest})
    };
    let record = |(name, o): (&String, &Outcome)| {
        let fields: Vec<_> = o.fields.iter().map(field).collect();
        json!({"record": name, "before": o.before, "after": o.after, "fields": fields})
    };
    let all: Vec<_> = outcomes.iter().map(record).collect();
    format!("{}\n", serde_json::Value::from(all))
}

fn text_of(outcomes: &BTreeMap<String, Outcome>) -> Result<String> {
    let mut out = String::new();
    for (record, o) in outcomes {
        let same = if o.before == o.after && o.fields.is_empty() { ", the same" } else { "" };
        writeln!(out, "{}: {} and {} samples{same}", text::name(record), o.before, o.after)?;
        for (path, d) in &o.fields {
            let most =
                if d.largest.is_finite() { format!(", at most by {:.6e}", d.largest) } else { String::new() };
            let path = text::name(path);
            writeln!(out, "  {path}: {} samples differ, first number {}{most}", d.samples, d.first)?;
        }
    }
    Ok(out)
}
