//! A hand that swings a joint, as that of a person who leads an arm: it holds the joint by a spring, and so feels what pushes back.

use crate::body::{Drive, JointState};
use crate::config::JointConfig;
use std::f64::consts::TAU;

/// How hard it holds, N·m/rad, …
const STIFFNESS: f64 = 20.0;
/// … and how soft its flesh is, N·m·s/rad.
const DAMPING: f64 = 0.6;
/// It begins so long after the machine, s: the robot is found at rest.
const FROM_S: f64 = 1.0;
/// And is as fast as it will be after so long, s.
const RISE_S: f64 = 1.0;

/// Swings a joint evenly about where it starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hand {
    middle: f64,
    reach: f64,
    /// rad/s of its clock.
    rate: f64,
}

impl Hand {
    /// The hand at a joint, if it has one.
    pub fn of(joint: &JointConfig) -> Option<Self> {
        let JointConfig { start: middle, hand_rad: reach, hand_hz, .. } = *joint;
        (reach > 0.0).then_some(Self { middle, reach, rate: TAU * hand_hz })
    }

    /// What it does to the joint so long after the machine began.
    pub fn pull(&self, joint: JointState, time_s: f64) -> Drive {
        let since = (time_s - FROM_S).max(0.0);
        let share = (since / RISE_S).min(1.0);
        let (sin, cos) = (self.rate * since).sin_cos();
        let grows = if share > 0.0 && share < 1.0 { sin / RISE_S } else { 0.0 };
        let position = self.middle + self.reach * share * sin;
        let velocity = self.reach * (share * self.rate * cos + grows);
        Drive { torque: STIFFNESS * (position - joint.position) + DAMPING * velocity, damping: DAMPING }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::{Body, Joints};

    #[test]
    fn a_joint_is_swung_from_rest_and_there_is_none_without_a_reach() {
        let joint = JointConfig { hand_rad: 0.5, start: 0.2, inertia: 0.05, ..JointConfig::default() };
        let hand = Hand::of(&joint).expect("a hand");
        assert!(Hand::of(&JointConfig::default()).is_none());
        let (mut body, mut most) = (Joints::new(vec![joint]), 0.0_f64);
        for step in 0..40_000 {
            let time_s = f64::from(step) * 250e-6;
            body.step(250e-6, &[hand.pull(body.joints()[0], time_s)]);
            let off = body.joints()[0].position - 0.2;
            assert!(time_s > FROM_S || off.abs() < 1e-3, "at {time_s}: {off}");
            most = most.max(off.abs());
        }
        assert!((0.45..0.6).contains(&most), "{most}");
    }
}
