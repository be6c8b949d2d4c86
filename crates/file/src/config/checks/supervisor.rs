//! Whether the supervisor can do what it is set to, and the kernel's watchdog with it.

use crate::config::{RESTART_UNSEEN, Reaction, RobotConfig, ServoConfig, promises};
use khz_settings::{Problem, Reader};

pub(super) fn check(robot: &RobotConfig, text: &str, reader: &mut Reader) {
    check_temperatures(robot, reader);
    check_missed_replies(robot, reader);
    check_derating(robot, text, reader);
    check_heartbeat(robot, reader);
}

fn check_temperatures(robot: &RobotConfig, reader: &mut Reader) {
    let supervisor = &robot.supervisor;
    let (soft, hard) = (supervisor.temperature_soft_c, supervisor.temperature_hard_c);
    let span = |key: &str| reader.span(&format!("supervisor.{key}"));
    if soft >= hard
        && let Some(at) = span("temperature_soft_c").or_else(|| span("temperature_hard_c"))
    {
        let problem =
            Problem::error("supervisor.temperature_soft_c", "derating would begin after it has ended")
                .at(at, format!("from {soft} °C to {hard} °C"))
                .help("`temperature_soft_c` must be below `temperature_hard_c`");
        reader.problems.push(problem);
    }
}

fn check_missed_replies(robot: &RobotConfig, reader: &mut Reader) {
    if robot.supervisor.missed_replies > RESTART_UNSEEN
        && let Some(at) = reader.span("supervisor.missed_replies")
    {
        let title = "a servo could lose its power and come back unseen, on another turn";
        let problem = Problem::warning("supervisor.missed_replies", title)
            .at(at, format!("more than {RESTART_UNSEEN} replies in a row may hide a restart"))
            .help("write 24 at the most, unless no servo can lose its power alone");
        reader.problems.push(problem);
    }
}

/// Heat lowers a servo's greatest torque: it needs one, and a family that takes it with each command.
fn check_derating(robot: &RobotConfig, text: &str, reader: &mut Reader) {
    let cannot = |servo: &&ServoConfig| {
        servo.limits.torque.is_none()
            || servo.in_file().facts().limits_torque && !servo.in_file().derates(servo)
    };
    if let Some(at) = reader.span("supervisor.temperature_soft_c")
        && let Some(servo) = robot.servos.iter().find(cannot)
    {
        let title = format!("heat cannot lower the torque of `{}`", servo.name);
        let problem = Problem::warning("supervisor.temperature_soft_c", title)
            .at(at, "unless the controller limits its torque, this does nothing for it")
            .help(
                "a moteus needs `limits.torque`, `command.max_torque` and `query.temperature`; others cannot",
            );
        reader.problems.push(problem);
    }
    let unlimited = |servo: &&ServoConfig| servo.limits.torque.is_none();
    if let Some(servo) = robot.servos.iter().find(unlimited) {
        for (place, at) in promises::reactions_written(Reaction::Derate, text, reader) {
            let title = format!("`derate` cannot lower the torque of `{}`", servo.name);
            let problem = Problem::warning(place, title)
                .at(at, "unless the controller limits its torque, this does nothing for it")
                .help("give it `limits.torque`");
            reader.problems.push(problem);
        }
    }
}

fn check_heartbeat(robot: &RobotConfig, reader: &mut Reader) {
    let supervisor = &robot.supervisor;
    let heartbeat = [
        ("heartbeat_ms", supervisor.heartbeat_ms.is_some()),
        ("heartbeat_from", supervisor.heartbeat_from.is_some()),
    ];
    for ((key, given), (other, other_given)) in [(heartbeat[0], heartbeat[1]), (heartbeat[1], heartbeat[0])] {
        if given
            && !other_given
            && let Some(at) = reader.span(&format!("supervisor.{key}"))
        {
            let problem = Problem::error(format!("supervisor.{key}"), format!("`{key}` needs `{other}`"))
                .at(at, "alone, this does nothing")
                .help("for example `heartbeat_ms = 500` and `heartbeat_from = \"udp:0.0.0.0:7757\"`");
            reader.problems.push(problem);
        }
    }
}

/// The kernel's watchdog is fed every 100 ms, or every two periods if that is longer.
pub(super) fn check_kernel_watchdog(robot: &RobotConfig, reader: &mut Reader) {
    let least = (4.0 * robot.timing.period_ns() as f64 * 1e-9).ceil();
    let (Some(timeout), Some(at)) = (robot.watchdog.timeout_s, reader.span("watchdog.timeout_s")) else {
        return;
    };
    if f64::from(timeout) < least {
        let problem = Problem::error("watchdog.timeout_s", "the computer could be reset between two ticks")
            .at(at, format!("{timeout} s at {} Hz", robot.timing.rate_hz))
            .help(format!("write at least four periods, {least} s"));
        reader.problems.push(problem);
    }
}
