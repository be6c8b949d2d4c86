//! The codes of a servo, and the gains it is driven with.

use crate::{Carries, Mounting};
use khz_wire::mit::Scale;

/// What the codes of a servo mean, and the gains it is driven with.
#[derive(Clone, Debug, PartialEq)]
pub struct Drive {
    /// Position gain, N·m/rad.
    pub kp: f64,
    /// Velocity gain, N·m·s/rad.
    pub kd: f64,
    /// Velocity gain while it damps, N·m·s/rad.
    pub damping: f64,
    /// Half the ranges of position, velocity and torque: rad, rad/s, N·m.
    pub ranges: [f64; 3],
    /// The greatest gains of position and velocity there is a code for.
    pub most: [f64; 2],
    /// How many bits codes have; those of positions 16 at least.
    pub bits: u32,
}

/// The codes of a [`Drive`], worked out once.
#[derive(Clone, Copy, Debug)]
pub struct Scales {
    /// See [`Drive::position`].
    pub position: Scale,
    /// See [`Drive::velocity`].
    pub velocity: Scale,
    /// See [`Drive::torque`].
    pub torque: Scale,
    /// See [`Drive::kp`].
    pub kp: Scale,
    /// See [`Drive::kd`].
    pub kd: Scale,
}

impl Drive {
    /// All its codes.
    pub const fn scales(&self) -> Scales {
        Scales {
            position: self.position(),
            velocity: self.velocity(),
            torque: self.torque(),
            kp: self.kp(),
            kd: self.kd(),
        }
    }

    /// Codes of position.
    pub const fn position(&self) -> Scale {
        Scale::symmetric(self.ranges[0], if self.bits > 16 { self.bits } else { 16 })
    }

    /// Codes of velocity.
    pub const fn velocity(&self) -> Scale {
        Scale::symmetric(self.ranges[1], self.bits)
    }

    /// Codes of torque.
    pub const fn torque(&self) -> Scale {
        Scale::symmetric(self.ranges[2], self.bits)
    }

    /// Codes of the position gain.
    pub const fn kp(&self) -> Scale {
        Scale::new(0.0, self.most[0], self.bits)
    }

    /// Codes of the velocity gain.
    pub const fn kd(&self) -> Scale {
        Scale::new(0.0, self.most[1], self.bits)
    }

    /// See [`crate::FamilySettings::reach_of`].
    pub fn reach_of(&self, torque: f64) -> f64 {
        torque.min(self.ranges[2]) / self.kp
    }

    /// What can be sent and received; see [`crate::FamilySettings::carries`].
    pub fn carries(&self, mounting: &Mounting) -> Carries {
        let [position, velocity, torque] = self.ranges;
        Carries {
            zero: mounting.offset,
            position,
            velocity,
            torque,
            max_torque: 0.0,
            least_max_torque: 0.0,
            kp_scale: true,
            kd_scale: true,
            kp_needs_kd: false,
            velocity_asked: true,
            torque_asked: true,
            // What its states carry is always a number.
            voltage_asked: false,
            temperature_asked: false,
            reported: [position, velocity],
            reported_steps: [self.position().step(), self.velocity().step()],
        }
    }

    /// See [`crate::FamilySettings::targets`].
    pub fn targets(&self, limits: [f64; 2], mounting: &Mounting) -> [f64; 2] {
        mounting.narrow(limits, |servo| self.position().inside(servo))
    }
}
