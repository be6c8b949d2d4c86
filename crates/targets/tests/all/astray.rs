//! Where no program sends a joint it does not go: what an outsider did to the robot.

use crate::robot::{MS, Robot};
use khz_targets::{Points, Refused, Sender, TargetsConfig};

fn robot() -> Robot {
    Robot::new(&TargetsConfig::default(), 4000.0)
}

/// A single target, stamped so many ns after the last tick.
fn target(robot: &Robot, name: &str, position: f64, late_ns: i64) {
    let points = Points::new(vec![robot.state.now_ns + late_ns], vec![vec![position; 3]]);
    robot.inbox.send(&Sender::new(name), &points, robot.state.now_ns + late_ns).unwrap();
}

/// The least and the greatest position that was commanded in so many ticks.
fn reach(robot: &mut Robot, ticks: i64) -> [f64; 2] {
    (0..ticks).fold([f64::MAX, f64::MIN], |[low, high], _| {
        robot.ticks(1);
        [low.min(robot.position(0)), high.max(robot.position(0))]
    })
}

#[test]
fn a_program_that_catches_up_after_a_pause_leads_nowhere_else() {
    for pause_ms in [60, 150, 300, 600] {
        let mut robot = robot();
        let wave = |number: i64| 0.4 * (number as f64 / 30.0).sin();
        let (mut sent, mut pause, mut most) = (0, 0, 0.0_f64);
        for ms in 0..12_000 {
            if sent % 40 == 39 && pause == 0 {
                pause = pause_ms;
            }
            if pause > 0 {
                pause -= 1;
                if pause == 0 {
                    // What it should have sent meanwhile, 0.3 ms apart.
                    for late in 0.. {
                        target(&robot, "mine", wave(sent), late * 300_000);
                        sent += 1;
                        if sent * 1000 / 30 > ms {
                            break;
                        }
                    }
                }
            } else if sent * 1000 / 30 <= ms {
                target(&robot, "mine", wave(sent), 0);
                sent += 1;
            }
            let [low, high] = reach(&mut robot, 1);
            most = most.max(high).max(-low);
        }
        assert!(most < 0.45, "{pause_ms} ms: {most} rad");
    }
}

#[test]
fn a_last_step_is_not_carried_on_as_if_it_were_a_motion() {
    for step in [0.1, 0.3, 0.6] {
        let mut robot = robot();
        for _ in 0..30 {
            target(&robot, "mine", 0.0, 0);
            robot.ticks(33);
        }
        target(&robot, "mine", step, 0);
        reach(&mut robot, 2000);
        // What the acceleration allows within a period of the program is carried on.
        assert!((step..step + 0.06).contains(&robot.position(0)), "{step}: {}", robot.position(0));
    }
}

#[test]
fn targets_close_in_time_are_one() {
    for (apart_ns, step) in [(1_000, 0.001), (300_000, 0.01), (3 * MS, 0.01)] {
        let mut robot = robot();
        target(&robot, "mine", 0.0, 0);
        target(&robot, "mine", step, apart_ns);
        reach(&mut robot, 2000);
        assert!((robot.position(0) - step).abs() < 1e-9, "{apart_ns} ns: {}", robot.position(0));
    }
}

/// From 0.5 rad/s one way to 0.5 rad/s the other, again and again.
#[test]
fn who_takes_over_leads_no_further_than_both_send() {
    let mut robot = robot();
    let wave = |ms: i64, phase: f64| 0.5 * (ms as f64 * 2e-3 + phase).sin();
    let mut most = 0.0_f64;
    for ms in 0..20_000 {
        if ms % 20 == 0 {
            let (name, phase) = if ms / 700 % 2 == 0 { ("one", 0.0) } else { ("other", 2.5) };
            let sender = Sender { takes: true, ..Sender::new(name) };
            robot.send_as(&sender, &robot.points(&[(0, wave(ms, phase))])).unwrap();
        }
        let [low, high] = reach(&mut robot, 1);
        most = most.max(high).max(-low);
    }
    assert!(most < 0.65, "{most} rad");
}

#[test]
fn a_torque_without_a_limit_is_not_taken() {
    let mut robot = Robot::without_torque();
    robot.ticks(1);
    let mut points = robot.points(&[(0, 0.1)]);
    points.torque = vec![vec![0.0; 3]];
    assert_eq!(robot.send_as(&Sender::new("mine"), &points), Ok(()));
    let mut points = robot.points(&[(30, 0.1)]);
    points.torque = vec![vec![53.0; 3]];
    let refused = robot.send_as(&Sender::new("mine"), &points);
    assert!(
        matches!(&refused, Err(Refused::Invalid(why)) if why.contains("`limits.torque` of `shoulder`")),
        "{refused:?}"
    );
}

#[test]
fn a_program_that_dies_does_not_lead_for_hours() {
    let robot = robot();
    let far: Vec<_> = (0..256).map(|number| (number * 28_000, 0.1)).collect();
    assert_eq!(robot.send("mine", &far), Err(Refused::Future));
    robot.send("mine", &[(0, 0.1), (59_000, 0.2)]).unwrap();
}
