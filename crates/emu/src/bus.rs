//! One bus: who may talk when, how long it takes, and when the frame has arrived.

use crate::config::{BusConfig, WireKind};
use khz_wire::time::{CanBits, CanFormat, CanRate, Stuffing, UartRate, arbitration_rank};
use khz_wire::{Address, Frame};
use std::cell::Cell;
use std::collections::VecDeque;

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The computer under test.
    Host,
    /// A servo, by its index.
    Servo(usize),
}

/// A frame that waits for the wire or is on it.
#[derive(Clone, Copy, Debug)]
pub struct Transmission {
    /// Who sends it.
    pub sender: Sender,
    /// What is sent.
    pub frame: Frame,
    /// Before this it cannot start; once it is on the wire, its start.
    start_ns: i64,
    /// From start to last bit.
    frame_ns: i64,
    /// From start to the earliest next start.
    occupied_ns: i64,
    /// Another device sent at the same time.
    spoiled: bool,
}

impl Transmission {
    /// When its last bit arrives, or, while it waits, the earliest that can be.
    pub fn end_ns(&self) -> i64 {
        self.start_ns + self.frame_ns
    }
}

/// What comes off the wire at the end of a transmission.
#[derive(Clone, Copy, Debug)]
pub enum Arrival {
    /// A whole frame.
    Frame(Transmission),
    /// Something that no receiver can make sense of.
    Garbage,
}

/// When something happens that does not: later than all that does.
pub const NEVER: i64 = i64::MAX;
/// No time at all.
const UNKNOWN: i64 = i64::MIN;

/// The wire and what queues for it.
#[derive(Debug)]
pub struct Bus {
    config: BusConfig,
    host: VecDeque<Transmission>,
    replies: Vec<Transmission>,
    on_wire: Vec<Transmission>,
    free_ns: i64,
    busy_ns: i64,
    /// The host's frames do not get onto the wire.
    is_stalled: bool,
    /// What happens next, and when: planned whenever something has changed. Nothing does at [`NEVER`].
    next: (i64, Event),
    /// Before this, nothing can reach the host; worked out once it is asked for after a change, [`UNKNOWN`] before.
    for_host: Cell<i64>,
    /// What the shortest frame takes.
    shortest_ns: i64,
}

impl Bus {
    /// Reserves room for all that `servos` servos may send.
    pub fn new(config: BusConfig, servos: usize) -> Self {
        let turnaround_ns = if config.wire == WireKind::Instant { 0 } else { config.turnaround_ns };
        let config = BusConfig { turnaround_ns, ..config };
        Self {
            config,
            host: VecDeque::with_capacity(usize::from(config.host_queue)),
            replies: Vec::with_capacity(8 * servos),
            on_wire: Vec::with_capacity(8 * servos + 1),
            free_ns: i64::MIN / 2,
            busy_ns: 0,
            is_stalled: false,
            next: (NEVER, Event::End(0)),
            for_host: Cell::new(UNKNOWN),
            shortest_ns: shortest_ns(config.wire),
        }
    }

    /// Queues a frame of the host; false if there is no room.
    pub fn send(&mut self, frame: &Frame, now_ns: i64) -> bool {
        let room = self.host.len() < usize::from(self.config.host_queue);
        if room {
            self.host.push_back(self.transmission(Sender::Host, frame, now_ns));
            self.plan_behind();
        }
        room
    }

    /// Keeps the host's frames off the wire, or lets them go from now on.
    pub fn stall(&mut self, is_stalled: bool, now_ns: i64) {
        self.is_stalled = is_stalled;
        self.host.iter_mut().for_each(|t| t.start_ns = t.start_ns.max(now_ns));
        self.plan();
    }

    /// Takes back the host's frames that are not on the wire yet; how many there were.
    pub fn drop_waiting(&mut self) -> u64 {
        let waiting = self.host.len() as u64;
        if waiting > 0 {
            self.host.clear();
            self.plan();
        }
        waiting
    }

    /// Queues a servo's reply to a request that has just arrived, ready so much later than the turnaround; false if there is no
    /// room.
    pub fn reply(&mut self, servo: usize, frame: &Frame, arrived_ns: i64, delay_ns: i64) -> bool {
        let after_ns = match self.config.wire {
            WireKind::Instant => 0,
            _ => self.config.turnaround_ns + delay_ns.max(0),
        };
        self.queue(servo, frame, arrived_ns + after_ns)
    }

    /// Queues a frame of a servo that is ready then, after what it has queued before; false if there is no room.
    pub fn queue(&mut self, servo: usize, frame: &Frame, ready_ns: i64) -> bool {
        let room = self.replies.len() < self.replies.capacity();
        if room {
            let sender = Sender::Servo(servo);
            let before = self.replies.iter().filter(|t| t.sender == sender).map(|t| t.start_ns).max();
            let ready_ns = before.map_or(ready_ns, |before_ns| ready_ns.max(before_ns));
            self.replies.push(self.transmission(sender, frame, ready_ns));
            self.plan_behind();
        }
        room
    }

    /// Whether a reply of a servo waits for the wire or is on it.
    pub fn is_replying(&self, servo: usize) -> bool {
        let mut all = self.replies.iter().chain(&self.on_wire);
        all.any(|transmission| transmission.sender == Sender::Servo(servo))
    }

    /// The earliest time at which a frame that a servo sends at this time can reach the host.
    pub fn earliest_ns(&self, sent_ns: i64) -> i64 {
        sent_ns.max(self.next_free_ns()) + self.shortest_ns
    }

    /// Lets the next thing happen, if something is due by `now_ns`: when, and what arrived if it did.
    pub fn step(&mut self, now_ns: i64) -> Option<(i64, Option<Arrival>)> {
        let (at_ns, event) = self.next;
        if at_ns > now_ns || at_ns == NEVER {
            return None;
        }
        let arrival = match event {
            Event::End(index) => Some(self.finish(index)),
            Event::Start(place) => {
                self.start(at_ns, place);
                None
            }
        };
        self.plan();
        Some((at_ns, arrival))
    }

    /// When the next thing happens; [`NEVER`] if nothing does.
    #[inline]
    pub fn next_ns(&self) -> i64 {
        self.next.0
    }

    fn plan(&mut self) {
        self.next = self.search();
        self.for_host.set(UNKNOWN);
    }

    /// A frame has come to wait: on a CAN bus on which another is on its way, the end of that stays the next thing that happens.
    fn plan_behind(&mut self) {
        let is_next = self.on_wire.is_empty() || matches!(self.config.wire, WireKind::Rs485 { .. });
        if is_next { self.plan() } else { self.for_host.set(UNKNOWN) }
    }

    /// Finds what happens next. What ends makes room before anything starts.
    fn search(&self) -> (i64, Event) {
        let (end_ns, index) = self.next_end();
        match self.next_start() {
            Some((start_ns, place)) if start_ns < end_ns => (start_ns, Event::Start(place)),
            _ => (end_ns, Event::End(index)),
        }
    }

    /// Before this, nothing can reach the host; [`NEVER`] if nothing is on its way.
    #[inline]
    pub fn next_for_host_ns(&self) -> i64 {
        if self.for_host.get() == UNKNOWN {
            self.for_host.set(self.search_for_host());
        }
        self.for_host.get()
    }

    fn search_for_host(&self) -> i64 {
        if self.next.0 == NEVER {
            return NEVER;
        }
        // From the end of a request to the last bit of the shortest reply to it.
        let fastest_ns = self.config.turnaround_ns + self.shortest_ns;
        let mut first_ns = NEVER;
        for t in &self.on_wire {
            match t.sender {
                Sender::Servo(_) => first_ns = first_ns.min(t.end_ns()),
                Sender::Host if self.wants_reply(t) => first_ns = first_ns.min(t.end_ns() + fastest_ns),
                Sender::Host => {}
            }
        }
        let free_ns = self.next_free_ns();
        let end_ns = |t: &Transmission| t.end_ns().max(free_ns + t.frame_ns);
        for t in &self.replies {
            first_ns = first_ns.min(end_ns(t));
        }
        if let Some(t) = self.next_of_host()
            && self.host.iter().any(|t| self.wants_reply(t))
        {
            first_ns = first_ns.min(end_ns(t) + fastest_ns);
        }
        first_ns
    }

    /// A reply may come of it: only moteus marks it in the identifier. Other families answer whatever they are sent, in frames of 11 bits, of classic
    /// CAN, or on a line of their own.
    fn wants_reply(&self, transmission: &Transmission) -> bool {
        let (frame, wire) = (&transmission.frame, self.config.wire);
        let others = matches!(wire, WireKind::Rs485 { packets, .. } if packets.answers_in_order());
        others || !frame.extended || !frame.fd || Address::from_id(frame.id).reply
    }

    /// Before this, no sender starts that waits for others.
    fn next_free_ns(&self) -> i64 {
        match self.config.wire {
            WireKind::Rs485 { .. } => i64::MIN / 2,
            WireKind::CanFd { .. } | WireKind::Instant => {
                let ends = self.on_wire.iter().map(|t| t.start_ns + t.occupied_ns);
                ends.max().unwrap_or(self.free_ns)
            }
        }
    }

    /// Time the wire was in use so far, ns.
    pub fn busy_ns(&self) -> i64 {
        self.busy_ns
    }

    /// How it is set up.
    pub fn config(&self) -> &BusConfig {
        &self.config
    }

    fn transmission(&self, sender: Sender, frame: &Frame, start_ns: i64) -> Transmission {
        let (frame_ns, occupied_ns) = frame_times(self.config.wire, frame);
        Transmission { sender, frame: *frame, start_ns, frame_ns, occupied_ns, spoiled: false }
    }

    fn next_end(&self) -> (i64, usize) {
        let mut first = (NEVER, 0);
        for (index, t) in self.on_wire.iter().enumerate() {
            if t.end_ns() < first.0 {
                first = (t.end_ns(), index);
            }
        }
        first
    }

    /// Who starts next, and when.
    fn next_start(&self) -> Option<(i64, Waiting)> {
        match self.config.wire {
            WireKind::CanFd { .. } | WireKind::Instant => self.arbitrate(),
            WireKind::Rs485 { .. } => self.next_talker(),
        }
    }

    /// The wire is free: of all frames that are ready by then, the lowest identifier wins.
    fn arbitrate(&self) -> Option<(i64, Waiting)> {
        if !self.on_wire.is_empty() {
            return None;
        }
        let host = self.next_of_host();
        let mut first_ns = host.map_or(NEVER, |t| t.start_ns);
        for t in &self.replies {
            first_ns = first_ns.min(t.start_ns);
        }
        if first_ns == NEVER {
            return None;
        }
        let at_ns = first_ns.max(self.free_ns);
        let rank = |t: &Transmission| (arbitration_rank(&t.frame), t.start_ns);
        let mut winner = host.filter(|t| t.start_ns <= at_ns).map(|t| (rank(t), Waiting::Host));
        // That holds for the replies of one servo, too: they wait in the mailboxes of its controller, one beside the other.
        for (index, t) in self.replies.iter().enumerate() {
            if t.start_ns <= at_ns && winner.is_none_or(|(best, _)| rank(t) < best) {
                winner = Some((rank(t), Waiting::Reply(index)));
            }
        }
        winner.map(|(_, place)| (at_ns, place))
    }

    /// A sender waits for its own last byte only.
    fn next_talker(&self) -> Option<(i64, Waiting)> {
        let start_ns = |t: &Transmission| {
            let own = self.on_wire.iter().filter(|on_wire| on_wire.sender == t.sender);
            own.map(Transmission::end_ns).fold(t.start_ns, i64::max)
        };
        let mut first = self.next_of_host().map(|t| (start_ns(t), Waiting::Host));
        for (index, t) in self.replies.iter().enumerate().filter(|&(index, _)| self.is_oldest(index)) {
            let at_ns = start_ns(t);
            if first.is_none_or(|(first_ns, _)| at_ns < first_ns) {
                first = Some((at_ns, Waiting::Reply(index)));
            }
        }
        first
    }

    /// The host's oldest frame, unless the bus is stalled.
    fn next_of_host(&self) -> Option<&Transmission> {
        self.host.front().filter(|_| !self.is_stalled)
    }

    /// Its servo has queued no reply before this one.
    fn is_oldest(&self, reply: usize) -> bool {
        let sender = self.replies[reply].sender;
        self.replies[..reply].iter().all(|earlier| earlier.sender != sender)
    }

    fn start(&mut self, at_ns: i64, place: Waiting) {
        let taken = match place {
            Waiting::Host => self.host.pop_front(),
            Waiting::Reply(index) => Some(self.replies.remove(index)),
        };
        let Some(mut transmission) = taken else { return };
        transmission.start_ns = at_ns;
        for other in self.on_wire.iter_mut().filter(|other| other.end_ns() > at_ns) {
            other.spoiled = true;
            transmission.spoiled = true;
        }
        self.on_wire.push(transmission);
    }

    fn finish(&mut self, index: usize) -> Arrival {
        let done = self.on_wire.swap_remove(index);
        self.free_ns = self.free_ns.max(done.start_ns + done.occupied_ns);
        self.busy_ns += done.occupied_ns;
        if matches!(self.config.wire, WireKind::Rs485 { .. }) {
            // The next frame of its sender begins behind it, and not when it was ready.
            let waiting = self.host.iter_mut().chain(&mut self.replies);
            for t in waiting.filter(|t| t.sender == done.sender) {
                t.start_ns = t.start_ns.max(done.end_ns());
            }
        }
        if done.spoiled { Arrival::Garbage } else { Arrival::Frame(done) }
    }
}

/// From a frame's start to its last bit, and to the earliest next start.
fn frame_times(wire: WireKind, frame: &Frame) -> (i64, i64) {
    match wire {
        WireKind::CanFd { nominal_bps, data_bps } => {
            let rate = CanRate { nominal: nominal_bps, data: data_bps };
            let bits = CanBits::of(frame);
            (bits.ns(rate), bits.with_intermission().ns(rate))
        }
        WireKind::Rs485 { baud, packets } => {
            let ns = UartRate::eight_n_one(baud).bytes_ns(packets.wire_len(frame));
            (ns, ns)
        }
        WireKind::Instant => (0, 0),
    }
}

/// What the shortest frame there can be takes.
fn shortest_ns(wire: WireKind) -> i64 {
    match wire {
        WireKind::CanFd { nominal_bps, data_bps } => {
            let rate = CanRate { nominal: nominal_bps, data: data_bps };
            let empty = |fd| {
                let format = CanFormat { extended: false, fd, brs: fd };
                CanBits::for_length(format, 0, Stuffing::Least).ns(rate)
            };
            empty(true).min(empty(false))
        }
        WireKind::Rs485 { baud, packets } => UartRate::eight_n_one(baud).bytes_ns(packets.shortest()),
        WireKind::Instant => 0,
    }
}

/// What happens on a bus.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// A frame on the wire, by its index, is over.
    End(usize),
    /// A frame that waits goes onto the wire.
    Start(Waiting),
}

/// Where a frame waits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Waiting {
    Host,
    Reply(usize),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Noise;

    #[test]
    fn whatever_changes_the_planned_event_is_what_a_search_finds() {
        for config in [BusConfig::CAN_FD, BusConfig::RS485] {
            let (mut bus, mut noise, mut now_ns) = (Bus::new(config, 3), Noise::new(1), 0);
            let mut happened = 0;
            for _ in 0..20_000 {
                let bits = noise.bits();
                let servo = (bits >> 8) as usize % 3;
                let frame = Frame::new(0x8001 + (bits >> 16) as u32 % 3, &[7; 20]).unwrap();
                match bits % 16 {
                    0..4 => drop(bus.send(&frame, now_ns)),
                    4..6 => drop(bus.reply(servo, &frame, now_ns, (bits >> 24) as i64 % 50_000)),
                    6 => drop(bus.queue(servo, &frame, now_ns)),
                    7 => bus.stall(bits >> 32 & 1 == 1, now_ns),
                    8 if bits >> 32 & 7 == 0 => drop(bus.drop_waiting()),
                    _ => now_ns += (bits >> 40) as i64 % 100_000,
                }
                let is_as_searched = |bus: &Bus| {
                    assert_eq!(bus.next, bus.search());
                    assert_eq!(bus.next_for_host_ns(), bus.search_for_host());
                };
                is_as_searched(&bus);
                while bus.step(now_ns).is_some() {
                    happened += 1;
                    is_as_searched(&bus);
                }
            }
            assert!(happened > 1000, "{happened}");
        }
    }

    #[test]
    fn packets_that_a_host_sends_one_behind_the_other_all_take_their_time() {
        let mut bus = Bus::new(BusConfig::RS485, 1);
        let frame = Frame::new(0x8001, &[0x11, 0, 0x1f, 1, 0x13, 0x0d]).unwrap();
        (0..4).for_each(|_| assert!(bus.send(&frame, 1000)));
        let mut ends = Vec::new();
        while let Some((at_ns, arrival)) = bus.step(i64::MAX / 4) {
            match arrival {
                Some(Arrival::Frame(_)) => ends.push(at_ns),
                Some(Arrival::Garbage) => panic!("they were sent one behind the other"),
                None => {}
            }
        }
        let (one_ns, _) = frame_times(BusConfig::RS485.wire, &frame);
        assert_eq!(ends, [1, 2, 3, 4].map(|count| 1000 + count * one_ns));
        assert_eq!(bus.busy_ns(), 4 * one_ns);
    }
}
