//! moteus in a robot file.

use super::{Facts, GAINS, InFile, formats, line};
use crate::config::{CommandFormat, Format, QueryFormat, RobotConfig, ServoConfig, ServoSettings};
use khz_emu::{FamilyConfig, WireKind};
use khz_servo::{Family, moteus};
use khz_settings::{Problem, Reader};
use khz_wire::serial::Packets;

pub(super) struct Moteus;

const FACTS: Facts = Facts {
    own_keys: &["query", "command", GAINS[0], GAINS[1], "device.temperature_margin"],
    tables: &[
        ("`query` of a servo", QueryFormat::ABOUT, QueryFormat::KEYS),
        ("`command` of a servo", CommandFormat::ABOUT, CommandFormat::KEYS),
    ],
    example: "",
    sends_gains: false,
    fd_switch: None,
    factory_bit_rate: None,
    limits_torque: true,
    has_formats: true,
    by_registers: true,
    within_turn: false,
    rests_after_miss: false,
    moves_target_on: true,
    has_watchdog: true,
    reports_on: true,
    ids_refused: None,
};

impl InFile for Moteus {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn family(&self, servo: &ServoSettings) -> Family {
        Family::Moteus(moteus::Settings { command: servo.command.clone(), query: servo.query.clone() })
    }

    fn gains(&self, servo: &ServoSettings) -> [f64; 2] {
        [servo.device.kp, servo.device.kd]
    }

    fn damping<'a>(&self, _: &'a mut ServoSettings) -> Option<&'a mut f64> {
        None
    }

    fn model(&self, _: &ServoSettings) -> Option<&'static str> {
        None
    }

    fn speaks_fd(&self, _: &ServoSettings) -> bool {
        true
    }

    fn derates(&self, servo: &ServoSettings) -> bool {
        servo.command.max_torque != Format::None && servo.query.temperature != Format::None
    }

    fn twin(&self, _: &ServoConfig) -> FamilyConfig {
        FamilyConfig::default()
    }

    fn check(&self, robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
        check_line(robot, i, servo, reader);
        formats::check(robot, i, servo, reader);
        check_torque(i, servo, reader);
    }
}

/// A serial line is for one protocol.
fn check_line(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let Some(bus) = robot.buses.get(servo.bus) else { return };
    let WireKind::Rs485 { packets, .. } = bus.link.bus().emulated().wire else { return };
    if packets == Packets::Moteus {
        return;
    }
    let Some(span) = reader.span(&format!("bus.{}", bus.name)) else { return };
    let title = format!("this line is for {} servos", line::of(packets).title());
    let problem = Problem::error(format!("servo[{i}].bus"), title)
        .at(span, format!("`{}` is a moteus", servo.name))
        .help("write `protocol = \"moteus\"` (emulated: `wire = \"rs485\"`), or put it on a bus of its own");
    reader.problems.push(problem);
}

/// A servo that gets no greatest torque uses all it has to hold a position. Limits of position and velocity
/// are different: a target that does not travel cannot be beyond them.
fn check_torque(i: usize, servo: &ServoConfig, reader: &mut Reader) {
    if servo.limits.torque.is_none() || servo.command.max_torque != Format::None {
        return;
    }
    let written = |key: &str| {
        let places = [format!("servo[{i}].{key}"), format!("servo_defaults.{key}")];
        places.into_iter().find_map(|place| reader.span(&place).map(|span| (place, span)))
    };
    let (Some((place, limit)), Some((_, none))) = (written("limits.torque"), written("command.max_torque"))
    else {
        return;
    };
    let problem = Problem::error(place, "the torque limit would not be sent to the servo")
        .at(limit, "this limit could not be enforced")
        .at(none, "not sent")
        .help("write `max_torque = \"int16\"`, or remove `limits.torque`");
    reader.problems.push(problem);
}
