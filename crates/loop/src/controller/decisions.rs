//! Decisions that are made less often than the loop ticks, and may take longer than a tick: each is of the state of one tick, and is
//! followed from a tick on that is known before, so that a run does not depend on how long they take.

use super::handover::{Caller, handover};
use super::{ControlError, Decision};
use crate::state::RobotState;
use khz_rt::clock::thread_cpu_ns;
use khz_rt::panics::{self, Panic};
use khz_rt::{Profile, SectionId, SectionSummary, now_ns};
use std::collections::VecDeque;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the end looks whether a decision is made, and how many times.
const LOOK: Duration = Duration::from_millis(1);
const LOOKS: u32 = 100;

/// If the previous tick began this many periods ago or more, the loop itself was held up, and the deciding thread may have been, too.
const HELD_UP: i64 = 2;

/// Who decides.
///
/// # Realtime contract
/// On a thread of its own it may take its time; within the tick it may not, and must not allocate, lock, print or wait.
pub trait Decide<T = f64>: Send {
    /// The next decision is the first of a run: nothing of the one before is to be remembered.
    fn begin(&mut self);

    /// Decides on a state. `decision` holds the one before.
    ///
    /// # Errors
    /// Whatever makes it impossible; the supervisor damps the robot and shows the text.
    fn decide(&mut self, state: &RobotState, decision: &mut [T]) -> Result<(), ControlError>;

    /// What the log is to have of the decision made last. `into` holds an older one: its lists are written in full, and are as long
    /// each time, so that nothing is allocated but by the first.
    fn record(&self, into: &mut Decision) {
        let _ = into;
    }
}

/// The CPU time that this thread takes for something, ns: how long a decision takes where nothing else wants the CPU.
pub fn cpu_time_ns(work: impl FnOnce()) -> i64 {
    let before_ns = thread_cpu_ns();
    work();
    thread_cpu_ns() - before_ns
}

/// When decisions are made, and when they are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From one to the next, ticks.
    pub every: u64,
    /// From the tick whose state it is of to the tick that follows it; at most `every`.
    pub delay: u64,
    /// So many late ones in a row are an error.
    pub max_late: u32,
    /// The first one since a start may take as long as it likes: what is called for the first time loads and compiles. What is not late
    /// then is neither missed nor an error.
    pub waits_for_first: bool,
}

impl Pace {
    /// So many decisions a second, each followed after `delay` ticks, of a loop of this period; at most a period of decisions later, which
    /// is what it is without `delay`. `max_late` late ones in a row are an error.
    ///
    /// # Errors
    /// The rate does not divide the loop's, or the delay is longer.
    pub fn of(rate_hz: f64, delay: Option<u32>, max_late: u32, period_ns: i64) -> Result<Self, ControlError> {
        let loop_hz = 1e9 / period_ns as f64;
        let every = loop_hz / rate_hz;
        if !is_whole(every) {
            let near = nearest(every, loop_hz).map_or_else(String::new, |near| format!("; {near}"));
            let text =
                format!("a decision rate of {rate_hz} Hz does not divide the loop's {loop_hz} Hz{near}");
            return Err(ControlError(text.into()));
        }
        let every = every.round() as u64;
        let delay = delay.map_or(every, u64::from);
        if !(1..=every).contains(&delay) {
            let text = format!(
                "`delay_ticks = {delay}` is not from 1 to the {every} ticks from one decision to the next"
            );
            return Err(ControlError(text.into()));
        }
        Ok(Self { every, delay, max_late: max_late.max(1), waits_for_first: false })
    }
}

/// Whether so many ticks lie between two decisions. Not what is no number, either.
fn is_whole(every: f64) -> bool {
    (1.0..1e12).contains(&every) && (every - every.round()).abs() <= 1e-6
}

/// The nearest rates that divide the loop's, of those that are short to write.
fn nearest(every: f64, loop_hz: f64) -> Option<String> {
    const TRIED: u64 = 10_000;
    let short = |every: u64| {
        let rate_hz = (loop_hz / every as f64 * 1e4).round() / 1e4;
        is_whole(loop_hz / rate_hz).then_some(rate_hz)
    };
    // Of what is no number, 0.
    let below = every as u64;
    let slower = (below.saturating_add(1)..=below.saturating_add(TRIED)).find_map(short);
    let faster = (below.saturating_sub(TRIED)..=below).rev().find_map(short);
    match (slower, faster) {
        (Some(slower), Some(faster)) => Some(format!("the nearest that do are {slower} and {faster} Hz")),
        (Some(one), None) | (None, Some(one)) => Some(format!("the nearest that does is {one} Hz")),
        (None, None) => None,
    }
}

/// Set up a thread: its scheduling.
pub type OnThread = Box<dyn FnOnce() + Send>;

/// Decisions of one who decides: in the tick, or on a thread of its own.
///
/// # Realtime contract
/// [`Decisions::tick`] copies a state and wakes the thread (one system call, `futex`) in a tick in which a decision begins. It neither
/// allocates nor locks nor waits for a decision.
pub struct Decisions<T = f64> {
    pace: Pace,
    place: Place<T>,
    /// While no decision is under way.
    idle: Option<Box<Job<T>>>,
    /// The one that is followed.
    decision: Vec<T>,
    /// The first tick since the start.
    first: Option<u64>,
    /// How many were due since then.
    turn: Option<u64>,
    under_way: Option<UnderWay>,
    begins: bool,
    /// One was followed since the start.
    has_decided: bool,
    late: u32,
    /// Those not made since the one that is followed.
    missed: u32,
    /// The record of the one that is followed.
    followed: Decision,
    /// Of a replay: of which tick a decision is made, and in which it is followed.
    plan: Option<VecDeque<[u64; 2]>>,
    profile: Profile,
    section: SectionId,
}

#[derive(Clone, Copy)]
struct UnderWay {
    /// The tick whose state it is of, …
    of_tick: u64,
    /// … and that from which on it is followed.
    due: u64,
    is_late: bool,
}

enum Place<T> {
    /// Done as soon as it is begun; then it is here.
    Here(Option<Box<Job<T>>>),
    Beside(Caller<Job<T>>, JoinHandle<()>),
}

struct Job<T> {
    decide: Box<dyn Decide<T>>,
    begins: bool,
    state: RobotState,
    decision: Vec<T>,
    outcome: Result<(), ControlError>,
    record: Decision,
    took_ns: i64,
}

impl<T> Job<T> {
    fn work(&mut self) {
        let begun_ns = now_ns();
        if std::mem::take(&mut self.begins) {
            self.decide.begin();
        }
        self.outcome = self.decide.decide(&self.state, &mut self.decision);
        self.write_record();
        self.took_ns = now_ns() - begun_ns;
    }

    fn write_record(&mut self) {
        self.record.failed = self.outcome.is_err();
        self.decide.record(&mut self.record);
    }
}

impl<T: Copy + Send + 'static> Decisions<T> {
    /// Decisions of as many values as `first`, which is followed until the first is there, made within the tick until
    /// [`Decisions::to_thread`]. `state` is any state of the same robot; it gives the sizes.
    pub fn new(decide: Box<dyn Decide<T>>, pace: Pace, first: Vec<T>, state: &RobotState) -> Self {
        let mut profile = Profile::default();
        let mut followed = Decision::default();
        decide.record(&mut followed);
        let job = Job {
            decide,
            begins: false,
            state: state.clone(),
            decision: first.clone(),
            outcome: Ok(()),
            record: followed.clone(),
            took_ns: 0,
        };
        Self {
            pace,
            place: Place::Here(None),
            idle: Some(Box::new(job)),
            decision: first,
            first: None,
            turn: None,
            under_way: None,
            begins: true,
            has_decided: false,
            late: 0,
            missed: 0,
            followed,
            plan: None,
            section: profile.section("decision"),
            profile,
        }
    }

    /// From now on they are made on a thread of their own, which first calls `on_thread`. Nothing changes while one is under way.
    ///
    /// # Errors
    /// If the thread cannot be made.
    pub fn to_thread(&mut self, on_thread: OnThread) -> std::io::Result<()> {
        panics::install();
        let Some(job) = self.idle.take() else { return Ok(()) };
        let (mut caller, jobs) = handover(job);
        let work = move || {
            on_thread();
            let mut panic = Panic::new();
            jobs.serve(|job: &mut Job<T>| {
                if panics::catch(&mut panic, || job.work()).is_none() {
                    // On this thread a message may be allocated.
                    job.outcome = Err(ControlError(format!("the decision panicked: {panic}").into()));
                }
            });
        };
        let thread = thread::Builder::new().name("khz-decisions".to_owned()).spawn(work)?;
        self.idle = caller.take();
        self.place = Place::Beside(caller, thread);
        Ok(())
    }

    /// The next decision is the first of a run. Does not wait for one that is under way: its result is dropped.
    pub fn start(&mut self) {
        (self.first, self.turn, self.late, self.begins) = (None, None, 0, true);
        (self.under_way, self.missed, self.has_decided) = (None, 0, false);
    }

    /// From now on decisions are made of the first, and followed in the second of each pair of ticks, as they were in a run that is
    /// replayed. The ticks go up.
    pub fn again(&mut self, plan: VecDeque<[u64; 2]>) {
        self.plan = Some(plan);
    }

    /// The decision that is followed.
    pub fn decision(&self) -> &[T] {
        &self.decision
    }

    /// The same, to be changed: the next decision begins with it.
    pub fn decision_mut(&mut self) -> &mut [T] {
        &mut self.decision
    }

    /// Its record; the number is 0 before the first.
    pub fn followed(&self) -> &Decision {
        &self.followed
    }

    /// The same, to be completed by the controller.
    pub fn followed_mut(&mut self) -> &mut Decision {
        &mut self.followed
    }

    /// One tick: follows the decision that is due, and begins the next one. Returns whether there is a new one.
    ///
    /// # Errors
    /// The error of the deciding thread; or [`Pace::max_late`] decisions in a row are late.
    pub fn tick(&mut self, state: &RobotState) -> Result<bool, ControlError> {
        let is_new = self.follow(state)?;
        if let Some(due) = self.due(state.tick) {
            self.decide(state, due)?;
        }
        self.profile.tick(state.tick);
        Ok(is_new)
    }

    /// When a decision of this tick is followed; `None`: none is made of it.
    fn due(&mut self, tick: u64) -> Option<u64> {
        if let Some(plan) = &mut self.plan {
            while plan.front().is_some_and(|[of, _]| *of < tick) {
                plan.pop_front();
            }
            let is_of_this = plan.front().is_some_and(|[of, _]| *of == tick);
            return if is_of_this { plan.pop_front().map(|[_, due]| due) } else { None };
        }
        let first = *self.first.get_or_insert(tick);
        let turn = tick.saturating_sub(first) / self.pace.every.max(1);
        (self.turn.replace(turn) != Some(turn)).then_some(tick + self.pace.delay)
    }

    fn decide(&mut self, state: &RobotState, due: u64) -> Result<(), ControlError> {
        // One of before the start, too, is waited for. One that is done only now is followed in the next tick.
        let is_of_before = self.under_way.is_none();
        let back = self.idle.take().or_else(|| is_of_before.then(|| self.back()).flatten());
        let Some(mut job) = back else {
            if !self.is_first() {
                self.missed += 1;
            }
            return self.miss(state);
        };
        job.begins |= std::mem::take(&mut self.begins);
        job.state.copy_from(state);
        job.decision.copy_from_slice(&self.decision);
        (job.record.of_tick, job.record.failed) = (state.tick, true);
        self.under_way = Some(UnderWay { of_tick: state.tick, due, is_late: false });
        match &mut self.place {
            Place::Here(done) => {
                job.work();
                *done = Some(job);
            }
            Place::Beside(caller, thread) => caller.give(job, Some(thread.thread())),
        }
        Ok(())
    }

    fn follow(&mut self, state: &RobotState) -> Result<bool, ControlError> {
        let Some(under_way @ UnderWay { due, is_late, .. }) = self.under_way else { return Ok(false) };
        if state.tick < due {
            return Ok(false);
        }
        let Some(mut job) = self.back() else {
            if !is_late {
                self.under_way = Some(UnderWay { is_late: true, ..under_way });
                self.miss(state)?;
            }
            return Ok(false);
        };
        self.under_way = None;
        self.profile.add(self.section, job.took_ns);
        let outcome = std::mem::replace(&mut job.outcome, Ok(()));
        self.decision.copy_from_slice(&job.decision);
        let number = self.followed.number + 1;
        std::mem::swap(&mut self.followed, &mut job.record);
        self.followed.number = number;
        self.followed.in_tick = state.tick;
        let late = if self.is_first() { 0 } else { state.tick - due };
        self.followed.late = u32::try_from(late).unwrap_or(u32::MAX);
        self.has_decided = true;
        self.followed.missed = std::mem::take(&mut self.missed);
        self.followed.took_ns = if matches!(self.place, Place::Beside(..)) { job.took_ns } else { 0 };
        self.idle = Some(job);
        if !is_late {
            self.late = 0;
        }
        outcome.map(|()| true)
    }

    fn back(&mut self) -> Option<Box<Job<T>>> {
        match &mut self.place {
            Place::Here(done) => done.take(),
            Place::Beside(caller, _) => caller.take(),
        }
    }

    /// The first since a start is still awaited, and may be late.
    fn is_first(&self) -> bool {
        self.pace.waits_for_first && !self.has_decided
    }

    fn miss(&mut self, state: &RobotState) -> Result<(), ControlError> {
        if self.is_first() || state.elapsed_ns > HELD_UP * state.period_ns {
            return Ok(());
        }
        self.late += 1;
        if self.late < self.pace.max_late {
            return Ok(());
        }
        self.give_up(state.tick);
        Err("its decisions are late, `max_late` in a row: they take longer than `delay_ticks`, or their thread gets no CPU".into())
    }

    /// Reports the decision under way as late and failed; its inputs and outputs are unknown.
    fn give_up(&mut self, tick: u64) {
        let Some(UnderWay { of_tick, due, .. }) = self.under_way else { return };
        let lost = &mut self.followed;
        (lost.number, lost.of_tick, lost.in_tick) = (lost.number + 1, of_tick, tick);
        // Not in this tick, either.
        lost.late = u32::try_from(tick + 1 - due).unwrap_or(u32::MAX);
        (lost.missed, lost.clipped, lost.carried) = (self.missed, 0, 0);
        (lost.took_ns, lost.failed) = (0, true);
        lost.observation.0.fill(f32::NAN);
        lost.action.0.fill(f32::NAN);
        lost.cut.0.fill(false);
    }

    /// How long decisions took.
    pub fn profile(&self) -> Vec<SectionSummary> {
        self.profile.summary()
    }
}

/// Ends the thread. One that does not return from its decision within 0.1 s is left behind: bringing the robot down must not wait for it.
impl<T> Drop for Decisions<T> {
    fn drop(&mut self) {
        let Place::Beside(caller, thread) = &self.place else { return };
        caller.end(thread.thread());
        for _ in 0..LOOKS {
            if thread.is_finished() {
                break;
            }
            thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Decides on the number of the tick, counts its decisions since it began, and waits for a permission each time, if it needs one.
    struct Number(f64, Option<Receiver<()>>);

    impl Decide for Number {
        fn begin(&mut self) {
            self.0 = 0.0;
        }

        fn decide(&mut self, state: &RobotState, decision: &mut [f64]) -> Result<(), ControlError> {
            if let Some(permission) = &self.1 {
                let _ = permission.recv();
            }
            assert_ne!(state.tick, 50, "a bug");
            if state.tick == 40 {
                return Err("forty".into());
            }
            self.0 += 1.0;
            decision.copy_from_slice(&[state.tick as f64, self.0]);
            Ok(())
        }
    }

    struct Rig {
        decisions: Decisions,
        state: RobotState,
    }

    impl Rig {
        fn new(delay: u64, permission: Option<Receiver<()>>) -> Self {
            let state = RobotState::unknown(1, false, 1_000_000);
            let pace = Pace { every: 5, delay, max_late: 3, waits_for_first: false };
            let mut decisions = Decisions::new(Box::new(Number(9.0, permission)), pace, vec![0.0; 2], &state);
            decisions.start();
            Self { decisions, state }
        }

        /// A decision of the thread, when it is done; the loop itself never waits.
        fn settle(&self) {
            let Place::Beside(caller, _) = &self.decisions.place else { return };
            while self.decisions.idle.is_none() && !caller.is_back() {
                thread::yield_now();
            }
        }

        fn tick(&mut self, tick: u64) -> Result<[f64; 2], ControlError> {
            self.state.tick = tick;
            self.decisions.tick(&self.state)?;
            Ok([self.decisions.decision()[0], self.decisions.decision()[1]])
        }
    }

    fn ticks(rig: &mut Rig, ticks: std::ops::Range<u64>) -> Vec<f64> {
        let one = |tick| {
            rig.settle();
            rig.tick(tick).expect("a decision")[0]
        };
        ticks.map(one).collect()
    }

    #[test]
    fn a_decision_is_followed_from_a_tick_on_that_is_known_before() {
        for is_beside in [false, true] {
            for (delay, expected) in [
                (1, [0.0, 10.0, 10.0, 10.0, 10.0, 10.0, 15.0, 15.0]),
                (3, [0.0, 0.0, 0.0, 10.0, 10.0, 10.0, 10.0, 10.0]),
                (5, [0.0, 0.0, 0.0, 0.0, 0.0, 10.0, 10.0, 10.0]),
            ] {
                let mut rig = Rig::new(delay, None);
                if is_beside {
                    rig.decisions.to_thread(Box::new(|| ())).expect("a thread");
                }
                assert_eq!(ticks(&mut rig, 10..18), expected, "delay {delay}, {is_beside}");
            }
        }
    }

    #[test]
    fn a_new_start_begins_anew() {
        let mut rig = Rig::new(1, None);
        assert_eq!((rig.tick(0), rig.tick(1), rig.tick(6)), (Ok([0.0; 2]), Ok([0.0, 1.0]), Ok([0.0, 1.0])));
        assert_eq!(rig.tick(7), Ok([6.0, 2.0]));
        rig.decisions.start();
        assert_eq!((rig.tick(21), rig.tick(22)), (Ok([6.0, 2.0]), Ok([21.0, 1.0])));
    }

    fn beside() -> (Rig, Sender<()>) {
        let (permit, permission) = channel();
        let mut rig = Rig::new(2, Some(permission));
        rig.decisions.to_thread(Box::new(|| ())).expect("a thread");
        (rig, permit)
    }

    #[test]
    fn a_late_one_is_followed_when_it_comes_and_too_many_in_a_row_are_an_error() {
        let (mut rig, permit) = beside();
        (0..4).for_each(|tick| assert_eq!(rig.tick(tick), Ok([0.0; 2])));
        assert_eq!(rig.decisions.late, 1);
        permit.send(()).expect("a decision under way");
        rig.settle();
        assert_eq!((rig.tick(4), rig.decisions.late), (Ok([0.0, 1.0]), 1));
        // The next one is not late, and its turn is as ever.
        permit.send(()).expect("a thread");
        assert_eq!(rig.tick(5), Ok([0.0, 1.0]));
        rig.settle();
        assert_eq!((rig.tick(6), rig.tick(7)), (Ok([0.0, 1.0]), Ok([5.0, 2.0])));
        assert_eq!(rig.decisions.late, 0);
        // This one takes longer than it has until the third from it is to begin.
        (8..20).for_each(|tick| assert_eq!(rig.tick(tick), Ok([5.0, 2.0]), "{tick}"));
        assert!(rig.tick(20).is_err_and(|ControlError(text)| text.contains("late")));
        // It is reported, too.
        let followed = rig.decisions.followed();
        assert_eq!(
            (followed.number, followed.of_tick, followed.in_tick, followed.late, followed.missed),
            (3, 10, 20, 9, 2)
        );
        assert!(followed.is_lost() && followed.begins_in(20));
    }

    /// It was thrown away: a first decision, for which nothing else happens, was waited for without end.
    #[test]
    fn one_that_is_done_while_the_next_is_to_begin_is_followed() {
        let (mut rig, permit) = beside();
        (0..5).for_each(|tick| assert_eq!(rig.tick(tick), Ok([0.0; 2])));
        rig.state.tick = 5;
        assert_eq!(rig.decisions.follow(&rig.state), Ok(false));
        permit.send(()).expect("a decision under way");
        rig.settle();
        assert_eq!(rig.decisions.decide(&rig.state, 7), Ok(()));
        assert_eq!((rig.tick(6), rig.decisions.followed().missed), (Ok([0.0, 1.0]), 1));
    }

    #[test]
    fn the_first_may_be_waited_for() {
        let (mut rig, permit) = beside();
        rig.decisions.pace.waits_for_first = true;
        (0..100).for_each(|tick| assert_eq!(rig.tick(tick), Ok([0.0; 2])));
        permit.send(()).expect("a decision under way");
        rig.settle();
        assert_eq!(rig.tick(100), Ok([0.0, 1.0]));
        let first = rig.decisions.followed();
        assert_eq!((first.number, first.of_tick, first.in_tick, first.late, first.missed), (1, 0, 100, 0, 0));
        // From now on it counts: that of tick 100 is under way and not permitted.
        let error = (101..200).find_map(|tick| rig.tick(tick).err().map(|_| tick));
        assert_eq!(error, Some(110));
        permit.send(()).expect("a decision under way");
    }

    #[test]
    fn how_late_it_was_is_reported_and_what_was_not_made() {
        let (mut rig, permit) = beside();
        (0..13).for_each(|tick| assert_eq!(rig.tick(tick).unwrap_or_default(), [0.0; 2], "{tick}"));
        permit.send(()).expect("a decision under way");
        rig.settle();
        assert_eq!(rig.tick(13).map(|decision| decision[1]), Ok(1.0));
        let followed = rig.decisions.followed();
        assert_eq!((followed.of_tick, followed.in_tick, followed.late, followed.missed), (0, 13, 11, 2));
        assert!(followed.took_ns > 0 && followed.begins_in(13) && !followed.begins_in(14));
    }

    #[test]
    fn a_loop_that_was_held_up_does_not_blame_who_decides() {
        let (mut rig, permit) = beside();
        rig.state.elapsed_ns = 60_000_000;
        (0..100).for_each(|tick| assert_eq!(rig.tick(tick), Ok([0.0; 2])));
        drop(permit);
    }

    #[test]
    fn what_one_who_decides_says_and_its_panic_are_errors() {
        for (tick, text) in [(40, "forty"), (50, "the decision panicked: ")] {
            let mut rig = Rig::new(1, None);
            rig.decisions.to_thread(Box::new(|| ())).expect("a thread");
            assert_eq!(rig.tick(tick), Ok([0.0; 2]));
            rig.settle();
            assert!(rig.tick(tick + 1).is_err_and(|ControlError(found)| found.starts_with(text)));
        }
    }

    #[test]
    fn the_end_does_not_wait_for_a_decision_that_is_never_made() {
        let (mut rig, permit) = beside();
        rig.tick(0).expect("a decision under way");
        drop(rig);
        // Only now; the test would not come here otherwise.
        drop(permit);
    }

    #[test]
    fn a_rate_that_does_not_divide_has_two_near_it_that_do() {
        let paced = |rate_hz: f64, period_ns| {
            Pace::of(rate_hz, None, 2, period_ns).map_err(|error| error.to_string())
        };
        for (rate_hz, period_ns, near) in [
            (30.0, 1_000_000, "does not divide the loop's 1000 Hz; the nearest that do are 25 and 31.25 Hz"),
            (60.0, 1_000_000, "; the nearest that do are 50 and 62.5 Hz"),
            (300.0, 1_000_000, "; the nearest that do are 250 and 333.3333 Hz"),
            (30.0, 2_500_000, "does not divide the loop's 400 Hz; the nearest that do are 25 and 40 Hz"),
            (2_000.0, 1_000_000, "; the nearest that does is 1000 Hz"),
        ] {
            let text = paced(rate_hz, period_ns).expect_err("it does not divide");
            assert!(text.ends_with(near), "{text}");
        }
        for rate_hz in [f64::NAN, 1e-30, f64::INFINITY, -5.0, 0.0] {
            assert!(paced(rate_hz, 1_000_000).is_err(), "{rate_hz}");
        }
        // What is written as it is proposed is taken.
        assert!([25.0, 31.25, 62.5].iter().all(|&rate_hz| paced(rate_hz, 1_000_000).is_ok()));
    }
}
