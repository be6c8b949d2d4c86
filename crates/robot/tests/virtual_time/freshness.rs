//! Only a reply to this tick's query counts as fresh, and no value is older than its stated age: in virtual time, with a
//! servo whose replies carry the number of their query.

use khz_file::RobotConfig;
use khz_file::config::{Format, QUADRUPED, QueryFormat};
use khz_link::faults::{Direction, Fault, FaultEffect, Faults};
use khz_link::{Capabilities, Counters, Link, LinkError, Received};
use khz_loop::ServoCommand;
use khz_loop::cycle::{Cycle, CyclePlan, CycleResult, DevicePlan};
use khz_loop::run::{Observer, RunOptions, RunStats, Tick, run};
use khz_loop::state::RobotState;
use khz_loop::supervisor::{Cause, Phase};
use khz_loop::tick::Machine;
use khz_loop::time::{Time, VirtualTime};
use khz_robot::assemble;
use khz_servo::moteus::Settings;
use khz_servo::{Family, Mounting, ServoPlan};
use khz_wire::{Address, Frame, Request, Subframe, Subframes, Value, Writer};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::f64::consts::TAU;
use std::sync::{Arc, Mutex};

const PERIOD_NS: i64 = 1_000_000;
const DEADLINE_NS: i64 = 700_000;
const ROUND_TRIP_NS: i64 = 200_000;

/// What becomes of the reply to one query.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    lost: bool,
    /// Ticks it is late.
    delay: i64,
    /// It comes a second time, so many ticks after the first.
    twice: Option<i64>,
}

fn late(delay: i64) -> Fate {
    Fate { delay, ..Fate::default() }
}

/// A servo whose position is the number of the query it answers, in revolutions.
#[derive(Clone, Default)]
struct Oracle(Arc<Mutex<Replies>>);

#[derive(Default)]
struct Replies {
    fates: VecDeque<Fate>,
    /// Replies come in the order of their queries.
    in_order: bool,
    waiting: Vec<Received>,
    /// When each query was sent, and how long it was.
    sent: Vec<(i64, usize)>,
    last_due_ns: i64,
}

impl Replies {
    fn answer(&mut self, query: &Frame, now_ns: i64) {
        let fate = self.fates.pop_front().unwrap_or_default();
        self.sent.push((now_ns, query.payload().len()));
        if fate.lost {
            return;
        }
        let mut due_ns = now_ns + fate.delay * PERIOD_NS + ROUND_TRIP_NS;
        if self.in_order {
            due_ns = due_ns.max(self.last_due_ns);
            self.last_due_ns = due_ns;
        }
        let frame = reply_to(query, self.sent.len());
        let again_ns = fate.twice.map(|ticks| due_ns + ticks * PERIOD_NS);
        for at_ns in [Some(due_ns), again_ns].into_iter().flatten() {
            self.waiting.push(Received { channel: 0, at_ns, frame });
        }
        // Stable: of equal times the older query's reply stays first.
        self.waiting.sort_by_key(|reply| reply.at_ns);
    }
}

/// Every read mirrored; the position is the query's number.
fn reply_to(query: &Frame, number: usize) -> Frame {
    let address = Address::from_id(query.id);
    let mut buffer = [0; 64];
    let mut w = Writer::new(&mut buffer);
    for subframe in Subframes::new(query.payload()).flatten() {
        let Subframe::Read(run) = subframe else { continue };
        w.reply_head(run).unwrap();
        for register in run.start..run.start + run.count {
            let value = if register == 1 { number as i16 } else { 0 };
            w.value(match run.resolution.size() {
                1 => Value::Int8(value as i8),
                2 => Value::Int16(value),
                _ => Value::Float(f32::from(value)),
            })
            .unwrap();
        }
    }
    let mut frame = Frame::new(address.answered_by(address.destination).id(), w.written()).unwrap();
    frame.pad();
    frame
}

impl Link for Oracle {
    fn capabilities(&self) -> Capabilities {
        Capabilities { kind: "oracle", channels: 1, half_duplex: false, in_flight: 64, emulated: true }
    }

    fn send(&mut self, _: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        self.0.lock().unwrap().answer(request.frame, now_ns);
        Ok(())
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let waiting = &mut self.0.lock().unwrap().waiting;
        let due = waiting.first().is_some_and(|reply| reply.at_ns <= now_ns);
        Ok(due.then(|| waiting.remove(0)))
    }

    fn next_event_ns(&self) -> Option<i64> {
        self.0.lock().unwrap().waiting.first().map(|reply| reply.at_ns)
    }

    fn counters(&self, _: u8) -> Counters {
        Counters::default()
    }
}

/// Cycle, virtual time and one servo.
struct Rig {
    oracle: Oracle,
    links: Vec<Box<dyn Link>>,
    cycle: Cycle,
    state: RobotState,
    time: VirtualTime,
    scale: f64,
}

impl Rig {
    fn new(short: bool, fates: impl IntoIterator<Item = Fate>) -> Self {
        let oracle = Oracle::default();
        oracle.0.lock().unwrap().fates.extend(fates);
        let int16 = || Format::Int16;
        let query = match short {
            // Three reads, and two.
            false => QueryFormat::default(),
            true => QueryFormat {
                position: int16(),
                velocity: int16(),
                torque: int16(),
                ..QueryFormat::default()
            },
        };
        let device = DevicePlan {
            name: "servo_1".to_owned(),
            link: 0,
            channel: 0,
            servo: ServoPlan {
                servo: 0,
                id: 1,
                mounting: Mounting::default(),
                family: Family::Moteus(Settings { query, ..Settings::default() }),
                watchdog_s: 0.1,
            },
            reply_timeout_ns: 250_000,
        };
        let links: Vec<Box<dyn Link>> = vec![Box::new(oracle.clone())];
        let cycle = Cycle::new(CyclePlan { devices: vec![device], ..CyclePlan::default() }, &links);
        // An int16 counts ten-thousandths of a revolution.
        let scale = if short { 1e4 } else { 1.0 };
        let state = RobotState::unknown(1, false, PERIOD_NS);
        Self { oracle, links, cycle, state, time: VirtualTime::new(0), scale }
    }

    fn tick(&mut self, tick: i64) -> CycleResult {
        self.time.wait_for_tick(tick * PERIOD_NS);
        let start_ns = self.time.now_ns();
        self.look(start_ns);
        self.cycle.begin(&[ServoCommand::Stop], start_ns + DEADLINE_NS);
        self.cycle.send(&mut self.links, start_ns);
        loop {
            let now_ns = self.time.now_ns();
            self.look(now_ns);
            if self.cycle.is_complete() || now_ns >= start_ns + DEADLINE_NS {
                return self.cycle.end(&mut self.state);
            }
            let next_ns = self.cycle.next_ns(&self.links);
            self.time.pass(next_ns, &self.links);
        }
    }

    fn look(&mut self, now_ns: i64) {
        self.cycle.receive(&mut self.links, now_ns);
        self.cycle.take_in(&mut self.state);
    }

    /// The number of the query the servo's position is from; `None`: it is not known.
    fn answered(&self) -> Option<usize> {
        let position = self.state.servos[0].position;
        (!position.is_nan()).then(|| (position / TAU * self.scale).round() as usize)
    }

    /// A tick, and what must hold after any.
    fn tick_and_check(&mut self, tick: i64) -> CycleResult {
        let result = self.tick(tick);
        let servo = &self.state.servos[0];
        let sent = self.oracle.0.lock().unwrap().sent.clone();
        if let Some(number) = self.answered() {
            assert!(
                servo.at_ns <= sent[number - 1].0,
                "tick {tick}: the age of query {number} is understated"
            );
            assert!(!servo.fresh || number == sent.len(), "tick {tick}: fresh, but answers {number}");
        }
        result
    }
}

#[test]
fn replies_a_whole_number_of_ticks_late_are_never_fresh() {
    for (delay, short) in (1..=40).flat_map(|delay| [(delay, false), (delay, true)]) {
        let mut rig = Rig::new(short, vec![late(delay); 400]);
        for tick in 0..400 {
            let result = rig.tick_and_check(tick);
            assert_eq!((result.replied, result.missed), (0, 1), "{delay} ticks late, tick {tick}");
            assert_eq!(result.answered_twice, None);
        }
        assert!(rig.cycle.stats(0).late >= 350, "{delay}");
        assert!(delay > 20 || rig.answered() == Some(400 - delay as usize), "{delay}");
    }
}

#[test]
fn after_late_replies_prompt_ones_are_fresh_at_once() {
    for delay in 1..=12 {
        let mut rig = Rig::new(false, vec![late(delay); 100]);
        rig.oracle.0.lock().unwrap().in_order = false;
        (0..100).for_each(|tick| _ = rig.tick_and_check(tick));
        for tick in 100..200 {
            let result = rig.tick_and_check(tick);
            assert_eq!((result.replied, result.missed), (1, 0), "{delay} ticks late, tick {tick}");
        }
    }
}

#[test]
fn a_single_lost_reply_costs_one_missed_reply_and_no_byte() {
    for short in [false, true] {
        let lost = |tick| Fate { lost: tick % 100 == 50, ..Fate::default() };
        let mut rig = Rig::new(short, (0..1000).map(lost));
        for tick in 0..1000 {
            let expected = if tick % 100 == 50 { (0, 1, 0) } else { (1, 0, 0) };
            let result = rig.tick_and_check(tick);
            assert_eq!((result.replied, result.missed, result.late), expected, "tick {tick}");
        }
        let lengths: Vec<_> = rig.oracle.0.lock().unwrap().sent.iter().map(|(_, len)| *len).collect();
        assert!(short || lengths.iter().all(|len| *len == lengths[0]), "{lengths:?}");
    }
}

#[test]
fn a_servo_with_whose_id_another_answers_too_is_reported_every_tick() {
    let mut rig = Rig::new(false, vec![Fate { twice: Some(0), ..Fate::default() }; 100]);
    for tick in 0..100 {
        let result = rig.tick_and_check(tick);
        assert_eq!((result.replied, result.missed), (1, 0));
        // The second reply is read together with the first.
        assert_eq!((result.late, result.answered_twice), (1, Some(0)), "tick {tick}");
    }
    assert_eq!(rig.cycle.stats(0).duplicates, 100);
}

#[test]
fn a_reply_that_was_overtaken_takes_no_state_back() {
    let fate = |tick| match tick {
        10 => late(3),
        13 => Fate { lost: true, ..Fate::default() },
        _ => Fate::default(),
    };
    let mut rig = Rig::new(false, (0..20).map(fate));
    let known: Vec<_> = (0..20).map(|tick| (rig.tick_and_check(tick), rig.answered()).1).collect();
    assert!(known.is_sorted(), "{known:?}");
    assert_eq!(known[13], Some(13));
}

#[test]
fn a_duplicate_makes_queries_longer_for_a_while_and_not_for_ever() {
    let twice = |tick| Fate { twice: (tick == 10).then_some(0), ..Fate::default() };
    // Short enough for a mark not to fall into the padding.
    let mut rig = Rig::new(true, (0..500).map(twice));
    (0..500).for_each(|tick| _ = rig.tick_and_check(tick));
    let lengths: Vec<_> = rig.oracle.0.lock().unwrap().sent.iter().map(|(_, len)| *len).collect();
    let is_longer = |len: &usize| *len > lengths[0];
    assert!(lengths[11..250].iter().any(is_longer), "while: {lengths:?}");
    assert!(!lengths[300..].iter().any(is_longer), "for ever: {lengths:?}");
}

fn fates(twice: bool) -> impl Strategy<Value = Vec<Fate>> {
    let delay = prop_oneof![6 => Just(0), 2 => 0..4_i64, 1 => 0..20_i64];
    let copy = prop_oneof![8 => Just(None), 1 => Just(Some(0)), 1 => Just(Some(1))];
    let fate = (proptest::bool::weighted(0.15), delay, copy);
    let fate = fate.prop_map(move |(lost, delay, copy)| Fate { lost, delay, twice: copy.filter(|_| twice) });
    prop::collection::vec(fate, 50..300)
}

proptest! {
    /// With any losses, delays and duplicates; replies in order, as every bus delivers them.
    #[test]
    fn no_reply_is_fresh_that_answers_another_query(fates in fates(true), short: bool) {
        let ticks = fates.len() as i64;
        let mut rig = Rig::new(short, fates);
        rig.oracle.0.lock().unwrap().in_order = true;
        (0..ticks).for_each(|tick| _ = rig.tick_and_check(tick));
    }

    /// The same where replies overtake each other.
    #[test]
    fn no_reply_that_was_overtaken_is_fresh(fates in fates(false), short: bool) {
        let ticks = fates.len() as i64;
        let mut rig = Rig::new(short, fates);
        (0..ticks).for_each(|tick| _ = rig.tick_and_check(tick));
    }
}

/// Whether any tick of a run was active, and the greatest age of a servo's state in those.
#[derive(Default)]
struct Driven {
    ticks: u64,
}

impl Observer for Driven {
    fn tick(&mut self, tick: &Tick<'_>) {
        self.ticks += u64::from(tick.machine.phase() == Phase::Active);
    }
}

fn run_for(machine: &mut Machine, period_ns: i64, seconds: i64) -> (RunStats, u64) {
    let options = RunOptions {
        period_ns,
        overrun: khz_rt::Overrun::Skip,
        frame_patience_ns: None,
        duration_ns: Some(seconds * 1_000_000_000),
        stop: Arc::default(),
    };
    let (mut stats, mut driven) = (RunStats::new(100_000), Driven::default());
    run(machine, &mut VirtualTime::new(0), &options, &mut [&mut stats, &mut driven]);
    (stats, driven.ticks)
}

fn machine(text: &str) -> Machine {
    let config = RobotConfig::parse(text, "test").unwrap();
    assemble::machine(&config, assemble::controller(&config.controller)).unwrap()
}

#[test]
fn a_robot_whose_replies_are_whole_ticks_late_is_never_armed() {
    for delay_us in [3000, 6000, 12_000] {
        let faults = format!("[bus.front_left.faults]\ndelay_us = {delay_us}");
        let (stats, driven) = run_for(&mut machine(&format!("{QUADRUPED}\n{faults}")), PERIOD_NS, 3);
        assert_eq!(driven, 0, "{delay_us} µs late, yet driven");
        let last = stats.transitions.last().unwrap();
        assert_eq!((last.cause, last.to), (Cause::NotSeen { servo: 0, late: true }, Phase::Fault));
    }
}

/// Asked by hand before the first tick whether it is on, a servo answered later than that waits: these answers passed for those to
/// queries of the loop, which put off all that came after them, and armed the robot on states 90 ms old.
#[test]
fn late_answers_to_what_was_asked_before_the_first_tick_arm_no_robot() {
    for (period_ns, delay_us) in [(PERIOD_NS, 86_000), (PERIOD_NS, 90_000), (PERIOD_NS / 2, 46_900)] {
        let text = format!("[bus.main.faults]\ndelay_us = {delay_us}\n{ONE_SERVO}");
        let mut machine = machine(&text);
        let mut time = VirtualTime::new(0);
        machine.make_ready(&mut time).unwrap();
        let mut planned_ns = time.now_ns();
        for tick in 0..1000 {
            planned_ns += period_ns;
            time.wait_for_tick(planned_ns);
            machine.tick(&mut time, planned_ns, None);
            assert!(!machine.state().servos[0].fresh, "{delay_us} µs late, and fresh in tick {tick}");
        }
    }
}

const ONE_SERVO: &str = "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"pan\"\nbus = \"main\"\nid = 1\n\
                         limits = { position = [-1.5, 1.5], velocity = 8.0, torque = 1.0 }\n";

fn with_fault(world: khz_emu::World, fault: Fault) -> Box<dyn Link> {
    Box::new(Faults::new(world, &[fault], 1, |_, frame| Address::replier(frame)))
}

#[test]
fn a_robot_whose_replies_become_whole_ticks_late_comes_down() {
    let config = RobotConfig::parse(QUADRUPED, "test").unwrap();
    for ticks in [1, 3, 6, 12] {
        let delay = FaultEffect::Delay { ns: ticks * PERIOD_NS, jitter_ns: 0 };
        let (channel, from_ns) = (Some(1), 1_000_000_000);
        let fault = Fault { channel, from_ns, direction: Direction::FromDevices, ..Fault::new(delay) };
        let links = assemble::open_links(&config, |world| with_fault(world, fault));
        let controller = assemble::controller(&config.controller);
        let mut machine = assemble::put_together(&config, controller, links.unwrap());
        let (stats, _) = run_for(&mut machine, PERIOD_NS, 3);
        let down = stats.transitions.iter().find(|t| t.from == Phase::Active).unwrap();
        assert!(matches!(down.cause, Cause::MissedReplies { count: 10, .. }), "{ticks}: {down:?}");
        assert!((1005..1020).contains(&down.tick), "{ticks}: in tick {}", down.tick);
    }
}

#[test]
fn a_robot_on_a_bus_that_cannot_keep_up_is_never_armed() {
    // An exchange of the default formats takes about 0.3 ms on this bus.
    let text = "[loop]\nrate_hz = 8000\nbus_deadline_us = 100\n[bus.main]\nlink = \"emulated\"\nturnaround_us = 150\n\
                [[servo]]\nname = \"joint\"\nbus = \"main\"\nid = 1\n";
    let (stats, driven) = run_for(&mut machine(text), 125_000, 3);
    assert_eq!((driven, stats.transitions.last().unwrap().to), (0, Phase::Fault));
}

#[test]
fn a_robot_with_two_servos_of_one_id_is_not_armed_and_names_the_servo() {
    // Two servos with one id answer every query twice.
    let config = RobotConfig::parse(QUADRUPED, "test").unwrap();
    let fault =
        Fault { device: Some(5), direction: Direction::FromDevices, ..Fault::new(FaultEffect::Duplicate) };
    let links = assemble::open_links(&config, |world| with_fault(world, fault));
    let controller = assemble::controller(&config.controller);
    let mut machine = assemble::put_together(&config, controller, links.unwrap());
    let (stats, driven) = run_for(&mut machine, PERIOD_NS, 3);
    let servo = config.servos.iter().position(|servo| servo.id == 5).unwrap();
    let last = stats.transitions.last().unwrap();
    assert_eq!(
        (driven, last.to, last.cause),
        (0, Phase::Fault, Cause::DuplicateReplies { servo: servo as u16 })
    );
}

/// A second program on the bus of servo 5, which commands it as we do, in every so many of our cycles, from a time on.
struct Second {
    world: khz_emu::World,
    every: u64,
    from_ns: i64,
    cycles: u64,
    /// Its requests can be seen, as on SocketCAN; only they show it where its id is not ours.
    shown: Option<Received>,
    source: u8,
    /// Our newest command.
    ours: Option<Frame>,
}

impl Second {
    fn of(every: u64, from_ns: i64, source: u8, world: khz_emu::World) -> Box<dyn Link> {
        Box::new(Self { world, every, from_ns, cycles: 0, shown: None, source, ours: None })
    }
}

impl Link for Second {
    khz_link::forward_link!(it => it.world; capabilities, half_duplex, flush, next_event_ns, imu, counters);

    fn begin_cycle(&mut self, now_ns: i64) {
        self.world.begin_cycle(now_ns);
        self.cycles += 1;
        if now_ns >= self.from_ns && self.cycles % self.every == 2 % self.every {
            let Some(mut frame) = self.ours else { return };
            frame.id = Address { source: self.source, ..Address::to(5, true) }.id();
            let _ = self.world.send(1, &frame, now_ns);
            self.shown = Some(Received { channel: 1, at_ns: now_ns, frame });
        }
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        self.ours = if request.to == Some(5) { Some(*request.frame) } else { self.ours };
        Link::send(&mut self.world, channel, request, now_ns)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let shown = self.shown.take().filter(|_| self.source != 0);
        shown.map_or_else(|| self.world.receive(now_ns), |shown| Ok(Some(shown)))
    }
}

fn beside_a_second_program(every: u64, from_ns: i64, source: u8) -> (RunStats, u64, u16) {
    let config = RobotConfig::parse(QUADRUPED, "test").unwrap();
    let links = assemble::open_links(&config, |world| Second::of(every, from_ns, source, world));
    let controller = assemble::controller(&config.controller);
    let mut machine = assemble::put_together(&config, controller, links.unwrap());
    let (stats, driven) = run_for(&mut machine, PERIOD_NS, 3);
    let servo = config.servos.iter().position(|servo| servo.id == 5).unwrap();
    (stats, driven, servo as u16)
}

#[test]
fn a_robot_beside_a_second_program_is_not_armed() {
    for (every, source) in [(1, 0), (2, 0), (10, 0), (10, 3)] {
        let (stats, driven, servo) = beside_a_second_program(every, 0, source);
        let last = stats.transitions.last().unwrap();
        assert_eq!(
            (driven, last.cause),
            (0, Cause::DuplicateReplies { servo }),
            "every {every}, {source}: {last:?}"
        );
    }
}

#[test]
fn a_second_program_that_begins_later_brings_the_robot_down() {
    for (every, source, ticks) in [(1, 0, 15), (10, 0, 250), (10, 3, 250)] {
        let (stats, _, servo) = beside_a_second_program(every, 1_000_000_000, source);
        let down = stats.transitions.iter().find(|t| t.from == Phase::Active).unwrap();
        assert_eq!(down.cause, Cause::DuplicateReplies { servo }, "every {every}, {source}: {down:?}");
        assert!(down.tick < 1000 + ticks, "every {every}: in tick {}", down.tick);
    }
}
