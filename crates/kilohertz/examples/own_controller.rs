//! A controller of one's own: the knees of the emulated quadruped swing together. In virtual time; take that line out to run it
//! in real time. Ctrl-C brings the robot down gently.
#![allow(missing_docs, clippy::print_stdout)]

use kilohertz::{ControlError, Controller, PositionCommand, Robot, RobotState, ServoCommand};
use std::time::Duration;

struct Swing {
    knees: Vec<usize>,
    /// Where each joint was found, rad.
    found: Vec<f64>,
}

impl Controller for Swing {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.found = state.servos.iter().map(|servo| servo.position).collect();
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let swing = 0.1 * (state.time() * 3.0).sin();
        for (joint, command) in commands.iter_mut().enumerate() {
            let added = if self.knees.contains(&joint) { swing } else { 0.0 };
            *command = ServoCommand::Position(PositionCommand::hold(self.found[joint] + added));
        }
        Ok(())
    }
}

fn main() -> Result<(), kilohertz::Error> {
    let robot = Robot::quadruped();
    let names = robot.config().servos.iter().map(|servo| servo.name.clone());
    let knees = names.enumerate().filter(|(_, name)| name.contains("knee")).map(|(joint, _)| joint).collect();
    let swing = Swing { knees, found: Vec::new() };
    let run = robot.controller(swing).virtual_time().no_log().duration(Duration::from_secs(5)).run()?;
    println!("{}", run.summary);
    Ok(())
}
