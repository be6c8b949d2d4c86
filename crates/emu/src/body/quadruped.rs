//! A trunk on four legs of three joints, on flat ground.
//!
//! The trunk is a rigid body that carries the whole mass; legs weigh nothing but their joints have inertia. So a
//! foot's force acts on the trunk where the foot is, and on the joints through the leg's Jacobian. That is exact
//! about forces and energy but leaves out how swinging legs throw the trunk about, which is little when standing,
//! squatting and falling: the legs are a fifth of the mass.
//!
//! Joint angles: hip (abduction) 0 with the leg upright, turning about x; thigh 0 pointing down, positive forwards;
//! knee 0 stretched, negative bending back. Legs in the order front left, front right, rear left, rear right.

use super::ground::{Ground, Touch};
use super::joint::PlainJoints;
use super::math::{Rotation, Vec3, add, cross, dot, scale, sub};
use super::{Body, Drive, Forces, JointState, Trunk};
use crate::config::JointConfig;
use khz_settings::section;

const LEGS: usize = 4;
const JOINTS: usize = 3;
const CORNERS: usize = 8;
const GRAVITY: f64 = 9.81;
/// The ground is stiff: the body moves on in steps no longer than this.
const LONGEST_STEP_S: f64 = 125e-6;
/// Far more than rounding makes of a height.
const ROUNDING_M: f64 = 1e-6;

section! {
    /// `[body]`: the mechanics of an emulated quadruped of twelve servos, leg by leg (front left, front right, rear
    /// left, rear right): hip, thigh, knee. Without the table there is no ground, and
    /// the joints do not affect each other.
    BodyConfig {
        /// Mass of the whole machine.
        mass: f64 = 10.0, "kg", 0.1 => 1000.0;
        /// Length, width and height of the trunk.
        trunk: [f64; 3] = [0.36, 0.2, 0.1], "m", 0.01 => 10.0;
        /// From the middle of the trunk to the axis of a hip: forwards, and sideways.
        hip: [f64; 2] = [0.113, 0.065], "m", 0.0 => 10.0;
        /// From there to the axis of the thigh: forwards, and sideways.
        offset: [f64; 2] = [0.065, 0.1], "m", 0.0 => 10.0;
        /// Length of the thigh.
        thigh: f64 = 0.149, "m", 0.01 => 10.0;
        /// Length of the shin.
        shin: f64 = 0.15, "m", 0.01 => 10.0;
        /// Stiffness of the ground under a foot.
        stiffness: f64 = 30_000.0, "N/m", 100.0 => 100_000.0;
        /// Damping of the ground under a foot.
        damping: f64 = 150.0, "N·s/m", 0.0 => 1000.0;
        /// Friction of the ground.
        friction: f64 = 0.8, "", 0.0 => 10.0;
    }
}

/// What a quadruped is made of. The sizes are those of the mjbots quad A1 by default (mjbots/quad, configs/quada1.cfg).
#[derive(Clone, Debug, PartialEq)]
pub struct QuadrupedConfig {
    /// Sizes and masses, and the ground.
    pub body: BodyConfig,
    /// The twelve joints, leg by leg: hip, thigh, knee. Their gravity is ignored: the trunk has all the mass.
    pub joints: Vec<JointConfig>,
}

impl QuadrupedConfig {
    /// The quad A1 with these joints.
    pub fn with_joints(joints: Vec<JointConfig>) -> Self {
        Self { body: BodyConfig::default(), joints }
    }
}

impl BodyConfig {
    fn ground(&self) -> Ground {
        Ground { stiffness: self.stiffness, damping: self.damping, friction: self.friction }
    }
}

/// The machine.
#[derive(Clone, Debug)]
pub struct Quadruped {
    config: QuadrupedConfig,
    /// The joints' law, if they are no more than that.
    plain: Option<PlainJoints<{ LEGS * JOINTS }>>,
    ground: Ground,
    /// The trunk's, in its frame.
    corners_at: [Vec3; CORNERS],
    /// Principal moments of the trunk.
    inertia: Vec3,
    position: Vec3,
    velocity: Vec3,
    rotation: Rotation,
    /// rad/s in the body.
    rate: Vec3,
    /// Without gravity, m/s² in the world.
    acceleration: Vec3,
    joints: [JointState; LEGS * JOINTS],
    /// Where gears with play have their inputs.
    rotors: [JointState; LEGS * JOINTS],
    /// As [`Quadruped::bend`] found them.
    legs: [Leg; LEGS],
    feet: [Touch; LEGS],
    knees: [Touch; LEGS],
    corners: [Touch; CORNERS],
    forces: Forces,
}

/// A point of a leg in the trunk's frame, and how each joint moves it.
#[derive(Clone, Copy, Debug)]
struct LegPoint {
    at: Vec3,
    jacobian: [Vec3; JOINTS],
}

/// What the ground does to the machine in one step.
#[derive(Clone, Copy, Debug, Default)]
struct Push {
    /// On the trunk, N, in the world.
    force: Vec3,
    /// On the trunk, N·m, in its frame.
    torque: Vec3,
    /// On each joint, N·m.
    loads: [f64; LEGS * JOINTS],
    /// What the ground carries, N.
    ground: f64,
}

impl Push {
    #[inline]
    fn add(&mut self, force: Vec3, torque: Vec3) {
        self.ground += force[2];
        self.force = add(self.force, force);
        self.torque = add(self.torque, torque);
    }
}

/// Which leg it is, and how it is bent.
#[derive(Clone, Copy, Debug)]
struct Leg {
    /// 1 front and left, −1 rear and right.
    side: [f64; 2],
    hip: Bend,
    thigh: Bend,
    /// From straight down.
    shin: Bend,
}

impl Leg {
    /// A stretched one.
    fn new(leg: usize) -> Self {
        Self {
            side: [if leg < 2 { 1.0 } else { -1.0 }, if leg.is_multiple_of(2) { 1.0 } else { -1.0 }],
            hip: Bend::NONE,
            thigh: Bend::NONE,
            shin: Bend::NONE,
        }
    }
}

/// An angle with its sine and cosine, which cost more than anything else in a step.
#[derive(Clone, Copy, Debug)]
struct Bend {
    angle: f64,
    sin: f64,
    cos: f64,
}

impl Bend {
    const NONE: Self = Self { angle: 0.0, sin: 0.0, cos: 1.0 };

    /// To this angle: nothing is worked out for a joint that friction holds.
    #[inline]
    fn turn(&mut self, angle: f64) {
        if angle.to_bits() != self.angle.to_bits() {
            let (sin, cos) = angle.sin_cos();
            *self = Self { angle, sin, cos };
        }
    }
}

impl Quadruped {
    /// Lying or standing on the ground in the joints' start angles, at rest.
    ///
    /// # Panics
    /// If there are not twelve joints.
    pub fn new(mut config: QuadrupedConfig) -> Self {
        assert_eq!(config.joints.len(), LEGS * JOINTS, "twelve joints");
        let [length, width, height] = config.body.trunk;
        let moment = |a: f64, b: f64| config.body.mass / 12.0 * (a * a + b * b);
        let mut joints = [JointState::default(); LEGS * JOINTS];
        for (state, joint) in joints.iter_mut().zip(&mut config.joints) {
            state.position = joint.start;
            joint.gravity = 0.0;
        }
        let mut body = Self {
            plain: config.joints.first_chunk().and_then(PlainJoints::of),
            legs: std::array::from_fn(Leg::new),
            ground: config.body.ground(),
            corners_at: std::array::from_fn(|index| corner(config.body.trunk, index)),
            inertia: [moment(width, height), moment(length, height), moment(length, width)],
            position: [0.0; 3],
            velocity: [0.0; 3],
            rotation: Rotation::IDENTITY,
            rate: [0.0; 3],
            acceleration: [0.0; 3],
            rotors: joints,
            joints,
            feet: Default::default(),
            knees: Default::default(),
            corners: Default::default(),
            forces: Forces { peak_joint: Some(0.0), ..Forces::default() },
            config,
        };
        body.bend();
        body.position[2] = -body.lowest();
        body
    }

    /// The lowest point of the machine in the trunk's frame.
    fn lowest(&self) -> f64 {
        let points = self.legs.iter().flat_map(|leg| [self.foot(leg).at[2], self.knee(leg).at[2]]);
        points.fold(-0.5 * self.config.body.trunk[2], f64::min)
    }

    /// Bends the legs to where the joints are.
    fn bend(&mut self) {
        for (leg, joints) in self.legs.iter_mut().zip(self.joints.as_chunks::<JOINTS>().0) {
            let [hip, thigh, knee] = joints.map(|joint| joint.position);
            leg.hip.turn(hip);
            leg.thigh.turn(thigh);
            leg.shin.turn(thigh + knee);
        }
    }

    fn foot(&self, leg: &Leg) -> LegPoint {
        let (upper, lower) = (self.config.body.thigh, self.config.body.shin);
        let (thigh, shin) = (leg.thigh, leg.shin);
        let x = upper * thigh.sin + lower * shin.sin;
        let z = -upper * thigh.cos - lower * shin.cos;
        self.leg_point(leg, [x, z], [[-z, x], [lower * shin.cos, lower * shin.sin]])
    }

    fn knee(&self, leg: &Leg) -> LegPoint {
        let (x, z) = (self.config.body.thigh * leg.thigh.sin, -self.config.body.thigh * leg.thigh.cos);
        self.leg_point(leg, [x, z], [[-z, x], [0.0, 0.0]])
    }

    /// A point in the plane of the leg, x and z from the thigh's axis, turned by the hip.
    #[inline]
    fn leg_point(&self, leg: &Leg, [x, z]: [f64; 2], rates: [[f64; 2]; 2]) -> LegPoint {
        let ([front, left], Bend { sin, cos, .. }) = (leg.side, leg.hip);
        let turned = |[x, y, z]: Vec3| [x, y * cos - z * sin, y * sin + z * cos];
        let arm = turned([front * self.config.body.offset[0] + x, left * self.config.body.offset[1], z]);
        let [thigh, knee] = rates;
        let [thigh, knee] = [turned([thigh[0], 0.0, thigh[1]]), turned([knee[0], 0.0, knee[1]])];
        LegPoint {
            at: add([front * self.config.body.hip[0], left * self.config.body.hip[1], 0.0], arm),
            jacobian: [[0.0, -arm[2], arm[1]], thigh, knee],
        }
    }

    /// A point of the trunk's frame is above the ground, which then does nothing to it.
    /// `up` is where up is in the trunk's frame.
    #[inline]
    fn is_above_ground(&self, up: Vec3, at: Vec3) -> bool {
        let height = self.position[2] + dot(up, at);
        if height.abs() > ROUNDING_M { height > 0.0 } else { self.is_just_above_ground(at) }
    }

    /// As [`Quadruped::is_above_ground`], of a point for which rounding may decide.
    fn is_just_above_ground(&self, at: Vec3) -> bool {
        self.position[2] + self.rotation.to_world(at)[2] > 0.0
    }

    /// Where up is in the trunk's frame.
    fn up(&self) -> Vec3 {
        self.rotation.to_body([0.0, 0.0, 1.0])
    }

    /// Where a point of the trunk's frame is in the world, and how fast, if it moves within the frame too.
    #[inline]
    fn in_world(&self, at: Vec3, moving: Vec3) -> (Vec3, Vec3) {
        let arm = self.rotation.to_world(at);
        let speed = self.rotation.to_world(add(cross(self.rate, at), moving));
        (add(self.position, arm), add(self.velocity, speed))
    }

    fn move_on(&mut self, dt_s: f64, drives: &[Drive]) {
        self.bend();
        let (mut push, up) = (Push::default(), self.up());
        for leg in 0..LEGS {
            let bent = &self.legs[leg];
            let (foot, knee) = (self.foot(bent), self.knee(bent));
            self.feet[leg] = if self.is_above_ground(up, foot.at) {
                Touch::default()
            } else {
                self.touched(leg, &foot, self.feet[leg], &mut push)
            };
            self.knees[leg] = if self.is_above_ground(up, knee.at) {
                Touch::default()
            } else {
                self.touched(leg, &knee, self.knees[leg], &mut push)
            };
        }
        let mut trunk_touches = false;
        if self.is_trunk_high(up) {
            self.corners = Default::default();
        } else {
            trunk_touches = self.touch_corners(up, &mut push);
        }
        self.move_joints(dt_s, drives, &push.loads);
        self.move_trunk(dt_s, push.force, push.torque);
        let worst = push.loads.iter().fold(0.0, |worst: f64, load| worst.max(load.abs()));
        self.forces = Forces {
            height: self.position[2],
            vertical_speed: self.velocity[2],
            ground: push.ground,
            trunk_touches,
            peak_ground: self.forces.peak_ground.max(push.ground),
            peak_joint: self.forces.peak_joint.map(|peak| peak.max(worst)),
            ..self.forces
        };
    }

    /// How a point of a leg that is not above the ground touches it after this step; what the ground does to it is added to `push`.
    fn touched(&self, leg: usize, point: &LegPoint, mut touch: Touch, push: &mut Push) -> Touch {
        let mut moving = [0.0; 3];
        for (along, joint) in point.jacobian.iter().zip(&self.joints[leg * JOINTS..]) {
            moving = add(moving, scale(*along, joint.velocity));
        }
        let (at, speed) = self.in_world(point.at, moving);
        touch.step(&self.ground, at, speed);
        let force = self.rotation.to_body(touch.force);
        push.add(touch.force, cross(point.at, force));
        for (along, load) in point.jacobian.iter().zip(&mut push.loads[leg * JOINTS..]) {
            *load += dot(*along, force);
        }
        touch
    }

    /// Lets the trunk's corners touch the ground; whether it pushes any.
    fn touch_corners(&mut self, up: Vec3, push: &mut Push) -> bool {
        let mut touches = false;
        for index in 0..CORNERS {
            let at = self.corners_at[index];
            if self.is_above_ground(up, at) {
                self.corners[index] = Touch::default();
                continue;
            }
            let (world, speed) = self.in_world(at, [0.0; 3]);
            if world[2] <= 0.0 && self.forces.contact_speed.is_none() {
                self.forces.contact_speed = Some(-speed[2]);
            }
            self.corners[index].step(&self.ground, world, speed);
            let force = self.corners[index].force;
            touches |= force[2] > 0.0;
            push.add(force, cross(at, self.rotation.to_body(force)));
        }
        touches
    }

    /// No corner of the trunk is anywhere near the ground.
    fn is_trunk_high(&self, up: Vec3) -> bool {
        let corner = self.corners_at[0];
        let reach = (up[0] * corner[0]).abs() + (up[1] * corner[1]).abs() + (up[2] * corner[2]).abs();
        self.position[2] - reach > ROUNDING_M
    }

    fn move_joints(&mut self, dt_s: f64, drives: &[Drive], loads: &[f64; LEGS * JOINTS]) {
        if let (Some(plain), Some(drives)) = (&self.plain, drives.first_chunk()) {
            return plain.step(&mut self.joints, dt_s, drives, loads);
        }
        for (i, drive) in drives.iter().enumerate().take(LEGS * JOINTS) {
            let joint = &self.config.joints[i];
            joint.step(&mut self.joints[i], &mut self.rotors[i], dt_s, *drive, loads[i]);
        }
    }

    fn move_trunk(&mut self, dt_s: f64, force: Vec3, torque: Vec3) {
        self.acceleration = sub(scale(force, 1.0 / self.config.body.mass), [0.0, 0.0, GRAVITY]);
        self.velocity = add(self.velocity, scale(self.acceleration, dt_s));
        self.position = add(self.position, scale(self.velocity, dt_s));
        let (inertia, rate) = (self.inertia, self.rate);
        let spin = [inertia[0] * rate[0], inertia[1] * rate[1], inertia[2] * rate[2]];
        let turning = sub(torque, cross(rate, spin));
        for axis in 0..3 {
            self.rate[axis] += turning[axis] / inertia[axis] * dt_s;
        }
        self.rotation = self.rotation.turned(self.rate, dt_s);
    }
}

/// A corner of a box of this size around the origin.
fn corner(size: Vec3, index: usize) -> Vec3 {
    let side = |bit: usize| if index >> bit & 1 == 0 { 0.5 } else { -0.5 };
    std::array::from_fn(|axis| side(axis) * size[axis])
}

impl Body for Quadruped {
    fn longest_step_s(&self) -> f64 {
        LONGEST_STEP_S
    }

    fn step(&mut self, dt_s: f64, drives: &[Drive]) {
        self.move_on(dt_s, drives);
    }

    fn joints(&self) -> &[JointState] {
        &self.joints
    }

    fn trunk(&self) -> Trunk {
        Trunk {
            position: self.position,
            attitude: self.rotation.0,
            rate: self.rate,
            acceleration: self.rotation.to_body(self.acceleration),
        }
    }

    fn forces(&self) -> Option<Forces> {
        Some(self.forces)
    }

    fn forget_peaks(&mut self) {
        self.forces = Forces { contact_speed: None, peak_ground: 0.0, peak_joint: Some(0.0), ..self.forces };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Legs bent as when standing, feet under the hips.
    fn standing() -> Quadruped {
        let joint = JointConfig { viscous: 0.02, coulomb: 0.08, ..JointConfig::default() };
        let angles = [0.0, 0.75, -1.5];
        let joints = (0..12).map(|i| JointConfig { start: angles[i % 3], ..joint }).collect();
        Quadruped::new(QuadrupedConfig::with_joints(joints))
    }

    /// A servo that holds its start angle.
    fn hold(body: &Quadruped) -> Vec<Drive> {
        let angles = [0.0, 0.75, -1.5];
        let drive = |(i, joint): (usize, &JointState)| {
            let error = angles[i % 3] - joint.position;
            Drive { torque: 60.0 * error, damping: 1.5 }
        };
        body.joints().iter().enumerate().map(drive).collect()
    }

    fn run(body: &mut Quadruped, seconds: f64, drives: impl Fn(&Quadruped) -> Vec<Drive>) {
        for _ in 0..(seconds / 250e-6) as usize {
            let drives = drives(body);
            body.step(250e-6, &drives);
        }
    }

    #[test]
    fn stands_still_and_the_ground_carries_its_weight() {
        let mut body = standing();
        run(&mut body, 2.0, hold);
        let forces = body.forces().unwrap();
        assert!((forces.ground - 98.1).abs() < 0.5, "{} N", forces.ground);
        assert!((0.18..0.23).contains(&forces.height), "{} m", forces.height);
        assert!(!forces.trunk_touches && forces.vertical_speed.abs() < 1e-3);
        let [w, ..] = body.trunk().attitude;
        assert!(w > 0.9999, "upright");
    }

    #[test]
    fn a_trunk_that_counts_as_high_touches_nowhere_and_is_only_just_so() {
        let mut body = standing();
        let (mut high, mut near) = (0, 0);
        for step in 0..20_000 {
            let turn = f64::from(step);
            body.rotation = body.rotation.turned([turn.sin(), turn.cos(), 0.7], 0.3);
            body.position[2] = 0.1 + 0.15 * (0.37 * turn).sin();
            let is_just_above = |&at: &Vec3| {
                let is_above = body.is_just_above_ground(at);
                assert_eq!(body.is_above_ground(body.up(), at), is_above, "{at:?} of {body:?}");
                is_above
            };
            let above = body.corners_at.iter().filter(|at| is_just_above(at)).count() == CORNERS;
            let is_high = body.is_trunk_high(body.up());
            assert!(above || !is_high, "{body:?}");
            high += u32::from(is_high);
            near += u32::from(above && !is_high);
        }
        assert!(high > 1000 && near < 10, "{high} high, {near} only nearly");
    }

    #[test]
    fn without_power_it_drops_and_damping_lets_it_down_gently() {
        let fall = |drive: Drive| {
            let mut body = standing();
            run(&mut body, 1.0, hold);
            body.forget_peaks();
            run(&mut body, 2.0, |_| vec![drive; 12]);
            body.forces().unwrap().contact_speed.expect("it came down")
        };
        let (dropped, damped) = (fall(Drive::default()), fall(Drive { torque: 0.0, damping: 1.0 }));
        assert!(dropped > 1.0, "{dropped} m/s");
        assert!(damped < 0.35 * dropped, "{damped} m/s of {dropped} m/s");
    }

    #[test]
    fn the_jacobian_is_the_derivative_of_the_foot() {
        let mut body = standing();
        body.joints[3].position = 0.2;
        body.bend();
        for joint in 0..3 {
            let mut moved = body.clone();
            moved.joints[3 + joint].position += 1e-6;
            moved.bend();
            let foot = body.foot(&body.legs[1]);
            let slope = scale(sub(moved.foot(&moved.legs[1]).at, foot.at), 1e6);
            let error = sub(slope, foot.jacobian[joint]);
            assert!(dot(error, error).sqrt() < 1e-5, "joint {joint}: {error:?}");
        }
    }

    #[test]
    fn nothing_gains_energy_while_it_falls_in_a_heap() {
        let mut body = standing();
        body.position[2] += 0.3;
        body.rate = [3.0, 1.0, -2.0];
        run(&mut body, 5.0, |_| vec![Drive::default(); 12]);
        let forces = body.forces().unwrap();
        assert!(forces.vertical_speed.abs() < 0.01, "at rest: {} m/s", forces.vertical_speed);
        assert!(forces.height < 0.25 && forces.height.is_finite());
    }
}
