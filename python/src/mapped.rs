//! What a policy sees and does, in the numbers of a policy.

use crate::state::{Array, Command, State};
use numpy::{AllowTypeChange, Element, PyArray1, PyArrayLike1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Between a policy and a robot: the same in an environment and in a loop.
#[pyclass(frozen, module = "kilohertz")]
pub struct Mapped {
    joints: Vec<Joint>,
    has_imu: bool,
}

/// What an action means for a joint, rad.
#[derive(Clone, Copy)]
struct Joint {
    /// Where action 0 leads.
    pose: f64,
    /// How far actions of −1 and 1 lead from there.
    spans: [f64; 2],
    limits: [f64; 2],
}

#[pymethods]
impl Mapped {
    /// Each list has one number per servo, rad.
    #[new]
    fn new(
        pose: Vec<f64>,
        below: Vec<f64>,
        above: Vec<f64>,
        low: Vec<f64>,
        high: Vec<f64>,
        has_imu: bool,
    ) -> PyResult<Self> {
        let numbers = [&below, &above, &low, &high];
        let is_one_each = numbers.iter().all(|numbers| numbers.len() == pose.len());
        if !is_one_each
            || low.iter().zip(&high).any(|(low, high)| low.is_nan() || high.is_nan() || low > high)
        {
            return Err(PyValueError::new_err("one number per servo, and no limits the wrong way round"));
        }
        let joint = |(index, &pose): (usize, &f64)| Joint {
            pose,
            spans: [below[index], above[index]],
            limits: [low[index], high[index]],
        };
        Ok(Self { joints: pose.iter().enumerate().map(joint).collect(), has_imu })
    }

    /// Length of an observation.
    #[getter]
    fn size(&self) -> usize {
        3 * self.joints.len() + if self.has_imu { 6 } else { 0 }
    }

    /// Commands an action, and returns it as it is carried out.
    fn command<'py>(
        &self,
        py: Python<'py>,
        action: PyArrayLike1<'py, f32, AllowTypeChange>,
        command: &Command,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let given = action.as_array();
        if given.len() != self.joints.len() {
            let text =
                format!("the action has {} numbers; there are {} servos", given.len(), self.joints.len());
            return Err(PyValueError::new_err(text));
        }
        // Keeps NaN, which the command refuses.
        let clipped: Vec<f32> = given.iter().map(|number| number.clamp(-1.0, 1.0)).collect();
        let mut positions = command.position.bind(py).try_readwrite()?;
        let positions = positions.as_slice_mut()?;
        for ((position, joint), action) in positions.iter_mut().zip(&self.joints).zip(&clipped) {
            *position = joint.target(f64::from(*action));
        }
        Ok(PyArray1::from_vec(py, clipped))
    }

    /// What a policy sees of a state, after the action before.
    fn observe<'py>(
        &self,
        py: Python<'py>,
        state: &State,
        action: PyReadonlyArray1<'py, f32>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let mut seen = Vec::with_capacity(self.size());
        let angles = with(py, &state.position, |angles| {
            let from_pose = |(angle, joint): (&f64, &Joint)| angle - joint.pose;
            seen.extend(angles.iter().zip(&self.joints).map(from_pose));
        });
        angles?;
        with(py, &state.velocity, |velocities| seen.extend_from_slice(velocities))?;
        if self.has_imu {
            with(py, &state.attitude, |attitude| seen.extend(down(attitude)))?;
            with(py, &state.rate, |rate| seen.extend_from_slice(rate))?;
        }
        // What was never measured, or cannot be, is 0: a policy has no use for NaN.
        let number = |number: f64| if number.is_nan() { 0.0 } else { number as f32 };
        let mut seen: Vec<f32> = seen.into_iter().map(number).collect();
        seen.extend(action.as_array());
        if seen.len() != self.size() {
            return Err(PyValueError::new_err("state or action are of another robot"));
        }
        Ok(PyArray1::from_vec(py, seen))
    }
}

impl Joint {
    fn target(&self, action: f64) -> f64 {
        let [low, high] = self.limits;
        (self.pose + action * self.spans[usize::from(action >= 0.0)]).clamp(low, high)
    }
}

/// The direction of gravity in the body's frame.
fn down(attitude: &[f64]) -> [f64; 3] {
    let &[w, x, y, z] = attitude else { return [f64::NAN; 3] };
    [2.0 * (w * y - x * z), -2.0 * (w * x + y * z), 2.0 * (x * x + y * y) - 1.0]
}

/// Looks at an array of ours.
fn with<T: Element>(py: Python<'_>, array: &Array<T>, look: impl FnOnce(&[T])) -> PyResult<()> {
    let array = array.bind(py).try_readonly()?;
    look(array.as_slice()?);
    Ok(())
}
