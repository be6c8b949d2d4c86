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
mod tests;
