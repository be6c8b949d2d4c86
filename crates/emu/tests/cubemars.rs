//! The emulated CubeMars servo against frames of an original client.

use khz_emu::cubemars::Setup;
use khz_emu::{BusConfig, FamilyConfig, Injection, JointConfig, ServoConfig, World, WorldConfig};
use khz_link::Link;
use khz_servo::Doing;
use khz_wire::Frame;
use khz_wire::cubemars::{State, frame};
use khz_wire::mit::{Codes, Scale, Special};
use serde_json::Value;

const MS: i64 = 1_000_000;
const AK80_9: Setup = Setup { reply_id: 0, ranges: [12.5, 50.0, 18.0], fault_c: 100.0, watchdog_s: 0.0 };
const NEUTRAL: Codes = Codes { position: 0x7fff, velocity: 0x7ff, kp: 0, kd: 0, torque: 0x7ff };

struct Bench {
    world: World,
    now_ns: i64,
}

impl Bench {
    fn new(motors: &[Setup], joint: JointConfig) -> Self {
        let servo = |motor: &Setup| ServoConfig {
            family: FamilyConfig::Cubemars(*motor),
            ambient_c: 35.0,
            joint,
            ..ServoConfig::new(0, 1)
        };
        let servos = motors.iter().map(servo).collect();
        let config = WorldConfig { buses: vec![BusConfig::CAN_FD], servos, imu: None, seed: 1 };
        Self { world: World::new(&config).unwrap(), now_ns: 0 }
    }

    fn one() -> Self {
        Self::new(&[AK80_9], JointConfig::default())
    }

    /// All that comes within so many milliseconds.
    fn wait(&mut self, ms: i64) -> Vec<Frame> {
        self.now_ns += ms * MS;
        std::iter::from_fn(|| self.world.receive(self.now_ns).unwrap())
            .map(|received| received.frame)
            .collect()
    }

    fn ask(&mut self, bytes: [u8; 8]) -> Option<Frame> {
        self.world.send(0, &frame(1, bytes), self.now_ns).unwrap();
        self.wait(1).first().copied()
    }

    fn special(&mut self, special: Special) -> State {
        State::parse(self.ask(special.to_bytes()).unwrap().payload()).unwrap()
    }

    fn command(&mut self, codes: Codes) -> State {
        State::parse(self.ask(codes.to_bytes()).unwrap().payload()).unwrap()
    }

    fn doing(&self) -> Doing {
        self.world.servos()[0].doing()
    }

    fn position(&self) -> f64 {
        self.world.servos()[0].position()
    }
}

fn hold(position: f64) -> Codes {
    Codes { position: Scale::symmetric(12.5, 16).encode(position), kp: 200, kd: 800, ..NEUTRAL }
}

fn parsed(id: &Value, payload: &Value) -> Frame {
    let number = u64::from_str_radix(payload.as_str().unwrap(), 16).unwrap();
    frame(u32::from_str_radix(id.as_str().unwrap(), 16).unwrap(), number.to_be_bytes())
}

#[test]
fn every_exchange_of_the_client_is_answered_as_it_expects() {
    let json: Value = serde_json::from_str(include_str!("../../../vectors/cubemars.json")).unwrap();
    let fixed = JointConfig { stops: Some([0.0, 0.0]), ..JointConfig::default() };
    let mut bench = Bench::new(&[AK80_9], fixed);
    let exchanges = json["vectors"].as_array().unwrap().iter().filter(|vector| vector["request"].is_string());
    for exchange in exchanges {
        bench.world.send(0, &parsed(&exchange["to"], &exchange["request"]), bench.now_ns).unwrap();
        let received = bench.wait(1);
        let [reply] = received.as_slice() else { panic!("{received:?}: one reply") };
        let expected = parsed(&exchange["from"], &exchange["reply"]);
        assert_eq!(reply.id, expected.id);
        // The stand-in took each command for its state, and an error was put into it.
        let [state, expected_state] = [reply, &expected].map(|frame| State::parse(frame.payload()).unwrap());
        assert_eq!(
            (state.id, state.temperature),
            (expected_state.id, expected_state.temperature),
            "{exchange}"
        );
        if exchange["asks"]["what"] == "set_zero" {
            bench.wait(1001);
        }
    }
    let mut bench = Bench::new(&[AK80_9], fixed);
    bench.world.advance(0);
    let first = &json["vectors"][0];
    let reply = bench.ask(Special::Enable.to_bytes()).unwrap();
    assert_eq!(reply, parsed(&first["from"], &first["reply"]));
}

#[test]
fn it_is_enabled_follows_damps_and_stops() {
    let mut bench = Bench::one();
    bench.command(hold(0.3));
    bench.wait(500);
    assert!(bench.position().abs() < 1e-6 && bench.doing() == Doing::Off, "answered, but not carried out");
    bench.special(Special::Enable);
    assert_eq!(bench.doing(), Doing::Following, "the command of before");
    bench.wait(1000);
    assert!((bench.position() - 0.3).abs() < 0.01, "{}", bench.position());
    bench.command(Codes { kd: 800, ..NEUTRAL });
    assert_eq!(bench.doing(), Doing::Damping);
    bench.special(Special::Disable);
    assert_eq!(bench.doing(), Doing::Off);
}

#[test]
fn the_last_command_stays_in_force_unless_the_maker_s_tool_has_set_a_watchdog() {
    for (watchdog_s, expected) in [(0.0, Doing::Following), (0.1, Doing::Off)] {
        let mut bench = Bench::new(&[Setup { watchdog_s, ..AK80_9 }], JointConfig::default());
        bench.special(Special::Enable);
        bench.command(hold(0.3));
        bench.wait(90);
        assert_eq!(bench.doing(), Doing::Following);
        bench.wait(10_000);
        assert_eq!(bench.doing(), expected);
        assert_eq!(bench.command(hold(0.3)).error, 0, "no reply shows it");
        assert_eq!(bench.doing(), expected);
    }
}

#[test]
fn for_a_second_after_set_zero_it_is_deaf() {
    let mut bench = Bench::new(&[AK80_9], JointConfig { start: 1.0, ..JointConfig::default() });
    bench.special(Special::Enable);
    assert_eq!(bench.special(Special::SetZero).position, 0x7fff);
    let deaf = (0..1200).filter(|_| bench.ask(NEUTRAL.to_bytes()).is_none()).count();
    assert!((995..=1002).contains(&deaf), "{deaf}");
    assert!(bench.position().abs() < 1e-6);
}

#[test]
fn its_zero_is_lost_with_the_power() {
    let mut bench = Bench::new(&[AK80_9], JointConfig { start: 1.0, ..JointConfig::default() });
    bench.special(Special::SetZero);
    bench.world.inject(0, Injection::Power(false), bench.now_ns);
    bench.wait(1500);
    assert_eq!(bench.ask(NEUTRAL.to_bytes()), None);
    bench.world.inject(0, Injection::Power(true), bench.now_ns);
    bench.command(NEUTRAL);
    // Within half a turn of the rotor.
    assert!(bench.position().abs() <= 0.5 * std::f64::consts::TAU / 9.0 && bench.position() != 0.0);
    assert_eq!(bench.doing(), Doing::Off);
}

#[test]
fn an_error_switches_it_off_and_is_in_its_replies() {
    let mut bench = Bench::one();
    bench.special(Special::Enable);
    bench.world.set_supply(0, 10.0, bench.now_ns);
    bench.wait(1);
    assert_eq!((bench.command(NEUTRAL).error, bench.doing()), (4, Doing::Faulted));
    assert_eq!(bench.special(Special::Enable).error, 4, "its cause is still there");
    bench.world.set_supply(0, 24.0, bench.now_ns);
    assert_eq!(bench.command(NEUTRAL).error, 4, "it stays");
    assert_eq!((bench.special(Special::Enable).error, bench.doing()), (0, Doing::Damping));
    bench.world.inject(0, Injection::Fault(6), bench.now_ns);
    assert_eq!((bench.command(NEUTRAL).error, bench.doing()), (6, Doing::Faulted));
    bench.world.inject(0, Injection::Lying(true), bench.now_ns);
    assert_eq!(bench.command(NEUTRAL).torque, 0xfff);
}

#[test]
fn it_may_reply_on_its_own_id_or_on_another() {
    for reply_id in [0, 1, 0x21] {
        let mut bench = Bench::new(&[Setup { reply_id, ..AK80_9 }], JointConfig::default());
        let reply = bench.ask(NEUTRAL.to_bytes()).unwrap();
        assert_eq!((reply.id, reply.payload().len(), reply.payload()[0]), (u32::from(reply_id), 8, 1));
    }
}

#[test]
fn two_of_one_id_answer_both() {
    let mut bench = Bench::new(&[AK80_9, AK80_9], JointConfig::default());
    bench.world.send(0, &frame(1, NEUTRAL.to_bytes()), 0).unwrap();
    assert_eq!(bench.wait(1).len(), 2);
}

#[test]
fn frames_of_other_kinds_are_not_for_it() {
    let mut bench = Bench::one();
    let eight = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc];
    let short = Frame::classic(1, &eight[..7]).unwrap();
    for other in [Frame::extended(1, eight), Frame::new(1, &eight).unwrap(), short, frame(2, eight)] {
        bench.world.send(0, &other, bench.now_ns).unwrap();
        assert_eq!(bench.wait(1), []);
    }
    assert_eq!(bench.doing(), Doing::Off);
}
