//! Robots that differ a little: for learning what works on all of them.

use super::{LinkConfig, RobotBody, RobotConfig};
use khz_settings::words;

words! {
    /// What differs from robot to robot, or from day to day.
    Variable {
        /// Time from the end of a request to the start of its reply, µs.
        Turnaround = "turnaround",
        /// Share of frames lost on every bus.
        Loss = "loss",
        /// Every reply arrives this much later, µs.
        Latency = "latency",
        /// Mass added to the trunk, kg.
        Payload = "payload",
        /// Friction of the ground.
        Friction = "friction",
        /// Torque per torque that the servos believe to give.
        MotorConstant = "motor_constant",
    }
}

impl RobotConfig {
    /// Changes one setting of a robot file. [`RobotConfig::checked`] checks whether a file may contain that.
    ///
    /// # Errors
    /// The robot has nothing of the kind.
    pub fn vary(&mut self, what: Variable, value: f64) -> Result<(), String> {
        match what {
            Variable::Turnaround => self.emulated_links().for_each(|link| link.turnaround_us = value),
            Variable::Loss => self.buses.iter_mut().for_each(|bus| bus.faults.loss = value),
            Variable::Latency => self.buses.iter_mut().for_each(|bus| bus.faults.delay_us = value),
            Variable::MotorConstant => {
                let devices = self.servos.iter_mut().map(|servo| &mut servo.settings.device);
                devices.for_each(|device| device.motor_constant = value);
            }
            Variable::Payload | Variable::Friction => {
                let body = self.body.as_mut();
                body.ok_or_else(|| format!("`{what}` needs a `[body]` in the robot file"))?.vary(what, value);
            }
        }
        Ok(())
    }

    fn emulated_links(&mut self) -> impl Iterator<Item = &mut khz_emu::EmulatedLink> {
        self.buses.iter_mut().filter_map(|bus| match &mut bus.link {
            LinkConfig::Emulated(link) => Some(link),
            _ => None,
        })
    }
}

impl RobotBody {
    fn vary(&mut self, what: Variable, value: f64) {
        match (self, what) {
            (Self::Quadruped(body), Variable::Payload) => body.mass += value,
            (Self::Quadruped(body), _) => body.friction = value,
            (Self::Mujoco(body), Variable::Payload) => body.payload = value,
            (Self::Mujoco(body), _) => body.friction = Some(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_them_is_a_key_of_the_robot_file() {
        for what in Variable::ALL {
            let mut robot = RobotConfig::quadruped();
            robot.vary(*what, 0.5).unwrap();
            let (warnings, file) = (robot.warnings.clone(), robot.file.clone());
            let written = RobotConfig { warnings, file, ..robot.checked().unwrap() };
            assert_eq!(written, robot);
            assert_ne!(written, RobotConfig::quadruped(), "{what}");
        }
    }
}
