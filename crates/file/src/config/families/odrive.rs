//! ODrives in a robot file.

use super::{Facts, InFile, mit, written};
use crate::config::{RobotConfig, ServoConfig, ServoSettings};
use khz_emu::FamilyConfig;
use khz_emu::odrive::Setup;
use khz_servo::odrive::{Firmware, HEARTBEAT_NS, OdriveSettings};
use khz_servo::{Family, odrive};
use khz_settings::{Problem, Reader};
use std::path::Path;

pub(super) struct Odrive;

const TORQUE_LIMIT: &str = "write `odrive.current_limit`, which is sent before control begins";

const FACTS: Facts = Facts {
    own_keys: &["odrive"],
    tables: &[("`odrive` of a servo", OdriveSettings::ABOUT, OdriveSettings::KEYS)],
    example: "firmware = \"0.6\", torque_constant = 0.1",
    factory_bit_rate: Some(250_000),
    ..mit::FACTS
};

impl InFile for Odrive {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn family(&self, servo: &ServoSettings) -> Family {
        Family::Odrive(odrive::Settings::of(&servo.odrive))
    }

    fn gains(&self, servo: &ServoSettings) -> [f64; 2] {
        [servo.odrive.kp, servo.odrive.kd]
    }

    fn damping<'a>(&self, servo: &'a mut ServoSettings) -> Option<&'a mut f64> {
        Some(&mut servo.odrive.damping)
    }

    fn model(&self, servo: &ServoSettings) -> Option<&'static str> {
        servo.odrive.firmware.map(odrive::Firmware::word)
    }

    fn speaks_fd(&self, _: &ServoSettings) -> bool {
        false
    }

    fn derates(&self, _: &ServoSettings) -> bool {
        false
    }

    /// Its watchdog has been set, unless the file declares it unwatched, and it sends heartbeats alone.
    fn twin(&self, servo: &ServoConfig) -> FamilyConfig {
        let settings = odrive::Settings::of(&servo.odrive);
        FamilyConfig::Odrive(Setup {
            line: settings.line(),
            reduction: settings.reduction,
            torque_constant: settings.torque_constant,
            most_current: settings.current_limit,
            fault_c: servo.device.fault_temperature,
            watchdog_s: if settings.unwatched { 0.0 } else { servo.watchdog_s },
            heartbeat_ms: (HEARTBEAT_NS / 1_000_000) as u32,
            estimates_ms: 0,
        })
    }

    fn check_beside(&self, i: usize, servo: &ServoConfig, folder: &Path, reader: &mut Reader) {
        let Some(path) = &servo.odrive.endpoints else { return };
        let Some(span) = written(i, "odrive.endpoints", reader).or_else(|| written(i, "odrive", reader))
        else {
            return;
        };
        let problem = match servo.odrive.firmware {
            Some(Firmware::V05) => Problem::error(place(i), "firmware 0.5 has no endpoints by CAN")
                .at(span, "of firmware 0.6 only")
                .help("remove it: a silence at the start proves its watchdog"),
            _ => match odrive::Endpoints::load(&folder.join(path)) {
                Ok(_) => return,
                Err(why) => Problem::error(place(i), "its endpoints cannot be read")
                    .at(span, why)
                    .help("write the path of the `flat_endpoints.json` of exactly its release and board, from its maker"),
            },
        };
        reader.problems.push(problem);
    }

    fn check(&self, robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
        check_own(robot, i, servo, reader);
        let drive = odrive::Settings::of(&servo.odrive).drive;
        mit::check(robot, i, servo, &mit::Mit::of(drive, TORQUE_LIMIT), reader);
    }
}

fn place(i: usize) -> String {
    format!("servo[{i}].odrive.endpoints")
}

fn check_own(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let file = &servo.odrive;
    let place = |key: &str| format!("servo[{i}].odrive.{key}");
    let family = written(i, "family", reader);
    if let (None, Some(at)) = (file.firmware, &family) {
        let problem = Problem::error(place("firmware"), "which firmware it has must be specified")
            .at(at.clone(), "the messages of 0.5 and 0.6 differ")
            .help("write `odrive.firmware = \"0.6\"` (Pro, S1, Micro), or \"0.5\" (v3)");
        reader.problems.push(problem);
    }
    if let (None, Some(at)) = (file.torque_constant, &family) {
        let problem = Problem::error(place("torque_constant"), "what an ampere is worth must be specified")
            .at(at.clone(), "torques depend on it, and what the joint can carry")
            .help("write `odrive.torque_constant`, N·m/A, as the drive has it: about 8.27 / KV of the motor");
        reader.problems.push(problem);
    }
    let most = odrive::Settings::of(file).drive.ranges[1];
    if let Some(limit) = servo.limits.velocity
        && limit < most
        && limit * LIMIT_MARGIN > most
        && let Some(span) = written(i, "limits.velocity", reader)
    {
        let title = "the drive limits what its position gain asks for near this velocity";
        let problem = Problem::warning(place("velocity_range"), title)
            .at(span, format!("its own limit is {most:.2} rad/s at the joint"))
            .help(format!("write {:.2} or less, or a greater `odrive.velocity_range`", most / LIMIT_MARGIN));
        reader.problems.push(problem);
    }
    if robot.timing.period_ns() * 4 > (servo.watchdog_s * 1e9) as i64
        && let Some(span) = written(i, "watchdog_s", reader).or_else(|| reader.span("loop.rate_hz"))
    {
        let title = "its watchdog would act before a lost reply is noticed";
        let problem = Problem::warning(format!("servo[{i}].watchdog_s"), title)
            .at(span, "less than four periods")
            .help("write 0.1, and set the drive's watchdog so");
        reader.problems.push(problem);
    }
    mit::warn_of_unwatched(i, servo, file.unwatched, "odrive.unwatched", reader);
}

/// A limit of a joint is so much below the drive's.
const LIMIT_MARGIN: f64 = 1.5;
