//! The verdict on a run or a measurement: whether it held its rate, why it is no better, and what to do.
//!
//! It judges what happened. How the loop's thread was set up (real-time, degraded, ordinary) stands beside it and
//! lowers no level: a real-time thread can lose periods, and an ordinary one can hold its rate.

mod causes;
mod cures;
#[cfg(test)]
mod tests;
mod words;

pub use crate::commands::{BUDGET, CONTROLLER, DOCTOR, Medium, RobotFile, SCAN};
use crate::costs::LateGroup;
use crate::decisions::Decided;
use crate::tally::{Counts, Pace};
use crate::targets::Fared;
use crate::usual::Usual;
use causes::has_several_causes;
pub use causes::{Explained, explained};
use cures::{bus_remedy, remedy};
use khz_page::{Level, Verdict};
use khz_rt::{Grade, Usage};
use words::{
    and_more, blemishes, cause, failures, headline, late_ticks, lost, missed_replies, others, quality,
    set_up, too_short, what, within,
};

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
    /// The controller computes on a thread of its own: in the loop it is only handed over to.
    pub is_elsewhere: bool,
    /// Planned periods.
    pub periods: u64,
    /// Of these, periods without a tick.
    pub lost: u64,
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
    /// Of the others, in ticks whose own computing left less of the bus cycle than that.
    pub missed_while_computing: u64,
    /// The servo that missed most of them that nothing excuses, and how many.
    pub worst_servo: Option<(String, u64)>,
    /// Of a robot of several buses the one where most of these were missed, and how many.
    pub worst_bus: Option<(String, u64)>,
    /// What carries the frames of that bus, or of all.
    pub medium: Medium,
    /// Queries that were not sent, so that what a servo still answers after a miss cannot be mistaken.
    pub quiet: u64,
    /// Queries that were due and not sent: the bus had no time for them.
    pub unasked: u64,
    /// What the longest bus cycle needs by the prediction, and what its deadline leaves, ns.
    pub cycle_ns: Option<(i64, i64)>,
    /// The bus that takes longest of a cycle which its deadline does not leave time for.
    pub slow_bus: Option<SlowBus>,
    /// The 99th percentile of the wake latency, and from how much on a tick is late, ns.
    pub wake_ns: Option<(i64, i64)>,
    /// Commands that were changed to keep joints within their limits, and how many there were.
    pub changed: Option<(u64, u64)>,
    /// Ticks in which a controller on its own thread was not done, of how many, and the oldest command that was used, ns.
    pub not_done: Option<(u64, u64, i64)>,
    /// What the machine did to the whole process.
    pub stops: Stops,
    /// What happened before and after the controlled time: switching on and coming down.
    pub outside: Uncontrolled,
    /// Replies to older queries.
    pub late_replies: u64,
    /// Further replies to a query that was answered.
    pub duplicates: u64,
    /// Replies that were the one or the other, where it is unknown which.
    pub late_or_duplicates: u64,
    /// Frames that were no reply to a query.
    pub unexpected_frames: u64,
    /// Frames that a checksum refused, or that were none.
    pub damaged_frames: u64,
    /// Buses that went down, each with its name and how often; most of them come back.
    pub downs: Vec<(String, u64)>,
    /// IMU readings missed.
    pub imu_missed: u64,
    /// Late ticks by cause, the one that lost most time first.
    pub late: Vec<LateGroup>,
    /// What a tick usually takes.
    pub usual: Option<Usual>,
    /// What the thread was granted, if it asked for a real-time policy.
    pub granted: Option<Grade>,
    /// It ended by itself, because a tick took too long: after so many ticks, of so many planned.
    pub stopped: Option<(u64, u64)>,
    /// What brought the robot down.
    pub broken: Option<Broken>,
    /// It was under control, but for too few ticks to judge one: what is usual is not known of so few.
    pub too_short: bool,
    /// The beginning of the run is not known: it may have been under control then.
    pub begins_late: bool,
    /// Ticks within the run are not known: what follows them is not counted as controlled.
    pub has_gaps: bool,
    /// What was warned of, as sentences.
    pub warnings: Vec<String>,
    /// What of the run is not known, as sentences: the rest of the verdict is without it.
    pub unknown: Vec<String>,
    /// How the decisions of a policy fared. It is no fault of the loop.
    pub decisions: Option<Decided>,
    /// How the targets of programs fared, of a robot that follows them. It is no fault of the loop.
    pub targets: Option<Fared>,
    /// The robot file, which the commands in the verdict name.
    pub file: RobotFile,
}

/// A bus that has less time than it needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlowBus {
    /// Its name.
    pub name: String,
    /// The greatest rate that fits, with a little to spare, Hz.
    pub fits_hz: f64,
    /// Whether `fits_hz` needs a later bus deadline, too.
    pub with_later_deadline: bool,
    /// Its servos answer one query in turn: an answer without time meets the next query, and both are lost.
    pub in_turn: bool,
}

impl Facts {
    /// The facts of the counts alone.
    #[must_use]
    pub fn of(counts: &Counts, pace: Pace, rate_hz: f64, late: Vec<LateGroup>) -> Self {
        let Counts { controlled, outside } = counts;
        let (all, lost) = (counts.all(), controlled.lost_periods(pace));
        Self {
            // A period is whole nanoseconds: of 300 Hz that is 300.000030000003.
            target_hz: if pace.period_ns > 0 {
                (1e12 / pace.period_ns as f64).round() / 1e3
            } else {
                rate_hz
            },
            rate_hz,
            sensor_paced: pace.by_sensor,
            periods: controlled.ticks + lost,
            lost,
            late_wakes: controlled.late_wakes,
            overruns: controlled.overruns,
            without_frame: all.ticks_without_frame,
            missed_replies: controlled.missed_replies,
            missed_while_off_cpu: controlled.missed_while_off_cpu,
            missed_while_computing: controlled.missed_while_computing,
            outside: Uncontrolled {
                lost: outside.skipped,
                late_wakes: outside.late_wakes,
                overruns: outside.overruns,
                missed_replies: outside.missed_replies,
                late_replies: outside.late_replies,
                ..Uncontrolled::default()
            },
            late,
            late_replies: all.late_replies,
            unexpected_frames: all.unexpected_frames,
            imu_missed: all.imu_missed,
            ..Self::default()
        }
    }
}

/// Time that was taken from the process as a whole, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// By the CPU quota of its control group.
    pub throttled_ns: i64,
    /// All its threads stood still without wanting a CPU: stopped by a signal, or frozen with their control group.
    pub stopped_ns: i64,
    /// Its control group was frozen, as far as the kernel counts that.
    pub frozen_ns: i64,
    /// It can be frozen by a freezer that counts nothing.
    pub has_old_freezer: bool,
    /// Real-time threads may use so much of each second, ns; `None`: all of it, or the thread is not one.
    pub rt_runtime_ns: Option<i64>,
}

impl Stops {
    /// By what the kernel counted meanwhile and what a thread beside the loop saw, of a thread that was granted so much where
    /// real-time threads may use this share of each second.
    #[must_use]
    pub fn of(usage: &Usage, stopped_ns: i64, grade: Grade, rt_share_percent: f64) -> Self {
        let is_limited = grade != Grade::Ordinary && rt_share_percent > 0.0 && rt_share_percent < 100.0;
        Self {
            throttled_ns: usage.throttled_ns,
            stopped_ns,
            frozen_ns: usage.frozen_ns,
            has_old_freezer: usage.has_old_freezer,
            rt_runtime_ns: is_limited.then_some((rt_share_percent * 1e7) as i64),
        }
    }
}

/// What of it happened outside the controlled time.
#[derive(Clone, Debug, Default)]
pub struct Uncontrolled {
    /// Periods without a tick.
    pub lost: u64,
    /// Ticks that started a period or more late.
    pub late_wakes: u64,
    /// Ticks that ended after the next was planned.
    pub overruns: u64,
    /// Replies missed while the motors were switched on, or while coming down.
    pub missed_replies: u64,
    /// Replies to older queries.
    pub late_replies: u64,
    /// Queries that were not sent, so that what a servo still answers after a miss cannot be mistaken.
    pub quiet: u64,
    /// The servo that missed most of them, and how many.
    pub worst_servo: Option<(String, u64)>,
    /// Of a robot of several buses the one where most were missed, and how many.
    pub worst_bus: Option<(String, u64)>,
}

/// What brought a robot down, or kept it from coming under control.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// When, if it was under control.
    pub after_s: Option<f64>,
    /// What happened.
    pub what: String,
    /// What to do.
    pub remedy: Option<&'static str>,
}

/// A sensor's clock may be off by this share.
pub const SENSOR_CLOCK: f64 = 0.05;
/// From this share on it is reported.
const SENSOR_OFF: f64 = 0.02;

/// From this share of lost periods on a run is bad.
const BAD_SHARE: f64 = 0.01;
/// From this share of changed commands on the robot does not do what its controller wants.
const CHANGED_SHARE: f64 = 0.1;

/// The verdict on these facts. A run that lost a period gets no good one.
#[must_use]
pub fn judge(facts: &Facts) -> Verdict {
    let mut reasons: Vec<(Level, String)> = Vec::new();
    reasons.extend(failures(facts).map(|reason| (Level::Bad, reason)));
    reasons.extend(lost(facts));
    reasons.extend(late_ticks(facts).map(|reason| (Level::Warning, reason)));
    reasons.extend(missed_replies(facts));
    reasons.extend(quality(facts).map(|reason| (Level::Warning, reason)));
    reasons.extend(blemishes(facts).map(|reason| (Level::Warning, reason)));
    reasons.extend(too_short(facts).map(|reason| (Level::Warning, reason)));
    let warnings = facts.warnings.iter().chain(&facts.unknown);
    reasons.extend(warnings.map(|reason| (Level::Warning, reason.clone())));
    // The worst first.
    reasons.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
    let mut verdict = Verdict {
        level: reasons.iter().map(|(level, _)| *level).max().unwrap_or(Level::Good),
        held: held(facts) && facts.broken.is_none() && facts.stopped.is_none(),
        headline: headline(facts),
        cause: cause(facts),
        remedy: remedy(facts).map(|remedy| facts.file.named_in(&remedy)),
        reasons: reasons.into_iter().map(|(_, reason)| reason).chain(set_up(facts)).collect(),
        text: String::new(),
    };
    let mut what = what(facts, &verdict);
    let cause = verdict.cause.clone();
    // Of several causes none made most of it.
    if let Some(cause) = verdict.cause.take_if(|_| has_several_causes(facts)) {
        what = format!("{what}, for several reasons, most of all because {cause}");
    }
    let verdict = verdict.sentence(&what);
    let others = others(facts).map_or_else(String::new, |others| facts.file.named_in(&others));
    let besides = besides(facts, &verdict).unwrap_or_default();
    let decisions = facts.decisions.as_ref().and_then(Decided::sentence);
    let targets = facts.targets.as_ref().and_then(Fared::sentence);
    let slower: String =
        decisions.into_iter().chain(targets).map(|sentence| format!(" {sentence}")).collect();
    let text = format!("{}{others}{besides}{slower}", verdict.text);
    Verdict { cause, text, ..verdict }
}

/// The verdict on several measurements side by side, each by its name; `compared` is a sentence on what their figures show.
#[must_use]
pub fn side_by_side(each: &[(&str, Verdict)], compared: &str) -> Verdict {
    let held = each.iter().filter(|(_, verdict)| verdict.held).count();
    let verdict = Verdict {
        level: each.iter().map(|(_, verdict)| verdict.level).max().unwrap_or_default(),
        held: held == each.len(),
        headline: format!("{held} of {} held their rate", each.len()),
        reasons: each.iter().map(|(name, verdict)| format!("{name}: {}", verdict.text)).collect(),
        ..Verdict::default()
    };
    verdict.sentence(&format!("{held} of {} runs held their rate; {compared}", each.len()))
}

/// What was wrong on the buses of a run that did not hold its rate, and what is not known of one that did not or that ended badly:
/// nothing worse hides it.
fn besides(facts: &Facts, verdict: &Verdict) -> Option<String> {
    if verdict.held {
        return None;
    }
    let is_of_buses = facts.broken.is_none() && facts.periods > 0;
    let of_buses = || missed_replies(facts).map(|(_, reason)| reason).chain(blemishes(facts));
    let of_buses: Vec<String> = if is_of_buses { of_buses().collect() } else { Vec::new() };
    let remedy = bus_remedy(facts).filter(|_| !of_buses.is_empty());
    let remedy = remedy.map_or(String::new(), |remedy| format!("; {}", facts.file.named_in(&remedy)));
    let mut all = of_buses.iter().chain(&facts.unknown);
    let first = within(all.next()?);
    Some(format!(" Besides, {first}{}{remedy}.", and_more(all.count())))
}

/// Whether the rate was held: no period lost, and the sensor's clock within its tolerance.
fn held(facts: &Facts) -> bool {
    facts.periods > 0 && facts.lost == 0 && (!facts.sensor_paced || off_rate(facts) <= SENSOR_CLOCK)
}

/// By which share the rate is not the one asked for.
fn off_rate(facts: &Facts) -> f64 {
    (facts.rate_hz / facts.target_hz - 1.0).abs()
}
