//! CubeMars AK in a robot file.

use super::{Facts, InFile, mit};
use crate::config::{RobotConfig, ServoConfig, ServoSettings};
use khz_emu::FamilyConfig;
use khz_emu::cubemars::Setup;
use khz_servo::cubemars::CubemarsSettings;
use khz_servo::{Family, cubemars};
use khz_settings::Reader;

pub(super) struct Cubemars;

const TORQUE_LIMIT: &str = "the motor's own limits are set with its maker's tool";

const FACTS: Facts = Facts {
    own_keys: &["cubemars"],
    tables: &[("`cubemars` of a servo", CubemarsSettings::ABOUT, CubemarsSettings::KEYS)],
    example: "model = \"AK80-9\", unwatched = true",
    factory_bit_rate: Some(1_000_000),
    rests_after_miss: true,
    has_watchdog: false,
    reports_on: false,
    ..mit::FACTS
};

impl InFile for Cubemars {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn family(&self, servo: &ServoSettings) -> Family {
        Family::Cubemars(cubemars::Settings::of(&servo.cubemars))
    }

    fn gains(&self, servo: &ServoSettings) -> [f64; 2] {
        [servo.cubemars.kp, servo.cubemars.kd]
    }

    fn damping<'a>(&self, servo: &'a mut ServoSettings) -> Option<&'a mut f64> {
        Some(&mut servo.cubemars.damping)
    }

    fn model(&self, servo: &ServoSettings) -> Option<&'static str> {
        servo.cubemars.model.map(cubemars::Model::word)
    }

    fn speaks_fd(&self, _: &ServoSettings) -> bool {
        false
    }

    fn derates(&self, _: &ServoSettings) -> bool {
        false
    }

    fn twin(&self, servo: &ServoConfig) -> FamilyConfig {
        let settings = cubemars::Settings::of(&servo.cubemars);
        FamilyConfig::Cubemars(Setup {
            reply_id: settings.reply_id,
            ranges: settings.drive.ranges,
            fault_c: servo.device.fault_temperature,
            // As it leaves the factory: no watchdog.
            watchdog_s: 0.0,
        })
    }

    fn check(&self, robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
        check_own(robot, i, servo, reader);
        let drive = cubemars::Settings::of(&servo.cubemars).drive;
        mit::check(robot, i, servo, &mit::Mit::of(drive, TORQUE_LIMIT), reader);
    }
}

fn check_own(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    mit::check_model(i, servo, "AK80-9", reader);
    mit::check_unwatched(i, servo, servo.cubemars.unwatched, &UNWATCHED, reader);
    let beside = robot.servos.iter().filter(|other| other.name != servo.name);
    // Its own identifier is possible.
    mit::check_replies(beside, i, servo, ("reply_id", servo.cubemars.reply_id), reader);
}

const UNWATCHED: [&str; 2] = [
    "no host can read or set the watchdog of a CubeMars; from the factory it is off",
    "set its \"CAN timeout\" with its maker's tool, have a switch at hand that cuts its power, and write `cubemars.unwatched = true`",
];
