//! What the messages of a servo can carry.

use crate::command::PositionCommand;
use std::fmt;

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
    /// Greatest torque, N·m.
    MaxTorque,
}

impl Quantity {
    /// The word for it, and its key in a robot file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Position => "position",
            Self::Velocity => "velocity",
            Self::Torque => "torque",
            Self::KpScale => "kp_scale",
            Self::KdScale => "kd_scale",
            Self::MaxTorque => "max_torque",
        }
    }

    /// Its unit.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Position => "rad",
            Self::Velocity => "rad/s",
            Self::Torque | Self::MaxTorque => "N·m",
            Self::KpScale | Self::KdScale => "of the gain",
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What can be sent to a servo and received from it, in the joint's units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carries {
    /// Joint angle at the servo's zero, rad.
    pub zero: f64,
    /// Greatest magnitude of a commanded position, seen from the servo's zero, rad; 0: none can be commanded.
    pub position: f64,
    /// The same of a velocity, rad/s; infinite if none travels, which means 0 to the servo and does no harm.
    pub velocity: f64,
    /// The same of a torque, N·m.
    pub torque: f64,
    /// Greatest `max_torque`, N·m; 0: none can be commanded.
    pub max_torque: f64,
    /// The least `max_torque` that is not 0, N·m.
    pub least_max_torque: f64,
    /// The share of the position gain travels; otherwise it is 1.
    pub kp_scale: bool,
    /// The same of the velocity gain.
    pub kd_scale: bool,
    /// A position gain acts through the velocity gain only: a share of 0 of that cannot be sent with it.
    pub kp_needs_kd: bool,
    /// The servo reports its velocity: NaN is then what it reports, otherwise it means unknown.
    pub velocity_asked: bool,
    /// The same of its torque.
    pub torque_asked: bool,
    /// The servo is asked for its supply voltage: NaN is then what it reports.
    pub voltage_asked: bool,
    /// The same of its temperature.
    pub temperature_asked: bool,
    /// Greatest position (from the servo's zero) and velocity it can report, rad and rad/s.
    pub reported: [f64; 2],
    /// Least differences of position and velocity it can report, rad and rad/s; 0 for floats.
    pub reported_steps: [f64; 2],
}

impl Carries {
    /// Everything travels, as single-precision floats.
    pub const EVERYTHING: Self = Self {
        zero: 0.0,
        position: f32::MAX as f64,
        velocity: f32::MAX as f64,
        torque: f32::MAX as f64,
        max_torque: f32::MAX as f64,
        least_max_torque: 0.0,
        kp_scale: true,
        kd_scale: true,
        kp_needs_kd: false,
        velocity_asked: true,
        torque_asked: true,
        voltage_asked: true,
        temperature_asked: true,
        reported: [f32::MAX as f64; 2],
        reported_steps: [0.0; 2],
    };

    /// What of a command cannot travel: the quantity, its value, and the greatest magnitude that can. `held`: the joint
    /// follows the position, so it has to be sent. A gain's share that is not sent is 1 for the servo: any other would be
    /// more than was asked.
    pub fn lack(&self, held: bool, command: &PositionCommand) -> Option<(Quantity, f64, f64)> {
        let PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque } = *command;
        // Comparisons with NaN are false: a position or velocity that is left open travels.
        let beyond = |value: f64, zero: f64, most: f64| (value - zero).abs() > most;
        let left_out = self.position == 0.0;
        if !self.kp_scale && kp_scale != 1.0 {
            Some((Quantity::KpScale, kp_scale, 0.0))
        } else if !self.kd_scale && kd_scale != 1.0 {
            Some((Quantity::KdScale, kd_scale, 0.0))
        } else if self.kp_needs_kd && kp_scale > 0.0 && kd_scale == 0.0 {
            Some((Quantity::KdScale, kd_scale, 1.0))
        } else if left_out && held || !left_out && beyond(position, self.zero, self.position) {
            Some((Quantity::Position, position, self.position))
        } else if beyond(velocity, 0.0, self.velocity) {
            Some((Quantity::Velocity, velocity, self.velocity))
        } else if beyond(torque, 0.0, self.torque) {
            Some((Quantity::Torque, torque, self.torque))
        } else if self.max_torque == 0.0 && !max_torque.is_nan() {
            Some((Quantity::MaxTorque, max_torque, 0.0))
        } else {
            None
        }
    }
}
