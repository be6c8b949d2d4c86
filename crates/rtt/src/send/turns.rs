//! When the sender asks.
use super::super::ledger::Turn;
use super::super::plan::Plan;
use khz_rt::{Overrun, Pacer, Waiter, now_ns};

/// Without a rate, how long a tick waits for answers.
const PATIENCE_NS: i64 = 200_000_000;
/// Before the next tick's time the waiting for answers ends, so that it can begin on time: so long, or a quarter of the
/// period.
const MARGIN_NS: i64 = 100_000;

/// Until when a tick waits for its answers.
pub(super) fn until_ns(turn: Turn) -> i64 {
    turn.ends_ns - MARGIN_NS.min(turn.period_ns / 4)
}

/// The ticks of a plan, each returned when it is to begin. As many periods are planned as the plan has ticks; those in
/// which the sender could not ask are missed and not made up for. One it is only late for is asked at once: waiting for an
/// answer that never comes must not cost the next period because the sender woke from it a little late.
pub(super) struct Turns {
    pace: Option<(Pacer, Waiter)>,
    period_ns: i64,
    start_ns: i64,
    /// Periods planned in all, and those that are over.
    planned: u64,
    passed: u64,
    sequence: u64,
    /// The pacer gave up waiting: it was a whole period late, and no period is left.
    ended: bool,
    ends_ns: i64,
}

impl Turns {
    /// The first tick begins at `start_ns`.
    pub(super) fn new(plan: &Plan, waiter: Waiter, start_ns: i64) -> Self {
        let pace = plan.period_ns().map(|ns| (Pacer::new(ns, Overrun::RunLateOnce, start_ns), waiter));
        let period_ns = plan.period_ns().unwrap_or(0);
        let (planned, passed, sequence, ended) = (plan.ticks, 0, 0, false);
        Self { pace, period_ns, start_ns, planned, passed, sequence, ended, ends_ns: start_ns }
    }

    /// Waits until the next tick is to begin; none if no period is left.
    pub(super) fn next(&mut self) -> Option<Turn> {
        if self.passed >= self.planned {
            return None;
        }
        let sequence = self.sequence;
        let Some((pacer, waiter)) = &mut self.pace else {
            let now_ns = now_ns();
            (self.passed, self.sequence, self.ends_ns) =
                (self.passed + 1, sequence + 1, now_ns + PATIENCE_NS);
            let (planned_ns, begun_ns, ends_ns) = (now_ns, now_ns, self.ends_ns);
            return Some(Turn { sequence, planned_ns, begun_ns, ends_ns, ..Turn::default() });
        };
        let woke_ns = waiter.wait_until(pacer.deadline_ns());
        let tick = pacer.woke(woke_ns)?;
        let period = ((tick.planned_ns - self.start_ns) / self.period_ns) as u64;
        if period >= self.planned {
            self.ended = true;
            return None;
        }
        (self.passed, self.sequence) = (period + 1, sequence + 1);
        self.ends_ns = tick.planned_ns + self.period_ns;
        let (planned_ns, late_ns, missed) = (tick.planned_ns, tick.late_ns, tick.skipped);
        let (begun_ns, ends_ns, period_ns) = (now_ns(), self.ends_ns, self.period_ns);
        Some(Turn { sequence, planned_ns, late_ns, missed, begun_ns, ends_ns, period_ns })
    }

    /// Call this when a tick's work is done.
    pub(super) fn finished(&mut self) {
        if let Some((pacer, _)) = &mut self.pace {
            pacer.finished(now_ns());
        }
    }

    /// When the last tick's time is over.
    pub(super) fn ends_ns(&self) -> i64 {
        self.ends_ns
    }

    /// Planned periods that passed after the last tick, as the sender stalled.
    pub(super) fn missed_at_the_end(&self) -> u64 {
        if self.ended { self.planned - self.passed } else { 0 }
    }
}
