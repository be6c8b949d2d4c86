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

/// Compare two logs record by record: which fields differ, where first and by how much at most
///
/// Samples are compared with those of the same time, counted from the first sample of the record that has most: in a run's
/// log, from its first tick. A sample without a partner within half a sampling interval is only in one log.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz log diff before.tlog after.tlog --tolerance 1e-6
  khz log diff before.tlog after.tlog -r servo --by number")]
pub struct Args {
    /// The log to compare with
    before: PathBuf,
    /// The other log
    after: PathBuf,
    #[command(flatten)]
    choice: Choice,
    /// What makes two samples partners
    #[arg(long, value_enum, default_value_t = By::Time)]
    by: By,
    /// Differences of numbers up to this do not count
    #[arg(long, default_value_t = 0.0, value_parser = tolerance)]
    tolerance: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "a tolerance is a number from 0 up".to_owned())
}

/// What makes two samples of a record partners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// The same time, within half a sampling interval
    Time,
    /// The same number in its log
    Number,
}

/// How one field differs.
#[derive(Default)]
struct Difference {
    samples: u64,
    /// The first: its number in the log before, and its time.
    first: u64,
    first_us: Option<i64>,
    largest: f64,
}

/// How one record differs.
#[derive(Default)]
struct Outcome {
    before: u64,
    after: u64,
    /// Samples without a partner in the other log.
    only_before: u64,
    only_after: u64,
    fields: BTreeMap<String, Difference>,
}

impl Outcome {
    fn is_same(&self, record: &str) -> bool {
        (self.before, self.only_before, self.only_after) == (self.after, 0, 0)
            && !self.fields.keys().any(|field| counts(record, field))
    }
}

/// Whether a field that differs makes two runs differ. The passport describes the computer at that moment: it differs always.
fn counts(record: &str, field: &str) -> bool {
    (record, field) != ("robot", "passport")
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let (mut before, mut after) = (open(&args.before)?, open(&args.after)?);
    // Each log's times count from its own first sample, which is found while no record is selected.
    let (in_before, in_after) = (args.choice.within(&mut before)?, args.choice.within(&mut after)?);
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
    let has_window = args.choice.from.is_some() || args.choice.to.is_some();
    let mut samples = one.records.values().chain(two.records.values());
    if has_window && samples.all(|record| record.samples == 0) {
        bail!("neither log has a sample between these times: nothing was compared");
    }
    let zeros = zeros(&one, &two);
    let mut outcomes = BTreeMap::new();
    for name in one.records.keys().chain(two.records.keys()).collect::<BTreeSet<_>>() {
        let only = |all: &Selection| Selection { records: vec![name.clone()], ..all.clone() };
        let outcome = match (one.records.get(name), two.records.get(name)) {
            (Some(a), Some(b)) => {
                let near_us = if args.by == By::Time { a.near_us().min(b.near_us()) } else { i64::MAX };
                let mut pair = Pair {
                    before: (&mut before, only(&in_before), zeros.0),
                    after: (&mut after, only(&in_after), zeros.1),
                };
                let partners = pair.partners(near_us)?;
                let fields = pair.compare(&partners, args.tolerance)?;
                let alone = |partners: &[bool]| partners.iter().filter(|partner| !**partner).count() as u64;
                let (only_before, only_after) = (alone(&partners.0), alone(&partners.1));
                Outcome { before: a.samples, after: b.samples, only_before, only_after, fields }
            }
            (a, b) => Outcome {
                before: a.map_or(0, |a| a.samples),
                after: b.map_or(0, |b| b.samples),
                ..Outcome::default()
            },
        };
        outcomes.insert(name.clone(), outcome);
    }
    let differ = outcomes.iter().any(|(record, outcome)| !outcome.is_same(record));
    show(&if args.json { json_of(&outcomes) } else { text_of(&outcomes)? })?;
    let codes = [conclude(&args.before, &one.damage), conclude(&args.after, &two.damage)];
    let sound = codes == [ExitCode::SUCCESS; 2];
    Ok(ExitCode::from(u8::from(differ || !sound)))
}

/// What of the wanted lies in a log.
#[derive(Default)]
struct Counted {
    records: BTreeMap<String, Samples>,
    damage: Damage,
}

/// The samples of a record.
#[derive(Clone, Copy, Default)]
struct Samples {
    samples: u64,
    /// Their least and greatest time.
    times_us: Option<(i64, i64)>,
}

impl Samples {
    fn count(&mut self, time_us: Option<i64>) {
        self.samples += 1;
        if let Some(time) = time_us {
            let (least, most) = self.times_us.unwrap_or((time, time));
            self.times_us = Some((least.min(time), most.max(time)));
        }
    }

    /// Half the sampling interval; for a single sample, any time.
    fn near_us(&self) -> i64 {
        match self.times_us {
            Some((first, last)) if self.samples > 1 => {
                last.saturating_sub(first) / (2 * (self.samples as i64 - 1))
            }
            _ => i64::MAX,
        }
    }
}

/// The times that count as zero in the two logs: the first of the record that has most samples in both.
fn zeros(one: &Counted, two: &Counted) -> (i64, i64) {
    let both = one.records.iter().filter_map(|(name, a)| Some((a, two.records.get(name)?)));
    let most = both.max_by_key(|(a, b)| a.samples.min(b.samples));
    let first = |samples: &Samples| samples.times_us.map_or(0, |(first, _)| first);
    most.map_or((0, 0), |(a, b)| (first(a), first(b)))
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
    let mut records: BTreeMap<String, Samples> = log
        .records()
        .iter()
        .filter(wanted)
        .map(|record| (record.name().to_owned(), Samples::default()))
        .collect();
    let mut progress = Progress::new(log.size());
    let damage = scan(
        log,
        &there,
        |at| progress.at(at),
        |item| {
            item.value()?;
            // A record whose schema lies behind damage is not among them yet.
            if !records.contains_key(item.record.name()) {
                records.insert(item.record.name().to_owned(), Samples::default());
            }
            if let Some(samples) = records.get_mut(item.record.name()) {
                samples.count(item.time_us);
            }
            Ok(true)
        },
    )?;
    Ok(Counted { records, damage })
}

/// One record in two logs: where to read it, and the time that counts as zero.
struct Pair<'a> {
    before: (&'a mut Reader<File>, Selection, i64),
    after: (&'a mut Reader<File>, Selection, i64),
}

impl Pair<'_> {
    /// Which samples of each log have a partner in the other, at most `near_us` away. Damage has been seen when they were
    /// counted.
    fn partners(&mut self, near_us: i64) -> Result<(Vec<bool>, Vec<bool>)> {
        let (in_before, in_after) = (&self.before.1, &self.after.1);
        let (zero_before, zero_after) = (self.before.2, self.after.2);
        let (mut before, mut after) =
            (Scan::begin(self.before.0, in_before)?, Scan::begin(self.after.0, in_after)?);
        let (mut of_before, mut of_after) = (Vec::new(), Vec::new());
        let (mut one, mut two) = (next_time(&mut before, zero_before)?, next_time(&mut after, zero_after)?);
        while one.is_some() || two.is_some() {
            // How much later the one is than the other. Samples without a time go by their number.
            let later_us = match (one, two) {
                (Some(one), Some(two)) => one.zip(two).map_or(0, |(one, two)| one.saturating_sub(two)),
                (Some(_), None) => i64::MIN,
                (None, _) => i64::MAX,
            };
            let partners =
                one.is_some() && two.is_some() && later_us.unsigned_abs() <= near_us.unsigned_abs();
            if partners || later_us < 0 {
                of_before.push(partners);
                one = next_time(&mut before, zero_before)?;
            }
            if partners || later_us > 0 {
                of_after.push(partners);
                two = next_time(&mut after, zero_after)?;
            }
        }
        Ok((of_before, of_after))
    }

    /// Compares partners; the logs are read side by side.
    fn compare(
        &mut self,
        partners: &(Vec<bool>, Vec<bool>),
        tolerance: f64,
    ) -> Result<BTreeMap<String, Difference>> {
        let (in_before, in_after, zero) = (&self.before.1, &self.after.1, self.before.2);
        let paths: BTreeSet<String> = [&*self.before.0, &*self.after.0]
            .into_iter()
            .flat_map(Reader::records)
            .filter(|record| in_before.records.iter().any(|name| name == record.name()))
            .flat_map(|record| columns(record.ty()))
            .map(|column| column.path)
            .collect();
        let mut progress = Progress::new(self.before.0.size());
        let (mut before, mut after) =
            (Scan::begin(self.before.0, in_before)?, Scan::begin(self.after.0, in_after)?);
        let mut of_before = (0..).zip(&partners.0);
        let mut of_after = partners.1.iter();
        let mut fields = BTreeMap::new();
        let mut pair = |before: &Item<'_>| {
            progress.at(before.position);
            let one = before.value()?;
            let Some((number, &true)) = of_before.next() else { return Ok(()) };
            let mut partner = |after: &Item<'_>| {
                let two = after.value()?;
                if of_after.next() != Some(&true) {
                    return Ok(false);
                }
                compare_fields(one, two, (&paths, tolerance), |path, distance| {
                    let first_us = before.time_us.map(|time| time.saturating_sub(zero));
                    let fresh = || Difference { first: number, first_us, ..Difference::default() };
                    let difference = fields.entry(path.to_owned()).or_insert_with(fresh);
                    difference.samples += 1;
                    difference.largest = difference.largest.max(distance);
                });
                Ok(true)
            };
            while after.step(&mut partner)? == Some(false) {}
            Ok(())
        };
        while before.step(&mut pair)?.is_some() {}
        Ok(fields)
    }
}

/// The time of the next sample, if it has one; `None` behind the last.
fn next_time(scan: &mut Scan<'_, File>, zero: i64) -> Result<Option<Option<i64>>> {
    let time = |item: &Item<'_>| {
        item.value()?;
        Ok(item.time_us.map(|time| time.saturating_sub(zero)))
    };
    Ok(scan.step(time)?)
}

/// Calls `differs` with each field that differs and by how much: infinity where they are not numbers.
fn compare_fields(
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
    let field = |record: &str, (path, d): (&String, &Difference)| {
        let largest = d.largest.is_finite().then_some(d.largest);
        let first_s = d.first_us.map(|us| us as f64 / 1e6);
        json!({
            "field": path, "samples": d.samples, "first": d.first, "first_s": first_s, "largest": largest,
            "counts": counts(record, path),
        })
    };
    let record = |(name, o): (&String, &Outcome)| {
        let fields: Vec<_> = o.fields.iter().map(|of| field(name, of)).collect();
        json!({
            "record": name, "before": o.before, "after": o.after, "only_before": o.only_before,
            "only_after": o.only_after, "fields": fields,
        })
    };
    let all: Vec<_> = outcomes.iter().map(record).collect();
    format!("{}\n", serde_json::Value::from(all))
}

fn text_of(outcomes: &BTreeMap<String, Outcome>) -> Result<String> {
    let mut out = String::new();
    for (record, o) in outcomes {
        let same = if o.is_same(record) { ", the same" } else { "" };
        writeln!(out, "{}: {} and {} samples{same}", text::name(record), o.before, o.after)?;
        if o.only_before + o.only_after > 0 {
            writeln!(out, "  {} only in the first log, {} only in the second", o.only_before, o.only_after)?;
        }
        for (path, d) in &o.fields {
            let most =
                if d.largest.is_finite() { format!(", at most by {:.6e}", d.largest) } else { String::new() };
            let uncounted = if counts(record, path) { "" } else { "; does not count" };
            let path = text::name(path);
            let first = match d.first_us {
                Some(us) => format!("at {:.6} s", us as f64 / 1e6),
                None => format!("number {}", d.first),
            };
            let differ = if d.samples == 1 { "sample differs" } else { "samples differ" };
            writeln!(out, "  {path}: {} {differ}, first {first}{most}{uncounted}", d.samples)?;
        }
    }
    Ok(out)
}
