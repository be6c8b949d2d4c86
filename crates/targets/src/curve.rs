//! The reference of one joint: points with times, cubics between them, and what follows the last one.
//!
//! Points of a *piece* are one curve. A later piece takes over at its first point, wherever the one before is then: code that follows the
//! curve sees another number of the piece, and starts anew from there.

use crate::Motion;
use crate::axis::Share;

/// How long a reference goes on after its last point, ns: it comes to rest evenly within this time.
pub const HOLD_OVER_NS: i64 = 80_000_000;

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knot {
    /// When the reference is there.
    pub due_ns: i64,
    /// Where, and how fast.
    pub at: Motion,
    /// Torque, N·m.
    pub torque: f64,
    /// Shares of the servo's gains.
    pub gains: [f64; 2],
    /// Which piece it belongs to; they count up.
    pub piece: u32,
    /// How a joint gets onto this piece from another one.
    pub share: Share,
    /// Its velocity was given, and is not to be found by its neighbours.
    pub is_given: bool,
}

impl Knot {
    fn with(self, at: Motion, torque: f64, gains: [f64; 2]) -> Sample {
        Sample { at, torque, gains, piece: self.piece, share: self.share, over_ns: 0 }
    }
}

/// The reference at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Where it is.
    pub at: Motion,
    /// Torque, N·m.
    pub torque: f64,
    /// Shares of the servo's gains.
    pub gains: [f64; 2],
    /// Of which piece.
    pub piece: u32,
    /// How a joint gets onto it.
    pub share: Share,
    /// How long ago the last point was that has no next one, ns; 0: it is on the way to one.
    pub over_ns: i64,
}

/// How the reference goes on between and after points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// See [`HOLD_OVER_NS`].
    pub hold_over_ns: i64,
    /// Straight from point to point.
    pub is_linear: bool,
    /// After the last point its torque goes to 0 within that time, because it is no weight that is to be carried.
    pub fades_torque: bool,
}

/// Points in the order of their times. Those of a piece follow each other.
#[derive(Debug, Default, PartialEq)]
pub struct Curve(pub Vec<Knot>);

/// Without allocating, where there is room.
impl Clone for Curve {
    fn clone(&self) -> Self {
        let mut knots = Vec::with_capacity(self.0.capacity());
        knots.extend_from_slice(&self.0);
        Self(knots)
    }

    fn clone_from(&mut self, other: &Self) {
        self.0.clear();
        self.0.extend_from_slice(&other.0);
    }
}

impl Curve {
    /// The reference at `now_ns`; none before the first point.
    pub fn sample(&self, shape: Shape, now_ns: i64) -> Option<Sample> {
        let knots = &self.0;
        let passed = self.passed(now_ns);
        let knot = knots.get(passed.checked_sub(1)?)?;
        let next = knots.get(passed).filter(|next| next.piece == knot.piece);
        Some(match next {
            Some(next) => between(knot, next, shape, now_ns),
            None => after(knot, shape, now_ns),
        })
    }

    /// How many of its points are due by then.
    pub fn passed(&self, now_ns: i64) -> usize {
        self.0.partition_point(|knot| knot.due_ns <= now_ns)
    }

    /// It ends at `at_ns`, as it is there; what was to come later is gone.
    pub fn cut(&mut self, shape: Shape, at_ns: i64) {
        let (passed, knots) = (self.passed(at_ns), &self.0);
        let is_between =
            passed > 0 && knots.get(passed).is_some_and(|next| next.piece == knots[passed - 1].piece);
        let end = self.sample(shape, at_ns).filter(|_| is_between);
        self.0.truncate(passed);
        if let (Some(Sample { at, torque, gains, .. }), Some(&last)) = (end, self.0.last()) {
            self.0.push(Knot { due_ns: at_ns, at, torque, gains, is_given: true, ..last });
        }
    }

    /// Forgets what was before `before_ns`, but for the point it comes from.
    pub fn forget(&mut self, before_ns: i64) {
        let old = self.passed(before_ns).saturating_sub(1);
        self.0.drain(..old);
    }
}

/// The cubic through both, with their velocities.
fn between(from: &Knot, to: &Knot, shape: Shape, now_ns: i64) -> Sample {
    let span = (to.due_ns - from.due_ns) as f64 * 1e-9;
    let x = (now_ns - from.due_ns) as f64 * 1e-9 / span;
    let blend = |from: f64, to: f64| from + (to - from) * x;
    let gains = [0, 1].map(|gain| blend(from.gains[gain], to.gains[gain]));
    let slope = (to.at.position - from.at.position) / span;
    let at = if shape.is_linear {
        Motion { position: blend(from.at.position, to.at.position), velocity: slope }
    } else {
        let (first, last) = (from.at.velocity, to.at.velocity);
        let (bend, twist) = (3.0 * slope - 2.0 * first - last, first + last - 2.0 * slope);
        Motion {
            position: from.at.position + span * x * (first + x * (bend + x * twist)),
            velocity: first + x * (2.0 * bend + 3.0 * x * twist),
        }
    };
    from.with(at, blend(from.torque, to.torque), gains)
}

/// On at the last velocity, which falls evenly to 0; the torque stays, because it carries a weight.
fn after(last: &Knot, shape: Shape, now_ns: i64) -> Sample {
    let over_ns = now_ns - last.due_ns;
    let whole = shape.hold_over_ns.max(1) as f64 * 1e-9;
    let x = (over_ns as f64 * 1e-9).min(whole);
    let Motion { position, velocity } = last.at;
    let at = Motion {
        position: position + velocity * (x - x * x / (2.0 * whole)),
        velocity: velocity * (1.0 - x / whole),
    };
    let torque = if shape.fades_torque { last.torque * (1.0 - x / whole) } else { last.torque };
    Sample { over_ns, ..last.with(at, torque, last.gains) }
}

/// What velocities of points may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Greatest one, rad/s.
    pub velocity: f64,
    /// How much it changes from point to point, rad/s².
    pub acceleration: f64,
    /// Points came one by one: a joint that follows them comes from rest, and no two of them are a motion that it cannot have. Otherwise
    /// they are one plan, of which only the end is not believed that nothing follows.
    pub is_stream: bool,
}

/// Velocities of the points from `first` on, as their neighbours of the same piece have it: 0 where the slope changes its sign,
/// otherwise the mean of both slopes, and at most 3 times the smaller one, so that a curve does not pass its points. At both ends the one slope there is; a
/// point alone stands. A last step, or points at almost the same time, are not carried on as if they were a motion.
pub fn find_velocities(knots: &mut [Knot], first: usize, bounds: Bounds) {
    for number in first..knots.len() {
        if knots[number].is_given {
            continue;
        }
        let slope = |from: usize, to: usize| {
            let (from, to) = (knots.get(from)?, knots.get(to)?);
            let span_ns = to.due_ns - from.due_ns;
            let is_one = from.piece == to.piece && span_ns > 0;
            let span = span_ns as f64 * 1e-9;
            is_one.then(|| ((to.at.position - from.at.position) / span, span))
        };
        let before = number.checked_sub(1).and_then(|before| slope(before, number));
        let after = slope(number, number + 1);
        let velocity = match (before, after) {
            (Some((before, earlier)), Some((after, later))) if before * after > 0.0 => {
                let mean = (before * later + after * earlier) / (earlier + later);
                let most = 3.0 * before.abs().min(after.abs());
                mean.clamp(-most, most)
            }
            (Some(_), Some(_)) | (None, None) => 0.0,
            (Some((slope, _)), None) | (None, Some((slope, _))) => slope,
        };
        let of_rest = after.filter(|_| bounds.is_stream).map(|(_, span)| (0.0, span));
        let of_before = before.filter(|_| bounds.is_stream || after.is_none());
        let from = of_before.map(|(_, span)| (knots[number - 1].at.velocity, span)).or(of_rest);
        let velocity = from.map_or(velocity, |(from, span)| {
            let more = bounds.acceleration * span;
            velocity.max(from - more).min(from + more)
        });
        knots[number].at.velocity = velocity.max(-bounds.velocity).min(bounds.velocity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const FREE: Bounds = Bounds { velocity: f64::INFINITY, acceleration: f64::INFINITY, is_stream: false };
    const SHAPE: Shape = Shape { hold_over_ns: HOLD_OVER_NS, is_linear: false, fades_torque: false };

    fn knot(due_ms: i64, position: f64, piece: u32) -> Knot {
        let at = Motion::still(position);
        Knot {
            due_ns: due_ms * MS,
            at,
            torque: 0.0,
            gains: [1.0; 2],
            piece,
            share: Share::REPLACED,
            is_given: false,
        }
    }

    fn at(curve: &Curve, us: i64) -> Sample {
        curve.sample(SHAPE, us * 1000).expect("a reference")
    }

    #[test]
    fn points_are_met_on_time_and_the_curve_has_no_corner_nor_passes_them() {
        let positions = [0.0, 0.1, 0.1, 0.3, 0.2];
        let knots = positions.iter().zip(0..).map(|(&position, number)| knot(33 * number, position, 1));
        let mut curve = Curve(knots.collect());
        find_velocities(&mut curve.0, 0, FREE);
        let mut last = at(&curve, 0).at;
        for us in 1..=132_000 {
            let sample = curve.sample(SHAPE, us * 1000).expect("a reference").at;
            assert!((sample.position - last.position - sample.velocity * 1e-6).abs() < 1e-9, "at {us}");
            assert!((sample.velocity - last.velocity).abs() < 2e-3, "at {us}: {last:?} {sample:?}");
            assert!((-1e-12..=0.3 + 1e-12).contains(&sample.position), "at {us}");
            last = sample;
        }
        for (&position, number) in positions.iter().zip(0..) {
            assert!((at(&curve, number * 33_000).at.position - position).abs() < 1e-12);
        }
    }

    #[test]
    fn after_the_last_point_it_comes_to_rest_within_the_hold_over() {
        let mut curve = Curve(vec![knot(0, 0.0, 1)]);
        curve.0[0].at.velocity = 1.0;
        assert!((at(&curve, 80_000).at.position - 0.040).abs() < 1e-12);
        assert_eq!(at(&curve, 500_000).at.velocity, 0.0);
        assert_eq!(at(&curve, 500_000).at.position, at(&curve, 80_000).at.position);
        assert_eq!(at(&curve, 90_000).over_ns, 90 * MS);
    }

    #[test]
    fn a_piece_begins_at_its_first_point_and_what_was_before_runs_until_then() {
        let curve = Curve(vec![knot(0, 0.0, 1), knot(50, 0.0, 1), knot(60, 1.0, 2), knot(90, 1.0, 2)]);
        assert_eq!((at(&curve, 59_000).piece, at(&curve, 59_000).at.position), (1, 0.0));
        assert_eq!((at(&curve, 60_000).piece, at(&curve, 60_000).at.position), (2, 1.0));
        assert_eq!(curve.sample(SHAPE, -1), None);
    }

    #[test]
    fn a_curve_that_is_cut_ends_as_it_is_there() {
        let mut curve = Curve(vec![knot(0, 0.0, 1), knot(50, 1.0, 1), knot(60, 5.0, 2)]);
        find_velocities(&mut curve.0, 0, FREE);
        let whole = curve.clone();
        curve.cut(SHAPE, 20 * MS);
        assert_eq!((curve.0.len(), at(&curve, 20_000).at), (2, at(&whole, 20_000).at));
        for us in [1, 7_000, 19_999] {
            assert!((at(&curve, us).at.position - at(&whole, us).at.position).abs() < 1e-12);
        }
        let mut held_over = whole.clone();
        held_over.cut(SHAPE, 55 * MS);
        assert_eq!(held_over.0, whole.0[..2]);
    }

    /// A quotient across the seam would be 70 mrad in 33 ms.
    #[test]
    fn no_velocity_is_computed_across_a_seam() {
        let mut knots = vec![knot(0, 0.0, 1), knot(33, 0.0, 1), knot(66, 0.07, 2), knot(99, 0.07, 2)];
        find_velocities(&mut knots, 0, FREE);
        assert!(knots.iter().all(|knot| knot.at.velocity == 0.0), "{knots:?}");
    }
}
