//! Robots of RobStride, CubeMars and RMD servos, in virtual time: they come up only if their motors can be those of the file, and come
//! down as they have to.

use khz_emu::{FamilyConfig, Injection, World};
use khz_file::RobotConfig;
use khz_file::config::{FamilyName, in_file, usual_servo};
use khz_link::{Link, LinkError, Received};
use khz_loop::ready::NotReady;
use khz_loop::run::{Observer, RunOptions, RunStats, Tick, run};
use khz_loop::supervisor::{Cause, Phase};
use khz_loop::tick::Machine;
use khz_loop::time::{Time, VirtualTime};
use khz_loop::{Controller, Doing};
use khz_robot::assemble;
use khz_wire::Request;
use khz_wire::mit::Codes;
use khz_wire::robstride;
use std::sync::{Arc, Mutex};

const MS: i64 = 1_000_000;

pub fn robot(servos: &str) -> RobotConfig {
    let text = format!(
        "[bus.main]\nlink = \"emulated\"\nturnaround_us = 35\n\
         [servo_defaults]\nbus = \"main\"\nwatchdog_s = 0.05\n{servos}\n\
         limits = {{ position = [-1.5, 1.5], velocity = 8 }}\n\
         [[servo]]\nname = \"hip\"\nid = 1\n[[servo]]\nname = \"knee\"\nid = 2\n\
         [controller]\nname = \"sine\"\namplitude = 1.0\nfrom_hz = 0.5\nto_hz = 1.0\nsweep_s = 1.0\n"
    );
    RobotConfig::parse(&text, "test").unwrap()
}

fn robstride(model: &str) -> RobotConfig {
    robot(&format!("family = \"robstride\"\nrobstride = {{ {model}, kp = 30, kd = 1 }}"))
}

fn cubemars() -> RobotConfig {
    robot("family = \"cubemars\"\ncubemars = { model = \"AK80-9\", unwatched = true, kp = 30, kd = 1 }")
}

fn rmd() -> RobotConfig {
    robot(
        "family = \"rmd\"\nrmd = { model = \"X8\", protocol = \"V4.2\", reply_delay_us = 100, kp = 30, kd = 1 }",
    )
}

/// A robot of each family in MIT mode; ODrives, which take more than one frame, are in `odrive`.
fn of_each_family() -> impl Iterator<Item = RobotConfig> {
    let families = FamilyName::ALL
        .iter()
        .filter(|&&name| in_file(name).facts().sends_gains && name != FamilyName::Odrive);
    families.map(|&name| robot(&usual_servo(name, ", kp = 30, kd = 1")))
}

pub type Script = Box<dyn FnMut(&mut World, i64) + Send>;

/// An emulated machine in which things happen.
pub struct Scripted {
    pub world: World,
    pub script: Script,
    pub doing: Arc<Mutex<Vec<Doing>>>,
}

impl Scripted {
    fn look(&self) {
        *self.doing.lock().unwrap() = self.world.servos().iter().map(|servo| servo.doing()).collect();
    }
}

impl Link for Scripted {
    khz_link::forward_link!(it => it.world; capabilities, half_duplex, next_event_ns, imu, counters);

    fn begin_cycle(&mut self, now_ns: i64) {
        (self.script)(&mut self.world, now_ns);
        self.world.begin_cycle(now_ns);
        self.look();
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        Link::send(&mut self.world, channel, request, now_ns)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let received = self.world.receive(now_ns);
        self.look();
        received
    }
}

pub struct Outcome {
    pub machine: Machine,
    stats: RunStats,
    pub doing: Vec<Doing>,
    pub swing: f64,
}

impl Outcome {
    pub fn cause(&self) -> String {
        let blame = self.machine.supervisor().blame();
        blame.unwrap_or(self.stats.transitions.last().unwrap().cause).to_string()
    }
}

impl Outcome {
    /// Whether a reason like this was given, first or later.
    pub fn gives(&self, is_it: impl Fn(&Cause) -> bool) -> bool {
        self.stats.transitions.iter().any(|change| is_it(&change.cause))
    }
}

/// How far the first joint went from 0.
struct Swing(f64);

impl Observer for Swing {
    fn tick(&mut self, tick: &Tick<'_>) {
        self.0 = self.0.max(tick.machine.state().servos[0].position.abs());
    }
}

pub fn run_on(config: &RobotConfig, world: World, script: Script) -> Result<Outcome, NotReady> {
    let doing = Arc::<Mutex<Vec<Doing>>>::default();
    run_link(config, Box::new(Scripted { world, script, doing: Arc::clone(&doing) }), &doing)
}

/// The same on a link; `doing` has what its servos do.
pub fn run_link(
    config: &RobotConfig,
    link: Box<dyn Link>,
    doing: &Mutex<Vec<Doing>>,
) -> Result<Outcome, NotReady> {
    run_controller(config, link, doing, assemble::controller(&config.controller))
}

/// The same with a controller that no file has.
pub fn run_controller(
    config: &RobotConfig,
    link: Box<dyn Link>,
    doing: &Mutex<Vec<Doing>>,
    controller: Box<dyn Controller>,
) -> Result<Outcome, NotReady> {
    let mut machine = assemble::machine_on(config, controller, link);
    let mut time = VirtualTime::new(0);
    machine.make_ready(&mut time)?;
    let options = RunOptions {
        period_ns: config.timing.period_ns(),
        overrun: khz_rt::Overrun::Skip,
        frame_patience_ns: None,
        duration_ns: Some(3_000 * MS),
        stop: Arc::default(),
    };
    let (mut stats, mut swing) = (RunStats::new(100_000), Swing(0.0));
    run(&mut machine, &mut time, &options, &mut [&mut stats, &mut swing]);
    let doing = doing.lock().unwrap().clone();
    Ok(Outcome { machine, stats, doing, swing: swing.0 })
}

pub fn run_robot(config: &RobotConfig, script: impl FnMut(&mut World, i64) + Send + 'static) -> Outcome {
    run_on(config, config.emulate().unwrap(), Box::new(script)).unwrap()
}

/// The robot with other servos than in its file.
pub fn run_with(config: &RobotConfig, change: impl Fn(&mut FamilyConfig)) -> Result<Outcome, NotReady> {
    let mut world = config.world();
    world.servos.iter_mut().for_each(|servo| change(&mut servo.family));
    run_on(config, World::new(&world).unwrap(), Box::new(|_, _| {}))
}

/// The host of two servos dies under control: what they do so many milliseconds later.
pub fn when_the_host_dies(config: &RobotConfig, after_ms: [(i64, Doing); 2]) {
    let doing = Arc::<Mutex<Vec<Doing>>>::default();
    let world = config.emulate().unwrap();
    let link = Scripted { world, script: Box::new(|_, _| {}), doing: Arc::clone(&doing) };
    let mut machine = assemble::machine_on(config, assemble::controller(&config.controller), Box::new(link));
    let mut time = VirtualTime::new(0);
    machine.make_ready(&mut time).unwrap();
    let (first_ns, period_ns) = (time.now_ns() + MS, config.timing.period_ns());
    for tick in 0..500 {
        time.wait_for_tick(first_ns + tick * period_ns);
        machine.tick(&mut time, first_ns + tick * period_ns, None);
    }
    assert_eq!(machine.phase(), Phase::Active);
    let end_ns = first_ns + 500 * period_ns;
    for (later_ms, expected) in after_ms {
        machine.close_links(end_ns + later_ms * MS);
        assert_eq!(*doing.lock().unwrap(), [expected; 2], "after {later_ms} ms");
    }
}

/// Does something once, at this time.
pub fn once_at(
    at_ms: i64,
    act: impl Fn(&mut World, i64) + Send + 'static,
) -> impl FnMut(&mut World, i64) + Send {
    let mut is_done = false;
    move |world, now_ns| {
        if !is_done && now_ns >= at_ms * MS {
            is_done = true;
            act(world, now_ns);
        }
    }
}

/// The state before a mark is as old as a cycle is long.
#[test]
fn eight_robstride_servos_come_up_on_a_slow_bus_at_a_low_rate() {
    let servo = |id| format!("[[servo]]\nname = \"joint_{id}\"\nid = {id}\n");
    let servos: String = (1..=8).map(servo).collect();
    for rate in [55, 60, 65] {
        let text = format!(
            "[loop]\nrate_hz = {rate}\n\
             [bus.main]\nlink = \"emulated\"\nwire = \"can\"\nturnaround_us = 50\nnominal_bit_rate = 250000\n\
             [servo_defaults]\nbus = \"main\"\nfamily = \"robstride\"\nrobstride = {{ model = \"RS02\" }}\n\
             limits = {{ position = [-1.5, 1.5], velocity = 5 }}\n{servos}"
        );
        let outcome = run_robot(&RobotConfig::parse(&text, "test").unwrap(), |_, _| {});
        assert_eq!(outcome.machine.phase(), Phase::Stopped, "{rate} Hz: {}", outcome.cause());
    }
}

#[test]
fn they_come_up_run_and_come_down_with_every_output_off() {
    for config in of_each_family() {
        let outcome = run_robot(&config, |_, _| {});
        assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
        assert_eq!(outcome.doing, [Doing::Off, Doing::Off]);
        let missed = [0, 1].map(|servo| outcome.machine.cycle().stats(servo).missed);
        assert_eq!(missed, [0, 0], "switching on is no miss");
        let late = [0, 1].map(|servo| outcome.machine.cycle().stats(servo).late);
        assert_eq!(late, [0, 0], "what answers \"enable\" a cycle later is not late");
        assert!(outcome.swing > 0.9, "{}", outcome.swing);
    }
}

#[test]
fn a_cybergear_comes_up_with_its_watchdog_in_its_own_table() {
    let outcome = run_robot(&robstride("model = \"CyberGear\""), |_, _| {});
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
    assert!(outcome.swing > 0.9);
}

#[test]
fn a_motor_whose_velocities_have_another_range_is_damped_once_it_moves() {
    // Its maker's Python package has 50, the motor 20.
    let config = robstride("model = \"RS03\", velocity_range = 50");
    let mut world = config.world();
    for servo in &mut world.servos {
        if let FamilyConfig::Robstride(motor) = &mut servo.family {
            motor.velocity = 20.0;
        }
    }
    let outcome = run_on(&config, World::new(&world).unwrap(), Box::new(|_, _| {})).unwrap();
    assert_eq!(outcome.machine.phase(), Phase::Fault);
    assert!(outcome.cause().contains("velocities do not fit its positions"), "{}", outcome.cause());
    assert!(outcome.swing < 1.0, "{}", outcome.swing);
    assert_eq!(outcome.doing, [Doing::Off, Doing::Off]);
}

#[test]
fn a_motor_with_a_greater_torque_than_its_model_is_not_driven() {
    let config = robstride("model = \"RS02\"");
    let mut world = config.world();
    if let FamilyConfig::Robstride(motor) = &mut world.servos[1].family {
        (motor.torque, motor.torque_limit) = (120.0, 120.0);
    }
    let not_ready = run_on(&config, World::new(&world).unwrap(), Box::new(|_, _| {})).err().unwrap();
    assert_eq!(not_ready.servo, 1);
    assert!(not_ready.why.contains("another `robstride.model`"), "{}", not_ready.why);
}

#[test]
fn a_motor_that_an_old_host_left_reporting_is_commanded_to_stop_that() {
    let config = robstride("model = \"RS02\"");
    let mut world = config.world();
    if let FamilyConfig::Robstride(motor) = &mut world.servos[0].family {
        motor.reports = true;
    }
    let outcome = run_on(&config, World::new(&world).unwrap(), Box::new(|_, _| {})).unwrap();
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
    assert_eq!(outcome.machine.cycle().stats(0).missed, 0);
}

/// Another program sends a servo something.
fn send(world: &mut World, id: u8, request: robstride::Request, at_ns: i64) {
    world.begin_cycle(at_ns);
    world.send(0, &request.to_frame(id, 253), at_ns).unwrap();
    while world.receive(at_ns + 2 * MS).unwrap().is_some() {}
}

/// The same in the middle of a run: the answer comes among ours.
fn intrude(request: robstride::Request) -> impl FnMut(&mut World, i64) + Send {
    once_at(1000, move |world, now_ns| world.send(0, &request.to_frame(1, 253), now_ns).unwrap())
}

#[test]
fn a_start_that_fails_leaves_no_motor_driving() {
    let config = robstride("model = \"RS02\"");
    let mut world = config.emulate().unwrap();
    // Another program has left the knee driving and ended, without a watchdog.
    send(&mut world, 2, robstride::Request::Enable, 0);
    let old = Codes { position: 0x8831, velocity: 0x7fff, kp: 3000, kd: 8000, torque: 0x7fff };
    send(&mut world, 2, robstride::Request::Command(old), 4 * MS);
    assert_eq!(world.servos()[1].doing(), Doing::Following);
    world.inject(0, Injection::Silent(true), 8 * MS);
    let doing = Arc::<Mutex<Vec<Doing>>>::default();
    let link = Scripted { world, script: Box::new(|_, _| {}), doing: Arc::clone(&doing) };
    let mut machine = assemble::machine_on(&config, assemble::controller(&config.controller), Box::new(link));
    let mut time = VirtualTime::new(10 * MS);
    let not_ready = machine.make_ready(&mut time).unwrap_err().to_string();
    assert!(not_ready.starts_with("servo `hip`: it did not answer"), "{not_ready}");
    assert_eq!(*doing.lock().unwrap(), [Doing::Off; 2]);
}

#[test]
fn the_watchdog_of_the_file_is_in_every_motor_before_the_first_tick() {
    // The joints go limp, and not before.
    when_the_host_dies(&robstride("model = \"RS02\""), [(40, Doing::Following), (60, Doing::Off)]);
}

#[test]
fn one_that_loses_its_power_brings_the_robot_down_and_stays_off() {
    for config in of_each_family() {
        let off = |world: &mut World, now_ns| world.inject(0, Injection::Power(false), now_ns);
        let on = |world: &mut World, now_ns| world.inject(0, Injection::Power(true), now_ns);
        let (mut off, mut on) = (once_at(1000, off), once_at(1100, on));
        let outcome = run_robot(&config, move |world, now_ns| {
            off(world, now_ns);
            on(world, now_ns);
        });
        assert_eq!(outcome.machine.phase(), Phase::Fault, "{}", outcome.cause());
        assert_eq!(outcome.doing, [Doing::Off, Doing::Off]);
    }
}

#[test]
fn a_blink_of_power_is_noticed_by_what_it_forgets() {
    let script = once_at(1000, |world, now_ns| world.inject(0, Injection::Reboot, now_ns));
    let outcome = run_robot(&robstride("model = \"RS02\""), script);
    assert_eq!(outcome.machine.phase(), Phase::Fault, "{}", outcome.cause());
    assert_eq!(outcome.doing, [Doing::Off, Doing::Off]);
}

#[test]
fn a_fault_brings_the_robot_down_with_its_name() {
    for (config, name) in [
        (robstride("model = \"RS02\""), "over-temperature"),
        (cubemars(), "over-temperature"),
        (rmd(), "motor temperature"),
    ] {
        let script = once_at(1000, |world, now_ns| world.inject(1, Injection::Overheated, now_ns));
        let outcome = run_robot(&config, script);
        assert_eq!(outcome.machine.phase(), Phase::Fault);
        assert!(outcome.cause().contains(name), "{}", outcome.cause());
    }
}

#[test]
fn a_fault_that_no_state_reports_is_found_before_the_first_tick_and_later_by_the_missing_torque() {
    let config = robot(&usual_servo(FamilyName::RobstrideMit, ", kp = 30, kd = 1"));
    let script = once_at(1000, |world, now_ns| world.inject(1, Injection::Overheated, now_ns));
    let outcome = run_robot(&config, script);
    assert_eq!(outcome.machine.phase(), Phase::Fault);
    assert!(outcome.cause().contains("exerts no torque"), "{}", outcome.cause());
    let mut world = config.emulate().unwrap();
    world.set_supply(1, 10.0, 0);
    let not_ready = run_on(&config, world, Box::new(|_, _| {})).err().unwrap();
    assert_eq!(not_ready.servo, 1);
    assert!(
        not_ready.why.contains("\"under-voltage\" although it was commanded to clear"),
        "{}",
        not_ready.why
    );
}

#[test]
fn one_that_another_host_stops_is_not_switched_on_again() {
    let script = intrude(robstride::Request::Stop { clear: false });
    let outcome = run_robot(&robstride("model = \"RS02\""), script);
    assert_eq!(outcome.machine.phase(), Phase::Fault, "{}", outcome.cause());
    assert_eq!(outcome.doing, [Doing::Off, Doing::Off]);
}

#[test]
fn no_tick_of_them_touches_the_heap() {
    for config in of_each_family() {
        let world = config.emulate().unwrap();
        let mut machine =
            assemble::machine_on(&config, assemble::controller(&config.controller), Box::new(world));
        let mut time = VirtualTime::new(0);
        machine.make_ready(&mut time).unwrap();
        let first_ns = time.now_ns() + MS;
        let mut tick = |number: i64| {
            time.wait_for_tick(first_ns + number * MS);
            machine.tick(&mut time, first_ns + number * MS, None)
        };
        (0..50).for_each(|number| _ = tick(number));
        let ((), heap) = khz_rt::alloc_trap::forbid(|| (50..2000).for_each(|number| _ = tick(number)));
        heap.assert_untouched();
        assert_eq!(machine.phase(), Phase::Active, "{:?}", machine.supervisor().blame());
    }
}
