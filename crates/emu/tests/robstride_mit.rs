//! The emulated RobStride servo in its MIT protocol against frames of an original client.

use khz_emu::robstride_mit::Setup;
use khz_emu::{BusConfig, FamilyConfig, Injection, JointConfig, ServoConfig, World, WorldConfig};
use khz_link::Link;
use khz_servo::Doing;
use khz_wire::Frame;
use khz_wire::mit::{Codes, Scale};
use khz_wire::robstride_mit::{Reply, Request, State, frame};
use serde_json::Value;

const MS: i64 = 1_000_000;
const RS00: Setup = Setup { host_id: 0xfd, ranges: [12.57, 33.0, 14.0], fault_c: 100.0 };
const NEUTRAL: Codes = Codes { position: 0x7fff, velocity: 0x7ff, kp: 0, kd: 0, torque: 0x7ff };
const CLEAR: Request = Request::Faults { clear: true };

struct Bench {
    world: World,
    now_ns: i64,
}

impl Bench {
    fn new(joint: JointConfig) -> Self {
        let servo = ServoConfig {
            family: FamilyConfig::RobstrideMit(RS00),
            ambient_c: 25.1,
            joint,
            ..ServoConfig::new(0, 1)
        };
        let config = WorldConfig { buses: vec![BusConfig::CAN_FD], servos: vec![servo], imu: None, seed: 1 };
        Self { world: World::new(&config).unwrap(), now_ns: 0 }
    }

    /// All that comes within so many milliseconds.
    fn wait(&mut self, ms: i64) -> Vec<Frame> {
        self.now_ns += ms * MS;
        std::iter::from_fn(|| self.world.receive(self.now_ns).unwrap()).map(|it| it.frame).collect()
    }

    fn send(&mut self, bytes: [u8; 8]) -> Vec<Frame> {
        self.world.send(0, &frame(1, bytes), self.now_ns).unwrap();
        self.wait(3)
    }

    fn ask(&mut self, request: Request) -> Reply {
        let received = self.send(request.to_bytes());
        let [reply] = received.as_slice() else { panic!("{received:?}: one reply") };
        assert_eq!(reply.id, 0xfd);
        Reply::parse(reply.payload()).unwrap()
    }

    fn doing(&self) -> Doing {
        self.world.servos()[0].doing()
    }

    fn position(&self) -> f64 {
        self.world.servos()[0].position()
    }
}

fn hold(position: f64) -> Request {
    Request::Command(Codes {
        position: Scale::symmetric(12.57, 16).encode(position),
        kp: 200,
        kd: 800,
        ..NEUTRAL
    })
}

fn bytes(text: &Value) -> [u8; 8] {
    u64::from_str_radix(text.as_str().unwrap(), 16).unwrap().to_be_bytes()
}

/// The stand-in took each command for its state; what does not depend on that is the same.
#[test]
fn every_exchange_of_the_client_is_answered_as_it_expects() {
    let json: Value = serde_json::from_str(include_str!("../../../vectors/robstride_mit.json")).unwrap();
    let mut bench = Bench::new(JointConfig { stops: Some([0.0, 0.0]), ..JointConfig::default() });
    bench.world.advance(0);
    for (number, exchange) in json["vectors"].as_array().unwrap().iter().enumerate() {
        if exchange["says"]["faults"].is_u64() {
            bench.world.inject(0, Injection::Fault(1 << 14 | 1 << 2), bench.now_ns);
        }
        let reply = bench.ask(Request::from_bytes(bytes(&exchange["request"])).unwrap());
        let expected = Reply::parse(&bytes(&exchange["reply"])).unwrap();
        match (reply, expected) {
            (Reply::State(reply), Reply::State(expected)) => {
                assert_eq!(reply.id, expected.id);
                // After the first two it is commanded to move.
                assert!(number > 1 || reply == expected, "{exchange}: {reply:?}");
            }
            _ => assert_eq!(reply, expected, "{exchange}"),
        }
    }
}

#[test]
fn it_is_enabled_follows_damps_and_stops() {
    let mut bench = Bench::new(JointConfig::default());
    bench.ask(hold(0.3));
    bench.wait(500);
    assert!(bench.position().abs() < 1e-6 && bench.doing() == Doing::Off, "answered, but not carried out");
    bench.ask(Request::Enable);
    assert_eq!(bench.doing(), Doing::Following, "the command of before");
    bench.wait(10_000);
    assert!((bench.position() - 0.3).abs() < 0.01, "{}", bench.position());
    assert_eq!(bench.doing(), Doing::Following, "for ever");
    bench.ask(Request::Mode(2));
    bench.ask(Request::Command(Codes { kd: 800, ..NEUTRAL }));
    assert_eq!(bench.doing(), Doing::Following, "in another mode commands are answered, and not carried out");
    bench.ask(Request::Mode(0));
    bench.ask(Request::Command(Codes { kd: 800, ..NEUTRAL }));
    assert_eq!(bench.doing(), Doing::Damping);
    bench.ask(Request::Stop);
    assert_eq!(bench.doing(), Doing::Off);
}

#[test]
fn a_fault_is_in_no_state_and_is_told_once_if_its_cause_is_gone() {
    let mut bench = Bench::new(JointConfig::default());
    bench.ask(Request::Enable);
    bench.world.set_supply(0, 10.0, bench.now_ns);
    bench.wait(1);
    assert_eq!(bench.doing(), Doing::Faulted);
    assert!(matches!(bench.ask(Request::Command(NEUTRAL)), Reply::State(_)));
    let low = Reply::Faults { id: 1, faults: 1 << 2 };
    assert_eq!([bench.ask(CLEAR), bench.ask(CLEAR), bench.ask(Request::Faults { clear: false })], [low; 3]);
    bench.world.set_supply(0, 24.0, bench.now_ns);
    assert_eq!([bench.ask(Request::Faults { clear: false }), bench.ask(CLEAR)], [low; 2]);
    assert!(matches!(bench.ask(CLEAR), Reply::State(_)));
    bench.ask(Request::Enable);
    assert!(bench.doing().is_on());
}

#[test]
fn it_is_deaf_for_a_while_after_set_zero() {
    let mut bench = Bench::new(JointConfig { start: 1.0, ..JointConfig::default() });
    assert!(matches!(bench.ask(Request::SetZero), Reply::State(State { position: 0x7fff, .. })));
    let silent = |bench: &mut Bench| bench.send(Request::Stop.to_bytes()).is_empty();
    let deaf = (0..400).filter(|_| silent(&mut bench)).count();
    assert!((21..=24).contains(&deaf), "{deaf} of 3 ms each");
    assert!(bench.position().abs() < 1e-6);
}

#[test]
fn frames_of_other_kinds_are_not_for_it() {
    let mut bench = Bench::new(JointConfig::default());
    let enable = Request::Enable.to_bytes();
    let short = Frame::classic(1, &enable[..7]).unwrap();
    for other in [Frame::extended(1, enable), Frame::new(1, &enable).unwrap(), short, frame(2, enable)] {
        bench.world.send(0, &other, bench.now_ns).unwrap();
        assert_eq!(bench.wait(1), []);
    }
    // Store: nothing is known of it but its number.
    assert_eq!(bench.send([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf8]), []);
    assert_eq!(bench.doing(), Doing::Off);
}
