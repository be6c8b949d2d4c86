//! Coming down, and at rest: servos are damped, switched off, and named if they may still be on.

use super::*;

#[test]
fn damping_ends_early_when_all_stands_still() {
    let mut bench = Bench::active(|_| {});
    bench.tick(fault);
    let still = |bench: &mut Bench| {
        fault(bench);
        bench.state.servos.iter_mut().for_each(|servo| servo.velocity = 0.01);
    };
    assert_eq!(bench.run(299, still), Phase::Damping);
    assert_eq!(bench.run(3, still), Phase::Fault);
    assert_eq!(bench.last().cause, Cause::Still);
    assert_eq!(bench.supervisor.blame(), Some(Cause::ServoFault { servo: 1, fault: HOT }));
}

/// Found by the exploration with two events in a tick.
#[test]
fn to_be_armed_again_does_not_make_a_servo_forgotten_that_may_be_on() {
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| bench.seen.stop = Some(Cause::OperatorStop));
    bench.run(3100, |_| {});
    bench.tick(|bench| bench.state.servos[1].doing = Doing::TimedOut);
    bench.supervisor.arm();
    let silent = |bench: &mut Bench| bench.silence();
    assert_eq!(bench.tick(silent), Phase::Init);
    bench.tick(|bench| {
        bench.silence();
        bench.seen.stop = Some(Cause::OperatorStop);
    });
    assert_eq!(bench.run(100, silent), Phase::Fault);
    assert_eq!(bench.last().cause, Cause::ServoNotReportedOff { servo: 1 });
}

/// Ticks at rest until the robot counts as settled, if every servo goes on answering that it is on.
fn ticks_until_settled(period_ns: i64) -> usize {
    let mut bench = Bench::active(|settings| settings.reactions.operator = Descent::Stop);
    bench.state.period_ns = period_ns;
    bench.tick(|bench| bench.seen.stop = Some(Cause::OperatorStop));
    assert_eq!(bench.supervisor.phase(), Phase::Stopped);
    (1..1000)
        .find(|_| {
            // `tick` itself moves time by a period of 1 kHz.
            bench.tick(|bench| {
                bench.state.now_ns += period_ns - PERIOD_NS;
                bench.state.servos.iter_mut().for_each(|servo| servo.doing = Doing::Following);
            });
            bench.supervisor.is_settled()
        })
        .unwrap()
}

#[test]
fn stop_is_sent_for_fifty_milliseconds_and_in_ten_ticks_to_servos_that_stay_on() {
    // And a tick for each of two that has to be named.
    assert_eq!(ticks_until_settled(PERIOD_NS), 50 + 2);
    assert_eq!(ticks_until_settled(50 * PERIOD_NS), 10 + 2);
}

/// A stall of 50 ms ended it after the first tick, and a servo that had not been asked again was named as one that may be on.
#[test]
fn a_stall_at_rest_takes_none_of_the_ten_ticks_in_which_stop_is_sent() {
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| bench.seen.stop = Some(Cause::TimeOver));
    while !bench.supervisor.phase().is_over() {
        bench.tick(|bench| bench.state.servos.iter_mut().for_each(|servo| servo.velocity = 0.0));
    }
    let unheard = |bench: &mut Bench| bench.state.servos.iter_mut().for_each(|servo| servo.fresh = false);
    bench.state.now_ns += 100 * PERIOD_NS;
    for _ in 0..3 {
        bench.tick(unheard);
        assert_eq!((bench.supervisor.is_settled(), bench.last().to), (false, Phase::Stopped));
    }
    bench.run(3, |_| {});
    assert_eq!((bench.supervisor.is_settled(), bench.last().to), (true, Phase::Stopped));
}

#[test]
fn a_robot_is_settled_as_soon_as_every_servo_says_that_it_is_off() {
    let mut bench = Bench::active(|settings| settings.reactions.operator = Descent::Stop);
    bench.tick(|bench| bench.seen.stop = Some(Cause::OperatorStop));
    bench.tick(|bench| bench.state.servos[1].doing = Doing::Following);
    assert!(!bench.supervisor.is_settled(), "one of two");
    bench.run(2, |_| {});
    assert!(!bench.supervisor.is_settled(), "it may have been said by mistake");
    bench.tick(|_| {});
    assert!(bench.supervisor.is_settled());
}

/// Ticks of damping until the outputs go off, of joints that never move, whose servos have a fault or not.
fn ticks_of_damping(still_s: f64, still_velocity: f64, period_ns: i64, velocity: f64) -> (usize, Cause) {
    let mut bench =
        Bench::active(|settings| (settings.still_s, settings.still_velocity) = (still_s, still_velocity));
    bench.tick(|bench| bench.seen.stop = Some(Cause::OperatorStop));
    bench.state.period_ns = period_ns;
    let ticks = (0..10_000).take_while(|_| {
        let stands = |bench: &mut Bench| {
            bench.state.now_ns += period_ns - PERIOD_NS;
            let now_ns = bench.state.now_ns;
            bench
                .state
                .servos
                .iter_mut()
                .for_each(|servo| (servo.velocity, servo.at_ns) = (velocity, now_ns));
        };
        bench.tick(stands) == Phase::Damping
    });
    (ticks.count() + 1, bench.last().cause)
}

#[test]
fn joints_that_move_are_damped_although_they_need_not_stand_still_for_any_time() {
    // As long as damping may take: a joint that moves does not stand still for 0 s.
    assert_eq!(ticks_of_damping(0.0, 0.05, PERIOD_NS, 1.0), (3000, Cause::DampingOver));
    assert_eq!(ticks_of_damping(0.0, 0.0, PERIOD_NS, 0.0), (3000, Cause::DampingOver));
}

#[test]
fn joints_that_were_held_have_time_to_sink_before_they_count_as_still() {
    assert_eq!(ticks_of_damping(0.0, 0.05, PERIOD_NS, 0.0), (51, Cause::Still));
    assert_eq!(ticks_of_damping(0.0, 0.05, 100 * PERIOD_NS, 0.0), (3, Cause::Still));
    assert_eq!(ticks_of_damping(0.3, 0.05, PERIOD_NS, 0.0), (301, Cause::Still));
}

#[test]
fn trouble_in_the_tick_in_which_the_time_is_over_is_no_end_as_planned() {
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| {
        bench.seen.stop = Some(Cause::TimeOver);
        fault(bench);
    });
    assert!(matches!(bench.last().cause, Cause::ServoFault { .. }), "{:?}", bench.last());
    assert_eq!(bench.run(3100, |_| {}), Phase::Fault);
    // A requested stop is named as the cause.
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| {
        bench.seen.stop = Some(Cause::OperatorStop);
        fault(bench);
    });
    assert_eq!(bench.last().cause, Cause::OperatorStop);
}

#[test]
fn a_servo_that_does_not_damp_is_stopped_and_named_in_the_end() {
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| bench.seen.stop = Some(Cause::TimeOver));
    let follows = reports(Doing::Following);
    // The command may be on its way for some periods, and one that is let go too soon falls.
    bench.run(50, &follows);
    assert_eq!(bench.commands, [ServoCommand::Damp; 2]);
    bench.tick(&follows);
    assert_eq!(bench.commands, [ServoCommand::Damp, ServoCommand::Stop]);
    let message = bench.last();
    assert_eq!((message.from, message.to), (Phase::Damping, Phase::Damping));
    assert_eq!(message.cause, Cause::ServoNotObeying { servo: 1, mode: BRAKE });
    // It goes on being stopped, also if it reports something else meanwhile.
    bench.tick(|_| {});
    assert_eq!(bench.commands, [ServoCommand::Damp, ServoCommand::Stop]);
    bench.run(3100, &follows);
    assert!(bench.supervisor.is_settled());
    assert_eq!(bench.supervisor.phase(), Phase::Fault, "no end as planned");
    assert_eq!((bench.last().from, bench.last().to), (Phase::Stopped, Phase::Fault));
    assert_eq!(bench.last().cause, Cause::ServoStillOn { servo: 1, mode: BRAKE });
    assert_eq!(bench.transitions.iter().filter(|message| message.from == Phase::Damping).count(), 2);
}

#[test]
fn a_liar_that_sounds_obedient_now_and_then_is_let_go_reported_once_and_named_in_the_end() {
    for every in [2, 5] {
        let mut bench = Bench::active(|_| {});
        bench.tick(|bench| bench.seen.stop = Some(Cause::TimeOver));
        let lies = sounds_obedient(every, Doing::Following);
        bench.run(250, &lies);
        assert_eq!(bench.commands, [ServoCommand::Damp, ServoCommand::Stop], "every {every}");
        // A reply that then agrees with its command is not believed either.
        bench.run(200, reports(Doing::Off));
        assert!(bench.supervisor.watch.is_astray(1));
        bench.run(3000, &lies);
        assert!(bench.supervisor.is_settled());
        assert_eq!(bench.supervisor.phase(), Phase::Fault, "no end as planned");
        assert!(matches!(
            bench.last().cause,
            Cause::ServoStillOn { servo: 1, .. } | Cause::ServoNotReportedOff { servo: 1 }
        ));
        assert_eq!(bench.transitions.iter().filter(|message| message.from == Phase::Damping).count(), 2);
    }
}

#[test]
fn a_servo_that_says_now_and_then_at_rest_that_it_is_off_may_be_on() {
    let mut bench = Bench::at_rest();
    assert_eq!(bench.run(60, sounds_obedient(3, Doing::Following)), Phase::Fault);
    assert!(bench.supervisor.is_settled());
    // It is believed when it has reported so three times, however many replies are lost in between.
    let mut bench = Bench::at_rest();
    bench.run(60, |bench| bench.state.servos[1].fresh = bench.state.tick.is_multiple_of(15));
    assert_eq!(bench.supervisor.phase(), Phase::Stopped);
}

/// It was let go, reported that it is off while the robot came down, and then nothing more.
#[test]
fn a_servo_that_is_silent_at_rest_may_be_on_whatever_it_reported_before() {
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| bench.seen.stop = Some(Cause::TimeOver));
    bench.run(60, reports(Doing::Following));
    assert_eq!(bench.commands[1], ServoCommand::Stop);
    bench.run(5, reports(Doing::Off));
    bench.run(4000, |bench| bench.state.servos[1].fresh = false);
    assert_eq!(bench.supervisor.phase(), Phase::Fault);
}

#[test]
fn a_servo_that_is_switching_on_at_rest_is_not_off() {
    let mut bench = Bench::at_rest();
    assert_eq!(bench.run(60, reports(Doing::Starting)), Phase::Fault);
    assert!(bench.supervisor.is_settled());
}

/// A format of 0.63 rad/s per step reports a slowly sinking leg as 0.
#[test]
fn a_joint_that_sinks_does_not_stand_still_whatever_velocity_it_reports() {
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| bench.seen.stop = Some(Cause::TimeOver));
    let began = bench.state.tick;
    let sinks = |bench: &mut Bench| {
        bench.state.servos[0].position = -0.0003 * (bench.state.tick - began) as f64;
    };
    assert_eq!(bench.run(1000, sinks), Phase::Damping, "{:?}", bench.last());
}

/// At less than `still_velocity` it was switched off half-way.
#[test]
fn a_joint_that_sinks_slowly_is_damped_for_as_long_as_damping_may_take() {
    let ticks_of_sinking = |velocity: f64| {
        let mut bench = Bench::active(|_| {});
        bench.tick(|bench| bench.seen.stop = Some(Cause::TimeOver));
        let began = bench.state.tick;
        let sinks = |bench: &mut Bench| {
            let position = velocity * 1e-3 * (bench.state.tick - began) as f64;
            bench.state.servos.iter_mut().for_each(|it| (it.position, it.velocity) = (position, velocity));
        };
        let ticks = (0..10_000).take_while(|_| bench.tick(sinks) == Phase::Damping).count();
        (ticks + 1, bench.last().cause)
    };
    assert_eq!(ticks_of_sinking(0.02), (3000, Cause::DampingOver));
    assert_eq!(ticks_of_sinking(0.01), (301, Cause::Still));
}

#[test]
fn a_servo_that_is_off_and_on_in_turn_while_it_comes_down_is_reported_once() {
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| bench.seen.stop = Some(Cause::TimeOver));
    bench.transitions.clear();
    bench.run(500, sounds_obedient(2, Doing::Off));
    let message: Vec<_> = bench.transitions.iter().map(|message| (message.to, message.cause)).collect();
    assert_eq!(message, [(Phase::Damping, Cause::ServoReset { servo: 1 })]);
}

#[test]
fn a_servo_that_does_not_reply_in_the_end_is_named_and_that_is_no_end_as_planned() {
    let mut bench = Bench::at_rest();
    let silent = |bench: &mut Bench| bench.state.servos.iter_mut().for_each(|servo| servo.fresh = false);
    // One that reported that it is off, and is silent then, is off.
    bench.tick(|bench| bench.state.servos[1].fresh = false);
    bench.run(60, silent);
    assert!(bench.supervisor.is_settled());
    assert_eq!(bench.supervisor.phase(), Phase::Fault);
    assert_eq!(bench.last().cause, Cause::ServoNotReportedOff { servo: 1 });
}

#[test]
fn what_goes_wrong_while_a_robot_comes_down_is_recorded_once() {
    let mut bench = Bench::active(|_| {});
    bench.tick(fault);
    let before = bench.transitions.len();
    let hot = |bench: &mut Bench| {
        fault(bench);
        bench.state.servos[0].temperature = 71.0;
    };
    bench.run(100, hot);
    let message: Vec<_> =
        bench.transitions[before..].iter().map(|message| (message.to, message.cause)).collect();
    assert_eq!(message, [(Phase::Damping, Cause::Hot { servo: 0, celsius: 71.0 })]);
}
