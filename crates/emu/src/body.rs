//! What the servos move: joints, alone or tied into one machine.

mod ground;
mod joint;
mod math;
mod quadruped;

pub use ground::Ground;
pub use math::{Rotation, Vec3, add, norm};
pub use quadruped::{BodyConfig, Quadruped, QuadrupedConfig};

use crate::config::JointConfig;

/// What a servo applies to its joint during one step.
///
/// The damping part is integrated implicitly, so a stiff gain cannot make the emulated joint explode.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Drive {
    /// Torque at standstill, N·m.
    pub torque: f64,
    /// Torque lost per speed, N·m·s/rad, not negative.
    pub damping: f64,
}

/// Where a joint is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JointState {
    /// rad.
    pub position: f64,
    /// rad/s.
    pub velocity: f64,
}

/// How the trunk that carries the IMU lies and moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trunk {
    /// Its middle in the world, m.
    pub position: [f64; 3],
    /// Body → world, unit quaternion w, x, y, z.
    pub attitude: [f64; 4],
    /// rad/s in the body frame.
    pub rate: [f64; 3],
    /// m/s² in the body frame, without gravity.
    pub acceleration: [f64; 3],
}

impl Trunk {
    /// Upright and at rest.
    pub const UPRIGHT: Self =
        Self { position: [0.0; 3], attitude: [1.0, 0.0, 0.0, 0.0], rate: [0.0; 3], acceleration: [0.0; 3] };

    /// Which way it faces, rad: 0 along the world's x axis, positive to the left.
    pub fn yaw(&self) -> f64 {
        let [w, x, y, z] = self.attitude;
        (2.0 * (w * z + x * y)).atan2(1.0 - 2.0 * (y * y + z * z))
    }
}

/// What a body feels of the ground.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forces {
    /// Height of the trunk's middle, m.
    pub height: f64,
    /// Its vertical speed, m/s, upwards.
    pub vertical_speed: f64,
    /// What the ground carries, N.
    pub ground: f64,
    /// The trunk itself lies on the ground.
    pub trunk_touches: bool,
    /// Speed at which the trunk first touched the ground, m/s; see [`Body::forget_peaks`].
    pub contact_speed: Option<f64>,
    /// Greatest `ground` so far, N.
    pub peak_ground: f64,
    /// Greatest torque the ground put on a joint so far, N·m; `None` if the body cannot compute it.
    pub peak_joint: Option<f64>,
}

/// A mechanism with one joint per servo, in the order of the configuration. It knows joints and their angles, no servos.
///
/// Must be deterministic, must not allocate in [`Body::step`], and `joints` keeps its length.
pub trait Body: Send {
    /// The longest step it can take, s. Control loops and bodies meet every [`crate::twin::STEP_NS`]; a body that needs shorter steps is
    /// moved on several times in between.
    fn longest_step_s(&self) -> f64 {
        f64::INFINITY
    }

    /// Moves on by `dt_s` seconds under one [`Drive`] per joint.
    fn step(&mut self, dt_s: f64, drives: &[Drive]);

    /// It has a trunk that moves: see [`Body::trunk`].
    fn has_trunk(&self) -> bool {
        self.forces().is_some()
    }

    /// Where the joints are now.
    fn joints(&self) -> &[JointState];

    /// How the trunk lies now.
    fn trunk(&self) -> Trunk {
        Trunk::UPRIGHT
    }

    /// What it feels of the ground; `None` for a body that has none.
    fn forces(&self) -> Option<Forces> {
        None
    }

    /// Starts measuring peaks and the first touch anew.
    fn forget_peaks(&mut self) {}

    /// Positions and velocities of all joints of a simulator's model, in its own order; `None` if there is no such model.
    fn model_state(&self) -> Option<(&[f64], &[f64])> {
        None
    }

    /// Why it can move no more, if it cannot: what simulates it has given up.
    fn failed(&self) -> Option<&str> {
        None
    }
}

/// Joints that do not feel each other, on a trunk that stands still.
#[derive(Clone, Debug)]
pub struct Joints {
    joints: Vec<JointConfig>,
    states: Vec<JointState>,
    rotors: Vec<JointState>,
}

impl Joints {
    /// Each joint at its start, at rest.
    pub fn new(joints: Vec<JointConfig>) -> Self {
        let states: Vec<_> = joints.iter().map(|j| JointState { position: j.start, velocity: 0.0 }).collect();
        Self { joints, rotors: states.clone(), states }
    }

    /// The same joints, moving as these are. Allocates nothing.
    ///
    /// # Panics
    /// If `states` are not one per joint.
    pub fn set(&mut self, states: &[JointState]) {
        self.states.copy_from_slice(states);
        self.rotors.copy_from_slice(states);
    }
}

impl Body for Joints {
    fn step(&mut self, dt_s: f64, drives: &[Drive]) {
        let joints = self.joints.iter().zip(&mut self.states).zip(&mut self.rotors);
        for (((joint, state), rotor), drive) in joints.zip(drives) {
            joint.step(state, rotor, dt_s, *drive, 0.0);
        }
    }

    fn joints(&self) -> &[JointState] {
        &self.states
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(joint: JointConfig, drive: Drive, seconds: f64) -> JointState {
        let mut body = Joints::new(vec![joint]);
        for _ in 0..(seconds / 250e-6) as usize {
            body.step(250e-6, &[drive]);
        }
        body.joints()[0]
    }

    #[test]
    fn a_free_mass_accelerates_by_torque_over_inertia() {
        let joint = JointConfig { viscous: 0.0, coulomb: 0.0, ..JointConfig::default() };
        let state = run(joint, Drive { torque: 0.1, damping: 0.0 }, 1.0);
        assert!((state.velocity - 10.0).abs() < 0.01);
        assert!((state.position - 5.0).abs() < 0.01);
    }

    #[test]
    fn friction_holds_a_joint_and_gravity_swings_it() {
        let stuck = run(JointConfig::default(), Drive { torque: 0.015, damping: 0.0 }, 1.0);
        assert_eq!(stuck, JointState::default());
        let pendulum = JointConfig { gravity: 1.0, start: 1.0, viscous: 0.2, ..JointConfig::default() };
        assert!(run(pendulum, Drive::default(), 5.0).position.abs() < 0.05);
    }

    #[test]
    fn end_stops_end_the_motion() {
        let joint = JointConfig { stops: Some([-0.5, 0.5]), ..JointConfig::default() };
        assert_eq!(run(joint, Drive { torque: 1.0, damping: 0.0 }, 2.0).position, 0.5);
        assert_eq!(run(joint, Drive { torque: -1.0, damping: 0.0 }, 2.0).position, -0.5);
    }

    #[test]
    fn huge_damping_is_stable() {
        let state = run(JointConfig::default(), Drive { torque: 1.0, damping: 1000.0 }, 0.1);
        assert!(state.velocity > 0.0 && state.velocity < 0.001);
    }
}
