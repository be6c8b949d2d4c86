//! A loop that was held up, and a controller's thread that got no CPU.

use super::*;

#[test]
fn one_theft_within_the_controllers_turn_does_not_end_the_run() {
    let mut bench = Bench::active(|_| {});
    let stolen = |bench: &mut Bench| bench.seen.control_ns = 1_796_000;
    for _ in 0..100 {
        assert_eq!(bench.run(9, stolen), Phase::Active);
        assert_eq!(bench.tick(|bench| bench.seen.control_ns = 500_000), Phase::Active);
    }
    assert_eq!(bench.run(10, stolen), Phase::Damping);
}

/// One tick in which the controller's thread waited for a CPU.
fn preempted(bench: &mut Bench) {
    (bench.seen.control_ns, bench.seen.control_waited_ns) = (5_800_000, 5_790_000);
}

/// One in which the controller took as long by itself.
fn slow(bench: &mut Bench) {
    (bench.seen.control_ns, bench.seen.control_waited_ns) = (5_800_000, 10_000);
}

#[test]
fn a_controller_that_waits_for_a_cpu_is_not_a_slow_one() {
    let mut bench = Bench::active(|_| {});
    // Its own slowness is counted on, whatever it waits for in between.
    for _ in 0..9 {
        assert_eq!(bench.run(1, slow), Phase::Active);
        assert_eq!(bench.run(3, preempted), Phase::Active);
    }
    assert_eq!(bench.run(1, slow), Phase::Damping);
    assert_eq!(bench.last().cause, Cause::ControllerSlow { count: 10, took_ns: 5_800_000 });
    // Commands get no older than the state may be, and that is counted anew from each tick that is in time.
    let mut bench = Bench::active(|settings| settings.stale_ms = Some(20.0));
    for _ in 0..9 {
        assert_eq!(bench.run(20, preempted), Phase::Active);
        assert_eq!(bench.run(1, |_| {}), Phase::Active);
    }
    assert_eq!(bench.run(21, preempted), Phase::Damping);
    // After arming both are forgiven.
    let mut bench = Bench::new(|_| {});
    bench.run(20, |_| {});
    assert_eq!(bench.run(300, preempted), Phase::Active);
}

/// A tick that ends a stall of 60 ms; both servos missed its cycle.
fn back(bench: &mut Bench) {
    bench.seen.held_up_ns = 60 * PERIOD_NS;
    unheard(bench, 61);
}

/// Nothing has come from the servos for so many ticks.
fn unheard(bench: &mut Bench, ticks: i64) {
    let at_ns = bench.state.now_ns - ticks * PERIOD_NS;
    bench.state.servos.fill(ServoState { fresh: false, ..well(at_ns) });
    bench.seen.cycle.missed = 2;
}

#[test]
fn devices_have_a_few_ticks_to_answer_after_a_stall_and_no_more() {
    // Time that passes in a stall passes for the clock, too.
    let stall = |bench: &mut Bench| {
        bench.state.now_ns += 59 * PERIOD_NS;
        bench.tick(back)
    };
    let mut bench = Bench::active(|_| {});
    assert_eq!(stall(&mut bench), Phase::Active);
    assert_eq!(bench.supervisor.turn(), ControllerTurn::Skip, "no controller is asked with such a state");
    for since in 1..4 {
        assert_eq!(bench.tick(|bench| unheard(bench, 61 + since)), Phase::Active);
    }
    assert_eq!(bench.tick(|_| {}), Phase::Active);
    assert_eq!(bench.supervisor.turn(), ControllerTurn::Update);
    assert!(matches!(bench.last().cause, Cause::LoopHeldUp { held_up_ns: 60_000_000, .. }));

    let mut bench = Bench::active(|_| {});
    stall(&mut bench);
    for since in 1..5 {
        assert_eq!(bench.tick(|bench| unheard(bench, 61 + since)), Phase::Active);
    }
    assert_eq!(bench.tick(|bench| unheard(bench, 66)), Phase::Damping);
    assert!(matches!(bench.last().cause, Cause::LoopHeldUp { of: Trigger::Stale, .. }));

    // Stall upon stall is no time to answer in.
    let mut bench = Bench::active(|_| {});
    stall(&mut bench);
    let mut ticks = 0;
    while bench.supervisor.phase() == Phase::Active {
        ticks += 1;
        bench.state.now_ns += 59 * PERIOD_NS;
        bench.tick(|bench| {
            back(bench);
            unheard(bench, 61 + 60 * ticks);
        });
    }
    assert!(ticks <= 5, "{ticks}");
}

#[test]
fn a_stall_is_reported_from_ten_milliseconds_on_and_ends_nothing() {
    let mut bench = Bench::active(|_| {});
    let before = bench.transitions.len();
    bench.tick(|bench| bench.seen.held_up_ns = 9_999_999);
    assert_eq!(bench.transitions.len(), before);
    for stall in 1..=3 {
        bench.tick(|bench| bench.seen.held_up_ns = 10_000_000);
        bench.tick(|_| {});
        assert_eq!(bench.transitions.len(), before + stall);
    }
    let held_up = Cause::LoopHeldUp { of: Trigger::Overruns, held_up_ns: 10_000_000 };
    assert_eq!((bench.last().cause, bench.last().to), (held_up, Phase::Active));
}

#[test]
fn a_robot_whose_loop_stood_still_for_seconds_comes_down_whatever_its_servos_say() {
    // Just armed, and its servos still off: no watchdog has acted.
    let mut bench = Bench::new(|_| {});
    while bench.supervisor.phase() != Phase::Active {
        bench.tick(|_| {});
    }
    bench.tick(|bench| {
        bench.state.servos[1].doing = Doing::Off;
        bench.seen.held_up_ns = 999 * PERIOD_NS;
    });
    assert_eq!(bench.supervisor.phase(), Phase::Active, "{:?}", bench.last());
    bench.tick(|bench| bench.seen.held_up_ns = 8_000 * PERIOD_NS);
    assert_eq!((bench.last().from, bench.last().to), (Phase::Active, Phase::Damping));
    assert!(matches!(bench.last().cause, Cause::LoopHeldUp { of: Trigger::Overruns, .. }));
}

/// An outsider's moteus lost its power in a stall of 80 ms, its reply after that was lost, and it was driven by 0.7 rad to the wrong place.
#[test]
fn a_servo_back_on_another_turn_after_a_stall_brings_the_robot_down() {
    let after = |stall: i64, to: f64| {
        let mut bench = Bench::active(|_| {});
        bench.limit(|joints| joints[0].bounds.velocity = 1.5);
        bench.tick(|bench| bench.state.servos.iter_mut().for_each(|servo| servo.velocity = 0.0));
        bench.state.now_ns += stall * PERIOD_NS;
        bench.tick(|bench| {
            bench.seen.held_up_ns = stall * PERIOD_NS;
            bench.state.servos[0].velocity = 0.0;
            bench.state.servos[0].position = to;
        })
    };
    assert_eq!(after(80, 0.7), Phase::Damping);
    // As far as it may have moved.
    assert_eq!(after(80, 0.27), Phase::Active);
    assert_eq!(after(26, 0.5), Phase::Damping);
    assert_eq!(after(26, 0.08), Phase::Active);
}

/// A Damiao that was switched on reports so in reply to damping, before its first target: one decided before a stall went out after it.
#[test]
fn a_servo_that_has_only_reported_that_it_is_on_is_held_back_after_a_stall() {
    let mut bench = Bench::new(|_| {});
    let off = |bench: &mut Bench| bench.state.servos.iter_mut().for_each(|servo| servo.doing = Doing::Off);
    while bench.tick(off) != Phase::Active {}
    bench.run(2, off);
    bench.supervisor.hold_back(&mut bench.commands, &bench.state);
    assert_eq!(bench.commands, [ServoCommand::Stop; 2]);
    bench.run(2, off);
    bench.tick(|_| {});
    bench.supervisor.hold_back(&mut bench.commands, &bench.state);
    assert_eq!(bench.commands, [ServoCommand::Damp; 2]);
    bench.run(4, |_| {});
    bench.supervisor.hold_back(&mut bench.commands, &bench.state);
    assert!(bench.commands.iter().all(|command| matches!(command, ServoCommand::Position(_))), "it follows");
}
