//! A run over time, from its log.

use super::details::Details;
use super::page::{Joint, ParameterChange};
use khz_file::RobotConfig;
use khz_page::{StackedTrace, Trace};
use khz_run::late::{PARTS, parts};
use khz_run::record;
use khz_tlog::{Columns, Reader, Value};
use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Parts of a tick, in their order: all but what passed before it started.
pub(super) const PHASES: &[&str] = PARTS.split_at(2).1;

/// From so many skipped periods on nothing is drawn between two ticks: a line would claim values that nothing measured.
const HOLE: f64 = 4.0;

/// So many changes of parameters are kept; a slider makes ten a second.
const MOST_CHANGES: usize = 1000;

fn change(time_s: f64, value: &Value<'_>) -> Option<ParameterChange> {
    let number = |field| value.at(field).and_then(|value| value.number());
    let text = |field| match value.at(field) {
        Some(Value::String(text)) => Some(text.to_owned()),
        _ => None,
    };
    let (name, by) = (text("name")?, text("by")?);
    Some(ParameterChange { time_s, name, before: number("before")?, value: number("value")?, by })
}

/// A field with text; empty if there is none.
pub(super) fn text(value: &Value<'_>, field: &str) -> String {
    match value.at(field) {
        Some(Value::String(text)) => text.to_owned(),
        _ => String::new(),
    }
}

/// The log over time. Bounded memory, however long the run.
#[derive(Default)]
pub(super) struct OverTime {
    pub wake: Trace,
    pub cycle: Trace,
    pub cpu: Trace,
    pub phases: StackedTrace,
    pub joints: Vec<Joint>,
    pub details: Details,
    /// Of the body: w, x, y, z.
    pub attitude: Vec<Trace>,
    /// How the joints lie to each other, as the log's `robot` record has it; empty if that is not known.
    pub skeleton: String,
    /// The first changes of parameters, and how many more there are.
    pub changes: Vec<ParameterChange>,
    pub changes_left_out: u64,
    first_us: Option<i64>,
    /// When the last tick was.
    last_s: f64,
    /// Which files could not be read to their end, and why.
    pub unread: Vec<String>,
}

impl OverTime {
    fn new(config: &RobotConfig) -> Self {
        Self::of(config.servos.iter().map(|servo| servo.name.as_str())).within(config)
    }

    /// Of these joints.
    pub(super) fn of<'a>(joints: impl Iterator<Item = &'a str>) -> Self {
        let joint = |name: &str| Joint {
            name: name.to_owned(),
            unit: "rad".to_owned(),
            commanded: Trace::new(),
            measured: Trace::new(),
            limits: None,
        };
        let names: Vec<String> = joints.map(str::to_owned).collect();
        Self {
            phases: StackedTrace::new(PHASES.iter().copied()),
            joints: names.iter().map(|name| joint(name)).collect(),
            details: Details::new(names),
            ..Self::default()
        }
    }

    /// With the limits of a robot file.
    pub(super) fn within(mut self, config: &RobotConfig) -> Self {
        for joint in &mut self.joints {
            let servo = config.servos.iter().find(|servo| servo.name == joint.name);
            joint.limits = servo.and_then(|servo| servo.limits.position).map(|[low, high]| (low, high));
        }
        self
    }

    /// Reads the files of a log, the oldest first.
    pub(super) fn read(paths: &[PathBuf], config: &RobotConfig) -> Self {
        let mut over_time = Self::new(config);
        for path in paths {
            if let Err(error) = over_time.add(path) {
                over_time.unread.push(format!("{}: {error}", path.display()));
            }
        }
        over_time
    }

    fn add(&mut self, path: &Path) -> Result<(), Box<dyn Error>> {
        let mut reader = Reader::open(File::open(path)?)?;
        reader.select(["robot", "tick", "servo", "command", "imu", "parameter"]);
        while let Some(item) = reader.next()? {
            if item.record.name() == "robot" {
                // Damaged, it costs the drawing alone.
                item.value().iter().for_each(|value| self.robot(value));
                continue;
            }
            let Some(time_us) = item.time_us else { continue };
            self.sample(item.record.name(), time_us, &item.value()?);
        }
        Ok(())
    }

    /// Takes the sample of the `robot` record, which begins every file.
    pub(super) fn robot(&mut self, value: &Value<'_>) {
        self.skeleton = text(value, "skeleton");
    }

    /// Takes a sample of another record.
    pub(super) fn sample(&mut self, record: &str, time_us: i64, value: &Value<'_>) {
        let time_s = self.seconds(time_us);
        match record {
            "tick" => self.tick(time_s, value),
            "servo" => {
                self.joints(time_s, value, |joint| &mut joint.measured);
                self.details.measured(time_s, value);
            }
            "command" => {
                self.joints(time_s, value, |joint| &mut joint.commanded);
                self.details.commanded(time_s, value);
            }
            "imu" => {
                self.details.imu(time_s, value);
                self.attitude(time_s, value);
            }
            "parameter" if self.changes.len() == MOST_CHANGES => self.changes_left_out += 1,
            "parameter" => self.changes.extend(change(time_s, value)),
            _ => {}
        }
    }

    /// Seconds since the first tick.
    pub(super) fn seconds(&mut self, time_us: i64) -> f64 {
        (time_us - *self.first_us.get_or_insert(time_us)) as f64 * 1e-6
    }

    /// No tick was for a while: no line leads there.
    fn hole(&mut self, time_s: f64) {
        for trace in [&mut self.wake, &mut self.cycle, &mut self.cpu] {
            trace.push(time_s, f64::NAN);
        }
        self.phases.gap(time_s);
        for joint in &mut self.joints {
            joint.measured.push(time_s, f64::NAN);
            joint.commanded.push(time_s, f64::NAN);
        }
        self.details.hole(time_s);
    }

    fn tick(&mut self, time_s: f64, value: &Value<'_>) {
        let mut tick = record::Tick::UNKNOWN;
        tick.read(value);
        if f64::from(tick.skipped) >= HOLE {
            self.hole((self.last_s + time_s) / 2.0);
        }
        self.last_s = time_s;
        self.wake.push(time_s, tick.wake_latency_ns as f64);
        self.cycle.push(time_s, tick.cycle_ns as f64);
        self.cpu.push(time_s, tick.loop_compute_ns as f64);
        let parts = parts(&tick).map(|part| part.unwrap_or(0) as f32);
        self.phases.push(time_s, &parts[parts.len() - PHASES.len()..]);
    }

    fn attitude(&mut self, time_s: f64, value: &Value<'_>) {
        let Some(Value::Array(parts)) = value.at("attitude") else { return };
        self.attitude.resize_with(4, Trace::new);
        for (trace, part) in self.attitude.iter_mut().zip(parts) {
            trace.push(time_s, part.number().unwrap_or(f64::NAN));
        }
    }

    fn joints(&mut self, time_s: f64, value: &Value<'_>, trace: impl Fn(&mut Joint) -> &mut Trace) {
        let Value::Object(joints) = value else { return };
        for joint in &mut self.joints {
            let position = joints.field(&joint.name).and_then(|servo| servo.at("position")?.number());
            trace(joint).push(time_s, position.unwrap_or(f64::NAN));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of a hundred ticks, the first of this number, cut after `share` of its bytes.
    fn log(folder: &Path, from: i64, share: f64) -> PathBuf {
        let path = folder.join(format!("{from}.tlog"));
        let mut log = khz_tlog::Writer::new(Vec::new(), khz_tlog::Options::default()).unwrap();
        let latency = [("wake_latency_ns", khz_tlog::Type::Int(khz_tlog::Width::Four))];
        let tick = log.record("tick", &khz_tlog::Type::object(latency)).unwrap();
        for number in from..from + 100 {
            log.write(tick, Some(number * 1000), &(number as i32).to_le_bytes()).unwrap();
        }
        let bytes = log.finish().unwrap();
        std::fs::write(&path, &bytes[..(bytes.len() as f64 * share) as usize]).unwrap();
        path
    }

    #[test]
    fn a_hole_in_the_ticks_is_a_hole_in_the_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.tlog");
        let mut log = khz_tlog::Writer::new(Vec::new(), khz_tlog::Options::default()).unwrap();
        let skipped = [("skipped", khz_tlog::Type::Int(khz_tlog::Width::Four))];
        let tick = log.record("tick", &khz_tlog::Type::object(skipped)).unwrap();
        for (time_us, skipped) in [(0, 0), (1_000, 0), (90_000, 88_i32), (91_000, 0)] {
            log.write(tick, Some(time_us), &skipped.to_le_bytes()).unwrap();
        }
        std::fs::write(&path, log.finish().unwrap()).unwrap();
        let page = OverTime::read(&[path], &RobotConfig::quadruped());
        let is_in_hole = |time_s: f64| (0.002..0.089).contains(&time_s);
        let points = page.joints[0].measured.points();
        assert_eq!(points.iter().filter(|point| is_in_hole(point.0) && point.1.is_nan()).count(), 1);
        assert!(page.phases.rows().iter().any(|row| is_in_hole(row.0) && row.1[0].is_nan()));
    }

    #[test]
    fn the_page_shows_every_file_of_a_log_and_of_a_damaged_one_what_is_before_the_damage() {
        let folder = tempfile::tempdir().unwrap();
        let robot = RobotConfig::quadruped();
        let whole = [log(folder.path(), 0, 1.0), log(folder.path(), 100, 1.0)];
        let page = OverTime::read(&whole, &robot);
        assert_eq!((page.wake.points().len(), page.unread.len()), (200, 0));
        assert!(
            page.wake.points().iter().all(|&(time_s, ns)| (time_s * 1000.0 - f64::from(ns)).abs() < 1e-6)
        );

        let [first, last] = whole;
        let damaged = [first, log(folder.path(), 300, 0.3), folder.path().join("gone.tlog"), last];
        let page = OverTime::read(&damaged, &robot);
        assert!((210..280).contains(&page.wake.points().len()), "{}", page.wake.points().len());
        assert!(
            page.unread[0].contains("300.tlog") && page.unread[1].contains("gone.tlog"),
            "{:?}",
            page.unread
        );
        assert_eq!(page.unread.len(), 2);
    }
}
