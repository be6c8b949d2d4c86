//! A robot file run as it says: machine, recorder and loop together.

use crate::assemble::{self, AssembleError, Links};
use crate::config::{self, Clock, LoopConfig, RobotConfig};
use crate::controller::{ControlError, Controller, Pipelined, RobotInfo};
use crate::operator::{Listener, OperatorError};
use crate::recorder::{Plan, Recorder, RecorderError, Summary};
use crate::records::{RunLog, robot_record, robot_schema};
use crate::run::Observer;
use crate::session::{Outcome, Session, SessionError, SessionSettings};
use crate::watchdogs::{Pulse, Pulsing, WatchdogError, Watchdogs};
use khz_rt::{Passport, Setup};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Memory for what is recorded outside the loop.
const SIDE_RING_BYTES: usize = 1 << 20;

/// Why a robot could not be run.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The machine could not be put together.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The log could not be begun.
    #[error(transparent)]
    Recorder(#[from] RecorderError),
    /// A watchdog cannot be fed.
    #[error(transparent)]
    Watchdog(#[from] WatchdogError),
    /// The operator cannot be heard.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// The loop could not be started, or was not granted what it insists on.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The controller is not for this robot.
    #[error("the controller: {0}")]
    Prepare(ControlError),
    /// Its log would have the name of a robot file.
    #[error("log.path is {0}, the name of a robot file: give the log another ending, such as .tlog")]
    LogName(String),
    /// It cannot run in virtual time.
    #[error("not in virtual time: {0}")]
    VirtualTime(String),
    /// The controller's thread could not be made.
    #[error("cannot start the controller's thread: {0}")]
    Controller(std::io::Error),
}

/// What a run may have besides its robot file.
#[derive(Default)]
pub struct LaunchOptions {
    /// Replaces the controller that the file names.
    pub controller: Option<Box<dyn Controller>>,
    /// Records and sinks of the program's own; the run's are added to it, and its log is the robot file's. If the file wants
    /// no log (`log.enabled`), nothing of it is recorded either.
    pub plan: Plan,
    /// Told of every tick, on the loop's thread.
    pub observers: Vec<Box<dyn Observer + Send>>,
    /// After this long the robot is brought down; `None`: only by `stop`.
    pub duration_ns: Option<i64>,
    /// Brings the robot down when set.
    pub stop: Arc<AtomicBool>,
}

/// A robot running. Dropped, it brings the robot down and blocks until that is done and the log is written, as
/// [`Launch::land`] does after [`Session::stop`].
pub struct Launch {
    /// The loop.
    pub session: Session,
    recorder: Option<Recorder>,
    watchdogs: Option<Watchdogs>,
    /// Held for its thread.
    _operator: Option<Listener>,
}

/// A robot that has run.
pub struct Landed {
    /// How the loop went.
    pub outcome: Outcome,
    /// What was recorded; `None` without a log.
    pub recording: Option<Summary>,
}

impl Launch {
    /// Runs a robot. `text` is its file's text, kept in the log.
    ///
    /// # Errors
    /// Whatever keeps it from starting. What the loop's thread insists on and is not granted (`strict`) is told
    /// by [`Launch::land`].
    pub fn start(config: &RobotConfig, text: &str, options: LaunchOptions) -> Result<Self, LaunchError> {
        // Before a device is touched.
        check(config)?;
        let links = assemble::open_links(config, |world| Box::new(world))?;
        Self::start_on(links, config, text, options)
    }

    /// As [`Launch::start`], on links that are open.
    ///
    /// # Errors
    /// As [`Launch::start`].
    pub fn start_on(
        links: Links,
        config: &RobotConfig,
        text: &str,
        options: LaunchOptions,
    ) -> Result<Self, LaunchError> {
        let LaunchOptions { controller, plan, observers: others, duration_ns, stop } = options;
        check(config)?;
        let mut controller = controller.unwrap_or_else(|| assemble::controller(&config.controller));
        controller.prepare(&RobotInfo::of(config)).map_err(LaunchError::Prepare)?;
        let mut machine = assemble::put_together(config, threaded(config, controller)?, links);
        // Servos emulated in this process stand still while it is kept from its CPU, and are not to be blamed for that.
        if machine.links().iter().all(|link| link.capabilities().emulated) {
            machine.forgive_hold_ups();
        }
        let operator = Listener::start(&config.supervisor)?;
        operator.iter().for_each(|operator| machine.expect(operator.heartbeat()));
        let (recorder, observer) = record(plan, config, text)?;
        let pulse = Arc::new(Pulse::default());
        let mut observers: Vec<Box<dyn Observer + Send>> = vec![Box::new(Pulsing(Arc::clone(&pulse)))];
        observers.extend(observer);
        observers.extend(others);
        let watchdogs = match config.timing.clock {
            Clock::Real => Watchdogs::start(&config.watchdog, pulse, config.timing.period_ns())?,
            Clock::Virtual => None,
        };
        let session = Session::start(machine, observers, settings(config, duration_ns), stop);
        match session {
            Ok(session) => Ok(Self { session, recorder, watchdogs, _operator: operator }),
            Err(error) => {
                watchdogs.into_iter().for_each(Watchdogs::finish);
                Err(error.into())
            }
        }
    }

    /// Blocks until the robot is down and the log is written.
    ///
    /// # Errors
    /// If the loop never ran.
    pub fn land(mut self) -> Result<Landed, SessionError> {
        let outcome = self.end();
        let recording = self.recorder.take().map(Recorder::finish);
        Ok(Landed { outcome: outcome?, recording })
    }

    fn end(&mut self) -> Result<Outcome, SessionError> {
        let outcome = self.session.end();
        // A loop that panicked left its robot as it was: no watchdog is called off for that.
        if !matches!(outcome, Err(SessionError::Panicked(_))) {
            self.watchdogs.take().into_iter().for_each(Watchdogs::finish);
        }
        outcome
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        if !self.session.is_waited_for() {
            self.session.stop();
            let _ = self.end();
        }
    }
}

/// What cannot be as asked for, before a log is begun.
fn check(config: &RobotConfig) -> Result<(), LaunchError> {
    if config.log.enabled && Path::new(&config.log.path).extension().is_some_and(|ending| ending == "toml") {
        return Err(LaunchError::LogName(config.log.path.clone()));
    }
    match (config.timing.clock, config.why_not_virtual()) {
        (Clock::Virtual, Some(why)) => Err(LaunchError::VirtualTime(why)),
        (Clock::Virtual, None) => Ok(()),
        (Clock::Real, _) => setup(&config.timing).check().map_err(|error| SessionError::from(error).into()),
    }
}

/// The controller as the file wants it: in the tick, or on its own thread.
fn threaded(
    config: &RobotConfig,
    controller: Box<dyn Controller>,
) -> Result<Box<dyn Controller>, LaunchError> {
    if config.timing.mode == config::Mode::Inline {
        return Ok(controller);
    }
    let state = assemble::state(config);
    let loop_setup = setup(&config.timing);
    // Below the loop, and free to move: the loop's CPU is the loop's.
    let priority = loop_setup.priority.saturating_sub(1).max(1);
    let setup =
        Setup { priority, cpu: None, lock_memory: false, stay_awake: false, strict: false, ..loop_setup };
    let on_thread = move || {
        // Whatever is not granted shows in the time the controller takes; the loop's own grants are reported.
        let _ = setup.apply();
    };
    let pipelined = Pipelined::new(controller, &state, on_thread).map_err(LaunchError::Controller)?;
    Ok(Box::new(pipelined))
}

type Recording = (Option<Recorder>, Option<Box<dyn Observer + Send>>);

fn record(plan: Plan, config: &RobotConfig, text: &str) -> Result<Recording, LaunchError> {
    if !config.log.enabled {
        return Ok((None, None));
    }
    let mut plan = plan.log(config.log.clone());
    let now_ns = match config.timing.clock {
        Clock::Real => khz_rt::now_ns(),
        Clock::Virtual => {
            // Its zero is now.
            plan = plan.virtual_time(khz_rt::clock::realtime_ns());
            0
        }
    };
    let log = RunLog::declare(&mut plan, config)?;
    let robot = plan.record("robot", &robot_schema())?;
    let mut side = plan.tap(SIDE_RING_BYTES);
    let recorder = plan.start()?;
    let passport = serde_json::to_string(&Passport::read()).unwrap_or_default();
    side.push(robot, now_ns, &robot_record(&config.name, text, &passport, config.timing.clock));
    Ok((Some(recorder), Some(Box::new(log))))
}

fn settings(config: &RobotConfig, duration_ns: Option<i64>) -> SessionSettings {
    let timing = &config.timing;
    SessionSettings {
        clock: timing.clock,
        setup: setup(timing),
        wake: timing.wake,
        receive: config.receive(),
        period_ns: timing.period_ns(),
        overrun: timing.overrun,
        frame_patience_ns: timing.pace_bus.as_ref().map(|_| timing.pace_patience_ns()),
        late_ns: timing.late_ns(),
        duration_ns,
    }
}

fn setup(timing: &LoopConfig) -> Setup {
    Setup {
        policy: timing.policy,
        priority: timing.priority,
        cpu: timing.cpu.map(|cpu| cpu as usize),
        period_ns: timing.period_ns(),
        lock_memory: timing.lock_memory,
        strict: timing.strict,
        ..Setup::default()
    }
}
