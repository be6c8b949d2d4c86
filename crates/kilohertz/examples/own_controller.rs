//! A controller of one's own: the knees of the emulated quadruped swing together. In virtual time; take that line out to run it
//! in real time. Ctrl-C brings the robot down gently.
#![allow(missing_docs, clippy::print_stdout)]

use kilohertz::{ControlError, Controller, PositionCommand, Robot, RobotInfo, RobotState, ServoCommand};
use std::time::Duration;

#[derive(Default)]
struct Swing {
    knees: Vec<usize>,
    /// Where each joint was found, rad.
    found: Vec<f64>,
}

impl Controller for Swing {
    fn prepare(&mut self, robot: &RobotInfo) -> Result<(), ControlError> {
        let knees = ["front_left_knee", "front_right_knee", "rear_left_knee", "rear_right_knee"];
        self.knees = knees.iter().map(|name| robot.joint(name)).collect::<Result<_, _>>()?;
        self.found = vec![0.0; robot.joints.len()];
        Ok(())
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        for (found, servo) in self.found.iter_mut().zip(&state.servos) {
            *found = servo.position;
        }
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
    let robot = Robot::quadruped().controller(Swing::default()).virtual_time();
    let run = robot.no_log().duration(Duration::from_secs(5)).run()?;
    println!("{}", run.summary);
    run.ended_well()
}
