//! Any link, made worse on purpose: loss, delay, jitter, duplication, corruption, reordering, silent devices
//! and bus-off, by a script in time and from a seed.
//!
//! The same script, seed and frames give the same faults, in virtual time or real time.
//!
//! ```
//! use khz_link::faults::{Fault, FaultEffect};
//!
//! // Device 3 is silent between the first and the second second; one frame in a hundred is lost always.
//! let script = [
//!     Fault { from_ns: 1_000_000_000, until_ns: 2_000_000_000, ..Fault::silence(3) },
//!     Fault { probability: 0.01, ..Fault::new(FaultEffect::Loss) },
//! ];
//! # let _ = script;
//! ```

mod settings;

pub use settings::{FaultEvent, FaultKind, FaultsConfig};

use crate::{Counters, Link, LinkError, Received, Replier};
use khz_wire::{Frame, Request};
use std::collections::VecDeque;

/// Frames held back in each direction; more are lost and counted.
const HELD: usize = 1024;

/// `ENETDOWN`, the error of SocketCAN for an interface that is down.
const ENETDOWN: i32 = 100;

/// One line of the script: what goes wrong, when, and for whom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultEffect,
    /// Begins this long after the link is first used, ns.
    pub from_ns: i64,
    /// Ends this long after the link is first used, ns.
    pub until_ns: i64,
    /// Only on this bus; every bus if `None`.
    pub channel: Option<u8>,
    /// Only frames to or from this device; all if `None`. What goes to all counts as addressed to no one.
    pub device: Option<u8>,
    /// Only frames that travel this way.
    pub direction: Direction,
    /// How likely a frame is struck, 0–1. Without meaning for [`FaultEffect::BusOff`].
    pub probability: f64,
}

/// What goes wrong with a frame or a bus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultEffect {
    /// The frame vanishes.
    Loss,
    /// The frame arrives later by `ns` plus an even share of 0–`jitter_ns`.
    Delay {
        /// Fixed part, ns.
        ns: i64,
        /// Largest random part, ns.
        jitter_ns: i64,
    },
    /// The frame arrives twice.
    Duplicate,
    /// One random bit of the payload is flipped, and no checksum catches it.
    Corrupt,
    /// The same where a checksum does: the receiver drops the frame. This computer counts its own as [`Counters::corrupt`].
    Damage,
    /// The frame arrives after the next one of its direction, or after `within_ns` if none comes.
    Reorder {
        /// The longest wait for another frame, ns.
        within_ns: i64,
    },
    /// The bus carries nothing and reports [`LinkError::Down`].
    BusOff,
}

/// Which way frames travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From this computer.
    ToDevices,
    /// To this computer.
    FromDevices,
    /// Either way.
    Both,
}

impl Fault {
    /// Strikes every frame both ways, from the start, for ever.
    pub const fn new(kind: FaultEffect) -> Self {
        Self {
            kind,
            from_ns: 0,
            until_ns: i64::MAX,
            channel: None,
            device: None,
            direction: Direction::Both,
            probability: 1.0,
        }
    }

    /// A device that receives nothing and sends nothing.
    pub const fn silence(device: u8) -> Self {
        Self { device: Some(device), ..Self::new(FaultEffect::Loss) }
    }

    fn strikes(&self, elapsed_ns: i64, direction: Direction, item: &Item) -> bool {
        self.active(elapsed_ns, item.channel)
            && (self.direction == Direction::Both || self.direction == direction)
            && self.device.is_none_or(|only| item.device == Some(only))
    }

    fn active(&self, elapsed_ns: i64, channel: u8) -> bool {
        (self.from_ns..self.until_ns).contains(&elapsed_ns) && self.channel.is_none_or(|only| only == channel)
    }
}

/// How often each fault struck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Struck {
    /// Frames that vanished, also because too many were held back.
    pub lost: u64,
    /// Frames held back.
    pub delayed: u64,
    /// Frames delivered twice.
    pub duplicated: u64,
    /// Frames with a flipped bit, caught by a checksum or not.
    pub corrupted: u64,
    /// Frames delivered after a later one.
    pub reordered: u64,
    /// Frames that were due and found no room in the link until the next cycle began.
    pub expired: u64,
    /// Frames refused or dropped because the bus was off or the link refused them.
    pub refused: u64,
}

/// A link with a script of faults.
///
/// # Realtime contract
/// As [`Link`]: allocates only in [`Faults::new`]. A full queue loses frames and counts them.
pub struct Faults<L> {
    link: L,
    script: Box<[Fault]>,
    replier: Replier,
    random: Random,
    begun_ns: Option<i64>,
    inbound: Queue,
    outbound: Queue,
    buses: Box<[Bus]>,
    struck: Struck,
}

/// What became of one bus.
#[derive(Clone, Copy, Default)]
struct Bus {
    /// Off now.
    off: bool,
    /// It was reported as off.
    reported: bool,
    downs: u64,
    /// Frames to this computer that a checksum caught.
    damaged: u64,
}

impl<L: Link> Faults<L> {
    /// Wraps a link. Of several faults that strike one frame, all act, in the order of the script.
    ///
    /// `replier`, as in [`Replier`], recognizes the received frames that are those of [`Fault::device`].
    pub fn new(
        link: L,
        script: &[Fault],
        seed: u64,
        replier: impl Fn(u8, &Frame) -> Option<u8> + Send + 'static,
    ) -> Self {
        let channels = usize::from(link.capabilities().channels);
        Self {
            link,
            script: script.into(),
            replier: Box::new(replier),
            random: Random(seed),
            begun_ns: None,
            inbound: Queue::new(),
            outbound: Queue::new(),
            buses: vec![Bus::default(); channels].into(),
            struck: Struck::default(),
        }
    }

    /// How often each fault struck so far.
    pub fn struck(&self) -> Struck {
        self.struck
    }

    /// The link underneath.
    pub fn inner(&mut self) -> &mut L {
        &mut self.link
    }

    fn elapsed(&mut self, now_ns: i64) -> i64 {
        now_ns - *self.begun_ns.get_or_insert(now_ns)
    }

    fn bus_off(&mut self, channel: u8, elapsed_ns: i64) -> bool {
        let active = |fault: &Fault| fault.kind == FaultEffect::BusOff && fault.active(elapsed_ns, channel);
        let off = self.script.iter().any(active);
        if let Some(bus) = self.buses.get_mut(usize::from(channel)) {
            bus.downs += u64::from(off && !bus.off);
            bus.reported &= off;
            bus.off = off;
        }
        off
    }

    /// Puts a frame into the queue of its direction as the script wants it: never, once or twice.
    fn pass(&mut self, direction: Direction, mut item: Item, elapsed_ns: i64) {
        let (mut due_ns, mut copies, mut waits) = (item.at_ns, 1, false);
        for fault in &self.script {
            if !fault.strikes(elapsed_ns, direction, &item)
                || fault.kind == FaultEffect::BusOff
                || self.random.unit() >= fault.probability
            {
                continue;
            }
            match fault.kind {
                FaultEffect::Loss => {
                    self.struck.lost += 1;
                    return;
                }
                FaultEffect::Delay { ns, jitter_ns } => {
                    due_ns += ns + (self.random.unit() * jitter_ns as f64) as i64;
                    self.struck.delayed += 1;
                }
                FaultEffect::Duplicate => {
                    copies += 1;
                    self.struck.duplicated += 1;
                }
                FaultEffect::Corrupt => self.struck.corrupted += u64::from(self.random.flip(&mut item.frame)),
                FaultEffect::Damage => {
                    self.struck.corrupted += 1;
                    let bus = self.buses.get_mut(usize::from(item.channel));
                    if let (Some(bus), Direction::FromDevices) = (bus, direction) {
                        bus.damaged += 1;
                    }
                    return;
                }
                FaultEffect::Reorder { within_ns } => {
                    due_ns += within_ns;
                    waits = true;
                    self.struck.reordered += 1;
                }
                FaultEffect::BusOff => {}
            }
        }
        let queue = if direction == Direction::ToDevices { &mut self.outbound } else { &mut self.inbound };
        for _ in 0..copies {
            self.struck.lost += u64::from(!queue.hold(Held { due_ns, waits, item }));
        }
    }

    /// Sends what was held back and is due. What finds no room stays; what the link refuses is gone: after an outage it would
    /// be stale.
    fn release(&mut self, now_ns: i64) -> Result<(), LinkError> {
        let (elapsed_ns, mut result) = (self.elapsed(now_ns), Ok(()));
        while let Some(held) = self.outbound.due(now_ns) {
            if self.bus_off(held.channel, elapsed_ns) {
                self.struck.refused += 1;
                self.outbound.pop();
                continue;
            }
            match self.link.send(held.channel, &held.request(), now_ns) {
                Ok(()) => {}
                Err(LinkError::Full) => return Err(LinkError::Full),
                Err(refused) => {
                    self.struck.refused += 1;
                    result = Err(refused);
                }
            }
            self.outbound.pop();
        }
        result
    }
}

impl<L: Link> Link for Faults<L> {
    crate::forward_link!(it => it.link; capabilities, half_duplex, fd, imu, about, misnamed, holds_back, set_bit_rate);

    fn begin_cycle(&mut self, now_ns: i64) {
        // What the script still delays is on its way; what is due and finds no room now waits in vain.
        if self.outbound.due(now_ns).is_some() {
            let _ = self.flush(now_ns);
        }
        while self.outbound.due(now_ns).is_some() {
            self.outbound.pop();
            self.struck.expired += 1;
        }
        self.link.begin_cycle(now_ns);
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        let elapsed_ns = self.elapsed(now_ns);
        if self.bus_off(channel, elapsed_ns) {
            self.struck.refused += 1;
            return Err(LinkError::Down { errno: ENETDOWN });
        }
        self.release(now_ns)?;
        self.pass(Direction::ToDevices, Item::sent(channel, request, now_ns), elapsed_ns);
        match self.release(now_ns) {
            // It is held now, and leaves when there is room.
            Err(LinkError::Full) => Ok(()),
            other => other,
        }
    }

    fn flush(&mut self, now_ns: i64) -> Result<(), LinkError> {
        let released = match self.release(now_ns) {
            // A burst that leaves makes room.
            Err(LinkError::Full) => self.link.flush(now_ns).and_then(|()| self.release(now_ns)),
            other => other,
        };
        self.link.flush(now_ns)?;
        released
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let elapsed_ns = self.elapsed(now_ns);
        if self.outbound.due(now_ns).is_some()
            && let Err(down @ LinkError::Down { .. }) = self.flush(now_ns)
        {
            return Err(down);
        }
        while let Some(item) = self.link.receive(now_ns)? {
            if self.bus_off(item.channel, elapsed_ns) {
                self.struck.refused += 1;
            } else {
                let device = (self.replier)(item.channel, &item.frame);
                self.pass(Direction::FromDevices, Item::received(item, device), elapsed_ns);
            }
        }
        for channel in 0..self.buses.len() {
            if self.bus_off(channel as u8, elapsed_ns) && !self.buses[channel].reported {
                self.buses[channel].reported = true;
                return Err(LinkError::Down { errno: ENETDOWN });
            }
        }
        let due = self.inbound.due(now_ns);
        if due.is_some() {
            self.inbound.pop();
        }
        Ok(due.map(Item::into_received))
    }

    fn next_event_ns(&self) -> Option<i64> {
        let held = [self.inbound.next_ns(), self.outbound.next_ns(), self.link.next_event_ns()];
        held.into_iter().flatten().min()
    }

    fn close(&mut self, now_ns: i64) -> Vec<String> {
        self.begin_cycle(now_ns);
        self.link.close(now_ns)
    }

    fn counters(&self, channel: u8) -> Counters {
        let mut counters = self.link.counters(channel);
        if let Some(bus) = self.buses.get(usize::from(channel)) {
            counters.downs += bus.downs;
            counters.corrupt += bus.damaged;
        }
        counters
    }
}

/// Frames held back, by the time they are due.
struct Queue(VecDeque<Held>);

#[derive(Clone, Copy)]
struct Held {
    due_ns: i64,
    /// Goes right after the next frame that does not wait.
    waits: bool,
    item: Item,
}

/// A frame on its way.
#[derive(Clone, Copy)]
struct Item {
    channel: u8,
    at_ns: i64,
    frame: Frame,
    /// Whom it is to or from.
    device: Option<u8>,
    /// Replies that it brings, if it is sent.
    replies: u16,
}

impl Item {
    fn sent(channel: u8, request: &Request<'_>, at_ns: i64) -> Self {
        Self { channel, at_ns, frame: *request.frame, device: request.to, replies: request.replies }
    }

    fn received(Received { channel, at_ns, frame }: Received, device: Option<u8>) -> Self {
        Self { channel, at_ns, frame, device, replies: 0 }
    }

    fn request(&self) -> Request<'_> {
        Request { frame: &self.frame, to: self.device, replies: self.replies }
    }

    fn into_received(self) -> Received {
        Received { channel: self.channel, at_ns: self.at_ns, frame: self.frame }
    }
}

impl Queue {
    fn new() -> Self {
        Self(VecDeque::with_capacity(HELD))
    }

    fn hold(&mut self, held: Held) -> bool {
        if self.0.len() == HELD {
            return false;
        }
        self.insert(held);
        if !held.waits {
            self.let_go_of_waiting(held.due_ns);
        }
        true
    }

    /// What waited for a later frame now goes right after it.
    fn let_go_of_waiting(&mut self, due_ns: i64) {
        for i in 0..self.0.len() {
            if self.0[i].waits && self.0[i].due_ns > due_ns {
                let waiting = self.0.remove(i);
                waiting.into_iter().for_each(|held| self.insert(Held { due_ns, waits: false, ..held }));
            }
        }
    }

    fn insert(&mut self, held: Held) {
        let after = self.0.partition_point(|other| other.due_ns <= held.due_ns);
        self.0.insert(after, held);
    }

    /// The first frame that is due, its arrival time put right.
    fn due(&self, now_ns: i64) -> Option<Item> {
        let held = self.0.front().filter(|held| held.due_ns <= now_ns)?;
        Some(Item { at_ns: held.due_ns, ..held.item })
    }

    fn pop(&mut self) {
        self.0.pop_front();
    }

    fn next_ns(&self) -> Option<i64> {
        self.0.front().map(|held| held.due_ns)
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014): tiny, seeded, good enough to throw dice.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Even over 0 (included) to 1 (excluded).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Flips one bit of the payload; `false` if there is none.
    fn flip(&mut self, frame: &mut Frame) -> bool {
        let payload = frame.payload_mut();
        if payload.is_empty() {
            return false;
        }
        let bit = self.next() as usize % (payload.len() * 8);
        payload[bit / 8] ^= 1 << (bit % 8);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Loopback;
    use khz_wire::Address;

    fn frame(device: u8, byte: u8) -> Frame {
        Frame::new(Address::to(device, true).id(), &[byte; 4]).unwrap()
    }

    fn faulty(script: &[Fault]) -> Faults<Loopback> {
        Faults::new(Loopback::new(2), script, 7, |_, frame| Address::replier(frame))
    }

    /// Sends one frame per ns from t = 0 and gives the payload byte and arrival time of what comes back.
    fn run(link: &mut Faults<Loopback>, frames: u8) -> Vec<(u8, i64)> {
        for n in 0..frames {
            link.send(0, &Address::request(&frame(n % 3 + 1, n)), i64::from(n)).unwrap();
        }
        let mut came = Vec::new();
        let mut now_ns = i64::from(frames);
        loop {
            while let Some(received) = link.receive(now_ns).unwrap() {
                came.push((received.frame.payload()[0], received.at_ns));
            }
            let Some(next_ns) = link.next_event_ns() else { return came };
            now_ns = now_ns.max(next_ns);
        }
    }

    fn bytes(came: &[(u8, i64)]) -> Vec<u8> {
        came.iter().map(|(byte, _)| *byte).collect()
    }

    #[test]
    fn without_faults_nothing_changes() {
        let came = run(&mut faulty(&[]), 5);
        assert_eq!(came, [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]);
    }

    #[test]
    fn a_silent_device_silences_only_itself() {
        let mut link = faulty(&[Fault::silence(2)]);
        assert_eq!(bytes(&run(&mut link, 9)), [0, 2, 3, 5, 6, 8]);
        assert_eq!(link.struck().lost, 3);
    }

    #[test]
    fn loss_follows_its_probability_and_seed() {
        let script =
            [Fault { probability: 0.25, direction: Direction::ToDevices, ..Fault::new(FaultEffect::Loss) }];
        let first = run(&mut faulty(&script), 200);
        assert!((130..170).contains(&first.len()), "{}", first.len());
        assert_eq!(first, run(&mut faulty(&script), 200));
        assert_ne!(
            first,
            run(&mut Faults::new(Loopback::new(2), &script, 8, |_, frame| Address::replier(frame)), 200)
        );
    }

    #[test]
    fn delay_holds_frames_back_and_reports_the_next_event() {
        let delay = FaultEffect::Delay { ns: 100, jitter_ns: 0 };
        let mut link = faulty(&[Fault { direction: Direction::FromDevices, ..Fault::new(delay) }]);
        link.send(0, &Address::request(&frame(1, 1)), 0).unwrap();
        assert_eq!(link.receive(0), Ok(None));
        assert_eq!(link.next_event_ns(), Some(100));
        assert_eq!(link.receive(99), Ok(None));
        assert_eq!(link.receive(150).unwrap().unwrap().at_ns, 100);
    }

    #[test]
    fn delayed_commands_leave_late() {
        let delay = FaultEffect::Delay { ns: 100, jitter_ns: 0 };
        let mut link = faulty(&[Fault { direction: Direction::ToDevices, ..Fault::new(delay) }]);
        link.send(0, &Address::request(&frame(1, 1)), 0).unwrap();
        assert_eq!(link.inner().counters(0).sent, 0);
        assert_eq!(link.receive(120).unwrap().unwrap().at_ns, 120);
    }

    #[test]
    fn jitter_keeps_every_frame() {
        let mut link = faulty(&[Fault::new(FaultEffect::Delay { ns: 10, jitter_ns: 50 })]);
        let mut came = bytes(&run(&mut link, 100));
        assert!(!came.is_sorted());
        came.sort_unstable();
        assert_eq!(came, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_frame_that_a_checksum_catches_is_lost_and_counted_where_it_was_to_arrive() {
        let run = |direction, kind| {
            let mut link = faulty(&[Fault { direction, ..Fault::new(kind) }]);
            let came = run(&mut link, 20).len();
            (came, link.counters(0).corrupt + link.counters(1).corrupt, link.struck().corrupted)
        };
        assert_eq!(run(Direction::FromDevices, FaultEffect::Damage), (0, 20, 20));
        assert_eq!(run(Direction::ToDevices, FaultEffect::Damage), (0, 0, 20));
        assert_eq!(run(Direction::FromDevices, FaultEffect::Corrupt), (20, 0, 20), "not noticed");
    }

    #[test]
    fn duplicates_come_twice() {
        let script = [Fault { direction: Direction::FromDevices, ..Fault::new(FaultEffect::Duplicate) }];
        assert_eq!(bytes(&run(&mut faulty(&script), 2)), [0, 0, 1, 1]);
    }

    #[test]
    fn corruption_flips_exactly_one_bit() {
        let script = [Fault { direction: Direction::FromDevices, ..Fault::new(FaultEffect::Corrupt) }];
        let mut link = faulty(&script);
        link.send(0, &Address::request(&frame(1, 0)), 0).unwrap();
        let bad = link.receive(0).unwrap().unwrap().frame;
        assert_eq!(bad.payload().iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    }

    #[test]
    fn reordered_frames_come_after_the_next_or_in_time() {
        let reorder = Fault {
            direction: Direction::FromDevices,
            device: Some(0),
            ..Fault::new(FaultEffect::Reorder { within_ns: 1000 })
        };
        // The loopback answers as the device that was asked, so strike device 1 only.
        let mut link = faulty(&[Fault { device: Some(1), ..reorder }]);
        assert_eq!(bytes(&run(&mut link, 4)), [1, 0, 2, 3]);
        assert_eq!(link.struck().reordered, 2);
    }

    #[test]
    fn bus_off_is_reported_once_and_passes() {
        let off = Fault { from_ns: 10, until_ns: 20, channel: Some(1), ..Fault::new(FaultEffect::BusOff) };
        let mut link = faulty(&[off]);
        link.send(1, &Address::request(&frame(1, 1)), 0).unwrap();
        assert!(link.receive(5).unwrap().is_some());
        assert_eq!(
            link.send(1, &Address::request(&frame(1, 2)), 10),
            Err(LinkError::Down { errno: ENETDOWN })
        );
        link.send(0, &Address::request(&frame(1, 3)), 10).unwrap();
        assert_eq!(link.receive(11), Err(LinkError::Down { errno: ENETDOWN }));
        assert_eq!(link.receive(12).unwrap().unwrap().frame.payload()[0], 3);
        link.send(1, &Address::request(&frame(1, 4)), 25).unwrap();
        assert_eq!(link.receive(25).unwrap().unwrap().frame.payload()[0], 4);
        assert_eq!(link.counters(1).downs, 1);
    }

    #[test]
    fn a_frame_that_was_taken_leaves_once_however_full_the_link_is() {
        let mut link = faulty(&[]);
        link.inner().room = 2;
        let sent: Vec<_> = (0..5).map(|n| link.send(0, &Address::request(&frame(1, n)), 0)).collect();
        // The third is held, the others may be offered again.
        assert_eq!(sent, [Ok(()), Ok(()), Ok(()), Err(LinkError::Full), Err(LinkError::Full)]);
        assert_eq!(link.flush(0), Ok(()));
        for n in 3..5 {
            link.send(0, &Address::request(&frame(1, n)), 1).unwrap();
        }
        assert_eq!(link.flush(1), Ok(()));
        let came = std::iter::from_fn(|| link.receive(2).unwrap());
        assert_eq!(came.map(|received| received.frame.payload()[0]).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_held_frame_that_finds_no_room_until_the_next_cycle_is_dropped() {
        let mut link = faulty(&[]);
        link.inner().room = 0;
        assert_eq!(link.send(0, &Address::request(&frame(1, 1)), 0), Ok(()), "it is held");
        link.begin_cycle(1);
        link.inner().room = 10;
        link.send(0, &Address::request(&frame(1, 2)), 1).unwrap();
        let came = std::iter::from_fn(|| link.receive(2).unwrap());
        assert_eq!(came.map(|received| received.frame.payload()[0]).collect::<Vec<_>>(), [2]);
        assert_eq!(link.struck().expired, 1);
        assert_eq!(link.inner().cycles, 1, "the link underneath is called, too");
    }

    #[test]
    fn a_delayed_command_survives_the_next_cycle() {
        let delay = FaultEffect::Delay { ns: 100, jitter_ns: 0 };
        let mut link = faulty(&[Fault { direction: Direction::ToDevices, ..Fault::new(delay) }]);
        link.send(0, &Address::request(&frame(1, 1)), 0).unwrap();
        link.begin_cycle(50);
        assert_eq!(link.receive(120).unwrap().unwrap().at_ns, 120);
    }

    #[test]
    fn nothing_comes_in_late_from_before_an_outage() {
        let mut link = faulty(&[]);
        link.inner().is_down = true;
        assert!(matches!(link.send(0, &Address::request(&frame(1, 1)), 0), Err(LinkError::Down { .. })));
        link.inner().is_down = false;
        link.send(0, &Address::request(&frame(1, 2)), 1).unwrap();
        assert_eq!(link.receive(1).unwrap().unwrap().frame.payload()[0], 2);
        assert_eq!(link.receive(1), Ok(None));
        // Nor does what was delayed into a scripted one.
        let delay = Fault {
            direction: Direction::ToDevices,
            ..Fault::new(FaultEffect::Delay { ns: 10, jitter_ns: 0 })
        };
        let off = Fault { from_ns: 5, until_ns: 20, ..Fault::new(FaultEffect::BusOff) };
        let mut link = faulty(&[delay, off]);
        link.send(0, &Address::request(&frame(1, 1)), 0).unwrap();
        assert!(matches!(link.receive(12), Err(LinkError::Down { .. })));
        assert_eq!(link.receive(12), Err(LinkError::Down { errno: ENETDOWN }), "the other bus");
        assert_eq!(link.receive(30), Ok(None));
        assert_eq!((link.struck().refused, link.inner().counters(0).sent), (1, 0));
    }

    #[test]
    fn a_flood_held_back_is_lost_and_counted() {
        let mut link = faulty(&[Fault::new(FaultEffect::Delay { ns: 1 << 40, jitter_ns: 0 })]);
        for _ in 0..HELD + 3 {
            link.send(0, &Address::request(&frame(1, 1)), 0).unwrap();
        }
        assert_eq!(link.struck().lost, 3);
    }
}
