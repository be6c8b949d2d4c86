//! What the ticks of a run were like: the account of [`khz_run`], kept from the records as they come.

use super::lists::List;
use super::schemas::Schemas;
use khz_run::late::{Judged, PARTS};
use khz_run::record::Tick;
use khz_run::watch::Watch;
use khz_tlog::{Columns, FieldInfo, Value};
use std::ops::Deref;

/// The record of ticks.
pub(super) const RECORD: &str = "tick";

/// The ticks so far.
#[derive(Debug, Default)]
pub struct TickHistory {
    fields: Option<Fields>,
    watch: Watch,
    late: List<LateTick>,
}

/// A tick that ended later than usual.
#[derive(Clone, Debug, PartialEq)]
pub struct LateTick {
    /// Its number.
    pub tick: u64,
    /// When it was, µs since 1970.
    pub at_us: i64,
    /// From the time the loop waited for to the tick's end.
    pub response_ns: i64,
    /// Of it, how much more than usual.
    pub excess_ns: i64,
    /// How late it woke.
    pub wake_ns: i64,
    /// Which part of it took long.
    pub part: &'static str,
    /// Why.
    pub cause: &'static str,
    /// It ended after the next should have begun.
    pub is_overrun: bool,
}

/// Where the record has what: columns of the row, each with the field it is of.
#[derive(Debug)]
struct Fields {
    record: usize,
    places: Vec<(usize, usize)>,
}

impl Fields {
    fn of(schemas: &Schemas, record: usize) -> Self {
        let place = |(field, info): (usize, &FieldInfo)| {
            let mut names = std::iter::once(&info.name).chain(info.aliases);
            Some((names.find_map(|name| schemas.column(record, name))?, field))
        };
        Self { record, places: Tick::FIELDS.iter().enumerate().filter_map(place).collect() }
    }

    fn tick(&self, row: &[f64]) -> Tick {
        let mut tick = Tick::UNKNOWN;
        for (column, field) in &self.places {
            if let Some(value) = row.get(*column) {
                tick.set(*field, &Value::Float64(*value));
            }
        }
        tick
    }
}

impl TickHistory {
    pub(super) fn take(&mut self, schemas: &Schemas, record: usize, time_us: i64, row: &[f64]) {
        let fields = self.fields.take().filter(|fields| fields.record == record);
        let fields = self.fields.insert(fields.unwrap_or_else(|| Fields::of(schemas, record)));
        let tick = fields.tick(row);
        let counted = self.watch.take(time_us, &tick);
        if let Some(judged) = counted.judged.filter(|judged| judged.is_late) {
            self.late.push(LateTick::of(time_us, &tick, &judged));
        }
    }

    /// Reads the keys of a robot file by which ticks are judged; without them, or without a file that can be read, the defaults hold.
    pub(super) fn know_robot(&mut self, file: &str) {
        let file: toml::Table = file.parse().unwrap_or_default();
        let key = |name| file.get("loop")?.get(name);
        let us = key("late_us").and_then(|us| us.as_float().or(us.as_integer().map(|us| us as f64)));
        self.watch.know(us.map(|us| (us * 1e3) as i64), key("pace_bus").is_some());
    }

    /// The late ones.
    pub fn late(&self) -> &List<LateTick> {
        &self.late
    }
}

/// What was counted of them.
impl Deref for TickHistory {
    type Target = Watch;

    fn deref(&self) -> &Watch {
        &self.watch
    }
}

impl LateTick {
    fn of(at_us: i64, tick: &Tick, judged: &Judged) -> Self {
        Self {
            tick: tick.number,
            at_us,
            response_ns: judged.response_ns,
            excess_ns: judged.response_ns - judged.usual_ns,
            wake_ns: tick.wake_latency_ns,
            part: judged.part.map_or("none", |part| PARTS[part]),
            cause: judged.cause.name(),
            is_overrun: tick.overrun,
        }
    }
}
