//! Robots that differ a little: for learning what works on all of them.

use super::families::in_file;
use super::{LinkConfig, RobotBody, RobotConfig, ServoConfig, ServoSettings};
use khz_emu::{JointConfig, VoltageLaw};
use khz_settings::{section, words};
use serde_json::json;

words! {
    /// What differs from robot to robot, or from day to day.
    Variable {
        /// Time from the end of a request to the start of its reply, µs.
        Turnaround = "turnaround",
        /// Share of frames lost on every bus.
        Loss = "loss",
        /// Every reply arrives this much later, µs.
        Latency = "latency",
        /// Mass added to the trunk, kg.
        Payload = "payload",
        /// Friction of the ground.
        Friction = "friction",
        /// Torque per torque that the servos believe to give.
        MotorConstant = "motor_constant",
    }
}

section! {
    /// How well the values of an emulated joint are known, each as one standard deviation: `khz identify --write` writes it. `kilohertz.Env`
    /// draws joints by it (`randomise = {"joints": 1}`). 0: the value is always that of the file.
    #[derive(Copy)]
    Uncertainty {
        /// Of `joint.inertia`.
        inertia: f64 = 0.0, "kg·m²", 0.0 => 1000.0;
        /// Of `joint.armature`.
        armature: f64 = 0.0, "kg·m²", 0.0 => 1000.0;
        /// Of `joint.viscous`.
        viscous: f64 = 0.0, "N·m·s/rad", 0.0 => 1000.0;
        /// Of `joint.coulomb`.
        coulomb: f64 = 0.0, "N·m", 0.0 => 1000.0;
        /// Of `joint.load_friction`.
        load_friction: f64 = 0.0, "", 0.0 => 10.0;
        /// Of `joint.stribeck`.
        stribeck: f64 = 0.0, "N·m", 0.0 => 1000.0;
        /// Of `joint.stribeck_load`.
        stribeck_load: f64 = 0.0, "", 0.0 => 10.0;
        /// Of `joint.stribeck_speed`.
        stribeck_speed: f64 = 0.0, "rad/s", 0.0 => 1000.0;
        /// Of `joint.gravity`.
        gravity: f64 = 0.0, "N·m", 0.0 => 1000.0;
        /// Of `joint.gravity_at`.
        gravity_at: f64 = 0.0, "rad", 0.0 => 3.2;
        /// Of the servo's own `goal_speed`, such as `feetech.goal_speed`.
        goal_speed: f64 = 0.0, "rad/s", 0.0 => 1000.0;
        /// Of the servo's own `delay_ms`.
        delay_ms: f64 = 0.0, "ms", 0.0 => 100.0;
    }
}

/// What cannot be 0 or less, as a joint without inertia is none: these are drawn by their ratio to what the file has, as `khz identify` finds them.
const BY_RATIO: [&str; 4] = ["inertia", "armature", "stribeck_speed", "goal_speed"];

/// A value of an emulated joint that is not known exactly.
#[derive(Clone, Debug, PartialEq)]
pub struct Uncertain {
    /// The servo and the key: `elbow.coulomb`.
    pub name: String,
    key: &'static str,
    value: f64,
    deviation: f64,
}

impl Uncertain {
    /// What it is, so many standard deviations from what the file has, within what a robot file may have.
    pub fn drawn(&self, deviations: f64) -> f64 {
        let moved = if BY_RATIO.contains(&self.key) {
            self.value * (deviations * self.deviation / self.value).exp()
        } else {
            self.value + deviations * self.deviation
        };
        let keys = JointConfig::KEYS.iter().chain(VoltageLaw::KEYS);
        let range = keys.clone().find(|key| key.name == self.key).and_then(|key| key.range);
        range.map_or(moved, |(low, high)| moved.clamp(low, high))
    }
}

impl ServoConfig {
    /// Its uncertain values, in the order of their table; those that its emulation does not have are left out.
    pub(super) fn uncertain(&self) -> Vec<Uncertain> {
        let deviations = json!(self.uncertainty);
        let mut servo = self.settings.clone();
        let mut uncertain = |key: &'static str| {
            let deviation = deviations[key].as_f64().filter(|deviation| *deviation > 0.0)?;
            let value = *uncertain_value(&mut servo, key)?;
            let has_ratio = value > 0.0 || !BY_RATIO.contains(&key);
            has_ratio.then(|| Uncertain { name: format!("{}.{key}", self.name), key, value, deviation })
        };
        Uncertainty::KEYS.iter().filter_map(|key| uncertain(key.name)).collect()
    }
}

/// Where an emulated servo has what is uncertain; `None` if it has no such thing.
fn uncertain_value<'a>(servo: &'a mut ServoSettings, key: &str) -> Option<&'a mut f64> {
    match key {
        "inertia" => Some(&mut servo.joint.inertia),
        "armature" => Some(&mut servo.joint.armature),
        "viscous" => Some(&mut servo.joint.viscous),
        "coulomb" => Some(&mut servo.joint.coulomb),
        "load_friction" => Some(&mut servo.joint.load_friction),
        "stribeck" => Some(&mut servo.joint.stribeck),
        "stribeck_load" => Some(&mut servo.joint.stribeck_load),
        "stribeck_speed" => Some(&mut servo.joint.stribeck_speed),
        "gravity" => Some(&mut servo.joint.gravity),
        "gravity_at" => Some(&mut servo.joint.gravity_at),
        _ => in_file(servo.family).goal_law(servo, key),
    }
}

impl RobotConfig {
    /// What its emulated joints have that is not known exactly, in the order of the servos.
    pub fn uncertain(&self) -> Vec<Uncertain> {
        self.servos.iter().flat_map(ServoConfig::uncertain).collect()
    }

    /// Changes a value of one emulated joint, named as in [`Uncertain::name`].
    ///
    /// # Errors
    /// There is no such servo, or nothing of the kind in it.
    pub fn vary_joint(&mut self, servo: &str, key: &str, value: f64) -> Result<(), String> {
        let named = self.servos.iter_mut().find(|other| other.name == servo);
        let named = named.ok_or_else(|| format!("`{servo}.{key}`: the robot file has no servo `{servo}`"))?;
        let place = uncertain_value(&mut named.settings, key).ok_or_else(|| {
            let keys = Uncertainty::names().join("`, `");
            format!("`{servo}.{key}`: its emulated joint has no such value; there may be `{keys}`")
        })?;
        *place = value;
        Ok(())
    }

    /// Changes one setting of a robot file. [`RobotConfig::checked`] checks whether a file may contain that.
    ///
    /// # Errors
    /// The robot has nothing of the kind.
    pub fn vary(&mut self, what: Variable, value: f64) -> Result<(), String> {
        match what {
            Variable::Turnaround => self.emulated_links().for_each(|link| link.turnaround_us = value),
            Variable::Loss => self.buses.iter_mut().for_each(|bus| bus.faults.loss = value),
            Variable::Latency => self.buses.iter_mut().for_each(|bus| bus.faults.delay_us = value),
            Variable::MotorConstant => {
                let devices = self.servos.iter_mut().map(|servo| &mut servo.settings.device);
                devices.for_each(|device| device.motor_constant = value);
            }
            Variable::Payload | Variable::Friction => {
                let body = self.body.as_mut();
                body.ok_or_else(|| format!("`{what}` needs a `[body]` in the robot file"))?.vary(what, value);
            }
        }
        Ok(())
    }

    fn emulated_links(&mut self) -> impl Iterator<Item = &mut khz_emu::EmulatedLink> {
        self.buses.iter_mut().filter_map(|bus| match &mut bus.link {
            LinkConfig::Emulated(link) => Some(link),
            _ => None,
        })
    }
}

impl RobotBody {
    fn vary(&mut self, what: Variable, value: f64) {
        match (self, what) {
            (Self::Quadruped(body), Variable::Payload) => body.mass += value,
            (Self::Quadruped(body), _) => body.friction = value,
            (Self::Mujoco(body), Variable::Payload) => body.payload = value,
            (Self::Mujoco(body), _) => body.friction = Some(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_them_is_a_key_of_the_robot_file() {
        for what in Variable::ALL {
            let mut robot = RobotConfig::quadruped();
            robot.vary(*what, 0.5).unwrap();
            let (warnings, file) = (robot.warnings.clone(), robot.file.clone());
            let written = RobotConfig { warnings, file, ..robot.checked().unwrap() };
            assert_eq!(written, robot);
            assert_ne!(written, RobotConfig::quadruped(), "{what}");
        }
    }

    const ARM: &str = "[bus.arm]\nlink = \"emulated\"\nwire = \"feetech\"\nbaud = 1_000_000\n[servo_defaults]\nbus = \"arm\"\n\
        family = \"feetech\"\nfeetech = { model = \"STS3215\", unwatched = true, delay_ms = 20 }\njoint = { inertia = 0.02, coulomb = 0.05 }\n\
        [[servo]]\nname = \"pan\"\nid = 1\n[[servo]]\nname = \"tilt\"\nid = 2\nuncertainty = ";

    fn arm(uncertainty: &str) -> RobotConfig {
        RobotConfig::parse(&format!("{ARM}{uncertainty}"), "arm").unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_joint_is_drawn_with_the_deviation_of_the_file_and_stays_possible() {
        let robot = arm("{ inertia = 0.03, coulomb = 0.02, gravity_at = 0.1, goal_speed = 1, delay_ms = 3 }");
        let uncertain = robot.uncertain();
        let names: Vec<&str> = uncertain.iter().map(|one| one.name.as_str()).collect();
        let keys = ["inertia", "coulomb", "gravity_at", "goal_speed", "delay_ms"];
        assert_eq!(names, keys.map(|key| format!("tilt.{key}")));
        let drawn = |deviations: f64| uncertain.iter().map(move |one| one.drawn(deviations));
        // What is not written has the value that its emulation takes.
        assert_eq!(drawn(0.0).collect::<Vec<_>>(), [0.02, 0.05, 0.0, 4.9, 20.0]);
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-12, "{found}, not {wanted}");
        drawn(1.0)
            .zip([0.02 * 1.5_f64.exp(), 0.07, 0.1, 4.9 * (1.0 / 4.9_f64).exp(), 23.0])
            .for_each(|(a, b)| near(a, b));
        // No negative friction, no joint without inertia, no goal that takes effect before it came.
        assert!(drawn(-8.0).zip([1e-7, 0.0, -0.8, 0.0, 0.0]).all(|(found, least)| found >= least - 1e-12));
        for deviations in [-8.0, -1.0, 1.0, 8.0] {
            let mut varied = robot.clone();
            for (one, value) in uncertain.iter().zip(drawn(deviations)) {
                let (servo, key) = one.name.split_once('.').unwrap();
                varied.vary_joint(servo, key, value).unwrap();
            }
            let checked = varied.checked().unwrap_or_else(|error| panic!("{error}"));
            let found = |index: usize| checked.servos[index].joint.coulomb;
            assert_eq!([found(0), found(1)], [0.05, uncertain[1].drawn(deviations)]);
        }
    }

    #[test]
    fn what_is_known_exactly_is_not_drawn() {
        let mut robot = arm("{ inertia = 0 }");
        assert_eq!((robot.uncertain(), RobotConfig::quadruped().uncertain()), (Vec::new(), Vec::new()));
        assert!(robot.vary_joint("knee", "inertia", 1.0).unwrap_err().contains("no servo `knee`"));
        assert!(robot.vary_joint("tilt", "stops", 1.0).unwrap_err().contains("`coulomb`"));
    }
}
