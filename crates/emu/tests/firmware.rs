//! The emulated servo against the firmware's own control code: the same settings, joint and commands, and what
//! the firmware's registers report on the way (`vectors/servo.json` names the origin).

use crate::common::{Bench, bytes};
use khz_emu::{BusConfig, JointConfig, ServoConfig};
use serde_json::Value as Json;

/// What a sample holds: its name, its register, and how far ours may be off: so much, plus a share of the value.
///
/// The shares cover the control period, 250 µs instead of 33, and a current that follows at once.
const QUANTITIES: &[(&str, u16, f64, f64)] = &[
    ("mode", 0x000, 0.0, 0.0),
    ("fault", 0x00f, 0.0, 0.0),
    ("position", 0x001, 0.002, 0.01),
    ("velocity", 0x002, 0.02, 0.01),
    ("torque", 0x003, 0.05, 0.02),
    ("q_current", 0x004, 0.1, 0.02),
    ("d_current", 0x005, 0.1, 0.02),
    ("power", 0x007, 0.5, 0.02),
    ("done", 0x00b, 0.0, 0.0),
    ("control_position", 0x038, 0.0015, 0.005),
    ("control_velocity", 0x039, 0.02, 0.01),
    ("control_torque", 0x03a, 0.05, 0.02),
    ("torque_error", 0x03d, 0.3, 0.03),
];

/// Half turns per radian, as the angle registers count.
const HALF_TURNS: f64 = std::f64::consts::FRAC_1_PI;

/// The command registers by name, and what one unit of the vectors is in theirs.
const COMMANDS: &[(&str, u16, f64)] = &[
    ("pwm_a", 0x010, 1.0),
    ("pwm_b", 0x011, 1.0),
    ("pwm_c", 0x012, 1.0),
    ("phase_a", 0x014, 1.0),
    ("phase_b", 0x015, 1.0),
    ("phase_c", 0x016, 1.0),
    ("theta", 0x018, HALF_TURNS),
    ("voltage", 0x019, 1.0),
    ("d_V", 0x01a, 1.0),
    ("q_V", 0x01b, 1.0),
    ("i_q_A", 0x01c, 1.0),
    ("i_d_A", 0x01d, 1.0),
    ("theta_rate", 0x01e, HALF_TURNS),
    ("position", 0x020, 1.0),
    ("velocity", 0x021, 1.0),
    ("feedforward", 0x022, 1.0),
    ("kp_scale", 0x023, 1.0),
    ("kd_scale", 0x024, 1.0),
    ("max_torque", 0x025, 1.0),
    ("stop_position", 0x026, 1.0),
    ("timeout", 0x027, 1.0),
    ("velocity_limit", 0x028, 1.0),
    ("accel_limit", 0x029, 1.0),
    ("fixed_voltage", 0x02a, 1.0),
    ("ilimit_scale", 0x02b, 1.0),
    ("fixed_current", 0x02c, 1.0),
    ("ignore_bounds", 0x02d, 1.0),
    ("lower", 0x040, 1.0),
    ("upper", 0x041, 1.0),
];

fn vectors() -> Vec<Json> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/servo.json");
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut json: Json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let Json::Array(vectors) = json["vectors"].take() else { panic!("{path}: no list of vectors") };
    vectors
}

/// A number, or one in words: "nan", "inf".
fn number(json: &Json) -> f64 {
    let word = || json.as_str()?.parse().ok();
    json.as_f64().or_else(word).unwrap_or_else(|| panic!("{json} is no number"))
}

/// The servo of a vector, shorted (mode 15) and at rest.
fn bench(vector: &Json) -> Bench {
    let joint = JointConfig {
        inertia: number(&vector["joint"]["inertia"]),
        viscous: number(&vector["joint"]["viscous"]),
        coulomb: 0.0,
        ..JointConfig::default()
    };
    let servo = ServoConfig { joint, supply_v: number(&vector["supply_v"]), ..ServoConfig::new(0, 1) };
    let settings = vector["settings"].as_object().unwrap();
    let servo = settings.iter().fold(servo, |servo, (name, value)| servo.with(name, number(value)));
    let mut bench = Bench::of(BusConfig::INSTANT, vec![servo]);
    bench.command("01000f");
    bench.wait_ms(20);
    bench
}

/// The frame of a command: its mode, then each value as a float.
fn frame(command: &Json) -> String {
    let values =
        command.as_object().unwrap().iter().filter(|(name, _)| !["at_ms", "mode"].contains(&&***name));
    let mut hex = format!("0100{:02x}", command["mode"].as_u64().unwrap());
    for (name, value) in values {
        let (_, register, unit) = COMMANDS.iter().find(|(known, ..)| known == name).unwrap();
        let value = (number(value) * unit) as f32;
        hex += &format!(" 0d{register:02x}{}", crate::common::hex(&value.to_le_bytes()));
    }
    assert!(bytes(&hex).len() <= 64, "one frame holds the command");
    hex
}

/// How the emulated servo differs from a sample of the firmware.
fn differences(bench: &mut Bench, vector: &Json, sample: &Json) -> Vec<String> {
    let tolerance = vector.get("tolerance").map_or(1.0, number);
    let skipped =
        |name: &str| vector["not_compared"].as_array().is_some_and(|names| names.iter().any(|n| n == name));
    let differs = |&(name, register, much, share): &(&str, u16, f64, f64)| {
        if skipped(name) {
            return None;
        }
        let (expected, found) = (number(&sample[name]), f64::from(bench.float(register)));
        let same = if expected.is_nan() {
            found.is_nan()
        } else {
            (found - expected).abs() <= tolerance * (much + share * expected.abs())
        };
        (!same).then(|| format!("at {} ms {name} is {found:.4} instead of {expected:.4}", sample["at_ms"]))
    };
    QUANTITIES.iter().filter_map(differs).collect()
}

/// What differs along a vector. A sample at the time of a command shows what was before it.
fn run(vector: &Json) -> Vec<String> {
    let mut bench = bench(vector);
    let start_ns = bench.now_ns;
    let mut commands = vector["commands"].as_array().unwrap().iter().peekable();
    let mut differences_found = vec![];
    for sample in vector["samples"].as_array().unwrap() {
        let at_ns = |event: &Json| start_ns + event["at_ms"].as_i64().unwrap() * crate::common::MS;
        while let Some(command) = commands.next_if(|command| at_ns(command) < at_ns(sample)) {
            bench.world.advance(at_ns(command));
            bench.now_ns = at_ns(command);
            bench.command(&frame(command));
        }
        bench.now_ns = at_ns(sample);
        bench.world.advance(bench.now_ns);
        differences_found.extend(differences(&mut bench, vector, sample));
    }
    differences_found
}

/// All vectors whose names begin like this behave as the firmware did.
fn agree(prefix: &str) {
    let vectors = vectors();
    let of_prefix = vectors.iter().filter(|vector| vector["name"].as_str().unwrap().starts_with(prefix));
    let mut count = 0;
    let mut report = String::new();
    for vector in of_prefix {
        count += 1;
        for difference in run(vector) {
            report += &format!("{}: {difference}\n", vector["name"]);
        }
    }
    assert!(count > 0, "no vector begins with {prefix}");
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn the_control_position_stays_within_the_position_bounds_as_in_the_firmware() {
    agree("bounds/");
}

#[test]
fn the_watchdog_ends_an_open_loop_drive_as_in_the_firmware() {
    agree("watchdog/");
}

#[test]
fn the_stop_position_acts_as_in_the_firmware() {
    agree("stop/");
}

#[test]
fn the_torque_registers_report_the_torque_before_current_limits_as_in_the_firmware() {
    agree("torque/");
}

#[test]
fn the_bus_voltage_limits_speed_and_current_as_in_the_firmware() {
    agree("voltage/");
}

#[test]
fn power_is_limited_as_in_the_firmware() {
    agree("power/");
}

#[test]
fn slip_acts_as_in_the_firmware() {
    agree("slip/");
}

#[test]
fn currents_follow_the_voltage_as_in_the_firmware() {
    agree("open/");
}

#[test]
fn trajectories_move_as_in_the_firmware() {
    agree("trajectory/");
}

#[test]
fn stay_within_and_zero_velocity_act_as_in_the_firmware() {
    agree("within/");
    agree("zero velocity");
}

#[test]
fn nan_shorts_the_windings_as_in_the_firmware() {
    agree("nan/");
}
