//! One bus: who may talk when, how long it takes, and when the frame has arrived.

use crate::config::{BusConfig, WireKind};
use khz_wire::time::{CanRate, UartRate, arbitration_rank};
use khz_wire::{Frame, rs485};
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
    /// Someone else talked at the same time.
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

/// The wire and what queues for it.
#[derive(Debug)]
pub struct Bus {
    config: BusConfig,
    host: VecDeque<Transmission>,
    replies: Vec<Transmission>,
    on_wire: Vec<Transmission>,
    free_ns: i64,
    busy_ns: i64,
}

impl Bus {
    /// Room is made for all that `servos` servos may have to say.
    pub fn new(config: BusConfig, servos: usize) -> Self {
        Self {
            config,
            host: VecDeque::with_capacity(usize::from(config.host_queue)),
            replies: Vec::with_capacity(8 * servos),
            on_wire: Vec::with_capacity(8 * servos + 1),
            free_ns: i64::MIN,
            busy_ns: 0,
        }
    }

    /// Queues a frame of the host; false if there is no room.
    pub fn send(&mut self, frame: &Frame, now_ns: i64) -> bool {
        let room = self.host.len() < usize::from(self.config.host_queue);
        if room {
            self.host.push_back(self.transmission(Sender::Host, frame, now_ns));
        }
        room
    }

    /// Queues a servo's reply to a request that has just arrived; false if there is no room.
    pub fn reply(&mut self, servo: usize, frame: &Frame, arrived_ns: i64) -> bool {
        let room = self.replies.len() < self.replies.capacity();
        if room {
            let ready_ns = match self.config.wire {
                WireKind::Instant => arrived_ns,
                WireKind::CanFd { .. } | WireKind::Rs485 { .. } => arrived_ns + self.config.turnaround_ns,
            };
            self.replies.push(self.transmission(Sender::Servo(servo), frame, ready_ns));
        }
        room
    }

    /// Lets the next thing happen, if something is due by `now_ns`: when, and what arrived if it did.
    pub fn step(&mut self, now_ns: i64) -> Option<(i64, Option<Arrival>)> {
        let ends = self.next_end();
        let starts = self.next_start();
        match (ends, starts) {
            (Some((end_ns, index)), start) if end_ns <= start.map_or(i64::MAX, |(at_ns, _)| at_ns) => {
                (end_ns <= now_ns).then(|| (end_ns, Some(self.finish(index))))
            }
            (_, Some((at_ns, sender))) if at_ns <= now_ns => {
                self.start(at_ns, sender);
                Some((at_ns, None))
            }
            _ => None,
        }
    }

    /// When the next thing happens.
    pub fn next_ns(&self) -> Option<i64> {
        let end = self.next_end().map(|(at_ns, _)| at_ns);
        let start = self.next_start().map(|(at_ns, _)| at_ns);
        [end, start].into_iter().flatten().min()
    }

    /// Before this, nothing can reach the host; `None` if nothing is on its way.
    pub fn next_for_host_ns(&self) -> Option<i64> {
        let sent = self.on_wire.iter().map(|t| match t.sender {
            Sender::Servo(_) => t.end_ns(),
            Sender::Host => t.end_ns() + self.shortest_reply_ns(),
        });
        let waiting = self.replies.iter().map(|t| t.end_ns().max(self.free_ns + t.frame_ns));
        let queued =
            self.host.front().map(|t| t.end_ns().max(self.free_ns + t.frame_ns) + self.shortest_reply_ns());
        sent.chain(waiting).chain(queued).min()
    }

    /// Time the wire was in use so far, ns.
    pub fn busy_ns(&self) -> i64 {
        self.busy_ns
    }

    /// How it is set up.
    pub fn config(&self) -> &BusConfig {
        &self.config
    }

    fn shortest_reply_ns(&self) -> i64 {
        if self.config.wire == WireKind::Instant { 0 } else { self.config.turnaround_ns }
    }

    fn transmission(&self, sender: Sender, frame: &Frame, start_ns: i64) -> Transmission {
        let (frame_ns, occupied_ns) = match self.config.wire {
            WireKind::CanFd { nominal_bps, data_bps } => {
                let rate = CanRate { nominal: nominal_bps, data: data_bps };
                (rate.frame_ns(frame), rate.occupied_ns(frame))
            }
            WireKind::Rs485 { baud } => {
                let line = UartRate::eight_n_one(baud);
                let ns = line.bytes_ns(rs485::frame_len(frame.payload().len()));
                (ns, ns)
            }
            WireKind::Instant => (0, 0),
        };
        Transmission { sender, frame: *frame, start_ns, frame_ns, occupied_ns, spoiled: false }
    }

    fn next_end(&self) -> Option<(i64, usize)> {
        self.on_wire.iter().enumerate().map(|(index, t)| (t.end_ns(), index)).min()
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
        let waiting = || self.waiting();
        let first_ns = waiting().map(|(_, t)| t.start_ns).min()?;
        let at_ns = first_ns.max(self.free_ns);
        waiting()
            .filter(|(_, t)| t.start_ns <= at_ns)
            .min_by_key(|(_, t)| (arbitration_rank(&t.frame), t.start_ns))
            .map(|(place, _)| (at_ns, place))
    }

    /// Nobody waits for anybody, except for one's own last byte.
    fn next_talker(&self) -> Option<(i64, Waiting)> {
        let own_end = |sender: Sender| {
            self.on_wire.iter().filter(move |t| t.sender == sender).map(Transmission::end_ns).max()
        };
        self.waiting()
            .map(|(place, t)| (own_end(t.sender).map_or(t.start_ns, |end_ns| end_ns.max(t.start_ns)), place))
            .min_by_key(|&(at_ns, _)| at_ns)
    }

    /// The host's oldest frame and each servo's oldest reply.
    fn waiting(&self) -> impl Iterator<Item = (Waiting, &Transmission)> {
        let host = self.host.front().map(|t| (Waiting::Host, t));
        let oldest = move |index: usize, t: &Transmission| {
            self.replies[..index].iter().all(|earlier| earlier.sender != t.sender)
        };
        let replies = self.replies.iter().enumerate().filter(move |&(index, t)| oldest(index, t));
        host.into_iter().chain(replies.map(|(index, t)| (Waiting::Reply(index), t)))
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
        if done.spoiled { Arrival::Garbage } else { Arrival::Frame(done) }
    }
}

/// Where a frame waits.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    Host,
    Reply(usize),
}
