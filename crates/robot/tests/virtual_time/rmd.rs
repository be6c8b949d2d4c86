//! Robots of RMD motors, in virtual time: what is proved before anything moves, and what a motor's odd ways lead to.

use crate::mit::{self, Outcome, once_at, run_on, run_robot, when_the_host_dies};
use khz_emu::rmd::Setup;
use khz_emu::{FamilyConfig, Injection};
use khz_file::RobotConfig;
use khz_loop::Doing;
use khz_loop::ready::NotReady;
use khz_loop::supervisor::Phase;
use khz_loop::time::VirtualTime;
use khz_robot::assemble;
use khz_wire::rmd::{self, Message, command};

const MS: i64 = 1_000_000;

/// So many X8 on a bus, at the rate that their answers of 0.8 ms allow.
fn robot(servos: usize, keys: &str) -> RobotConfig {
    let servo = |id: usize| format!("[[servo]]\nname = \"joint_{id}\"\nid = {id}\n");
    let text = format!(
        "[loop]\nrate_hz = 500\nmode = \"pipelined\"\nbus_deadline_us = 1900\n[bus.main]\nlink = \"emulated\"\nwire = \"can\"\n\
         [servo_defaults]\nbus = \"main\"\nwatchdog_s = 0.05\nfamily = \"rmd\"\n\
         rmd = {{ model = \"X8\", protocol = \"V4.4\", reply_delay_us = 800, kp = 30, kd = 1{keys} }}\n\
         limits = {{ position = [-1.5, 1.5], velocity = 8 }}\n{}\
         [controller]\nname = \"sine\"\namplitude = 1.0\nfrom_hz = 0.5\nto_hz = 1.0\nsweep_s = 1.0\n",
        (1..=servos).map(servo).collect::<String>()
    );
    RobotConfig::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"))
}

/// The robot with another motor than in its file.
fn run_with(config: &RobotConfig, change: impl Fn(&mut Setup)) -> Result<Outcome, NotReady> {
    mit::run_with(config, |family| {
        if let FamilyConfig::Rmd(motor) = family {
            change(motor);
        }
    })
}

fn refusal(config: &RobotConfig, change: impl Fn(&mut Setup)) -> String {
    run_with(config, change).err().unwrap_or_else(|| panic!("it runs")).why
}

#[test]
fn six_of_them_run_at_500_hz_and_none_misses_a_reply() {
    let outcome = run_robot(&robot(6, ""), |_, _| {});
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
    assert_eq!(outcome.doing, [Doing::Off; 6]);
    for servo in 0..6 {
        let stats = outcome.machine.cycle().stats(servo);
        assert_eq!((stats.missed, stats.late), (0, 0), "{servo}");
    }
    assert!(outcome.swing > 0.9, "{}", outcome.swing);
}

/// Marks and the status take the place of states, and its angle is asked for in turns: all that lasts longer at a low rate.
#[test]
fn the_arm_comes_up_and_ends_as_planned_at_low_rates_too() {
    let text = include_str!("../../../../robots/arm_rmd.toml");
    for rate in [40, 60, 80, 90, 100, 120, 130] {
        let text = text.replace("rate_hz = 500", &format!("rate_hz = {rate}"));
        assert!(text.contains(&format!("rate_hz = {rate}\n")));
        let outcome = run_robot(&RobotConfig::parse(&text, "test").unwrap(), |_, _| {});
        assert_eq!(outcome.machine.phase(), Phase::Stopped, "{rate} Hz: {}", outcome.cause());
        assert_eq!(outcome.doing, [Doing::Off; 5], "{rate} Hz");
        assert!(outcome.swing > 0.2, "{rate} Hz: {}", outcome.swing);
    }
}

/// The status of this id is due with its first command, and marks took the place of states before.
#[test]
fn a_motor_whose_status_is_due_at_once_is_damped_before_it_is_switched_on_and_comes_up() {
    let text = include_str!("../../../../robots/arm_rmd.toml").replace("id = 1\n", "id = 11\n");
    for rate in [40, 60, 90, 110, 130] {
        let text = text.replace("rate_hz = 500", &format!("rate_hz = {rate}"));
        let outcome = run_robot(&RobotConfig::parse(&text, "test").unwrap(), |_, _| {});
        assert_eq!(outcome.machine.phase(), Phase::Stopped, "{rate} Hz: {}", outcome.cause());
    }
}

#[test]
fn a_motor_with_other_ranges_or_of_another_model_is_not_driven() {
    let why = refusal(&robot(1, ""), |motor| motor.date = 20_240_501);
    assert!(why.contains("its firmware is of 20240501") && why.contains("rmd.protocol = \"V4.2\""), "{why}");
    let why = refusal(&robot(1, ""), |motor| motor.name = *b"X10S2V1");
    assert!(why.contains("\"X10S2\"") && why.contains("correct `rmd.model`"), "{why}");
}

#[test]
fn one_without_a_watchdog_is_refused_unless_that_is_accepted() {
    let why = refusal(&robot(1, ""), |motor| motor.watchdog_ms = 0);
    assert!(why.contains("its watchdog did not act") && why.contains("set-watchdog LINK 1 0.05"), "{why}");
    // One that acts later than the file's `watchdog_s` does not count.
    let why = refusal(&robot(1, ""), |motor| motor.watchdog_ms = 100);
    assert!(why.contains("its watchdog did not act"), "{why}");
    let outcome = run_with(&robot(1, ", unwatched = true"), |motor| motor.watchdog_ms = 0).unwrap();
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
}

#[test]
fn a_host_that_dies_leaves_no_motor_driving() {
    when_the_host_dies(&robot(2, ""), [(40, Doing::Following), (60, Doing::Off)]);
}

#[test]
fn a_brake_that_takes_a_tenth_of_a_second_is_waited_for() {
    let outcome = run_with(&robot(2, ""), |motor| motor.brake = true).unwrap();
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
    assert!(outcome.swing > 0.9, "{}", outcome.swing);
    let missed = [0, 1].map(|servo| outcome.machine.cycle().stats(servo).missed);
    assert_eq!(missed, [0, 0], "switching on is no miss");
}

#[test]
fn a_fault_that_vanishes_by_itself_is_kept() {
    // The reply to a motion does not carry it.
    let script = once_at(1000, |world, now_ns| world.inject(0, Injection::Fault(0x0004), now_ns));
    let outcome = run_robot(&robot(2, ""), script);
    assert_eq!(outcome.machine.phase(), Phase::Fault);
    assert!(outcome.cause().contains("low voltage"), "{}", outcome.cause());
    assert_eq!(outcome.doing, [Doing::Off; 2]);
}

#[test]
fn one_that_has_faulted_before_is_named_and_not_driven() {
    let config = robot(1, "");
    let mut world = config.emulate().unwrap();
    world.inject(0, Injection::Fault(0x0012), 0);
    let why = run_on(&config, world, Box::new(|_, _| {})).err().unwrap().why;
    assert!(why.contains("\"stall, over-current\""), "{why}");
}

/// Another program sends the first motor something, in the middle of a run.
fn intruded(frame: khz_wire::Frame) -> Outcome {
    run_robot(&robot(2, ""), once_at(1000, move |world, now_ns| world.send(0, &frame, now_ns).unwrap()))
}

#[test]
fn one_that_another_host_moves_or_stops_brings_the_robot_down() {
    for (asked, cause) in [(command::SPEED, "another program"), (command::OFF, "")] {
        let outcome = intruded(rmd::frame(rmd::REQUESTS + 1, Message::of(asked)));
        let is_down = outcome.machine.phase() == Phase::Fault;
        // After an "off" the next command switches it on again: nothing was held still.
        assert!(is_down || asked == command::OFF, "{asked:#x}: {}", outcome.cause());
        assert!(outcome.cause().contains(cause), "{}", outcome.cause());
        assert_eq!(outcome.doing, [Doing::Off; 2]);
    }
}

#[test]
fn one_that_sends_by_itself_is_refused() {
    let config = robot(1, "");
    let mut world = config.emulate().unwrap();
    let every = Message { index: command::MOTION, limit: 2, ..Message::with(command::UNASKED, 1) };
    world.send(0, &rmd::frame(rmd::REQUESTS + 1, every), 0).unwrap();
    world.advance(5 * MS);
    let mut machine =
        assemble::machine_on(&config, assemble::controller(&config.controller), Box::new(world));
    let why = machine.make_ready(&mut VirtualTime::new(5 * MS)).unwrap_err().why;
    assert!(why.contains("0x9C came unasked"), "{why}");
}

#[test]
fn one_far_from_its_zero_is_refused() {
    let config = robot(1, "");
    let mut world = config.emulate().unwrap();
    world.inject(0, Injection::Jump(12_400), 0);
    let why = run_on(&config, world, Box::new(|_, _| {})).err().unwrap().why;
    assert!(why.contains("it is at 12.40 rad") && why.contains("12.37"), "{why}");
}

#[test]
fn a_motor_cut_off_before_the_run_comes_up_although_it_eats_the_first_command() {
    let config = robot(2, "");
    let mut world = config.emulate().unwrap();
    // Longer than its watchdog, from its start on.
    world.advance(3000 * MS);
    let mut time = VirtualTime::new(3000 * MS);
    let mut machine =
        assemble::machine_on(&config, assemble::controller(&config.controller), Box::new(world));
    machine.make_ready(&mut time).unwrap();
}

#[test]
fn a_restart_brings_the_robot_down() {
    let script = once_at(1000, |world, now_ns| world.inject(0, Injection::Reboot, now_ns));
    let outcome = run_robot(&robot(2, ""), script);
    assert_eq!(outcome.machine.phase(), Phase::Fault, "{}", outcome.cause());
    assert_eq!(outcome.doing, [Doing::Off; 2]);
}
