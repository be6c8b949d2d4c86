//! The names of things on the network: keys of our own, and the layout that ROS 2 users with `rmw_zenoh` expect.

/// What all our keys begin with.
pub const SPACE: &str = "khz";

/// The longest name of a robot.
const LONGEST: usize = 64;

/// A robot's name as a part of keys: letters, digits, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RobotName(String);

impl RobotName {
    /// Checks a name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(name: &str) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        match name.len() {
            1..=LONGEST if name.bytes().all(is_plain) && !name.starts_with('-') => Ok(Self(name.to_owned())),
            _ => Err(format!(
                "the robot's name `{name}` cannot be part of a key: use 1 to {LONGEST} letters, digits, `_` and `-`, no `-` first \
                 (`[robot] name` of the robot file, or --name)"
            )),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A key of this robot.
    pub fn key(&self, rest: &str) -> String {
        format!("{SPACE}/{}/{rest}", self.0)
    }

    /// Below this key is who has a name in a domain of ROS 2. No robot's keys are there: no name begins with `@`.
    pub fn ros_key(domain: u32, ros: &str) -> String {
        format!("{SPACE}/@ros/{domain}/{ros}")
    }

    /// The name as ROS 2 allows it: letters, digits and `_`, with a letter in front.
    pub fn ros(&self) -> String {
        let name = self.0.replace('-', "_");
        if name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            name
        } else {
            format!("robot_{name}")
        }
    }
}

impl std::fmt::Display for RobotName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The robot of a key of ours, and what follows its name.
pub fn of_key(key: &str) -> Option<(RobotName, &str)> {
    let rest = key.strip_prefix(SPACE)?.strip_prefix('/')?;
    let (robot, rest) = rest.split_once('/')?;
    Some((RobotName::new(robot).ok()?, rest))
}

/// Whether a text can be one part of a key: not empty, and without what means something in key expressions.
pub fn is_part(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('@')
        && !text.contains(['/', '*', '$', '?', '#'])
        && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_change_a_key_are_refused() {
        for good in ["quad1", "a", "Left-Arm_2"] {
            assert_eq!(RobotName::new(good).unwrap().key("@up"), format!("khz/{good}/@up"));
        }
        for bad in ["", "a/b", "*", "a b", "ä", "@up", "a$*", "-all", &"x".repeat(65)] {
            assert!(RobotName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ros_gets_names_it_allows() {
        for (name, ros) in
            [("quad1", "quad1"), ("left-arm", "left_arm"), ("2legs", "robot_2legs"), ("_a", "robot__a")]
        {
            assert_eq!(RobotName::new(name).unwrap().ros(), ros);
        }
    }

    #[test]
    fn a_key_names_its_robot() {
        let quad = RobotName::new("quad1").unwrap();
        assert_eq!(of_key("khz/quad1/@bridge/7"), Some((quad, "@bridge/7")));
        for other in ["khz/quad1", "khz//x", "other/quad1/x", "khz/a b/x", "khzquad1/x/y", "khz/@ros/0/a/7"] {
            assert_eq!(of_key(other), None, "{other}");
        }
    }

    #[test]
    fn parts_of_keys() {
        assert!(is_part("run-2.tlog") && is_part("kp scale"));
        assert!(!["", "a/b", "a*", "$*", "a?b", "#", "@x", "a\n"].into_iter().any(is_part));
    }
}
