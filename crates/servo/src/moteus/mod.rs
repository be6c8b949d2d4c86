//! mjbots' moteus: the register protocol, one query and one reply per servo and cycle.
//!
//! # Which query does a reply answer?
//! Replies carry no sequence number. But a device answers the reads of a query in their order, so the order varies from query
//! to query: the first read of a reply names its query, at no cost in bytes while replies keep coming. No query is given the
//! order of one that is still unanswered; where the orders do not suffice, the query reads a further register first.
//!
//! What cannot be distinguished: a reply that comes more than 600 queries after its own while none between was answered,
//! one that was overtaken by the answer to a later query more than 64 queries ago, and the first of several duplicates if
//! it comes exactly as many ticks late as the query has orders. From then on duplicates are recognised.

mod by_hand;
mod codec;
mod misread;
mod queries;
mod settings;

pub use settings::{CommandFormat, Format, QueryFormat};

use crate::about::OnBus;
use crate::{
    Carries, FamilySettings, Identifiers, Mounting, Occasion, ServoCommand, ServoPlan, ServoState, Servos,
    Taken,
};
use codec::{Codec, Read};
use khz_wire::address::BROADCAST;
use khz_wire::{Address, Class, Frame, Mode, Request};
use queries::{Answer, Queries, Symbol};
use std::f64::consts::TAU;

/// The host's id on the bus.
const HOST: u8 = 0;
/// The prefix of all identifiers.
const PREFIX: u16 = 0;

/// How the values of one servo travel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// How commands travel.
    pub command: CommandFormat,
    /// How its state travels.
    pub query: QueryFormat,
}

/// A velocity or torque that is not sent is 0 for the servo: it does less than was asked, so nothing is cut.
fn unless_left_out(class: Class, format: Format) -> f64 {
    if format == Format::None { f64::INFINITY } else { format.reach(class) }
}

impl FamilySettings for Settings {
    fn carries(&self, mounting: &Mounting) -> Carries {
        let Self { command, query } = self;
        Carries {
            zero: mounting.offset,
            position: command.position.reach(Class::Position),
            velocity: unless_left_out(Class::Velocity, command.velocity),
            torque: unless_left_out(Class::Torque, command.torque),
            max_torque: command.max_torque.reach(Class::Torque),
            least_max_torque: command.max_torque.step(Class::Torque),
            kp_scale: command.kp_scale != Format::None,
            kd_scale: command.kd_scale != Format::None,
            kp_needs_kd: false,
            velocity_asked: query.velocity != Format::None,
            torque_asked: query.torque != Format::None,
            voltage_asked: query.voltage != Format::None,
            temperature_asked: query.temperature != Format::None,
            reported: [query.position.reach(Class::Position), query.velocity.reach(Class::Velocity)],
            reported_steps: [query.position.step(Class::Position), query.velocity.step(Class::Velocity)]
                .map(|turns| turns * TAU),
        }
    }

    fn targets(&self, limits: [f64; 2], mounting: &Mounting) -> [f64; 2] {
        let Some(format) = self.command.position.resolution() else { return limits };
        let whole_steps = |turns: [f64; 2]| Class::Position.inside(turns, format);
        mounting.narrow(limits, |servo| whole_steps(servo.map(|angle| angle / TAU)).map(|turns| turns * TAU))
    }

    fn exchange(&self, id: u8, occasion: Occasion) -> [Frame; 2] {
        codec::exchange(host_to(id), self, occasion)
    }

    /// It listens to every source, and answers the host, which is 0.
    fn identifiers(&self, id: u8) -> Vec<Identifiers> {
        let to = |id: u8| Identifiers { id: id.into(), mask: 0x7f, extended: false };
        vec![to(0), to(id), to(BROADCAST), Identifiers::EXTENDED]
    }

    fn replier(&self, frame: &Frame) -> Option<u8> {
        Address::replier(frame)
    }

    fn cut_off(&self) -> &'static str {
        "damps"
    }

    fn modes(&self) -> Vec<(u64, &'static str)> {
        Mode::ALL.map(|mode| (mode as u64, mode.name())).to_vec()
    }
}

fn host_to(id: u8) -> Address {
    Address { prefix: PREFIX, source: HOST, destination: id, reply: true }
}

/// The servos of one bus.
#[derive(Debug)]
pub struct Bus {
    servos: Vec<Servo>,
    /// Place in `servos` by id.
    by_id: Box<[Option<usize>; 128]>,
}

impl Default for Bus {
    fn default() -> Self {
        Self { servos: Vec::new(), by_id: Box::new([None; 128]) }
    }
}

/// One servo: its frame, and which of its queries are unanswered.
#[derive(Debug)]
struct Servo {
    number: usize,
    id: u8,
    codec: Codec,
    queries: Queries,
    /// Of the query in `frame`.
    symbol: Symbol,
    frame: Frame,
}

impl Bus {
    /// Adds a servo; of several with the same id, only the last one is read.
    pub fn add(&mut self, plan: &ServoPlan<&Settings>) {
        self.by_id[usize::from(plan.id & 0x7f)] = Some(self.servos.len());
        self.servos.push(Servo::new(plan));
    }
}

impl OnBus for Settings {
    const ASKED: Option<u8> = Some(0);

    fn unknown() -> Vec<Self> {
        vec![Self::default()]
    }

    type Bus = Bus;

    fn add(bus: &mut Bus, plan: &ServoPlan<&Self>) {
        bus.add(plan);
    }
}

impl Servo {
    fn new(plan: &ServoPlan<&Settings>) -> Self {
        let address = Address { prefix: PREFIX, source: HOST, destination: plan.id, reply: true };
        let mut codec = Codec::new(address, plan.family, plan.mounting, plan.watchdog_s);
        let mut frame =
            Frame::new(address.id(), &[]).unwrap_or_else(|| unreachable!("an address has 29 bits"));
        codec.encode(&ServoCommand::Stop, 0, &mut frame);
        let (rotations, marks) = codec.symbols();
        Self {
            number: plan.servo,
            id: plan.id,
            codec,
            queries: Queries::new(rotations, marks),
            symbol: 0,
            frame,
        }
    }

    fn take(&mut self, frame: &Frame, state: &mut ServoState) -> Taken {
        // Nearly all.
        if let Some(readings) = self.codec.following(frame, self.symbol)
            && let Some(sent_ns) = self.queries.newest_answered(self.symbol)
        {
            self.codec.put_following(readings, frame, state);
            state.at_ns = sent_ns;
            return Taken::State { servo: self.number, sent_ns, newest: true };
        }
        self.take_any(frame, state)
    }

    /// [`Servo::take`] of any frame.
    // Within its caller it would take the registers of the short way.
    #[inline(never)]
    fn take_any(&mut self, frame: &Frame, state: &mut ServoState) -> Taken {
        let servo = self.number;
        let straight = self.codec.straight(frame, self.symbol);
        let read = match straight {
            Some(_) => Some(Read { symbol: self.symbol, refused: false }),
            None => self.codec.read(frame.payload()),
        };
        let Some(Read { symbol, refused }) = read else { return Taken::Unexpected };
        match self.queries.answered(symbol, refused) {
            Answer::News { sent_ns, newest } if !refused => {
                match straight {
                    Some(readings) => self.codec.put(&readings.of_reply(frame), state),
                    None => self.codec.decode(frame, symbol, state),
                }
                state.at_ns = sent_ns;
                Taken::State { servo, sent_ns, newest }
            }
            Answer::Duplicate => Taken::Duplicate { servo },
            Answer::Unclear { sent_ns } => Taken::Unclear { servo, sent_ns },
            Answer::News { .. } | Answer::Overtaken | Answer::Unknown => Taken::Late { servo },
        }
    }
}

impl Servos for Bus {
    fn turns(&self) -> usize {
        self.servos.len()
    }

    fn servos(&self, turn: usize) -> &[usize] {
        self.servos.get(turn).map_or(&[], |servo| std::slice::from_ref(&servo.number))
    }

    fn unanswered(&mut self) {
        self.servos.iter_mut().for_each(|servo| servo.queries.be_wary());
    }

    fn begin(&mut self, commands: &[ServoCommand]) {
        for servo in &mut self.servos {
            servo.symbol = servo.queries.next();
            servo.codec.encode(&commands[servo.number], servo.symbol, &mut servo.frame);
        }
    }

    fn request(&self, turn: usize, part: usize) -> Option<Request<'_>> {
        let servo = self.servos.get(turn).filter(|_| part == 0)?;
        Some(Request { frame: &servo.frame, to: Some(servo.id), replies: 1 })
    }

    fn sent(&mut self, turn: usize, _: usize, now_ns: i64) -> bool {
        let servo = &mut self.servos[turn];
        servo.queries.sent(servo.symbol, now_ns);
        true
    }

    fn take(&mut self, frame: &Frame, states: &mut [ServoState]) -> Taken {
        let Address { prefix, source, destination, reply } = Address::from_id(frame.id);
        let [from, to] = [source, destination].map(|id| self.by_id[usize::from(id & 0x7f)]);
        match (from, to) {
            _ if prefix != PREFIX => Taken::Unexpected,
            (Some(place), _) if destination == HOST && !reply => {
                let servo = &mut self.servos[place];
                servo.take(frame, &mut states[servo.number])
            }
            // Our own frames do not come back: another program has sent it.
            (None, Some(place)) if codec::commands(frame) => {
                Taken::Duplicate { servo: self.servos[place].number }
            }
            _ => Taken::Unexpected,
        }
    }
}
