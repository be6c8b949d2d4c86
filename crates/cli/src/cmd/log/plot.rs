//! `khz log plot`: fields over time, as a page.

use super::shared::{Choice, Output, Progress, conclude, first_time, open, spare};
use crate::cmd::show;
use anyhow::{Context, Result, bail};
use khz_export::{Kind, columns, scan};
use khz_page::{Axis, Page, Plot, Section, Trace};
use khz_tlog::{Reader, Type, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// A plot of more lines than this shows nothing any more.
const MAX_LINES: usize = 400;

/// Plot fields over time to a self-contained HTML page
#[derive(clap::Args)]
pub struct Args {
    /// The log
    log: PathBuf,
    /// What to plot: `record`, `record.field` or `record.field.0`, each a plot of its own; a field of fields is one
    /// line per number in it
    #[arg(required = true)]
    what: Vec<String>,
    #[command(flatten)]
    choice: Choice,
    /// The page
    #[arg(short, long, default_value = "plot.html")]
    output: PathBuf,
    /// Overwrite the page if it is there
    #[arg(long)]
    force: bool,
}

/// One line: where its numbers come from.
struct Line {
    /// Which plot it is in.
    plot: usize,
    path: String,
    unit: Option<String>,
    trace: Trace,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    spare(&args.output, &[&args.log])?;
    let mut log = open(&args.log)?;
    log.survey()?;
    let mut lines = BTreeMap::<String, Vec<Line>>::new();
    for (plot, what) in args.what.iter().enumerate() {
        let (record, found) = resolve(&log, what)?;
        let found = found.into_iter().map(|(path, unit)| Line { plot, path, unit, trace: Trace::new() });
        lines.entry(record).or_default().extend(found);
    }
    let count: usize = lines.values().map(Vec::len).sum();
    if count > MAX_LINES {
        bail!(
            "{count} lines are too many to look at; name fields such as record.field (at most {MAX_LINES} lines)"
        );
    }
    let start_us = first_time(&mut log)?.unwrap_or(0);
    let mut selection = args.choice.selection(&mut log)?;
    selection.records = lines.keys().cloned().collect();
    let mut progress = Progress::new(log.size());
    let damage = scan(
        &mut log,
        &selection,
        |at| progress.at(at),
        |item| {
            let value = item.value()?;
            let seconds = item.time_us.map_or(f64::NAN, |time| (time - start_us) as f64 / 1e6);
            for line in lines.get_mut(item.record.name()).into_iter().flatten() {
                line.trace.push(seconds, number(value, &line.path));
            }
            Ok(true)
        },
    )?;
    drop(progress);
    let page = page(&args, &lines);
    let mut out = Output::new(&args.output, args.force)?;
    write!(out, "{page}").context("writing the page")?;
    out.keep()?;
    show(&format!("{}\n", args.output.display()))?;
    Ok(conclude(&args.log, &damage))
}

fn name_of(path: &str) -> String {
    crate::cmd::text::name(path).into_owned()
}

fn number(value: Value<'_>, path: &str) -> f64 {
    let found = if path.is_empty() { Some(value) } else { value.at(path) };
    found.and_then(|value| value.number()).unwrap_or(f64::NAN)
}

/// A number's path and unit.
type Number = (String, Option<String>);

/// The record of `record.field…` and all numbers below the field.
fn resolve(log: &Reader<File>, what: &str) -> Result<(String, Vec<Number>)> {
    let (name, field) = what.split_once('.').unwrap_or((what, ""));
    let record = log.record(name)?;
    let paths = numbers(record.ty(), field);
    if paths.is_empty() {
        let known: Vec<_> =
            columns(record.ty()).into_iter().map(|column| name_of(&column.path)).take(30).collect();
        bail!("no numbers at {field:?} in the record {name:?}; it has {}", known.join(", "));
    }
    Ok((name.to_owned(), paths))
}

fn numbers(ty: &Type, field: &str) -> Vec<Number> {
    if !matches!(ty, Type::Object(_) | Type::FixedArray(..)) {
        return if field.is_empty() { vec![(String::new(), None)] } else { Vec::new() };
    }
    let below = |path: &str| {
        field.is_empty()
            || path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let has_numbers = |kind| !matches!(kind, Kind::Bytes | Kind::Json);
    let all = columns(ty).into_iter().filter(|column| has_numbers(column.kind) && below(&column.path));
    all.map(|column| (column.path, column.unit)).collect()
}

/// The unit of a plot, if all its lines have the same.
fn unit_of(lines: &BTreeMap<String, Vec<Line>>, plot: usize) -> &str {
    let mut units =
        lines.values().flatten().filter(|line| line.plot == plot).map(|line| line.unit.as_deref());
    let first = units.next().flatten();
    first.filter(|_| units.all(|unit| unit == first)).unwrap_or_default()
}

fn page(args: &Args, lines: &BTreeMap<String, Vec<Line>>) -> Page {
    let mut section = Section::new("Fields over time");
    for (index, what) in args.what.iter().enumerate() {
        let mut plot = Plot::over_time(what.as_str(), Axis::new("", unit_of(lines, index)));
        for (record, line) in
            lines.iter().flat_map(|(record, lines)| lines.iter().map(move |line| (record, line)))
        {
            if line.plot == index {
                let name = if line.path.is_empty() { record } else { &line.path };
                plot = plot.line(name.as_str(), &line.trace);
            }
        }
        section = section.with(plot);
    }
    Page::new(args.log.display().to_string()).section(section)
}
