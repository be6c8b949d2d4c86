//! A policy that is still to be trained: the trainer gives the actions that its model would.

use super::Policy;
use super::checks::{Frame, frame};
use super::decider::Action;
use super::observation::Observation;
use super::settings::PolicyConfig;
use super::signals;
use khz_loop::controller::{ControlError, Controller, Decide, RobotInfo};
use khz_loop::state::RobotState;
use khz_servo::ServoCommand;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The policy of a robot file without its model. Its terms, its ticks and what its actions mean are those of [`Policy`], which runs here,
/// too; so who learns in its place has learned what the loop does, to the last bit.
///
/// Between two ticks: if a decision [is due](Outside::is_due), [`observe`](Outside::observe) the state, then [`act`](Outside::act) on it; the
/// next tick takes that action. All handles are of one policy. Every call locks: it is for virtual time.
#[derive(Clone)]
pub struct Outside {
    policy: Arc<Mutex<Policy>>,
    model: Arc<Mutex<ExternalModel>>,
    every: u64,
    sizes: [usize; 2],
    signals: Vec<String>,
}

/// What is there instead of the model.
struct ExternalModel {
    observation: Observation,
    action: Action,
    /// The tick of the last decision.
    decided: Option<u64>,
}

/// Decides what was set from outside.
struct Given(Arc<Mutex<ExternalModel>>);

impl Outside {
    /// `start_s` replaces the time in which joints move to the default posture.
    ///
    /// # Errors
    /// What does not fit the robot; the model is not looked at.
    pub fn new(config: &PolicyConfig, start_s: Option<f64>, robot: &RobotInfo) -> Result<Self, ControlError> {
        let mut config = config.clone();
        config.start_s = start_s.unwrap_or(config.start_s);
        let Frame { observation, action, fixed } = frame(&config, robot)?;
        let (sizes, every) = ([observation.len(), fixed.servos.len()], fixed.pace.every);
        let model = Arc::new(Mutex::new(ExternalModel { observation, action, decided: None }));
        let signals = signals::names(&config.observe).into_iter().map(str::to_owned).collect();
        let mut policy = Policy::new(config);
        policy.made = Some(policy.made(Box::new(Given(Arc::clone(&model))), fixed, robot));
        Ok(Self { policy: Arc::new(Mutex::new(policy)), model, every, sizes, signals })
    }

    /// Ticks from one decision to the next.
    pub fn every(&self) -> u64 {
        self.every
    }

    /// How many numbers an observation has, and an action.
    pub fn sizes(&self) -> [usize; 2] {
        self.sizes
    }

    /// What it receives from outside: each in the place of the same signal of a state.
    pub fn signals(&self) -> &[String] {
        &self.signals
    }

    /// The tick of this state, which is to come, takes a decision.
    pub fn is_due(&self, state: &RobotState) -> bool {
        let decided = locked(&self.model).decided;
        let is_turn = decided.is_none_or(|decided| state.tick.saturating_sub(decided) >= self.every);
        is_turn && locked(&self.policy).has_risen(state)
    }

    /// The observation of this state; once for each decision, as terms have a history.
    ///
    /// # Errors
    /// A number of it is none.
    pub fn observe(&self, state: &RobotState, into: &mut [f32]) -> Result<(), ControlError> {
        locked(&self.model).observation.observe(state, into)
    }

    /// The policy's action.
    ///
    /// # Errors
    /// The first joint for which it is no number.
    pub fn act(&self, action: &[f32]) -> Result<(), ControlError> {
        locked(&self.model).action.take(action)
    }
}

impl Controller for Outside {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        let mut model = locked(&self.model);
        // Here, and not with its first decision, which is observed before it.
        model.observation.begin();
        model.action.begin();
        model.decided = None;
        drop(model);
        locked(&self.policy).start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        locked(&self.policy).update(state, commands)
    }
}

impl Decide for Given {
    fn begin(&mut self) {}

    fn decide(&mut self, state: &RobotState, decision: &mut [f64]) -> Result<(), ControlError> {
        let mut model = locked(&self.0);
        let ExternalModel { observation, action, decided } = &mut *model;
        *decided = Some(state.tick);
        action.follow(observation, decision)
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
