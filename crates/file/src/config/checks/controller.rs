//! Whether the controller fits the robot: its servos, limits and legs.

use crate::config::{
    ControllerConfig, FollowConfig, PolicyConfig, RobotConfig, ServoConfig, StandAndSquatParameters,
    WalkParameters,
};
use khz_controllers::policy::settings::Term;
use khz_controllers::walk::LONGEST;
use khz_servo::{Carries, Quantity};
use khz_settings::{Problem, Reader, suggestion};
use khz_targets::follow::Pair;
use std::ops::Range;

pub(super) fn check(robot: &RobotConfig, reader: &mut Reader) {
    match &robot.controller {
        ControllerConfig::StandAndSquat(legs) => check_stand_and_squat(robot, legs, reader),
        ControllerConfig::Walk(legs) => check_walk(robot, legs, reader),
        ControllerConfig::Targets => {
            check_targets(robot, reader);
            check_sticks(robot, reader);
        }
        ControllerConfig::Follow(follow) => {
            check_follow(robot, follow, reader);
            check_sticks(robot, reader);
        }
        ControllerConfig::Excite(_) => check_excite(robot, reader),
        ControllerConfig::Policy(policy) => check_observed(robot, policy, reader),
        ControllerConfig::Hold(_) | ControllerConfig::Sine(_) => {}
    }
    if !matches!(robot.controller, ControllerConfig::Targets | ControllerConfig::Follow(_)) {
        check_unused_socket(robot, reader);
    }
}

/// The servos report what a policy sees of them: otherwise its first observation is none.
fn check_observed(robot: &RobotConfig, policy: &PolicyConfig, reader: &mut Reader) {
    for (i, observe) in policy.observe.iter().enumerate() {
        let (term, path) = (observe.term, format!("controller.observe[{i}].term"));
        let (quantity, is_reported): (_, fn(Carries) -> bool) = match term {
            Term::JointVel => (Quantity::Velocity, |carries| carries.velocity_asked),
            Term::JointTorque => (Quantity::Torque, |carries| carries.torque_asked),
            _ => continue,
        };
        let silent = robot.servos.iter().find(|servo| !is_reported(servo.carries()));
        if let (Some(servo), Some(span)) = (silent, reader.span(&path)) {
            let (name, family) = (&servo.name, servo.family);
            let problem =
                Problem::error(path, format!("the policy sees `{term}`, which `{name}` does not report"))
                    .at(span, format!("`{name}`, of family {family}, is not asked for its {quantity}"))
                    .help(format!("ask it for that: `query.{quantity} = \"float\"`"));
            reader.problems.push(problem);
        }
    }
}

/// A program that sends targets would wait for an answer for ever.
fn check_unused_socket(robot: &RobotConfig, reader: &mut Reader) {
    let Some(span) = reader.span("targets.from") else { return };
    let what =
        format!("the controller `{}` follows no targets: nothing listens there", robot.controller.kind());
    let problem = Problem::warning("targets.from", what)
        .at(span, "of the controllers `targets` and `follow`")
        .help("remove it, or write `name = \"targets\"` below `[controller]`");
    reader.problems.push(problem);
}

/// What moves by commands from outside has limits.
fn check_targets(robot: &RobotConfig, reader: &mut Reader) {
    let unlimited = robot.servos.iter().find(|servo| servo.limits.velocity.is_none());
    if let (Some(servo), Some(span)) = (unlimited, reader.span("controller.name")) {
        let name = robot.controller.kind();
        let needs = format!("`{name}` needs `limits.velocity` of every servo");
        let problem = Problem::error("controller.name", needs)
            .at(span, format!("`{}` has none", servo.name))
            .help("write `limits = { velocity = … }` below `[servo_defaults]` or each `[[servo]]`");
        reader.problems.push(problem);
    }
}

/// A motion without a program or an operator stays within limits.
fn check_excite(robot: &RobotConfig, reader: &mut Reader) {
    let unlimited = |servo: &&ServoConfig| servo.limits.position.is_none() || servo.limits.velocity.is_none();
    let unlimited = robot.servos.iter().find(unlimited);
    if let (Some(servo), Some(span)) = (unlimited, reader.span("controller.name")) {
        let needs = "`excite` needs `limits.position` and `limits.velocity` of every servo";
        let problem = Problem::error("controller.name", needs)
            .at(span, format!("`{}` lacks one", servo.name))
            .help("write `limits = { position = […, …], velocity = … }` below `[servo_defaults]` or each `[[servo]]`");
        reader.problems.push(problem);
    }
}

/// Which joint each stick moves.
fn check_sticks(robot: &RobotConfig, reader: &mut Reader) {
    let names: Vec<&str> = robot.servos.iter().map(|servo| servo.name.as_str()).collect();
    let sticks = robot.targets.sticks.joints();
    for (at, (key, joint)) in sticks.into_iter().enumerate() {
        let path = format!("targets.sticks.{key}");
        let (Some(joint), Some(span)) = (joint, reader.span(&path)) else { continue };
        let other = sticks[..at].iter().find(|(_, other)| *other == Some(joint));
        let (why, help) = match other {
            _ if matches!(robot.controller, ControllerConfig::Follow(_)) => {
                ("no stick moves an arm that follows another one".to_owned(), "remove it".to_owned())
            }
            _ if !names.contains(&joint) => {
                (format!("there is no joint `{joint}`"), suggestion(joint, &names, "the joints are"))
            }
            Some((other, _)) => {
                (format!("`{other}` moves `{joint}` already"), "give each joint one stick".to_owned())
            }
            None => continue,
        };
        reader.problems.push(Problem::error(path, why).at(span, "moved by this stick").help(help));
    }
}

/// Who leads whom.
fn check_follow(robot: &RobotConfig, follow: &FollowConfig, reader: &mut Reader) {
    check_targets(robot, reader);
    let names: Vec<&str> = robot.servos.iter().map(|servo| servo.name.as_str()).collect();
    let (key, why, help) = match follow.pairs(&names) {
        Err((key, why)) => (key, why, "name as many joints in `leader` as in `follower`, each once"),
        Ok(pairs) if follow.feedback > 0.0 => {
            let most = |pair: &&Pair| follow.most_torque(robot.servos[pair.leader].limits.torque);
            if let Some(pair) = pairs.iter().find(|pair| most(pair).is_none()) {
                let why = format!("nothing limits the torque that `{}` is given back", names[pair.leader]);
                ("feedback", why, "write `feedback_torque = …` beside it, N·m")
            } else if let Some(why) = too_slow_for_torque(robot, &pairs) {
                ("feedback", why, "raise `loop.rate_hz`, or write `feedback = 0`")
            } else {
                return;
            }
        }
        Ok(_) => return,
    };
    let path = format!("controller.{key}");
    if let Some(span) = reader.span(&path).or(reader.span("controller.name")) {
        reader.problems.push(Problem::error(path, "these joints cannot follow").at(span, why).help(help));
    }
}

/// Why the first torque that is given back to a leader would bring the robot down, if it would.
fn too_slow_for_torque(robot: &RobotConfig, pairs: &[Pair]) -> Option<String> {
    let least_hz = robot.supervisor.torque_control_hz;
    let has_limits =
        |servo: &&ServoConfig| servo.limits.position.is_some() || servo.limits.velocity.is_some();
    let leader = pairs.iter().map(|pair| &robot.servos[pair.leader]).find(has_limits)?;
    (robot.timing.period_ns() as f64 * least_hz > 1e9).then(|| {
        format!(
            "below {least_hz} Hz (`supervisor.torque_control_hz`) `{}` takes no torque, as it has limits",
            leader.name
        )
    })
}

fn check_stand_and_squat(robot: &RobotConfig, legs: &StandAndSquatParameters, reader: &mut Reader) {
    let (Some(name), count) = (reader.span("controller.name"), robot.servos.len()) else { return };
    if count % 3 != 0 {
        let problem = Problem::error("controller.name", "`stand_and_squat` needs legs of three servos each")
            .at(name.clone(), format!("this robot has {count} servos"))
            .help("list hip, thigh and knee of each leg in this order, or choose another controller");
        reader.problems.push(problem);
    }
    if legs.stand_m >= 2.0 * legs.link_m || legs.squat_m + legs.lift_m >= legs.stand_m {
        let span = first_key(reader, &["squat_m", "lift_m", "stand_m", "link_m"]);
        let (link, stand) = (legs.link_m, legs.stand_m);
        let problem = Problem::error("controller", "the legs cannot do this")
            .at(span.unwrap_or(name), format!("standing at {stand} m on two links of {link} m"))
            .help("`squat_m` and `lift_m` together must be less than `stand_m`, and that less than twice `link_m`");
        reader.problems.push(problem);
    }
}

fn check_walk(robot: &RobotConfig, legs: &WalkParameters, reader: &mut Reader) {
    let (Some(name), count) = (reader.span("controller.name"), robot.servos.len()) else { return };
    if count != 12 {
        let problem = Problem::error("controller.name", "`walk` needs four legs of three servos each")
            .at(name.clone(), format!("this robot has {count} servos"))
            .help("list hip, thigh and knee of each leg in this order, or choose another controller");
        reader.problems.push(problem);
    }
    let (length, tall) = (legs.thigh_m + legs.shin_m, legs.stand_m + legs.height_m);
    if tall > LONGEST * length || legs.lift_m + legs.height_m >= legs.stand_m {
        let span = first_key(reader, &["lift_m", "height_m", "stand_m", "thigh_m", "shin_m"]);
        let problem = Problem::error("controller", "the legs cannot do this")
            .at(span.unwrap_or(name), format!("up to {tall:.3} m on legs of {length:.3} m"))
            .help(
                "`stand_m` and `height_m` together must be at most 0.9 of `thigh_m` and `shin_m` together, and `lift_m` and \
                 `height_m` together less than `stand_m`",
            );
        reader.problems.push(problem);
    }
}

/// Where the first of these keys of the controller that the file has is.
fn first_key(reader: &Reader, keys: &[&str]) -> Option<Range<usize>> {
    keys.iter().find_map(|key| reader.span(&format!("controller.{key}")))
}
