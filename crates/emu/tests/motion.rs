//! How a commanded joint moves.

use crate::common::Bench;
use khz_emu::{BusConfig, JointConfig, ServoConfig};

/// A stiff, well damped servo on a free joint.
fn stiff(settings: &[(&str, &str)]) -> Bench {
    let servo = ServoConfig::new(0, 1).with("servo.pid_position.kp", 200).with("servo.pid_position.kd", 6);
    let servo = settings.iter().fold(servo, |servo, (name, value)| servo.with(name, value));
    Bench::of(BusConfig::INSTANT, vec![servo])
}

fn float(value: f32) -> String {
    crate::common::hex(&value.to_le_bytes())
}

/// Position, velocity, and watchdog off.
fn go(position: f32, velocity: f32) -> String {
    format!("01000a 0e20{}{} 0d270000c07f", float(position), float(velocity))
}

/// Runs for `ms` and gives the highest speed seen.
fn fastest(bench: &mut Bench, ms: i64) -> f32 {
    (0..ms)
        .map(|_| {
            bench.wait_ms(1);
            bench.float(0x002).abs()
        })
        .fold(0.0, f32::max)
}

#[test]
fn reaches_a_position_along_a_limited_trajectory() {
    let mut bench = stiff(&[]);
    // 0.5 rev at 1 rev/s and 4 rev/s²: 0.25 s up, 0.25 s down, 0.25 s between.
    let limits = format!("0e28{}{}", float(1.0), float(4.0));
    bench.command(&format!("{} {limits}", go(0.5, 0.0)));
    let speed = fastest(&mut bench, 700);
    assert!((0.95..1.05).contains(&speed), "{speed}");
    assert_eq!(bench.float(0x00b), 0.0);
    bench.wait_ms(100);
    assert_eq!(bench.float(0x00b), 1.0);
    bench.wait_ms(200);
    assert!((bench.float(0x001) - 0.5).abs() < 0.005);
    assert!((bench.float(0x038) - 0.5).abs() < 1e-6);
    assert_eq!(bench.float(0x039), 0.0);
}

#[test]
fn a_nan_position_holds_where_the_servo_is_and_does_not_capture_again() {
    let mut bench = stiff(&[]);
    bench.command("0db1029a99993e");
    bench.command(&go(f32::NAN, 0.0));
    bench.wait_ms(50);
    assert!((bench.float(0x038) - 0.3).abs() < 1e-6);
    // Pushed by a feed-forward torque, the joint gives way but the control position stays.
    bench.command(&format!("{} 0d22{}", go(f32::NAN, 0.0), float(2.0)));
    bench.wait_ms(300);
    assert!((bench.float(0x001) - 0.31).abs() < 0.002, "2 N·m against 200 N·m per turn");
    bench.command(&go(f32::NAN, 0.0));
    assert!((bench.float(0x038) - 0.3).abs() < 1e-6);
    // Recapture takes the measured position.
    bench.command(&format!("{} 0d22{}", go(f32::NAN, 0.0), float(2.0)));
    bench.wait_ms(300);
    bench.command("01b30201");
    bench.wait_ms(1);
    assert!((bench.float(0x038) - 0.31).abs() < 0.002);
}

#[test]
fn a_velocity_moves_the_control_position_and_nan_is_zero() {
    let mut bench = stiff(&[]);
    bench.command(&go(f32::NAN, 0.5));
    bench.wait_ms(1000);
    assert!((bench.float(0x002) - 0.5).abs() < 0.02);
    bench.command(&go(f32::NAN, f32::NAN));
    bench.wait_ms(300);
    assert!(bench.float(0x002).abs() < 0.01);
}

#[test]
fn the_velocity_limit_caps_the_velocity() {
    let mut bench = stiff(&[]);
    bench.command(&format!("{} 0d28{}", go(f32::NAN, 3.0), float(0.5)));
    bench.wait_ms(20);
    assert_eq!(bench.float(0x039), 0.5);
    bench.wait_ms(500);
    assert!((bench.float(0x002) - 0.5).abs() < 0.02);
}

#[test]
fn torque_limits_report_themselves() {
    let mut bench = stiff(&[("servo.default_accel_limit", "nan")]);
    bench.command(&format!("{} 0d25{}", go(5.0, 0.0), float(0.5)));
    bench.wait_ms(12);
    assert_eq!(bench.state(), (10, 102));
    assert!((bench.float(0x03a) - 0.5).abs() < 1e-4);
    // 10 A of 0.504 N·m each.
    let mut bench = stiff(&[("servo.default_accel_limit", "nan"), ("servo.max_current_A", "10")]);
    bench.command(&go(5.0, 0.0));
    bench.wait_ms(12);
    assert_eq!(bench.state(), (10, 99));
    assert!((bench.float(0x003) - 5.04).abs() < 0.01);
    // A NaN limit is none.
    let mut bench = stiff(&[("servo.default_accel_limit", "nan"), ("servo.max_current_A", "1000")]);
    bench.command(&format!("{} 0d25{}", go(3.0, 0.0), float(f32::NAN)));
    bench.wait_ms(11);
    assert_ne!(bench.state().1, 102);
}

#[test]
fn beyond_a_bound_only_the_way_back_has_torque() {
    let mut bench = stiff(&[("servopos.position_max", "0.1")]);
    bench.command(&format!("01000a 0d200000c07f 0d270000c07f 0d23{} 0d22{}", float(0.0), float(2.0)));
    bench.wait_ms(2000);
    assert_eq!(bench.state(), (10, 103));
    let position = bench.float(0x001);
    assert!((0.12..0.3).contains(&position), "coasted to {position} against friction alone");
    assert_eq!((bench.float(0x003), bench.float(0x03a)), (0.0, 2.0), "given, and asked for");
    bench.command(&format!("01000a 0d200000c07f 0d270000c07f 0d23{} 0d22{}", float(0.0), float(-2.0)));
    bench.wait_ms(500);
    assert!(bench.float(0x001) < 0.1);
}

#[test]
fn stays_within_its_bounds() {
    let mut bench = stiff(&[]);
    let within =
        |torque: f32| format!("01000d 0f40{}{}{} 0d460000c07f", float(-0.1), float(0.1), float(torque));
    bench.command(&within(1.0));
    bench.wait_ms(2000);
    assert_eq!(bench.state(), (13, 0));
    let position = bench.float(0x001);
    assert!((0.1..0.11).contains(&position), "{position}");
    bench.command(&within(-1.0));
    bench.wait_ms(2000);
    let position = bench.float(0x001);
    assert!((-0.11..-0.1).contains(&position), "{position}");
    // Inside, nothing holds it: control position and velocity are not there.
    bench.command(&within(0.0));
    bench.wait_ms(100);
    let inside = format!("01000d 0e40{}{} 0d460000c07f", float(-0.5), float(0.5));
    bench.command(&inside);
    bench.wait_ms(10);
    assert_eq!(bench.float(0x030), 0.0);
}

#[test]
fn gravity_is_held_and_its_torque_measured() {
    let joint = JointConfig {
        gravity: 3.0,
        gravity_at: 0.0,
        start: std::f64::consts::FRAC_PI_2,
        ..JointConfig::default()
    };
    let servo = ServoConfig { joint, ..ServoConfig::new(0, 1) };
    let servo = servo.with("servo.pid_position.kp", 200).with("servo.pid_position.kd", 6);
    let mut bench = Bench::of(BusConfig::INSTANT, vec![servo]);
    bench.command(&go(0.25, 0.0));
    bench.wait_ms(1000);
    let torque = bench.float(0x003);
    assert!((torque - 3.0).abs() < 0.05, "{torque}");
    let current = bench.float(0x004);
    assert!((current - 3.0 / 0.504).abs() < 0.1, "{current}");
    let power = bench.float(0x007);
    assert!(
        (power - 1.5 * 0.047 * current * current).abs() < 0.1,
        "{power}: that of the motor, not of its board"
    );
}

#[test]
fn the_integral_removes_the_sag() {
    let joint = JointConfig { gravity: 3.0, start: std::f64::consts::FRAC_PI_2, ..JointConfig::default() };
    let servo = ServoConfig { joint, ..ServoConfig::new(0, 1) };
    let gains = [("kp", 200), ("kd", 6), ("ki", 400), ("ilimit", 5)];
    let servo = gains.iter().fold(servo, |s, (name, v)| s.with(&format!("servo.pid_position.{name}"), v));
    let mut bench = Bench::of(BusConfig::INSTANT, vec![servo]);
    bench.command(&go(0.25, 0.0));
    bench.wait_ms(5000);
    assert!((bench.float(0x001) - 0.25).abs() < 0.0005);
    assert!((bench.float(0x031) + 3.0).abs() < 0.1, "the I register carries the sign of the error");
}

#[test]
fn modes_that_brake() {
    for stop in ["01000c", "01000f"] {
        let mut bench = stiff(&[]);
        bench.command(&go(f32::NAN, 2.0));
        bench.wait_ms(1000);
        bench.command(stop);
        bench.wait_ms(300);
        assert!(bench.float(0x002).abs() < 0.1, "{stop}");
    }
}

#[test]
fn current_mode_gives_torque_and_voltage_mode_speed() {
    let mut bench = stiff(&[]);
    bench.command("010009 0e1c0000004000000000");
    bench.wait_ms(15);
    assert!((bench.float(0x003) - 1.009).abs() < 0.01);
    assert!((bench.float(0x004) - 2.0).abs() < 0.01);
    let mut bench = stiff(&[]);
    // 2.11 V per turn per second.
    bench.command(&format!("010008 0d1b{}", float(2.112)));
    bench.wait_ms(3000);
    assert!((bench.float(0x002) - 1.0).abs() < 0.05, "{}", bench.float(0x002));
}

#[test]
fn open_loop_voltage_turns_the_rotor_along() {
    let mut bench = stiff(&[]);
    // Half turns of the electrical angle: 7 pole pairs make 14 of them one turn.
    bench.command(&format!("010007 0e18{}{} 0d1e{}", float(0.0), float(1.0), float(1.4)));
    bench.wait_ms(2015);
    assert!((bench.float(0x001) - 0.2).abs() < 0.02, "{}", bench.float(0x001));
}

#[test]
fn end_stops_stop() {
    let joint = JointConfig { stops: Some([-0.5, 0.5]), ..JointConfig::default() };
    let servo = ServoConfig { joint, ..ServoConfig::new(0, 1) }.with("servo.pid_position.kp", 20);
    let mut bench = Bench::of(BusConfig::INSTANT, vec![servo]);
    bench.command(&go(1.0, 0.0));
    bench.wait_ms(2000);
    assert!((bench.float(0x001) - 0.5 / std::f32::consts::TAU).abs() < 1e-6);
}

#[test]
fn the_stop_position_ends_an_unlimited_motion() {
    let mut bench = stiff(&[("servo.default_accel_limit", "nan")]);
    bench.command(&format!("01000a 0e20{}{} 0d26{} 0d270000c07f", float(f32::NAN), float(0.5), float(-0.2)));
    bench.wait_ms(2000);
    assert!((bench.float(0x001) + 0.2).abs() < 0.005, "towards the stop, whatever the sign of the velocity");
}
