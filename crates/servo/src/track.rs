//! Whether a joint can have moved from its position in one reply to that in the next.

/// A position that jumps by less may be a measurement or a shock, rad; and so much faster than its velocity a joint may be.
const JUMP: (f64, f64) = (0.15, 1.5);
/// What a position slips by from reply to reply beyond that adds up to a jump, unless it is slower than this, rad/s: a velocity may be
/// measured later than its position, or badly.
const SLIP: f64 = 1.0;
/// Between replies farther apart it may have been as fast as it can be at all.
const NEAR_NS: i64 = 13_000_000;
const NEAR_S: f64 = NEAR_NS as f64 * 1e-9;

/// Where a joint was, and how fast.
#[derive(Clone, Copy, Debug)]
pub struct Track {
    position: f64,
    velocity: f64,
    at_ns: i64,
    /// How far it has slipped of late, rad.
    slipped: f64,
}

impl Default for Track {
    fn default() -> Self {
        Self { position: f64::NAN, velocity: 0.0, at_ns: 0, slipped: 0.0 }
    }
}

impl Track {
    /// Where it was last, rad; NaN if that is not known.
    pub const fn position(&self) -> f64 {
        self.position
    }

    /// Takes in position and velocity of this time, rad and rad/s: whether the joint cannot have moved there. `most`: how fast it
    /// can be, rad/s, and how far a position can change without having gone round, rad; infinite where that is not known. Slices of a
    /// jump in replies one after another count as one. Of
    /// replies farther apart than 13 ms, or without a velocity, only a change that `most` does not allow is a jump.
    #[inline]
    pub fn jumps(&mut self, at_ns: i64, [position, velocity]: [f64; 2], most: [f64; 2]) -> bool {
        !self.goes_on(at_ns, [position, velocity], most[1])
            && self.jumps_unless_led([position, velocity], at_ns, most)
    }

    /// Takes them in if the joint is where its velocity leads it, as it nearly always is, and moved no farther than that. If false,
    /// nothing was taken in, and [`Track::jumps`] has to decide.
    #[inline]
    pub fn goes_on(&mut self, at_ns: i64, [position, velocity]: [f64; 2], most_moved: f64) -> bool {
        let since_ns = at_ns.wrapping_sub(self.at_ns);
        let goes_on = (0..NEAR_NS).contains(&since_ns)
            && self.slipped == 0.0
            && self.leads_to([position, velocity], since_ns as f64 * 1e-9, most_moved);
        if goes_on {
            (self.position, self.velocity, self.at_ns) = (position, velocity, at_ns);
        }
        goes_on
    }

    #[inline]
    fn seconds_until(&self, at_ns: i64) -> f64 {
        at_ns.saturating_sub(self.at_ns).max(0) as f64 * 1e-9
    }

    /// It is where its velocity leads it, as it nearly always is, and no jump away. Not if one of the numbers is none, or infinite.
    #[inline]
    fn leads_to(&self, [position, velocity]: [f64; 2], dt_s: f64, most_moved: f64) -> bool {
        let (speed, before) = (velocity.abs(), self.velocity.abs());
        // Not `max`, which has to think of NaN: the comparisons are false for that.
        let fastest = if before > speed { before } else { speed };
        let (moved, forgiven) = (position - self.position, ((JUMP.1 - 1.0) * fastest + SLIP) * dt_s);
        fastest <= f64::MAX
            && (moved - velocity * dt_s).abs() <= forgiven
            && moved.abs() <= JUMP.0 + JUMP.1 * fastest * dt_s
            && moved.abs() <= most_moved
    }

    /// [`Track::jumps`] of any reply.
    #[cold]
    #[inline(never)]
    fn jumps_unless_led(&mut self, [position, velocity]: [f64; 2], at_ns: i64, most: [f64; 2]) -> bool {
        if !position.is_finite() {
            return false;
        }
        let dt_s = self.seconds_until(at_ns);
        let near = dt_s < NEAR_S && velocity.is_finite();
        let fastest = if near { velocity.abs().max(self.velocity.abs()) } else { most[0] };
        let moved = position - self.position;
        let forgiven = ((JUMP.1 - 1.0) * fastest + SLIP) * dt_s;
        let is_there = self.slipped == 0.0 && (moved - velocity * dt_s).abs() <= forgiven;
        let slipped =
            if near && !is_there { self.slipped(moved, velocity * dt_s, forgiven, dt_s) } else { 0.0 };
        let far = (JUMP.0 + JUMP.1 * fastest * dt_s).min(most[1]);
        let jumps = moved.abs() > far || slipped.abs() > far;
        let velocity = if velocity.is_finite() { velocity } else { most[0] };
        *self = Self { position, velocity, at_ns, slipped: if jumps { 0.0 } else { slipped } };
        jumps
    }

    /// How far it has slipped by now, if it has moved so far, and its velocity would have led it so far.
    fn slipped(&self, moved: f64, led: f64, forgiven: f64, dt_s: f64) -> f64 {
        if !moved.is_finite() {
            return 0.0;
        }
        // What a coarse position has gained in one reply it lacks in others. Not `clamp`, which panics where the velocity before is not
        // known and no time has passed.
        let before = self.velocity * dt_s;
        let slipped = self.slipped + moved - moved.max(led.min(before)).min(led.max(before));
        slipped - slipped.max(-forgiven).min(forgiven)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANY: [f64; 2] = [f64::INFINITY; 2];
    const MS: i64 = 1_000_000;

    fn at_zero(velocity: f64) -> Track {
        let mut track = Track::default();
        assert!(!track.jumps(0, [0.0, velocity], ANY));
        track
    }

    /// A usual number, or one at a border, or none.
    fn near(most: f64) -> impl Strategy<Value = f64> {
        let borders = [0.0, -0.0, 0.15, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN];
        prop_oneof![6 => -most..most, 1 => prop::sample::select(borders.to_vec())]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]

        #[test]
        fn the_short_way_of_a_joint_that_is_led_is_the_long_one(
            replies in prop::collection::vec((-1..20_i64, near(0.02), near(4.0)), 1..20),
            most in (prop_oneof![Just(20.0), Just(f64::INFINITY)], prop_oneof![Just(0.01), Just(12.5)]),
        ) {
            let mut track = Track::default();
            let (mut at_ns, mut position) = (0, 0.0);
            for (ms, by, velocity) in replies {
                (at_ns, position) = (at_ns + ms * MS, if f64::is_finite(position) { position + by } else { by });
                let (mut long, reply, most) = (track, [position, velocity], [most.0, most.1]);
                let jumps = long.jumps_unless_led(reply, at_ns, most);
                prop_assert_eq!(track.jumps(at_ns, reply, most), jumps);
                prop_assert_eq!(format!("{track:?}"), format!("{long:?}"));
            }
        }
    }

    #[test]
    fn a_joint_is_where_its_velocity_leads_it() {
        assert!(at_zero(1.0).jumps(MS, [0.9, 1.0], ANY));
        assert!(!at_zero(1.0).jumps(MS, [0.15, 1.0], ANY));
        assert!(!at_zero(600.0).jumps(MS, [0.9, 10.0], ANY));
        assert!(!at_zero(0.0).jumps(MS, [f64::INFINITY, 0.0], ANY), "no position");
    }

    /// Whether it is noticed that a joint slips by so much from reply to reply, 1 ms apart, and reports this velocity.
    fn slips(by: impl Fn(i64) -> f64, velocity: f64, replies: i64) -> bool {
        let mut track = at_zero(velocity);
        let mut position = 0.0;
        (1..=replies).any(|reply| {
            position += by(reply);
            track.jumps(reply * MS, [position, velocity], ANY)
        })
    }

    #[test]
    fn slices_of_a_jump_are_a_jump() {
        assert!(slips(|_| 0.145, 0.0, 2) && slips(|_| -0.145, 0.0, 2));
        assert!(slips(|_| 0.03, 0.0, 6) && slips(|_| 0.03 + 0.004, 4.0, 6));
        assert!(slips(|_| 0.002, 0.0, 160), "2 rad/s of which nobody tells");
        // Every other reply it stands still.
        assert!(slips(|reply| if reply % 2 == 0 { 0.1 } else { 0.0 }, 0.0, 4));
    }

    #[test]
    fn two_replies_of_one_time_are_no_reason_to_panic() {
        let mut track = Track::default();
        for [position, velocity] in
            [[0.1, f64::NAN], [0.1, 1.0], [0.2, 1.0], [f64::INFINITY, 1.0], [0.2, f64::MAX]]
        {
            assert!(!track.jumps(MS, [position, velocity], ANY));
        }
    }

    #[test]
    fn what_is_measured_badly_is_no_slip() {
        assert!(!slips(|_| 0.001, 0.0, 10_000), "a velocity of 1 rad/s that is not measured");
        assert!(!slips(|_| 0.006, 4.0, 10_000), "one that is measured too low by a third");
        assert!(!slips(|reply| if reply % 2 == 0 { 0.14 } else { -0.14 }, 0.0, 10_000), "noise");
        // An int8 counts hundredths of a turn, and tenths of a turn in a second.
        for speed in [0.9, 3.0, 9.0, 30.0] {
            let counts = |reply: i64| (reply as f64 * speed * 1e-3 / 0.0628).floor();
            let message = (speed / 0.628_f64).round() * 0.628;
            assert!(
                !slips(|reply| 0.0628 * (counts(reply) - counts(reply - 1)), message, 10_000),
                "{speed} rad/s"
            );
        }
        // A joint that is accelerated, and whose velocity is known 5 ms later.
        let mut track = at_zero(0.0);
        let (mut position, mut velocities) = (0.0, [0.0; 5]);
        for reply in 1..100 {
            let velocity: f64 = (reply as f64 * 0.5).min(20.0);
            position += velocity * 1e-3;
            velocities.rotate_left(1);
            velocities[4] = velocity;
            assert!(!track.jumps(reply * MS, [position, velocities[0]], ANY), "{reply}");
        }
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
