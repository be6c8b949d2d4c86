//! What was asked, what was answered, and how long it took. Knows no socket and no clock.
use super::modes::Watch;
use super::packet::{Packet, PacketKind, Refusal};
use super::tally::{DeviceTally, Parts, Tally};
use super::{Counts, Unattended};
use std::collections::HashMap;
use std::net::SocketAddr;

/// Ticks after which an answer is no longer waited for.
pub const WINDOW: usize = 1024;
/// Devices a broadcast may find.
pub const MAX_DEVICES: usize = 1024;

/// The ledger of one run.
///
/// # Realtime contract
/// Nothing allocates but the first answer of a device not known before (after a broadcast).
#[derive(Debug)]
pub struct Ledger {
    run: u64,
    start_ns: i64,
    /// Until when the run's time is counted.
    counted_to_ns: i64,
    /// A broadcast was sent: whatever answers is a device.
    open: bool,
    devices: Vec<Device>,
    by_address: HashMap<SocketAddr, usize>,
    /// The tick that is asking now and how many answers it still waits for.
    turn: Turn,
    waiting: usize,
    /// How many will answer this tick is unknown.
    finding: bool,
    /// A question of this tick could not be sent, so it cannot get all its answers.
    unsent: bool,
    last_answer_ns: i64,
    /// The last ticks, and when each of them sent its broadcast.
    turns: Vec<Turn>,
    asked: Vec<Asked>,
    /// Broadcasts of the whole run, and how many of them could not be sent.
    broadcasts: u64,
    unsent_broadcasts: u64,
    /// Questions of the last [`WINDOW`] ticks without an answer.
    open_questions: u64,
    watch: Watch,
    tally: Box<Tally>,
}

/// A tick that asks. Times in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Turn {
    /// Its number among those that asked.
    pub sequence: u64,
    /// When it was to begin.
    pub planned_ns: i64,
    /// How late it began after the time waited for, which lies before `planned_ns` if periods were missed.
    pub late_ns: i64,
    /// Planned periods before it in which was not asked.
    pub missed: u64,
    /// When it began.
    pub begun_ns: i64,
    /// When its time is over: an answer after that is late.
    pub ends_ns: i64,
    /// The time between planned ticks; 0 if the next begins when this one has its answers.
    pub period_ns: i64,
}

/// When an answer came, ns.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// When the program had it.
    pub read_ns: i64,
    /// When it came in the kernel, if that is known.
    pub kernel_ns: Option<i64>,
    /// The program was waiting for it, so that it had it as soon as could be.
    pub attended: bool,
}

impl From<i64> for Arrival {
    /// Of an answer the program was waiting for.
    fn from(read_ns: i64) -> Self {
        Self { read_ns, kernel_ns: None, attended: true }
    }
}

/// How a tick ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// The tick.
    pub turn: Turn,
    /// It has all its answers, as far as is known who is to answer.
    pub complete: bool,
    /// From its beginning to its last answer, if it has all, ns.
    pub cycle_ns: Option<i64>,
}

/// What is still to be matched with one device.
#[derive(Debug)]
struct Device {
    address: SocketAddr,
    asked: Vec<Asked>,
    highest: Option<u64>,
}

/// A question of one tick.
#[derive(Debug, Clone, Copy)]
struct Asked {
    sequence: u64,
    at_ns: i64,
    answered: bool,
}

const NEVER: Asked = Asked { sequence: u64::MAX, at_ns: 0, answered: true };

impl Device {
    /// Puts a question into its place; true if the one that was there never got an answer.
    fn asks(&mut self, asked: Asked) -> bool {
        !std::mem::replace(&mut self.asked[slot(asked.sequence)], asked).answered
    }
}

/// What an incoming datagram was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incoming {
    /// The first answer of a device to a tick.
    Answer {
        /// The device's place.
        device: usize,
        /// When it was asked, since the run began.
        asked_ns: i64,
        /// Its round trip.
        round_trip_ns: i64,
        /// The period of its tick was over.
        late: bool,
        /// It came while the program did not wait for it, and the kernel gave no time of arrival.
        unstamped: bool,
    },
    /// An answer that was there already.
    Duplicate,
    /// Not an answer to anything asked in this run: counted among the unexpected datagrams.
    Unexpected,
}

impl Ledger {
    /// Opens the ledger of a run against these devices; with none, of a run whose broadcast finds them.
    pub fn new(run: u64, start_ns: i64, devices: &[SocketAddr]) -> Self {
        let mut ledger = Self {
            run,
            start_ns,
            counted_to_ns: start_ns,
            open: devices.is_empty(),
            devices: Vec::with_capacity(devices.len()),
            by_address: HashMap::new(),
            turn: Turn::default(),
            waiting: 0,
            finding: false,
            unsent: false,
            last_answer_ns: start_ns,
            turns: vec![Turn::default(); WINDOW],
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

    /// A tick begins.
    pub fn tick(&mut self, turn: Turn) {
        (self.waiting, self.unsent, self.finding) = (0, false, false);
        self.turn = turn;
        self.turns[slot(turn.sequence)] = turn;
        let at_ns = turn.begun_ns - self.start_ns;
        self.tally.ticks += 1;
        self.tally.late_ticks.push(at_ns, turn.late_ns);
        let planned = &mut self.tally.planned;
        planned.missed += turn.missed;
        let late_ns = turn.begun_ns - turn.planned_ns;
        planned.late.record_corrected(late_ns, turn.period_ns, turn.missed, at_ns);
    }

    /// So many planned periods at the end of the run were missed.
    pub fn missed_at_the_end(&mut self, periods: u64, now_ns: i64) {
        self.tally.planned.missed += periods;
        if periods > 0 {
            self.count_time(now_ns);
        }
    }

    /// When the run began.
    pub fn start_ns(&self) -> i64 {
        self.start_ns
    }

    /// The tick's question goes to one device.
    pub fn asks(&mut self, device: usize, now_ns: i64) {
        self.tally.devices[device].counts.sent += 1;
        let asked = Asked { sequence: self.turn.sequence, at_ns: now_ns, answered: false };
        let expired = self.devices[device].asks(asked);
        self.open_questions += u64::from(!expired);
        self.waiting += 1;
    }

    /// The tick's question goes to all at once, of whom `expected` are to answer.
    pub fn asks_all(&mut self, expected: usize, now_ns: i64) {
        let asked = Asked { sequence: self.turn.sequence, at_ns: now_ns, answered: false };
        self.asked[slot(asked.sequence)] = asked;
        self.broadcasts += 1;
        for (device, tally) in self.devices.iter_mut().zip(&mut self.tally.devices) {
            tally.counts.sent += 1;
            self.open_questions += u64::from(!device.asks(asked));
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
    pub fn receive(&mut self, packet: &Packet, from: SocketAddr, came: impl Into<Arrival>) -> Incoming {
        let came = came.into();
        let unexpected = &mut self.tally.unexpected;
        if packet.kind == PacketKind::Request {
            let echoed = self.by_address.get(&from).filter(|_| packet.run == self.run);
            let devices = &mut self.tally.devices;
            return count(
                echoed.map_or(&mut unexpected.requests, |index| &mut devices[*index].counts.echoed),
            );
        }
        if packet.run != self.run {
            return count(&mut unexpected.other_runs);
        }
        let Some(index) = self.device(from, packet.sequence) else {
            return count(&mut self.tally.unexpected.unknown_devices);
        };
        let asked = &mut self.devices[index].asked[slot(packet.sequence)];
        if asked.sequence != packet.sequence {
            return count(&mut self.tally.unexpected.never_asked);
        }
        if asked.answered {
            self.tally.devices[index].counts.duplicates += 1;
            return Incoming::Duplicate;
        }
        asked.answered = true;
        let (at_ns, turn) = (asked.at_ns, self.turns[slot(packet.sequence)]);
        self.open_questions = self.open_questions.saturating_sub(1);
        let (end_ns, unstamped) = self.end(came, at_ns);
        let late = end_ns > turn.ends_ns;
        if packet.sequence == self.turn.sequence && !late {
            self.waiting = self.waiting.saturating_sub(1);
            self.last_answer_ns = self.last_answer_ns.max(end_ns);
        }
        let round_trip_ns = end_ns - at_ns;
        self.count_answer(index, packet, late);
        let times = &mut self.tally.devices[index];
        times.round_trip.push(at_ns - self.start_ns, round_trip_ns);
        times.held.record(packet.held_ns, packet.sequence as i64);
        let planned = &mut self.tally.planned.round_trip;
        planned.record_corrected(
            end_ns - turn.planned_ns,
            turn.period_ns,
            turn.missed,
            at_ns - self.start_ns,
        );
        Incoming::Answer { device: index, asked_ns: at_ns - self.start_ns, round_trip_ns, late, unstamped }
    }

    /// When an answer's round trip ends: when the program has it; if it came while the program waited for its tick, when
    /// it reached the kernel. And whether the kernel's time is missing although it was needed.
    fn end(&mut self, came: Arrival, asked_ns: i64) -> (i64, bool) {
        if came.attended {
            return (came.read_ns, false);
        }
        let Unattended { stamped, unstamped } = &mut self.tally.unattended;
        match came.kernel_ns.filter(|ns| (asked_ns..=came.read_ns).contains(ns)) {
            Some(kernel_ns) => {
                *stamped += 1;
                (kernel_ns, false)
            }
            None => {
                *unstamped += 1;
                (came.read_ns, true)
            }
        }
    }

    fn count_answer(&mut self, index: usize, packet: &Packet, late: bool) {
        let counts = &mut self.tally.devices[index].counts;
        let device = &mut self.devices[index];
        match device.highest {
            Some(highest) if packet.sequence < highest => counts.out_of_order += 1,
            _ => device.highest = Some(packet.sequence),
        }
        counts.answered += 1;
        counts.late += u64::from(late);
    }

    /// The device at this address; one not known yet is added if a broadcast asked.
    fn device(&mut self, from: SocketAddr, sequence: u64) -> Option<usize> {
        if let Some(index) = self.by_address.get(&from) {
            return Some(*index);
        }
        let asked = self.asked[slot(sequence)];
        if !self.open || self.devices.len() == MAX_DEVICES || asked.sequence != sequence {
            return None;
        }
        self.add(from);
        let index = self.devices.len() - 1;
        self.devices[index].asked.copy_from_slice(&self.asked);
        // Asked as often as everyone, from the run's first tick on.
        let counts = &mut self.tally.devices[index].counts;
        (counts.sent, counts.unsent) = (self.broadcasts, self.unsent_broadcasts);
        self.open_questions += self.asked.iter().filter(|asked| !asked.answered).count() as u64;
        Some(index)
    }

    /// A datagram came that cannot be read. From a device that was asked it is a damaged answer, of whatever make.
    pub fn receive_unreadable(&mut self, from: SocketAddr, refusal: Refusal) {
        match (self.by_address.get(&from), refusal) {
            (Some(index), Refusal::Damaged | Refusal::Foreign) => {
                self.tally.devices[*index].counts.corrupt += 1;
            }
            (None, Refusal::Damaged) => self.tally.unexpected.damaged += 1,
            (_, Refusal::Foreign | Refusal::Version(_)) => self.tally.unexpected.other_protocol += 1,
        }
    }

    /// Counts an ICMP error about a question to this address: the port is closed (`refused`), or there is no
    /// way to it. To an address that was not asked (a broadcast's) it counts for no device.
    pub fn undelivered(&mut self, to: SocketAddr, refused: bool) {
        let Some(index) = self.by_address.get(&to) else { return };
        let counts = &mut self.tally.devices[*index].counts;
        *(if refused { &mut counts.refused } else { &mut counts.unreachable }) += 1;
    }

    /// The tick is over: its last answer ends the cycle, if all have come.
    pub fn done(&mut self, now_ns: i64) -> Closed {
        self.count_time(now_ns);
        let (turn, finding) = (self.turn, std::mem::take(&mut self.finding));
        let complete = finding || (self.waiting == 0 && !self.unsent);
        let cycle_ns = (complete && !finding).then(|| self.last_answer_ns - turn.begun_ns);
        if let Some(cycle_ns) = cycle_ns {
            let at_ns = turn.begun_ns - self.start_ns;
            self.tally.cycle.push(at_ns, cycle_ns);
            if let Some(excursion) = self.watch.see(at_ns, cycle_ns) {
                self.tally.excursions.push(excursion);
            }
        }
        self.tally.incomplete += u64::from(!complete);
        Closed { turn, complete, cycle_ns }
    }

    /// A tick that is paced has its whole period.
    fn count_time(&mut self, now_ns: i64) {
        let to_ns = if self.turn.period_ns > 0 { now_ns.max(self.turn.ends_ns) } else { now_ns };
        self.tally.planned.duration_ns += (to_ns - self.counted_to_ns).max(0);
        self.counted_to_ns = self.counted_to_ns.max(to_ns);
    }

    /// A question could not be sent.
    pub fn unsent(&mut self, device: usize) {
        self.tally.devices[device].counts.unsent += 1;
        self.devices[device].asked[slot(self.turn.sequence)] = NEVER;
        self.open_questions = self.open_questions.saturating_sub(1);
        self.waiting = self.waiting.saturating_sub(1);
        self.unsent = true;
    }

    /// The tick's question to all could not be sent.
    pub fn unsent_to_all(&mut self) {
        self.unsent_broadcasts += 1;
        self.tally.devices.iter_mut().for_each(|device| device.counts.unsent += 1);
        let slot = slot(self.turn.sequence);
        self.asked[slot] = NEVER;
        self.devices.iter_mut().for_each(|device| device.asked[slot] = NEVER);
        self.open_questions = self.open_questions.saturating_sub(self.devices.len() as u64);
        (self.waiting, self.finding, self.unsent) = (0, false, true);
    }

    /// Counts a round trip's parts, as the kernel's own times show them.
    pub fn splits(&mut self, parts: Option<Parts>) {
        self.tally.split.record(parts);
    }

    /// What was counted and measured since the run began, or since [`Ledger::exchange`].
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Questions of the last [`WINDOW`] ticks that have no answer so far.
    pub fn open_questions(&self) -> u64 {
        self.open_questions
    }

    /// What became of the questions to each device, since the run began or since [`Ledger::exchange`].
    pub fn counts(&self) -> impl Iterator<Item = (SocketAddr, Counts)> + '_ {
        self.tally.devices.iter().map(|device| (device.address, device.counts))
    }
}

fn slot(sequence: u64) -> usize {
    sequence as usize % WINDOW
}

fn count(counter: &mut u64) -> Incoming {
    *counter += 1;
    Incoming::Unexpected
}

#[cfg(test)]
mod tests;
