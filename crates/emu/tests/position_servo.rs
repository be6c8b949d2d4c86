//! Hobby servos: the law of motor and joint beside bam's simulator, the delay and the limit of the goal's speed.

use khz_emu::{Body, Drive, JointConfig, JointState, Joints, PositionServo, VoltageLaw};
use serde_json::Value;

const STEP_S: f64 = 250e-6;

fn goal(time_s: f64) -> f64 {
    0.9 * (2.0 * time_s).sin() + 0.5 * (9.0 * time_s).sin()
}

/// Positions every 0.1 s.
fn moved(case: &Value) -> Vec<f64> {
    let number = |key: &str| case[key].as_f64().unwrap();
    let joint = JointConfig {
        inertia: number("inertia"),
        armature: number("armature"),
        viscous: number("viscous"),
        coulomb: number("coulomb"),
        load_friction: number("load_friction"),
        stribeck: number("stribeck"),
        stribeck_load: number("stribeck_load"),
        stribeck_speed: number("stribeck_speed"),
        stribeck_shape: number("stribeck_shape"),
        gravity: number("gravity"),
        gravity_at: number("gravity_at"),
        ..JointConfig::default()
    };
    let law = VoltageLaw {
        kt: number("kt"),
        resistance: number("resistance"),
        gain: number("gain"),
        duty_limit: number("duty_limit"),
        goal_speed: Some(number("goal_speed")).filter(|limit| *limit > 0.0),
        ..VoltageLaw::default()
    };
    let (mut body, mut servo) = (Joints::new(vec![joint]), PositionServo::new(law, 0.0));
    let mut positions = Vec::new();
    for step in 0..16_000 {
        let joint = body.joints()[0];
        if step % 400 == 0 {
            positions.push(joint.position);
        }
        servo.aim(goal(f64::from(step) * STEP_S));
        let drive = servo.step(joint, number("supply_v"), STEP_S);
        body.step(STEP_S, &[drive]);
    }
    positions
}

#[test]
fn servos_move_as_in_bams_simulator() {
    let json: Value = serde_json::from_str(include_str!("../../../vectors/position_servo.json")).unwrap();
    for case in json["cases"].as_array().unwrap() {
        let theirs: Vec<f64> =
            case["position"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        let ours = moved(case);
        assert_eq!(ours.len(), theirs.len());
        let apart: f64 = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).sum();
        let way: f64 = theirs.iter().map(|position| position.abs()).sum();
        assert!(apart < 0.01 * way, "{}: {:.4} of the way", case["name"], apart / way);
    }
}

fn servo(law: VoltageLaw) -> PositionServo {
    PositionServo::new(law, 0.0)
}

#[test]
fn a_goal_takes_effect_after_the_delay_and_within_a_step_in_part() {
    let mut servo = servo(VoltageLaw { delay_ms: 1.1, ..VoltageLaw::default() });
    servo.aim(1.0);
    let goals: Vec<f64> = (0..6)
        .map(|_| {
            servo.pass(STEP_S);
            servo.goal()
        })
        .collect();
    // 1.1 ms are 4.4 steps.
    assert_eq!(goals[..4], [0.0; 4]);
    assert!((goals[4] - 0.6).abs() < 1e-9, "{goals:?}");
    assert_eq!(goals[5], 1.0);
}

#[test]
fn goals_keep_their_distance_in_time() {
    let mut servo = servo(VoltageLaw { delay_ms: 10.0, ..VoltageLaw::default() });
    let mut seen = Vec::new();
    for step in 0..80 {
        servo.aim(f64::from(step));
        servo.pass(STEP_S);
        seen.push(servo.goal());
    }
    assert!((40..80).all(|step| (seen[step] - (step - 40) as f64).abs() < 1e-9), "{seen:?}");
}

#[test]
fn its_own_goal_moves_no_faster_than_the_limit() {
    let mut servo = servo(VoltageLaw { goal_speed: Some(2.0), ..VoltageLaw::default() });
    servo.aim(1.0);
    (0..400).for_each(|_| servo.pass(STEP_S));
    assert!((servo.goal() - 0.2).abs() < 1e-6, "{}", servo.goal());
    servo.forget(0.5);
    servo.pass(STEP_S);
    assert_eq!(servo.goal(), 0.5);
}

#[test]
fn torque_falls_with_speed_to_nothing_at_the_speed_of_the_supply() {
    let law = VoltageLaw { kt: 0.5, resistance: 2.0, gain: 100.0, ..VoltageLaw::default() };
    let mut servo = servo(law);
    servo.aim(10.0);
    let torque = |drive: Drive, speed: f64| drive.torque - drive.damping * speed;
    let full = servo.step(JointState::default(), 8.0, STEP_S);
    assert!((torque(full, 0.0) - 2.0).abs() < 1e-9);
    assert!(torque(full, 16.0).abs() < 1e-9);
    servo.set_law(VoltageLaw { duty_limit: 0.5, ..law });
    assert!((torque(servo.step(JointState::default(), 8.0, STEP_S), 0.0) - 1.0).abs() < 1e-9);
}

#[test]
fn more_goals_than_it_can_keep_lose_the_one_before_the_newest() {
    let mut servo = servo(VoltageLaw { delay_ms: 50.0, ..VoltageLaw::default() });
    (0..2000).for_each(|goal| servo.aim(f64::from(goal)));
    (0..400).for_each(|_| servo.pass(STEP_S));
    assert_eq!(servo.goal(), 1999.0);
}
