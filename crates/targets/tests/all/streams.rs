//! Streams of single targets as slow programs send them: late, at other rates, frozen.

use crate::robot::{MS, Robot, START_MS};
use khz_targets::TargetsConfig;

/// A hand, as it moves an arm: up to 2.7 rad/s.
fn hand(seconds: f64) -> f64 {
    0.28 * (4.0 * seconds).sin() + 0.18 * (6.3 * seconds + 0.7).sin() + 0.05 * (11.0 * seconds).sin()
}

#[derive(Debug)]
struct Ride {
    most_v: f64,
    most_a: f64,
    rms_a: f64,
    most_j: f64,
    held_over: u64,
    anchored: u64,
}

/// `every_ms` a target of the hand; `late(number)` ms after its time it arrives.
fn ride(settings: &TargetsConfig, jerk: f64, every: f64, late: impl Fn(i64) -> i64) -> Ride {
    let mut robot = Robot::new(settings, jerk);
    let mut waiting: Vec<(i64, i64)> = Vec::new();
    let (mut number, mut last, mut sum) = (0, [hand(0.0); 4], 0.0);
    let mut ride = Ride { most_v: 0.0, most_a: 0.0, rms_a: 0.0, most_j: 0.0, held_over: 0, anchored: 0 };
    for ms in 0..9000 {
        let now_ms = START_MS + ms;
        while (number as f64 * every) as i64 <= ms {
            let at_ms = (number as f64 * every) as i64;
            waiting.push((START_MS + at_ms + late(number), START_MS + at_ms));
            number += 1;
        }
        while waiting.first().is_some_and(|(arrives_ms, _)| *arrives_ms <= now_ms) {
            let (_, at_ms) = waiting.remove(0);
            let position = hand((at_ms - START_MS) as f64 * 1e-3);
            robot.send("hand", &[(at_ms - robot.now_ms(), position)]).unwrap();
        }
        robot.tick_after(0);
        let position = robot.position(0);
        last = [position, last[0], last[1], last[2]];
        if ms >= 1000 {
            let [a, b, c, d] = last;
            let (v, before, earlier) = (a - b, b - c, c - d);
            ride.most_v = ride.most_v.max(v.abs() * 1e3);
            ride.most_a = ride.most_a.max((v - before).abs() * 1e6);
            ride.most_j = ride.most_j.max((v - 2.0 * before + earlier).abs() * 1e9);
            sum += ((v - before) * 1e6).powi(2);
        }
    }
    ride.rms_a = (sum / 8000.0).sqrt();
    let fared = robot.inbox.standing().fared;
    (ride.held_over, ride.anchored) = (fared.held_over, fared.anchored);
    ride
}

fn hand_itself() -> (f64, f64) {
    let (mut most_v, mut sum) = (0.0_f64, 0.0);
    for ms in 1000..9000 {
        let at = |ms: i32| hand(f64::from(ms) * 1e-3);
        most_v = most_v.max((at(ms) - at(ms - 1)).abs() * 1e3);
        sum += ((at(ms) - 2.0 * at(ms - 1) + at(ms - 2)) * 1e6).powi(2);
    }
    (most_v, (sum / 8000.0_f64).sqrt())
}

#[test]
fn thirty_targets_a_second_are_as_smooth_as_the_hand() {
    let (most_v, rms_a) = hand_itself();
    assert!(most_v > 2.0 && rms_a > 7.0, "{most_v} {rms_a}");
    let ride = ride(&TargetsConfig::default(), 2000.0, 1000.0 / 30.0, |_| 0);
    assert!(ride.rms_a < 1.05 * rms_a && ride.most_v < 1.05 * most_v, "{ride:?}, hand {rms_a}");
    // The first one is where the joint is not.
    assert_eq!((ride.held_over, ride.anchored), (0, 3));
}

#[test]
fn a_jitter_of_five_milliseconds_is_learned() {
    let (_, rms_a) = hand_itself();
    let jitter = |number: i64| (number * 7919) % 6;
    let ride = ride(&TargetsConfig::default(), 2000.0, 1000.0 / 30.0, jitter);
    assert!(ride.rms_a < 1.05 * rms_a && ride.held_over < 40, "{ride:?}, hand {rms_a}");
}

#[test]
fn with_both_neighbours_known_even_little_jerk_limiting_is_smooth() {
    let (_, rms_a) = hand_itself();
    let smooth = TargetsConfig { smooth: true, ..TargetsConfig::default() };
    let rides = [true, false].map(|is_smooth| {
        ride(&TargetsConfig { smooth: is_smooth, ..smooth.clone() }, 20_000.0, 1000.0 / 30.0, |_| 0)
    });
    assert!(rides[0].rms_a < 1.1 * rms_a && rides[0].rms_a < 0.8 * rides[1].rms_a, "{rides:?}, hand {rms_a}");
}

/// One target 15, 65 or 300 ms late, and with it all that it keeps waiting.
#[test]
fn a_program_that_stalls_once_causes_no_lunge() {
    let (most_v, _) = hand_itself();
    for stall_ms in [15, 65, 300] {
        let every = 1000.0 / 30.0;
        let late = |number: i64| {
            let (due_ms, back_ms) = ((number as f64 * every) as i64, 5000 + stall_ms);
            if (5000..back_ms).contains(&due_ms) { back_ms - due_ms } else { 0 }
        };
        let ride = ride(&TargetsConfig::default(), 2000.0, every, late);
        assert!(ride.most_a <= 40.0 + 1e-6 && ride.most_j <= 2000.0 + 1e-3, "{stall_ms} ms: {ride:?}");
        assert!(ride.most_v < 1.25 * most_v, "{stall_ms} ms: {ride:?}, hand {most_v}");
    }
}

#[test]
fn ten_targets_a_second_are_smooth_too() {
    let (_, rms_a) = hand_itself();
    let ride = ride(&TargetsConfig::default(), 2000.0, 100.0, |_| 0);
    assert!(ride.rms_a < 1.5 * rms_a, "{ride:?}, hand {rms_a}");
}

/// What was lost of the loop is a jump of the reference, and nothing else.
#[test]
fn a_loop_that_loses_ticks_keeps_every_limit() {
    let mut robot = Robot::new(&TargetsConfig::default(), 2000.0);
    let (mut last, mut before) = (0.0, 0.0);
    for tick in 0..4000 {
        if robot.now_ms() % 33 == 0 || tick == 0 {
            let _ = robot.send("hand", &[(0, hand(robot.now_ms() as f64 * 1e-3))]);
        }
        robot.tick_after(if tick % 500 == 499 { 60 } else { 0 });
        let velocity = (robot.position(0) - last) / 1e-3;
        let acceleration = (velocity - before) / 1e-3;
        assert!(
            acceleration.abs() <= robot.limits().acceleration.unwrap() + 1e-6,
            "tick {tick}: {acceleration}"
        );
        (last, before) = (robot.position(0), velocity);
    }
    assert_eq!(MS, robot.state.period_ns);
}
