//! Trials with the whole emulated robot.

use super::DAMPING;
use crate::fall::{self, Fault};
use crate::rig::Rig;
use khz_controllers::Hold;
use khz_file::RobotConfig;
use khz_loop::supervisor::{Cause, Limits, Phase, SupervisorSettings};
use khz_loop::time::VirtualTime;
use khz_loop::{ControlError, Controller, PositionCommand, RobotState, ServoCommand};

/// The impact may be so many times that with the default.
const HARDER: f64 = 1.3;
/// A joint under torque may be so many times faster than at which it brings the robot down.
const OVER: f64 = 1.1;
/// A joint carries this share of its servo's greatest torque, …
pub(super) const LOAD: f64 = 0.1;
/// … may sink so many times as fast as with the default, and is watched for so long, s, …
const FASTER: f64 = 3.0;
const SINKS_S: f64 = 0.5;
/// … after it was held for so long, s.
const HELD_S: f64 = 1.0;
/// For so long torques are commanded, s.
const PUSHED_S: f64 = 2.0;

/// How hard a robot with a body comes down after what goes wrong with a servo, a bus or the supply.
pub fn fall(robot: &RobotConfig) -> Option<String> {
    robot.body.as_ref()?;
    let defaults = SupervisorSettings::default();
    let mut usual = robot.clone();
    let to = &mut usual.supervisor;
    (to.damping_s, to.still_velocity, to.still_s, to.derate_to) =
        (defaults.damping_s, defaults.still_velocity, defaults.still_s, defaults.derate_to);
    (DAMPING.reset)(&mut usual);
    // One that goes on with less torque may not come down at all: then no harder than after a servo's fault.
    let least = impact(&usual, Fault::Overheated)?;
    let faults = [
        ("a servo's fault", Fault::Overheated),
        ("a dead bus", Fault::DeadBus),
        ("a supply that sags to 9 V", Fault::BrownOut),
    ];
    faults.into_iter().find_map(|(what, fault)| {
        let reached = impact(robot, fault).filter(|reached| *reached > HARDER * least)?;
        let promised = impact(&usual, fault).unwrap_or(least).max(least);
        (reached > HARDER * promised).then(|| {
            format!(
                "after {what} the trunk meets the ground at {reached:.2} m/s; with the defaults of what decides on that it is \
                 {promised:.2} m/s"
            )
        })
    })
}

/// Speed of the trunk, m/s; `None` if it never touches the ground.
fn impact(robot: &RobotConfig, fault: Fault) -> Option<f64> {
    fall::contact_speed(robot, fault).ok()?
}

/// How fast joints without a body sink under a load while they are damped.
pub fn sink(robot: &RobotConfig) -> Option<String> {
    if robot.body.is_some() {
        return None;
    }
    let mut usual = robot.clone();
    (DAMPING.reset)(&mut usual);
    let (reached, promised) = (sinking(robot)?, sinking(&usual)?);
    let factor = robot.supervisor.velocity_factor;
    let over =
        robot.servos.iter().zip(reached.into_iter().zip(promised)).filter_map(|(servo, (reached, usual))| {
            let promised = servo.limits.velocity.map_or(0.0, |limit| factor * limit).max(FASTER * usual);
            (reached > promised).then_some((reached / promised, reached, usual, promised, servo))
        });
    let (_, reached, usual, promised, servo) = over.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let load = LOAD * servo.carries().torque;
    Some(format!(
        "while it is damped, {} sinks at {reached:.1} rad/s under a load of {load:.1} N·m; {promised:.1} rad/s is promised, and with the \
         default it is {usual:.1}",
        servo.name
    ))
}

/// The greatest speed of each joint, rad/s, while the robot is brought down and a load pulls it; 0 for joints whose load is not known.
fn sinking(robot: &RobotConfig) -> Option<Vec<f64>> {
    let ticks = |seconds: f64| (seconds * robot.timing.rate_hz) as u64 + 1;
    let mut rig = Rig::new(robot, Box::new(Hold::default()), &[], VirtualTime::new(0)).ok()?;
    (0..ticks(HELD_S)).for_each(|_| _ = rig.tick(None, 0));
    rig.tick(Some(Cause::OperatorStop), 0);
    let now_ns = rig.now_ns();
    for (at, servo) in robot.servos.iter().enumerate() {
        let load = LOAD * servo.carries().torque;
        if load.is_finite() {
            rig.stage().world.push(at, load, now_ns);
        }
    }
    let mut fastest = vec![0.0; robot.servos.len()];
    for _ in 0..ticks(SINKS_S) {
        rig.tick(None, 0);
        if rig.machine.phase() != Phase::Damping {
            break;
        }
        for (fastest, joint) in fastest.iter_mut().zip(rig.stage().world.body().joints()) {
            *fastest = joint.velocity.abs().max(*fastest);
        }
    }
    Some(fastest)
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
