//! What a controller knows of its robot.

use crate::parameters::Parameter;
use crate::supervisor::Limits;

/// What a controller knows of its robot before the loop starts.
#[derive(Clone, Debug)]
pub struct RobotInfo {
    /// Name of the robot.
    pub name: String,
    /// The period, ns.
    pub period_ns: i64,
    /// Its joints, in the order of states and commands.
    pub joints: Vec<JointInfo>,
    /// It has an IMU.
    pub has_imu: bool,
    /// What `[parameters]` of the robot file declares, for controllers that keep it.
    pub parameters: Vec<Parameter>,
}

/// One joint.
#[derive(Clone, Debug, PartialEq)]
pub struct JointInfo {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub limits: Limits,
    /// Position and velocity gain of its servo, N·m/rad and N·m·s/rad; `None`: the servo has its own.
    pub gains: Option<[f64; 2]>,
    /// Greatest torque that it may be commanded, N·m: its limit, or what its frames carry where there is none to write; `None`: no limit.
    pub torque: Option<f64>,
}

impl RobotInfo {
    /// A parameter that the robot file declares. Keep it: [`Parameter::get`] is the value in force.
    ///
    /// # Errors
    /// A text that explains how to declare it.
    pub fn parameter(&self, name: &str) -> Result<Parameter, super::ControlError> {
        let found = self.parameters.iter().find(|parameter| parameter.name == name);
        found.cloned().ok_or_else(|| {
            let text = format!(
                "the robot file declares no parameter `{name}`; write `{name} = {{ value = …, min = …, max = … }}` \
                 below `[parameters]`"
            );
            super::ControlError(text.into())
        })
    }

    /// The place of a joint in states and commands.
    ///
    /// # Errors
    /// A text that names the joints there are.
    pub fn joint(&self, name: &str) -> Result<usize, super::ControlError> {
        let names = || self.joints.iter().map(|joint| joint.name.as_str());
        names().position(|other| other == name).ok_or_else(|| {
            let known: Vec<&str> = names().collect();
            super::ControlError(
                format!("no joint is called `{name}`; the joints are `{}`", known.join("`, `")).into(),
            )
        })
    }
}
