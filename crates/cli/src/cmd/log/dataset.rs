//! `khz log export --format dataset`: many logs as one dataset.

use super::shared::{Progress, conclude};
use crate::cmd::text::{name, shortened};
use crate::cmd::{complain, note, show, warn};
use anyhow::{Context, Result};
use khz_export::dataset::{Added, Change, Dataset, DatasetError};
use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Adds the logs, one after the other. One that cannot be read does not stop those behind it; a dataset that cannot be written
/// does.
pub fn add(logs: &[PathBuf], folder: &Path, robot: Option<&str>) -> Result<ExitCode> {
    let dataset = Dataset::open(folder)?;
    let (mut unreadable, mut imperfect) = (0, false);
    for path in logs {
        match one(&dataset, path, robot) {
            Ok(is_perfect) => imperfect |= !is_perfect,
            Err(error) if is_of_log(&error) => {
                complain(&error);
                unreadable += 1;
            }
            Err(error) => return Err(error),
        }
    }
    if unreadable > 0 {
        note(format_args!("{unreadable} of {} logs could not be read; the others are in", logs.len()));
        return Ok(ExitCode::from(crate::cmd::BAD_INPUT));
    }
    Ok(if imperfect { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Whether the log is to blame, and not the dataset.
fn is_of_log(error: &anyhow::Error) -> bool {
    use khz_export::ExportError::Log;
    match error.downcast_ref::<DatasetError>() {
        Some(error) => {
            matches!(error, DatasetError::Empty | DatasetError::NoFile | DatasetError::Export(Log(_)))
        }
        // It could not even be opened.
        None => true,
    }
}

/// Adds one log. False if something of it is not in.
fn one(dataset: &Dataset, path: &Path, robot: Option<&str>) -> Result<bool> {
    // A pipe is refused and not waited for.
    let mut how = File::options();
    how.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let log = how.open(path).with_context(|| format!("cannot open the log {}", path.display()))?;
    let mut progress = Progress::new(log.metadata().map_or(0, |about| about.len()));
    let called = path.file_name().unwrap_or_default().to_string_lossy();
    let added = dataset.add(&log, &called, robot, |at| progress.at(at));
    drop(progress);
    let added = added.map_err(|error| anyhow::Error::new(error).context(path.display().to_string()))?;
    show(&format!("{}: {}\n", path.display(), added_text(&added)))?;
    if let Some(robot) = robot.filter(|robot| !added.robots.iter().any(|named| named == robot)) {
        let why = match added.change {
            Change::Unchanged | Change::Older => {
                "the log was in before and stays as it is; to add it with another robot, remove it from the dataset first"
            }
            _ => "the log names its robot itself",
        };
        note(format_args!("--robot {} is not used: {why}", name(robot)));
    } else if added.robots.is_empty() {
        note("the log does not name its robot, so its rows have none; --robot gives it one");
    }
    if !added.alike.is_empty() {
        let alike: Vec<_> =
            added.alike.iter().map(|(log, file)| format!("{log} ({})", shortened(file))).collect();
        warn(format_args!(
            "{}: it begins as {} does, which is in, and is neither an earlier nor a later state of it: if it is a damaged \
             copy or an extract, its samples now count twice; then remove one of them (docs/datasets.md)",
            path.display(),
            alike.join(", ")
        ));
    }
    match added.day.as_deref() {
        None => note("the log has no time from 1970 to 9999, so its rows have no day"),
        Some("1970-01-01") => note("the log begins on the day on which clocks begin that were never set"),
        _ => {}
    }
    for (record, why) in &added.left_out {
        warn(format_args!("{}: the record {} is left out: {why}", path.display(), shortened(record)));
    }
    let is_whole = conclude(path, &added.damage) == ExitCode::SUCCESS;
    Ok(is_whole && added.left_out.is_empty())
}

fn added_text(added: &Added) -> String {
    let robots: Vec<_> = added.robots.iter().map(|robot| name(robot)).collect();
    let robots = if robots.is_empty() { "no robot".to_owned() } else { robots.join(", ") };
    let day = added.day.as_deref().unwrap_or("no day");
    let what = match added.change {
        Change::New => format!("{} rows", added.rows),
        Change::Grown => format!("{} rows, in the place of its former state", added.rows),
        Change::Renewed => format!("{} rows, in the place of those of an older khz", added.rows),
        Change::Unchanged => "already in".into(),
        Change::Older => "all of it is already in".into(),
    };
    format!("{} {robots} {day}, {what}", added.log)
}
