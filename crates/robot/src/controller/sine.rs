//! Swing every joint around where it was found, with a frequency that can sweep.

use super::{ControlError, Controller};
use crate::state::RobotState;
use khz_servo::{PositionCommand, ServoCommand};
use khz_settings::section;
use std::f64::consts::TAU;

section! {
    /// `[controller]` with `name = "sine"`.
    #[derive(Copy)]
    SineParameters {
        /// Maximum distance from the joint's initial position.
        amplitude: f64 = 0.2, "rad", 0.0 => 10.0;
        /// Frequency at the start of a sweep.
        from_hz: f64 = 0.2, "Hz", 0.0 => 1000.0;
        /// Frequency at the end of a sweep.
        to_hz: f64 = 2.0, "Hz", 0.0 => 1000.0;
        /// Duration of a sweep; then it starts again.
        sweep_s: f64 = 10.0, "s", 0.01 => 100_000.0;
    }
}

/// A sine sweep: amplitude and a frequency that grows linearly over a time, then starts again.
#[derive(Clone, Debug)]
pub struct Sine {
    parameters: SineParameters,
    centres: Vec<f64>,
    elapsed_s: f64,
}

impl Sine {
    /// See [`SineParameters`].
    pub fn new(parameters: SineParameters) -> Self {
        Self { parameters, centres: Vec::new(), elapsed_s: 0.0 }
    }

    /// Offset and velocity at `t` seconds into the sweep.
    fn at(&self, t: f64) -> (f64, f64) {
        let SineParameters { amplitude, from_hz, to_hz, sweep_s } = self.parameters;
        let slope = (to_hz - from_hz) / sweep_s;
        let phase = TAU * (from_hz * t + 0.5 * slope * t * t);
        let rate = TAU * (from_hz + slope * t);
        (amplitude * phase.sin(), amplitude * rate * phase.cos())
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
        self.elapsed_s = (self.elapsed_s + state.dt()) % self.parameters.sweep_s;
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
        let sine = Sine::new(SineParameters { amplitude: 0.3, from_hz: 0.5, to_hz: 4.0, sweep_s: 10.0 });
        for t in [0.1, 1.0, 3.7, 9.0] {
            let slope = (sine.at(t + 1e-6).0 - sine.at(t - 1e-6).0) / 2e-6;
            assert!((slope - sine.at(t).1).abs() < 1e-6, "at {t} s");
        }
    }
}
