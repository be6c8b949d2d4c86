//! An emulated robot that Python steps, from decision to decision.

use crate::emulated::{Emulated, policy};
use crate::error::ConfigError;
use crate::injected::fault;
use crate::mapped::Mapped;
use crate::state::State;
use khz_file::RobotConfig;
use khz_file::config::{RobotBody, Variable};
use numpy::{AllowTypeChange, PyArray1, PyArrayLike1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a decision may take at most, in ticks: a day at 1 kHz.
pub const MOST_TICKS: u32 = 86_400_000;

/// A new array.
type Numbers<'py> = Bound<'py, PyArray1<f64>>;

/// A robot file with some of its values changed.
///
/// # Errors
/// `ValueError` if there is no such value, or none in this robot.
pub fn varied(
    config: &RobotConfig,
    values: &[(String, f64)],
    seed: Option<u64>,
    keyframe: Option<String>,
) -> PyResult<RobotConfig> {
    let mut config = config.clone();
    // What is sent and written beside a run is not for thousands of short ones.
    config.log.enabled = false;
    config.emulation.seed = seed.unwrap_or(config.emulation.seed);
    for (name, value) in values {
        if !value.is_finite() {
            return Err(PyValueError::new_err(format!("{name} is {value}; it is a number")));
        }
        let done = match name.split_once('.') {
            Some((servo, key)) => config.vary_joint(servo, key, *value),
            None => name.parse().and_then(|what: Variable| config.vary(what, *value)),
        };
        done.map_err(PyValueError::new_err)?;
    }
    match (&mut config.body, keyframe) {
        (_, None) => {}
        (Some(RobotBody::Mujoco(body)), keyframe) => body.keyframe = keyframe,
        _ => {
            let text = "a keyframe is of a MuJoCo model, and this robot has none ([body] kind = \"mujoco\")";
            return Err(PyValueError::new_err(text));
        }
    }
    Ok(config)
}

/// Whether a robot file may contain that.
///
/// # Errors
/// `ConfigError` with what is wrong.
pub fn check(config: &RobotConfig) -> PyResult<()> {
    config.checked().map(drop).map_err(|error| ConfigError::new_err(error.to_string()))
}

/// An emulated robot that Python steps, from decision to decision.
#[pyclass(module = "kilohertz")]
pub struct Stepper {
    robot: Mutex<Emulated>,
    names: Vec<String>,
    /// The robot as of its newest replies; rewritten by `decide`.
    #[pyo3(get)]
    state: Py<State>,
}

impl Stepper {
    /// A robot under control, or one that did not come so far; of its file's policy, if `by_policy` is set.
    pub fn start(
        py: Python<'_>,
        config: &RobotConfig,
        names: &[String],
        by_policy: bool,
        rise: Option<f64>,
    ) -> PyResult<Self> {
        let policy = by_policy.then(|| policy(config, rise)).transpose()?;
        let robot = py.detach(|| Emulated::start(config, policy))?;
        let state = Py::new(py, State::new(py, names)?)?;
        state.try_borrow_mut(py)?.fill(py, robot.state())?;
        Ok(Self { robot: Mutex::new(robot), names: names.to_vec(), state })
    }

    fn robot(&self) -> MutexGuard<'_, Emulated> {
        self.robot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Stepper {
    /// Carries out an action for so many ticks, fewer if the supervisor takes over.
    #[pyo3(signature = (action, ticks, mapped=None))]
    fn decide(
        &self,
        py: Python<'_>,
        action: PyArrayLike1<'_, f32, AllowTypeChange>,
        ticks: u32,
        mapped: Option<&Mapped>,
    ) -> PyResult<()> {
        if ticks > MOST_TICKS {
            return Err(PyValueError::new_err(format!("{ticks} ticks; at most {MOST_TICKS}")));
        }
        let action: Vec<f32> = action.as_array().iter().copied().collect();
        let mut guard = self.robot();
        let robot = &mut *guard;
        py.detach(|| robot.decide(&action, ticks, mapped))?;
        self.state.try_borrow_mut(py)?.fill(py, robot.state())
    }

    /// Gives the policy a signal, as of now.
    fn signal(&self, name: &str, value: f64) -> PyResult<()> {
        self.robot().signal(name, value)
    }

    /// So many numbers, of what is seen now; once after each decision.
    #[pyo3(signature = (size, mapped=None))]
    fn observe<'py>(
        &self,
        py: Python<'py>,
        size: usize,
        mapped: Option<&Mapped>,
    ) -> Bound<'py, PyArray1<f32>> {
        let mut seen = vec![0.0; size];
        self.robot().observe(mapped, &mut seen);
        PyArray1::from_vec(py, seen)
    }

    /// What happened in the last decision, as `kilohertz.Env` reports it.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let robot = self.robot();
        let outcome = robot.outcome();
        let info = PyDict::new(py);
        info.set_item("time", outcome.time)?;
        let faults = PyDict::new(py);
        let servos = robot.state().servos.iter().zip(&self.names);
        let mut faulted = servos.filter(|(servo, _)| servo.fault.code != 0);
        faulted.try_for_each(|(servo, name)| faults.set_item(name, servo.fault.code))?;
        info.set_item("faults", faults)?;
        info.set_item("missed", outcome.missed)?;
        info.set_item("late", outcome.late)?;
        info.set_item("power", outcome.power)?;
        let numbers = |numbers: &[f64]| PyArray1::from_slice(py, numbers);
        info.set_item("position", numbers(&outcome.position))?;
        info.set_item("attitude", numbers(&outcome.attitude))?;
        info.set_item("velocity", numbers(&outcome.velocity))?;
        info.set_item("rate", numbers(&outcome.rate))?;
        Ok(info)
    }

    /// What is commanded reaches the servos.
    #[getter]
    fn active(&self) -> bool {
        self.robot().is_active()
    }

    /// The simulated body cannot go on.
    #[getter]
    fn failed(&self) -> bool {
        self.robot().has_failed()
    }

    /// What ended the control, or kept the robot from coming under it.
    #[getter]
    fn end(&self) -> Option<String> {
        self.robot().end()
    }

    /// Of the simulated trunk the cosine of its tilt, and its height in m; `None` if the body has none.
    #[getter]
    fn posture(&self) -> Option<(f64, f64)> {
        self.robot().posture()
    }

    /// The simulated joints, rad.
    #[getter]
    fn joints<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        self.robot()
            .world()
            .ask(|world| PyArray1::from_iter(py, world.body().joints().iter().map(|joint| joint.position)))
    }

    /// Positions and velocities of all joints of the model, as MuJoCo orders them; `None` without a model.
    #[getter]
    fn model_state<'py>(&self, py: Python<'py>) -> Option<(Numbers<'py>, Numbers<'py>)> {
        self.robot().world().ask(|world| {
            let (position, velocity) = world.body().model_state()?;
            Some((PyArray1::from_slice(py, position), PyArray1::from_slice(py, velocity)))
        })
    }

    /// Puts a fault into the emulated devices.
    #[pyo3(signature = (kind, servo=0, value=0.0))]
    fn inject(&self, kind: &str, servo: usize, value: f64) -> PyResult<()> {
        let fault = fault(kind, servo, value)?;
        let robot = self.robot();
        let now_ns = robot.state().now_ns;
        robot.world().ask(|world| fault.put_into(world, now_ns));
        Ok(())
    }
}
