//! One joint: from its reference to its command.

use crate::Motion;
use crate::limiter::{Limiter, Range};
use crate::mean::Mean;

/// What the offset may take of the limits of velocity and acceleration, while it goes back to 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Of the velocity.
    pub velocity: f64,
    /// Of the acceleration.
    pub acceleration: f64,
}

impl Share {
    /// Where a curve is replaced by another, or somebody else takes over: what was measured with curves that are 70 mrad apart, five
    /// times a second, is hardly more than the path itself needs.
    pub const REPLACED: Self = Self { velocity: 0.25, acceleration: 0.125 };
    /// Where a stream goes on after it was held over: it is soon where it should be.
    pub const RESUMED: Self = Self { velocity: 0.5, acceleration: 0.5 };

    /// As many times as fast, and at most the limits themselves.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let of = |share: f64| (share * factor).min(1.0);
        Self { velocity: of(self.velocity), acceleration: of(self.acceleration) }
    }
}

/// One joint.
#[derive(Clone, Debug)]
pub struct Axis {
    range: Range,
    limiter: Limiter,
    mean: Mean,
    /// The reference of the last tick.
    reference: Motion,
    /// What is added to it, …
    offset: Limiter,
    /// … and how it may go back to 0.
    share: Share,
    is_limited: bool,
}

impl Axis {
    /// Within `range`, with a jerk as [`crate::mean::ticks`] has it. Allocates.
    pub fn new(range: Range, ticks: usize) -> Self {
        let (reference, share) = (Motion::default(), Share::REPLACED);
        let (limiter, offset) = (Limiter::default(), Limiter::default());
        Self { range, limiter, mean: Mean::new(ticks), reference, offset, share, is_limited: false }
    }

    /// What it keeps.
    pub fn range(&self) -> &Range {
        &self.range
    }

    /// How long the command comes behind the reference, in periods, while no limit is reached.
    pub fn delay(&self) -> f64 {
        self.mean.delay()
    }

    /// The joint moves as `at`, whatever was before; so does its reference.
    pub fn begin(&mut self, at: Motion, dt: f64) {
        let velocity = at.velocity.clamp(-self.range.velocity, self.range.velocity);
        let at = Motion { velocity, ..at };
        self.limiter.at = self.mean.begin(at, dt);
        self.reference = at;
        self.offset = Limiter::default();
        self.is_limited = false;
    }

    /// One tick of `dt` seconds, at whose end the reference is at `reference`. With a share it is not the one of the tick before: the
    /// difference becomes an offset that goes back to 0 on its own.
    pub fn step(&mut self, reference: Motion, anew: Option<Share>, dt: f64) -> Motion {
        let Share { velocity, acceleration } = self.share;
        let gentle = Range {
            velocity: self.range.velocity * velocity,
            acceleration: self.range.acceleration * acceleration,
            position: [f64::NEG_INFINITY, f64::INFINITY],
        };
        self.offset.step(Motion::default(), &gentle, f64::INFINITY, dt);
        if let Some(share) = anew {
            let expected = self.reference.carried_on(dt);
            let Range { velocity: fastest, position: [low, high], .. } = self.range;
            // The joint does not go beyond its limits, so neither does what it is led by: what others leave behind would add up.
            let position = (expected.position + self.offset.at.position).max(low).min(high);
            let velocity = (expected.velocity + self.offset.at.velocity).max(-fastest).min(fastest);
            self.offset.at.position = position - reference.position;
            self.offset.at.velocity = velocity - reference.velocity;
            self.share = share;
        }
        self.reference = reference;
        let offset = self.offset.at;
        let wanted = Motion {
            position: reference.position + offset.position,
            velocity: reference.velocity + offset.velocity,
        };
        self.is_limited = self.limiter.step(wanted, &self.range, f64::INFINITY, dt);
        self.mean.step(self.limiter.at.position, dt)
    }

    /// The reference of the last tick.
    pub fn reference(&self) -> Motion {
        self.reference
    }

    /// How far the command is led beside the reference, rad.
    pub fn offset(&self) -> f64 {
        self.offset.at.position
    }

    /// The last tick asked for more than the greatest acceleration.
    pub fn is_limited(&self) -> bool {
        self.is_limited
    }
}
