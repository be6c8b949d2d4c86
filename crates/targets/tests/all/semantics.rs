//! What becomes of every message, odd ones above all.

use crate::robot::{MS, Robot};
use khz_run::targets::Fared;
use khz_targets::{Points, Refused, Sender, Stage, TargetsConfig};

/// What a message may be, and the test that shows what becomes of it.
const ROWS: [(&str, fn()); 18] = [
    ("a number that does not grow", numbers_that_do_not_grow_and_older_plans_are_dropped_and_counted),
    (
        "a plan that begins before the newest one",
        numbers_that_do_not_grow_and_older_plans_are_dropped_and_counted,
    ),
    (
        "not finite, unknown joint, joint twice, times that do not rise, too many points",
        what_is_no_message_is_refused_whole,
    ),
    ("a position beyond its limit", a_point_beyond_a_limit_is_at_it_and_stands_there),
    ("a velocity, torque or gain beyond its limit", what_is_beyond_a_limit_is_at_it_and_counted),
    ("points of the past", points_of_the_past_are_the_start_of_the_curve_or_a_target_or_late),
    ("a beginning too far ahead", what_begins_too_far_ahead_is_refused),
    ("joints that are not named", joints_that_are_not_named_stay_on_their_own_curve),
    ("a second program", one_program_at_a_time_and_a_stronger_one_takes_over),
    ("programs that fight", programs_that_take_the_robot_from_each_other_leave_no_offset_behind),
    ("a chunk that is still to come", a_chunk_that_is_still_to_come_leaves_the_old_curve_alone_until_then),
    (
        "a program that is gone, or has released",
        a_program_that_is_gone_is_missed_and_one_that_has_released_the_robot_is_not,
    ),
    ("a program that was started again", a_program_that_was_started_again_counts_from_one),
    ("silence", silence_is_held_over_then_waited_out_and_then_reported),
    ("silence that is meant", announced_silence_is_none_until_it_is_over_or_a_program_sends),
    ("a robot that is not active, or is started again", nothing_is_taken_before_a_start_nor_kept_over_one),
    ("a flood", more_than_500_messages_in_a_second_are_a_flood),
    ("late, by the one account", what_was_owed_is_late_and_nothing_else),
];

#[test]
fn every_row_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<_> = ROWS.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), ROWS.len());
}

fn robot() -> Robot {
    Robot::new(&TargetsConfig::default(), 4000.0)
}

fn numbered(robot: &Robot, seq: u64, points: &[(i64, f64)]) -> Points {
    Points { seq: Some(seq), ..robot.points(points) }
}

#[test]
fn a_target_is_reached_and_the_joint_stands_there() {
    let mut robot = robot();
    assert_eq!(robot.status().stage, Stage::Idle);
    robot.send("policy", &[(0, 0.3)]).unwrap();
    robot.ticks(1500);
    assert!((robot.position(1) - 0.3).abs() < 1e-9, "{:?}", robot.command(1));
    assert_eq!(robot.status().offset, [0.0; 3]);
}

#[test]
fn numbers_that_do_not_grow_and_older_plans_are_dropped_and_counted() {
    let mut robot = robot();
    let policy = Sender::new("policy");
    robot.send_as(&policy, &numbered(&robot, 7, &[(0, 0.1), (100, 0.2)])).unwrap();
    robot.ticks(10);
    let again = robot.send_as(&policy, &numbered(&robot, 7, &[(0, 0.1), (100, 0.2)]));
    assert_eq!(again, Err(Refused::Duplicate));
    let older = robot.send_as(&policy, &numbered(&robot, 6, &[(0, 0.1), (100, 0.2)]));
    assert_eq!(older, Err(Refused::OutOfOrder));
    let plan_before = robot.send_as(&policy, &numbered(&robot, 8, &[(-11, 0.1), (100, 0.2)]));
    assert_eq!(plan_before, Err(Refused::OutOfOrder));
    assert_eq!(
        [robot.refused("policy", &Refused::Duplicate), robot.refused("policy", &Refused::OutOfOrder)],
        [1, 2]
    );
}

#[test]
fn a_program_that_was_started_again_counts_from_one() {
    let mut robot = robot();
    let policy = Sender::new("policy");
    robot.send_as(&policy, &numbered(&robot, 900, &[(0, 0.1)])).unwrap();
    robot.ticks(100);
    assert_eq!(robot.send_as(&policy, &numbered(&robot, 1, &[(0, 0.1)])), Err(Refused::OutOfOrder));
    robot.inbox.gone("policy");
    assert_eq!(robot.send_as(&policy, &numbered(&robot, 1, &[(0, 0.1)])), Ok(()));
    robot.ticks(600);
    assert_eq!(robot.send_as(&policy, &numbered(&robot, 1, &[(0, 0.2)])), Ok(()));
}

/// It drove on with the last torque, without a gain, and the only report was that it stands.
#[test]
fn a_limp_joint_whose_program_dies_or_is_done_stands_where_it_is() {
    for ends in [|robot: &Robot| robot.inbox.gone("policy"), |robot: &Robot| robot.inbox.release("policy")] {
        let mut robot = robot();
        let limp =
            Points { torque: vec![vec![0.5; 3]], kp_scale: vec![vec![0.0; 3]], ..robot.points(&[(50, 0.4)]) };
        robot.send_as(&Sender::new("policy"), &limp).unwrap();
        robot.ticks(160);
        assert_eq!(robot.command(1).kp_scale, 0.0);
        ends(&robot);
        for _ in 0..100 {
            // It drives on.
            robot.state.servos[1].position = 1.3;
            robot.ticks(1);
        }
        robot.ticks(200);
        let command = robot.command(1);
        assert!((command.position - 1.3).abs() < 0.01 && command.velocity.abs() < 0.01, "{command:?}");
        assert_eq!((command.kp_scale, command.kd_scale, command.torque), (1.0, 1.0, 0.5));
        assert!(robot.position(0) < 0.5, "and the others where they are");
    }
}

#[test]
fn what_is_no_message_is_refused_whole() {
    let mut robot = robot();
    let good = robot.points(&[(0, 0.5), (10, 0.5)]);
    let with = |change: fn(&mut Points)| {
        let mut points = good.clone();
        change(&mut points);
        points
    };
    let bad = [
        with(|points| points.position[1][2] = f64::NAN),
        with(|points| points.velocity = vec![vec![0.0; 3], vec![0.0, f64::INFINITY, 0.0]]),
        with(|points| points.joints = ["shoulder", "elbow", "tail"].map(str::to_owned).into()),
        with(|points| points.joints = ["shoulder", "elbow", "shoulder"].map(str::to_owned).into()),
        with(|points| points.at_ns[1] = points.at_ns[0]),
        with(|points| points.position[0].truncate(2)),
        with(|points| points.torque = vec![vec![0.0; 3]]),
        with(|points| (points.at_ns.clear(), points.position.clear()).0),
        Points::new((0..257).map(|ms| robot.state.now_ns + ms * MS).collect(), vec![vec![0.5; 3]; 257]),
    ];
    for points in &bad {
        let answer = robot.send_as(&Sender::new("policy"), points);
        assert!(matches!(answer, Err(Refused::Invalid(_))), "{answer:?}");
    }
    robot.ticks(300);
    assert_eq!([0, 1, 2].map(|joint| robot.position(joint)), [0.0; 3]);
    assert_eq!(robot.refused("policy", &Refused::Invalid(String::new())), bad.len() as u64);
}

#[test]
fn what_is_beyond_a_limit_is_at_it_and_counted() {
    let mut robot = robot();
    let mut points = robot.points(&[(0, 7.0), (500, 7.0)]);
    points.velocity = vec![vec![2.0; 3], vec![100.0; 3]];
    points.torque = vec![vec![-50.0; 3]; 2];
    points.kp_scale = vec![vec![1.5; 3]; 2];
    robot.send_as(&Sender::new("policy"), &points).unwrap();
    robot.ticks(3000);
    let command = robot.command(0);
    assert!((2.998..3.0).contains(&command.position), "{command:?}");
    assert_eq!((command.torque, command.kp_scale), (-10.0, 1.0));
    assert_eq!(robot.inbox.standing().accounts[0].counts.clamped, 6);
}

/// It comes to rest there, whatever velocity was given.
#[test]
fn a_point_beyond_a_limit_is_at_it_and_stands_there() {
    let mut robot = robot();
    let mut points = robot.points(&[(0, 2.0), (400, 9.0), (600, 9.0)]);
    points.velocity = vec![vec![3.0; 3]; 3];
    robot.send_as(&Sender::new("policy"), &points).unwrap();
    robot.ticks(404);
    assert!((robot.status().target[0] - 3.0).abs() < 0.02, "{:?}", robot.status().target);
    let mut most = f64::NEG_INFINITY;
    for _ in 0..4000 {
        robot.tick_after(0);
        most = most.max(robot.position(0));
    }
    assert!(most <= 3.0 && robot.command(0).velocity == 0.0, "{most} {:?}", robot.command(0));
    assert_eq!(robot.inbox.standing().accounts[0].counts.clamped, 6);
}

#[test]
fn points_of_the_past_are_the_start_of_the_curve_or_a_target_or_late() {
    let mut robot = robot();
    robot.ticks(300);
    robot.send("policy", &[(-200, 9.0), (-100, 0.1), (100, 0.3)]).unwrap();
    robot.ticks(1);
    assert!((robot.status().offset[0] + 0.2).abs() < 0.02, "{:?}", robot.status());
    robot.ticks(1500);
    assert!((robot.position(0) - 0.34).abs() < 0.01, "{}", robot.position(0));
    // Newer than all that came, and nevertheless over.
    robot.send("policy", &[(-250, 0.4), (-200, 0.4)]).unwrap();
    robot.ticks(1500);
    assert!((robot.position(0) - 0.4).abs() < 1e-9, "{}", robot.position(0));
    let mut robot = self::robot();
    robot.ticks(300);
    robot.send("policy", &[(-20, 0.1), (50, 0.2)]).unwrap();
    robot.ticks(100);
    assert_eq!(robot.send("policy", &[(-110, 0.1), (-60, 0.5)]), Err(Refused::Late));
}

/// Its times may be ms that were meant as µs. It had been taken, and the robot came down at once of the silence behind it.
#[test]
fn what_is_older_than_silence_is_not_followed_at_all() {
    let mut robot = robot();
    robot.ticks(10);
    assert_eq!(robot.send("policy", &[(-9000, 0.1)]), Err(Refused::Late));
    assert_eq!(robot.send("policy", &[(-9000, 0.1), (-1100, 0.2)]), Err(Refused::Late));
    robot.ticks(1);
    assert_eq!(robot.inbox.status().stage, Stage::Idle);
    assert_eq!(robot.send("policy", &[(-900, 0.1)]), Ok(()));
}

#[test]
fn what_begins_too_far_ahead_is_refused() {
    let robot = robot();
    assert_eq!(robot.send("policy", &[(5001, 0.1), (5100, 0.1)]), Err(Refused::Future));
    assert_eq!(robot.send("policy", &[(4999, 0.1), (9000, 0.1)]), Ok(()));
}

#[test]
fn joints_that_are_not_named_stay_on_their_own_curve() {
    let mut robot = robot();
    robot.send("policy", &[(0, 0.0), (400, 0.4)]).unwrap();
    robot.ticks(200);
    let elbow = Points {
        joints: vec!["elbow".to_owned()],
        ..Points::new(vec![robot.state.now_ns, robot.state.now_ns + 300 * MS], vec![vec![0.2], vec![-0.2]])
    };
    robot.send_as(&Sender::new("policy"), &elbow).unwrap();
    robot.ticks(1500);
    assert!(robot.position(0) > 0.39 && robot.position(2) > 0.39 && robot.position(1) < -0.19);
}

#[test]
fn one_program_at_a_time_and_a_stronger_one_takes_over() {
    let mut robot = robot();
    let sender = |name, priority, takes| Sender { priority, takes, ..Sender::new(name) };
    robot.send("policy", &[(0, 0.1), (100, 0.1)]).unwrap();
    let held = Err(Refused::Held("policy".to_owned()));
    let points = robot.points(&[(0, -0.1), (100, -0.1)]);
    assert_eq!(robot.send_as(&sender("other", 5, false), &points), held);
    assert_eq!(robot.send_as(&sender("weak", 4, true), &points), held);
    assert_eq!(robot.send_as(&sender("other", 5, true), &points), Ok(()));
    assert_eq!(robot.send_as(&sender("view", 9, false), &points), Ok(()));
    assert_eq!(robot.send("policy", &[(0, 0.1)]), Err(Refused::Held("view".to_owned())));
    // 100 ms of points, 80 of hold-over, 300 of lease.
    robot.ticks(480);
    assert_eq!(robot.send("policy", &[(0, 0.1)]), Err(Refused::Held("view".to_owned())));
    robot.ticks(1);
    assert_eq!(robot.send("policy", &[(0, 0.1)]), Ok(()));
    assert!(
        robot.inbox.standing().accounts.iter().all(|account| account.holds == (account.name == "policy"))
    );
}

#[test]
fn a_chunk_that_is_still_to_come_leaves_the_old_curve_alone_until_then() {
    let both = || {
        let mut robot = robot();
        robot.send("policy", &[(0, 0.0), (100, 0.1), (200, 0.2), (300, 0.1)]).unwrap();
        robot.ticks(100);
        robot
    };
    let (mut alone, mut followed) = (both(), both());
    followed.send("policy", &[(150, -0.5), (250, -0.5)]).unwrap();
    for _ in 0..135 {
        alone.tick_after(0);
        followed.tick_after(0);
        assert!((alone.position(0) - followed.position(0)).abs() < 1e-12);
    }
    followed.ticks(2000);
    assert!((followed.position(0) + 0.5).abs() < 1e-9);
}

#[test]
fn silence_is_held_over_then_waited_out_and_then_reported() {
    let mut robot = robot();
    robot.send("policy", &[(0, 0.0), (100, 0.1)]).unwrap();
    let mut stages = vec![Stage::Idle];
    for _ in 0..1300 {
        robot.tick_after(0);
        let stage = robot.status().stage;
        if stages.last() != Some(&stage) {
            stages.push(stage);
        }
        assert_eq!(robot.feed.silent_ns(robot.state.now_ns + MS).is_some(), stage == Stage::Silent);
    }
    assert_eq!(stages, [Stage::Idle, Stage::OnTime, Stage::HeldOver, Stage::Waiting, Stage::Silent]);
    let Fared { held_over, held_over_in_a_row, waits, silences, .. } = robot.inbox.standing().fared;
    assert_eq!([held_over, held_over_in_a_row, waits, silences], [80, 80, 1, 1]);
    assert_eq!(robot.command(0).velocity, 0.0);
}

#[test]
fn announced_silence_is_none_until_it_is_over_or_a_program_sends() {
    let mut robot = robot();
    robot.send("policy", &[(0, 0.1)]).unwrap();
    robot.inbox.hold("another program", 30_000 * MS, robot.state.now_ns);
    robot.inbox.hold("policy", 30_000 * MS, robot.state.now_ns);
    // Until then, and as long as any other silence.
    robot.ticks(30_999);
    assert_eq!((robot.status().stage, robot.feed.silent_ns(robot.state.now_ns)), (Stage::Waiting, None));
    robot.ticks(2);
    assert_eq!(robot.status().stage, Stage::Silent);
    robot.send("policy", &[(0, 0.2)]).unwrap();
    robot.ticks(1);
    assert_eq!((robot.status().stage, robot.feed.silent_ns(robot.state.now_ns)), (Stage::OnTime, None));
}

#[test]
fn a_program_that_is_gone_is_missed_and_one_that_has_released_the_robot_is_not() {
    for (is_gone, last) in [(true, Stage::Silent), (false, Stage::Idle)] {
        let mut robot = robot();
        robot.send("policy", &[(0, 0.1), (50, 0.1)]).unwrap();
        robot.inbox.hold("policy", 60_000 * MS, robot.state.now_ns);
        if is_gone {
            robot.inbox.gone("policy");
        } else {
            robot.inbox.release("policy");
        }
        robot.ticks(20);
        assert_eq!(robot.status().stage, Stage::OnTime, "no reaction to that");
        robot.ticks(1300);
        assert_eq!(robot.status().stage, last);
        robot.send("other", &[(0, 0.1)]).unwrap();
    }
}

#[test]
fn nothing_is_taken_before_a_start_nor_kept_over_one() {
    let mut robot = Robot::at_rest(&TargetsConfig::default(), 4000.0);
    assert_eq!(robot.send("policy", &[(0, 0.5)]), Err(Refused::NotActive));
    robot.start();
    robot.ticks(10);
    robot.send("policy", &[(0, 0.5), (3000, 0.5)]).unwrap();
    robot.ticks(50);
    robot.start();
    let at = robot.position(0);
    robot.ticks(500);
    assert!((robot.position(0) - at).abs() < 0.05 && robot.status().stage == Stage::Idle);
    robot.send("other", &[(0, at)]).unwrap();
}

#[test]
fn more_than_500_messages_in_a_second_are_a_flood() {
    let mut robot = robot();
    for ms in 0..600 {
        let answer = robot.send("policy", &[(0, 0.1)]);
        assert_eq!(answer, if ms < 500 { Ok(()) } else { Err(Refused::Flood) }, "message {ms}");
        robot.ticks(1);
    }
    assert_eq!(robot.refused("policy", &Refused::Flood), 100);
}

/// Each name that was sent was remembered for ever.
#[test]
fn many_names_take_no_memory_and_none_of_their_refusals_is_forgotten() {
    let mut robot = robot();
    robot.send("policy", &[(0, 0.3)]).unwrap();
    for number in 0..10_000 {
        let sent = robot.send(&format!("program {number}"), &[(10, 0.5)]);
        assert_eq!(sent, Err(Refused::Held("policy".into())));
    }
    let standing = robot.inbox.standing();
    assert!(standing.accounts.len() <= 64 && standing.accounts.iter().any(|account| account.holds));
    assert_eq!((standing.fared.refused, standing.fared.refused_by["held"]), (10_000, 10_000));
    robot.ticks(5);
    assert_eq!(robot.send("policy", &[(0, 0.3)]), Ok(()), "it still has the robot");
}

#[test]
fn the_latest_target_is_followed_at_once_within_the_limits() {
    let mut robot = Robot::new(&TargetsConfig { latest: true, ..TargetsConfig::default() }, 4000.0);
    let (mut last, mut before, mut most) = (0.0, 0.0, 0.0_f64);
    for ms in 0..1500 {
        if ms % 33 == 0 {
            robot.send("stick", &[(0, if ms < 900 { 0.5 } else { -0.5 })]).unwrap();
        }
        robot.tick_after(0);
        let velocity = (robot.position(0) - last) * 1e3;
        most = most.max(((velocity - before) * 1e3).abs());
        (last, before) = (robot.position(0), velocity);
        if ms == 890 {
            assert!((robot.position(0) - 0.5).abs() < 1e-6, "{}", robot.position(0));
        }
    }
    assert!((30.0..=40.0 + 1e-6).contains(&most), "{most}");
    assert!((robot.position(0) + 0.5).abs() < 1e-3, "{}", robot.position(0));
}

#[test]
fn a_torque_that_carries_nothing_ends_with_the_motion() {
    for (fade_torque, last) in [(false, 5.0), (true, 0.0)] {
        let mut robot = Robot::new(&TargetsConfig { fade_torque, ..TargetsConfig::default() }, 4000.0);
        let mut points = robot.points(&[(0, 0.0), (300, 0.0)]);
        points.torque = vec![vec![5.0; 3]; 2];
        robot.send_as(&Sender::new("policy"), &points).unwrap();
        robot.ticks(250);
        assert!((robot.command(0).torque - 5.0).abs() < 1e-9);
        robot.ticks(250);
        assert!((robot.command(0).torque - last).abs() < 1e-9, "{fade_torque}: {:?}", robot.command(0));
    }
}

#[test]
fn who_stands_elsewhere_is_refused_if_that_is_wanted() {
    let mut robot = Robot::new(&TargetsConfig { align_rad: Some(0.1), ..TargetsConfig::default() }, 4000.0);
    assert_eq!(robot.send("leader", &[(0, 0.2)]), Err(Refused::Apart));
    assert_eq!(robot.send("leader", &[(0, 0.05)]), Ok(()));
    robot.ticks(30);
    // The program in control goes where it likes.
    assert_eq!(robot.send("leader", &[(0, 0.3)]), Ok(()));
    assert_eq!(robot.refused("leader", &Refused::Apart), 1);
}

/// What one took from the other added up to an offset of 150 rad, which would have gone back for minutes.
#[test]
fn programs_that_take_the_robot_from_each_other_leave_no_offset_behind() {
    let mut robot = robot();
    for ms in 0..3000_i64 {
        let sender = Sender { takes: true, ..Sender::new(if ms % 2 == 0 { "one" } else { "two" }) };
        let mut points = robot.points(&[((ms * 7919) % 600 - 300, ((ms * 104_729) % 60) as f64 * 0.1 - 3.0)]);
        points.velocity = vec![vec![if ms % 3 == 0 { -99.0 } else { 99.0 }; 3]];
        let _ = robot.send_as(&sender, &points);
        robot.tick_after(0);
        assert!(robot.status().offset[0].abs() <= 6.1, "after {ms} ms: {:?}", robot.status());
    }
    robot.ticks(1500);
    robot.send("one", &[(0, 0.5)]).unwrap();
    robot.ticks(6000);
    assert!((robot.position(0) - 0.5).abs() < 1e-6, "{}", robot.position(0));
}

/// Times of the far past and future, and numbers at the ends of their range, are answered and move nothing far.
#[test]
fn times_and_numbers_at_their_ends_neither_panic_nor_break_a_limit() {
    let mut robot = robot();
    let ends = [i64::MIN, -1 << 61, -1, 0, robot.state.now_ns, 1 << 61, i64::MAX];
    for (number, &first) in ends.iter().enumerate() {
        for &last in &ends[number..] {
            for position in [0.0, f64::MAX, -f64::MAX, f64::MIN_POSITIVE] {
                let at_ns = if first == last { vec![first] } else { vec![first, last] };
                let rows = vec![vec![position; 3]; at_ns.len()];
                let mut points = Points::new(at_ns, rows);
                points.velocity = vec![vec![f64::MAX; 3]; points.at_ns.len()];
                let sender = Sender { takes: true, ..Sender::new(&format!("program {number}")) };
                let _ = robot.send_as(&sender, &points);
                let before = robot.command_or_rest(0);
                robot.ticks(3);
                let command = robot.command(0);
                assert!(
                    command.position.abs() <= 3.0 && (command.position - before).abs() < 0.02,
                    "{command:?}"
                );
            }
        }
    }
}

#[test]
fn who_takes_over_has_the_gains_back_that_another_took_away() {
    let mut robot = Robot::new(&TargetsConfig::default(), 4000.0);
    let mut limp = robot.points(&[(0, 0.1)]);
    (limp.kp_scale, limp.kd_scale) = (vec![vec![0.0; 3]], vec![vec![0.0; 3]]);
    robot.send_as(&Sender::new("leader"), &limp).unwrap();
    robot.ticks(95);
    assert_eq!(robot.command(1).kp_scale, 0.0);
    robot.send("leader", &[(0, 0.1)]).unwrap();
    robot.inbox.hold("leader", 1000 * MS, robot.state.now_ns);
    robot.ticks(200);
    assert_eq!(robot.command(1).kp_scale, 0.0, "its own stay");
    robot.inbox.gone("leader");
    robot.send("policy", &[(0, 0.1)]).unwrap();
    robot.ticks(200);
    assert_eq!((robot.command(1).kp_scale, robot.command(1).kd_scale), (1.0, 1.0));
}

#[test]
fn gains_and_torques_fade() {
    let mut robot = robot();
    let mut points = robot.points(&[(0, 0.0), (1000, 0.0)]);
    points.kp_scale = vec![vec![0.2; 3]; 2];
    points.torque = vec![vec![5.0; 3]; 2];
    robot.send_as(&Sender::new("policy"), &points).unwrap();
    let mut last = (1.0_f64, 0.0_f64);
    for _ in 0..100 {
        robot.tick_after(0);
        let command = robot.command(0);
        assert!((command.kp_scale - last.0).abs() <= 0.0201 && (command.torque - last.1).abs() <= 0.2001);
        last = (command.kp_scale, command.torque);
    }
    assert!((last.0 - 0.2).abs() < 1e-9 && (last.1 - 5.0).abs() < 1e-9);
}

/// Loop, messages and sentence have one account of a program that came late, held, released, and of one that came too late for good.
#[test]
fn what_was_owed_is_late_and_nothing_else() {
    let mut robot = robot();
    let late = |robot: &Robot| {
        let standing = robot.inbox.standing();
        let [.., most_ns] = standing.accounts[0].lateness_ns;
        assert_eq!(most_ns, standing.fared.lateness_ns.max, "status and summary");
        (most_ns / MS, standing.fared.held_over, standing.fared.waits, standing.fared.sentence().is_some())
    };
    robot.send("policy", &[(0, 0.0), (100, 0.1)]).unwrap();
    robot.ticks(165);
    assert_eq!(late(&robot), (0, 0, 0, false), "nothing came, and what is to come is unknown");
    robot.send("policy", &[(0, 0.1), (100, 0.2)]).unwrap();
    robot.ticks(1);
    // Commands of a tick arrive in the next one.
    assert_eq!(late(&robot), (65, 66, 0, true));
    robot.inbox.hold("policy", 5000 * MS, robot.state.now_ns);
    robot.ticks(4000);
    robot.send("policy", &[(0, 0.2), (100, 0.3)]).unwrap();
    robot.ticks(300);
    robot.inbox.release("policy");
    robot.ticks(500);
    robot.send("policy", &[(0, 0.2), (100, 0.3)]).unwrap();
    robot.ticks(500);
    robot.inbox.gone("policy");
    robot.send("other", &[(0, 0.2), (100, 0.3)]).unwrap();
    robot.ticks(1);
    // It had stood for the first program; the second one is not late.
    assert_eq!(late(&robot), (65, 146, 1, true));
}

#[test]
fn what_is_followed_at_once_is_no_later_than_what_is_not() {
    let mut robot = Robot::new(&TargetsConfig { latest: true, ..TargetsConfig::default() }, 4000.0);
    for _ in 0..60 {
        robot.send("stick", &[(0, 0.2)]).unwrap();
        robot.ticks(33);
    }
    assert_eq!(robot.inbox.standing().fared.sentence(), None);
}

#[test]
fn who_takes_the_robot_takes_the_time_that_is_set_and_its_next_chunk_does_not() {
    let mut robot = Robot::new(&TargetsConfig { align_s: Some(3.0), ..TargetsConfig::default() }, 4000.0);
    robot.send("leader", &[(0, 0.4), (9000, 0.4)]).unwrap();
    robot.ticks(1500);
    assert!((robot.status().offset[0] + 0.2).abs() < 0.01, "half of it: {:?}", robot.status().offset);
    robot.ticks(1600);
    assert_eq!(robot.status().offset[0], 0.0);
    robot.send("leader", &[(0, 0.0), (9000, 0.0)]).unwrap();
    robot.ticks(900);
    assert_eq!(robot.status().offset[0], 0.0, "a chunk of its own is joined as quickly as ever");
}
