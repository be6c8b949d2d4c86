//! What late ticks cost, by cause: periods that passed without a tick, overruns, late wakes. A late tick that cost nothing is
//! to blame for nothing.

use khz_rt::Cause;
use khz_rt::late::Causes;
use serde::{Deserialize, Serialize};

/// What each cause cost a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs([Cost; Cause::ALL.len()]);

/// What one cause cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    /// Late ticks that had it.
    ticks: u64,
    /// Periods that passed without a tick.
    lost_periods: u64,
    /// Ticks that ended after the next should have started.
    overruns: u64,
    /// Ticks that started a period or more late.
    late_wakes: u64,
    /// Time late ticks took beyond the usual.
    beyond_ns: i64,
    /// Of that, time of ticks that were stopped before they began.
    stopped_ns: i64,
    /// The longest tick, from the time it waited for to its end.
    worst_ns: i64,
    /// Its number.
    worst_tick: u64,
    /// The longest of late that overran, or before which periods passed without a tick, and its number.
    recent_ns: i64,
    recent_tick: u64,
}

/// A stall is near a tick that follows it by no more ticks.
const NEAR: u64 = 5;

/// A tick that was late, or cost something.
#[derive(Clone, Copy, Debug)]
pub struct Costly {
    /// Its number.
    pub number: u64,
    /// From the time it waited for to its end.
    pub response_ns: i64,
    /// If it was late: why, and by how much beyond the usual.
    pub late: Option<(Cause, i64)>,
    /// It and how many ticks just before it were late; 0 if it was not.
    pub late_in_a_row: u64,
    /// Most of that passed while the thread did nothing but wait for the tick, and gave up the CPU more often than that takes:
    /// nothing of its own stops it there.
    pub was_stopped: bool,
    /// What held it up in the end.
    pub root: Cause,
    /// What held its start up in the end.
    pub start: Cause,
    /// Periods without a tick just before it.
    pub lost_periods: u64,
    /// It started a period or more late.
    pub late_wake: bool,
    /// It ended after the next should have started.
    pub overrun: bool,
}

impl Costs {
    /// Takes in a tick.
    pub fn count(&mut self, tick: &Costly) {
        if let Some((cause, beyond_ns)) = tick.late {
            let cost = self.at(cause, tick);
            cost.ticks += 1;
            cost.beyond_ns = cost.beyond_ns.saturating_add(beyond_ns);
            cost.stopped_ns = cost.stopped_ns.saturating_add(if tick.was_stopped { beyond_ns } else { 0 });
        }
        if tick.overrun {
            self.at(tick.root, tick).overruns += 1;
        }
        if tick.lost_periods > 0 || tick.late_wake {
            let cost = self.at(tick.start, tick);
            cost.lost_periods = cost.lost_periods.saturating_add(tick.lost_periods);
            cost.late_wakes += u64::from(tick.late_wake);
        }
    }

    fn at(&mut self, cause: Cause, tick: &Costly) -> &mut Cost {
        let cost = &mut self.0[cause as usize];
        if tick.response_ns > cost.worst_ns {
            (cost.worst_ns, cost.worst_tick) = (tick.response_ns, tick.number);
        }
        let is_stall = tick.overrun || tick.lost_periods > 0;
        let is_first = tick.number.wrapping_sub(cost.recent_tick) > NEAR;
        if is_stall && (is_first || tick.response_ns > cost.recent_ns) {
            (cost.recent_ns, cost.recent_tick) = (tick.response_ns, tick.number);
        }
        cost
    }

    /// The longest tick of this one and the few before it, if it is known, and its cause: those of long ago are, but for the longest,
    /// not kept.
    #[must_use]
    pub fn longest_near(&self, tick: u64) -> Option<(i64, Cause)> {
        let of = |cause: Cause| {
            let cost = &self.0[cause as usize];
            [(cost.worst_ns, cost.worst_tick), (cost.recent_ns, cost.recent_tick)]
                .map(|(ns, at)| (ns, at, cause))
        };
        let near = Cause::ALL.into_iter().flat_map(of);
        let near = near.filter(|(ns, at, _)| *ns > 0 && tick.wrapping_sub(*at) <= NEAR);
        near.map(|(ns, _, cause)| (ns, cause)).max_by_key(|(ns, _)| *ns)
    }

    /// How many ticks were late, by cause.
    #[must_use]
    pub fn causes(&self) -> Causes {
        let of = |cause: Cause| self.0[cause as usize].ticks;
        Causes {
            late: self.0.iter().map(|cost| cost.ticks).sum(),
            previous_tick: of(Cause::PreviousTick),
            preempted: of(Cause::Preempted),
            blocked: of(Cause::Blocked),
            page_fault: of(Cause::PageFault),
            unaccounted: of(Cause::Unaccounted),
            controller: of(Cause::Controller),
            bus: of(Cause::Bus),
            compute: of(Cause::Compute),
        }
    }

    /// Late ticks and their costs by cause, what cost most periods first; causes that did not occur are left out.
    #[must_use]
    pub fn groups(&self) -> Vec<LateGroup> {
        let group = |cause: Cause| {
            let Cost {
                ticks,
                lost_periods,
                overruns,
                late_wakes,
                beyond_ns,
                stopped_ns,
                worst_ns,
                worst_tick,
                ..
            } = self.0[cause as usize];
            LateGroup {
                cause,
                ticks,
                lost_ns: beyond_ns,
                stopped_ns,
                lost_periods,
                overruns,
                late_wakes,
                worst_ns: (worst_ns > 0).then_some(worst_ns),
                worst_tick: (worst_ns > 0).then_some(worst_tick),
            }
        };
        let occurred =
            |group: &LateGroup| group.ticks + group.lost_periods + group.overruns + group.late_wakes > 0;
        ordered(Cause::ALL.into_iter().map(group).filter(occurred).collect())
    }
}

/// Late ticks by cause alone, of results without their costs.
#[must_use]
pub fn uncosted(causes: &Causes) -> Vec<LateGroup> {
    let group = |cause| LateGroup {
        cause,
        ticks: causes.of(cause),
        lost_ns: 0,
        stopped_ns: 0,
        lost_periods: 0,
        overruns: 0,
        late_wakes: 0,
        worst_ns: None,
        worst_tick: None,
    };
    ordered(Cause::ALL.into_iter().map(group).filter(|group| group.ticks > 0).collect())
}

/// The late ticks of one cause, and what it cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateGroup {
    /// The cause.
    pub cause: Cause,
    /// How many late ticks had it.
    pub ticks: u64,
    /// The time they took beyond the usual.
    #[serde(default)]
    pub lost_ns: i64,
    /// Of that, the time of ticks before whose start the loop was stopped from outside, while it only waited.
    #[serde(default)]
    pub stopped_ns: i64,
    /// The periods it cost.
    #[serde(default)]
    pub lost_periods: u64,
    /// The ticks that overran because of it.
    #[serde(default)]
    pub overruns: u64,
    /// The ticks that started a period or more late because of it.
    #[serde(default)]
    pub late_wakes: u64,
    /// The longest tick that it made late or that cost something, from the time it waited for to its end.
    pub worst_ns: Option<i64>,
    /// Its number.
    pub worst_tick: Option<u64>,
}

/// Those of several runs as one.
#[must_use]
pub fn merged<'a>(groups: impl IntoIterator<Item = &'a LateGroup>) -> Vec<LateGroup> {
    let mut all: Vec<LateGroup> = Vec::new();
    for group in groups {
        let Some(of) = all.iter_mut().find(|of| of.cause == group.cause) else {
            all.push(*group);
            continue;
        };
        let worst = if group.worst_ns > of.worst_ns { *group } else { *of };
        *of = LateGroup {
            cause: of.cause,
            ticks: of.ticks + group.ticks,
            lost_ns: of.lost_ns + group.lost_ns,
            stopped_ns: of.stopped_ns + group.stopped_ns,
            lost_periods: of.lost_periods + group.lost_periods,
            overruns: of.overruns + group.overruns,
            late_wakes: of.late_wakes + group.late_wakes,
            worst_ns: worst.worst_ns,
            worst_tick: worst.worst_tick,
        };
    }
    ordered(all)
}

fn ordered(mut groups: Vec<LateGroup>) -> Vec<LateGroup> {
    groups.sort_by_key(|of| {
        std::cmp::Reverse((of.lost_periods, of.overruns, of.late_wakes, of.lost_ns, of.ticks))
    });
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(number: u64, cause: Cause, response_ns: i64) -> Costly {
        Costly {
            number,
            response_ns,
            late: Some((cause, response_ns)),
            late_in_a_row: 1,
            was_stopped: false,
            root: cause,
            start: cause,
            lost_periods: 0,
            late_wake: false,
            overrun: false,
        }
    }

    #[test]
    fn what_cost_periods_comes_before_what_was_late_more_often() {
        let mut costs = Costs::default();
        (0..113).for_each(|number| costs.count(&late(number, Cause::Bus, 800_000)));
        costs.count(&Costly { lost_periods: 7, late_wake: true, ..late(200, Cause::Blocked, 8_050_000) });
        let groups = costs.groups();
        let causes = Causes { late: 114, bus: 113, blocked: 1, ..Causes::default() };
        assert_eq!(costs.causes(), causes);
        assert_eq!([groups[0].cause, groups[1].cause], [Cause::Blocked, Cause::Bus]);
        assert_eq!(
            (groups[0].lost_periods, groups[0].worst_ns, groups[0].worst_tick),
            (7, Some(8_050_000), Some(200))
        );
        assert_eq!((groups[1].ticks, groups[1].lost_periods, groups[1].worst_ns), (113, 0, Some(800_000)));
    }

    #[test]
    fn several_runs_are_reported_as_one() {
        let group = |cause, lost_periods, worst_ns| LateGroup {
            cause,
            ticks: 1,
            lost_ns: 5,
            stopped_ns: 0,
            lost_periods,
            overruns: 0,
            late_wakes: 0,
            worst_ns: Some(worst_ns),
            worst_tick: Some(lost_periods),
        };
        let one = [group(Cause::Bus, 3, 70), group(Cause::Blocked, 2, 10)];
        let all = merged(one.iter().chain(&[group(Cause::Blocked, 4, 90)]));
        let message: Vec<_> = all.iter().map(|of| (of.cause, of.lost_periods, of.worst_tick)).collect();
        assert_eq!(message, [(Cause::Blocked, 6, Some(4)), (Cause::Bus, 3, Some(3))]);
    }

    #[test]
    fn causes_that_did_not_occur_are_left_out() {
        assert!(Costs::default().groups().is_empty() && uncosted(&Causes::default()).is_empty());
    }
}
