//! What a run was like, counted tick by tick. `docs/metrics.md` defines every figure.

use crate::costs::{Costly, Costs, LateGroup};
use crate::decisions::Decided;
use crate::figures::Seen;
pub use crate::figures::{Stretch, Times};
use crate::late::{Judge, Judged, PARTS, parts};
use crate::record::{Decision, Tick};
use crate::usual::Usual;
use khz_rt::late::{Causes, LateLog, LateTick, Lost};
use khz_rt::{Cause, DISTURBED_NS, Histogram, RunningMedian, SectionSummary};
use std::ops::AddAssign;

/// Late ticks kept.
const MOST_LATE: usize = 100;
/// Servos whose misses are counted each.
const MOST_SERVOS: usize = 1024;

/// What starts the ticks of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// The period, as configured.
    pub period_ns: i64,
    /// Ticks start by a sensor's frames, and so by its clock.
    pub by_sensor: bool,
}

impl Stretch {
    /// Ticks per second. NaN without a tick.
    pub fn rate_hz(&self) -> f64 {
        if self.span_ns > 0 { self.ticks as f64 / self.span_ns as f64 * 1e9 } else { f64::NAN }
    }

    /// Planned periods that passed without a tick: those skipped, or those by which the ticks fell behind a clock of this
    /// period (after changing the phase), if these are more. A sensor plans by its own clock: a slow one loses no period.
    pub fn lost_periods(&self, pace: Pace) -> u64 {
        if pace.by_sensor || pace.period_ns <= 0 {
            return self.skipped;
        }
        let passed = self.span_ns.saturating_add(pace.period_ns / 2) / pace.period_ns;
        self.skipped.max((passed.max(0) as u64).saturating_sub(self.ticks))
    }
}

/// The ticks of a run, or of some seconds of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The controlled ones.
    pub controlled: Stretch,
    /// All others: start-up, and coming down. Their stretches do not follow each other.
    pub outside: Stretch,
}

impl Counts {
    /// Both together.
    pub fn all(&self) -> Stretch {
        let mut all = self.controlled;
        all += self.outside;
        all
    }
}

impl AddAssign for Counts {
    #[inline]
    fn add_assign(&mut self, more: Self) {
        self.controlled += more.controlled;
        self.outside += more.outside;
    }
}

impl Counts {
    /// Adds a tick, and what it cost. Only controlled ticks cost something.
    #[inline]
    pub fn add(&mut self, one: Stretch, is_controlled: bool, costly: Option<&Costly>) {
        (if is_controlled { &mut self.controlled } else { &mut self.outside }).add_tick(one);
        if let Some(costly) = costly {
            self.controlled.raise(costly);
        }
    }
}

/// Counts ticks and judges them; no figure of time. For the loop, a log and a stream of records alike.
///
/// # Realtime contract
/// [`Counter::count`] allocates nothing.
#[derive(Clone, Debug)]
pub struct Counter {
    /// The ticks so far.
    pub counts: Counts,
    /// Ticks that were not seen although later ones were.
    pub unrecorded: u64,
    judge: Judge,
    costs: Costs,
    /// The last late tick, and how many were late in a row until then.
    late_until: (u64, u64),
    /// From the start of a tick to its last reply, of ticks that got all.
    all_replies: RunningMedian,
    /// Number and start of the tick before.
    before: Option<(u64, i64)>,
    first_ns: i64,
}

/// What is known of a tick that was counted.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// What it adds to the counts: of the controlled ticks if it was judged, else of the others.
    pub one: Stretch,
    /// The judgement, if it was controlled.
    pub judged: Option<Judged>,
    /// What it cost, if it was late or cost something.
    pub costly: Option<Costly>,
}

impl Counter {
    /// Nothing counted yet. A tick whose response exceeds the usual one by more than `late_ns` is late.
    pub fn new(late_ns: i64) -> Self {
        Self {
            counts: Counts::default(),
            unrecorded: 0,
            judge: Judge::new(late_ns),
            costs: Costs::default(),
            late_until: (0, 0),
            all_replies: RunningMedian::new(),
            before: None,
            first_ns: 0,
        }
    }

    /// Takes in the next tick. One whose predecessor was not seen is outside the controlled time: from when on it was
    /// waited for is not known.
    #[inline]
    pub fn count(&mut self, tick: &Tick, pace: Pace) -> Counted {
        let before = self.before.replace((tick.number, tick.started_ns));
        let in_a_row = before.filter(|(number, _)| number.checked_add(1) == Some(tick.number));
        let span_ns = in_a_row.map_or(0, |(_, started_ns)| tick.started_ns.saturating_sub(started_ns));
        match before {
            None => self.first_ns = tick.started_ns,
            Some((number, _)) => self.unrecorded += tick.number.saturating_sub(number.saturating_add(1)),
        }
        let off_cpu = self.had_too_little_time(tick, tick.away_in_cycle_ns);
        let encoded = !off_cpu && self.had_too_little_time(tick, tick.encode_ns);
        if tick.missed == 0 {
            self.all_replies.record(tick.cycle_ns - tick.imu_ns);
        }
        let is_controlled = tick.controlled && in_a_row.is_some();
        let late_wake = pace.period_ns > 0 && tick.wake_latency_ns >= pace.period_ns;
        let (judged, costly) = if is_controlled { self.judge(tick, late_wake) } else { (None, None) };
        let one = Stretch::one(&Seen { tick, late_wake, off_cpu, encoded, judged: judged.as_ref(), span_ns });
        self.counts.add(one, is_controlled, costly.as_ref());
        Counted { one, judged, costly }
    }

    #[inline]
    fn judge(&mut self, tick: &Tick, late_wake: bool) -> (Option<Judged>, Option<Costly>) {
        let judged = self.judge.judge(tick);
        let is_costly = judged.is_late || tick.overrun || tick.skipped > 0 || late_wake;
        let costly = is_costly.then(|| self.costly(tick, &judged, late_wake));
        if let Some(costly) = &costly {
            self.costs.count(costly);
        }
        (Some(judged), costly)
    }

    /// What a tick cost. Such ticks are few.
    #[cold]
    #[inline(never)]
    fn costly(&mut self, tick: &Tick, judged: &Judged, late_wake: bool) -> Costly {
        let late_in_a_row = if judged.is_late { self.late_in_a_row(tick.number) } else { 0 };
        Costly {
            late_in_a_row,
            number: tick.number,
            response_ns: judged.response_ns,
            late: judged.is_late.then(|| (judged.cause, judged.response_ns - judged.usual_ns)),
            was_stopped: judged.cause == Cause::Blocked && tick.disturbance().was_stopped(),
            root: judged.root,
            start: judged.start,
            lost_periods: tick.skipped.into(),
            late_wake,
            overrun: tick.overrun,
        }
    }

    /// How many ticks are late in a row with this one.
    fn late_in_a_row(&mut self, number: u64) -> u64 {
        let (last, run) = self.late_until;
        let run = if run > 0 && last.checked_add(1) == Some(number) { run + 1 } else { 1 };
        self.late_until = (number, run);
        run
    }

    /// From now on a tick is late if its response exceeds the usual one by more than this.
    pub fn late_from(&mut self, late_ns: i64) {
        self.judge.late_from(late_ns);
    }

    /// Whether the loop had no more time than all replies usually take, because something took this much of its bus cycle. A tick
    /// that misses a reply waits until the bus deadline, many times as long as usual, so being away for a while proves nothing.
    #[inline]
    fn had_too_little_time(&self, tick: &Tick, taken_ns: i64) -> bool {
        let usual_ns = self.all_replies.ns();
        taken_ns >= DISTURBED_NS && usual_ns.is_some_and(|usual_ns| tick.cycle_ns - taken_ns <= usual_ns)
    }

    /// Ticks per second of the controlled time; of the whole run where there is none. NaN with fewer than two ticks.
    pub fn rate_hz(&self) -> f64 {
        let ticks = self.counts.all().ticks;
        match self.before {
            _ if self.counts.controlled.ticks > 0 => self.counts.controlled.rate_hz(),
            Some((_, last_ns)) if ticks > 1 => (ticks - 1) as f64 / (last_ns - self.first_ns) as f64 * 1e9,
            _ => f64::NAN,
        }
    }

    /// Start of the first tick.
    pub fn first_ns(&self) -> i64 {
        self.first_ns
    }

    /// From how much over the usual response on a tick is late.
    pub fn late_ns(&self) -> i64 {
        self.judge.late_ns()
    }

    /// Controlled ticks that were judged: all but the first [`LEARNING`](crate::late::LEARNING).
    pub fn judged(&self) -> u64 {
        self.judge.judged()
    }

    /// How many were late, by cause.
    pub fn causes(&self) -> Causes {
        self.costs.causes()
    }

    /// Late ticks and their costs by cause, what cost most first.
    pub fn late_groups(&self) -> Vec<LateGroup> {
        self.costs.groups()
    }

    /// See [`Costs::longest_near`].
    pub fn longest_near(&self, tick: u64) -> Option<(i64, Cause)> {
        self.costs.longest_near(tick)
    }
}

/// Everything that is counted of a run, and its figures of time. Distributions are of the controlled ticks: the robot's start and
/// its coming down are counted apart.
///
/// # Realtime contract
/// Allocates only in [`Tally::new`]: some 4 MB.
#[derive(Clone, Debug)]
pub struct Tally {
    /// The counts.
    pub counter: Counter,
    /// The times: of the controlled ticks, unless their definitions name others.
    pub times: Times<Histogram>,
    /// The wake latency of the other ticks.
    pub wake_latency_outside: Histogram,
    /// Controlled ticks that lost time, and to what.
    pub lost: Lost,
    /// What the other ticks took, summed: waiting for replies, and computing without what others took of it.
    outside_ns: [i64; 2],
    parts: [Histogram; PARTS.len()],
    worst: LateLog,
    /// Replies that each servo missed without excuse: outside the controlled time, and within.
    missed_by: [Vec<u64>; 2],
    /// How often a servo was asked nothing after a miss, outside the controlled time, and within.
    quiet: [u64; 2],
    /// When each servo was silent last.
    silences: Vec<Silence>,
    /// Decisions that are made less often than the loop ticks.
    pub decided: Decided,
    /// The tick counted last was controlled.
    was_controlled: bool,
    /// What the servos missed in it is excused.
    was_excused: bool,
}

/// So many replies missed in a row are no accident but a silence.
const SILENCE: u64 = 3;

/// The ticks in which a servo missed replies in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Silence {
    /// The first and the last of the newest ones.
    newest: [u64; 2],
    /// The same of the last that were a silence.
    long: Option<[u64; 2]>,
}

impl Silence {
    fn goes_on(&mut self, tick: u64) {
        let [first, last] = self.newest;
        self.newest = if last.checked_add(1) == Some(tick) { [first, tick] } else { [tick; 2] };
        if tick - self.newest[0] + 1 >= SILENCE {
            self.long = Some(self.newest);
        }
    }

    /// What comes of a silence may be seen a tick later.
    fn covers(&self, tick: u64) -> bool {
        self.long.is_some_and(|[first, last]| first <= tick && tick <= last.saturating_add(1))
    }
}

impl Tally {
    /// Nothing counted yet. A tick whose response exceeds the usual one by more than `late_ns` is late.
    pub fn new(late_ns: i64) -> Self {
        Self {
            counter: Counter::new(late_ns),
            times: Times::new(),
            wake_latency_outside: Histogram::new(),
            lost: Lost::default(),
            outside_ns: [0; 2],
            parts: std::array::from_fn(|_| Histogram::new()),
            worst: LateLog::new(late_ns, MOST_LATE),
            missed_by: std::array::from_fn(|_| Vec::with_capacity(MOST_SERVOS)),
            quiet: [0; 2],
            silences: Vec::with_capacity(MOST_SERVOS),
            decided: Decided::default(),
            was_controlled: false,
            was_excused: false,
        }
    }

    /// From now on a tick is late if its response exceeds the usual one by more than this.
    pub fn late_from(&mut self, late_ns: i64) {
        self.counter.late_from(late_ns);
        self.worst = LateLog::new(late_ns, MOST_LATE);
    }

    /// The counts of all ticks.
    pub fn all(&self) -> Stretch {
        self.counter.counts.all()
    }

    /// The counts of the controlled ticks.
    pub fn controlled(&self) -> Stretch {
        self.counter.counts.controlled
    }

    /// The counts of all others.
    pub fn outside(&self) -> Stretch {
        self.counter.counts.outside
    }

    /// Takes in the next tick.
    #[inline]
    pub fn count(&mut self, tick: &Tick, pace: Pace) -> Counted {
        let counted = self.counter.count(tick, pace);
        let at_ns = tick.started_ns;
        if tick.controller_ran {
            self.times.control.record(tick.control_ns, at_ns);
        }
        let Stretch { missed_while_off_cpu, missed_while_computing, .. } = counted.one;
        self.was_excused = missed_while_off_cpu > 0 || missed_while_computing > 0;
        self.was_controlled = counted.judged.is_some();
        match &counted.judged {
            Some(judged) => self.measure(tick, pace, counted.one.span_ns, judged),
            None => self.measure_outside(tick),
        }
        counted
    }

    /// Takes in a decision that is followed from the tick counted last on.
    pub fn decide(&mut self, decision: &Decision) {
        self.counter.counts.controlled.decide(decision);
        self.decided.count(decision);
        if decision.took_ns > 0 {
            self.times.decision.record(decision.took_ns, decision.in_tick as i64);
        }
    }

    fn measure_outside(&mut self, tick: &Tick) {
        self.wake_latency_outside.record(tick.wake_latency_ns, tick.started_ns);
        let computed_ns =
            tick.encode_ns + tick.send_ns + tick.decide_ns - tick.control_ns - tick.away_ns.max(0);
        let [bus_ns, compute_ns] = self.outside_ns;
        self.outside_ns =
            [bus_ns.saturating_add(tick.collect_ns), compute_ns.saturating_add(computed_ns.max(0))];
    }

    /// What a tick takes on average of a run that never was under control; none if it was.
    pub fn usual_outside(&self) -> Option<Usual> {
        let ticks = Some(self.outside().ticks).filter(|ticks| *ticks > 0 && self.controlled().ticks == 0)?;
        let [bus_ns, compute_ns] = self.outside_ns.map(|ns| ns / ticks as i64);
        Usual::of(&[(Cause::Bus, bus_ns), (Cause::Compute, compute_ns)], self.counter.late_ns())
    }

    fn measure(&mut self, tick: &Tick, pace: Pace, span_ns: i64, judged: &Judged) {
        let (at_ns, skipped) = (tick.started_ns, u64::from(tick.skipped));
        let missed_ns = pace.period_ns.saturating_mul(tick.skipped.into());
        let delay_ns = at_ns.saturating_sub(tick.due_ns).saturating_sub(missed_ns);
        let times = &mut self.times;
        times.start_delay.record_corrected(delay_ns, pace.period_ns, skipped, at_ns);
        times.period.record(span_ns, at_ns);
        times.wake_latency.record(tick.wake_latency_ns, at_ns);
        times.cycle.record(tick.cycle_ns, at_ns);
        times.loop_compute.record(tick.loop_compute_ns, at_ns);
        times.cpu.record(tick.cpu_ns, at_ns);
        self.lost.record(&tick.disturbance());
        for (histogram, ns) in self.parts.iter_mut().zip(parts(tick)) {
            if let Some(ns) = ns {
                histogram.record(ns, tick.number as i64);
            }
        }
        if judged.is_late {
            self.worst.record(judged.late_tick(tick));
        }
    }

    /// A servo, by its place among all, missed its reply in the tick counted last.
    #[inline]
    pub fn missed_by(&mut self, servo: usize) {
        if !self.was_excused && servo < MOST_SERVOS {
            let missed_by = &mut self.missed_by[usize::from(self.was_controlled)];
            if missed_by.len() <= servo {
                // Within its capacity: nothing is allocated.
                missed_by.resize(servo + 1, 0);
            }
            missed_by[servo] += 1;
            if self.silences.len() <= servo {
                self.silences.resize(servo + 1, Silence::default());
            }
            self.silences[servo].goes_on(self.counter.before.map_or(0, |(number, _)| number));
        }
    }

    /// The servos, by their places, that did not reply in this tick nor in those around it, if that was their last silence.
    pub fn silent_in(&self, tick: u64) -> impl Iterator<Item = usize> {
        let silences = self.silences.iter().enumerate();
        silences.filter(move |(_, silence)| silence.covers(tick)).map(|(servo, _)| servo)
    }

    /// So many servos were asked nothing in the tick counted last, because they had missed a reply and what they still answer could be
    /// mistaken.
    pub fn kept_quiet(&mut self, servos: u64) {
        self.quiet[usize::from(self.was_controlled)] += servos;
    }

    /// How often that was, under control or outside.
    pub fn quiet(&self, controlled: bool) -> u64 {
        self.quiet[usize::from(controlled)]
    }

    /// Replies that each servo missed without excuse, under control or outside, by its place; those behind missed none.
    pub fn missed_of(&self, controlled: bool) -> &[u64] {
        &self.missed_by[usize::from(controlled)]
    }

    /// The one of so many servos that missed most replies without excuse, under control or outside, by its place, and how many. None
    /// if that is chance, as [`stands_out`] has it, of all servos or of the two that missed most.
    pub fn worst_servo(&self, controlled: bool, servos: usize) -> Option<(usize, u64)> {
        let missed_by = self.missed_of(controlled);
        let (servo, most) = missed_by.iter().copied().enumerate().max_by_key(|(_, missed)| *missed)?;
        let others = missed_by.iter().enumerate().filter(|(other, _)| *other != servo);
        let second = others.map(|(_, missed)| *missed).max().unwrap_or(0);
        let is_worst = stands_out(most, most + second, 0.5)
            && stands_out(most, missed_by.iter().sum(), 1.0 / servos.max(1) as f64);
        is_worst.then_some((servo, most))
    }

    /// The worst late ticks, by number; [`LateTick::part`] is an index of [`PARTS`]. Allocates.
    pub fn worst(&self) -> Vec<LateTick> {
        self.worst.worst()
    }

    /// The figures of each part that was entered, in the order of a tick. Allocates.
    pub fn parts(&self) -> Vec<SectionSummary> {
        let parts = PARTS.iter().zip(&self.parts).filter(|(_, part)| part.count() > 0);
        parts.map(|(name, part)| SectionSummary { name: (*name).to_owned(), time: part.summary() }).collect()
    }
}

/// Whether so many of all that happened are more than chance gives to one whose share is `share`: all of them, or three standard
/// deviations more than that share. Whom chance picks is not to be blamed.
#[must_use]
pub fn stands_out(count: u64, all: u64, share: f64) -> bool {
    let usual = all as f64 * share;
    count > 0 && (count == all || count as f64 > usual + 3.0 * (usual * (1.0 - share)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::late::tests::{PERIOD_NS, usual, woke_late};

    const PACE: Pace = Pace { period_ns: PERIOD_NS, by_sensor: false };

    fn run(ticks: impl IntoIterator<Item = Tick>) -> Tally {
        let mut tally = Tally::new(100_000);
        ticks.into_iter().for_each(|tick| {
            tally.count(&tick, PACE);
        });
        tally
    }

    #[test]
    fn a_loop_that_slips_its_phase_loses_the_periods_it_falls_behind() {
        // Each tick starts 1 % of a period later than planned, and plans on from there: nothing is ever skipped.
        let slipping =
            (0..1001).map(|number| Tick { started_ns: number as i64 * 1_010_000, ..usual(number) });
        let controlled = run(slipping).counter.counts.controlled;
        assert_eq!((controlled.ticks, controlled.skipped, controlled.lost_periods(PACE)), (1000, 0, 10));
        assert_eq!(controlled.lost_periods(Pace { by_sensor: true, ..PACE }), 0, "its clock decides");
    }

    #[test]
    fn lost_periods_are_blamed_on_what_cost_them_and_not_on_what_is_late_more_often() {
        let tick = |number| match number {
            500 => Tick { skipped: 7, overrun: true, ..woke_late(number, 8_050_000, Cause::Preempted) },
            // Late, as a reply is missed, and on time for the next.
            number if number % 10 == 7 => {
                Tick { missed: 1, collect_ns: 780_000, cycle_ns: 780_000, ..usual(number) }
            }
            number => usual(number),
        };
        let tally = run((0..1000).map(tick));
        let groups = tally.counter.late_groups();
        assert_eq!(
            (groups[0].cause, groups[0].lost_periods, groups[0].worst_ns),
            (Cause::Preempted, 7, Some(8_270_000))
        );
        assert_eq!((groups[1].cause, groups[1].ticks, groups[1].lost_periods), (Cause::Bus, 90, 0));
    }

    #[test]
    fn what_the_next_tick_loses_is_blamed_on_the_one_that_overran() {
        let tick = |number| match number {
            500 => Tick { decide_ns: 2_600_000, control_ns: 2_600_000, overrun: true, ..usual(number) },
            501 => Tick { skipped: 2, ..woke_late(number, 1_805_000, Cause::PreviousTick) },
            number => usual(number),
        };
        let groups = run((0..1000).map(tick)).counter.late_groups();
        let controller = groups[0];
        assert_eq!(
            (controller.cause, controller.lost_periods, controller.overruns),
            (Cause::Controller, 2, 1)
        );
        assert_eq!(controller.worst_tick, Some(500));
    }

    #[test]
    fn what_a_loop_skips_is_blamed_on_the_tick_that_overran_and_not_on_the_wake_of_the_next() {
        let tick = |number| match number {
            500 => Tick {
                away_ns: 2_300_000,
                queued_ns: 2_300_000,
                decide_ns: 2_600_000,
                overrun: true,
                ..usual(number)
            },
            // It waited for the next time, and woke as punctually as ever.
            501 => Tick {
                skipped: 2,
                due_ns: usual(501).waited_for_ns - 2_000_000,
                ready_ns: usual(501).waited_for_ns - 400_000,
                ..usual(number)
            },
            number => usual(number),
        };
        let groups = run((0..1000).map(tick)).counter.late_groups();
        assert_eq!(
            (groups[0].cause, groups[0].lost_periods, groups[0].worst_tick),
            (Cause::Preempted, 2, Some(500))
        );
    }

    #[test]
    fn a_stop_before_the_start_of_a_tick_is_distinguished_from_a_lock_in_it() {
        let stopped = |number| Tick { skipped: 2, ..woke_late(number, 3_000_000, Cause::Blocked) };
        let locked = |number| Tick {
            decide_ns: 1_820_000,
            control_ns: 1_820_000,
            away_ns: 1_800_000,
            blocked: 1,
            ..usual(number)
        };
        let of = |late: &dyn Fn(u64) -> Tick| {
            let tick = |number| if number == 500 { late(number) } else { usual(number) };
            run((0..600).map(tick)).counter.late_groups()[0]
        };
        let group = of(&stopped);
        assert_eq!((group.cause, group.stopped_ns), (Cause::Blocked, group.lost_ns));
        let group = of(&locked);
        assert_eq!((group.cause, group.ticks, group.stopped_ns), (Cause::Blocked, 1, 0));
    }

    #[test]
    fn late_ticks_in_a_row_are_counted_until_one_is_not() {
        let tick = |number| match number {
            300..303 | 400..407 | 500 | 502 => woke_late(number, 300_000, Cause::Preempted),
            number => usual(number),
        };
        let controlled = run((0..600).map(tick)).controlled();
        assert_eq!((controlled.late, controlled.late_in_a_row), (12, 7));
        // A tick between that was not seen may have been on time.
        let seen = run((0..600).filter(|number| *number != 404).map(tick)).controlled();
        assert_eq!(seen.late_in_a_row, 4);
    }

    #[test]
    fn overruns_of_a_thread_that_is_always_blocked_are_no_fault_of_the_controller() {
        let blocked = |number| Tick {
            decide_ns: 1_870_000,
            control_ns: 1_870_000,
            away_ns: 1_800_000,
            blocked: 2,
            overrun: true,
            ..usual(number)
        };
        let groups = run((0..500).map(blocked)).counter.late_groups();
        assert_eq!((groups[0].cause, groups[0].overruns), (Cause::Blocked, 499));
    }

    #[test]
    fn what_a_tick_takes_is_known_of_a_run_that_never_was_under_control() {
        let slow = |away_ns| {
            let tick = |number| Tick { encode_ns: 2_200_000, away_ns, controlled: false, ..usual(number) };
            run((0..50).map(tick)).usual_outside().map(|usual| (usual.most, usual.most_ns > PERIOD_NS))
        };
        assert_eq!(slow(0), Some((Cause::Compute, true)));
        assert_ne!(slow(2_200_000), Some((Cause::Compute, true)), "others had its CPU");
        assert_eq!(run((0..50).map(usual)).usual_outside(), None);
    }

    #[test]
    fn replies_are_missed_while_computing_where_encoding_left_less_time_than_they_take() {
        let missed = |encode_ns| {
            let tick = |number| match number {
                500 => Tick { missed: 1, encode_ns, cycle_ns: 780_000, collect_ns: 780_000, ..usual(number) },
                number => usual(number),
            };
            run((0..600).map(tick)).counter.counts.controlled
        };
        let computing = |encode_ns| missed(encode_ns).missed_while_computing;
        assert_eq!((computing(700_000), missed(700_000).missed_replies), (1, 1));
        assert_eq!(computing(300_000), 0, "there was time enough after it");
    }

    #[test]
    fn the_servo_is_named_that_missed_most_under_control() {
        let mut tally = Tally::new(100_000);
        for number in 0..500 {
            let controlled = number < 100;
            tally.count(&Tick { missed: 1, controlled, ..usual(number) }, PACE);
            tally.missed_by(if controlled && number % 4 > 0 { 1 } else { 0 });
        }
        // All of coming down are of the first servo.
        let [outside, controlled] = &tally.missed_by;
        assert_eq!((tally.worst_servo(true, 2), controlled.as_slice()), (Some((1, 75)), &[24, 75][..]));
        assert_eq!((tally.worst_servo(false, 2), outside.as_slice()), (Some((0, 401)), &[401][..]));
        // Two of twelve that share what was missed: neither is the one.
        let mut tied = Tally::new(100_000);
        (0..200).for_each(|number| {
            tied.count(&Tick { missed: 1, controlled: false, ..usual(number) }, PACE);
            tied.missed_by(number as usize % 2);
        });
        assert_eq!((tied.worst_servo(false, 12), tied.missed_of(false)), (None, &[100, 100][..]));
    }

    /// One per cent of all frames lost: the verdict named a servo, by nine replies of 16.
    #[test]
    fn whom_chance_picks_is_not_named() {
        assert!(!stands_out(9, 16, 0.5) && !stands_out(0, 0, 0.5));
        assert!(stands_out(1, 1, 0.5) && stands_out(75, 99, 0.5) && stands_out(12, 30, 1.0 / 12.0));
        let named = |rolls: u64| {
            let mut missed = [0_u64; 12];
            let mut random = 88_172_645_463_325_252_u64;
            for _ in 0..rolls {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                missed[(random >> 33) as usize % 12] += 1;
            }
            missed.iter().any(|count| stands_out(*count, rolls, 1.0 / 12.0))
        };
        let wrong = (20..2_020).filter(|rolls| named(*rolls)).count();
        assert!(wrong < 100, "{wrong} of 2,000 even losses were blamed on one servo");
    }

    #[test]
    fn servos_that_are_silent_together_are_found_and_one_that_missed_a_reply_is_not() {
        let mut tally = Tally::new(100_000);
        for number in 0..400 {
            tally.count(&usual(number), Pace::default());
            let missing = [(200..260).contains(&number), (201..400).contains(&number), number % 100 == 9];
            (0..3).filter(|servo| missing[*servo]).for_each(|servo| tally.missed_by(servo));
        }
        let silent = |tick| tally.silent_in(tick).collect::<Vec<_>>();
        assert_eq!(
            (silent(210), silent(260), silent(300), silent(109)),
            (vec![0, 1], vec![0, 1], vec![1], vec![])
        );
    }

    #[test]
    fn ticks_that_were_not_seen_are_counted_and_what_follows_them_is_not_controlled() {
        let tally = run((0..1000).filter(|number| *number < 300 || *number >= 310).map(usual));
        let Counts { controlled, outside } = tally.counter.counts;
        assert_eq!((tally.counter.unrecorded, controlled.ticks, outside.ticks), (10, 988, 2));
        assert!((tally.counter.rate_hz() - 1000.0).abs() < 1e-6);
    }
}
