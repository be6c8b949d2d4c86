//! The servos: their names and ids, their limits, and the joints that are emulated.

use super::buses::check_bus_name;
use crate::config::{RobotConfig, ServoConfig, Uncertainty, families};
use khz_settings::{Problem, Reader};
use khz_targets::mean;
use serde_json::json;
use std::f64::consts::TAU;

pub(super) fn check(robot: &RobotConfig, reader: &mut Reader) {
    check_names(robot, reader);
    check_ids(robot, reader);
    for (i, servo) in robot.servos.iter().enumerate() {
        check_bus_of(robot, i, servo, reader);
        check_limits(i, servo, reader);
        check_jerk(robot, i, servo, reader);
        families::check(robot, i, servo, reader);
        check_joint(i, servo, reader);
        check_uncertainty(i, servo, reader);
    }
}

fn check_names(robot: &RobotConfig, reader: &mut Reader) {
    for (i, servo) in robot.servos.iter().enumerate() {
        let Some(span) = reader.span(&format!("servo[{i}].name")) else { continue };
        let name = &servo.settings.name;
        if !is_identifier(name) {
            let problem = Problem::error(format!("servo[{i}].name"), format!("`{name}` cannot name a servo"))
                .at(span, "not a name")
                .help(format!("use letters, digits and `_`, first a letter: `{}`", identifier(name)));
            reader.problems.push(problem);
        } else if let Some(first) = robot.servos[..i].iter().position(|other| other.settings.name == *name)
            && let Some(first) = reader.span(&format!("servo[{first}].name"))
        {
            let problem =
                Problem::error(format!("servo[{i}].name"), format!("two servos are called `{name}`"))
                    .at(span, "the second")
                    .at(first, "the first")
                    .help("give each servo its own name");
            reader.problems.push(problem);
        }
    }
}

/// `[A-Za-z][A-Za-z0-9_]*`
fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The nearest name that is allowed.
pub(crate) fn identifier(name: &str) -> String {
    let cleaned: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if cleaned.starts_with(|c: char| c.is_ascii_alphabetic()) { cleaned } else { format!("joint_{cleaned}") }
}

fn check_ids(robot: &RobotConfig, reader: &mut Reader) {
    for (i, servo) in robot.servos.iter().enumerate() {
        let Some(span) = reader.span(&format!("servo[{i}].id")) else { continue };
        let same = |other: &ServoConfig| other.id == servo.id && other.settings.bus == servo.settings.bus;
        let Some(first) = robot.servos[..i].iter().position(same) else { continue };
        let Some(first_span) = reader.span(&format!("servo[{first}].id")) else { continue };
        let (bus, id) = (&servo.settings.bus, servo.id);
        let used: Vec<u8> = robot.servos.iter().filter(|s| s.settings.bus == *bus).map(|s| s.id).collect();
        let free = (1..=126).find(|id| !used.contains(id)).unwrap_or(126);
        let problem =
            Problem::error(format!("servo[{i}].id"), format!("two servos have id {id} on bus `{bus}`"))
                .at(span, format!("`{}`", servo.settings.name))
                .at(first_span, format!("`{}`", robot.servos[first].settings.name))
                .help(format!("ids on one bus must differ; {free} is free"));
        reader.problems.push(problem);
    }
}

fn check_bus_of(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let place = format!("servo[{i}].bus");
    let Some(span) = reader.span(&place).or_else(|| reader.span("servo_defaults.bus")) else { return };
    check_bus_name(&servo.settings.bus, &place, span, robot, reader);
}

fn check_limits(i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let place = format!("servo[{i}].limits.position");
    let Some(span) = reader.span(&place).or_else(|| reader.span("servo_defaults.limits.position")) else {
        return;
    };
    let Some([low, high]) = servo.limits.position else { return };
    if low >= high {
        let problem = Problem::error(place, "the position limits are the wrong way round")
            .at(span, format!("from {low} to {high} rad is an empty range"))
            .help(format!("write the least first: `position = [{high:?}, {low:?}]`"));
        reader.problems.push(problem);
    } else if low.abs().max(high.abs()) > 2.0 * TAU && low.fract() == 0.0 && high.fract() == 0.0 {
        let (low, high) = (low.to_radians(), high.to_radians());
        let problem = Problem::warning(place, "these position limits look like degrees")
            .at(span, "more than two turns")
            .help(format!("positions are in rad: {low:.4} to {high:.4} if these are degrees"));
        reader.problems.push(problem);
    }
}

/// A jerk is limited by a mean over many ticks; see [`mean`].
fn check_jerk(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let (place, dt) = (format!("servo[{i}].limits.jerk"), robot.timing.period_ns() as f64 * 1e-9);
    let (Some(jerk), Some(span)) = (servo.limits.jerk, families::written(i, "limits.jerk", reader)) else {
        return;
    };
    let Some(acceleration) = servo.limits.greatest_acceleration() else {
        let problem = Problem::error(place, "a limit of jerk needs one of acceleration")
            .at(span, "of which acceleration?")
            .help("give `limits.acceleration`, or `limits.velocity`, which is reached within 0.1 s");
        return reader.problems.push(problem);
    };
    let ticks = mean::ticks(acceleration, jerk, dt);
    if ticks > mean::MOST {
        let least = (2.0 * acceleration / (mean::MOST as f64 * dt)).ceil();
        let problem = Problem::error(place, "`limits.jerk` is too low for this acceleration")
            .at(span, format!("a mean of {ticks} ticks, and {} are the most", mean::MOST))
            .help(format!("write at least `jerk = {least}`, or a lower `acceleration` than {acceleration}"));
        reader.problems.push(problem);
    }
}

fn check_joint(i: usize, servo: &ServoConfig, reader: &mut Reader) {
    if servo.sign == 0
        && let Some(span) =
            reader.span(&format!("servo[{i}].sign")).or_else(|| reader.span("servo_defaults.sign"))
    {
        let problem =
            Problem::error(format!("servo[{i}].sign"), "a sign is 1 or -1").at(span, "not 0").help("write 1");
        reader.problems.push(problem);
    }
    if servo.joint.backlash > 0.0 && servo.joint.armature == 0.0 {
        let place = format!("servo[{i}].joint.backlash");
        if let Some(span) = reader.span(&place).or_else(|| reader.span("servo_defaults.joint.backlash")) {
            let problem = Problem::error(place, "play without a rotor on its other side")
                .at(span, "`armature` is 0")
                .help("write the rotor's inertia as felt at the output, such as `armature = 0.001`");
            reader.problems.push(problem);
        }
    }
    let Some([low, high]) = servo.joint.stops else { return };
    let place = format!("servo[{i}].joint.stops");
    let Some(span) = reader.span(&place).or_else(|| reader.span("servo_defaults.joint.stops")) else {
        return;
    };
    let start = servo.joint.start;
    if low >= high {
        let problem = Problem::error(place, "the end stops are the wrong way round")
            .at(span, format!("from {low} to {high} rad is an empty range"))
            .help(format!("write the least first: `stops = [{high:?}, {low:?}]`"));
        reader.problems.push(problem);
    } else if !(low..=high).contains(&start) {
        let problem = Problem::error(place, "the joint starts beyond its end stops")
            .at(span, format!("it starts at {start} rad"))
            .help(format!("set `joint.start` between {low} and {high}"));
        reader.problems.push(problem);
    }
}

/// What the emulated joint does not have, or has as 0, cannot be drawn.
fn check_uncertainty(i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let drawn = servo.uncertain();
    let is_drawn = |key: &str| drawn.iter().any(|one| one.name == format!("{}.{key}", servo.name));
    let deviations = json!(servo.uncertainty);
    let unused = |key: &&str| deviations[key].as_f64().is_some_and(|by| by > 0.0) && !is_drawn(key);
    for key in Uncertainty::names().into_iter().filter(|key| unused(key)) {
        let shared = format!("servo_defaults.uncertainty.{key}");
        let place = format!("servo[{i}].uncertainty.{key}");
        let Some(span) = reader.span(&place).or_else(|| reader.span(&shared)) else { continue };
        let problem = Problem::error(place, format!("`{key}` has an uncertainty and no value"))
            .at(span, format!("of `{}` it is not there, or 0", servo.name))
            .help(format!("write its `{key}`, or remove this"));
        reader.problems.push(problem);
    }
}
