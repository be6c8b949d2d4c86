//! What the files of all servos in MIT mode have in common.

use super::{Facts, at_least, at_most, written};
use crate::config::{RobotConfig, ServoConfig};
use khz_servo::mit::Drive;
use khz_settings::{Problem, Reader};

/// What is so of them, whichever the family.
pub(super) const FACTS: Facts = Facts {
    own_keys: &[],
    tables: &[],
    example: "",
    sends_gains: true,
    fd_switch: None,
    factory_bit_rate: None,
    limits_torque: false,
    has_formats: false,
    by_registers: false,
    within_turn: false,
    rests_after_miss: false,
    moves_target_on: false,
    has_watchdog: true,
    reports_on: true,
    ids_refused: None,
};

/// What differs between the families.
pub(super) struct Mit {
    /// Codes and gains.
    pub drive: Drive,
    /// What limits the torque instead of the file.
    pub torque_limit: &'static str,
    /// What happens when the voltage is too low, as it is not watched.
    pub under_voltage: &'static str,
}

impl Mit {
    /// Of servos whose replies report a fault.
    pub(super) const fn of(drive: Drive, torque_limit: &'static str) -> Self {
        Self { drive, torque_limit, under_voltage: "their own under-voltage fault brings the robot down" }
    }
}

/// Checks what they have in common.
pub(super) fn check(robot: &RobotConfig, i: usize, servo: &ServoConfig, mit: &Mit, reader: &mut Reader) {
    check_link(robot, i, servo, mit, reader);
    check_gains(i, servo, &mit.drive, reader);
    check_reach(robot, i, servo, reader);
    check_rate(robot, servo, reader);
    check_still(robot, i, servo, reader);
}

/// A servo in MIT mode whose file does not name its model.
pub(super) fn check_model(i: usize, servo: &ServoConfig, example: &str, reader: &mut Reader) {
    if servo.model().is_none()
        && let Some(at) = written(i, "family", reader)
    {
        let key = format!("{}.model", servo.family.word());
        let problem = Problem::error(format!("servo[{i}].{key}"), "which motor it is must be specified")
            .at(at, "what its codes mean depends on the model")
            .help(format!("write for example `{key} = \"{example}\"`"));
        reader.problems.push(problem);
    }
}

/// What a link, and what a reply, does not carry of servos in MIT mode.
fn check_link(robot: &RobotConfig, i: usize, servo: &ServoConfig, mit: &Mit, reader: &mut Reader) {
    let place = |key: &str| format!("servo[{i}].{key}");
    let family = servo.family.title();
    if let Some(why) = robot.buses[servo.bus].link.bus().moteus_only()
        && let Some(span) = reader.span(&format!("bus.{}", servo.settings.bus))
    {
        let title = format!("this link does not carry the frames of {family} servos");
        let problem = Problem::error(place("bus"), title)
            .at(span, why)
            .help("connect them by `link = \"socketcan\"`, `link = \"slcan\"` or `link = \"fdcanusb\"`");
        reader.problems.push(problem);
    }
    if robot.supervisor.voltage_low_v > 0.0
        && let Some(span) = reader.span("supervisor.voltage_low_v")
    {
        let title = format!("{family} servos do not report their voltage");
        let problem = Problem::warning("supervisor.voltage_low_v", title)
            .at(span, "not watched for them")
            .help(mit.under_voltage);
        reader.problems.push(problem);
    }
    if servo.limits.torque.is_some()
        && let Some(span) = written(i, "limits.torque", reader)
    {
        let problem = Problem::error(place("limits.torque"), "this limit could not be enforced")
            .at(span, format!("the commands of {family} servos carry no greatest torque"))
            .help(format!(
                "move it to the servos of other families, if it is for them; {}",
                mit.torque_limit
            ));
        reader.problems.push(problem);
    }
}

/// A gain beyond the last code would be cut off silently.
fn check_gains(i: usize, servo: &ServoConfig, drive: &Drive, reader: &mut Reader) {
    let gains = [("kp", drive.kp, 0), ("kd", drive.kd, 1), ("damping", drive.damping, 1)];
    for (key, gain, which) in gains.into_iter().filter(|(_, gain, which)| *gain > drive.most[*which]) {
        let key = format!("{}.{key}", servo.family.word());
        let most = drive.most[which];
        let span = written(i, &key, reader).or_else(|| written(i, "family", reader));
        let Some(span) = span else { continue };
        let problem =
            Problem::error(format!("servo[{i}].{key}"), format!("this model takes gains up to {most}"))
                .at(span, format!("{gain} is more"))
                .help(format!("write {most} or less, or correct `{}.model`", servo.family.word()));
        reader.problems.push(problem);
    }
}

/// A joint that is limp for longer, s, is reported.
const LIMP_S: f64 = 0.02;

/// Before its first command its watchdog is read, and it is commanded to damp and to switch on, and reports that.
fn check_rate(robot: &RobotConfig, servo: &ServoConfig, reader: &mut Reader) {
    let limp_s = 4.0 * robot.timing.period_ns() as f64 * 1e-9;
    if limp_s > LIMP_S
        && let Some(span) = reader.span("loop.rate_hz")
    {
        let family = servo.family.title();
        let title =
            format!("joints of {family} servos are limp for {:.0} ms when control begins", limp_s * 1e3);
        let problem = Problem::warning("loop.rate_hz", title)
            .at(span, "they follow four periods after the controller has started")
            .help("support joints that fall, or write 200 or more");
        reader.problems.push(problem);
    }
}

/// What stands still must read as standing still.
pub(super) fn check_still(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let [_, step] = servo.family().settings().carries(&servo.mounting()).reported_steps;
    let still = robot.supervisor.still_velocity;
    let model = format!("{}.model", servo.family.word());
    let span = reader.span("supervisor.still_velocity").or_else(|| written(i, &model, reader));
    if let Some(span) = span.filter(|_| still < step) {
        let title =
            format!("`still_velocity` is below the {step:.3} rad/s that `{}` can tell from rest", servo.name);
        let problem = Problem::warning("supervisor.still_velocity", title)
            .at(span, "a joint that trembles never counts as still, and damping takes all of `damping_s`")
            .help(format!("write `still_velocity = {:.2}`", step * 1.05));
        reader.problems.push(problem);
    }
}

/// What the ranges of its codes do not reach.
pub(super) fn check_reach(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let carries = servo.family().settings().carries(&servo.mounting());
    if let Some([low, high]) = servo.limits.position
        && let Some(span) = written(i, "limits.position", reader)
    {
        let most =
            (low - carries.zero).abs().max((high - carries.zero).abs()) + robot.supervisor.position_tolerance;
        // Where none is commanded, the limits are watched alone.
        if carries.position > 0.0 && most >= carries.position {
            let problem = Problem::error(
                format!("servo[{i}].limits.position"),
                "the servo's range is too small for the limits",
            )
            .at(span, format!("up to {most:.2} rad from the servo's zero, with `position_tolerance`"))
            .help(format!(
                "positions travel up to {} rad either way{}",
                at_most(carries.position),
                if servo.in_file().facts().sends_gains {
                    format!("; see `{}.position_range`", servo.family.word())
                } else {
                    String::new()
                }
            ));
            reader.problems.push(problem);
        }
    }
    if let Some(limit) = servo.limits.velocity
        && limit >= carries.velocity
        && let Some(span) = written(i, "limits.velocity", reader)
    {
        let problem =
            Problem::error(format!("servo[{i}].limits.velocity"), "this limit could not be watched")
                .at(span, format!("velocities travel up to {} rad/s", at_most(carries.velocity)))
                .help("write less");
        reader.problems.push(problem);
    }
    let least = 2.0 * robot.timing.period_ns() as f64 * 1e-9;
    if servo.watchdog_s < least
        && let Some(span) = written(i, "watchdog_s", reader).or_else(|| reader.span("loop.rate_hz"))
    {
        let problem = Problem::error(
            format!("servo[{i}].watchdog_s"),
            "the servo would act by itself between two ticks",
        )
        .at(span, format!("a watchdog of {} s at {} Hz", servo.watchdog_s, robot.timing.rate_hz))
        .help(format!("write at least two periods, {} s; 0.1 is usual", at_least(least)));
        reader.problems.push(problem);
    }
}

pub(super) fn warn_of_unwatched(
    i: usize,
    servo: &ServoConfig,
    unwatched: bool,
    key: &str,
    reader: &mut Reader,
) {
    if unwatched && let Some(span) = written(i, key, reader) {
        let title = format!("without this computer `{}` may follow its last command for ever", servo.name);
        let problem = Problem::warning(format!("servo[{i}].{key}"), title)
            .at(span, "its watchdog is neither set nor checked")
            .help("set it with its maker's tool, and have a switch at hand that cuts its power");
        reader.problems.push(problem);
    }
}

/// A family whose watchdog no host sets: why, and what a person can do, who has to confirm that in the file.
pub(super) fn check_unwatched(
    i: usize,
    servo: &ServoConfig,
    unwatched: bool,
    [title, help]: &[&'static str; 2],
    reader: &mut Reader,
) {
    let key = format!("{}.unwatched", servo.family.word());
    if !unwatched && let Some(span) = written(i, "family", reader) {
        let problem = Problem::error(format!("servo[{i}].{key}"), *title)
            .at(span, "when this computer fails it may follow its last command for ever")
            .help(*help);
        reader.problems.push(problem);
    }
    warn_of_unwatched(i, servo, unwatched, &key, reader);
}

/// Where one replies another must not be commanded: `replies` has the key and the identifier.
pub(super) fn check_replies<'a>(
    commanded: impl Iterator<Item = &'a ServoConfig>,
    i: usize,
    servo: &ServoConfig,
    replies: (&str, u16),
    reader: &mut Reader,
) {
    let (key, identifier) = (format!("{}.{}", servo.family.word(), replies.0), replies.1);
    let taken = commanded.filter(|other| other.bus == servo.bus && u16::from(other.id) == identifier);
    let span = written(i, &key, reader).or_else(|| written(i, "id", reader));
    if let (Some(other), Some(span)) = (taken.last(), span) {
        let title = format!("its replies would be commands to `{}`", other.name);
        let problem = Problem::error(format!("servo[{i}].{key}"), title)
            .at(span, format!("replies have the identifier {identifier}"))
            .help("give the motor another identifier for its replies with its maker's tool");
        reader.problems.push(problem);
    }
}
