//! No command and no setting makes a servo's position, velocity or temperature anything but a number.

use crate::common::{Bench, hex, varuint};
use khz_emu::{BusConfig, Injection, ServoConfig};
use proptest::prelude::*;
use proptest::sample::select;

/// Values that break arithmetic, and some that do not.
const VALUES: &[f32] = &[
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::MAX,
    f32::MIN,
    f32::MIN_POSITIVE,
    1e-45,
    -1e20,
    -0.1,
    0.0,
    0.25,
    1.0,
    3.0,
    100.0,
];

/// The command registers, those that move the coordinate, and a duty cycle.
const REGISTERS: &[u16] = &[
    0x010, 0x011, 0x012, 0x014, 0x015, 0x016, 0x018, 0x019, 0x01a, 0x01b, 0x01c, 0x01d, 0x01e, 0x020, 0x021,
    0x022, 0x023, 0x024, 0x025, 0x026, 0x027, 0x028, 0x029, 0x02a, 0x02b, 0x02c, 0x02d, 0x040, 0x041, 0x076,
    0x130, 0x131,
];

/// Settings that go into the control loop.
const SETTINGS: &[&str] = &[
    "motor.Kv",
    "motor.poles",
    "motor.resistance_ohm",
    "motor.inductance_d_H",
    "motor.inductance_q_H",
    "motor_position.rotor_to_output_ratio",
    "servo.pwm_rate_hz",
    "servo.max_power_W",
    "servo.override_board_max_power",
    "servo.temperature_margin",
    "servo.fault_temperature",
    "servo.motor_fault_temperature",
    "servo.velocity_threshold",
    "servo.position_derate",
    "servo.pid_position.kp",
    "servo.pid_position.ki",
    "servo.pid_position.kd",
    "servo.pid_position.ilimit",
    "servo.pid_position.iratelimit",
    "servo.inertia_feedforward",
    "servo.default_velocity_limit",
    "servo.default_accel_limit",
    "servo.max_position_slip",
    "servo.max_velocity_slip",
    "servo.timeout_max_torque_Nm",
    "servo.timeout_mode",
    "servo.max_current_A",
    "servo.derate_current_A",
    "servo.max_velocity",
    "servo.max_velocity_derate",
    "servopos.position_min",
    "servopos.position_max",
];

/// Something done to a servo.
#[derive(Clone, Debug)]
enum Act {
    Command(u8, Vec<(u16, f32)>),
    Configure(&'static str, f32),
    Inject(Injection),
    Wait,
}

fn act() -> impl Strategy<Value = Act> {
    let value = || prop_oneof![2 => select(VALUES), 1 => any::<f32>()];
    let writes = prop::collection::vec((select(REGISTERS), value()), 0..8);
    let injections = [Injection::Stuck(true), Injection::Stuck(false), Injection::Reboot];
    prop_oneof![
        6 => (0_u8..16, writes).prop_map(|(mode, writes)| Act::Command(mode, writes)),
        2 => (select(SETTINGS), value()).prop_map(|(name, value)| Act::Configure(name, value)),
        1 => select(injections.to_vec()).prop_map(Act::Inject),
        3 => Just(Act::Wait),
    ]
}

fn written(register: u16, value: f32) -> String {
    format!("0d{}{}", hex(&varuint(register)), hex(&value.to_le_bytes()))
}

/// Types a line into the servo's console.
fn type_in(bench: &mut Bench, line: &str) {
    for part in line.as_bytes().chunks(48) {
        bench.command(&format!("4001{:02x}{}", part.len(), hex(part)));
    }
}

fn carry_out(bench: &mut Bench, act: &Act) {
    match act {
        Act::Command(mode, writes) => {
            let writes: String = writes.iter().map(|&(register, value)| written(register, value)).collect();
            bench.command(&format!("0100{mode:02x}{writes}"));
        }
        Act::Configure(name, value) => {
            type_in(bench, &format!("conf set {name} {value}\n"));
            type_in(bench, "conf write\n");
        }
        Act::Inject(injection) => bench.world.inject(0, *injection, bench.now_ns),
        Act::Wait => bench.wait_ms(30),
    }
}

/// What a servo and its joint must always have a number for.
fn states(bench: &Bench) -> [(&'static str, f64); 8] {
    let (servo, joint) = (bench.world.moteus(0).unwrap(), bench.world.body().joints()[0]);
    [
        ("position", servo.status().position),
        ("velocity", servo.status().velocity),
        ("filtered velocity", servo.status().velocity_filtered),
        ("joint's position", joint.position),
        ("joint's velocity", joint.velocity),
        ("board", servo.thermal().board_c),
        ("motor", servo.thermal().motor_c),
        ("housing", servo.thermal().housing_c),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_command_and_no_setting_makes_position_velocity_or_temperature_not_a_number(
        acts in prop::collection::vec(act(), 1..60),
    ) {
        let mut bench = Bench::servo(&[]);
        bench.command("01000f");
        bench.wait_ms(20);
        for act in &acts {
            carry_out(&mut bench, act);
            for _ in 0..6 {
                bench.wait_ms(1);
                for (what, value) in states(&bench) {
                    prop_assert!(value.is_finite(), "{what} is {value} after {act:?}");
                }
            }
        }
    }
}

/// Runs a command for a tenth of a second and stops; the board's temperature then, and the torque meanwhile.
fn temperature_after(command: &str) -> (f32, f32) {
    let mut bench = Bench::servo(&[]);
    bench.command(command);
    bench.wait_ms(100);
    let torque = bench.float(0x003);
    bench.command("010000");
    bench.wait_ms(1);
    (bench.float(0x00e), torque)
}

#[test]
fn a_command_of_nan_or_infinity_left_the_temperature_nan_for_ever() {
    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;
    for (what, mode, writes) in [
        ("current D NaN", 9, vec![(0x01d, NAN)]),
        ("current Q NaN", 9, vec![(0x01c, NAN)]),
        ("voltage D NaN", 8, vec![(0x01a, NAN), (0x01b, 0.0)]),
        ("theta NaN", 7, vec![(0x018, NAN), (0x019, 1.0)]),
        ("theta infinite", 7, vec![(0x018, INF), (0x019, 1.0)]),
        ("theta rate infinite", 7, vec![(0x019, 1.0), (0x01e, INF)]),
        ("position infinite, fixed voltage", 10, vec![(0x020, INF), (0x02a, 1.0)]),
        ("position infinite, fixed current", 10, vec![(0x020, INF), (0x02c, 1.0)]),
    ] {
        let writes: String = writes.into_iter().map(|(register, value)| written(register, value)).collect();
        let (temperature, torque) = temperature_after(&format!("0100{mode:02x}{writes}"));
        assert!((25.0..30.0).contains(&temperature), "{what}: {temperature} °C");
        assert!(torque.is_finite(), "{what}: {torque} N·m");
    }
}

#[test]
fn a_servo_that_once_received_nan_ran_on_above_its_greatest_temperature() {
    let mut bench = Bench::servo(&[]);
    bench.command("010009 0d1d0000c07f");
    bench.wait_ms(100);
    bench.command("010000");
    type_in(&mut bench, "conf set servo.fault_temperature 20\n");
    bench.command("01000a 0d200000c07f");
    bench.wait_ms(20);
    assert_eq!(bench.state(), (1, 38));
}

#[test]
fn a_motor_constant_of_infinity_left_the_temperature_nan_for_ever() {
    let mut bench = Bench::servo(&[("motor.Kv", "inf")]);
    bench.command("01000a 0d200000803e");
    bench.wait_ms(100);
    assert!((25.0..30.0).contains(&bench.float(0x00e)));
}

#[test]
fn a_gear_ratio_of_nothing_lost_the_position_for_ever() {
    let servo = ServoConfig::new(0, 1).with("motor_position.rotor_to_output_ratio", 0);
    let mut bench = Bench::of(BusConfig::INSTANT, vec![servo]);
    bench.wait_ms(1);
    bench.world.inject(0, Injection::Reboot, bench.now_ns);
    bench.wait_ms(1);
    assert!(bench.float(0x001).is_finite(), "with the wrong ratio");
    assert!(bench.float(0x050).is_finite(), "the encoder, with the wrong ratio");
    type_in(&mut bench, "conf set motor_position.rotor_to_output_ratio 1\n");
    type_in(&mut bench, "conf write\n");
    bench.world.inject(0, Injection::Reboot, bench.now_ns);
    bench.wait_ms(1);
    assert_eq!(bench.float(0x001), 0.0, "with the right ratio");
}
