//! Servos and sensors that do not do what they are commanded to do, or report what cannot be.

use super::*;
use khz_servo::moteus::{self, Format, QueryFormat};
use khz_servo::{Family, Mounting};

#[test]
fn a_velocity_that_was_not_requested_is_no_fault() {
    for (velocity, phase) in [(Format::None, Phase::Active), (Format::Float, Phase::Damping)] {
        let query = QueryFormat { velocity, ..QueryFormat::default() };
        let family = Family::Moteus(moteus::Settings { query, ..moteus::Settings::default() });
        let joint = Joint::new(&Limits::default(), &family, &Mounting::default(), None);
        let mut bench = Bench::active(|_| {});
        bench.supervisor = Supervisor::of(
            SupervisorSettings::default().at(PERIOD_NS, 0.5),
            vec![joint; 2],
            LONGEST_STALL_NS,
        );
        bench.run(600, |_| {});
        assert_eq!(bench.tick(|bench| bench.state.servos[1].velocity = f64::NAN), phase);
    }
}

#[test]
fn a_servo_that_stays_off_is_noticed_and_one_that_is_commanded_to_is_not() {
    let off = |bench: &mut Bench| bench.state.servos[0].doing = Doing::Off;
    let mut bench = Bench::new(|_| {});
    while bench.tick(off) != Phase::Active {}
    assert_eq!(bench.run(10, off), Phase::Active);
    assert_eq!(bench.tick(off), Phase::Damping);
    assert_eq!(bench.last().cause, Cause::ServoNotObeying { servo: 0, mode: Mode::UNKNOWN });

    let stopped = |bench: &mut Bench| {
        off(bench);
        bench.commands[0] = ServoCommand::Stop;
    };
    let mut bench = Bench::active(|_| {});
    // The reply to the first stop still reports the state before it.
    bench.tick(|bench| bench.commands[0] = ServoCommand::Stop);
    assert_eq!(bench.run(100, stopped), Phase::Active);

    let enabling = |bench: &mut Bench| bench.state.servos[0].doing = Doing::Starting;
    let mut bench = Bench::new(|_| {});
    while bench.tick(enabling) != Phase::Active {}
    assert_eq!(bench.run(490, enabling), Phase::Active);
    assert_eq!(bench.run(20, enabling), Phase::Damping);
}

#[test]
fn a_servo_back_on_another_turn_is_not_followed_with_a_jump() {
    let mut bench = Bench::active(|settings| settings.reactions.servo_fault = Reaction::Warn);
    bench.limit(|joints| joints[0].bounds.velocity = 2.0);
    let turned = |bench: &mut Bench| bench.state.servos[0].position = std::f64::consts::TAU;
    let target = |bench: &Bench| match bench.commands[0] {
        ServoCommand::Position(command) => command.position,
        _ => panic!("still under control"),
    };
    bench.tick(|_| {});
    bench.tick(|bench| {
        turned(bench);
        bench.state.servos[0].doing = Doing::Off;
    });
    for tick in 1..100 {
        assert!((target(&bench) - (std::f64::consts::TAU - 0.002 * f64::from(tick))).abs() < 1e-9);
        bench.tick(turned);
    }
}

/// Found by the campaign: power off and on for 28 ms in the grace, and the servo was back in position mode before its replies
/// were taken again.
#[test]
fn a_servo_that_may_have_restarted_unseen_is_not_waited_for() {
    let mut bench = Bench::new(|settings| settings.stale_ms = Some(50.0));
    bench.run(50, |_| {});
    assert_eq!(bench.supervisor.phase(), Phase::Active);
    let silent = |bench: &mut Bench| bench.state.servos[1].fresh = false;
    assert_eq!(bench.run(23, silent), Phase::Active);
    assert_eq!(bench.run(2, silent), Phase::Damping);
}

#[test]
fn a_servo_whose_twin_appears_under_control_brings_the_robot_down() {
    let mut bench = Bench::active(|_| {});
    // A bus that doubles a frame now and then.
    assert_eq!(bench.run(200, |bench| bench.seen.cycle.answered_twice = Some(1)), Phase::Active);
    bench.tick(|bench| bench.seen.cycle.intruded = Some(1));
    assert_eq!((bench.last().to, bench.last().cause), (Phase::Damping, Cause::DuplicateReplies { servo: 1 }));
}

#[test]
fn a_value_that_cannot_be_is_reported_as_that() {
    let text = |celsius| Cause::Hot { servo: 0, celsius }.to_string();
    assert_eq!(text(71.0), "71.0 °C");
    assert_eq!(text(434.6), "a temperature of 434.6 °C, which cannot be: a damaged frame or a broken sensor");
    let text = |volts| Cause::VoltageLow { servo: 0, volts }.to_string();
    assert_eq!(text(9.5), "supply at 9.5 V");
    assert_eq!(text(-0.2), "a voltage of -0.2 V, which cannot be: a damaged frame or a broken sensor");
}

#[test]
fn a_servo_in_another_mode_than_commanded_is_found_within_a_few_replies() {
    for doing in [Doing::Other, Doing::Damping] {
        let mut bench = Bench::active(|_| {});
        assert_eq!(bench.run(4, reports(doing)), Phase::Active, "the command may have been lost");
        assert_eq!(bench.tick(reports(doing)), Phase::Damping);
        assert_eq!(bench.last().cause, Cause::ServoNotObeying { servo: 1, mode: BRAKE });
    }
}

#[test]
fn a_fault_that_a_servo_reports_beside_another_mode_brings_the_robot_down() {
    let mut bench = Bench::active(|_| {});
    let both = |bench: &mut Bench| {
        reports(Doing::Other)(bench);
        bench.state.servos[1].fault = HOT;
    };
    assert_eq!(bench.tick(both), Phase::Damping);
    assert_eq!(bench.last().cause, Cause::ServoFault { servo: 1, fault: HOT });
}

#[test]
fn a_servo_whose_reply_has_the_mode_of_before_its_command_is_not_accused() {
    // Every other reply is missed, after which the servo is damped: what it reports then is what it did until then.
    let mut bench = Bench::active(|_| {});
    for _ in 0..20 {
        bench.tick(|bench| {
            bench.state.servos[1].fresh = false;
            bench.commands[1] = ServoCommand::Damp;
        });
        assert_eq!(bench.tick(reports(Doing::Following)), Phase::Active);
    }
}

#[test]
fn a_servo_that_is_on_although_the_controller_stops_it_is_found() {
    let mut bench = Bench::active(|_| {});
    let stopped = |bench: &mut Bench| bench.commands[1] = ServoCommand::Stop;
    let obeys = |bench: &mut Bench| {
        stopped(bench);
        bench.state.servos[1].doing = Doing::Off;
    };
    bench.tick(stopped);
    assert_eq!(bench.run(20, obeys), Phase::Active);
    bench.run(4, stopped);
    assert_eq!(bench.tick(stopped), Phase::Damping);
}

#[test]
fn a_servo_that_stays_off_although_the_controller_damps_it_is_found() {
    let mut bench = Bench::new(|_| {});
    bench.run(30, |bench| {
        bench.commands[1] = ServoCommand::Damp;
        bench.state.servos[1].doing = Doing::Off;
    });
    let cause = bench.transitions.iter().map(|transition| transition.cause).next_back();
    assert!(matches!(cause, Some(Cause::ServoNotObeying { servo: 1, .. })), "{cause:?}");
}

#[test]
fn a_servo_that_the_controller_had_stopped_is_not_accused_of_staying_off_while_coming_down() {
    let mut bench = Bench::active(|_| {});
    let off = |bench: &mut Bench| {
        bench.commands[1] = ServoCommand::Stop;
        bench.state.servos[1].doing = Doing::Off;
    };
    bench.tick(|bench| bench.commands[1] = ServoCommand::Stop);
    assert_eq!(bench.run(20, off), Phase::Active);
    bench.tick(|bench| {
        off(bench);
        bench.seen.stop = Some(Cause::TimeOver);
    });
    bench.run(40, reports(Doing::Off));
    assert_eq!((bench.last().to, bench.last().cause), (Phase::Damping, Cause::TimeOver));
}

#[test]
fn a_liar_that_sounds_obedient_now_and_then_is_not_obedient() {
    for every in [2, 3, 5] {
        let mut bench = Bench::active(|_| {});
        assert_eq!(bench.run(60, sounds_obedient(every, Doing::Damping)), Phase::Damping, "every {every}");
        assert_eq!(bench.last().cause, Cause::ServoNotObeying { servo: 1, mode: BRAKE });
        assert_eq!(bench.commands[1], ServoCommand::Damp, "it does now what it is told");
    }
    // A command that is lost now and then is no lie.
    let mut bench = Bench::active(|_| {});
    let rarely = |bench: &mut Bench| {
        if bench.state.tick.is_multiple_of(3) {
            reports(Doing::Damping)(bench);
        }
    };
    assert_eq!(bench.run(1000, rarely), Phase::Active);
}

#[test]
fn a_position_that_jumps_under_control_brings_the_robot_down() {
    let mut bench = Bench::active(|_| {});
    let jumped = |bench: &mut Bench| bench.state.servos[0].position = 0.9;
    assert_eq!(bench.tick(jumped), Phase::Damping);
    assert_eq!(bench.last().cause, Cause::PositionJumped { servo: 0, from: 0.0, to: 0.9 });
    // A joint that is not driven may be given another zero.
    let mut bench = Bench::unarmed(|_| {});
    bench.run(100, |_| {});
    assert_eq!(bench.run(5, jumped), Phase::Idle);
}

#[test]
fn a_position_that_slips_in_slices_under_control_brings_the_robot_down() {
    let mut bench = Bench::active(|_| {});
    let slips = |bench: &mut Bench| bench.state.servos[0].position = 0.145 * (bench.state.tick - 599) as f64;
    bench.tick(slips);
    assert_eq!(bench.tick(slips), Phase::Damping, "{:?}", bench.last());
    assert!(matches!(bench.last().cause, Cause::PositionJumped { servo: 0, .. }));
}

fn frozen(bench: &mut Bench) {
    bench.state.imu.as_mut().unwrap().sample.rate = [0.25; 3];
}

#[test]
fn an_imu_that_repeats_one_reading_is_as_one_that_is_silent() {
    let mut bench = Bench::active(|_| {});
    assert_eq!(bench.run(101, frozen), Phase::Active);
    assert_eq!(bench.tick(frozen), Phase::Damping);
    assert_eq!(bench.last().cause, Cause::ImuFrozen { for_ns: 101 * PERIOD_NS });
    let mut bench = Bench::active(|settings| settings.imu_frozen_ms = Some(0.0));
    assert_eq!(bench.run(2000, frozen), Phase::Active, "not watched");
}

#[test]
fn a_reading_that_is_old_by_itself_is_not_repeated() {
    let mut bench = Bench::active(|settings| settings.imu_silent_ms = Some(10_000.0));
    let old = |bench: &mut Bench| {
        frozen(bench);
        bench.state.imu.as_mut().unwrap().sample.at_ns = 600 * PERIOD_NS;
    };
    assert_eq!(bench.run(500, old), Phase::Active);
}

#[test]
fn a_value_that_is_asked_for_and_never_a_number_is_reported() {
    type Spoil = fn(&mut Bench);
    let spoils: [(Spoil, Cause); 2] = [
        (|bench| bench.state.servos[1].temperature = f64::NAN, Cause::TemperatureUnknown { servo: 1 }),
        (|bench| bench.state.servos[1].voltage = f64::NAN, Cause::VoltageUnknown { servo: 1 }),
    ];
    for (spoil, cause) in spoils {
        let mut bench = Bench::active(|_| {});
        assert_eq!(bench.run(4, spoil), Phase::Active);
        assert_eq!(bench.tick(spoil), Phase::Damping);
        assert_eq!(bench.last().cause, cause);
        // Nor is the robot armed.
        let mut bench = Bench::new(|_| {});
        assert_eq!(bench.run(20, spoil), Phase::Fault);
        assert_eq!((bench.last().from, bench.last().cause), (Phase::Idle, cause));
        // Unless it does not matter, or is not asked for.
        let mut bench = Bench::new(|settings| {
            (settings.reactions.temperature, settings.reactions.voltage) = (Reaction::Warn, Reaction::Warn);
        });
        assert_eq!(bench.run(20, spoil), Phase::Active);
        let mut bench = Bench::new(|_| {});
        for joint in &mut bench.supervisor.joints.0 {
            (joint.carries.voltage_asked, joint.carries.temperature_asked) = (false, false);
        }
        assert_eq!(bench.run(20, spoil), Phase::Active);
    }
}
