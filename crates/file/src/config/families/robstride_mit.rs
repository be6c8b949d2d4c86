//! RobStride in its MIT protocol in a robot file.

use super::{Facts, InFile, mit, written};
use crate::config::{RobotConfig, ServoConfig, ServoSettings};
use khz_emu::FamilyConfig;
use khz_emu::robstride_mit::Setup;
use khz_servo::Family;
use khz_servo::robstride_mit::{Model, RobstrideMitSettings, Settings};
use khz_settings::{Problem, Reader};

pub(super) struct RobstrideMit;

const TORQUE_LIMIT: &str = "the motor's own limit is set by its private protocol, or with its maker's tool";

const UNDER_VOLTAGE: &str = "one that switches itself off for that does not report it: only a joint under load is noticed, by the torque that it does not exert";

const UNWATCHED: [&str; 2] = [
    "the watchdog of a RobStride is not set by its MIT protocol; from the factory it is off",
    "set it to its private protocol (`family = \"robstride\"`), by which its watchdog is set; or have a switch at hand that cuts its power, and \
     write `robstride_mit.unwatched = true`",
];

const FACTS: Facts = Facts {
    own_keys: &["robstride_mit"],
    tables: &[("`robstride_mit` of a servo", RobstrideMitSettings::ABOUT, RobstrideMitSettings::KEYS)],
    example: "model = \"RS00\", unwatched = true",
    factory_bit_rate: Some(1_000_000),
    within_turn: true,
    rests_after_miss: true,
    has_watchdog: false,
    reports_on: false,
    ..mit::FACTS
};

impl InFile for RobstrideMit {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn family(&self, servo: &ServoSettings) -> Family {
        Family::RobstrideMit(Settings::of(&servo.robstride_mit))
    }

    fn gains(&self, servo: &ServoSettings) -> [f64; 2] {
        [servo.robstride_mit.kp, servo.robstride_mit.kd]
    }

    fn damping<'a>(&self, servo: &'a mut ServoSettings) -> Option<&'a mut f64> {
        Some(&mut servo.robstride_mit.damping)
    }

    fn model(&self, servo: &ServoSettings) -> Option<&'static str> {
        servo.robstride_mit.model.map(Model::word)
    }

    fn speaks_fd(&self, _: &ServoSettings) -> bool {
        false
    }

    fn derates(&self, _: &ServoSettings) -> bool {
        false
    }

    fn twin(&self, servo: &ServoConfig) -> FamilyConfig {
        let Settings { host_id, drive } = Settings::of(&servo.robstride_mit);
        let fault_c = servo.device.fault_temperature;
        FamilyConfig::RobstrideMit(Setup { host_id, ranges: drive.ranges, fault_c })
    }

    fn check(&self, robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
        mit::check_model(i, servo, "RS00", reader);
        check_ranges(i, servo, reader);
        mit::check_unwatched(i, servo, servo.robstride_mit.unwatched, &UNWATCHED, reader);
        let host_id = servo.robstride_mit.host_id.into();
        mit::check_replies(robot.servos.iter(), i, servo, ("host_id", host_id), reader);
        let drive = Settings::of(&servo.robstride_mit).drive;
        mit::check(
            robot,
            i,
            servo,
            &mit::Mit { under_voltage: UNDER_VOLTAGE, ..mit::Mit::of(drive, TORQUE_LIMIT) },
            reader,
        );
    }
}

/// Sources differ on the ranges of the RS02, and no servo reports them.
fn check_ranges(i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let file = &servo.robstride_mit;
    let keys = [
        ("velocity_range", file.velocity_range, "33 or 44 rad/s by chapters 6 and 4 of its manual"),
        ("torque_range", file.torque_range, "17 N·m by its manual, 20 by LeRobot"),
    ];
    for (key, _, sources) in keys.into_iter().filter(|(_, range, _)| range.is_none()) {
        let Some(span) = written(i, "robstride_mit.model", reader) else { return };
        if file.model == Some(Model::Rs02) {
            let key = format!("robstride_mit.{key}");
            let problem = Problem::error(format!("servo[{i}].{key}"), "sources differ on what its codes mean")
                .at(span, format!("an RS02: {sources}"))
                .help(format!("measure it and write `{key} = …`, or set the motor to its private protocol (`family = \"robstride\"`)"));
            reader.problems.push(problem);
        }
    }
}
