//! An emulated robot that Python steps, from decision to decision.

use crate::error::{ConfigError, KilohertzError, StartError};
use crate::injected::fault;
use crate::shared::Shared;
use crate::state::{Command, State};
use khz_emu::Trunk;
use khz_file::RobotConfig;
use khz_file::config::{RobotBody, Variable};
use khz_loop::ServoCommand;
use khz_loop::tick::Machine;
use khz_robot::assemble::open_links;
use khz_robot::stepped::Stepped;
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Mutex, PoisonError};

/// What a decision may take at most, in ticks: a day at 1 kHz.
const MOST_TICKS: u32 = 86_400_000;

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
        let what: Variable = name.parse().map_err(PyValueError::new_err)?;
        config.vary(what, *value).map_err(PyValueError::new_err)?;
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

/// Whether a robot file may say that.
///
/// # Errors
/// `ConfigError` with what is wrong.
pub fn check(config: &RobotConfig) -> PyResult<()> {
    config.checked().map(drop).map_err(|error| ConfigError::new_err(error.to_string()))
}

/// What happened since the last decision.
#[derive(Clone, Copy, Default)]
struct Since {
    missed: u32,
    late: u32,
    /// Work of all servos by what they measured, without regard to its sign, J.
    energy: f64,
    /// Seconds.
    lasted: f64,
}

/// An emulated robot that stands still between two calls, just before its controller is to decide.
#[pyclass(module = "kilohertz")]
pub struct Stepper {
    inner: Mutex<Inner>,
    world: Shared,
    names: Vec<String>,
    /// The robot as of its newest replies; rewritten by `advance`.
    #[pyo3(get)]
    state: Py<State>,
    /// What each servo is to do in the ticks that `advance` runs.
    #[pyo3(get)]
    command: Py<Command>,
}

struct Inner {
    stepped: Stepped,
    commands: Vec<ServoCommand>,
    since: Since,
    /// The trunk when the last decision was taken.
    trunk: Trunk,
    /// When the robot came under control, s.
    begun_s: f64,
}

impl Stepper {
    /// A robot under control, or one that did not come so far.
    pub fn start(py: Python<'_>, config: &RobotConfig, names: &[String]) -> PyResult<Self> {
        let started = py.detach(|| {
            let mut world = None;
            let links = open_links(config, |made| {
                let shared = Shared::new(made);
                world = Some(shared.clone());
                Box::new(shared)
            });
            let links = links.map_err(|error| StartError::new_err(error.to_string()))?;
            let stepped = Stepped::start(config, links);
            stepped.map(|stepped| (stepped, world)).map_err(|error| StartError::new_err(error.to_string()))
        });
        let (stepped, world) = started?;
        let world = world.ok_or_else(|| KilohertzError::new_err("this robot has no emulated devices"))?;
        let state = Py::new(py, State::new(py, names)?)?;
        let command = Py::new(py, Command::new(py, names))?;
        state.try_borrow_mut(py)?.fill(py, stepped.machine().state())?;
        command.get().hold(py, stepped.machine().state());
        let commands = vec![ServoCommand::Stop; names.len()];
        let begun_s = stepped.machine().state().time();
        let trunk = world.ask(|world| world.body().trunk());
        let inner = Mutex::new(Inner { stepped, commands, since: Since::default(), trunk, begun_s });
        Ok(Self { inner, world, names: names.to_vec(), state, command })
    }

    fn machine<T>(&self, ask: impl FnOnce(&Machine) -> T) -> T {
        ask(self.inner.lock().unwrap_or_else(PoisonError::into_inner).stepped.machine())
    }
}

#[pymethods]
impl Stepper {
    /// Runs so many ticks under `command`, fewer if the supervisor takes over; returns how many.
    fn advance(&self, py: Python<'_>, ticks: u32) -> PyResult<u32> {
        if ticks > MOST_TICKS {
            return Err(PyValueError::new_err(format!("{ticks} ticks; at most {MOST_TICKS}")));
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { stepped, commands, since, trunk, .. } = &mut *inner;
        self.command.get().read(py, commands)?;
        let done = py.detach(|| {
            *since = Since::default();
            *trunk = self.world.ask(|world| world.body().trunk());
            stepped.advance(commands, ticks, |machine| since.count(machine))
        });
        self.state.try_borrow_mut(py)?.fill(py, inner.stepped.machine().state())?;
        Ok(done)
    }

    /// What happened in the last `advance`, as `kilohertz.Env` tells it.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, since) = (inner.stepped.machine().state(), inner.since);
        let info = PyDict::new(py);
        info.set_item("time", state.time() - inner.begun_s)?;
        let faults = PyDict::new(py);
        let mut faulted = state.servos.iter().zip(&self.names).filter(|(servo, _)| servo.fault.code != 0);
        faulted.try_for_each(|(servo, name)| faults.set_item(name, servo.fault.code))?;
        info.set_item("faults", faults)?;
        info.set_item("missed", since.missed)?;
        info.set_item("late", since.late)?;
        let power = if since.lasted > 0.0 { since.energy / since.lasted } else { 0.0 };
        info.set_item("power", power)?;
        // What a body does that moves no more is nobody's speed.
        let now = self.world.ask(|world| {
            let body = world.body();
            (body.has_trunk() && body.failed().is_none()).then(|| body.trunk())
        });
        let (now, velocity) = match now {
            Some(now) => (now, velocity(&inner.trunk, &now, since.lasted)),
            None => (Trunk::UPRIGHT, [0.0; 3]),
        };
        let numbers = |numbers: &[f64]| PyArray1::from_slice(py, numbers);
        info.set_item("position", numbers(&now.position))?;
        info.set_item("attitude", numbers(&now.attitude))?;
        info.set_item("velocity", numbers(&velocity))?;
        info.set_item("rate", numbers(&now.rate))?;
        Ok(info)
    }

    /// What is commanded reaches the servos.
    #[getter]
    fn active(&self) -> bool {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).stepped.is_active()
    }

    /// The simulated body cannot go on.
    #[getter]
    fn failed(&self) -> bool {
        self.world.ask(|world| world.body().failed().is_some())
    }

    /// What ended the control, or kept the robot from coming under it.
    #[getter]
    fn end(&self) -> Option<String> {
        let failed = self.world.ask(|world| world.body().failed().map(str::to_owned));
        let blame = self.machine(|machine| {
            let supervisor = machine.supervisor();
            supervisor.blame().or(supervisor.lack()).map(|cause| cause.to_string())
        });
        failed.map(|why| format!("the simulated body moves no more: {why}")).or(blame)
    }

    /// Of the simulated trunk the cosine of its tilt, and its height in m; `None` if the body has none.
    #[getter]
    fn posture(&self) -> Option<(f64, f64)> {
        self.world.ask(|world| {
            let Trunk { position, attitude: [_, x, y, _], .. } = world.body().trunk();
            world.body().has_trunk().then_some((1.0 - 2.0 * (x * x + y * y), position[2]))
        })
    }

    /// The simulated joints, rad.
    #[getter]
    fn joints<'py>(&self, py: Python<'py>) -> Numbers<'py> {
        self.world
            .ask(|world| PyArray1::from_iter(py, world.body().joints().iter().map(|joint| joint.position)))
    }

    /// Positions and velocities of all joints of the model, as MuJoCo orders them; `None` without a model.
    #[getter]
    fn model_state<'py>(&self, py: Python<'py>) -> Option<(Numbers<'py>, Numbers<'py>)> {
        self.world.ask(|world| {
            let (position, velocity) = world.body().model_state()?;
            Some((PyArray1::from_slice(py, position), PyArray1::from_slice(py, velocity)))
        })
    }

    /// Puts a fault into the emulated devices.
    #[pyo3(signature = (kind, servo=0, value=0.0))]
    fn inject(&self, kind: &str, servo: usize, value: f64) -> PyResult<()> {
        let fault = fault(kind, servo, value)?;
        let now_ns = self.machine(|machine| machine.state().now_ns);
        self.world.ask(|world| fault.put_into(world, now_ns));
        Ok(())
    }
}

impl Since {
    fn count(&mut self, machine: &Machine) {
        let dt = machine.state().dt();
        let result = machine.result();
        self.missed += u32::from(result.missed);
        self.late += result.late;
        self.lasted += dt;
        let servos = machine.state().servos.iter();
        let power: f64 = servos.map(|servo| (servo.torque * servo.velocity).abs()).sum();
        // Not every servo tells its torque.
        self.energy += if power.is_finite() { power * dt } else { 0.0 };
    }
}

/// From one place to another: forwards, to the left and up, m/s.
fn velocity(before: &Trunk, now: &Trunk, seconds: f64) -> [f64; 3] {
    if seconds <= 0.0 {
        return [0.0; 3];
    }
    let [x, y, up]: [f64; 3] =
        std::array::from_fn(|axis| (now.position[axis] - before.position[axis]) / seconds);
    let (aside, ahead) = before.yaw().sin_cos();
    [ahead * x + aside * y, ahead * y - aside * x, up]
}
