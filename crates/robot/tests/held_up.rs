//! A loop that is kept from its CPU, in virtual time: who is blamed for state that is old then.
#![allow(clippy::unwrap_used)]

use khz_link::Link;
use khz_robot::RobotConfig;
use khz_robot::assemble;
use khz_robot::run::{RunOptions, RunStats, run};
use khz_robot::supervisor::{Cause, Phase, Transition};
use khz_robot::time::{Time, VirtualTime};
use std::sync::Arc;

/// Time of which somebody takes `for_ns` before the loop looks at the clock for the `at`-th time.
struct Stolen {
    time: VirtualTime,
    looks: u64,
    at: u64,
    for_ns: i64,
}

impl Time for Stolen {
    fn now_ns(&mut self) -> i64 {
        self.looks += 1;
        if self.looks == self.at {
            self.time.elapse(self.for_ns);
        }
        self.time.now_ns()
    }

    fn wait_for_tick(&mut self, at_ns: i64) {
        self.time.wait_for_tick(at_ns);
    }

    fn pass(&mut self, until_ns: i64, links: &[Box<dyn Link>]) {
        self.time.pass(until_ns, links);
    }
}

/// Small, so that many runs take no time.
const ROBOT: &str = r#"
[bus.main]
link = "emulated"
[[servo]]
name = "pan"
bus = "main"
id = 1
[imu]
link = "emulated"
[supervisor]
grace_s = 0.1
damping_s = 0.2
"#;

const TICKS: u64 = 1000;

fn robot() -> RobotConfig {
    RobotConfig::parse(ROBOT, "test").unwrap()
}

/// A run of [`TICKS`] and until the robot is down, held up once; `forgiving`: as [`khz_robot::launch`] has it for emulated devices.
fn run_held_up(config: &RobotConfig, (at, for_ns): (u64, i64), forgiving: bool) -> (Vec<Transition>, u64) {
    let mut machine = assemble::machine(config, assemble::controller(&config.controller)).unwrap();
    if forgiving {
        machine.forgive_hold_ups();
    }
    let options = RunOptions {
        period_ns: config.timing.period_ns(),
        overrun: khz_rt::Overrun::Skip,
        frame_patience_ns: None,
        duration_ns: Some(TICKS as i64 * config.timing.period_ns()),
        stop: Arc::default(),
    };
    let mut stats = RunStats::new();
    let mut time = Stolen { time: VirtualTime::new(0), looks: 0, at, for_ns };
    run(&mut machine, &mut time, &options, &mut [&mut stats]);
    (stats.transitions, time.looks)
}

/// Looks at the clock in the middle of the run: those of some two ticks, more or less.
fn looks() -> impl Iterator<Item = u64> {
    let (transitions, all) = run_held_up(&robot(), (u64::MAX, 0), false);
    let ticks = transitions.last().unwrap().tick;
    let per_tick = all / ticks;
    let middle = TICKS / 2 * per_tick;
    middle..middle + 2 * per_tick
}

/// What brought the robot down.
fn end(transitions: &[Transition]) -> Cause {
    transitions
        .iter()
        .find(|change| change.from == Phase::Active && change.to != Phase::Active)
        .unwrap()
        .cause
}

/// More than an IMU may be silent, less than servos wait for a command.
const HELD_UP_NS: i64 = 38_800_000;

#[test]
fn a_loop_that_is_held_up_blames_no_device() {
    let mut blamed = 0;
    for at in looks() {
        let (transitions, _) = run_held_up(&robot(), (at, HELD_UP_NS), false);
        let cause = end(&transitions);
        // Wherever it happens the robot goes on with fresh answers, or comes down for the real reason.
        let real = matches!(cause, Cause::LoopHeldUp { held_up_ns, .. } if (37_000_000..40_000_000).contains(&held_up_ns));
        assert!(real || cause == Cause::TimeOver, "held up at look {at}: {cause:?}");
        blamed += u64::from(real);
    }
    assert!(blamed > 0, "there is a moment at which it matters");
}

#[test]
fn an_emulated_robot_goes_on_when_its_process_was_held_up() {
    let mut warned = 0;
    for at in looks() {
        let (transitions, _) = run_held_up(&robot(), (at, HELD_UP_NS), true);
        assert_eq!(end(&transitions), Cause::TimeOver, "held up at look {at}");
        warned +=
            transitions.iter().filter(|change| matches!(change.cause, Cause::LoopHeldUp { .. })).count();
    }
    assert!(warned > 0, "it is told");
}

#[test]
fn a_device_that_is_silent_is_blamed_although_the_loop_is_held_up_too() {
    let silent = "[bus.main.faults]\nevents = [{ at_s = 0.495, kind = \"silence\", id = 1 }]";
    let config = RobotConfig::parse(&format!("{ROBOT}{silent}"), "test").unwrap();
    let at = looks().next().unwrap();
    for forgiving in [false, true] {
        let (transitions, _) = run_held_up(&config, (at, 5_000_000), forgiving);
        assert!(matches!(end(&transitions), Cause::MissedReplies { servo: 0, .. }), "{transitions:?}");
    }
}

#[test]
fn servos_that_timed_out_meanwhile_bring_an_emulated_robot_down_too() {
    let at = looks().next().unwrap();
    let (transitions, _) = run_held_up(&robot(), (at, 300_000_000), true);
    assert!(matches!(end(&transitions), Cause::ServoTimedOut { .. }), "{transitions:?}");
}
