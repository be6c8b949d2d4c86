//! Several families on one bus, in virtual time: each takes its own frames alone, whatever the others send.

use crate::mit::{Outcome, Scripted, run_link, run_robot};
use khz_emu::World;
use khz_file::RobotConfig;
use khz_link::{Link, LinkError, Received};
use khz_loop::Doing;
use khz_loop::supervisor::Phase;
use khz_servo::Identifiers;
use khz_wire::Frame;
use khz_wire::odrive::{self, Heartbeat, command, state};
use std::sync::{Arc, Mutex};

/// Ten servos of three families on one classic bus.
fn mixed_arm() -> RobotConfig {
    RobotConfig::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/mixed_arm.toml")).unwrap()
}

fn run_it(script: impl FnMut(&mut World, i64) + Send + 'static) -> Outcome {
    run_robot(&mixed_arm(), script)
}

#[test]
fn ten_servos_of_three_families_miss_no_reply_on_one_bus() {
    let outcome = run_it(|_, _| {});
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
    assert_eq!(outcome.doing, [Doing::Off; 10]);
    for (servo, device) in outcome.machine.cycle().devices().iter().enumerate() {
        let stats = outcome.machine.cycle().stats(servo);
        assert_eq!((stats.missed, stats.late), (0, 0), "{}", device.name);
    }
    assert!(outcome.swing > 0.25, "{}", outcome.swing);
}

/// The emulated arm, beside something that sends to the host what it likes.
struct Beside {
    scripted: Scripted,
    sends: Box<dyn FnMut() -> Option<Frame> + Send>,
    /// One frame in a cycle.
    is_due: bool,
}

impl Link for Beside {
    khz_link::forward_link!(it => it.scripted; capabilities, half_duplex, next_event_ns, imu, counters, send);

    fn begin_cycle(&mut self, now_ns: i64) {
        self.is_due = true;
        self.scripted.begin_cycle(now_ns);
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let frame = if std::mem::take(&mut self.is_due) { (self.sends)() } else { None };
        match frame {
            Some(frame) => Ok(Some(Received { channel: 0, at_ns: now_ns, frame })),
            None => self.scripted.receive(now_ns),
        }
    }
}

/// What becomes of the arm if from the start of control on such a frame comes in each cycle.
fn beside(sends: impl FnMut() -> Option<Frame> + Send + 'static) -> Outcome {
    let config = mixed_arm();
    let doing = Arc::<Mutex<Vec<Doing>>>::default();
    let scripted =
        Scripted { world: config.emulate().unwrap(), script: Box::new(|_, _| {}), doing: Arc::clone(&doing) };
    let link = Box::new(Beside { scripted, sends: Box::new(sends), is_due: false });
    run_link(&config, link, &doing).unwrap()
}

/// A heartbeat of an ODrive that the file does not have.
fn heartbeat(node: u8, errors: u32) -> Frame {
    let beat = Heartbeat { errors, state: state::CLOSED_LOOP, ..Heartbeat::default() };
    odrive::frame(node, command::HEARTBEAT, &beat.to_bytes())
}

/// Its heartbeats are at the identifiers of replies of the first RMD motor, and its error is that motor's id: read as a state, it is
/// an angle of -12.5 rad.
#[test]
fn a_heartbeat_that_looks_like_a_state_of_another_family_is_not_believed() {
    assert_eq!(heartbeat(40, 1).id, 0x501);
    let mut cycles = 0;
    let outcome = beside(move || {
        cycles += 1;
        (cycles > 400 && cycles % 5 == 0).then(|| heartbeat(40, 1))
    });
    assert_eq!(outcome.doing, [Doing::Off; 10]);
    assert_ne!(outcome.cause(), "finished");
}

/// Frames of other nodes, which no servo of the arm sends, are ignored.
#[test]
fn what_is_of_no_servo_of_the_file_does_no_harm() {
    let own: Vec<Identifiers> =
        mixed_arm().servos.iter().flat_map(|servo| servo.family().settings().identifiers(servo.id)).collect();
    let mut random = 1_u64;
    let outcome = beside(move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let frame = Frame::classic((random >> 53) as u32, &random.to_be_bytes()).unwrap();
        Some(frame).filter(|frame| own.iter().all(|own| !own.has(frame)))
    });
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
    assert_eq!(outcome.cause(), "finished");
    for servo in 0..10 {
        let stats = outcome.machine.cycle().stats(servo);
        assert_eq!((stats.missed, stats.late), (0, 0), "{servo}");
    }
}

/// At any identifier, with anything in it: nothing panics, and every servo is off in the end.
#[test]
fn whatever_is_sent_on_a_shared_bus_ends_with_every_servo_off() {
    for seed in 0..40_u64 {
        let (mut random, mut cycles, own) = (seed, 0, mixed_arm());
        let outcome = beside(move || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            cycles += 1;
            let servo = &own.servos[(random >> 60) as usize % own.servos.len()];
            let own = servo.family().settings().identifiers(servo.id);
            let of_it = own[(random >> 50) as usize % own.len()];
            let id = of_it.id & of_it.mask | (random >> 40) as u32 & !of_it.mask & 0x7ff;
            let payload = random.rotate_left(seed as u32).to_le_bytes();
            let frame = Frame::classic(id, &payload).unwrap();
            (cycles > 400 && cycles % (1 + seed % 7) == 0).then_some(frame)
        });
        assert_eq!(outcome.doing, [Doing::Off; 10], "{seed}: {}", outcome.cause());
    }
}
