//! The emulated RMD motor against its manual's examples and what users measured.

use khz_emu::rmd::Setup;
use khz_emu::{BusConfig, FamilyConfig, Injection, JointConfig, ServoConfig, World, WorldConfig};
use khz_link::Link;
use khz_servo::Doing;
use khz_wire::Frame;
use khz_wire::mit::{Codes, Scale};
use khz_wire::rmd::{
    self, ALL, IDS, Message, Motion, REPLIES, REQUESTS, Status, V44, command, function, radians, state,
};
use serde_json::Value;

const MS: i64 = 1_000_000;
const X8: Setup = Setup {
    name: *b"X8S2V10",
    date: 20_220_206,
    ranges: [12.5, 45.0, 24.0],
    fault_c: 100.0,
    watchdog_ms: 0,
    brake: false,
    reply_delay_ns: 0,
};
const NEUTRAL: Codes = Codes { position: 0x7fff, velocity: 0x7ff, kp: 0, kd: 0, torque: 0x7ff };

struct Bench {
    world: World,
    now_ns: i64,
}

impl Bench {
    fn new(motors: &[Setup], joint: JointConfig) -> Self {
        let servo = |(at, motor): (usize, &Setup)| ServoConfig {
            family: FamilyConfig::Rmd(*motor),
            ambient_c: 50.0,
            joint,
            ..ServoConfig::new(0, at as u8 + 1)
        };
        let servos = motors.iter().enumerate().map(servo).collect();
        let config = WorldConfig { buses: vec![BusConfig::CAN_FD], servos, imu: None, seed: 1 };
        Self { world: World::new(&config).unwrap(), now_ns: 0 }
    }

    fn of(motor: Setup) -> Self {
        Self::new(&[motor], JointConfig::default())
    }

    /// All that comes within so many milliseconds.
    fn wait(&mut self, ms: i64) -> Vec<Frame> {
        self.now_ns += ms * MS;
        std::iter::from_fn(|| self.world.receive(self.now_ns).unwrap())
            .map(|received| received.frame)
            .collect()
    }

    fn send(&mut self, frame: &Frame) -> Vec<Frame> {
        self.world.send(0, frame, self.now_ns).unwrap();
        self.wait(1)
    }

    fn ask(&mut self, message: Message) -> Option<Message> {
        let replies = self.send(&rmd::frame(REQUESTS + 1, message));
        replies.first().and_then(|reply| Message::parse(reply.payload()))
    }

    fn command(&mut self, codes: Codes) -> Vec<Frame> {
        self.send(&rmd::motion(1, codes))
    }

    fn read(&mut self, command: u8) -> i32 {
        self.ask(Message::of(command)).unwrap().number()
    }

    fn errors(&mut self) -> u16 {
        Status::parse(self.ask(Message::of(command::STATUS)).unwrap()).unwrap().errors
    }

    fn doing(&self) -> Doing {
        self.world.servos()[0].doing()
    }
}

fn hold(position: f64) -> Codes {
    Codes { position: Scale::symmetric(12.5, 16).encode(position), kp: 200, kd: 800, ..NEUTRAL }
}

#[test]
fn what_does_not_depend_on_its_state_is_answered_as_the_manual_prints() {
    let json: Value = serde_json::from_str(include_str!("../../../vectors/rmd.json")).unwrap();
    let bytes = |hex: &Value| u64::from_str_radix(hex.as_str().unwrap(), 16).unwrap().to_be_bytes();
    let number = |hex: &Value| u32::from_str_radix(hex.as_str().unwrap(), 16).unwrap();
    let same = [
        "timeout off",
        "timeout 1000 ms",
        "model",
        "version date",
        "function 0x01 clear turns",
        "function 0x02 id filter on",
        "id write 2",
        "operating mode",
        "read acceleration position",
        "reset",
    ];
    let mut count = 0;
    for vector in json["vectors"].as_array().unwrap().iter().filter(|vector| vector["by"] == "manual") {
        let mut bench = Bench::of(X8);
        let replies = bench
            .send(&rmd::frame(number(&vector["to"]), Message::parse(&bytes(&vector["request"])).unwrap()));
        let of = vector["of"].as_str().unwrap();
        if vector["reply"].is_null() {
            assert_eq!(replies, [], "{of}");
        } else if vector["to"] != "280" {
            let [reply] = replies[..] else { panic!("{of}: {replies:?}") };
            assert_eq!(reply.id, number(&vector["from"]), "{of}");
            let is_motion = reply.id > rmd::MOTION_REPLIES;
            let first = if is_motion { 1 } else { bytes(&vector["request"])[0] };
            assert_eq!(reply.payload()[0], first, "{of}");
            if same.contains(&of) {
                assert_eq!(reply.payload(), bytes(&vector["reply"]), "{of}");
            }
        }
        count += usize::from(same.contains(&of));
    }
    assert_eq!(count, same.len());
}

#[test]
fn the_first_command_that_moves_it_switches_it_on_and_off_is_no_hold() {
    let mut bench = Bench::of(X8);
    bench.command(hold(0.3));
    assert_eq!(bench.doing(), Doing::Following);
    bench.wait(1000);
    assert!((radians(bench.read(command::ANGLE)) - 0.3).abs() < 0.01);
    bench.ask(Message::of(command::HOLD));
    assert_eq!(bench.doing(), Doing::Following, "0x81 holds");
    bench.ask(Message::of(command::OFF));
    assert_eq!(bench.doing(), Doing::Off);
}

#[test]
fn after_its_watchdog_it_sends_0xf1_each_second_and_the_first_command_back() {
    let mut bench = Bench::of(Setup { watchdog_ms: 50, ..X8 });
    bench.command(hold(0.3));
    assert_eq!(bench.wait(45), []);
    assert_eq!(bench.doing(), Doing::Following);
    let text = bench.wait(2900);
    assert_eq!(text.len(), 3, "{text:?}");
    let is_cut_off = |frame: &Frame| frame.id == REPLIES + 1 && frame.payload()[0] == command::CUT_OFF;
    assert!(text.iter().all(is_cut_off) && bench.doing() == Doing::Off);
    // Decoded it would be 0 rad, 0 A, 0 °C.
    assert_eq!(bench.ask(Message::of(command::MOTION)), Some(Message::of(command::MOTION)));
    assert_eq!(Motion::parse(bench.ask(Message::of(command::MOTION)).unwrap()).celsius, 50);
    bench.wait(100);
    let [echo] = bench.command(hold(0.3))[..] else { panic!("one reply") };
    assert_eq!(echo.payload(), hold(0.3).to_bytes());
    assert!(state(1, echo.payload()).is_none() && bench.doing() == Doing::Off);
    bench.command(hold(0.3));
    assert_eq!(bench.doing(), Doing::Following);
}

#[test]
fn its_watchdog_is_kept_without_power_and_cannot_be_read() {
    let mut bench = Bench::of(X8);
    assert_eq!(bench.ask(Message::with(command::WATCHDOG, 80)), Some(Message::with(command::WATCHDOG, 80)));
    bench.world.inject(0, Injection::Reboot, bench.now_ns);
    assert_eq!(bench.ask(Message::of(command::RUNTIME)), None, "it starts");
    assert!(bench.wait(1500).iter().all(|frame| frame.payload()[0] == command::CUT_OFF));
    assert_eq!(bench.read(command::RUNTIME), 0, "the watchdog acts with the output off, too");
    assert!((1400..1600).contains(&bench.read(command::RUNTIME)));
}

#[test]
fn a_brake_takes_its_time_and_says_when_it_is_released() {
    let mut bench = Bench::of(Setup { brake: true, ..X8 });
    assert_eq!(bench.ask(Message::of(command::RELEASE)), None);
    assert_eq!(bench.command(hold(0.3)).len(), 1, "it answers as if it moved");
    assert_eq!(bench.doing(), Doing::Off);
    let [released] = bench.wait(200)[..] else { panic!("one reply") };
    assert_eq!((released.payload()[0], bench.doing()), (command::RELEASE, Doing::Following));
    bench.ask(Message::of(command::OFF));
    bench.command(hold(0.3));
    assert_eq!(bench.doing(), Doing::Off, "it has locked again");
}

#[test]
fn some_errors_stay_and_after_others_it_moves_again() {
    let mut bench = Bench::of(X8);
    bench.command(hold(0.3));
    bench.world.inject(0, Injection::Fault(0x0004), bench.now_ns);
    assert_eq!((bench.errors(), bench.doing()), (0x0004, Doing::Faulted));
    bench.wait(1000);
    assert_eq!((bench.errors(), bench.doing()), (0, Doing::Following), "without a command");
    bench.world.inject(0, Injection::Fault(0x0002), bench.now_ns);
    bench.wait(1000);
    assert_eq!((bench.errors(), bench.doing()), (0x0002, Doing::Faulted));
    bench.ask(Message::of(command::RESET));
    bench.wait(1200);
    assert_eq!((bench.errors(), bench.doing()), (0, Doing::Off));
}

#[test]
fn zero_and_id_count_from_the_next_start_on() {
    let mut bench = Bench::new(&[X8], JointConfig { start: 1.0, ..JointConfig::default() });
    bench.ask(Message::of(command::ZERO_HERE));
    let new_id = Message { index: function::ID, ..Message::with(command::FUNCTION, 7) };
    assert_eq!(bench.ask(new_id), Some(new_id));
    assert_eq!(rmd::hundredths(1.0), bench.read(command::ANGLE));
    assert_eq!(bench.ask(Message::of(command::RESET)), None);
    assert_eq!(bench.ask(Message::of(command::ANGLE)), None, "for 1.1 s");
    bench.wait(1200);
    assert_eq!(bench.ask(Message::of(command::ANGLE)), None, "it is another");
    let [angle] = bench.send(&rmd::frame(REQUESTS + 7, Message::of(command::ANGLE)))[..] else { panic!() };
    assert_eq!((angle.id, Message::parse(angle.payload()).unwrap().number()), (REPLIES + 7, 0));
}

#[test]
fn all_of_them_receive_a_broadcast_once_they_listen_to_it() {
    let mut bench = Bench::new(&[X8, X8], JointConfig::default());
    let off = rmd::frame(ALL, Message::of(command::OFF));
    assert_eq!(bench.send(&off), []);
    for id in [1, 2] {
        let filter = Message { index: function::ID_FILTER, ..Message::of(command::FUNCTION) };
        bench.send(&rmd::frame(REQUESTS + id, filter));
    }
    assert_eq!(bench.send(&off).len(), 2);
    let read = Message { limit: 1, ..Message::of(command::ID) };
    let ids: Vec<_> =
        bench.send(&rmd::frame(IDS, read)).iter().map(|frame| (frame.id, frame.payload()[6])).collect();
    assert_eq!(ids, [(IDS, 0x41), (IDS, 0x42)]);
}

#[test]
fn one_that_sends_by_itself_answers_nothing() {
    let mut bench = Bench::of(X8);
    let every = Message { index: command::MOTION, limit: 2, ..Message::with(command::UNASKED, 1) };
    bench.ask(every);
    let text = bench.wait(100);
    assert!((9..=11).contains(&text.len()) && text.iter().all(|frame| frame.payload()[0] == command::MOTION));
    let text = bench.send(&rmd::frame(REQUESTS + 1, Message::of(command::STATUS)));
    assert!(text.iter().all(|frame| frame.payload()[0] == command::MOTION), "{text:?}");
}

#[test]
fn its_answers_come_as_late_as_it_is_set_up() {
    let mut bench = Bench::of(Setup { reply_delay_ns: 800_000, ..X8 });
    bench.world.send(0, &rmd::frame(REQUESTS + 1, Message::of(command::ANGLE)), 0).unwrap();
    assert_eq!(bench.world.receive(900_000).unwrap(), None);
    assert!(bench.world.receive(1_200_000).unwrap().is_some());
}

#[test]
fn with_protocol_v4_4_it_reports_its_name_in_blocks() {
    let mut bench = Bench::of(Setup { date: V44, ..X8 });
    let blocks: Vec<_> = [0, 1]
        .map(|block| {
            bench.ask(Message { index: 1, limit: block, ..Message::of(command::MODEL) }).unwrap().to_bytes()
        })
        .into();
    assert_eq!((&blocks[0][3..], &blocks[1][3..5]), (&b"X8S2V"[..], &b"10"[..]));
}

#[test]
fn frames_of_other_kinds_are_not_for_it() {
    let mut bench = Bench::of(X8);
    let payload = hold(0.3).to_bytes();
    let short = Frame::classic(0x401, &payload[..7]).unwrap();
    for other in [
        Frame::extended(0x401, payload),
        Frame::new(0x401, &payload).unwrap(),
        short,
        rmd::motion(2, hold(0.3)),
    ] {
        assert_eq!(bench.send(&other), []);
    }
    assert_eq!(bench.doing(), Doing::Off);
}
