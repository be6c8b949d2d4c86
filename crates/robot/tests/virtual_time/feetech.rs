//! Robots of Feetech servos, in virtual time: what is set and compared before anything moves, and what their odd ways lead to.

use crate::line;
use crate::mit::{self, Outcome, run_robot, when_the_host_dies};
use khz_controllers::Hold;
use khz_emu::feetech::{Servo, Setup};
use khz_emu::{FamilyConfig, World};
use khz_file::RobotConfig;
use khz_link::Link;
use khz_loop::Doing;
use khz_loop::supervisor::Phase;
use khz_wire::Request;
use khz_wire::feetech::{self, address};

const MS: i64 = 1_000_000;

/// So many STS3215 on a line at 1 Mbit/s.
fn robot(servos: usize, rate_hz: u32, keys: &str) -> RobotConfig {
    let servo = |id: usize| format!("[[servo]]\nname = \"joint_{id}\"\nid = {id}\n");
    let text = format!(
        "[loop]\nrate_hz = {rate_hz}\n[bus.main]\nlink = \"emulated\"\nwire = \"feetech\"\nbaud = 1_000_000\nturnaround_us = 10\n\
         [emulation]\nsupply_v = 7.4\n[supervisor]\nvoltage_low_v = 5\n[servo_defaults]\nbus = \"main\"\nfamily = \"feetech\"\n\
         feetech = {{ model = \"STS3215\", unwatched = true{keys} }}\n\
         limits = {{ position = [-1.5, 1.5], velocity = 8 }}\n\
         joint = {{ inertia = 0.003, armature = 0.0284, viscous = 0.0591, coulomb = 0.0524 }}\n{}\
         [controller]\nname = \"sine\"\namplitude = 0.5\nfrom_hz = 0.5\nto_hz = 1.0\nsweep_s = 1.0\n",
        (1..=servos).map(servo).collect::<String>()
    );
    RobotConfig::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"))
}

/// Why the robot with other servos than in its file does not start.
fn refusal(config: &RobotConfig, change: impl Fn(&mut Setup)) -> String {
    let outcome = mit::run_with(config, |family| {
        if let FamilyConfig::Feetech(servo) = family {
            change(servo);
        }
    });
    outcome.err().unwrap_or_else(|| panic!("it runs")).why
}

fn register(world: &World, servo: usize, address: u8) -> i32 {
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
    assert!(outcome.swing > 0.3, "{}", outcome.swing);
    outcome
}

#[test]
fn six_of_them_run_at_550_hz_and_twelve_at_250_hz() {
    ends_well(&robot(6, 550, ""));
    ends_well(&robot(12, 250, ", position_p = 32"));
}

#[test]
fn a_servo_that_is_not_as_the_file_has_it_is_not_driven_and_the_cure_is_reported() {
    let config = robot(2, 500, "");
    for (change, expected) in [
        ((|it| it.model = 2825) as fn(&mut Setup), "STS3250"),
        (|it| it.return_delay = 250, "return_delay=0"),
        (|it| it.volts = [70, 40], "input voltage"),
    ] {
        let why = refusal(&config, change);
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn what_the_file_says_is_in_the_servo_when_it_is_driven_and_the_lock_is_closed() {
    let config = robot(1, 500, ", position_i = 3, position_d = 20, speed = 3000, torque_limit = 900");
    run_robot(&config, |world, now_ns| {
        if now_ns > 1_000 * MS && now_ns < 1_100 * MS {
            let is = |at| register(world, 0, at);
            let gains = [address::POSITION_P, address::POSITION_D, address::POSITION_I].map(is);
            assert_eq!((gains, is(address::GOAL_SPEED), is(address::MODE)), ([16, 20, 3], 3000, 0));
            let others = [address::TORQUE_LIMIT, address::LOCK, address::TORQUE_ENABLE].map(is);
            assert_eq!(others, [900, 1, 1]);
        }
    });
}

#[test]
fn a_servo_that_falls_silent_is_missed_alone() {
    line::is_missed_alone(&robot(6, 500, ""));
}

#[test]
fn what_a_servo_does_by_itself_brings_the_robot_down() {
    line::brings_the_robot_down(&robot(3, 500, ""));
}

/// Two servos in this mode that follow no positions.
fn run_free(mode: &str, velocity: f64, torque: f64) -> (Outcome, f64) {
    let mut config = robot(2, 500, &format!(", mode = \"{mode}\", speed = 6000"));
    config.servos.iter_mut().for_each(|servo| servo.settings.limits.torque = Some(3.0));
    line::run_free(config, velocity, torque)
}

#[test]
fn a_wheel_turns_as_fast_as_it_is_commanded_and_comes_to_rest() {
    let (outcome, fastest) = run_free("velocity", 3.0, 0.0);
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
    assert!((2.7..3.2).contains(&fastest), "{fastest} rad/s");
    assert_eq!(outcome.doing, [Doing::Off; 2]);
    assert!(outcome.swing > 6.0, "{} rad", outcome.swing);
}

#[test]
fn a_torque_turns_a_joint_as_its_motor_gives_it() {
    let (outcome, fastest) = run_free("pwm", 0.0, 0.3);
    // 0.3 N·m less 0.0524 of dry friction at 0.0591 N·m·s/rad: the back-EMF is made up for.
    assert!(
        (3.6..4.4).contains(&fastest) && outcome.doing == [Doing::Off; 2],
        "{fastest}: {}",
        outcome.cause()
    );
}

#[test]
fn a_position_is_refused_where_the_mode_has_none() {
    let outcome = run_robot(&robot(1, 500, ", mode = \"velocity\", speed = 6000"), |_, _| {});
    assert!(outcome.cause().contains("position"), "{}", outcome.cause());
    assert_eq!(outcome.doing, [Doing::Off]);
}

#[test]
fn without_a_host_they_follow_their_last_target_for_ever() {
    when_the_host_dies(&robot(2, 500, ""), [(80, Doing::Following), (5_000, Doing::Following)]);
}

#[test]
fn one_that_a_killed_run_has_left_on_holds_until_people_can_hold_what_falls() {
    let config = robot(2, 500, "");
    let (doing, way, took_ms, told) =
        line::begins_after_a_killed_run((&config, Box::new(Hold::default())), &config, 0.1, 0);
    assert_eq!(doing, [Doing::Following]);
    assert!(way.abs() < 0.2 && (3000..3300).contains(&took_ms), "{way} rad, {took_ms} ms");
    assert!(told.len() == 1 && told[0].contains("`joint_1`, `joint_2`. Nothing damps it"), "{told:?}");
}

/// The command that was printed waited for answers that such a servo does not give.
#[test]
fn one_that_answers_no_writes_can_be_set_so_that_it_does() {
    let config = robot(1, 500, "");
    let mut world = config.emulate().unwrap();
    let mut now_ns = 0;
    let mut ask = |world: &mut World, request: &Request<'_>| {
        Link::send(world, 0, request, now_ns).unwrap();
        now_ns += 20 * MS;
        world.receive(now_ns).unwrap().map(|received| received.frame)
    };
    let silence = feetech::write(1, address::RESPONSE_LEVEL, &[0]).unwrap();
    ask(&mut world, &Request { frame: &silence, to: Some(1), replies: 0 });
    let family = config.servos[0].family();
    let set = family.by_hand().set_register(1, address::RESPONSE_LEVEL.into(), 1.0).unwrap();
    for asked in &set {
        match (ask(&mut world, &asked.request()), asked.answers) {
            (Some(frame), 1) => assert_eq!((asked.read)(&frame).unwrap().wrong, None),
            (answer, answers) => assert_eq!((answer, answers), (None, 0)),
        }
    }
    assert_eq!(register(&world, 0, address::RESPONSE_LEVEL), 1);
}
