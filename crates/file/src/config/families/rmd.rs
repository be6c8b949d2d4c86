//! MyActuator RMD in a robot file.

use super::{Facts, InFile, mit, written};
use crate::config::{RobotConfig, ServoConfig, ServoSettings};
use khz_emu::FamilyConfig;
use khz_emu::rmd::Setup;
use khz_servo::rmd::{Protocol, REPLY_DELAY_US, RmdSettings};
use khz_servo::{Family, rmd};
use khz_settings::{Problem, Reader};

pub(super) struct Rmd;

const TORQUE_LIMIT: &str = "the motor's own limits are set with its maker's tool";

const FACTS: Facts = Facts {
    own_keys: &["rmd"],
    tables: &[("`rmd` of a servo", RmdSettings::ABOUT, RmdSettings::KEYS)],
    example: "model = \"X8\", protocol = \"V4.4\", reply_delay_us = 100",
    factory_bit_rate: Some(1_000_000),
    within_turn: true,
    ..mit::FACTS
};

/// Faster loops need to know what their motors take to answer.
const MOST_HZ: f64 = 400.0;

impl InFile for Rmd {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn family(&self, servo: &ServoSettings) -> Family {
        Family::Rmd(rmd::Settings::of(&servo.rmd))
    }

    fn gains(&self, servo: &ServoSettings) -> [f64; 2] {
        [servo.rmd.kp, servo.rmd.kd]
    }

    fn damping<'a>(&self, servo: &'a mut ServoSettings) -> Option<&'a mut f64> {
        Some(&mut servo.rmd.damping)
    }

    fn model(&self, servo: &ServoSettings) -> Option<&'static str> {
        servo.rmd.model.map(rmd::Model::word)
    }

    fn speaks_fd(&self, _: &ServoSettings) -> bool {
        false
    }

    fn derates(&self, _: &ServoSettings) -> bool {
        false
    }

    /// Its watchdog has been set, unless the file declares it unwatched.
    fn twin(&self, servo: &ServoConfig) -> FamilyConfig {
        let settings = rmd::Settings::of(&servo.rmd);
        let mut name = *b"X8S2V10";
        let model = settings.model.map_or("X8", rmd::Model::word).as_bytes();
        name[..model.len()].copy_from_slice(model);
        FamilyConfig::Rmd(Setup {
            name,
            date: settings.protocol.unwrap_or(Protocol::Old).date(),
            ranges: settings.drive.ranges,
            fault_c: servo.device.fault_temperature,
            watchdog_ms: if settings.unwatched { 0 } else { (servo.watchdog_s * 1e3) as u32 },
            brake: false,
            reply_delay_ns: settings.reply_delay_ns,
        })
    }

    fn check(&self, robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
        check_own(robot, i, servo, reader);
        let drive = rmd::Settings::of(&servo.rmd).drive;
        mit::check(robot, i, servo, &mit::Mit::of(drive, TORQUE_LIMIT), reader);
    }
}

fn check_own(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    mit::check_model(i, servo, "X8", reader);
    let file = &servo.rmd;
    let family = written(i, "family", reader);
    if let (None, Some(at)) = (file.protocol, &family) {
        let title = "which protocol its firmware has must be specified";
        let problem = Problem::error(format!("servo[{i}].rmd.protocol"), title)
            .at(at.clone(), "what its codes mean depends on it: torques differ by 2.5 to 5.4")
            .help("write `rmd.protocol = \"V4.2\"`, or \"V4.4\" for firmware of 2026042402 or later: `khz bus scan` tells it");
        reader.problems.push(problem);
    }
    if let (Some(protocol), Some(model), None) = (file.protocol, file.model, file.torque_range)
        && protocol.torque(model).is_none()
        && let Some(span) = written(i, "rmd.model", reader)
    {
        let problem = Problem::error(
            format!("servo[{i}].rmd.torque_range"),
            "its range of torques is not known",
        )
        .at(span, format!("nobody has published that of an {model} with protocol V4.4"))
        .help("write `rmd.torque_range`: the model's greatest torque in its data sheet, after measuring one");
        reader.problems.push(problem);
    }
    if robot.timing.rate_hz > MOST_HZ
        && file.reply_delay_us.is_none()
        && let Some(span) = reader.span("loop.rate_hz").or(family)
    {
        let title = "how long its motors take to answer must be specified";
        let problem = Problem::error(format!("servo[{i}].rmd.reply_delay_us"), title)
            .at(span, format!("the one that was measured, an X8-Pro V2, takes {REPLY_DELAY_US} µs, too long for many loops above {MOST_HZ} Hz"))
            .help(format!("measure it, or write `rmd.reply_delay_us = {REPLY_DELAY_US}` in `[servo_defaults]`"));
        reader.problems.push(problem);
    }
    mit::warn_of_unwatched(i, servo, file.unwatched, "rmd.unwatched", reader);
}
