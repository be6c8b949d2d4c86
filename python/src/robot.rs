//! A robot, as its file describes it, and how a run of it begins.

use crate::beside::{Beside, Operator, Window};
use crate::connection::Connection;
use crate::control::{self, Shared};
use crate::emulated;
use crate::error::{ConfigError, cannot_start};
use crate::injected::{Injected, Outside};
use crate::mapped::Mapped;
use crate::run::{Ends, Run};
use crate::stepper::{self, Stepper};
use crate::steppers::Steppers;
use crate::times::nanoseconds;
use khz_file::RobotConfig;
use khz_file::config::{self, ControllerConfig, ControllerKind, QUADRUPED, ServoConfig};
use khz_loop::Controller;
use khz_loop::timing::Clock;
use khz_robot::assemble::{AssembleError, Links, open_links};
use khz_robot::launch::OpenLinks;
use khz_robot::viewer;
use kilohertz::Overrides;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;

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
        let Parts { shared, operator, window, patience_ns, duration, view: shown_at } = parts;
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
        options.duration_ns = duration.map(|duration| nanoseconds("duration", duration)).transpose()?;
        robot = window.into_iter().fold(robot, kilohertz::Robot::observer);
        if let Some(wanted) = shown_at {
            robot = robot.view(view(wanted)?);
        }
        let run = py.detach(|| robot.start()).map_err(cannot_start)?;
        let ends = Ends { shared, operator, patience_ns, outside: receiver.try_recv().ok().flatten() };
        Ok(Run::new(run, self.servos(), ends))
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
