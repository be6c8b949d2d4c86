//! One decision: an observation, the model, and what its numbers mean.

use super::observation::{Observation, one_or_each};
use super::settings::ActionConfig;
use khz_loop::controller::{ControlError, Decide};
use khz_loop::state::RobotState;
use khz_policy::Model;

/// Decides as a model says.
#[derive(Debug)]
pub(super) struct Decider {
    pub(super) model: Model,
    pub(super) observation: Observation,
    pub(super) action: Action,
}

/// From what a model says to targets of joints.
#[derive(Debug)]
pub(super) struct Action {
    pub(super) names: Vec<String>,
    pub(super) clip: Vec<[f64; 2]>,
    pub(super) scale: Vec<f64>,
    pub(super) offset: Vec<f64>,
    /// What the model has said last.
    said: Vec<f32>,
}

impl Action {
    pub(super) fn new(config: &ActionConfig, names: Vec<String>, default: &[f64]) -> Self {
        let offset = if config.offset.is_empty() { default.to_vec() } else { config.offset.clone() };
        let said = vec![0.0; names.len()];
        Self { clip: config.clip.clone(), scale: config.scale.clone(), offset, names, said }
    }

    /// Targets in rad.
    fn targets(&self, into: &mut [f64]) {
        for (joint, (to, &said)) in into.iter_mut().zip(&self.said).enumerate() {
            let [least, most] = *one_or_each(&self.clip, joint);
            let clipped = f64::from(said).clamp(least, most);
            *to = clipped * one_or_each(&self.scale, joint) + one_or_each(&self.offset, joint);
        }
    }
}

impl Decider {
    /// It sees the IMU.
    pub(super) fn needs_imu(&self) -> bool {
        self.observation.needs_imu()
    }

    /// Evaluates the model, whose first input is written, with what it carries from decision to decision.
    ///
    /// # Errors
    /// It says what is no number.
    pub(super) fn evaluate(&mut self) -> Result<(), ControlError> {
        self.model.run();
        self.action.said.copy_from_slice(self.model.output(0));
        if let Some(joint) = self.action.said.iter().position(|said| !said.is_finite()) {
            let (said, name) = (self.action.said[joint], &self.action.names[joint]);
            return Err(ControlError(format!("it says {said} for the joint `{name}`").into()));
        }
        (1..self.model.inputs().len()).for_each(|number| self.model.carry(number, number));
        Ok(())
    }
}

impl Decide for Decider {
    fn begin(&mut self) {
        self.observation.begin();
        (1..self.model.inputs().len()).for_each(|carried| self.model.input_mut(carried).fill(0.0));
    }

    fn decide(&mut self, state: &RobotState, decision: &mut [f64]) -> Result<(), ControlError> {
        self.observation.observe(state, self.model.input_mut(0))?;
        self.evaluate()?;
        self.observation.acted(&self.action.said);
        self.action.targets(decision);
        Ok(())
    }
}
