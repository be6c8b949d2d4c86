//! Keeps commands within the limits of each servo, and lowers torque when one runs hot.

use super::{Cause, SupervisorSettings};
use crate::command::{PositionCommand, ServoCommand};
use crate::config::{Limits, OutOfLimits, RobotConfig};
use crate::state::ServoState;

/// What commands may ask of each servo.
#[derive(Clone, Debug)]
pub struct Guard {
    limits: Vec<Bounds>,
    /// Commands that were cut to the limits.
    clamped: u64,
}

/// Limits of one servo; infinite where there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Least and greatest position, rad.
    pub position: [f64; 2],
    /// Greatest speed, rad/s.
    pub velocity: f64,
    /// Greatest torque, N·m.
    pub torque: f64,
}

impl Bounds {
    /// Everything is allowed.
    pub const NONE: Self =
        Self { position: [f64::NEG_INFINITY, f64::INFINITY], velocity: f64::INFINITY, torque: f64::INFINITY };

    fn of(limits: &Limits) -> Self {
        Self {
            position: limits.position.unwrap_or(Self::NONE.position),
            velocity: limits.velocity.unwrap_or(f64::INFINITY),
            torque: limits.torque.unwrap_or(f64::INFINITY),
        }
    }

    /// The command with everything cut to the limits.
    fn clamp(&self, command: PositionCommand) -> PositionCommand {
        let [low, high] = self.position;
        PositionCommand {
            // NaN stays NaN: without a position gain there is no target.
            position: command.position.clamp(low, high),
            velocity: command.velocity.clamp(-self.velocity, self.velocity),
            torque: command.torque.clamp(-self.torque, self.torque),
            kp_scale: command.kp_scale.clamp(0.0, 1.0),
            kd_scale: command.kd_scale.clamp(0.0, 1.0),
            max_torque: command.max_torque,
        }
    }
}

impl Guard {
    /// No limits for `servos` servos.
    pub fn unlimited(servos: usize) -> Self {
        Self { limits: vec![Bounds::NONE; servos], clamped: 0 }
    }

    /// The limits of a robot file.
    pub fn of(robot: &RobotConfig) -> Self {
        Self { limits: robot.servos.iter().map(|servo| Bounds::of(&servo.limits)).collect(), clamped: 0 }
    }

    /// Commands cut to the limits so far.
    pub const fn clamped(&self) -> u64 {
        self.clamped
    }

    /// Cuts every command to its limits and lowers the torque of hot servos; `derate` is a share for all. Returns
    /// what may not be sent at all.
    pub fn check(
        &mut self,
        commands: &mut [ServoCommand],
        servos: &[ServoState],
        settings: &SupervisorSettings,
        derate: f64,
    ) -> Option<Cause> {
        let mut trouble = None;
        for (index, ((command, servo), bounds)) in
            commands.iter_mut().zip(servos).zip(&self.limits).enumerate()
        {
            let ServoCommand::Position(asked) = command else { continue };
            if !is_sound(asked) {
                trouble = trouble.or(Some(Cause::CommandNotFinite { servo: index as u16 }));
                continue;
            }
            let allowed = bounds.clamp(*asked);
            if !same(&allowed, asked) {
                self.clamped += 1;
                if settings.out_of_limits == OutOfLimits::Trip {
                    trouble = trouble.or(Some(Cause::CommandOutOfLimits { servo: index as u16 }));
                }
            }
            // The smaller of two, where NaN stands for no limit.
            let most =
                allowed.max_torque.min(bounds.torque) * heat_share(servo.temperature, settings) * derate;
            let max_torque = if most.is_finite() { most } else { f64::NAN };
            *asked = PositionCommand { max_torque, ..allowed };
        }
        trouble
    }
}

/// Every part is a number where it has to be. No position is needed without a position gain; a velocity and a
/// torque limit that are NaN have a meaning of their own.
fn is_sound(command: &PositionCommand) -> bool {
    let position = command.position.is_finite() || (command.position.is_nan() && command.kp_scale == 0.0);
    position
        && !command.velocity.is_infinite()
        && command.torque.is_finite()
        && command.kp_scale.is_finite()
        && command.kd_scale.is_finite()
        && (command.max_torque.is_nan() || command.max_torque >= 0.0)
}

fn same(a: &PositionCommand, b: &PositionCommand) -> bool {
    let equal = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    equal(a.position, b.position)
        && equal(a.velocity, b.velocity)
        && a.torque == b.torque
        && a.kp_scale == b.kp_scale
        && a.kd_scale == b.kd_scale
}

/// The share of its torque a servo may use at a temperature; all of it when the temperature is not known.
fn heat_share(celsius: f64, settings: &SupervisorSettings) -> f64 {
    let (soft, hard) = (settings.temperature_soft, settings.temperature_hard);
    if celsius > soft {
        let over = ((celsius - soft) / (hard - soft)).min(1.0);
        1.0 - over * (1.0 - settings.derate_to)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        let limits = vec![Bounds { position: [-1.0, 1.0], velocity: 2.0, torque: 5.0 }];
        Guard { limits, clamped: 0 }
    }

    fn checked(command: PositionCommand, celsius: f64) -> (PositionCommand, Option<Cause>) {
        let servo = ServoState { temperature: celsius, ..ServoState::UNKNOWN };
        let mut commands = [ServoCommand::Position(command)];
        let trouble = guard().check(&mut commands, &[servo], &SupervisorSettings::default(), 1.0);
        let [ServoCommand::Position(command)] = commands else { panic!("still a position") };
        (command, trouble)
    }

    #[test]
    fn cuts_to_the_limits() {
        let asked =
            PositionCommand { velocity: -9.0, torque: 7.0, kp_scale: 3.0, ..PositionCommand::hold(4.0) };
        let (allowed, trouble) = checked(asked, 25.0);
        let expected =
            PositionCommand { velocity: -2.0, torque: 5.0, max_torque: 5.0, ..PositionCommand::hold(1.0) };
        assert_eq!((allowed, trouble), (expected, None));
    }

    #[test]
    fn a_position_may_be_missing_only_without_its_gain() {
        let (_, trouble) = checked(PositionCommand::hold(f64::NAN), 25.0);
        assert_eq!(trouble, Some(Cause::CommandNotFinite { servo: 0 }));
        let free = PositionCommand { kp_scale: 0.0, ..PositionCommand::hold(f64::NAN) };
        assert_eq!(checked(free, 25.0).1, None);
        let (_, trouble) = checked(PositionCommand { torque: f64::NAN, ..PositionCommand::hold(0.0) }, 25.0);
        assert_eq!(trouble, Some(Cause::CommandNotFinite { servo: 0 }));
    }

    #[test]
    fn torque_sinks_between_the_soft_and_the_hard_limit() {
        let most = |celsius| checked(PositionCommand::hold(0.0), celsius).0.max_torque;
        assert_eq!([most(60.0), most(f64::NAN)], [5.0, 5.0]);
        assert!((most(65.0) - 5.0 * 0.65).abs() < 1e-9);
        assert!((most(90.0) - 5.0 * 0.3).abs() < 1e-9);
    }
}
