//! Vectors and rotations, just enough for one rigid body.

/// x, y, z.
pub type Vec3 = [f64; 3];

/// The sum.
pub fn add(a: Vec3, b: Vec3) -> Vec3 {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

pub fn sub(a: Vec3, b: Vec3) -> Vec3 {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

pub fn scale(a: Vec3, by: f64) -> Vec3 {
    [a[0] * by, a[1] * by, a[2] * by]
}

pub fn dot(a: Vec3, b: Vec3) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub fn cross(a: Vec3, b: Vec3) -> Vec3 {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// The length.
pub fn norm(a: Vec3) -> f64 {
    dot(a, a).sqrt()
}

/// A rotation body → world as a unit quaternion w, x, y, z.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotation(pub [f64; 4]);

impl Rotation {
    /// None.
    pub const IDENTITY: Self = Self([1.0, 0.0, 0.0, 0.0]);

    /// A vector of the body in the world.
    #[inline]
    pub fn to_world(self, v: Vec3) -> Vec3 {
        let [w, x, y, z] = self.0;
        let axis = [x, y, z];
        let twice = scale(cross(axis, v), 2.0);
        add(add(v, scale(twice, w)), cross(axis, twice))
    }

    /// A vector of the world in the body.
    #[inline]
    pub fn to_body(self, v: Vec3) -> Vec3 {
        let [w, x, y, z] = self.0;
        Self([w, -x, -y, -z]).to_world(v)
    }

    /// Turned on by `rate` (rad/s in the body) for `dt_s`.
    pub fn turned(self, rate: Vec3, dt_s: f64) -> Self {
        let [w, x, y, z] = self.0;
        let [p, q, r] = scale(rate, 0.5 * dt_s);
        let next = [
            w - x * p - y * q - z * r,
            x + w * p + y * r - z * q,
            y + w * q + z * p - x * r,
            z + w * r + x * q - y * p,
        ];
        let length = next.iter().map(|c| c * c).sum::<f64>().sqrt();
        let [w, x, y, z] = next;
        Self([w / length, x / length, y / length, z / length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_turn_about_z_takes_x_to_y() {
        let mut turned = Rotation::IDENTITY;
        for _ in 0..1000 {
            turned = turned.turned([0.0, 0.0, std::f64::consts::FRAC_PI_2], 0.001);
        }
        let y = turned.to_world([1.0, 0.0, 0.0]);
        assert!(norm(sub(y, [0.0, 1.0, 0.0])) < 1e-5, "{y:?}");
        assert!(norm(sub(turned.to_body(y), [1.0, 0.0, 0.0])) < 1e-9);
    }
}
