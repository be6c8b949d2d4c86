//! Whether the velocities a servo reports are those of its positions.
//!
//! Ranges of codes are not in a frame, and sources differ on some models' by a factor of 2.5 (RobStride RS03: 20 or 50 rad/s).
//! All models of a family have the same range of positions, so what does not fit is the velocity. What is wrong
//! by so much damps too little or too much, and lets a joint be faster than its limit.

/// So long motion is compared, s.
const SPAN_S: f64 = 0.1;
/// A gap in the replies, s, after which it begins again. Slower loops are not compared: a stiff joint has come to rest each time it is
/// asked, and its velocities are lower than it is fast.
const GAP_S: f64 = 0.012;
/// A span has at least so many steps.
const STEPS: u32 = 4;
/// Less motion in a span, rad, shows nothing.
const LEAST: f64 = 0.1;
/// They differ by no more than this share of the greater: filters of velocities lag, and sources that differ, differ by more.
const SHARE: f64 = 0.3;
/// So many spans in a row have to differ.
const SPANS: u8 = 2;

/// The comparison.
#[derive(Clone, Copy, Debug, Default)]
pub struct Motion {
    span: Option<Span>,
    differing: u8,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    from_ns: i64,
    from: f64,
    /// Of the newest state.
    at_ns: i64,
    velocity: f64,
    /// The velocities' sum over time, rad.
    travelled: f64,
    steps: u32,
}

impl Motion {
    /// A state of this time, with angle and velocity of the servo. False: velocities and positions do not fit each other.
    pub fn fits(&mut self, at_ns: i64, position: f64, velocity: f64) -> bool {
        let begin = Span { from_ns: at_ns, from: position, at_ns, velocity, travelled: 0.0, steps: 0 };
        let Some(span) = &mut self.span else {
            self.span = Some(begin);
            return true;
        };
        let dt_s = at_ns.saturating_sub(span.at_ns) as f64 * 1e-9;
        if !(0.0..=GAP_S).contains(&dt_s) || !position.is_finite() || !velocity.is_finite() {
            *self = Self::default();
            return true;
        }
        // A velocity that is filtered turns round later than the joint: whatever swings faster than a span shows nothing.
        if span.velocity * velocity < 0.0 {
            self.span = Some(begin);
            return true;
        }
        span.travelled += 0.5 * (span.velocity + velocity) * dt_s;
        (span.at_ns, span.velocity, span.steps) = (at_ns, velocity, span.steps + 1);
        if span.steps >= STEPS && at_ns.saturating_sub(span.from_ns) as f64 * 1e-9 >= SPAN_S {
            let (moved, travelled) = (position - span.from, span.travelled);
            let most = moved.abs().max(travelled.abs());
            let differs = most >= LEAST && (moved - travelled).abs() > SHARE * most;
            self.differing = if differs { self.differing.saturating_add(1) } else { 0 };
            self.span = Some(begin);
        }
        self.differing < SPANS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Whether all fits while a joint swings by an amplitude, rad, and velocities are read wrong by a factor.
    fn swings(amplitude: f64, hz: f64, factor: f64, lag_s: f64) -> bool {
        let mut motion = Motion::default();
        (0..3000).all(|tick| {
            let (t, w) = (f64::from(tick) * 1e-3, std::f64::consts::TAU * hz);
            let position = amplitude * (w * t).sin();
            let velocity = factor * amplitude * w * (w * (t - lag_s)).cos();
            motion.fits(i64::from(tick) * MS, position, velocity)
        })
    }

    #[test]
    fn velocities_of_another_range_are_found_out_and_right_ones_are_not() {
        for (amplitude, hz) in [(0.5, 0.5), (1.0, 1.0), (0.3, 2.0), (2.0, 0.2)] {
            assert!(swings(amplitude, hz, 1.0, 0.003), "{amplitude} {hz}");
            // 50 for 20 rad/s, 20 for 50, 33 for 50, 50 for 33.
            for factor in [2.5, 0.4, 0.66, 1.515] {
                assert!(!swings(amplitude, hz, factor, 0.003), "{amplitude} {hz} {factor}");
            }
        }
    }

    #[test]
    fn loops_of_100_hz_are_compared_and_slower_ones_are_not() {
        for (period_ms, is_compared) in [(1, true), (10, true), (20, false), (50, false)] {
            let fits = |factor: f64| {
                let mut motion = Motion::default();
                (0..4000 / period_ms).all(|tick| {
                    let seconds = (tick * period_ms) as f64 * 1e-3;
                    let (turn, speed) = ((seconds * 0.6).sin(), (seconds * 0.6).cos());
                    motion.fits(tick * period_ms * MS, 3.0 * turn, factor * 1.8 * speed)
                })
            };
            assert!(fits(1.0) && fits(2.5) != is_compared && fits(0.4) != is_compared, "{period_ms}");
        }
    }

    #[test]
    fn a_lag_of_the_velocity_is_no_other_range() {
        for lag_ms in [1.0, 3.0, 7.0, 10.0] {
            for tenths_hz in 2..300 {
                assert!(
                    swings(0.45, f64::from(tenths_hz) / 10.0, 1.0, lag_ms * 1e-3),
                    "{lag_ms} {tenths_hz}"
                );
            }
        }
    }

    #[test]
    fn one_that_hardly_moves_shows_nothing() {
        assert!(swings(0.02, 1.0, 2.5, 0.0) && swings(0.001, 50.0, 2.5, 0.0));
    }

    #[test]
    fn a_pause_or_an_unknown_value_begins_again() {
        let mut motion = Motion::default();
        for tick in 0..2000_i64 {
            // The position jumps over each pause.
            let position = (tick / 50) as f64;
            assert!(motion.fits(tick * MS + tick / 50 * 150 * MS, position, 0.0));
        }
        let mut motion = Motion::default();
        for tick in 0..2000_i64 {
            let position = if tick % 90 == 0 { f64::INFINITY } else { tick as f64 };
            assert!(motion.fits(tick * MS, position, 0.0));
        }
    }
}
