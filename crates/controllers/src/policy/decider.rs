//! One decision: an observation, the model, and what its numbers mean.

use super::observation::{Observation, one_or_each};
use super::settings::{Kind, PolicyConfig};
use khz_loop::controller::{ControlError, Decide, Decision};
use khz_loop::state::RobotState;
use khz_onnxruntime::Evaluator;

/// Decides with a model.
#[derive(Debug)]
pub(super) struct Decider {
    pub(super) model: Evaluator,
    pub(super) observation: Observation,
    pub(super) action: Action,
}

/// From a model's output to targets of joints.
#[derive(Debug)]
pub(super) struct Action {
    pub(super) names: Vec<String>,
    pub(super) clip: Vec<[f64; 2]>,
    pub(super) scale: Vec<f64>,
    pub(super) offset: Vec<f64>,
    /// The model's last output.
    output: Vec<f32>,
    /// Numbers of it that were beyond `clip`, in how many decisions in a row, and of how many the next is an error.
    clipped: u32,
    in_a_row: u32,
    max_clipped: u32,
}

impl Action {
    pub(super) fn new(config: &PolicyConfig) -> Self {
        let action = &config.action;
        let (names, joints) = (config.joints.clone(), config.joints.len());
        let default = |joint: usize| match one_or_each(&action.kinds, joint) {
            Kind::Position => config.default[joint],
            Kind::Velocity | Kind::Torque => 0.0,
        };
        let offset =
            if action.offset.is_empty() { (0..joints).map(default).collect() } else { action.offset.clone() };
        Self {
            clip: action.clip.clone(),
            scale: action.scale.clone(),
            offset,
            names,
            output: vec![0.0; joints],
            clipped: 0,
            in_a_row: 0,
            max_clipped: config.max_clipped.unwrap_or(u32::MAX),
        }
    }

    /// The policy's action.
    ///
    /// # Errors
    /// The first joint for which it is no number.
    pub(super) fn take(&mut self, output: &[f32]) -> Result<(), ControlError> {
        self.output.copy_from_slice(output);
        let Some(joint) = output.iter().position(|output| !output.is_finite()) else { return Ok(()) };
        Err(ControlError(format!("it says {} for the joint `{}`", output[joint], self.names[joint]).into()))
    }

    /// Targets of its action, which later observations have.
    ///
    /// # Errors
    /// Too many decisions in a row were clipped.
    pub(super) fn follow(
        &mut self,
        observation: &mut Observation,
        into: &mut [f64],
    ) -> Result<(), ControlError> {
        self.targets(into);
        observation.acted(&self.output, into);
        self.bear()
    }

    /// The next decision is the first.
    pub(super) fn begin(&mut self) {
        self.in_a_row = 0;
    }

    /// The model's last output.
    pub(super) fn output(&self) -> &[f32] {
        &self.output
    }

    fn bear(&mut self) -> Result<(), ControlError> {
        self.in_a_row = if self.clipped > 0 { self.in_a_row.saturating_add(1) } else { 0 };
        if self.in_a_row < self.max_clipped {
            return Ok(());
        }
        let beyond = |joint: &usize| {
            let [least, most] = *one_or_each(&self.clip, *joint);
            !(least..=most).contains(&f64::from(self.output[*joint]))
        };
        let joint = (0..self.output.len()).find(beyond).unwrap_or_default();
        let (output, name) = (self.output[joint], &self.names[joint]);
        let text = format!(
            "it says more than `action.clip` in {} decisions in a row (`max_clipped`): {output} for the joint `{name}`",
            self.in_a_row
        );
        Err(ControlError(text.into()))
    }

    /// Targets in rad, rad/s or N·m.
    fn targets(&mut self, into: &mut [f64]) {
        self.clipped = 0;
        for (joint, (to, &output)) in into.iter_mut().zip(&self.output).enumerate() {
            let [least, most] = *one_or_each(&self.clip, joint);
            let clipped = f64::from(output).clamp(least, most);
            self.clipped += u32::from(clipped != f64::from(output));
            *to = clipped * one_or_each(&self.scale, joint) + one_or_each(&self.offset, joint);
        }
    }
}

impl Decider {
    /// Evaluates the model, whose first input is written, with what it carries from decision to decision.
    ///
    /// # Errors
    /// Its output is not finite, or it cannot be evaluated.
    pub(super) fn evaluate(&mut self) -> Result<(), ControlError> {
        self.model.run().map_err(|error| ControlError(error.to_string().into()))?;
        self.action.take(self.model.output(0))?;
        self.check_carried()?;
        (1..self.model.inputs().len()).for_each(|number| self.model.carry(number, number));
        Ok(())
    }

    /// What is carried goes on and on.
    fn check_carried(&self) -> Result<(), ControlError> {
        let mut outputs = (1..self.model.inputs().len()).map(|number| (number, self.model.output(number)));
        let no_number = |values: &[f32]| values.iter().copied().find(|value| !value.is_finite());
        let Some((number, value)) = outputs.find_map(|(number, values)| Some((number, no_number(values)?)))
        else {
            return Ok(());
        };
        let name = &self.model.outputs()[number].name;
        Err(ControlError(format!("it carries {value} to the next decision, in its output `{name}`").into()))
    }

    /// A hash of what is carried to the next decision (FNV-1a of its bits); 0: nothing is.
    pub(super) fn carried(&self) -> u64 {
        let carried = (1..self.model.inputs().len()).flat_map(|input| self.model.input(input));
        let mut bits = carried.map(|value| u64::from(value.to_bits())).peekable();
        if bits.peek().is_none() {
            return 0;
        }
        bits.fold(0xcbf2_9ce4_8422_2325, |hash, bits| (hash ^ bits).wrapping_mul(0x0100_0000_01b3))
    }
}

impl Decide for Decider {
    fn begin(&mut self) {
        self.observation.begin();
        self.action.begin();
        (1..self.model.inputs().len()).for_each(|carried| self.model.input_mut(carried).fill(0.0));
    }

    fn decide(&mut self, state: &RobotState, decision: &mut [f64]) -> Result<(), ControlError> {
        self.observation.observe(state, self.model.input_mut(0))?;
        self.evaluate()?;
        self.action.follow(&mut self.observation, decision)
    }

    fn record(&self, into: &mut Decision) {
        self.observation.newest(&mut into.observation.0);
        into.action.0.clone_from(&self.action.output);
        into.cut.0.resize(self.action.output.len(), false);
        into.clipped = self.action.clipped;
        into.carried = self.carried();
    }
}
