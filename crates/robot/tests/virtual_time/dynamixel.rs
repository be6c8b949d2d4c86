//! Robots of Dynamixel servos, in virtual time: what is set and compared before anything moves, one question with many answers, and what their
//! odd ways lead to.

use crate::line;
use crate::machine::Shared;
use crate::mit::{self, Outcome, run_on, run_robot, when_the_host_dies};
use khz_controllers::Hold;
use khz_emu::dynamixel::{Servo, Setup};
use khz_emu::{FamilyConfig, Injection, World};
use khz_file::RobotConfig;
use khz_link::faults::{Direction, Fault, FaultEffect, Faults};
use khz_link::{Link, LinkError, Received};
use khz_loop::ready::NotReady;
use khz_loop::supervisor::{Cause, Phase};
use khz_loop::tick::Machine;
use khz_loop::time::{Time, VirtualTime};
use khz_loop::{Controller, Doing};
use khz_robot::assemble;
use khz_wire::Request;
use khz_wire::dynamixel::{SyncWrite, address};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const MS: i64 = 1_000_000;

fn hold() -> Box<dyn Controller> {
    Box::new(Hold::default())
}

/// So many XL330 on a line at 4 Mbit/s, as fast as that allows.
fn robot(servos: usize, rate_hz: u32, keys: &str) -> RobotConfig {
    let servo = |id: usize| format!("[[servo]]\nname = \"joint_{id}\"\nid = {id}\n");
    let text = format!(
        "[loop]\nrate_hz = {rate_hz}\n[bus.main]\nlink = \"emulated\"\nwire = \"dynamixel\"\nbaud = 4_000_000\nturnaround_us = 4\n\
         [emulation]\nsupply_v = 5\n[supervisor]\nvoltage_low_v = 4\n[servo_defaults]\nbus = \"main\"\nwatchdog_s = 0.1\nfamily = \"dynamixel\"\n\
         dynamixel = {{ model = \"XL330-M288\", torque_constant = 0.35, position_p = 400{keys} }}\n\
         limits = {{ position = [-1.5, 1.5], velocity = 8 }}\njoint = {{ inertia = 0.001 }}\n{}\
         [controller]\nname = \"sine\"\namplitude = 0.5\nfrom_hz = 0.5\nto_hz = 1.0\nsweep_s = 1.0\n",
        (1..=servos).map(servo).collect::<String>()
    );
    RobotConfig::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"))
}

/// The robot with other servos than in its file.
fn run_with(config: &RobotConfig, change: impl Fn(&mut Setup)) -> Result<Outcome, NotReady> {
    mit::run_with(config, |family| {
        if let FamilyConfig::Dynamixel(servo) = family {
            change(servo);
        }
    })
}

fn refusal(config: &RobotConfig, change: impl Fn(&mut Setup)) -> String {
    run_with(config, change).err().unwrap_or_else(|| panic!("it runs")).why
}

fn register(world: &World, servo: usize, address: u16) -> i64 {
    world.servos()[servo].as_any().downcast_ref::<Servo>().unwrap().register(address)
}

fn ends_well(config: &RobotConfig) -> Outcome {
    let outcome = run_robot(config, |_, _| {});
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
    assert!(outcome.doing.iter().all(|doing| *doing == Doing::Off));
    for servo in 0..config.servos.len() {
        let stats = outcome.machine.cycle().stats(servo);
        assert_eq!((stats.missed, stats.late, stats.duplicates), (0, 0, 0), "{servo}");
    }
    assert!(outcome.swing > 0.4, "{}", outcome.swing);
    outcome
}

#[test]
fn six_of_them_run_at_1_khz_and_none_misses_an_answer() {
    ends_well(&robot(6, 1000, ""));
}

#[test]
fn twelve_run_at_500_hz_without_fast_reads_and_with_a_limit_of_current() {
    ends_well(&robot(12, 500, ", fast = false, mode = \"extended_position\""));
    ends_well(&robot(2, 500, ", mode = \"current_position\""));
}

#[test]
fn two_layouts_on_one_line_are_two_questions() {
    let text = robot(3, 800, "");
    let mut config = text;
    config.servos[1].settings.dynamixel.model = Some(khz_servo::dynamixel::DynamixelModel::Xl430W250);
    config.emulation.supply_v = 7.0;
    let mut world = config.world();
    // An XL430 is for 6 V and more.
    world.servos[1].supply_v = 11.0;
    let outcome = run_on(&config, World::new(&world).unwrap(), Box::new(|_, _| {})).unwrap();
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
}

/// An adapter that holds back each reply, and how many queries were sent into replies that it held.
struct Holding {
    world: World,
    ns: i64,
    held: VecDeque<Received>,
    hasty: Arc<AtomicU32>,
}

impl Holding {
    /// The first of these six servos lie differently in their tables: a cycle has two queries.
    fn run(mut config: RobotConfig, first: usize, ns: i64) -> (Result<Outcome, NotReady>, u32) {
        for servo in &mut config.servos[..first] {
            servo.settings.dynamixel.model = Some(khz_servo::dynamixel::DynamixelModel::Xl430W250);
        }
        let mut world = config.world();
        world.servos[..first].iter_mut().for_each(|servo| servo.supply_v = 11.0);
        let (world, hasty) = (World::new(&world).unwrap(), Arc::<AtomicU32>::default());
        let link = Self { world, ns, held: VecDeque::new(), hasty: Arc::clone(&hasty) };
        let outcome = mit::run_link(&config, Box::new(link), &Mutex::default());
        (outcome, hasty.load(Relaxed))
    }
}

impl Link for Holding {
    khz_link::forward_link!(it => it.world; capabilities, half_duplex, begin_cycle, imu, counters);

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        self.hasty.fetch_add((request.replies > 0 && !self.held.is_empty()).into(), Relaxed);
        Link::send(&mut self.world, channel, request, now_ns)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        while let Some(received) = self.world.receive(now_ns)? {
            self.held.push_back(Received { at_ns: received.at_ns + self.ns, ..received });
        }
        let is_due = self.held.front().is_some_and(|first| first.at_ns <= now_ns);
        Ok(if is_due { self.held.pop_front() } else { None })
    }

    fn next_event_ns(&self) -> Option<i64> {
        let held = self.held.front().map(|first| first.at_ns);
        [held, self.world.next_event_ns()].into_iter().flatten().min()
    }
}

/// The second query went out 2 ms after the first, into its answers.
#[test]
fn two_questions_on_a_line_do_not_meet_in_an_adapter_that_holds_back_replies() {
    let (outcome, hasty) = Holding::run(robot(6, 50, ""), 2, 4 * MS);
    let outcome = outcome.unwrap();
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
    let missed: Vec<u64> = (0..6).map(|servo| outcome.machine.cycle().stats(servo).missed).collect();
    assert_eq!((missed, hasty), (vec![0; 6], 0));
}

/// All its answers were zeros, and it was reported as perhaps on.
#[test]
fn one_that_has_restarted_is_reported_to_have_and_is_off() {
    for (rate_hz, fast) in [(50, true), (1000, false)] {
        let config = robot(3, rate_hz, if fast { "" } else { ", fast = false" });
        let reboots = mit::once_at(1_000, |world, now_ns| world.inject(1, Injection::Reboot, now_ns));
        let outcome = run_robot(&config, reboots);
        assert!(outcome.gives(|cause| *cause == Cause::ServoReset { servo: 1 }), "{}", outcome.cause());
        let may_be_on =
            |cause: &Cause| matches!(cause, Cause::ServoNotReportedOff { .. } | Cause::ServoStillOn { .. });
        assert!(!outcome.gives(may_be_on) && outcome.doing == [Doing::Off; 3]);
    }
}

#[test]
fn a_servo_that_is_not_as_the_file_has_it_is_not_driven_and_the_cure_is_reported() {
    let config = robot(2, 1000, "");
    for (change, expected) in [
        ((|it| it.model = 1190) as fn(&mut Setup), "XL330-M077"),
        (|it| it.firmware = 45, "dynamixel.fast = false"),
        (|it| it.return_delay = 250, "return_delay_time=0"),
    ] {
        let why = refusal(&config, change);
        assert!(why.contains(expected), "{why}");
    }
    let noise = Fault { direction: Direction::FromDevices, ..Fault::new(FaultEffect::Damage) };
    let link = Faults::new(config.emulate().unwrap(), &[noise], 1, |_, _| None);
    let why = mit::run_link(&config, Box::new(link), &Mutex::default()).err().unwrap().why;
    assert!(why.contains("what came instead was damaged, as when two servos with one id"), "{why}");
    // Its mode is set, whatever it was.
    assert_eq!(run_with(&config, |it| it.mode = 1).unwrap().machine.phase(), Phase::Stopped);
}

#[test]
fn what_the_file_says_is_in_the_servo_when_it_is_driven() {
    let config = robot(
        1,
        1000,
        ", position_i = 3, position_d = 20, profile_velocity = 400, mode = \"current_position\"",
    );
    run_robot(&config, |world, now_ns| {
        if now_ns > 1_000 * MS && now_ns < 1_100 * MS {
            let is = |at| register(world, 0, at);
            let gains =
                [address::POSITION_P_GAIN, address::POSITION_I_GAIN, address::POSITION_D_GAIN].map(is);
            assert_eq!(
                (gains, is(address::PROFILE_VELOCITY), is(address::OPERATING_MODE)),
                ([400, 3, 20], 400, 5)
            );
            assert_eq!((is(address::BUS_WATCHDOG), is(address::TORQUE_ENABLE)), (5, 1));
        }
    });
}

#[test]
fn a_servo_that_falls_silent_is_missed_alone() {
    line::is_missed_alone(&robot(6, 1000, ""));
}

#[test]
fn what_a_servo_does_by_itself_brings_the_robot_down() {
    line::brings_the_robot_down(&robot(3, 1000, ""));
}

/// Two servos in this mode, without limits of position.
fn free(mode: &str) -> RobotConfig {
    let motor = if mode == "pwm" { ", motor_resistance = 2.8" } else { "" };
    let mut config = robot(2, 1000, &format!(", mode = \"{mode}\", velocity_limit = 440{motor}"));
    config.servos.iter_mut().for_each(|servo| servo.settings.limits.position = None);
    config
}

/// Two servos in this mode that follow no positions.
fn run_free(mode: &str, limits: &str, velocity: f64, torque: f64) -> (Outcome, f64) {
    let mut config = free(mode);
    if !limits.is_empty() {
        config.servos.iter_mut().for_each(|servo| servo.settings.limits.torque = limits.parse().ok());
    }
    line::run_free(config, velocity, torque)
}

#[test]
fn a_wheel_turns_as_fast_as_it_is_commanded_and_comes_to_rest() {
    let (outcome, fastest) = run_free("velocity", "", 3.0, 0.0);
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
    assert!((2.8..3.2).contains(&fastest), "{fastest} rad/s");
    assert_eq!(outcome.doing, [Doing::Off; 2]);
    assert!(outcome.swing > 6.0, "{} rad", outcome.swing);
}

#[test]
fn a_torque_turns_a_joint_and_the_loop_s_velocity_gain_brakes_it() {
    let (outcome, fastest) = run_free("current", "", 2.0, 0.0);
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
    assert!((1.0..2.2).contains(&fastest), "{fastest} rad/s");
    // Without a gain it is as fast as its friction lets it.
    let (outcome, fastest) = run_free("current", "0.2", 0.0, 0.12);
    assert!(fastest > 4.0 && outcome.doing == [Doing::Off; 2], "{fastest} rad/s: {}", outcome.cause());
}

#[test]
fn a_torque_by_its_duty_turns_a_joint_as_one_by_its_current_does() {
    let (outcome, fastest) = run_free("pwm", "", 2.0, 0.0);
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
    assert!((1.0..2.2).contains(&fastest), "{fastest} rad/s");
    let (outcome, fastest) = run_free("pwm", "0.2", 0.0, 0.12);
    assert!(fastest > 4.0 && outcome.doing == [Doing::Off; 2], "{fastest} rad/s: {}", outcome.cause());
}

#[test]
fn a_position_is_refused_where_the_mode_has_none() {
    let config = robot(1, 1000, ", mode = \"velocity\", velocity_limit = 440");
    let outcome = run_robot(&config, |_, _| {});
    assert!(outcome.cause().contains("position"), "{}", outcome.cause());
    assert_eq!(outcome.doing, [Doing::Off]);
}

#[test]
fn without_a_host_they_hold_where_they_are() {
    when_the_host_dies(&robot(2, 1000, ""), [(80, Doing::Following), (150, Doing::TimedOut)]);
}

/// It was given up after half of the time in which replies count, whatever the next one needed.
#[test]
fn a_first_query_has_all_of_the_cycle_but_what_the_next_one_needs() {
    for first in [1, 3, 5] {
        let mut config = robot(6, 105, "");
        config.timing.bus_deadline_us = Some(9_000.0);
        let (outcome, hasty) = Holding::run(config, first, 4 * MS);
        let outcome = outcome.unwrap();
        let missed: Vec<u64> = (0..6).map(|servo| outcome.machine.cycle().stats(servo).missed).collect();
        assert_eq!((missed, hasty), (vec![0; 6], 0), "{first}: {}", outcome.cause());
    }
}

/// The answers came into the next cycle, whose query went out into them: "2 frames were damaged", and the wiring was blamed.
#[test]
fn a_lone_query_whose_answers_come_too_late_is_waited_for_in_the_next_cycle() {
    let mut config = robot(6, 210, "");
    config.timing.bus_deadline_us = Some(4_600.0);
    let (outcome, hasty) = Holding::run(config, 0, 4_500_000);
    let outcome = outcome.unwrap();
    let stats = outcome.machine.cycle().stats(5);
    assert_eq!((stats.replied, hasty), (0, 0), "{}", outcome.cause());
    assert!(stats.late > 0 && stats.duplicates == 0, "{stats:?}");
}

#[test]
fn an_adapter_that_cannot_keep_up_is_reported_before_the_first_tick() {
    let (outcome, _) = Holding::run(robot(6, 50, ""), 2, 16 * MS);
    let why = outcome.err().unwrap().why;
    for part in [
        "2 queries, one after the other",
        "count for 16.0 ms",
        "latency_timer",
        "`loop.rate_hz` to well below 2",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    assert!(!why.contains("as well"), "{why}");
    // A lone query has the time.
    Holding::run(robot(6, 40, ""), 0, 16 * MS).0.unwrap();
}

/// Only the first bus was named, with a rate that was too high for the second.
#[test]
fn of_two_lines_that_cannot_keep_up_the_slower_is_reported_and_both_are_named() {
    let text = include_str!("../../../../robots/koch_pair.toml");
    let text = text.replace("turnaround_us = 10", "turnaround_us = 5000");
    let config = RobotConfig::parse(&text, "koch_pair.toml").unwrap();
    let world = Box::new(config.emulate().unwrap());
    let mut machine = assemble::machine_on(&config, hold(), world);
    let why = machine.make_ready(&mut VirtualTime::new(0)).unwrap_err().to_string();
    for part in ["2 queries, one after the other", "Too slow as well: the bus of `leader_", "well below 7"] {
        assert!(why.contains(part), "{part}: {why}");
    }
}

/// They were switched off at once, and what they held fell.
#[test]
fn a_run_that_begins_lets_down_what_another_has_left_on() {
    let begins =
        |config: &RobotConfig, load| line::begins_after_a_killed_run((config, hold()), config, load, 0);
    let config = robot(2, 500, ", mode = \"current_position\"");
    let (doing, way, took_ms, told) = begins(&config, 0.3);
    assert_eq!(doing, [Doing::Following, Doing::Damping]);
    assert!((0.2..0.6).contains(&way) && (3000..3300).contains(&took_ms), "{way} rad, {took_ms} ms");
    assert_eq!(told.len(), 1);
    assert!(
        told[0].contains("`joint_1`, `joint_2`. Damped until all stands still, for 3 s at most"),
        "{told:?}"
    );
    // It sinks more slowly than `still_velocity`.
    let (_, way, took_ms, _) = begins(&config, 0.05);
    assert!((0.02..0.1).contains(&way) && (3000..3300).contains(&took_ms), "{way} rad, {took_ms} ms");
    // What stands by itself is not waited for.
    let (doing, _, took_ms, _) = begins(&config, 0.0);
    assert!(doing == [Doing::Following, Doing::Damping] && took_ms < 1000, "{doing:?} {took_ms} ms");
}

/// A goal is refused until a watchdog that has acted is cleared.
#[test]
fn a_run_begins_whatever_the_watchdog_of_a_killed_one_has_left() {
    for mode in ["position", "extended_position", "current_position", "velocity", "current", "pwm"] {
        let config = free(mode);
        let controller = if mode.contains("position") { hold() } else { line::free(0.5, 0.0) };
        line::begins_after_a_killed_run((&config, controller), &config, 0.0, 1000 * MS);
    }
}

/// Gains do not damp a servo that was told to turn. It was not named.
#[test]
fn one_left_on_in_another_mode_than_the_files_is_switched_off_at_once() {
    let turning = free("velocity");
    let killed = (&turning, line::free(2.0, 0.0));
    let (_, _, took_ms, told) = line::begins_after_a_killed_run(killed, &robot(2, 500, ""), 0.0, 0);
    assert!(told.len() == 1 && told[0].contains("`joint_1`, `joint_2`. Switched off at once"), "{told:?}");
    assert!(took_ms < 500, "{took_ms} ms");
}

/// What a servo was left with at its start weakened it in silence, or would have switched it on in the middle of a run.
#[test]
fn what_would_weaken_a_servo_or_switch_it_on_by_itself_is_reported_with_its_cure() {
    let config = robot(1, 500, "");
    let run_left = |address: u16, data: &[u8]| {
        let mut world = config.emulate().unwrap();
        let mut left = SyncWrite::new(address, data.len() as u8);
        left.add(1, data);
        let frame = left.packet();
        Link::send(&mut world, 0, &Request { frame: &frame, to: None, replies: 0 }, 0).unwrap();
        run_on(&config, world, Box::new(|_, _| {}))
    };
    for (address, data, expected) in [
        (address::STARTUP_CONFIGURATION, &[1][..], "switches its torque on. Type"),
        (
            address::STARTUP_CONFIGURATION,
            &[2],
            "khz bus set LINK 1 startup_configuration=0 --family dynamixel",
        ),
        (
            address::PWM_LIMIT,
            &[144, 1],
            "its `pwm_limit` is 400, but the run uses up to 885: it would be weaker and report no error. Write `dynamixel.pwm_limit = 400`",
        ),
    ] {
        let why = run_left(address, data).err().unwrap().why;
        assert!(why.contains(expected), "{why}");
    }
    // What is forgotten without power is set anew.
    let outcome = run_left(address::GOAL_PWM, &[10, 0]).unwrap();
    assert!(outcome.swing > 0.4, "{}", outcome.swing);
}

#[test]
fn without_a_host_the_motor_brakes_in_mode_pwm_and_goals_are_refused() {
    let mut config = robot(1, 1000, ", mode = \"pwm\", motor_resistance = 2.8");
    config.servos[0].settings.limits.position = None;
    let robot = Shared(Arc::new(Mutex::new(config.emulate().unwrap())));
    let mut machine = assemble::machine_on(&config, line::free(0.0, 0.12), Box::new(robot.clone()));
    let mut time = VirtualTime::new(0);
    machine.make_ready(&mut time).unwrap();
    let begun_ns = time.now_ns();
    let tick = |machine: &mut Machine, time: &mut VirtualTime, n: i64| {
        time.wait_for_tick(begun_ns + n * MS);
        machine.tick(time, begun_ns + n * MS, None);
    };
    (1..=500).for_each(|n| tick(&mut machine, &mut time, n));
    assert_eq!(machine.phase(), Phase::Active);
    let speed = || robot.0.lock().unwrap().body().joints()[0].velocity;
    let left_alone = |for_ms: i64| {
        let mut world = robot.0.lock().unwrap();
        world.advance(begun_ns + (500 + for_ms) * MS);
        world.servos()[0].doing()
    };
    assert_eq!((left_alone(80), speed() > 3.0), (Doing::Following, true), "{} rad/s", speed());
    assert_eq!(left_alone(300), Doing::TimedOut);
    assert!(speed().abs() < 0.5, "{} rad/s", speed());
    // A host that is back does not drive it on.
    (801..=1000).for_each(|n| tick(&mut machine, &mut time, n));
    assert!(machine.phase() != Phase::Active && speed().abs() < 0.5, "{:?}", machine.phase());
}
