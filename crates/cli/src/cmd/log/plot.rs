//! `khz log plot`: fields over time, as a page.

use super::shared::{Choice, Output, Progress, conclude, first_time, no_field, open, paths, record, spare};
use crate::cmd::{show, view};
use anyhow::{Context, Result, bail};
use khz_export::{ColumnType, columns, scan};
use khz_page::{Axis, Page, Plot, Section, Stroke, Trace};
use khz_tlog::{Reader, RecordInfo, Type, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// A plot of more lines than this shows nothing any more.
const MAX_LINES: usize = 400;

/// Plot fields over time to a self-contained HTML page
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz log plot run.tlog pan.position --open        of the servo and of its command, on the same axes
  khz log plot run.tlog servo.*.torque tick.cycle_ns -o torque.html")]
pub struct Args {
    /// The log
    log: PathBuf,
    /// What to plot: `record`, `record.field`, or `field` of every record that has it; `*` is any name, such as
    /// `servo.*.position`. A field of fields is one line per number in it. What has the same unit is on the same axes
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
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
}

/// Lines of one unit on the same axes; what has no unit, only with what was asked for with it.
#[derive(Debug, PartialEq)]
struct Axes {
    unit: Option<String>,
    /// What was asked for.
    what: Vec<String>,
}

/// The axes for a line, made if there are none yet.
fn axes_for(axes: &mut Vec<Axes>, what: &str, unit: Option<&str>) -> usize {
    let fits = |axes: &Axes| match unit {
        Some(_) => axes.unit.as_deref() == unit,
        None => axes.unit.is_none() && axes.what == [what],
    };
    let place = axes.iter().position(fits).unwrap_or_else(|| {
        axes.push(Axes { unit: unit.map(str::to_owned), what: Vec::new() });
        axes.len() - 1
    });
    if !axes[place].what.iter().any(|known| known == what) {
        axes[place].what.push(what.to_owned());
    }
    place
}

/// One line: where its numbers come from.
struct Line {
    /// Which axes it is on.
    plot: usize,
    path: String,
    trace: Trace,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    spare(&args.output, &[&args.log])?;
    let mut log = open(&args.log)?;
    log.survey()?;
    let mut lines = BTreeMap::<String, Vec<Line>>::new();
    let mut axes = Vec::new();
    for what in &args.what {
        for (record, found) in resolve(&log, what)? {
            let lines = lines.entry(record).or_default();
            for (path, unit) in found {
                let plot = axes_for(&mut axes, what, unit.as_deref());
                if !lines.iter().any(|line| line.plot == plot && line.path == path) {
                    lines.push(Line { plot, path, trace: Trace::new() });
                }
            }
        }
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
    let page = page(&args, &axes, &lines);
    let mut out = Output::new(&args.output, args.force)?;
    write!(out, "{page}").context("writing the page")?;
    out.keep()?;
    show(&format!("{}\n", args.output.display()))?;
    if args.open {
        view::open_page(&args.output.to_string_lossy());
    }
    Ok(conclude(&args.log, &damage))
}

fn number(value: Value<'_>, path: &str) -> f64 {
    let found = if path.is_empty() { Some(value) } else { value.at(path) };
    found.and_then(|value| value.number()).unwrap_or(f64::NAN)
}

/// A number's path and unit.
type Number = (String, Option<String>);

/// The records of `record.field…`, or of `field…`, and all numbers below the field in each.
fn resolve(log: &Reader<File>, what: &str) -> Result<Vec<(String, Vec<Number>)>> {
    let (name, field) = what.split_once('.').unwrap_or((what, ""));
    let found = match log.record(name) {
        Ok(record) => vec![(record.name().to_owned(), numbers(record.ty(), field))],
        Err(_) => log
            .records()
            .iter()
            .map(|record| (record.name().to_owned(), numbers(record.ty(), what)))
            .collect(),
    };
    let found: Vec<_> = found.into_iter().filter(|(_, numbers)| !numbers.is_empty()).collect();
    if found.is_empty() {
        bail!("{}", nothing_at(log, what));
    }
    Ok(found)
}

fn nothing_at(log: &Reader<File>, what: &str) -> String {
    let (name, field) = what.split_once('.').unwrap_or((what, ""));
    match (log.record(name), record(log, name)) {
        (Ok(record), _) => {
            format!("in the record {name:?}: no numbers at {field:?}: {}", no_field(field, &paths(record)))
        }
        (_, Err(error)) if field.is_empty() => format!("{error}"),
        _ => {
            let full = |record: &RecordInfo| {
                paths(record).into_iter().map(|path| format!("{}.{path}", record.name())).collect::<Vec<_>>()
            };
            no_field(what, &log.records().iter().flat_map(full).collect::<Vec<_>>())
        }
    }
}

fn numbers(ty: &Type, field: &str) -> Vec<Number> {
    if !matches!(ty, Type::Object(_) | Type::FixedArray(..)) {
        return if field.is_empty() { vec![(String::new(), None)] } else { Vec::new() };
    }
    let has_numbers = |kind| !matches!(kind, ColumnType::Bytes | ColumnType::Json);
    let all =
        columns(ty).into_iter().filter(|column| has_numbers(column.kind) && is_below(&column.path, field));
    all.map(|column| (column.path, column.unit)).collect()
}

/// Whether a path begins with the names of `field`, in which `*` is any.
fn is_below(path: &str, field: &str) -> bool {
    let mut names = path.split('.');
    field.is_empty()
        || field.split('.').all(|wanted| names.next().is_some_and(|name| wanted == "*" || wanted == name))
}

/// The field's path; with that of its record where the plot has lines of several.
fn line_name(lines: &BTreeMap<String, Vec<Line>>, plot: usize, record: &str, path: &str) -> String {
    let records = lines.values().filter(|lines| lines.iter().any(|line| line.plot == plot)).count();
    match (path, records) {
        ("", _) => record.to_owned(),
        (path, 1) => path.to_owned(),
        (path, _) => format!("{record}.{path}"),
    }
}

fn page(args: &Args, axes: &[Axes], lines: &BTreeMap<String, Vec<Line>>) -> Page {
    let mut section = Section::new("Fields over time");
    for (index, Axes { unit, what }) in axes.iter().enumerate() {
        let mut plot = Plot::over_time(what.join(", "), Axis::new("", unit.as_deref().unwrap_or_default()));
        for (record, line) in
            lines.iter().flat_map(|(record, lines)| lines.iter().map(move |line| (record, line)))
        {
            if line.plot == index {
                let stroke = if record == "command" { Stroke::Dashed } else { Stroke::Solid };
                plot = plot.stroke(line_name(lines, index, record, &line.path), &line.trace, stroke);
            }
        }
        section = section.with(plot);
    }
    Page::new(args.log.display().to_string()).section(section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_the_same_unit_is_on_the_same_axes() {
        let mut axes = Vec::new();
        let asked = [
            ("servo.pan.position", Some("rad")),
            ("command.pan.position", Some("rad")),
            ("tick", Some("ns")),
            ("tick", None),
            ("imu.attitude", None),
            ("tick", None),
        ];
        let places = asked.map(|(what, unit)| axes_for(&mut axes, what, unit));
        assert_eq!(places, [0, 0, 1, 2, 3, 2]);
        assert_eq!(axes[0].what, ["servo.pan.position", "command.pan.position"]);
    }
}
