//! Settings that give up a promise of `docs/safety.md`, found by what they do.
//!
//! Every trial lets something go wrong, in virtual time, and looks at what comes of it: most with the supervisor alone, where ticks cost
//! next to nothing, and some with the whole emulated robot. If a promise is not kept, but is with the default of a key, then
//! that key of the file gives it up. Nothing is tried for which every key has its default.

mod alone;
mod whole;

use khz_file::RobotConfig;
use khz_file::config::ServoConfig;
use khz_loop::supervisor::SupervisorSettings;

/// A key, or several together, by which a promise is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The keys, as in a robot file: `supervisor.tilt`.
    pub keys: Vec<String>,
    /// What was reached and what is promised, in one sentence.
    pub what: String,
}

/// A key of the robot file.
struct Key {
    name: &'static str,
    is_changed: fn(&RobotConfig) -> bool,
    reset: fn(&mut RobotConfig),
}

/// A key of `[supervisor]`.
macro_rules! key {
    ($name:ident) => {
        Key {
            name: concat!("supervisor.", stringify!($name)),
            is_changed: |robot| robot.supervisor.$name != SupervisorSettings::default().$name,
            reset: |robot| robot.supervisor.$name = SupervisorSettings::default().$name,
        }
    };
}

/// The gain with which servos in MIT mode are damped.
const DAMPING: Key = Key {
    name: "damping",
    is_changed: |robot| {
        let is_changed =
            |servo: &ServoConfig| damping_of(&mut servo.clone()).is_some_and(|of| *of != USUAL_DAMPING);
        robot.servos.iter().any(is_changed)
    },
    reset: |robot| robot.servos.iter_mut().filter_map(damping_of).for_each(|of| *of = USUAL_DAMPING),
};

/// The default of every family, N·m·s/rad.
const USUAL_DAMPING: f64 = 1.0;

/// Something that goes wrong, and the keys that decide what comes of it.
struct Trial {
    keys: &'static [Key],
    /// What was reached and what is promised, if that is not kept; nothing either if the robot has no part in it.
    run: fn(&RobotConfig) -> Option<String>,
}

const TRIALS: &[Trial] = &[
    Trial { keys: &[key!(missed_replies), key!(stale_ms)], run: alone::silent_servo },
    Trial { keys: &[key!(overruns)], run: alone::late_loop },
    Trial {
        keys: &[key!(controller_us), key!(controller_slow), key!(overruns)],
        run: alone::slow_controller,
    },
    Trial { keys: &[key!(imu_silent_ms)], run: alone::silent_imu },
    Trial { keys: &[key!(imu_frozen_ms)], run: alone::frozen_imu },
    Trial { keys: &[key!(tilt)], run: alone::on_its_side },
    Trial { keys: &[key!(heartbeat_ms)], run: alone::silent_operator },
    Trial { keys: &[key!(voltage_low_v)], run: alone::low_voltage },
    Trial { keys: &[key!(temperature_hard_c)], run: alone::hot_servo },
    Trial { keys: &[key!(position_tolerance)], run: alone::found_outside },
    Trial { keys: &[key!(answer_ticks)], run: alone::loose_contact },
    Trial { keys: &[key!(damping_s), key!(still_velocity), key!(still_s)], run: alone::moving_joints },
    Trial { keys: &[key!(derate_to)], run: alone::derated },
    Trial {
        keys: &[key!(damping_s), key!(still_velocity), key!(still_s), key!(derate_to), DAMPING],
        run: whole::fall,
    },
    Trial { keys: &[DAMPING], run: whole::sink },
    Trial { keys: &[key!(torque_control_hz)], run: whole::torque },
];

/// The promises that this file gives up. Takes no longer than the file needs: nothing for one without changed thresholds, up to about
/// a second for a robot with a body whose damping is another. Always the same for the same file.
pub fn broken(robot: &RobotConfig) -> Vec<Broken> {
    let mut found: Vec<Broken> = Vec::new();
    for broken in TRIALS.iter().filter_map(|trial| trial.broken(robot)) {
        // One sentence for a key is enough.
        if !found.iter().any(|other| other.keys == broken.keys) {
            found.push(broken);
        }
    }
    found
}

impl Trial {
    fn broken(&self, robot: &RobotConfig) -> Option<Broken> {
        let changed: Vec<&Key> = self.keys.iter().filter(|key| (key.is_changed)(robot)).collect();
        let what = (!changed.is_empty()).then(|| (self.run)(robot)).flatten()?;
        let alone = changed.iter().find(|key| self.holds_with_defaults(robot, &[key]));
        let keys = match alone {
            Some(key) => vec![*key],
            None if self.holds_with_defaults(robot, &changed) => changed,
            // Something else in the file is the reason.
            None => return None,
        };
        Some(Broken { keys: keys.iter().map(|key| key.name.to_owned()).collect(), what })
    }

    fn holds_with_defaults(&self, robot: &RobotConfig, keys: &[&Key]) -> bool {
        let mut robot = robot.clone();
        keys.iter().for_each(|key| (key.reset)(&mut robot));
        (self.run)(&robot).is_none()
    }
}

/// How strongly a servo is damped that has a gain of its own for that, N·m·s/rad.
fn damping_of(servo: &mut ServoConfig) -> Option<&mut f64> {
    servo.in_file().damping(&mut servo.settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fleet;
    use khz_file::config::{FamilyName, in_file, usual_servo};
    use khz_loop::supervisor::Reaction;

    /// A joint with an IMU, and this in its file.
    fn robot(more: &str) -> RobotConfig {
        let text = format!(
            "[bus.main]\nlink = \"emulated\"\n[imu]\nlink = \"emulated\"\n[[servo]]\nname = \"joint\"\nbus = \"main\"\nid = 1\n\
             limits = {{ position = [-1.0, 1.0], velocity = 4.0, torque = 3.0 }}\n{more}"
        );
        RobotConfig::parse(&text, "test").unwrap()
    }

    fn keys(robot: &RobotConfig) -> Vec<String> {
        broken(robot).into_iter().flat_map(|broken| broken.keys).collect()
    }

    #[test]
    fn no_promise_is_given_up_by_the_robots_of_the_fleet() {
        for member in Fleet::built_in().members {
            // A campaign's runs are short: that, too, is given up.
            let supervisor = SupervisorSettings {
                damping_s: SupervisorSettings::default().damping_s,
                ..member.config.supervisor.clone()
            };
            let robot = RobotConfig { supervisor, ..member.config };
            assert_eq!(broken(&robot), [], "{}", robot.name);
        }
    }

    #[test]
    fn the_usual_damping_is_the_default_of_every_family() {
        for &family in FamilyName::ALL.iter().filter(|&&name| in_file(name).facts().sends_gains) {
            let text = format!(
                "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"joint\"\nbus = \"main\"\nid = 1\n{}",
                usual_servo(family, ", kp = 10, kd = 1")
            );
            let mut robot = RobotConfig::parse(&text, "test").unwrap();
            assert_eq!(damping_of(&mut robot.servos[0]), Some(&mut 1.0), "{family}");
        }
    }

    #[test]
    fn a_setting_that_gives_a_promise_up_is_named_with_what_it_leads_to() {
        let cases = [
            ("missed_replies = 100000\nstale_ms = 1e5", "missed_replies"),
            ("overruns = 100000", "overruns"),
            ("controller_us = 1e6\noverruns = 100000", "controller_us"),
            ("controller_slow = 100000\noverruns = 100000", "controller_slow"),
            ("imu_silent_ms = 1e5", "imu_silent_ms"),
            ("imu_frozen_ms = 1e5", "imu_frozen_ms"),
            ("tilt = 3.2", "tilt"),
            ("tilt = 1.57", "tilt"),
            ("heartbeat_ms = 1e6\nheartbeat_from = \"stdin\"", "heartbeat_ms"),
            ("voltage_low_v = 4", "voltage_low_v"),
            ("temperature_hard_c = 200", "temperature_hard_c"),
            ("position_tolerance = 1.9", "position_tolerance"),
            ("answer_ticks = 1", "answer_ticks"),
            ("damping_s = 0.1", "damping_s"),
            ("still_velocity = 10", "still_velocity"),
            ("derate_to = 0\n[supervisor.reactions]\nservo_fault = \"derate\"", "derate_to"),
            ("derate_to = 0.001\n[supervisor.reactions]\nvoltage = \"derate\"", "derate_to"),
            ("derate_to = 0", "derate_to"),
            ("derate_to = 0.01", "derate_to"),
            ("derate_to = 1", "derate_to"),
            ("derate_to = 1\n[supervisor.reactions]\nservo_fault = \"derate\"", "derate_to"),
            ("derate_to = 1\n[supervisor.reactions]\nvoltage = \"derate\"", "derate_to"),
        ];
        for (text, key) in cases {
            let found = keys(&robot(&format!("[supervisor]\n{text}")));
            assert!(found.contains(&format!("supervisor.{key}")), "{text}: {found:?}");
        }
    }

    #[test]
    fn what_is_another_and_keeps_every_promise_is_not_warned_of() {
        let text = "missed_replies = 20\nstale_ms = 40\noverruns = 20\ncontroller_slow = 20\nimu_silent_ms = 50\nimu_frozen_ms = 50\n\
                    tilt = 1.3\nheartbeat_ms = 300\nheartbeat_from = \"stdin\"\nvoltage_low_v = 14\ntemperature_hard_c = 65\n\
                    position_tolerance = 0.1\nanswer_ticks = 20\ndamping_s = 5\nstill_velocity = 0.1\nstill_s = 0\n\
                    torque_control_hz = 100";
        assert_eq!(broken(&robot(&format!("[supervisor]\n{text}"))), []);
    }

    #[test]
    fn a_sentence_has_what_is_reached_and_what_is_promised() {
        let found = broken(&robot("[supervisor]\nposition_tolerance = 1.9"));
        let what = "a joint found at 2.9 rad is armed, although its limit is 1 rad; 1.05 rad is promised";
        assert_eq!(found, [Broken { keys: vec!["supervisor.position_tolerance".into()], what: what.into() }]);
    }

    #[test]
    fn torque_in_a_loop_that_cannot_brake_it_is_named_with_the_speed_it_leads_to() {
        let slow = robot(
            "joint.inertia = 0.01\nwatchdog_s = 0.25\n[loop]\nrate_hz = 20\n[supervisor]\ntorque_control_hz = 0.001",
        );
        let found = broken(&slow);
        assert_eq!(keys(&slow), ["supervisor.torque_control_hz"], "{found:?}");
        assert!(found[0].what.contains("rad/s") && found[0].what.contains("limit of 4"), "{found:?}");
    }

    #[test]
    fn a_descent_is_tried_with_a_dead_bus_and_a_supply_that_sags_too() {
        type Change = fn(&mut SupervisorSettings);
        let cases: [(Change, &str, &str); 2] = [
            (|it| it.damping_s = 0.25, "supervisor.damping_s", "a dead bus"),
            (
                |it| (it.derate_to, it.reactions.voltage) = (0.0, Reaction::Derate),
                "supervisor.derate_to",
                "the supply sags",
            ),
        ];
        for (change, key, what) in cases {
            let mut robot = RobotConfig::quadruped();
            change(&mut robot.supervisor);
            let found = broken(&robot);
            let it = found.iter().find(|broken| broken.keys.iter().any(|name| name == key));
            assert!(it.is_some_and(|it| it.what.contains(what)), "{key}: {found:?}");
        }
    }

    /// It was a power cut, until the positions showed that a leg sinks.
    #[test]
    fn a_great_still_velocity_alone_drops_no_robot() {
        let mut robot = RobotConfig::quadruped();
        (robot.supervisor.still_velocity, robot.supervisor.still_s) = (1.9, 0.0);
        let found = broken(&robot);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn servos_that_hardly_damp_are_named_with_the_speed_of_the_descent() {
        let robot = |damping: f64| {
            let text = format!(
                "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"joint\"\nbus = \"main\"\nid = 1\nfamily = \"damiao\"\n\
                 damiao = {{ model = \"4310\", kp = 40, kd = 1, damping = {damping} }}\nlimits = {{ position = [-1.0, 1.0], velocity = 4.0 }}"
            );
            RobotConfig::parse(&text, "test").unwrap()
        };
        for damping in [0.5, 1.0, 3.0] {
            assert_eq!(broken(&robot(damping)), [], "{damping}");
        }
        let found = broken(&robot(0.01));
        assert_eq!(found[0].keys, ["damping"], "{found:?}");
        assert!(found[0].what.contains("rad/s"), "{found:?}");
    }

    #[test]
    fn a_robot_that_is_switched_off_before_it_is_down_is_named_with_its_impact() {
        let mut robot = RobotConfig::quadruped();
        robot.supervisor.damping_s = 0.1;
        let found = broken(&robot);
        assert_eq!(keys(&robot), ["supervisor.damping_s"], "{found:?}");
        assert!(found[0].what.contains("m/s"), "{found:?}");
    }
}
