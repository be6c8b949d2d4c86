//! What the supervisor knows of one joint.

use khz_servo::{Carries, Doing, Family, Mounting};
use khz_settings::section;

section! {
    /// `limits` of a servo. A limit that is not set does not exist. safety.md describes how each limit is enforced.
    Limits {
        /// `[min, max]`: minimum and maximum joint angle. If a joint starts outside, the robot is not armed; if a
        /// joint leaves the limits under control, the robot is brought down (`position_tolerance`). Targets are
        /// clamped to the limits.
        position: Option<[f64; 2]> = None, "rad", -10_000.0 => 10_000.0;
        /// Maximum speed of the joint: a target moves no faster, and a joint that does brings the robot down
        /// (`velocity_factor`). Without it a target may jump.
        velocity: Option<f64> = None, "rad/s", 0.001 => 1000.0;
        /// Maximum torque.
        torque: Option<f64> = None, "N·m", 0.001 => 1000.0;
        /// Maximum acceleration of the motion that the controller `targets` makes. More than its targets have: otherwise the joint swings behind them.
        /// Without it `velocity` within 0.1 s.
        acceleration: Option<f64> = None, "rad/s²", 0.001 => 100_000.0;
        /// Maximum jerk of that motion. Less of it comes later: by `acceleration` / `jerk`. Without it 100 1/s times the acceleration.
        jerk: Option<f64> = None, "rad/s³", 0.001 => 100_000_000.0;
    }
}

impl Limits {
    /// How fast smooth motion may get faster, rad/s²; `None`: not set.
    pub fn greatest_acceleration(&self) -> Option<f64> {
        self.acceleration.or(self.velocity.map(|velocity| velocity / TO_SPEED_S))
    }

    /// How fast its acceleration may change, rad/s³; `None`: not set.
    pub fn greatest_jerk(&self) -> Option<f64> {
        self.jerk.or(self.greatest_acceleration().map(|acceleration| acceleration * JERK_OF_ACCELERATION))
    }
}

/// Without `acceleration` a joint reaches its `velocity` within this time.
const TO_SPEED_S: f64 = 0.1;

/// Without `jerk` it is so many times the acceleration per second: smooth motion comes 10 ms late.
const JERK_OF_ACCELERATION: f64 = 100.0;

/// How a servo times out, where it may be switched on again within a run.
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    /// It has received nothing for so long, ns.
    pub after_ns: i64,
    /// What it reports then, …
    pub doing: Doing,
    /// … and the code of the fault.
    pub fault: u32,
    /// How far its target can be from it, rad, while its position gain exerts no more than its greatest torque.
    pub reach: f64,
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

    /// Its position or its velocity is limited.
    pub fn limit_motion(&self) -> bool {
        self.position != Self::NONE.position || self.velocity != Self::NONE.velocity
    }

    /// The smaller of a torque and the limit, N·m; NaN is no torque but no limit.
    #[inline]
    pub fn torque_within(&self, torque: f64) -> f64 {
        // `min` in an eighth of its instructions: the limit is a number.
        if torque < self.torque { torque } else { self.torque }
    }

    /// Where a joint may be found that is allowed so far beyond its limits, rad; no infinity is among that.
    pub fn found(&self, tolerance: f64) -> [f64; 2] {
        let [low, high] = self.position;
        [(low - tolerance).max(f64::MIN), (high + tolerance).min(f64::MAX)]
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

    /// A servo with these limits, of this family, mounted so.
    pub fn new(limits: &Limits, family: &Family, mounting: &Mounting, timeout: Option<Timeout>) -> Self {
        let (bounds, settings) = (Bounds::of(limits), family.settings());
        let [low, high] = settings.targets(bounds.position, mounting);
        // Limits less than a step apart hold no target; `khz check` reports it.
        let target = if low <= high { [low, high] } else { bounds.position };
        Self { bounds, target, carries: settings.carries(mounting), timeout }
    }
}
