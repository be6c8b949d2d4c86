//! What the ticks of a run were like: rate, counts, and which were late.

use super::lists::List;
use super::schemas::Schemas;
use std::collections::VecDeque;

/// The record of ticks.
pub(super) const RECORD: &str = "tick";
/// The rate is that of the last second.
const RATE_US: i64 = 1_000_000;
/// What counts as recent, s.
pub const RECENT_S: i64 = 10;
/// At most so many ticks of it are kept in mind.
const RATE_TICKS: usize = 100_000;
/// So many controlled ticks pass before one is judged late.
const UNJUDGED: u64 = 100;
/// No field counts more than this in one tick: sums do not overflow, whatever is in a log.
const COUNTABLE: u64 = u32::MAX as u64;
/// A running median moves by this part of itself.
const MEDIAN_STEPS: f64 = 64.0;

/// The ticks so far.
#[derive(Debug, Default)]
pub struct Ticks {
    fields: Option<Fields>,
    counts: Counts,
    late: List<LateTick>,
    phase: Option<String>,
    /// Of the previous tick: number, planned and actual start.
    before: Option<(f64, f64, f64)>,
    period_ns: Option<f64>,
    /// Starts within the last second, µs of the run's clock.
    starts_us: VecDeque<i64>,
    usual: Usual,
    /// The counts at the beginning of each of the last seconds.
    seconds: VecDeque<(i64, Counts)>,
}

/// What was counted. `docs/metrics.md` has the definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ticks.
    pub ticks: u64,
    /// Of these, with the robot under control.
    pub controlled: u64,
    /// Ticks that are missing although later ones came.
    pub unrecorded: u64,
    /// Periods without a tick, of controlled ticks; so the next two.
    pub skipped: u64,
    /// Ticks that ended after the next should have begun.
    pub overruns: u64,
    /// Ticks that woke a period or more late.
    pub late_wakes: u64,
    /// Missed replies, of all servos.
    pub missed: u64,
    /// Replies to older queries.
    pub late_replies: u64,
    /// Frames that were no reply.
    pub unexpected: u64,
    /// Missed readings of the IMU.
    pub imu_missed: u64,
}

impl Counts {
    fn less(&self, before: &Self) -> Self {
        Self {
            ticks: self.ticks - before.ticks,
            controlled: self.controlled - before.controlled,
            unrecorded: self.unrecorded - before.unrecorded,
            skipped: self.skipped - before.skipped,
            overruns: self.overruns - before.overruns,
            late_wakes: self.late_wakes - before.late_wakes,
            missed: self.missed - before.missed,
            late_replies: self.late_replies - before.late_replies,
            unexpected: self.unexpected - before.unexpected,
            imu_missed: self.imu_missed - before.imu_missed,
        }
    }
}

/// A tick that ended later than usual.
#[derive(Clone, Debug, PartialEq)]
pub struct LateTick {
    /// Its number.
    pub tick: u64,
    /// When it was, µs since 1970.
    pub at_us: i64,
    /// From the time the loop waited for to the tick's end.
    pub response_ns: f64,
    /// Of it, how much more than usual.
    pub excess_ns: f64,
    /// How late it woke.
    pub wake_ns: f64,
    /// What it lost most time to.
    pub cause: String,
    /// It ended after the next should have begun.
    pub is_overrun: bool,
}

/// Where the record has what; a log may lack any of them.
#[derive(Debug)]
struct Fields {
    record: usize,
    places: [Option<usize>; NAMES.len()],
}

/// The fields that are read, in the order of the constants below.
const NAMES: [&str; 21] = [
    "number",
    "planned_ns",
    "waited_for_ns",
    "started_ns",
    "wake_latency_ns",
    "send_ns",
    "collect_ns",
    "imu_ns",
    "decide_ns",
    "control_ns",
    "cycle_ns",
    "skipped",
    "missed",
    "late",
    "unexpected",
    "overrun",
    "imu_missed",
    "controlled",
    "cause",
    "phase",
    "encode_ns",
];
const NUMBER: usize = 0;
const PLANNED: usize = 1;
const WAITED_FOR: usize = 2;
const STARTED: usize = 3;
const WAKE: usize = 4;
const SEND: usize = 5;
const COLLECT: usize = 6;
const IMU: usize = 7;
const DECIDE: usize = 8;
const CONTROL: usize = 9;
const CYCLE: usize = 10;
const SKIPPED: usize = 11;
const MISSED: usize = 12;
const LATE: usize = 13;
const UNEXPECTED: usize = 14;
const OVERRUN: usize = 15;
const IMU_MISSED: usize = 16;
const CONTROLLED: usize = 17;
const CAUSE: usize = 18;
const PHASE: usize = 19;
const ENCODE: usize = 20;

/// What ticks usually take, ns.
#[derive(Debug, Default)]
struct Usual {
    response: Median,
    parts: [Median; 3],
}

#[derive(Clone, Copy, Debug, Default)]
struct Median(Option<f64>);

impl Median {
    /// Takes in a value and returns what was usual before it.
    fn record(&mut self, ns: f64) -> f64 {
        let before = self.0.unwrap_or(ns);
        let step = (before / MEDIAN_STEPS).max(1.0);
        self.0 = Some(if ns > before {
            before + step
        } else if ns < before {
            before - step
        } else {
            before
        });
        before
    }
}

impl Ticks {
    pub(super) fn take(&mut self, schemas: &Schemas, record: usize, time_us: i64, row: &[f64]) {
        if self.fields.as_ref().is_none_or(|fields| fields.record != record) {
            let places = NAMES.map(|name| schemas.column(record, name));
            self.fields = Some(Fields { record, places });
        }
        let Some(fields) = &self.fields else { return };
        let get = |field: usize| fields.places[field].and_then(|place| row.get(place)).copied();
        let values: [Option<f64>; NAMES.len()] = std::array::from_fn(get);
        let word = |field: usize| schemas.word(record, fields.places[field]?, values[field]?);
        let (phase, cause) = (word(PHASE), word(CAUSE).filter(|cause| *cause != "none"));
        if self.phase.as_deref() != phase {
            self.phase = phase.map(str::to_owned);
        }
        self.count(time_us, &values);
        self.judge(time_us, &values, cause);
    }

    fn count(&mut self, time_us: i64, values: &[Option<f64>; NAMES.len()]) {
        self.note_second(time_us);
        let number = |field: usize| (values[field].unwrap_or(0.0) as u64).min(COUNTABLE);
        let counts = &mut self.counts;
        counts.ticks += 1;
        counts.missed += number(MISSED);
        counts.late_replies += number(LATE);
        counts.unexpected += number(UNEXPECTED);
        counts.imu_missed += number(IMU_MISSED);
        self.starts_us.push_back(time_us);
        let is_old = |start_us: &i64| *start_us <= time_us - RATE_US || *start_us > time_us;
        while self.starts_us.len() > RATE_TICKS || self.starts_us.front().is_some_and(is_old) {
            self.starts_us.pop_front();
        }
        let now =
            (values[NUMBER].unwrap_or(0.0), values[PLANNED].unwrap_or(0.0), values[STARTED].unwrap_or(0.0));
        let before = self.before.replace(now);
        let Some(before) = before.filter(|before| before.0 < now.0) else { return };
        counts.unrecorded += ((now.0 - before.0 - 1.0) as u64).min(COUNTABLE);
        if before.0 + 1.0 == now.0 && values[PLANNED].is_some() {
            self.period_ns.get_or_insert(now.1 - before.1);
        }
        if is_controlled(values) {
            let counts = &mut self.counts;
            counts.controlled += 1;
            counts.skipped += number(SKIPPED);
            counts.overruns += number(OVERRUN);
            let wake_ns = values[WAKE].unwrap_or(0.0);
            counts.late_wakes += u64::from(self.period_ns.is_some_and(|period_ns| wake_ns >= period_ns));
        }
    }

    fn note_second(&mut self, time_us: i64) {
        if self.seconds.back().is_none_or(|(at_us, _)| (time_us - at_us).abs() >= 1_000_000) {
            self.seconds.push_back((time_us, self.counts));
        }
        while self.seconds.len() > 1 && self.seconds[1].0 <= time_us - RECENT_S * 1_000_000 {
            self.seconds.pop_front();
        }
    }

    /// Judges by the response, as the summary of a run does; among the causes it can tell what the record tells: what
    /// kept the thread from its CPU, else the part that took longest beyond its usual time.
    fn judge(&mut self, time_us: i64, values: &[Option<f64>; NAMES.len()], cause: Option<&str>) {
        let ns = |field: usize| values[field];
        let response = || Some(ns(STARTED)? + ns(CYCLE)? + ns(DECIDE)? - ns(WAITED_FOR)?);
        let (Some(response_ns), true, Some(period_ns)) = (response(), is_controlled(values), self.period_ns)
        else {
            return;
        };
        let or_0 = |field: usize| ns(field).unwrap_or(0.0);
        let (imu_ns, control_ns) = (or_0(IMU), or_0(CONTROL));
        let bus_ns = or_0(SEND) + or_0(COLLECT) - imu_ns;
        let excess_ns = response_ns - self.usual.response.record(response_ns);
        let own_ns = or_0(ENCODE) + or_0(DECIDE) - control_ns;
        let parts = [("bus", bus_ns + imu_ns), ("controller", control_ns), ("compute", own_ns)];
        let mut worst = ("compute", f64::NEG_INFINITY);
        for ((name, ns), usual) in parts.into_iter().zip(&mut self.usual.parts) {
            let over_ns = ns - usual.record(ns);
            if over_ns >= worst.1 {
                worst = (name, over_ns);
            }
        }
        if self.counts.controlled <= UNJUDGED || excess_ns <= period_ns / 10.0 {
            return;
        }
        let cause = cause.unwrap_or(if or_0(WAKE) > worst.1 { "unaccounted" } else { worst.0 });
        self.late.push(LateTick {
            tick: or_0(NUMBER) as u64,
            at_us: time_us,
            response_ns,
            excess_ns,
            wake_ns: or_0(WAKE),
            cause: cause.replace('_', " "),
            is_overrun: or_0(OVERRUN) != 0.0,
        });
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What was counted in the last [`RECENT_S`] seconds, up to one more.
    pub fn recent(&self) -> Counts {
        let before = self.seconds.front().map_or_else(Counts::default, |(_, counts)| *counts);
        self.counts.less(&before)
    }

    /// How many of the ticks kept were late in the last [`RECENT_S`] seconds before `now_us`.
    pub fn recently_late(&self, now_us: i64) -> u64 {
        self.late.since(0).rev().take_while(|late| late.at_us > now_us - RECENT_S * 1_000_000).count() as u64
    }

    /// The late ones.
    pub fn late(&self) -> &List<LateTick> {
        &self.late
    }

    /// The phase of the newest tick.
    pub fn phase(&self) -> Option<&str> {
        self.phase.as_deref()
    }

    /// The time between two ticks, as planned.
    pub fn period_ns(&self) -> Option<f64> {
        self.period_ns
    }

    /// Ticks per second, of the last second before the newest tick; `None` before there are two.
    pub fn rate_hz(&self) -> Option<f64> {
        let (first, last) = (self.starts_us.front()?, self.starts_us.back()?);
        let count = self.starts_us.len() - 1;
        (last > first).then(|| count as f64 / ((last - first) as f64 / 1e6))
    }
}

/// Records without this field have controlled ticks only.
fn is_controlled(values: &[Option<f64>; NAMES.len()]) -> bool {
    values[CONTROLLED].is_none_or(|controlled| controlled != 0.0)
}
