//! What servos on a half-duplex line have in common, whichever the family.

use crate::mit::{Outcome, Script, Scripted, once_at, run_controller, run_robot};
use khz_emu::Injection;
use khz_file::RobotConfig;
use khz_loop::supervisor::Phase;
use khz_loop::{ControlError, Controller, Doing, PositionCommand, RobotState, ServoCommand};
use std::sync::{Arc, Mutex};

/// One of six servos falls silent.
pub fn is_missed_alone(config: &RobotConfig) {
    let outcome =
        run_robot(config, once_at(1_000, |world, now_ns| world.inject(2, Injection::Silent(true), now_ns)));
    let missed: Vec<u64> = (0..6).map(|servo| outcome.machine.cycle().stats(servo).missed).collect();
    assert!(missed[2] > 3, "{missed:?}");
    assert!((0..6).filter(|servo| *servo != 2).all(|servo| missed[servo] <= 1), "{missed:?}");
    assert_eq!(outcome.doing[..2], [Doing::Off; 2], "{}", outcome.cause());
}

/// The second of three servos does something by itself.
pub fn brings_the_robot_down(config: &RobotConfig) {
    for (fault, expected) in [
        (Injection::Fault(0x20), "overload"),
        (Injection::Overheated, "overheating"),
        (Injection::Reboot, ""),
        (Injection::Power(false), ""),
    ] {
        let outcome = run_robot(config, once_at(1_000, move |world, now_ns| world.inject(1, fault, now_ns)));
        let cause = outcome.cause();
        assert!(cause.contains(expected) && outcome.machine.phase() != Phase::Stopped, "{fault:?}: {cause}");
        assert!([0, 2].iter().all(|servo| outcome.doing[*servo] == Doing::Off), "{:?}", outcome.doing);
    }
}

/// Commands all servos the same, with neither a position nor a gain of it.
struct Free(PositionCommand);

impl Controller for Free {
    fn update(&mut self, _: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        commands.fill(ServoCommand::Position(self.0));
        Ok(())
    }
}

/// A robot without limits of position under such a controller, damped where no torque is asked for, and how fast its first servo was at its
/// fastest, rad/s.
pub fn run_free(mut config: RobotConfig, velocity: f64, torque: f64) -> (Outcome, f64) {
    config.servos.iter_mut().for_each(|servo| servo.settings.limits.position = None);
    let kd_scale = if torque == 0.0 { 1.0 } else { 0.0 };
    let free = PositionCommand { kp_scale: 0.0, kd_scale, ..PositionCommand::hold(f64::NAN) };
    let (doing, fastest) = (Arc::<Mutex<Vec<Doing>>>::default(), Arc::new(Mutex::new(0.0_f64)));
    let seen = Arc::clone(&fastest);
    let script: Script = Box::new(move |world, _| {
        let mut fastest = seen.lock().unwrap();
        *fastest = fastest.max(world.body().joints()[0].velocity.abs());
    });
    let link = Box::new(Scripted { world: config.emulate().unwrap(), script, doing: Arc::clone(&doing) });
    let controller = Box::new(Free(PositionCommand { velocity, torque, ..free }));
    let outcome = run_controller(&config, link, &doing, controller).unwrap();
    let fastest = *fastest.lock().unwrap();
    (outcome, fastest)
}
