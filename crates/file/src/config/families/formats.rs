//! Whether the formats chosen for a moteus can carry what the rest of the file sets: limits and the watchdog.

use super::{at_least, at_most, written};
use crate::config::{Format, RobotConfig, ServoConfig};
use khz_settings::Problem;
use khz_settings::Reader;
use khz_wire::Class;
use std::f64::consts::TAU;

/// Below this rate a joint that follows the steps of its target is a third faster between them, Hz.
const SMOOTH_HZ: f64 = 50.0;

pub(super) fn check(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    if servo.query.position == Format::None
        && let Some(at) = written(i, "query.position", reader)
    {
        let problem = Problem::error(format!("servo[{i}].query.position"), "the position must be asked for")
            .at(at, "without it nothing can be controlled")
            .help("write \"float\", \"int32\" or \"int16\"");
        reader.problems.push(problem);
        return;
    }
    check_position(robot, i, servo, reader);
    check_speed(robot, i, servo, reader);
    check_torque_limit(i, servo, reader);
    check_watchdog(robot, i, servo, reader);
}

/// A position at the end of its format may be any beyond it, so one at a limit must not be.
fn check_position(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let Some(limits) = servo.limits.position else { return };
    let furthest = limits.map(|limit| (limit - servo.offset).abs()).into_iter().fold(0.0, f64::max);
    let measured = furthest + robot.supervisor.position_tolerance;
    for (key, format, most, more) in [
        ("query.position", servo.query.position, measured, ", with `position_tolerance`"),
        ("command.position", servo.command.position, furthest, ""),
    ] {
        let reach = format.greatest(Class::Position) * TAU;
        if format != Format::None
            && most >= reach
            && let Some(at) = written(i, key, reader)
        {
            let problem =
                Problem::error(format!("servo[{i}].{key}"), "the format is too small for the limits")
                    .at(at, format!("reaches {reach:.2} rad either way"))
                    .help("write \"int32\" or \"float\"");
            let label = format!("up to {most:.2} rad from the servo's zero{more}");
            reader.problems.push(match written(i, "limits.position", reader) {
                Some(limits) => problem.at(limits, label),
                None => problem,
            });
            return;
        }
    }
    let Some(format) = servo.command.position.resolution() else { return };
    let turns = limits.map(|limit| f64::from(servo.sign) * (limit - servo.offset) / TAU);
    let [low, high] = Class::Position.inside([turns[0].min(turns[1]), turns[0].max(turns[1])], format);
    if low > high
        && limits[0] < limits[1]
        && let Some(at) = written(i, "command.position", reader)
    {
        let step = Class::Position.lsb(format) * TAU;
        let problem = Problem::error(
            format!("servo[{i}].command.position"),
            "the format has no target between the limits",
        )
        .at(at, format!("steps of {step:.4} rad"))
        .help("write \"int32\" or \"float\"");
        reader.problems.push(problem);
    }
}

/// What a speed or torque limit allows but its format cannot carry is refused during the run.
fn check_speed(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let (limits, command) = (&servo.limits, &servo.command);
    for (limit, most, key, format, class, unit) in [
        ("velocity", limits.velocity, "velocity", command.velocity, Class::Velocity, "rad/s"),
        ("torque", limits.torque, "torque", command.torque, Class::Torque, "N·m"),
    ] {
        let turns = if class == Class::Velocity { TAU } else { 1.0 };
        let reach = format.greatest(class) * turns;
        if format != Format::None
            && most.is_some_and(|most| most > reach)
            && let Some(at) = written(i, &format!("command.{key}"), reader)
        {
            let title = "the format is smaller than the limit: a command beyond it brings the robot down";
            let problem = Problem::warning(format!("servo[{i}].command.{key}"), title)
                .at(at, format!("reaches {reach:.1} {unit} either way"))
                .help(format!("write \"int32\" or \"float\", or lower `limits.{limit}`"));
            reader.problems.push(problem);
        }
    }
    let step = limits.velocity.unwrap_or(0.0) * robot.timing.period_ns() as f64 * 1e-9;
    if robot.timing.rate_hz < SMOOTH_HZ
        && let Some(at) = written(i, "limits.velocity", reader)
    {
        let title =
            "the joint will be faster than `limits.velocity`: at this rate its target moves in large steps";
        let problem = Problem::warning(format!("servo[{i}].limits.velocity"), title)
            .at(at, format!("steps of {step:.3} rad at {} Hz", robot.timing.rate_hz))
            .help(format!("raise `rate_hz` to {SMOOTH_HZ} at least"));
        reader.problems.push(problem);
    }
    if limits.velocity.is_some()
        && servo.query.velocity == Format::None
        && let Some(at) = written(i, "query.velocity", reader)
    {
        let title = "`limits.velocity` cannot be watched: the servo is not asked for its velocity";
        let problem = Problem::warning(format!("servo[{i}].query.velocity"), title)
            .at(at, "the joint may be faster unnoticed")
            .help("write \"int16\"");
        reader.problems.push(problem);
    }
}

/// A limit below the format's step would be sent as 0: the joint would be limp.
fn check_torque_limit(i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let step = servo.command.max_torque.step(Class::Torque);
    let Some(limit) = servo.limits.torque.filter(|limit| *limit > 0.0 && *limit < step) else { return };
    let keys = ["command.max_torque", "limits.torque"];
    let [format, place] = keys.map(|key| written(i, key, reader));
    let Some(span) = format.or(place) else { return };
    let title = "the format is too coarse for the torque limit: it would be sent as 0";
    let problem = Problem::error(format!("servo[{i}].command.max_torque"), title)
        .at(span, format!("steps of {step} N·m, a limit of {limit} N·m"))
        .help("write \"int16\" or \"float\"");
    reader.problems.push(problem);
}

fn check_watchdog(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let least = 2.0 * robot.timing.period_ns() as f64 * 1e-9;
    let (asked, format) = (servo.watchdog_s, servo.command.watchdog);
    let sent =
        format.resolution().map_or(asked, |format| Class::Time.decode(Class::Time.encode(asked, format)));
    if sent >= least {
        check_reach(i, servo, reader);
        return;
    }
    let span = written(i, "watchdog_s", reader).or_else(|| written(i, "command.watchdog", reader));
    let Some(span) = span.or_else(|| reader.span("loop.rate_hz")) else { return };
    let mut label = format!("a watchdog of {asked} s at {} Hz", robot.timing.rate_hz);
    if asked >= least {
        label += &format!(", sent as {} s in \"{}\"", at_most(sent), format.word());
    }
    let place = format!("servo[{i}].watchdog_s");
    let problem = Problem::error(place, "the servo would damp between two ticks").at(span, label);
    let help = format!("write at least two periods, {} s; 0.1 is usual", at_least(least));
    reader.problems.push(if asked >= least {
        problem.help(format!("{help}. `command.watchdog = \"int16\"` has steps of 1 ms"))
    } else {
        problem.help(help)
    });
}

/// What the format cannot carry is sent as the most that it can.
fn check_reach(i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let sent = servo.sent_watchdog_s();
    let Some(at) = written(i, "watchdog_s", reader).filter(|_| sent > 0.0 && sent < servo.watchdog_s) else {
        return;
    };
    let title = "the watchdog is longer than its format carries: the servo damps earlier";
    let (asked, sent, format) = (servo.watchdog_s, at_most(sent), servo.command.watchdog.word());
    let problem = Problem::warning(format!("servo[{i}].watchdog_s"), title)
        .at(at, format!("{asked} s, sent as {sent} s in \"{format}\""))
        .help(format!("write `command.watchdog = \"int16\"`, or a `watchdog_s` of {sent} at most"));
    reader.problems.push(problem);
}
