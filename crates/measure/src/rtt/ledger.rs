//! What was asked, what was answered, and how long it took. Knows no socket and no clock.
use super::modes::{Excursions, Watch};
use super::packet::{Kind, Packet};
use super::{Counts, Strangers};
use crate::report::Trace;
use crate::report::run::Measured;
use khz_rt::Histogram;
use std::collections::HashMap;
use std::net::SocketAddr;

/// Ticks after which an answer is no longer waited for.
pub const WINDOW: usize = 1024;
/// Devices a broadcast may find.
pub const MAX_DEVICES: usize = 1024;

/// The books of one run.
///
/// # Realtime contract
/// Nothing allocates but the first answer of a device not known before (after a broadcast).
#[derive(Debug)]
pub struct Ledger {
    run: u64,
    start_ns: i64,
    /// A broadcast was sent: whoever answers is a device.
    open: bool,
    devices: Vec<Device>,
    by_address: HashMap<SocketAddr, usize>,
    /// The tick that is asking now and how many answers it still waits for.
    tick: u64,
    waiting: usize,
    /// Nobody knows how many will answer this tick.
    finding: bool,
    /// A question of this tick could not be sent, so it cannot get all its answers.
    unsent: bool,
    asked_at_ns: i64,
    last_answer_ns: i64,
    /// When each of the last ticks sent its broadcast.
    asked: Vec<Asked>,
    /// Broadcasts of the whole run, and how many of them could not be sent.
    broadcasts: u64,
    unsent_broadcasts: u64,
    /// Questions without an answer so far.
    open_questions: u64,
    watch: Watch,
    tally: Box<Tally>,
}

/// What is still to be matched with one device.
#[derive(Debug)]
struct Device {
    address: SocketAddr,
    asked: Vec<Asked>,
    highest: Option<u64>,
}

/// What was counted and measured: in a whole run, or between two looks at it.
#[derive(Debug)]
pub struct Tally {
    /// Device by device, in the order they were given or found.
    pub devices: Vec<DeviceTally>,
    /// From a tick's question to its last answer.
    pub cycle: Series,
    /// How late the ticks began.
    pub late_ticks: Series,
    /// Ticks that did not get all their answers in time.
    pub incomplete: u64,
    /// Ticks begun.
    pub ticks: u64,
    /// What came and was none of ours.
    pub strangers: Strangers,
    /// Cycles that took unusually long.
    pub excursions: Excursions,
    /// Round trips the kernel's own times split.
    pub split: Split,
}

/// One device's part of a [`Tally`].
#[derive(Debug)]
pub struct DeviceTally {
    /// Its address.
    pub address: SocketAddr,
    /// Its counts; what was sent and not answered is lost.
    pub counts: Counts,
    /// Its round trips.
    pub round_trip: Series,
    /// How long it held the requests, as it says itself.
    pub held: Histogram,
}

/// Where the kernel's own times split round trips, ns.
#[derive(Debug, Default)]
pub struct Split {
    /// From the program to the kernel's handing it to the network card.
    pub out: Histogram,
    /// From there to the answer's arrival in the kernel: wire, switches, device.
    pub between: Histogram,
    /// From there to the program.
    pub back: Histogram,
    /// From the card's sending to its receiving, by the card's clock.
    pub card: Histogram,
    /// Round trips that could not be split, as a time was missing or the clock was set meanwhile.
    pub missing: u64,
}

/// The parts of one round trip, ns.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// As [`Split::out`].
    pub out_ns: i64,
    /// As [`Split::between`].
    pub between_ns: i64,
    /// As [`Split::back`].
    pub back_ns: i64,
    /// As [`Split::card`], if the card told.
    pub card_ns: Option<i64>,
}

impl Split {
    /// Counts a round trip with its parts, if they are known.
    pub fn record(&mut self, parts: Option<Parts>) {
        let Some(parts) = parts else {
            self.missing += 1;
            return;
        };
        self.out.record(parts.out_ns, 0);
        self.between.record(parts.between_ns, 0);
        self.back.record(parts.back_ns, 0);
        if let Some(card_ns) = parts.card_ns {
            self.card.record(card_ns, 0);
        }
    }

    fn clear(&mut self) {
        for part in [&mut self.out, &mut self.between, &mut self.back, &mut self.card] {
            part.clear();
        }
        self.missing = 0;
    }
}

impl Tally {
    /// An empty one for these devices.
    pub fn new(devices: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self {
            devices: devices.into_iter().map(DeviceTally::new).collect(),
            cycle: Series::with_buckets(5_120),
            late_ticks: Series::with_buckets(5_120),
            incomplete: 0,
            ticks: 0,
            strangers: Strangers::default(),
            excursions: Excursions::with_room(),
            split: Split::default(),
        }
    }

    /// Forgets all but the devices.
    pub fn clear(&mut self) {
        for device in &mut self.devices {
            device.counts = Counts::default();
            device.round_trip.clear();
            device.held.clear();
        }
        self.cycle.clear();
        self.late_ticks.clear();
        (self.incomplete, self.ticks, self.strangers) = (0, 0, Strangers::default());
        self.excursions.clear();
        self.split.clear();
    }
}

impl DeviceTally {
    fn new(address: SocketAddr) -> Self {
        let (counts, round_trip) = (Counts::default(), Series::with_buckets(2_048));
        Self { address, counts, round_trip, held: Histogram::new() }
    }
}

/// A question of one tick.
#[derive(Debug, Clone, Copy)]
struct Asked {
    sequence: u64,
    at_ns: i64,
    answered: bool,
}

const NEVER: Asked = Asked { sequence: u64::MAX, at_ns: 0, answered: true };

/// A duration over time and as a distribution.
#[derive(Debug, Default)]
pub struct Series {
    trace: Trace,
    values: Histogram,
}

impl Series {
    fn with_buckets(buckets: usize) -> Self {
        Self { trace: Trace::with_buckets(buckets), values: Histogram::new() }
    }

    fn push(&mut self, time_ns: i64, value_ns: i64) {
        self.trace.push(time_ns as f64 / 1e9, value_ns as f64);
        self.values.record(value_ns, time_ns);
    }

    fn clear(&mut self) {
        self.trace.clear();
        self.values.clear();
    }

    /// As a page shows it.
    pub fn measured(&self) -> Measured {
        Measured::new(self.trace.clone(), &self.values)
    }

    /// The values.
    pub fn values(&self) -> &Histogram {
        &self.values
    }
}

/// What an incoming datagram was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// The first answer of a device to a tick.
    Answer {
        /// The device's place.
        device: usize,
        /// When it was asked, since the run began.
        asked_ns: i64,
        /// Its round trip.
        round_trip_ns: i64,
        /// It answers the tick that is asking now.
        now: bool,
    },
    /// An answer that was there already.
    Duplicate,
    /// Not an answer to anything asked in this run: counted among the strangers.
    Stranger,
}

impl Ledger {
    /// Opens the books of a run against these devices; with none, of a run whose broadcast finds them.
    pub fn new(run: u64, start_ns: i64, devices: &[SocketAddr]) -> Self {
        let mut ledger = Self {
            run,
            start_ns,
            open: devices.is_empty(),
            devices: Vec::with_capacity(devices.len()),
            by_address: HashMap::new(),
            tick: 0,
            waiting: 0,
            finding: false,
            unsent: false,
            asked_at_ns: start_ns,
            last_answer_ns: start_ns,
            asked: vec![NEVER; WINDOW],
            broadcasts: 0,
            unsent_broadcasts: 0,
            open_questions: 0,
            watch: Watch::default(),
            tally: Box::new(Tally::new([])),
        };
        devices.iter().for_each(|address| ledger.add(*address));
        ledger
    }

    fn add(&mut self, address: SocketAddr) {
        self.by_address.insert(address, self.devices.len());
        self.devices.push(Device { address, asked: vec![NEVER; WINDOW], highest: None });
        self.tally.devices.push(DeviceTally::new(address));
    }

    /// Exchanges what was counted so far for an empty tally: the one who looks gets it whole, and the run goes on
    /// with the other. Allocates only if devices were found since the other was made.
    pub fn exchange(&mut self, tally: &mut Box<Tally>) {
        let known = tally.devices.len();
        let found = self.devices.iter().skip(known).map(|device| DeviceTally::new(device.address));
        tally.devices.extend(found);
        std::mem::swap(&mut self.tally, tally);
    }

    /// A tick begins, `late_ns` after its planned time.
    pub fn tick(&mut self, sequence: u64, now_ns: i64, late_ns: i64) {
        self.tick = sequence;
        (self.waiting, self.unsent) = (0, false);
        self.tally.ticks += 1;
        self.asked_at_ns = now_ns;
        self.tally.late_ticks.push(now_ns - self.start_ns, late_ns);
    }

    /// The tick's question goes to one device.
    pub fn asks(&mut self, device: usize, now_ns: i64) {
        self.tally.devices[device].counts.sent += 1;
        self.open_questions += 1;
        let device = &mut self.devices[device];
        let slot = (self.tick as usize) % WINDOW;
        device.asked[slot] = Asked { sequence: self.tick, at_ns: now_ns, answered: false };
        self.waiting += 1;
    }

    /// The tick's question goes to all at once, of whom `expected` are to answer.
    pub fn asks_all(&mut self, expected: usize, now_ns: i64) {
        let asked = Asked { sequence: self.tick, at_ns: now_ns, answered: false };
        self.asked[(self.tick as usize) % WINDOW] = asked;
        self.broadcasts += 1;
        self.open_questions += self.devices.len() as u64;
        for (device, tally) in self.devices.iter_mut().zip(&mut self.tally.devices) {
            tally.counts.sent += 1;
            device.asked[(self.tick as usize) % WINDOW] = asked;
        }
        self.waiting = expected.max(self.devices.len());
        self.finding = self.waiting == 0;
    }

    /// How many answers to this tick are still to come. While no device is known to a broadcast, that is one
    /// more than have come, so that its first tick takes all its time.
    pub fn waiting(&self) -> usize {
        if self.finding { 1 } else { self.waiting }
    }

    /// A datagram came.
    pub fn hears(&mut self, packet: &Packet, from: SocketAddr, now_ns: i64) -> Heard {
        if packet.kind == Kind::Request {
            return stranger(&mut self.tally.strangers.requests);
        }
        if packet.run != self.run {
            return stranger(&mut self.tally.strangers.other_runs);
        }
        let Some(index) = self.device(from, packet.sequence) else {
            return stranger(&mut self.tally.strangers.unknown_devices);
        };
        let device = &mut self.devices[index];
        let slot = (packet.sequence as usize) % WINDOW;
        let asked = device.asked[slot];
        if asked.sequence != packet.sequence {
            return stranger(&mut self.tally.strangers.never_asked);
        }
        if asked.answered {
            self.tally.devices[index].counts.duplicates += 1;
            return Heard::Duplicate;
        }
        device.asked[slot].answered = true;
        let now = packet.sequence == self.tick;
        self.open_questions = self.open_questions.saturating_sub(1);
        let tally = &mut self.tally.devices[index];
        match device.highest {
            Some(highest) if packet.sequence < highest => tally.counts.out_of_order += 1,
            _ => device.highest = Some(packet.sequence),
        }
        tally.counts.answered += 1;
        tally.counts.late += u64::from(!now);
        let round_trip_ns = now_ns - asked.at_ns;
        tally.round_trip.push(asked.at_ns - self.start_ns, round_trip_ns);
        tally.held.record(packet.held_ns, packet.sequence as i64);
        if now {
            self.waiting = self.waiting.saturating_sub(1);
            self.last_answer_ns = now_ns;
        }
        Heard::Answer { device: index, asked_ns: asked.at_ns - self.start_ns, round_trip_ns, now }
    }

    /// The device at this address; one not known yet is added if a broadcast asked.
    fn device(&mut self, from: SocketAddr, sequence: u64) -> Option<usize> {
        if let Some(index) = self.by_address.get(&from) {
            return Some(*index);
        }
        let asked = self.asked[(sequence as usize) % WINDOW];
        if !self.open || self.devices.len() == MAX_DEVICES || asked.sequence != sequence {
            return None;
        }
        self.add(from);
        let index = self.devices.len() - 1;
        self.devices[index].asked.copy_from_slice(&self.asked);
        // Asked as often as everyone, from the run's first tick on.
        let counts = &mut self.tally.devices[index].counts;
        (counts.sent, counts.unsent) = (self.broadcasts, self.unsent_broadcasts);
        self.open_questions += self.broadcasts - self.unsent_broadcasts;
        Some(index)
    }

    /// Another make of datagram came.
    pub fn hears_foreign(&mut self) {
        self.tally.strangers.foreign += 1;
    }

    /// The tick is over: its last answer ends the cycle, if all have come. False if one is missing.
    pub fn done(&mut self) -> bool {
        if self.finding {
            self.finding = false;
            return true;
        }
        if self.waiting == 0 && !self.unsent {
            let (at_ns, took_ns) = (self.asked_at_ns - self.start_ns, self.last_answer_ns - self.asked_at_ns);
            self.tally.cycle.push(at_ns, took_ns);
            if let Some(excursion) = self.watch.see(at_ns, took_ns) {
                self.tally.excursions.push(excursion);
            }
            true
        } else {
            self.tally.incomplete += 1;
            false
        }
    }

    /// A question could not be sent.
    pub fn unsent(&mut self, device: usize) {
        self.tally.devices[device].counts.unsent += 1;
        self.open_questions = self.open_questions.saturating_sub(1);
        self.waiting = self.waiting.saturating_sub(1);
        self.unsent = true;
    }

    /// The tick's question to all could not be sent.
    pub fn unsent_to_all(&mut self) {
        self.unsent_broadcasts += 1;
        self.tally.devices.iter_mut().for_each(|device| device.counts.unsent += 1);
        self.open_questions = self.open_questions.saturating_sub(self.devices.len() as u64);
        (self.waiting, self.finding, self.unsent) = (0, false, true);
    }

    /// Counts a round trip's parts, as the kernel's own times tell them.
    pub fn splits(&mut self, parts: Option<Parts>) {
        self.tally.split.record(parts);
    }

    /// What was counted and measured since the run began, or since [`Ledger::exchange`].
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Questions of the whole run that have no answer so far.
    pub fn open_questions(&self) -> u64 {
        self.open_questions
    }
}

fn stranger(count: &mut u64) -> Heard {
    *count += 1;
    Heard::Stranger
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u64 = 42;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 7000))
    }

    fn reply(sequence: u64) -> Packet {
        Packet { kind: Kind::Reply, run: RUN, sequence, sent_ns: 0, held_ns: 500 }
    }

    fn two() -> Ledger {
        Ledger::new(RUN, 0, &[address(1), address(2)])
    }

    fn ask(ledger: &mut Ledger, sequence: u64, now_ns: i64) {
        ledger.tick(sequence, now_ns, 0);
        ledger.asks(0, now_ns);
        ledger.asks(1, now_ns + 10);
    }

    #[test]
    fn a_tick_ends_with_its_last_answer() {
        let mut ledger = two();
        ask(&mut ledger, 0, 1_000);
        let first = ledger.hears(&reply(0), address(2), 1_500);
        assert_eq!(first, Heard::Answer { device: 1, asked_ns: 1_010, round_trip_ns: 490, now: true });
        assert_eq!(ledger.waiting(), 1);
        ledger.hears(&reply(0), address(1), 1_800);
        assert_eq!(ledger.waiting(), 0);
        ledger.done();
        assert_eq!((ledger.tally().cycle.values().quantile(0.5), ledger.tally().incomplete), (800, 0));
        assert_eq!(ledger.tally().devices[0].round_trip.values().quantile(0.5), 800);
        assert_eq!(ledger.tally().devices[0].held.quantile(0.5), 500);
    }

    #[test]
    fn late_lost_doubled_and_disordered_answers_are_told_apart() {
        let mut ledger = two();
        for tick in 0..3 {
            ask(&mut ledger, tick, 1_000 * tick as i64);
            ledger.hears(&reply(tick), address(2), 1_000 * tick as i64 + 100);
            ledger.done();
        }
        assert_eq!(
            ledger.hears(&reply(1), address(1), 2_200),
            Heard::Answer { device: 0, asked_ns: 1_000, round_trip_ns: 1_200, now: false }
        );
        ledger.hears(&reply(0), address(1), 2_300);
        assert_eq!(ledger.hears(&reply(0), address(1), 2_400), Heard::Duplicate);
        let counts = ledger.tally().devices[0].counts;
        let expected = Counts { sent: 3, answered: 2, late: 2, duplicates: 1, out_of_order: 1, unsent: 0 };
        assert_eq!((counts, counts.lost(), ledger.tally().incomplete), (expected, 1, 3));
    }

    #[test]
    fn strangers_are_named_and_never_ours() {
        let mut ledger = two();
        ask(&mut ledger, 0, 0);
        let other_run = Packet { run: 1, ..reply(0) };
        let request = Packet { kind: Kind::Request, ..reply(0) };
        for (packet, from) in
            [(other_run, address(1)), (request, address(1)), (reply(0), address(9)), (reply(5), address(1))]
        {
            assert_eq!(ledger.hears(&packet, from, 10), Heard::Stranger);
        }
        ledger.hears_foreign();
        let each = Strangers { foreign: 1, other_runs: 1, requests: 1, unknown_devices: 1, never_asked: 1 };
        assert_eq!(ledger.tally().strangers, each);
        assert!(ledger.tally().devices.iter().all(|d| d.counts.answered == 0));
    }

    #[test]
    fn an_answer_older_than_the_window_is_not_mistaken() {
        let mut ledger = two();
        ask(&mut ledger, 0, 0);
        ask(&mut ledger, WINDOW as u64, 1_000);
        assert_eq!(ledger.hears(&reply(0), address(1), 2_000), Heard::Stranger);
        assert_eq!(ledger.tally().devices[0].counts.answered, 0);
    }

    #[test]
    fn nothing_is_lost_between_two_looks() {
        let mut ledger = two();
        ask(&mut ledger, 0, 0);
        ledger.hears(&reply(0), address(1), 100);
        let mut looked = Box::new(Tally::new([]));
        ledger.exchange(&mut looked);
        // The answer to a question of before comes after the look.
        ledger.hears(&reply(0), address(2), 200);
        ledger.done();
        let counts = |tally: &Tally| {
            tally.devices.iter().map(|d| (d.counts.sent, d.counts.answered)).collect::<Vec<_>>()
        };
        assert_eq!(counts(&looked), [(1, 1), (1, 0)]);
        assert_eq!(counts(ledger.tally()), [(0, 0), (0, 1)]);
        assert_eq!((looked.ticks, ledger.tally().ticks, ledger.tally().cycle.values().count()), (1, 0, 1));
        assert_eq!(ledger.open_questions(), 0);
        looked.clear();
        assert_eq!((counts(&looked), looked.ticks), (vec![(0, 0), (0, 0)], 0));
    }

    #[test]
    fn a_device_found_late_was_asked_as_often_as_all_whoever_looked_meanwhile() {
        let mut ledger = Ledger::new(RUN, 0, &[]);
        let mut looked = Box::new(Tally::new([]));
        for tick in 0..4u64 {
            ledger.tick(tick, 1_000 * tick as i64, 0);
            ledger.asks_all(0, 1_000 * tick as i64);
            match tick {
                1 => ledger.unsent_to_all(),
                2 => ledger.exchange(&mut looked),
                3 => assert_ne!(ledger.hears(&reply(3), address(1), 3_100), Heard::Stranger),
                _ => {}
            }
            ledger.done();
        }
        let counts = ledger.tally().devices[0].counts;
        assert_eq!((counts.sent, counts.unsent, counts.answered, counts.lost()), (4, 1, 1, 2));
    }

    #[test]
    fn what_was_never_sent_is_not_lost_and_ends_no_cycle() {
        let mut ledger = Ledger::new(RUN, 0, &[]);
        for tick in 0..3u64 {
            let now_ns = 1_000 * tick as i64;
            ledger.tick(tick, now_ns, 0);
            ledger.asks_all(0, now_ns);
            match tick {
                2 => ledger.unsent_to_all(),
                _ => _ = ledger.hears(&reply(tick), address(1), now_ns + 100),
            }
            assert_eq!(ledger.waiting(), usize::from(tick == 0));
            assert_eq!(ledger.done(), tick < 2);
        }
        let counts = ledger.tally().devices[0].counts;
        assert_eq!((counts.sent, counts.unsent, counts.lost(), ledger.open_questions()), (3, 1, 0, 0));
        let mut one = Ledger::new(RUN, 0, &[address(1)]);
        one.tick(0, 1_000, 0);
        one.asks(0, 1_000);
        one.unsent(0);
        assert!(!one.done());
        for ledger in [&ledger, &one] {
            let cycles = ledger.tally().cycle.values();
            assert!(ledger.tally().incomplete == 1 && cycles.summary().min >= 0, "{:?}", cycles.summary());
        }
    }

    #[test]
    fn a_broadcast_finds_its_devices() {
        let mut ledger = Ledger::new(RUN, 0, &[]);
        for tick in 0..3u64 {
            let now_ns = 1_000 * tick as i64;
            ledger.tick(tick, now_ns, 0);
            ledger.asks_all(0, now_ns);
            if tick > 0 {
                ledger.hears(&reply(tick), address(1), now_ns + 100);
                ledger.hears(&reply(tick), address(2), now_ns + 200);
            }
            assert_eq!(ledger.waiting(), usize::from(tick < 2));
            ledger.done();
        }
        assert_eq!((ledger.tally().incomplete, ledger.tally().cycle.values().count()), (0, 1));
        assert_eq!(ledger.tally().devices.len(), 2);
        let counts = ledger.tally().devices[1].counts;
        assert_eq!((counts.sent, counts.answered, counts.lost()), (3, 2, 1));
        assert_eq!(ledger.hears(&reply(77), address(3), 0), Heard::Stranger);
    }
}
