//! A run watched from outside, by its `tick` records as they come: counted, judged, and looked back at for ten seconds.

use crate::Phase;
use crate::recent::Recent;
use crate::record::Tick;
use crate::tally::{Counted, Counter, Counts, Pace};
use crate::verdict::Facts;

/// Watches a run.
#[derive(Clone, Debug)]
pub struct Watch {
    counter: Counter,
    recent: Recent,
    pace: Pace,
    late_ns: Option<i64>,
    /// Number and planned time of the newest tick.
    planned: Option<(u64, i64)>,
    phase: Option<Phase>,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            counter: Counter::new(i64::MAX),
            recent: Recent::default(),
            pace: Pace::default(),
            late_ns: None,
            planned: None,
            phase: None,
        }
    }
}

impl Watch {
    /// Takes the robot file's settings, where they are known: from how much over the usual response on a tick is late (else it is a
    /// tenth of the period), and whether a sensor paces the loop.
    pub fn know(&mut self, late_ns: Option<i64>, by_sensor: bool) {
        (self.late_ns, self.pace.by_sensor) = (late_ns, by_sensor);
        self.judge_by(self.pace.period_ns);
    }

    /// Takes in a tick that came at this time, µs. The period is what lies between the first two.
    pub fn take(&mut self, time_us: i64, tick: &Tick) -> Counted {
        let tick = &tick.bounded();
        let before = self.planned.replace((tick.number, tick.planned_ns));
        let in_a_row = before.filter(|(number, _)| number.checked_add(1) == Some(tick.number));
        if let (Some((_, planned_ns)), 0) = (in_a_row, self.pace.period_ns) {
            self.judge_by(tick.planned_ns.saturating_sub(planned_ns).max(0));
        }
        self.phase = Some(tick.phase);
        let counted = self.counter.count(tick, self.pace);
        self.recent.add(time_us, &counted);
        counted
    }

    fn judge_by(&mut self, period_ns: i64) {
        self.pace.period_ns = period_ns;
        if period_ns > 0 {
            self.counter.late_from(self.late_ns.unwrap_or(period_ns / 10));
        }
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.counter.counts
    }

    /// Those of the last [`RECENT_S`](crate::recent::RECENT_S) seconds.
    pub fn recent(&self) -> Counts {
        self.recent.counts()
    }

    /// Ticks that were not seen although later ones were.
    pub fn unrecorded(&self) -> u64 {
        self.counter.unrecorded
    }

    /// Planned periods without a tick, of some of the counts, under control.
    pub fn lost_periods(&self, counts: &Counts) -> u64 {
        counts.controlled.lost_periods(self.pace)
    }

    /// The period, once it is known.
    pub fn period_ns(&self) -> Option<i64> {
        (self.pace.period_ns > 0).then_some(self.pace.period_ns)
    }

    /// The phase after the newest tick.
    pub fn phase(&self) -> Option<Phase> {
        self.phase
    }

    /// Ticks per second lately: see [`Recent::rate_hz`].
    pub fn rate_hz(&self) -> Option<f64> {
        self.recent.rate_hz()
    }

    /// What the verdict on all of it is made of.
    pub fn facts(&self) -> Facts {
        Facts::of(&self.counter.counts, self.pace, self.counter.rate_hz(), self.counter.late_groups())
    }

    /// The same of the last [`RECENT_S`](crate::recent::RECENT_S) seconds.
    pub fn recent_facts(&self) -> Facts {
        let counts = self.recent.counts();
        Facts::of(&counts, self.pace, counts.controlled.rate_hz(), self.recent.late_groups())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::late::tests::{usual, woke_late};
    use crate::verdict::judge;
    use khz_rt::Cause;

    #[test]
    fn what_is_reported_is_that_of_the_last_ten_seconds() {
        let mut watch = Watch::default();
        for number in 0..30_000 {
            let tick = match number {
                1000 => Tick { skipped: 3, ..woke_late(number, 3_200_000, Cause::Preempted) },
                _ => usual(number),
            };
            watch.take(number as i64 * 1000, &tick);
        }
        assert_eq!((watch.lost_periods(&watch.counts()), watch.lost_periods(&watch.recent())), (3, 0));
        assert_eq!(judge(&watch.recent_facts()).text, "Held 1000 Hz.");
        let all = judge(&watch.facts()).text;
        assert!(
            all.contains("lost 3 of 30,002 periods") && all.contains("other threads had its CPU (3 of 3"),
            "{all}"
        );
    }

    #[test]
    fn a_tick_is_late_by_what_the_robot_file_says() {
        let late = |late_ns| {
            let mut watch = Watch::default();
            watch.know(late_ns, false);
            for number in 0..300 {
                watch.take(0, &usual(number));
            }
            watch
                .take(0, &woke_late(300, 300_000, Cause::Blocked))
                .judged
                .is_some_and(|judged| judged.is_late)
        };
        assert_eq!([late(None), late(Some(200_000)), late(Some(400_000))], [true, true, false]);
    }

    #[test]
    fn nothing_is_known_before_two_ticks() {
        let mut watch = Watch::default();
        watch.take(0, &Tick { number: u64::MAX, planned_ns: i64::MIN, ..usual(0) });
        let extreme = [i64::MIN, i64::MAX, 0];
        for (number, &started_ns) in extreme.iter().cycle().take(9).enumerate() {
            let ns = extreme[number / 3];
            let tick = Tick {
                started_ns,
                waited_for_ns: ns,
                wake_latency_ns: ns,
                collect_ns: ns,
                imu_ns: -1,
                ..usual(number as u64)
            };
            watch.take(started_ns, &Tick { away_ns: started_ns, decide_ns: ns, missed: u32::MAX, ..tick });
        }
        let mut watch = Watch::default();
        watch.take(0, &usual(7));
        assert_eq!((watch.period_ns(), watch.rate_hz()), (None, None));
    }
}
