//! How the points of a message become part of a joint's curve.

use super::JointTargets;
use crate::Motion;
use crate::axis::Share;
use crate::curve::{Bounds, Curve, Knot, Shape, find_velocities};
use crate::message::Points;
use crate::pace::SETTLED_NS;

/// How points are put into a curve.
pub(super) struct Laying {
    pub shape: Shape,
    pub replaced: Share,
    pub resumed: Share,
    /// The number of a new piece.
    pub piece: u32,
    pub bounds: Bounds,
    /// A single target that takes the place of the one before.
    pub is_same: bool,
    pub now_ns: i64,
}

impl Laying {
    /// A single target, as a rule the next one of a stream.
    pub fn append(&self, curve: &mut Curve, mut knot: Knot, takes_over: bool) {
        knot.piece = self.piece;
        match curve.0.last().copied().filter(|last| !takes_over && last.due_ns < knot.due_ns) {
            None => {
                curve.cut(self.shape, knot.due_ns);
                knot.share = self.replaced;
            }
            Some(last) if self.now_ns <= last.due_ns => {
                (knot.piece, knot.share) = (last.piece, last.share);
                if self.is_same {
                    curve.0.pop();
                }
            }
            Some(last) if self.now_ns <= last.due_ns + self.shape.hold_over_ns => {
                knot.share = self.resumed;
                curve.0.push(Knot { piece: self.piece, share: self.resumed, is_given: true, ..last });
            }
            // It stands, and goes there as a move of its own.
            Some(_) => knot.share = self.resumed,
        }
        curve.0.push(knot);
        let from = self.first_unsettled(&curve.0);
        find_velocities(&mut curve.0, from, self.bounds);
    }

    /// A target that is followed at once. The limiter alone makes a motion of it: what went back as an offset would come much later.
    pub fn jog(&self, curve: &mut Curve, knot: Knot, takes_over: bool) {
        let last = curve.0.last().filter(|_| !takes_over);
        let (piece, share) = last.map_or((self.piece, self.replaced), |last| (last.piece, last.share));
        let at = Motion::still(knot.at.position);
        curve.0.clear();
        curve.0.push(Knot { due_ns: knot.due_ns.min(self.now_ns), at, is_given: true, piece, share, ..knot });
    }

    /// The last point, or also the one before, if no curve is on the way to it yet: it has two neighbours now.
    fn first_unsettled(&self, knots: &[Knot]) -> usize {
        let last = knots.len() - 1;
        let is_of_piece = |at: usize| knots[at].piece == knots[last].piece;
        let Some(before) = last.checked_sub(1).filter(|&before| is_of_piece(before)) else { return last };
        let begins = before.checked_sub(1).filter(|&begins| is_of_piece(begins)).unwrap_or(before);
        if knots[begins].due_ns > self.now_ns + SETTLED_NS { before } else { last }
    }

    /// A chunk, in place of all that comes after its first point.
    pub fn replace(&self, curve: &mut Curve, mut knots: Vec<Knot>) {
        for knot in &mut knots {
            (knot.piece, knot.share) = (self.piece, self.replaced);
        }
        find_velocities(&mut knots, 0, self.bounds);
        let past = knots.partition_point(|knot| knot.due_ns <= self.now_ns).saturating_sub(1);
        curve.cut(self.shape, knots[past].due_ns);
        curve.0.extend_from_slice(&knots[past..]);
    }
}

impl JointTargets {
    /// A point within the limits, and whether it was not.
    pub(super) fn knot(
        &self,
        points: &Points,
        row: usize,
        column: usize,
        delay_ns: i64,
        before: Option<&Knot>,
    ) -> (Knot, bool) {
        let of = |values: &[Vec<f64>]| values.get(row).map(|row| row[column]);
        let (fastest, [low, high]) = (self.velocity, self.position);
        let position = points.position[row][column];
        let within = position.max(low).min(high);
        let velocity = of(&points.velocity);
        let given =
            velocity.map(|velocity| if within == position { velocity.clamp(-fastest, fastest) } else { 0.0 });
        let torque = of(&points.torque);
        let (last_torque, [kp, kd]) = before.map_or((0.0, [1.0; 2]), |before| (before.torque, before.gains));
        let asked = [of(&points.kp_scale), of(&points.kd_scale)];
        let gain = |asked: Option<f64>, last: f64| asked.map_or(last, |gain| gain.clamp(0.0, 1.0));
        let limited = torque.map(|torque| torque.clamp(-self.torque, self.torque));
        let knot = Knot {
            due_ns: points.at_ns[row] + delay_ns,
            at: Motion { position: within, velocity: given.unwrap_or(0.0) },
            torque: limited.unwrap_or(last_torque),
            gains: [gain(asked[0], kp), gain(asked[1], kd)],
            piece: 0,
            share: Share::REPLACED,
            is_given: given.is_some(),
        };
        let is_clamped = within != position
            || given != velocity
            || limited != torque
            || asked.iter().flatten().any(|gain| !(0.0..=1.0).contains(gain));
        (knot, is_clamped)
    }
}
