//! Modes, faults, watchdog: what leads where.

use crate::common::Bench;
use khz_emu::{BusConfig, Injection, JointConfig, ServoConfig};

const STOP: &str = "010000";
/// Position NaN, watchdog off.
const HOLD: &str = "01000a 0d200000c07f 0d270000c07f";
/// Position NaN, default watchdog.
const HOLD_FED: &str = "01000a 0d200000c07f";

/// Brings a servo into position mode.
fn holding(settings: &[(&str, &str)]) -> Bench {
    let mut bench = Bench::servo(settings);
    bench.command(HOLD);
    bench.wait_ms(20);
    bench
}

#[test]
fn from_stopped_through_the_transients() {
    let mut bench = Bench::servo(&[]);
    bench.command(HOLD);
    let mut seen = vec![];
    for _ in 0..20 {
        let mode = bench.state().0;
        if seen.last() != Some(&mode) {
            seen.push(mode);
        }
        bench.wait_ms(1);
    }
    assert_eq!(seen, [2, 3, 10]);
}

#[test]
fn a_table_of_transitions() {
    // From holding in mode 10: what is written, and the mode right after.
    for (written, mode) in [
        (STOP, 0),
        ("010001", 10),
        ("010002", 10),
        ("010003", 10),
        ("010004", 10),
        ("010005", 5),
        ("010006", 6),
        ("010007", 7),
        ("010008", 8),
        ("010009", 9),
        (HOLD, 10),
        ("01000b", 11),
        ("01000c", 12),
        ("01000d", 13),
        ("01000e", 14),
        ("01000f", 15),
        ("010010", 10),
    ] {
        let mut bench = holding(&[]);
        bench.command(written);
        assert_eq!(bench.state(), (mode, 0), "after {written}");
    }
}

#[test]
fn only_a_stop_leads_out_of_timeout_and_fault() {
    let mut bench = holding(&[]);
    bench.command("01000b");
    bench.command(HOLD);
    assert_eq!(bench.state().0, 11);
    bench.command(STOP);
    assert_eq!(bench.state().0, 0);

    let mut bench = holding(&[("servo.max_voltage", "30")]);
    bench.world.set_supply(0, 31.0, bench.now_ns);
    bench.wait_ms(1);
    assert_eq!(bench.state(), (1, 34));
    bench.world.set_supply(0, 24.0, bench.now_ns);
    bench.command(HOLD);
    bench.wait_ms(20);
    assert_eq!(bench.state(), (1, 34), "latched, although its cause is gone");
    bench.command(STOP);
    assert_eq!(bench.state(), (0, 0));
    bench.command(HOLD);
    bench.wait_ms(20);
    assert_eq!(bench.state(), (10, 0));
}

#[test]
fn a_cause_that_persists_faults_again() {
    let mut bench = holding(&[]);
    bench.world.set_supply(0, 3.0, bench.now_ns);
    bench.wait_ms(1);
    assert_eq!(bench.state(), (1, 40));
    bench.command(STOP);
    bench.command(HOLD);
    bench.wait_ms(20);
    assert_eq!(bench.state(), (1, 40));
}

#[test]
fn faults_on_starting() {
    for (settings, command, fault) in [
        (&[("servopos.position_min", "0.1")][..], HOLD, 39),
        (&[("servopos.position_max", "-0.1")], "01000d 0d270000c07f", 39),
        (&[("servopos.position_max", "40000")], HOLD, 48),
        (&[("servopos.position_min", "-inf")], HOLD, 48),
        (&[("motor.poles", "0")], HOLD, 36),
        // A stop position together with the default acceleration limit.
        (&[], "01000a 0d260000803f", 45),
        (&[("servo.bemf_feedforward", "1"), ("servo.default_accel_limit", "nan")], HOLD, 47),
    ] {
        let mut bench = Bench::servo(settings);
        bench.command(command);
        bench.wait_ms(20);
        assert_eq!(bench.state(), (1, fault), "{settings:?}");
    }
}

#[test]
fn bounds_can_be_ignored() {
    let mut bench = Bench::servo(&[("servopos.position_min", "0.1")]);
    bench.command(&format!("{HOLD} 012d01"));
    bench.wait_ms(20);
    assert_eq!(bench.state(), (10, 0));
}

#[test]
fn the_watchdog_runs_out_after_its_time() {
    for (settings, command, alive_ms, dead_ms) in [
        // Default 0.1 s; configured; in the command as float, int16, int8; at once.
        (&[][..], HOLD_FED, 98, 102),
        (&[("servo.default_timeout_s", "0.02")], HOLD_FED, 18, 22),
        (&[], "01000a 0d200000c07f 0d270ad7a33d", 78, 82),
        (&[], "01000a 0d200000c07f 05279001", 398, 402),
        (&[], "01000a 0d200000c07f 01271e", 298, 302),
        (&[], "01000d 0d40000000bf 0d410000003f 0d460ad7a33d", 78, 82),
    ] {
        let mut bench = holding(settings);
        bench.command(command);
        bench.wait_ms(alive_ms);
        assert!(matches!(bench.state().0, 10 | 13), "{command} alive at {alive_ms} ms");
        bench.wait_ms(dead_ms - alive_ms);
        assert_eq!(bench.state(), (11, 0), "{command} dead at {dead_ms} ms");
    }
}

#[test]
fn some_timeouts_never_end_and_some_at_once() {
    for (command, mode) in [
        (HOLD, 10),
        ("01000a 0d200000c07f 05270080", 10),
        ("01000a 0d200000c07f 012780", 10),
        ("01000a 0d200000c07f 0d27000080bf", 11),
        // Modes that do not time out.
        ("010009 0d270ad7a33c", 9),
        ("01000c 0d270ad7a33c", 12),
        ("01000f 0d270ad7a33c", 15),
    ] {
        let mut bench = holding(&[]);
        bench.command(command);
        bench.wait_ms(60_000);
        assert_eq!(bench.state().0, mode, "{command}");
    }
    let mut bench = Bench::servo(&[("servo.default_timeout_s", "nan")]);
    bench.command(HOLD_FED);
    bench.wait_ms(60_000);
    assert_eq!(bench.state().0, 10);
}

#[test]
fn only_a_mode_feeds_the_watchdog() {
    let mut bench = holding(&[]);
    bench.command(HOLD_FED);
    for _ in 0..9 {
        bench.wait_ms(10);
        // A query, a register without mode, the console.
        bench.ask("11001f01130d");
        bench.command("0d200000803e");
        bench.command("4001 09 74656c2073746f700a");
    }
    bench.wait_ms(15);
    assert_eq!(bench.state().0, 11);
    // Feeding keeps it alive.
    let mut bench = holding(&[]);
    for _ in 0..50 {
        bench.command(HOLD_FED);
        bench.wait_ms(50);
    }
    assert_eq!(bench.state().0, 10);
}

#[test]
fn the_timeout_mode_decides_what_a_timeout_does() {
    // Spinning at 1 rev/s when the watchdog runs out: velocity half a second later.
    let spin = "01000a 0e200000c07f0000803f";
    for (mode, slowed, torque_reported) in
        [("0", false, false), ("10", true, true), ("12", true, true), ("15", true, true), ("7", false, false)]
    {
        let mut bench = Bench::of(
            BusConfig::INSTANT,
            vec![
                ServoConfig {
                    joint: JointConfig { viscous: 0.0, coulomb: 0.0, ..Default::default() },
                    ..ServoConfig::new(0, 1)
                }
                .with("servo.timeout_mode", mode)
                .with("servo.pid_position.kd", "2"),
            ],
        );
        for _ in 0..10 {
            bench.command(spin);
            bench.wait_ms(50);
        }
        assert!((bench.float(0x002) - 1.0).abs() < 0.05, "spinning");
        bench.wait_ms(105);
        assert_eq!(bench.state().0, 11);
        let torque = bench.float(0x003);
        bench.wait_ms(500);
        assert_eq!(bench.float(0x002).abs() < 0.1, slowed, "timeout mode {mode}");
        assert_eq!(torque != 0.0, torque_reported, "timeout mode {mode}: {torque}");
    }
}

#[test]
fn a_hot_board_faults() {
    // Pushed against its end stop with 80 A, derated to 60 A: 1.5 · 47 mΩ · 60² = 254 W. (With the factory's
    // derating to nothing the temperature would settle below the fault.)
    let joint = JointConfig { stops: Some([-0.01, 0.01]), ..JointConfig::default() };
    let servo = ServoConfig { joint, ..ServoConfig::new(0, 1) };
    let hot = servo.with("servo.fault_temperature", 40).with("servo.temperature_margin", 5);
    let hot = hot.with("servo.derate_current_A", 60);
    let mut bench = Bench::of(BusConfig::INSTANT, vec![hot]);
    bench.command(HOLD);
    bench.wait_ms(20);
    let push = "010009 0e1c0000a04200000000";
    let mut codes = vec![];
    for _ in 0..600 {
        bench.command(push);
        bench.wait_ms(50);
        let code = bench.state();
        if codes.last() != Some(&code) {
            codes.push(code);
        }
        if code.0 == 1 {
            break;
        }
    }
    assert!(codes.contains(&(9, 100)), "limited by temperature first: {codes:?}");
    assert_eq!(codes.last(), Some(&(1, 38)));
}

#[test]
fn a_motor_temperature_counts_only_where_it_is_measured() {
    for (measured, state) in [("0", (10, 0)), ("1", (1, 38))] {
        let hot = ServoConfig { ambient_c: 70.0, ..ServoConfig::new(0, 1) }
            .with("servo.fault_temperature", 100)
            .with("servo.motor_fault_temperature", 60)
            .with("servo.enable_motor_temperature", measured);
        let mut bench = Bench::of(BusConfig::INSTANT, vec![hot]);
        bench.command(HOLD);
        bench.wait_ms(20);
        assert_eq!(bench.state(), state, "enable_motor_temperature {measured}");
    }
}

#[test]
fn a_motor_temperature_that_is_not_measured_limits_nothing() {
    for (measured, fault, torque) in [("0", 0, 5.04), ("1", 101, 2.52)] {
        let warm = ServoConfig { ambient_c: 70.0, ..ServoConfig::new(0, 1) }
            .with("servo.fault_temperature", 200)
            .with("servo.motor_fault_temperature", 80)
            .with("servo.motor_temperature_margin", 20)
            .with("servo.derate_current_A", 0)
            .with("servo.max_current_A", 10)
            .with("servo.enable_motor_temperature", measured);
        let mut bench = Bench::of(BusConfig::INSTANT, vec![warm]);
        // 10 A of 0.504 N·m each.
        bench.command("010009 0e1c0000204100000000");
        bench.wait_ms(15);
        assert_eq!(bench.state(), (9, fault), "enable_motor_temperature {measured}");
        assert!((bench.float(0x003) - torque).abs() < 0.1, "{}", bench.float(0x003));
    }
}

#[test]
fn a_nan_current_or_voltage_moves_nothing() {
    for command in
        ["010009 0d1c0000c07f", "010008 0d1b0000c07f", "010006 0d140000c07f", "010007 0d190000c07f"]
    {
        let mut bench = holding(&[]);
        bench.command(command);
        bench.wait_ms(50);
        bench.command(STOP);
        bench.wait_ms(50);
        assert!(bench.float(0x001).is_finite(), "after {command}");
    }
}

#[test]
fn a_reboot_forgets_what_was_not_saved() {
    let mut bench = Bench::servo(&[]);
    bench.command("0db1020000c03f");
    assert_eq!(bench.float(0x001), 1.5);
    bench.command(HOLD);
    bench.wait_ms(20);
    bench.world.inject(0, Injection::Reboot, bench.now_ns);
    assert_eq!(bench.state(), (0, 0));
    assert_eq!(bench.float(0x001), 0.0);
    assert_eq!(bench.ask("1970"), "2970206cfb7f");
}

#[test]
fn injected_faults() {
    let mut bench = holding(&[]);
    let now_ns = bench.now_ns;
    bench.world.inject(0, Injection::Fault(khz_wire::Fault::MOTOR_DRIVER.0.into()), now_ns);
    assert_eq!(bench.state(), (1, 33));
    bench.world.inject(0, Injection::Lying(true), now_ns);
    assert_eq!(bench.ask("1501"), "25010080");
    bench.world.inject(0, Injection::Silent(true), now_ns);
    assert_eq!(bench.ask("1100"), "-");
    bench.world.inject(0, Injection::Silent(false), now_ns);
    assert_eq!(bench.ask("1100"), "210001");
    bench.world.inject(7, Injection::Reboot, now_ns);
}
