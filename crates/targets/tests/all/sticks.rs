//! An operator's sticks, before all programs.

use crate::robot::{MS, Robot, info};
use khz_loop::controller::Controller;
use khz_loop::state::Teleop;
use khz_loop::steer::TeleopConfig;
use khz_servo::PositionCommand;
use khz_targets::{Refused, SticksConfig, Targets, TargetsConfig};

fn config() -> TargetsConfig {
    let sticks =
        SticksConfig { forward: Some("elbow".into()), turn: Some("wrist".into()), ..SticksConfig::default() };
    TargetsConfig { sticks, ..TargetsConfig::default() }
}

/// So many ticks with an input that is fresh in each; the greatest acceleration of any command, rad/s².
fn steer(robot: &mut Robot, forward: f64, turn: f64, ticks: i64) -> f64 {
    let mut most = 0.0_f64;
    for _ in 0..ticks {
        robot.state.teleop = Teleop { forward, turn, age_ns: 50 * MS, ..Teleop::NONE };
        let before = [0, 1, 2].map(|joint| robot.command_or_rest(joint));
        let speeds = [0, 1, 2].map(|joint| robot.velocity_or_rest(joint));
        robot.ticks(1);
        for joint in 0..3 {
            let speed = (robot.position(joint) - before[joint]) * 1e3;
            assert!(speed.abs() <= 6.0, "rad/s: {speed}");
            most = most.max((robot.command(joint).velocity - speeds[joint]).abs() * 1e3);
        }
    }
    most
}

#[test]
fn a_full_stick_moves_its_joint_with_a_quarter_of_its_velocity_and_within_its_limits() {
    let mut robot = Robot::new(&config(), 4000.0);
    // The default of `max_forward`, and half of `max_turn` the other way.
    let hardest = steer(&mut robot, 0.5, -0.5, 500);
    assert!(hardest <= 40.0 + 1e-6, "{hardest}");
    let [shoulder, elbow, wrist] = [0, 1, 2].map(|joint| robot.command(joint));
    assert_eq!((shoulder.position, shoulder.velocity), (0.0, 0.0));
    assert!(
        (elbow.velocity - 1.5).abs() < 1e-6 && (wrist.velocity + 0.75).abs() < 1e-6,
        "{elbow:?} {wrist:?}"
    );
    steer(&mut robot, 0.5, 0.0, 3000);
    assert!((2.98..3.0).contains(&robot.position(1)), "it stops at its limit: {}", robot.position(1));
}

/// It caught up with the stick at more than twice the speed that a stick can ask for.
#[test]
fn a_stick_that_is_thrown_round_moves_its_joint_no_faster_than_a_full_one() {
    let mut robot = Robot::new(&config(), 4000.0);
    let mut fastest = 0.0_f64;
    for turn in 0..6 {
        for _ in 0..400 {
            let hardest = steer(&mut robot, if turn % 2 == 0 { 0.5 } else { -0.5 }, 0.0, 1);
            assert!(hardest <= 40.0 + 1e-6, "{hardest}");
            fastest = fastest.max(robot.command(1).velocity.abs());
        }
    }
    assert!((1.499..1.501).contains(&fastest), "{fastest}");
    // And it stands soon when it is let go.
    robot.state.teleop.age_ns = Teleop::STALE_NS + 1;
    robot.ticks(400);
    assert!(robot.command(1).velocity.abs() < 1e-9);
}

/// The sticks had the gains and the torque that a program had sent: a wrist ran on against them to its limit.
#[test]
fn an_operator_has_all_gain_and_no_torque_of_a_program() {
    let mut robot = Robot::new(&config(), 4000.0);
    let sender = khz_targets::Sender::new("policy");
    let limp = khz_targets::Points {
        torque: vec![vec![1.0; 3]],
        kp_scale: vec![vec![0.0; 3]],
        kd_scale: vec![vec![0.5; 3]],
        ..robot.points(&[(50, 0.4)])
    };
    robot.send_as(&sender, &limp).unwrap();
    robot.ticks(160);
    assert_eq!(robot.command(2).kp_scale, 0.0);
    // It swung out of where it was led.
    robot.state.servos[2].position = 1.0;
    robot.state.teleop = Teleop { turn: 0.25, age_ns: 0, ..Teleop::NONE };
    robot.ticks(1);
    assert!((robot.position(2) - 1.0).abs() < 0.01, "{:?}", robot.command(2));
    steer(&mut robot, 0.0, 0.25, 60);
    let PositionCommand { kp_scale, kd_scale, torque, .. } = robot.command(2);
    assert_eq!((kp_scale, kd_scale, torque), (1.0, 1.0, 0.0));
    // Nor does it get them back when the sticks are let go.
    robot.state.teleop.age_ns = Teleop::STALE_NS + 1;
    robot.ticks(200);
    assert_eq!((robot.command(2).kp_scale, robot.command(2).torque), (1.0, 0.0));
}

/// A hand moved a wrist 2.2 rad from where a stick led it.
#[test]
fn a_joint_that_is_pushed_back_is_led_no_further_than_the_lead() {
    let mut robot = Robot::new(&config(), 4000.0);
    steer(&mut robot, 0.5, 0.0, 400);
    for _ in 0..1200 {
        robot.state.servos[1].position = -1.0;
        steer(&mut robot, 0.5, 0.0, 1);
    }
    let beyond = robot.position(1) + 1.0;
    assert!((0.15..0.21).contains(&beyond), "{beyond}");
}

#[test]
fn who_steers_has_the_robot_until_no_input_is_fresh() {
    let mut robot = Robot::new(&config(), 4000.0);
    robot.send("policy", &[(0, 0.0), (2000, 1.0)]).unwrap();
    robot.ticks(500);
    // A stick that moves no joint takes nothing.
    robot.state.teleop = Teleop { left: 0.3, age_ns: 0, ..Teleop::NONE };
    robot.ticks(10);
    assert!(!robot.status().is_steered);
    let hardest = steer(&mut robot, 0.25, 0.0, 300);
    assert!(hardest <= 40.0 + 1e-6 && robot.status().is_steered, "{hardest}");
    let held = |outcome| matches!(outcome, Err(Refused::Held(by)) if by == "the operator");
    assert!(held(robot.send("policy", &[(50, 0.0)])));
    // At rest he has it still.
    steer(&mut robot, 0.0, 0.0, 1000);
    let stands = robot.position(0);
    assert!(held(robot.send("policy", &[(50, 0.0)])) && robot.command(0).velocity.abs() < 1e-9);
    // He has let go: earlier targets are no longer followed, and new senders are accepted.
    robot.state.teleop.age_ns = Teleop::STALE_NS + 1;
    robot.ticks(1000);
    assert_eq!(robot.position(0), stands);
    robot.send("policy", &[(50, stands)]).unwrap();
}

#[test]
fn a_joint_that_is_held_is_not_led_away_from_where_it_is() {
    let mut robot = Robot::new(&config(), 4000.0);
    for _ in 0..2000 {
        steer(&mut robot, 0.5, 0.0, 1);
        robot.state.servos[1].position = 0.1;
    }
    assert!((0.29..0.31).contains(&robot.position(1)), "{}", robot.position(1));
}

#[test]
fn a_stick_of_no_joint_is_reported() {
    let sticks = SticksConfig { roll: Some("elbwo".into()), ..SticksConfig::default() };
    let settings = TargetsConfig { sticks, ..TargetsConfig::default() };
    let (mut controller, _) = Targets::new(&settings, &TeleopConfig::default());
    let message = controller.prepare(&info(4000.0, None)).unwrap_err().to_string();
    assert_eq!(
        message,
        "`targets.sticks.roll`: no joint is called `elbwo`; the joints are `shoulder`, `elbow`, `wrist`"
    );
}
