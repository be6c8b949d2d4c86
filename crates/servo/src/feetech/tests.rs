//! Commands into packets and answers into states, without a clock.

use super::*;
use crate::{Doing, Fault, PositionCommand, ReplyCheck, Servos, Taken};
use khz_wire::feetech::{asked, instruction, item, packet, parts, written};
use std::collections::VecDeque;

const MS: i64 = 1_000_000;
const IDS: [u8; 4] = [1, 2, 3, 4];

/// Servos as a line has them: each is as it was set, and reports what it is.
struct Bench {
    /// Where targets are written.
    goal: u8,
    bus: together::Bus<Line>,
    states: Vec<ServoState>,
    on: [bool; 4],
    position: [u16; 4],
    /// As it travels.
    speed: [u8; 2],
    conditions: [u8; 4],
    silent: [bool; 4],
    /// Answers come so many cycles late.
    late: usize,
    kept: VecDeque<Vec<Frame>>,
    now_ns: i64,
}

impl Bench {
    fn new() -> Self {
        Self::of(FeetechMode::Position)
    }

    fn of(mode: FeetechMode) -> Self {
        let model = Some(FeetechModel::Sts3215);
        let settings = Settings::of(&FeetechSettings { model, mode, ..FeetechSettings::default() });
        let mut bus = together::Bus::default();
        for (servo, id) in IDS.into_iter().enumerate() {
            let plan =
                ServoPlan { servo, id, mounting: Mounting::default(), watchdog_s: 0.1, family: &settings };
            Settings::add(&mut bus, &plan);
        }
        Self {
            goal: settings.goal_at(),
            bus,
            states: vec![ServoState::UNKNOWN; 4],
            on: [false; 4],
            position: [2048; 4],
            // -50 steps/s.
            speed: [50, 0x80],
            conditions: [0; 4],
            silent: [false; 4],
            late: 0,
            kept: VecDeque::new(),
            now_ns: 0,
        }
    }

    fn answers(&self, question: &Frame) -> Vec<Frame> {
        let Some((address, len, ids)) = asked(question) else { return Vec::new() };
        let replying = ids.iter().map(|id| usize::from(id - 1)).take_while(|servo| !self.silent[*servo]);
        let answer = |servo: usize| {
            let [low, high] = self.position[servo].to_le_bytes();
            let [slow, fast] = self.speed;
            // A duty of 12 %, 7.4 V, 33 °C.
            let measured = [low, high, slow, fast, 120, 0, 74, 33, 0, 0, 0, 0, 0, 0, 0];
            let on = [self.on[servo].into(), 0, 0, 0, 0];
            let data = if address == at::TORQUE_ENABLE { &on[..] } else { &measured[..] };
            let data = &data[..len.into()];
            Status { id: IDS[servo], conditions: self.conditions[servo], data }.packet().unwrap()
        };
        replying.map(answer).collect()
    }

    /// A cycle with this command: what was written, and what came of the answers.
    fn cycle(&mut self, command: ServoCommand) -> (Vec<Frame>, Vec<Taken>) {
        self.cycle_of([command; 4])
    }

    fn cycle_of(&mut self, commands: [ServoCommand; 4]) -> (Vec<Frame>, Vec<Taken>) {
        self.bus.begin(&commands);
        self.now_ns += MS;
        let (mut sent, mut taken) = (Vec::new(), Vec::new());
        for part in 0.. {
            let request = self.bus.request(0, part).map(|it| (*it.frame, it.replies));
            let Some((frame, replies)) = request else { break };
            self.bus.sent(0, part, self.now_ns);
            for (servo, &id) in IDS.iter().enumerate() {
                if let Some((at::TORQUE_ENABLE, &[on])) = written(&frame, id) {
                    self.on[servo] = on == 1;
                }
            }
            if replies == 0 {
                sent.push(frame);
                continue;
            }
            self.kept.push_back(self.answers(&frame));
            let due = self.kept.len().saturating_sub(self.late);
            let arrived = self.kept.drain(..due).flatten();
            taken.extend(arrived.map(|frame| self.bus.take(&frame, &mut self.states)));
        }
        (sent, taken)
    }

    fn cycles(&mut self, count: usize, command: ServoCommand) -> (Vec<Frame>, Vec<Taken>) {
        (1..count).for_each(|_| drop(self.cycle(command)));
        self.cycle(command)
    }

    fn doing(&self) -> Vec<Doing> {
        self.states.iter().map(|state| state.doing).collect()
    }

    fn following() -> Self {
        let mut bench = Self::new();
        bench.cycles(3, ServoCommand::Stop);
        bench.cycles(4, hold(0.0));
        assert_eq!(bench.doing(), [Doing::Following; 4]);
        bench
    }
}

fn hold(position: f64) -> ServoCommand {
    ServoCommand::Position(PositionCommand::hold(position))
}

/// What each packet of a cycle writes into the second, in their order.
fn writes(frames: &[Frame]) -> Vec<(u8, Vec<u8>)> {
    frames.iter().filter_map(|frame| written(frame, 2)).map(|(at, data)| (at, data.to_vec())).collect()
}

#[test]
fn they_are_switched_on_where_they_are_and_off_is_what_they_say() {
    let mut bench = Bench::new();
    bench.position = [2048, 2148, 1948, 2048];
    let (frames, taken) = bench.cycle(ServoCommand::Stop);
    assert_eq!(writes(&frames), [(at::TORQUE_ENABLE, vec![0])]);
    assert!(taken.iter().all(|taken| matches!(taken, Taken::State { newest: true, .. })));
    // Whether they are off is asked for next, instead of the state.
    let (_, taken) = bench.cycle(ServoCommand::Stop);
    assert!(taken.iter().all(|taken| matches!(taken, Taken::Answer { .. })), "{taken:?}");
    bench.cycle(ServoCommand::Stop);
    assert_eq!(bench.doing(), [Doing::Off; 4]);
    let (frames, _) = bench.cycle(hold(0.5));
    let (here, all) = (2148_u16.to_le_bytes().to_vec(), 1000_u16.to_le_bytes().to_vec());
    assert_eq!(
        writes(&frames),
        [(at::TORQUE_LIMIT, all), (at::GOAL_POSITION, here), (at::TORQUE_ENABLE, vec![1])]
    );
    bench.cycles(3, hold(0.5));
    assert_eq!(bench.doing(), [Doing::Following; 4]);
    let (frames, _) = bench.cycle(hold(0.5));
    assert_eq!(writes(&frames), [(at::GOAL_POSITION, (2048 + 326_u16).to_le_bytes().to_vec())]);
    let state = &bench.states[1];
    assert_eq!((state.voltage, state.temperature), (7.4, 33.0));
    assert!((state.velocity + 50.0 * STEP).abs() < 1e-9);
    let torque = 1.2116 / 2.676 * (7.4 * 0.12 + 1.2116 * 50.0 * STEP);
    assert!((state.torque - torque).abs() < 1e-9, "{}", state.torque);
}

#[test]
fn torque_enable_is_asked_for_seldom_while_they_follow() {
    let mut bench = Bench::following();
    let answers = (0..100).filter(|_| {
        let (_, taken) = bench.cycle(hold(0.0));
        matches!(taken[0], Taken::Answer { .. })
    });
    assert_eq!(answers.count(), 4);
    // One that has lost its power is noticed, and not switched on again.
    bench.on[2] = false;
    bench.cycles(26, hold(0.0));
    assert_eq!(bench.states[2].doing, Doing::Off);
    assert!(writes(&bench.cycle(hold(0.0)).0).iter().all(|(address, _)| *address != at::TORQUE_ENABLE));
}

/// An outsider's finding: a healthy servo was switched off, and "the servo restarted" was the cause.
#[test]
fn one_whose_answer_to_switching_on_is_lost_is_not_off() {
    let mut bench = Bench::new();
    bench.cycles(3, ServoCommand::Stop);
    bench.silent[3] = true;
    bench.cycle(hold(0.0));
    bench.silent[3] = false;
    let mut done = Vec::new();
    for _ in 0..6 {
        done.extend(
            bench
                .cycle(hold(0.0))
                .1
                .iter()
                .any(|it| matches!(it, Taken::State { .. }))
                .then(|| bench.doing()[3]),
        );
    }
    assert!(!done.contains(&Doing::Off) && done.contains(&Doing::Following), "{done:?}");
}

/// The same finding: servos that are switched on one after the other left no cycle for states.
#[test]
fn torque_enable_is_never_asked_for_twice_running() {
    let mut bench = Bench::new();
    bench.cycles(3, ServoCommand::Stop);
    let mut asked_before = false;
    for first in 0..8 {
        let commands = [0, 1, 2, 3].map(|servo| if servo <= first { hold(0.0) } else { ServoCommand::Stop });
        let (_, taken) = bench.cycle_of(commands);
        let asked = taken.iter().any(|it| matches!(it, Taken::Answer { .. }));
        assert!(!asked || !asked_before);
        asked_before = asked;
    }
    bench.cycles(8, hold(0.0));
    assert_eq!(bench.doing(), [Doing::Following; 4]);
}

/// The same finding: "on" from before a stop is not "on" after it.
#[test]
fn one_that_was_stopped_for_a_cycle_is_off_as_soon_as_it_says_so() {
    let mut bench = Bench::following();
    bench.cycle(ServoCommand::Stop);
    for _ in 0..6 {
        let (_, taken) = bench.cycle(hold(0.0));
        let is_off = matches!(taken[0], Taken::Answer { .. }) && !bench.on[0];
        assert!(!is_off || bench.doing() == [Doing::Off; 4], "{:?}", bench.doing());
    }
    assert_eq!(bench.doing(), [Doing::Following; 4]);
}

#[test]
fn a_joint_is_damped_by_a_goal_that_is_where_it_is() {
    let mut bench = Bench::new();
    bench.cycles(3, ServoCommand::Stop);
    assert_eq!(bench.cycle(ServoCommand::Damp).0, [], "what is off stays off");
    let mut bench = Bench::following();
    for steps in [2050, 2060, 2070] {
        bench.position = [steps; 4];
        bench.cycle(ServoCommand::Damp);
        let goals = writes(&bench.cycle(ServoCommand::Damp).0);
        assert_eq!(goals, [(at::GOAL_POSITION, steps.to_le_bytes().to_vec())]);
    }
    assert_eq!(bench.doing(), [Doing::Damping; 4]);
    bench.cycles(3, ServoCommand::Stop);
    assert_eq!(bench.doing(), [Doing::Off; 4]);
}

#[test]
fn a_greatest_torque_becomes_a_limit_of_duty() {
    let mut bench = Bench::following();
    let command = PositionCommand { max_torque: 1.0, ..PositionCommand::hold(0.0) };
    // 1 N·m of 3.35 N·m at 7.4 V, in cycles whose question is short.
    let limit = (at::TORQUE_LIMIT, 298_u16.to_le_bytes().to_vec());
    let written = (0..30).filter(|_| writes(&bench.cycle(ServoCommand::Position(command)).0)[0] == limit);
    assert_eq!(written.count(), 5);
}

#[test]
fn a_silent_servo_costs_those_behind_it_one_cycle() {
    let mut bench = Bench::following();
    bench.silent[1] = true;
    let is_reply = |taken: &&Taken| matches!(taken, Taken::State { .. } | Taken::Answer { .. });
    let replies = |taken: &[Taken]| taken.iter().filter(is_reply).count();
    assert_eq!(replies(&bench.cycle(hold(0.0)).1), 1);
    for _ in 0..5 {
        assert_eq!(replies(&bench.cycle(hold(0.0)).1), 3, "it is asked last");
    }
    bench.silent[1] = false;
    assert_eq!(replies(&bench.cycle(hold(0.0)).1), 4);
}

#[test]
fn a_late_answer_is_known_by_its_length() {
    let mut bench = Bench::following();
    bench.late = 1;
    bench.cycle(hold(0.0));
    bench.late = 0;
    let sent_ns = bench.now_ns;
    let (_, taken) = bench.cycle(hold(0.0));
    assert!(
        taken[..4].iter().all(
            |it| matches!(it, Taken::State { newest: false, sent_ns: told_ns, .. } if *told_ns == sent_ns)
        ),
        "{taken:?}"
    );
    assert!(taken[4..].iter().all(|it| matches!(it, Taken::State { newest: true, .. })), "{taken:?}");
    // Twice is once too often, and what another program sends to one of them is reported.
    let requests = (0..).map_while(|part| bench.bus.request(0, part));
    let again = bench.answers(&requests.last().unwrap().frame.to_owned());
    let third = again.iter().find(|frame| parts(frame).is_some_and(|(id, _)| id == 3)).unwrap();
    assert_eq!(bench.bus.take(third, &mut bench.states), Taken::Duplicate { servo: 2 });
    let other = packet(3, instruction::WRITE, &[at::GOAL_POSITION, 0, 8]).unwrap();
    assert_eq!(bench.bus.take(&other, &mut bench.states), Taken::Duplicate { servo: 2 });
    for frame in [feetech::ping(9), Status { id: 9, conditions: 0, data: &[0; 6] }.packet().unwrap()] {
        assert_eq!(bench.bus.take(&frame, &mut bench.states), Taken::Unexpected);
    }
    let long = Status { id: 1, conditions: 0, data: &[0; 16] }.packet().unwrap();
    assert_eq!(bench.bus.take(&long, &mut bench.states), Taken::Unexpected);
}

/// They were taken for answers to later questions of the same length.
#[test]
fn answers_that_come_ten_cycles_late_are_those_to_their_questions() {
    for (command, late) in
        [hold(0.0), ServoCommand::Stop].into_iter().flat_map(|it| (1..=10).map(move |late| (it, late)))
    {
        let mut bench = Bench::following();
        bench.late = late;
        let mut states = 0;
        for _ in 0..100 {
            for taken in bench.cycle(command).1 {
                let due_ns = bench.now_ns - late as i64 * MS;
                match taken {
                    Taken::State { sent_ns, newest: false, .. } if sent_ns == due_ns => states += 1,
                    Taken::Late { .. } => {}
                    other => panic!("{late} late: {other:?} of {due_ns}"),
                }
            }
        }
        assert!(states > 4 * 50, "{late} late: {states} states");
        // The line is as fast as before: what is late comes at once.
        bench.late = 0;
        bench.cycle(command);
        let taken = bench.cycles(2, command).1;
        assert!(
            taken.iter().all(|it| matches!(it, Taken::State { newest: true, .. } | Taken::Answer { .. })),
            "{taken:?}"
        );
    }
}

/// In the one cycle of 25 that asks for the torque it was said to have restarted.
#[test]
fn one_that_has_switched_itself_off_says_why_whatever_it_is_asked_next() {
    for cycles in 1..=30 {
        let mut bench = Bench::following();
        bench.cycles(cycles, hold(0.0));
        (bench.conditions[1], bench.on[1]) = (0x20, false);
        bench.cycle(hold(0.0));
        assert_eq!(
            (bench.states[1].doing, bench.states[1].fault.text),
            (Doing::Faulted, "overload"),
            "{cycles}"
        );
    }
}

#[test]
fn whatever_is_wrong_with_it_it_is_not_driven() {
    let mut bench = Bench::following();
    bench.conditions[1] = 0x20;
    bench.cycle(hold(0.0));
    assert_eq!((bench.states[1].doing, bench.states[1].fault.text), (Doing::Faulted, "overload"));
    bench.cycle(ServoCommand::Stop);
    bench.conditions[1] = 0;
    // What has jumped stays so.
    let mut bench = Bench::following();
    bench.position[0] = 3000;
    bench.cycles(2, hold(0.0));
    assert_eq!(bench.states[0].fault.code, 258);
    bench.position[0] = 2048;
    bench.cycles(3, hold(0.5));
    let goal = bench.cycle(hold(0.5)).0.iter().find_map(|frame| Some(written(frame, 1)?.1.to_vec()));
    assert_eq!(goal, Some(2048_u16.to_le_bytes().to_vec()), "it is damped");
    // The end of its turn is the same as its beginning.
    let mut bench = Bench::new();
    bench.position[3] = 0;
    bench.cycles(3, ServoCommand::Stop);
    bench.cycles(3, hold(0.0));
    assert_eq!((bench.on[3], bench.states[3].fault.code), (false, 260));
    assert_eq!(bench.states[0].fault, Fault::NONE);
}

#[test]
fn what_is_set_before_the_first_tick_is_written_and_read_back() {
    let file =
        FeetechSettings { model: Some(FeetechModel::Sts3215), speed: 500, ..FeetechSettings::default() };
    let exchanges = Settings::of(&file).ready(7, 0.1, 1);
    let (mut table, mut locked) = ([0_u8; 256], true);
    table[3..5].copy_from_slice(&777_u16.to_le_bytes());
    (table[8], table[18]) = (1, 12);
    table[11..13].copy_from_slice(&4095_u16.to_le_bytes());
    for exchange in &exchanges {
        let (id, number) = parts(&exchange.frame).unwrap();
        let answer = |data: &[u8]| Status { id, conditions: 0, data }.packet().unwrap();
        let reply = match (number, exchange.frame.payload()) {
            (instruction::READ, &[address, len]) => {
                answer(&table[usize::from(address)..usize::from(address) + usize::from(len)])
            }
            (_, [address, data @ ..]) => {
                assert!(!locked || !item(*address).unwrap().is_kept(), "{}", exchange.what);
                table[usize::from(*address)..][..data.len()].copy_from_slice(data);
                locked = table[usize::from(at::LOCK)] == 1;
                answer(&[])
            }
            (_, []) => answer(&[]),
        };
        assert_eq!((exchange.judge)(&reply), ReplyCheck::Good, "{}", exchange.what);
        assert_eq!((exchange.judge)(&feetech::ping(7)), ReplyCheck::Unrelated);
        // Something else is refused wherever something is compared.
        if number == instruction::READ && exchange.frame.payload()[1] == 1 {
            let other = reply.payload()[1] ^ 0x34;
            assert!(matches!((exchange.judge)(&answer(&[other])), ReplyCheck::Wrong(_)), "{}", exchange.what);
        }
    }
    assert_eq!((&table[21..24], table[46], locked), (&[16, 32, 0][..], 0xf4, true));
}

#[test]
fn a_wheel_follows_velocities_beyond_a_turn() {
    let mut bench = Bench::of(FeetechMode::Velocity);
    let (frames, _) = bench.cycles(3, ServoCommand::Stop);
    assert_eq!(writes(&frames), [(at::TORQUE_ENABLE, vec![0]), (bench.goal, vec![0, 0])]);
    let turns = |velocity| {
        let velocity =
            PositionCommand { position: f64::NAN, velocity, kp_scale: 0.0, ..PositionCommand::hold(0.0) };
        ServoCommand::Position(velocity)
    };
    bench.cycles(4, turns(0.0));
    assert_eq!(bench.doing(), [Doing::Following; 4]);
    // -300 steps/s.
    assert_eq!(writes(&bench.cycle(turns(-300.0 * STEP)).0), [(at::GOAL_SPEED, vec![0x2c, 0x81])]);
    // Beyond the end of its turn, at 25000 steps/s.
    bench.speed = 25_000_u16.to_le_bytes();
    for steps in (2048..4096).chain(0..11).step_by(50) {
        bench.position = [steps; 4];
        bench.cycles(2, turns(1.0));
    }
    let position = (4096.0 + f64::from(bench.position[0]) - MIDDLE) * STEP;
    assert_eq!(bench.states[0].fault, Fault::NONE);
    assert!((bench.states[0].position - position).abs() < 1e-9, "{}", bench.states[0].position);
    assert_eq!(writes(&bench.cycle(ServoCommand::Damp).0), [(at::GOAL_SPEED, vec![0, 0])]);
}

#[test]
fn a_torque_becomes_a_duty_at_its_voltage_and_velocity() {
    let mut bench = Bench::of(FeetechMode::Pwm);
    bench.cycles(3, ServoCommand::Stop);
    let torque = |torque, max_torque| {
        let open = PositionCommand {
            position: f64::NAN,
            kp_scale: 0.0,
            kd_scale: 0.0,
            ..PositionCommand::hold(0.0)
        };
        ServoCommand::Position(PositionCommand { torque, max_torque, ..open })
    };
    bench.cycles(4, torque(0.0, f64::NAN));
    // At -50 steps/s: 1 N·m and what its back-EMF gives.
    let duty = |torque: f64| (1000.0 * (torque * 2.676 / 1.2116 - 1.2116 * 50.0 * STEP) / 7.4) as u16;
    let duty_bytes = duty(1.0).to_le_bytes().to_vec();
    assert_eq!(writes(&bench.cycle(torque(1.0, f64::NAN)).0), [(at::GOAL_TIME, duty_bytes)]);
    let limited = writes(&bench.cycle(torque(1.0, 0.5)).0);
    assert_eq!(limited.last(), Some(&(at::GOAL_TIME, duty(0.5).to_le_bytes().to_vec())));
    assert_eq!(writes(&bench.cycle(ServoCommand::Damp).0), [(at::GOAL_TIME, vec![0, 0])]);
}

/// Torque could be switched on by hand, with whatever goal there was, and not off again.
#[test]
fn by_hand_torque_is_switched_off_alone() {
    use crate::ByHand;
    let settings =
        Settings::of(&FeetechSettings { model: Some(FeetechModel::Sts3215), ..FeetechSettings::default() });
    let register = settings.register("torque_enable").unwrap();
    let refused = settings.set_register(3, register, 1.0).unwrap_err();
    assert!(refused.contains("switched off alone"), "{refused}");
    let on = Status { id: 3, conditions: 0, data: &[1] }.packet().unwrap();
    let asked = settings.set_register(3, register, 0.0).unwrap();
    assert_eq!(asked.len(), 3);
    assert!((asked[0].read)(&on).unwrap().wrong.is_none());
    let other = settings.register("baud_rate").unwrap();
    assert!(
        (settings.set_register(3, other, 4.0).unwrap()[0].read)(&on)
            .unwrap()
            .wrong
            .unwrap()
            .contains("torque_enable=0")
    );
}
