//! Damiao in a robot file.

use super::{Facts, InFile, mit, written};
use crate::config::{RobotConfig, ServoConfig, ServoSettings};
use khz_emu::FamilyConfig;
use khz_emu::damiao::Setup;
use khz_servo::damiao::DamiaoSettings;
use khz_servo::{Family, damiao};
use khz_settings::{Problem, Reader};

pub(super) struct Damiao;

const TORQUE_LIMIT: &str = "the motor's own limit is its over-current threshold, register 3 (`OC_Value`)";

const FACTS: Facts = Facts {
    own_keys: &["damiao"],
    tables: &[("`damiao` of a servo", DamiaoSettings::ABOUT, DamiaoSettings::KEYS)],
    example: "model = \"4310\"",
    fd_switch: Some(["damiao", "can_fd"]),
    factory_bit_rate: None,
    ids_refused: Some((
        "its replies carry only four bits of the id",
        "give the motor an id of 1 to 15 (its register 8)",
    )),
    ..mit::FACTS
};

impl InFile for Damiao {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn family(&self, servo: &ServoSettings) -> Family {
        Family::Damiao(damiao::Settings::of(&servo.damiao, servo.id))
    }

    fn gains(&self, servo: &ServoSettings) -> [f64; 2] {
        [servo.damiao.kp, servo.damiao.kd]
    }

    fn damping<'a>(&self, servo: &'a mut ServoSettings) -> Option<&'a mut f64> {
        Some(&mut servo.damiao.damping)
    }

    fn model(&self, servo: &ServoSettings) -> Option<&'static str> {
        servo.damiao.model.map(damiao::Model::word)
    }

    fn speaks_fd(&self, servo: &ServoSettings) -> bool {
        servo.damiao.can_fd
    }

    fn derates(&self, _: &ServoSettings) -> bool {
        false
    }

    fn twin(&self, servo: &ServoConfig) -> FamilyConfig {
        let settings = damiao::Settings::of(&servo.damiao, servo.id);
        FamilyConfig::Damiao(Setup {
            master_id: settings.master_id,
            can_fd: settings.can_fd,
            ranges: settings.drive.ranges,
            fault_c: servo.device.fault_temperature,
        })
    }

    fn check(&self, robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
        check_own(robot, i, servo, reader);
        let drive = damiao::Settings::of(&servo.damiao, servo.id).drive;
        mit::check(robot, i, servo, &mit::Mit::of(drive, TORQUE_LIMIT), reader);
    }
}

fn check_own(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let place = |key: &str| format!("servo[{i}].{key}");
    mit::check_model(i, servo, "4310", reader);
    let Some(at) = written(i, "family", reader) else { return };
    let file = &servo.damiao;
    let other =
        robot.servos[..i].iter().find(|other| is_beside(other, servo) && other.damiao.can_fd != file.can_fd);
    if let (Some(other), Some(span)) = (other, written(i, "damiao.can_fd", reader).or(Some(at))) {
        let title = format!(
            "CAN and CAN-FD on bus `{}`: a motor set to CAN destroys every CAN-FD frame",
            servo.settings.bus
        );
        let problem = Problem::error(place("damiao.can_fd"), title)
            .at(span, format!("unlike `{}`", other.name))
            .help("set all motors of a bus to one of them");
        reader.problems.push(problem);
    }
    check_master_id(robot, i, servo, reader);
}

/// Another Damiao on its bus.
fn is_beside(other: &ServoConfig, servo: &ServoConfig) -> bool {
    (other.bus, other.family) == (servo.bus, servo.family)
}

/// What one servo replies must not be a command to another.
fn check_master_id(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let master_id = damiao::Settings::of(&servo.damiao, servo.id).master_id;
    if let (0, Some(span)) = (master_id, written(i, "damiao.master_id", reader)) {
        let title = "all motors leave the factory with 0: on a bus their replies cannot be distinguished";
        let problem = Problem::error(format!("servo[{i}].damiao.master_id"), title)
            .at(span, "0 is no identifier of its own")
            .help(format!(
                "leave it out, and give the motor {} as the identifier of its replies (register 7, `MST_ID`): \
                 `khz bus set-id LINK {} {} --family damiao --store`",
                u16::from(servo.id) + 0x10,
                servo.id,
                servo.id
            ));
        reader.problems.push(problem);
        return;
    }
    let beside = robot.servos.iter().filter(|other| is_beside(other, servo));
    // Commands go to the id; in the other control modes to the id and 0x100, 0x200 or 0x300.
    let taken = beside
        .filter(|other| [0, 0x100, 0x200, 0x300].iter().any(|mode| u16::from(other.id) + mode == master_id));
    let span = written(i, "damiao.master_id", reader).or_else(|| written(i, "id", reader));
    if let (Some(other), Some(span)) = ({ taken }.next_back(), span) {
        let title = format!("its replies would be commands to `{}`", other.name);
        let problem = Problem::error(format!("servo[{i}].damiao.master_id"), title)
            .at(span, format!("replies have the identifier {master_id}"))
            .help(
                "give the motor another identifier for its replies (register 7), its id and 16 for example",
            );
        reader.problems.push(problem);
    }
}
