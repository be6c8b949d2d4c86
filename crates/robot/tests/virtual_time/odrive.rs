//! Robots of ODrives, in virtual time: what is proved before anything moves, and what a drive's odd ways lead to.

use crate::mit::{self, Outcome, once_at, run_on, run_robot, when_the_host_dies};
use khz_emu::odrive::Setup;
use khz_emu::{FamilyConfig, Injection, World};
use khz_file::RobotConfig;
use khz_loop::Doing;
use khz_loop::ready::NotReady;
use khz_loop::supervisor::Phase;
use khz_loop::time::{Freeze, VirtualTime};
use khz_robot::assemble;
use khz_wire::Frame;
use khz_wire::odrive::{self, InputPos, command, floats, state, two_floats, words};
use std::f64::consts::TAU;
use std::sync::{Arc, Mutex};

const MS: i64 = 1_000_000;
const REDUCTION: f64 = 6.0;

/// So many drives on a bus.
fn robot(servos: usize, firmware: &str, keys: &str) -> RobotConfig {
    let servo =
        |id: usize| format!("[[servo]]\nname = \"joint_{id}\"\nid = {id}\njoint = {{ start = 0.1 }}\n");
    let text = format!(
        "[loop]\nrate_hz = 500\nbus_deadline_us = 1900\n[bus.main]\nlink = \"emulated\"\nwire = \"can\"\n\
         [servo_defaults]\nbus = \"main\"\nwatchdog_s = 0.1\nfamily = \"odrive\"\n\
         odrive = {{ firmware = \"{firmware}\", reduction = {REDUCTION}, torque_constant = 0.1, kp = 30, kd = 1{keys} }}\n\
         limits = {{ position = [-1.5, 1.5], velocity = 8 }}\n{}\
         [controller]\nname = \"sine\"\namplitude = 1.0\nfrom_hz = 0.5\nto_hz = 1.0\nsweep_s = 1.0\n",
        (1..=servos).map(servo).collect::<String>()
    );
    RobotConfig::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"))
}

/// The robot with another drive than in its file.
fn run_with(config: &RobotConfig, change: impl Fn(&mut Setup)) -> Result<Outcome, NotReady> {
    mit::run_with(config, |family| {
        if let FamilyConfig::Odrive(drive) = family {
            change(drive);
        }
    })
}

fn refusal(config: &RobotConfig, change: impl Fn(&mut Setup)) -> String {
    run_with(config, change).err().unwrap_or_else(|| panic!("it runs")).why
}

#[test]
fn three_of_them_run_at_500_hz_with_either_firmware_and_none_misses_a_reply() {
    for firmware in ["0.5", "0.6"] {
        let outcome = run_robot(&robot(3, firmware, ""), |_, _| {});
        assert_eq!(outcome.machine.phase(), Phase::Stopped, "{firmware}: {}", outcome.cause());
        assert_eq!(outcome.doing, [Doing::Off; 3]);
        for servo in 0..3 {
            let stats = outcome.machine.cycle().stats(servo);
            assert_eq!((stats.missed, stats.late), (0, 0), "{servo}");
        }
        assert!(outcome.swing > 0.9, "{}", outcome.swing);
    }
}

/// All that is sent to the first drive in a run, but for queries, with the times.
fn commands_sent(config: &RobotConfig) -> Vec<(i64, u8, Vec<u8>)> {
    let sent = Arc::<Mutex<Vec<_>>>::default();
    let mut world = config.emulate().unwrap();
    let into = Arc::clone(&sent);
    world.watch(move |_, frame, at_ns| {
        if let Some((1, what)) = odrive::parts(frame).filter(|_| !odrive::is_asking(frame)) {
            into.lock().unwrap().push((at_ns, what, frame.payload().to_vec()));
        }
    });
    let outcome = run_on(config, world, Box::new(|_, _| {})).unwrap();
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
    std::mem::take(&mut sent.lock().unwrap())
}

#[test]
fn its_loop_is_closed_behind_all_that_sets_it_up_and_its_present_position() {
    let sent = commands_sent(&robot(1, "0.6", ""));
    let on = words([state::CLOSED_LOOP.into(), 0]);
    let at =
        sent.iter().position(|(_, what, payload)| *what == command::AXIS_STATE && **payload == on).unwrap();
    let before =
        |what: u8| sent[..at].iter().rev().find(|(_, sent, _)| *sent == what).map(|(_, _, payload)| payload);
    let set_point = InputPos::from_bytes(before(command::INPUT_POS).unwrap()[..].try_into().unwrap());
    let start = 0.1 * REDUCTION / TAU;
    assert!((f64::from(set_point.position) - start).abs() < 1e-3, "{set_point:?}");
    assert_eq!((set_point.velocity, set_point.torque), (0, 0));
    assert_eq!(**before(command::CONTROLLER_MODE).unwrap(), words([3, 1]));
    // It damps: no position gain, and no integrator.
    let vel = (TAU / (REDUCTION * REDUCTION)) as f32;
    assert_eq!(**before(command::POS_GAIN).unwrap(), floats([0.0; 2]));
    assert_eq!(**before(command::VEL_GAINS).unwrap(), floats([vel, 0.0]));
    let last = sent[..at].iter().rev().find(|(_, what, _)| *what != command::AXIS_STATE);
    assert_eq!(last.unwrap().1, command::INPUT_POS, "the last before it");
}

#[test]
fn gains_are_the_cascade_and_written_when_they_change() {
    let sent = commands_sent(&robot(1, "0.6", ""));
    let written = |what: u8| -> Vec<f32> {
        let all = sent.iter().filter(|(_, sent, _)| *sent == what);
        all.map(|(_, _, payload)| two_floats(payload).unwrap()[0]).collect()
    };
    let pos = written(command::POS_GAIN);
    // kp/kd, once: before it is 0, as while it is off, and so it is after.
    assert_eq!(pos.iter().filter(|gain| **gain == 30.0).count(), 1, "{pos:?}");
    assert!(pos.iter().all(|gain| [0.0, 30.0].contains(gain)));
    let vel = (TAU / (REDUCTION * REDUCTION)) as f32;
    assert!(written(command::VEL_GAINS).iter().all(|gain| (gain - vel).abs() < 1e-6));
    // Commands that no run may send.
    for never in
        [command::REBOOT, command::DFU, command::ADDRESS, command::ABSOLUTE_POSITION, command::RX_SDO]
    {
        assert!(sent.iter().all(|(_, sent, _)| *sent != never), "{never:#x}");
    }
    let first_on = sent.iter().position(|(_, what, payload)| *what == command::AXIS_STATE && payload[0] == 8);
    assert!(sent[first_on.unwrap()..].iter().all(|(_, sent, _)| *sent != command::CLEAR_ERRORS));
}

#[test]
fn one_that_sends_estimates_by_itself_is_refused() {
    for firmware in ["0.5", "0.6"] {
        let why = refusal(&robot(1, firmware, ""), |drive| drive.estimates_ms = 100);
        assert!(why.contains("it sends estimates by itself") && why.contains("= 0"), "{why}");
    }
}

/// Its heartbeats had come while the host stood still, and were not read: it was refused as one that sends none.
#[test]
fn one_whose_host_stands_still_while_it_is_made_ready_is_not_refused() {
    let config = robot(1, "0.6", "");
    for at_ms in (0..300).step_by(10) {
        let freeze = Freeze { at_ns: at_ms * MS, for_ns: 100 * MS };
        let world = Box::new(config.emulate().unwrap());
        let mut machine = assemble::machine_on(&config, assemble::controller(&config.controller), world);
        let made = machine.make_ready(&mut VirtualTime::new(0).frozen([freeze]));
        assert!(made.is_ok(), "{at_ms} ms: {made:?}");
    }
}

/// What sets it up took the commands that switch it on, of which there are five: with a few replies lost just then it was off for ever.
#[test]
fn one_that_misses_a_little_while_it_is_switched_on_is_switched_on_all_the_same() {
    let mut config = robot(1, "0.6", "");
    config.timing.rate_hz = 200.0;
    for at_ms in (480..580).step_by(3) {
        let silent = move |world: &mut World, now_ns: i64| {
            let is_silent = (at_ms..at_ms + 20).contains(&(now_ns / MS));
            world.inject(0, Injection::Silent(is_silent), now_ns);
        };
        let outcome = run_robot(&config, silent);
        assert_eq!(outcome.machine.phase(), Phase::Stopped, "{at_ms} ms: {}", outcome.cause());
    }
}

#[test]
fn one_without_heartbeats_or_with_rare_ones_is_refused() {
    for heartbeat_ms in [0, 100] {
        let why = refusal(&robot(1, "0.6", ""), |drive| drive.heartbeat_ms = heartbeat_ms);
        assert!(heartbeat_ms == 100 || why.contains("it sends no heartbeat within 60 ms"), "{why}");
    }
}

#[test]
fn one_without_a_watchdog_is_refused_unless_that_is_accepted() {
    for firmware in ["0.5", "0.6"] {
        let why = refusal(&robot(1, firmware, ""), |drive| drive.watchdog_s = 0.0);
        assert!(why.contains("its watchdog did not act") && why.contains("watchdog_timeout = 0.1"), "{why}");
        // One that acts much later than the file's `watchdog_s` does not count.
        let why = refusal(&robot(1, firmware, ""), |drive| drive.watchdog_s = 0.25);
        assert!(why.contains("its watchdog did not act"), "{why}");
        let outcome =
            run_with(&robot(1, firmware, ", unwatched = true"), |drive| drive.watchdog_s = 0.0).unwrap();
        assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
    }
}

#[test]
fn one_with_other_firmware_is_refused() {
    use khz_wire::odrive::Line;
    let why = refusal(&robot(1, "0.6", ""), |drive| drive.line = Line::V05);
    assert!(why.contains("write `odrive.firmware = \"0.5\"`"), "{why}");
    assert!(run_with(&robot(1, "0.5", ""), |drive| drive.line = Line::V06).is_err());
}

#[test]
fn a_host_that_dies_leaves_no_motor_driving() {
    when_the_host_dies(&robot(2, "0.6", ""), [(80, Doing::Following), (120, Doing::Faulted)]);
}

#[test]
fn an_error_brings_the_robot_down_and_its_name_is_reported() {
    for (firmware, code, name) in
        [("0.6", 0x4000, "inverter over temperature"), ("0.5", 0x40, "motor failed")]
    {
        let script = once_at(1000, move |world, now_ns| world.inject(0, Injection::Fault(code), now_ns));
        let outcome = run_robot(&robot(2, firmware, ""), script);
        assert_eq!(outcome.machine.phase(), Phase::Fault);
        assert!(outcome.cause().contains(name), "{}", outcome.cause());
        assert!(outcome.doing.iter().all(|doing| !doing.is_on()), "{:?}", outcome.doing);
    }
}

/// Another program sends the first drive something, in the middle of a run.
fn intruded(frame: Frame) -> Outcome {
    run_robot(
        &robot(2, "0.6", ""),
        once_at(1000, move |world, now_ns| world.send(0, &frame, now_ns).unwrap()),
    )
}

#[test]
fn one_that_another_host_stops_brings_the_robot_down() {
    for frame in [
        odrive::frame(1, command::ESTOP, &[]),
        odrive::frame(1, command::AXIS_STATE, &words([state::IDLE.into(), 0])),
        odrive::frame(1, command::REBOOT, &[0]),
    ] {
        let outcome = intruded(frame);
        assert_eq!(outcome.machine.phase(), Phase::Fault, "{frame:?}: {}", outcome.cause());
        assert!(outcome.doing.iter().all(|doing| !doing.is_on()), "{:?}", outcome.doing);
    }
}

#[test]
fn one_that_is_asked_by_another_host_again_and_again_is_no_longer_driven() {
    let ask = odrive::ask(1, command::ESTIMATES);
    let outcome = run_robot(&robot(2, "0.6", ""), move |world: &mut World, now_ns: i64| {
        if now_ns > 1500 * MS {
            let _ = world.send(0, &ask, now_ns);
        }
    });
    assert_eq!(outcome.machine.phase(), Phase::Fault, "{}", outcome.cause());
}

#[test]
fn a_restart_brings_the_robot_down() {
    let script = once_at(1000, |world, now_ns| world.inject(0, Injection::Reboot, now_ns));
    let outcome = run_robot(&robot(2, "0.6", ""), script);
    assert_eq!(outcome.machine.phase(), Phase::Fault, "{}", outcome.cause());
    assert!(outcome.doing.iter().all(|doing| !doing.is_on()), "{:?}", outcome.doing);
}

#[test]
fn what_its_watchdog_has_left_is_cleared_before_a_run() {
    let config = robot(3, "0.5", "");
    let mut world = config.emulate().unwrap();
    // It acts with the output off, too.
    world.advance(3000 * MS);
    let mut time = VirtualTime::new(3000 * MS);
    let mut machine =
        assemble::machine_on(&config, assemble::controller(&config.controller), Box::new(world));
    machine.make_ready(&mut time).unwrap();
}

/// The endpoints of the emulated firmware.
const ENDPOINTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/odrive_endpoints.json");

/// As it leaves the factory, but for its node.
fn factory(drive: &mut Setup) {
    (drive.watchdog_s, drive.heartbeat_ms, drive.estimates_ms) = (0.0, 100, 10);
}

#[test]
fn with_its_endpoints_a_run_sets_up_a_drive_that_is_as_it_left_the_factory() {
    let config = robot(2, "0.6", &format!(", endpoints = \"{ENDPOINTS}\""));
    let outcome = run_with(&config, factory).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
    assert!(outcome.swing > 0.9, "{}", outcome.swing);
    let without = robot(2, "0.6", "");
    assert!(refusal(&without, factory).contains("it sends no heartbeat within 60 ms"));
}

#[test]
fn nothing_is_written_to_a_drive_whose_endpoints_are_others() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(ENDPOINTS).unwrap();
    for (replaced, by, why) in [
        (
            "0.6.11",
            "0.6.10",
            "its firmware is 0.6.11 on board 5.2.0, and `flat_endpoints.json` is of 0.6.10 on 5.2.0",
        ),
        (
            "axis0.config.enable_watchdog",
            "axis0.config.watchdog",
            "no endpoint `axis0.config.enable_watchdog`",
        ),
        // Another setting has the number: what was written is not read back.
        ("{\"id\": 274,", "{\"id\": 999,", "`axis0.config.can.heartbeat_msg_rate_ms`"),
        (
            "{\"id\": 301, \"type\": \"float\"",
            "{\"id\": 301, \"type\": \"uint64\"",
            "no endpoint of an ODrive travels as uint64",
        ),
    ] {
        let path = folder.path().join("endpoints.json");
        std::fs::write(&path, text.replace(replaced, by)).unwrap();
        let config = robot(1, "0.6", &format!(", endpoints = \"{}\"", path.display()));
        let refused = refusal(&config, |_| {});
        assert!(refused.contains(why), "{refused}");
    }
}
