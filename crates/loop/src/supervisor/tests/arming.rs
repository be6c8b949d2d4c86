//! When a robot is armed, and when not.

use super::*;

#[test]
fn start_up_is_forgiven_for_the_grace_only() {
    let mut bench = Bench::new(|_| {});
    // Complete ticks before arming, and one from idle.
    bench.run(6, |_| {});
    assert_eq!(bench.supervisor.phase(), Phase::Active);
    assert_eq!(bench.run(495, |bench| bench.seen.overrun = true), Phase::Active);
    assert_eq!(bench.run(10, |bench| bench.seen.overrun = true), Phase::Damping);
    assert!(matches!(bench.last().cause, Cause::Overruns { .. }));
}

#[test]
fn a_joint_outside_its_limits_is_not_armed_whatever_the_reaction() {
    let outside = |bench: &mut Bench| bench.state.servos[1].position = 0.66;
    let mut bench = Bench::unarmed(|settings| settings.reactions.position = Reaction::Warn);
    bench.limit(|joints| joints[1].bounds.position = [-0.6, 0.6]);
    // Until it is armed there is time to move the joint.
    assert_eq!(bench.run(50, outside), Phase::Idle);
    bench.supervisor.arm();
    assert_eq!(bench.tick(outside), Phase::Fault);
    assert_eq!(bench.last().cause, Cause::PositionOutOfLimits { servo: 1, position: 0.66, limit: 0.6 });
}

#[test]
fn an_imu_that_is_not_ready_has_the_grace_of_a_start() {
    let mut bench = Bench::new(|_| {});
    let not_ready = |bench: &mut Bench| bench.state.imu.as_mut().unwrap().sample.attitude = [f64::NAN; 4];
    assert_eq!(bench.run(498, not_ready), Phase::Active);
    assert_eq!(bench.run(10, not_ready), Phase::Damping);
    assert_eq!(bench.last().cause, Cause::ImuNotFinite);
}

#[test]
fn a_servo_missing_at_the_start_is_named() {
    let mut bench = Bench::new(|_| {});
    let silent = |bench: &mut Bench| bench.state.servos[1] = ServoState::UNKNOWN;
    assert_eq!(bench.run(1001, silent), Phase::Init);
    assert_eq!(bench.run(1, silent), Phase::Fault);
    assert_eq!(bench.last().cause, Cause::NotSeen { servo: 1, late: false });
    bench.run(51, silent);
    assert!(bench.supervisor.is_settled());
}

#[test]
fn arming_needs_several_complete_ticks_in_a_row() {
    let mut bench = Bench::new(|settings| settings.answer_ticks = 5);
    let silent = |bench: &mut Bench| bench.state.servos[1].fresh = false;
    for _ in 0..20 {
        assert_eq!(bench.run(4, |_| {}), Phase::Init);
        assert_eq!(bench.tick(silent), Phase::Init);
    }
    assert_eq!(bench.run(4, |_| {}), Phase::Init);
    assert_eq!(bench.tick(|_| {}), Phase::Idle);
}

#[test]
fn a_robot_that_never_answers_completely_is_not_armed_but_gives_up() {
    let mut bench = Bench::new(|_| {});
    let silent = |bench: &mut Bench| bench.state.servos[1].fresh = false;
    for _ in 0..250 {
        bench.run(4, |_| {});
        bench.tick(silent);
    }
    assert_eq!(
        (bench.tick(silent), bench.last().cause),
        (Phase::Fault, Cause::NotSeen { servo: 1, late: false })
    );
}

#[test]
fn replies_that_come_late_now_and_then_are_not_reported_as_missing() {
    let mut bench = Bench::new(|settings| settings.answer_ticks = 5);
    // Complete now and then: the late reply comes a tick after the miss it belongs to.
    for _ in 0..20 {
        bench.tick(|bench| (bench.seen.cycle.late, bench.seen.cycle.late_servos) = (1, 1 << 1));
        bench.tick(|bench| {
            bench.state.servos[1].fresh = false;
            bench.seen.cycle.missed = 1;
        });
        assert_ne!(bench.supervisor.phase(), Phase::Idle);
    }
    assert_eq!(bench.supervisor.lack(), Some(Cause::NotSeen { servo: 1, late: true }));
    // Another is silent.
    bench.tick(|bench| bench.state.servos[0].fresh = false);
    assert_eq!(bench.supervisor.lack(), Some(Cause::NotSeen { servo: 0, late: false }));
    // It falls silent.
    bench.run(100, |bench| {
        bench.state.servos[1].fresh = false;
        bench.seen.cycle.missed = 1;
    });
    assert_eq!(bench.supervisor.lack(), Some(Cause::NotSeen { servo: 1, late: false }));
}

#[test]
fn a_request_to_arm_in_the_tick_of_a_stop_does_not_start_a_robot_at_rest_again() {
    let mut bench = Bench::active(|_| {});
    let stop = |bench: &mut Bench| {
        bench.supervisor.arm();
        bench.seen.stop = Some(Cause::OperatorStop);
    };
    bench.run(6000, stop);
    assert_eq!((bench.last().to, bench.supervisor.is_settled()), (Phase::Stopped, true));
}

#[test]
fn a_robot_in_which_a_servo_answers_twice_is_not_armed() {
    let mut bench = Bench::new(|_| {});
    let twice = |bench: &mut Bench| bench.seen.cycle.answered_twice = Some(1);
    assert_eq!(bench.run(1001, twice), Phase::Init);
    assert_eq!((bench.tick(twice), bench.last().cause), (Phase::Fault, Cause::DuplicateReplies { servo: 1 }));
}

#[test]
fn arming_on_request_needs_complete_ticks_just_before() {
    let mut bench = Bench::unarmed(|_| {});
    assert_eq!(bench.run(100, |_| {}), Phase::Idle);
    bench.tick(|bench| bench.state.servos[1].fresh = false);
    bench.supervisor.arm();
    assert_eq!(bench.run(4, |_| {}), Phase::Idle);
    assert_eq!(bench.tick(|_| {}), Phase::Active);
}

#[test]
fn rearming_starts_over_from_measured_positions() {
    let mut bench = Bench::active(|_| {});
    bench.tick(fault);
    bench.run(3200, |_| {});
    assert!(bench.supervisor.is_settled());
    bench.supervisor.arm();
    bench.transitions.clear();
    assert_eq!(bench.run(10, |_| {}), Phase::Active);
    let to: Vec<_> = bench.transitions.iter().map(|transition| transition.to).collect();
    assert_eq!(to, [Phase::Init, Phase::Idle, Phase::Armed, Phase::Active]);
}

#[test]
fn until_it_is_armed_it_waits_in_idle() {
    let mut bench = Bench::unarmed(|_| {});
    assert_eq!(bench.run(100, |_| {}), Phase::Idle);
    bench.supervisor.arm();
    assert_eq!(bench.tick(|_| {}), Phase::Active);
}

#[test]
fn a_robot_with_a_servo_that_is_on_is_not_armed() {
    let mut bench = Bench::new(|_| {});
    let on = |bench: &mut Bench| bench.state.servos[1].doing = Doing::Following;
    assert_eq!(bench.run(100, on), Phase::Init);
    assert!(matches!(bench.supervisor.lack(), Some(Cause::ServoNotObeying { servo: 1, .. })));
    assert_eq!(bench.run(100, |_| {}), Phase::Active);
}

#[test]
fn arming_waits_for_a_tick_in_which_every_servo_replies() {
    let mut bench = Bench::unarmed(|_| {});
    bench.run(10, |_| {});
    bench.supervisor.arm();
    let at_ns = bench.state.now_ns;
    let missed = |bench: &mut Bench| bench.state.servos[1] = ServoState { fresh: false, ..well(at_ns) };
    assert_eq!(bench.run(3, missed), Phase::Idle);
    assert_eq!(bench.run(5, |_| {}), Phase::Active);
}

#[test]
fn a_robot_with_a_faulted_servo_is_not_armed() {
    let mut bench = Bench::unarmed(|_| {});
    bench.run(10, |_| {});
    bench.supervisor.arm();
    assert_eq!(bench.tick(fault), Phase::Init);
    assert_eq!(bench.last().cause, Cause::ServoFault { servo: 1, fault: HOT });
    assert_eq!(bench.run(6, |_| {}), Phase::Active);
    let mut bench = Bench::unarmed(|_| {});
    bench.run(10, |_| {});
    assert_eq!(bench.run(1003, fault), Phase::Fault);
}

/// Found by the campaign: it was armed while the joint was being thrown about, and its first command went out before it came down.
#[test]
fn a_robot_with_a_joint_that_is_too_fast_is_not_armed() {
    let limited = |reaction| {
        let mut bench = Bench::unarmed(|settings| settings.reactions.velocity = reaction);
        bench.limit(|joints| joints[1].bounds.velocity = 6.0);
        bench.run(10, |_| {});
        bench.supervisor.arm();
        let phase = bench.tick(|bench| bench.state.servos[1].velocity = -9.1);
        (phase, bench.last().cause, bench.commands.contains(&ServoCommand::Stop))
    };
    let too_fast = Cause::TooFast { servo: 1, velocity: -9.1, limit: 6.0 };
    assert_eq!(limited(Reaction::Damp), (Phase::Fault, too_fast, true));
    assert_eq!(limited(Reaction::Warn).0, Phase::Active);
}

/// Found by the exploration with two events in a tick.
#[test]
fn a_robot_asked_to_arm_again_is_not_armed_while_a_servo_turns_out_to_be_on() {
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| bench.seen.stop = Some(Cause::OperatorStop));
    assert_eq!(bench.run(3100, |_| {}), Phase::Stopped);
    bench.supervisor.arm();
    let on = |bench: &mut Bench| bench.state.servos[1].doing = Doing::TimedOut;
    assert_eq!(bench.tick(on), Phase::Fault);
    assert!(matches!(bench.last().cause, Cause::ServoStillOn { servo: 1, .. }), "{:?}", bench.last());
    assert_eq!(bench.run(100, |_| {}), Phase::Fault);
    // A request made after that was reported is obeyed.
    bench.supervisor.arm();
    assert_eq!(bench.run(20, |_| {}), Phase::Active);
}

#[test]
fn a_robot_that_was_never_armed_says_what_was_lacking() {
    let mut bench = Bench::new(|settings| settings.answer_s = 10.0);
    bench.run(100, Bench::silence);
    bench.tick(|bench| {
        bench.silence();
        bench.seen.stop = Some(Cause::TimeOver);
    });
    assert_eq!(bench.supervisor.phase(), Phase::Stopped);
    assert_eq!(bench.supervisor.lack(), Some(Cause::NotSeen { servo: 1, late: false }));

    let mut bench = Bench::new(|settings| settings.heartbeat_ms = Some(100.0));
    let unheard = |bench: &mut Bench| bench.seen.heartbeat_age_ns = Some(i64::MAX);
    bench.run(100, unheard);
    bench.tick(|bench| {
        unheard(bench);
        bench.seen.stop = Some(Cause::OperatorStop);
    });
    assert_eq!(bench.supervisor.phase(), Phase::Stopped);
    let lack = bench.supervisor.lack().unwrap();
    assert_eq!(lack, Cause::HeartbeatLost { age_ns: i64::MAX });
    assert_eq!(lack.to_string(), "no heartbeat from the operator yet");

    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| bench.seen.stop = Some(Cause::TimeOver));
    assert_eq!(bench.supervisor.lack(), None);
}

#[test]
fn a_robot_that_an_operator_arms_does_not_move_long_after_it_was_asked() {
    let quiet = |bench: &mut Bench| bench.seen.heartbeat_age_ns = Some(i64::MAX);
    let heartbeat = |bench: &mut Bench| bench.seen.heartbeat_age_ns = Some(1);
    let mut bench = Bench::new(|settings| {
        settings.arming = Arming::Operator;
        settings.heartbeat_ms = Some(20.0);
    });
    bench.supervisor.arm();
    assert_eq!(bench.run(50, heartbeat), Phase::Idle, "asked too early");
    assert_eq!(bench.supervisor.lack(), Some(Cause::NotArmed));
    bench.supervisor.arm();
    assert_eq!(bench.run(399, quiet), Phase::Idle);
    assert_eq!(bench.run(2, heartbeat), Phase::Active, "just in time");

    let mut bench = Bench::new(|settings| {
        settings.arming = Arming::Operator;
        settings.heartbeat_ms = Some(20.0);
    });
    bench.run(50, heartbeat);
    bench.supervisor.arm();
    assert_eq!(bench.run(401, quiet), Phase::Idle);
    assert_eq!(bench.run(100, heartbeat), Phase::Idle, "asked too long ago");
}

/// A process that was frozen in idle armed its robot in the first tick after 7.8 s.
#[test]
fn a_request_to_arm_counts_from_when_it_was_decided() {
    let ms = |bench: &Bench, ms: i64| bench.state.now_ns - ms * 1_000_000;
    let waiting = || {
        let mut bench = Bench::new(|settings| settings.arming = Arming::Operator);
        assert_eq!(bench.run(10, |_| {}), Phase::Idle);
        bench
    };
    for (age_ms, phase) in [(0, Phase::Active), (399, Phase::Active), (400, Phase::Idle), (7800, Phase::Idle)]
    {
        let mut bench = waiting();
        let decided_ns = ms(&bench, age_ms);
        bench.supervisor.arm_since(decided_ns);
        assert_eq!(bench.run(2, |_| {}), phase, "{age_ms} ms");
    }
    let mut bench = waiting();
    let now_ns = bench.state.now_ns;
    bench.supervisor.arm_since(now_ns);
    bench.supervisor.arm_since(now_ns - 7_800_000_000);
    assert_eq!(bench.tick(|_| {}), Phase::Active, "an older one that came later takes nothing back");
}

#[test]
fn what_was_asked_in_idle_does_not_arm_a_robot_that_left_idle_meanwhile() {
    let mut bench = Bench::new(|settings| settings.arming = Arming::Operator);
    bench.run(10, |_| {});
    let now_ns = bench.state.now_ns;
    bench.supervisor.arm_since(now_ns);
    assert_eq!(bench.tick(fault), Phase::Init);
    assert_eq!(bench.run(100, |_| {}), Phase::Idle);
    bench.supervisor.arm();
    assert_eq!(bench.tick(|_| {}), Phase::Active);
}
