//! What a viewer can look back at: every number of every record as a signal over time.
//!
//! A [`Store`] answers one question, [`window`](Store::window): the least and the greatest value of some signals in each
//! bucket of a stretch of time. A spike of a single sample is in the answer, however wide the buckets are. Buckets are
//! 2^level µs long and lie at multiples of their length since 1970, so that those of a coarser level consist of whole
//! ones of a finer level, and a plot that moves does not flicker.
//!
//! Memory is bounded. Of everything there are minima and maxima in buckets that double their length when there are too
//! many. Finer than that is
//!
//! * in a live store: every sample of the last seconds, as long as the budget allows;
//! * in a store of a log: the stretch last looked at, read again from the file.
//!
//! History has single precision; the newest value of each signal is kept as it came.

mod columns;
mod lists;
mod log;
mod pyramid;
mod recent;
mod schemas;
#[cfg(test)]
mod tests;
mod ticks;

use crate::control::Parameter;
use khz_tlog::{Item, Type, Value};
use lists::Lists;
pub use lists::{Change, Event, List, Robot};
pub use log::Log;
pub use pyramid::LEVELS;
use pyramid::Pyramid;
use recent::Recent;
pub use schemas::{MAX_SIGNALS, Signal, SignalKind};
use schemas::{Rows, Schemas, Unfit};
use std::collections::{HashMap, HashSet};
pub use ticks::{LateTick, TickHistory};

/// A live store's memory, bytes, unless something else is asked for.
pub const DEFAULT_BUDGET: usize = 64 << 20;
/// How many signals one window may have.
pub const MAX_WINDOW_SIGNALS: usize = 256;
/// How many buckets one window may have.
pub const MAX_BUCKETS: usize = 4096;
/// Times further from 1970 than this, µs, are no times: 36,000 years.
const MAX_TIME_US: i64 = 1 << 60;
/// A live sample this much older than the newest, or [`MAX_STEP_US`] newer, means that the sender's clock was set.
const MAX_BACK_US: i64 = 1_000_000;
const MAX_STEP_US: i64 = 3_600_000_000;

/// A stretch of time in buckets: the `count` buckets of 2^`level` µs from number `from` on. Bucket 0 begins in 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// How long a bucket is: 2^level µs; below [`LEVELS`].
    pub level: u32,
    /// The first bucket's number.
    pub from: i64,
    /// How many buckets; at most [`MAX_BUCKETS`].
    pub count: usize,
}

impl Span {
    /// When it begins, µs.
    pub fn from_us(self) -> i64 {
        self.from.saturating_mul(1 << self.level)
    }

    /// When it is over, µs.
    pub fn to_us(self) -> i64 {
        self.from.saturating_add(self.count as i64).saturating_mul(1 << self.level)
    }

    fn bounded(self) -> Self {
        let level = self.level.min(LEVELS - 1);
        let from = self.from.clamp(-(MAX_TIME_US >> level), MAX_TIME_US >> level);
        // No end beyond twice the latest time, so that times can be counted with.
        let most = usize::try_from((2 * MAX_TIME_US) >> level).unwrap_or(MAX_BUCKETS);
        Self { level, from, count: self.count.min(MAX_BUCKETS).min(most) }
    }
}

/// The answer of [`Store::window`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// For each signal the minima of all buckets, then the maxima; NaN where there is no value.
    pub values: Vec<f32>,
    /// The level the values really have, where it is coarser than that asked for: then several buckets have the values of
    /// the one around them.
    pub level: u32,
    /// Nothing is missing; else the same question gives more in a moment.
    pub is_complete: bool,
}

/// What was left out or put right on the way into a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Samples that do not fit their schema, or of no declared record.
    pub unfit: u64,
    /// Times the clock of the samples was set; history goes on without a gap.
    pub clock_set: u64,
    /// Damaged places of a log.
    pub damaged: u64,
    /// Records whose numbers are not kept, because there are too many.
    pub records_left_out: u64,
}

/// The history of a run that goes on, or of a log.
#[derive(Debug)]
pub struct Store {
    /// The number of a record here, by the number its source gives it.
    numbers: HashMap<usize, usize>,
    schemas: Schemas,
    newest: Rows,
    coarse: Pyramid,
    /// Of a live store, what is finer than the buckets of everything.
    recent: Option<Recent>,
    /// Of a log, the same.
    log: Option<Log>,
    ticks: TickHistory,
    lists: Lists,
    losses: Losses,
    /// Added to the times of samples since the sender's clock was set.
    shift_us: i64,
    /// Records that have had a sample.
    begun: HashSet<usize>,
    first_us: Option<i64>,
    last_us: Option<i64>,
}

/// A live store of [`DEFAULT_BUDGET`].
impl Default for Store {
    fn default() -> Self {
        Self::live(DEFAULT_BUDGET)
    }
}

impl Store {
    /// An empty store for samples as they come, of so many bytes.
    pub fn live(budget: usize) -> Self {
        let coarse = budget / 4;
        Self { recent: Some(Recent::new(budget - coarse)), ..Self::new(coarse) }
    }

    /// A store of a log; [`Store::read`] fills it. Its memory is `budget` for the whole log and as much for the stretch
    /// last looked at.
    pub fn of_log(log: Log, budget: usize) -> Self {
        Self { log: Some(log.with_budget(budget)), ..Self::new(budget) }
    }

    fn new(coarse: usize) -> Self {
        Self {
            numbers: HashMap::new(),
            schemas: Schemas::default(),
            newest: Rows::default(),
            coarse: Pyramid::new(coarse),
            recent: None,
            log: None,
            ticks: TickHistory::default(),
            lists: Lists::default(),
            losses: Losses::default(),
            shift_us: 0,
            begun: HashSet::new(),
            first_us: None,
            last_us: None,
        }
    }

    /// Takes in a record under the number that its source gives it. The same record again changes nothing; another schema
    /// under the same name replaces the one before.
    pub fn declare(&mut self, record: usize, name: &str, schema: &Type) {
        let number = self.add(name, schema);
        self.numbers.insert(record, number);
    }

    /// Takes in a sample of a declared record. What cannot be read is counted.
    pub fn sample(&mut self, record: usize, time_us: i64, payload: &[u8]) {
        let number = self.numbers.get(&record).copied().unwrap_or(usize::MAX);
        let is_first = self.begun.insert(number);
        let time_us = self.steady(time_us.clamp(-MAX_TIME_US, MAX_TIME_US), is_first);
        self.put(number, time_us, payload);
    }

    fn add(&mut self, name: &str, schema: &Type) -> usize {
        let (number, left_out) = self.schemas.declare(name, schema);
        self.losses.records_left_out += u64::from(left_out);
        let widths: Vec<usize> = self.schemas.widths().collect();
        self.newest.resize(&widths);
        self.coarse.resize(&widths);
        self.recent.iter_mut().for_each(|recent| recent.resize(&widths));
        number
    }

    fn put(&mut self, number: usize, time_us: i64, payload: &[u8]) {
        if self.take(number, time_us, payload).is_err() {
            self.losses.unfit += 1;
        }
    }

    fn take(&mut self, record: usize, time_us: i64, payload: &[u8]) -> Result<(), Unfit> {
        let derived = self.schemas.read(record, payload, &mut self.newest)?;
        for record in std::iter::once(record).chain(derived) {
            let row = self.newest.of(record);
            self.coarse.push(record, time_us, row);
            self.recent.iter_mut().for_each(|recent| recent.push(record, time_us, row));
        }
        self.first_us = Some(self.first_us.map_or(time_us, |first_us| first_us.min(time_us)));
        self.last_us = Some(self.last_us.map_or(time_us, |last_us| last_us.max(time_us)));
        let Some((name, ty)) = self.schemas.named(record) else { return Ok(()) };
        if name == ticks::RECORD {
            self.ticks.take(&self.schemas, record, time_us, self.newest.of(record));
        } else if lists::is_listed(name) {
            self.lists.take(name, time_us, &Value::read(ty, payload)?);
            if name == "robot"
                && let Some(robot) = &self.lists.robot
            {
                self.ticks.know_robot(&robot.file);
            }
        }
        Ok(())
    }

    /// The time of a live sample, without the steps of the sender's clock. A record's first sample is no evidence of a step:
    /// what a run reports once, such as its robot, has the time of the start, whenever a viewer comes.
    fn steady(&mut self, time_us: i64, is_first: bool) -> i64 {
        let Some(last_us) = self.last_us else { return time_us };
        let shifted_us = self.shifted_us(time_us);
        if shifted_us >= last_us - MAX_BACK_US && shifted_us <= last_us + MAX_STEP_US {
            return shifted_us;
        }
        if !is_first {
            self.losses.clock_set += 1;
            self.shift_us = last_us - time_us;
        }
        last_us
    }

    /// The present place of a time of the sender's clock among the times here, which do not follow when that clock is set.
    pub fn shifted_us(&self, time_us: i64) -> i64 {
        time_us.saturating_add(self.shift_us)
    }

    /// Of a log, reads on for at most so many samples, each of which `each` sees, too; returns whether it did. `false`:
    /// there is nothing more now, but a log that is still being written may have more later. A live store has nothing to
    /// read.
    ///
    /// # Errors
    /// When the file cannot be read. Damage is counted and stepped over.
    pub fn read(&mut self, samples: usize, each: &mut dyn FnMut(&Item<'_>)) -> Result<bool, khz_tlog::Error> {
        // Taken out, because it fills the store it is in.
        let Some(mut log) = self.log.take() else { return Ok(false) };
        let read = log.read(samples, self, each);
        self.log = Some(log);
        read
    }

    /// How much of a log has been read, 0 to 1; a live store has nothing to read.
    pub fn share_read(&self) -> f64 {
        self.log.as_ref().map_or(1.0, Log::share_read)
    }

    /// Whether it is of a log.
    pub fn is_log(&self) -> bool {
        self.log.is_some()
    }

    /// Whether a log was finished: its writer ended it properly.
    pub fn is_finished(&self) -> bool {
        self.log.as_ref().is_some_and(Log::is_finished)
    }

    /// The least and greatest values of these signals in the buckets of a span. At most [`MAX_WINDOW_SIGNALS`] signals
    /// are looked at; an unknown one has no values. Of a log it may have to read, for a bounded time each call.
    pub fn window(&mut self, span: Span, signals: &[u32]) -> Window {
        let span = span.bounded();
        let signals = &signals[..signals.len().min(MAX_WINDOW_SIGNALS)];
        let mut window = Window { is_complete: true, level: span.level, values: Vec::new() };
        window.values.resize(signals.len() * 2 * span.count, f32::NAN);
        if span.count == 0 {
            return window;
        }
        if span.level < self.coarse.level()
            && let Some(log) = &mut self.log
        {
            window.is_complete = log.look_at(span, signals, &self.schemas);
        }
        for (&signal, values) in signals.iter().zip(window.values.chunks_mut(2 * span.count)) {
            let Some(place) = self.schemas.place(signal) else { continue };
            let (min, max) = values.split_at_mut(span.count);
            window.level = window.level.max(self.fill(place, span, min, max));
        }
        window
    }

    /// Puts a signal's values into the buckets of a span and returns at what level they are.
    fn fill(&self, (record, column): (usize, usize), span: Span, min: &mut [f32], max: &mut [f32]) -> u32 {
        if span.level < self.coarse.level() {
            if let Some(recent) = &self.recent {
                let count = recent.fill(record, column, span, min, max);
                let old = Span { count, ..span };
                let level = self.coarse.fill(record, column, old, &mut min[..count], &mut max[..count]);
                return if count > 0 { level } else { span.level };
            }
            if let Some(detail) = self.log.as_ref().and_then(|log| log.detail(span)) {
                return detail.fill(record, column, span, min, max);
            }
        }
        self.coarse.fill(record, column, span, min, max)
    }

    /// All signals; their numbers are their places here. Those of a schema that was replaced are not
    /// [current](Signal::is_current).
    pub fn signals(&self) -> &[Signal] {
        self.schemas.signals()
    }

    /// The signal of this name.
    pub fn signal(&self, name: &str) -> Option<u32> {
        self.schemas.signal(name)
    }

    /// Names of the declared records, oldest first.
    pub fn records(&self) -> impl Iterator<Item = &str> {
        self.schemas.names()
    }

    /// A signal's newest value, as precise as it came; NaN if there is none.
    pub fn newest(&self, signal: u32) -> f64 {
        self.schemas.place(signal).map_or(f64::NAN, |(record, column)| self.newest.of(record)[column])
    }

    /// Times of the first and the last sample, µs since 1970.
    pub fn extent_us(&self) -> Option<(i64, i64)> {
        self.first_us.zip(self.last_us)
    }

    /// What the ticks were like.
    pub fn ticks(&self) -> &TickHistory {
        &self.ticks
    }

    /// Changes of phase and warnings.
    pub fn events(&self) -> &List<Event> {
        &self.lists.events
    }

    /// Changes of parameters that a tick has taken.
    pub fn changes(&self) -> &List<Change> {
        &self.lists.changes
    }

    /// The parameters with the values in force.
    pub fn parameters(&self) -> &[Parameter] {
        &self.lists.parameters
    }

    /// The robot, if the records describe it.
    pub fn robot(&self) -> Option<&Robot> {
        self.lists.robot.as_ref()
    }

    /// What was left out.
    pub fn losses(&self) -> Losses {
        self.losses
    }
}
