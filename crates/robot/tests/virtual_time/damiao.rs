//! A robot of Damiao servos, in virtual time: it comes up only if its motors are as in its file, and comes down as it has to.

use khz_controllers::Hold;
use khz_emu::{FamilyConfig, Injection, World};
use khz_file::RobotConfig;
use khz_link::{Link, LinkError, Received};
use khz_loop::Doing;
use khz_loop::ready::NotReady;
use khz_loop::run::{Observer, RunOptions, RunStats, Tick, run};
use khz_loop::supervisor::Phase;
use khz_loop::tick::Machine;
use khz_loop::time::{Time, VirtualTime};
use khz_robot::assemble;
use khz_wire::Request;
use khz_wire::damiao::{Access, REGISTERS, Special, frame};
use khz_wire::mit::Codes;
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
    /// Watchdogs that the host wrote: servo, value.
    watchdogs: Vec<(u8, u8)>,
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
    khz_link::forward_link!(it => it.world; capabilities, next_event_ns, imu, counters);

    fn begin_cycle(&mut self, now_ns: i64) {
        (self.script)(&mut self.world, now_ns);
        self.world.begin_cycle(now_ns);
        self.look();
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        let code = request.frame.payload().try_into().ok().and_then(Special::from_bytes);
        if let [id, 0, 0x55, 9, low, ..] = *request.frame.payload() {
            self.seen.lock().unwrap().watchdogs.push((id, low));
        }
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

/// A machine in whose world things happen, and what happens there.
fn machine(config: &RobotConfig, world: World, script: Script) -> (Machine, Arc<Mutex<Seen>>) {
    let seen = Arc::<Mutex<Seen>>::default();
    let link = Box::new(Scripted { world, script, seen: Arc::clone(&seen) });
    (assemble::machine_on(config, Box::<Hold>::default(), link), seen)
}

fn options(config: &RobotConfig, for_ms: i64) -> RunOptions {
    RunOptions {
        period_ns: config.timing.period_ns(),
        overrun: khz_rt::Overrun::Skip,
        frame_patience_ns: None,
        duration_ns: Some(for_ms * MS),
        stop: Arc::default(),
    }
}

fn run_on(config: &RobotConfig, world: World, script: Script) -> Result<Outcome, NotReady> {
    let (mut machine, seen) = machine(config, world, script);
    let mut time = VirtualTime::new(0);
    machine.make_ready(&mut time)?;
    let options = options(config, 2_000);
    let (mut stats, mut fastest) = (RunStats::new(100_000), Fastest::default());
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

/// Another program sends a servo something.
fn send(world: &mut World, to: u32, payload: [u8; 8], at_ns: i64) {
    world.begin_cycle(at_ns);
    world.send(0, &frame(to, false, payload), at_ns).unwrap();
    while world.receive(at_ns + MS).unwrap().is_some() {}
}

#[test]
fn it_comes_up_runs_and_comes_down_with_every_output_off() {
    let outcome = run_robot(&robot(""), |_, _| {});
    assert_eq!(outcome.machine.phase(), Phase::Stopped);
    assert_eq!(outcome.doing(), [Doing::Off, Doing::Off]);
    assert!(outcome.stats.all().ticks > 1900 && outcome.machine.cycle().stats(0).missed == 0);
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
    let (mut machine, seen) = machine(&config, config.emulate().unwrap(), Box::new(|_, _| {}));
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
    assert!(outcome.cause().contains("jumped"), "{}", outcome.cause());
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

/// Another program has left the knee driving and ended, without a watchdog.
fn left_driving(world: &mut World) {
    send(world, 2, Special::Enable.to_bytes(), 0);
    let old = Codes { position: 0x8831, velocity: 0x7ff, kp: 200, kd: 800, torque: 0x7ff };
    send(world, 2, old.to_bytes(), 2 * MS);
    assert_eq!(world.servos()[1].doing(), Doing::Following);
}

#[test]
fn a_start_that_fails_leaves_no_motor_driving() {
    let config = robot("");
    let mut world = config.emulate().unwrap();
    left_driving(&mut world);
    world.inject(0, Injection::Silent(true), 4 * MS);
    let (mut machine, seen) = machine(&config, world, Box::new(|_, _| {}));
    let mut time = VirtualTime::new(5 * MS);
    let not_ready = machine.make_ready(&mut time).unwrap_err().to_string();
    assert!(
        not_ready.starts_with("servo `hip`: it did not answer when asked to switch it off"),
        "{not_ready}"
    );
    assert!(not_ready.contains("Every servo was commanded to switch off"), "{not_ready}");
    assert_eq!(seen.lock().unwrap().doing, [Doing::Off; 2]);
    // Before the loop waited for any answer, and after the error.
    let codes = &seen.lock().unwrap().codes;
    let to_knee: Vec<i64> = codes.iter().filter(|(id, ..)| *id == 2).map(|(.., at_ns)| *at_ns).collect();
    assert!(to_knee[0] < 6 * MS && *to_knee.last().unwrap() > 100 * MS, "{to_knee:?}");
}

#[test]
fn every_motor_that_is_silent_is_named() {
    let config = robot("[[servo]]\nname = \"toe\"\nid = 3");
    let mut world = config.emulate().unwrap();
    [0, 2].into_iter().for_each(|servo| world.inject(servo, Injection::Silent(true), 0));
    let not_ready = run_on(&config, world, Box::new(|_, _| {})).err().unwrap();
    assert_eq!((not_ready.servo, &not_ready.name[..]), (0, "hip"));
    assert!(not_ready.why.contains("Not ready either: `toe`."), "{}", not_ready.why);
}

#[test]
fn a_motor_with_a_mark_of_an_earlier_run_gets_another() {
    let config = robot("");
    let world = config.emulate().unwrap();
    let (mut machine, seen) = machine(&config, world, Box::new(|_, _| {}));
    // The marks are drawn by the time. These times draw the same one.
    for run in 0..3 {
        machine.make_ready(&mut VirtualTime::new(run * 15_000 * MS)).unwrap();
    }
    let to_hip: Vec<u8> =
        seen.lock().unwrap().watchdogs.iter().filter(|(id, _)| *id == 1).map(|(_, low)| *low).collect();
    assert!(to_hip.len() == 3 && to_hip[0] != to_hip[1] && to_hip[1] != to_hip[2], "{to_hip:?}");
}

#[test]
fn a_motor_that_lost_its_power_before_the_first_tick_is_not_armed_whatever_is_in_its_flash() {
    let config = robot("");
    let mut world = config.emulate().unwrap();
    // Other tools have stored the watchdog of the file, with their own range.
    for (at_ms, access) in [
        (0, Access::Write(9, 1000_u32.to_le_bytes())),
        (2, Access::Write(21, 50_f32.to_le_bytes())),
        (4, Access::Store),
        (6, Access::Write(21, 12.5_f32.to_le_bytes())),
    ] {
        send(&mut world, REGISTERS, access.to_bytes(1), at_ms * MS);
    }
    let is_ready = Arc::new(Mutex::new(false));
    let script = {
        let is_ready = Arc::clone(&is_ready);
        Box::new(move |world: &mut World, now_ns| {
            if std::mem::take(&mut *is_ready.lock().unwrap()) {
                world.inject(0, Injection::Reboot, now_ns);
            }
        })
    };
    let (mut machine, seen) = machine(&config, world, script);
    let mut time = VirtualTime::new(10 * MS);
    machine.make_ready(&mut time).unwrap();
    *is_ready.lock().unwrap() = true;
    let first_ns = time.now_ns() + MS;
    for tick in 0..1500 {
        time.wait_for_tick(first_ns + tick * MS);
        machine.tick(&mut time, first_ns + tick * MS, None);
        assert_ne!(seen.lock().unwrap().doing[0], Doing::Following);
    }
    let fault = machine.state().servos[0].fault;
    assert!(machine.phase() != Phase::Active && fault.code == 256, "{:?} {fault:?}", machine.phase());
}

#[test]
fn a_start_without_trouble_misses_no_reply() {
    for more in ["", "[[servo]]\nname = \"toe\"\nid = 3"] {
        let outcome = run_robot(&robot(more), |_, _| {});
        assert_eq!((outcome.stats.all().missed_replies, outcome.stats.all().late_replies), (0, 0));
    }
}

/// The longest bus cycle of each phase.
#[derive(Default)]
struct Longest([i64; Phase::ALL.len()]);

impl Observer for Longest {
    fn tick(&mut self, tick: &Tick<'_>) {
        let longest = &mut self.0[tick.machine.phase() as usize];
        *longest = tick.record.cycle_ns.max(*longest);
    }
}

#[test]
fn motors_that_are_switched_on_need_no_more_of_the_bus_than_when_they_are_off() {
    let seven = RobotConfig::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/openarm_like.toml"));
    let config = seven.unwrap();
    let (mut machine, _) = machine(&config, config.emulate().unwrap(), Box::new(|_, _| {}));
    let mut time = VirtualTime::new(0);
    machine.make_ready(&mut time).unwrap();
    let options = options(&config, 100);
    let mut longest = Longest::default();
    run(&mut machine, &mut time, &options, &mut [&mut longest]);
    let [off, on] = [Phase::Init, Phase::Active].map(|phase| longest.0[phase as usize] as f64);
    // Their watchdogs, all read in one cycle, took 6 % more than that, and a reply came too late for the tick.
    assert!(on < 1.03 * off, "{on} ns switching on, {off} ns off");
}
