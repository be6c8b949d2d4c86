//! Whether a tick was late, which part of it, and why.
//!
//! | part | is |
//! |---|---|
//! | `wake` | from the time the loop waited for, or the end of the previous tick if that was later, until the tick started |
//! | `previous tick` | from the time waited for until the previous tick had ended and been handed over, if that was later |
//! | `encode` | taking in what came since, and encoding the frames |
//! | `send` | handing them to the links |
//! | `bus` | until the last servo's reply was decoded, or the bus deadline |
//! | `imu` | after that, waiting for the IMU alone |
//! | `control` | the controller; only ticks in which it computed commands |
//! | `supervise` | the supervisor, and bookkeeping |
//! | `record` | handing the previous tick over to recorder, statistics and live view |
//!
//! Of the controlled ticks alone.

use crate::record::Tick;
use khz_rt::late::LateTick;
use khz_rt::{Cause, Disturbance, RunningMedian};

/// The parts, in the order of a tick. All but the last add up to the response.
pub const PARTS: [&str; 9] =
    ["wake", "previous tick", "encode", "send", "bus", "imu", "control", "supervise", "record"];
const PREVIOUS: usize = 1;
const BUS: usize = 4;
const IMU: usize = 5;
const CONTROL: usize = 6;
const RECORD: usize = 8;

/// Controlled ticks after which what is usual is known; until then none is judged.
pub const LEARNING: u64 = 100;

/// How long each of [`PARTS`] took in a tick; `None` for the controller where it did not run.
#[inline]
pub fn parts(tick: &Tick) -> [Option<i64>; PARTS.len()] {
    let previous_ns = tick.previous_ns();
    [
        Some(tick.wake_latency_ns - previous_ns),
        Some(previous_ns),
        Some(tick.encode_ns),
        Some(tick.send_ns),
        Some(tick.collect_ns - tick.imu_ns),
        Some(tick.imu_ns),
        tick.controller_ran.then_some(tick.control_ns),
        Some(tick.decide_ns - tick.control_ns),
        Some(tick.record_ns),
    ]
}

/// Judges controlled ticks, one after another.
///
/// # Realtime contract
/// No allocation, some tens of nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Judge {
    late_ns: i64,
    usual: [RunningMedian; PARTS.len()],
    response: RunningMedian,
    seen: u64,
    /// The part the tick before was late by, and what it was late for in the end.
    before: Option<(Option<usize>, Cause)>,
}

/// The judgement on a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// It ended later than usual, by more than what counts as late. Of the first [`LEARNING`] ticks none did.
    pub is_late: bool,
    /// From the time it waited for to its end.
    pub response_ns: i64,
    /// What that usually is.
    pub usual_ns: i64,
    /// The part most over its usual time, as an index of [`PARTS`].
    pub part: Option<usize>,
    /// What it is called if the thread had the CPU.
    pub own: Cause,
    /// What took most of its excess.
    pub cause: Cause,
    /// The same, and where that is the previous tick, what held that up.
    pub root: Cause,
    /// What took most of the time until it started, followed in the same way: what its lost periods are blamed on.
    pub start: Cause,
}

impl Judge {
    /// Nothing is usual yet. A tick whose response exceeds the usual one by more than `late_ns` is late.
    pub const fn new(late_ns: i64) -> Self {
        let unknown = RunningMedian::new();
        Self { late_ns, usual: [unknown; PARTS.len()], response: unknown, seen: 0, before: None }
    }

    /// From now on a tick is late if its response exceeds the usual one by more than this.
    pub const fn late_from(&mut self, late_ns: i64) {
        self.late_ns = late_ns;
    }

    /// From how much over the usual response on a tick is late.
    pub const fn late_ns(&self) -> i64 {
        self.late_ns
    }

    /// How many ticks were judged.
    pub const fn judged(&self) -> u64 {
        self.seen.saturating_sub(LEARNING)
    }

    /// The judgement on the next controlled tick.
    #[inline]
    pub fn judge(&mut self, tick: &Tick) -> Judged {
        let (times, response_ns) = (parts(tick), tick.response_ns());
        let usual_ns = self.response.ns().unwrap_or(0);
        self.seen += 1;
        let is_known = self.seen > LEARNING;
        let part = self.part(tick, &times);
        let own = match part {
            Some(BUS | IMU) => Cause::Bus,
            Some(CONTROL) => Cause::Controller,
            _ => Cause::Compute,
        };
        let disturbance = tick.disturbance();
        let cause = disturbance.late_cause(response_ns - usual_ns, own);
        // A loop that skips waits for a later time than the first it missed: until it was ready, the tick before held it up.
        let skipped_ns = if tick.skipped > 0 { tick.ready_ns.saturating_sub(tick.due_ns) } else { 0 };
        let (start, held_ns) = match skipped_ns > tick.wake_latency_ns {
            true => (Cause::PreviousTick, skipped_ns),
            false => (Disturbance { away_ns: 0, ..disturbance }.shares().largest().0, tick.previous_ns()),
        };
        let followed = |cause, held_ns| match (cause, self.before) {
            (Cause::PreviousTick, _) if tick.record_ns.saturating_mul(2) > held_ns => Cause::Compute,
            (Cause::PreviousTick, Some((_, before))) => before,
            _ => cause,
        };
        let (root, start) = (followed(cause, tick.previous_ns()), followed(start, held_ns));
        self.before = Some((part.filter(|_| is_known), root));
        self.learn(&times, response_ns);
        let is_late = is_known && response_ns - usual_ns > self.late_ns;
        Judged { is_late, response_ns, usual_ns, part, own, cause, root, start }
    }

    /// The part a tick is late by; of equal ones the later.
    fn part(&self, tick: &Tick, times: &[Option<i64>; PARTS.len()]) -> Option<usize> {
        let (mut most_ns, mut most) = (1, None);
        for (part, (ns, usual)) in times[..RECORD].iter().zip(&self.usual).enumerate() {
            let over_ns = ns.map_or(0, |ns| ns - usual.ns().unwrap_or(0));
            if over_ns >= most_ns {
                (most_ns, most) = (over_ns, Some(part));
            }
        }
        match most {
            Some(PREVIOUS) if tick.record_ns * 2 > tick.previous_ns() => Some(RECORD),
            Some(PREVIOUS) => self.before.and_then(|(part, _)| part).or(most),
            most => most,
        }
    }

    fn learn(&mut self, times: &[Option<i64>; PARTS.len()], response_ns: i64) {
        for (usual, ns) in self.usual.iter_mut().zip(times) {
            if let Some(ns) = ns {
                usual.record(*ns);
            }
        }
        self.response.record(response_ns);
    }
}

impl Judged {
    /// As it is kept among the worst.
    pub fn late_tick(&self, tick: &Tick) -> LateTick {
        LateTick {
            number: tick.number,
            at_ns: tick.started_ns,
            response_ns: self.response_ns,
            usual_ns: self.usual_ns,
            part: self.part,
            own: self.own,
            disturbance: tick.disturbance(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const PERIOD_NS: i64 = 1_000_000;

    /// A tick that was on time: its bus took 0.2 ms, its controller 0.02 ms.
    pub(crate) fn usual(number: u64) -> Tick {
        let planned_ns = number as i64 * PERIOD_NS;
        Tick {
            number,
            planned_ns,
            waited_for_ns: planned_ns,
            due_ns: planned_ns,
            ready_ns: planned_ns - 500_000,
            started_ns: planned_ns + 5_000,
            wake_latency_ns: 5_000,
            collect_ns: 200_000,
            cycle_ns: 200_000,
            decide_ns: 20_000,
            control_ns: 20_000,
            controller_ran: true,
            ..Tick::UNKNOWN
        }
    }

    /// It woke so late, for this reason.
    pub(crate) fn woke_late(number: u64, late_ns: i64, cause: Cause) -> Tick {
        let tick = usual(number);
        let late = Tick { started_ns: tick.waited_for_ns + late_ns, wake_latency_ns: late_ns, ..tick };
        match cause {
            Cause::Preempted => Tick { queued_before_ns: late_ns, ..late },
            Cause::Blocked => Tick { blocked_before: 1, ..late },
            Cause::PreviousTick => Tick { ready_ns: tick.waited_for_ns + late_ns, ..late },
            _ => late,
        }
    }

    fn learned() -> Judge {
        let mut judge = Judge::new(100_000);
        (0..200).for_each(|number| assert!(!judge.judge(&usual(number)).is_late));
        judge
    }

    #[test]
    fn each_part_that_takes_long_is_named_and_each_cause() {
        let bus = Tick { collect_ns: 900_000, cycle_ns: 900_000, ..usual(200) };
        let control = Tick { decide_ns: 420_000, control_ns: 420_000, ..usual(200) };
        for (tick, part, cause) in [
            (bus, "bus", Cause::Bus),
            (control, "control", Cause::Controller),
            (woke_late(200, 300_000, Cause::Preempted), "wake", Cause::Preempted),
            (woke_late(200, 300_000, Cause::Blocked), "wake", Cause::Blocked),
            (woke_late(200, 300_000, Cause::Unaccounted), "wake", Cause::Unaccounted),
            (Tick { encode_ns: 300_000, cycle_ns: 500_000, ..usual(200) }, "encode", Cause::Compute),
        ] {
            let judged = learned().judge(&tick);
            assert!(judged.is_late && judged.part.is_some_and(|of| PARTS[of] == part), "{part}: {judged:?}");
            assert_eq!((judged.cause, judged.root), (cause, cause), "{part}");
        }
    }

    #[test]
    fn a_tick_held_up_by_the_one_before_is_followed_to_what_held_that_up() {
        let mut judge = learned();
        judge.judge(&Tick { decide_ns: 2_400_000, control_ns: 2_400_000, ..usual(200) });
        let next = judge.judge(&woke_late(201, 1_600_000, Cause::PreviousTick));
        assert_eq!(
            (next.cause, next.root, next.start),
            (Cause::PreviousTick, Cause::Controller, Cause::Controller)
        );
        assert_eq!(next.part.map(|part| PARTS[part]), Some("control"));
        let recorded = Tick { record_ns: 1_500_000, ..woke_late(202, 1_600_000, Cause::PreviousTick) };
        let judged = judge.judge(&recorded);
        assert_eq!((judged.part.map(|part| PARTS[part]), judged.root), (Some("record"), Cause::Compute));
    }

    #[test]
    fn the_first_ticks_are_not_judged() {
        let mut judge = Judge::new(100_000);
        assert!(
            (0..LEARNING).all(|number| !judge.judge(&woke_late(number, 9_000_000, Cause::Blocked)).is_late)
        );
        assert_eq!(judge.judged(), 0);
    }
}
