//! Dynamixel servos in a robot file.

use super::line::{self, Line};
use super::{Facts, InFile, mit, written};
use crate::config::{RobotConfig, ServoConfig, ServoSettings};
use khz_emu::dynamixel::{BACK_EMF, D_GAIN, Setup, VELOCITY_GAIN};
use khz_emu::{FamilyConfig, VoltageLaw};
use khz_servo::dynamixel::{DynamixelMode, DynamixelSettings, FULL_DUTY};
use khz_servo::{Family, dynamixel};
use khz_settings::{Problem, Reader};
use khz_wire::dynamixel::BAUDS;
use khz_wire::serial::Packets;

pub(super) struct Dynamixel;

const FACTS: Facts = Facts {
    own_keys: &["dynamixel"],
    tables: &[("`dynamixel` of a servo", DynamixelSettings::ABOUT, DynamixelSettings::KEYS)],
    example: "model = \"XL330-M288\", torque_constant = 0.35",
    sends_gains: false,
    limits_torque: true,
    within_turn: true,
    ..mit::FACTS
};

/// Share of the full output for a radian and a unit of the P gain: P·error/(256·885) with 4096 steps a turn, as recordings of an XL330 have it
/// (Rhoban/bam).
const OUTPUT: f64 = 0.002_877_4;

const LINE: Line =
    Line { packets: Packets::Dynamixel, bauds: &BAUDS, usual: "57600, 1000000, 2000000, 3000000 or 4000000" };

/// The baud rate in its table, 1 Mbit/s: that of its line is not compared.
const BAUD: u8 = 3;

impl InFile for Dynamixel {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn family(&self, servo: &ServoSettings) -> Family {
        Family::Dynamixel(dynamixel::Settings::of(&servo.dynamixel))
    }

    fn gain_keys(&self) -> [&'static str; 2] {
        ["position_p", "position_d"]
    }

    fn gains(&self, servo: &ServoSettings) -> [f64; 2] {
        let stiffness = stiffness_per_step(servo) * f64::from(servo.dynamixel.position_p);
        match servo.dynamixel.mode {
            DynamixelMode::Velocity => {
                [0.0, BACK_EMF + VELOCITY_GAIN * f64::from(servo.dynamixel.velocity_p)]
            }
            DynamixelMode::Current | DynamixelMode::Pwm => [0.0, servo.dynamixel.kd],
            _ => {
                let back_emf = motor(servo).map_or(BACK_EMF, |motor| motor.driven(0.0, 0.0).damping);
                [stiffness, back_emf + D_GAIN * f64::from(servo.dynamixel.position_d)]
            }
        }
    }

    fn most_torque(&self, servo: &ServoSettings) -> f64 {
        let stalled = |motor: VoltageLaw| motor.driven(setup(servo).nominal_v(), 1.0).torque;
        motor(servo).map_or_else(|| stiffness_per_step(servo) / OUTPUT, stalled)
    }

    fn voltage_law(&self, servo: &ServoSettings) -> Option<(VoltageLaw, f64)> {
        let law = motor(servo).filter(|_| servo.dynamixel.mode.has_positions())?;
        let share = f64::from(servo.dynamixel.pwm_limit) / FULL_DUTY;
        Some((VoltageLaw { gain: law.gain * f64::from(servo.dynamixel.position_p), ..law }, share))
    }

    fn goal_law<'a>(&self, servo: &'a mut ServoSettings, key: &str) -> Option<&'a mut f64> {
        motor(servo)?;
        match key {
            "goal_speed" => servo.dynamixel.goal_speed.as_mut(),
            "delay_ms" => Some(&mut servo.dynamixel.delay_ms),
            _ => None,
        }
    }

    fn damping<'a>(&self, _: &'a mut ServoSettings) -> Option<&'a mut f64> {
        None
    }

    fn model(&self, servo: &ServoSettings) -> Option<&'static str> {
        servo.dynamixel.model.map(dynamixel::DynamixelModel::word)
    }

    fn speaks_fd(&self, _: &ServoSettings) -> bool {
        false
    }

    fn derates(&self, servo: &ServoSettings) -> bool {
        servo.dynamixel.mode.limits_torque()
    }

    fn most_v(&self, servo: &ServoSettings) -> f64 {
        setup(servo).volts()[1]
    }

    /// As the run expects it, with new firmware.
    fn twin(&self, servo: &ServoConfig) -> FamilyConfig {
        let settings = dynamixel::Settings::of(&servo.dynamixel);
        FamilyConfig::Dynamixel(Setup {
            model: model(servo),
            firmware: 52,
            mode: settings.mode.number(),
            return_delay: settings.return_delay,
            baud: BAUD,
            torque_per_step: settings.torque_step,
            stiffness_per_step: stiffness_per_step(servo),
            motor: motor(servo),
            fault_c: servo.device.fault_temperature,
        })
    }

    fn check(&self, robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
        line::check(robot, i, servo, &LINE, reader);
        line::warn_of_supply(robot, i, servo, self.most_v(servo), reader);
        check_own(i, servo, reader);
        check_torque(i, servo, reader);
        mit::check_reach(robot, i, servo, reader);
        mit::check_still(robot, i, servo, reader);
    }
}

/// The number of its model.
fn model(servo: &ServoSettings) -> u16 {
    servo.dynamixel.model.map_or(Setup::default().model, |model| model.facts().number)
}

/// Its motor, if the file has one.
fn motor(servo: &ServoSettings) -> Option<VoltageLaw> {
    let DynamixelSettings { torque_constant, motor_resistance, sag, goal_speed, delay_ms, .. } =
        servo.dynamixel;
    let whole = motor_resistance?;
    Some(VoltageLaw {
        kt: torque_constant?,
        resistance: whole * (1.0 - sag),
        sag_resistance: whole * sag,
        gain: OUTPUT,
        goal_speed,
        delay_ms,
        ..VoltageLaw::default()
    })
}

/// N·m/rad for a unit of the P gain: at the nominal voltage of its motor, or as if full output were the torque at the limit of current.
fn stiffness_per_step(servo: &ServoSettings) -> f64 {
    if let Some(motor) = motor(servo) {
        return motor.driven(setup(servo).nominal_v(), OUTPUT).torque;
    }
    OUTPUT * dynamixel::Settings::of(&servo.dynamixel).torque_step * f64::from(setup(servo).most_current())
}

fn setup(servo: &ServoSettings) -> Setup {
    Setup { model: model(servo), ..Setup::default() }
}

fn check_own(i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let place = |key: &str| format!("servo[{i}].dynamixel.{key}");
    mit::check_model(i, servo, "XL330-M288", reader);
    let file = &servo.dynamixel;
    if let (None, Some(at)) = (file.torque_constant, written(i, "family", reader)) {
        let problem = Problem::error(place("torque_constant"), "what an ampere is worth must be specified")
            .at(at, "torques depend on it")
            .help("write `dynamixel.torque_constant`, N·m/A: stall torque divided by stall current, as its maker's page has them");
        reader.problems.push(problem);
    }
    if file.mode == DynamixelMode::Pwm
        && file.motor_resistance.is_none()
        && let Some(at) = written(i, "dynamixel.mode", reader).or_else(|| written(i, "dynamixel", reader))
    {
        let problem = Problem::error(place("motor_resistance"), "what its motor is must be specified")
            .at(at, "in this mode a torque is a duty, which is calculated from it")
            .help("write `dynamixel.motor_resistance`, Ω: its voltage divided by its stall current, as its maker's page has them, is a beginning");
        reader.problems.push(problem);
    }
    let measures = file.model.is_none_or(|model| model.facts().current_step.is_some());
    if file.mode.limits_torque()
        && !measures
        && let Some(at) = written(i, "dynamixel.mode", reader).or_else(|| written(i, "dynamixel", reader))
    {
        let title = match file.mode {
            // The servo has it, but a torque would be guessed.
            DynamixelMode::Pwm => "for mode `pwm` it must be known what an ampere of this model is worth",
            _ => "this model has no such mode",
        };
        let problem = Problem::error(place("mode"), title)
            .at(at, "it measures no current")
            .help("write `mode = \"position\"`, `\"extended_position\"` or `\"velocity\"`");
        reader.problems.push(problem);
    }
    let fast = file.model.is_none_or(|model| model.facts().fast_from.is_some());
    if file.fast == Some(true)
        && !fast
        && let Some(at) = written(i, "dynamixel.fast", reader)
    {
        let problem = Problem::error(place("fast"), "this model does not answer fast reads")
            .at(at, "whatever its firmware")
            .help("write `fast = false`");
        reader.problems.push(problem);
    }
    if !(LEAST_WATCHDOG_S..=MOST_WATCHDOG_S).contains(&servo.watchdog_s)
        && let Some(at) = written(i, "watchdog_s", reader)
    {
        let problem = Problem::error(format!("servo[{i}].watchdog_s"), "a Dynamixel has no such watchdog")
            .at(at, format!("{} s", servo.watchdog_s))
            .help(format!("write {LEAST_WATCHDOG_S} to {MOST_WATCHDOG_S} s, in steps of {LEAST_WATCHDOG_S}"));
        reader.problems.push(problem);
    }
}

/// What its watchdog counts, and the most it counts to, s.
const LEAST_WATCHDOG_S: f64 = 0.02;
const MOST_WATCHDOG_S: f64 = 2.54;

fn check_torque(i: usize, servo: &ServoConfig, reader: &mut Reader) {
    if servo.limits.torque.is_none() || servo.dynamixel.mode.limits_torque() {
        return;
    }
    let Some(span) = written(i, "limits.torque", reader) else { return };
    let problem = Problem::error(
        format!("servo[{i}].limits.torque"),
        "the torque limit would not be sent to the servo",
    )
    .at(span, "this limit could not be enforced")
    .help("write `dynamixel.mode = \"current_position\"`, or remove `limits.torque`");
    reader.problems.push(problem);
}
