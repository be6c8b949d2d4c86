//! The page of a run from its log alone. Of a damaged log it shows what is sound, and says what is missing.

use super::over_time::OverTime;
use super::page::{Device, RunData};
use super::page_data::{computer, page_event};
use super::{EventSummary, broken, ending};
use crate::verdict::{Facts, judge};
use khz_page::{Distribution, Figure, Level, Measured, grouped};
use khz_robot::RobotConfig;
use khz_robot::config::Clock;
use khz_robot::supervisor::Phase;
use khz_rt::{Histogram, Passport};
use khz_tlog::{Reader, Type, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A run as its log tells it.
pub struct FromLog {
    /// What the page shows.
    pub data: RunData,
    /// What is missing in the log, as sentences; none of a sound one.
    pub missing: Vec<String>,
}

/// Why a log gives no page.
#[derive(Debug, thiserror::Error)]
pub enum FromLogError {
    /// A file that cannot be read, or is no log.
    #[error("{path}: {why}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// Files that are not one log.
    #[error(
        "the ticks of {path} do not follow those of the file before it: give the files of one run only, each once, the \
         oldest first"
    )]
    TwoRuns {
        /// The file that does not follow.
        path: String,
    },
    /// A log of something else.
    #[error("no tick of a run is in this log; `khz log info` shows what is")]
    NoRun,
}

/// The run whose log lies in these files, the oldest first.
///
/// # Errors
/// If a file cannot be read, there is no run in them, or more than one. Damage is no error.
pub fn from_log(paths: &[PathBuf]) -> Result<FromLog, FromLogError> {
    let mut replay = Replay::new();
    for path in paths {
        replay.ticks.after = replay.ticks.last.map(|tick| tick.number);
        let read = replay.read(path);
        let path = path.display().to_string();
        if replay.ticks.starts_over {
            return Err(FromLogError::TwoRuns { path });
        }
        read.map_err(|why| FromLogError::Read { path, why: why.to_string() })?;
    }
    if replay.ticks.all == 0 {
        return Err(FromLogError::NoRun);
    }
    Ok(replay.finish())
}

/// What was read so far.
struct Replay {
    name: String,
    /// The robot file's text, and what it says if this version understands it.
    text: String,
    config: Option<RobotConfig>,
    passport: Option<Passport>,
    clock: Clock,
    over_time: OverTime,
    ticks: Ticks,
    servos: BTreeMap<String, Servo>,
    events: Vec<EventSummary>,
    missing: Vec<String>,
}

/// The ticks, counted.
#[derive(Default)]
struct Ticks {
    all: u64,
    /// Ticks that are not in the log although later ones are.
    unrecorded: u64,
    last: Option<Tick>,
    /// The last tick of the files before; the first of this one must be later.
    after: Option<i64>,
    starts_over: bool,
    /// As planned; of the first two ticks in a row.
    period_ns: Option<i64>,
    missed: u64,
    late: u64,
    unexpected: u64,
    imu_missed: u64,
    without_frame: u64,
    /// The controlled ones: how many, from start to start, and what was wrong with them.
    controlled: u64,
    span_ns: i64,
    skipped: u64,
    late_wakes: u64,
    overruns: u64,
    wake: Histogram,
    cycle: Histogram,
    compute: Histogram,
}

/// A tick's number, planned start and start.
#[derive(Clone, Copy)]
struct Tick {
    number: i64,
    planned_ns: i64,
    started_ns: i64,
}

/// What one servo answered.
#[derive(Default)]
struct Servo {
    ticks: u64,
    fresh: u64,
    round_trip: Histogram,
}

impl Replay {
    fn new() -> Self {
        Self {
            name: String::new(),
            text: String::new(),
            config: None,
            passport: None,
            clock: Clock::Real,
            over_time: OverTime::of(std::iter::empty()),
            ticks: Ticks::default(),
            servos: BTreeMap::new(),
            events: Vec::new(),
            missing: Vec::new(),
        }
    }

    fn read(&mut self, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let mut reader = Reader::open(File::open(path)?)?;
        reader.survey()?;
        self.know_joints(&reader);
        let (mut places, mut first) = (0, None);
        loop {
            let error = match reader.next() {
                Ok(None) => break,
                Ok(Some(item)) => match item.value() {
                    Ok(value) => {
                        self.sample(item.record.name(), item.time_us, &value);
                        continue;
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            let error = reader.step_over(error)?;
            places += 1;
            first.get_or_insert(error);
        }
        let name = path.display();
        match first {
            Some(first) if places == 1 => {
                self.missing.push(format!("{name} is damaged in 1 place: {first}."))
            }
            Some(first) => {
                self.missing.push(format!("{name} is damaged in {places} places, first: {first}."))
            }
            None if !reader.is_finished() => {
                self.missing.push(format!("{name} has no end: it was cut off, or is being written."))
            }
            None => {}
        }
        Ok(())
    }

    /// The joints are in the schema, even if the robot file is lost.
    fn know_joints(&mut self, reader: &Reader<File>) {
        let Ok(record) = reader.record("servo") else { return };
        if let (Type::Object(servos), true) = (record.ty(), self.over_time.joints.is_empty()) {
            self.over_time = OverTime::of(servos.iter().map(|servo| servo.name.as_str()));
        }
    }

    fn sample(&mut self, record: &str, time_us: Option<i64>, value: &Value<'_>) {
        match record {
            "robot" => {
                (self.name, self.text) = (text(value, "name"), text(value, "file"));
                self.config = RobotConfig::parse(&self.text, &self.name).ok();
                self.passport = serde_json::from_str(&text(value, "passport")).ok();
                self.clock =
                    if text(value, "clock") == Clock::Virtual.word() { Clock::Virtual } else { Clock::Real };
            }
            "tick" => self.ticks.count(value),
            "servo" => self.servos(value),
            "event" => {
                let event = time_us.and_then(|time_us| self.event(value, time_us));
                self.events.extend(event);
            }
            _ => {}
        }
        if let (Some(time_us), "tick" | "servo" | "command" | "imu" | "parameter") = (time_us, record) {
            self.over_time.sample(record, time_us, value);
        }
    }

    fn servos(&mut self, value: &Value<'_>) {
        for joint in &self.over_time.joints {
            let Some(servo) = value.at(&joint.name) else { continue };
            let counts = self.servos.entry(joint.name.clone()).or_default();
            counts.ticks += 1;
            if is(&servo, "fresh") {
                counts.fresh += 1;
                counts.round_trip.record(number(&servo, "round_trip_ns"), 0);
            }
        }
    }

    fn event(&mut self, value: &Value<'_>, time_us: i64) -> Option<EventSummary> {
        let phase = |name| {
            let name = text(value, name);
            Phase::ALL.into_iter().map(Phase::name).find(|phase| *phase == name)
        };
        let servo = Some(text(value, "servo")).filter(|servo| !servo.is_empty());
        Some(EventSummary {
            time_s: self.over_time.seconds(time_us),
            tick: number(value, "tick").max(0) as u64,
            from: phase("from")?,
            to: phase("to")?,
            cause: text(value, "cause"),
            bus: servo.as_ref().map(|servo| self.bus(servo)),
            servo,
            trouble: is(value, "trouble"),
            remedy: None,
        })
    }

    /// The bus of a servo, as far as it is known.
    fn bus(&self, servo: &str) -> String {
        let known = self.config.as_ref().and_then(|config| {
            let servo = config.servos.iter().find(|other| other.name == servo)?;
            Some(config.buses[servo.bus].name.clone())
        });
        known.unwrap_or_else(|| "unknown".to_owned())
    }

    fn finish(mut self) -> FromLog {
        self.say_what_is_missing();
        let period_ns = match &self.config {
            Some(config) => config.timing.period_ns(),
            None => self.ticks.period_ns.unwrap_or(0),
        };
        let rate_hz = self.ticks.rate_hz();
        let verdict = judge(&self.facts(period_ns, rate_hz));
        let name = if self.name.is_empty() { "a run" } else { self.name.as_str() };
        let hz = if period_ns > 0 { format!(" at {:.0} Hz", 1e9 / period_ns as f64) } else { String::new() };
        let data = RunData {
            title: format!("{name}: {} servos{hz}", self.over_time.joints.len()),
            subtitle: format!("{} ticks, from the log", grouped(self.ticks.all)),
            figures: self.figures(period_ns, rate_hz),
            devices: self.servos.iter().map(|(name, servo)| self.device(name, servo)).collect(),
            events: self.events.iter().map(page_event).collect(),
            passport: self.passport.as_ref().map_or_else(Vec::new, |passport| computer(passport, self.clock)),
            verdict,
            period_ns,
            bus_deadline_ns: self.config.as_ref().map_or(0, |config| config.timing.bus_deadline_ns()),
            ..RunData::default()
        };
        let over_time = match &self.config {
            Some(config) => self.over_time.within(config),
            None => self.over_time,
        };
        let values = |histogram: &Histogram| Distribution::from_ns(histogram.values());
        FromLog {
            data: RunData {
                wake: Measured::new(over_time.wake, values(&self.ticks.wake)),
                cycle: Measured::new(over_time.cycle, values(&self.ticks.cycle)),
                cpu: Measured::new(over_time.cpu, values(&self.ticks.compute)),
                phases: over_time.phases,
                joints: over_time.joints,
                details: over_time.details.finish(),
                changes: over_time.changes,
                changes_left_out: over_time.changes_left_out,
                config: self.text,
                ..data
            },
            missing: self.missing,
        }
    }

    fn say_what_is_missing(&mut self) {
        if self.ticks.unrecorded > 0 {
            self.missing.push(format!("{} ticks are not in the log.", grouped(self.ticks.unrecorded)));
        }
        match (&self.config, self.text.is_empty()) {
            (Some(_), _) => {}
            (None, true) => self
                .missing
                .push("The robot file is not in the log: its limits and buses are unknown.".into()),
            (None, false) => {
                self.missing.push("This version does not understand the robot file in the log.".into())
            }
        }
        if self.events.is_empty() {
            self.missing.push("No change of phase is in the log: how the run ended is unknown.".into());
        }
    }

    fn facts(&self, period_ns: i64, rate_hz: f64) -> Facts {
        let (end, ended_well) = ending(&self.events);
        Facts {
            target_hz: if period_ns > 0 { 1e9 / period_ns as f64 } else { rate_hz },
            rate_hz,
            sensor_paced: self.is_sensor_paced(),
            virtual_time: self.clock == Clock::Virtual,
            periods: self.ticks.controlled + self.lost_periods(period_ns),
            lost: self.lost_periods(period_ns),
            late_wakes: self.ticks.late_wakes,
            overruns: self.ticks.overruns,
            without_frame: self.ticks.without_frame,
            missed_replies: self.ticks.missed,
            late_replies: self.ticks.late,
            unexpected_frames: self.ticks.unexpected,
            imu_missed: self.ticks.imu_missed,
            broken: (!ended_well).then(|| broken(&self.events, &end)),
            warnings: self.missing.clone(),
            ..Facts::default()
        }
    }

    fn is_sensor_paced(&self) -> bool {
        self.config.as_ref().is_some_and(|config| config.timing.pace_bus.is_some())
    }

    /// As `RunStats` counts them.
    fn lost_periods(&self, period_ns: i64) -> u64 {
        let ticks = &self.ticks;
        let passed = (ticks.span_ns + period_ns / 2).checked_div(period_ns).unwrap_or(0).max(0) as u64;
        match self.is_sensor_paced() {
            true => ticks.skipped,
            false => ticks.skipped.max(passed.saturating_sub(ticks.controlled)),
        }
    }

    fn figures(&self, period_ns: i64, rate_hz: f64) -> Vec<Figure> {
        let ticks = &self.ticks;
        let count = |label: &str, count: u64| {
            let level = if count == 0 { Level::Good } else { Level::Warning };
            Figure { level, ..Figure::new(label, grouped(count)) }
        };
        let lost = self.lost_periods(period_ns);
        let mut figures = vec![
            Figure::new("rate", format!("{rate_hz:.2} Hz")),
            count("lost periods", lost).note(format!("of {}", grouped(ticks.controlled + lost))),
            count("missed replies", ticks.missed),
            count("late replies", ticks.late),
            count("unexpected frames", ticks.unexpected).note("no reply to a query"),
            count("missed IMU readings", ticks.imu_missed),
            count("overruns", ticks.overruns),
        ];
        for (label, values) in [
            ("bus cycle", &ticks.cycle),
            ("wake latency", &ticks.wake),
            ("loop compute time", &ticks.compute),
        ] {
            let summary = values.summary();
            let us = |ns: i64| format!("{:.1} µs", ns as f64 / 1e3);
            if summary.count > 0 && (label == "bus cycle" || self.clock == Clock::Real) {
                let tail = format!("p99 {}, max {}", us(summary.p99), us(summary.max));
                figures.push(Figure::new(label, us(summary.p50)).note(tail));
            }
        }
        figures
    }

    fn device(&self, name: &str, servo: &Servo) -> Device {
        Device {
            name: name.to_owned(),
            bus: self.bus(name),
            sent: servo.ticks,
            replied: servo.fresh,
            missed: servo.ticks - servo.fresh,
            round_trip: Distribution::from_ns(servo.round_trip.values()),
            ..Device::default()
        }
    }
}

impl Ticks {
    fn count(&mut self, value: &Value<'_>) {
        let ns = |name| number(value, name);
        let tick = Tick { number: ns("number"), planned_ns: ns("planned_ns"), started_ns: ns("started_ns") };
        self.all += 1;
        self.missed += ns("missed").max(0) as u64;
        self.late += ns("late").max(0) as u64;
        // Logs before 2026-11-22 have them by their old name.
        self.unexpected += (ns("unexpected") + ns("foreign")).max(0) as u64;
        self.imu_missed += u64::from(is(value, "imu_missed"));
        self.without_frame += u64::from(is(value, "without_frame"));
        self.starts_over |= self.after.take().is_some_and(|after| tick.number <= after);
        let before = self.last.replace(tick);
        let in_a_row = before.filter(|before| before.number + 1 == tick.number);
        if let Some(before) = before.filter(|before| before.number < tick.number) {
            self.unrecorded += (tick.number - before.number - 1) as u64;
        }
        if let Some(before) = in_a_row {
            self.period_ns.get_or_insert(tick.planned_ns - before.planned_ns);
        }
        if is(value, "controlled") {
            self.controlled(value, in_a_row.map(|before| tick.started_ns - before.started_ns));
        }
    }

    /// `gap_ns`: from the start of the tick before, if that is in the log.
    fn controlled(&mut self, value: &Value<'_>, gap_ns: Option<i64>) {
        let ns = |name| number(value, name);
        let compute = if value.at("loop_compute_ns").is_some() { "loop_compute_ns" } else { "tick_cpu_ns" };
        let wake_ns = ns("wake_latency_ns");
        let Some(gap_ns) = gap_ns else { return };
        self.controlled += 1;
        self.span_ns += gap_ns;
        self.skipped += ns("skipped").max(0) as u64;
        self.overruns += u64::from(is(value, "overrun"));
        self.late_wakes += u64::from(self.period_ns.is_some_and(|period_ns| wake_ns >= period_ns));
        self.wake.record(wake_ns, 0);
        self.cycle.record(ns("cycle_ns"), 0);
        self.compute.record(ns(compute), 0);
    }

    /// NaN without a controlled tick.
    fn rate_hz(&self) -> f64 {
        self.controlled as f64 / self.span_ns as f64 * 1e9
    }
}

/// An integer field; 0 where there is none.
fn number(value: &Value<'_>, field: &str) -> i64 {
    value.at(field).and_then(|value| value.number()).map_or(0, |number| number as i64)
}

fn is(value: &Value<'_>, field: &str) -> bool {
    matches!(value.at(field), Some(Value::Bool(true)))
}

fn text(value: &Value<'_>, field: &str) -> String {
    match value.at(field) {
        Some(Value::String(text)) => text.to_owned(),
        _ => String::new(),
    }
}
