//! A 12-joint quadruped stands up from where it lies and then squats, or trots on the spot, again and again.

use super::gliding::{Glide, Gliding};
use super::moving::Moving;
use khz_loop::controller::{ControlError, Controller};
use khz_loop::parameters::Parameter;
use khz_loop::state::RobotState;
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
        /// Share of the servos' position gain.
        kp_scale: f64 = 1.0, "", 0.0 => 1.0;
        /// Share of the servos' velocity gain.
        kd_scale: f64 = 1.0, "", 0.0 => 1.0;
    }
}

/// Stands up, then squats. Legs are groups of three servos: hip, thigh, knee.
#[derive(Clone, Debug)]
pub struct StandAndSquat {
    link_m: f64,
    rise_s: f64,
    live: Gliding<7>,
    from: Vec<f64>,
    elapsed_s: f64,
    /// How many squats and steps there were since the robot stood. Summed up, so that nothing jumps when a period is changed.
    squats: f64,
    steps: f64,
}

/// What the legs do at a time.
struct Gait {
    stand: Glide,
    squat: Glide,
    /// Squats per second.
    squat_hz: f64,
    lift: Glide,
    /// Steps per second.
    step_hz: f64,
}

impl StandAndSquat {
    /// See [`StandAndSquatParameters`].
    pub fn new(parameters: StandAndSquatParameters) -> Self {
        let StandAndSquatParameters { link_m, stand_m, squat_m, rise_s, period_s, lift_m, step_s, .. } =
            parameters;
        let reach_m = 2.0 * link_m;
        // Within these the legs neither stretch fully nor fold up, where their joints would have to be infinitely fast.
        let live = [
            ("stand_m", stand_m, 0.5 * reach_m..=0.9 * reach_m),
            ("squat_m", squat_m, 0.0..=0.3 * reach_m),
            ("period_s", period_s, 0.5..=20.0),
            ("lift_m", lift_m, 0.0..=0.15 * reach_m),
            ("step_s", step_s, 0.2..=5.0),
            ("kp_scale", parameters.kp_scale, 0.0..=1.0),
            ("kd_scale", parameters.kd_scale, 0.0..=1.0),
        ];
        let live = Gliding::of(StandAndSquatParameters::KEYS, live);
        Self { link_m, rise_s, live, from: Vec::new(), elapsed_s: 0.0, squats: 0.0, steps: 0.0 }
    }

    /// Height of the hips, and its rate.
    fn height(&self, gait: &Gait) -> (f64, f64) {
        let (sin, cos) = (TAU * self.squats).sin_cos();
        let Glide { value: squat, rate } = gait.squat;
        let depth = 0.5 * squat * (1.0 - cos);
        let depth_rate = 0.5 * (squat * TAU * gait.squat_hz * sin + rate * (1.0 - cos));
        (gait.stand.value - depth, gait.stand.rate - depth_rate)
    }

    /// How high the foot of a leg is, and its rate. Front left and rear right step first, then the others.
    fn lift(&self, leg: usize, gait: &Gait) -> (f64, f64) {
        let later = if matches!(leg % 4, 0 | 3) { 0.0 } else { 0.5 };
        let phase = (self.steps + later).fract() / SWING;
        // Until its first step a foot of the second pair stays where it is.
        if phase >= 1.0 || self.steps < later {
            return (0.0, 0.0);
        }
        let (share, rate) = ((PI * phase).sin().powi(2), PI * gait.step_hz / SWING * (TAU * phase).sin());
        (gait.lift.value * share, gait.lift.value * rate + gait.lift.rate * share)
    }

    /// Hip, thigh and knee of a leg whose hip is `height` over its foot, and their velocities: two equal links, knee
    /// bent back.
    fn leg(&self, height: f64, rate: f64) -> ([f64; JOINTS], [f64; JOINTS]) {
        let ratio = (0.5 * height / self.link_m).clamp(-1.0, 1.0);
        let thigh = ratio.acos();
        // d(thigh)/d(height) of acos(h / 2l); the links never stretch fully, so the root stays positive.
        let turning = -0.5 / self.link_m / (1.0 - ratio * ratio).max(1e-6).sqrt() * rate;
        ([0.0, thigh, -2.0 * thigh], [0.0, turning, -2.0 * turning])
    }

    /// Joint angles and velocities of a leg.
    fn pose(&self, leg: usize, gait: &Gait) -> ([f64; JOINTS], [f64; JOINTS]) {
        let ((height, rate), (lift, lift_rate)) = (self.height(gait), self.lift(leg, gait));
        self.leg(height - lift, rate - lift_rate)
    }
}

impl Controller for StandAndSquat {
    fn parameters(&self) -> Vec<Parameter> {
        self.live.parameters()
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        if !state.servos.len().is_multiple_of(JOINTS) {
            return Err("stand_and_squat needs legs of three servos each: hip, thigh, knee".into());
        }
        self.live.begin();
        self.from.clear();
        self.from.extend(state.servos.iter().map(|servo| servo.position));
        (self.elapsed_s, self.squats, self.steps) = (0.0, 0.0, 0.0);
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let [stand, squat, period, lift, step, kp, kd] = self.live.step(state.dt());
        let gait = Gait { stand, squat, squat_hz: 1.0 / period.value, lift, step_hz: 1.0 / step.value };
        self.elapsed_s += state.dt();
        let standing_s = (self.elapsed_s - self.rise_s).clamp(0.0, state.dt());
        self.squats += gait.squat_hz * standing_s;
        self.steps += gait.step_hz * standing_s;
        let Moving { at: part, rate: part_rate } = Moving::step(self.elapsed_s, self.rise_s);
        for (i, (command, from)) in commands.iter_mut().zip(&self.from).enumerate() {
            let (angles, velocities) = self.pose(i / JOINTS, &gait);
            let (angle, velocity) = (angles[i % JOINTS], velocities[i % JOINTS]);
            let target = PositionCommand {
                velocity: part * velocity + part_rate * (angle - from),
                kp_scale: kp.share(),
                kd_scale: kd.share(),
                ..PositionCommand::hold(from + part * (angle - from))
            };
            *command = ServoCommand::Position(target);
        }
        Ok(())
    }
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
        steady(StandAndSquatParameters::default(), None);
        steady(StandAndSquatParameters { lift_m: 0.03, ..StandAndSquatParameters::default() }, None);
    }

    #[test]
    fn no_parameter_makes_a_command_jump() {
        let parameters = StandAndSquatParameters { lift_m: 0.03, ..StandAndSquatParameters::default() };
        for parameter in StandAndSquat::new(parameters).parameters() {
            steady(parameters, Some((&parameter.name, parameter.min)));
            steady(parameters, Some((&parameter.name, parameter.max)));
        }
    }

    /// Runs it for 8 s, and sets a parameter after 5.
    fn steady(parameters: StandAndSquatParameters, change: Option<(&str, f64)>) {
        let mut squat = StandAndSquat::new(parameters);
        let mut state = RobotState::unknown(12, false, 1_000_000);
        state.servos.iter_mut().enumerate().for_each(|(i, servo)| servo.position = 0.1 * i as f64);
        squat.start(&state).unwrap();

        let mut commands = vec![ServoCommand::Stop; 12];
        let mut last: Vec<_> = state.servos.iter().map(|servo| (servo.position, 0.0)).collect();
        for tick in 0..8000 {
            if let Some((name, value)) = change.filter(|_| tick == 5000) {
                let live = squat.parameters();
                live.iter().find(|parameter| parameter.name == name).unwrap().put(value);
            }
            squat.update(&state, &mut commands).unwrap();
            let now = positions(&commands);
            for (&(p0, v0), &(p1, v1)) in last.iter().zip(&now) {
                let moved = (p1 - p0) / state.dt();
                // Faster steps are more curved.
                let apart = if change.is_some() { 0.2 } else { 0.02 };
                let off = (moved - 0.5 * (v0 + v1)).abs();
                assert!(off < apart, "{change:?}, tick {tick}: {moved} against {v0}, {v1}");
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
