//! The page of a run from its log alone. Of a damaged log it shows what is sound, and lists what is missing.

use super::facts::{Known, NEVER, TOO_EARLY, Unlogged, downs, ending, facts, fits_not, trouble, warned};
use super::missing::{late_not_silent, late_together, never_replied, sometimes, together};
use super::over_time::{OverTime, text};
use super::page::{Device, RunData};
use super::page_data::{computer, count_tiles, late_counts, page_event, subtitle, target_tiles, time_tile};
use super::{EventSummary, TickSummary, late_ticks, pace};
use crate::run::page::PartTimes;
use khz_file::RobotConfig;
use khz_file::config::{QUADRUPED, RobotFile};
use khz_loop::supervisor::Phase;
use khz_loop::timing::Clock;
use khz_page::{Distribution, Figure, Measured, Verdict, counted};
use khz_rt::{Histogram, Passport};
use khz_run::figures::Time;
use khz_run::record;
use khz_run::tally::{Pace, Tally};
use khz_run::targets::{Course, Fared, Mail};
use khz_run::verdict::{Facts, judge};
use khz_tlog::{Columns, Reader, Type, Value};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A run as its log has it.
pub struct FromLog {
    /// What the page shows.
    pub data: RunData,
    /// How the targets of programs fared, of a robot that follows them.
    pub targets: Option<Fared>,
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
        replay.after = replay.last.map(|tick| tick.number);
        let read = replay.read(path);
        let path = path.display().to_string();
        if replay.starts_over {
            return Err(FromLogError::TwoRuns { path });
        }
        read.map_err(|why| FromLogError::Read { path, why: why.to_string() })?;
    }
    if replay.last.is_none() {
        return Err(FromLogError::NoRun);
    }
    Ok(replay.finish())
}

/// What was read so far.
struct Replay {
    name: String,
    /// The robot file's text, and its settings if this version understands it.
    text: String,
    config: Option<RobotConfig>,
    passport: Option<Passport>,
    clock: Clock,
    over_time: OverTime,
    tally: Tally,
    late: Late,
    /// Of a robot that follows them.
    targets: Option<(Mail, Course)>,
    /// The number of the first tick.
    first: Option<u64>,
    /// The last tick, which the next record of servos is of.
    last: Option<record::Tick>,
    /// The last tick of the files before; the first of this one must be later.
    after: Option<u64>,
    starts_over: bool,
    /// As configured, or as planned from the first tick to the second.
    pace: Option<Pace>,
    servos: Vec<Servo>,
    events: Vec<EventSummary>,
    missing: Vec<String>,
}

/// Whether the late replies of a log can be late ones. Further replies to one query (duplicates) count among them, unmarked; but a late
/// one was missed shortly before.
#[derive(Default)]
struct Late {
    /// Replies that were missed of late and have not come since.
    open: u64,
    /// The last tick that missed one.
    missed_in: u64,
    /// Late replies that may be those.
    fitting: u64,
    /// The others.
    others: u64,
}

impl Late {
    /// No reply is on its way for longer, in ticks.
    const LONGEST: u64 = 20;

    fn count(&mut self, tick: &record::Tick) {
        if tick.number.saturating_sub(self.missed_in) > Self::LONGEST {
            self.open = 0;
        }
        if tick.missed > 0 {
            self.missed_in = tick.number;
            self.open += u64::from(tick.missed);
        }
        let fitting = u64::from(tick.late).min(self.open);
        self.open -= fitting;
        self.fitting += fitting;
        self.others += u64::from(tick.late) - fitting;
    }

    /// Those that can only be duplicates: no reply was missed that they may be.
    fn duplicates(&self) -> u64 {
        if self.fitting == 0 { self.others } else { 0 }
    }

    /// All, where the log does not show which of them are late: some may be, and more than one in ten fits no reply that was missed.
    fn ambiguous(&self) -> u64 {
        let may_be_late = self.fitting > 0;
        if may_be_late && self.others * 10 > self.fitting { self.others + self.fitting } else { 0 }
    }
}

/// What one servo answered.
#[derive(Default)]
struct Servo {
    ticks: u64,
    fresh: u64,
    round_trip: Histogram,
    /// It replied in the last tick.
    is_fresh: bool,
    /// It did in the tick before.
    was_fresh: bool,
    /// It has not since it missed a reply.
    stays_silent: bool,
    /// That may be because it was asked nothing.
    may_be_quiet: bool,
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
            tally: Tally::new(0),
            late: Late::default(),
            targets: None,
            first: None,
            last: None,
            after: None,
            starts_over: false,
            pace: None,
            servos: Vec::new(),
            events: Vec::new(),
            missing: Vec::new(),
        }
    }

    fn read(&mut self, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let mut reader = Reader::open(File::open(path)?)?;
        reader.survey()?;
        self.know_joints(&reader);
        self.check_schema(&reader);
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
        if let Ok(Type::Object(fields)) = reader.record("decision").map(|record| record.ty())
            && let Some(Type::Object(joints)) =
                fields.iter().find(|field| field.name == "cut").map(|field| &field.ty)
        {
            self.tally.decided.joints = joints.iter().map(|joint| joint.name.clone()).collect();
        }
        let Ok(record) = reader.record("servo") else { return };
        if let (Type::Object(servos), true) = (record.ty(), self.over_time.joints.is_empty()) {
            self.over_time = OverTime::of(servos.iter().map(|servo| servo.name.as_str()));
            self.servos = servos.iter().map(|_| Servo::default()).collect();
        }
    }

    /// What this version cannot read, it cannot judge.
    fn check_schema(&mut self, reader: &Reader<File>) {
        let unknown = record::KNOWN.iter().find_map(|known| {
            let field = known.unknown_in(reader.record(known.name).ok()?.ty())?;
            Some(format!(
                "This version does not know the field `{}.{field}` of the log, which is of a newer one, or damaged: what is \
                 said may be wrong.",
                known.name
            ))
        });
        self.missing.extend(unknown.filter(|unknown| !self.missing.contains(unknown)));
    }

    fn sample(&mut self, record: &str, time_us: Option<i64>, value: &Value<'_>) {
        match record {
            "robot" => {
                (self.name, self.text) = (text(value, "name"), text(value, "file"));
                self.over_time.robot(value);
                let config = RobotConfig::parse(&self.text, &self.name);
                let file = match text(value, "path") {
                    path if !path.is_empty() => RobotFile::At(path),
                    _ if self.text == QUADRUPED => RobotFile::BuiltIn,
                    _ => RobotFile::Unknown,
                };
                self.know_robot(config.ok().map(|config| RobotConfig { file, ..config }));
                self.passport = serde_json::from_str(&text(value, "passport")).ok();
                self.clock =
                    if text(value, "clock") == Clock::Virtual.word() { Clock::Virtual } else { Clock::Real };
            }
            "tick" => self.tick(value),
            "servo" => self.servos(value),
            "event" => {
                let event = time_us.and_then(|time_us| self.event(value, time_us));
                self.events.extend(event);
            }
            "decision" => self.tally.decide(&record::Decision::read(value)),
            "targets" => self.targets.get_or_insert_default().0.message(&message(value)),
            "stage" => self.targets.get_or_insert_default().1.tick(&following(value)),
            _ => {}
        }
        if let (Some(time_us), "tick" | "servo" | "command" | "imu" | "parameter") = (time_us, record) {
            self.over_time.sample(record, time_us, value);
        }
    }

    /// The first robot file of a log is its own; every file of it has it.
    fn know_robot(&mut self, config: Option<RobotConfig>) {
        if let (Some(config), true) = (&config, self.last.is_none()) {
            self.tally.late_from(config.timing.late_ns());
            self.pace = Some(pace(config));
        }
        self.config = config;
    }

    fn tick(&mut self, value: &Value<'_>) {
        let mut tick = record::Tick::UNKNOWN;
        tick.read(value);
        self.count(tick.bounded());
    }

    fn count(&mut self, tick: record::Tick) {
        self.starts_over |= self.after.take().is_some_and(|after| tick.number <= after);
        let before = self.last.replace(tick);
        self.first.get_or_insert(tick.number);
        self.late.count(&tick);
        // A log without its robot file shows its period only from tick to tick.
        let in_a_row = before.filter(|before| before.number + 1 == tick.number);
        if let (None, Some(before)) = (self.pace, in_a_row) {
            let period_ns = tick.planned_ns - before.planned_ns;
            self.tally.late_from(period_ns / 10);
            self.pace = Some(Pace { period_ns, by_sensor: false });
        }
        self.tally.count(&tick, self.known_pace());
    }

    fn known_pace(&self) -> Pace {
        self.pace.unwrap_or_default()
    }

    fn servos(&mut self, value: &Value<'_>) {
        let Value::Object(servos) = value else { return };
        let missed = self.last.map_or(0, |tick| tick.missed);
        let rests = |servo: usize| {
            let servo = self.config.as_ref().and_then(|config| config.servos.get(servo));
            servo.is_some_and(|servo| servo.in_file().facts().rests_after_miss)
        };
        // Not fresh: those that missed a reply, and those that are asked nothing after a miss.
        let (mut not_fresh, mut after_miss) = (0, 0);
        for (index, (counts, (_, servo))) in self.servos.iter_mut().zip(*servos).enumerate() {
            counts.ticks += 1;
            counts.was_fresh = counts.is_fresh;
            if is(&servo, "fresh") {
                counts.fresh += 1;
                counts.round_trip.record(number(&servo, "round_trip_ns"), 0);
                counts.stays_silent = false;
            } else {
                not_fresh += 1;
                counts.may_be_quiet = counts.stays_silent && rests(index);
                after_miss += u32::from(counts.may_be_quiet);
                counts.stays_silent |= missed > 0;
            }
            counts.is_fresh = is(&servo, "fresh");
        }
        let quiet = after_miss.min(u32::saturating_sub(not_fresh, missed));
        self.tally.kept_quiet(quiet.into());
        // Which servos were not queried is not in the log. More likely it is those that did not reply before, so the others come first.
        let may_have = |fresh_before| {
            let servos = self.servos.iter().enumerate();
            servos.filter(move |(_, servo)| {
                !servo.is_fresh && servo.was_fresh == fresh_before && !(quiet > 0 && servo.may_be_quiet)
            })
        };
        let missed = may_have(true).chain(may_have(false)).take(missed as usize);
        missed.for_each(|(servo, _)| self.tally.missed_by(servo));
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
        self.report_what_is_missing();
        let (facts, targets) = (self.facts(), self.fared());
        let verdict = judge(&facts);
        let period_ns = self.known_pace().period_ns;
        let name = if self.name.is_empty() { "a run" } else { self.name.as_str() };
        let hz = if period_ns > 0 { format!(" at {:.0} Hz", 1e9 / period_ns as f64) } else { String::new() };
        let late = late_ticks(&self.tally, |_| None);
        let is_real = self.clock == Clock::Real;
        let data = RunData {
            title: format!("{name}: {}{hz}", counted(self.over_time.joints.len() as u64, "servo")),
            subtitle: subtitle(
                self.config.as_ref().map(|config| &config.file),
                &self.tally.all(),
                self.passport.as_ref(),
                self.clock,
            ),
            figures: self.figures(),
            start_delay: Distribution::from_ns(self.tally.times.start_delay.values()),
            parts: if is_real { self.parts() } else { Vec::new() },
            late_counts: late_counts(&late),
            late_groups: facts.late,
            late: late.worst,
            devices: self.devices(),
            events: self.events.iter().map(page_event).collect(),
            passport: self.passport.as_ref().map_or_else(Vec::new, |passport| computer(passport, self.clock)),
            verdict: Verdict {
                reasons: verdict.reasons.into_iter().chain(self.unlogged()).collect(),
                ..verdict
            },
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
            targets,
            data: RunData {
                wake: Measured::new(over_time.wake, values(&self.tally.times.wake_latency)),
                cycle: Measured::new(over_time.cycle, values(&self.tally.times.cycle)),
                cpu: Measured::new(over_time.cpu, values(&self.tally.times.loop_compute)),
                phases: over_time.phases,
                joints: over_time.joints,
                skeleton: over_time.skeleton,
                attitude: over_time.attitude,
                details: over_time.details.finish(),
                changes: over_time.changes,
                changes_left_out: over_time.changes_left_out,
                config: self.text,
                ..data
            },
            missing: self.missing,
        }
    }

    /// What a log cannot know.
    fn unlogged(&self) -> Option<String> {
        let of_computer = match self.clock {
            Clock::Real => {
                "what scheduling the thread was granted, whether the process was throttled or stopped, "
            }
            Clock::Virtual => "",
        };
        Some(format!(
            "A log does not say {of_computer}which late replies were duplicates, which queries the bus had no time for, which frames were \
             damaged, whether a bus went down for a moment, how many commands were changed, and what was required of the run."
        ))
    }

    fn parts(&self) -> Vec<PartTimes> {
        let parts = self.tally.parts().into_iter();
        parts.map(|part| PartTimes { name: part.name, time_ns: part.time, predicted_ns: None }).collect()
    }

    fn report_what_is_missing(&mut self) {
        if let Some(first @ 1..) = self.first {
            self.missing.push(format!("The first {} are not in these files.", counted(first, "tick")));
        }
        let unrecorded = self.tally.counter.unrecorded;
        if unrecorded > 0 {
            let are = if unrecorded == 1 { "is" } else { "are" };
            self.missing.push(format!("{} {are} not in the log.", counted(unrecorded, "tick")));
        }
        match (&self.config, self.text.is_empty()) {
            (Some(_), _) => {}
            (None, true) => self.missing.push(
                "The robot file is not in the log: its rate, clock, limits and buses are unknown.".into(),
            ),
            (None, false) => {
                self.missing.push("This version does not understand the robot file in the log.".into())
            }
        }
        if !self.events.is_empty() && self.last.is_some_and(|tick| !tick.phase.is_over()) {
            self.missing
                .push("The run goes on behind the end of this log: how it ended is not in it.".into());
        }
        if self.events.is_empty() {
            self.missing.push("No change of phase is in the log: how the run ended is unknown.".into());
        }
    }

    fn facts(&self) -> Facts {
        let controlled = self.tally.controlled();
        let (end, ended_well) = match self.events.is_empty() {
            // That is among what is missing.
            true => (String::new(), true),
            false => ending(&self.events, controlled.ticks, None),
        };
        let servos: Vec<String> = self.over_time.joints.iter().map(|joint| joint.name.clone()).collect();
        let are_late = self.tally.all().late_replies > 0 && self.config.as_ref().is_some_and(fits_not);
        let all_replied = self.servos.iter().all(|servo| servo.fresh > 0);
        let buses: Vec<String> = servos.iter().map(|servo| self.bus(servo)).collect();
        let of_bus: Vec<_> = servos.iter().zip(&buses).map(|(servo, bus)| (&**servo, &**bus)).collect();
        let end = together(end, trouble(&self.events), &self.tally, &of_bus);
        let end = match trouble(&self.events).map(EventSummary::text) {
            Some(down) if are_late => late_not_silent(&end, &down),
            Some(down) if all_replied => sometimes(&end, &down, &self.tally, &servos),
            Some(down) if self.tally.all().late_replies == 0 => {
                let silent = of_bus.iter().zip(&self.servos).filter(|(_, servo)| servo.fresh == 0);
                let silent: Vec<_> = silent.map(|(names, _)| *names).collect();
                never_replied(&end, &down, &silent).unwrap_or(end)
            }
            _ => end,
        };
        let end = late_together(&end, &self.tally, &of_bus);
        let begins_late = self.first > Some(0);
        let Late { fitting, others, .. } = self.late;
        // What was missed before the beginning of these files may come in them.
        let (duplicates, ambiguous) = match begins_late && others > 0 {
            true => (0, fitting + others),
            false => (self.late.duplicates(), self.late.ambiguous()),
        };
        let not_here = "not under control in these files";
        let end = match begins_late {
            true => end.replace(NEVER, not_here).replace(TOO_EARLY, &format!("and {not_here}")),
            false => end,
        };
        let known = Known {
            config: self.config.as_ref(),
            tally: &self.tally,
            pace: self.known_pace(),
            virtual_time: self.clock == Clock::Virtual,
            events: &self.events,
            end: &end,
            ended_well,
            servos: &servos,
        };
        let warned = warned(&self.events, &self.tally.counter.late_groups(), self.known_pace().period_ns);
        let downs = self.config.as_ref().map_or_else(Vec::new, |config| downs(config, &self.events));
        Facts {
            warnings: warned.into_iter().collect(),
            unknown: self.missing.clone(),
            begins_late,
            has_gaps: self.tally.counter.unrecorded > 0,
            ..facts(
                &known,
                &Unlogged { duplicates, ambiguous, downs, targets: self.fared(), ..Unlogged::default() },
            )
        }
    }

    fn fared(&self) -> Option<Fared> {
        self.targets.as_ref().map(|(mail, course)| mail.fared(course))
    }

    fn figures(&self) -> Vec<Figure> {
        let (counts, pace) = (self.tally.counter.counts, self.known_pace());
        let ticks = TickSummary::of(counts.controlled, pace);
        let asked = match pace.period_ns {
            period_ns if period_ns > 0 => format!("asked for {:.0} Hz", 1e9 / period_ns as f64),
            _ => String::new(),
        };
        let mut figures = count_tiles(&counts, self.tally.counter.rate_hz(), asked, &ticks);
        let times = self.tally.times.summaries();
        let shown = Time::to_show(&times, self.clock == Clock::Virtual);
        figures.extend(shown.map(|(time, s)| time_tile(time.label, s)));
        figures.extend(self.fared().iter().flat_map(target_tiles));
        figures
    }

    fn devices(&self) -> Vec<Device> {
        let device = |(joint, servo): (&super::page::Joint, &Servo)| Device {
            name: joint.name.clone(),
            bus: self.bus(&joint.name),
            sent: servo.ticks,
            replied: servo.fresh,
            missed: servo.ticks - servo.fresh,
            // Whose they were is not in a log.
            late: None,
            duplicates: None,
            round_trip: Distribution::from_ns(servo.round_trip.values()),
        };
        self.over_time.joints.iter().zip(&self.servos).map(device).collect()
    }
}

/// An integer field; 0 where there is none.
fn message(value: &Value<'_>) -> record::Targets<'static> {
    record::Targets {
        by: text(value, "by").into(),
        points: number(value, "points") as u32,
        first_ns: number(value, "first_ns"),
        overdue_ns: number(value, "overdue_ns"),
        clamped: number(value, "clamped") as u32,
        refused: text(value, "refused").into(),
        ..record::Targets::default()
    }
}

fn following(value: &Value<'_>) -> record::Following {
    let stage = match number(value, "stage") {
        1 => record::Stage::OnTime,
        2 => record::Stage::HeldOver,
        3 => record::Stage::Waiting,
        4 => record::Stage::Silent,
        _ => record::Stage::Idle,
    };
    record::Following {
        stage,
        age_us: number(value, "age_us"),
        meant: is(value, "meant"),
        anew: number(value, "anew") as u16,
        limited: number(value, "limited") as u16,
        offset: value.at("offset").and_then(|offset| offset.number()).unwrap_or(0.0) as f32,
        tick: 0,
    }
}

fn number(value: &Value<'_>, field: &str) -> i64 {
    value.at(field).and_then(|value| value.number()).map_or(0, |number| number as i64)
}

fn is(value: &Value<'_>, field: &str) -> bool {
    matches!(value.at(field), Some(Value::Bool(true)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_page::Level;

    /// The page of these ticks, of which some are controlled, and of how it came down.
    fn read(numbers: std::ops::Range<u64>, controlled: bool) -> FromLog {
        let mut replay = Replay::new();
        for number in numbers {
            let planned_ns = number as i64 * 1_000_000;
            let tick = record::Tick {
                number,
                planned_ns,
                waited_for_ns: planned_ns,
                due_ns: planned_ns,
                started_ns: planned_ns,
                controlled,
                phase: Phase::Stopped,
                ..record::Tick::UNKNOWN
            };
            replay.count(tick);
        }
        let (from, to, cause) =
            (Phase::Damping.name(), Phase::Stopped.name(), "every joint stands still".to_owned());
        let down =
            EventSummary { time_s: 1.0, tick: 1, from, to, cause, servo: None, bus: None, trouble: false };
        replay.events.push(down);
        replay.finish()
    }

    /// The first files of a rotated log may be lost, or not given: it "held 1000 Hz", and was good.
    #[test]
    fn a_log_without_its_beginning_says_so_and_is_not_good() {
        let whole = read(0..1_000, true);
        assert!(!whole.missing.iter().any(|missing| missing.contains("The first")), "{:?}", whole.missing);
        let part = read(3_000..4_000, true);
        assert_eq!(part.missing[0], "The first 3,000 ticks are not in these files.");
        let verdict = part.data.verdict;
        assert!(verdict.level == Level::Warning, "{verdict:?}");
        assert!(
            verdict.text.starts_with("Held 1000 Hz, but the first 3,000 ticks are not in these files"),
            "{}",
            verdict.text
        );
        // Nor was it never under control, if only the end is here.
        let end = read(3_000..4_000, false).data.verdict;
        assert!(
            end.text.starts_with("Not under control in these files; every joint stands still"),
            "{}",
            end.text
        );
        assert_eq!(end.headline, "not under control in these files");
        assert!(read(0..1_000, false).data.verdict.text.starts_with("Never under control"));
    }
}
