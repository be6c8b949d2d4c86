//! Runs a robot file: machine, recorder and loop together.

use crate::assemble::{self, AssembleError, Links};
use crate::companions::{Aimed, Companion, Companions, Recording, Steered};
use crate::live::{Channel, Wiring};
use crate::recorder::{RecorderBuilder, RecorderError};
use crate::records::{RunLog, parameters_record, parameters_schema, robot_record, robot_schema};
use crate::session::{Outcome, Session, SessionError, SessionSettings};
use khz_file::config::{self, ControllerConfig, ControllerKind, RobotConfig};
use khz_file::draft;
use khz_loop::console::Console;
use khz_loop::controller::{ControlError, Controller, Pipelined};
use khz_loop::operator::{self, Heartbeat, Listener, OperatorError};
use khz_loop::parameters::{self, Intake, LiveParameters, Parameter, ParameterError};
use khz_loop::run::Observer;
use khz_loop::steer::{Receiver, Steering};
use khz_loop::tick::Machine;
use khz_loop::timing::{Clock, LoopConfig};
use khz_loop::watchdogs::{WatchdogError, Watchdogs};
use khz_rt::{Passport, Setup};
use khz_run::record::Policy;
use khz_targets::socket::SocketError;
use khz_targets::{Desk, Follow};
use khz_tlog::Record;
use std::os::fd::OwnedFd;
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
    /// Targets cannot be received.
    #[error(transparent)]
    Targets(#[from] SocketError),
    /// The operator's heartbeats cannot be received.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// The loop could not be started, or was not granted what it insists on.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A parameter cannot be declared, or the file has a wrong value for it.
    #[error("[parameters] {0}")]
    Parameter(ParameterError),
    /// The live channel has no thread.
    #[error("cannot serve the live view: {0}")]
    Live(std::io::Error),
    /// The controller is not for this robot.
    #[error("the controller: {0}")]
    Prepare(ControlError),
    /// Its log would have the name of a robot file.
    #[error("log.path is {0}, the name of a robot file: give the log another ending, such as .tlog")]
    LogName(String),
    /// Its log would be a folder.
    #[error("log.path is {0}, a folder: name the file in it, such as {0}/run.tlog")]
    LogFolder(String),
    /// It cannot run in virtual time.
    #[error("not in virtual time: {0}")]
    VirtualTime(String),
    /// Its body cannot be simulated in real time.
    #[error("[body] {0}")]
    Body(String),
    /// The controller's thread could not be made.
    #[error("cannot start the controller's thread: {0}")]
    Controller(std::io::Error),
}

impl From<ParameterError> for LaunchError {
    fn from(error: ParameterError) -> Self {
        Self::Parameter(error)
    }
}

/// Opens a robot's links.
pub type OpenLinks = Box<dyn FnOnce(&RobotConfig) -> Result<Links, AssembleError> + Send>;

/// What a run may have besides its robot file.
#[derive(Default)]
pub struct LaunchOptions {
    /// Replaces the controller that the file names.
    pub controller: Option<Box<dyn Controller>>,
    /// Opens other links than the file names, or the same in another way.
    pub links: Option<OpenLinks>,
    /// Records and sinks of the program's own; the run's are added to it, and its log is the robot file's. If the file wants
    /// no log (`log.enabled`), nothing of it is recorded either.
    pub recorder: RecorderBuilder,
    /// Notified of every tick, on the loop's thread.
    pub observers: Vec<Box<dyn Observer + Send>>,
    /// After this long the robot is brought down; `None`: only by `stop`.
    pub duration_ns: Option<i64>,
    /// Brings the robot down when set.
    pub stop: Arc<AtomicBool>,
    /// One end of a socket pair (`SOCK_SEQPACKET`) for a viewer: see [`crate::live`].
    pub live: Option<OwnedFd>,
}

/// A robot running. Dropped, it brings the robot down and blocks until that is done and the log is written, as
/// [`Launch::wait`] does after [`Session::stop`].
pub struct Launch {
    /// The loop.
    pub session: Session,
    companions: Companions,
    parameters: LiveParameters,
    console: Arc<Console>,
    steering: Steering,
    desk: Option<Desk>,
    not_drawn: Option<String>,
}

impl Launch {
    /// Runs a robot. `text` is its file's text, kept in the log.
    ///
    /// # Errors
    /// Whatever keeps it from starting. If the loop's thread is not granted what it insists on (`strict`), [`Launch::wait`]
    /// returns that.
    pub fn start(config: &RobotConfig, text: &str, options: LaunchOptions) -> Result<Self, LaunchError> {
        // Before a device is touched.
        check(config)?;
        let LaunchOptions {
            controller,
            links,
            recorder: builder,
            observers: others,
            duration_ns,
            stop,
            live,
        } = options;
        let links = open(config, links)?;
        let (controller, aimed) = aimed(config, controller);
        let (mut machine, list, policy) = machine(config, controller, links)?;
        let operator = Listener::start(&config.supervisor)?;
        let steered = steered(config)?;
        let steering = steered.steering.clone();
        let console = Arc::new(Console::new(config.timing.clock));
        machine.attend(Arc::clone(&console));
        let aimed = aimed.map(|aimed| aimed.listen(config, &console)).transpose()?;
        let desk = aimed.as_ref().map(|aimed| aimed.desk.clone());
        let (intake, parameters) = Intake::new(list, config.timing.clock);
        machine.tune(intake);
        let view = live.as_ref().map(OwnedFd::try_clone).transpose().map_err(LaunchError::Live)?;
        let wiring = Wiring {
            parameters: parameters.clone(),
            steering: (config.timing.clock == Clock::Real).then(|| steering.clone()),
            console: Arc::clone(&console),
            stop: Arc::clone(&stop),
        };
        let channel = live.map(|socket| Channel::start(socket, wiring)).transpose();
        let channel = channel.map_err(LaunchError::Live)?;
        let (recording, not_drawn) = record(
            builder,
            config,
            text,
            parameters.list(),
            view,
            Besides { console: &console, targets: desk.as_ref(), policy },
        )?;
        // The last to begin and the first to end: it is fed only while the loop ticks.
        let watchdogs = watchdogs(config)?;
        let beside: [Box<dyn Companion>; 6] = [
            Box::new(operator),
            Box::new(steered),
            Box::new(aimed),
            Box::new(channel),
            Box::new(recording),
            Box::new(watchdogs),
        ];
        let (companions, mut observers) = Companions::attach(beside.into(), &mut machine);
        observers.extend(others);
        // A leader's robot takes no program's targets.
        let desk = desk.filter(|_| config.controller.kind() == ControllerKind::Targets);
        let session = Session::start(machine, observers, settings(config, duration_ns), stop)?;
        Ok(Self { session, companions, parameters, console, steering, desk, not_drawn })
    }

    /// For programs that send targets; `None`: the controller follows none.
    pub fn targets(&self) -> Option<&Desk> {
        self.desk.as_ref()
    }

    /// The controller's parameters, to be looked at and changed while it runs.
    pub fn parameters(&self) -> &LiveParameters {
        &self.parameters
    }

    /// For programs that steer.
    pub fn steering(&self) -> &Steering {
        &self.steering
    }

    /// For programs that arm the robot, with `supervisor.arming = "operator"`.
    pub fn console(&self) -> &Arc<Console> {
        &self.console
    }

    /// Why report and live view do not draw the robot, if its shape is known.
    pub fn not_drawn(&self) -> Option<&str> {
        self.not_drawn.as_deref()
    }

    /// What has gone wrong with the log since it was asked last.
    pub fn trouble_with_log(&self) -> Option<String> {
        self.companions.trouble()
    }

    /// Blocks until the robot is down and the log is written.
    ///
    /// # Errors
    /// If the loop never ran.
    pub fn wait(mut self) -> Result<Outcome, SessionError> {
        self.end()
    }

    fn end(&mut self) -> Result<Outcome, SessionError> {
        let mut outcome = self.companions.finish(self.session.end())?;
        outcome.parameters = self.parameters.list().to_vec();
        Ok(outcome)
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
    if config.log.enabled && Path::new(&config.log.path).is_dir() {
        return Err(LaunchError::LogFolder(config.log.path.clone()));
    }
    match (config.timing.clock, config.why_not_virtual()) {
        (Clock::Virtual, Some(why)) => Err(LaunchError::VirtualTime(why)),
        (Clock::Virtual, None) => Ok(()),
        (Clock::Real, _) => {
            config.check_real_time().map_err(LaunchError::Body)?;
            setup(&config.timing).check().map_err(|error| SessionError::from(error).into())
        }
    }
}

/// The links of the file, unless the program opens others.
fn open(config: &RobotConfig, links: Option<OpenLinks>) -> Result<Links, AssembleError> {
    match links {
        Some(open) => open(config),
        None => assemble::open_links(config, |world| Box::new(world)),
    }
}

/// The machine at rest, the controller's parameters, and what it is if it is a policy.
fn machine(
    config: &RobotConfig,
    controller: Option<Box<dyn Controller>>,
    links: Links,
) -> Result<(Machine, Vec<Parameter>, Option<Policy>), LaunchError> {
    let mut controller = controller.unwrap_or_else(|| assemble::controller(&config.controller));
    let info = assemble::info(config);
    controller.prepare(&info).map_err(LaunchError::Prepare)?;
    let list = parameters::settle(controller.parameters(), info.parameters, &config.parameters)?;
    let is_paced = controller.pace().map_err(LaunchError::Prepare)?.is_some();
    let (controller, list) = assemble::paced(config, controller, list).map_err(LaunchError::Prepare)?;
    let policy = controller.policy();
    let (controller, list) = threaded(config, controller, list, is_paced)?;
    let mut machine = assemble::put_together(config, controller, links);
    // Servos emulated in this process stand still while it is kept from its CPU, and are not to be blamed for that.
    if machine.links().iter().all(|link| link.capabilities().emulated) {
        machine.forgive_hold_ups();
    }
    Ok((machine, list, policy))
}

/// What a person steers by: the live view, programs, and senders that the file allows.
fn steered(config: &RobotConfig) -> Result<Steered, LaunchError> {
    let heartbeat = Heartbeat::new();
    let is_expected = config.supervisor.heartbeat_from.as_deref() == Some(operator::TELEOP);
    let expected = is_expected.then(|| heartbeat.clone());
    let (loop_end, steering) = Steering::new(&config.teleop, heartbeat);
    let from = config.teleop.from.as_ref().filter(|_| config.timing.clock == Clock::Real);
    let receiver = from.map(|from| Receiver::start(from, steering.clone())).transpose()?;
    Ok(Steered { loop_end: Some(loop_end), steering, expected, receiver })
}

/// The controller, and what its targets need if it follows those of `[targets]`, or of a leader.
fn aimed(
    config: &RobotConfig,
    controller: Option<Box<dyn Controller>>,
) -> (Option<Box<dyn Controller>>, Option<Aimed>) {
    let links = assemble::link_names(config);
    let servos = config.servos.iter().map(|servo| servo.name.clone()).collect();
    let aimed = |desk, feed| Some(Aimed { desk, feed, receiver: None, links, servos });
    match &config.controller {
        _ if controller.is_some() => (controller, None),
        ControllerConfig::Targets => {
            let (targets, desk) = assemble::targets(config);
            let feed = targets.feed();
            (Some(Box::new(targets)), aimed(desk, feed))
        }
        ControllerConfig::Follow(follow) => {
            let (follow, desk) = Follow::new(follow);
            let feed = follow.feed();
            (Some(Box::new(follow)), aimed(desk, feed))
        }
        _ => (None, None),
    }
}

fn watchdogs(config: &RobotConfig) -> Result<Option<Watchdogs>, WatchdogError> {
    match config.timing.clock {
        Clock::Real => Watchdogs::start(&config.watchdog, config.timing.period_ns()),
        Clock::Virtual => Ok(None),
    }
}

/// The controller as the file wants it, and its parameters as the loop sees them: in the tick, but for what takes longer, or on its own
/// thread. One that decides less often has a thread for that, whatever the mode is.
fn threaded(
    config: &RobotConfig,
    mut controller: Box<dyn Controller>,
    list: Vec<Parameter>,
    is_paced: bool,
) -> Result<assemble::Ready, LaunchError> {
    if is_paced || config.timing.mode == config::Mode::Inline {
        if config.timing.clock == Clock::Real {
            controller.to_thread(Box::new(below(config))).map_err(LaunchError::Controller)?;
        }
        return Ok((controller, list));
    }
    let state = assemble::state(config);
    let pipelined = Pipelined::with_parameters(controller, list, &state, below(config));
    let pipelined = pipelined.map_err(LaunchError::Controller)?.patient(patience(config));
    let list = pipelined.parameters();
    Ok((Box::new(pipelined), list))
}

/// Sets a thread up below the loop, and free to move: the loop's CPU is the loop's.
fn below(config: &RobotConfig) -> impl FnOnce() + Send + 'static {
    let loop_setup = setup(&config.timing);
    let priority = loop_setup.priority.saturating_sub(1).max(1);
    let setup =
        Setup { priority, cpu: None, lock_memory: false, stay_awake: false, strict: false, ..loop_setup };
    move || {
        // Whatever is not granted shows in the time the controller takes; the loop's own grants are reported.
        let _ = setup.apply();
    }
}

/// A controller that is late for more ticks in a row than the supervisor would ever bear has failed, whatever the reaction to a
/// slow one is.
fn patience(config: &RobotConfig) -> u32 {
    let (settings, period_ns) = (config.supervisor_settings(), config.timing.period_ns());
    let grace = u32::try_from(settings.grace_ns() / period_ns).unwrap_or(u32::MAX);
    settings.controller_late(period_ns).saturating_add(grace)
}

/// Who has something to record besides the loop.
struct Besides<'a> {
    console: &'a Arc<Console>,
    targets: Option<&'a Desk>,
    policy: Option<Policy>,
}

/// What records, and why pages do not draw the robot. `view` is the viewer's socket.
fn record(
    builder: RecorderBuilder,
    config: &RobotConfig,
    text: &str,
    list: &[Parameter],
    view: Option<OwnedFd>,
    besides: Besides<'_>,
) -> Result<(Option<Recording>, Option<String>), LaunchError> {
    if !config.log.enabled && view.is_none() {
        return Ok((None, None));
    }
    let mut builder = builder.log(config.log.clone());
    if let Some(view) = view {
        builder = builder.view(view);
    }
    if !config.log.enabled {
        builder = builder.no_log();
    }
    let now_ns = match config.timing.clock {
        Clock::Real => khz_rt::now_ns(),
        Clock::Virtual => {
            // Its zero is now.
            builder = builder.virtual_time(khz_rt::clock::realtime_ns());
            0
        }
    };
    let mut log = RunLog::declare(&mut builder, config)?.with_parameters(list);
    if let Some(desk) = besides.targets {
        log = log.with_targets(&mut builder, desk)?;
    }
    let mut policy_record = None;
    if let Some(policy) = besides.policy {
        log = log.with_decisions(&mut builder, &policy)?;
        let record = builder.record("policy", &Policy::schema())?;
        builder.in_every_file(record);
        policy_record = Some((record, policy.to_bytes()));
    }
    log.report_errors(&mut builder, besides.console);
    let robot = builder.record("robot", &robot_schema())?;
    builder.in_every_file(robot);
    let parameters = builder.record("parameters", &parameters_schema())?;
    let mut side = builder.tap(SIDE_RING_BYTES);
    let recorder = builder.start()?;
    let passport = serde_json::to_string(&Passport::read()).unwrap_or_default();
    let (shape, not_drawn) = match draft::shape(config) {
        Ok(shape) => (shape, None),
        Err(why) => (String::new(), Some(why)),
    };
    side.push(robot, now_ns, &robot_record(config, text, &passport, &shape));
    side.push(parameters, now_ns, &parameters_record(list));
    if let Some((record, bytes)) = policy_record {
        side.push(record, now_ns, &bytes);
    }
    Ok((Some(Recording::new(recorder, log)), not_drawn))
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
