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
    /// It need not be back before so long, s; 0: as soon as it can.
    pub within_s: f64,
}

impl Share {
    /// Where a curve is replaced by another, or another program takes over: of curves that are 70 mrad apart, five times a second, the
    /// acceleration's root mean square is 1.13 of the path's own. With an eighth it was 1.22, with a sixteenth 1.08, and the joint later there.
    pub const REPLACED: Self = Self { velocity: 0.25, acceleration: 1.0 / 12.0, within_s: 0.0 };
    /// Where a stream goes on after it was held over: it is soon where it should be.
    pub const RESUMED: Self = Self { velocity: 0.5, acceleration: 0.5, within_s: 0.0 };

    /// As many times as fast, and at most the limits themselves.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let of = |share: f64| (share * factor).min(1.0);
        Self { velocity: of(self.velocity), acceleration: of(self.acceleration), ..self }
    }

    /// What of the limits of a joint takes the offset `from` to 0.
    fn of(self, range: &Range, from: Motion) -> Range {
        let (mut velocity, mut acceleration) =
            (range.velocity * self.velocity, range.acceleration * self.acceleration);
        // A joint that moves another way than what it is led by now is braked as hard as that needs.
        let braked = from.velocity.powi(2) / (2.0 * ASTRAY);
        acceleration = acceleration.max(braked.min(range.acceleration));
        if self.within_s > 0.0 {
            // Half of the time it is quickened, half braked; what it has already must be braked besides.
            let (way, speed) = (from.position.abs(), from.velocity.abs());
            velocity = velocity.min(2.0 * way / self.within_s + speed);
            acceleration = acceleration.min(4.0 * way / self.within_s.powi(2) + 4.0 * speed / self.within_s);
        }
        Range { velocity, acceleration: acceleration.max(f64::MIN_POSITIVE), position: ANYWHERE }
    }
}

/// How far an offset may grow by the velocity that it begins with, rad, where the limits of the joint allow that.
const ASTRAY: f64 = 0.1;

/// No limit of position.
pub(crate) const ANYWHERE: [f64; 2] = [f64::NEG_INFINITY, f64::INFINITY];

fn is_within(position: f64, [low, high]: [f64; 2]) -> bool {
    (low..=high).contains(&position)
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
    gentle: Range,
    /// Both together, where the limiter goes.
    led: Motion,
    /// The reference is where the joint cannot be led.
    is_kept_near: bool,
    /// What is behind its reference catches up no faster than within this time, s; 0: as fast as it can.
    ease_s: f64,
    is_limited: bool,
}

impl Axis {
    /// Within `range`, with a jerk as [`crate::mean::ticks`] has it. Allocates.
    pub fn new(range: Range, ticks: usize) -> Self {
        let (reference, gentle) = (Motion::default(), Share::REPLACED.of(&range, Motion::default()));
        let (limiter, offset) = (Limiter::default(), Limiter::default());
        let (led, is_kept_near, is_limited) = (reference, false, false);
        Self {
            range,
            limiter,
            mean: Mean::new(ticks),
            reference,
            offset,
            gentle,
            led,
            is_kept_near,
            ease_s: 0.0,
            is_limited,
        }
    }

    /// What is behind catches up no faster than within this time, s: the steps of what is measured are not braked from as hard as may be.
    pub fn ease(&mut self, ease_s: f64) {
        self.ease_s = ease_s;
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
        (self.reference, self.led) = (at, at);
        self.offset = Limiter::default();
        (self.is_kept_near, self.is_limited) = (false, false);
    }

    /// Others have led the joint to this position, rad; from there, or the limit before it, it goes back to its reference as after a
    /// replacement.
    pub fn go_on_from(&mut self, position: f64, dt: f64) {
        let [low, high] = self.range.position;
        let at = Motion::still(position.max(low).min(high));
        self.limiter.at = self.mean.begin(at, dt);
        self.led = at;
        self.offset.at =
            Motion { position: at.position - self.reference.position, velocity: -self.reference.velocity };
        self.gentle = Share::REPLACED.of(&self.range, self.offset.at);
        self.is_kept_near = false;
    }

    /// One tick of `dt` seconds, at whose end the reference is at `reference`. With a share it is not the one of the tick before: the
    /// difference becomes an offset that goes back to 0 on its own.
    pub fn step(&mut self, reference: Motion, anew: Option<Share>, dt: f64) -> Motion {
        self.step_near(reference, anew, ANYWHERE, dt)
    }

    /// As [`Axis::step`], of a joint that is led no further than `near`, rad, while it cannot follow. Once it can, it goes to its
    /// reference as slowly as an offset goes back.
    pub fn step_near(&mut self, reference: Motion, anew: Option<Share>, near: [f64; 2], dt: f64) -> Motion {
        let Range { velocity: fastest, position: [low, high], .. } = self.range;
        // Points that are close together in time may be far apart: no joint is led by a speed that it cannot have.
        let reference = Motion { velocity: reference.velocity.max(-fastest).min(fastest), ..reference };
        self.offset.step(Motion::default(), &self.gentle, f64::INFINITY, dt);
        if let Some(share) = anew {
            let expected = self.reference.carried_on(dt);
            // The joint does not go beyond its limits, so neither does what it is led by: what others leave behind would add up.
            let position = (expected.position + self.offset.at.position).max(low).min(high);
            let velocity = (expected.velocity + self.offset.at.velocity).max(-fastest).min(fastest);
            self.offset.at.position = position - reference.position;
            self.offset.at.velocity = velocity - reference.velocity;
            self.gentle = share.of(&self.range, self.offset.at);
        }
        self.reference = reference;
        let offset = self.offset.at;
        let wanted = Motion {
            position: reference.position + offset.position,
            velocity: reference.velocity + offset.velocity,
        };
        let looked_at = if self.is_kept_near { reference } else { wanted };
        self.is_kept_near = !is_within(looked_at.position, near);
        self.led = if self.is_kept_near { self.kept_near(near, dt) } else { wanted };
        let behind = self.led.position - self.led.velocity * dt - self.limiter.at.position;
        self.is_limited = self.limiter.step(self.led, &self.range, behind.abs() / self.ease_s, dt);
        self.mean.step(self.limiter.at.position, dt)
    }

    /// Where it is led as near to its reference as it may be: back with all that its limits allow, on with what an offset may take.
    fn kept_near(&mut self, near @ [low, high]: [f64; 2], dt: f64) -> Motion {
        let goal = Motion::still(self.reference.position.max(low).min(high));
        let range = if is_within(self.led.position, near) { &self.gentle } else { &self.range };
        let mut led = Limiter { at: self.led };
        led.step(goal, range, f64::INFINITY, dt);
        self.offset.at = Motion {
            position: led.at.position - self.reference.position,
            velocity: led.at.velocity - self.reference.velocity,
        };
        led.at
    }

    /// If it was led beside its reference because that is too far from the joint, the reference is there from now on.
    pub fn stay_near(&mut self) {
        if std::mem::take(&mut self.is_kept_near) {
            (self.reference, self.offset) = (self.led, Limiter::default());
        }
    }

    /// The reference is further from the joint than it may be led.
    pub fn is_kept_near(&self) -> bool {
        self.is_kept_near
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
