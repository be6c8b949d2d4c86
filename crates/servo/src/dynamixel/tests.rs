//! Commands into packets and answers into states, without a clock.

use super::*;
use crate::{Doing, Fault, PositionCommand, Servos, Taken};
use khz_wire::dynamixel::{error, instruction, parts, place, written};

const MS: i64 = 1_000_000;
const IDS: [u8; 4] = [1, 2, 3, 4];
/// The watchdog's register for 0.1 s.
const WATCHDOG_TOLD: u8 = 5;

fn file() -> DynamixelSettings {
    DynamixelSettings {
        model: Some(DynamixelModel::Xl330M288),
        mode: DynamixelMode::CurrentPosition,
        torque_constant: Some(0.5),
        ..DynamixelSettings::default()
    }
}

fn plan(servo: usize, settings: &Settings) -> ServoPlan<&Settings> {
    ServoPlan { servo, id: IDS[servo], mounting: Mounting::default(), watchdog_s: 0.1, family: settings }
}

/// Servos as a line has them: each is as it was set, and reports what it is.
struct Bench {
    bus: together::Bus<Layout>,
    states: Vec<ServoState>,
    on: [bool; 4],
    position: [i32; 4],
    watchdog: [u8; 4],
    hardware: [u8; 4],
    /// Of all of them, in its steps.
    velocity: i32,
    /// What the unused gain has.
    number: [u8; 4],
    silent: [bool; 4],
    /// A start has cleared where its state lies.
    blank: [bool; 4],
    /// Those behind a silent one are silent, too.
    waits: bool,
    now_ns: i64,
}

impl Bench {
    fn of(settings: &[Settings]) -> Self {
        let mut bus = together::Bus::default();
        settings
            .iter()
            .enumerate()
            .for_each(|(servo, settings)| Settings::add(&mut bus, &plan(servo, settings)));
        Self {
            bus,
            states: vec![ServoState::UNKNOWN; settings.len()],
            on: [false; 4],
            position: [2048; 4],
            watchdog: [WATCHDOG_TOLD; 4],
            hardware: [0; 4],
            velocity: 0,
            number: [0; 4],
            silent: [false; 4],
            blank: [false; 4],
            waits: true,
            now_ns: 0,
        }
    }

    fn new() -> Self {
        Self::of(&vec![Settings::of(&file()); 4])
    }

    fn answer(&self, id: u8, len: u16, turn: u8, fast: bool) -> Frame {
        let servo = usize::from(id - 1);
        let mut data = [0; 16];
        data[2..6].copy_from_slice(&self.velocity.to_le_bytes());
        data[6..10].copy_from_slice(&self.position[servo].to_le_bytes());
        data[10..].copy_from_slice(&[
            self.on[servo].into(),
            self.watchdog[servo],
            self.hardware[servo],
            50,
            31,
            self.number[servo],
        ]);
        if self.blank[servo] {
            data = [0; 16];
        }
        let alert = self.hardware[servo] != 0;
        let status = Status { id, alert, error: 0, data: &data[..len.into()] };
        if fast { status.block(turn) } else { status.packet() }.unwrap()
    }

    /// A cycle with these commands: what was written, and what came of the answers.
    fn cycle(&mut self, command: ServoCommand) -> (Vec<Frame>, Vec<Taken>) {
        let commands = vec![command; self.states.len()];
        self.bus.begin(&commands);
        self.now_ns += MS;
        let (mut written, mut taken) = (Vec::new(), Vec::new());
        for turn in 0..self.bus.turns() {
            for part in 0.. {
                let request = self.bus.request(turn, part).map(|it| (*it.frame, it.replies));
                let Some((frame, replies)) = request else { break };
                self.bus.sent(turn, part, self.now_ns);
                self.carry_out(&frame);
                if replies == 0 {
                    written.push(frame);
                }
                for answer in self.answers(&frame) {
                    taken.push(self.bus.take(&answer, &mut self.states));
                }
            }
        }
        (written, taken)
    }

    fn carry_out(&mut self, frame: &Frame) {
        for (servo, &id) in IDS.iter().enumerate() {
            match written_to(frame, id) {
                Some((at::TORQUE_ENABLE, on)) => self.on[servo] = on != 0,
                Some((at, number)) if NUMBER.contains(&at) => self.number[servo] = number,
                _ => {}
            }
        }
    }

    fn answers(&self, frame: &Frame) -> Vec<Frame> {
        let fast = parts(frame).is_some_and(|(_, number)| number == instruction::FAST_SYNC_READ);
        let mut answers = Vec::new();
        for (turn, asked) in (0..).zip(dynamixel::asked(frame)) {
            match self.silent[usize::from(asked.id - 1)] {
                true if self.waits => break,
                true => {}
                false => answers.push(self.answer(asked.id, asked.len, turn, fast)),
            }
        }
        answers
    }

    fn doing(&self) -> Vec<Doing> {
        self.states.iter().map(|state| state.doing).collect()
    }

    fn replied(taken: &[Taken]) -> Vec<usize> {
        taken
            .iter()
            .filter_map(|taken| {
                if let Taken::State { servo, newest: true, .. } = taken { Some(*servo) } else { None }
            })
            .collect()
    }
}

fn written_to(frame: &Frame, id: u8) -> Option<(u16, u8)> {
    let (address, data) = written(frame, id)?;
    Some((address, *data.first()?))
}

fn hold(position: f64) -> ServoCommand {
    ServoCommand::Position(PositionCommand { max_torque: 0.1, ..PositionCommand::hold(position) })
}

/// What each packet of a cycle writes, in their order.
fn addresses(written: &[Frame]) -> Vec<u16> {
    written.iter().filter_map(|frame| dynamixel::written(frame, 1)).map(|(address, _)| address).collect()
}

#[test]
fn they_are_switched_on_where_they_are_and_say_so_in_the_same_cycle() {
    let mut bench = Bench::new();
    bench.position = [2048, 2148, 1948, 2048];
    assert_eq!(
        (addresses(&bench.cycle(ServoCommand::Stop).0), bench.doing()),
        (vec![64], vec![Doing::Off; 4])
    );
    let (frames, _) = bench.cycle(hold(0.5));
    assert_eq!(
        addresses(&frames),
        [at::POSITION_D_GAIN, at::GOAL_CURRENT, at::GOAL_POSITION, at::TORQUE_ENABLE]
    );
    assert_eq!(written(&frames[2], 2), Some((at::GOAL_POSITION, &2148_i32.to_le_bytes()[..])));
    assert_eq!(written(&frames[1], 2), Some((at::GOAL_CURRENT, &200_i16.to_le_bytes()[..])));
    assert_eq!(bench.doing(), [Doing::Following; 4]);
    for cycle in 0..8 {
        let (frames, taken) = bench.cycle(hold(0.5));
        let goal = frames.last().and_then(|frame| written(frame, 3)).unwrap();
        assert_eq!(goal, (at::GOAL_POSITION, &(2048 + 326_i32).to_le_bytes()[..]));
        // Gains and current are written some times more: nothing confirms their arrival.
        assert_eq!(frames.len(), if cycle < 4 { 3 } else { 1 }, "{cycle}");
        assert_eq!(Bench::replied(&taken), [0, 1, 2, 3]);
    }
    assert_eq!((bench.states[0].voltage, bench.states[0].temperature), (5.0, 31.0));
}

#[test]
fn a_joint_is_damped_by_its_gains_and_follows_again() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    assert_eq!(bench.cycle(ServoCommand::Damp).0, [], "what is off stays off");
    assert_eq!(bench.doing(), [Doing::Off; 4]);
    bench.cycle(hold(0.0));
    assert_eq!(bench.doing(), [Doing::Off; 4], "not before a stop");
    bench.cycle(ServoCommand::Stop);
    bench.cycle(hold(0.0));
    for _ in 0..10 {
        let (frames, _) = bench.cycle(ServoCommand::Damp);
        assert_eq!(addresses(&frames), [at::POSITION_D_GAIN]);
        assert_eq!(written(&frames[0], 4).unwrap().1, [0xd0, 0x07, 0, 0, 0, 0]);
        assert_eq!(bench.doing(), [Doing::Damping; 4]);
    }
    let (frames, _) = bench.cycle(hold(0.0));
    assert_eq!(written(&frames[0], 4).unwrap().1, [0, 0, 0, 0, 0x20, 0x03]);
    bench.cycle(ServoCommand::Stop);
    assert_eq!(bench.doing(), [Doing::Off; 4]);
}

#[test]
fn one_that_is_found_on_is_switched_off_before_it_follows() {
    let mut bench = Bench::new();
    bench.on[1] = true;
    bench.cycle(hold(0.0));
    assert_eq!(bench.doing()[1], Doing::Starting);
    let (frames, _) = bench.cycle(hold(0.0));
    assert_eq!(written(&frames[0], 2), Some((at::TORQUE_ENABLE, &[0][..])));
}

#[test]
fn a_silent_servo_costs_those_behind_it_one_cycle() {
    for waits in [true, false] {
        let mut bench = Bench { waits, ..Bench::new() };
        bench.cycle(ServoCommand::Stop);
        bench.cycle(hold(0.0));
        bench.silent[1] = true;
        let (_, taken) = bench.cycle(hold(0.0));
        assert_eq!(Bench::replied(&taken), if waits { vec![0] } else { vec![0, 2, 3] });
        for _ in 0..20 {
            let (_, taken) = bench.cycle(hold(0.0));
            assert_eq!(Bench::replied(&taken), [0, 2, 3], "{waits}");
        }
        // A second one costs one more cycle, and both come back.
        bench.silent[2] = true;
        bench.cycle(hold(0.0));
        let (_, taken) = bench.cycle(hold(0.0));
        assert_eq!(Bench::replied(&taken), [0, 3], "{waits}");
        bench.silent = [false; 4];
        let (_, taken) = bench.cycle(hold(0.0));
        assert_eq!(Bench::replied(&taken).len(), 4);
    }
}

#[test]
fn a_late_answer_is_known_by_its_length_and_after_a_loss_by_its_number() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    let lost = |bench: &mut Bench| {
        bench.silent = [true; 4];
        bench.cycle(ServoCommand::Stop);
        bench.silent = [false; 4];
        (bench.now_ns, bench.answer(1, NUMBERED, 0, true))
    };
    let first_ns = lost(&mut bench).0;
    let first = bench.answer(1, LENGTHS[1], 0, true);
    // As many as there may be on their way; without numbers the fourth would be as long as the first.
    let later: Vec<_> = (0..100).map(|_| lost(&mut bench)).collect();
    let taken = |bench: &mut Bench, status: &Frame| bench.bus.take(status, &mut bench.states);
    let state = |sent_ns, newest| Taken::State { servo: 0, sent_ns, newest };
    assert_eq!(taken(&mut bench, &first), state(first_ns, false));
    assert_eq!(bench.states[0].at_ns, first_ns);
    // It came twice, or the servo did not get the number of the next question: two servos of one id both answer the newest.
    assert_eq!(taken(&mut bench, &first), Taken::Aside);
    for (place, (sent_ns, status)) in later.iter().enumerate() {
        assert_eq!(taken(&mut bench, status), state(*sent_ns, place == later.len() - 1));
    }
    assert_eq!(taken(&mut bench, &first), Taken::Late { servo: 0 });
    let short = bench.answer(1, 4, 0, true);
    assert_eq!(taken(&mut bench, &short), Taken::Unexpected);
}

#[test]
fn a_number_that_did_not_arrive_makes_an_answer_older_and_never_newer() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    bench.silent = [true; 4];
    bench.cycle(ServoCommand::Stop);
    bench.cycle(ServoCommand::Stop);
    let (asked_ns, before) = (bench.now_ns, bench.number);
    bench.cycle(ServoCommand::Stop);
    bench.number = before;
    let status = bench.answer(1, NUMBERED, 0, true);
    let taken = bench.bus.take(&status, &mut bench.states);
    assert_eq!(taken, Taken::State { servo: 0, sent_ns: asked_ns, newest: false });
    bench.number = [0; 4];
    let status = bench.answer(2, NUMBERED, 0, true);
    assert_eq!(bench.bus.take(&status, &mut bench.states), Taken::Unexpected, "it has never heard one");
}

#[test]
fn one_that_has_restarted_is_known_by_its_zeros_and_not_switched_on_again() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    bench.cycle(hold(0.0));
    let place = bench.states[1].position;
    bench.cycle(hold(0.0));
    let known_ns = bench.now_ns;
    bench.silent[1] = true;
    bench.cycle(hold(0.0));
    bench.cycle(ServoCommand::Damp);
    (bench.silent[1], bench.blank[1], bench.on[1]) = (false, true, false);
    let (_, taken) = bench.cycle(ServoCommand::Damp);
    assert_eq!(Bench::replied(&taken), [0, 2, 3]);
    assert!(taken.contains(&Taken::Answer { servo: 1, sent_ns: bench.now_ns }));
    // Its position is that of before, and as old.
    let ServoState { at_ns, doing, position, .. } = bench.states[1];
    assert_eq!((at_ns, doing, position), (known_ns, Doing::Off, place));
    for (command, doing) in [(ServoCommand::Stop, Doing::Faulted), (hold(0.0), Doing::Faulted)] {
        for _ in 0..6 {
            bench.cycle(command);
            assert_eq!((bench.states[1].doing, bench.on[1]), (doing, false));
            assert!(bench.states[1].fault.text.contains("restarted"));
        }
    }
    // Its answers to two questions, of which the first comes late, are no second servo's.
    bench.silent[0] = true;
    bench.cycle(ServoCommand::Stop);
    bench.cycle(ServoCommand::Stop);
    let status = bench.answer(2, NUMBERED, 0, true);
    assert_eq!(bench.bus.take(&status, &mut bench.states), Taken::Late { servo: 1 });
}

#[test]
fn one_that_restarts_while_it_is_switched_on_may_be_on() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    bench.blank[1] = true;
    bench.cycle(hold(0.0));
    assert_eq!(bench.doing()[1], Doing::Other);
    bench.cycle(ServoCommand::Stop);
    assert_eq!(bench.doing()[1], Doing::Faulted);
}

#[test]
fn what_others_send_is_no_answer() {
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    let stranger = Status { id: 9, alert: false, error: 0, data: &[0; 13] }.packet().unwrap();
    assert_eq!(bench.bus.take(&stranger, &mut bench.states), Taken::Unexpected);
    let goal = dynamixel::write(3, at::GOAL_POSITION, &[0; 4]).unwrap();
    assert_eq!(bench.bus.take(&goal, &mut bench.states), Taken::Duplicate { servo: 2 });
    assert_eq!(bench.bus.take(&dynamixel::ping(9), &mut bench.states), Taken::Unexpected);
}

#[test]
fn whatever_is_wrong_with_it_it_is_not_switched_on_again() {
    for (watchdog, hardware, doing) in
        [(0xff, 0, Doing::TimedOut), (0, 0, Doing::Faulted), (WATCHDOG_TOLD, 0x20, Doing::Faulted)]
    {
        let mut bench = Bench::new();
        bench.cycle(ServoCommand::Stop);
        bench.cycle(hold(0.0));
        (bench.watchdog[2], bench.hardware[2]) = (watchdog, hardware);
        // What a shutdown does.
        bench.on[2] &= hardware == 0;
        bench.cycle(hold(0.0));
        assert_eq!(bench.doing()[2], doing, "{watchdog} {hardware}");
        assert_ne!(bench.states[2].fault, Fault::NONE);
        bench.cycle(ServoCommand::Stop);
        (bench.watchdog[2], bench.hardware[2]) = (WATCHDOG_TOLD, 0);
        bench.cycle(ServoCommand::Stop);
        let (frames, _) = bench.cycle(hold(0.0));
        let is_on = frames.iter().any(|frame| written(frame, 3) == Some((at::TORQUE_ENABLE, &[1][..])));
        assert_eq!(is_on, hardware != 0, "the servo's own error is over, what was found out is not");
    }
    let mut bench = Bench::new();
    bench.cycle(ServoCommand::Stop);
    bench.position[0] += 400;
    bench.cycle(ServoCommand::Stop);
    assert_eq!(bench.doing()[0], Doing::Faulted, "it has jumped");
}

#[test]
fn one_that_would_refuse_its_place_as_a_goal_is_not_switched_on() {
    let settings = Settings::of(&DynamixelSettings { mode: DynamixelMode::Position, ..file() });
    let mut bench = Bench::of(&[settings]);
    bench.position[0] = -100;
    bench.cycle(ServoCommand::Stop);
    bench.cycle(ServoCommand::Position(PositionCommand::hold(0.0)));
    assert_eq!((bench.on[0], bench.cycle(ServoCommand::Stop).1.len()), (false, 1));
    assert_eq!(bench.states[0].fault.code, 260);
}

/// What is written into the first servo by a packet of this address.
fn put(frames: &[Frame], address: u16) -> Option<Vec<u8>> {
    let mut data = frames.iter().filter_map(|frame| written(frame, 1));
    data.find(|(at, _)| *at == address).map(|(_, data)| data.to_vec())
}

fn mode(mode: DynamixelMode) -> Bench {
    Bench::of(&vec![Settings::of(&DynamixelSettings { mode, ..file() }); 4])
}

fn free(velocity: f64, torque: f64, kd_scale: f64) -> ServoCommand {
    let free = PositionCommand { kp_scale: 0.0, ..PositionCommand::hold(f64::NAN) };
    ServoCommand::Position(PositionCommand { velocity, torque, kd_scale, ..free })
}

#[test]
fn a_wheel_starts_at_rest_follows_velocities_and_damps_without_what_it_has_summed_up() {
    let mut bench = mode(DynamixelMode::Velocity);
    let (stopped, _) = bench.cycle(ServoCommand::Stop);
    assert_eq!(put(&stopped, at::GOAL_VELOCITY), Some(vec![0; 4]));
    let (frames, _) = bench.cycle(free(2.0, 0.0, 1.0));
    assert_eq!(addresses(&frames), [at::VELOCITY_I_GAIN, at::GOAL_VELOCITY, at::TORQUE_ENABLE]);
    assert_eq!(put(&frames, at::GOAL_VELOCITY), Some(vec![0; 4]));
    for (wanted, steps) in [(2.0, 83_i32), (-2.0, -83), (1000.0, 330)] {
        let (frames, _) = bench.cycle(free(wanted, 0.0, 1.0));
        assert_eq!(put(&frames, at::GOAL_VELOCITY), Some(steps.to_le_bytes().to_vec()));
    }
    let (frames, _) = bench.cycle(ServoCommand::Damp);
    assert_eq!(put(&frames, at::VELOCITY_I_GAIN), Some(vec![0, 0, 100, 0]));
    assert_eq!((put(&frames, at::GOAL_VELOCITY), bench.doing()[0]), (Some(vec![0; 4]), Doing::Damping));
}

#[test]
fn a_torque_is_a_current_and_the_loop_has_the_velocity_gain() {
    let mut bench = mode(DynamixelMode::Current);
    let current =
        |frames: &[Frame]| put(frames, at::GOAL_CURRENT).map(|it| i16::from_le_bytes([it[0], it[1]]));
    assert_eq!(current(&bench.cycle(ServoCommand::Stop).0), Some(0));
    assert_eq!(current(&bench.cycle(free(0.0, 0.1, 0.0)).0), Some(0), "it is switched on without any");
    // 0.5 mN·m a step.
    assert_eq!(current(&bench.cycle(free(0.0, 0.1, 0.0)).0), Some(200));
    assert_eq!(current(&bench.cycle(free(0.0, -100.0, 0.0)).0), Some(-1193), "its limit");
    bench.velocity = 100;
    bench.cycle(free(0.0, 0.0, 0.0));
    // 2.398 rad/s by 0.05 N·m·s/rad.
    assert_eq!(current(&bench.cycle(free(0.0, 0.0, 1.0)).0), Some(-239));
    assert_eq!(current(&bench.cycle(ServoCommand::Damp).0), Some(-239));
    assert_eq!(bench.doing()[0], Doing::Damping);
    bench.silent = [true; 4];
    bench.cycle(ServoCommand::Damp);
    let (frames, _) = bench.cycle(ServoCommand::Damp);
    assert_eq!(put(&frames, at::POSITION_D_GAIN).map(|it| it[0] > 0), Some(true), "the number after a loss");
}

#[test]
fn a_torque_is_a_share_of_the_voltage_and_more_of_it_the_faster_it_turns() {
    let settings =
        DynamixelSettings { mode: DynamixelMode::Pwm, motor_resistance: Some(2.5), pwm_limit: 600, ..file() };
    let mut bench = Bench::of(&vec![Settings::of(&settings); 4]);
    let duty = |frames: &[Frame]| put(frames, at::GOAL_PWM).map(|it| i16::from_le_bytes([it[0], it[1]]));
    let (stopped, _) = bench.cycle(ServoCommand::Stop);
    assert_eq!(duty(&stopped), Some(0));
    let (frames, _) = bench.cycle(free(0.0, 0.1, 0.0));
    assert_eq!(addresses(&frames), [at::GOAL_PWM, at::TORQUE_ENABLE], "it is switched on without any");
    assert_eq!(duty(&frames), Some(0));
    // 0.5 V of 5 V.
    let (frames, _) = bench.cycle(free(0.0, 0.1, 0.0));
    assert_eq!(duty(&frames), Some(88));
    // As dynamixel-sdk writes it: see `vectors/dynamixel.json`.
    let (mut bytes, mut frame) = ([0; dynamixel::MAX_PACKET], String::new());
    let len = dynamixel::encode(&frames[0], &mut bytes).unwrap();
    bytes[..len].iter().for_each(|byte| frame += &format!("{byte:02x}"));
    assert_eq!(frame, "fffffd00fe13008364000200015800025800035800045800a907");
    assert_eq!(duty(&bench.cycle(free(0.0, -100.0, 0.0)).0), Some(-600), "its limit");
    bench.velocity = 100;
    bench.cycle(free(0.0, 0.0, 0.0));
    // 1.199 V is what its motor induces at 2.398 rad/s.
    assert_eq!(duty(&bench.cycle(free(0.0, 0.0, 0.0)).0), Some(212));
    // 0.6 V less by 0.05 N·m·s/rad.
    assert_eq!(duty(&bench.cycle(free(0.0, 0.0, 1.0)).0), Some(106));
    assert_eq!(duty(&bench.cycle(ServoCommand::Damp).0), Some(0));
    assert_eq!(bench.doing()[0], Doing::Damping);
}

#[test]
fn a_limit_of_its_own_that_is_less_than_the_file_s_is_reported_with_the_cure() {
    for (mode, limit, number) in [
        (DynamixelMode::Velocity, at::VELOCITY_LIMIT, &[100, 0, 0, 0][..]),
        (DynamixelMode::Current, at::CURRENT_LIMIT, &[100, 0]),
        (DynamixelMode::CurrentPosition, at::CURRENT_LIMIT, &[100, 0]),
        (DynamixelMode::Pwm, at::PWM_LIMIT, &[100, 0]),
    ] {
        let dialogue = Settings::of(&DynamixelSettings { mode, ..file() }).ready(3, 0.1, 1);
        let asks = |exchange: &&Exchange| {
            *exchange.frame.payload().first_chunk().unwrap_or(&[0; 2]) == limit.to_le_bytes()
        };
        let exchange = dialogue.iter().find(asks).unwrap();
        let judged =
            |data: &[u8]| (exchange.judge)(&Status { id: 3, alert: false, error: 0, data }.packet().unwrap());
        let crate::ReplyCheck::Wrong(why) = judged(number) else { panic!("{mode:?}") };
        assert!(why.contains("= 100`") && why.contains("khz bus set LINK 3"), "{why}");
        let enough = [&[0xff, 0x07][..], &vec![0; number.len() - 2]].concat();
        assert_eq!(judged(&enough), crate::ReplyCheck::Good);
    }
}

#[test]
fn one_that_obeys_a_second_id_is_not_driven() {
    let dialogue = Settings::of(&file()).ready(3, 0.1, 1);
    let asks = |exchange: &&Exchange| exchange.what.contains("secondary_id");
    let judge = &dialogue.iter().find(asks).unwrap().judge;
    let judged =
        |number: u8| judge(&Status { id: 3, alert: false, error: 0, data: &[number] }.packet().unwrap());
    let crate::ReplyCheck::Wrong(why) = judged(4) else { panic!() };
    assert!(
        why.contains("is 4: it obeys what that servo is told") && why.contains("secondary_id=255"),
        "{why}"
    );
    assert!([253, 255].into_iter().all(|number| judged(number) == crate::ReplyCheck::Good));
}

#[test]
fn models_of_another_layout_are_asked_by_themselves() {
    let of = |model| Settings::of(&DynamixelSettings { model: Some(model), ..file() });
    let mut bench = Bench::of(&[
        of(DynamixelModel::Xl330M288),
        of(DynamixelModel::Xl430W250),
        of(DynamixelModel::Xl330M288),
    ]);
    assert_eq!((bench.bus.turns(), bench.bus.servos(0), bench.bus.servos(1)), (2, &[0, 2][..], &[1][..]));
    let (_, taken) = bench.cycle(ServoCommand::Stop);
    assert_eq!(Bench::replied(&taken), [0, 2, 1]);
}

#[test]
fn what_is_set_before_the_first_tick_is_written_and_read_back() {
    let settings = Settings::of(&file());
    let dialogue = settings.ready(3, 0.1, 1);
    let data = |exchange: &Exchange| exchange.frame.payload().to_vec();
    let asked =
        |number: u8| dialogue.iter().filter(move |exchange| parts(&exchange.frame) == Some((3, number)));
    let writes: Vec<_> = asked(instruction::WRITE).map(data).collect();
    let reads: Vec<_> = asked(instruction::READ).map(data).collect();
    for write in &writes {
        let read = [&write[..2], &((write.len() - 2) as u16).to_le_bytes()].concat();
        assert!(reads.contains(&read), "{write:?}");
    }
    let judged = |exchange: &Exchange, data: &[u8], error: u8| {
        let status = Status { id: 3, alert: false, error, data }.packet().unwrap();
        (exchange.judge)(&status)
    };
    let first = &dialogue[0];
    assert!(
        matches!(judged(first, &[1], 0), crate::ReplyCheck::Wrong(why) if why.contains("status_return_level"))
    );
    assert_eq!(judged(first, &[2], 0), crate::ReplyCheck::Good);
    assert!(
        matches!(judged(&dialogue[1], &[0xfc, 0x03, 46], 0), crate::ReplyCheck::Wrong(why) if why.contains("XM430-W350"))
    );
    assert!(
        matches!(judged(&dialogue[1], &[0xb0, 0x04, 40], 0), crate::ReplyCheck::Wrong(why) if why.contains("fast"))
    );
    assert!(matches!(judged(&dialogue[2], &[], error::ACCESS), crate::ReplyCheck::Wrong(_)));
    let other = Status { id: 4, alert: false, error: 0, data: &[2] }.packet().unwrap();
    assert_eq!((first.judge)(&other), crate::ReplyCheck::Unrelated);
    assert_eq!(place(&other), None);
}

/// Two servos then had one id, or one answered nothing any more, and no command could undo it.
#[test]
fn what_could_not_be_undone_is_not_written_as_a_register() {
    use crate::ByHand;
    let settings = Settings::of(&file());
    let set = |name, value| settings.set_register(3, settings.register(name).unwrap(), value);
    assert!(set("id", 4.0).unwrap_err().contains("`khz bus set-id`"));
    assert!(set("status_return_level", 0.0).unwrap_err().contains("`status_return_level=2`"));
    assert!(set("status_return_level", 2.0).is_ok());
    assert!(set("protocol_type", 1.0).unwrap_err().contains("`protocol_type=2`"));
}

/// Torque could be switched on by hand, with whatever goal there was, and not off again.
#[test]
fn by_hand_torque_is_switched_off_alone() {
    use crate::ByHand;
    let settings = Settings::of(&file());
    let register = settings.register("torque_enable").unwrap();
    let refused = settings.set_register(3, register, 1.0).unwrap_err();
    assert!(refused.contains("switched off alone"), "{refused}");
    let on = Status { id: 3, alert: false, error: 0, data: &[1] }.packet().unwrap();
    let asked = settings.set_register(3, register, 0.0).unwrap();
    assert_eq!(asked.len(), 3);
    assert!((asked[0].read)(&on).unwrap().wrong.is_none());
    let other = settings.register("return_delay_time").unwrap();
    assert!(
        (settings.set_register(3, other, 4.0).unwrap()[0].read)(&on)
            .unwrap()
            .wrong
            .unwrap()
            .contains("torque_enable=0")
    );
}

#[test]
fn before_a_run_each_mode_is_let_down_as_it_can_be() {
    use crate::ByHand;
    let told = |mode| {
        let asks = Settings::of(&DynamixelSettings { mode, ..file() }).let_down(1, &Mounting::default());
        let is_write = |frame: &Frame| parts(frame) == Some((1, instruction::WRITE));
        let writes = asks.iter().map(|ask| ask.frame).filter(is_write);
        let split = writes.map(|frame| {
            let (address, data) = frame.payload().split_at(2);
            (u16::from_le_bytes([address[0], address[1]]), data.to_vec())
        });
        split.collect::<Vec<_>>()
    };
    assert_eq!(told(DynamixelMode::CurrentPosition), [(at::POSITION_D_GAIN, vec![208, 7, 0, 0, 0, 0])]);
    let stands = [(at::VELOCITY_I_GAIN, vec![0, 0, 100, 0]), (at::GOAL_VELOCITY, vec![0; 4])];
    assert_eq!(told(DynamixelMode::Velocity), stands);
    assert_eq!(told(DynamixelMode::Pwm), [(at::GOAL_PWM, vec![0, 0])]);
    // It has none that damps, and is limp once its watchdog has acted.
    assert_eq!(told(DynamixelMode::Current), []);
}
