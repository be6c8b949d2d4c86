//! The emulated ODrive: its messages with both lines of firmware, and its odd ways.

use khz_emu::odrive::Setup;
use khz_emu::{BusConfig, FamilyConfig, Injection, ServoConfig, World, WorldConfig};
use khz_link::{Link, Received};
use khz_servo::Doing;
use khz_wire::Frame;
use khz_wire::odrive::{
    self, Address, Heartbeat, InputPos, Line, Version, command, floats, state, two_floats, words,
};
use std::f64::consts::TAU;

const MS: i64 = 1_000_000;

const SETUP: Setup = Setup {
    line: Line::V05,
    reduction: 1.0,
    torque_constant: 0.1,
    most_current: 40.0,
    fault_c: 90.0,
    watchdog_s: 0.0,
    heartbeat_ms: 0,
    estimates_ms: 0,
};

struct Bench {
    world: World,
    now_ns: i64,
}

impl Bench {
    fn new(setup: Setup) -> Self {
        let mut servo = ServoConfig { family: FamilyConfig::Odrive(setup), ..ServoConfig::new(0, 3) };
        servo.joint.inertia = 0.01;
        let config = WorldConfig { buses: vec![BusConfig::CAN_FD], servos: vec![servo], imu: None, seed: 1 };
        Self { world: World::new(&config).unwrap(), now_ns: 0 }
    }

    fn wait(&mut self, ms: i64) -> Vec<Frame> {
        let mut received = Vec::new();
        for _ in 0..ms {
            self.now_ns += MS;
            while let Some(Received { frame, .. }) = self.world.receive(self.now_ns).unwrap() {
                received.push(frame);
            }
        }
        received
    }

    fn command(&mut self, message: u8, payload: &[u8]) -> Vec<Frame> {
        self.world.send(0, &odrive::frame(3, message, payload), self.now_ns).unwrap();
        self.wait(1)
    }

    fn ask(&mut self, asked: u8) -> Option<[u8; 8]> {
        self.world.send(0, &odrive::ask(3, asked), self.now_ns).unwrap();
        let received = self.wait(1);
        let answer = received.iter().find(|frame| odrive::parts(frame) == Some((3, asked)))?;
        answer.payload().try_into().ok()
    }

    fn floats(&mut self, asked: u8) -> [f32; 2] {
        two_floats(&self.ask(asked).unwrap()).unwrap()
    }

    fn close_loop(&mut self) {
        self.command(command::LIMITS, &floats([20.0, 40.0]));
        self.command(command::VEL_GAINS, &floats([0.2, 0.0]));
        self.command(command::AXIS_STATE, &words([state::CLOSED_LOOP.into(), 0]));
    }

    fn doing(&mut self) -> Doing {
        self.world.advance(self.now_ns);
        self.world.servos()[0].doing()
    }
}

#[test]
fn it_answers_remote_frames_and_empty_ones_and_only_what_its_line_has() {
    for (line, silent) in
        [(Line::V05, [command::VERSION, command::ADDRESS]), (Line::V06, [command::COUNT, command::RX_SDO])]
    {
        let mut bench = Bench::new(Setup { line, ..SETUP });
        for asked in
            [command::ERROR, command::ESTIMATES, command::IQ, command::BUS, command::TORQUES, command::POWERS]
        {
            let message = bench.ask(asked);
            assert!(message.is_some(), "{line:?} {asked:#x}");
            let empty = bench.command(asked, &[]);
            assert_eq!(empty.first().map(Frame::payload), message.as_ref().map(|bytes| &bytes[..]));
        }
        assert_eq!(silent.map(|asked| bench.ask(asked)), [None, None], "{line:?}");
        assert!(bench.command(command::INPUT_POS, &[0; 8]).is_empty(), "a message is not answered");
    }
    let mut bench = Bench::new(Setup { line: Line::V06, ..SETUP });
    assert_eq!(Version::parse(&bench.ask(command::VERSION).unwrap()).unwrap().firmware, [0, 6, 11]);
    assert_eq!(Address::parse(&bench.ask(command::ADDRESS).unwrap()).unwrap().node, 3);
}

#[test]
fn shorter_messages_of_clients_are_carried_out() {
    let mut bench = Bench::new(SETUP);
    bench.close_loop();
    bench.command(command::AXIS_STATE, &1_u32.to_le_bytes());
    assert_eq!(bench.doing(), Doing::Off);
    bench.command(command::ESTOP, &[]);
    assert_eq!(bench.doing(), Doing::Faulted);
    bench.command(command::CLEAR_ERRORS, &[]);
    assert_eq!(bench.doing(), Doing::Off);
}

#[test]
fn every_frame_feeds_its_watchdog_which_acts_with_the_output_off_too() {
    let mut bench = Bench::new(Setup { watchdog_s: 0.05, heartbeat_ms: 20, ..SETUP });
    bench.close_loop();
    for _ in 0..100 {
        bench.wait(10);
        bench.ask(command::ESTIMATES);
    }
    assert!(bench.doing().is_on(), "it was only asked");
    let received = bench.wait(100);
    let beat = received.iter().filter_map(|frame| Heartbeat::parse(frame.payload())).next_back().unwrap();
    assert_eq!((bench.doing(), beat.errors, beat.state), (Doing::Faulted, Line::V05.watchdog(), state::IDLE));
    bench.command(command::CLEAR_ERRORS, &[0]);
    bench.wait(100);
    assert_eq!(bench.doing(), Doing::Faulted, "off all the time");
    // With an error its loop is not closed.
    bench.close_loop();
    assert_eq!(bench.doing(), Doing::Faulted);
}

#[test]
fn what_it_sends_by_itself_looks_like_an_answer() {
    let mut bench = Bench::new(Setup { estimates_ms: 10, ..SETUP });
    let received = bench.wait(1000);
    let is_estimate = |frame: &&Frame| odrive::parts(frame) == Some((3, command::ESTIMATES));
    assert!((95..=101).contains(&received.iter().filter(is_estimate).count()));
}

#[test]
fn an_old_set_point_makes_it_jump() {
    let mut bench = Bench::new(SETUP);
    bench.command(command::INPUT_POS, &InputPos::new(0.5, 0.0, 0.0).to_bytes());
    bench.close_loop();
    bench.wait(2000);
    let [turns, _] = bench.floats(command::ESTIMATES);
    assert!((turns - 0.5).abs() < 0.02, "{turns}");
}

#[test]
fn its_position_term_is_clamped_to_the_velocity_limit_beyond_which_it_switches_off() {
    let mut bench = Bench::new(SETUP);
    bench.close_loop();
    bench.command(command::LIMITS, &floats([2.0, 40.0]));
    bench.command(command::INPUT_POS, &InputPos::new(20.0, 0.0, 0.0).to_bytes());
    bench.wait(1000);
    let [_, speed] = bench.floats(command::ESTIMATES);
    assert!((1.3..=2.05).contains(&speed), "{speed}");
    bench.command(command::INPUT_POS, &InputPos::new(20.0, 30.0, 0.0).to_bytes());
    bench.wait(1000);
    assert_eq!(bench.doing(), Doing::Faulted);
}

#[test]
fn restarted_it_is_silent_and_knows_its_place_within_a_turn_of_the_motor() {
    let mut bench = Bench::new(SETUP);
    bench.close_loop();
    bench.command(command::INPUT_POS, &InputPos::new(1.25, 0.0, 0.0).to_bytes());
    bench.wait(3000);
    bench.world.inject(0, Injection::Reboot, bench.now_ns);
    assert_eq!((bench.ask(command::ESTIMATES), bench.doing()), (None, Doing::Off));
    bench.wait(700);
    let [turns, _] = bench.floats(command::ESTIMATES);
    assert!((turns - 0.25).abs() < 0.05, "{turns}");
    // After the restart nothing that was commanded before is left.
    assert!(TAU * f64::from(turns) < TAU);
}

#[test]
fn an_axis_takes_its_zero_and_a_node() {
    let mut bench = Bench::new(SETUP);
    bench.command(command::ABSOLUTE_POSITION, &words([8192, 0]));
    let [turns, _] = bench.floats(command::ESTIMATES);
    assert!((turns - 1.0).abs() < 0.001, "{turns}");
    bench.command(command::ADDRESS, &words([7, 0]));
    assert_eq!(bench.ask(command::ESTIMATES), None);
}

/// The bytes of `vectors/odrive.json`: what clients send, and what the DBC file makes of the answer.
#[test]
fn endpoints_are_written_and_read_to_the_byte_and_forgotten_unless_they_are_saved() {
    let mut bench = Bench::new(Setup { line: Line::V06, ..SETUP });
    for (write, read, answer) in [
        (&[1, 0x13, 1, 0, 1, 0, 0, 0][..], &[0, 0x13, 1, 0][..], [0, 0x13, 1, 0, 1, 0, 0, 0]),
        (
            &[1, 0x90, 1, 0, 0xcd, 0xcc, 0x4c, 0x3d],
            &[0, 0x90, 1, 0, 0, 0, 0, 0],
            [0, 0x90, 1, 0, 0xcd, 0xcc, 0x4c, 0x3d],
        ),
        (&[1, 0x2c, 1, 0, 1], &[0, 0x2c, 1, 0], [0, 0x2c, 1, 0, 1, 0, 0, 0]),
    ] {
        let nothing = bench.command(command::RX_SDO, write);
        assert!(nothing.iter().all(|frame| odrive::parts(frame) != Some((3, command::TX_SDO))));
        let reply = bench.command(command::RX_SDO, read);
        let reply = reply.iter().find(|frame| odrive::parts(frame) == Some((3, command::TX_SDO))).unwrap();
        assert_eq!(reply.payload(), answer);
    }
    assert!(
        bench
            .command(command::RX_SDO, &[0, 0xff, 0xff, 0])
            .iter()
            .all(|frame| odrive::parts(frame) != Some((3, command::TX_SDO)))
    );
    let watched = |bench: &mut Bench| {
        let reply = bench.command(command::RX_SDO, &[0, 0x2c, 1, 0]);
        reply.iter().find(|frame| odrive::parts(frame) == Some((3, command::TX_SDO))).unwrap().payload()[4]
    };
    bench.command(command::REBOOT, &[0]);
    bench.wait(700);
    assert_eq!(watched(&mut bench), 0, "forgotten");
    bench.command(command::RX_SDO, &[1, 0x2c, 1, 0, 1]);
    bench.command(command::REBOOT, &[1]);
    bench.wait(700);
    assert_eq!(watched(&mut bench), 1, "saved");
}

#[test]
fn the_endpoints_of_the_emulated_firmware_lie_beside_the_robots() {
    assert_eq!(include_str!("../../../robots/odrive_endpoints.json"), khz_emu::odrive::flat_endpoints());
}
