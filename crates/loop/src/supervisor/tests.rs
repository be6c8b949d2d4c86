//! The state machine in virtual time: every trigger, every reaction, and no way off the graph.

mod arming;
mod obedience;
mod rest;
mod stalls;

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

    /// From now on these are its limits.
    fn limit(&mut self, change: impl FnOnce(&mut [Joint])) {
        let Supervisor { joints, watch, settings, .. } = &mut self.supervisor;
        change(&mut joints.0);
        watch.watch(joints, settings);
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
        let bounds = Bounds { position: [-0.1, 0.1], velocity: 6.0, torque: 1.0 };
        bench.limit(|joints| joints.iter_mut().for_each(|joint| joint.bounds = bounds));
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
fn stale_state_trips_before_missed_replies_if_so_set() {
    let mut bench = Bench::active(|settings| settings.stale_ms = Some(5.0));
    assert_eq!(bench.run(5, Bench::silence), Phase::Active);
    assert_eq!(bench.tick(Bench::silence), Phase::Damping);
    assert_eq!(bench.last().cause, Cause::Stale { servo: 1, age_ns: 6 * PERIOD_NS });
    assert_eq!(bench.last().last_good_ns, 600 * PERIOD_NS);
}

#[test]
fn heartbeats_must_be_received_if_an_operator_is_expected() {
    let quiet = |bench: &mut Bench| bench.seen.heartbeat_age_ns = Some(30_000_000);
    assert_eq!(Bench::active(|_| {}).tick(quiet), Phase::Active);
    let mut bench = Bench::new(|settings| settings.heartbeat_ms = Some(20.0));
    assert_eq!(bench.run(100, quiet), Phase::Idle);
    assert_eq!(bench.run(600, |bench| bench.seen.heartbeat_age_ns = Some(1)), Phase::Active);
    assert_eq!(bench.tick(quiet), Phase::Damping);
    assert_eq!(bench.last().cause, Cause::HeartbeatLost { age_ns: 30_000_000 });
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
fn a_warning_is_reported_once_and_again_after_it_was_over() {
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
fn a_request_to_stop_is_obeyed_whatever_the_reaction_to_the_cause() {
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
fn a_failing_controller_damps() {
    let mut bench = Bench::active(|settings| settings.reactions.controller = Reaction::Warn);
    bench.supervisor.controller_failed(Cause::ControllerPanicked, &bench.state);
    assert_eq!(bench.supervisor.phase(), Phase::Damping);
}

#[test]
fn at_low_rates_one_lost_reply_is_no_silence() {
    let settings = |rate_hz: i64| SupervisorSettings::default().at(1_000_000_000 / rate_hz, 0.5);
    let silences =
        |rate_hz| [settings(rate_hz).stale_ns() / 1_000_000, settings(rate_hz).imu_silent_ns() / 1_000_000];
    assert_eq!([silences(1000), silences(50), silences(10)], [[50, 20], [70, 70], [350, 350]]);
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

const BRAKE: Mode = Mode { number: 15, name: "brake" };

/// Servo 1 reports this, whatever it is commanded.
fn reports(doing: Doing) -> impl Fn(&mut Bench) {
    move |bench| (bench.state.servos[1].doing, bench.state.servos[1].mode) = (doing, BRAKE)
}

/// Servo 1 disobeys its commands, and reports so except in every n-th reply.
fn sounds_obedient(every: u64, otherwise: Doing) -> impl Fn(&mut Bench) {
    move |bench| {
        if !bench.state.tick.is_multiple_of(every) {
            reports(otherwise)(bench);
        }
    }
}
