//! The verdict on a run or a measurement: whether it held its rate, and why it is no better.
//!
//! It judges what happened. How the loop's thread was set up (real-time, degraded, ordinary) is a fact beside it and
//! no verdict: a real-time thread can lose periods, and an ordinary one can hold its rate.

use khz_page::{Level, grouped};
use serde::{Deserialize, Serialize};

/// The verdict.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// How good it is.
    pub level: Level,
    /// Whether it held its rate: `held 1000 Hz`.
    #[serde(alias = "grade")]
    pub headline: String,
    /// Why it is no better, one sentence each.
    pub reasons: Vec<String>,
}

/// What the verdict is made of. What does not apply stays at its default.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The configured rate.
    pub target_hz: f64,
    /// The achieved one.
    pub rate_hz: f64,
    /// The rate is that of a sensor's clock, which may be off by [`SENSOR_CLOCK`].
    pub sensor_paced: bool,
    /// It ran in virtual time, which is never late.
    pub virtual_time: bool,
    /// Planned periods.
    pub periods: u64,
    /// Of these, periods without a tick.
    pub lost: u64,
    /// Periods without a tick before and after the time the robot was controlled.
    pub lost_outside: u64,
    /// Ticks that started a period or more late.
    pub late_wakes: u64,
    /// Ticks that ended after the next was planned.
    pub overruns: u64,
    /// Ticks without the frame that paces them.
    pub without_frame: u64,
    /// Frames that pace the loop but came too early to start a tick.
    pub early_frames: u64,
    /// Replies missed.
    pub missed_replies: u64,
    /// Of these, in ticks that had less of the bus cycle on the CPU than all replies usually take.
    pub missed_while_off_cpu: u64,
    /// Replies to older queries.
    pub late_replies: u64,
    /// Further replies to a query that was answered.
    pub duplicates: u64,
    /// Frames that were no reply to a query.
    pub unexpected_frames: u64,
    /// IMU readings missed.
    pub imu_missed: u64,
    /// It ended by itself, because a tick took too long: after so many ticks, of so many planned.
    pub stopped: Option<(u64, u64)>,
    /// What went wrong and ended it, as sentences.
    pub failures: Vec<String>,
    /// What went wrong and did not, as sentences.
    pub warnings: Vec<String>,
}

/// A sensor's clock may be off by this share.
pub const SENSOR_CLOCK: f64 = 0.05;

/// From this share of lost periods on a run is bad.
const BAD_SHARE: f64 = 0.01;

/// The verdict on these facts. Whoever lost a period gets no good one.
#[must_use]
pub fn judge(facts: &Facts) -> Verdict {
    let mut verdict = Verdict { level: Level::Good, headline: headline(facts), reasons: Vec::new() };
    let mut blame = |bad: bool, at_least: Level, reason: String| {
        if bad {
            verdict.level = verdict.level.max(at_least);
            verdict.reasons.push(reason);
        }
    };
    for failure in &facts.failures {
        blame(true, Level::Bad, failure.clone());
    }
    if let Some(reason) = stopped(facts) {
        blame(true, Level::Bad, format!("It {reason}."));
    }
    blame(facts.periods == 0, Level::Warning, "The robot was never controlled.".into());
    let share = facts.lost as f64 / facts.periods.max(1) as f64;
    let lost = counted(facts.lost, "period");
    let level = if share >= BAD_SHARE { Level::Bad } else { Level::Warning };
    blame(facts.lost > 0, level, format!("{lost} of {} passed without a tick.", grouped(facts.periods)));
    blame(facts.lost == 0 && !held(facts), Level::Warning, format!("The rate was {:.2} Hz.", facts.rate_hz));
    blame(facts.late_wakes > 0, Level::Warning, started_late(facts.late_wakes));
    blame(facts.overruns > 0, Level::Warning, format!("{} overran.", counted(facts.overruns, "tick")));
    let outside = counted(facts.lost_outside, "period");
    blame(
        facts.lost_outside > 0,
        Level::Warning,
        format!("{outside} passed without a tick during start-up or while coming down."),
    );
    let clean = facts.missed_replies.saturating_sub(facts.missed_while_off_cpu);
    blame(clean > 0, Level::Bad, format!("{} missed.", were(clean, "reply", "replies")));
    blame(
        facts.missed_while_off_cpu > 0,
        Level::Warning,
        format!(
            "{} missed while the loop was off its CPU.",
            were(facts.missed_while_off_cpu, "reply", "replies")
        ),
    );
    for reason in blemishes(facts) {
        blame(true, Level::Warning, reason);
    }
    let unpaced = were(facts.without_frame, "tick", "ticks");
    blame(
        facts.without_frame > 0,
        Level::Warning,
        format!("{unpaced} started by the timer, without a pace frame."),
    );
    let early = were(facts.early_frames, "pace frame", "pace frames");
    blame(
        facts.early_frames > 0,
        Level::Warning,
        format!("{early} too early to start a tick: set `loop.rate_hz` to the sensor's rate."),
    );
    for warning in &facts.warnings {
        blame(true, Level::Warning, warning.clone());
    }
    verdict
}

/// Whether the rate was held: no period lost, and the sensor's clock within its tolerance.
fn held(facts: &Facts) -> bool {
    let off = (facts.rate_hz / facts.target_hz - 1.0).abs();
    facts.lost == 0 && (!facts.sensor_paced || off <= SENSOR_CLOCK)
}

/// What was wrong on the buses though every servo was answered for.
fn blemishes(facts: &Facts) -> impl Iterator<Item = String> {
    let late = were(facts.late_replies, "reply", "replies");
    let duplicates = were(facts.duplicates, "reply", "replies");
    let unexpected = were(facts.unexpected_frames, "frame", "frames");
    let imu = were(facts.imu_missed, "IMU reading", "IMU readings");
    let found = [
        (facts.late_replies, format!("{late} late: to the query of an earlier tick.")),
        (facts.duplicates, format!("{duplicates} duplicates: two servos may have the same id.")),
        (
            facts.unexpected_frames,
            format!("{unexpected} no reply to a query: something else may send on the bus."),
        ),
        (facts.imu_missed, format!("{imu} missed.")),
    ];
    found.into_iter().filter(|(count, _)| *count > 0).map(|(_, reason)| reason)
}

/// `stopped on an overrun after 1 of 2,000 ticks`, if it did.
fn stopped(facts: &Facts) -> Option<String> {
    let (ticks, planned) = facts.stopped?;
    Some(format!("stopped on an overrun after {} of {} ticks", grouped(ticks), grouped(planned)))
}

fn headline(facts: &Facts) -> String {
    let target = facts.target_hz;
    if let Some(stopped) = stopped(facts) {
        return format!("did not hold {target} Hz: {stopped}");
    }
    match (facts.periods, facts.lost) {
        (0, _) => format!("never ran at {target} Hz"),
        (_, 0) if held(facts) && facts.virtual_time => format!("held {target} Hz of virtual time"),
        (_, 0) if held(facts) => format!("held {target} Hz"),
        (_, 0) => format!("did not hold {target} Hz: ran at {:.2} Hz", facts.rate_hz),
        (periods, lost) => {
            let plural = if periods == 1 { "period" } else { "periods" };
            format!("did not hold {target} Hz: lost {} of {} {plural}", grouped(lost), grouped(periods))
        }
    }
}

fn started_late(ticks: u64) -> String {
    format!("{} started a period or more late.", counted(ticks, "tick"))
}

fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

fn were(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one} was") } else { format!("{} {many} were", grouped(count)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts { target_hz: 1000.0, rate_hz: 1000.0, periods: 10_000, ..Facts::default() }
    }

    #[test]
    fn a_run_that_held_its_rate_is_good() {
        let verdict = judge(&facts());
        assert_eq!((verdict.level, verdict.headline.as_str()), (Level::Good, "held 1000 Hz"));
        assert!(verdict.reasons.is_empty());
    }

    #[test]
    fn virtual_time_holds_no_rate_of_this_computer() {
        let verdict = judge(&Facts { virtual_time: true, ..facts() });
        assert_eq!(verdict.headline, "held 1000 Hz of virtual time");
    }

    #[test]
    fn a_run_that_lost_a_period_gets_no_good_badge() {
        let lost = |lost| judge(&Facts { lost, rate_hz: 998.8, ..facts() });
        assert_eq!(lost(12).headline, "did not hold 1000 Hz: lost 12 of 10,000 periods");
        assert_eq!(lost(12).reasons, ["12 periods of 10,000 passed without a tick."]);
        assert_eq!([1, 99, 100].map(|n| lost(n).level), [Level::Warning, Level::Warning, Level::Bad]);
    }

    #[test]
    fn whatever_cost_a_period_shows() {
        for bad in [
            Facts { lost: 1, ..facts() },
            Facts { lost_outside: 1, ..facts() },
            Facts { late_wakes: 1, ..facts() },
            Facts { overruns: 1, ..facts() },
            Facts { missed_replies: 1, ..facts() },
            Facts { missed_replies: 1, missed_while_off_cpu: 1, ..facts() },
            Facts { without_frame: 1, ..facts() },
            Facts { early_frames: 1, ..facts() },
            Facts { sensor_paced: true, rate_hz: 940.0, ..facts() },
            Facts { late_replies: 94, ..facts() },
            Facts { duplicates: 94, ..facts() },
            Facts { unexpected_frames: 1, ..facts() },
            Facts { imu_missed: 950, ..facts() },
            Facts { periods: 0, ..facts() },
            Facts { stopped: Some((1, 2_000)), periods: 1, ..facts() },
            Facts { failures: vec!["It fell.".into()], ..facts() },
            Facts { warnings: vec!["It was hot.".into()], ..facts() },
        ] {
            let verdict = judge(&bad);
            assert!(verdict.level > Level::Note && verdict.reasons.len() == 1, "{bad:?}: {verdict:?}");
        }
    }

    #[test]
    fn duplicates_and_missed_imu_readings_get_no_good_badge() {
        let verdict = judge(&Facts { duplicates: 94, imu_missed: 950, ..facts() });
        assert_eq!(verdict.level, Level::Warning);
        assert_eq!(
            verdict.reasons,
            ["94 replies were duplicates: two servos may have the same id.", "950 IMU readings were missed."]
        );
    }

    #[test]
    fn a_sensor_with_a_clock_of_its_own_is_no_lost_rate() {
        let paced = Facts { sensor_paced: true, rate_hz: 1010.0, ..facts() };
        assert_eq!(judge(&paced).level, Level::Good);
    }
}
