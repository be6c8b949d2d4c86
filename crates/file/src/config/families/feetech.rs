//! Feetech servos in a robot file.

use super::line::{self, Line};
use super::{Facts, InFile, mit, written};
use crate::config::{RobotConfig, ServoConfig, ServoSettings};
use khz_emu::feetech::{SPEED_GAIN, STS3215, Setup};
use khz_emu::{FamilyConfig, VoltageLaw};
use khz_servo::feetech::{FeetechMode, FeetechModel, FeetechSettings};
use khz_servo::{Family, feetech};
use khz_settings::{Problem, Reader};
use khz_wire::feetech::BAUDS;
use khz_wire::serial::Packets;

pub(super) struct Feetech;

const FACTS: Facts = Facts {
    own_keys: &["feetech"],
    tables: &[("`feetech` of a servo", FeetechSettings::ABOUT, FeetechSettings::KEYS)],
    example: "model = \"STS3215\", unwatched = true",
    sends_gains: false,
    limits_torque: true,
    within_turn: true,
    has_watchdog: false,
    ..mit::FACTS
};

const LINE: Line =
    Line { packets: Packets::Feetech, bauds: &BAUDS, usual: "1000000, 500000, 250000, 128000 or 115200" };

/// The voltage its gain is given for, V.
const NOMINAL_V: f64 = 7.4;
/// The speed loop's P gain, as its maker leaves it.
const SPEED_P: f64 = 10.0;
/// The greatest and least voltage of a servo of 7.4 V, and of others, 0.1 V.
const VOLTS: [[u8; 2]; 2] = [[80, 40], [140, 40]];

impl InFile for Feetech {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn family(&self, servo: &ServoSettings) -> Family {
        Family::Feetech(feetech::Settings::of(&servo.feetech))
    }

    /// At 7.4 V, and without the D gain, whose unit is not published.
    fn gain_keys(&self) -> [&'static str; 2] {
        ["position_p", "position_d"]
    }

    fn gains(&self, servo: &ServoSettings) -> [f64; 2] {
        let VoltageLaw { kt, resistance, gain, .. } = motor(servo);
        let per_duty = kt / resistance * NOMINAL_V;
        let back_emf = kt * kt / resistance;
        match servo.feetech.mode {
            FeetechMode::Position => [per_duty * gain * f64::from(servo.feetech.position_p), back_emf],
            FeetechMode::Velocity => [0.0, per_duty * SPEED_GAIN * SPEED_P + back_emf],
            FeetechMode::Pwm => [0.0, servo.feetech.kd],
        }
    }

    fn voltage_law(&self, servo: &ServoSettings) -> Option<(VoltageLaw, f64)> {
        let (law, table) = (motor(servo), feetech::Settings::of(&servo.feetech));
        let set = VoltageLaw { gain: law.gain * f64::from(table.gains[0]), ..law };
        servo.feetech.mode.has_positions().then_some((set, f64::from(table.torque_limit) / 1000.0))
    }

    fn goal_law<'a>(&self, servo: &'a mut ServoSettings, key: &str) -> Option<&'a mut f64> {
        let VoltageLaw { goal_speed, delay_ms, .. } = motor(servo);
        match key {
            "goal_speed" => goal_speed.map(|speed| servo.feetech.goal_speed.get_or_insert(speed)),
            "delay_ms" => Some(servo.feetech.delay_ms.get_or_insert(delay_ms)),
            _ => None,
        }
    }

    fn damping<'a>(&self, _: &'a mut ServoSettings) -> Option<&'a mut f64> {
        None
    }

    fn model(&self, servo: &ServoSettings) -> Option<&'static str> {
        servo.feetech.model.map(FeetechModel::word)
    }

    fn speaks_fd(&self, _: &ServoSettings) -> bool {
        false
    }

    fn derates(&self, _: &ServoSettings) -> bool {
        true
    }

    fn most_v(&self, servo: &ServoSettings) -> f64 {
        f64::from(volts(servo)[0]) / 10.0
    }

    /// As the run expects it.
    fn twin(&self, servo: &ServoConfig) -> FamilyConfig {
        let settings = feetech::Settings::of(&servo.feetech);
        FamilyConfig::Feetech(Setup {
            model: servo.feetech.model.map_or(Setup::default().model, FeetechModel::number),
            return_delay: settings.return_delay,
            volts: volts(servo),
            motor: motor(servo),
            fault_c: servo.device.fault_temperature,
            ..Setup::default()
        })
    }

    fn check(&self, robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
        line::check(robot, i, servo, &LINE, reader);
        line::warn_of_supply(robot, i, servo, self.most_v(servo), reader);
        check_own(i, servo, reader);
        warn_of_unwatched(robot, i, servo, reader);
        mit::check_reach(robot, i, servo, reader);
        mit::check_still(robot, i, servo, reader);
    }
}

/// An STS3215 of which the file has no motor is one of 7.4 V.
const fn volts(servo: &ServoSettings) -> [u8; 2] {
    VOLTS[servo.feetech.motor_resistance.is_some() as usize]
}

/// Its motor, as far as the file knows it; for the rest that of an STS3215.
fn motor(servo: &ServoSettings) -> VoltageLaw {
    let settings = feetech::Settings::of(&servo.feetech);
    VoltageLaw {
        kt: settings.motor_constant,
        resistance: settings.motor_resistance * (1.0 - servo.feetech.sag),
        sag_resistance: settings.motor_resistance * servo.feetech.sag,
        gain: servo.feetech.duty_gain.unwrap_or(STS3215.gain),
        goal_speed: servo.feetech.goal_speed.or(STS3215.goal_speed),
        delay_ms: servo.feetech.delay_ms.unwrap_or(STS3215.delay_ms),
        ..STS3215
    }
}

fn check_own(i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let place = |key: &str| format!("servo[{i}].feetech.{key}");
    mit::check_model(i, servo, "STS3215", reader);
    let file = &servo.feetech;
    let Some(at) = written(i, "family", reader) else { return };
    if !file.unwatched {
        let title = "a Feetech has no watchdog";
        let problem = Problem::error(place("unwatched"), title)
            .at(at.clone(), "when this computer fails it holds its last target for ever")
            .help("have a switch at hand that cuts its power, and write `feetech.unwatched = true`");
        reader.problems.push(problem);
    }
    let is_known = file.model.is_none_or(|model| model.motor().is_some());
    if !is_known && (file.motor_constant.is_none() || file.motor_resistance.is_none()) {
        let problem = Problem::error(place("motor_constant"), "what its motor is must be specified")
            .at(at, "torques are calculated from it")
            .help("write `feetech.motor_constant`, N·m/A, and `feetech.motor_resistance`, Ω: both as of its output shaft");
        reader.problems.push(problem);
    }
}

/// Reported once for all real ones.
fn warn_of_unwatched(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let is_real = |servo: &ServoConfig| !robot.buses[servo.bus].link.is_emulated();
    let is_first =
        robot.servos.iter().position(|other| other.family == servo.family && is_real(other)) == Some(i);
    let span = written(i, "feetech.unwatched", reader).or_else(|| written(i, "feetech", reader));
    let Some(span) = span.filter(|_| is_first && servo.feetech.unwatched) else { return };
    let title = "without this computer Feetech servos hold their last target for ever";
    let problem = Problem::warning(format!("servo[{i}].feetech.unwatched"), title)
        .at(span, "they have no watchdog")
        .help("have a switch at hand that cuts their power");
    reader.problems.push(problem);
}
