//! What the robot file says about one joint, as the supervisor needs it.

use crate::config::{Limits, ServoConfig, Timeout};
use khz_servo::Carries;

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

/// One joint.
#[derive(Clone, Debug)]
pub struct Joint {
    /// Its limits.
    pub bounds: Bounds,
    /// Target positions that are still within the limits once they have been rounded for the wire, rad.
    pub target: [f64; 2],
    /// What its servo's messages can carry.
    pub carries: Carries,
    /// See [`Timeout`].
    pub timeout: Option<Timeout>,
}

impl Joint {
    /// No limits, and everything travels.
    pub const UNLIMITED: Self = Self {
        bounds: Bounds::NONE,
        target: Bounds::NONE.position,
        carries: Carries::EVERYTHING,
        timeout: None,
    };

    /// A servo of a robot file.
    pub fn of(servo: &ServoConfig) -> Self {
        let bounds = Bounds::of(&servo.limits);
        let (family, mounting) = (servo.family(), servo.mounting());
        let [low, high] = family.settings().targets(bounds.position, &mounting);
        // Limits less than a step apart hold no target; `khz check` says so.
        let target = if low <= high { [low, high] } else { bounds.position };
        Self { bounds, target, carries: family.settings().carries(&mounting), timeout: Timeout::of(servo) }
    }
}
