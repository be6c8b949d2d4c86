//! A robot file and a controller become a run, the run a summary, a log and a report.

use crate::output::{self, OutputError};
use crate::{live, signals};
use khz_file::config::{ConfigError, QUADRUPED, RobotConfig, read_file};
use khz_loop::console::Console;
use khz_loop::controller::{ControlError, Controller};
use khz_loop::parameters::{LiveParameters, Parameter, ParameterError};
use khz_loop::run::Observer;
use khz_loop::steer::Steering;
use khz_loop::tick::Failure;
use khz_loop::timing::Clock;
use khz_loop::{RobotState, ServoCommand};
use khz_report::run::page::RunData;
use khz_report::run::{RunSummary, page_data};
use khz_robot::launch::{Launch, LaunchError, LaunchOptions};
use khz_robot::recorder::RecorderBuilder;
use khz_robot::session::{Outcome, Session, SessionError};
use khz_robot::viewer::{self, Viewer, ViewerError};
use khz_run::record::Tick;
use khz_targets as targets;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Why a robot could not be run, or its report not be written.
///
/// Its `Debug` is its text: what `main` prints of an error is for the person at the machine.
#[derive(thiserror::Error)]
pub enum Error {
    /// Something is wrong with the robot file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The loop's thread was not granted what it insists on (`loop.strict`), or never ran.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A signal has asked this program to end, during an earlier [`Robot::run`].
    #[error(
        "not started: this program was asked to stop (Ctrl-C, SIGTERM or the like) during an earlier run"
    )]
    Stopped,
    /// Something brought the robot down before its time.
    #[error("the run did not end as planned: {0}")]
    BroughtDown(String),
    /// It cannot be shown live.
    #[error(transparent)]
    View(#[from] ViewerError),
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signals(io::Error),
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Overrides of the robot file, for one run.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Write no log; `log` and `stream` count for more.
    pub no_log: bool,
    /// Write the log there.
    pub log: Option<PathBuf>,
    /// Send everything that is recorded there by UDP, too, `HOST:PORT`.
    pub stream: Option<String>,
    /// Receive targets there, as `[targets] from` has it.
    pub targets: Option<String>,
    /// The clock to run by.
    pub clock: Option<Clock>,
    /// The CPU of the loop's thread.
    pub cpu: Option<u32>,
    /// Refuse to run with less than what the file asks of the kernel.
    pub strict: bool,
    /// The seed of the emulated devices.
    pub seed: Option<u64>,
}

impl Overrides {
    /// Changes a robot file's settings.
    pub fn apply(self, config: &mut RobotConfig) {
        // A log or a stream that was asked for is recorded, whatever the file sets.
        let wants_samples = self.log.is_some() || self.stream.is_some();
        config.log.enabled = wants_samples || config.log.enabled && !self.no_log;
        if let Some(log) = &self.log {
            config.log.path = log.display().to_string();
        }
        config.log.stream = self.stream.or(config.log.stream.take());
        config.targets.from = self.targets.or(config.targets.from.take());
        config.timing.clock = self.clock.unwrap_or(config.timing.clock);
        config.timing.cpu = self.cpu.or(config.timing.cpu);
        config.timing.strict |= self.strict;
        config.emulation.seed = self.seed.unwrap_or(config.emulation.seed);
    }
}

/// A robot about to run: its file, and what a program adds to it.
pub struct Robot {
    config: RobotConfig,
    text: String,
    options: LaunchOptions,
    view: Option<viewer::Options>,
    /// The configuration is not that of the text any more.
    is_changed: bool,
}

impl Robot {
    /// The robot of a file.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong: every problem with its line and what to write instead.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let text = read_file(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
        let config = RobotConfig::of_file(&text, &path.display().to_string())?;
        Ok(Self::read(config, text))
    }

    /// The robot of a text; `name` is what messages call it.
    ///
    /// # Errors
    /// Something in the text is wrong.
    pub fn parse(text: &str, name: &str) -> Result<Self, Error> {
        Ok(Self::read(RobotConfig::parse(text, name)?, text.to_owned()))
    }

    /// The robot of a configuration made by a program; it is checked as a file is. The log has it as an equivalent file.
    ///
    /// # Errors
    /// Something in it is wrong: every problem, with its place in such a file.
    pub fn of(config: &RobotConfig) -> Result<Self, Error> {
        Ok(Self::read(config.checked()?, config.text()?))
    }

    /// The robot of a text that was read before, with no more changes than [`Overrides`] makes.
    pub fn read(config: RobotConfig, text: String) -> Self {
        Self { config, text, options: LaunchOptions::default(), view: None, is_changed: false }
    }

    /// The emulated quadruped of `khz run`: 12 servos on 4 buses, and an IMU.
    ///
    /// # Panics
    /// Never: the built-in file is right.
    pub fn quadruped() -> Self {
        Self::read(RobotConfig::quadruped(), QUADRUPED.to_owned())
    }

    /// The robot file's settings.
    pub fn config(&self) -> &RobotConfig {
        &self.config
    }

    /// The place of a joint in state and commands, by its name.
    pub fn joint(&self, name: &str) -> Option<usize> {
        self.config.servos.iter().position(|servo| servo.name == name)
    }

    /// Changes the robot file's settings, for this run. [`Robot::start`] checks it as a file is.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut RobotConfig)) -> Self {
        change(&mut self.config);
        self.is_changed = true;
        self
    }

    /// Changes the robot file's settings for this run, as the options of `khz run` do.
    #[must_use]
    pub fn with(mut self, overrides: Overrides) -> Self {
        overrides.apply(&mut self.config);
        self
    }

    /// Replaces the controller that the file names.
    #[must_use]
    pub fn controller(mut self, controller: impl Controller + 'static) -> Self {
        self.options.controller = Some(Box::new(controller));
        self
    }

    /// What a run may have besides its robot file, for front ends that have it in that form.
    pub fn options(&mut self) -> &mut LaunchOptions {
        &mut self.options
    }

    /// A controller without a state of its own: called in every tick, as [`Controller::update`].
    #[must_use]
    pub fn each_tick(
        self,
        update: impl FnMut(&RobotState, &mut [ServoCommand]) -> Result<(), ControlError> + Send + 'static,
    ) -> Self {
        let parameters = Vec::new();
        self.controller(EachTick { update, parameters })
    }

    /// As [`Robot::each_tick`], with parameters that a person may change while it runs. The closure keeps a clone of each.
    ///
    /// ```
    /// use kilohertz::{Parameter, PositionCommand, Robot, ServoCommand};
    ///
    /// let stiffness = Parameter::float("stiffness", 0.5, 0.0..=1.0).about("Share of the position gain.");
    /// let robot = Robot::quadruped().each_tick_with(vec![stiffness.clone()], move |_, commands| {
    ///     let kp_scale = stiffness.get();
    ///     commands.fill(ServoCommand::Position(PositionCommand { kp_scale, ..PositionCommand::hold(0.0) }));
    ///     Ok(())
    /// });
    /// ```
    #[must_use]
    pub fn each_tick_with(
        self,
        parameters: Vec<Parameter>,
        update: impl FnMut(&RobotState, &mut [ServoCommand]) -> Result<(), ControlError> + Send + 'static,
    ) -> Self {
        self.controller(EachTick { update, parameters })
    }

    /// Records and sinks of one's own: what is declared in it goes into the log beside what every run records.
    #[must_use]
    pub fn recorder(mut self, builder: RecorderBuilder) -> Self {
        self.options.recorder = builder;
        self
    }

    /// Calls `observer` in every tick, on the loop's thread.
    #[must_use]
    pub fn observer(mut self, observer: impl Observer + Send + 'static) -> Self {
        self.options.observers.push(Box::new(observer));
        self
    }

    /// Brings the robot down after this time; without it, it runs until it is stopped.
    #[must_use]
    pub fn duration(mut self, duration: Duration) -> Self {
        self.options.duration_ns = Some(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX));
        self
    }

    /// Runs in virtual time, as fast as the CPU computes it: for emulated robots. The run repeats exactly and shows
    /// nothing about this computer.
    #[must_use]
    pub fn virtual_time(self) -> Self {
        self.with(Overrides { clock: Some(Clock::Virtual), ..Overrides::default() })
    }

    /// Shows the run live, in a browser and in Foxglove, Lichtblick and PlotJuggler, as `khz run --view` does; parameters are
    /// changed and the robot is stopped from there. [`Robot::run`] prints the page's address, [`Run::view`] returns it.
    ///
    /// The page is served by the program `khz`, in a process of its own: looked for beside this program and in PATH, or named by the
    /// environment variable KHZ.
    #[must_use]
    pub fn view(mut self, options: viewer::Options) -> Self {
        self.view = Some(options);
        self
    }

    /// Writes the log there instead of to the path in the file. A log that is there is kept, and a number added to the name.
    #[must_use]
    pub fn log(self, path: impl AsRef<Path>) -> Self {
        self.with(Overrides { log: Some(path.as_ref().to_owned()), ..Overrides::default() })
    }

    /// Writes no log.
    #[must_use]
    pub fn no_log(self) -> Self {
        self.with(Overrides { no_log: true, ..Overrides::default() })
    }

    /// Brings the run down gently when it is set, as [`Run::stop`] does; the run is then "stopped by the operator". A controller that
    /// is done reports that by [`Controller::is_finished`].
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.options.stop)
    }

    /// Starts the robot and returns at once. Signals are left to the program: one that ends it at once (Ctrl-C) leaves the
    /// servos to their watchdogs. [`Robot::run`] catches them.
    ///
    /// # Errors
    /// Whatever keeps it from starting. A setting that the loop's thread insists on and is not granted is reported by [`Run::finish`].
    pub fn start(self) -> Result<Run, Error> {
        let Self { config, text, mut options, view, is_changed } = self;
        let config = if is_changed { config.checked()? } else { config };
        let stop = Arc::clone(&options.stop);
        let (view, live) = view.map(|view| view.start(&config)).transpose()?.unzip();
        options.live = live;
        let launch = Launch::start(&config, &text, options)?;
        Ok(Run { launch, config, text, view, stop })
    }

    /// What is suspicious in the robot file but no error, ready to be shown.
    pub fn warnings(&self) -> &[String] {
        &self.config.warnings
    }

    /// Runs the robot for its duration, or until a signal comes (Ctrl-C, SIGTERM, a terminal that goes away: see
    /// [`crate::ending_signals`]), which brings it down gently. Warnings of the file go to stderr, and a live line if that
    /// is a terminal. Where a log is written, the report is written beside it.
    ///
    /// When it returns, signals do again what they did before; a handler of the program's own is not called meanwhile. A program that
    /// was asked to end in one run starts no next one by this function: [`Error::Stopped`].
    ///
    /// # Errors
    /// As [`Robot::start`] and [`Run::finish`]. What brought a robot down is none: see [`Finished::ended_well`].
    pub fn run(self) -> Result<Finished, Error> {
        // SIGTTOU with them: the live line must not stop a robot that runs in the background.
        let _caught = signals::catch(&self.options.stop).map_err(Error::Signals)?.ok_or(Error::Stopped)?;
        self.warnings().iter().for_each(|warning| live::show(&format!("{warning}\n")));
        let mut run = self.start()?;
        live::watch(&mut run);
        let view = run.take_view();
        let mut finished = run.finish()?;
        finished.unsent().iter().for_each(|line| live::show(&format!("{line}\n")));
        if let Some(path) = finished.summary.report_beside_log()
            && let Err(error) = finished.report(path)
        {
            // The run was what it was, whether or not it can be reported.
            live::show(&format!("cannot write the report: {error}\n"));
        }
        view.into_iter().for_each(live::announce_view_end);
        Ok(finished)
    }
}

/// A closure as a controller.
struct EachTick<F> {
    update: F,
    parameters: Vec<Parameter>,
}

impl<F> Controller for EachTick<F>
where
    F: FnMut(&RobotState, &mut [ServoCommand]) -> Result<(), ControlError> + Send,
{
    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        (self.update)(state, commands)
    }
}

/// A robot running. Dropped, it brings the robot down and blocks until that is done and the log is written.
pub struct Run {
    launch: Launch,
    config: RobotConfig,
    text: String,
    view: Option<Viewer>,
    stop: Arc<AtomicBool>,
}

impl Run {
    /// The address of its live view, with [`Robot::view`].
    pub fn view(&self) -> Option<&str> {
        self.view.as_ref().map(Viewer::link)
    }

    /// The view, to keep it beyond the run: [`live::announce_view_end`].
    pub fn take_view(&mut self) -> Option<Viewer> {
        self.view.take()
    }

    /// Why report and live view do not draw the robot, if its shape is known.
    pub fn not_drawn(&self) -> Option<&str> {
        self.launch.not_drawn()
    }

    /// Brings the robot down gently; returns at once.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Brings it down gently when it is set, as [`Run::stop`] does: for code that cannot hold the run.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// The controller's parameters, to be looked at and changed while it runs, from any thread.
    ///
    /// ```no_run
    /// let run = kilohertz::Robot::quadruped().start()?;
    /// run.parameters().set("kp_scale", 0.4)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parameters(&self) -> LiveParameters {
        self.launch.parameters().clone()
    }

    /// Arms the robot, with `supervisor.arming = "operator"`.
    ///
    /// # Errors
    /// It does not wait for that.
    pub fn arm(&self) -> Result<(), ParameterError> {
        self.launch.console().arm()
    }

    /// What arms it, and sees its phase: for code that cannot hold the run.
    pub fn console(&self) -> Arc<Console> {
        Arc::clone(self.launch.console())
    }

    /// For programs that steer: inputs by [`Steering::steer`], every 50 ms.
    pub fn steering(&self) -> Steering {
        self.launch.steering().clone()
    }

    /// For programs that send targets, with the controller `targets` of the robot file, each under a name; `None`: the robot has another
    /// controller.
    ///
    /// ```no_run
    /// use kilohertz::targets::Sender;
    ///
    /// let run = kilohertz::Robot::load("robots/arm_targets.toml")?.start()?;
    /// let policy = run.targets(Sender::new("policy")).ok_or("not that controller")?;
    /// policy.point(&[0.1, 0.2, 0.0])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn targets(&self, sender: targets::Sender) -> Option<targets::Program> {
        self.launch.targets().map(|inbox| targets::Program::new(inbox.clone(), sender))
    }

    /// Where all targets arrive; `None` as of [`Run::targets`].
    pub fn targets_inbox(&self) -> Option<targets::Inbox> {
        self.launch.targets().cloned()
    }

    /// What starts its ticks, by which clock, and from how much over the usual on they are late.
    pub(crate) fn session(&self) -> &Session {
        &self.launch.session
    }

    /// What has gone wrong with the log since it was asked last.
    pub(crate) fn trouble_with_log(&self) -> Option<String> {
        self.launch.trouble_with_log()
    }

    /// The next tick not looked at yet, if any. Some thousand are kept; who looks more rarely misses some.
    pub fn live(&mut self) -> Option<Tick> {
        self.launch.session.live()
    }

    /// The robot is down; [`Run::finish`] will not block for long.
    pub fn is_over(&self) -> bool {
        self.launch.session.is_over()
    }

    /// Blocks until the robot is down and the log is written.
    ///
    /// # Errors
    /// The loop's thread was not granted what it insists on, or the loop never ran. What brought a robot down is no error
    /// but in the summary.
    pub fn finish(self) -> Result<Finished, Error> {
        let Self { launch, config, text, .. } = self;
        let outcome = launch.wait()?;
        Ok(Finished { summary: RunSummary::of(&config, &outcome), config, text, outcome })
    }
}

/// A robot that has run.
pub struct Finished {
    /// The run in figures: its `Display` is the table of `khz run`, its `Serialize` the JSON.
    pub summary: RunSummary,
    /// The robot file's settings, with the overrides.
    pub config: RobotConfig,
    /// The robot file.
    pub text: String,
    outcome: Outcome,
}

impl Finished {
    /// Whether the robot came under control and the run ended as planned, for the last line of `main`.
    ///
    /// # Errors
    /// What brought it down.
    pub fn ended_well(&self) -> Result<(), Error> {
        match self.summary.ended_well {
            true => Ok(()),
            false => Err(Error::BroughtDown(self.summary.end.clone())),
        }
    }

    /// The controller's parameters, with their last values: see [`khz_file::found`] for writing them down.
    pub fn parameters(&self) -> &[Parameter] {
        &self.outcome.parameters
    }

    /// Commands that were handed over and may not have reached the servos, in lines for people; none, as a rule.
    pub fn unsent(&self) -> &[String] {
        &self.outcome.unsent
    }

    /// The figures alone: lets go of the robot and its controller.
    pub fn into_summary(self) -> RunSummary {
        self.summary
    }

    /// Whether the controller panicked, and its message.
    pub fn panic(&self) -> Option<String> {
        match self.outcome.machine.failure() {
            Some(Failure::Panic(panic)) => Some(panic.to_string()),
            _ => None,
        }
    }

    /// Everything the report shows. Reads the log.
    pub fn page(&self) -> ReportPage {
        let data = page_data(&self.config, &self.text, &self.outcome, &self.summary);
        ReportPage { data, logs: self.summary.log_files.clone() }
    }

    /// Writes the report, a page of HTML, and returns where it is: a file that is there is kept, and a number added to the
    /// name.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn report(&mut self, path: impl AsRef<Path>) -> Result<PathBuf, Error> {
        let path = path.as_ref();
        let written = match path.metadata() {
            Ok(there) if !there.is_file() => {
                Err(io::Error::other("it is a folder, a device or a pipe, and a report needs a file"))
            }
            _ => self.page().save(path, false).map_err(|error| match error {
                OutputError::Io { source, .. } => source,
                error => io::Error::other(error),
            }),
        };
        let written = written.map_err(|source| Error::File { path: path.to_owned(), source })?;
        self.summary.report = Some(written.clone());
        Ok(written)
    }

    /// As [`Finished::report`], also into a pipe or a device; with `force` over a file that is there, unless that is the log.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn report_over(&mut self, path: &Path, force: bool) -> Result<(), OutputError> {
        self.summary.report = Some(self.page().save(path, force)?);
        Ok(())
    }
}

/// The report of a run.
pub struct ReportPage {
    data: RunData,
    logs: Vec<PathBuf>,
}

impl ReportPage {
    /// Writes it, and returns where: a file that is there is kept, and a number added to the name, unless it is to be overwritten
    /// by `force` and no log of this run.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, path: &Path, force: bool) -> Result<PathBuf, OutputError> {
        // A log may have got another name than was asked for.
        let force = force && !self.logs.iter().any(|log| output::is_same(log, path));
        output::save(path, force, |file| write!(file, "{self}"))
    }
}

impl fmt::Display for ReportPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.data.page().fmt(f)
    }
}
