//! Hold every joint where it was found.

use super::{ControlError, Controller};
use crate::state::RobotState;
use khz_servo::{PositionCommand, ServoCommand};

/// Holds the positions measured at the start.
#[derive(Debug, Default)]
pub struct Hold {
    positions: Vec<f64>,
}

impl Controller for Hold {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.positions.clear();
        self.positions.extend(state.servos.iter().map(|servo| servo.position));
        Ok(())
    }

    fn update(&mut self, _: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        for (command, &position) in commands.iter_mut().zip(&self.positions) {
            *command = ServoCommand::Position(PositionCommand::hold(position));
        }
        Ok(())
    }
}
