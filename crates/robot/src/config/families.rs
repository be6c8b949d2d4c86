//! Whether what a file says fits the families of its servos.

use super::formats::written;
use super::{FamilyName, RobotConfig, ServoConfig};
use khz_servo::{Family, damiao, robstride};
use khz_settings::{Problem, Reader};

/// Keys of a servo that mean something for one family only.
pub(super) const OWN: &[(&str, FamilyName)] = &[
    ("query", FamilyName::Moteus),
    ("command", FamilyName::Moteus),
    ("device.kp", FamilyName::Moteus),
    ("device.kd", FamilyName::Moteus),
    ("device.temperature_margin", FamilyName::Moteus),
    ("damiao", FamilyName::Damiao),
    ("robstride", FamilyName::Robstride),
    ("cubemars", FamilyName::Cubemars),
];

pub(super) fn check(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    check_keys(robot, i, servo, reader);
    check_bus(robot, i, servo, reader);
    check_id(i, servo, reader);
    match servo.family {
        FamilyName::Moteus => return,
        FamilyName::Damiao => check_damiao(robot, i, servo, reader),
        FamilyName::Robstride => check_robstride(robot, i, servo, reader),
        FamilyName::Cubemars => check_cubemars(robot, i, servo, reader),
    }
    check_mit(robot, i, servo, reader);
    check_gains(i, servo, reader);
    check_reach(robot, i, servo, reader);
    check_rate(robot, servo, reader);
    check_still(robot, i, servo, reader);
}

/// A key that the servo's family does not have would be dropped silently.
fn check_keys(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    for (key, family) in OWN.iter().filter(|(_, family)| *family != servo.family) {
        let of_all = !robot.servos.iter().any(|servo| servo.family == *family);
        let shared = reader.span(&format!("servo_defaults.{key}")).filter(|_| of_all);
        if let Some(span) = reader.span(&format!("servo[{i}].{key}")).or(shared) {
            let title = format!("`{key}` is for servos with `family = \"{family}\"`");
            let own = servo.family.word();
            let help = match *key {
                "damiao" | "robstride" | "cubemars" => format!("write `family = \"{family}\"`, or remove it"),
                "device.kp" | "device.kd" => {
                    format!("write `{own}.kp` and `{own}.kd`: its gains travel with every command")
                }
                _ => "remove it".to_owned(),
            };
            let problem = Problem::error(format!("servo[{i}].{key}"), title)
                .at(span, format!("`{}` is a {}", servo.name, servo.family))
                .help(help);
            reader.problems.push(problem);
        }
    }
}

/// Frames of one family may be commands to servos of another.
fn check_bus(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let other = robot.servos[..i].iter().find(|other| other.bus == servo.bus && other.family != servo.family);
    let span = written(i, "family", reader).or_else(|| reader.span(&format!("servo[{i}].name")));
    if let (Some(other), Some(span)) = (other, span) {
        let title = format!(
            "two families on bus `{}`: one may take the other's frames for commands",
            servo.settings.bus
        );
        let problem = Problem::error(format!("servo[{i}].family"), title)
            .at(span, format!("a {}, and `{}` is a {}", servo.family, other.name, other.family))
            .help("put each family on its own buses");
        reader.problems.push(problem);
    }
}

/// Every family has its own ids.
fn check_id(i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let ids = servo.family().by_hand().ids();
    if !ids.contains(&servo.id)
        && let Some(span) = written(i, "id", reader)
    {
        let (title, help) = match servo.family {
            FamilyName::Damiao => (
                "its replies carry only four bits of the id".to_owned(),
                "give the motor an id of 1 to 15 (its register 8)".to_owned(),
            ),
            family => {
                let most = ids.end();
                (format!("no {} has this id", family.title()), format!("ids are from 1 to {most}"))
            }
        };
        let problem = Problem::error(format!("servo[{i}].id"), title)
            .at(span, format!("more than {}", ids.end()))
            .help(help);
        reader.problems.push(problem);
    }
}

/// A servo in MIT mode whose file does not name its model.
fn model_missing(i: usize, servo: &ServoConfig, example: &str, reader: &mut Reader) {
    if servo.model().is_none()
        && let Some(at) = written(i, "family", reader)
    {
        let key = format!("{}.model", servo.family.word());
        let problem = Problem::error(format!("servo[{i}].{key}"), "which motor it is must be said")
            .at(at, "what its codes mean depends on the model")
            .help(format!("write for example `{key} = \"{example}\"`"));
        reader.problems.push(problem);
    }
}

/// What servos in MIT mode have in common.
fn check_mit(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
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
            .help("their own under-voltage fault brings the robot down");
        reader.problems.push(problem);
    }
    if servo.limits.torque.is_some()
        && let Some(span) = written(i, "limits.torque", reader)
    {
        let help = match servo.family {
            FamilyName::Damiao => {
                "remove it; the motor's own limit is its over-current threshold, register 3 (`OC_Value`)"
            }
            FamilyName::Robstride => {
                "remove it; the motor's own limit is its parameter 0x700B (`limit_torque`), which is read at the start"
            }
            _ => "remove it; the motor's own limits are set with its maker's tool",
        };
        let problem = Problem::error(place("limits.torque"), "this limit could not be enforced")
            .at(span, format!("no greatest torque travels to a {family} servo"))
            .help(help);
        reader.problems.push(problem);
    }
}

/// A gain beyond the last code would be cut off silently.
fn check_gains(i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let drive = match servo.family() {
        Family::Moteus(_) => return,
        Family::Damiao(settings) => settings.drive,
        Family::Robstride(settings) => settings.drive,
        Family::Cubemars(settings) => settings.drive,
    };
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

/// Sources differ on the ranges of some models, and no servo tells them.
fn check_robstride(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    model_missing(i, servo, "RS02", reader);
    let file = &servo.robstride;
    let Some(model) = file.model else { return };
    let facts = model.facts();
    let ranges = [
        ("velocity_range", file.velocity_range, facts.velocity, "rad/s"),
        ("torque_range", file.torque_range, facts.torque, "N·m"),
    ];
    for (key, written_range, [manual, package], unit) in ranges {
        let key = format!("robstride.{key}");
        if written_range.is_some() || manual == package {
            continue;
        }
        let Some(span) = written(i, "robstride.model", reader) else { continue };
        let title = format!("sources differ on what its codes mean: {manual} or {package} {unit}");
        let measured =
            if model == robstride::Model::Rs03 { "; five of them were measured at 20 rad/s" } else { "" };
        let problem = Problem::error(format!("servo[{i}].{key}"), title)
            .at(span, format!("a {model}: {manual} by its manual, {package} by its maker's Python package{measured}"))
            .help(format!(
                "write `{key} = {manual}`, move the joint by hand, and compare its velocity with its positions; `khz run` stops if \
                 they do not fit"
            ));
        reader.problems.push(problem);
    }
    if file.unwatched
        && model != robstride::Model::CyberGear
        && let Some(span) = written(i, "robstride.unwatched", reader)
    {
        let problem =
            Problem::error(format!("servo[{i}].robstride.unwatched"), "this key is for a CyberGear")
                .at(span, format!("the watchdog of an {model} is always set"))
                .help("remove it");
        reader.problems.push(problem);
    }
    warn_of_unwatched(i, servo, file.unwatched, "robstride.unwatched", reader);
    check_known_ranges(i, &ranges, reader);
    check_position_range(i, file.position_range, reader);
    check_host_id(robot, i, servo, reader);
}

/// Positions of all models travel within two turns either way; old firmware has a little less.
fn check_position_range(i: usize, range: Option<f64>, reader: &mut Reader) {
    if let Some(range) = range.filter(|range| !(12.4..12.6).contains(range))
        && let Some(span) = written(i, "robstride.position_range", reader)
    {
        let title = format!("no source has a range of {range} rad");
        let problem = Problem::warning(format!("servo[{i}].robstride.position_range"), title)
            .at(span, "every position would be wrong by that factor")
            .help("leave it out; firmware before 0.0.2.6 has 12.5");
        reader.problems.push(problem);
    }
}

/// A range that no source has for the model.
fn check_known_ranges(i: usize, ranges: &[(&str, Option<f64>, [f64; 2], &str)], reader: &mut Reader) {
    for (key, written_range, known, unit) in ranges {
        let key = format!("robstride.{key}");
        let is_known = |range: f64| known.iter().any(|known| (known - range).abs() < 0.01 * known);
        if let Some(range) = written_range.filter(|range| !is_known(*range))
            && let Some(span) = written(i, &key, reader)
        {
            let title = format!("no source has a range of {range} {unit} for this model");
            let problem = Problem::warning(format!("servo[{i}].{key}"), title)
                .at(span, "every code would be wrong by that factor")
                .help(format!("write {}, unless you have measured it", known[0]));
            reader.problems.push(problem);
        }
    }
}

/// Answers go to the id of the host that asked last.
fn check_host_id(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let host = servo.robstride.host_id;
    let Some(span) = written(i, "robstride.host_id", reader).or_else(|| written(i, "id", reader)) else {
        return;
    };
    let mut beside = robot.servos.iter().filter(|other| other.bus == servo.bus);
    let place = format!("servo[{i}].robstride.host_id");
    if let Some(other) = beside.clone().find(|other| other.id == host) {
        let problem = Problem::error(place, format!("`{}` has this id", other.name))
            .at(span, "this computer's id on the bus")
            .help("leave it out: 253 is no servo's");
        reader.problems.push(problem);
    } else if let Some(other) = beside.find(|other| other.robstride.host_id != host) {
        let problem = Problem::error(place, "one computer has one id on a bus")
            .at(span, format!("{host}, and for `{}` {}", other.name, other.robstride.host_id))
            .help("write it in `[servo_defaults]`, or leave it out");
        reader.problems.push(problem);
    }
}

fn warn_of_unwatched(i: usize, servo: &ServoConfig, unwatched: bool, key: &str, reader: &mut Reader) {
    if unwatched && let Some(span) = written(i, key, reader) {
        let title = format!("without this computer `{}` may follow its last command for ever", servo.name);
        let problem = Problem::warning(format!("servo[{i}].{key}"), title)
            .at(span, "its watchdog is neither set nor checked")
            .help("set it with its maker's tool, and have a switch at hand that cuts its power");
        reader.problems.push(problem);
    }
}

fn check_cubemars(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    model_missing(i, servo, "AK80-9", reader);
    let file = &servo.cubemars;
    if !file.unwatched
        && let Some(span) = written(i, "family", reader)
    {
        let title = "no host can read or set the watchdog of a CubeMars; from the factory it is off";
        let problem = Problem::error(format!("servo[{i}].cubemars.unwatched"), title)
            .at(span, "when this computer fails it may follow its last command for ever")
            .help(
                "set its \"CAN timeout\" with its maker's tool, have a switch at hand that cuts its power, and write \
                 `cubemars.unwatched = true`",
            );
        reader.problems.push(problem);
    }
    warn_of_unwatched(i, servo, file.unwatched, "cubemars.unwatched", reader);
    // Where one replies another must not be commanded. Its own identifier is possible.
    let beside = robot.servos.iter().filter(|other| other.bus == servo.bus && other.name != servo.name);
    let taken = beside.filter(|other| u16::from(other.id) == file.reply_id);
    let span = written(i, "cubemars.reply_id", reader).or_else(|| written(i, "id", reader));
    if let (Some(other), Some(span)) = ({ taken }.next_back(), span) {
        let title = format!("its replies would be commands to `{}`", other.name);
        let problem = Problem::error(format!("servo[{i}].cubemars.reply_id"), title)
            .at(span, format!("replies have the identifier {}", file.reply_id))
            .help("give the motor another identifier for its replies with its maker's tool");
        reader.problems.push(problem);
    }
}

fn check_damiao(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let place = |key: &str| format!("servo[{i}].{key}");
    model_missing(i, servo, "4310", reader);
    let Some(at) = written(i, "family", reader) else { return };
    let file = &servo.damiao;
    let other =
        robot.servos[..i].iter().find(|other| other.bus == servo.bus && other.damiao.can_fd != file.can_fd);
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
    let beside = robot.servos.iter().filter(|other| other.bus == servo.bus);
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

/// A joint that is limp for longer, s, is told of.
const LIMP_S: f64 = 0.02;

/// Its watchdog is read, it is told to damp and to switch on, and says so, before its first command.
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
fn check_still(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
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
fn check_reach(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let carries = servo.family().settings().carries(&servo.mounting());
    if let Some([low, high]) = servo.limits.position
        && let Some(span) = written(i, "limits.position", reader)
    {
        let most =
            (low - carries.zero).abs().max((high - carries.zero).abs()) + robot.supervisor.position_tolerance;
        if most >= carries.position {
            let problem = Problem::error(
                format!("servo[{i}].limits.position"),
                "the servo's range is too small for the limits",
            )
            .at(span, format!("up to {most:.2} rad from the servo's zero, with `position_tolerance`"))
            .help(format!(
                "positions travel up to {} rad either way; see `{}.position_range`",
                carries.position,
                servo.family.word()
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
                .at(span, format!("velocities travel up to {} rad/s", carries.velocity))
                .help("write less");
        reader.problems.push(problem);
    }
    let least = 2.0 * robot.timing.period_ns() as f64 * 1e-9;
    if servo.watchdog_s < least
        && let Some(span) = written(i, "watchdog_s", reader).or_else(|| reader.span("loop.rate_hz"))
    {
        let problem =
            Problem::error(format!("servo[{i}].watchdog_s"), "the servo would go limp between two ticks")
                .at(span, format!("a watchdog of {} s at {} Hz", servo.watchdog_s, robot.timing.rate_hz))
                .help(format!("write at least two periods, {least} s; 0.1 is usual"));
        reader.problems.push(problem);
    }
}
