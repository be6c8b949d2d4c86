//! The bus cycle in virtual time, against a scripted bus that answers as servos do.

use khz_link::{Capabilities, Counters, Link, LinkError, Received};
use khz_loop::ServoCommand;
use khz_loop::cycle::{Cycle, CyclePlan, CycleResult, DevicePlan};
use khz_loop::state::RobotState;
use khz_loop::time::{Time, VirtualTime};
use khz_servo::moteus::Settings;
use khz_servo::{Family, Mounting, ServoPlan};
use khz_wire::{Address, Frame, Request, Subframe, Subframes, Value, Writer};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

const DEADLINE_NS: i64 = 700_000;
const ROUND_TRIP_NS: i64 = 200_000;

/// What the scripted device does with a query.
#[derive(Clone, Copy, PartialEq)]
enum Behaviour {
    Answer { after_ns: i64 },
    Silent,
    Twice,
    Nonsense,
}

const PROMPT: Behaviour = Behaviour::Answer { after_ns: ROUND_TRIP_NS };

#[derive(Default)]
struct Script {
    behaviour: Vec<(u8, Behaviour)>,
    replies: VecDeque<Received>,
    sent: Vec<(i64, u8, u8)>,
    down: bool,
}

#[derive(Clone)]
struct Bus {
    script: Arc<Mutex<Script>>,
    half_duplex: bool,
    channels: u8,
}

impl Bus {
    fn new(channels: u8, half_duplex: bool) -> Self {
        Self { script: Arc::default(), half_duplex, channels }
    }

    fn set(&self, id: u8, behaviour: Behaviour) {
        self.script.lock().unwrap().behaviour.push((id, behaviour));
    }

    fn sent(&self) -> Vec<(i64, u8, u8)> {
        std::mem::take(&mut self.script.lock().unwrap().sent)
    }
}

/// The reply to a query: every read mirrored, each register as its number.
fn reply_to(query: &Frame) -> Frame {
    let address = Address::from_id(query.id);
    let mut buffer = [0; 64];
    let mut w = Writer::new(&mut buffer);
    for subframe in Subframes::new(query.payload()).flatten() {
        if let Subframe::Read(run) = subframe {
            w.reply_head(run).unwrap();
            for i in 0..run.count {
                let number = (run.start + i) as i8;
                let value = if run.resolution.size() == 1 {
                    Value::Int8(number)
                } else {
                    Value::Float(f32::from(number))
                };
                w.value(value).unwrap();
            }
        }
    }
    Frame::new(address.answered_by(address.destination).id(), w.written()).unwrap()
}

impl Link for Bus {
    fn capabilities(&self) -> Capabilities {
        let (half_duplex, channels) = (self.half_duplex, self.channels);
        Capabilities { kind: "scripted", channels, half_duplex, in_flight: 64, emulated: true }
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        let mut script = self.script.lock().unwrap();
        if script.down {
            return Err(LinkError::Down { errno: 19 });
        }
        let (id, frame) = (request.to.unwrap(), request.frame);
        script.sent.push((now_ns, channel, id));
        let behaviour = script.behaviour.iter().rev().find(|(of, _)| *of == id).map_or(PROMPT, |(_, b)| *b);
        let reply = |after_ns| Received { channel, at_ns: now_ns + after_ns, frame: reply_to(frame) };
        match behaviour {
            Behaviour::Answer { after_ns } => script.replies.push_back(reply(after_ns)),
            Behaviour::Silent => {}
            Behaviour::Twice => script.replies.extend([reply(ROUND_TRIP_NS), reply(ROUND_TRIP_NS + 1000)]),
            Behaviour::Nonsense => {
                let frame = Frame::new(reply_to(frame).id, &[0x31, 0x77, 1]).unwrap();
                script.replies.push_back(Received { frame, ..reply(ROUND_TRIP_NS) });
            }
        }
        script.replies.make_contiguous().sort_by_key(|reply| reply.at_ns);
        Ok(())
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let mut script = self.script.lock().unwrap();
        Ok(if script.replies.front().is_some_and(|reply| reply.at_ns <= now_ns) {
            script.replies.pop_front()
        } else {
            None
        })
    }

    fn next_event_ns(&self) -> Option<i64> {
        self.script.lock().unwrap().replies.front().map(|reply| reply.at_ns)
    }

    fn counters(&self, _: u8) -> Counters {
        Counters::default()
    }
}

fn device(channel: u8, id: u8) -> DevicePlan {
    DevicePlan {
        name: format!("servo_{id}"),
        link: 0,
        channel,
        servo: ServoPlan {
            servo: 0,
            id,
            mounting: Mounting::default(),
            family: Family::Moteus(Settings::default()),
            watchdog_s: 0.1,
        },
        reply_timeout_ns: 250_000,
    }
}

/// A rig of one link, its cycle and virtual time.
struct Rig {
    bus: Bus,
    links: Vec<Box<dyn Link>>,
    cycle: Cycle,
    state: RobotState,
    time: VirtualTime,
}

impl Rig {
    fn new(bus: Bus, devices: Vec<DevicePlan>) -> Self {
        let state = RobotState::unknown(devices.len(), false, 1_000_000);
        let links: Vec<Box<dyn Link>> = vec![Box::new(bus.clone())];
        let cycle = Cycle::new(CyclePlan { devices, ..CyclePlan::default() }, &links);
        Self { bus, links, cycle, state, time: VirtualTime::new(0) }
    }

    /// One cycle at a multiple of 1 ms; its result and how long it took.
    fn run(&mut self, tick: i64) -> (CycleResult, i64) {
        self.time.wait_for_tick(tick * 1_000_000);
        let start = self.time.now_ns();
        let commands = vec![ServoCommand::Stop; self.state.servos.len()];
        self.cycle.receive(&mut self.links, start);
        self.cycle.take_in(&mut self.state);
        self.cycle.begin(&commands, start + DEADLINE_NS);
        self.cycle.send(&mut self.links, start);
        loop {
            let now = self.time.now_ns();
            self.cycle.receive(&mut self.links, now);
            self.cycle.take_in(&mut self.state);
            if self.cycle.is_complete() || now >= start + DEADLINE_NS {
                break;
            }
            self.cycle.time_out(now);
            self.cycle.send(&mut self.links, now);
            let next = self.cycle.next_ns(&self.links);
            self.time.pass(next, &self.links);
        }
        let took = self.time.now_ns() - start;
        (self.cycle.end(&mut self.state), took)
    }
}

fn result(replied: u16, missed: u16, late: u32) -> CycleResult {
    CycleResult { replied, missed, late, late_servos: u64::from(late > 0), ..CycleResult::default() }
}

#[test]
fn all_frames_leave_round_robin_before_any_reply_is_awaited() {
    let devices = vec![device(0, 1), device(0, 2), device(1, 3), device(1, 4)];
    let mut rig = Rig::new(Bus::new(2, false), devices);
    assert_eq!(rig.run(0), (result(4, 0, 0), ROUND_TRIP_NS));
    assert_eq!(rig.bus.sent(), [(0, 0, 1), (0, 1, 3), (0, 0, 2), (0, 1, 4)]);
    assert!(rig.state.servos.iter().all(|servo| servo.fresh && servo.voltage == 6.5));
}

#[test]
fn a_silent_device_is_missed_and_costs_the_others_nothing() {
    let mut rig = Rig::new(Bus::new(1, false), (1..=3).map(|id| device(0, id)).collect());
    rig.run(0);
    rig.bus.set(2, Behaviour::Silent);
    assert_eq!(rig.run(1), (result(2, 1, 0), DEADLINE_NS));
    assert!(!rig.state.servos[1].fresh && rig.state.servos[1].is_known());
    // Its values are as old as the query they answer.
    assert_eq!(rig.state.servos[1].age_ns(1_000_000 + DEADLINE_NS), 1_000_000 + DEADLINE_NS);
    assert_eq!((rig.cycle.stats(1).missed, rig.cycle.stats(0).missed), (1, 0));
}

#[test]
fn a_reply_after_the_deadline_is_late_and_never_the_next_ticks() {
    let mut rig = Rig::new(Bus::new(1, false), vec![device(0, 1)]);
    rig.bus.set(1, Behaviour::Answer { after_ns: 1_200_000 });
    assert_eq!(rig.run(0), (result(0, 1, 0), DEADLINE_NS));
    // The answer to tick 0 arrives 200 µs into tick 1, when an answer to tick 1 could: only the order of its
    // reads shows that it is not.
    assert_eq!(rig.run(1), (result(0, 1, 1), DEADLINE_NS));
    assert_eq!(rig.cycle.stats(0).late, 1);
    rig.bus.set(1, PROMPT);
    assert_eq!(rig.run(2).0, result(1, 0, 1));
}

#[test]
fn a_reply_that_came_between_ticks_is_late() {
    let mut rig = Rig::new(Bus::new(1, false), vec![device(0, 1)]);
    rig.bus.set(1, Behaviour::Answer { after_ns: 900_000 });
    rig.run(0);
    rig.bus.set(1, PROMPT);
    assert_eq!(rig.run(1).0, result(1, 0, 1));
}

/// When 40 replies were lost, 56 were reported as missed, and 16 of them as late.
#[test]
fn after_a_silence_nothing_more_is_missed_and_no_reply_is_late() {
    let bus = Bus::new(1, false);
    let mut bench = Rig::new(bus.clone(), vec![device(0, 1)]);
    let mut total = (0, 0);
    for tick in 0..100 {
        let is_silent = (10..50).contains(&tick);
        bus.set(1, if is_silent { Behaviour::Silent } else { PROMPT });
        let (result, _) = bench.run(tick);
        total = (total.0 + result.missed, total.1 + result.late);
        assert_eq!(bench.state.servos[0].fresh, !is_silent && tick != 50, "tick {tick}");
    }
    assert_eq!(total, (40, 0));
}

#[test]
fn a_second_reply_is_late_and_changes_nothing() {
    let mut rig = Rig::new(Bus::new(1, false), vec![device(0, 1), device(0, 2)]);
    rig.bus.set(1, Behaviour::Twice);
    rig.bus.set(2, Behaviour::Answer { after_ns: ROUND_TRIP_NS + 5000 });
    let expected = CycleResult { answered_twice: Some(0), late_servos: 0, ..result(2, 0, 1) };
    assert_eq!(rig.run(0).0, expected);
    assert_eq!(rig.state.servos[0].at_ns, 0);
}

#[test]
fn unexpected_frames_and_noise_are_counted() {
    let mut rig = Rig::new(Bus::new(1, false), vec![device(0, 1)]);
    rig.bus.set(1, Behaviour::Nonsense);
    let frame = Frame::new(0x0900, &[0x21, 0, 0]).unwrap();
    rig.bus.script.lock().unwrap().replies.push_back(Received { channel: 0, at_ns: 1, frame });
    let (result, _) = rig.run(0);
    assert_eq!((result.foreign, result.missed), (2, 1));
}

#[test]
fn half_duplex_asks_the_next_the_moment_the_reply_is_in() {
    let devices = vec![device(0, 1), device(0, 2), device(1, 3)];
    let mut rig = Rig::new(Bus::new(2, true), devices);
    assert_eq!(rig.run(0), (result(3, 0, 0), 2 * ROUND_TRIP_NS));
    assert_eq!(rig.bus.sent(), [(0, 0, 1), (0, 1, 3), (ROUND_TRIP_NS, 0, 2)]);
}

/// mjlib's servers (`ProcessSubframeRead`) take the arguments of a read for subframes while an earlier reply is under way.
#[test]
fn a_half_duplex_bus_waits_for_a_reply_to_the_last_cycle() {
    let late = Behaviour::Answer { after_ns: 600_000 };
    for (second, free_ns) in [(late, 1_100_000), (Behaviour::Silent, 1_200_000)] {
        let slow = |id| DevicePlan { reply_timeout_ns: 700_000, ..device(0, id) };
        let mut rig = Rig::new(Bus::new(1, true), vec![slow(1), slow(2)]);
        rig.bus.set(1, Behaviour::Answer { after_ns: 500_000 });
        rig.bus.set(2, second);
        assert_eq!(rig.run(0).0, result(1, 1, 0));
        rig.bus.set(1, PROMPT);
        rig.bus.set(2, PROMPT);
        let late = u32::from(second != Behaviour::Silent);
        let expected = CycleResult { late_servos: u64::from(late) << 1, ..result(2, 0, late) };
        assert_eq!(rig.run(1).0, expected);
        assert_eq!(rig.bus.sent()[2..], [(free_ns, 0, 2), (free_ns + ROUND_TRIP_NS, 0, 1)]);
    }
}

#[test]
fn half_duplex_asks_a_silent_device_last() {
    let mut rig = Rig::new(Bus::new(1, true), (1..=3).map(|id| device(0, id)).collect());
    rig.bus.set(1, Behaviour::Silent);
    assert_eq!(rig.run(0), (result(2, 1, 0), DEADLINE_NS));
    rig.bus.sent();
    assert_eq!(rig.run(1).0, result(2, 1, 0));
    let asked: Vec<u8> = rig.bus.sent().iter().map(|(_, _, id)| *id).collect();
    assert_eq!(asked, [2, 3, 1]);
}

#[test]
fn on_a_half_duplex_bus_that_cannot_serve_all_everyone_is_served_in_turn() {
    for servos in [4, 5, 7, 12] {
        let mut rig = Rig::new(Bus::new(1, true), (1..=servos).map(|id| device(0, id)).collect());
        let (ticks, mut served, mut waited, mut longest) =
            (60, vec![0; servos.into()], vec![0; servos.into()], 0);
        for tick in 0..ticks {
            assert_eq!(rig.run(tick).0.replied, 3);
            for (servo, state) in rig.state.servos.iter().enumerate() {
                served[servo] += i32::from(state.fresh);
                waited[servo] = if state.fresh { 0 } else { waited[servo] + 1 };
                longest = longest.max(waited[servo]);
            }
        }
        assert!(served.iter().max().unwrap() - served.iter().min().unwrap() <= 2, "{served:?}");
        assert!(longest <= servos.div_ceil(3), "{servos} servos: {longest} ticks without a reply");
    }
}

#[test]
fn a_silent_servo_on_a_full_half_duplex_bus_does_not_stop_it() {
    let mut rig = Rig::new(Bus::new(1, true), (1..=5).map(|id| device(0, id)).collect());
    rig.bus.set(2, Behaviour::Silent);
    (0..50).for_each(|tick| _ = rig.run(tick));
    for servo in [0, 2, 3, 4] {
        assert!(rig.cycle.stats(servo).replied >= 20, "servo {servo}: {}", rig.cycle.stats(servo).replied);
    }
}

/// A link on which frames of an unknown sender come as fast as they are read.
struct Flood;

impl Link for Flood {
    fn capabilities(&self) -> Capabilities {
        Capabilities { kind: "flood", channels: 1, half_duplex: false, in_flight: 64, emulated: true }
    }

    fn send(&mut self, _: u8, _: &Request<'_>, _: i64) -> Result<(), LinkError> {
        Ok(())
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let frame = Frame::new(0x0900, &[0x21, 0, 0]).unwrap();
        Ok(Some(Received { channel: 0, at_ns: now_ns, frame }))
    }

    fn next_event_ns(&self) -> Option<i64> {
        Some(i64::MIN)
    }

    fn counters(&self, _: u8) -> Counters {
        Counters::default()
    }
}

#[test]
fn a_flooding_link_starves_no_other_and_does_not_hold_the_tick_up() {
    let bus = Bus::new(1, false);
    let mut rig = Rig::new(bus.clone(), Vec::new());
    rig.links = vec![Box::new(Flood), Box::new(bus)];
    let devices = (1..=32).map(|id| DevicePlan { link: 1, ..device(0, id) }).collect();
    rig.cycle = Cycle::new(CyclePlan { devices, ..CyclePlan::default() }, &rig.links);
    rig.state = RobotState::unknown(32, false, 1_000_000);
    for tick in 0..20 {
        let (result, took_ns) = rig.run(tick);
        assert_eq!((result.replied, result.missed), (32, 0), "tick {tick}");
        assert!(result.foreign > 0 && took_ns <= DEADLINE_NS);
    }
    rig.bus.set(7, Behaviour::Silent);
    let (result, took_ns) = rig.run(20);
    assert_eq!((result.replied, result.missed, took_ns), (31, 1, DEADLINE_NS));
    // Before the cycle, and in it: there are 1400 looks of 64 frames, but the cycle leaves the rest in the link.
    assert_eq!(result.foreign, 64 + (1 << 16), "frames read from one link in a cycle");
}

#[test]
fn a_dead_link_is_reported_and_comes_back() {
    let mut rig = Rig::new(Bus::new(1, false), vec![device(0, 1)]);
    rig.bus.script.lock().unwrap().down = true;
    let (result, _) = rig.run(0);
    assert_eq!((result.links_down, result.missed), (1, 1));
    rig.bus.script.lock().unwrap().down = false;
    assert_eq!(rig.run(1).0, self::result(1, 0, 0));
}
