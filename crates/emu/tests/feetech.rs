//! The emulated Feetech servo: what three clients asked a stand-in, its modes, its lock and its protections.

use khz_emu::feetech::{STS3215, Servo, Setup};
use khz_emu::twin::{Family, STEP_NS};
use khz_emu::{Device, Drive, Injection, JointState, Twin, WireKind};
use khz_servo::Doing;
use khz_wire::Frame;
use khz_wire::feetech::{
    BROADCAST, Status, SyncWrite, address as at, instruction, item, packet, ping, read, reboot, sync_read,
    write,
};
use khz_wire::serial::Packets;
use std::f64::consts::TAU;

const WIRE: WireKind = WireKind::Rs485 { baud: 1_000_000, packets: Packets::Feetech };
const INERTIA: f64 = 0.03;
const STEP: f64 = TAU / 4096.0;

/// Servos with free joints on one line without time.
struct Bench {
    servos: Vec<Servo>,
    joints: Vec<JointState>,
}

impl Bench {
    fn of(setup: Setup, count: u8) -> Self {
        let one = |id| {
            Setup::switched_on(Device { family: setup, supply_v: 7.4, ..Device::new(0, id) }, 1).unwrap()
        };
        Self { servos: (1..=count).map(one).collect(), joints: vec![JointState::default(); count.into()] }
    }

    fn new(count: u8) -> Self {
        Self::of(Setup::default(), count)
    }

    /// All that is answered, in its order: every servo receives the replies of the others.
    fn ask(&mut self, request: &Frame) -> Vec<Frame> {
        let mut replies: Vec<Frame> =
            self.servos.iter_mut().filter_map(|servo| servo.answer(request, WIRE)).collect();
        let mut next = 0;
        while let Some(reply) = replies.get(next).copied() {
            let from = Status::parse(&reply).unwrap().id;
            let others = self.servos.iter_mut().filter(|servo| servo.register(at::ID) != i32::from(from));
            replies.extend(others.filter_map(|servo| servo.answer(&reply, WIRE)));
            next += 1;
        }
        replies
    }

    /// Conditions and data of the one answer.
    fn reply(&mut self, request: &Frame) -> (u8, Vec<u8>) {
        let replies = self.ask(request);
        assert_eq!(replies.len(), 1, "{request:?}: {replies:?}");
        let status = Status::parse(&replies[0]).unwrap();
        (status.conditions, status.data.to_vec())
    }

    /// Writes an item of the first.
    fn put(&mut self, address: u8, value: i32) {
        let item = item(address).unwrap();
        let word = item.word(value).to_le_bytes();
        assert!(self.reply(&write(1, address, &word[..item.size.into()]).unwrap()).1.is_empty());
    }

    fn register(&self, address: u8) -> i32 {
        self.servos[0].register(address)
    }

    fn wait(&mut self, ms: i64) {
        let dt_s = STEP_NS as f64 * 1e-9;
        for _ in 0..ms * 1_000_000 / STEP_NS {
            for (servo, joint) in self.servos.iter_mut().zip(&mut self.joints) {
                let Drive { torque, damping } = servo.step(*joint, dt_s);
                joint.velocity =
                    (joint.velocity + dt_s * torque / INERTIA) / (1.0 + dt_s * damping / INERTIA);
                joint.position += dt_s * joint.velocity;
            }
        }
    }

    fn position(&self) -> f64 {
        self.joints[0].position
    }
}

#[test]
fn it_answers_as_clients_expect() {
    let mut bench = Bench::new(7);
    assert_eq!(bench.reply(&ping(1)), (0, vec![]));
    assert_eq!(bench.reply(&read(1, at::MODEL_NUMBER, 2)), (0, vec![9, 3]));
    assert_eq!(bench.reply(&read(1, at::PRESENT_POSITION, 15)).1[..7], [0, 8, 0, 0, 0, 0, 74]);
    assert_eq!(bench.ask(&ping(BROADCAST)).len(), 7);
    assert!(bench.servos.windows(2).all(|two| two[0].delay_ns() < two[1].delay_ns()), "one after the other");
    // To all, and not answered.
    assert_eq!(bench.ask(&write(BROADCAST, at::TORQUE_ENABLE, &[1]).unwrap()), []);
    assert_eq!(bench.servos[6].register(at::TORQUE_ENABLE), 1);
    // What it does not take it answers all the same.
    for (address, value) in [(at::PRESENT_POSITION, 7), (at::ID, 255), (at::MODE, 9)] {
        let before = bench.register(address);
        bench.put(address, value);
        assert_eq!(bench.register(address), before);
    }
    assert_eq!(bench.reply(&write(1, at::GOAL_POSITION, &[1]).unwrap()).0, 0);
    assert_eq!(bench.register(at::GOAL_POSITION), 2048, "half a word");
    assert_eq!(bench.ask(&write(1, at::RESPONSE_LEVEL, &[0]).unwrap()), []);
    let counts = [ping(1), read(1, 56, 4), write(1, at::GOAL_POSITION, &[0, 8]).unwrap()];
    assert_eq!(counts.map(|request| bench.ask(&request).len()), [1, 1, 0]);
}

#[test]
fn they_answer_in_the_order_in_which_they_are_asked() {
    let mut bench = Bench::new(6);
    let asked = sync_read(at::PRESENT_POSITION, 6, &[3, 1, 6, 2]).unwrap();
    let from = |replies: Vec<Frame>| -> Vec<u8> {
        replies.iter().map(|frame| Status::parse(frame).unwrap().id).collect()
    };
    assert_eq!(from(bench.ask(&asked)), [3, 1, 6, 2]);
    // Behind one that is silent all are.
    bench.servos[0].inject(Injection::Silent(true));
    assert_eq!(from(bench.ask(&asked)), [3]);
    bench.servos[0].inject(Injection::Silent(false));
    assert_eq!(from(bench.ask(&asked)), [3, 1, 6, 2], "what was due before is forgotten");
}

#[test]
fn what_is_written_with_the_lock_closed_is_gone_with_the_power() {
    let mut bench = Bench::new(1);
    bench.put(at::POSITION_P, 16);
    assert_eq!(bench.register(at::POSITION_P), 16, "it acts");
    bench.put(at::LOCK, 0);
    bench.put(at::MODE, 1);
    bench.put(at::LOCK, 1);
    bench.servos[0].inject(Injection::Reboot);
    assert_eq!([at::POSITION_P, at::MODE, at::LOCK].map(|it| bench.register(it)), [32, 1, 1]);
    bench.wait(900);
    // The new id counts from the next packet on.
    bench.put(at::LOCK, 0);
    let answer = bench.ask(&write(1, at::ID, &[6]).unwrap());
    assert_eq!(Status::parse(&answer[0]).map(|status| status.id), Some(1));
    assert_eq!((bench.ask(&ping(1)).len(), bench.ask(&ping(6)).len()), (0, 1));
}

#[test]
fn a_goal_is_followed_with_its_delay_and_no_faster_than_it_goes() {
    let mut bench = Bench::new(1);
    bench.put(at::GOAL_POSITION, 2048 + 1024);
    bench.wait(50);
    assert_eq!(bench.position(), 0.0, "it is off");
    bench.put(at::TORQUE_ENABLE, 1);
    bench.wait(30);
    assert_eq!(bench.position(), 0.0, "the goal is under way");
    bench.wait(200);
    let early = bench.position();
    assert!(early > 0.4 && early < 4.9 * 0.2, "{early}");
    bench.wait(1500);
    assert!((bench.position() - TAU / 4.0).abs() < 0.01, "{}", bench.position());
    // Slower by its goal speed, and not beyond its limits.
    bench.put(at::GOAL_SPEED, 500);
    bench.put(at::MIN_POSITION, 1024);
    bench.put(at::GOAL_POSITION, 0);
    bench.wait(1000);
    assert!((TAU / 4.0 - bench.position() - 500.0 * STEP).abs() < 0.3, "{}", bench.position());
    bench.wait(4000);
    assert!((bench.position() + TAU / 4.0).abs() < 0.02, "{}", bench.position());
}

#[test]
fn speed_and_duty_move_it() {
    let mut bench = Bench::of(Setup { mode: 1, ..Setup::default() }, 1);
    bench.put(at::GOAL_SPEED, -1000);
    bench.put(at::TORQUE_ENABLE, 1);
    bench.wait(1000);
    let speed = bench.register(at::PRESENT_SPEED);
    assert!((-1050..=-950).contains(&speed), "{speed}");
    let mut bench = Bench::of(Setup { mode: 2, ..Setup::default() }, 1);
    bench.put(at::GOAL_TIME, -400);
    bench.put(at::TORQUE_ENABLE, 1);
    bench.wait(1000);
    // Without load its back-EMF is what it gets.
    let speed = f64::from(bench.register(at::PRESENT_SPEED)) * STEP;
    assert!((speed + 0.4 * 7.4 / STS3215.kt).abs() < 0.05, "{speed}");
    assert_eq!(bench.register(at::PRESENT_LOAD), -400);
}

#[test]
fn an_overload_leaves_it_little_torque_until_it_is_restarted() {
    let mut bench = Bench::new(1);
    bench.put(at::TORQUE_ENABLE, 1);
    bench.put(at::GOAL_POSITION, 3000);
    // Something holds the joint.
    for _ in 0..2500 {
        bench.wait(1);
        bench.joints[0] = JointState::default();
    }
    assert_eq!(bench.reply(&ping(1)).0, 0x20);
    assert_eq!((bench.register(at::STATUS), bench.servos[0].doing()), (0x20, Doing::Faulted));
    assert_eq!(bench.register(at::PRESENT_LOAD), 194, "a fifth");
    bench.ask(&reboot(1));
    assert_eq!(bench.ask(&ping(1)), [], "it is deaf for a while");
    bench.wait(900);
    assert_eq!(bench.reply(&ping(1)).0, 0);
}

#[test]
fn heat_switches_it_off_and_voltage_is_reported() {
    let mut bench = Bench::new(1);
    bench.put(at::TORQUE_ENABLE, 1);
    bench.servos[0].set_supply(8.5);
    assert_eq!((bench.reply(&ping(1)).0, bench.register(at::TORQUE_ENABLE)), (1, 1), "it goes on");
    bench.servos[0].set_supply(7.4);
    bench.servos[0].inject(Injection::Overheated);
    assert_eq!((bench.reply(&ping(1)).0, bench.register(at::TORQUE_ENABLE)), (4, 0));
    bench.put(at::TORQUE_ENABLE, 1);
    assert_eq!(bench.register(at::TORQUE_ENABLE), 0, "it stays off");
}

#[test]
fn its_middle_can_be_set_and_positions_are_those_of_a_turn() {
    let mut bench = Bench::new(1);
    bench.joints[0].position = 0.5;
    bench.wait(1);
    assert_eq!(bench.register(at::PRESENT_POSITION), 2048 + 326);
    // As LeRobot sets half turns.
    bench.put(at::HOMING_OFFSET, 326);
    assert_eq!(bench.register(at::PRESENT_POSITION), 2048);
    bench.put(at::HOMING_OFFSET, 0);
    assert!(bench.reply(&write(1, at::TORQUE_ENABLE, &[128]).unwrap()).1.is_empty());
    assert_eq!([at::PRESENT_POSITION, at::HOMING_OFFSET].map(|it| bench.register(it)), [2048, 326]);
    bench.joints[0].position = 0.5 + 0.5 * TAU;
    bench.wait(1);
    assert_eq!(bench.register(at::PRESENT_POSITION), 0);
    bench.put(at::MAX_POSITION, 0);
    bench.wait(1);
    assert_eq!(bench.register(at::PRESENT_POSITION), 4096, "many turns");
    bench.ask(&packet(1, 0x0a, &[]).unwrap());
    assert_eq!(bench.register(at::PRESENT_POSITION), 0);
}

#[test]
fn what_is_registered_waits_for_an_action() {
    let mut bench = Bench::new(2);
    let registered = packet(1, instruction::REG_WRITE, &[at::GOAL_POSITION, 0, 9]).unwrap();
    assert_eq!(bench.reply(&registered), (0, vec![]));
    bench.wait(1);
    assert_eq!([at::GOAL_POSITION, at::REGISTERED].map(|it| bench.register(it)), [2048, 1]);
    assert_eq!(bench.ask(&packet(BROADCAST, instruction::ACTION, &[]).unwrap()), []);
    assert_eq!(bench.register(at::GOAL_POSITION), 0x900);
    let mut goals = SyncWrite::new(at::GOAL_POSITION, 2);
    assert!(goals.add(2, &[1, 8]) && goals.add(1, &[2, 8]));
    assert_eq!(bench.ask(&goals.packet()), []);
    assert_eq!(
        [0, 1].map(|servo| bench.servos[servo].register(at::GOAL_POSITION)),
        [2049, 2050].map(|goal| 4099 - goal)
    );
}
