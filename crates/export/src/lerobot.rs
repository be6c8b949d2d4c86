//! Logs as one dataset of `LeRobot`, version 3.0, without pictures: `meta/`, and one Parquet file of all frames.
//!
//! Every log is an episode. A frame is a tick, and its time is that tick's own, from the first frame of its episode: not its number
//! through the rate, as where `LeRobot` records. What is asked for in a tick (`action`) are the positions that were sent in it.
//!
//! The layout is that of `LeRobot` 0.4.4 (`datasets/utils.py`, `datasets/lerobot_dataset.py`).

mod sheet;
mod stats;

use crate::ExportError;
use crate::columns::{Cell, columns, fill_row};
use crate::scan::{Damage, Selection, scan};
use khz_tlog::{Item, Reader, Source, Type};
use serde_json::{Map, Value, json};
use sheet::{Data, Sheet};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Frames in all of a file.
const DATA: &str = "data/chunk-000/file-000.parquet";
const EPISODES: &str = "meta/episodes/chunk-000/file-000.parquet";
const TASKS: &str = "meta/tasks.parquet";
const KINDS: [(&str, &str); 3] = [("position", "pos"), ("velocity", "vel"), ("torque", "torque")];

/// Why there is no dataset.
#[derive(Debug, thiserror::Error)]
pub enum LerobotError {
    /// The log cannot be read, or the file cannot be written.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The log has no states and commands of servos.
    #[error("the log has no record `{0}`: it is none of a run")]
    NoRun(&'static str),
    /// There is no tick in which all joints were measured and commanded to a position.
    #[error("in no tick of the log all joints were measured and commanded to a position")]
    NoFrame,
    /// It has fewer ticks than frames are wanted.
    #[error("it has {ticks} ticks a second, too few for {fps} frames: ask for {ticks} at most")]
    TooOften {
        /// Frames a second that are wanted.
        fps: u32,
        /// Ticks a second in the log.
        ticks: u32,
    },
    /// Not all logs are of robots with the same joints.
    #[error("its frames have {found}, and those of the logs before have {before}")]
    OtherJoints {
        /// What this log has.
        found: String,
        /// What the others have.
        before: String,
    },
    /// A file or folder of the dataset.
    #[error("cannot write {}: {error}", .path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
}

/// What became of a log.
#[derive(Debug)]
pub struct Episode {
    /// Its frames.
    pub frames: usize,
    /// From the first to the last of them, s.
    pub seconds: f64,
    /// Ticks that would be frames, but for a joint that was not measured or commanded.
    pub left_out: u64,
    /// What was wrong with the log.
    pub damage: Damage,
}

/// A dataset while logs are added. It is kept in memory, 4 bytes a number, and written at the end.
#[derive(Debug)]
pub struct Lerobot {
    fps: u32,
    task: String,
    /// The names of the columns of `observation.state`, and of `action`; empty before the first log.
    names: [Vec<String>; 2],
    /// Rows of both, one after the other.
    rows: [Vec<f32>; 2],
    timestamps: Vec<f32>,
    ticks: Vec<i64>,
    lengths: Vec<usize>,
}

impl Lerobot {
    /// Frames at most so often, of a task in words.
    pub fn new(fps: u32, task: &str) -> Self {
        let (names, rows) = (Default::default(), Default::default());
        Self { fps, task: task.to_owned(), names, rows, timestamps: vec![], ticks: vec![], lengths: vec![] }
    }

    /// Adds a log as the next episode. `progress` gets the position in the log.
    ///
    /// # Errors
    /// If it cannot be read, has no frames or others than the logs before, or has fewer ticks than frames are wanted. Then nothing of it is
    /// in.
    pub fn add<S: Source>(
        &mut self,
        log: &mut Reader<S>,
        mut progress: impl FnMut(u64),
    ) -> Result<Episode, LerobotError> {
        log.survey()?;
        let record = |name| log.record(name).map(|record| record.ty()).map_err(|_| LerobotError::NoRun(name));
        let mut frames = Frames::new(record("servo")?, record("command")?, self.fps);
        record("tick")?;
        let records = ["tick", "servo", "command"].map(str::to_owned).into();
        let selection = Selection { records, ..Selection::default() };
        let damage = scan(log, &selection, &mut progress, |item| frames.take(item).map(|()| true))?;
        let (names, left_out) = (frames.settle(), frames.left_out);
        let Some((&first_us, &last_us)) = frames.times_us.first().zip(frames.times_us.last()) else {
            return Err(LerobotError::NoFrame);
        };
        // Ticks that are a little apart from their plan are no reason to refuse the loop's own rate.
        let is_less = |ticks: &u32| f64::from(*ticks) * 1.02 < f64::from(self.fps);
        if let Some(ticks) = frames.ticks_per_second().filter(is_less) {
            return Err(LerobotError::TooOften { fps: self.fps, ticks });
        }
        if self.lengths.is_empty() {
            self.names = names;
        } else if self.names != names {
            let joined = |names: &[Vec<String>; 2]| names[0].join(", ");
            return Err(LerobotError::OtherJoints { found: joined(&names), before: joined(&self.names) });
        }
        let seconds = |us: i64| (us - first_us) as f64 * 1e-6;
        self.timestamps.extend(frames.times_us.iter().map(|&us| seconds(us) as f32));
        self.ticks.append(&mut frames.ticks);
        self.rows.iter_mut().zip(&mut frames.rows).for_each(|(all, rows)| all.append(rows));
        self.lengths.push(frames.times_us.len());
        Ok(Episode { frames: frames.times_us.len(), seconds: seconds(last_us), left_out, damage })
    }

    /// Writes the dataset into a new folder.
    ///
    /// # Errors
    /// If the folder is there or cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), LerobotError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| LerobotError::Write { path, error }
        };
        std::fs::create_dir(folder).map_err(failed(folder))?;
        let place = |name: &str| -> Result<PathBuf, LerobotError> {
            let path = folder.join(name);
            path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed(&path))?;
            Ok(path)
        };
        let file = |name: &str| {
            let path = place(name)?;
            File::create_new(&path).map_err(failed(&path))
        };
        let text = |name: &str, value: &Value| {
            let path = place(name)?;
            std::fs::write(&path, format!("{value:#}\n")).map_err(failed(&path))
        };
        self.data().write(file(DATA)?, &[])?;
        self.episodes().write(file(EPISODES)?, &[])?;
        self.tasks().write(file(TASKS)?, &[("pandas", indexed_by_task().to_string())])?;
        text("meta/stats.json", &self.stats())?;
        // The last: without it it is no dataset.
        text("meta/info.json", &self.info())
    }

    fn data(&self) -> Sheet {
        let frames = || {
            self.lengths
                .iter()
                .enumerate()
                .flat_map(|(episode, &frames)| (0..frames).map(move |frame| (episode, frame)))
        };
        let count = self.timestamps.len();
        let [state, action] = [0, 1].map(|side| Data::floats(&self.rows[side], self.names[side].len()));
        Sheet(vec![
            ("action".into(), action),
            ("observation.state".into(), state),
            ("tick".into(), Data::Ints(self.ticks.clone())),
            ("timestamp".into(), Data::floats(&self.timestamps, 1)),
            ("frame_index".into(), Data::Ints(frames().map(|(_, frame)| frame as i64).collect())),
            ("episode_index".into(), Data::Ints(frames().map(|(episode, _)| episode as i64).collect())),
            ("index".into(), Data::Ints((0..count as i64).collect())),
            ("task_index".into(), Data::Ints(vec![0; count])),
        ])
    }

    fn episodes(&self) -> Sheet {
        let count = self.lengths.len();
        let ends: Vec<i64> = self
            .lengths
            .iter()
            .scan(0, |end, &length| {
                *end += length as i64;
                Some(*end)
            })
            .collect();
        let lengths: Vec<i64> = self.lengths.iter().map(|&length| length as i64).collect();
        let begins = ends.iter().zip(&lengths).map(|(end, length)| end - length).collect();
        let zeros = || Data::Ints(vec![0; count]);
        Sheet(vec![
            ("episode_index".into(), Data::Ints((0..count as i64).collect())),
            ("tasks".into(), Data::TextLists(vec![self.task.clone(); count])),
            ("length".into(), Data::Ints(lengths)),
            ("data/chunk_index".into(), zeros()),
            ("data/file_index".into(), zeros()),
            ("dataset_from_index".into(), Data::Ints(begins)),
            ("dataset_to_index".into(), Data::Ints(ends)),
            ("meta/episodes/chunk_index".into(), zeros()),
            ("meta/episodes/file_index".into(), zeros()),
        ])
    }

    fn tasks(&self) -> Sheet {
        let index = (INDEX.into(), Data::Texts(vec![self.task.clone()]));
        Sheet(vec![("task_index".into(), Data::Ints(vec![0])), index])
    }

    fn stats(&self) -> Value {
        let numbers = |ints: &[i64]| ints.iter().map(|&int| int as f64).collect::<Vec<f64>>();
        let mut all = Map::new();
        for (name, data) in self.data().0 {
            let (values, width) = match data {
                Data::Floats { values, width } => (values.into_iter().map(f64::from).collect(), width),
                Data::Ints(ints) => (numbers(&ints), 1),
                Data::Texts(_) | Data::TextLists(_) => continue,
            };
            all.insert(name, stats::of(&values, width));
        }
        Value::Object(all)
    }

    fn info(&self) -> Value {
        let column = |kind: &str, names: Option<&Vec<String>>| json!({ "dtype": kind, "shape": [names.map_or(1, Vec::len)], "names": names });
        let (int, float) = (|| column("int64", None), || column("float32", None));
        json!({
            "codebase_version": "v3.0",
            "robot_type": "kilohertz",
            "total_episodes": self.lengths.len(),
            "total_frames": self.timestamps.len(),
            "total_tasks": 1,
            "chunks_size": 1000,
            "data_files_size_in_mb": 100,
            "video_files_size_in_mb": 200,
            "fps": self.fps,
            "splits": { "train": format!("0:{}", self.lengths.len()) },
            "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
            "video_path": null,
            "features": {
                "action": column("float32", Some(&self.names[1])),
                "observation.state": column("float32", Some(&self.names[0])),
                "tick": int(), "timestamp": float(), "frame_index": int(), "episode_index": int(),
                "index": int(), "task_index": int(),
            },
        })
    }
}

/// The name that pandas gives to an index without one.
const INDEX: &str = "__index_level_0__";

/// `LeRobot` finds a task's number by its text, which is the index of that table.
fn indexed_by_task() -> Value {
    let column = |name: Option<&str>, field: &str, kind: &str, numpy: &str| json!({ "name": name, "field_name": field, "pandas_type": kind, "numpy_type": numpy, "metadata": null });
    json!({
        "index_columns": [INDEX],
        "column_indexes": [],
        "columns": [
            column(Some("task_index"), "task_index", "int64", "int64"),
            column(None, INDEX, "unicode", "object"),
        ],
        "creator": { "library": "khz", "version": env!("CARGO_PKG_VERSION") },
        "pandas_version": "2.0.0",
    })
}

/// The frames of one log.
struct Frames {
    /// Which cells of the two records are numbers of a frame, and what those are called.
    places: [Vec<usize>; 2],
    names: [Vec<String>; 2],
    every_us: f64,
    /// The time of the log's first tick, and its number.
    begin: Option<(i64, i64)>,
    /// Half of the loop's period.
    half_us: f64,
    /// From each tick in the log to the next.
    steps_us: Vec<u32>,
    last_us: Option<i64>,
    tick: Option<i64>,
    servo: Option<(i64, Vec<f32>)>,
    times_us: Vec<i64>,
    ticks: Vec<i64>,
    rows: [Vec<f32>; 2],
    /// Which numbers of the state were known in any frame.
    known: Vec<bool>,
    left_out: u64,
}

impl Frames {
    fn new(servo: &Type, command: &Type, fps: u32) -> Self {
        let of = |record: &Type, kinds: &[(&str, &str)]| {
            let all = columns(record);
            let found = kinds.iter().flat_map(|(from, to)| {
                let named = |(place, column): (usize, &crate::columns::Column)| {
                    let joint = column.path.strip_suffix(from)?.strip_suffix('.')?;
                    Some((place, format!("{joint}.{to}")))
                };
                all.iter().enumerate().filter_map(named).collect::<Vec<_>>()
            });
            found.unzip()
        };
        let ((states, state_names), (commands, command_names)): ((Vec<_>, Vec<_>), (Vec<_>, Vec<_>)) =
            (of(servo, &KINDS), of(command, &KINDS[..1]));
        Self {
            known: vec![false; states.len()],
            places: [states, commands],
            names: [state_names, command_names],
            every_us: 1e6 / f64::from(fps),
            begin: None,
            half_us: 0.0,
            steps_us: Vec::new(),
            last_us: None,
            tick: None,
            servo: None,
            times_us: Vec::new(),
            ticks: Vec::new(),
            rows: Default::default(),
            left_out: 0,
        }
    }

    /// A tick's records come in this order, with one time: tick, servo, command.
    fn take(&mut self, item: &Item<'_>) -> Result<(), ExportError> {
        let Some(time_us) = item.time_us else { return Ok(()) };
        match item.record.name() {
            "tick" => self.begin_tick(time_us, item.value()?.at("number").and_then(whole)),
            "servo" if self.is_due(time_us) => {
                let row = numbers(item, &self.places[0])?;
                self.servo = Some((time_us, row));
            }
            "command" => {
                let Some((_, state)) = self.servo.take().filter(|(at_us, _)| *at_us == time_us) else {
                    return Ok(());
                };
                let action = numbers(item, &self.places[1])?;
                self.push(time_us, state, action);
            }
            _ => {}
        }
        Ok(())
    }

    fn begin_tick(&mut self, time_us: i64, number: Option<i64>) {
        self.tick = number;
        let step_us = self.last_us.replace(time_us).map(|last_us| time_us.saturating_sub(last_us));
        self.steps_us.extend(step_us.and_then(|us| u32::try_from(us).ok()).filter(|&us| us > 0));
        let Some(number) = number else { return };
        let (first_us, first) = *self.begin.get_or_insert((time_us, number));
        if number > first {
            self.half_us = (time_us - first_us) as f64 / (number - first) as f64 / 2.0;
        }
    }

    /// It is the tick that is nearest to the time of the next frame, or the first after that.
    fn is_due(&self, time_us: i64) -> bool {
        let Some((first, last)) = self.times_us.first().zip(self.times_us.last()) else { return true };
        let number = ((last - first) as f64 / self.every_us + 0.5).floor() + 1.0;
        (time_us - first) as f64 >= number.mul_add(self.every_us, -self.half_us)
    }

    /// By the middle one of their steps: a loop that stood still now and then had no other rate.
    fn ticks_per_second(&mut self) -> Option<u32> {
        let middle = self.steps_us.len() / 2;
        self.steps_us.sort_unstable();
        self.steps_us.get(middle).map(|&step_us| (1e6 / f64::from(step_us)).round() as u32)
    }

    fn push(&mut self, time_us: i64, state: Vec<f32>, action: Vec<f32>) {
        // Before and after it is under control it is commanded to no position.
        if action.iter().any(|position| !position.is_finite()) {
            return;
        }
        self.known.iter_mut().zip(&state).for_each(|(known, value)| *known |= value.is_finite());
        self.times_us.push(time_us);
        self.ticks.push(self.tick.unwrap_or(-1));
        self.rows[0].extend(state);
        self.rows[1].extend(action);
    }

    /// Leaves out the numbers that were never known, and then the frames with one that is not. Returns the names that are left.
    fn settle(&mut self) -> [Vec<String>; 2] {
        let width = self.known.len();
        let known: Vec<usize> = (0..width).filter(|&place| self.known[place]).collect();
        let rows = std::mem::take(&mut self.rows[0]);
        let row = |frame: usize| {
            known.iter().map(move |place| (frame, *place)).map(|(frame, place)| rows[frame * width + place])
        };
        let kept: Vec<usize> =
            (0..self.times_us.len()).filter(|&frame| row(frame).all(f32::is_finite)).collect();
        self.left_out = (self.times_us.len() - kept.len()) as u64;
        let state: Vec<f32> = kept.iter().flat_map(|&frame| row(frame)).collect();
        let actions = self.names[1].len();
        let action =
            kept.iter().flat_map(|&frame| self.rows[1][frame * actions..][..actions].to_vec()).collect();
        self.times_us = kept.iter().map(|&frame| self.times_us[frame]).collect();
        self.ticks = kept.iter().map(|&frame| self.ticks[frame]).collect();
        self.rows = [state, action];
        [known.iter().map(|&place| self.names[0][place].clone()).collect(), self.names[1].clone()]
    }
}

fn numbers(item: &Item<'_>, places: &[usize]) -> Result<Vec<f32>, ExportError> {
    let mut row = Vec::new();
    fill_row(item.record.ty(), item.value()?, &mut row);
    let number = |place: &usize| match row.get(*place) {
        Some(Cell::Float32(value)) => *value,
        Some(Cell::Float64(value)) => *value as f32,
        _ => f32::NAN,
    };
    Ok(places.iter().map(number).collect())
}

fn whole(value: khz_tlog::Value<'_>) -> Option<i64> {
    match value {
        khz_tlog::Value::Uint(value) => i64::try_from(value).ok(),
        khz_tlog::Value::Int(value) => Some(value),
        _ => None,
    }
}

impl From<khz_tlog::Error> for LerobotError {
    fn from(error: khz_tlog::Error) -> Self {
        Self::Export(error.into())
    }
}
