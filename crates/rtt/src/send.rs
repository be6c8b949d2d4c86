//! The sender: asks at a fixed rate and writes down what comes back.
use super::checkpoint::{Began, Checkpoints, Exchange};
use super::ledger::{Arrival, Incoming, Ledger, Turn};
use super::log::{AskedTick, Tap};
use super::packet::{HEADER, MAX_PAYLOAD, Packet, PacketKind, Refusal};
use super::plan::{Ask, Plan};
use super::results::Results;
use super::sample::{RoundTrip, address_bytes};
use super::socket::{Came, Socket};
use super::tally::Parts;
use super::{Counts, RttError};
use khz_link::stamps::Stamps;
use khz_rt::clock::realtime_ns;
use khz_rt::{Waiter, now_ns};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

mod seen;
#[cfg(test)]
mod tests;
mod turns;

use seen::Seen;
use turns::Turns;

/// How far the run is, for progress displays.
#[derive(Debug, Default)]
pub struct Live {
    /// Ticks made.
    pub ticks: AtomicU64,
    /// Answers received.
    pub answered: AtomicU64,
    /// Ticks without all their answers.
    pub incomplete: AtomicU64,
    /// Planned ticks that were not made.
    pub missed: AtomicU64,
    /// The longest round trip so far, ns.
    pub worst_ns: AtomicI64,
}

/// How long answers to the last tick are waited for.
const GRACE_NS: i64 = 1_000_000_000;

/// After so long without an answer from devices at which no program listens, more questions would show nothing new.
const REFUSED_NS: i64 = 1_000_000_000;

/// Runs a plan on the calling thread.
pub struct Sender {
    plan: Plan,
    socket: Socket,
    /// All questions go to one device: the socket is connected to it, which saves the kernel looking it up.
    connected: bool,
    run: u64,
    question: Vec<u8>,
    answer: Vec<u8>,
    log: Option<Tap>,
    exchange: Option<Exchange>,
    /// What was asked for and is not to be had.
    notes: Vec<String>,
    /// The last question to each device (a broadcast is one), if the kernel is asked for times.
    questions: Vec<Question>,
    /// How many datagrams the kernel has counted.
    counted: u32,
    /// A tick was begun and not ended.
    open: bool,
    seen: Seen,
    worst_ns: i64,
}

/// A question as the kernel counts it.
#[derive(Debug, Clone, Copy)]
struct Question {
    sequence: u64,
    number: u32,
    at_ns: i64,
}

const NO_QUESTION: Question = Question { sequence: u64::MAX, number: 0, at_ns: 0 };

/// Two clocks cannot be read at once: by so much a part of a round trip may seem to be below nothing.
const CLOCK_GRAIN_NS: i64 = 1_000;

impl Sender {
    /// Makes ready: checks the plan, binds the socket and sends nothing yet.
    ///
    /// # Errors
    /// If the plan cannot be, or the socket not be had.
    pub fn new(plan: Plan) -> Result<Self, RttError> {
        plan.check()?;
        let address = plan.bind_address();
        let mut socket =
            Socket::bind(address, plan.receive).map_err(|source| RttError::Bind { address, source })?;
        let mut notes = Vec::new();
        if plan.busy_poll_us > 0
            && let Err(error) = socket.busy_poll(plan.busy_poll_us)
        {
            notes.push(format!(
                "busy polling for {} µs was refused ({error}): more than net.core.busy_read needs CAP_NET_ADMIN",
                plan.busy_poll_us
            ));
        }
        if let Err(error) = socket.explain() {
            notes.push(format!("the kernel reports neither arrival times nor closed ports: {error}"));
        }
        let mut questions = Vec::new();
        if plan.stamps {
            match socket.stamp() {
                Ok(()) => questions = vec![NO_QUESTION; plan.targets.len()],
                Err(error) => notes.push(format!("the kernel reports no times of datagrams: {error}")),
            }
        }
        socket.inner().set_broadcast(plan.ask == Ask::Broadcast)?;
        notes.extend(plan.targets.iter().find_map(|target| split_up(*target, plan.payload)));
        let connected = plan.targets.len() == 1 && plan.ask != Ask::Broadcast;
        if connected {
            socket.inner().connect(plan.targets[0]).map_err(|source| cannot_send(&plan, 0, source))?;
        }
        let (question, answer) = (vec![0; plan.payload], vec![0; MAX_PAYLOAD]);
        Ok(Self {
            plan,
            socket,
            connected,
            run: random(),
            question,
            answer,
            log: None,
            exchange: None,
            notes,
            questions,
            counted: 0,
            open: false,
            seen: Seen::default(),
            worst_ns: 0,
        })
    }

    /// With means to look at the results while the run goes on.
    pub fn checkpoints(mut self) -> (Self, Checkpoints) {
        let (exchange, checkpoints) = Checkpoints::new(&self.plan, &self.notes);
        self.exchange = Some(exchange);
        (self, checkpoints)
    }

    /// Every round trip and tick goes to a log, a stream or both, too.
    pub fn log_to(mut self, log: Tap) -> Self {
        self.log = Some(log);
        self
    }

    /// Runs the plan to its end, until `stop` is set, or until every device has refused for a second and none has answered.
    ///
    /// The calling thread gets the plan's set-up. A tick allocates nothing, unless a broadcast is answered by
    /// a device for the first time.
    ///
    /// # Errors
    /// If the thread cannot be set up, the first question cannot be sent, or the socket breaks.
    pub fn run(mut self, stop: &AtomicBool, live: &Live) -> Result<Results, RttError> {
        let granted = self.plan.setup.apply()?;
        let waiter = Waiter::new(self.plan.wake)?;
        let start_ns = now_ns() + 1_000_000;
        let begun_ns = realtime_ns() + 1_000_000;
        if let Some(exchange) = &self.exchange {
            exchange.begin(Began { setup: granted.report.clone(), begun_ns });
        }
        let devices: &[SocketAddr] = if self.plan.ask == Ask::Broadcast { &[] } else { &self.plan.targets };
        let mut ledger = Ledger::new(self.run, start_ns, devices);
        let before = khz_rt::Usage::read();
        let mut turns = Turns::new(&self.plan, waiter, start_ns);
        while !stop.load(Ordering::Relaxed) {
            let Some(turn) = turns.next() else { break };
            self.close(&mut ledger, true, live)?;
            self.tick(&mut ledger, turn)?;
            if ledger.waiting() == 0 {
                self.close(&mut ledger, false, live)?;
            }
            if turn.period_ns > 0 {
                self.listen(&mut ledger, turns::until_ns(turn))?;
            }
            turns.finished();
            if turn.begun_ns - start_ns > REFUSED_NS && self.is_refused(&ledger) {
                self.notes.push("ended early: every device refused, and none answered".to_owned());
                break;
            }
        }
        self.finish(&mut ledger, &turns, live)?;
        let usage = khz_rt::Usage::read().since(&before);
        let results =
            Results::new(&self.plan, ledger.tally(), &granted.report, begun_ns, usage.steal_total_ns());
        self.seen.add_notes(&self.plan, &mut self.notes);
        Ok(Results { notes: self.notes, ..results })
    }

    fn tick(&mut self, ledger: &mut Ledger, turn: Turn) -> Result<(), RttError> {
        let (sequence, until_ns) = (turn.sequence, turns::until_ns(turn));
        ledger.tick(turn);
        self.open = true;
        match self.plan.ask {
            Ask::Together => {
                for device in 0..self.plan.targets.len() {
                    self.ask(ledger, sequence, device)?;
                }
            }
            Ask::Singly => {
                let devices = self.plan.targets.len();
                for device in 0..devices {
                    let silent = ledger.waiting();
                    self.ask(ledger, sequence, device)?;
                    // Each may take an equal share of what is left, so that one silent device costs no other its turn.
                    let now_ns = now_ns();
                    let share_ns = (until_ns - now_ns) / (devices - device) as i64;
                    self.collect(ledger, silent, now_ns + share_ns)?;
                }
            }
            Ask::Broadcast => {
                ledger.asks_all(self.plan.expect, now_ns());
                if let Err(source) = self.send(sequence, 0) {
                    self.first_must_go(sequence, 0, source)?;
                    ledger.unsent_to_all();
                }
            }
        }
        self.collect(ledger, 0, until_ns)
    }

    /// No program listens at any of the devices. A kernel limits how often it reports that, so one report of each is enough.
    fn is_refused(&self, ledger: &Ledger) -> bool {
        let is_refused = |(_, counts): (SocketAddr, Counts)| counts.refused > 0;
        self.seen.is_refused() && self.plan.ask != Ask::Broadcast && ledger.counts().all(is_refused)
    }

    /// Ends the tick that is open, if one is. What came while the sender waited for the next (`waited`) is taken before.
    fn close(&mut self, ledger: &mut Ledger, waited: bool, live: &Live) -> Result<(), RttError> {
        if waited && ledger.open_questions() > 0 {
            self.drain(ledger)?;
        }
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        let closed = ledger.done(now_ns());
        if let Some(log) = &mut self.log {
            log.tick(realtime_ns(), &AskedTick::new(self.run, ledger.start_ns(), &closed));
        }
        live.ticks.fetch_add(1, Ordering::Relaxed);
        live.incomplete.fetch_add(u64::from(!closed.complete), Ordering::Relaxed);
        live.missed.fetch_add(closed.turn.missed, Ordering::Relaxed);
        live.answered.store(self.seen.answered, Ordering::Relaxed);
        live.worst_ns.store(self.worst_ns, Ordering::Relaxed);
        if let Some(exchange) = &mut self.exchange {
            exchange.serve(ledger);
        }
        Ok(())
    }

    /// The end of a run: the last tick has its whole time, then late answers are waited for.
    fn finish(&mut self, ledger: &mut Ledger, turns: &Turns, live: &Live) -> Result<(), RttError> {
        if self.open {
            self.collect(ledger, 0, turns.ends_ns())?;
            self.close(ledger, false, live)?;
        }
        let missed = turns.missed_at_the_end();
        ledger.missed_at_the_end(missed, now_ns());
        live.missed.fetch_add(missed, Ordering::Relaxed);
        self.listen(ledger, now_ns() + GRACE_NS)?;
        self.take_undelivered(ledger);
        Ok(())
    }

    fn ask(&mut self, ledger: &mut Ledger, sequence: u64, device: usize) -> Result<(), RttError> {
        ledger.asks(device, now_ns());
        if let Err(source) = self.send(sequence, device) {
            self.first_must_go(sequence, device, source)?;
            ledger.unsent(device);
        }
        Ok(())
    }

    fn send(&mut self, sequence: u64, device: usize) -> std::io::Result<()> {
        let at_ns = now_ns();
        let packet =
            Packet { kind: PacketKind::Request, run: self.run, sequence, sent_ns: at_ns, held_ns: 0 };
        packet.write(&mut self.question);
        let sent = match self.put(device) {
            // The failure is of an earlier question, which the kernel reports once, on the next call.
            Err(error) if self.socket.failed_for_earlier(&error) => self.put(device),
            sent => sent,
        };
        if let Some(question) = self.questions.get_mut(device) {
            *question = Question { sequence, number: self.counted, at_ns };
            self.counted = self.counted.wrapping_add(1);
        }
        if let Err(error) = sent {
            self.count_anew()?;
            return Err(error);
        }
        Ok(())
    }

    fn put(&self, device: usize) -> std::io::Result<usize> {
        match self.connected {
            true => self.socket.inner().send(&self.question),
            false => self.socket.inner().send_to(&self.question, self.plan.targets[device]),
        }
    }

    /// Whether the kernel counted a datagram it did not send is its own affair, so both begin again.
    fn count_anew(&mut self) -> std::io::Result<()> {
        if !self.questions.is_empty() {
            self.socket.stamp()?;
            self.questions.fill(NO_QUESTION);
            self.counted = 0;
        }
        Ok(())
    }

    /// The parts of a round trip, if the kernel's times of it are all there and make sense.
    fn parts(&mut self, packet: &Packet, device: usize, came_ns: i64, came: Stamps) -> Option<Parts> {
        let broadcast = self.plan.ask == Ask::Broadcast;
        let question = *self.questions.get(if broadcast { 0 } else { device })?;
        if question.sequence != packet.sequence {
            return None;
        }
        let sent = self.socket.sent(question.number)?;
        let (out, back) = (sent.software_ns?, came.software_ns?);
        let ahead_ns = realtime_ns() - now_ns();
        let (out_ns, back_ns) = (out - ahead_ns - question.at_ns, came_ns - (back - ahead_ns));
        let sound = out_ns >= -CLOCK_GRAIN_NS && back_ns >= -CLOCK_GRAIN_NS && back >= out;
        sound.then(|| Parts {
            out_ns: out_ns.max(0),
            between_ns: back - out,
            back_ns: back_ns.max(0),
            card_ns: sent
                .hardware_ns
                .zip(came.hardware_ns)
                .map(|(out, back)| back - out)
                .filter(|ns| *ns >= 0),
        })
    }

    /// If the first query cannot be sent, the plan is wrong; later failures are the network's, and are counted.
    fn first_must_go(&self, sequence: u64, device: usize, source: std::io::Error) -> Result<(), RttError> {
        // A refusal is the answer to an earlier question to a closed port, not to this one.
        if sequence > 0 || source.kind() == std::io::ErrorKind::ConnectionRefused {
            return Ok(());
        }
        Err(cannot_send(&self.plan, device, source))
    }

    /// Takes answers until no more than `rest` are missing, or the time is up.
    fn collect(&mut self, ledger: &mut Ledger, rest: usize, until_ns: i64) -> Result<(), RttError> {
        while ledger.waiting() > rest && self.receive(ledger, until_ns, true)? {}
        Ok(())
    }

    /// Takes late answers as long as any may come, or until the time is up.
    fn listen(&mut self, ledger: &mut Ledger, until_ns: i64) -> Result<(), RttError> {
        while ledger.open_questions() > 0 && self.receive(ledger, until_ns, true)? {}
        Ok(())
    }

    /// Takes what came meanwhile, and no more than the devices could have sent, so that a flood does not hold up the tick.
    fn drain(&mut self, ledger: &mut Ledger) -> Result<(), RttError> {
        let most = 64 + 2 * ledger.waiting().max(self.plan.targets.len());
        for _ in 0..most {
            if !self.receive(ledger, 0, false)? {
                break;
            }
        }
        self.take_undelivered(ledger);
        Ok(())
    }

    /// Takes to the ledger which questions did not get to their device.
    fn take_undelivered(&mut self, ledger: &mut Ledger) {
        while let Some((to, refused)) = self.socket.undelivered() {
            ledger.undelivered(to, refused);
            self.seen.undelivered(to, refused);
        }
    }

    /// Takes one datagram to the ledger; false if none came in time. `attended`: whatever comes from now on is seen at
    /// once.
    fn receive(&mut self, ledger: &mut Ledger, until_ns: i64, attended: bool) -> Result<bool, RttError> {
        let Some(Came { length, from, stamps }) = self.socket.receive(&mut self.answer, until_ns)? else {
            return Ok(false);
        };
        let read_ns = now_ns();
        let packet = match Packet::read(&self.answer[..length]) {
            Ok(packet) => packet,
            Err(refusal) => {
                ledger.receive_unreadable(from, refusal);
                return Ok(true);
            }
        };
        // A device copies what it got; the times of anything else are not those of this payload.
        let ours = packet.kind == PacketKind::Reply && packet.run == self.run;
        if ours && self.answer[HEADER..length] != self.question[HEADER..] {
            ledger.receive_unreadable(from, Refusal::Damaged);
            return Ok(true);
        }
        let kernel_ns = if attended { None } else { stamps.software_ns.and_then(on_our_clock) };
        let incoming = ledger.receive(&packet, from, Arrival { read_ns, kernel_ns, attended });
        if let Incoming::Answer { device, round_trip_ns, unstamped, .. } = incoming {
            self.seen.answered += 1;
            self.seen.unattended += u64::from(!attended);
            self.seen.unstamped += u64::from(unstamped);
            self.worst_ns = self.worst_ns.max(round_trip_ns);
            if !self.questions.is_empty() {
                let parts = self.parts(&packet, device, read_ns, stamps);
                self.seen.split += u64::from(parts.is_some());
                self.seen.split_by_card += u64::from(parts.is_some_and(|parts| parts.card_ns.is_some()));
                ledger.splits(parts);
            }
        }
        self.log_answer(&packet, from, incoming);
        Ok(true)
    }

    /// Logs an answer.
    fn log_answer(&mut self, packet: &Packet, from: SocketAddr, incoming: Incoming) {
        let Incoming::Answer { asked_ns, round_trip_ns, late, .. } = incoming else { return };
        let Some(log) = &mut self.log else { return };
        let sample = RoundTrip {
            run: self.run,
            sequence: packet.sequence,
            device: address_bytes(from),
            device_port: from.port(),
            sender: [0; 16],
            asked_ns,
            round_trip_ns,
            held_ns: packet.held_ns,
            late,
        };
        log.put(realtime_ns(), &sample);
    }
}

/// What to know if a datagram does not fit the way to a device in one piece.
fn split_up(target: SocketAddr, payload: usize) -> Option<String> {
    let (any, headers): (SocketAddr, _) = match target {
        SocketAddr::V4(_) => ((Ipv4Addr::UNSPECIFIED, 0).into(), 20 + 8),
        SocketAddr::V6(_) => ((Ipv6Addr::UNSPECIFIED, 0).into(), 40 + 8),
    };
    let way = UdpSocket::bind(any).ok()?;
    way.set_broadcast(true).ok()?;
    way.connect(target).ok()?;
    let mtu = if target.is_ipv4() { sockopt::ip_mtu(&way) } else { sockopt::ipv6_mtu(&way) }.ok()? as usize;
    (payload + headers > mtu).then(|| {
        format!(
            "a payload of {payload} bytes does not fit the MTU of {mtu} on the way to {target}: it travels in pieces, and \
             is lost if one is; use --payload {} or less, or a larger MTU",
            mtu.saturating_sub(headers)
        )
    })
}

fn cannot_send(plan: &Plan, device: usize, source: std::io::Error) -> RttError {
    let hint = match Errno::from_io_error(&source) {
        Some(Errno::MSGSIZE) => {
            "larger than the network's MTU, and the system does not split it up; use a smaller --payload"
        }
        Some(Errno::ACCESS) => "a broadcast address needs --ask broadcast",
        _ => "is there a route to it? (ip route get ADDRESS)",
    };
    RttError::Send { address: plan.targets[device], payload: plan.payload, source, hint }
}

/// A time of the kernel on the clock the sender measures by; none if the two clocks cannot be read together.
fn on_our_clock(realtime: i64) -> Option<i64> {
    const TRIES: usize = 4;
    let near = (0..TRIES).find_map(|_| {
        let (before_ns, ahead_ns, after_ns) = (now_ns(), realtime_ns(), now_ns());
        (after_ns - before_ns <= CLOCK_GRAIN_NS).then(|| ahead_ns - (before_ns + after_ns) / 2)
    });
    near.map(|ahead_ns| realtime - ahead_ns)
}

/// A number that cannot be guessed, from the seed the standard library draws from the system for its hash maps. Of 53 bits, so
/// that programs that keep numbers as float64 have all of it.
fn random() -> u64 {
    RandomState::new().build_hasher().finish() >> 11
}
