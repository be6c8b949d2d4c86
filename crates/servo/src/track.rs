//! Whether a joint can have got from one reply to where the next says that it is.

/// A position that jumps by less may be a measurement or a shock, rad; and so much faster than its velocity a joint may be.
const JUMP: (f64, f64) = (0.15, 1.5);
/// Between replies farther apart, s, it may have been as fast as it can be at all.
const NEAR_S: f64 = 0.013;

/// Where a joint was, and how fast.
#[derive(Clone, Copy, Debug)]
pub struct Track {
    position: f64,
    velocity: f64,
    at_ns: i64,
}

impl Default for Track {
    fn default() -> Self {
        Self { position: f64::NAN, velocity: 0.0, at_ns: 0 }
    }
}

impl Track {
    /// Where it was last, rad; NaN if that is not known.
    pub const fn position(&self) -> f64 {
        self.position
    }

    /// Takes in position and velocity of this time, rad and rad/s: whether the joint cannot have moved there. `most`: how fast it
    /// can be, rad/s, and how far a position can change without having gone round, rad; infinite where that is not known. Of
    /// replies farther apart than 13 ms, or without a velocity, only a change that `most` does not allow is a jump.
    pub fn jumps(&mut self, at_ns: i64, [position, velocity]: [f64; 2], most: [f64; 2]) -> bool {
        if !position.is_finite() {
            return false;
        }
        let dt_s = at_ns.saturating_sub(self.at_ns).max(0) as f64 * 1e-9;
        let near = dt_s < NEAR_S && velocity.is_finite();
        let fastest = if near { velocity.abs().max(self.velocity.abs()) } else { most[0] };
        let jumps = (position - self.position).abs() > (JUMP.0 + JUMP.1 * fastest * dt_s).min(most[1]);
        let velocity = if velocity.is_finite() { velocity } else { most[0] };
        *self = Self { position, velocity, at_ns };
        jumps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: [f64; 2] = [f64::INFINITY; 2];
    const MS: i64 = 1_000_000;

    fn at_zero(velocity: f64) -> Track {
        let mut track = Track::default();
        assert!(!track.jumps(0, [0.0, velocity], ANY));
        track
    }

    #[test]
    fn a_joint_is_where_its_velocity_leads_it() {
        assert!(at_zero(1.0).jumps(MS, [0.9, 1.0], ANY));
        assert!(!at_zero(1.0).jumps(MS, [0.15, 1.0], ANY));
        assert!(!at_zero(600.0).jumps(MS, [0.9, 10.0], ANY));
        assert!(!at_zero(0.0).jumps(MS, [f64::INFINITY, 0.0], ANY), "no position");
    }

    #[test]
    fn far_apart_it_may_have_been_as_fast_as_it_can_be() {
        assert!(!at_zero(1.0).jumps(20 * MS, [0.9, 1.0], ANY));
        assert!(at_zero(1.0).jumps(20 * MS, [0.9, 1.0], [20.0, f64::INFINITY]));
        assert!(!at_zero(1.0).jumps(20 * MS, [0.7, 1.0], [20.0, f64::INFINITY]));
        assert!(!at_zero(1.0).jumps(MS, [0.9, f64::NAN], ANY), "no velocity");
        assert!(at_zero(1.0).jumps(20 * MS, [13.0, 1.0], [1e4, 12.5]), "gone round");
    }
}
