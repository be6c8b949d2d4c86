//! A 12-joint quadruped stands up from where it lies and then squats, or trots on the spot, again and again.

use super::{ControlError, Controller};
use crate::state::RobotState;
use khz_servo::{PositionCommand, ServoCommand};
use khz_settings::section;
use std::f64::consts::{PI, TAU};

/// Joints per leg, in the order of the configuration: hip (abduction), thigh, knee.
const JOINTS: usize = 3;
/// Share of a step in which a foot is in the air; less than a half, so that all four meet on the ground between.
const SWING: f64 = 0.3;

section! {
    /// `[controller]` with `name = "stand_and_squat"`.
    #[derive(Copy)]
    StandAndSquatParameters {
        /// Length of the thigh, and of the shin.
        link_m: f64 = 0.15, "m", 0.01 => 10.0;
        /// Height of the hip over the foot when standing.
        stand_m: f64 = 0.22, "m", 0.01 => 20.0;
        /// How far the body goes down and up again.
        squat_m: f64 = 0.06, "m", 0.0 => 20.0;
        /// Time to stand up.
        rise_s: f64 = 2.0, "s", 0.1 => 1000.0;
        /// Time of one squat.
        period_s: f64 = 2.0, "s", 0.1 => 1000.0;
        /// How high feet are lifted, diagonal pairs in turn: a trot in place. 0: all stay on the ground.
        lift_m: f64 = 0.0, "m", 0.0 => 20.0;
        /// Time in which every foot steps once.
        step_s: f64 = 0.4, "s", 0.1 => 1000.0;
    }
}

/// Stands up, then squats. Legs are groups of three servos: hip, thigh, knee.
#[derive(Clone, Debug)]
pub struct StandAndSquat {
    parameters: StandAndSquatParameters,
    from: Vec<f64>,
    elapsed_s: f64,
}

impl StandAndSquat {
    /// See [`StandAndSquatParameters`].
    pub fn new(parameters: StandAndSquatParameters) -> Self {
        Self { parameters, from: Vec::new(), elapsed_s: 0.0 }
    }

    /// Height of the hips, and its rate, `t` seconds after the start of squatting.
    fn height(&self, t: f64) -> (f64, f64) {
        let StandAndSquatParameters { stand_m, squat_m, period_s, .. } = self.parameters;
        let rate = TAU / period_s;
        let depth = 0.5 * squat_m * (1.0 - (rate * t).cos());
        (stand_m - depth, -0.5 * squat_m * rate * (rate * t).sin())
    }

    /// How high the foot of a leg is, and its rate. Front left and rear right step first, then the others.
    fn lift(&self, leg: usize, t: f64) -> (f64, f64) {
        let StandAndSquatParameters { lift_m, step_s, .. } = self.parameters;
        let later = if matches!(leg % 4, 0 | 3) { 0.0 } else { 0.5 };
        let phase = (t / step_s + later).fract() / SWING;
        // Until its first step a foot of the second pair stays where it is.
        if phase >= 1.0 || t < later * step_s {
            return (0.0, 0.0);
        }
        let rate = PI / (SWING * step_s) * (TAU * phase).sin();
        (lift_m * (PI * phase).sin().powi(2), lift_m * rate)
    }

    /// Hip, thigh and knee of a leg whose hip is `height` over its foot, and their velocities: two equal links, knee
    /// bent back.
    fn leg(&self, height: f64, rate: f64) -> ([f64; JOINTS], [f64; JOINTS]) {
        let ratio = (0.5 * height / self.parameters.link_m).clamp(-1.0, 1.0);
        let thigh = ratio.acos();
        // d(thigh)/d(height) of acos(h / 2l); the links never stretch fully, so the root stays positive.
        let turning = -0.5 / self.parameters.link_m / (1.0 - ratio * ratio).max(1e-6).sqrt() * rate;
        ([0.0, thigh, -2.0 * thigh], [0.0, turning, -2.0 * turning])
    }

    /// Joint angles and velocities of a leg, `t` seconds after the robot stood.
    fn pose(&self, leg: usize, t: f64) -> ([f64; JOINTS], [f64; JOINTS]) {
        let ((height, rate), (lift, lift_rate)) = (self.height(t), self.lift(leg, t));
        self.leg(height - lift, rate - lift_rate)
    }
}

impl Controller for StandAndSquat {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        if !state.servos.len().is_multiple_of(JOINTS) {
            return Err("stand_and_squat needs legs of three servos each: hip, thigh, knee".into());
        }
        self.from.clear();
        self.from.extend(state.servos.iter().map(|servo| servo.position));
        self.elapsed_s = 0.0;
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.elapsed_s += state.dt();
        let standing_s = (self.elapsed_s - self.parameters.rise_s).max(0.0);
        let (part, part_rate) = smooth(self.elapsed_s, self.parameters.rise_s);
        for (i, (command, from)) in commands.iter_mut().zip(&self.from).enumerate() {
            let (angles, velocities) = self.pose(i / JOINTS, standing_s);
            let (angle, velocity) = (angles[i % JOINTS], velocities[i % JOINTS]);
            let target = PositionCommand {
                velocity: part * velocity + part_rate * (angle - from),
                ..PositionCommand::hold(from + part * (angle - from))
            };
            *command = ServoCommand::Position(target);
        }
        Ok(())
    }
}

/// A step from 0 to 1 within `duration` that starts and ends at rest, and its rate.
fn smooth(t: f64, duration: f64) -> (f64, f64) {
    if t >= duration {
        return (1.0, 0.0);
    }
    let x = t / duration;
    (x * x * (3.0 - 2.0 * x), 6.0 * x * (1.0 - x) / duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(commands: &[ServoCommand]) -> Vec<(f64, f64)> {
        let pick = |command: &ServoCommand| match command {
            ServoCommand::Position(p) => (p.position, p.velocity),
            other => panic!("{other:?}"),
        };
        commands.iter().map(pick).collect()
    }

    #[test]
    fn moves_without_jumps_and_velocity_matches() {
        steady(StandAndSquatParameters::default());
        steady(StandAndSquatParameters { lift_m: 0.03, ..StandAndSquatParameters::default() });
    }

    fn steady(parameters: StandAndSquatParameters) {
        let mut squat = StandAndSquat::new(parameters);
        let mut state = RobotState::unknown(12, false, 1_000_000);
        state.servos.iter_mut().enumerate().for_each(|(i, servo)| servo.position = 0.1 * i as f64);
        squat.start(&state).unwrap();

        let mut commands = vec![ServoCommand::Stop; 12];
        let mut last: Vec<_> = state.servos.iter().map(|servo| (servo.position, 0.0)).collect();
        for tick in 0..8000 {
            squat.update(&state, &mut commands).unwrap();
            let now = positions(&commands);
            for (&(p0, v0), &(p1, v1)) in last.iter().zip(&now) {
                let moved = (p1 - p0) / state.dt();
                assert!((moved - 0.5 * (v0 + v1)).abs() < 0.02, "tick {tick}: {moved} against {v0}, {v1}");
            }
            last = now;
        }
    }

    #[test]
    fn refuses_a_robot_without_legs_of_three() {
        let mut squat = StandAndSquat::new(StandAndSquatParameters::default());
        assert!(squat.start(&RobotState::unknown(4, false, 1)).is_err());
    }
}
