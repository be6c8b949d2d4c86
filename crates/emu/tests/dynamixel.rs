//! The emulated Dynamixel servo: what three clients asked a stand-in, its modes, its watchdog and its errors.

use khz_emu::dynamixel::{Servo, Setup};
use khz_emu::twin::{Family, STEP_NS};
use khz_emu::{Device, Drive, Injection, JointState, Twin, VoltageLaw, WireKind};
use khz_servo::Doing;
use khz_wire::Frame;
use khz_wire::dynamixel::{
    self, BROADCAST, CLEAR_TURNS, Status, SyncWrite, address as at, error, instruction, packet, ping, read,
    reboot, sync_read, write,
};
use khz_wire::serial::Packets;
use std::f64::consts::TAU;

const WIRE: WireKind = WireKind::Rs485 { baud: 1_000_000, packets: Packets::Dynamixel };
const INERTIA: f64 = 0.002;

/// An XL330-M288, as the clients' stand-in was.
const SMALL: Setup = Setup {
    model: 1200,
    firmware: 52,
    mode: 3,
    return_delay: 0,
    baud: 3,
    torque_per_step: 0.0005,
    stiffness_per_step: 0.002,
    motor: None,
    fault_c: 70.0,
};

/// Servos with free joints on one line without time.
struct Bench {
    servos: Vec<Servo>,
    joints: Vec<JointState>,
}

impl Bench {
    fn new(setup: Setup, count: u8) -> Self {
        let one = |id| {
            Setup::switched_on(Device { family: setup, supply_v: 5.0, ..Device::new(0, id) }, 1).unwrap()
        };
        Self { servos: (1..=count).map(one).collect(), joints: vec![JointState::default(); count.into()] }
    }

    /// All that is answered, in its order: every servo receives the replies of the others.
    fn ask(&mut self, request: &Frame) -> Vec<Frame> {
        let mut replies: Vec<Frame> =
            self.servos.iter_mut().filter_map(|servo| servo.answer(request, WIRE)).collect();
        let mut next = 0;
        while let Some(reply) = replies.get(next).copied() {
            let from = Status::parse(&reply).unwrap().id;
            let others = self.servos.iter_mut().filter(|servo| servo.register(at::ID) != i64::from(from));
            replies.extend(others.filter_map(|servo| servo.answer(&reply, WIRE)));
            next += 1;
        }
        replies
    }

    /// Error and data of the one answer.
    fn reply(&mut self, request: &Frame) -> (u8, Vec<u8>) {
        let replies = self.ask(request);
        assert_eq!(replies.len(), 1, "{request:?}: {replies:?}");
        let status = Status::parse(&replies[0]).unwrap();
        (status.error_byte(), status.data.to_vec())
    }

    fn write(&mut self, address: u16, data: &[u8]) -> u8 {
        self.reply(&write(1, address, data).unwrap()).0
    }

    fn read(&mut self, address: u16, len: u16) -> Vec<u8> {
        self.reply(&read(1, address, len)).1
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

fn goal(id: u8, steps: i32) -> Frame {
    write(id, at::GOAL_POSITION, &steps.to_le_bytes()).unwrap()
}

#[test]
fn it_answers_as_clients_expect() {
    let mut bench = Bench::new(SMALL, 7);
    assert_eq!(bench.reply(&ping(1)), (0, vec![0xb0, 0x04, 52]));
    assert_eq!(bench.ask(&ping(BROADCAST)).len(), 7);
    assert!(bench.servos.windows(2).all(|two| two[0].delay_ns() < two[1].delay_ns()), "one after the other");
    assert_eq!(bench.reply(&read(1, 700, 4)), (error::ACCESS, vec![]));
    assert_eq!(bench.read(at::PRESENT_POSITION, 4), [0, 8, 0, 0]);
    let most = [886_u16, 885].map(|most| bench.write(at::PWM_LIMIT, &most.to_le_bytes()));
    assert_eq!(most, [error::RANGE, 0], "885 is its full duty");
    assert_eq!([bench.write(at::OPERATING_MODE, &[5]), bench.write(at::TORQUE_ENABLE, &[1])], [0, 0]);
    // Locked, read-only, not there, too short, beyond its limit.
    assert_eq!(bench.write(at::OPERATING_MODE, &[0]), error::ACCESS);
    assert_eq!(bench.write(at::PRESENT_POSITION, &[0; 4]), error::ACCESS);
    assert_eq!(bench.write(66, &[0]), error::ACCESS);
    assert_eq!(bench.write(at::GOAL_POSITION, &[0; 3]), error::LENGTH);
    assert_eq!(bench.write(at::GOAL_CURRENT, &1751_i16.to_le_bytes()), error::LIMIT);
    assert_eq!(bench.write(at::BUS_WATCHDOG, &[200]), error::RANGE);
    assert_eq!(bench.reply(&packet(1, instruction::ACTION, &[]).unwrap()).0, error::INSTRUCTION);
    assert_eq!(bench.reply(&packet(1, 0x77, &[]).unwrap()).0, error::INSTRUCTION);
    // To all, and not answered.
    assert_eq!(bench.ask(&write(BROADCAST, at::TORQUE_ENABLE, &[1]).unwrap()), []);
    assert_eq!(bench.servos[6].register(at::TORQUE_ENABLE), 1);
}

#[test]
fn the_new_id_counts_from_the_next_packet_on() {
    let mut bench = Bench::new(SMALL, 1);
    let answer = bench.ask(&write(1, at::ID, &[6]).unwrap());
    assert_eq!(Status::parse(&answer[0]).map(|status| status.id), Some(1));
    assert_eq!((bench.ask(&ping(1)).len(), bench.ask(&ping(6)).len()), (0, 1));
    bench.servos[0].inject(Injection::Reboot);
    bench.wait(300);
    assert_eq!(bench.ask(&ping(6)).len(), 1, "it is kept");
}

#[test]
fn they_answer_in_the_order_in_which_they_are_asked() {
    let mut bench = Bench::new(SMALL, 6);
    for fast in [false, true] {
        let asked = sync_read(at::PRESENT_CURRENT, 10, &[3, 1, 6, 2], fast).unwrap();
        let replies = bench.ask(&asked);
        let from: Vec<u8> = replies.iter().map(|frame| Status::parse(frame).unwrap().id).collect();
        assert_eq!(from, [3, 1, 6, 2]);
        assert_eq!(
            replies.iter().map(dynamixel::place).collect::<Vec<_>>(),
            if fast { (0..4).map(Some).collect() } else { vec![None; 4] }
        );
        // Behind one that is silent all are.
        bench.servos[0].inject(Injection::Silent(true));
        assert_eq!(bench.ask(&asked).len(), 1);
        bench.servos[0].inject(Injection::Silent(false));
        assert_eq!(bench.ask(&asked).len(), 4, "what was due before is forgotten");
    }
    let old = Setup { firmware: 44, ..SMALL };
    assert_eq!(Bench::new(old, 2).ask(&sync_read(132, 4, &[1, 2], true).unwrap()), []);
}

#[test]
fn its_return_level_decides_what_is_answered() {
    let mut bench = Bench::new(SMALL, 1);
    for (level, answered) in [(2, [1, 1, 1]), (1, [1, 1, 0]), (0, [1, 0, 0])] {
        bench.ask(&write(1, at::STATUS_RETURN_LEVEL, &[level]).unwrap());
        let counts = [ping(1), read(1, 132, 4), goal(1, 2048)].map(|request| bench.ask(&request).len());
        assert_eq!(counts, answered, "{level}");
    }
}

#[test]
fn positions_are_followed_within_the_current_that_is_allowed() {
    let mut bench = Bench::new(Setup { mode: 5, ..SMALL }, 1);
    assert_eq!([bench.reply(&goal(1, 2048 + 512)).0, bench.write(at::TORQUE_ENABLE, &[1])], [0, 0]);
    bench.wait(1000);
    assert!((bench.position() - TAU / 8.0).abs() < 0.01, "{}", bench.position());
    assert_eq!(bench.servos[0].doing(), Doing::Following);
    // Without current it goes nowhere; without a gain it damps.
    assert_eq!([bench.write(at::GOAL_CURRENT, &[0, 0]), bench.reply(&goal(1, 1024)).0], [0, 0]);
    bench.wait(200);
    assert!((bench.position() - TAU / 8.0).abs() < 0.01);
    assert_eq!(bench.write(at::POSITION_P_GAIN, &[0, 0]), 0);
    assert_eq!(bench.servos[0].doing(), Doing::Damping);
}

#[test]
fn with_its_motor_it_saturates_in_voltage_and_slackens_with_its_speed() {
    let motor =
        VoltageLaw { kt: 0.25, resistance: 2.0, sag_resistance: 1.0, gain: 0.002, ..VoltageLaw::default() };
    let mut bench = Bench::new(Setup { motor: Some(motor), ..SMALL }, 1);
    assert_eq!([bench.reply(&goal(1, 2048 + 512)).0, bench.write(at::TORQUE_ENABLE, &[1])], [0, 0]);
    for (gain, duty) in [(400_u16, 0.8 * TAU / 8.0), (4000, 1.0)] {
        assert_eq!(bench.write(at::POSITION_P_GAIN, &gain.to_le_bytes()), 0);
        for velocity in [0.0, 5.0] {
            let drive = bench.servos[0].step(JointState { position: 0.0, velocity }, 250e-6);
            let wanted = motor.driven(5.0, duty);
            assert!(
                (drive.torque - wanted.torque).abs() < 1e-12 && drive.damping == wanted.damping,
                "{drive:?}"
            );
            let torque = wanted.torque - wanted.damping * velocity;
            assert!((bench.servos[0].torque() - torque).abs() < 1e-12, "{torque}");
        }
    }
}

#[test]
fn velocity_current_and_pwm_move_it() {
    for (mode, address, data) in [
        (1, at::GOAL_VELOCITY, &40_i32.to_le_bytes()[..]),
        (0, at::GOAL_CURRENT, &100_i16.to_le_bytes()),
        (16, at::GOAL_PWM, &300_i16.to_le_bytes()),
    ] {
        let mut bench = Bench::new(Setup { mode, ..SMALL }, 1);
        let pwm = if mode == 16 { bench.write(at::GOAL_PWM, &[0, 0]) } else { 0 };
        assert_eq!([pwm, bench.write(at::TORQUE_ENABLE, &[1]), bench.write(address, data)], [0; 3]);
        bench.wait(300);
        assert!(bench.position() > 0.05, "mode {mode}: {}", bench.position());
    }
    let none = Setup { model: 1060, ..SMALL };
    assert_eq!(Bench::new(none, 1).write(at::OPERATING_MODE, &[5]), error::RANGE, "it measures no current");
}

#[test]
fn after_its_watchdog_it_refuses_goals_in_silence() {
    let mut bench = Bench::new(SMALL, 2);
    assert_eq!([bench.write(at::BUS_WATCHDOG, &[5]), bench.write(at::TORQUE_ENABLE, &[1])], [0, 0]);
    for _ in 0..10 {
        bench.wait(50);
        bench.ask(&sync_read(132, 4, &[2, 1], true).unwrap());
    }
    assert_eq!(bench.servos[0].doing(), Doing::Following, "to be named is enough");
    for _ in 0..4 {
        bench.wait(50);
        bench.ask(&sync_read(132, 4, &[2], true).unwrap());
    }
    assert_eq!((bench.servos[0].doing(), bench.read(at::BUS_WATCHDOG, 1)), (Doing::TimedOut, vec![0xff]));
    let mut goals = SyncWrite::new(at::GOAL_POSITION, 4);
    assert!(goals.add(1, &3000_i32.to_le_bytes()));
    assert_eq!((bench.ask(&goals.packet()), bench.reply(&goal(1, 3000)).0), (vec![], error::RANGE));
    bench.wait(300);
    assert!(bench.position().abs() < 0.01, "it holds where it was");
    assert_eq!([bench.write(at::BUS_WATCHDOG, &[0]), bench.reply(&goal(1, 3000)).0], [0, 0]);
    assert_eq!(bench.servos[0].register(at::TORQUE_ENABLE), 1);
}

#[test]
fn a_hardware_error_stays_until_it_is_restarted() {
    let mut bench = Bench::new(SMALL, 1);
    bench.write(at::TORQUE_ENABLE, &[1]);
    bench.servos[0].inject(Injection::Overheated);
    assert_eq!(bench.reply(&read(1, at::HARDWARE_ERROR_STATUS, 1)), (error::ALERT, vec![4]));
    assert_eq!((bench.servos[0].doing(), bench.servos[0].register(at::TORQUE_ENABLE)), (Doing::Faulted, 0));
    assert_eq!(bench.write(at::TORQUE_ENABLE, &[1]), error::ALERT | error::RESULT);
    assert_eq!(bench.reply(&reboot(1)).0, 0, "as it restarts");
    assert_eq!(bench.ask(&ping(1)), [], "it is deaf for a while");
    bench.wait(300);
    assert_eq!((bench.write(at::TORQUE_ENABLE, &[1]), bench.servos[0].doing()), (0, Doing::Following));
    bench.servos[0].set_supply(8.0);
    assert_eq!(bench.servos[0].doing(), Doing::Faulted, "an X330 is for 3.5 to 7 V");
}

#[test]
fn indirect_bytes_are_those_they_point_at_until_it_restarts() {
    let mut bench = Bench::new(SMALL, 1);
    let targets: Vec<u8> =
        [102_u16, 103, 116, 117, 118, 119].iter().flat_map(|target| target.to_le_bytes()).collect();
    assert_eq!(bench.write(at::INDIRECT, &targets), 0);
    assert_eq!(bench.write(208, &[100, 0, 0, 4, 0, 0]), 0);
    let registers =
        |bench: &Bench| [at::GOAL_CURRENT, at::GOAL_POSITION].map(|it| bench.servos[0].register(it));
    assert_eq!((registers(&bench), bench.read(208, 6)), ([100, 1024], vec![100, 0, 0, 4, 0, 0]));
    // All of an item, or nothing.
    assert_eq!((bench.write(208, &[7]), registers(&bench)), (error::LENGTH, [100, 1024]));
    bench.servos[0].inject(Injection::Reboot);
    bench.wait(300);
    assert_eq!(bench.read(at::INDIRECT, 2), [208, 0]);
}

#[test]
fn it_forgets_turns_when_it_restarts_or_is_cleared() {
    let mut bench = Bench::new(Setup { mode: 4, ..SMALL }, 1);
    bench.joints[0].position = 3.0 * TAU + 0.5;
    bench.wait(1);
    let steps = |bench: &Bench| bench.servos[0].register(at::PRESENT_POSITION);
    assert_eq!(steps(&bench), 2048 + 3 * 4096 + 326);
    assert_eq!(bench.reply(&packet(1, instruction::CLEAR, &CLEAR_TURNS).unwrap()).0, 0);
    assert_eq!(steps(&bench), 2048 + 326);
    bench.joints[0].position += TAU;
    bench.wait(1);
    bench.servos[0].inject(Injection::Reboot);
    assert_eq!(steps(&bench), 2048 + 326);
    bench.wait(300);
    assert_eq!(bench.reply(&dynamixel::factory_reset(1, 0x02)), (0, vec![]));
}
