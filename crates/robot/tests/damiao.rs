//! A robot of Damiao servos, in virtual time: it comes up only if its motors are as its file says, and comes down as it has to.
#![allow(clippy::unwrap_used)]

use khz_emu::{FamilyConfig, Injection, World};
use khz_link::{Capabilities, Counters, Imu, Link, LinkError, Received};
use khz_robot::assemble;
use khz_robot::controller::Hold;
use khz_robot::ready::NotReady;
use khz_robot::run::{Observer, RunOptions, RunStats, Tick, run};
use khz_robot::supervisor::Phase;
use khz_robot::tick::Machine;
use khz_robot::time::{Time, VirtualTime};
use khz_robot::{Doing, RobotConfig};
use khz_wire::Request;
use khz_wire::damiao::Special;
use std::sync::{Arc, Mutex};

const MS: i64 = 1_000_000;

fn robot(more: &str) -> RobotConfig {
    let text = format!(
        "[bus.main]\nlink = \"emulated\"\n\
         [servo_defaults]\nfamily = \"damiao\"\nbus = \"main\"\nwatchdog_s = 0.05\n\
         damiao = {{ model = \"4310\", kp = 20, kd = 1 }}\n\
         limits = {{ position = [-0.5, 0.5], velocity = 2 }}\n\
         [[servo]]\nname = \"hip\"\nid = 1\n[[servo]]\nname = \"knee\"\nid = 2\n{more}"
    );
    RobotConfig::parse(&text, "test").unwrap()
}

/// What happened on the devices' side.
#[derive(Default)]
struct Seen {
    /// Special codes of the host: servo, code, time.
    codes: Vec<(u32, Special, i64)>,
    /// What each servo does in the end.
    doing: Vec<Doing>,
}

type Script = Box<dyn FnMut(&mut World, i64) + Send>;

/// An emulated machine in which things happen.
struct Scripted {
    world: World,
    script: Script,
    seen: Arc<Mutex<Seen>>,
}

impl Scripted {
    fn look(&self) {
        self.seen.lock().unwrap().doing = self.world.servos().iter().map(|servo| servo.doing()).collect();
    }
}

impl Link for Scripted {
    fn capabilities(&self) -> Capabilities {
        Link::capabilities(&self.world)
    }

    fn begin_cycle(&mut self, now_ns: i64) {
        (self.script)(&mut self.world, now_ns);
        self.world.begin_cycle(now_ns);
        self.look();
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        let code = request.frame.payload().try_into().ok().and_then(Special::from_bytes);
        if let Some(code) = code {
            self.seen.lock().unwrap().codes.push((request.frame.id, code, now_ns));
        }
        Link::send(&mut self.world, channel, request, now_ns)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let received = self.world.receive(now_ns);
        self.look();
        received
    }

    fn next_event_ns(&self) -> Option<i64> {
        self.world.next_event_ns()
    }

    fn imu(&mut self) -> Option<&mut dyn Imu> {
        self.world.imu()
    }

    fn counters(&self, channel: u8) -> Counters {
        self.world.counters(channel)
    }
}

/// The fastest a joint was while it was under control.
#[derive(Default)]
struct Fastest(f64);

impl Observer for Fastest {
    fn tick(&mut self, tick: &Tick<'_>) {
        for servo in &tick.machine.state().servos {
            self.0 = self.0.max(servo.velocity.abs());
        }
    }
}

struct Outcome {
    machine: Machine,
    stats: RunStats,
    fastest: f64,
    seen: Arc<Mutex<Seen>>,
}

impl Outcome {
    fn cause(&self) -> String {
        let blame = self.machine.supervisor().blame();
        blame.unwrap_or(self.stats.transitions.last().unwrap().cause).to_string()
    }

    fn doing(&self) -> Vec<Doing> {
        self.seen.lock().unwrap().doing.clone()
    }

    /// Codes to a servo between two times, ms.
    fn codes(&self, id: u32, from_ms: i64, to_ms: i64) -> Vec<Special> {
        let codes = &self.seen.lock().unwrap().codes;
        let within =
            codes.iter().filter(|(to, _, at_ns)| *to == id && (from_ms * MS..to_ms * MS).contains(at_ns));
        within.map(|(_, code, _)| *code).collect()
    }
}

fn run_on(config: &RobotConfig, world: World, script: Script) -> Result<Outcome, NotReady> {
    let seen = Arc::<Mutex<Seen>>::default();
    let link = Box::new(Scripted { world, script, seen: Arc::clone(&seen) });
    let mut machine = assemble::machine_on(config, Box::<Hold>::default(), link);
    let mut time = VirtualTime::new(0);
    machine.make_ready(&mut time)?;
    let options = RunOptions {
        period_ns: config.timing.period_ns(),
        overrun: khz_rt::Overrun::Skip,
        frame_patience_ns: None,
        duration_ns: Some(2_000 * MS),
        stop: Arc::default(),
    };
    let (mut stats, mut fastest) = (RunStats::new(), Fastest::default());
    run(&mut machine, &mut time, &options, &mut [&mut stats, &mut fastest]);
    Ok(Outcome { machine, stats, fastest: fastest.0, seen })
}

fn run_robot(config: &RobotConfig, script: impl FnMut(&mut World, i64) + Send + 'static) -> Outcome {
    run_on(config, config.emulate().unwrap(), Box::new(script)).unwrap()
}

/// Does something once, at this time.
fn once_at(at_ms: i64, act: impl Fn(&mut World, i64) + Send + 'static) -> impl FnMut(&mut World, i64) + Send {
    let mut is_done = false;
    move |world, now_ns| {
        if !is_done && now_ns >= at_ms * MS {
            is_done = true;
            act(world, now_ns);
        }
    }
}

#[test]
fn it_comes_up_runs_and_comes_down_with_every_output_off() {
    let outcome = run_robot(&robot(""), |_, _| {});
    assert_eq!(outcome.machine.phase(), Phase::Stopped);
    assert_eq!(outcome.doing(), [Doing::Off, Doing::Off]);
    assert!(outcome.stats.ticks > 1900 && outcome.machine.cycle().stats(0).missed == 0);
    // Enabled once, while it came up.
    let enables = |id| outcome.codes(id, 0, 10_000).iter().filter(|code| **code == Special::Enable).count();
    assert_eq!([enables(1), enables(2)], [1, 1]);
    assert!(!outcome.codes(1, 0, 10_000).contains(&Special::SetZero));
}

#[test]
fn a_motor_with_another_range_is_not_driven() {
    let config = robot("");
    let mut world = config.world();
    if let FamilyConfig::Damiao(motor) = &mut world.servos[1].family {
        motor.ranges[1] = 50.0;
    }
    let not_ready = run_on(&config, World::new(&world).unwrap(), Box::new(|_, _| {})).err().unwrap();
    assert_eq!(not_ready.servo, 1);
    let why = &not_ready.why;
    assert!(
        why.contains("is 50 rad/s, the robot file says 30") && why.contains("velocity_range = 50"),
        "{why}"
    );
}

#[test]
fn a_motor_that_is_silent_from_the_start_is_named() {
    let config = robot("");
    let mut world = config.emulate().unwrap();
    world.inject(1, Injection::Silent(true), 0);
    let not_ready = run_on(&config, world, Box::new(|_, _| {})).err().unwrap();
    assert_eq!(not_ready.servo, 1);
    assert!(not_ready.why.starts_with("it did not answer when asked to switch it off"), "{}", not_ready.why);
}

#[test]
fn the_watchdog_of_the_file_is_in_every_motor_before_the_first_tick() {
    // The host dies: the joints go limp, and not before.
    let config = robot("");
    let world = config.emulate().unwrap();
    let seen = Arc::<Mutex<Seen>>::default();
    let link = Box::new(Scripted { world, script: Box::new(|_, _| {}), seen: Arc::clone(&seen) });
    let mut machine = assemble::machine_on(&config, Box::<Hold>::default(), link);
    let mut time = VirtualTime::new(0);
    machine.make_ready(&mut time).unwrap();
    let first_ns = time.now_ns() + MS;
    for tick in 0..500 {
        time.wait_for_tick(first_ns + tick * MS);
        machine.tick(&mut time, first_ns + tick * MS, None);
    }
    assert_eq!(machine.phase(), Phase::Active);
    let end_ns = first_ns + 500 * MS;
    for (later_ms, expected) in [(40, Doing::Following), (60, Doing::Faulted)] {
        // The devices go on; nothing is asked.
        machine.close_links(end_ns + later_ms * MS);
        assert_eq!(seen.lock().unwrap().doing, [expected; 2], "after {later_ms} ms");
    }
}

#[test]
fn one_that_loses_its_power_brings_the_robot_down_and_stays_off() {
    let script = once_at(1000, |world, now_ns| world.inject(0, Injection::RebootTurned(1), now_ns));
    let outcome = run_robot(&robot(""), script);
    assert_eq!(outcome.machine.phase(), Phase::Fault);
    assert!(outcome.cause().contains("restarted"), "{}", outcome.cause());
    assert!(!outcome.codes(1, 1000, 10_000).contains(&Special::Enable));
    assert_eq!(outcome.doing(), [Doing::Off, Doing::Off]);
    assert!(outcome.fastest < 2.5, "{}", outcome.fastest);
}

#[test]
fn a_fault_brings_the_robot_down_with_its_name() {
    let script = once_at(1000, |world, now_ns| world.inject(1, Injection::Overheated, now_ns));
    let outcome = run_robot(&robot(""), script);
    assert_eq!(outcome.machine.phase(), Phase::Fault);
    let cause = outcome.cause();
    assert!(cause.contains("MOSFET over-temperature"), "{cause}");
    // Nothing clears it while the others damp.
    assert_eq!(outcome.codes(2, 1000, 1200), []);
}

#[test]
fn one_that_falls_silent_brings_the_robot_down() {
    let script = once_at(1000, |world, now_ns| world.inject(1, Injection::Silent(true), now_ns));
    let outcome = run_robot(&robot(""), script);
    assert_eq!(outcome.machine.phase(), Phase::Fault);
    assert_eq!(outcome.doing(), [Doing::Off, Doing::Off]);
}

#[test]
fn one_that_lies_brings_the_robot_down() {
    let script = once_at(1000, |world, now_ns| world.inject(0, Injection::Lying(true), now_ns));
    let outcome = run_robot(&robot(""), script);
    assert_eq!(outcome.machine.phase(), Phase::Fault, "{}", outcome.cause());
    assert!(outcome.fastest.is_infinite() || outcome.fastest < 2.5);
}

#[test]
fn a_classic_bus_takes_its_own_time() {
    let outcome = run_robot(&robot(""), |_, _| {});
    let last_us = outcome.machine.cycle().stats(1).round_trip.quantile(0.5) as f64 / 1e3;
    // Two commands, 75 µs until the first reply, two replies: frames of 111 to 135 bits at 1 Mbit/s. The second reply needs
    // no turnaround of its own, and the second command was sent 0 µs after the first.
    assert!((4.0 * 111.0..4.0 * 135.0 + 75.0).contains(&last_us), "{last_us} µs");
}
