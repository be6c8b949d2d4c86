//! One leg: the joint angles that put its foot somewhere, and the torques that let it carry.

use super::super::moving::Moving;
use super::WalkParameters;

/// Hip (abduction), thigh and knee.
pub const JOINTS: usize = 3;
/// Share of its full length to which a leg is stretched at most: stretched fully it cannot be moved any way.
const STRETCH: f64 = 0.98;
/// Share to which it is folded at most.
const FOLD: f64 = 0.2;

/// A point x forwards, y to the left, z upwards.
pub type Point = [Moving; 3];

/// Sizes of a leg, m. Angles: hip 0 with the leg upright, turning about x; thigh 0 pointing down, positive forwards; knee 0
/// stretched, negative bending back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leg {
    /// The axis of the hip in the trunk, forwards and to the left.
    hip: [f64; 2],
    /// From there to the axis of the thigh.
    offset: [f64; 2],
    thigh: f64,
    shin: f64,
}

impl Leg {
    /// Legs in the order front left, front right, rear left, rear right.
    pub fn new(parameters: &WalkParameters, leg: usize) -> Self {
        let front = if leg < 2 { 1.0 } else { -1.0 };
        let left = if leg.is_multiple_of(2) { 1.0 } else { -1.0 };
        let placed = |[x, y]: [f64; 2]| [front * x, left * y];
        Self {
            hip: placed(parameters.hip_m),
            offset: placed(parameters.offset_m),
            thigh: parameters.thigh_m,
            shin: parameters.shin_m,
        }
    }

    /// Below what its foot is when it stands at ease, forwards and to the left of the trunk's middle.
    pub fn home(&self) -> [f64; 2] {
        [self.hip[0] + self.offset[0], self.hip[1] + self.offset[1]]
    }

    /// The angles with the foot at a point of the trunk's frame, or as near as the leg reaches.
    pub fn angles(&self, [x, y, z]: Point) -> [Moving; JOINTS] {
        let (y, side) = (y - Moving::fixed(self.hip[1]), self.offset[1]);
        // In the plane of the leg, seen from the axis of the thigh: `x` forwards and `down`.
        let x = x - Moving::fixed(self.hip[0] + self.offset[0]);
        let least = FOLD * (self.thigh + self.shin);
        let down = (y * y + z * z - Moving::fixed(side * side)).clamp(least * least, f64::MAX).sqrt();
        let hip = z.atan2(y) - (-down).atan2(Moving::fixed(side));
        let [thigh, knee] = self.bend(x, down);
        [wrapped(hip), thigh, knee]
    }

    fn bend(&self, x: Moving, down: Moving) -> [Moving; 2] {
        let (thigh, shin) = (self.thigh, self.shin);
        let length = thigh + shin;
        let reach = (x * x + down * down).sqrt().clamp(FOLD * length, STRETCH * length);
        let cos = (reach * reach - Moving::fixed(thigh * thigh + shin * shin)) / (2.0 * thigh * shin);
        let knee = -cos.acos();
        let (sin, cos) = knee.sin_cos();
        [x.atan2(down) - (sin * shin).atan2(cos * shin + Moving::fixed(thigh)), knee]
    }

    /// Torques of the joints under which the foot pushes the ground with the opposite of `force` (N, in the trunk's frame).
    pub fn torques(&self, angles: [f64; JOINTS], force: [f64; 3]) -> [f64; JOINTS] {
        let [hip, thigh, knee] = angles;
        let (sin, cos) = hip.sin_cos();
        let [fx, fy, fz] = [force[0], cos * force[1] + sin * force[2], cos * force[2] - sin * force[1]];
        let (thigh_sin, thigh_cos) = thigh.sin_cos();
        let (shin_sin, shin_cos) = (thigh + knee).sin_cos();
        let (x, z) =
            (self.thigh * thigh_sin + self.shin * shin_sin, -self.thigh * thigh_cos - self.shin * shin_cos);
        [z * fy - self.offset[1] * fz, z * fx - x * fz, -self.shin * (shin_cos * fx + shin_sin * fz)]
    }
}

/// Between -π and π.
fn wrapped(angle: Moving) -> Moving {
    use std::f64::consts::{PI, TAU};
    Moving::new((angle.at + PI).rem_euclid(TAU) - PI, angle.rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the foot is.
    fn foot(leg: &Leg, [hip, thigh, knee]: [f64; JOINTS]) -> [f64; 3] {
        let x = leg.thigh * thigh.sin() + leg.shin * (thigh + knee).sin();
        let z = -leg.thigh * thigh.cos() - leg.shin * (thigh + knee).cos();
        let (sin, cos) = hip.sin_cos();
        let y = leg.offset[1];
        [leg.home()[0] + x, leg.hip[1] + y * cos - z * sin, y * sin + z * cos]
    }

    fn legs() -> impl Iterator<Item = Leg> {
        (0..4).map(|leg| Leg::new(&WalkParameters::default(), leg))
    }

    #[test]
    fn the_angles_put_the_foot_where_it_shall_be() {
        for leg in legs() {
            let [x, y] = leg.home();
            for to in [[x, y, -0.22], [x + 0.08, y - 0.05, -0.2], [x - 0.1, y + 0.06, -0.15]] {
                let angles = leg.angles(to.map(Moving::fixed)).map(|angle| angle.at);
                for (is, to) in foot(&leg, angles).iter().zip(to) {
                    assert!((is - to).abs() < 1e-9, "{angles:?}: {is} m instead of {to} m");
                }
            }
        }
    }

    #[test]
    fn out_of_reach_is_stretched_or_folded_but_never_not_a_number() {
        for leg in legs() {
            for to in [[0.0, 0.0, -5.0], [5.0, -5.0, 1.0], [leg.home()[0], leg.hip[1], 0.0], [0.0; 3]] {
                let angles = leg.angles(to.map(|at| Moving::new(at, 1.0)));
                assert!(angles.iter().all(|angle| angle.at.is_finite() && angle.rate.is_finite()), "{to:?}");
            }
        }
    }

    #[test]
    fn the_torques_do_the_work_of_the_force() {
        let force = [3.0, -5.0, 40.0];
        for leg in legs() {
            let angles = [0.2, 0.7, -1.4];
            let torques = leg.torques(angles, force);
            for joint in 0..JOINTS {
                let mut moved = angles;
                moved[joint] += 1e-6;
                let (before, after) = (foot(&leg, angles), foot(&leg, moved));
                let work: f64 = (0..3).map(|axis| (after[axis] - before[axis]) * force[axis]).sum();
                assert!((work * 1e6 + torques[joint]).abs() < 1e-3, "joint {joint}: {torques:?}");
            }
        }
    }
}
