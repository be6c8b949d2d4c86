//! The mean of the last N positions: it bounds the jerk.
//!
//! Of positions whose acceleration is within ±A, the mean's jerk is (a − a(N ticks ago))/(N·Δt), at most 2·A/(N·Δt). It is a convex
//! combination, so every bound on position, velocity and acceleration holds for it, too. It comes (N − 1)/2 ticks later.

use crate::Motion;

/// More ticks are an error: so little jerk cannot be asked for.
pub const MOST: usize = 512;

/// How many ticks the mean takes for a jerk of at most `jerk` rad/s³ under an acceleration of at most `acceleration` rad/s², at
/// periods of `dt` seconds; may be more than [`MOST`].
pub fn ticks(acceleration: f64, jerk: f64, dt: f64) -> usize {
    // A reversal from +A to −A is twice A. What is whole but for a rounding is whole.
    let ticks = (2.0 * acceleration / (jerk * dt) * (1.0 - 1e-12)).ceil();
    ticks.max(1.0) as usize
}

/// The last positions.
#[derive(Clone, Debug)]
pub struct Mean {
    ring: Vec<f64>,
    oldest: usize,
    last: f64,
}

impl Mean {
    /// Of the last `ticks` positions, 1 to [`MOST`]; at rest at 0. Allocates.
    pub fn new(ticks: usize) -> Self {
        Self { ring: vec![0.0; ticks.clamp(1, MOST)], oldest: 0, last: 0.0 }
    }

    /// How long it comes behind what it is the mean of, in periods.
    pub fn delay(&self) -> f64 {
        (self.ring.len() - 1) as f64 / 2.0
    }

    /// Its history becomes that of a joint that has always moved as `at`; returns where its input is, then: ahead by the delay.
    pub fn begin(&mut self, at: Motion, dt: f64) -> Motion {
        let delay = self.delay();
        for (tick, position) in self.ring.iter_mut().enumerate() {
            *position = at.position + at.velocity * (tick as f64 - delay) * dt;
        }
        (self.oldest, self.last) = (0, at.position);
        at.carried_on(delay * dt)
    }

    /// The next position; returns the mean, and how fast it has moved.
    pub fn step(&mut self, position: f64, dt: f64) -> Motion {
        self.ring[self.oldest] = position;
        self.oldest = (self.oldest + 1) % self.ring.len();
        // Anew each time, as a running sum drifts; about the newest one, whose digits would be lost in the sum.
        let sum: f64 = self.ring.iter().map(|other| other - position).sum();
        let mean = position + sum / self.ring.len() as f64;
        let velocity = (mean - std::mem::replace(&mut self.last, mean)) / dt;
        Motion { position: mean, velocity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jerk_needs_the_ticks_of_a_whole_reversal() {
        assert_eq!(ticks(40.0, 4000.0, 1e-3), 20);
        assert_eq!(ticks(30.0, 3000.0, 1e-3), 20);
        assert_eq!(ticks(40.0, 3999.0, 1e-3), 21);
        assert_eq!(ticks(1.0, 1e9, 1e-3), 1);
        assert!(ticks(30.0, 1.0, 1e-3) > MOST);
    }

    #[test]
    fn what_has_always_moved_goes_on() {
        let mut mean = Mean::new(7);
        let at = Motion { position: 0.3, velocity: -1.2 };
        let mut input = mean.begin(at, 1e-3);
        for tick in 1..=20 {
            input = input.carried_on(1e-3);
            let out = mean.step(input.position, 1e-3);
            assert!((out.position - (0.3 - 1.2e-3 * f64::from(tick))).abs() < 1e-12);
            assert!((out.velocity + 1.2).abs() < 1e-9, "{out:?}");
        }
    }
}
