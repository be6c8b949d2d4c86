//! One joint of a state or a command, by its name: `state["hip"].position`.

use crate::state::{Array, Command, State};
use numpy::{Element, PyArrayMethods};
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;

/// One joint of a state; always that state's newest values.
#[pyclass(frozen, module = "kilohertz")]
pub struct JointState {
    state: Py<State>,
    index: usize,
}

/// One joint of a command.
#[pyclass(frozen, module = "kilohertz")]
pub struct JointCommand {
    command: Py<Command>,
    index: usize,
}

/// The index of a joint.
///
/// # Errors
/// `KeyError` with the names there are.
pub fn index(names: &[String], name: &str) -> PyResult<usize> {
    names.iter().position(|other| other == name).ok_or_else(|| {
        PyKeyError::new_err(format!("no servo is called {name:?}; there are: {}", names.join(", ")))
    })
}

fn get<T: Element>(py: Python<'_>, array: &Array<T>, index: usize) -> PyResult<T> {
    array.bind(py).get_owned(index).ok_or_else(|| PyIndexError::new_err("the array was resized"))
}

impl JointState {
    /// The joint at `index` of `state`.
    pub fn new(state: Py<State>, index: usize) -> Self {
        Self { state, index }
    }

    fn get<T: Element>(&self, py: Python<'_>, field: fn(&State) -> &Array<T>) -> PyResult<T> {
        get(py, field(&*self.state.try_borrow(py)?), self.index)
    }
}

#[pymethods]
impl JointState {
    /// Joint position, rad.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<f64> {
        self.get(py, |state| &state.position)
    }

    /// Joint velocity, rad/s.
    #[getter]
    fn velocity(&self, py: Python<'_>) -> PyResult<f64> {
        self.get(py, |state| &state.velocity)
    }

    /// Joint torque, N·m.
    #[getter]
    fn torque(&self, py: Python<'_>) -> PyResult<f64> {
        self.get(py, |state| &state.torque)
    }

    /// Supply, V.
    #[getter]
    fn voltage(&self, py: Python<'_>) -> PyResult<f64> {
        self.get(py, |state| &state.voltage)
    }

    /// Board temperature, °C.
    #[getter]
    fn temperature(&self, py: Python<'_>) -> PyResult<f64> {
        self.get(py, |state| &state.temperature)
    }

    /// Age of the values, s; inf before the first reply.
    #[getter]
    fn age(&self, py: Python<'_>) -> PyResult<f64> {
        self.get(py, |state| &state.age)
    }

    /// What the servo is doing: `kilohertz.Doing`.
    #[getter]
    fn doing(&self, py: Python<'_>) -> PyResult<u8> {
        self.get(py, |state| &state.doing)
    }

    /// The same as the servo's family numbers it.
    #[getter]
    fn mode(&self, py: Python<'_>) -> PyResult<u8> {
        self.get(py, |state| &state.mode)
    }

    /// The fault code of the servo's family; 0: none.
    #[getter]
    fn fault(&self, py: Python<'_>) -> PyResult<u32> {
        self.get(py, |state| &state.fault)
    }

    /// The reply answers this tick's query.
    #[getter]
    fn fresh(&self, py: Python<'_>) -> PyResult<bool> {
        self.get(py, |state| &state.fresh)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = self.state.try_borrow(py)?.names[self.index].clone();
        let [position, velocity, torque] = [self.position(py)?, self.velocity(py)?, self.torque(py)?];
        Ok(format!("<JointState {name}: {position:.4} rad, {velocity:.4} rad/s, {torque:.4} N·m>"))
    }
}

impl JointCommand {
    /// The joint at `index` of `command`.
    pub fn new(command: Py<Command>, index: usize) -> Self {
        Self { command, index }
    }

    fn set(&self, py: Python<'_>, array: &Array<f64>, value: f64) -> PyResult<()> {
        array.bind(py).set_item(self.index, value)
    }
}

#[pymethods]
impl JointCommand {
    /// What the servo is to do: `Mode.STOP`, `DAMP`, `POSITION` or `VELOCITY`.
    #[getter]
    fn mode(&self, py: Python<'_>) -> PyResult<u8> {
        get(py, &self.command.get().mode, self.index)
    }

    #[setter]
    fn set_mode(&self, py: Python<'_>, value: u8) -> PyResult<()> {
        self.command.get().mode.bind(py).set_item(self.index, value)
    }

    /// Target position, rad.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<f64> {
        get(py, &self.command.get().position, self.index)
    }

    #[setter]
    fn set_position(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        self.set(py, &self.command.get().position, value)
    }

    /// Target velocity, rad/s.
    #[getter]
    fn velocity(&self, py: Python<'_>) -> PyResult<f64> {
        get(py, &self.command.get().velocity, self.index)
    }

    #[setter]
    fn set_velocity(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        self.set(py, &self.command.get().velocity, value)
    }

    /// Feed-forward torque, N·m.
    #[getter]
    fn torque(&self, py: Python<'_>) -> PyResult<f64> {
        get(py, &self.command.get().torque, self.index)
    }

    #[setter]
    fn set_torque(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        self.set(py, &self.command.get().torque, value)
    }

    /// Fraction of the servo's position gain, 0–1.
    #[getter]
    fn kp_scale(&self, py: Python<'_>) -> PyResult<f64> {
        get(py, &self.command.get().kp_scale, self.index)
    }

    #[setter]
    fn set_kp_scale(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        self.set(py, &self.command.get().kp_scale, value)
    }

    /// Fraction of the servo's velocity gain, 0–1.
    #[getter]
    fn kd_scale(&self, py: Python<'_>) -> PyResult<f64> {
        get(py, &self.command.get().kd_scale, self.index)
    }

    #[setter]
    fn set_kd_scale(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        self.set(py, &self.command.get().kd_scale, value)
    }

    /// Largest torque, N·m; NaN: the servo's own limit.
    #[getter]
    fn max_torque(&self, py: Python<'_>) -> PyResult<f64> {
        get(py, &self.command.get().max_torque, self.index)
    }

    #[setter]
    fn set_max_torque(&self, py: Python<'_>, value: f64) -> PyResult<()> {
        self.set(py, &self.command.get().max_torque, value)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = &self.command.get().names[self.index];
        let [position, velocity, torque] = [self.position(py)?, self.velocity(py)?, self.torque(py)?];
        Ok(format!("<JointCommand {name}: {position:.4} rad, {velocity:.4} rad/s, {torque:.4} N·m>"))
    }
}
