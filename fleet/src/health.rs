//! How a robot's loop is, by its `tick` record.

use khz_tlog::Value;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How many seconds are looked back.
const SECONDS: usize = 10;

/// The loop in the last ten seconds, and since the run began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Ticks per second in the last ten seconds.
    pub rate_hz: f64,
    /// The supervisor's phase after the newest tick.
    pub phase: String,
    /// Of the last ten seconds.
    pub recent: Tally,
    /// Of the run, as far as it was received.
    pub run: Tally,
}

/// Counts over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Ticks.
    pub ticks: u64,
    /// Ticks that took longer than their period.
    pub overruns: u64,
    /// Periods that were skipped.
    pub skipped: u64,
    /// Replies that were missed.
    pub missed: u64,
    /// The worst wake latency, µs.
    pub worst_wake_us: f64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.ticks += other.ticks;
        self.overruns += other.overruns;
        self.skipped += other.skipped;
        self.missed += other.missed;
        self.worst_wake_us = self.worst_wake_us.max(other.worst_wake_us);
    }
}

impl Health {
    /// In one sentence.
    pub fn verdict(&self) -> String {
        let Tally { ticks, overruns, skipped, missed, .. } = self.recent;
        match (ticks, overruns + skipped + missed) {
            (0, _) => "no ticks received".to_owned(),
            (_, 0) => "clean".to_owned(),
            _ => [
                (overruns, "overrun", "overruns"),
                (skipped, "skipped period", "skipped periods"),
                (missed, "missed reply", "missed replies"),
            ]
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
            .collect::<Vec<_>>()
            .join(", "),
        }
    }
}

/// Watches ticks.
#[derive(Debug, Default)]
pub struct Watch {
    /// One for each second in which ticks came, with the second.
    seconds: VecDeque<(i64, Tally)>,
    run: Tally,
    phase: String,
    newest_us: Option<i64>,
}

impl Watch {
    /// Notes a sample of `tick`.
    pub fn tick(&mut self, time_us: i64, value: &Value<'_>) {
        let mut tick = Tally { ticks: 1, ..Tally::default() };
        let Value::Object(fields) = *value else { return };
        for (name, value) in fields {
            match (name, value) {
                ("overrun", Value::Bool(true)) => tick.overruns = 1,
                ("skipped", value) => tick.skipped = count(&value),
                ("missed", value) => tick.missed = count(&value),
                ("wake_latency_ns", value) => tick.worst_wake_us = value.number().unwrap_or(0.0) / 1000.0,
                ("phase", Value::Enum(phase)) => self.set_phase(phase.name),
                _ => {}
            }
        }
        self.run.add(&tick);
        self.newest_us = Some(time_us);
        let second = time_us.div_euclid(1_000_000);
        match self.seconds.back_mut() {
            Some((of, tally)) if *of == second => tally.add(&tick),
            // A clock that was set back: what lies ahead of it is another time's.
            Some((of, _)) if *of > second => self.seconds = VecDeque::from([(second, tick)]),
            _ => self.seconds.push_back((second, tick)),
        }
        while self.seconds.len() > SECONDS
            || self.seconds.front().is_some_and(|(of, _)| second - of > SECONDS as i64)
        {
            self.seconds.pop_front();
        }
    }

    fn set_phase(&mut self, name: Option<&str>) {
        let name = name.unwrap_or("unknown");
        if self.phase != name {
            name.clone_into(&mut self.phase);
        }
    }

    /// How it is.
    pub fn health(&self) -> Health {
        let mut recent = Tally::default();
        self.seconds.iter().for_each(|(_, tally)| recent.add(tally));
        let since_us = self.seconds.front().map(|(second, _)| second * 1_000_000);
        let seconds =
            self.newest_us.zip(since_us).map_or(1.0, |(now, since)| ((now - since) as f64 / 1e6).max(0.1));
        // The first second is not a whole one when the run has just begun.
        let whole: Vec<u64> = self.seconds.iter().map(|(_, tally)| tally.ticks).collect();
        let rate_hz = match whole.as_slice() {
            [_, inner @ .., _] if !inner.is_empty() => inner.iter().sum::<u64>() as f64 / inner.len() as f64,
            _ => recent.ticks as f64 / seconds,
        };
        Health { rate_hz, phase: self.phase.clone(), recent, run: self.run }
    }
}

fn count(value: &Value<'_>) -> u64 {
    value.number().unwrap_or(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_tlog::{Sink, Type, Width};

    fn ty() -> Type {
        let phases = [(0u64, "idle"), (1, "active")];
        Type::object([
            ("overrun", Type::Bool),
            ("skipped", Type::Uint(Width::Four)),
            ("missed", Type::Uint(Width::Four)),
            ("wake_latency_ns", Type::Int(Width::Eight)),
            ("phase", Type::enumeration(phases)),
        ])
    }

    fn tick(overrun: bool, skipped: u32, missed: u32, wake_ns: i64) -> Vec<u8> {
        let mut bytes = vec![u8::from(overrun)];
        bytes.put(&skipped.to_le_bytes());
        bytes.put(&missed.to_le_bytes());
        bytes.put(&wake_ns.to_le_bytes());
        bytes.varuint(1);
        bytes
    }

    #[test]
    fn the_last_ten_seconds_count() {
        let (ty, mut watch) = (ty(), Watch::default());
        for ms in 0..30_000 {
            let bytes = if ms == 1000 { tick(true, 2, 1, 9_000_000) } else { tick(false, 0, 0, 50_000) };
            watch.tick(ms * 1000, &Value::read(&ty, &bytes).unwrap());
        }
        let health = watch.health();
        assert_eq!((health.rate_hz, health.phase.as_str()), (1000.0, "active"));
        assert_eq!(health.recent, Tally { ticks: 10_000, worst_wake_us: 50.0, ..Tally::default() });
        assert_eq!(
            health.run,
            Tally { ticks: 30_000, overruns: 1, skipped: 2, missed: 1, worst_wake_us: 9000.0 }
        );
        assert_eq!(health.verdict(), "clean");
        watch.tick(30_000_000, &Value::read(&ty, &tick(true, 2, 1, 0)).unwrap());
        assert_eq!(watch.health().verdict(), "1 overrun, 2 skipped periods, 1 missed reply");
    }

    #[test]
    fn a_clock_that_is_set_back_starts_anew() {
        let (ty, mut watch) = (ty(), Watch::default());
        for time_us in [5_000_000, 0, 1000] {
            watch.tick(time_us, &Value::read(&ty, &tick(false, 0, 0, 0)).unwrap());
        }
        assert_eq!((watch.health().recent.ticks, watch.health().run.ticks), (2, 3));
        assert_eq!(Watch::default().health().verdict(), "no ticks received");
    }
}
