//! What servos on a half-duplex line have in common, whichever the family.

use crate::machine::Shared;
use crate::mit::{Outcome, Script, Scripted, once_at, run_controller, run_robot};
use khz_controllers::Hold;
use khz_emu::Injection;
use khz_file::RobotConfig;
use khz_link::{Link, LinkError, Received};
use khz_loop::supervisor::Phase;
use khz_loop::time::{Time, VirtualTime};
use khz_loop::{ControlError, Controller, Doing, PositionCommand, RobotState, ServoCommand};
use khz_robot::assemble;
use std::sync::atomic::AtomicBool;
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

/// It commands this without a position.
pub fn free(velocity: f64, torque: f64) -> Box<dyn Controller> {
    let kd_scale = if torque == 0.0 { 1.0 } else { 0.0 };
    let free = PositionCommand { kp_scale: 0.0, kd_scale, ..PositionCommand::hold(f64::NAN) };
    Box::new(Free(PositionCommand { velocity, torque, ..free }))
}

/// A robot without limits of position under such a controller, damped where no torque is asked for, and how fast its first servo was at its
/// fastest, rad/s.
pub fn run_free(mut config: RobotConfig, velocity: f64, torque: f64) -> (Outcome, f64) {
    config.servos.iter_mut().for_each(|servo| servo.settings.limits.position = None);
    let (doing, fastest) = (Arc::<Mutex<Vec<Doing>>>::default(), Arc::new(Mutex::new(0.0_f64)));
    let seen = Arc::clone(&fastest);
    let script: Script = Box::new(move |world, _| {
        let mut fastest = seen.lock().unwrap();
        *fastest = fastest.max(world.body().joints()[0].velocity.abs());
    });
    let link = Box::new(Scripted { world: config.emulate().unwrap(), script, doing: Arc::clone(&doing) });
    let outcome = run_controller(&config, link, &doing, free(velocity, torque)).unwrap();
    let fastest = *fastest.lock().unwrap();
    (outcome, fastest)
}

/// A robot, and what its first servo was seen to do and how far its joint was then, once for each change of that.
struct Seen {
    robot: Shared,
    doing: Arc<Mutex<Vec<(Doing, f64)>>>,
}

impl Link for Seen {
    khz_link::forward_link!(it => it.robot; capabilities, half_duplex, begin_cycle, send, next_event_ns, counters);

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let received = self.robot.receive(now_ns);
        let (world, mut seen) = (self.robot.0.lock().unwrap(), self.doing.lock().unwrap());
        let now = (world.servos()[0].doing(), world.body().joints()[0].position);
        match seen.last_mut() {
            Some(last) if last.0 == now.0 => *last = now,
            _ => seen.push(now),
        }
        received
    }
}

/// A robot that a killed run has left on and under control, with this load on its first joint, N·m, when another run begins so much later:
/// what that joint's servo does until it is off, how far the joint has moved by then, rad, after how many ms it begins, and its notes.
pub fn begins_after_a_killed_run(
    (killed, controller): (&RobotConfig, Box<dyn Controller>),
    config: &RobotConfig,
    load: f64,
    later_ns: i64,
) -> (Vec<Doing>, f64, i64, Vec<String>) {
    let robot = Shared(Arc::new(Mutex::new(killed.emulate().unwrap())));
    let mut time = VirtualTime::new(0);
    leave_on(killed, controller, &robot, &mut time);
    robot.0.lock().unwrap().push(0, load, time.now_ns());
    time.elapse(later_ns);

    let (begun_ns, seen) = (time.now_ns(), Arc::<Mutex<Vec<_>>>::default());
    let link = Seen { robot, doing: Arc::clone(&seen) };
    let mut next = assemble::machine_on(config, Box::new(Hold::default()), Box::new(link));
    let mut told = Vec::new();
    next.make_ready_telling(&mut time, &mut |note| told.push(note), &AtomicBool::new(false)).unwrap();
    let seen = seen.lock().unwrap();
    let on = seen.iter().take_while(|(doing, _)| *doing != Doing::Off);
    let way = on.clone().last().unwrap().1 - seen[0].1;
    (on.map(|(doing, _)| *doing).collect(), way, (time.now_ns() - begun_ns) / 1_000_000, told)
}

/// Half a second of a run that ends without coming down.
fn leave_on(config: &RobotConfig, controller: Box<dyn Controller>, robot: &Shared, time: &mut VirtualTime) {
    let mut killed = assemble::machine_on(config, controller, Box::new(robot.clone()));
    killed.make_ready(time).unwrap();
    let (begun_ns, period_ns) = (time.now_ns(), config.timing.period_ns());
    for n in 1..=500_000_000 / period_ns {
        time.wait_for_tick(begun_ns + n * period_ns);
        killed.tick(time, begun_ns + n * period_ns, None);
    }
    assert_eq!(killed.phase(), Phase::Active);
}
