//! Runs a robot file: machine, recorder and loop together.

use crate::assemble::control::{PrepareError, Prepared, aimed};
use crate::assemble::links::{AssembleError, Links, open_links};
use crate::assemble::put_together;
use crate::companions::{Aimed, Companion, Companions, Steered};
use crate::live::{Channel, Wiring};
use crate::recorder::{RecorderBuilder, RecorderError};
use crate::recording::{Besides, Recording};
use crate::session::{Outcome, Session, SessionError, SessionSettings};
use khz_file::config::RobotConfig;
use khz_loop::console::Console;
use khz_loop::controller::Controller;
use khz_loop::operator::{Listener, OperatorError};
use khz_loop::parameters::{Intake, LiveParameters};
use khz_loop::run::Observer;
use khz_loop::steer::Steering;
use khz_loop::tick::Machine;
use khz_loop::timing::Clock;
use khz_loop::watchdogs::{WatchdogError, Watchdogs};
use khz_targets::Inbox;
use khz_targets::socket::SocketError;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
    /// The live channel has no thread.
    #[error("cannot serve the live view: {0}")]
    Live(std::io::Error),
    /// The controller is not for this robot, or the file's parameters are not for the controller.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
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
    ends: Ends,
}

/// What programs hold of a robot that runs.
struct Ends {
    parameters: LiveParameters,
    console: Arc<Console>,
    steering: Steering,
    inbox: Option<Inbox>,
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
        Assembled::of_file(config, text, options)?.start()
    }

    /// For programs that send targets; `None`: the controller follows none.
    pub fn targets(&self) -> Option<&Inbox> {
        self.ends.inbox.as_ref()
    }

    /// The controller's parameters, to be looked at and changed while it runs.
    pub fn parameters(&self) -> &LiveParameters {
        &self.ends.parameters
    }

    /// For programs that steer.
    pub fn steering(&self) -> &Steering {
        &self.ends.steering
    }

    /// For programs that arm the robot, with `supervisor.arming = "operator"`.
    pub fn console(&self) -> &Arc<Console> {
        &self.ends.console
    }

    /// Why report and live view do not draw the robot, if its shape is known.
    pub fn not_drawn(&self) -> Option<&str> {
        self.ends.not_drawn.as_deref()
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
        outcome.parameters = self.ends.parameters.list().to_vec();
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

/// A machine at rest and all that is to run beside its loop. Of the robot file nothing else is needed.
struct Assembled {
    machine: Machine,
    beside: [Box<dyn Companion>; 6],
    observers: Vec<Box<dyn Observer + Send>>,
    settings: SessionSettings,
    stop: Arc<AtomicBool>,
    ends: Ends,
}

impl Assembled {
    fn of_file(config: &RobotConfig, text: &str, options: LaunchOptions) -> Result<Self, LaunchError> {
        let LaunchOptions { controller, links, recorder, observers, duration_ns, stop, live } = options;
        let (timing, clock) = (&config.timing, config.timing.clock);
        let file_links = || open_links(config, |world| Box::new(world));
        let links = links.map_or_else(file_links, |open| open(config))?;
        let (controller, followed) = controller.map_or_else(|| aimed(config), |own| (own, None));
        let prepared = Prepared::for_robot(config, controller)?;
        let policy = prepared.controller.policy();
        let prepared = prepared.on_its_thread(timing, &config.supervisor_settings())?;
        let mut machine = put_together(config, prepared.controller, links);
        // Servos emulated in this process stand still while it is kept from its CPU, and are not to be blamed for that.
        if machine.links().iter().all(|link| link.capabilities().emulated) {
            machine.forgive_hold_ups();
        }
        let operator = Listener::start(&config.supervisor)?;
        let steered = Steered::start(&config.teleop, &config.supervisor, clock)?;
        let steering = steered.steering.clone();
        let console = Arc::new(Console::new(clock));
        machine.attend(Arc::clone(&console));
        let listen = |followed| Aimed::listen(followed, &config.targets, &console, clock);
        let aimed = followed.map(listen).transpose()?;
        let inbox = aimed.as_ref().and_then(Aimed::inbox_for_programs).cloned();
        let (intake, parameters) = Intake::new(prepared.parameters, clock);
        machine.tune(intake);
        let view = live.as_ref().map(OwnedFd::try_clone).transpose().map_err(LaunchError::Live)?;
        let wiring = Wiring {
            parameters: parameters.clone(),
            steering: (clock == Clock::Real).then(|| steering.clone()),
            console: Arc::clone(&console),
            stop: Arc::clone(&stop),
        };
        let channel =
            live.map(|socket| Channel::start(socket, wiring).map_err(LaunchError::Live)).transpose()?;
        let targets = aimed.as_ref().map(Aimed::inbox);
        let besides = Besides { console: &console, parameters: parameters.list(), targets, policy, view };
        let (recording, not_drawn) = Recording::start(recorder, config, text, besides)?;
        // The last to begin and the first to end: it is fed only while the loop ticks.
        let watchdogs = match clock {
            Clock::Real => Watchdogs::start(&config.watchdog, timing.period_ns())?,
            Clock::Virtual => None,
        };
        Ok(Self {
            machine,
            beside: [
                Box::new(operator),
                Box::new(steered),
                Box::new(aimed),
                Box::new(channel),
                Box::new(recording),
                Box::new(watchdogs),
            ],
            observers,
            settings: SessionSettings::of(timing, config.receive(), duration_ns),
            stop,
            ends: Ends { parameters, console, steering, inbox, not_drawn },
        })
    }

    fn start(mut self) -> Result<Launch, LaunchError> {
        let (companions, mut observers) = Companions::attach(self.beside.into(), &mut self.machine);
        observers.extend(self.observers);
        let session = Session::start(self.machine, observers, self.settings, self.stop)?;
        Ok(Launch { session, companions, ends: self.ends })
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
            config.timing.thread().check().map_err(|error| SessionError::from(error).into())
        }
    }
}
