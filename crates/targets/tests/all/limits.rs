//! Limits are kept by any input: random moves, targets that jump with velocities, chunks that replace each other. What is judged are the
//! positions that come out, by their differences.

use khz_targets::curve::{Bounds, HOLD_OVER_NS, Shape, find_velocities};
use khz_targets::{Axis, Curve, Knot, Motion, Range, Share, mean};

const FREE: Bounds = Bounds { velocity: f64::INFINITY, acceleration: f64::INFINITY, is_stream: false };

const DT: f64 = 1e-3;
const MS: i64 = 1_000_000;
/// Positions of some rad have 16 digits; their third differences over a millisecond have so much of a limit less.
const ROUNDED: f64 = 1e-9;

/// Splitmix64: the same numbers on every machine.
pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        Self(41)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn within(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn whole(&mut self, least: i64, most: i64) -> i64 {
        least + (self.next() % (most - least + 1) as u64) as i64
    }
}

/// What came out, and the greatest of its velocity, acceleration and jerk.
pub struct Judge {
    last: [f64; 4],
    most: [f64; 3],
    reach: [f64; 2],
}

impl Judge {
    /// It has always moved so.
    pub fn new(Motion { position, velocity }: Motion) -> Self {
        let last = [0.0, 1.0, 2.0, 3.0].map(|ticks| position - velocity * DT * ticks);
        Self { last, most: [0.0; 3], reach: [position; 2] }
    }

    pub fn see(&mut self, position: f64) {
        self.last = [position, self.last[0], self.last[1], self.last[2]];
        let [a, b, c, d] = self.last;
        // Differences of neighbours are exact.
        let (first, second, third) = (a - b, b - c, c - d);
        let found =
            [first / DT, (first - second) / DT / DT, (first - second - (second - third)) / DT / DT / DT];
        for (most, found) in self.most.iter_mut().zip(found) {
            *most = most.max(found.abs());
        }
        self.reach = [self.reach[0].min(position), self.reach[1].max(position)];
    }

    fn check(&self, axis: &Axis, jerk: f64) {
        self.check_range(*axis.range(), jerk);
    }

    pub fn check_range(&self, Range { velocity, acceleration, position: [low, high] }: Range, jerk: f64) {
        // A third difference of positions as large as these loses this much in their last digit.
        let digit = 2.0 * f64::EPSILON * self.reach[0].abs().max(self.reach[1].abs());
        let limits = [velocity, acceleration, jerk];
        for (order, (most, limit)) in self.most.iter().zip(limits).enumerate() {
            let lost = digit * f64::powi(2.0, order as i32) / DT.powi(order as i32 + 1);
            assert!(*most <= limit * (1.0 + ROUNDED) + lost, "derivative {}: {most} of {limit}", order + 1);
        }
        assert!(self.reach[0] >= low - 1e-12 && self.reach[1] <= high + 1e-12, "{:?}", self.reach);
    }
}

fn axis(random: &mut Random, jerk_most: f64, high: f64) -> (Axis, f64) {
    let acceleration = random.within(5.0, 60.0);
    let jerk = acceleration * random.within(20.0, jerk_most);
    let range = Range { velocity: random.within(0.5, 6.0), acceleration, position: [-high, high] };
    (Axis::new(range, mean::ticks(acceleration, jerk, DT)), jerk)
}

/// The shortest time of any move from rest to rest.
fn optimum(distance: f64, velocity: f64, acceleration: f64, jerk: f64) -> f64 {
    let rising = (acceleration / jerk).min((velocity / jerk).sqrt());
    let to_speed =
        if velocity * jerk < acceleration.powi(2) { 2.0 * rising } else { rising + velocity / acceleration };
    let half = acceleration / (2.0 * jerk);
    if distance >= velocity * to_speed {
        to_speed + distance / velocity
    } else if distance >= 2.0 * acceleration.powi(3) / jerk.powi(2) {
        2.0 * (half + (half.powi(2) + distance / acceleration).sqrt())
    } else {
        4.0 * (distance / (2.0 * jerk)).cbrt()
    }
}

#[test]
fn moves_from_rest_keep_every_limit_do_not_overshoot_and_are_as_good_as_shortest() {
    let mut random = Random::new();
    for number in 0..1000 {
        let (mut axis, jerk) = axis(&mut random, 400.0, f64::INFINITY);
        let target = random.within(-3.0, 0.7).exp2().powi(2).min(5.0);
        let Range { velocity, acceleration, .. } = *axis.range();
        axis.begin(Motion::still(0.0), DT);
        let (mut judge, mut ticks) = (Judge::new(Motion::default()), 0);
        loop {
            let out = axis.step(Motion::still(target), None, DT);
            judge.see(out.position);
            ticks += 1;
            if (out.position - target).abs() < 1e-9 {
                break;
            }
            assert!(ticks < 100_000, "move {number} does not end: {axis:?}");
        }
        for _ in 0..600 {
            judge.see(axis.step(Motion::still(target), None, DT).position);
        }
        judge.check(&axis, jerk);
        assert!(judge.reach[1] <= target + 1e-12, "move {number} goes {:e} too far", judge.reach[1] - target);
        let longer = f64::from(ticks) * DT - optimum(target, velocity, acceleration, jerk);
        // Whole ticks: of the mean, of each of the three corners, and the last one.
        let bar = 1.4 * acceleration / jerk + 5.0 * DT;
        assert!(longer <= bar, "move {number} takes {longer} s more: {bar}");
    }
}

#[test]
fn targets_that_jump_at_any_velocity_keep_every_limit() {
    let mut random = Random::new();
    for _ in 0..300 {
        let (mut axis, jerk) = axis(&mut random, 400.0, 1.5);
        axis.begin(Motion::still(0.0), DT);
        let (mut judge, mut reference) = (Judge::new(Motion::default()), Motion::default());
        for _ in 0..3000 {
            if random.whole(0, 60) == 0 {
                let most = 2.0 * axis.range().velocity;
                let velocity = if random.whole(0, 2) == 0 { 0.0 } else { random.within(-most, most) };
                reference = Motion { position: random.within(-3.0, 3.0), velocity };
            }
            judge.see(axis.step(reference, None, DT).position);
        }
        judge.check(&axis, jerk);
    }
}

/// Chunks of 1, 5 or 50 points that begin up to 200 ms in the past.
fn chunk(random: &mut Random, now_ns: i64, piece: u32) -> Curve {
    let count = [1, 5, 50][random.whole(0, 2) as usize];
    let (from_ns, apart_ns) = (now_ns - random.whole(0, 200) * MS, random.whole(5, 50) * MS);
    let (mut position, mut knots) = (random.within(-1.3, 1.3), Vec::new());
    for number in 0..count {
        position += random.within(-0.1, 0.1);
        let at = Motion::still(position);
        knots.push(Knot {
            due_ns: from_ns + number * apart_ns,
            at,
            torque: 0.0,
            gains: [1.0; 2],
            piece,
            share: Share::REPLACED,
            is_given: false,
        });
    }
    find_velocities(&mut knots, 0, FREE);
    Curve(knots)
}

#[test]
fn chunks_that_replace_each_other_keep_every_limit() {
    let mut random = Random::new();
    let range = Range { velocity: 6.0, acceleration: 40.0, position: [-1.0, 1.0] };
    let mut axis = Axis::new(range, mean::ticks(40.0, 2000.0, DT));
    axis.begin(Motion::still(0.0), DT);
    let shape = Shape { hold_over_ns: HOLD_OVER_NS, is_linear: false, fades_torque: false };
    let (mut judge, mut curve) = (Judge::new(Motion::default()), chunk(&mut random, 0, 0));
    for tick in 0..300_000 {
        let now_ns = tick * MS;
        let is_replaced = random.whole(0, 82) == 0;
        if is_replaced {
            curve = chunk(&mut random, now_ns, tick as u32);
        }
        let reference = curve.sample(shape, now_ns).expect("it has begun").at;
        judge.see(axis.step(reference, is_replaced.then_some(Share::REPLACED), DT).position);
    }
    judge.check(&axis, 2000.0);
    assert!(judge.reach[1] > 0.9 && judge.most[1] > 39.0, "it was tried: {:?}", judge.most);
}

/// From 1.5 rad/s with a target behind.
#[test]
fn a_joint_that_moves_is_taken_over_without_a_jolt() {
    let range = Range { velocity: 6.0, acceleration: 40.0, position: [-3.0, 3.0] };
    let mut axis = Axis::new(range, mean::ticks(40.0, 2000.0, DT));
    let moving = Motion { position: 0.2, velocity: 1.5 };
    axis.begin(moving, DT);
    let mut judge = Judge::new(moving);
    for _ in 0..2000 {
        judge.see(axis.step(Motion::still(-0.5), None, DT).position);
    }
    judge.check(&axis, 2000.0);
    assert!((judge.reach[1] - 0.254).abs() < 0.001, "{:?}", judge.reach);
}

/// 50 points at 30 Hz, made of what was seen 100 ms ago, that are up to 70 mrad apart, five times a second: the joint feels hardly more
/// than the path itself, whatever its jerk.
#[test]
fn chunks_that_do_not_agree_meet_softly() {
    for jerk in [2000.0, 20_000.0] {
        let [agreeing, apart] = [0.0, 0.035].map(|beside| chunks_beside(jerk, beside));
        assert!((agreeing - path_itself()).abs() < 0.02 * agreeing, "{agreeing} rad/s² of {}", path_itself());
        assert!(apart <= 1.15 * agreeing, "jerk {jerk}: {apart} rad/s² of {agreeing}");
    }
}

fn path(seconds: f64) -> f64 {
    0.5 * (2.0 * seconds).sin() + 0.56 * (3.7 * seconds + 1.0).sin()
}

/// The root mean square of its acceleration.
fn path_itself() -> f64 {
    let a = |t: f64| -2.0 * (2.0 * t).sin() - 0.56 * 3.7 * 3.7 * (3.7 * t + 1.0).sin();
    ((501..8001).map(|ms| a(f64::from(ms) * 1e-3).powi(2)).sum::<f64>() / 7500.0).sqrt()
}

/// The same of a joint that follows chunks beside it, followed ahead by its delay.
fn chunks_beside(jerk: f64, beside: f64) -> f64 {
    let range = Range { velocity: 6.0, acceleration: 40.0, position: [-3.0, 3.0] };
    let ticks = mean::ticks(40.0, jerk, DT);
    let (mut random, mut axis) = (Random::new(), Axis::new(range, ticks));
    let start = Motion { position: path(0.0), velocity: 2.1 };
    axis.begin(start, DT);
    let lead_ns = (axis.delay() * 1e6) as i64;
    let shape = Shape { hold_over_ns: HOLD_OVER_NS, is_linear: false, fades_torque: false };
    let (mut curve, mut judge, mut sum) = (Curve::default(), Judge::new(start), 0.0);
    for tick in 0..8000_i64 {
        let replaced = tick % 200 == 0;
        if replaced {
            let beside = random.within(-beside, beside);
            let knot = |number: i64| {
                let due_ns = (tick - 100) * MS + number * 33_333_333;
                let at = Motion::still(path(due_ns as f64 * 1e-9) + beside);
                Knot {
                    due_ns,
                    at,
                    torque: 0.0,
                    gains: [1.0; 2],
                    piece: tick as u32,
                    share: Share::REPLACED,
                    is_given: false,
                }
            };
            curve = Curve((0..50).map(knot).collect());
            find_velocities(&mut curve.0, 0, FREE);
        }
        let reference = curve.sample(shape, tick * MS + lead_ns).expect("it has begun").at;
        judge.see(axis.step(reference, replaced.then_some(Share::REPLACED), DT).position);
        if tick > 500 {
            let [a, b, c, _] = judge.last;
            sum += ((a - b - (b - c)) / DT / DT).powi(2);
        }
    }
    judge.check(&axis, jerk);
    (sum / 7500.0).sqrt()
}

/// A program that is elsewhere may want the joint to take its time.
#[test]
fn a_joint_is_where_it_is_wanted_within_the_time_given() {
    let range = Range { velocity: 6.0, acceleration: 40.0, position: [-3.0, 3.0] };
    let there_after = |within_s: f64, velocity: f64| {
        let mut axis = Axis::new(range, 1);
        axis.begin(Motion { position: 0.0, velocity }, DT);
        let share = Share { within_s, ..Share::REPLACED };
        axis.step(Motion::still(0.4), Some(share), DT);
        let ticks = (1..100_000).find(|_| {
            axis.step(Motion::still(0.4), None, DT);
            axis.offset().abs() < 1e-6
        });
        ticks.expect("it ends") as f64 * DT
    };
    let soonest = there_after(0.0, 0.0);
    assert!((0.6..0.8).contains(&soonest), "{soonest} s");
    assert_eq!(there_after(0.2, 0.0), soonest, "no sooner than it can");
    for within_s in [1.0, 3.0] {
        let [still, moving] = [0.0, -1.0].map(|velocity| there_after(within_s, velocity));
        assert!((0.98 * within_s..1.01 * within_s).contains(&still), "{still} s of {within_s}");
        assert!(moving <= 1.6 * within_s, "{moving} s of {within_s}");
    }
}
