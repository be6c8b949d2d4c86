//! What a policy sees and does, in the numbers of a policy.

use crate::error::CommandError;
use crate::state::{Array, Command, State};
use khz_loop::{PositionCommand, RobotState, ServoCommand};
use khz_robot::plain::{self, POSITION};
use numpy::{AllowTypeChange, PyArray1, PyArrayLike1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Between a policy and a robot: the same in an environment and in a loop.
#[pyclass(frozen, module = "kilohertz")]
pub struct Mapped {
    joints: Vec<Joint>,
    has_imu: bool,
    /// From the tick whose state is seen to the one that follows the action.
    pub delay: u32,
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
    /// Each list has one number per servo, rad. An action is followed `delay` ticks after its state was seen.
    #[new]
    #[pyo3(signature = (pose, below, above, low, high, has_imu, delay=0))]
    fn new(
        pose: Vec<f64>,
        below: Vec<f64>,
        above: Vec<f64>,
        low: Vec<f64>,
        high: Vec<f64>,
        has_imu: bool,
        delay: u32,
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
        Ok(Self { joints: pose.iter().enumerate().map(joint).collect(), has_imu, delay })
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
        let clipped: Vec<f32> = given.iter().copied().map(clipped).collect();
        let mut positions = command.position.bind(py).try_readwrite()?;
        let positions = positions.as_slice_mut()?;
        for ((position, joint), action) in positions.iter_mut().zip(&self.joints).zip(&clipped) {
            *position = joint.target(*action);
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
        let numbers = |array: &Array<f64>| -> PyResult<Vec<f64>> {
            let array = array.bind(py).try_readonly()?;
            Ok(array.as_slice()?.to_vec())
        };
        let (position, velocity) = (numbers(&state.position)?, numbers(&state.velocity)?);
        let (attitude, rate) = (numbers(&state.attitude)?, numbers(&state.rate)?);
        let action: Vec<f32> = action.as_array().iter().copied().collect();
        let joints = self.joints.len();
        if [position.len(), velocity.len(), action.len()] != [joints; 3] {
            return Err(PyValueError::new_err("state or action are of another robot"));
        }
        let attitude = attitude.try_into().unwrap_or([f64::NAN; 4]);
        let mut seen = vec![0.0; self.size()];
        let servos = position.into_iter().zip(velocity);
        self.write(servos, attitude, rate.try_into().unwrap_or([f64::NAN; 3]), &action, &mut seen);
        Ok(PyArray1::from_vec(py, seen))
    }
}

impl Mapped {
    /// What a policy sees of a state, after the action before.
    pub fn see(&self, state: &RobotState, action: &[f32], into: &mut [f32]) {
        let servos = state.servos.iter().map(|servo| (servo.position, servo.velocity));
        let imu = state.imu.map(|imu| imu.sample);
        let (attitude, rate) = imu.map_or(([f64::NAN; 4], [f64::NAN; 3]), |imu| (imu.attitude, imu.rate));
        self.write(servos, attitude, rate, action, into);
    }

    /// Commands an action, and writes it as it is carried out. Lists have one item per servo.
    ///
    /// # Errors
    /// `CommandError` with a number that is none.
    pub fn act(&self, action: &[f32], done: &mut [f32], commands: &mut [ServoCommand]) -> PyResult<()> {
        for (index, joint) in self.joints.iter().enumerate() {
            done[index] = clipped(action[index]);
            let target = PositionCommand::hold(joint.target(done[index]));
            let wrong = |wrong| CommandError::new_err(format!("action {index}: {wrong}"));
            commands[index] = plain::read(POSITION, target).map_err(wrong)?;
        }
        Ok(())
    }

    fn write(
        &self,
        servos: impl Iterator<Item = (f64, f64)> + Clone,
        attitude: [f64; 4],
        rate: [f64; 3],
        action: &[f32],
        into: &mut [f32],
    ) {
        // What was never measured, or cannot be, is 0: a policy has no use for NaN.
        let number = |number: f64| if number.is_nan() { 0.0 } else { number as f32 };
        let angles = servos.clone().zip(&self.joints).map(|((angle, _), joint)| angle - joint.pose);
        let trunk = down(attitude).into_iter().chain(rate).take(if self.has_imu { 6 } else { 0 });
        let seen = angles.chain(servos.map(|(_, velocity)| velocity)).chain(trunk).map(number);
        into.iter_mut().zip(seen.chain(action.iter().copied())).for_each(|(to, seen)| *to = seen);
    }
}

/// Keeps NaN, which a command refuses.
fn clipped(action: f32) -> f32 {
    action.clamp(-1.0, 1.0)
}

impl Joint {
    fn target(&self, action: f32) -> f64 {
        let action = f64::from(action);
        let [low, high] = self.limits;
        (self.pose + action * self.spans[usize::from(action >= 0.0)]).clamp(low, high)
    }
}

/// The direction of gravity in the body's frame.
fn down([w, x, y, z]: [f64; 4]) -> [f64; 3] {
    [2.0 * (w * y - x * z), -2.0 * (w * x + y * z), 2.0 * (x * x + y * y) - 1.0]
}
