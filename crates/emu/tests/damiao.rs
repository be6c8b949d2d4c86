//! The emulated Damiao servo against frames of an original client, and against the host's side of the family.

use khz_emu::damiao::Setup;
use khz_emu::{BusConfig, FamilyConfig, Injection, JointConfig, ServoConfig, World, WorldConfig};
use khz_link::Link;
use khz_servo::damiao::{DamiaoSettings, Model, Settings};
use khz_servo::{
    Doing, Family, Mounting, PositionCommand, ServoCommand, ServoPlan, ServoState, Servos, Taken, family,
};
use khz_wire::Frame;
use khz_wire::damiao::{Special, frame};
use khz_wire::mit::{Codes, Scale};
use serde_json::Value;

const MS: i64 = 1_000_000;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../vectors/damiao.json")).unwrap()
}

fn bytes(hex: &str) -> [u8; 8] {
    let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
    std::array::from_fn(byte)
}

fn parsed(id: &Value, payload: &Value) -> Frame {
    let id = u32::from_str_radix(id.as_str().unwrap(), 16).unwrap();
    frame(id, false, bytes(payload.as_str().unwrap()))
}

fn world(models: &[Model], joint: JointConfig) -> World {
    let servo = |(at, model): (usize, &Model)| {
        let id = at as u8 + 1;
        let motor =
            Setup { master_id: u16::from(id) + 16, can_fd: false, ranges: model.ranges(), fault_c: 100.0 };
        ServoConfig { family: FamilyConfig::Damiao(motor), ambient_c: 30.0, joint, ..ServoConfig::new(0, id) }
    };
    let servos = models.iter().enumerate().map(servo).collect();
    World::new(&WorldConfig { buses: vec![BusConfig::CAN_FD], servos, imu: None, seed: 1 }).unwrap()
}

fn settings(model: Model) -> Settings {
    Settings::of(&DamiaoSettings { model: Some(model), kp: 20.0, ..DamiaoSettings::default() }, 1)
}

/// Writes a watchdog of 0.1 s and the mark 3.
const WATCHDOG: [u8; 8] = [1, 0, 0x55, 9, 0xd3, 7, 0, 0];

/// One servo and its host.
struct Bench {
    world: World,
    servos: Box<dyn Servos>,
    states: [ServoState; 1],
    now_ns: i64,
}

impl Bench {
    fn new() -> Self {
        let family = Family::Damiao(settings(Model::Dm4310));
        let plan = ServoPlan { servo: 0, id: 1, mounting: Mounting::default(), watchdog_s: 0.1, family };
        let mut servos = family::on_bus(&[plan]).remove(0);
        let mut world = world(&[Model::Dm4310], JointConfig::default());
        // As it is made ready: 0.1 s and the mark.
        servos.made_ready(3);
        world.send(0, &frame(0x7ff, false, WATCHDOG), -2 * MS).unwrap();
        world.receive(-MS).unwrap();
        Self { world, servos, states: [ServoState::UNKNOWN], now_ns: 0 }
    }

    /// A cycle of a millisecond; what was taken last.
    fn cycle(&mut self, command: ServoCommand) -> Option<Taken> {
        self.servos.begin(&[command]);
        for part in 0.. {
            let Some(request) = self.servos.request(0, part) else { break };
            self.world.send(0, request.frame, self.now_ns).unwrap();
            self.servos.sent(0, part, self.now_ns);
        }
        self.now_ns += MS;
        let mut last = None;
        while let Some(received) = self.world.receive(self.now_ns - 1).unwrap() {
            last = Some(self.servos.take(&received.frame, &mut self.states));
        }
        last
    }

    /// Another host asks the servo something; what the host makes of the answer.
    fn intrude(&mut self, payload: [u8; 8]) -> Taken {
        self.world.send(0, &frame(0x7ff, false, payload), self.now_ns).unwrap();
        self.now_ns += MS;
        let reply = self.world.receive(self.now_ns - 1).unwrap().unwrap();
        self.servos.take(&reply.frame, &mut self.states)
    }

    fn hold(&mut self, position: f64, cycles: usize) {
        (0..cycles).for_each(|_| _ = self.cycle(ServoCommand::Position(PositionCommand::hold(position))));
    }
}

#[test]
fn commands_are_encoded_as_the_client_encodes_them() {
    let vectors = vectors();
    for vector in vectors["vectors"].as_array().unwrap().iter().filter(|vector| vector["bytes"].is_string()) {
        let number = |key: &str| vector[key].as_f64().unwrap();
        let model: Model = vector["model"].as_str().unwrap().parse().unwrap();
        let [position, velocity, torque] = model.ranges();
        let codes = Codes {
            position: Scale::symmetric(position, 16).encode(number("position")),
            velocity: Scale::symmetric(velocity, 12).encode(number("velocity")),
            kp: khz_wire::damiao::KP.encode(number("kp")),
            kd: khz_wire::damiao::KD.encode(number("kd")),
            torque: Scale::symmetric(torque, 12).encode(number("torque")),
        };
        assert_eq!(codes.to_bytes(), bytes(vector["bytes"].as_str().unwrap()), "{vector}");
    }
}

#[test]
fn every_exchange_of_the_client_is_answered_as_it_expects() {
    let mut world = world(&[Model::Dm4310, Model::Dm4340], JointConfig::default());
    let vectors = vectors();
    let exchanges =
        vectors["vectors"].as_array().unwrap().iter().filter(|vector| vector["request"].is_string());
    for (at, exchange) in exchanges.enumerate() {
        let now_ns = at as i64 * MS;
        world.send(0, &parsed(&exchange["to"], &exchange["request"]), now_ns).unwrap();
        let reply = world.receive(now_ns + 900_000).unwrap().unwrap().frame;
        assert_eq!(reply, parsed(&exchange["from"], &exchange["reply"]), "{}", exchange["of"]);
        assert_eq!(world.receive(now_ns + 900_000).unwrap(), None, "one reply");
    }
}

#[test]
fn it_is_enabled_follows_damps_and_stops() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    assert_eq!(bench.states[0].doing, Doing::Off);
    bench.hold(0.3, 1000);
    let [state] = bench.states;
    assert_eq!((state.doing, state.mode.name), (Doing::Following, "enabled"));
    assert!((state.position - 0.3).abs() < 0.01, "{}", state.position);
    assert!(state.voltage.is_nan() && (29.0..40.0).contains(&state.temperature));
    bench.cycle(ServoCommand::Damp);
    bench.cycle(ServoCommand::Damp);
    assert_eq!((bench.states[0].doing, bench.world.servos()[0].doing()), (Doing::Damping, Doing::Damping));
    bench.cycle(ServoCommand::Stop);
    assert_eq!((bench.states[0].doing, bench.world.servos()[0].doing()), (Doing::Off, Doing::Off));
}

#[test]
fn a_servo_that_lost_its_power_is_not_enabled_again() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    bench.hold(0.3, 100);
    bench.world.inject(0, Injection::RebootTurned(1), bench.now_ns);
    bench.hold(0.3, 100);
    assert_eq!(bench.world.servos()[0].doing(), Doing::Off);
    assert_eq!(bench.states[0].doing, Doing::Off);
}

#[test]
fn a_host_that_falls_silent_leaves_it_limp() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    bench.hold(0.3, 100);
    assert_eq!(bench.world.servos()[0].doing(), Doing::Following);
    bench.now_ns += 110 * MS;
    bench.world.advance(bench.now_ns);
    assert_eq!(bench.world.servos()[0].doing(), Doing::Faulted);
    bench.hold(0.3, 10);
    bench.cycle(ServoCommand::Stop);
    assert_eq!(bench.world.servos()[0].doing(), Doing::Faulted, "a host that comes back does not wake it");
    assert_eq!((bench.states[0].doing, bench.states[0].fault.text), (Doing::Faulted, "communication lost"));
}

#[test]
fn a_servo_whose_watchdog_is_gone_is_not_enabled() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    // Its power blinks between two cycles: no reply is missed, but what was set is lost.
    bench.world.inject(0, Injection::Reboot, bench.now_ns);
    bench.hold(0.3, 100);
    assert_eq!(bench.world.servos()[0].doing(), Doing::Off);
    assert_eq!((bench.states[0].doing, bench.states[0].fault.code), (Doing::Faulted, 256));
}

#[test]
fn a_watchdog_that_is_in_the_flash_does_not_hide_a_loss_of_power() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    // Another program has stored the watchdog that the robot file asks for.
    for payload in [[1, 0, 0x55, 9, 0xd0, 7, 0, 0], [1, 0, 0xaa, 1, 0, 0, 0, 0], WATCHDOG] {
        bench.world.send(0, &frame(0x7ff, false, payload), bench.now_ns).unwrap();
        bench.now_ns += MS;
        bench.world.receive(bench.now_ns - 1).unwrap();
    }
    bench.world.inject(0, Injection::RebootTurned(1), bench.now_ns);
    bench.hold(0.3, 100);
    assert_eq!(bench.world.servos()[0].doing(), Doing::Off);
    assert_eq!((bench.states[0].doing, bench.states[0].fault.code), (Doing::Faulted, 256));
}

#[test]
fn a_servo_that_was_not_made_ready_is_not_enabled() {
    let mut bench = Bench::new();
    let family = Family::Damiao(settings(Model::Dm4310));
    let plan = ServoPlan { servo: 0, id: 1, mounting: Mounting::default(), watchdog_s: 0.1, family };
    bench.servos = family::on_bus(&[plan]).remove(0);
    bench.cycle(ServoCommand::Stop);
    bench.hold(0.3, 100);
    assert_eq!(bench.world.servos()[0].doing(), Doing::Off);
}

#[test]
fn a_register_that_another_host_writes_under_control_is_noticed() {
    for (register, value) in [(9, [0; 4]), (10, [2, 0, 0, 0]), (21, 50_f32.to_le_bytes())] {
        let mut bench = Bench::new();
        bench.cycle(ServoCommand::Stop);
        bench.hold(0.3, 100);
        assert_eq!(bench.states[0].doing, Doing::Following);
        let [a, b, c, d] = value;
        assert_eq!(bench.intrude([1, 0, 0x55, register, a, b, c, d]), Taken::Unexpected);
        bench.cycle(ServoCommand::Position(PositionCommand::hold(0.3)));
        bench.cycle(ServoCommand::Damp);
        assert_eq!((bench.states[0].doing, bench.states[0].fault.code), (Doing::Faulted, 256), "{register}");
        // In another control mode it takes no damping.
        let expected = if register == 10 { Doing::Off } else { Doing::Damping };
        assert_eq!(bench.world.servos()[0].doing(), expected, "{register}");
    }
}

#[test]
fn a_mark_that_another_host_stores_is_none_any_more() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    let before = bench.states[0].position;
    assert_eq!(bench.intrude([1, 0, 0xaa, 1, 0, 0, 0, 0]), Taken::Unexpected);
    bench.cycle(ServoCommand::Stop);
    assert_eq!((bench.states[0].doing, bench.states[0].fault.code), (Doing::Faulted, 256));
    assert!((bench.states[0].position - before).abs() < 0.01, "the reply is no state");
}

#[test]
fn the_reply_to_another_hosts_register_is_no_state() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    bench.hold(0.0, 20);
    let before = bench.states;
    for asked in [[1, 0, 0x33, 0x3c, 0, 0, 0, 0], [1, 0, 0x55, 25, 0, 0, 0xc0, 0x41]] {
        assert_eq!(bench.intrude(asked), Taken::Unexpected);
        assert_eq!((bench.states[0].position, bench.states[0].at_ns), (before[0].position, before[0].at_ns));
    }
    bench.hold(0.0, 1);
    assert_eq!(bench.states[0].doing, Doing::Following, "nor does it concern the host");
}

#[test]
fn one_that_another_host_switches_on_is_switched_off_before_it_is_driven() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    bench.world.send(0, &frame(1, false, Special::Enable.to_bytes()), bench.now_ns).unwrap();
    bench.now_ns += MS;
    let reply = bench.world.receive(bench.now_ns - 1).unwrap().unwrap();
    bench.servos.take(&reply.frame, &mut bench.states);
    let mut doing = || {
        bench.hold(0.3, 1);
        bench.world.servos()[0].doing()
    };
    let doing: Vec<_> = (0..20).map(|_| doing()).collect();
    let off = doing.iter().position(|doing| *doing == Doing::Off).unwrap();
    assert!(!doing[..off].contains(&Doing::Following) && doing[19] == Doing::Following, "{doing:?}");
}

#[test]
fn a_servo_that_is_enabled_damps_until_its_first_command() {
    // The twin goes on with an old command, as a motor may.
    let mut bench = Bench::new();
    let old = Codes { position: 0x9000, velocity: 0x7ff, kp: 200, kd: 200, torque: 0x7ff };
    bench.world.send(0, &frame(1, false, old.to_bytes()), -MS).unwrap();
    bench.world.receive(-1).unwrap();
    bench.cycle(ServoCommand::Stop);
    for _ in 0..10 {
        bench.hold(0.0, 1);
        assert!(bench.world.servos()[0].position().abs() < 0.01);
    }
    assert_eq!(bench.world.servos()[0].doing(), Doing::Following);
}

#[test]
fn frames_of_other_devices_are_no_second_motor() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    // An IMU, a battery, another host's command and requests.
    for (id, bytes) in [
        (0x1a0, [0x31, 5, 6, 7, 8, 9, 1, 2]),
        (0x008, [0x81, 0, 0x7f, 0xf0, 0, 0, 7, 0xff]),
        (0x701, [0xf1, 0, 0, 0, 0, 0, 0, 0]),
        (0x7ff, [1, 0, 0xcc, 0, 0, 0, 0, 0]),
        (0x7ff, [1, 0, 0x33, 9, 0, 0, 0, 0]),
    ] {
        assert_eq!(
            bench.servos.take(&frame(id, false, bytes), &mut bench.states),
            Taken::Unexpected,
            "{id:x}"
        );
    }
}

#[test]
fn a_second_motor_with_its_id_is_a_duplicate_once_it_has_answered_a_read() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    let state = frame(0x21, false, [0x01, 0x7f, 0xff, 0x7f, 0xf7, 0xff, 30, 30]);
    assert_eq!(bench.servos.take(&state, &mut bench.states), Taken::Unexpected);
    let register = frame(0x21, false, [1, 0, 0x33, 9, 0, 0, 0, 0]);
    for reply in [register, state, state] {
        assert_eq!(bench.servos.take(&reply, &mut bench.states), Taken::Duplicate { servo: 0 });
    }
}

#[test]
fn a_fault_is_reported_in_words() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    bench.hold(0.0, 10);
    bench.world.inject(0, Injection::Overheated, bench.now_ns);
    bench.hold(0.0, 3);
    let [state] = bench.states;
    assert_eq!(
        (state.doing, state.fault.code, state.fault.text),
        (Doing::Faulted, 11, "MOSFET over-temperature")
    );
}

#[test]
fn after_silence_it_replies_again_and_nothing_before_is_fresh() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    for silent in [1, 5, 12, 13, 14, 40] {
        bench.world.inject(0, Injection::Silent(true), bench.now_ns);
        (0..silent).for_each(|_| assert_eq!(bench.cycle(ServoCommand::Stop), None));
        bench.world.inject(0, Injection::Silent(false), bench.now_ns);
        let mut fresh = |_| {
            let sent_ns = bench.now_ns;
            bench.cycle(ServoCommand::Stop) == Some(Taken::State { servo: 0, sent_ns, newest: true })
        };
        let cycles = (0..40).position(&mut fresh);
        assert!(cycles.is_some_and(|cycles| silent > 5 || cycles <= 2), "{cycles:?} after {silent}");
    }
}

#[test]
fn a_motor_in_the_other_format_receives_nothing() {
    let mut world = world(&[Model::Dm4310], JointConfig::default());
    world.send(0, &frame(1, true, Special::Enable.to_bytes()), 0).unwrap();
    world.advance(MS);
    assert_eq!(world.servos()[0].doing(), Doing::Off);
    assert_eq!(world.receive(MS).unwrap(), None);
}

#[test]
fn what_is_stored_survives_and_what_is_not_does_not() {
    let mut world = world(&[Model::Dm4310], JointConfig::default());
    let ask = |world: &mut World, now_ms: i64, payload: [u8; 8]| {
        world.send(0, &frame(0x7ff, false, payload), now_ms * MS).unwrap();
        world.receive(now_ms * MS + 900_000).unwrap().unwrap().frame.payload().to_vec()
    };
    ask(&mut world, 0, [1, 0, 0x55, 9, 1, 2, 0, 0]);
    ask(&mut world, 1, [1, 0, 0xaa, 1, 0, 0, 0, 0]);
    ask(&mut world, 2, [1, 0, 0x55, 9, 9, 9, 9, 9]);
    world.inject(0, Injection::Reboot, 3 * MS);
    assert_eq!(ask(&mut world, 4, [1, 0, 0x33, 9, 0, 0, 0, 0])[4..], [1, 2, 0, 0]);
}
