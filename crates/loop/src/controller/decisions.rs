//! Decisions that are made less often than the loop ticks, and may take longer than a tick: each is of the state of one tick, and is
//! followed from a tick on that is known before, so that a run does not depend on how long they take.

use super::ControlError;
use super::handover::{Caller, handover};
use crate::state::RobotState;
use khz_rt::panics::{self, Panic};
use khz_rt::{Profile, SectionId, SectionSummary, now_ns};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the end looks whether a decision is made, and how many times.
const LOOK: Duration = Duration::from_millis(1);
const LOOKS: u32 = 100;

/// From this many periods since the tick before, the loop itself was held up, and whoever decides may have been, too.
const HELD_UP: i64 = 2;

/// Who decides.
///
/// # Realtime contract
/// On a thread of its own it may take its time; within the tick it may not, and must not allocate, lock, print or wait.
pub trait Decide: Send {
    /// The next decision is the first of a run: nothing of the one before is to be remembered.
    fn begin(&mut self);

    /// Decides on a state. `decision` holds the one before.
    ///
    /// # Errors
    /// Whatever makes it impossible; the supervisor damps the robot and shows the text.
    fn decide(&mut self, state: &RobotState, decision: &mut [f64]) -> Result<(), ControlError>;
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
}

/// Set up a thread: its scheduling.
pub type OnThread = Box<dyn FnOnce() + Send>;

/// Decisions of one who decides: in the tick, or on a thread of its own.
///
/// # Realtime contract
/// [`Decisions::tick`] copies a state and wakes the thread (one system call, `futex`) in a tick in which a decision begins. It neither
/// allocates nor locks nor waits for a decision.
pub struct Decisions {
    pace: Pace,
    place: Place,
    /// While no decision is under way.
    idle: Option<Box<Job>>,
    /// The one that is followed.
    decision: Vec<f64>,
    /// The first tick since the start.
    first: Option<u64>,
    /// How many were due since then.
    turn: Option<u64>,
    under_way: Option<UnderWay>,
    begins: bool,
    late: u32,
    profile: Profile,
    section: SectionId,
}

struct UnderWay {
    /// The tick from which on it is followed.
    due: u64,
    is_late: bool,
}

enum Place {
    /// Done as soon as it is begun; then it is here.
    Here(Option<Box<Job>>),
    Beside(Caller<Job>, JoinHandle<()>),
}

struct Job {
    decide: Box<dyn Decide>,
    begins: bool,
    state: RobotState,
    decision: Vec<f64>,
    outcome: Result<(), ControlError>,
    took_ns: i64,
}

impl Job {
    fn work(&mut self) {
        let begun_ns = now_ns();
        if std::mem::take(&mut self.begins) {
            self.decide.begin();
        }
        self.outcome = self.decide.decide(&self.state, &mut self.decision);
        self.took_ns = now_ns() - begun_ns;
    }
}

impl Decisions {
    /// Decisions of so many numbers, made within the tick until [`Decisions::to_thread`]. `state` is any state of the same robot; it gives
    /// the sizes.
    pub fn new(decide: Box<dyn Decide>, pace: Pace, numbers: usize, state: &RobotState) -> Self {
        let mut profile = Profile::default();
        let job = Job {
            decide,
            begins: false,
            state: state.clone(),
            decision: vec![0.0; numbers],
            outcome: Ok(()),
            took_ns: 0,
        };
        Self {
            pace,
            place: Place::Here(None),
            idle: Some(Box::new(job)),
            decision: vec![0.0; numbers],
            first: None,
            turn: None,
            under_way: None,
            begins: true,
            late: 0,
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
            jobs.serve(|job: &mut Job| {
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
        self.under_way = None;
    }

    /// The decision that is followed; all 0 before the first.
    pub fn decision(&self) -> &[f64] {
        &self.decision
    }

    /// One tick: follows the decision that is due, and begins the next one. Returns whether there is a new one.
    ///
    /// # Errors
    /// What was said by who decides; or so many are late as [`Pace::max_late`] says.
    pub fn tick(&mut self, state: &RobotState) -> Result<bool, ControlError> {
        let is_new = self.follow(state)?;
        let first = *self.first.get_or_insert(state.tick);
        let turn = state.tick.saturating_sub(first) / self.pace.every.max(1);
        if self.turn.replace(turn) != Some(turn) {
            self.decide(state)?;
        }
        self.profile.tick(state.tick);
        Ok(is_new)
    }

    fn decide(&mut self, state: &RobotState) -> Result<(), ControlError> {
        // One of before the start, too, is waited for.
        let Some(mut job) = self.idle.take().or_else(|| self.back()) else { return self.miss(state) };
        job.begins |= std::mem::take(&mut self.begins);
        job.state.copy_from(state);
        self.under_way = Some(UnderWay { due: state.tick + self.pace.delay, is_late: false });
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
        let Some(UnderWay { due, is_late }) = self.under_way else { return Ok(false) };
        if state.tick < due {
            return Ok(false);
        }
        let Some(mut job) = self.back() else {
            if !is_late {
                self.under_way = Some(UnderWay { due, is_late: true });
                self.miss(state)?;
            }
            return Ok(false);
        };
        self.under_way = None;
        self.profile.add(self.section, job.took_ns);
        let outcome = std::mem::replace(&mut job.outcome, Ok(()));
        self.decision.copy_from_slice(&job.decision);
        self.idle = Some(job);
        if !is_late {
            self.late = 0;
        }
        outcome.map(|()| true)
    }

    fn back(&mut self) -> Option<Box<Job>> {
        match &mut self.place {
            Place::Here(done) => done.take(),
            Place::Beside(caller, _) => caller.take(),
        }
    }

    fn miss(&mut self, state: &RobotState) -> Result<(), ControlError> {
        if state.elapsed_ns > HELD_UP * state.period_ns {
            return Ok(());
        }
        self.late += 1;
        if self.late < self.pace.max_late {
            return Ok(());
        }
        Err("its decisions are late, `max_late` in a row: they take longer than `delay_ticks`, or their thread gets no CPU".into())
    }

    /// How long decisions took.
    pub fn profile(&self) -> Vec<SectionSummary> {
        self.profile.summary()
    }
}

/// Ends the thread. One that does not return from its decision within 0.1 s is left behind: bringing the robot down must not wait for it.
impl Drop for Decisions {
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
            let pace = Pace { every: 5, delay, max_late: 3 };
            let mut decisions = Decisions::new(Box::new(Number(9.0, permission)), pace, 2, &state);
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
}
