//! `khz log export`: logs for other tools.

use super::shared::{Choice, Output, Progress, conclude, open, spare};
use crate::cmd::text::{name, shortened};
use crate::cmd::{note, show, warn};
use anyhow::{Context, Result, bail};
use khz_export::{CsvWriter, Damage, Integers, McapWriter, Names, Selection, scan};
use khz_tlog::{Item, Reader};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Convert a log: MCAP for Foxglove, PlotJuggler and Rerun; CSV or Parquet tables; many logs: a dataset
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz log export run.tlog -o run.mcap
  khz log export run.tlog --format csv -r servo
  khz log export run.tlog -o tables.parquet --from 10
  khz log export *.tlog --format dataset -o logs    adds what is not in the dataset yet
  khz log export *.tlog --format lerobot -o nod --fps 30 --task nod")]
pub struct Args {
    /// The log; several for a dataset, or for LeRobot, where each is an episode
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// The format; by default that of the --output's ending
    #[arg(long)]
    format: Option<Format>,
    /// The file (MCAP), or the folder for one table per record (CSV, Parquet) or for the dataset. Default, except for a
    /// dataset: beside the log
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// For LeRobot: frames per second, at most; each has the time of its tick
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    fps: Option<u32>,
    /// For LeRobot: a description of what the robot does
    #[arg(long, value_name = "TEXT")]
    task: Option<String>,
    /// For datasets: the robot's name, for logs that do not have it
    #[arg(long, value_name = "NAME")]
    robot: Option<String>,
    #[command(flatten)]
    choice: Choice,
    /// For tables: only these fields
    #[arg(short, long = "field", value_name = "PATH")]
    fields: Vec<String>,
    /// For MCAP: keep 64-bit integers as they are; without it they become the nearest float64, because PlotJuggler stops at
    /// integers beyond 2^53
    #[arg(long)]
    exact_integers: bool,
    /// Overwrite files that are there
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// One MCAP file with all records
    Mcap,
    /// A table of text per record
    Csv,
    /// A Parquet table per record
    Parquet,
    /// Parquet tables of many logs, by robot and day, for DuckDB, Polars, Spark and Ray
    Dataset,
    /// A dataset of LeRobot (v3.0) of the joints, with the times of their ticks; each log is an episode
    Lerobot,
}

impl Format {
    /// The format of a file or folder of this name.
    fn of(output: &Path) -> Option<Self> {
        match output.extension()?.to_str()? {
            "mcap" => Some(Self::Mcap),
            "csv" => Some(Self::Csv),
            "parquet" => Some(Self::Parquet),
            _ => None,
        }
    }
}

/// Bytes of a table's file name before its number and extension: file systems allow 255 in all.
const MAX_NAME: usize = 200;

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    let format = args.format.or_else(|| Format::of(args.output.as_deref()?));
    let format =
        format.context("which format? Give --format, or an --output that ends in .mcap, .csv or .parquet")?;
    if args.exact_integers && format != Format::Mcap {
        bail!("--exact-integers is for MCAP; tables keep all digits anyway");
    }
    if format != Format::Lerobot && (args.fps.is_some() || args.task.is_some()) {
        bail!("--fps and --task are for LeRobot");
    }
    if format == Format::Lerobot {
        return lerobot(&args);
    }
    if format == Format::Dataset {
        return dataset(&args);
    }
    if args.robot.is_some() {
        bail!("--robot is for datasets");
    }
    let [log] = &args.logs[..] else {
        bail!("only a dataset takes several logs; export one after the other");
    };
    let path = log;
    let mut log = open(path)?;
    let selection = args.choice.selection(&mut log)?;
    let damage = match format {
        Format::Mcap => mcap(&mut log, path, &args, &selection)?,
        Format::Csv => tables(&mut log, path, &args, &selection, "csv", csv_table)?,
        Format::Parquet | Format::Dataset | Format::Lerobot => parquet(&mut log, path, &args, &selection)?,
    };
    Ok(conclude(path, &damage))
}

fn mcap(log: &mut Reader<File>, from: &PathBuf, args: &Args, selection: &Selection) -> Result<Damage> {
    if !args.fields.is_empty() {
        bail!("--field is for tables; MCAP files have whole records");
    }
    let path = args.output.clone().unwrap_or_else(|| from.with_extension("mcap"));
    spare(&path, &[from])?;
    let integers = if args.exact_integers { Integers::Exact } else { Integers::Rounded };
    let mut out = McapWriter::new(Output::new(&path, args.force)?, integers)?;
    let mut progress = Progress::new(log.size());
    let damage = scan(log, selection, |at| progress.at(at), |item| out.write(item).map(|()| true))?;
    let beyond: Vec<_> = out.beyond_float64().map(|record| name(record).into_owned()).collect();
    out.finish()?.keep()?;
    show_path(&path)?;
    if !beyond.is_empty() {
        warn(format_args!(
            "64-bit integers in {} are beyond what float64 holds exactly; {}",
            beyond.join(", "),
            fate(integers)
        ));
    }
    Ok(damage)
}

/// What becomes of integers that no float64 holds exactly.
const fn fate(integers: Integers) -> &'static str {
    match integers {
        Integers::Rounded => "they were rounded: --exact-integers keeps all digits",
        Integers::Exact => {
            "PlotJuggler stops there: export without --exact-integers, or switch off its strict truncation check (Preferences, \
             Behavior, Parsing)"
        }
    }
}

/// A table being written.
trait Table {
    fn write(&mut self, item: &Item<'_>) -> Result<(), khz_export::ExportError>;
    fn finish(self: Box<Self>) -> Result<()>;
}

impl Table for CsvWriter<Output> {
    fn write(&mut self, item: &Item<'_>) -> Result<(), khz_export::ExportError> {
        Self::write(self, item)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(Self::finish(*self)?.keep()?)
    }
}

type Begin = fn(Output, &khz_tlog::Type, &[String]) -> Result<Box<dyn Table>, khz_export::ExportError>;

fn csv_table(
    out: Output,
    ty: &khz_tlog::Type,
    fields: &[String],
) -> Result<Box<dyn Table>, khz_export::ExportError> {
    Ok(Box::new(CsvWriter::new(out, ty, fields)?))
}

/// Writes a table per record into a folder. Record names come from the log, so they are made harmless; of records whose
/// names become the same, or the schema of which changed on the way, all but the first have a number behind theirs.
fn tables(
    log: &mut Reader<File>,
    from: &PathBuf,
    args: &Args,
    selection: &Selection,
    extension: &str,
    begin: Begin,
) -> Result<Damage> {
    let folder = args.output.clone().unwrap_or_else(|| from.with_extension(extension));
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    log.survey()?;
    let mut open = BTreeMap::<u64, (PathBuf, Box<dyn Table>)>::new();
    let mut names = Names::default();
    for record in log.records() {
        if selection.records.is_empty() || selection.records.iter().any(|name| name == record.name()) {
            let name = names.unique(&harmless(record.name()));
            let path = folder.join(format!("{name}.{extension}"));
            note_if_cut(record.name(), &path);
            spare(&path, &[from])?;
            let table = begin(Output::new(&path, args.force)?, record.ty(), &args.fields)?;
            open.insert(record.position(), (path, table));
        }
    }
    let mut progress = Progress::new(log.size());
    let damage = scan(
        log,
        selection,
        |at| progress.at(at),
        |item| {
            if let Some((_, table)) = open.get_mut(&item.record.position()) {
                table.write(item)?;
            }
            Ok(true)
        },
    )?;
    drop(progress);
    for (path, table) in open.into_values() {
        table.finish()?;
        show_path(&path)?;
    }
    Ok(damage)
}

#[cfg(feature = "parquet")]
impl Table for khz_export::ParquetWriter<Output> {
    fn write(&mut self, item: &Item<'_>) -> Result<(), khz_export::ExportError> {
        Self::write(self, item)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(Self::finish(*self)?.keep()?)
    }
}

#[cfg(feature = "parquet")]
fn parquet(log: &mut Reader<File>, from: &PathBuf, args: &Args, selection: &Selection) -> Result<Damage> {
    tables(log, from, args, selection, "parquet", |out, ty, fields| {
        Ok(Box::new(khz_export::ParquetWriter::new(out, ty, fields)?))
    })
}

#[cfg(not(feature = "parquet"))]
fn parquet(_: &mut Reader<File>, _: &PathBuf, _: &Args, _: &Selection) -> Result<Damage> {
    bail!("this khz was built without Parquet: build it with `--features parquet`, or export CSV")
}

/// Adds logs to a dataset.
#[cfg(feature = "parquet")]
fn dataset(args: &Args) -> Result<ExitCode> {
    let folder = args.output.as_deref().context("which folder has the dataset? Give --output")?;
    if folder.to_str().is_some_and(|folder| folder.contains("://")) {
        bail!(
            "{}: a dataset is written to a folder; `docs/datasets.md` says how it gets into a bucket",
            folder.display()
        );
    }
    if args.choice != super::shared::Choice::default() || !args.fields.is_empty() {
        bail!("a dataset has whole logs: --record, --from, --to and --field are for single tables");
    }
    super::dataset::add(&args.logs, folder, args.robot.as_deref())
}

#[cfg(not(feature = "parquet"))]
fn dataset(_: &Args) -> Result<ExitCode> {
    bail!("this khz was built without Parquet: build it with `--features parquet`")
}

/// Writes a dataset of LeRobot.
#[cfg(feature = "parquet")]
fn lerobot(args: &Args) -> Result<ExitCode> {
    let folder = args.output.as_deref().context("which folder is the dataset to be? Give --output")?;
    let is_whole = args.choice == super::shared::Choice::default() && args.fields.is_empty();
    if !is_whole || args.robot.is_some() || args.force {
        bail!(
            "a dataset of LeRobot has whole logs, and a new folder: only --output, --fps and --task are for it"
        );
    }
    super::lerobot::write(&args.logs, folder, args.fps.unwrap_or(30), args.task.as_deref().unwrap_or(""))
}

#[cfg(not(feature = "parquet"))]
fn lerobot(_: &Args) -> Result<ExitCode> {
    bail!("this khz was built without Parquet: build it with `--features parquet`")
}

/// A file name of letters, digits, `-` and `_`, cut to [`MAX_NAME`].
fn harmless(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_".contains(c) { c } else { '_' };
    let within = |&(end, c): &(usize, char)| end + c.len_utf8() <= MAX_NAME;
    match name.is_empty() {
        true => "unnamed".into(),
        false => name.char_indices().take_while(within).map(|(_, c)| plain(c)).collect(),
    }
}

/// Which table has the samples of a record whose name is too long for a file.
fn note_if_cut(record: &str, path: &Path) {
    if record.len() > MAX_NAME {
        let (begin, table) = (shortened(record), path.display());
        note(format_args!(
            "the record {begin} has a name of {} bytes, too long for a file; its table is {table}",
            record.len()
        ));
    }
}

fn show_path(path: &Path) -> Result<()> {
    show(&format!("{}\n", path.display()))
}
