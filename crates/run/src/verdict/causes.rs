//! What weighs causes: which of them cost most, what the machine explains, and whether replies were late or lost.

use super::{Facts, Stops, Uncontrolled};
use crate::commands::{BUDGET, SCAN};
use crate::costs::LateGroup;
use crate::usual::Usual;
use khz_rt::Cause;

/// Of a whole run, nearly as many replies came after their tick as were missed: nothing is wrong with the wiring.
pub(super) fn are_late_not_lost(facts: &Facts) -> bool {
    let missed =
        (facts.missed_replies + facts.outside.missed_replies).saturating_sub(facts.missed_while_computing);
    let late = late_replies(facts);
    // Of a cycle that does not fit, many are not even waited for.
    missed > 0 && (late * 10 >= missed * 9 || fits_not(facts) && late * 4 >= missed)
}

/// The bus cycle is predicted to be longer than its deadline allows.
pub(super) fn fits_not(facts: &Facts) -> bool {
    facts.cycle_ns.is_some_and(|(needed_ns, left_ns)| needed_ns > left_ns)
}

/// What does not fit on the bus is not late, but lost with what it meets: a missing reply there is no sign of a problem of power or wiring.
pub(super) fn is_lost_for_time(facts: &Facts) -> bool {
    fits_not(facts) && facts.slow_bus.as_ref().is_some_and(|bus| bus.in_turn)
}

/// It is predicted to be shorter than that, by more than the prediction may be wrong.
pub(super) fn fits_well(facts: &Facts) -> bool {
    facts.cycle_ns.is_some_and(|(needed_ns, left_ns)| needed_ns + needed_ns / 20 <= left_ns)
}

/// What became of missed replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missed {
    /// They came after their tick.
    pub late: u64,
    /// They were not requested, as the bus had no time for the query.
    pub unasked: u64,
    /// They did not come.
    pub gone: u64,
}

impl Missed {
    /// Of so many that were missed, so many came late, and so many were not requested. What is less than a hundredth is still on
    /// its way. Where the cycle fits, late ones that are fewer than the others are reported beside them: they follow from those.
    fn of(missed: u64, late: u64, unasked: u64, fits_not: bool) -> Self {
        let late = late.min(missed);
        let unasked = unasked.min(missed - late);
        let gone = missed - late - unasked;
        match (missed * 99 <= late * 100, late * 2 < missed && !fits_not) {
            (true, _) => Self { late: missed, ..Self::default() },
            (_, true) => Self { gone: missed, ..Self::default() },
            _ => Self { late, unasked, gone },
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> u64 {
        self.late + self.unasked + self.gone
    }

    /// Some came late, and some did not come.
    pub(super) fn are_both(&self) -> bool {
        self.late > 0 && self.late < self.all()
    }
}

/// The replies missed under control without excuse.
pub(super) fn missed(facts: &Facts) -> Missed {
    let late = late_under_control(facts);
    Missed::of(clean_misses(facts), late, facts.unasked, fits_not(facts))
}

/// Those missed during start-up and while coming down.
pub(super) fn missed_outside(facts: &Facts) -> Missed {
    let Uncontrolled { missed_replies, .. } = facts.outside;
    let unasked = facts.unasked.saturating_sub(missed(facts).unasked);
    Missed::of(missed_replies, late_outside(facts), unasked, fits_not(facts))
}

/// Replies to older queries, without those that computing left no time for.
pub(super) fn late_replies(facts: &Facts) -> u64 {
    facts.late_replies.saturating_sub(facts.missed_while_computing)
}

/// Those of them that came under control.
pub(super) fn late_under_control(facts: &Facts) -> u64 {
    late_replies(facts) - late_outside(facts)
}

/// The others. Where further replies to one query are among what came outside, they are no more than all that were late.
pub(super) fn late_outside(facts: &Facts) -> u64 {
    facts.outside.late_replies.min(late_replies(facts))
}

/// What brought the robot down, or kept it from control, is that replies come late: those that did are enough of the missed
/// ones, or the bus needs twice its time, which gives up most queries before it sends them, and all replies may be given up.
pub(super) fn is_broken_by_late_replies(facts: &Facts) -> bool {
    let needs_twice = facts.cycle_ns.is_some_and(|(needed_ns, left_ns)| needed_ns > 2 * left_ns);
    match facts.broken.as_ref().and_then(|broken| broken.remedy) {
        Some(SCAN) if is_lost_for_time(facts) => true,
        Some(SCAN) => (are_late_not_lost(facts) || needs_twice) && facts.duplicates <= facts.late_replies,
        Some(BUDGET) => true,
        _ => false,
    }
}

/// Replies that were missed and that nothing excuses.
pub(super) fn clean_misses(facts: &Facts) -> u64 {
    facts.missed_replies.saturating_sub(facts.missed_while_off_cpu + facts.missed_while_computing)
}

/// What causes are weighed by: the gravest of what happened that late ticks account for. How much of it each cost, its name, and
/// how often it happened.
pub(super) type Weight = (fn(&LateGroup) -> u64, &'static str, u64);

pub(super) fn weight(facts: &Facts) -> Weight {
    let weights: [Weight; 3] = [
        (|group| group.lost_periods, "lost period", facts.lost),
        (|group| group.overruns, "overrun", facts.overruns),
        (|group| group.late_wakes, "late wake", facts.late_wakes),
    ];
    let found = weights.into_iter().find(|(of, ..)| facts.late.iter().map(of).sum::<u64>() > 0);
    found.unwrap_or((|group| group.ticks, "late tick", 0))
}

pub(super) fn cost(group: &LateGroup, facts: &Facts) -> u64 {
    weight(facts).0(group)
}

/// What all causes cost together.
pub(super) fn all_costs(facts: &Facts) -> u64 {
    facts.late.iter().map(weight(facts).0).sum()
}

/// It lost time.
pub(super) fn is_late(facts: &Facts) -> bool {
    facts.lost + facts.late_wakes + facts.overruns > 0
}

/// The usual tick alone takes longer than a period, or so long that most ticks that overran were no later than usual.
pub(super) fn too_slow(facts: &Facts) -> Option<Usual> {
    let usual = facts.usual.filter(|_| is_late(facts) && facts.broken.is_none())?;
    let most_ns = usual.tick_ns + if are_explained(facts) { 0 } else { usual.threshold_ns };
    (most_ns > period_ns(facts)).then_some(usual)
}

pub(super) fn period_ns(facts: &Facts) -> i64 {
    (1e9 / facts.target_hz).round() as i64
}

pub(super) fn late_ticks_judged(facts: &Facts) -> u64 {
    facts.late.iter().map(|group| group.ticks).sum()
}

/// Late ticks can be behind what was lost: there are at least half as many.
pub(super) fn are_explained(facts: &Facts) -> bool {
    2 * late_ticks_judged(facts) >= facts.overruns.max(facts.late_wakes)
}

/// What cost most, if late ticks account for half of what happened; of several as costly ones, what is no mere consequence of
/// another late tick.
pub(super) fn leading(facts: &Facts) -> Option<&LateGroup> {
    let is_enough = 2 * all_costs(facts) >= weight(facts).2;
    let by = |group: &&LateGroup| {
        (cost(group, facts), group.cause != Cause::PreviousTick, group.lost_ns, group.ticks)
    };
    facts.late.iter().max_by_key(by).filter(|group| is_enough && cost(group, facts) > 0)
}

/// The part of the time for which the process was stopped that is counted for other causes already. A stopped thread appears as blocked or
/// as unaccounted time, and as waiting for its CPU where other threads run there.
fn stopped_before(facts: &Facts, cause: Cause) -> i64 {
    let of = |of: Cause, ns: fn(&LateGroup) -> i64| {
        facts.late.iter().find(|group| group.cause == of).map_or(0, ns)
    };
    match cause {
        Cause::Preempted => {
            of(Cause::Blocked, |group| group.stopped_ns) + of(Cause::Unaccounted, |group| group.lost_ns)
        }
        Cause::Unaccounted => of(Cause::Blocked, |group| group.stopped_ns),
        _ => 0,
    }
}

/// From this share of what was lost on, a second cause is reported, too.
const REPORTED_SHARE: u64 = 5;

/// What cost a good part of it besides the leading cause, most first.
pub(super) fn seconds(facts: &Facts) -> Vec<&LateGroup> {
    let Some(led) =
        leading(facts).filter(|_| is_late(facts) && too_slow(facts).is_none() && facts.broken.is_none())
    else {
        return Vec::new();
    };
    let all = all_costs(facts);
    let counts = |group: &&LateGroup| group.cause != led.cause && cost(group, facts) * REPORTED_SHARE >= all;
    let mut seconds: Vec<&LateGroup> = facts.late.iter().filter(counts).collect();
    seconds.sort_by_key(|group| std::cmp::Reverse(cost(group, facts)));
    seconds
}

/// No cause cost more than half of it.
pub(super) fn has_several_causes(facts: &Facts) -> bool {
    let led = leading(facts);
    too_slow(facts).is_none() && led.is_some_and(|group| 2 * cost(group, facts) <= all_costs(facts))
}

/// A cause that the machine explains.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Explained {
    /// The control group's CPU quota.
    Quota,
    /// The limit of real-time threads.
    RtLimit,
    /// Its control group was frozen.
    Frozen,
    /// It was stopped or frozen from outside.
    Stopped,
}

impl Explained {
    /// In a sentence, after "because".
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Quota => "the CPU quota of its control group was used up",
            Self::RtLimit => "the kernel limits real-time threads (`kernel.sched_rt_runtime_us`)",
            Self::Frozen => "its cgroup was frozen",
            Self::Stopped => "it was stopped from outside (a signal, a debugger, a frozen control group)",
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Quota => "raise the quota (`cpu.max`, `CPUQuota=` of systemd, `--cpus` of a container)",
            Self::RtLimit => "let it sleep (`loop.wake`), or set `sysctl kernel.sched_rt_runtime_us=-1`",
            Self::Frozen | Self::Stopped => "keep whatever stops or freezes processes away from this one",
        }
    }
}

/// What the machine is known to have done, where it accounts for at least half of what a cause took.
pub fn explained(facts: &Facts, group: &LateGroup) -> Option<Explained> {
    let Stops { throttled_ns, rt_runtime_ns, .. } = facts.stops;
    let left_ns = |ns: i64| ns - stopped_before(facts, group.cause);
    let (frozen_ns, stopped_ns) = (left_ns(facts.stops.frozen_ns), left_ns(facts.stops.stopped_ns));
    let is_most = |ns: i64| ns > 0 && 2 * ns >= group.lost_ns;
    let worst_ns = group.worst_ns.unwrap_or(0);
    match group.cause {
        Cause::Preempted | Cause::Blocked | Cause::Unaccounted if is_most(frozen_ns) => {
            Some(Explained::Frozen)
        }
        Cause::Blocked if is_most(group.stopped_ns) => Some(Explained::Stopped),
        Cause::Preempted | Cause::Blocked | Cause::Unaccounted if is_most(stopped_ns) => {
            Some(Explained::Stopped)
        }
        Cause::Preempted | Cause::Unaccounted if is_most(throttled_ns) => Some(Explained::Quota),
        // Nothing else keeps a real-time thread from its CPU for just as long as it is barred in each second.
        Cause::Preempted => {
            let barred_ns = 1_000_000_000 - rt_runtime_ns?;
            (worst_ns > barred_ns * 3 / 5 && worst_ns < barred_ns * 3 / 2).then_some(Explained::RtLimit)
        }
        _ => None,
    }
}
