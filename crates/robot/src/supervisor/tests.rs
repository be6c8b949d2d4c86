//! The state machine in virtual time: every trigger, every reaction, and no way off the graph.

use super::*;
use crate::state::ImuState;
use khz_link::ImuSample;
use khz_servo::PositionCommand;
use khz_servo::{Doing, Fault, Mode, Refused, ServoState};

const PERIOD_NS: i64 = 1_000_000;

/// A robot of two servos and an IMU whose state tests set by hand.
struct Bench {
    supervisor: Supervisor,
    state: RobotState,
    seen: Observation,
    commands: Vec<ServoCommand>,
    transitions: Vec<Transition>,
}

fn well(at_ns: i64) -> ServoState {
    ServoState {
        position: 0.0,
        velocity: 1.0,
        torque: 0.0,
        voltage: 24.0,
        temperature: 30.0,
        doing: Doing::Following,
        mode: Mode::UNKNOWN,
        fault: Fault::NONE,
        refused: None,
        at_ns,
        round_trip_ns: 0,
        fresh: true,
    }
}

impl Bench {
    fn new(change: impl FnOnce(&mut SupervisorSettings)) -> Self {
        let mut settings = SupervisorSettings::default();
        change(&mut settings);
        Self {
            supervisor: Supervisor::new(settings, 2),
            state: RobotState::unknown(2, true, PERIOD_NS),
            seen: Observation::default(),
            commands: vec![ServoCommand::Stop; 2],
            transitions: Vec::new(),
        }
    }

    /// Waits to be armed.
    fn unarmed(change: impl FnOnce(&mut SupervisorSettings)) -> Self {
        let mut bench = Self::new(change);
        bench.supervisor.arm = false;
        bench
    }

    /// Active, and past the grace.
    fn active(change: impl FnOnce(&mut SupervisorSettings)) -> Self {
        let mut bench = Self::new(change);
        bench.run(600, |_| {});
        assert_eq!(bench.supervisor.phase(), Phase::Active);
        bench
    }

    /// Come down as planned.
    fn at_rest() -> Self {
        let mut bench = Self::active(|_| {});
        bench.tick(|bench| bench.seen.stop = Some(Cause::TimeOver));
        while !bench.supervisor.phase().is_over() {
            bench.tick(|_| {});
        }
        bench
    }

    /// One tick in which all is well, but for what `spoil` does to it.
    fn tick(&mut self, spoil: impl FnOnce(&mut Self)) -> Phase {
        self.state.now_ns += PERIOD_NS;
        let now_ns = self.state.now_ns;
        self.state.servos.fill(well(now_ns));
        let doing = match self.supervisor.phase() {
            Phase::Armed | Phase::Active => Doing::Following,
            Phase::Damping => Doing::Damping,
            _ => Doing::Off,
        };
        self.state.servos.iter_mut().for_each(|servo| servo.doing = doing);
        let upright = ImuSample {
            at_ns: now_ns,
            attitude: [1.0, 0.0, 0.0, 0.0],
            // The noise of a sensor.
            rate: [self.state.tick as f64 * 1e-9; 3],
            acceleration: [0.0; 3],
        };
        self.state.imu = Some(ImuState { sample: upright, fresh: true });
        self.seen = Observation::default();
        self.commands.fill(ServoCommand::Position(PositionCommand::hold(0.5)));
        spoil(self);
        self.supervisor.observe(&self.state, &self.seen);
        if self.supervisor.phase() == Phase::Armed {
            self.supervisor.controller_started(&self.state);
        }
        self.supervisor.govern(&mut self.commands, &self.state);
        self.transitions.extend(self.supervisor.take_transitions());
        self.state.tick += 1;
        self.supervisor.phase()
    }

    fn run(&mut self, ticks: usize, mut spoil: impl FnMut(&mut Self)) -> Phase {
        for _ in 0..ticks {
            self.tick(&mut spoil);
        }
        self.supervisor.phase()
    }

    /// Makes servo 1 silent from now on.
    fn silence(&mut self) {
        self.state.servos[1] = ServoState { fresh: false, ..well(600 * PERIOD_NS) };
    }

    fn last(&self) -> Transition {
        *self.transitions.last().unwrap()
    }
}

fn fault(bench: &mut Bench) {
    bench.state.servos[1].doing = Doing::Faulted;
    bench.state.servos[1].fault = HOT;
}

#[test]
fn begins_by_asking_and_ends_at_rest() {
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| bench.seen.stop = Some(Cause::OperatorStop));
    assert_eq!(bench.commands, [ServoCommand::Damp; 2]);
    assert_eq!(bench.run(3100, |_| {}), Phase::Stopped);
    assert_eq!(bench.commands, [ServoCommand::Stop; 2]);
    assert!(bench.supervisor.is_settled());
    let causes: Vec<_> = bench.transitions.iter().map(|transition| transition.cause).collect();
    let expected = [
        Cause::AllServosSeen,
        Cause::ArmRequested,
        Cause::ControllerStarted,
        Cause::OperatorStop,
        Cause::DampingOver,
    ];
    assert_eq!(causes, expected);
}

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

#[test]
fn a_fault_is_answered_by_damping_in_the_same_tick() {
    let mut bench = Bench::active(|_| {});
    assert_eq!(bench.tick(fault), Phase::Damping);
    assert_eq!(bench.commands, [ServoCommand::Damp; 2]);
    let transition = bench.last();
    assert_eq!((transition.from, transition.to), (Phase::Active, Phase::Damping));
    assert_eq!(transition.deadline_ns, Some(transition.at_ns + 3_000_000_000));
    assert_eq!(transition.last_good_ns, transition.at_ns - PERIOD_NS);
}

const REFUSED: Refused = Refused { register: 0x027, name: "watchdog timeout", write: true };
const HOT: Fault = Fault { code: 38, text: "over temperature" };

/// A name, what spoils a tick, how many such ticks in a row are bearable, and the cause in the end.
type Case = (&'static str, fn(&mut Bench), usize, Cause);

#[test]
fn every_trigger_damps_after_its_threshold() {
    let quarter = std::f64::consts::FRAC_PI_2;
    let cases: [Case; 18] = [
        ("silent", Bench::silence, 9, Cause::MissedReplies { servo: 1, count: 10 }),
        ("timed out", |b| b.state.servos[0].doing = Doing::TimedOut, 0, Cause::ServoTimedOut { servo: 0 }),
        ("reset", |b| b.state.servos[0].doing = Doing::Off, 0, Cause::ServoReset { servo: 0 }),
        ("lying", |b| b.state.servos[1].position = f64::NAN, 0, Cause::ServoNotFinite { servo: 1 }),
        (
            "lying of its velocity",
            |b| b.state.servos[0].velocity = f64::NAN,
            0,
            Cause::ServoNotFinite { servo: 0 },
        ),
        (
            "refused",
            |b| b.state.servos[1].refused = Some(REFUSED),
            0,
            Cause::RegisterRefused { servo: 1, refused: REFUSED, ran: true },
        ),
        (
            "saturated",
            |b| b.state.servos[0].velocity = f64::NEG_INFINITY,
            0,
            Cause::ServoSaturated { servo: 0, quantity: Quantity::Velocity, most: f64::from(f32::MAX) },
        ),
        (
            "beyond its limits",
            // As far as it may move in a tick without having jumped.
            |b| b.state.servos[1].position = -0.151,
            0,
            Cause::PositionOutOfLimits { servo: 1, position: -0.151, limit: -0.1 },
        ),
        (
            "too fast",
            |b| b.state.servos[0].velocity = -9.1,
            0,
            Cause::TooFast { servo: 0, velocity: -9.1, limit: 6.0 },
        ),
        ("overruns", |b| b.seen.overrun = true, 9, Cause::Overruns { count: 10 }),
        (
            "slow controller",
            |b| b.seen.control_ns = 500_001,
            9,
            Cause::ControllerSlow { count: 10, took_ns: 500_001 },
        ),
        (
            "controller without a CPU",
            |b| (b.seen.control_ns, b.seen.control_waited_ns) = (5_800_000, 5_790_000),
            50,
            Cause::ControllerPreempted { count: 51, took_ns: 5_800_000, waited_ns: 5_790_000 },
        ),
        ("link down", |b| b.seen.cycle.links_down = 4, 9, Cause::BusDown { link: 2 }),
        (
            "IMU not finite",
            |b| b.state.imu.as_mut().unwrap().sample.rate[1] = f64::INFINITY,
            0,
            Cause::ImuNotFinite,
        ),
        (
            "tilted",
            |b| {
                let half = std::f64::consts::FRAC_1_SQRT_2;
                b.state.imu.as_mut().unwrap().sample.attitude = [half, half, 0.0, 0.0];
            },
            0,
            Cause::Tilt { angle: quarter },
        ),
        (
            "IMU silent",
            |b| b.state.imu.as_mut().unwrap().sample.at_ns = 600 * PERIOD_NS,
            20,
            Cause::ImuSilent { age_ns: 21 * PERIOD_NS },
        ),
        ("voltage", |b| b.state.servos[0].voltage = 9.5, 0, Cause::VoltageLow { servo: 0, volts: 9.5 }),
        ("hot", |b| b.state.servos[0].temperature = 71.0, 0, Cause::Hot { servo: 0, celsius: 71.0 }),
    ];
    for (name, spoil, bearable, cause) in cases {
        let mut bench = Bench::active(|_| {});
        for joint in &mut bench.supervisor.joints.0 {
            joint.bounds = Bounds { position: [-0.1, 0.1], velocity: 6.0, torque: 1.0 };
        }
        assert_eq!(bench.run(bearable, spoil), Phase::Active, "{name}");
        assert_eq!(bench.tick(spoil), Phase::Damping, "{name}");
        match (bench.last().cause, cause) {
            (Cause::Tilt { angle }, Cause::Tilt { angle: expected }) => {
                assert!((angle - expected).abs() < 1e-9)
            }
            (found, expected) => assert_eq!(found, expected, "{name}"),
        }
    }
}

#[test]
fn a_velocity_nobody_asked_for_is_no_lie() {
    for (format, phase) in [("none", Phase::Active), ("float", Phase::Damping)] {
        let servo = |name, id| format!("[[servo]]\nname = \"{name}\"\nbus = \"main\"\nid = {id}\n");
        let text = format!(
            "[bus.main]\nlink = \"emulated\"\n[servo_defaults]\nquery.velocity = \"{format}\"\n{}{}",
            servo("pan", 1),
            servo("tilt", 2)
        );
        let mut bench = Bench::active(|_| {});
        bench.supervisor = Supervisor::of(&RobotConfig::parse(&text, "test").unwrap());
        bench.run(600, |_| {});
        assert_eq!(bench.tick(|bench| bench.state.servos[1].velocity = f64::NAN), phase);
    }
}

#[test]
fn stale_state_trips_before_missed_replies_if_so_set() {
    let mut bench = Bench::active(|settings| settings.stale_ms = Some(5.0));
    assert_eq!(bench.run(5, Bench::silence), Phase::Active);
    assert_eq!(bench.tick(Bench::silence), Phase::Damping);
    assert_eq!(bench.last().cause, Cause::Stale { servo: 1, age_ns: 6 * PERIOD_NS });
    assert_eq!(bench.last().last_good_ns, 600 * PERIOD_NS);
}

#[test]
fn the_operator_must_be_heard_if_one_is_expected() {
    let quiet = |bench: &mut Bench| bench.seen.heartbeat_age_ns = Some(30_000_000);
    assert_eq!(Bench::active(|_| {}).tick(quiet), Phase::Active);
    let mut bench = Bench::new(|settings| settings.heartbeat_ms = Some(20.0));
    assert_eq!(bench.run(100, quiet), Phase::Idle);
    assert_eq!(bench.run(600, |bench| bench.seen.heartbeat_age_ns = Some(1)), Phase::Active);
    assert_eq!(bench.tick(quiet), Phase::Damping);
    assert_eq!(bench.last().cause, Cause::HeartbeatLost { age_ns: 30_000_000 });
}

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
fn silence_is_forgiven_no_longer_than_the_state_is_of_use() {
    let mut bench = Bench::new(|settings| settings.stale_ms = Some(20.0));
    while bench.tick(|_| {}) != Phase::Active {}
    let silent = |bench: &mut Bench| {
        let at_ns = bench.state.servos[1].at_ns;
        bench.state.servos[1] = ServoState { fresh: false, ..well(at_ns.min(8 * PERIOD_NS)) };
    };
    assert_eq!(bench.run(15, silent), Phase::Active);
    assert_eq!(bench.run(10, silent), Phase::Damping);
    let cause = bench.last().cause;
    assert!(
        matches!(cause, Cause::Stale { servo: 1, .. } | Cause::MissedReplies { servo: 1, .. }),
        "{cause}"
    );
}

#[test]
fn late_replies_are_forgiven_no_longer_than_silence() {
    let mut bench = Bench::new(|_| {});
    while bench.tick(|_| {}) != Phase::Active {}
    let late = |bench: &mut Bench| bench.state.servos[1].fresh = false;
    assert_eq!(bench.run(23, late), Phase::Active);
    assert_eq!(bench.tick(late), Phase::Damping);
    assert_eq!(bench.last().cause, Cause::MissedReplies { servo: 1, count: 24 });
}

#[test]
fn a_servo_that_stays_off_is_noticed_and_one_that_is_told_to_is_not() {
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
    // The reply to the first stop still tells of before.
    bench.tick(|bench| bench.commands[0] = ServoCommand::Stop);
    assert_eq!(bench.run(100, stopped), Phase::Active);

    let enabling = |bench: &mut Bench| bench.state.servos[0].doing = Doing::Starting;
    let mut bench = Bench::new(|_| {});
    while bench.tick(enabling) != Phase::Active {}
    assert_eq!(bench.run(490, enabling), Phase::Active);
    assert_eq!(bench.run(20, enabling), Phase::Damping);
}

#[test]
fn a_joint_outside_its_limits_is_not_armed_whatever_the_reaction() {
    let outside = |bench: &mut Bench| bench.state.servos[1].position = 0.66;
    let mut bench = Bench::unarmed(|settings| settings.reactions.position = Reaction::Warn);
    bench.supervisor.joints.0[1].bounds.position = [-0.6, 0.6];
    // Until somebody arms there is time to move the joint.
    assert_eq!(bench.run(50, outside), Phase::Idle);
    bench.supervisor.arm();
    assert_eq!(bench.tick(outside), Phase::Fault);
    assert_eq!(bench.last().cause, Cause::PositionOutOfLimits { servo: 1, position: 0.66, limit: 0.6 });
}

#[test]
fn a_servo_back_on_another_turn_is_not_followed_with_a_jump() {
    let mut bench = Bench::active(|settings| settings.reactions.servo_fault = Reaction::Warn);
    bench.supervisor.joints.0[0].bounds.velocity = 2.0;
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
fn an_imu_that_is_not_ready_has_the_grace_of_a_start() {
    let mut bench = Bench::new(|_| {});
    let not_ready = |bench: &mut Bench| bench.state.imu.as_mut().unwrap().sample.attitude = [f64::NAN; 4];
    assert_eq!(bench.run(498, not_ready), Phase::Active);
    assert_eq!(bench.run(10, not_ready), Phase::Damping);
    assert_eq!(bench.last().cause, Cause::ImuNotFinite);
}

#[test]
fn a_warning_is_told_once_and_again_after_it_was_over() {
    let mut bench = Bench::active(|settings| settings.reactions.voltage = Reaction::Warn);
    let low = |bench: &mut Bench| bench.state.servos[0].voltage = 9.5;
    bench.transitions.clear();
    bench.run(5, low);
    bench.run(5, |_| {});
    assert_eq!(bench.run(5, low), Phase::Active);
    assert_eq!(bench.transitions.len(), 2);
    assert_eq!((bench.last().from, bench.last().to), (Phase::Active, Phase::Active));
}

#[test]
fn derating_lowers_the_torque_of_all_while_it_lasts() {
    let mut bench = Bench::active(|settings| settings.reactions.voltage = Reaction::Derate);
    let torque = |bench: &Bench| match bench.commands[1] {
        ServoCommand::Position(command) => command.max_torque,
        _ => panic!("still under control"),
    };
    let command = |bench: &mut Bench| {
        let command = PositionCommand { max_torque: 10.0, ..PositionCommand::hold(0.5) };
        bench.commands.fill(ServoCommand::Position(command));
    };
    bench.tick(|bench| {
        command(bench);
        bench.state.servos[0].voltage = 9.5;
    });
    assert!((torque(&bench) - 3.0).abs() < 1e-9);
    bench.tick(command);
    assert_eq!(torque(&bench), 10.0);
}

#[test]
fn the_gravest_reaction_wins() {
    let mut bench = Bench::active(|settings| settings.reactions.tilt = Reaction::Stop);
    bench.tick(|bench| {
        fault(bench);
        bench.state.imu.as_mut().unwrap().sample.attitude = [0.0, 1.0, 0.0, 0.0];
    });
    assert_eq!(bench.supervisor.phase(), Phase::Fault);
    assert!(matches!(bench.last().cause, Cause::Tilt { .. }));
    assert_eq!(bench.commands, [ServoCommand::Stop; 2]);
}

#[test]
fn whoever_asks_to_stop_is_obeyed_whatever_the_reaction_to_the_cause() {
    let mut bench = Bench::active(|settings| settings.reactions.overruns = Reaction::Warn);
    let stop = |bench: &mut Bench| bench.seen.stop = Some(Cause::Overruns { count: 1 });
    assert_eq!(bench.tick(stop), Phase::Damping);
    assert_eq!(bench.supervisor.blame(), Some(Cause::Overruns { count: 1 }));
}

#[test]
fn bad_commands_never_leave() {
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| bench.commands[1] = ServoCommand::Position(PositionCommand::hold(f64::NAN)));
    assert_eq!(bench.supervisor.phase(), Phase::Damping);
    assert_eq!(bench.commands, [ServoCommand::Damp; 2]);
    assert_eq!(bench.last().cause, Cause::CommandNotFinite { servo: 1 });
}

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

#[test]
fn a_failing_controller_damps() {
    let mut bench = Bench::active(|settings| settings.reactions.controller = Reaction::Warn);
    bench.supervisor.controller_failed(Cause::ControllerPanicked, &bench.state);
    assert_eq!(bench.supervisor.phase(), Phase::Damping);
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
fn replies_that_come_late_now_and_then_are_not_told_as_missing() {
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
fn a_servo_whose_twin_appears_under_control_brings_the_robot_down() {
    let mut bench = Bench::active(|_| {});
    // A bus that doubles a frame now and then.
    assert_eq!(bench.run(200, |bench| bench.seen.cycle.answered_twice = Some(1)), Phase::Active);
    bench.tick(|bench| bench.seen.cycle.intruded = Some(1));
    assert_eq!((bench.last().to, bench.last().cause), (Phase::Damping, Cause::DuplicateReplies { servo: 1 }));
}

#[test]
fn at_low_rates_one_lost_reply_is_no_silence() {
    let settings = |rate_hz| {
        let text = format!(
            "[loop]\nrate_hz = {rate_hz}\n[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"joint\"\nbus = \"main\"\n\
             id = 1\nwatchdog_s = 0.5"
        );
        RobotConfig::parse(&text, "test").unwrap().supervisor_settings()
    };
    let silences =
        |rate_hz| [settings(rate_hz).stale_ns() / 1_000_000, settings(rate_hz).imu_silent_ns() / 1_000_000];
    assert_eq!([silences(1000), silences(50), silences(10)], [[50, 20], [70, 70], [350, 350]]);
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

/// Found by the campaign: it was armed while somebody threw the joint about, and its first command went out before it came down.
#[test]
fn a_robot_with_a_joint_that_is_too_fast_is_not_armed() {
    let limited = |reaction| {
        let mut bench = Bench::unarmed(|settings| settings.reactions.velocity = reaction);
        bench.supervisor.joints.0[1].bounds.velocity = 6.0;
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
    // Whoever asks knowing it is obeyed.
    bench.supervisor.arm();
    assert_eq!(bench.run(20, |_| {}), Phase::Active);
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
    assert_eq!(bench.last().cause, Cause::ServoNotHeardOff { servo: 1 });
}

proptest::proptest! {
    /// Whatever happens in whatever order: only edges of the graph, damping within its time, no command at rest.
    #[test]
    fn never_leaves_its_graph(spoils in proptest::collection::vec((0..12_u8, 1..40_u16), 1..60)) {
        let mut bench = Bench::new(|settings| settings.damping_s = 0.05);
        let mut damping = 0;
        for (kind, ticks) in spoils {
            for _ in 0..ticks {
                let phase = bench.tick(|bench| match kind {
                    0 => fault(bench),
                    1 => bench.state.servos[0].fresh = false,
                    2 => bench.state.servos[1] = ServoState::UNKNOWN,
                    3 => bench.seen.overrun = true,
                    4 => bench.state.imu = Some(ImuState { sample: ImuState::NONE, fresh: false }),
                    5 => bench.seen.cycle.links_down = 1,
                    6 => bench.seen.stop = Some(Cause::OperatorStop),
                    7 => bench.commands.fill(ServoCommand::Position(PositionCommand::hold(f64::INFINITY))),
                    8 => bench.supervisor.arm(),
                    9 => bench.state.servos[1].position = f64::NAN,
                    _ => {}
                });
                damping = if phase == Phase::Damping { damping + 1 } else { 0 };
                proptest::prop_assert!(damping <= 51);
                if phase != Phase::Active {
                    let calm = |c: &ServoCommand| !matches!(c, ServoCommand::Position(_));
                    proptest::prop_assert!(bench.commands.iter().all(calm));
                }
            }
        }
        for transition in &bench.transitions {
            let Transition { from, to, .. } = *transition;
            proptest::prop_assert!(from == to || from.leads_to(to), "{from:?} to {to:?}");
        }
    }
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
fn stop_is_sent_for_fifty_milliseconds_and_in_six_ticks_to_servos_that_stay_on() {
    // And a tick for each of two that has to be named.
    assert_eq!(ticks_until_settled(PERIOD_NS), 50 + 2);
    assert_eq!(ticks_until_settled(50 * PERIOD_NS), 6 + 2);
}

/// A stall of 50 ms ended it after the first tick, and a servo that had not been asked again was named as one that may be on.
#[test]
fn a_stall_at_rest_takes_none_of_the_six_ticks_in_which_stop_is_sent() {
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

#[test]
fn a_robot_that_an_operator_arms_does_not_move_long_after_it_was_asked() {
    let quiet = |bench: &mut Bench| bench.seen.heartbeat_age_ns = Some(i64::MAX);
    let heard = |bench: &mut Bench| bench.seen.heartbeat_age_ns = Some(1);
    let mut bench = Bench::new(|settings| {
        settings.arming = Arming::Operator;
        settings.heartbeat_ms = Some(20.0);
    });
    bench.supervisor.arm();
    assert_eq!(bench.run(50, heard), Phase::Idle, "asked too early");
    assert_eq!(bench.supervisor.lack(), Some(Cause::NotArmed));
    bench.supervisor.arm();
    assert_eq!(bench.run(399, quiet), Phase::Idle);
    assert_eq!(bench.run(2, heard), Phase::Active, "just in time");

    let mut bench = Bench::new(|settings| {
        settings.arming = Arming::Operator;
        settings.heartbeat_ms = Some(20.0);
    });
    bench.run(50, heard);
    bench.supervisor.arm();
    assert_eq!(bench.run(401, quiet), Phase::Idle);
    assert_eq!(bench.run(100, heard), Phase::Idle, "asked too long ago");
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
    assert!(bench.supervisor.is_blind(), "no controller is asked with such a state");
    for since in 1..4 {
        assert_eq!(bench.tick(|bench| unheard(bench, 61 + since)), Phase::Active);
    }
    assert_eq!(bench.tick(|_| {}), Phase::Active);
    assert!(!bench.supervisor.is_blind());
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
fn a_value_that_cannot_be_is_told_as_that() {
    let told = |celsius| Cause::Hot { servo: 0, celsius }.to_string();
    assert_eq!(told(71.0), "71.0 °C");
    assert_eq!(told(434.6), "a temperature of 434.6 °C, which cannot be: a damaged frame or a broken sensor");
    let told = |volts| Cause::VoltageLow { servo: 0, volts }.to_string();
    assert_eq!(told(9.5), "supply at 9.5 V");
    assert_eq!(told(-0.2), "a voltage of -0.2 V, which cannot be: a damaged frame or a broken sensor");
}

#[test]
fn joints_that_were_held_have_time_to_sink_before_they_count_as_still() {
    assert_eq!(ticks_of_damping(0.0, 0.05, PERIOD_NS, 0.0), (51, Cause::Still));
    assert_eq!(ticks_of_damping(0.0, 0.05, 100 * PERIOD_NS, 0.0), (3, Cause::Still));
    assert_eq!(ticks_of_damping(0.3, 0.05, PERIOD_NS, 0.0), (301, Cause::Still));
}

const BRAKE: Mode = Mode { number: 15, name: "brake" };

/// Servo 1 says this, whatever it is commanded.
fn says(doing: Doing) -> impl Fn(&mut Bench) {
    move |bench| (bench.state.servos[1].doing, bench.state.servos[1].mode) = (doing, BRAKE)
}

#[test]
fn a_servo_in_another_mode_than_commanded_is_found_within_a_few_replies() {
    for doing in [Doing::Other, Doing::Damping] {
        let mut bench = Bench::active(|_| {});
        assert_eq!(bench.run(4, says(doing)), Phase::Active, "the command may have been lost");
        assert_eq!(bench.tick(says(doing)), Phase::Damping);
        assert_eq!(bench.last().cause, Cause::ServoNotObeying { servo: 1, mode: BRAKE });
    }
}

#[test]
fn a_fault_that_a_servo_tells_beside_another_mode_brings_the_robot_down() {
    let mut bench = Bench::active(|_| {});
    let both = |bench: &mut Bench| {
        says(Doing::Other)(bench);
        bench.state.servos[1].fault = HOT;
    };
    assert_eq!(bench.tick(both), Phase::Damping);
    assert_eq!(bench.last().cause, Cause::ServoFault { servo: 1, fault: HOT });
}

#[test]
fn a_robot_whose_loop_stood_still_for_seconds_comes_down_whatever_its_servos_say() {
    // Just armed, and its servos still off: no watchdog has anything to tell.
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

#[test]
fn trouble_in_the_tick_in_which_the_time_is_over_is_no_end_as_planned() {
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| {
        bench.seen.stop = Some(Cause::TimeOver);
        fault(bench);
    });
    assert!(matches!(bench.last().cause, Cause::ServoFault { .. }), "{:?}", bench.last());
    assert_eq!(bench.run(3100, |_| {}), Phase::Fault);
    // Whoever asks to stop is who stopped it.
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| {
        bench.seen.stop = Some(Cause::OperatorStop);
        fault(bench);
    });
    assert_eq!(bench.last().cause, Cause::OperatorStop);
}

#[test]
fn a_servo_whose_reply_has_the_mode_of_before_its_command_is_not_accused() {
    // Every other reply is missed, after which the servo is damped: what it says then is what it did until then.
    let mut bench = Bench::active(|_| {});
    for _ in 0..20 {
        bench.tick(|bench| {
            bench.state.servos[1].fresh = false;
            bench.commands[1] = ServoCommand::Damp;
        });
        assert_eq!(bench.tick(says(Doing::Following)), Phase::Active);
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
    bench.run(40, says(Doing::Off));
    assert_eq!((bench.last().to, bench.last().cause), (Phase::Damping, Cause::TimeOver));
}

#[test]
fn a_servo_that_does_not_damp_is_stopped_and_named_in_the_end() {
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| bench.seen.stop = Some(Cause::TimeOver));
    let follows = says(Doing::Following);
    // The command may be on its way for some periods, and one that is let go too soon falls.
    bench.run(50, &follows);
    assert_eq!(bench.commands, [ServoCommand::Damp; 2]);
    bench.tick(&follows);
    assert_eq!(bench.commands, [ServoCommand::Damp, ServoCommand::Stop]);
    let told = bench.last();
    assert_eq!((told.from, told.to), (Phase::Damping, Phase::Damping));
    assert_eq!(told.cause, Cause::ServoNotObeying { servo: 1, mode: BRAKE });
    // It goes on being stopped, also when it says something else meanwhile.
    bench.tick(|_| {});
    assert_eq!(bench.commands, [ServoCommand::Damp, ServoCommand::Stop]);
    bench.run(3100, &follows);
    assert!(bench.supervisor.is_settled());
    assert_eq!(bench.supervisor.phase(), Phase::Fault, "no end as planned");
    assert_eq!((bench.last().from, bench.last().to), (Phase::Stopped, Phase::Fault));
    assert_eq!(bench.last().cause, Cause::ServoStillOn { servo: 1, mode: BRAKE });
    assert_eq!(bench.transitions.iter().filter(|told| told.from == Phase::Damping).count(), 2);
}

/// Servo 1 does not do what it is told, and says so but in every so many replies.
fn sounds_obedient(every: u64, otherwise: Doing) -> impl Fn(&mut Bench) {
    move |bench| {
        if !bench.state.tick.is_multiple_of(every) {
            says(otherwise)(bench);
        }
    }
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
            says(Doing::Damping)(bench);
        }
    };
    assert_eq!(bench.run(1000, rarely), Phase::Active);
}

#[test]
fn a_liar_that_sounds_obedient_now_and_then_is_let_go_told_once_and_named_in_the_end() {
    for every in [2, 5] {
        let mut bench = Bench::active(|_| {});
        bench.tick(|bench| bench.seen.stop = Some(Cause::TimeOver));
        let lies = sounds_obedient(every, Doing::Following);
        bench.run(250, &lies);
        assert_eq!(bench.commands, [ServoCommand::Damp, ServoCommand::Stop], "every {every}");
        // What fits what it is told then is not believed either.
        bench.run(200, says(Doing::Off));
        assert!(bench.supervisor.watch.is_astray(1));
        bench.run(3000, &lies);
        assert!(bench.supervisor.is_settled());
        assert_eq!(bench.supervisor.phase(), Phase::Fault, "no end as planned");
        assert!(matches!(
            bench.last().cause,
            Cause::ServoStillOn { servo: 1, .. } | Cause::ServoNotHeardOff { servo: 1 }
        ));
        assert_eq!(bench.transitions.iter().filter(|told| told.from == Phase::Damping).count(), 2);
    }
}

#[test]
fn a_servo_that_says_now_and_then_at_rest_that_it_is_off_may_be_on() {
    let mut bench = Bench::at_rest();
    assert_eq!(bench.run(60, sounds_obedient(3, Doing::Following)), Phase::Fault);
    assert!(bench.supervisor.is_settled());
    // It is believed when it has said so three times, however many replies are lost between.
    let mut bench = Bench::at_rest();
    bench.run(60, |bench| bench.state.servos[1].fresh = bench.state.tick.is_multiple_of(15));
    assert_eq!(bench.supervisor.phase(), Phase::Stopped);
}

/// It was let go, said that it is off while the robot came down, and nothing more.
#[test]
fn a_servo_that_is_silent_at_rest_may_be_on_whatever_it_said_before() {
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| bench.seen.stop = Some(Cause::TimeOver));
    bench.run(60, says(Doing::Following));
    assert_eq!(bench.commands[1], ServoCommand::Stop);
    bench.run(5, says(Doing::Off));
    bench.run(4000, |bench| bench.state.servos[1].fresh = false);
    assert_eq!(bench.supervisor.phase(), Phase::Fault);
}

#[test]
fn a_servo_that_is_switching_on_at_rest_is_not_off() {
    let mut bench = Bench::at_rest();
    assert_eq!(bench.run(60, says(Doing::Starting)), Phase::Fault);
    assert!(bench.supervisor.is_settled());
}

/// A format of 0.63 rad/s a step tells a slowly sinking leg as 0.
#[test]
fn a_joint_that_sinks_does_not_stand_still_whatever_velocity_it_tells() {
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| bench.seen.stop = Some(Cause::TimeOver));
    let began = bench.state.tick;
    let sinks = |bench: &mut Bench| {
        bench.state.servos[0].position = -0.0003 * (bench.state.tick - began) as f64;
    };
    assert_eq!(bench.run(1000, sinks), Phase::Damping, "{:?}", bench.last());
}

#[test]
fn a_servo_that_is_off_and_on_in_turn_while_it_comes_down_is_told_once() {
    let mut bench = Bench::active(|_| {});
    bench.tick(|bench| bench.seen.stop = Some(Cause::TimeOver));
    bench.transitions.clear();
    bench.run(500, sounds_obedient(2, Doing::Off));
    let told: Vec<_> = bench.transitions.iter().map(|told| (told.to, told.cause)).collect();
    assert_eq!(told, [(Phase::Damping, Cause::ServoReset { servo: 1 })]);
}

#[test]
fn a_servo_that_is_not_heard_in_the_end_is_named_and_that_is_no_end_as_planned() {
    let mut bench = Bench::at_rest();
    let silent = |bench: &mut Bench| bench.state.servos.iter_mut().for_each(|servo| servo.fresh = false);
    // One that said that it is off, and is silent then, is off.
    bench.tick(|bench| bench.state.servos[1].fresh = false);
    bench.run(60, silent);
    assert!(bench.supervisor.is_settled());
    assert_eq!(bench.supervisor.phase(), Phase::Fault);
    assert_eq!(bench.last().cause, Cause::ServoNotHeardOff { servo: 1 });
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
    let told: Vec<_> = bench.transitions[before..].iter().map(|told| (told.to, told.cause)).collect();
    assert_eq!(told, [(Phase::Damping, Cause::Hot { servo: 0, celsius: 71.0 })]);
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

/// An outsider's moteus lost its power in a stall of 80 ms, its reply after that was lost, and it was driven by 0.7 rad to the wrong place.
#[test]
fn a_servo_back_on_another_turn_after_a_stall_brings_the_robot_down() {
    let after = |stall: i64, to: f64| {
        let mut bench = Bench::active(|_| {});
        bench.supervisor.joints.0[0].bounds.velocity = 1.5;
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

/// A Damiao that was switched on says so in answer to damping, before it hears a target: one decided on before a stall went out after it.
#[test]
fn a_servo_that_has_only_said_that_it_is_on_is_held_back_after_a_stall() {
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
