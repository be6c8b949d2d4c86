//! A controller to begin with: every joint sways a little around where it was found. Ctrl-C brings the robot down gently.
#![allow(missing_docs, clippy::print_stdout)]

use kilohertz::{ControlError, Controller, PositionCommand, Robot, RobotState, ServoCommand};

/// How far, rad, and how fast, rad/s.
const SWAY: f64 = 0.05;
const SPEED: f64 = 2.0;

#[derive(Default)]
struct Sway {
    /// Where each joint was found, and when.
    found: Vec<f64>,
    began: f64,
}

impl Controller for Sway {
    /// Once, when the robot is armed: here memory may be allocated.
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.found = state.servos.iter().map(|servo| servo.position).collect();
        self.began = state.time();
        Ok(())
    }

    /// In every tick: it must not allocate, lock, print or wait. The limits of robot.toml hold whatever is commanded.
    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let sway = SWAY * (SPEED * (state.time() - self.began)).sin();
        for (command, found) in commands.iter_mut().zip(&self.found) {
            *command = ServoCommand::Position(PositionCommand::hold(found + sway));
        }
        Ok(())
    }
}

fn main() -> Result<(), kilohertz::Error> {
    let run = Robot::load("robot.toml")?.controller(Sway::default()).run()?;
    println!("{}", run.summary);
    run.ended_well()
}
