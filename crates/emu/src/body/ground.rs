//! Flat ground that pushes back: a stiff damped spring upwards, dry friction sideways.

use super::math::{Vec3, add, norm, scale, sub};

/// What the ground is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ground {
    /// Force per depth, N/m.
    pub stiffness: f64,
    /// Force per speed while touching, N·s/m.
    pub damping: f64,
    /// Coefficient of dry friction.
    pub friction: f64,
}

impl Default for Ground {
    /// Rubber feet on a hard floor.
    fn default() -> Self {
        Self { stiffness: 30_000.0, damping: 150.0, friction: 0.8 }
    }
}

/// One point that may touch the ground at height 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Touch {
    /// Where friction holds it, while it touches.
    anchor: Option<Vec3>,
    /// The ground's force on it, N, in the world.
    pub force: Vec3,
}

impl Touch {
    /// Moves the point to `position` with `velocity`, both in the world.
    pub fn step(&mut self, ground: &Ground, position: Vec3, velocity: Vec3) {
        let depth = -position[2];
        if depth <= 0.0 {
            *self = Self::default();
            return;
        }
        // The ground cannot pull.
        let normal = (ground.stiffness * depth - ground.damping * velocity[2]).max(0.0);
        let anchor = *self.anchor.get_or_insert(position);
        let hold = add(
            scale(sub(anchor, position), ground.stiffness),
            scale([velocity[0], velocity[1], 0.0], -ground.damping),
        );
        let hold = [hold[0], hold[1], 0.0];
        let (asked, most) = (norm(hold), ground.friction * normal);
        let sideways = if asked > most {
            // It slides; from here on friction holds it where the force is just the most there can be.
            let sliding = scale(hold, most / asked);
            self.anchor = Some(add(position, scale(sliding, 1.0 / ground.stiffness)));
            sliding
        } else {
            hold
        };
        self.force = [sideways[0], sideways[1], normal];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_only_what_is_in_it() {
        let mut touch = Touch::default();
        touch.step(&Ground::default(), [0.0, 0.0, 0.001], [0.0; 3]);
        assert_eq!(touch.force, [0.0; 3]);
        touch.step(&Ground::default(), [0.0, 0.0, -0.001], [0.0; 3]);
        assert_eq!(touch.force, [0.0, 0.0, 30.0]);
        touch.step(&Ground::default(), [0.0, 0.0, -0.001], [0.0, 0.0, 5.0]);
        assert_eq!(touch.force[2], 0.0);
    }

    #[test]
    fn holds_until_it_slides() {
        let mut touch = Touch::default();
        touch.step(&Ground::default(), [0.0, 0.0, -0.001], [0.0; 3]);
        touch.step(&Ground::default(), [0.0005, 0.0, -0.001], [0.0; 3]);
        assert!((touch.force[0] + 15.0).abs() < 1e-9);
        touch.step(&Ground::default(), [0.01, 0.0, -0.001], [0.0; 3]);
        assert!((touch.force[0] + 24.0).abs() < 1e-9);
        // Going back it holds from where it slid to.
        touch.step(&Ground::default(), [0.0092, 0.0, -0.001], [0.0; 3]);
        assert!(touch.force[0].abs() < 1e-9);
    }
}
