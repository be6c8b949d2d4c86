//! A controller on its own thread: it computes while the next tick's bus cycle is under way.

use super::handover::{Caller, Worker, handover};
use super::{Beside, ControlError, Controller, Decision};
use crate::parameters::Parameter;
use crate::state::RobotState;
use khz_rt::clock::thread_cpu_ns;
use khz_rt::panics::{self, Panic};
use khz_rt::{OtherThread, SectionSummary, now_ns};
use khz_servo::{PositionCommand, ServoCommand};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the end looks whether the controller has returned, and how many times.
const LOOK: Duration = Duration::from_millis(1);
const LOOKS: u32 = 100;

/// From this many periods since the tick before, the loop itself was held up.
const HELD_UP: i64 = 2;

/// A start so few ticks after the controller was last asked belongs to the same run: a robot that is armed again was at rest before.
const SAME_RUN: u64 = 10;

/// Runs another controller on its own thread. What it computes from tick *n* is sent in tick *n* + 2
/// instead of *n* + 1; in return it may take nearly a whole period.
///
/// # Realtime contract
/// One job travels between the two threads, so nothing is allocated or locked; waking
/// the other thread is one system call (`futex`). If the controller is not done in time the last commands stay, and the
/// supervisor decides for how long: how long the controller takes is reported as [`Controller::elsewhere_ns`], and how much of
/// that its thread waited for a CPU as [`Controller::waited_ns`]. Reads the clock twice per tick; in a tick in which the
/// controller is not done, two more system calls look at its thread.
pub struct Pipelined {
    job: Caller<Job>,
    /// Ticks in a row in which it was not done, …
    late: u32,
    /// … and of how many the next is an error.
    patience: u32,
    /// When the job was handed over, or when the loop came back since.
    given_ns: i64,
    /// What the last job took, or takes so far.
    spent: Spent,
    /// The job under way, as far as it has been looked at.
    under_way: UnderWay,
    thread: Arc<OnceLock<OtherThread>>,
    worker: Option<JoinHandle<Box<dyn Controller>>>,
    starting: bool,
    /// The tick in which it was last asked or started.
    asked_in: u64,
    /// It is to start on the next state: when it was asked to, it was not done yet.
    restarts: bool,
    /// What the controller reported after its last job.
    is_finished: bool,
    /// When the tick started that the present commands are of.
    of_ns: Option<i64>,
    /// The decision that they follow.
    decided: Option<Decision>,
    /// If there are any: what was commanded in the tick before.
    asked: Vec<ServoCommand>,
    /// Of each servo, whether limits have cut its command since the last job.
    cut: Vec<bool>,
    /// The job, after it came back with an error and until the next start.
    idle: Option<Box<Job>>,
    /// The controller's parameters as this thread sees them; their values travel with the job.
    parameters: Vec<Parameter>,
}

/// How long a job takes, and how much of that its thread waited for a CPU, ns.
#[derive(Clone, Copy, Default)]
struct Spent {
    took_ns: i64,
    waited_ns: i64,
}

/// A job under way, when it was looked at last.
#[derive(Clone, Copy, Default)]
struct UnderWay {
    at_ns: i64,
    /// CPU time of its thread.
    cpu_ns: i64,
    /// What it waited for a CPU up to then.
    waited_ns: i64,
}

impl UnderWay {
    /// Looks once more. Of the time since the last look, what a thread that wants a CPU did not get was spent waiting for one;
    /// one that sleeps, or cannot be seen, takes its own time.
    fn look(&mut self, thread: Option<&OtherThread>, now_ns: i64) {
        let since_ns = now_ns - self.at_ns;
        self.at_ns = now_ns;
        let Some((thread, cpu_ns)) = thread.and_then(|thread| Some((thread, thread.cpu_ns()?))) else {
            return;
        };
        let ran_ns = cpu_ns - std::mem::replace(&mut self.cpu_ns, cpu_ns);
        if thread.is_runnable() {
            self.waited_ns += (since_ns - ran_ns).max(0);
        }
    }
}

/// State on the way to the worker, commands on the way back.
struct Job {
    start: bool,
    state: RobotState,
    /// Of every parameter.
    values: Vec<f64>,
    commands: Vec<ServoCommand>,
    /// Of each servo, whether limits have cut its command; of one that decides less often.
    cut: Vec<bool>,
    outcome: Result<(), ControlError>,
    is_finished: bool,
    /// A decision that is followed from this job on.
    decided: Option<Decision>,
    /// When it was handed over, and how long it took from then on.
    given_ns: i64,
    took_ns: i64,
    /// CPU time of the worker's thread when it was done.
    cpu_ns: i64,
}

impl Pipelined {
    /// A controller that is not done for more ticks in a row than this has failed, unless [`Pipelined::patient`] sets
    /// another limit: a bound for a controller that hangs under a supervisor that only warns of it.
    const PATIENCE: u32 = 1000;

    /// Moves `controller` to a new thread, which first calls `on_thread` (to set its scheduling up). `state` is
    /// any state of the same robot; it gives the sizes.
    ///
    /// # Errors
    /// If the thread cannot be made.
    pub fn new(
        controller: Box<dyn Controller>,
        state: &RobotState,
        on_thread: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let parameters = controller.parameters();
        Self::with_parameters(controller, parameters, state, on_thread)
    }

    /// As [`Pipelined::new`], with every parameter the controller reads: its own and those that it keeps of the robot file.
    ///
    /// # Errors
    /// If the thread cannot be made.
    pub fn with_parameters(
        controller: Box<dyn Controller>,
        inner: Vec<Parameter>,
        state: &RobotState,
        on_thread: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        panics::install();
        let parameters: Vec<Parameter> = inner.iter().map(Parameter::apart).collect();
        let job = Job {
            start: false,
            state: state.clone(),
            values: vec![0.0; inner.len()],
            commands: vec![ServoCommand::Stop; state.servos.len()],
            cut: vec![false; state.servos.len()],
            outcome: Ok(()),
            is_finished: false,
            decided: controller.decided().cloned(),
            given_ns: 0,
            took_ns: 0,
            cpu_ns: 0,
        };
        let decided = job.decided.clone();
        let thread = Arc::new(OnceLock::new());
        let seen = Arc::clone(&thread);
        let (job, jobs) = handover(Box::new(job));
        let work = move || {
            on_thread();
            // Where the kernel does not show it, all the time it takes is its own.
            if let Ok(this) = OtherThread::current() {
                let _ = seen.set(this);
            }
            work(controller, &inner, jobs)
        };
        let worker = thread::Builder::new().name("khz-controller".to_owned()).spawn(work)?;
        let worker = Some(worker);
        Ok(Self {
            job,
            late: 0,
            patience: Self::PATIENCE,
            given_ns: 0,
            spent: Spent::default(),
            under_way: UnderWay::default(),
            thread,
            worker,
            starting: false,
            asked_in: 0,
            restarts: false,
            is_finished: false,
            of_ns: None,
            decided,
            asked: Vec::with_capacity(state.servos.len()),
            cut: vec![false; state.servos.len()],
            idle: None,
            parameters,
        })
    }

    /// Gives a controller that is not done up only after `ticks` ticks in a row; before that the supervisor decides.
    #[must_use]
    pub fn patient(mut self, ticks: u32) -> Self {
        self.patience = ticks;
        self
    }

    /// Hands the job over.
    fn submit(&mut self, mut job: Box<Job>, start: bool, state: &RobotState) {
        job.start = start;
        job.state.copy_from(state);
        job.values.iter_mut().zip(&self.parameters).for_each(|(value, parameter)| *value = parameter.get());
        std::mem::swap(&mut job.cut, &mut self.cut);
        self.cut.fill(false);
        self.given_ns = now_ns();
        job.given_ns = self.given_ns;
        self.under_way = UnderWay { at_ns: self.given_ns, cpu_ns: job.cpu_ns, waited_ns: 0 };
        self.job.give(job, self.worker.as_ref().map(JoinHandle::thread));
    }
}

impl Controller for Pipelined {
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.starting = true;
        self.cut.fill(false);
        (self.is_finished, self.of_ns) = (false, None);
        (self.late, self.spent) = (0, Spent::default());
        self.restarts = false;
        if let Some(job) = self.idle.take().or_else(|| self.job.take()) {
            self.submit(job, true, state);
        } else if state.tick.abs_diff(self.asked_in) <= SAME_RUN {
            self.restarts = true;
        } else {
            return Err("the controller is still busy with its last run".into());
        }
        self.asked_in = state.tick;
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        if std::mem::take(&mut self.starting) {
            hold(state, commands);
        } else if self.decided.is_some() {
            self.see_cuts(commands);
        }
        let outcome = self.hand_over(state, commands);
        if self.decided.is_some() {
            self.asked.clear();
            self.asked.extend_from_slice(commands);
        }
        outcome
    }

    fn elsewhere_ns(&self) -> i64 {
        self.spent.took_ns
    }

    fn waited_ns(&self) -> i64 {
        self.spent.waited_ns
    }

    fn beside(&self) -> Option<Beside> {
        let Spent { took_ns, .. } = self.spent;
        Some(Beside { took_ns, is_behind: self.late > 0, of_ns: self.of_ns })
    }

    fn decided(&self) -> Option<&Decision> {
        self.decided.as_ref()
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Ends the worker and asks its controller. One that does not return within 0.1 s is left behind with its thread
    /// and reports nothing: bringing the robot down must not wait for it.
    fn profile(&mut self) -> Vec<SectionSummary> {
        self.end().map(|mut controller| controller.profile()).unwrap_or_default()
    }
}

impl Pipelined {
    /// Takes what the worker has commanded, and gives it the next state.
    fn hand_over(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.asked_in = state.tick;
        if state.elapsed_ns > HELD_UP * state.period_ns {
            self.reset_timing();
        }
        let Some(mut job) = self.job.take() else { return self.wait_on() };
        // What passed before the loop came back does not count.
        let took_ns = (job.took_ns - (self.given_ns - job.given_ns)).max(0);
        (self.late, self.spent) = (0, Spent { took_ns, waited_ns: self.under_way.waited_ns });
        if let Some(decided) = job.decided.as_mut().filter(|decided| decided.begins_in(job.state.tick)) {
            decided.in_tick = state.tick;
            std::mem::swap(&mut self.decided, &mut job.decided);
        }
        let outcome = std::mem::replace(&mut job.outcome, Ok(()));
        if outcome.is_err() {
            self.idle = Some(job);
            return outcome;
        }
        if std::mem::take(&mut self.restarts) {
            self.submit(job, true, state);
            return Ok(());
        }
        if !job.start {
            commands.copy_from_slice(&job.commands);
            self.is_finished = job.is_finished;
            self.of_ns = Some(job.state.started_ns);
        }
        self.submit(job, false, state);
        Ok(())
    }

    /// Commands that are not what was commanded were cut by the limits of the servos.
    fn see_cuts(&mut self, sent: &[ServoCommand]) {
        for (cut, (asked, sent)) in self.cut.iter_mut().zip(self.asked.iter().zip(sent)) {
            *cut |= !same_target(asked, sent);
        }
    }

    /// Another tick without new commands: the last ones stay.
    fn wait_on(&mut self) -> Result<(), ControlError> {
        self.late += 1;
        let now_ns = now_ns();
        self.under_way.look(self.thread.get(), now_ns);
        let took_ns = now_ns - self.given_ns;
        // Until it finishes one in time, a slow controller stays slow.
        if took_ns >= self.spent.took_ns {
            self.spent = Spent { took_ns, waited_ns: self.under_way.waited_ns };
        }
        if self.late <= self.patience {
            Ok(())
        } else {
            Err("the controller does not return from its update, or its thread gets no CPU".into())
        }
    }

    /// The loop was held up, and whatever held it up may have held the controller up, too: from here on it has its time. Its
    /// patience does not begin anew, so that a controller that hangs is given up even by a loop that is always late.
    fn reset_timing(&mut self) {
        (self.spent, self.given_ns) = (Spent::default(), now_ns());
        self.under_way = UnderWay { at_ns: self.given_ns, waited_ns: 0, ..self.under_way };
    }

    /// Ends the worker, and gives its controller back the first time, if it returns.
    fn end(&mut self) -> Option<Box<dyn Controller>> {
        let worker = self.worker.take()?;
        self.job.end(worker.thread());
        for _ in 0..LOOKS {
            if self.is_free(&worker) {
                break;
            }
            thread::sleep(LOOK);
        }
        if !self.is_free(&worker) {
            return None;
        }
        // A panic in the controller has been turned into an error; one in `on_thread` ended the thread.
        worker.join().ok()
    }

    /// The worker is not in the controller: it has given its job back, or is gone.
    fn is_free(&self, worker: &JoinHandle<Box<dyn Controller>>) -> bool {
        self.idle.is_some() || self.job.is_back() || worker.is_finished()
    }
}

impl Drop for Pipelined {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Whether both command the same motion, to the last bit.
fn same_target(one: &ServoCommand, other: &ServoCommand) -> bool {
    let bits = |PositionCommand { position, velocity, torque, .. }: &PositionCommand| {
        [position, velocity, torque].map(|number| number.to_bits())
    };
    match (one, other) {
        (ServoCommand::Position(one), ServoCommand::Position(other)) => bits(one) == bits(other),
        (one, other) => one == other,
    }
}

/// Until the controller has computed, joints stay where they are measured. Allocates nothing.
pub fn hold(state: &RobotState, commands: &mut [ServoCommand]) {
    for (command, servo) in commands.iter_mut().zip(&state.servos) {
        *command = ServoCommand::Position(PositionCommand::hold(servo.position));
    }
}

fn work(
    mut controller: Box<dyn Controller>,
    parameters: &[Parameter],
    jobs: Worker<Job>,
) -> Box<dyn Controller> {
    let mut panic = Panic::new();
    jobs.serve(|job| {
        let Job {
            start,
            state,
            values,
            commands,
            cut,
            outcome,
            is_finished,
            decided,
            given_ns,
            took_ns,
            cpu_ns,
        } = job;
        parameters.iter().zip(&*values).for_each(|(parameter, value)| parameter.put(*value));
        let done = panics::catch(&mut panic, || {
            if *start {
                return controller.start(state);
            }
            if cut.contains(&true) {
                controller.cut(cut);
            }
            let outcome = controller.update(state, commands);
            *is_finished = controller.is_finished();
            if let (Some(to), Some(new)) = (decided.as_mut(), controller.decided())
                && new.begins_in(state.tick)
            {
                to.copy_from(new);
            }
            outcome
        });
        // On this thread a message may be allocated.
        *outcome =
            done.unwrap_or_else(|| Err(ControlError(format!("the controller panicked: {panic}").into())));
        *took_ns = now_ns() - *given_ns;
        *cpu_ns = thread_cpu_ns();
    });
    controller
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands the number of the tick it saw.
    struct Echo;

    impl Controller for Echo {
        fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
            if state.tick == 3 {
                return Err("three".into());
            }
            assert_ne!(state.tick, 13, "a bug in the controller");
            commands.fill(ServoCommand::Position(PositionCommand::hold(state.tick as f64)));
            Ok(())
        }
    }

    struct Rig {
        pipelined: Pipelined,
        state: RobotState,
        commands: [ServoCommand; 1],
    }

    impl Rig {
        fn new() -> Self {
            let mut state = RobotState::unknown(1, false, 1_000_000);
            state.servos[0].position = 0.5;
            let pipelined = Pipelined::new(Box::new(Echo), &state, || ()).unwrap();
            Self { pipelined, state, commands: [ServoCommand::Stop] }
        }

        /// An update after the worker has finished the one before.
        fn update(&mut self, tick: u64) -> Result<f64, ControlError> {
            while !self.pipelined.job.is_back() {
                thread::yield_now();
            }
            self.state.tick = tick;
            self.pipelined.update(&self.state, &mut self.commands)?;
            match self.commands[0] {
                ServoCommand::Position(target) => Ok(target.position),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn commands_come_one_tick_later() {
        let mut rig = Rig::new();
        rig.pipelined.start(&rig.state).unwrap();
        assert_eq!(rig.update(1), Ok(0.5));
        assert_eq!(rig.pipelined.beside().and_then(|beside| beside.of_ns), None);
        rig.state.started_ns = 2_000_000;
        assert_eq!(rig.update(2), Ok(1.0));
        rig.state.started_ns = 3_000_000;
        assert_eq!(rig.update(3), Ok(2.0));
        let beside = rig.pipelined.beside().unwrap();
        assert_eq!((beside.is_behind, beside.of_ns), (false, Some(2_000_000)));
        assert_eq!(rig.update(4), Err("three".into()));
    }

    /// Commands where it was started.
    struct Begins(f64, std::sync::mpsc::Receiver<()>);

    impl Controller for Begins {
        fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
            self.0 = state.servos[0].position;
            Ok(())
        }

        fn update(&mut self, _: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
            let _ = self.1.recv();
            commands.fill(ServoCommand::Position(PositionCommand::hold(self.0)));
            Ok(())
        }
    }

    /// What it had computed from its first start was sent.
    #[test]
    fn one_that_is_started_anew_while_it_computes_begins_with_the_new_state() {
        let mut rig = Rig::new();
        let (go, goes) = std::sync::mpsc::channel();
        rig.pipelined = Pipelined::new(Box::new(Begins(f64::NAN, goes)), &rig.state, || ()).unwrap();
        rig.pipelined.start(&rig.state).unwrap();
        assert_eq!(rig.update(1), Ok(0.5));
        rig.state.servos[0].position = 0.2;
        rig.pipelined.start(&rig.state).unwrap();
        rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
        (0..9).for_each(|_| go.send(()).unwrap());
        assert_eq!([2, 3, 4].map(|tick| rig.update(tick)), [Ok(0.2), Ok(0.2), Ok(0.2)]);
        // One that is still busy when its robot is armed again has not ended its last run.
        rig.state.tick = 100;
        drop(go);
        let (go, goes) = std::sync::mpsc::channel();
        rig.pipelined = Pipelined::new(Box::new(Begins(f64::NAN, goes)), &rig.state, || ()).unwrap();
        rig.pipelined.start(&rig.state).unwrap();
        assert_eq!(rig.update(101), Ok(0.2));
        rig.state.tick = 200;
        assert!(rig.pipelined.start(&rig.state).is_err());
        drop(go);
    }

    /// Has done what it was to do in tick 2.
    struct Brief(u64);

    impl Controller for Brief {
        fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
            self.0 = state.tick;
            commands.fill(ServoCommand::Position(PositionCommand::hold(0.0)));
            Ok(())
        }

        fn is_finished(&self) -> bool {
            self.0 == 2
        }
    }

    #[test]
    fn what_is_finished_is_known_one_tick_later_and_until_the_next_start() {
        let mut rig = Rig::new();
        rig.pipelined = Pipelined::new(Box::new(Brief(0)), &rig.state, || ()).unwrap();
        rig.pipelined.start(&rig.state).unwrap();
        let mut seen = Vec::new();
        for tick in 1..=3 {
            rig.update(tick).unwrap();
            seen.push(rig.pipelined.is_finished());
        }
        assert_eq!(seen, [false, false, true]);
        while !rig.pipelined.job.is_back() {
            thread::yield_now();
        }
        rig.pipelined.start(&rig.state).unwrap();
        assert!(!rig.pipelined.is_finished());
    }

    /// Commands the value of its parameter.
    struct Tuned(Parameter);

    impl Controller for Tuned {
        fn parameters(&self) -> Vec<Parameter> {
            vec![self.0.clone()]
        }

        fn update(&mut self, _: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
            commands.fill(ServoCommand::Position(PositionCommand::hold(self.0.get())));
            Ok(())
        }
    }

    #[test]
    fn a_parameter_travels_with_the_job() {
        let mut rig = Rig::new();
        let inner = Parameter::float("at", 1.0, 0.0..=9.0);
        let tuned = Box::new(Tuned(inner.clone()));
        rig.pipelined = Pipelined::new(tuned, &rig.state, || ()).unwrap();
        rig.pipelined.start(&rig.state).unwrap();
        rig.update(1).unwrap();
        assert_eq!(rig.update(2), Ok(1.0));
        let outer = rig.pipelined.parameters().remove(0);
        outer.put(2.0);
        // The job under way does not see it.
        assert_eq!((rig.update(3), rig.update(4), inner.get()), (Ok(1.0), Ok(2.0), 2.0));
    }

    /// Decides in every update, and reports in which of them limits had cut its command.
    struct Cut(Decision, std::sync::mpsc::Sender<u64>, bool);

    impl Controller for Cut {
        fn cut(&mut self, servos: &[bool]) {
            self.2 = servos == [true];
        }

        fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
            if std::mem::take(&mut self.2) {
                let _ = self.1.send(state.tick);
            }
            commands.fill(ServoCommand::Position(PositionCommand::hold(state.tick as f64)));
            Ok(())
        }

        fn decided(&self) -> Option<&Decision> {
            Some(&self.0)
        }
    }

    #[test]
    fn one_that_decides_learns_which_commands_were_cut() {
        let mut rig = Rig::new();
        let (sender, received) = std::sync::mpsc::channel();
        let cut = Cut(Decision::default(), sender, false);
        rig.pipelined = Pipelined::new(Box::new(cut), &rig.state, || ()).unwrap();
        rig.pipelined.start(&rig.state).unwrap();
        for tick in 1..9 {
            rig.update(tick).unwrap();
            if let (5, ServoCommand::Position(command)) = (tick, &mut rig.commands[0]) {
                command.position -= 0.25;
            }
        }
        drop(rig);
        assert_eq!(received.into_iter().collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn a_panic_becomes_an_error() {
        let mut rig = Rig::new();
        rig.pipelined.start(&rig.state).unwrap();
        rig.update(13).unwrap();
        let ControlError(text) = rig.update(14).unwrap_err();
        assert!(
            text.starts_with("the controller panicked: ") && text.contains("a bug in the controller"),
            "{text}"
        );
    }

    /// Does not return until it is released.
    struct Stuck(std::sync::mpsc::Receiver<()>);

    impl Controller for Stuck {
        fn update(&mut self, _: &RobotState, _: &mut [ServoCommand]) -> Result<(), ControlError> {
            let _ = self.0.recv();
            Ok(())
        }
    }

    /// Stuck in its first update, until the sender is gone.
    fn stuck() -> (Rig, std::sync::mpsc::Sender<()>) {
        let (release, held) = std::sync::mpsc::channel();
        let mut rig = Rig::new();
        rig.pipelined = Pipelined::new(Box::new(Stuck(held)), &rig.state, || ()).unwrap();
        rig.pipelined.start(&rig.state).unwrap();
        rig.update(0).unwrap();
        (rig, release)
    }

    #[test]
    fn the_end_does_not_wait_for_a_controller_that_never_returns() {
        let (mut rig, release) = stuck();
        assert!(rig.pipelined.profile().is_empty());
        drop(rig);
        let (unasked, also_release) = stuck();
        drop(unasked);
        // Only now; the test would not come here otherwise.
        drop((release, also_release));
    }

    #[test]
    fn a_controller_that_never_finishes_is_an_error_when_patience_is_over() {
        let (mut rig, release) = stuck();
        rig.pipelined = rig.pipelined.patient(7);
        let late = |rig: &mut Rig| rig.pipelined.update(&rig.state, &mut rig.commands);
        assert!(rig.pipelined.beside().is_some_and(|beside| !beside.is_behind));
        for tick in 0..7 {
            // A loop that is always late itself is no excuse.
            rig.state.elapsed_ns = 1_000_000 * if tick % 2 == 0 { 60 } else { 1 };
            assert_eq!(late(&mut rig), Ok(()));
        }
        assert!(late(&mut rig).is_err() && rig.pipelined.beside().is_some_and(|beside| beside.is_behind));
        drop(release);
    }

    #[test]
    fn a_controller_that_waits_for_something_takes_its_own_time() {
        let (mut rig, release) = stuck();
        // It comes to wait, eventually.
        while rig.pipelined.thread.get().is_none_or(OtherThread::is_runnable) {
            thread::yield_now();
        }
        rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
        let before_ns = rig.pipelined.waited_ns();
        for _ in 0..9 {
            rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
        }
        assert_eq!(rig.pipelined.waited_ns(), before_ns);
        drop(release);
    }

    /// What a look at a job sees.
    fn look(under_way: UnderWay, thread: Option<&OtherThread>, now_ns: i64) -> i64 {
        let mut looked = under_way;
        looked.look(thread, now_ns);
        looked.waited_ns
    }

    #[test]
    fn time_that_a_runnable_thread_did_not_get_was_spent_waiting_for_a_cpu() {
        // This thread runs, and so it is runnable.
        let this = OtherThread::current().unwrap();
        let begun = UnderWay { at_ns: 0, cpu_ns: this.cpu_ns().unwrap(), waited_ns: 0 };
        let later_ns = 3_600_000_000_000;
        let waited_ns = look(begun, Some(&this), later_ns);
        let ran_ns = this.cpu_ns().unwrap() - begun.cpu_ns;
        assert!(waited_ns < later_ns && waited_ns >= later_ns - ran_ns, "{waited_ns}");
        // One that cannot be seen takes its own time.
        assert_eq!(look(begun, None, later_ns), 0);
    }

    #[test]
    fn a_controller_has_its_time_again_after_the_loop_was_held_up() {
        let (mut rig, release) = stuck();
        let long_ns = 5_000_000;
        let given_ns = rig.pipelined.given_ns;
        while now_ns() - given_ns < long_ns {
            thread::yield_now();
        }
        rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
        assert!(rig.pipelined.elsewhere_ns() >= long_ns);
        rig.state.elapsed_ns = 60_000_000;
        rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
        assert!(rig.pipelined.given_ns > given_ns, "it counts from when the loop came back");
        // What it takes from then on counts, and what passed before does not.
        rig.state.elapsed_ns = 1_000_000;
        release.send(()).unwrap();
        while !rig.pipelined.job.is_back() {
            thread::yield_now();
        }
        let back_ns = rig.pipelined.given_ns;
        rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
        assert!(rig.pipelined.elsewhere_ns() <= now_ns() - back_ns);
        drop(release);
    }

    #[test]
    fn a_slow_update_reports_its_own_duration_until_one_is_faster() {
        let (mut rig, release) = stuck();
        let given_ns = rig.pipelined.given_ns;
        rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
        assert!(rig.pipelined.elsewhere_ns() > 0);
        let slow_ns = 20_000_000;
        while now_ns() - given_ns < slow_ns {
            thread::yield_now();
        }
        release.send(()).unwrap();
        while !rig.pipelined.job.is_back() {
            thread::yield_now();
        }
        rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
        assert!(rig.pipelined.elsewhere_ns() >= slow_ns, "it took {}", rig.pipelined.elsewhere_ns());
        // The next one is under way for less, and proves nothing yet.
        rig.pipelined.update(&rig.state, &mut rig.commands).unwrap();
        assert!(rig.pipelined.elsewhere_ns() >= slow_ns);
        drop(release);
    }
}
