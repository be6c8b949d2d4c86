//! What the robot file says about one joint, as the supervisor needs it.

use crate::command::PositionCommand;
use crate::config::{Format, Limits, ServoConfig};
use khz_wire::Class;
use std::f64::consts::TAU;
use std::fmt;

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

    /// Its position or its velocity is limited.
    pub fn limit_motion(&self) -> bool {
        self.position != Self::NONE.position || self.velocity != Self::NONE.velocity
    }

    /// The position limit that a position is beyond by more than `tolerance`, rad. None for NaN.
    pub fn exceeded(&self, position: f64, tolerance: f64) -> Option<f64> {
        let [low, high] = self.position;
        if position < low - tolerance {
            Some(low)
        } else if position > high + tolerance {
            Some(high)
        } else {
            None
        }
    }
}

/// A measured or commanded quantity of a joint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// rad.
    Position,
    /// rad/s.
    Velocity,
    /// N·m.
    Torque,
    /// Share of the position gain.
    KpScale,
    /// Share of the velocity gain.
    KdScale,
}

impl Quantity {
    const fn class(self) -> Class {
        match self {
            Self::Position => Class::Position,
            Self::Velocity => Class::Velocity,
            Self::Torque => Class::Torque,
            Self::KpScale | Self::KdScale => Class::Pwm,
        }
    }

    /// The key of `query` and `command`, and the word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Position => "position",
            Self::Velocity => "velocity",
            Self::Torque => "torque",
            Self::KpScale => "kp_scale",
            Self::KdScale => "kd_scale",
        }
    }

    /// Its unit.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Position => "rad",
            Self::Velocity => "rad/s",
            Self::Torque => "N·m",
            Self::KpScale | Self::KdScale => "of the gain",
        }
    }

    /// The greatest magnitude a format carries, in the joint's unit and seen from the servo's zero.
    pub fn greatest(self, format: Format) -> f64 {
        let turns = if matches!(self, Self::Position | Self::Velocity) { TAU } else { 1.0 };
        format.greatest(self.class()) * turns
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One joint.
#[derive(Clone, Debug)]
pub struct Joint {
    /// Its limits.
    pub bounds: Bounds,
    /// Target positions that are still within the limits once they have been rounded for the wire, rad.
    pub target: [f64; 2],
    /// What can be sent.
    pub sent: Sendable,
    /// The servo is asked for its velocity: then NaN is what it says, otherwise what nobody knows.
    pub velocity_asked: bool,
    /// Greatest position (from the servo's zero) and velocity it can report, rad and rad/s.
    pub reported: [f64; 2],
}

/// What the formats of a joint's command can carry.
#[derive(Clone, Copy, Debug)]
pub struct Sendable {
    /// Joint angle at the servo's zero, rad.
    zero: f64,
    /// Greatest magnitude of position (from the servo's zero), velocity, torque.
    position: f64,
    velocity: f64,
    torque: f64,
    /// Greatest `max_torque`.
    pub max_torque: f64,
    /// The least `max_torque` that is not 0.
    pub least_max_torque: f64,
    /// The position gain is sent; otherwise it is 1.
    pub kp_scale: bool,
    /// The same of the velocity gain.
    pub kd_scale: bool,
}

impl Joint {
    /// No limits, and everything travels.
    pub fn unlimited() -> Self {
        let float = |quantity: Quantity| quantity.greatest(Format::Float);
        let sent = Sendable {
            zero: 0.0,
            position: float(Quantity::Position),
            velocity: float(Quantity::Velocity),
            torque: float(Quantity::Torque),
            max_torque: float(Quantity::Torque),
            least_max_torque: 0.0,
            kp_scale: true,
            kd_scale: true,
        };
        Self {
            bounds: Bounds::NONE,
            target: Bounds::NONE.position,
            sent,
            velocity_asked: true,
            reported: [sent.position, sent.velocity],
        }
    }

    /// A servo of a robot file.
    pub fn of(servo: &ServoConfig) -> Self {
        let (bounds, command, query) = (Bounds::of(&servo.limits), &servo.command, &servo.query);
        Self {
            bounds,
            target: sendable_targets(bounds.position, servo),
            sent: Sendable {
                zero: servo.offset,
                position: Quantity::Position.greatest(command.position),
                velocity: unless_left_out(Quantity::Velocity, command.velocity),
                torque: unless_left_out(Quantity::Torque, command.torque),
                max_torque: Quantity::Torque.greatest(command.max_torque),
                least_max_torque: command.max_torque.step(Class::Torque),
                kp_scale: command.kp_scale != Format::None,
                kd_scale: command.kd_scale != Format::None,
            },
            velocity_asked: query.velocity != Format::None,
            reported: [
                Quantity::Position.greatest(query.position),
                Quantity::Velocity.greatest(query.velocity),
            ],
        }
    }
}

impl Sendable {
    /// What of a command cannot travel: the quantity, its value, and the greatest magnitude that can. `held`: the joint
    /// follows the position, so it has to be sent. A gain's share that is not sent is 1 for the servo: any other would be
    /// more than was asked.
    pub fn lack(&self, held: bool, command: &PositionCommand) -> Option<(Quantity, f64, f64)> {
        let PositionCommand { position, velocity, torque, kp_scale, kd_scale, .. } = *command;
        // Comparisons with NaN are false: a position or velocity that is left open travels.
        let beyond = |value: f64, zero: f64, most: f64| (value - zero).abs() > most;
        let left_out = self.position == 0.0;
        if !self.kp_scale && kp_scale != 1.0 {
            Some((Quantity::KpScale, kp_scale, 0.0))
        } else if !self.kd_scale && kd_scale != 1.0 {
            Some((Quantity::KdScale, kd_scale, 0.0))
        } else if left_out && held || !left_out && beyond(position, self.zero, self.position) {
            Some((Quantity::Position, position, self.position))
        } else if beyond(velocity, 0.0, self.velocity) {
            Some((Quantity::Velocity, velocity, self.velocity))
        } else if beyond(torque, 0.0, self.torque) {
            Some((Quantity::Torque, torque, self.torque))
        } else {
            None
        }
    }
}

/// A velocity or torque that is not sent is 0 for the servo: it does less than was asked, so nothing is cut.
fn unless_left_out(quantity: Quantity, format: Format) -> f64 {
    if format == Format::None { f64::INFINITY } else { quantity.greatest(format) }
}

/// The limits, narrowed to what the format of the target carries exactly.
fn sendable_targets(limits: [f64; 2], servo: &ServoConfig) -> [f64; 2] {
    let Some(format) = servo.command.position.resolution() else { return limits };
    let sign = if servo.sign < 0 { -1.0 } else { 1.0 };
    let in_turns = limits.map(|joint| sign * (joint - servo.offset) / TAU);
    let in_joint = |turns: [f64; 2]| ordered(turns.map(|turns| sign * turns * TAU + servo.offset));
    let [low, high] = in_joint(Class::Position.inside(ordered(in_turns), format));
    // Limits less than a step apart hold no target; `khz check` says so.
    if low <= high { [low, high] } else { limits }
}

fn ordered([a, b]: [f64; 2]) -> [f64; 2] {
    [a.min(b), a.max(b)]
}
