//! Controllers and modules of the Rust side, for chains with Python ones.

use khz_controllers::{Hold, LowPass, Sine, SineParameters, Slew, StandAndSquat, StandAndSquatParameters};
use khz_loop::Controller;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A module that runs in Rust: alone as a controller, or in a chain (`Robot.run({"name": module, …})`).
#[pyclass(frozen, module = "kilohertz")]
pub struct Module(Kind);

enum Kind {
    Hold,
    Sine(SineParameters),
    StandAndSquat(StandAndSquatParameters),
    LowPass { cutoff_hz: f64 },
    Slew { limit: f64 },
}

#[pymethods]
impl Module {
    /// Hold every joint where it was found.
    #[staticmethod]
    fn hold() -> Self {
        Self(Kind::Hold)
    }

    /// Swing every joint around where it was found by `amplitude` (rad), with a frequency that goes from `from_hz` to
    /// `to_hz` (Hz) in `sweep_s` seconds, again and again.
    #[staticmethod]
    #[pyo3(signature = (amplitude, from_hz, to_hz, sweep_s))]
    fn sine(amplitude: f64, from_hz: f64, to_hz: f64, sweep_s: f64) -> PyResult<Self> {
        let amplitude = at_least("amplitude", amplitude, 0.0)?;
        let (from_hz, to_hz) = (at_least("from_hz", from_hz, 0.0)?, at_least("to_hz", to_hz, 0.0)?);
        let sweep_s = above_zero("sweep_s", sweep_s)?;
        Ok(Self(Kind::Sine(SineParameters {
            amplitude,
            from_hz,
            to_hz,
            sweep_s,
            ..SineParameters::default()
        })))
    }

    /// A quadruped stands up and squats, or trots on the spot if feet are lifted. Legs are groups of three servos: hip,
    /// thigh, knee. Lengths in m, times in s.
    #[staticmethod]
    #[pyo3(signature = (*, link_m=0.15, stand_m=0.22, squat_m=0.06, rise_s=2.0, period_s=2.0, lift_m=0.0, step_s=0.4))]
    fn stand_and_squat(
        link_m: f64,
        stand_m: f64,
        squat_m: f64,
        rise_s: f64,
        period_s: f64,
        lift_m: f64,
        step_s: f64,
    ) -> PyResult<Self> {
        Ok(Self(Kind::StandAndSquat(StandAndSquatParameters {
            link_m: above_zero("link_m", link_m)?,
            stand_m: above_zero("stand_m", stand_m)?,
            squat_m: at_least("squat_m", squat_m, 0.0)?,
            rise_s: above_zero("rise_s", rise_s)?,
            period_s: above_zero("period_s", period_s)?,
            lift_m: at_least("lift_m", lift_m, 0.0)?,
            step_s: above_zero("step_s", step_s)?,
            ..StandAndSquatParameters::default()
        })))
    }

    /// A first-order low-pass filter on the positions, velocities and torques commanded so far; `cutoff_hz` in Hz.
    #[staticmethod]
    fn low_pass(cutoff_hz: f64) -> PyResult<Self> {
        Ok(Self(Kind::LowPass { cutoff_hz: above_zero("cutoff_hz", cutoff_hz)? }))
    }

    /// Lets no position commanded so far move faster than `limit` (rad/s).
    #[staticmethod]
    fn slew(limit: f64) -> PyResult<Self> {
        Ok(Self(Kind::Slew { limit: above_zero("limit", limit)? }))
    }
}

impl Module {
    /// A new one, at its beginning.
    pub fn make(&self) -> Box<dyn Controller> {
        match self.0 {
            Kind::Hold => Box::new(Hold::default()),
            Kind::Sine(parameters) => Box::new(Sine::new(parameters)),
            Kind::StandAndSquat(parameters) => Box::new(StandAndSquat::new(parameters)),
            Kind::LowPass { cutoff_hz } => Box::new(LowPass::new(cutoff_hz)),
            Kind::Slew { limit } => Box::new(Slew::new(limit)),
        }
    }
}

fn above_zero(name: &str, value: f64) -> PyResult<f64> {
    match at_least(name, value, 0.0)? {
        0.0 => Err(PyValueError::new_err(format!("{name} is 0; it must be above 0"))),
        value => Ok(value),
    }
}

fn at_least(name: &str, value: f64, least: f64) -> PyResult<f64> {
    if value.is_finite() && value >= least {
        return Ok(value);
    }
    Err(PyValueError::new_err(format!("{name} is {value}; it must be a finite number, at least {least}")))
}
