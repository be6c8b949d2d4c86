//! The sender: asks at a fixed rate and writes down what comes back.
use super::RttError;
use super::checkpoint::{Began, Checkpoints, Exchange};
use super::ledger::{Heard, Ledger, Parts};
use super::log::Tap;
use super::packet::{Kind, MAX_PAYLOAD, Packet};
use super::plan::{Ask, Plan};
use super::record::Stream;
use super::results::Results;
use super::sample::{RoundTrip, address_bytes};
use super::socket::{Came, Socket};
use khz_link::stamps::Stamps;
use khz_rt::clock::realtime_ns;
use khz_rt::{Overrun, Pacer, Waiter, now_ns};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// How far the run is, for whoever looks on meanwhile.
#[derive(Debug, Default)]
pub struct Live {
    /// Ticks made.
    pub ticks: AtomicU64,
    /// Answers received.
    pub answered: AtomicU64,
    /// Ticks without all their answers.
    pub incomplete: AtomicU64,
    /// The longest round trip so far, ns.
    pub worst_ns: AtomicI64,
}

/// Without a rate, how long a tick waits for answers.
const PATIENCE_NS: i64 = 200_000_000;
/// How long answers to the last tick are waited for.
const GRACE_NS: i64 = 1_000_000_000;
/// Before the next tick's time the waiting for answers ends, so that it can begin on time.
const MARGIN_NS: i64 = 100_000;

/// Runs a plan on the calling thread.
#[derive(Debug)]
pub struct Sender {
    plan: Plan,
    socket: Socket,
    /// All questions go to one device: the socket is connected to it, which saves the kernel looking it up.
    connected: bool,
    run: u64,
    question: Vec<u8>,
    answer: Vec<u8>,
    log: Option<Tap>,
    stream: Option<Stream>,
    exchange: Option<Exchange>,
    /// What was asked for and is not to be had.
    notes: Vec<String>,
    /// The last question to each device (a broadcast is one), if the kernel is asked for times.
    questions: Vec<Question>,
    /// How many datagrams the kernel has counted.
    counted: u32,
    answered: u64,
    /// Round trips of the whole run that the kernel's times split, and those that the card's did.
    split: u64,
    split_by_card: u64,
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
        let mut questions = Vec::new();
        if plan.stamps {
            match socket.stamp() {
                Ok(()) => questions = vec![NO_QUESTION; plan.targets.len()],
                Err(error) => notes.push(format!("the kernel tells no times of datagrams: {error}")),
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
            stream: None,
            exchange: None,
            notes,
            questions,
            counted: 0,
            answered: 0,
            split: 0,
            split_by_card: 0,
            worst_ns: 0,
        })
    }

    /// With means to look at the results while the run goes on.
    pub fn checkpoints(mut self) -> (Self, Checkpoints) {
        let (exchange, checkpoints) = Checkpoints::new(&self.plan, &self.notes);
        self.exchange = Some(exchange);
        (self, checkpoints)
    }

    /// Every round trip goes to a log, too.
    pub fn log_to(mut self, log: Tap) -> Self {
        self.log = Some(log);
        self
    }

    /// Every round trip goes to a recorder, too.
    ///
    /// # Errors
    /// If no socket can be had.
    pub fn stream_to(mut self, recorder: SocketAddr) -> Result<Self, RttError> {
        self.stream = Some(Stream::new(recorder, self.run)?);
        Ok(self)
    }

    /// Runs the plan to its end, or until told to stop.
    ///
    /// The calling thread gets the plan's set-up. A tick allocates nothing, unless a broadcast is answered by
    /// a device for the first time.
    ///
    /// # Errors
    /// If the thread cannot be set up, the first question cannot be sent, or the socket breaks.
    pub fn run(mut self, stop: &AtomicBool, live: &Live) -> Result<Results, RttError> {
        let granted = self.plan.setup.apply()?;
        let mut waiter = Waiter::new(self.plan.wake)?;
        let start_ns = now_ns() + 1_000_000;
        let begun_ns = realtime_ns() + 1_000_000;
        if let Some(exchange) = &self.exchange {
            exchange.begin(Began { setup: granted.report.clone(), begun_ns });
        }
        let devices: &[SocketAddr] = if self.plan.ask == Ask::Broadcast { &[] } else { &self.plan.targets };
        let mut ledger = Ledger::new(self.run, start_ns, devices);
        let mut pacer = self.plan.period_ns().map(|ns| Pacer::new(ns, Overrun::Skip, start_ns));
        let before = khz_rt::Usage::read();
        for sequence in 0..self.plan.ticks {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let (late_ns, until_ns) = match &mut pacer {
                None => (0, now_ns() + PATIENCE_NS),
                Some(pacer) => {
                    let woke_ns = waiter.wait_until(pacer.deadline_ns());
                    let Some(tick) = pacer.woke(woke_ns) else { break };
                    (tick.late_ns, pacer.deadline_ns() - MARGIN_NS)
                }
            };
            let complete = self.tick(&mut ledger, sequence, late_ns, until_ns)?;
            if let Some(pacer) = &mut pacer {
                pacer.finished(now_ns());
            }
            live.ticks.store(sequence + 1, Ordering::Relaxed);
            live.incomplete.fetch_add(u64::from(!complete), Ordering::Relaxed);
            live.answered.store(self.answered, Ordering::Relaxed);
            live.worst_ns.store(self.worst_ns, Ordering::Relaxed);
            if let Some(exchange) = &mut self.exchange {
                exchange.serve(&mut ledger);
            }
        }
        self.collect_stragglers(&mut ledger)?;
        if let Some(stream) = &mut self.stream {
            stream.send();
        }
        let usage = khz_rt::Usage::read().since(&before);
        if self.plan.stamps && self.answered > 0 && self.split == 0 {
            self.notes.push(
                "no round trip could be split: the kernel told no times of sending or of arrival".into(),
            );
        }
        if self.plan.stamps && self.answered > 0 && self.split_by_card == 0 {
            self.notes.push(
                "the network card told no times of its own (it needs `hwstamp_ctl -i INTERFACE -t 1 -r 1`, if it can)"
                    .into(),
            );
        }
        let results =
            Results::new(&self.plan, ledger.tally(), &granted.report, begun_ns, usage.steal_total_ns());
        Ok(Results { notes: self.notes, ..results })
    }

    fn tick(
        &mut self,
        ledger: &mut Ledger,
        sequence: u64,
        late_ns: i64,
        until_ns: i64,
    ) -> Result<bool, RttError> {
        let begun_ns = now_ns();
        ledger.tick(sequence, begun_ns, late_ns);
        match self.plan.ask {
            Ask::Together => {
                for device in 0..self.plan.targets.len() {
                    self.ask(ledger, sequence, device)?;
                }
                self.collect(ledger, 0, until_ns)?;
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
                self.collect(ledger, 0, until_ns)?;
            }
            Ask::Broadcast => {
                ledger.asks_all(self.plan.expect, now_ns());
                if let Err(source) = self.send(sequence, 0) {
                    self.first_must_go(sequence, 0, source)?;
                    ledger.unsent_to_all();
                }
                self.collect(ledger, 0, until_ns)?;
            }
        }
        Ok(ledger.done())
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
        let packet = Packet { kind: Kind::Request, run: self.run, sequence, sent_ns: at_ns, held_ns: 0 };
        packet.write(&mut self.question);
        let sent = match self.connected {
            true => self.socket.inner().send(&self.question),
            false => self.socket.inner().send_to(&self.question, self.plan.targets[device]),
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

    /// That the first question cannot be sent is a mistake in the plan; later it is the network's doing, and counted.
    fn first_must_go(&self, sequence: u64, device: usize, source: std::io::Error) -> Result<(), RttError> {
        // A refusal is the answer to an earlier question to a closed port, not to this one.
        if sequence > 0 || source.kind() == std::io::ErrorKind::ConnectionRefused {
            return Ok(());
        }
        Err(cannot_send(&self.plan, device, source))
    }

    /// Takes answers until no more than `rest` are missing, or the time is up.
    fn collect(&mut self, ledger: &mut Ledger, rest: usize, until_ns: i64) -> Result<(), RttError> {
        while ledger.waiting() > rest {
            if !self.hear(ledger, until_ns)? {
                break;
            }
        }
        Ok(())
    }

    fn collect_stragglers(&mut self, ledger: &mut Ledger) -> Result<(), RttError> {
        let until_ns = now_ns() + GRACE_NS;
        while ledger.open_questions() > 0 && self.hear(ledger, until_ns)? {}
        Ok(())
    }

    /// Takes one datagram to the books; false if none came in time.
    fn hear(&mut self, ledger: &mut Ledger, until_ns: i64) -> Result<bool, RttError> {
        let Some(Came { length, from, stamps }) = self.socket.receive(&mut self.answer, until_ns)? else {
            return Ok(false);
        };
        let came_ns = now_ns();
        match Packet::read(&self.answer[..length]) {
            Ok(packet) => {
                let heard = ledger.hears(&packet, from, came_ns);
                if let Heard::Answer { device, round_trip_ns, .. } = heard {
                    self.answered += 1;
                    self.worst_ns = self.worst_ns.max(round_trip_ns);
                    if !self.questions.is_empty() {
                        let parts = self.parts(&packet, device, came_ns, stamps);
                        self.split += u64::from(parts.is_some());
                        self.split_by_card += u64::from(parts.is_some_and(|parts| parts.card_ns.is_some()));
                        ledger.splits(parts);
                    }
                }
                self.tell(&packet, from, heard);
            }
            Err(_) => ledger.hears_foreign(),
        }
        Ok(true)
    }

    /// Tells an answer to the log and the recorder.
    fn tell(&mut self, packet: &Packet, from: SocketAddr, heard: Heard) {
        let Heard::Answer { asked_ns, round_trip_ns, now, .. } = heard else { return };
        if self.log.is_none() && self.stream.is_none() {
            return;
        }
        let sample = RoundTrip {
            run: self.run,
            sequence: packet.sequence,
            device: address_bytes(from),
            device_port: from.port(),
            sender: [0; 16],
            asked_ns,
            round_trip_ns,
            held_ns: packet.held_ns,
            late: !now,
        };
        if let Some(log) = &mut self.log {
            log.put(realtime_ns(), sample);
        }
        if let Some(stream) = &mut self.stream {
            stream.put(&sample);
        }
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

/// A number nobody can guess, from the seed the standard library draws from the system for its hash maps.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtt::{Echo, Receive};
    use khz_link::stamps;
    use khz_rt::{Setup, Wake};
    use std::os::fd::AsFd;
    use std::time::Instant;

    fn plan(targets: Vec<SocketAddr>, ticks: u64) -> Plan {
        Plan {
            ticks,
            rate_hz: Some(2_000.0),
            setup: Setup::ordinary(),
            wake: Wake::Sleep,
            ..Plan::new(targets)
        }
    }

    /// Runs a plan against echoes on loopback, one thread each.
    fn against_echoes(devices: usize, alter: impl FnOnce(&mut Plan)) -> Results {
        let loopback = || Echo::bind((Ipv4Addr::LOCALHOST, 0).into(), Receive::Block);
        let mut echoes: Vec<Echo> = (0..devices).filter_map(|_| loopback().ok()).collect();
        let mut plan = plan(echoes.iter().filter_map(|e| e.address().ok()).collect(), 100);
        alter(&mut plan);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for echo in &mut echoes {
                scope.spawn(|| echo.run(&stop));
            }
            let results = Sender::new(plan).and_then(|s| s.run(&AtomicBool::new(false), &Live::default()));
            stop.store(true, Ordering::Relaxed);
            results.unwrap_or_else(|error| panic!("{error}"))
        })
    }

    #[test]
    fn every_answer_is_accounted_for() {
        for ask in [Ask::Together, Ask::Singly] {
            let results = against_echoes(3, |plan| plan.ask = ask);
            assert_eq!((results.devices.len(), results.ticks), (3, 100));
            for device in &results.devices {
                assert_eq!(device.counts.sent, 100);
                assert_eq!(device.counts.answered + device.counts.lost() + device.counts.unsent, 100);
                assert_eq!(device.round_trip.values.count(), device.counts.answered);
            }
        }
    }

    #[test]
    fn without_a_rate_one_follows_the_other() {
        let results = against_echoes(1, |plan| plan.rate_hz = None);
        assert_eq!(results.devices[0].counts.answered, 100);
    }

    /// While it is there the kernel notes arrivals, which it would else begin with only after a while.
    fn stamping() -> std::net::UdpSocket {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap_or_else(|error| panic!("{error}"));
        stamps::enable(socket.as_fd()).unwrap_or_else(|error| panic!("{error}"));
        let begun = Instant::now();
        let stamped = || {
            let sent = socket.local_addr().and_then(|here| socket.send_to(b"x", here));
            let came = sent.and_then(|_| stamps::receive(socket.as_fd(), &mut [0; 10], true));
            came.is_ok_and(|(_, _, stamps)| stamps.software_ns.is_some())
        };
        while !stamped() {
            assert!(begun.elapsed().as_secs() < 60, "no arrival was ever stamped");
        }
        socket
    }

    #[test]
    fn the_kernels_times_split_a_round_trip() {
        let _stamping = stamping();
        for ask in [Ask::Together, Ask::Singly] {
            let results = against_echoes(3, |plan| (plan.ask, plan.stamps) = (ask, true));
            let split = results.split.clone().unwrap_or_default();
            let answered = results.counts().answered;
            assert!(answered > 0);
            // An answer that came after its tick has no question to be split by.
            assert!(split.missing < answered, "{} of {answered} not split", split.missing);
            for part in [&split.out, &split.between, &split.back] {
                assert_eq!(part.count() + split.missing, answered);
            }
            assert_eq!(split.card.count(), 0, "loopback has no card");
            assert!(results.notes.iter().any(|note| note.contains("hwstamp_ctl")), "{:?}", results.notes);
            assert_eq!(results.stack().len(), 3);
        }
    }

    #[test]
    fn every_way_of_receiving_answers_the_same() {
        for receive in [Receive::Block, Receive::Hybrid, Receive::Spin] {
            for stamps in [false, true] {
                let results = against_echoes(1, |plan| {
                    (plan.receive, plan.stamps, plan.busy_poll_us) = (receive, stamps, 50);
                });
                let counts = results.counts();
                assert_eq!(counts.answered + counts.lost() + counts.unsent, 100, "{receive:?}");
                assert!(counts.answered > 0, "{receive:?}");
            }
        }
    }

    #[test]
    fn looks_at_a_run_and_its_rest_make_the_whole() {
        let loopback = || Echo::bind((Ipv4Addr::LOCALHOST, 0).into(), Receive::Block);
        let Ok(mut echo) = loopback() else { panic!("no echo") };
        // It is stopped after a few looks; with a busy machine that may take any time.
        let plan = plan(echo.address().into_iter().collect(), 200_000);
        let (over, enough, seen) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        let (mut whole, rest) = std::thread::scope(|scope| {
            scope.spawn(|| echo.run(&over));
            let (sender, mut checkpoints) =
                Sender::new(plan).map(Sender::checkpoints).unwrap_or_else(|error| panic!("{error}"));
            let looker = scope.spawn(|| {
                let mut whole: Option<Results> = None;
                let mut looks = 0;
                while !seen.load(Ordering::Relaxed) {
                    checkpoints.ask();
                    std::thread::yield_now();
                    if let Some(looked) = checkpoints.look() {
                        match &mut whole {
                            Some(whole) => whole.absorb(&looked),
                            None => whole = Some(looked),
                        }
                        looks += 1;
                        enough.store(looks >= 3, Ordering::Relaxed);
                    }
                }
                (whole, checkpoints)
            });
            let rest = sender.run(&enough, &Live::default());
            seen.store(true, Ordering::Relaxed);
            let Ok((mut whole, mut checkpoints)) = looker.join() else { panic!("the looker broke down") };
            if let (Some(whole), Some(last)) = (&mut whole, checkpoints.look()) {
                whole.absorb(&last);
            }
            over.store(true, Ordering::Relaxed);
            let rest = rest.unwrap_or_else(|error| panic!("{error}"));
            (whole.unwrap_or_else(|| panic!("never looked")), checkpoints.rest(rest))
        });
        whole.absorb(&rest);
        assert!(rest.ticks < whole.ticks, "some were looked at before");
        let counts = whole.counts();
        assert_eq!(counts.sent, whole.ticks);
        assert_eq!(counts.answered + counts.lost() + counts.unsent, whole.ticks);
        assert_eq!(whole.round_trips().count(), counts.answered);
    }

    #[test]
    fn that_nothing_was_split_is_told_of_the_whole_run_only() {
        let told = |results: &Results| results.notes.iter().any(|note| note.contains("could be split"));
        // As when a run that was complete is to be gone on with.
        assert!(!told(&against_echoes(1, |plan| (plan.ticks, plan.stamps) = (0, true))));
        let Ok(mut echo) = Echo::bind((Ipv4Addr::LOCALHOST, 0).into(), Receive::Block) else {
            panic!("no echo")
        };
        let plan = Plan { stamps: true, ..plan(echo.address().into_iter().collect(), 1) };
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| echo.run(&over));
            let (sender, mut checkpoints) =
                Sender::new(plan).map(Sender::checkpoints).unwrap_or_else(|error| panic!("{error}"));
            // The books are exchanged in the last tick, so that those of the end are empty.
            checkpoints.ask();
            let rest = sender.run(&AtomicBool::new(false), &Live::default());
            over.store(true, Ordering::Relaxed);
            let (rest, looked) = (rest.unwrap_or_else(|error| panic!("{error}")), checkpoints.look());
            let mut whole = looked.unwrap_or_else(|| panic!("nothing to look at"));
            whole.absorb(&rest);
            let split = whole.split.as_ref().is_some_and(|split| split.out.count() > 0);
            assert_eq!(told(&rest), whole.counts().answered > 0 && !split);
        });
    }

    #[test]
    fn nobody_there_is_all_lost() {
        // A port that was free a moment ago may be another test's by now.
        let plan = plan(vec![(Ipv4Addr::LOCALHOST, 1).into()], 5);
        let results = Sender::new(plan).and_then(|s| s.run(&AtomicBool::new(false), &Live::default()));
        let device = results.map(|r| r.devices[0].counts).unwrap_or_default();
        assert_eq!((device.sent, device.answered), (5, 0));
    }

    #[test]
    fn plans_that_cannot_be_say_why() {
        let target: SocketAddr = (Ipv4Addr::LOCALHOST, 9).into();
        let six: SocketAddr = (Ipv6Addr::LOCALHOST, 9).into();
        let base = || Plan::new(vec![target]);
        let table: [(Plan, &str); 8] = [
            (Plan::new(vec![]), "no device"),
            (Plan { payload: 47, ..base() }, "use 48 to 65507"),
            (Plan { payload: 65_508, ..base() }, "use 48 to 65507"),
            (Plan { rate_hz: Some(0.0), ..base() }, "0.001 to 100000"),
            (Plan { rate_hz: Some(f64::NAN), ..base() }, "0.001 to 100000"),
            (Plan::new(vec![target, six]), "IPv4 and IPv6"),
            (Plan { ask: Ask::Broadcast, ..Plan::new(vec![target, target]) }, "one address"),
            (Plan::new(vec![target, target]), "127.0.0.1:9 is named twice"),
        ];
        for (plan, words) in table {
            let error = Sender::new(plan).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(words), "{error}");
        }
    }
}
