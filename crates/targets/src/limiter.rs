//! A tracker within limits of velocity, acceleration and position.
//!
//! It never moves faster than what it can brake in whole ticks: a speed v stops within ((m + 1)·v − m(m + 1)/2·A·Δt)·Δt for m = ⌊v/(A·Δt)⌋ whole
//! steps, which [`brake`] inverts. √(2·A·e) does so only for speeds that are whole multiples of A·Δt; for others it is a step too fast, and passes the
//! end or brakes harder than A.

use crate::Motion;

/// What a joint may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Greatest speed, rad/s.
    pub velocity: f64,
    /// Greatest acceleration, rad/s².
    pub acceleration: f64,
    /// Least and greatest position, rad; infinite where there is no limit.
    pub position: [f64; 2],
}

/// Where it is, and how fast.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limiter {
    /// Its state; positions are those of the end of a tick.
    pub at: Motion,
}

impl Limiter {
    /// One tick of `dt` seconds towards `reference`, which is where the reference is at the end of the tick. It approaches with at
    /// most `catch_up` rad/s more than the reference's own velocity. Returns whether the acceleration was at its limit.
    pub fn step(&mut self, reference: Motion, range: &Range, catch_up: f64, dt: f64) -> bool {
        let step = range.acceleration * dt;
        let Motion { position, velocity } = self.at;
        let [low, high] = range.position;
        let behind = reference.position - reference.velocity * dt - position;
        let approach = brake(behind.abs(), range.acceleration, dt).min(catch_up).copysign(behind);
        let asked = reference.velocity + approach;
        let slowest = -brake(position - low, range.acceleration, dt);
        let fastest = brake(high - position, range.acceleration, dt);
        let wanted = within(asked, velocity - step, velocity + step);
        let wanted = within(wanted, -range.velocity, range.velocity);
        let wanted = within(wanted, slowest, fastest);
        // Last, and in no conflict with the one before: what could be braked a tick ago can be braked now.
        let wanted = within(wanted, velocity - step, velocity + step);
        self.at = Motion { position: position + wanted * dt, velocity: wanted };
        (wanted - velocity).abs() >= step * (1.0 - 1e-9)
    }
}

/// The greatest speed, rad/s, that still comes to rest within `distance` rad in whole ticks; 0 where nothing is left, also beyond.
pub fn brake(distance: f64, acceleration: f64, dt: f64) -> f64 {
    if distance <= 0.0 {
        return 0.0;
    }
    if distance == f64::INFINITY {
        return distance;
    }
    let step = acceleration * dt;
    let steps = (((1.0 + 8.0 * distance / (step * dt)).sqrt() - 1.0) / 2.0).floor();
    distance / ((steps + 1.0) * dt) + steps * step / 2.0
}

/// As `clamp`, but no panic where the bounds contradict each other by a rounding: the lower one counts.
fn within(value: f64, low: f64, high: f64) -> f64 {
    value.min(high).max(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DT: f64 = 1e-3;

    #[test]
    fn what_brakes_from_the_greatest_speed_ends_exactly_at_the_distance() {
        for distance in [1e-9, 3e-6, 1e-3, 0.0371, 1.0, 17.3] {
            let acceleration = 12.5;
            let (mut speed, mut gone) = (brake(distance, acceleration, DT), 0.0);
            while speed > 0.0 {
                gone += speed * DT;
                speed -= acceleration * DT;
            }
            assert!((gone - distance).abs() < 1e-12, "{distance}: {gone}");
        }
        assert_eq!([brake(0.0, 1.0, DT), brake(-1.0, 1.0, DT)], [0.0, 0.0]);
    }

    /// A prototype without a clamp there went 0.2 rad beyond.
    #[test]
    fn a_joint_that_is_beyond_its_limit_by_a_rounding_is_kept() {
        let range = Range { velocity: 6.0, acceleration: 40.0, position: [-1.0, 1.0] };
        let mut limiter = Limiter { at: Motion::still(1.0 + 1e-16) };
        limiter.at.position = 1.0_f64.next_up();
        for _ in 0..1000 {
            limiter.step(Motion { position: 3.0, velocity: 2.0 }, &range, f64::INFINITY, DT);
        }
        assert!(limiter.at.position <= 1.0 + 1e-12, "{limiter:?}");
    }

    #[test]
    fn a_reference_that_moves_evenly_is_followed_without_lag() {
        let range = Range { velocity: 6.0, acceleration: 40.0, position: [f64::NEG_INFINITY, f64::INFINITY] };
        let mut limiter = Limiter::default();
        let at = |tick: i32| Motion { position: 1.5 * f64::from(tick) * DT, velocity: 1.5 };
        for tick in 1..=1000 {
            limiter.step(at(tick), &range, f64::INFINITY, DT);
        }
        assert!((limiter.at.position - at(1000).position).abs() < 1e-9, "{limiter:?}");
    }
}
