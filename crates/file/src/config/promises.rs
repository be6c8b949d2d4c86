//! What a file may set although it gives up a promise of `docs/safety.md`.

use super::families::written;
use super::{Format, Reaction, Reactions, Recover, RobotConfig, ServoConfig};
use khz_servo::{Family, FamilyName};
use khz_settings::{Problem, Reader};
use std::ops::Range;

/// What a servo moves on by until its watchdog is more than this many times `position_tolerance`: half a radian by default.
const FAR: f64 = 10.0;

/// No watchdog up to this is called long: it must outlast a few lost frames.
const USUAL_S: f64 = 0.1;

/// Reported for each of them.
const SEE: &str = "see safety.md";

/// One way to give up a promise.
struct Rule {
    /// The keys it comes from: it is reported at the first that is written, and not at all if none is.
    keys: &'static [&'static str],
    /// Whether a robot does so with one of its servos.
    applies: fn(&RobotConfig, &ServoConfig) -> bool,
    /// What happens.
    title: &'static str,
    /// What to do; `{RECOVERS}` stands for [`recovering`].
    help: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        keys: &["watchdog_s"],
        applies: |_, servo| servo.command.watchdog == Format::None,
        title: "`watchdog_s` is not sent: a servo cut off damps when its own `servo.default_timeout_s` is over, if ever",
        help: "write `command.watchdog = \"int16\"`, or remove `watchdog_s`",
    },
    Rule {
        keys: &["watchdog_s", "supervisor.damping_s"],
        applies: |robot, servo| servo.sent_watchdog_s() > robot.supervisor.damping_s,
        title: "`watchdog_s` is longer than `damping_s`: a servo cut off may still follow a position when the run is over",
        help: "write a `watchdog_s` shorter than `damping_s`; 0.1 is usual",
    },
    Rule {
        keys: &["watchdog_s"],
        applies: |robot, servo| {
            let is_far = way_cut_off(servo) > FAR * robot.supervisor.position_tolerance;
            servo.limits.position.is_some() && servo.watchdog_s > USUAL_S && is_far
        },
        title: "a servo cut off in motion may go on far beyond its limits: up to `limits.velocity` times `watchdog_s`",
        help: "write a shorter `watchdog_s`; 0.1 is usual",
    },
    Rule {
        keys: &["supervisor.recover"],
        applies: |robot, servo| {
            let first = robot.servos.iter().find(|servo| servo.timeout().is_none());
            robot.supervisor.recover == Recover::On && first.is_some_and(|first| std::ptr::eq(first, servo))
        },
        title: "`recover` does nothing: a servo cannot be switched on again within a run, or its joint not be brought back",
        help: "every servo needs `limits.velocity`, its velocity in its replies and a `watchdog_s`, and must be a {RECOVERS} (but no CyberGear)",
    },
    Rule {
        keys: &["supervisor.recover"],
        applies: |robot, servo| {
            let is_first = robot.servos.first().is_some_and(|first| std::ptr::eq(first, servo));
            robot.supervisor.recover == Recover::On
                && robot.supervisor.reactions.servo_fault != Reaction::Damp
                && is_first
        },
        title: "`recover` does nothing: a run goes on only where a fault of a servo would bring the robot down by damping",
        help: "write `servo_fault = \"damp\"` in `[supervisor.reactions]`, or leave it out",
    },
    Rule {
        keys: &["query.voltage"],
        applies: |_, servo| servo.query.voltage == Format::None,
        title: "the supply voltage is not asked for: a supply that sags brings the robot down only when a servo fails",
        help: "leave `query.voltage` out: int8 takes one byte of a reply",
    },
    Rule {
        keys: &["query.temperature"],
        applies: |_, servo| servo.query.temperature == Format::None,
        title: "the temperature is not asked for: heat lowers no torque and brings the robot down only when a servo fails",
        help: "leave `query.temperature` out: int8 takes one byte of a reply",
    },
    Rule {
        keys: &["command.kp_scale"],
        applies: |_, servo| servo.command.kp_scale == Format::None,
        title: "the position gain cannot be lowered: velocity and torque control bring the robot down",
        help: "write `kp_scale = \"int8\"`, unless no controller ever commands another share than 1",
    },
    Rule {
        keys: &["command.kd_scale"],
        applies: |_, servo| servo.command.kd_scale == Format::None,
        title: "the velocity gain cannot be lowered: a command with a `kd_scale` other than 1 brings the robot down",
        help: "write `kd_scale = \"int8\"`, unless no controller ever commands another share than 1",
    },
    Rule {
        keys: &["supervisor.position_tolerance"],
        applies: |robot, servo| {
            let width = servo.limits.position.map_or(f64::INFINITY, |[low, high]| high - low);
            robot.supervisor.position_tolerance > width
        },
        title: "`position_tolerance` is wider than `limits.position`: a joint may leave its limits unnoticed",
        help: "0.05 rad is usual",
    },
    Rule {
        keys: &["supervisor.velocity_factor"],
        applies: |robot, servo| servo.limits.velocity.is_some() && robot.supervisor.velocity_factor > 3.0,
        title: "a joint may be more than three times as fast as `limits.velocity` before the robot comes down",
        help: "1.5 is usual",
    },
    Rule {
        keys: &["supervisor.torque_control_hz"],
        applies: |robot, servo| {
            let limits = &servo.limits;
            robot.supervisor.torque_control_hz == 0.0
                && (limits.position.is_some() || limits.velocity.is_some())
        },
        title: "torque is taken at any rate: below 200 Hz it may drive joints far beyond their limits before it can be braked",
        help: "leave `torque_control_hz` at 200",
    },
    Rule {
        keys: &["supervisor.grace_s"],
        applies: |robot, _| robot.supervisor.grace_s > 5.0,
        title: "a silent IMU, overruns and a slow controller are forgiven for more than 5 s after arming",
        help: "0.5 s is usual",
    },
    Rule {
        keys: &["supervisor.stale_ms"],
        applies: |robot, servo| robot.supervisor.stale_ms.is_some_and(|ms| ms * 1e-3 > servo.watchdog_s),
        title: "`stale_ms` is longer than `watchdog_s`: a servo damps by itself before its silence brings the robot down",
        help: "write less than `watchdog_s`; 50 ms is usual",
    },
];

/// A reaction that only warns, and what happens then.
type Carelessness = (&'static str, fn(&Reactions) -> Reaction, &'static str);

const CARELESSNESS: &[Carelessness] = &[
    (
        "servo_fault",
        |of| of.servo_fault,
        "a servo that restarts on another turn is driven up to a turn too far",
    ),
    ("missed_replies", |of| of.missed_replies, "a robot goes on with a servo that is silent"),
    ("stale", |of| of.stale, "a robot goes on with old state"),
    ("bus_down", |of| of.bus_down, "a robot goes on when a bus dies"),
    ("overruns", |of| of.overruns, "a robot goes on with a loop that is late"),
    ("imu", |of| of.imu, "a robot goes on without its IMU"),
    ("tilt", |of| of.tilt, "a robot goes on when it falls over"),
    ("controller", |of| of.controller, "a robot goes on with a controller that is too slow"),
    ("heartbeat", |of| of.heartbeat, "a robot goes on without its operator"),
    ("voltage", |of| of.voltage, "a robot goes on until its supply fails"),
    ("temperature", |of| of.temperature, "a robot goes on until a hot servo faults"),
    ("position", |of| of.position, "a joint beyond its limits goes on"),
    ("velocity", |of| of.velocity, "a joint faster than its limit goes on"),
];

pub(super) fn check(robot: &RobotConfig, text: &str, reader: &mut Reader) {
    for rule in RULES {
        for (i, servo) in robot.servos.iter().enumerate() {
            if (rule.applies)(robot, servo)
                && let Some((place, span)) = place(i, rule, reader)
            {
                let warning = Problem::warning(place, rule.title).at(span, SEE);
                reader.problems.push(warning.help(rule.help.replace("{RECOVERS}", &recovering())));
            }
        }
    }
    for (name, reaction, what) in CARELESSNESS {
        let place = format!("supervisor.reactions.{name}");
        if reaction(&robot.supervisor.reactions) == Reaction::Warn
            && let Some(span) = reader.span(&place)
        {
            let warning = Problem::warning(place, *what).at(span, SEE);
            reader.problems.push(warning.help("write \"damp\", or know why this robot needs it"));
        }
    }
    if holds_something(robot) {
        for (place, span) in reactions_written(Reaction::Stop, text, reader) {
            let title = "every servo is switched off at once: what the joints hold falls";
            let warning = Problem::warning(place, title).at(span, SEE);
            let help =
                "write \"damp\"; `khz drill fall` measures how hard a body comes down with each reaction";
            reader.problems.push(warning.help(help));
        }
    }
}

/// The families whose servos may be switched on again within a run.
fn recovering() -> String {
    let may = |name: &FamilyName| {
        Family::named(*name).iter().any(|family| family.settings().timed_out_as().is_some())
    };
    let names = FamilyName::ALL.iter().filter(|name| may(name)).map(|name| name.title());
    names.collect::<Vec<_>>().join(" or ")
}

/// Its joints may carry a load when the power is cut. Wheels, which turn freely on purpose, do not.
fn holds_something(robot: &RobotConfig) -> bool {
    let is_wheel = |servo: &ServoConfig| servo.limits.position.is_none() && servo.limits.velocity.is_some();
    robot.body.is_some() || !robot.servos.iter().all(is_wheel)
}

/// The keys of `[supervisor.reactions]` at which this reaction is written.
pub(super) fn reactions_written(
    reaction: Reaction,
    text: &str,
    reader: &Reader,
) -> Vec<(String, Range<usize>)> {
    let places = Reactions::KEYS.iter().map(|key| format!("supervisor.reactions.{}", key.name));
    let written = places.filter_map(|place| reader.span(&place).map(|at| (place, at)));
    written.filter(|(_, at)| text.get(at.clone()).is_some_and(|it| it.contains(reaction.word()))).collect()
}

/// How far a servo cut off at its greatest speed moves on until its watchdog expires, rad. A moteus moves its target on with the
/// velocity. One in MIT mode holds its target: with a position gain its velocity leads it no further than kd/kp ahead.
fn way_cut_off(servo: &ServoConfig) -> f64 {
    let [kp, kd] = servo.gains();
    let moves_s = servo.sent_watchdog_s();
    let moves_s =
        if servo.in_file().facts().moves_target_on || kp <= 0.0 { moves_s } else { moves_s.min(kd / kp) };
    moves_s * servo.limits.velocity.unwrap_or(0.0)
}

/// The first key of the rule that is written, for this servo or for all.
fn place(i: usize, rule: &Rule, reader: &Reader) -> Option<(String, Range<usize>)> {
    rule.keys.iter().find_map(|&key| match key.starts_with("supervisor.") {
        true => reader.span(key).map(|span| (key.to_owned(), span)),
        false => written(i, key, reader).map(|span| (format!("servo[{i}].{key}"), span)),
    })
}
