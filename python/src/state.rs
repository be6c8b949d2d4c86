//! What a controller sees and sets: NumPy arrays made once and rewritten in place every tick.

use crate::error::CommandError;
use crate::joint::{JointCommand, JointState, index};
use crate::parameter::Parameters;
use khz_loop::{PositionCommand, RobotState, ServoCommand};
use khz_robot::plain::{self, DAMP, POSITION, STOP, VELOCITY, Wrong};
use numpy::{Element, PyArray1, PyArrayMethods};
use pyo3::prelude::*;

/// One-dimensional NumPy array.
pub type Array<T> = Py<PyArray1<T>>;

/// The robot as of its newest replies. The arrays have one item per servo, in the order of the robot file; the
/// loop rewrites them in place, so keep a copy (`state.position.copy()`) of what is to stay.
#[pyclass(module = "kilohertz")]
pub struct State {
    /// The names of the servos.
    pub(crate) names: Vec<String>,
    /// Number of this tick, from 0.
    #[pyo3(get)]
    tick: u64,
    /// Seconds since the first tick, by the plan.
    #[pyo3(get)]
    time: f64,
    /// The period in seconds: the `dt` a controller integrates with.
    #[pyo3(get)]
    dt: f64,
    /// Joint positions, rad. NaN before the first reply.
    #[pyo3(get)]
    pub(crate) position: Array<f64>,
    /// Joint velocities, rad/s.
    #[pyo3(get)]
    pub(crate) velocity: Array<f64>,
    /// Joint torques, N·m.
    #[pyo3(get)]
    pub(crate) torque: Array<f64>,
    /// Supply, V.
    #[pyo3(get)]
    pub(crate) voltage: Array<f64>,
    /// Board temperature, °C.
    #[pyo3(get)]
    pub(crate) temperature: Array<f64>,
    /// Age of the values, s; inf before the first reply.
    #[pyo3(get)]
    pub(crate) age: Array<f64>,
    /// What the servos are doing: `kilohertz.Doing`.
    #[pyo3(get)]
    pub(crate) doing: Array<u8>,
    /// The same as the servo's family numbers it; of a moteus its mode register.
    #[pyo3(get)]
    pub(crate) mode: Array<u8>,
    /// The fault code of the servo's family; 0: none.
    #[pyo3(get)]
    pub(crate) fault: Array<u32>,
    /// The reply answers this tick's query.
    #[pyo3(get)]
    pub(crate) fresh: Array<bool>,
    /// Attitude as a unit quaternion w, x, y, z (body → world); NaN without IMU.
    #[pyo3(get)]
    pub(crate) attitude: Array<f64>,
    /// Angular rate of the body, rad/s.
    #[pyo3(get)]
    pub(crate) rate: Array<f64>,
    /// Acceleration of the body without gravity, m/s².
    #[pyo3(get)]
    acceleration: Array<f64>,
    /// Age of the IMU's reading, s; inf without one.
    #[pyo3(get)]
    imu_age: f64,
    /// What a person steering the robot asks for.
    #[pyo3(get)]
    teleop: Py<Teleop>,
    /// The controller's parameters: a mapping of their names and the values this tick uses.
    #[pyo3(get)]
    pub(crate) parameters: Py<Parameters>,
    /// The `now_ns` of the state it was filled with.
    filled_ns: i64,
}

impl State {
    /// Arrays for these servos, nothing known yet.
    pub fn new(py: Python<'_>, names: &[String]) -> PyResult<Self> {
        let servos = names.len();
        Ok(Self {
            names: names.to_vec(),
            tick: 0,
            time: 0.0,
            dt: 0.0,
            position: read_only(py, servos)?,
            velocity: read_only(py, servos)?,
            torque: read_only(py, servos)?,
            voltage: read_only(py, servos)?,
            temperature: read_only(py, servos)?,
            age: read_only(py, servos)?,
            doing: read_only(py, servos)?,
            mode: read_only(py, servos)?,
            fault: read_only(py, servos)?,
            fresh: read_only(py, servos)?,
            attitude: read_only(py, 4)?,
            rate: read_only(py, 3)?,
            acceleration: read_only(py, 3)?,
            imu_age: f64::INFINITY,
            teleop: Py::new(py, Teleop::of(&khz_loop::Teleop::NONE))?,
            parameters: Py::new(py, Parameters(Vec::new()))?,
            filled_ns: i64::MIN,
        })
    }

    /// Takes over a new state. Allocates nothing.
    ///
    /// # Errors
    /// Never, unless Python code has found a way to borrow `teleop` for good.
    pub fn fill(&mut self, py: Python<'_>, state: &RobotState) -> PyResult<()> {
        if std::mem::replace(&mut self.filled_ns, state.now_ns) == state.now_ns {
            // The module before has filled it.
            return Ok(());
        }
        let servos = || state.servos.iter();
        (self.tick, self.time, self.dt) = (state.tick, state.time(), state.dt());
        write(py, &self.position, servos().map(|servo| servo.position));
        write(py, &self.velocity, servos().map(|servo| servo.velocity));
        write(py, &self.torque, servos().map(|servo| servo.torque));
        write(py, &self.voltage, servos().map(|servo| servo.voltage));
        write(py, &self.temperature, servos().map(|servo| servo.temperature));
        write(py, &self.age, servos().map(|servo| seconds(servo.age_ns(state.now_ns))));
        write(py, &self.doing, servos().map(|servo| servo.doing as u8));
        write(py, &self.mode, servos().map(|servo| servo.mode.number));
        write(py, &self.fault, servos().map(|servo| servo.fault.code));
        write(py, &self.fresh, servos().map(|servo| servo.fresh));
        if let Some(imu) = &state.imu {
            write(py, &self.attitude, imu.sample.attitude.into_iter());
            write(py, &self.rate, imu.sample.rate.into_iter());
            write(py, &self.acceleration, imu.sample.acceleration.into_iter());
            self.imu_age = seconds(imu.age_ns(state.now_ns));
        }
        *self.teleop.try_borrow_mut(py)? = Teleop::of(&state.teleop);
        Ok(())
    }
}

#[pymethods]
impl State {
    /// One joint by its name.
    fn __getitem__(slf: Bound<'_, Self>, name: &str) -> PyResult<JointState> {
        let index = index(&slf.try_borrow()?.names, name)?;
        Ok(JointState::new(slf.unbind(), index))
    }

    /// The names of the servos, in the order of the arrays. A new list with each call.
    #[getter]
    fn servos(&self) -> Vec<String> {
        self.names.clone()
    }

    fn __repr__(&self) -> String {
        format!("<State: tick {}, {:.3} s, of {}>", self.tick, self.time, self.names.join(", "))
    }
}

/// What a person steering the robot asks for, within the limits of `[teleop]`: zero everywhere but in `age` once the newest input is
/// older than 0.3 s.
#[pyclass(module = "kilohertz")]
pub struct Teleop {
    /// Velocity forwards, m/s.
    #[pyo3(get)]
    forward: f64,
    /// Velocity to the left, m/s.
    #[pyo3(get)]
    left: f64,
    /// Rate of turning, rad/s; to the left is positive.
    #[pyo3(get)]
    turn: f64,
    /// Height of the body above its usual one, m.
    #[pyo3(get)]
    height: f64,
    /// Roll of the body, rad.
    #[pyo3(get)]
    roll: f64,
    /// Pitch of the body, rad.
    #[pyo3(get)]
    pitch: f64,
    /// How long ago the person decided this, s; inf before the first input.
    #[pyo3(get)]
    age: f64,
}

impl Teleop {
    fn of(teleop: &khz_loop::Teleop) -> Self {
        let khz_loop::Teleop { forward, left, turn, height, roll, pitch, age_ns } = *teleop;
        Self { forward, left, turn, height, roll, pitch, age: seconds(age_ns) }
    }
}

#[pymethods]
impl Teleop {
    fn __repr__(&self) -> String {
        let Self { forward, left, turn, age, .. } = self;
        format!("<Teleop: {forward} m/s forwards, {left} m/s to the left, {turn} rad/s, {age:.3} s old>")
    }
}

/// What each servo is to do next. The arrays have one item per servo, in the order of the robot file, and keep
/// their values from tick to tick. Assigning to one (`command.position = 0.0`) fills it.
#[pyclass(frozen, module = "kilohertz")]
pub struct Command {
    pub(crate) names: Vec<String>,
    pub(crate) mode: Array<u8>,
    pub(crate) position: Array<f64>,
    pub(crate) velocity: Array<f64>,
    pub(crate) torque: Array<f64>,
    pub(crate) kp_scale: Array<f64>,
    pub(crate) kd_scale: Array<f64>,
    pub(crate) max_torque: Array<f64>,
}

#[pymethods]
impl Command {
    /// One joint by its name.
    fn __getitem__(slf: Bound<'_, Self>, name: &str) -> PyResult<JointCommand> {
        let index = index(&slf.get().names, name)?;
        Ok(JointCommand::new(slf.unbind(), index))
    }

    fn __repr__(&self) -> String {
        format!("<Command: for {}>", self.names.join(", "))
    }

    /// What each servo is to do: `Mode.STOP`, `DAMP`, `POSITION` or `VELOCITY`.
    #[getter]
    fn mode(&self, py: Python<'_>) -> Array<u8> {
        self.mode.clone_ref(py)
    }

    #[setter]
    fn set_mode(&self, py: Python<'_>, value: Bound<'_, PyAny>) -> PyResult<()> {
        assign(py, &self.mode, &value)
    }

    /// Target positions, rad.
    #[getter]
    fn position(&self, py: Python<'_>) -> Array<f64> {
        self.position.clone_ref(py)
    }

    #[setter]
    fn set_position(&self, py: Python<'_>, value: Bound<'_, PyAny>) -> PyResult<()> {
        assign(py, &self.position, &value)
    }

    /// Target velocities, rad/s.
    #[getter]
    fn velocity(&self, py: Python<'_>) -> Array<f64> {
        self.velocity.clone_ref(py)
    }

    #[setter]
    fn set_velocity(&self, py: Python<'_>, value: Bound<'_, PyAny>) -> PyResult<()> {
        assign(py, &self.velocity, &value)
    }

    /// Feed-forward torques, N·m.
    #[getter]
    fn torque(&self, py: Python<'_>) -> Array<f64> {
        self.torque.clone_ref(py)
    }

    #[setter]
    fn set_torque(&self, py: Python<'_>, value: Bound<'_, PyAny>) -> PyResult<()> {
        assign(py, &self.torque, &value)
    }

    /// Fractions of the servos' position gains, 0–1.
    #[getter]
    fn kp_scale(&self, py: Python<'_>) -> Array<f64> {
        self.kp_scale.clone_ref(py)
    }

    #[setter]
    fn set_kp_scale(&self, py: Python<'_>, value: Bound<'_, PyAny>) -> PyResult<()> {
        assign(py, &self.kp_scale, &value)
    }

    /// Fractions of the servos' velocity gains, 0–1.
    #[getter]
    fn kd_scale(&self, py: Python<'_>) -> Array<f64> {
        self.kd_scale.clone_ref(py)
    }

    #[setter]
    fn set_kd_scale(&self, py: Python<'_>, value: Bound<'_, PyAny>) -> PyResult<()> {
        assign(py, &self.kd_scale, &value)
    }

    /// Largest torques, N·m; NaN: the servo's own limit.
    #[getter]
    fn max_torque(&self, py: Python<'_>) -> Array<f64> {
        self.max_torque.clone_ref(py)
    }

    #[setter]
    fn set_max_torque(&self, py: Python<'_>, value: Bound<'_, PyAny>) -> PyResult<()> {
        assign(py, &self.max_torque, &value)
    }
}

impl Command {
    /// Arrays for these servos; they hold position 0 until [`Command::hold`].
    pub fn new(py: Python<'_>, names: &[String]) -> Self {
        let filled = |value: f64| PyArray1::from_vec(py, vec![value; names.len()]).unbind();
        Self {
            names: names.to_vec(),
            mode: PyArray1::from_vec(py, vec![POSITION; names.len()]).unbind(),
            position: filled(0.0),
            velocity: filled(0.0),
            torque: filled(0.0),
            kp_scale: filled(1.0),
            kd_scale: filled(1.0),
            max_torque: filled(f64::NAN),
        }
    }

    /// Makes it the command to switch every output off.
    pub fn stop(&self, py: Python<'_>) {
        write(py, &self.mode, self.names.iter().map(|_| STOP));
    }

    /// Makes it the command to stay where the robot is. Allocates nothing.
    pub fn hold(&self, py: Python<'_>, state: &RobotState) {
        let each = |value| state.servos.iter().map(move |_| value);
        write(py, &self.mode, state.servos.iter().map(|_| POSITION));
        write(py, &self.position, state.servos.iter().map(|servo| servo.position));
        write(py, &self.velocity, each(0.0));
        write(py, &self.torque, each(0.0));
        write(py, &self.kp_scale, each(1.0));
        write(py, &self.kd_scale, each(1.0));
        write(py, &self.max_torque, each(f64::NAN));
    }

    /// Makes it the given commands. Where a servo follows no position, that is where it is. Allocates nothing.
    pub fn fill(&self, py: Python<'_>, state: &RobotState, commands: &[ServoCommand]) {
        let targets = || {
            commands.iter().zip(&state.servos).map(|(command, servo)| match command {
                ServoCommand::Stop => (STOP, PositionCommand::hold(servo.position)),
                ServoCommand::Damp => (DAMP, PositionCommand::hold(servo.position)),
                ServoCommand::Position(target) if target.position.is_nan() => {
                    (VELOCITY, PositionCommand { position: servo.position, ..*target })
                }
                ServoCommand::Position(target) => (POSITION, *target),
            })
        };
        write(py, &self.mode, targets().map(|(mode, _)| mode));
        write(py, &self.position, targets().map(|(_, target)| target.position));
        let velocity = |target: PositionCommand| if target.velocity.is_nan() { 0.0 } else { target.velocity };
        write(py, &self.velocity, targets().map(|(_, target)| velocity(target)));
        write(py, &self.torque, targets().map(|(_, target)| target.torque));
        write(py, &self.kp_scale, targets().map(|(_, target)| target.kp_scale));
        write(py, &self.kd_scale, targets().map(|(_, target)| target.kd_scale));
        write(py, &self.max_torque, targets().map(|(_, target)| target.max_torque));
    }

    /// Takes the commands out of the arrays. Allocates nothing unless something is wrong.
    ///
    /// # Errors
    /// `CommandError` naming servo, field and value; `ValueError` if an array was resized.
    pub fn read(&self, py: Python<'_>, commands: &mut [ServoCommand]) -> PyResult<()> {
        let mode = self.mode.bind(py).try_readonly()?;
        let mode = mode.as_slice()?;
        let fields =
            [&self.position, &self.velocity, &self.torque, &self.kp_scale, &self.kd_scale, &self.max_torque];
        for (index, command) in commands.iter_mut().enumerate() {
            let mut values = [0.0; 6];
            for (value, field) in values.iter_mut().zip(fields) {
                *value = item(py, field, index)?;
            }
            let mode = mode.get(index).copied().unwrap_or(STOP);
            let [position, velocity, torque, kp_scale, kd_scale, max_torque] = values;
            let target = PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque };
            *command = plain::read(mode, target).map_err(|wrong| self.error_of(index, wrong))?;
        }
        Ok(())
    }

    fn error_of(&self, index: usize, wrong: Wrong) -> PyErr {
        let name = self.names.get(index).map_or("?", String::as_str);
        CommandError::new_err(format!("{name}: {wrong}"))
    }
}

/// An array only we write to.
fn read_only<T: Element + Default>(py: Python<'_>, len: usize) -> PyResult<Array<T>> {
    let array = PyArray1::from_vec(py, (0..len).map(|_| T::default()).collect());
    array.getattr("flags")?.setattr("writeable", false)?;
    Ok(array.unbind())
}

/// Overwrites an array from the front.
fn write<T: Element>(py: Python<'_>, array: &Array<T>, values: impl Iterator<Item = T>) {
    // SAFETY: Python cannot run meanwhile, because we hold its lock (`py`), and no other view of the array
    // exists in Rust.
    let slice = unsafe { array.bind(py).as_slice_mut() };
    if let Ok(slice) = slice {
        slice.iter_mut().zip(values).for_each(|(slot, value)| *slot = value);
    }
}

/// One number of an array.
fn item(py: Python<'_>, array: &Array<f64>, index: usize) -> PyResult<f64> {
    array.bind(py).get_owned(index).ok_or_else(|| {
        pyo3::exceptions::PyValueError::new_err(
            "a command array was resized; assign to it instead: command.position = …",
        )
    })
}

/// `array[...] = value`: NumPy checks shape and type, and spreads one value over all servos.
fn assign<T: Element>(py: Python<'_>, array: &Array<T>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    array.bind(py).set_item(py.Ellipsis(), value)
}

fn seconds(ns: i64) -> f64 {
    if ns == i64::MAX { f64::INFINITY } else { ns as f64 * 1e-9 }
}
