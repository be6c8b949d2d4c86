//! Move one joint after another so that a recording shows what it is made of: steps, then a sweep, gently and within limits.

use super::moving::Moving;
use khz_loop::controller::{ControlError, Controller, JointInfo, RobotInfo};
use khz_loop::state::RobotState;
use khz_servo::{PositionCommand, ServoCommand};
use khz_settings::section;
use std::f64::consts::TAU;

section! {
    /// `[controller]` with `name = "excite"`: motion for `khz identify`. Every joint needs `limits` of position and velocity.
    #[derive(Copy)]
    ExciteParameters {
        /// Maximum distance from the middle of a joint's motion, which is where it starts, or as near as its limits leave room.
        amplitude: f64 = 0.4, "rad", 0.01 => 3.0;
        /// Share of a joint's limits of velocity and acceleration that is used.
        share: f64 = 0.4, "", 0.01 => 0.9;
        /// Frequency at the start of a sweep.
        from_hz: f64 = 0.2, "Hz", 0.01 => 100.0;
        /// Frequency at the end of a sweep. The faster it gets, the less far it goes.
        to_hz: f64 = 4.0, "Hz", 0.01 => 100.0;
        /// Duration of a sweep.
        sweep_s: f64 = 12.0, "s", 4.0 => 1000.0;
    }
}

/// Share of a joint's range that its motion keeps away from each end.
const MARGIN: f64 = 0.1;
/// Where the steps go, as shares of the amplitude.
const STEPS: [f64; 6] = [1.0, -1.0, 0.5, -0.5, 0.1, 0.0];
/// How long a joint rests after each step, and before and after its motion, s.
const REST_S: f64 = 0.5;
/// How long a sweep takes to grow and to fade, s.
const RAMP_S: f64 = 1.5;
/// Velocities are those of a target over this time, s.
const DT_S: f64 = 1e-4;

/// What a joint may do.
#[derive(Clone, Copy, Debug)]
struct Limited {
    position: [f64; 2],
    velocity: f64,
    acceleration: f64,
}

/// The motion of one joint.
#[derive(Clone, Copy, Debug)]
struct Motion {
    start: f64,
    centre: f64,
    amplitude: f64,
    velocity: f64,
    acceleration: f64,
    sweep: ExciteParameters,
}

impl Motion {
    /// Around where the joint is, as far as its limits leave room.
    fn of(start: f64, limited: &Limited, parameters: ExciteParameters) -> Self {
        let [low, high] = limited.position;
        let margin = MARGIN * (high - low);
        let amplitude = parameters.amplitude.min(0.5 * (high - low) - margin);
        let (velocity, acceleration) =
            (parameters.share * limited.velocity, parameters.share * limited.acceleration);
        let centre = start.max(low + margin + amplitude).min(high - margin - amplitude);
        Self { start, centre, amplitude, velocity, acceleration, sweep: parameters }
    }

    /// How long a way takes that starts and ends at rest, s.
    fn takes(&self, way: f64) -> f64 {
        (1.5 * way.abs() / self.velocity).max((6.0 * way.abs() / self.acceleration).sqrt()).max(0.02)
    }

    /// Its points of rest: to the middle, the steps, and back at its end.
    fn rests(&self) -> impl Iterator<Item = f64> + '_ {
        [0.0].into_iter().chain(STEPS).map(|step| self.centre + step * self.amplitude)
    }

    /// Where it is to be after `t` seconds; `None`: it has ended where it started.
    fn at(&self, t: f64) -> Option<f64> {
        let (mut left, mut from) = (t, self.start);
        for to in self.rests() {
            let takes = self.takes(to - from);
            if left < takes + REST_S {
                return Some(from + (to - from) * Moving::step(left, takes).at);
            }
            (left, from) = (left - takes - REST_S, to);
        }
        if left < self.sweep.sweep_s {
            return Some(self.centre + self.swing(left));
        }
        left -= self.sweep.sweep_s;
        let takes = self.takes(self.start - self.centre);
        let is_over = left >= takes + REST_S;
        (!is_over).then(|| self.centre + (self.start - self.centre) * Moving::step(left, takes).at)
    }

    /// The sweep: its frequency grows by the same factor in each second.
    fn swing(&self, t: f64) -> f64 {
        let ExciteParameters { from_hz, to_hz, sweep_s, .. } = self.sweep;
        let growth = (to_hz / from_hz).ln() / sweep_s;
        let hz = from_hz * (growth * t).exp();
        let turns = if growth.abs() < 1e-9 { from_hz * t } else { (hz - from_hz) / growth };
        let rate = TAU * hz;
        // Less than the least of them, without a corner, at which its speed would jump.
        let most = [self.amplitude, self.velocity / rate, self.acceleration / (rate * rate)];
        let most = most.map(|most| most.powi(-4)).iter().sum::<f64>().powf(-0.25);
        let ramp = Moving::step(t, RAMP_S).at * Moving::step(sweep_s - t, RAMP_S).at;
        ramp * most * (TAU * turns).sin()
    }

    /// The command after `t` seconds.
    fn command(&self, t: f64) -> Option<PositionCommand> {
        let position = self.at(t)?;
        let velocity = self.at(t + DT_S).map_or(0.0, |next| (next - position) / DT_S);
        Some(PositionCommand { velocity, ..PositionCommand::hold(position) })
    }
}

/// Excites one joint after the other, in the order of the robot file, while the others hold; then it is finished.
#[derive(Clone, Debug)]
pub struct Excite {
    parameters: ExciteParameters,
    limits: Vec<Limited>,
    motions: Vec<Motion>,
    moving: usize,
    since_s: f64,
}

impl Excite {
    /// See [`ExciteParameters`].
    pub fn new(parameters: ExciteParameters) -> Self {
        Self { parameters, limits: Vec::new(), motions: Vec::new(), moving: 0, since_s: 0.0 }
    }
}

fn limited(joint: &JointInfo) -> Result<Limited, ControlError> {
    let limits = &joint.limits;
    let (Some(position), Some(velocity), Some(acceleration)) =
        (limits.position, limits.velocity, limits.greatest_acceleration())
    else {
        let text = format!(
            "`excite` moves no joint without limits: write `limits = {{ position = [MIN, MAX], velocity = … }}` for `{}`",
            joint.name
        );
        return Err(ControlError(text.into()));
    };
    Ok(Limited { position, velocity, acceleration })
}

impl Controller for Excite {
    fn prepare(&mut self, robot: &RobotInfo) -> Result<(), ControlError> {
        self.limits = robot.joints.iter().map(limited).collect::<Result<_, _>>()?;
        self.motions = Vec::with_capacity(self.limits.len());
        Ok(())
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        (self.moving, self.since_s) = (0, 0.0);
        self.motions.clear();
        let joints = state.servos.iter().zip(&self.limits);
        self.motions
            .extend(joints.map(|(servo, limited)| Motion::of(servo.position, limited, self.parameters)));
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        for (command, motion) in commands.iter_mut().zip(&self.motions) {
            *command = ServoCommand::Position(PositionCommand::hold(motion.start));
        }
        let Some(motion) = self.motions.get(self.moving) else { return Ok(()) };
        self.since_s += state.dt();
        match motion.command(self.since_s) {
            Some(command) => commands[self.moving] = ServoCommand::Position(command),
            None => (self.moving, self.since_s) = (self.moving + 1, 0.0),
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        !self.motions.is_empty() && self.moving >= self.motions.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITED: Limited = Limited { position: [-1.0, 1.0], velocity: 5.0, acceleration: 50.0 };

    #[test]
    fn motion_stays_within_its_limits_and_ends_where_it_began() {
        for start in [-1.0, -0.9, 0.0, 0.7, 1.0] {
            let parameters = ExciteParameters { amplitude: 2.0, ..ExciteParameters::default() };
            let motion = Motion::of(start, &LIMITED, parameters);
            let (dt, mut before, mut speed, mut ticks) = (1e-3, start, 0.0, 0);
            while let Some(position) = motion.at(f64::from(ticks) * dt) {
                let now = (position - before) / dt;
                assert!((-1.0..=1.0).contains(&position), "{start}: {position}");
                assert!(now.abs() <= 0.5 * LIMITED.velocity, "{start}, {ticks}: {now} rad/s");
                let acceleration = ((now - speed) / dt).abs();
                assert!(
                    acceleration <= 0.6 * LIMITED.acceleration,
                    "{start}, {ticks}: {acceleration} rad/s²"
                );
                (before, speed, ticks) = (position, now, ticks + 1);
            }
            assert!((before - start).abs() < 1e-9 && ticks > 12_000, "{start}: {before} after {ticks}");
        }
    }

    #[test]
    fn a_joint_without_limits_is_not_moved() {
        let joint = |limits| JointInfo { name: "elbow".to_owned(), limits, gains: None, torque: None };
        let refused = limited(&joint(khz_loop::supervisor::Limits::default())).unwrap_err();
        assert!(refused.0.contains("for `elbow`"), "{}", refused.0);
    }
}
