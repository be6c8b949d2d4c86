//! Swing every joint around where it was found, with a frequency that can sweep.

use super::{ControlError, Controller};
use crate::command::{PositionCommand, ServoCommand};
use crate::state::RobotState;
use std::f64::consts::TAU;

/// A sine sweep: amplitude and a frequency that grows linearly over a time, then starts again.
#[derive(Clone, Debug)]
pub struct Sine {
    amplitude: f64,
    from_hz: f64,
    to_hz: f64,
    sweep_s: f64,
    centres: Vec<f64>,
    elapsed_s: f64,
}

impl Sine {
    /// `amplitude` in rad; the frequency goes from `from_hz` to `to_hz` in `sweep_s` seconds.
    pub fn new(amplitude: f64, from_hz: f64, to_hz: f64, sweep_s: f64) -> Self {
        Self { amplitude, from_hz, to_hz, sweep_s, centres: Vec::new(), elapsed_s: 0.0 }
    }

    /// Offset and velocity at `t` seconds into the sweep.
    fn at(&self, t: f64) -> (f64, f64) {
        let slope = (self.to_hz - self.from_hz) / self.sweep_s;
        let phase = TAU * (self.from_hz * t + 0.5 * slope * t * t);
        let rate = TAU * (self.from_hz + slope * t);
        (self.amplitude * phase.sin(), self.amplitude * rate * phase.cos())
    }
}

impl Controller for Sine {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.centres.clear();
        self.centres.extend(state.servos.iter().map(|servo| servo.position));
        self.elapsed_s = 0.0;
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.elapsed_s = (self.elapsed_s + state.dt()) % self.sweep_s;
        let (offset, velocity) = self.at(self.elapsed_s);
        for (command, &centre) in commands.iter_mut().zip(&self.centres) {
            let target = PositionCommand { velocity, ..PositionCommand::hold(centre + offset) };
            *command = ServoCommand::Position(target);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn velocity_is_the_derivative_of_position() {
        let sine = Sine::new(0.3, 0.5, 4.0, 10.0);
        for t in [0.1, 1.0, 3.7, 9.0] {
            let slope = (sine.at(t + 1e-6).0 - sine.at(t - 1e-6).0) / 2e-6;
            assert!((slope - sine.at(t).1).abs() < 1e-6, "at {t} s");
        }
    }
}
