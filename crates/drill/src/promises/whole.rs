//! Trials with the whole emulated robot.

use crate::fall;
use crate::rig::Rig;
use khz_robot::config::Limits;
use khz_robot::supervisor::SupervisorSettings;
use khz_robot::time::VirtualTime;
use khz_robot::{ControlError, Controller, PositionCommand, RobotConfig, RobotState, ServoCommand};

/// The impact may be so many times that with the default.
const HARDER: f64 = 1.3;
/// A joint under torque may be so many times faster than at which it brings the robot down.
const OVER: f64 = 1.1;
/// For so long torques are commanded, s.
const PUSHED_S: f64 = 2.0;

/// How hard a robot with a body comes down after a servo's fault.
pub fn fall(robot: &RobotConfig) -> Option<String> {
    let defaults = SupervisorSettings::default();
    let mut usual = robot.clone();
    let to = &mut usual.supervisor;
    (to.damping_s, to.still_velocity, to.still_s) =
        (defaults.damping_s, defaults.still_velocity, defaults.still_s);
    let [reached, promised] = [impact(robot)?, impact(&usual)?];
    (reached > HARDER * promised).then(|| {
        format!(
            "after a servo's fault the trunk meets the ground at {reached:.2} m/s; with the defaults of `damping_s`, `still_velocity` and \
             `still_s` it is {promised:.2} m/s"
        )
    })
}

/// Speed of the trunk, m/s; `None` without one, or if it never touches the ground.
fn impact(robot: &RobotConfig) -> Option<f64> {
    robot.body.as_ref()?;
    fall::after_fault(robot).ok()?.contact_speed
}

/// How fast torque control makes the joints of a loop that takes torques.
pub fn torque(robot: &RobotConfig) -> Option<String> {
    let mut robot = robot.clone();
    // Joints by themselves: a robot on legs would fall over.
    robot.body = None;
    let ticks = (PUSHED_S * robot.timing.rate_hz) as u64;
    let limits = robot.servos.iter().map(|servo| servo.limits.clone()).collect();
    let mut rig = Rig::new(&robot, Box::new(Push { limits }), &[], VirtualTime::new(0)).ok()?;
    let mut fastest = vec![0.0; robot.servos.len()];
    for _ in 0..ticks {
        rig.tick(None, 0);
        for (fastest, joint) in fastest.iter_mut().zip(rig.stage().world.body().joints()) {
            *fastest = joint.velocity.abs().max(*fastest);
        }
    }
    let factor = robot.supervisor.velocity_factor;
    let over = fastest.iter().zip(&robot.servos).filter_map(|(&fastest, servo)| {
        let limit = servo.limits.velocity?;
        let promised = factor * limit;
        (fastest > OVER * promised).then_some((fastest / limit, fastest, limit, promised, &servo.name))
    });
    let (_, fastest, limit, promised, name) = over.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!(
        "torque control drives {name} at {fastest:.1} rad/s with a limit of {limit} rad/s before it is braked; {promised:.1} rad/s is \
         promised"
    ))
}

/// Torques towards both ends in turn.
struct Push {
    limits: Vec<Limits>,
}

impl Controller for Push {
    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let way = if ((state.time() / 0.5) as u64).is_multiple_of(2) { 1.0 } else { -1.0 };
        for (command, limits) in commands.iter_mut().zip(&self.limits) {
            let torque = way * limits.torque.unwrap_or(1.0);
            let free = PositionCommand { kp_scale: 0.0, kd_scale: 0.0, ..PositionCommand::hold(f64::NAN) };
            *command = ServoCommand::Position(PositionCommand { torque, ..free });
        }
        Ok(())
    }
}
