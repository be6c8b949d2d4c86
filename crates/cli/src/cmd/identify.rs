//! `khz identify`: what an emulated servo must be made of to move as a recorded one did.

use super::progress::counted;
use super::robot_file::RobotFile;
use super::{BAD_INPUT, complain, note, output, show};
use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use khz_file::RobotConfig;
use khz_file::config::ServoConfig;
use khz_file::edit::{rewritten, set};
use khz_identify::recording::{Known, Rig};
use khz_identify::results::Written;
use khz_identify::{Columns, Found, Friction, Recording, Split, identify, log};
use khz_tlog::{Reader, Value};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Recordings beyond this are refused before they are read, bytes.
const LARGEST: u64 = 256 << 20;

/// A servo's table of how well its joint is known.
const UNCERTAINTY: &str = "uncertainty";

/// Fit an emulated servo to recordings of a real one
///
/// Recordings are logs of Kilohertz, CSV files (times in s, angles in rad), or JSON as Rhoban's bam records it. They are sorted by name; every
/// other one is fitted, and the rest validate the fit. It takes up to a minute.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz identify data_raw/*.json --joint elbow --bam elbow.json
  khz identify run.tlog --joint tilt --robot robot.toml --write
  khz identify steps.csv --joint pan --columns t,target,angle --supply 12 -o pan.html")]
pub struct Args {
    /// The recordings
    #[arg(required = true, value_name = "RECORDING")]
    recordings: Vec<PathBuf>,
    /// The joint: its name in logs and in the robot file
    #[arg(long, value_name = "NAME")]
    joint: String,
    /// Friction model to fit: m1 viscous and dry, m2 more at standstill, m3 more under load, m4 both
    #[arg(long, value_enum, default_value_t = Model::M3)]
    friction: Model,
    /// Fit all recordings; none is left to validate the fit
    #[arg(long)]
    all: bool,
    /// Columns of CSV files: those of time, goal and position
    #[arg(long, value_name = "TIME,GOAL,POSITION", value_delimiter = ',')]
    columns: Vec<String>,
    /// Supply of the servo in CSV files, V
    #[arg(long, value_name = "V", default_value_t = 12.0, value_parser = positive)]
    supply: f64,
    /// Inertia of the load in CSV files, kg·m²; without it torques are known only up to a factor
    #[arg(long, value_name = "KG_M2", value_parser = positive)]
    inertia: Option<f64>,
    /// Greatest torque of gravity on it, N·m
    #[arg(long, value_name = "N_M", value_parser = positive, requires = "inertia")]
    gravity: Option<f64>,
    /// Seed of the starts of the fit
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The robot file: a log needs it for the gains
    #[arg(long, value_name = "ROBOT.toml")]
    robot: Option<PathBuf>,
    /// Write the fitted parameters of the joint into the robot file; its comments stay
    #[arg(long, requires = "robot")]
    write: bool,
    /// Write the page with measured beside simulated here
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the parameters as bam's JSON here
    #[arg(long, value_name = "FILE")]
    bam: Option<PathBuf>,
    /// Write the joint and its actuator for a MuJoCo model here
    #[arg(long, value_name = "FILE")]
    mjcf: Option<PathBuf>,
    /// Overwrite files that are there, write what does not explain the recordings, and fit logs that were recorded with other settings
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Model {
    M1,
    M2,
    M3,
    M4,
}

/// What a robot file knows of a servo, and a fit does not look for.
fn known(servo: &ServoConfig) -> log::Servo {
    let carries = servo.carries();
    // One that is sent nothing but goals gets them as it counts.
    let feeds_forward = carries.velocity.is_finite();
    log::Servo {
        gains: servo.gains(),
        most: servo.most_torque(),
        feeds_forward,
        goals: [if feeds_forward { 0.0 } else { carries.reported_steps[0] }, carries.zero],
        known: servo.voltage_law().map(|(law, share)| Known { law, share }),
        step: carries.reported_steps[0],
        stops: servo.joint.stops,
    }
}

/// The servo of this joint in the robot file that a log holds, if that can be read.
fn recorded(log: &Path, joint: &str) -> Option<ServoConfig> {
    let mut reader = Reader::open(File::open(log).ok()?).ok()?;
    reader.survey().ok()?;
    reader.select(["robot"]);
    let item = reader.next().ok()??;
    let text = match item.value().ok()?.at("file")? {
        Value::String(text) => text.to_owned(),
        _ => return None,
    };
    let robot = RobotConfig::parse(&text, "the log's robot file").ok()?;
    robot.servos.into_iter().find(|servo| servo.name == joint)
}

/// Keys of a servo's own tables that say nothing of how it moves, or are looked for.
const IMMATERIAL: [&str; 12] = [
    "goal_speed",
    "delay_ms",
    "torque_constant",
    "motor_resistance",
    "sag",
    "damping",
    "return_delay_us",
    "reply_delay_us",
    "fast",
    "unwatched",
    "reply_id",
    "master_id",
];

/// What of a servo that a recording depends on differs: each key with both values.
fn other_servo(recorded: &ServoConfig, given: &ServoConfig) -> Option<String> {
    let keys = |servo: &ServoConfig| {
        let all = serde_json::to_value(&servo.settings).unwrap_or_default();
        let mut keys = BTreeMap::new();
        for key in ["family", "sign", "offset"].iter().chain(servo.in_file().facts().own_keys) {
            match all.pointer(&format!("/{}", key.replace('.', "/"))) {
                Some(Json::Object(table)) if !["query", "command"].contains(key) => {
                    let material = table.iter().filter(|(name, _)| !IMMATERIAL.contains(&name.as_str()));
                    keys.extend(material.map(|(name, value)| (format!("{key}.{name}"), value.clone())));
                }
                Some(Json::Object(_)) | None => {}
                Some(value) => _ = keys.insert((*key).to_owned(), value.clone()),
            }
        }
        keys
    };
    let (then, now) = (keys(recorded), keys(given));
    let differ = then.iter().filter_map(|(key, was)| {
        let is = now.get(key).filter(|is| *is != was)?;
        Some(format!("`{key}` was {was} and is {is}"))
    });
    let differ = differ.collect::<Vec<_>>().join(", ");
    (!differ.is_empty()).then_some(differ)
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number > 0.0 && number <= 1000.0 { Ok(number) } else { Err("not between 0 and 1000".to_owned()) }
}

/// Runs the command.
///
/// # Errors
/// If a recording cannot be used or a file cannot be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    output::check_all(
        [&args.output, &args.bam, &args.mjcf].into_iter().flatten(),
        &args.recordings,
        args.force,
    )?;
    if !args.columns.is_empty() && args.columns.len() != 3 {
        bail!("--columns needs three names: those of time, goal and position");
    }
    let mut recordings = match args.read() {
        Ok(recordings) => recordings,
        Err(error) => {
            complain(&error);
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    recordings.sort_by(|one, other| one.name.cmp(&other.name));
    let mixed = recordings.iter().any(|r| r.has_torque_control() != recordings[0].has_torque_control());
    if mixed {
        bail!("logs and recordings of other servos cannot be fitted together");
    }
    if args.bam.is_some() && recordings[0].has_torque_control() {
        bail!(
            "--bam: bam's files are of servos that follow by their voltage, and this one follows by torques"
        );
    }
    let mut pairs =
        recordings.iter().enumerate().flat_map(|(at, one)| recordings[..at].iter().map(move |it| (it, one)));
    if let Some((one, other)) = pairs.find(|(one, other)| one.samples == other.samples) {
        bail!(
            "{} and {} are the same recording: what is fitted says nothing of how well it was fitted",
            one.name,
            other.name
        );
    }
    let found = args.found(&recordings);
    recordings
        .iter()
        .filter(|r| !r.left_out.is_empty())
        .for_each(|r| note(format_args!("{}: {}", r.name, r.left_out)));
    let plural = if recordings.len() == 1 { "" } else { "s" };
    show(&format!("{}: {} recording{plural}\n{}", args.joint, recordings.len(), found.text()))?;
    args.write_all(&found, &recordings)?;
    if args.write && !args.force && found.unexplained.is_some() {
        bail!(
            "nothing is written into the robot file: the recordings are not explained (--force writes it all the same)"
        );
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn read(&self) -> Result<Vec<Recording>> {
        let robot = self.robot.as_deref().map(RobotConfig::load).transpose()?;
        self.recordings.iter().map(|path| self.read_one(path, robot.as_ref())).collect()
    }

    fn read_one(&self, path: &Path, robot: Option<&RobotConfig>) -> Result<Recording> {
        let name = path.display().to_string();
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        if kind == "tlog" {
            return self.read_log(path, robot);
        }
        let size = fs::metadata(path).with_context(|| format!("cannot read {name}"))?.len();
        if size > LARGEST {
            bail!("{name}: {} MiB; {} MiB are the most: cut it into several", size >> 20, LARGEST >> 20);
        }
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        match kind {
            "json" => Ok(Recording::from_bam(&name, &text)?),
            "csv" | "tsv" => {
                let recording = Recording::from_csv(&name, &text, &self.csv_columns(), self.supply)?;
                let rig = |inertia| Rig { inertia, gravity: self.gravity.unwrap_or(0.0) };
                Ok(Recording { rig: self.inertia.map(rig), ..recording })
            }
            _ => bail!("{name}: not a recording: its name ends in .tlog, .csv or .json"),
        }
    }

    fn read_log(&self, path: &Path, robot: Option<&RobotConfig>) -> Result<Recording> {
        let name = path.display().to_string();
        let robot =
            robot.ok_or_else(|| anyhow!("{name}: a log needs the robot file for its gains (--robot)"))?;
        let servo = robot.servos.iter().find(|servo| servo.name == self.joint);
        let servo = servo.ok_or_else(|| anyhow!("the robot file has no servo `{}`", self.joint))?;
        let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
        let mut reader = Reader::open(file).with_context(|| format!("cannot read {name}"))?;
        if !self.force
            && let Some(recorded) = recorded(path, &self.joint)
            && let Some(other) = other_servo(&recorded, servo)
        {
            bail!(
                "{name}: it was recorded with another `{}` than the robot file has: {other}. What is fitted would be wrong by that: give the \
                 robot file of the recording, or record anew (--force takes what the robot file has)",
                self.joint
            );
        }
        Ok(log::from_log(&name, &mut reader, &self.joint, &known(servo))?)
    }

    fn csv_columns(&self) -> Columns {
        match self.columns.as_slice() {
            [time, goal, position] => {
                Columns { time: time.clone(), goal: goal.clone(), position: position.clone() }
            }
            _ => Columns::default(),
        }
    }

    fn found(&self, recordings: &[Recording]) -> Found {
        let split = if self.all { Split::All } else { Split::EveryOther };
        let friction = match self.friction {
            Model::M1 => Friction::M1,
            Model::M2 => Friction::M2,
            Model::M3 => Friction::M3,
            Model::M4 => Friction::M4,
        };
        counted(100, "percent", |done| {
            let progress = |share: f64| done.store((100.0 * share) as u64, Ordering::Relaxed);
            identify(recordings, friction, split, self.seed, progress)
        })
    }

    fn write_all(&self, found: &Found, recordings: &[Recording]) -> Result<()> {
        let save = |path: &Option<PathBuf>, text: &dyn Fn() -> String| -> Result<()> {
            let Some(path) = path else { return Ok(()) };
            let path = output::save(path, self.force, |file| file.write_all(text().as_bytes()))?;
            show(&format!("written to {}\n", path.display()))
        };
        let first = &recordings[0];
        save(&self.output, &|| found.page(&self.joint, recordings).to_string())?;
        save(&self.bam, &|| found.bam(first))?;
        save(&self.mjcf, &|| found.mjcf(&self.joint, first))?;
        match self.robot.as_deref().filter(|_| self.write && (self.force || found.unexplained.is_none())) {
            Some(path) => self.write_into(path, found),
            None => Ok(()),
        }
    }

    /// What was found, into the robot file.
    fn write_into(&self, path: &Path, found: &Found) -> Result<()> {
        let RobotFile { text, name } = RobotFile::read(Some(path))?;
        let robot = RobotConfig::parse(&text, &name)?;
        let Some(servo) = robot.servos.iter().find(|servo| servo.name == self.joint) else {
            bail!("the robot file has no [[servo]] named `{}`", self.joint);
        };
        let Written { keys, mut notes } = found.joint_keys(&servo.joint);
        let table = servo.in_file().facts().own_keys.first().filter(|_| servo.voltage_law().is_some());
        let own = table.map(|table| (*table, found.servo_keys()));
        if own.is_none() && found.servo_keys().iter().any(|(key, _)| *key == "delay_ms") {
            notes.push(format!("`delay_ms` is not written: an emulated {} has none", servo.family));
        }
        let mut tables = [("joint", keys)].into_iter().chain(own).collect::<Vec<_>>();
        let written: Vec<&str> = tables.iter().flat_map(|(_, keys)| keys).map(|(key, _)| *key).collect();
        tables.push((UNCERTAINTY, found.uncertainties(&written).collect()));
        let text = into_file(&text, &self.joint, &tables)?;
        RobotConfig::parse(&text, &name)?;
        output::save(path, true, |file| file.write_all(text.as_bytes()))?;
        notes.iter().for_each(note);
        show(&format!("written into {}\n", path.display()))
    }
}

/// The text of a robot file in which these tables of a servo have these keys. Comments and layout stay.
fn into_file(text: &str, joint: &str, tables: &[(&str, Vec<(&'static str, f64)>)]) -> Result<String> {
    Ok(rewritten(text, |file| {
        let servos = file.get_mut("servo").and_then(|servos| servos.as_array_of_tables_mut());
        let mut servos = servos.into_iter().flat_map(|servos| servos.iter_mut());
        let Some(servo) = servos.find(|servo| servo.get("name").and_then(|n| n.as_str()) == Some(joint))
        else {
            return;
        };
        // What was known of the values that are replaced now.
        if let Some(table) = servo.get_mut(UNCERTAINTY).and_then(|table| table.as_table_like_mut()) {
            table.clear();
        }
        for (table, keys) in tables.iter().filter(|(_, keys)| !keys.is_empty()) {
            for &(key, value) in keys {
                set(&mut servo[*table][key], &value.into());
            }
            // A key behind the last one would stand behind its space.
            servo[*table].as_inline_table_mut().into_iter().for_each(|table| table.fmt());
        }
    })?)
}
