//! Gains that do not suit a joint: tried on the plant, one joint at a time, with targets that move as fast as its limits allow.

use khz_emu::{Body, Drive, JointConfig, Joints};
use khz_file::RobotConfig;
use khz_file::config::ServoConfig;

/// Between two steps of the plant, s.
const STEP_S: f64 = 250e-6;
/// So long a target moves, at most, and the joint has to settle, s.
const MOVES_S: f64 = 1.0;

/// What the gains of a servo make of its joint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unfit {
    /// The joint jumps from target to target.
    Jumps {
        /// How fast it becomes, rad/s.
        fastest: f64,
        /// What brings the robot down, rad/s.
        tolerated: f64,
    },
    /// It goes beyond its limit by more than half of its range.
    Overshoots {
        /// How far, rad.
        past: f64,
        /// From limit to limit, rad.
        range: f64,
    },
}

/// The servos whose gains do not suit their joints, as far as the joints are known: emulated, or with an inertia in the file.
pub fn unfit(robot: &RobotConfig) -> Vec<(&ServoConfig, Unfit)> {
    let is_known = |servo: &&ServoConfig| {
        robot.buses[servo.bus].link.is_emulated() || servo.joint.inertia != JointConfig::default().inertia
    };
    robot.servos.iter().filter(is_known).filter_map(|servo| Some((servo, of_servo(servo, robot)?))).collect()
}

fn of_servo(servo: &ServoConfig, robot: &RobotConfig) -> Option<Unfit> {
    let velocity = servo.limits.velocity?;
    let (fastest, past) = moved(servo, velocity, 1.0 / robot.timing.rate_hz);
    let tolerated = robot.supervisor.velocity_factor * velocity;
    let range = servo.limits.position.map(|[low, high]| high - low);
    match range {
        _ if fastest > tolerated => Some(Unfit::Jumps { fastest, tolerated }),
        Some(range) if past > 0.5 * range => Some(Unfit::Overshoots { past, range }),
        _ => None,
    }
}

/// The greatest speed of a joint whose target moves to its limit at this speed, and how far it goes beyond.
fn moved(servo: &ServoConfig, velocity: f64, period_s: f64) -> (f64, f64) {
    let [kp, kd] = servo.gains();
    let way = servo.limits.position.map_or(f64::INFINITY, |[low, high]| high - low).min(velocity * MOVES_S);
    let most = servo.limits.torque.unwrap_or(f64::INFINITY);
    let mut plant = Joints::new(vec![JointConfig { start: -way, stops: None, gravity: 0.0, ..servo.joint }]);
    let (mut fastest, mut past) = (0.0_f64, 0.0_f64);
    let moving_s = way / velocity;
    for step in 0..((moving_s + MOVES_S) / STEP_S) as u32 {
        // A target stays until the next tick has sent another.
        let sent_s = (f64::from(step) * STEP_S / period_s).floor() * period_s;
        let target = (velocity * sent_s - way).min(0.0);
        let pull = (kp * (target - plant.joints()[0].position)).clamp(-most, most);
        plant.step(STEP_S, &[Drive { torque: pull, damping: kd }]);
        let joint = plant.joints()[0];
        (fastest, past) = (fastest.max(joint.velocity.abs()), past.max(joint.position));
    }
    (fastest, past)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fleet;
    use khz_file::draft::TEMPLATES;

    fn robot(gains: &str, more: &str) -> RobotConfig {
        let text = format!(
            "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"joint\"\nbus = \"main\"\nid = 1\ndevice = {{ {gains} }}\n{more}"
        );
        RobotConfig::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"))
    }

    fn found(robot: &RobotConfig) -> Vec<Unfit> {
        unfit(robot).into_iter().map(|(_, unfit)| unfit).collect()
    }

    #[test]
    fn the_gains_of_every_robot_that_comes_with_the_program_suit_its_joints() {
        let templates =
            TEMPLATES.iter().map(|template| RobotConfig::parse(template.text, template.name).unwrap());
        let fleet = Fleet::built_in().members.into_iter().map(|member| member.config);
        for robot in templates.chain(fleet) {
            assert_eq!(found(&robot), [], "{}", robot.name);
        }
    }

    #[test]
    fn a_joint_that_jumps_from_target_to_target_is_named_with_its_speed() {
        let text = "joint.inertia = 0.001\nlimits = { position = [-1, 1], velocity = 4 }\nwatchdog_s = 0.25\n[loop]\nrate_hz = 25";
        let jumps = found(&robot("kp = 100, kd = 0.1", text));
        assert!(
            matches!(jumps[..], [Unfit::Jumps { fastest, tolerated }] if fastest > tolerated && tolerated > 4.0),
            "{jumps:?}"
        );
        // The same gains in a faster loop.
        assert_eq!(found(&robot("kp = 100, kd = 0.4", &text.replace("rate_hz = 25", "rate_hz = 1000"))), []);
    }

    #[test]
    fn limits_narrower_than_the_overshoot_are_named() {
        let text = "joint.inertia = 0.05\nlimits = { position = [-0.02, 0.02], velocity = 8 }";
        let past = found(&robot("kp = 20, kd = 0.05", text));
        assert!(matches!(past[..], [Unfit::Overshoots { past, range: 0.04 }] if past > 0.02), "{past:?}");
        assert_eq!(found(&robot("kp = 20, kd = 2", text)), []);
    }

    #[test]
    fn a_joint_of_which_nothing_is_known_is_not_judged() {
        let text = "[bus.main]\nlink = \"socketcan\"\ninterface = \"can0\"\n[[servo]]\nname = \"joint\"\nbus = \"main\"\nid = 1\n\
                    family = \"damiao\"\ndamiao = { model = \"4310\", kp = 500, kd = 0 }\nlimits = { position = [-0.01, 0.01], velocity = 8 }";
        assert_eq!(found(&RobotConfig::parse(text, "test").unwrap()), []);
    }
}
