//! The emulated RobStride servo against frames of original clients, and what it does by itself.

use khz_emu::robstride::Setup;
use khz_emu::{
    BusConfig, FamilyConfig, Injection, JointConfig, ReceiveBuffers, ServoConfig, WireKind, World,
    WorldConfig,
};
use khz_link::{Link, Received};
use khz_rt::alloc_trap::forbid;
use khz_servo::Doing;
use khz_wire::Frame;
use khz_wire::mit::Codes;
use khz_wire::robstride::{POSITION_RANGE, Reply, Request, State, kind, mode, parameter, parts, scale};
use serde_json::Value;
use std::f64::consts::{PI, TAU};

const MS: i64 = 1_000_000;
const HOST: u8 = 0xfd;
/// Classic CAN: the turnaround of the drives that were measured.
const CAN: BusConfig = BusConfig { turnaround_ns: 35_000, ..BusConfig::CAN_FD };
/// The joint cannot move.
fn fixed() -> JointConfig {
    JointConfig { inertia: 1.0, stops: Some([0.0, 0.0]), ..JointConfig::default() }
}
const RS02: Setup = Setup::RS02;
const RS03: Setup =
    Setup { velocity: 50.0, torque: 60.0, torque_limit: 60.0, kp_most: 5000.0, kd_most: 100.0, ..RS02 };
const CYBERGEAR: Setup =
    Setup { cybergear: true, velocity: 30.0, torque: 12.0, torque_limit: 12.0, fault_c: 80.0, ..RS02 };
/// No gains, no torque.
const NEUTRAL: Codes = Codes { position: 0x7fff, velocity: 0x7fff, kp: 0, kd: 0, torque: 0x7fff };

fn servo(id: u8, motor: Setup, joint: JointConfig) -> ServoConfig {
    ServoConfig {
        family: FamilyConfig::Robstride(motor),
        ambient_c: 25.1,
        supply_v: 24.5,
        joint,
        ..ServoConfig::new(0, id)
    }
}

/// A bus and its host.
struct Bench {
    world: World,
    now_ns: i64,
}

impl Bench {
    fn of(bus: BusConfig, servos: Vec<ServoConfig>, seed: u64) -> Self {
        let mut world = World::new(&WorldConfig { buses: vec![bus], servos, imu: None, seed }).unwrap();
        world.advance(0);
        Self { world, now_ns: 0 }
    }

    fn one(motor: Setup) -> Self {
        Self::of(CAN, vec![servo(1, motor, JointConfig::default())], 1)
    }

    fn started_at(motor: Setup, start: f64) -> Self {
        Self::of(CAN, vec![servo(1, motor, JointConfig { start, ..JointConfig::default() })], 1)
    }

    fn send(&mut self, request: Request) {
        self.world.send(0, &request.to_frame(1, HOST), self.now_ns).unwrap();
    }

    /// All that comes within so many milliseconds.
    fn wait(&mut self, ms: i64) -> Vec<Received> {
        self.now_ns += ms * MS;
        std::iter::from_fn(|| self.world.receive(self.now_ns).unwrap()).collect()
    }

    /// Sends and waits for 4 ms; the first frame that comes.
    fn ask(&mut self, request: Request) -> Option<Frame> {
        self.send(request);
        self.wait(4).first().map(|received| received.frame)
    }

    fn state(&mut self, request: Request) -> State {
        State::parse(&self.ask(request).unwrap()).unwrap()
    }

    fn command(&mut self, codes: Codes) -> State {
        self.state(Request::Command(codes))
    }

    fn read(&mut self, number: u16) -> Option<f64> {
        let Some(Reply::Value { value, .. }) = Reply::parse(&self.ask(Request::Read(number)).unwrap()) else {
            panic!()
        };
        value.map(|value| parameter::number(number, value))
    }

    fn write(&mut self, number: u16, value: f64) {
        self.state(Request::Write(number, parameter::value(number, value)));
    }

    fn doing(&self) -> Doing {
        self.world.servos()[0].doing()
    }

    fn position(&self) -> f64 {
        self.world.servos()[0].position()
    }
}

fn hold(position: f64) -> Codes {
    Codes { position: scale(POSITION_RANGE).encode(position), kp: 0x2000, kd: 0x6000, ..NEUTRAL }
}

fn parsed(frame: &Value) -> Frame {
    let digits = frame.as_str().unwrap().replace(' ', "");
    let number = u128::from_str_radix(&digits, 16).unwrap();
    Frame::extended((number >> 64) as u32, (number as u64).to_be_bytes())
}

/// Every exchange that a program had with its stand-in.
fn exchanges(by: &str) -> Vec<Value> {
    let mut json: Value = serde_json::from_str(include_str!("../../../vectors/robstride.json")).unwrap();
    let Value::Array(vectors) = json["vectors"].take() else { panic!() };
    let is_exchange = |vector: &Value| vector["by"] == by && vector["request"].is_string();
    vectors.into_iter().filter(is_exchange).collect()
}

/// The twin answers as the stand-in did, except that this took each command for its state and made up what it measured.
fn answers_as_the_client_expects(by: &str, servos: Vec<ServoConfig>) {
    let mut bench = Bench::of(CAN, servos, 1);
    for exchange in exchanges(by) {
        let request = parsed(&exchange["request"]);
        bench.world.send(0, &request, bench.now_ns).unwrap();
        let received = bench.wait(4);
        if exchange["reply"].is_null() {
            assert_eq!(received, [], "{exchange}");
            continue;
        }
        let (reply, expected) = (received[0].frame, parsed(&exchange["reply"]));
        assert_eq!(received.len(), 1, "one reply");
        let (asked, ..) = Request::parse(&request).unwrap();
        match asked {
            Request::Command(_) if exchange["says"]["faults"] != 0 => {}
            Request::Command(_) => {
                assert_eq!(reply.id, expected.id, "{exchange}");
                let (_, _, to) = parts(&request).unwrap();
                let rest = Request::Command(NEUTRAL).to_frame(to, 0);
                bench.world.send(0, &rest, bench.now_ns).unwrap();
                bench.wait(4);
            }
            Request::Read(0x7019 | 0x701b) => {
                assert_eq!((reply.id, &reply.payload()[..4]), (expected.id, &expected.payload()[..4]))
            }
            // The state of the last command.
            Request::Stop { .. } if exchange["says"]["position"] != 0x7fff => {
                assert_eq!(reply.id, expected.id)
            }
            _ => assert_eq!(reply, expected, "{exchange}"),
        }
    }
}

#[test]
fn every_exchange_of_the_makers_package_is_answered_as_it_expects() {
    let number = *b"0123456\x01--------";
    let rs02 = ServoConfig { uuid: number, ..servo(1, RS02, fixed()) };
    answers_as_the_client_expects("robstride-dynamics", vec![rs02, servo(3, RS03, fixed())]);
}

#[test]
fn every_exchange_of_the_cybergear_program_is_answered_as_it_expects() {
    let cybergear = ServoConfig { uuid: *b"0123456\x7f--------", ..servo(127, CYBERGEAR, fixed()) };
    answers_as_the_client_expects("CyberGear-with-python", vec![cybergear]);
}

#[test]
fn it_is_enabled_follows_damps_and_stops() {
    let mut bench = Bench::one(RS02);
    assert_eq!(bench.command(hold(0.3)).mode, mode::RESET, "answered while it is off");
    bench.wait(500);
    assert!(bench.position().abs() < 1e-6 && bench.doing() == Doing::Off, "but not carried out");
    assert_eq!(bench.state(Request::Enable).mode, mode::RUN);
    assert_eq!(bench.doing(), Doing::Following, "the command of before");
    bench.wait(1000);
    assert!((bench.position() - 0.3).abs() < 0.01, "{}", bench.position());
    let state = bench.command(Codes { kd: 0x3333, ..NEUTRAL });
    assert!((scale(POSITION_RANGE).measured(state.position.into()) - 0.3).abs() < 0.01);
    assert_eq!(bench.doing(), Doing::Damping);
    assert_eq!((bench.state(Request::Stop { clear: false }).mode, bench.doing()), (mode::RESET, Doing::Off));
}

#[test]
fn a_host_that_falls_silent_leaves_it_limp_in_reset() {
    for (motor, number) in [(RS02, parameter::TIMEOUT), (CYBERGEAR, parameter::CYBERGEAR_TIMEOUT)] {
        let mut bench = Bench::one(motor);
        bench.write(number, 2000.0);
        assert_eq!(bench.read(number), Some(2000.0));
        bench.wait(500);
        assert_eq!(bench.state(Request::Enable).mode, mode::RUN, "it counts in Run only");
        bench.command(hold(0.3));
        bench.wait(90);
        assert_eq!(bench.command(hold(0.3)).mode, mode::RUN);
        bench.wait(90);
        assert_eq!(bench.doing(), Doing::Following);
        bench.wait(10);
        assert_eq!((bench.doing(), bench.world.servos()[0].torque()), (Doing::Off, 0.0));
        let state = bench.command(hold(0.3));
        assert_eq!(
            (state.mode, state.faults, bench.doing()),
            (mode::RESET, 0, Doing::Off),
            "no command wakes it"
        );
    }
}

#[test]
fn without_a_watchdog_the_last_command_stays_in_force() {
    let mut bench = Bench::one(RS02);
    bench.state(Request::Enable);
    bench.command(hold(0.3));
    bench.wait(20_000);
    assert!(bench.doing() == Doing::Following && (bench.position() - 0.3).abs() < 0.01);
}

/// When it is off, as two drives were that were recorded.
#[test]
fn half_a_second_after_set_zero_it_receives_and_sends_nothing_for_a_while() {
    let mut silences = Vec::new();
    for seed in 0..20 {
        let mut bench = Bench::of(CAN, vec![servo(1, RS02, JointConfig::default())], seed);
        bench.state(Request::Report(true));
        let zero_ns = bench.now_ns;
        bench.send(Request::SetZero);
        let mut missing = Vec::new();
        for ms in 0..800 {
            bench.send(Request::Stop { clear: false });
            let received = bench.wait(1);
            let has_answered = received.iter().any(|r| parts(&r.frame).unwrap().0 == kind::STATE);
            if !has_answered && ms > 2 {
                missing.push((bench.now_ns - zero_ns) / MS);
                assert_eq!(received, []);
            }
        }
        let [first, .., last] = missing.as_slice() else { panic!("{missing:?}") };
        assert!((500..=627).contains(first) && (38..=69).contains(&(last - first)), "{first} {last}");
        assert_eq!(missing.len() as i64, last - first + 1, "in one piece");
        silences.push((*first, *last));
    }
    silences.dedup();
    assert!(silences.len() > 10, "each servo has its own");
}

/// As five drives that were recorded: enabled 46 ms after "set zero", and commanded every 5 ms from then on.
#[test]
fn one_that_is_enabled_after_set_zero_misses_nothing() {
    for seed in 0..20 {
        let mut bench = Bench::of(CAN, vec![servo(1, RS02, JointConfig::default())], seed);
        bench.state(Request::SetZero);
        bench.wait(42);
        bench.state(Request::Enable);
        for _ in 0..150 {
            bench.send(Request::Command(NEUTRAL));
            assert_eq!(bench.wait(5).len(), 1, "{seed}: {} ms", bench.now_ns / MS);
        }
    }
}

#[test]
fn parameters_that_are_not_stored_are_lost_with_the_power() {
    let mut bench = Bench::one(RS02);
    bench.write(parameter::TIMEOUT, 1000.0);
    bench.state(Request::Store);
    bench.write(parameter::TIMEOUT, 2000.0);
    bench.write(parameter::TORQUE_LIMIT, 5.0);
    bench.state(Request::Enable);
    bench.world.inject(0, Injection::Reboot, bench.now_ns);
    assert_eq!(
        (bench.read(parameter::TIMEOUT), bench.read(parameter::TORQUE_LIMIT)),
        (Some(1000.0), Some(17.0))
    );
    assert_eq!(bench.doing(), Doing::Off);
    bench.world.inject(0, Injection::Power(false), bench.now_ns);
    assert_eq!(bench.ask(Request::Identity), None);
    bench.world.inject(0, Injection::Power(true), bench.now_ns);
    assert!(bench.ask(Request::Identity).is_some());
}

#[test]
fn after_power_up_it_is_within_one_turn() {
    for (centred, start, expected) in [
        (false, -0.5, TAU - 0.5),
        (true, -0.5, -0.5),
        (false, 7.0, 7.0 - TAU),
        (true, 4.0, 4.0 - TAU),
        (false, 0.0, 0.0),
    ] {
        let mut bench = Bench::started_at(Setup { centred, ..RS02 }, start);
        assert!((bench.position() - expected).abs() < 1e-9, "{start}: {}", bench.position());
        assert_eq!(bench.read(parameter::ZERO_STATE), Some(f64::from(u8::from(centred))));
    }
    let mut bench = Bench::started_at(RS02, -0.5);
    bench.write(parameter::ZERO_STATE, 1.0);
    bench.world.inject(0, Injection::Reboot, bench.now_ns);
    assert!(bench.position() > PI, "not stored");
    bench.write(parameter::ZERO_STATE, 1.0);
    bench.state(Request::Store);
    bench.world.inject(0, Injection::Reboot, bench.now_ns);
    assert!((bench.position() + 0.5).abs() < 1e-6);
}

#[test]
fn its_zero_survives_a_loss_of_power_but_that_of_a_cybergear_does_not() {
    for (motor, expected) in [(RS02, 0.0), (CYBERGEAR, 2.0)] {
        let mut bench = Bench::started_at(motor, 2.0);
        bench.state(Request::SetZero);
        assert!(bench.position().abs() < 1e-6);
        bench.world.inject(0, Injection::Reboot, bench.now_ns);
        assert!((bench.position() - expected).abs() < 1e-6, "{}", bench.position());
    }
}

#[test]
fn its_position_wraps_after_two_turns() {
    let mut bench = Bench::started_at(RS02, 0.0);
    bench.world.push(0, 1.0, bench.now_ns);
    let mut before = bench.position();
    let wrapped = (0..4000).find_map(|_| {
        bench.wait(1);
        let jump = bench.position() - before;
        before = bench.position();
        (jump < -1.0).then_some(jump)
    });
    assert!((wrapped.unwrap() + 2.0 * POSITION_RANGE).abs() < 0.2, "{wrapped:?}");
    let state = bench.command(NEUTRAL);
    assert!(state.position < 0x1000, "{:x}", state.position);
}

#[test]
fn reports_come_every_ten_milliseconds_until_they_are_switched_off() {
    let mut bench = Bench::one(RS02);
    assert_eq!(bench.wait(100), []);
    bench.state(Request::Report(true));
    // The host that has asked for them may be gone.
    let reports = bench.wait(5000);
    assert_eq!(reports.len(), 500);
    for pair in reports.windows(2) {
        assert_eq!(pair[1].at_ns - pair[0].at_ns, 10 * MS);
        let (kind, _, host) = parts(&pair[0].frame).unwrap();
        assert_eq!((kind, host, State::parse(&pair[0].frame).unwrap().id), (kind::REPORT, HOST, 1));
    }
    bench.write(parameter::REPORT_PERIOD, 3.0);
    bench.wait(20);
    assert_eq!(bench.wait(1000).len(), 50);
    bench.state(Request::Report(false));
    assert_eq!(bench.wait(1000), []);
    bench.state(Request::Report(true));
    bench.world.inject(0, Injection::Reboot, bench.now_ns);
    assert_eq!(bench.wait(1000), []);
}

#[test]
fn reports_of_an_earlier_host_come_from_the_start() {
    let mut bench = Bench::one(Setup { reports: true, ..RS02 });
    assert_eq!(bench.wait(100).len(), 9);
    assert_eq!(bench.state(Request::Report(false)).mode, mode::RESET);
    assert_eq!(bench.wait(100), []);
}

#[test]
fn a_cybergear_has_no_reports_and_few_parameters() {
    let mut bench = Bench::one(CYBERGEAR);
    assert_eq!(bench.ask(Request::Report(true)), None);
    assert_eq!(bench.wait(100), []);
    assert_eq!((bench.read(parameter::TIMEOUT), bench.read(parameter::FAULTS)), (None, None));
    assert_eq!(
        (bench.read(parameter::RUN_MODE), bench.read(parameter::TORQUE_LIMIT)),
        (Some(0.0), Some(12.0))
    );
    let mut robstride = Bench::one(RS02);
    assert_eq!((robstride.read(parameter::CYBERGEAR_TIMEOUT), robstride.read(0x7999)), (None, None));
}

#[test]
fn what_stores_the_parameters_of_others_sets_the_bit_rate_of_a_cybergear() {
    let mut bench = Bench::one(CYBERGEAR);
    let identity = bench.ask(Request::Store).unwrap();
    assert!(matches!(Reply::parse(&identity), Some(Reply::Identity { id: 1, .. })));
    assert!(bench.ask(Request::Identity).is_some(), "the frame's first byte is the code of 1 Mbit/s");
    bench.world.send(0, &Frame::extended(0x1600_fd01, [2, 0, 0, 0, 0, 0, 0, 0]), bench.now_ns).unwrap();
    assert_eq!(bench.wait(4).len(), 1);
    assert_eq!(bench.ask(Request::Identity), None);
    bench.world.inject(0, Injection::Reboot, bench.now_ns);
    assert_eq!(bench.ask(Request::Identity), None);
}

#[test]
fn a_sleeper_wakes_for_every_frame_and_never_too_late() {
    let reports = Setup { reports: true, ..RS02 };
    let servos = (1..=3).map(|id| servo(id, reports, JointConfig::default())).collect();
    let mut bench = Bench::of(CAN, servos, 1);
    bench.send(Request::Enable);
    let (mut wakes, mut frames) = (0, 0);
    while let Some(next_ns) = bench.world.next_event_ns().filter(|next_ns| *next_ns < 1000 * MS) {
        assert!(next_ns > bench.now_ns, "asleep until a time that has passed");
        assert_eq!(bench.world.receive(next_ns - 1).unwrap(), None, "something came before");
        bench.now_ns = next_ns;
        wakes += 1;
        frames += bench.wait(0).len();
    }
    assert_eq!(frames, 3 * 99 + 1);
    assert!(wakes < 4 * frames, "{wakes} wakes for {frames} frames");
}

#[test]
fn how_often_it_is_called_makes_no_difference() {
    let received = [1_000, 77_777, 1000 * MS].map(|step_ns| {
        let reports = Setup { reports: true, late: 0.5, ..RS02 };
        let mut bench = Bench::of(CAN, vec![servo(1, reports, JointConfig::default())], 3);
        bench.send(Request::Enable);
        bench.send(Request::SetZero);
        let mut received = Vec::new();
        while bench.now_ns < 1000 * MS {
            bench.now_ns = (bench.now_ns + step_ns).min(1000 * MS);
            received.extend(bench.wait(0));
        }
        received
    });
    assert!(received[0].len() > 90 && received[0] == received[1] && received[1] == received[2]);
}

/// From a request's last bit to that of its reply, µs.
fn reply_us(bench: &mut Bench, request: Request) -> f64 {
    let rate = khz_wire::time::CanRate::MOTEUS;
    bench.send(request);
    let sent_ns = bench.now_ns + rate.frame_ns(&request.to_frame(1, HOST));
    let reply = bench.wait(10)[0];
    (reply.at_ns - sent_ns) as f64 * 1e-3
}

#[test]
fn replies_take_as_long_as_those_that_were_measured() {
    let mut bench = Bench::one(RS02);
    let mut times: Vec<f64> = (0..1000).map(|_| reply_us(&mut bench, Request::Command(NEUTRAL))).collect();
    times.sort_by(f64::total_cmp);
    assert!(times[0] > 165.0 && (180.0..220.0).contains(&times[500]) && times[999] < 225.0, "{times:?}");
    for _ in 0..100 {
        let enabled = reply_us(&mut bench, Request::Enable);
        assert!((1350.0..1700.0).contains(&enabled), "{enabled}");
        assert!(reply_us(&mut bench, Request::Stop { clear: false }) < 225.0);
    }
}

#[test]
fn late_replies_are_late_and_in_order() {
    let mut bench = Bench::one(Setup { late: 0.1, ..RS02 });
    let late = (0..1000).filter(|_| reply_us(&mut bench, Request::Command(NEUTRAL)) > 230.0).count();
    assert!((60..140).contains(&late), "{late}");
    // Each request reads another parameter, so that replies can be distinguished.
    let numbers = [parameter::RUN_MODE, parameter::TIMEOUT, parameter::VOLTAGE, parameter::ZERO_STATE];
    for _ in 0..100 {
        numbers.iter().for_each(|number| bench.send(Request::Read(*number)));
        let message: Vec<u16> = bench.wait(30).iter().map(|received| read_of(&received.frame)).collect();
        assert_eq!(message, numbers);
    }
}

/// The frames of the host and of the drives that were recorded on a bus, and when each ended, ns.
fn recorded() -> [Vec<(i64, Frame)>; 2] {
    let json: Value = serde_json::from_str(include_str!("../../../vectors/robstride_bus.json")).unwrap();
    let frame = |vector: &Value| {
        let digits = vector["frame"].as_str().unwrap().replace(' ', "");
        let number = u128::from_str_radix(&digits, 16).unwrap();
        let frame = Frame::extended((number >> 64) as u32, (number as u64).to_be_bytes());
        (1000 * vector["at_us"].as_i64().unwrap(), frame)
    };
    // A value looks like a request to the drive with the host's id.
    let is_request = |(_, frame): &(i64, Frame)| Request::parse(frame).is_some_and(|(_, id, _)| id <= 5);
    let (requests, replies) = json["vectors"].as_array().unwrap().iter().map(frame).partition(is_request);
    [requests, replies]
}

/// What drive 1 answers, in order, with the time: the values of parameters by number, states by 0.
fn of_the_first(frames: impl IntoIterator<Item = (i64, Frame)>) -> Vec<(i64, u16)> {
    let of = |(at_ns, frame): (i64, Frame)| match Reply::parse(&frame)? {
        Reply::State(State { id: 1, .. }) => Some((at_ns, 0)),
        Reply::Value { id: 1, parameter, .. } => Some((at_ns, parameter)),
        _ => None,
    };
    frames.into_iter().filter_map(of).collect()
}

/// What the real host sent to five real drives, to five emulated ones. Each of its frames waits in its adapter when the one before
/// it ends, as the recording shows.
#[test]
fn replies_overtake_each_other_as_they_were_recorded() {
    let [requests, replies] = recorded();
    for seed in 0..20 {
        let models = [RS03, RS03, RS02, RS02, RS02];
        let servos = (1..).zip(models).map(|(id, motor)| servo(id, motor, fixed())).collect();
        let mut bench = Bench::of(CAN, servos, seed);
        let mut frames = Vec::new();
        let mut receive = |bench: &mut Bench, until_ns| {
            bench.now_ns = until_ns;
            while let Some(received) = bench.world.receive(until_ns).unwrap() {
                frames.push((received.at_ns, received.frame));
            }
        };
        for (end_ns, frame) in &requests {
            receive(&mut bench, MS + end_ns - 300_000);
            bench.world.send(0, frame, bench.now_ns).unwrap();
        }
        receive(&mut bench, 20 * MS);
        assert_eq!(frames.len(), replies.len());
        let (real, twin) = (of_the_first(replies.clone()), of_the_first(frames));
        let kinds = |of: &[(i64, u16)]| of.iter().map(|(_, kind)| *kind).collect::<Vec<_>>();
        assert_eq!(kinds(&twin), kinds(&real), "seed {seed}");
        let value_ns = |of: &[(i64, u16)]| of.iter().find(|(_, kind)| *kind == 0x7019).unwrap().0;
        let apart_ns = value_ns(&twin) - MS - value_ns(&real);
        assert!(apart_ns.abs() < 500_000, "seed {seed}: {apart_ns} ns");
    }
}

fn read_of(frame: &Frame) -> u16 {
    let Some(Reply::Value { parameter, .. }) = Reply::parse(frame) else { panic!() };
    parameter
}

#[test]
fn two_of_one_id_answer_both() {
    let servos = vec![servo(1, RS02, JointConfig::default()), servo(1, RS02, JointConfig::default())];
    let mut bench = Bench::of(CAN, servos, 1);
    bench.send(Request::Identity);
    assert_eq!(bench.wait(4).len(), 2);
}

#[test]
fn an_id_that_is_set_counts_at_once_and_after_a_loss_of_power() {
    let mut bench = Bench::one(RS02);
    let message = Reply::parse(&bench.ask(Request::SetId(7)).unwrap());
    assert!(matches!(message, Some(Reply::Identity { id: 7, .. })));
    assert_eq!(bench.ask(Request::Identity), None);
    bench.world.inject(0, Injection::Reboot, bench.now_ns);
    bench.world.send(0, &Request::Identity.to_frame(7, HOST), bench.now_ns).unwrap();
    assert_eq!(bench.wait(4).len(), 1);
}

#[test]
fn a_fault_is_reported_unasked_and_stays_until_it_is_cleared() {
    let mut bench = Bench::one(RS02);
    bench.state(Request::Enable);
    bench.world.set_supply(0, 70.0, bench.now_ns);
    bench.world.set_supply(0, 24.0, bench.now_ns);
    let report = bench.wait(1);
    assert_eq!(report.len(), 1);
    let over_voltage = Reply::Faults { id: 1, host: HOST, faults: 8, warnings: 0 };
    assert_eq!(Reply::parse(&report[0].frame), Some(over_voltage));
    assert_eq!(bench.doing(), Doing::Faulted);
    // It has no bit of its own in a state.
    let state = bench.state(Request::Enable);
    assert_eq!((state.mode, state.faults, bench.read(parameter::FAULTS)), (mode::RESET, 0, Some(8.0)));
    bench.state(Request::Stop { clear: false });
    assert_eq!(bench.state(Request::Enable).mode, mode::RESET);
    bench.state(Request::Stop { clear: true });
    assert_eq!(bench.state(Request::Enable).mode, mode::RUN);
    bench.world.inject(0, Injection::Overheated, bench.now_ns);
    assert_eq!(bench.wait(1).len(), 1);
    assert_eq!(bench.state(Request::Stop { clear: false }).faults, 1 << 2);
}

#[test]
fn a_cause_that_stays_brings_the_fault_back() {
    let mut bench = Bench::one(RS02);
    bench.world.set_supply(0, 10.0, bench.now_ns);
    assert_eq!(bench.wait(100).len(), 1, "reported once");
    bench.send(Request::Stop { clear: true });
    assert_eq!(bench.wait(100).len(), 2, "a reply, and the fault again");
    assert_eq!(bench.state(Request::Enable).mode, mode::RESET);
}

#[test]
fn other_modes_ignore_commands() {
    let mut bench = Bench::one(RS02);
    bench.write(parameter::RUN_MODE, 2.0);
    bench.state(Request::Enable);
    assert_eq!(bench.command(hold(0.3)).mode, mode::RUN);
    bench.wait(500);
    assert_eq!((bench.doing(), bench.read(parameter::RUN_MODE)), (Doing::Damping, Some(2.0)));
    assert!(bench.position().abs() < 1e-6);
}

#[test]
fn its_torque_limit_bounds_what_it_does() {
    let mut bench = Bench::of(CAN, vec![servo(1, RS02, fixed())], 1);
    bench.state(Request::Enable);
    bench.command(hold(3.0));
    assert!((bench.world.servos()[0].torque() - 17.0).abs() < 1e-9);
    bench.write(parameter::TORQUE_LIMIT, 5.0);
    assert!((bench.world.servos()[0].torque() - 5.0).abs() < 1e-9);
    bench.write(parameter::TORQUE_LIMIT, 50.0);
    assert!((bench.world.servos()[0].torque() - 17.0).abs() < 1e-9, "no more than its range");
}

#[test]
fn a_question_for_the_version_is_answered_and_stops_it() {
    let mut bench = Bench::one(RS02);
    bench.state(Request::Enable);
    let reply = bench.ask(Request::Version).unwrap();
    assert_eq!((Reply::version(&reply), bench.doing()), (Some((1, [0, 2, 3, 34])), Doing::Off));
}

/// A neighbour's state goes to the host 1, whose id this servo has.
#[test]
fn a_question_for_the_state_is_answered_and_changes_nothing() {
    let mut bench = Bench::one(RS02);
    for doing in [Doing::Off, Doing::Damping] {
        let state = bench.state(Request::State);
        assert_eq!((state.id, state.host, bench.doing()), (1, HOST, doing));
        bench.state(Request::Enable);
    }
    let of_another = State { id: 2, host: 1, ..bench.state(Request::State) };
    bench.world.send(0, &of_another.to_frame(kind::STATE), bench.now_ns).unwrap();
    assert_eq!(bench.wait(4), []);
}

#[test]
fn injected_faults_are_suffered() {
    let mut bench = Bench::one(Setup { reports: true, ..RS02 });
    bench.world.inject(0, Injection::Silent(true), bench.now_ns);
    bench.send(Request::Enable);
    assert_eq!(bench.wait(50), []);
    assert_eq!(bench.doing(), Doing::Damping, "it is powered");
    bench.world.inject(0, Injection::Silent(false), bench.now_ns);
    bench.state(Request::Report(false));
    bench.world.inject(0, Injection::Lying(true), bench.now_ns);
    assert_eq!(bench.command(NEUTRAL).position, u16::MAX);
    bench.world.inject(0, Injection::Lying(false), bench.now_ns);
    bench.world.inject(0, Injection::Asleep(true), bench.now_ns);
    assert_eq!(bench.state(Request::Enable).mode, mode::RESET);
    bench.world.inject(0, Injection::Fault(1 << 14), bench.now_ns);
    assert_eq!(bench.wait(1).len(), 1);
    assert_eq!(bench.command(NEUTRAL).faults, 1 << 4);
}

#[test]
fn a_small_controller_loses_what_is_not_fetched_in_time() {
    // An MCP2515: frames that come faster than they are fetched are lost beyond two; slower ones are not.
    let bus = BusConfig { receive: Some(ReceiveBuffers { frames: 2, fetch_ns: 300_000 }), ..CAN };
    let servos = (1..=3).map(|id| servo(id, RS02, JointConfig::default())).collect();
    let mut bench = Bench::of(bus, servos, 1);
    let mut replies = |ids: std::ops::RangeInclusive<u8>| {
        let mut count = 0;
        for _ in 0..100 {
            for id in ids.clone() {
                bench.world.send(0, &Request::Command(NEUTRAL).to_frame(id, 0), bench.now_ns).unwrap();
            }
            count += bench.wait(1).len();
        }
        (count, bench.world.counters(0).errors)
    };
    assert_eq!(replies(1..=2), (200, 0));
    let (count, lost) = replies(1..=3);
    assert!(lost > 0 && count as u64 + lost == 300, "{count} {lost}");
}

#[test]
fn speaking_unasked_does_not_touch_the_heap() {
    let reports = Setup { reports: true, late: 0.2, ..RS02 };
    let servos = (1..=3).map(|id| servo(id, reports, JointConfig::default())).collect();
    let mut bench = Bench::of(CAN, servos, 1);
    let frame = Request::Command(NEUTRAL).to_frame(1, HOST);
    let (received, heap) = forbid(|| {
        let mut received = 0;
        for n in 1..1000 {
            bench.world.send(0, &frame, n * MS).unwrap();
            while bench.world.receive((n + 1) * MS - 1).unwrap().is_some() {
                received += 1;
            }
        }
        bench.world.inject(0, Injection::Overheated, 1001 * MS);
        bench.world.advance(1002 * MS);
        received
    });
    assert!(received > 1200, "{received}");
    heap.assert_untouched();
}

#[test]
fn an_instant_wire_answers_in_the_same_call() {
    let mut bench = Bench::of(
        BusConfig { wire: WireKind::Instant, ..CAN },
        vec![servo(1, Setup { late: 1.0, ..RS02 }, JointConfig::default())],
        1,
    );
    bench.send(Request::Enable);
    assert_eq!(bench.wait(0).len(), 1);
}
