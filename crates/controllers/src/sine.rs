//! Swing every joint around where it was found, with a frequency that can sweep.

use super::gliding::Gliding;
use khz_loop::controller::{ControlError, Controller};
use khz_loop::parameters::Parameter;
use khz_loop::state::RobotState;
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
        /// Share of the servos' position gain.
        kp_scale: f64 = 1.0, "", 0.0 => 1.0;
        /// Share of the servos' velocity gain.
        kd_scale: f64 = 1.0, "", 0.0 => 1.0;
    }
}

/// A sine sweep: amplitude and a frequency that grows linearly over a time, then starts again.
#[derive(Clone, Debug)]
pub struct Sine {
    live: Gliding<6>,
    centres: Vec<f64>,
    /// How much of the sweep is over, 0 to 1.
    swept: f64,
    /// Where in its period the swing is, rad. Summed up, so that it does not jump when a frequency is changed.
    phase: f64,
    /// Its frequency in the previous tick, Hz.
    hz: f64,
}

impl Sine {
    /// See [`SineParameters`].
    pub fn new(parameters: SineParameters) -> Self {
        let SineParameters { amplitude, from_hz, to_hz, sweep_s, kp_scale, kd_scale } = parameters;
        let live = [
            ("amplitude", amplitude, 0.0..=1.0),
            ("from_hz", from_hz, 0.0..=20.0),
            ("to_hz", to_hz, 0.0..=20.0),
            ("sweep_s", sweep_s, 1.0..=60.0),
            ("kp_scale", kp_scale, 0.0..=1.0),
            ("kd_scale", kd_scale, 0.0..=1.0),
        ];
        let live = Gliding::of(SineParameters::KEYS, live);
        Self { live, centres: Vec::new(), swept: 0.0, phase: 0.0, hz: from_hz }
    }

    /// The command of every joint after `dt` more seconds, around 0.
    fn step(&mut self, dt: f64) -> PositionCommand {
        let [amplitude, from_hz, to_hz, sweep_s, kp, kd] = self.live.step(dt);
        self.swept += dt / sweep_s.value;
        if self.swept >= 1.0 {
            // The frequency starts again, the swing goes on.
            self.swept = self.swept.fract();
            self.hz = from_hz.value;
        }
        let hz = from_hz.value + (to_hz.value - from_hz.value) * self.swept;
        // As far as the mean of a frequency that changes linearly takes it.
        self.phase = (self.phase + TAU * 0.5 * (self.hz + hz) * dt) % TAU;
        self.hz = hz;
        let (sin, cos) = self.phase.sin_cos();
        PositionCommand {
            velocity: amplitude.value * TAU * hz * cos + amplitude.rate * sin,
            kp_scale: kp.share(),
            kd_scale: kd.share(),
            ..PositionCommand::hold(amplitude.value * sin)
        }
    }
}

impl Controller for Sine {
    fn parameters(&self) -> Vec<Parameter> {
        self.live.parameters()
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.live.begin();
        let [_, from_hz, ..] = self.live.step(0.0);
        (self.swept, self.phase, self.hz) = (0.0, 0.0, from_hz.value);
        self.centres.clear();
        self.centres.extend(state.servos.iter().map(|servo| servo.position));
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let swing = self.step(state.dt());
        for (command, &centre) in commands.iter_mut().zip(&self.centres) {
            let target = PositionCommand { position: centre + swing.position, ..swing };
            *command = ServoCommand::Position(target);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs it for some seconds, with a parameter set half-way, and looks for jumps.
    fn steady(parameters: SineParameters, changed: &str, value: f64) {
        const DT: f64 = 1e-3;
        let mut sine = Sine::new(parameters);
        let mut last =
            PositionCommand { velocity: TAU * 0.5 * parameters.amplitude, ..PositionCommand::hold(0.0) };
        for tick in 0..8000 {
            if tick == 4000 {
                let live = sine.parameters();
                let parameter = live.iter().find(|parameter| parameter.name == changed).unwrap();
                assert_eq!(parameter.check(value), Ok(()));
                parameter.put(value);
            }
            let swept = sine.swept;
            let now = sine.step(DT);
            let moved = (now.position - last.position) / DT;
            // When a sweep starts again its velocity is another, at the same position.
            let again = sine.swept < swept;
            let meant = if again { now.velocity } else { 0.5 * (now.velocity + last.velocity) };
            // Of 1 rad at 20 Hz the velocity changes by 16 rad/s within a tick.
            assert!((moved - meant).abs() < 0.4, "{changed}, tick {tick}: {moved} against {meant}");
            assert!((now.kp_scale - last.kp_scale).abs() < 0.003 || tick == 0, "{changed}, tick {tick}");
            last = now;
        }
    }

    #[test]
    fn no_parameter_makes_a_command_jump() {
        let parameters =
            SineParameters { amplitude: 0.3, from_hz: 0.5, to_hz: 4.0, ..SineParameters::default() };
        for parameter in Sine::new(parameters).parameters() {
            steady(parameters, &parameter.name, parameter.min);
            steady(parameters, &parameter.name, parameter.max);
        }
    }

    #[test]
    fn a_sweep_is_as_long_and_as_fast_as_its_keys_say() {
        let parameters =
            SineParameters { amplitude: 0.3, from_hz: 0.5, to_hz: 4.0, ..SineParameters::default() };
        let mut sine = Sine::new(parameters);
        let mut turns = 0.0;
        for tick in 1..=9999 {
            let before = sine.phase;
            sine.step(1e-3);
            turns += (sine.phase - before).rem_euclid(TAU) / TAU;
            let t = f64::from(tick) * 1e-3;
            assert!((turns - (0.5 * t + 0.5 * 0.35 * t * t)).abs() < 1e-6, "after {t} s: {turns}");
        }
        sine.step(1e-3);
        sine.step(1e-3);
        assert!(sine.hz < 0.51, "it starts again: {}", sine.hz);
    }
}
