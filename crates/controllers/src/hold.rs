//! Hold every joint where it was found.

use super::gliding::Gliding;
use khz_loop::controller::{ControlError, Controller};
use khz_loop::parameters::Parameter;
use khz_loop::state::RobotState;
use khz_servo::{PositionCommand, ServoCommand};
use khz_settings::section;

section! {
    /// `[controller]` with `name = "hold"`.
    #[derive(Copy)]
    HoldParameters {
        /// Share of the servos' position gain.
        kp_scale: f64 = 1.0, "", 0.0 => 1.0;
        /// Share of the servos' velocity gain.
        kd_scale: f64 = 1.0, "", 0.0 => 1.0;
    }
}

/// Holds the positions measured at the start.
#[derive(Clone, Debug)]
pub struct Hold {
    live: Gliding<2>,
    positions: Vec<f64>,
}

impl Hold {
    /// See [`HoldParameters`].
    pub fn new(parameters: HoldParameters) -> Self {
        let HoldParameters { kp_scale, kd_scale } = parameters;
        let live = [("kp_scale", kp_scale, 0.0..=1.0), ("kd_scale", kd_scale, 0.0..=1.0)];
        Self { live: Gliding::of(HoldParameters::KEYS, live), positions: Vec::new() }
    }
}

impl Default for Hold {
    fn default() -> Self {
        Self::new(HoldParameters::default())
    }
}

impl Controller for Hold {
    fn parameters(&self) -> Vec<Parameter> {
        self.live.parameters()
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.live.begin();
        self.positions.clear();
        self.positions.extend(state.servos.iter().map(|servo| servo.position));
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let [kp, kd] = self.live.step(state.dt());
        for (command, &position) in commands.iter_mut().zip(&self.positions) {
            let target = PositionCommand::hold(position);
            *command = ServoCommand::Position(PositionCommand {
                kp_scale: kp.share(),
                kd_scale: kd.share(),
                ..target
            });
        }
        Ok(())
    }
}
