//! `khz log cat`: samples as text.

use super::shared::{Choice, Progress, check_fields, conclude, open, printing, stdout, table_out};
use anyhow::{Result, bail};
use khz_export::{CsvWriter, Damage, ExportError, Json, Text, scan};
use khz_tlog::{Item, Reader};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Print samples as JSON lines or CSV
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz log cat run.tlog -r servo -f pan.position --from 2 --to 2.5
  khz log cat run.tlog -r event
  khz log cat run.tlog -r tick --csv -f cycle_ns > cycle.csv
  khz log cat run.tlog --follow")]
pub struct Args {
    /// The log
    log: PathBuf,
    #[command(flatten)]
    choice: Choice,
    /// Only these fields of the record, such as `front_left_hip.position` or `rate.0`
    #[arg(short, long = "field", value_name = "PATH")]
    fields: Vec<String>,
    /// Print CSV; needs exactly one --record
    #[arg(long)]
    csv: bool,
    /// Follow the log as it grows, until interrupted
    #[arg(short = 'F', long, conflicts_with_all = ["csv", "to"])]
    follow: bool,
    /// Print JSON lines, which is the default
    #[arg(long, conflicts_with = "csv")]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut log = open(&args.log)?;
    if !args.fields.is_empty() {
        check_fields(&mut log, &args.choice.records, &args.fields)?;
    }
    if args.follow {
        return printing(|out| follow(&mut log, &args, out));
    }
    let damage = printing_to(&mut log, &args);
    match damage {
        Err(error) if super::shared::is_closed_pipe(&error) => Ok(ExitCode::SUCCESS),
        other => Ok(conclude(&args.log, &other?)),
    }
}

fn printing_to(log: &mut Reader<File>, args: &Args) -> Result<Damage> {
    let selection = args.choice.selection(log)?;
    let mut out = if args.csv { table_out() } else { stdout() };
    // A progress bar between the lines on a terminal would be in the way.
    let mut progress =
        (!std::io::IsTerminal::is_terminal(&std::io::stdout())).then(|| Progress::new(log.size()));
    let message = |at| {
        if let Some(progress) = &mut progress {
            progress.at(at);
        }
    };
    if !args.csv {
        let damage =
            scan(log, &selection, message, |item| json_line(item, &args.fields, &mut out).map(|()| true))?;
        out.flush()?;
        return Ok(damage);
    }
    let [name] = args.choice.records.as_slice() else {
        bail!("a CSV table needs exactly one --record: the records have different columns");
    };
    log.survey()?;
    let mut table = CsvWriter::new(out, log.record(name)?.ty(), &args.fields)?;
    let damage = scan(log, &selection, message, |item| table.write(item).map(|()| true))?;
    table.finish()?;
    Ok(damage)
}

/// `{"time":1583798400.000000,"record":"imu","value":{…}}`; nothing for a sample without any of the fields.
fn json_line(item: &Item<'_>, fields: &[String], out: &mut dyn Write) -> Result<(), ExportError> {
    let value = item.value()?;
    if !fields.is_empty() && fields.iter().all(|field| value.at(field).is_none()) {
        return Ok(());
    }
    match item.time_us {
        Some(us) => write!(out, "{{\"time\":{}.{:06}", us.div_euclid(1_000_000), us.rem_euclid(1_000_000))?,
        None => write!(out, "{{\"time\":null")?,
    }
    write!(out, ",\"record\":{}", Text(item.record.name()))?;
    if fields.is_empty() {
        return Ok(writeln!(out, ",\"value\":{}}}", Json(value))?);
    }
    for field in fields {
        if let Some(value) = value.at(field) {
            write!(out, ",{}:{}", Text(field), Json(value))?;
        }
    }
    Ok(writeln!(out, "}}")?)
}

fn follow(log: &mut Reader<File>, args: &Args, out: &mut dyn Write) -> Result<ExitCode> {
    let selection = args.choice.selection(log)?;
    if !selection.records.is_empty() {
        log.select(selection.records);
    }
    let from_us = selection.from_us.unwrap_or(i64::MIN);
    loop {
        while let Some(item) = log.next_if_grown()? {
            if item.time_us.is_none_or(|time| time >= from_us) {
                json_line(&item, &args.fields, out)?;
            }
        }
        out.flush()?;
        std::thread::sleep(Duration::from_millis(100));
    }
}
