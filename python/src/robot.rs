//! A robot, and a run of it.

use crate::beside::{Beside, Operator, Window};
use crate::connection::Connection;
use crate::control::{self, Shared};
use crate::emulated;
use crate::error::{ClosedError, ConfigError, ControllerTimeout, KilohertzError, StartError};
use crate::injected::{End, Injected, InjectedFault, Outside};
use crate::mapped::Mapped;
use crate::parameter::Parameters;
use crate::signals::Signals;
use crate::state::{Command, State};
use crate::stepper::{self, Stepper};
use crate::steppers::Steppers;
use crate::times::nanoseconds;
use khz_file::RobotConfig;
use khz_file::config::{self, ControllerConfig, ControllerKind, QUADRUPED, ServoConfig};
use khz_loop::Controller;
use khz_loop::ServoCommand;
use khz_loop::console::Console;
use khz_loop::parameters::LiveParameters;
use khz_loop::timing::Clock;
use khz_report::run::RunSummary;
use khz_robot::assemble::{AssembleError, Links, open_links};
use khz_robot::launch::OpenLinks;
use khz_robot::viewer;
use khz_rt::now_ns;
use kilohertz::live::Watcher;
use kilohertz::output::OutputError;
use kilohertz::targets::wire::Peer;
use kilohertz::targets::{Desk, Program, Refused, Sender};
use kilohertz::{Overrides, ReportPage};
use pyo3::exceptions::{PyException, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rtrb::Producer;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often the waiting thread looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(10);
/// How often a notebook shows how far the run is.
const PROGRESS: Duration = Duration::from_secs(1);
/// How long an interrupted controller may take to return before it is given up.
const GIVE_UP_NS: i64 = 2_000_000_000;

/// See `Robot.policy`.
type Interface = (u64, usize, Vec<[f64; 2]>, Vec<f64>);

/// A robot, as its file describes it.
#[pyclass(frozen, module = "kilohertz")]
pub struct Robot {
    config: RobotConfig,
    text: String,
}

#[pymethods]
impl Robot {
    /// The robot of a file.
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        let text = std::fs::read_to_string(&path).map_err(|error| {
            PyOSError::new_err((error.raw_os_error(), error.to_string(), path.display().to_string()))
        })?;
        Self::read(text, |text| RobotConfig::of_file(text, &path.display().to_string()))
    }

    /// The robot of a text; `name` is what messages call it.
    #[staticmethod]
    fn parse(text: String, name: &str) -> PyResult<Self> {
        Self::read(text, |text| RobotConfig::parse(text, name))
    }

    /// The emulated quadruped: 12 servos on 4 buses, and an IMU.
    #[staticmethod]
    fn quadruped() -> Self {
        Self { config: RobotConfig::quadruped(), text: QUADRUPED.to_owned() }
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.config.name
    }

    /// Names of the servos, in the order of all arrays.
    #[getter]
    fn servos(&self) -> Vec<String> {
        self.config.servos.iter().map(|servo| servo.name.clone()).collect()
    }

    /// Names of the buses.
    #[getter]
    fn buses(&self) -> Vec<String> {
        self.config.buses.iter().map(|bus| bus.name.clone()).collect()
    }

    /// Ticks per second.
    #[getter]
    fn rate_hz(&self) -> f64 {
        self.config.timing.rate_hz
    }

    /// What is suspicious in the file, but no error.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.config.warnings.clone()
    }

    /// Of each joint the position limits, if it has any.
    #[getter]
    fn limits(&self) -> Vec<Option<[f64; 2]>> {
        self.config.servos.iter().map(|servo| servo.limits.position).collect()
    }

    /// Of each servo its bus, id and family.
    #[getter]
    fn devices(&self) -> Vec<(String, u8, &'static str)> {
        let bus = |index: usize| self.config.buses[index].name.clone();
        self.config.servos.iter().map(|servo| (bus(servo.bus), servo.id, servo.family.word())).collect()
    }

    /// Whether it has an IMU.
    #[getter]
    fn has_imu(&self) -> bool {
        self.config.imu.is_some()
    }

    /// Starts an emulated robot in virtual time that stands still where its controller is to decide. `values` replace what
    /// the robot file says. With `policy` it is decided for as the file's policy is, and `rise` replaces its `start_s`.
    #[pyo3(signature = (*, seed=None, values=Vec::new(), keyframe=None, policy=false, rise=None))]
    fn stepper(
        &self,
        py: Python<'_>,
        seed: Option<u64>,
        values: Vec<(String, f64)>,
        keyframe: Option<String>,
        policy: bool,
        rise: Option<f64>,
    ) -> PyResult<Stepper> {
        let config = stepper::varied(&self.config, &values, seed, keyframe)?;
        Stepper::start(py, &config, &self.servos(), policy, rise)
    }

    /// Several of them, not started, that are stepped in one call; see `stepper`.
    #[pyo3(signature = (count, *, threads, ticks, size, mapped, keyframe, policy, rise))]
    #[allow(clippy::too_many_arguments)]
    fn steppers(
        &self,
        count: usize,
        threads: Option<usize>,
        ticks: u32,
        size: usize,
        mapped: Option<Py<Mapped>>,
        keyframe: Option<String>,
        policy: bool,
        rise: Option<f64>,
    ) -> PyResult<Steppers> {
        Steppers::new(&self.config, count, threads, ticks, size, mapped, policy, rise, keyframe)
    }

    /// Of the file's policy: ticks from one decision to the next, how many numbers an observation has, the least and the greatest of
    /// each number of an action, and the default posture of each servo, rad.
    fn policy(&self, rise: Option<f64>) -> PyResult<Interface> {
        let policy = emulated::policy(&self.config, rise)?;
        let ControllerConfig::Policy(config) = &self.config.controller else {
            return Ok(Interface::default());
        };
        let [observations, actions] = policy.sizes();
        let clip = &config.action.clip;
        let bounds = (0..actions).map(|action| clip[if clip.len() == 1 { 0 } else { action }]);
        let posture = |servo: &ServoConfig| {
            let joint = config.joints.iter().position(|joint| *joint == servo.name);
            joint.map_or(0.0, |joint| config.default[joint])
        };
        Ok((policy.every(), observations, bounds.collect(), self.config.servos.iter().map(posture).collect()))
    }

    /// Checks values for `stepper`: ValueError for an unknown one, ConfigError for one that no robot file may have.
    fn check_values(&self, values: Vec<(String, f64)>) -> PyResult<()> {
        stepper::check(&stepper::varied(&self.config, &values, None, None)?)
    }

    /// Values of emulated joints that are not known exactly, each so many standard deviations from that of the file.
    fn drawn(&self, deviations: Vec<f64>) -> Vec<(String, f64)> {
        let uncertain = self.config.uncertain().into_iter().zip(deviations);
        uncertain.map(|(one, by)| (one.name.clone(), one.drawn(by))).collect()
    }

    /// How many there are of them.
    #[getter]
    fn uncertain(&self) -> usize {
        self.config.uncertain().len()
    }

    /// Starts the loop with a Python controller in the tick, or, without one, with the file's own.
    #[pyo3(signature = (controller=None, *, duration=None, log=None, record=true, patience=1.0, virtual_time=false, view=None, seed=None))]
    #[allow(clippy::too_many_arguments)]
    fn start(
        &self,
        py: Python<'_>,
        controller: Option<Bound<'_, PyAny>>,
        duration: Option<f64>,
        log: Option<PathBuf>,
        record: bool,
        patience: f64,
        virtual_time: bool,
        view: Option<View>,
        seed: Option<u64>,
    ) -> PyResult<Run> {
        let names = self.servos();
        let made = controller.map(|given| control::controller(py, &given, &names)).transpose()?;
        let (controller, shared) = made.unzip();
        let patience_ns = nanoseconds("patience", patience)?;
        let clock = virtual_time.then_some(Clock::Virtual);
        let overrides = Overrides { no_log: !record, log, clock, seed, ..Overrides::default() };
        let parts = Parts { shared, operator: None, window: None, patience_ns, duration, view };
        self.launch(py, controller, parts, overrides)
    }

    /// Opens the buses without a loop.
    fn connect(&self, py: Python<'_>) -> PyResult<Connection> {
        let opened = py.detach(|| open(&self.config));
        let (links, outside) = opened.map_err(cannot_start)?;
        Ok(Connection::new(&self.config, links, outside.map(|outside| outside.faults)))
    }

    /// Starts the loop with Python beside it: it holds every joint until the first command.
    #[pyo3(signature = (*, age_limit=0.1, duration=None, log=None, record=true, view=None))]
    fn start_beside(
        &self,
        py: Python<'_>,
        age_limit: f64,
        duration: Option<f64>,
        log: Option<PathBuf>,
        record: bool,
        view: Option<View>,
    ) -> PyResult<Run> {
        let state = khz_robot::assemble::state(&self.config);
        let age_limit_ns = nanoseconds("age_limit", age_limit)?;
        let mut parts =
            Parts { shared: None, operator: None, window: None, patience_ns: i64::MAX, duration, view };
        let overrides = Overrides { no_log: !record, log, ..Overrides::default() };
        if self.config.controller.kind() == ControllerKind::Targets {
            let (window, operator) = Window::new(&state);
            (parts.window, parts.operator) = (Some(window), Some(operator));
            return self.launch(py, None, parts, overrides);
        }
        let (beside, operator) = Beside::new(&state, age_limit_ns);
        parts.operator = Some(operator);
        self.launch(py, Some(Box::new(beside)), parts, overrides)
    }
}

/// What a run needs besides its robot and controller.
struct Parts {
    shared: Option<Arc<Shared>>,
    operator: Option<Operator>,
    window: Option<Window>,
    patience_ns: i64,
    duration: Option<f64>,
    view: Option<View>,
}

/// An address to show the run at, and a folder where the program that does may be.
type View = (String, PathBuf);

fn view((at, beside): View) -> PyResult<viewer::Options> {
    let at = viewer::address(&at).map_err(|error| PyValueError::new_err(format!("view: {error}")))?;
    let program = viewer::find(&[beside]).map_err(cannot_start)?;
    Ok(viewer::Options { at, program: Some(program), ..viewer::Options::default() })
}

fn cannot_start(error: impl std::fmt::Display) -> PyErr {
    StartError::new_err(error.to_string())
}

impl Robot {
    fn read(
        text: String,
        read: impl FnOnce(&str) -> Result<RobotConfig, config::ConfigError>,
    ) -> PyResult<Self> {
        let config = read(&text).map_err(|error| ConfigError::new_err(error.to_string()))?;
        Ok(Self { config, text })
    }

    fn launch(
        &self,
        py: Python<'_>,
        controller: Option<Box<dyn Controller>>,
        parts: Parts,
        overrides: Overrides,
    ) -> PyResult<Run> {
        let (sender, receiver) = channel();
        let links: OpenLinks = Box::new(move |config| {
            open(config).map(|(links, outside)| {
                let _ = sender.send(outside);
                links
            })
        });
        let robot = kilohertz::Robot::read(self.config.clone(), self.text.clone());
        let mut robot = robot.with(overrides);
        let options = robot.options();
        (options.controller, options.links) = (controller, Some(links));
        options.duration_ns = parts.duration.map(|duration| nanoseconds("duration", duration)).transpose()?;
        robot = parts.window.into_iter().fold(robot, kilohertz::Robot::observer);
        if let Some(wanted) = parts.view {
            robot = robot.view(view(wanted)?);
        }
        let run = py.detach(|| robot.start()).map_err(cannot_start)?;
        let outside = receiver.try_recv().ok().flatten();
        let (faults, world_end) = outside.map(|outside| (outside.faults, outside.end)).unzip();
        Ok(Run {
            names: self.servos(),
            page: Mutex::new(None),
            raises: Mutex::new(None),
            view: run.view().map(str::to_owned),
            parameters: run.parameters(),
            console: run.console(),
            targets: run.targets_desk().map(|desk| Mutex::new((desk, Peer::in_process()))),
            stop: run.stop_flag(),
            run: Mutex::new(Some(Box::new(run))),
            faults: Mutex::new(faults),
            world_end,
            operator: parts.operator.map(Mutex::new),
            shared: parts.shared,
            patience_ns: parts.patience_ns,
            process: std::process::id(),
        })
    }
}

/// In the words of Python's own functions.
fn not_written(error: OutputError) -> PyErr {
    match error {
        OutputError::Io { path, source } => {
            let text = source.to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((source.raw_os_error(), text, path))
        }
        error => PyOSError::new_err(error.to_string()),
    }
}

/// Opens a robot's links; what is emulated takes faults.
fn open(config: &RobotConfig) -> Result<(Links, Option<Outside>), AssembleError> {
    let mut outside = None;
    let links = open_links(config, |world| {
        let (injected, rest) = Injected::new(world);
        outside = Some(rest);
        Box::new(injected)
    });
    Ok((links?, outside))
}

/// What the waiting thread has to do something about.
enum Event {
    /// The robot is down.
    Over,
    /// A signal came.
    Signal,
    /// Time to show how far the run is.
    Progress,
    /// The controller has not returned for too long.
    Hangs,
    /// It was interrupted, and still has not.
    Stuck,
}

/// A robot running.
#[pyclass(frozen, module = "kilohertz")]
pub struct Run {
    names: Vec<String>,
    /// Once it was waited for.
    page: Mutex<Option<ReportPage>>,
    /// What ended it, if that is to be raised, once it was waited for.
    raises: Mutex<Option<PyErr>>,
    /// The address of its live view.
    view: Option<String>,
    run: Mutex<Option<Box<kilohertz::Run>>>,
    operator: Option<Mutex<Operator>>,
    faults: Mutex<Option<Producer<InjectedFault>>>,
    /// How the emulated devices ended.
    world_end: Option<Arc<OnceLock<End>>>,
    shared: Option<Arc<Shared>>,
    patience_ns: i64,
    parameters: LiveParameters,
    console: Arc<Console>,
    /// Where targets arrive, and who sends them from here.
    targets: Option<Mutex<(Desk, Peer)>>,
    stop: Arc<AtomicBool>,
    process: u32,
}

#[pymethods]
impl Run {
    /// Brings the robot down gently; returns at once.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The address of its live view.
    #[getter]
    fn view(&self) -> Option<&str> {
        self.view.as_deref()
    }

    /// Arms a robot that waits for it.
    fn arm(&self) -> PyResult<()> {
        self.console.arm().map_err(|error| KilohertzError::new_err(error.0))
    }

    /// The controller's parameters.
    #[getter]
    fn parameters(&self) -> Parameters {
        Parameters(self.parameters.list().to_vec())
    }

    /// Changes values together, and waits until a tick has taken them.
    fn set_parameters(&self, py: Python<'_>, values: &Bound<'_, PyDict>) -> PyResult<()> {
        crate::parameter::set(py, &self.parameters, values)
    }

    /// Whether the robot is down.
    #[getter]
    fn over(&self) -> bool {
        // Code that waited for it waited until it was down.
        self.with(kilohertz::Run::is_over).unwrap_or(true)
    }

    /// Waits until the robot is down, and returns the figures of the run as JSON. Ctrl-C brings it down gently.
    /// What ended it is left to `raise_end`. `watched`: with a live line on stderr, if that is a terminal. `progress` is called
    /// with that line every second instead.
    #[pyo3(signature = (watched=false, progress=None))]
    fn finish(&self, py: Python<'_>, watched: bool, progress: Option<Bound<'_, PyAny>>) -> PyResult<String> {
        self.own_process()?;
        let mut watcher = self.with(|run| match progress {
            Some(_) => Some(Watcher::without_terminal(run)),
            None => watched.then(|| Watcher::new(run)),
        })?;
        let interrupted = self.wait(py, watcher.as_mut(), progress);
        drop(watcher);
        let interrupted = interrupted?;
        let run = self.taken().ok_or_else(|| ClosedError::new_err("this run has been waited for"))?;
        let ended = py.detach(|| run.finish().map(|finished| (finished.page(), finished.into_summary())));
        let (page, figures) = ended.map_err(cannot_start)?;
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = Some(page);
        let summary = self.summary(&figures);
        let raises = interrupted.or_else(|| {
            let error = self.shared.as_ref()?.raised()?;
            self.explain_timeout(py, &error);
            let note = format!("the robot was brought down: {}", summary["end"].as_str().unwrap_or(""));
            let _ = error.value(py).call_method1("add_note", (note,));
            Some(error)
        });
        *self.raises.lock().unwrap_or_else(PoisonError::into_inner) = raises;
        Ok(summary.to_string())
    }

    /// Raises what the controller raised, or the signal that ended the run, once it was waited for.
    fn raise_end(&self) -> PyResult<()> {
        self.raises.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// The page of the run, once it was waited for.
    fn page(&self, py: Python<'_>) -> PyResult<String> {
        self.with_page(py, ReportPage::to_string)
    }

    /// Writes the page into a new file of this name, or of the first with a number that is free. Returns where it is.
    fn write_report(&self, py: Python<'_>, path: PathBuf) -> PyResult<PathBuf> {
        self.with_page(py, |page| page.save(&path, false))?.map_err(not_written)
    }

    /// Puts a fault into the emulated devices.
    #[pyo3(signature = (kind, servo=0, value=0.0))]
    fn inject(&self, kind: &str, servo: usize, value: f64) -> PyResult<()> {
        let fault = crate::injected::fault(kind, servo, value)?;
        crate::injected::put(self.faults.lock().unwrap_or_else(PoisonError::into_inner).as_mut(), fault)
    }

    /// The newest state: arrays of its own, which are not rewritten.
    fn state(&self, py: Python<'_>) -> PyResult<State> {
        let operator = self.operator()?;
        let mut operator = operator.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = State::new(py, &self.names)?;
        state.fill(py, operator.states.read())?;
        state.parameters = Py::new(py, self.parameters())?;
        Ok(state)
    }

    /// A command to fill in: hold every joint where it is now.
    fn command(&self, py: Python<'_>) -> PyResult<Command> {
        let operator = self.operator()?;
        let mut operator = operator.lock().unwrap_or_else(PoisonError::into_inner);
        let command = Command::new(py, &self.names);
        command.hold(py, operator.states.read());
        Ok(command)
    }

    /// Hands a command to the loop; positions go there in a straight line within `over` seconds.
    #[pyo3(signature = (command, over=0.0))]
    fn send(&self, py: Python<'_>, command: &Command, over: f64) -> PyResult<()> {
        self.own_process()?;
        let over_ns = nanoseconds("over", over)?;
        let operator = self.operator()?;
        let mut operator = operator.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(orders) = operator.orders.as_mut() else { return self.go(py, command, over_ns) };
        let order = orders.value();
        command.read(py, &mut order.commands)?;
        (order.at_ns, order.over_ns) = (now_ns(), over_ns);
        orders.publish();
        Ok(())
    }

    /// A message of `[targets] from` and its answer, both JSON.
    fn target(&self, py: Python<'_>, message: &str) -> PyResult<String> {
        self.own_process()?;
        let text = "this robot does not follow targets: write `name = \"targets\"` below `[controller]`";
        let targets = self.targets.as_ref().ok_or_else(|| KilohertzError::new_err(text))?;
        // Others who send may keep it waiting.
        Ok(py.detach(|| {
            let mut targets = targets.lock().unwrap_or_else(PoisonError::into_inner);
            let (desk, peer) = &mut *targets;
            peer.answer(desk, message.as_bytes(), now_ns()).to_string()
        }))
    }

    /// The phase after the last tick.
    #[getter]
    fn phase(&self) -> &'static str {
        self.console.seen().1.name()
    }
}

impl Run {
    /// A command to a robot that follows targets.
    fn go(&self, py: Python<'_>, command: &Command, over_ns: i64) -> PyResult<()> {
        let text = "this robot takes no commands";
        let targets = self.targets.as_ref().ok_or_else(|| KilohertzError::new_err(text))?;
        let mut commands = vec![ServoCommand::Stop; self.names.len()];
        command.read(py, &mut commands)?;
        let position = |command: ServoCommand| match command {
            ServoCommand::Position(target) => Ok(target),
            _ => Err(PyValueError::new_err("a robot that follows targets takes positions only")),
        };
        let goal: Vec<_> = commands.into_iter().map(position).collect::<PyResult<_>>()?;
        let sent = py.detach(|| {
            let targets = targets.lock().unwrap_or_else(PoisonError::into_inner);
            let program = Program::new(targets.0.clone(), Sender::new("send"));
            program.go(&goal, Duration::from_nanos(over_ns.unsigned_abs()))
        });
        sent.map_err(|why| match why {
            Refused::Invalid(text) => PyValueError::new_err(text),
            Refused::Held(by) => KilohertzError::new_err(format!("`{by}` sends targets to this robot")),
            why => KilohertzError::new_err(format!("the robot does not take it: {why}")),
        })
    }

    /// Waits for the loop's end. Gives the exception of a Ctrl-C that came meanwhile.
    fn wait(
        &self,
        py: Python<'_>,
        watcher: Option<&mut Watcher>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Option<PyErr>> {
        let signals = Signals::listen(py);
        let ended = self.watch(py, signals.as_ref(), watcher, progress);
        if let Some(signals) = signals {
            signals.end(py);
        }
        ended
    }

    fn watch(
        &self,
        py: Python<'_>,
        signals: Option<&Signals>,
        mut watcher: Option<&mut Watcher>,
        mut progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Option<PyErr>> {
        // A signal that came before we listened has left no byte.
        let mut interrupted = self.interruption(py);
        let mut stopped_ns = None;
        let mut shown = Instant::now();
        loop {
            let show_at = progress.as_ref().map(|_| shown + PROGRESS);
            match py.detach(|| self.next_event(signals, stopped_ns, watcher.as_deref_mut(), show_at)) {
                Event::Over => return Ok(interrupted),
                Event::Progress => {
                    shown = Instant::now();
                    let line = watcher.as_ref().and_then(|watcher| watcher.line());
                    let failed =
                        progress.as_ref().zip(line).and_then(|(show, line)| show.call1((line,)).err());
                    match failed {
                        // A page that shows nothing more is no reason to bring the robot down; Ctrl-C is.
                        Some(error) if error.is_instance_of::<PyException>(py) => progress = None,
                        Some(error) => {
                            self.stop();
                            interrupted = Some(error);
                        }
                        None => {}
                    }
                }
                Event::Signal => interrupted = self.interruption(py).or(interrupted),
                Event::Hangs => {
                    if let Some(shared) = &self.shared {
                        shared.interrupt(py);
                    }
                    self.stop();
                    stopped_ns = Some(now_ns());
                }
                Event::Stuck => return Err(self.give_up(py)),
            }
        }
    }

    /// Has Python handle its signals; what a handler raises brings the robot down.
    fn interruption(&self, py: Python<'_>) -> Option<PyErr> {
        py.check_signals().err().inspect(|_| self.stop())
    }

    /// What next needs Python's lock. Waits without it, so that the loop never waits for us.
    fn next_event(
        &self,
        signals: Option<&Signals>,
        stopped_ns: Option<i64>,
        mut watcher: Option<&mut Watcher>,
        show_at: Option<Instant>,
    ) -> Event {
        let mut looked = Instant::now();
        loop {
            if let Some(watcher) = watcher.as_mut().filter(|_| looked.elapsed() >= Watcher::INTERVAL) {
                looked = Instant::now();
                let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
                run.iter_mut().for_each(|run| watcher.look(run));
            }
            let in_call_ns = self.shared.as_ref().map_or(0, |shared| shared.in_call_ns());
            // On a thread of its own the controller may still hang when the robot is long down.
            if in_call_ns == 0 && self.over() {
                return Event::Over;
            }
            if signals.is_some_and(Signals::came) {
                return Event::Signal;
            }
            if show_at.is_some_and(|at| Instant::now() >= at) {
                return Event::Progress;
            }
            match stopped_ns {
                None if in_call_ns > self.patience_ns => return Event::Hangs,
                Some(stopped_ns) if in_call_ns > 0 && now_ns() - stopped_ns > GIVE_UP_NS => {
                    return Event::Stuck;
                }
                _ => std::thread::sleep(LOOK),
            }
        }
    }

    /// Leaves the thread behind that is stuck in code that cannot be interrupted: the loop's, or, when the robot is
    /// down, the controller's own.
    fn give_up(&self, py: Python<'_>) -> PyErr {
        let servos = match self.taken() {
            Some(run) if run.is_over() => {
                // Ends the log; what is wrong with the run is reported here.
                let _ = py.detach(|| run.finish().map(drop));
                "robot was brought down"
            }
            run => {
                std::mem::forget(run);
                "servos have stopped by their own watchdogs"
            }
        };
        ControllerTimeout::new_err(format!(
            "the controller is stuck in code that Python cannot interrupt; its thread was left behind, and the {servos}"
        ))
    }

    /// Python raises it inside the controller without a text.
    fn explain_timeout(&self, py: Python<'_>, error: &PyErr) {
        if error.is_instance_of::<ControllerTimeout>(py) {
            let text = format!(
                "the controller did not return within {} s (patience)",
                self.patience_ns as f64 / 1e9
            );
            let _ = error.value(py).setattr("args", (text,));
        }
    }

    /// The figures of `khz run --json`, where the simulated trunk ended, and the time in Python and our own around it.
    fn summary(&self, figures: &RunSummary) -> Value {
        let mut summary = serde_json::to_value(figures).unwrap_or(Value::Null);
        let trunk = self.world_end.as_ref().and_then(|end| end.get()?.trunk);
        summary["trunk"] = json!(trunk.map(|position| json!({ "position": position })));
        if let Some((call, overhead)) = self.shared.as_ref().and_then(|shared| shared.times()) {
            summary["python_ns"] = json!(call.summary());
            summary["overhead_ns"] = json!(overhead.summary());
        }
        summary
    }

    fn with<T>(&self, ask: impl FnOnce(&kilohertz::Run) -> T) -> PyResult<T> {
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        let run = run.as_ref().ok_or_else(|| ClosedError::new_err("this run has been waited for"))?;
        Ok(ask(run))
    }

    /// The run, once.
    fn taken(&self) -> Option<Box<kilohertz::Run>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn with_page<T: Send>(&self, py: Python<'_>, ask: impl FnOnce(&ReportPage) -> T + Send) -> PyResult<T> {
        let page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        let page =
            page.as_ref().ok_or_else(|| KilohertzError::new_err("this run has not been waited for"))?;
        Ok(py.detach(|| ask(page)))
    }

    fn operator(&self) -> PyResult<&Mutex<Operator>> {
        self.with(|_| ())?;
        let text = "this robot runs its own controller: start it with `start_beside` to command it from here";
        self.operator.as_ref().ok_or_else(|| KilohertzError::new_err(text))
    }

    fn own_process(&self) -> PyResult<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        let text = "this process was forked from the one that runs the robot, and has no loop; start robots after forking";
        Err(KilohertzError::new_err(text))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop();
        let run = self.taken();
        if std::process::id() != self.process {
            // The threads it would wait for are the parent's.
            std::mem::forget(run);
        } else if run.is_some() {
            // It waits for a loop that may need the interpreter lock.
            Python::attach(|py| py.detach(|| drop(run)));
        }
    }
}
