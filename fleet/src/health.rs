//! How a robot's loop is, by its `tick` record.

use khz_run::record::Tick;
use khz_run::tally::{Counts, Stretch};
use khz_run::verdict::judge;
use khz_tlog::{Columns, Value};
use serde::{Deserialize, Serialize};

/// The loop in the last ten seconds, and since the run began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Ticks per second lately.
    pub rate_hz: f64,
    /// The supervisor's phase after the newest tick.
    pub phase: String,
    /// Of the last ten seconds.
    pub recent: Tally,
    /// Of the run, as far as it was received.
    pub run: Tally,
    /// The verdict on the last ten seconds, in a sentence or two. Bridges before 2026-11-26 have none.
    #[serde(default)]
    pub verdict: String,
}

/// Counts over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// All ticks.
    pub ticks: u64,
    /// Planned periods without a tick under control: those skipped, or by which the loop fell behind.
    #[serde(default)]
    pub lost_periods: u64,
    /// The worst wake latency, µs.
    pub worst_wake_us: f64,
    /// The counts of the controlled ticks.
    #[serde(default)]
    pub controlled: Stretch,
}

/// Watches ticks.
#[derive(Debug, Default)]
pub struct Watch(khz_run::watch::Watch);

impl Watch {
    /// Notes a sample of `tick`.
    pub fn tick(&mut self, time_us: i64, value: &Value<'_>) {
        let mut tick = Tick::UNKNOWN;
        tick.read(value);
        self.0.take(time_us, &tick);
    }

    /// How it is.
    pub fn health(&self) -> Health {
        let (recent, run) = (self.0.recent(), self.0.counts());
        let verdict = match (recent.all().ticks, recent.controlled.ticks) {
            (0, _) => "no ticks received".to_owned(),
            (_, 0) => "not under control".to_owned(),
            _ => judge(&self.0.recent_facts()).text,
        };
        Health {
            rate_hz: self.0.rate_hz().unwrap_or(0.0),
            phase: self.0.phase().map_or("", khz_run::Phase::name).to_owned(),
            recent: self.tally(&recent),
            run: self.tally(&run),
            verdict,
        }
    }

    fn tally(&self, counts: &Counts) -> Tally {
        Tally {
            ticks: counts.all().ticks,
            lost_periods: self.0.lost_periods(counts),
            worst_wake_us: counts.all().worst_wake_ns as f64 / 1000.0,
            controlled: counts.controlled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_run::Phase;
    use khz_tlog::Record;

    fn tick(number: u64) -> Tick {
        let planned_ns = number as i64 * 1_000_000;
        Tick {
            number,
            planned_ns,
            waited_for_ns: planned_ns,
            started_ns: planned_ns + 50_000,
            wake_latency_ns: 50_000,
            phase: Phase::Active,
            ..Tick::UNKNOWN
        }
    }

    #[test]
    fn the_last_ten_seconds_count() {
        let (ty, mut watch) = (Tick::schema(), Watch::default());
        let take = |watch: &mut Watch, tick: Tick| {
            watch.tick(tick.number as i64 * 1000, &Value::read(&ty, &tick.to_bytes()).unwrap());
        };
        let bad = |number| Tick {
            overrun: true,
            skipped: 2,
            missed: 1,
            wake_latency_ns: 9_000_000,
            ..tick(number)
        };
        (0..30_000)
            .for_each(|number| take(&mut watch, if number == 1000 { bad(number) } else { tick(number) }));
        let health = watch.health();
        assert_eq!((health.rate_hz, health.phase.as_str()), (1000.0, "active"));
        let Tally { ticks, lost_periods, worst_wake_us, controlled } = health.recent;
        assert_eq!((ticks, lost_periods, worst_wake_us), (10_000, 0, 50.0));
        assert_eq!((controlled.overruns, controlled.missed_replies), (0, 0));
        let Tally { ticks, lost_periods, worst_wake_us, controlled } = health.run;
        assert_eq!((ticks, lost_periods, worst_wake_us), (30_000, 2, 9000.0));
        assert_eq!((controlled.overruns, controlled.skipped, controlled.missed_replies), (1, 2, 1));
        assert_eq!(health.verdict, "Held 1000 Hz.");
        take(&mut watch, bad(30_000));
        let verdict = watch.health().verdict;
        assert!(verdict.starts_with("Did not hold 1000 Hz: lost 2 of"), "{verdict}");
        assert!(verdict.contains("1 reply was missed"), "{verdict}");
        assert_eq!(Watch::default().health().verdict, "no ticks received");
    }
}
