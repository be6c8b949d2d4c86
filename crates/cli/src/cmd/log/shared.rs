//! What the log commands have in common: opening, choosing, progress, reports of damage.

pub use crate::cmd::output::{Output, create, spare};
pub use crate::cmd::progress::Progress;
use crate::cmd::text::{self, Printable};
use crate::cmd::{note, warn};
use anyhow::{Context, Result, anyhow, bail};
use khz_export::{Damage, Selection, columns, scan};
use khz_page::for_shell;
use khz_settings::nearest;
use khz_tlog::{Item, Reader, RecordInfo};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

/// Which samples of a log.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub struct Choice {
    /// Only these records
    #[arg(short, long = "record", value_name = "NAME")]
    pub records: Vec<String>,
    /// From this time on: seconds from the log's first sample, or `@` and seconds since 1970
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub from: Option<When>,
    /// Up to this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub to: Option<When>,
}

/// A time as a user types it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// µs from the log's first sample.
    Since(i64),
    /// µs since the Unix epoch.
    At(i64),
}

fn parse_time(text: &str) -> Result<When, String> {
    let (absolute, number) = text.strip_prefix('@').map_or((false, text), |number| (true, number));
    let seconds: f64 = number.trim_end_matches('s').parse().map_err(|_| "a time is a number of seconds")?;
    if !seconds.is_finite() {
        return Err("a time is a finite number of seconds".into());
    }
    let us = (seconds * 1e6).round() as i64;
    Ok(if absolute { When::At(us) } else { When::Since(us) })
}

impl Choice {
    /// The same with absolute times, of records that are in the log.
    pub fn selection(&self, log: &mut Reader<File>) -> Result<Selection> {
        if !self.records.is_empty() {
            log.survey()?;
            self.records.iter().try_for_each(|name| record(log, name).map(drop))?;
        }
        self.within(log)
    }

    /// As [`Choice::selection`], of a log that need not have the records.
    pub fn within(&self, log: &mut Reader<File>) -> Result<Selection> {
        let first_us = match (self.from, self.to) {
            (None, None) => None,
            _ => first_time(log)?,
        };
        let absolute = |when| match when {
            When::At(us) => us,
            When::Since(us) => first_us.unwrap_or(0).saturating_add(us),
        };
        let (from_us, to_us) = (self.from.map(absolute), self.to.map(absolute));
        Ok(Selection { records: self.records.clone(), from_us, to_us })
    }
}

/// The time of the first sound sample that has one, of the records selected in `log` (all by default).
pub fn first_time(log: &mut Reader<File>) -> Result<Option<i64>> {
    let mut first = None;
    // Damage is reported when the samples are read.
    let to_first = |item: &Item<'_>| {
        first = item.time_us;
        Ok(first.is_none())
    };
    scan(log, &Selection::default(), |_| {}, to_first)?;
    log.rewind();
    Ok(first)
}

/// The record of this name.
///
/// # Errors
/// If there is none: which there are, and which may be meant.
pub fn record<'a>(log: &'a Reader<File>, name: &str) -> Result<&'a RecordInfo> {
    log.record(name).map_err(|error| {
        let names: Vec<&str> = log.records().iter().map(RecordInfo::name).collect();
        anyhow!("{error}{}", did_you_mean(&nearest(name, &names).into_iter().collect::<Vec<_>>()))
    })
}

/// Checks that every field is in one of the records, as far as their schemas are known.
///
/// # Errors
/// The first that is in none: which may be meant, and which there are.
pub fn check_fields(log: &mut Reader<File>, records: &[String], fields: &[String]) -> Result<()> {
    log.survey()?;
    let chosen =
        |record: &&RecordInfo| records.is_empty() || records.iter().any(|name| name == record.name());
    let mut paths: Vec<String> = log.records().iter().filter(chosen).flat_map(paths).collect();
    let mut seen = HashSet::new();
    paths.retain(|path| seen.insert(path.clone()));
    let wrong = fields
        .iter()
        .find(|field| !paths.iter().any(|path| is_within(path, field) || is_within(field, path)));
    match wrong {
        Some(field) if !paths.is_empty() => bail!("{}", no_field(field, &paths)),
        _ => Ok(()),
    }
}

/// `no field "pan.positon"; did you mean …`
pub fn no_field(field: &str, paths: &[String]) -> String {
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let known: Vec<_> = paths.iter().take(SHOWN_FIELDS).map(|path| text::name(path)).collect();
    let more = if paths.len() > SHOWN_FIELDS { ", …" } else { "" };
    let like = did_you_mean(&like(field, &paths));
    format!("no field {field:?}; there are {}{more}{like}", known.join(", "))
}

/// Paths that may be meant: the one most like it, or those whose last name is.
fn like<'a>(field: &str, paths: &[&'a str]) -> Vec<&'a str> {
    if let Some(path) = nearest(field, paths) {
        return vec![path];
    }
    let last = |path: &'a str| path.rsplit('.').next().unwrap_or(path);
    let names: Vec<&str> = paths.iter().map(|path| last(path)).collect();
    let meant = nearest(field.rsplit('.').next().unwrap_or(field), &names);
    paths.iter().filter(|path| Some(last(path)) == meant).take(3).copied().collect()
}

fn did_you_mean(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        names => format!(
            " (did you mean {}?)",
            names.iter().map(|name| text::name(name)).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// Fields that a message lists.
const SHOWN_FIELDS: usize = 30;

/// The paths of a record's fields.
pub fn paths(record: &RecordInfo) -> Vec<String> {
    columns(record.ty()).into_iter().map(|column| column.path).collect()
}

/// Whether `path` is that of `field`, or of something in it.
pub fn is_within(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Opens a log.
pub fn open(path: &Path) -> Result<Reader<File>> {
    let file = File::open(path).with_context(|| format!("cannot open the log {}", path.display()))?;
    Reader::open(file).with_context(|| path.display().to_string())
}

/// Standard output, buffered, for text and JSON: what a terminal would obey is escaped.
pub fn stdout() -> BufWriter<Box<dyn Write>> {
    BufWriter::with_capacity(64 << 10, Box::new(Printable::new(std::io::stdout().lock())))
}

/// Standard output, buffered, for tables that other programs read: as it is, unless a person reads it.
pub fn table_out() -> BufWriter<Box<dyn Write>> {
    if std::io::stdout().is_terminal() {
        return stdout();
    }
    BufWriter::with_capacity(64 << 10, Box::new(std::io::stdout().lock()))
}

/// Reports damage on stderr and returns the exit code.
pub fn conclude(path: &Path, damage: &Damage) -> ExitCode {
    let Some(first) = &damage.first else { return ExitCode::SUCCESS };
    warn(format_args!("{}: {first}", path.display()));
    match damage.places - 1 {
        0 => {}
        1 => warn(format_args!("{}: 1 more damaged place", path.display())),
        more => warn(format_args!("{}: {more} more damaged places", path.display())),
    }
    let (log, whole) = (path.display().to_string(), path.with_extension("whole.tlog").display().to_string());
    let [log, whole] = [log, whole].map(|path| for_shell(&path));
    note(format_args!("the rest was read; `khz log repair {log} --output {whole}` writes it to a whole log"));
    ExitCode::from(1)
}

/// Whether an error only means that the reader of our output is gone.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let closed = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(closed)
            || matches!(cause.downcast_ref(), Some(khz_export::ExportError::Write(error)) if closed(error))
    })
}

/// Writes to standard output; that its reader goes away early is no error.
pub fn printing(write: impl FnOnce(&mut dyn Write) -> Result<ExitCode>) -> Result<ExitCode> {
    let mut out = stdout();
    let outcome = write(&mut out).and_then(|code| {
        out.flush()?;
        Ok(code)
    });
    match outcome {
        Err(error) if is_closed_pipe(&error) => Ok(ExitCode::SUCCESS),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_or_absolute() {
        assert_eq!(parse_time("2.5"), Ok(When::Since(2_500_000)));
        assert_eq!(parse_time("2.5s"), Ok(When::Since(2_500_000)));
        assert_eq!(parse_time("@1583798400"), Ok(When::At(1_583_798_400_000_000)));
        assert!(parse_time("soon").is_err() && parse_time("inf").is_err());
    }
}
