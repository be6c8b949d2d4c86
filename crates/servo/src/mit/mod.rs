//! Servos in MIT mode, whichever family: position, velocity, two gains and a torque in each command, and one reply to it.
//!
//! What families have in common is here; what they send and what their frames mean is a [`Protocol`], in a module of each.
//!
//! # What is different from moteus
//! - The position and velocity gains travel with every command, so the robot file has them.
//! - Their watchdog switches the output off: a joint that is cut off goes limp. Damping exists only while commands come.
//! - No greatest torque travels.
//! - A fault is cleared before the first tick only, never by the loop; but for that of the watchdog, where `supervisor.recover` allows it.
//! - The output has to be enabled by a frame of its own. That is done after each [`ServoCommand::Stop`]: a servo that is
//!   found off in between has lost its power or was switched off by another host, and is left alone. One that is found on after a
//!   stop is switched off before it is driven.
//! - What was set before the first tick is lost with the power. So a run writes its *mark*, 1 to 15 steps of something that no servo
//!   has had before and that does no harm: whatever a servo has in its flash, it is something else. It is read before
//!   a servo is enabled and after every missed reply. One that reports something else, or a write by another host, counts as faulted:
//!   it is not driven until it has been made ready again.
//! - The range of a code is not in the frame. Where a servo cannot be asked for it, its velocities are compared with
//!   its positions while it moves (`motion`).
//! - A reply carries nothing that names its request; see below.
//!
//! # Which request does a reply answer?
//! Each request has exactly one reply, and states come in the order of their commands. The value of a register comes behind all
//! states before it, but not always before those after it: its identifier is higher, and while a bus is full it waits (a RobStride
//! servo was recorded whose value came 3.6 ms after it was asked for, behind two later states). So what a value shows is of the past: a
//! state that comes after it is dated to the first command behind the value, and its data may look older than they are, never newer.
//!
//! While every command is answered within its cycle, the
//! next state answers this cycle's. After a miss the servo is out of step: in the next cycle a register is read instead of a
//! command, and its value, which cannot be mistaken, shows that nothing older is to come. As long as it does not come,
//! commands and registers take turns; so a bus carries no more than it does otherwise, and a servo that does not reply is still commanded
//! to stop. A state that comes in the cycle of such a command is not used, but is no miss either, as long as nothing came late.
//! Thirteen registers take turns.
//!
//! Where no register can be read, nothing is sent for 5 ms after a miss: what has not come by then never will, as far
//! as anybody knows. Then comes a command, and if that is missed, too, quiet again.
//!
//! What cannot be distinguished: a reply that comes more than 200 cycles after a miss, or, without registers, later than that
//! quiet; and the reply to another host's request if it comes before this cycle's own. Further replies within a cycle are duplicates,
//! and keep a robot from being armed.

pub(crate) mod by_hand;
pub(crate) mod codec;
mod drive;
mod motion;
pub(crate) mod queries;

pub use drive::Drive;

/// Stands in a new robot file where a servo does not report its model: no model is called so, and the file is refused until it is
/// named.
pub(crate) const UNNAMED: &str = "?";

/// The gains of a command as keys of a robot file: one who brings up a robot is to see them.
pub(crate) fn gains_in_file(kp: f64, kd: f64, damping: f64) -> String {
    format!("kp = {kp}, kd = {kd}, damping = {damping}")
}

use crate::{Doubled, Fault, Mode, Request, ServoCommand, ServoPlan, ServoState, Servos, Taken};
use codec::Codec;
use khz_wire::Frame;
use khz_wire::mit::{Codes, TIMEOUT_PER_S};
use queries::{Answer, Marked, Queries, Turn};
use std::fmt::Debug;

/// What one servo is sent, and what its frames mean: all that differs between families.
///
/// # Realtime contract
/// Nothing here allocates, but for making it.
pub trait Protocol: Debug + Send {
    /// How many registers can be read as marks: none, or 13, or what there is; with fewer a reply must be less late to be mistaken.
    const MARKS: usize;

    /// The values of so many of them, from the first on, show that a servo is as it was set: they are read after a miss.
    const WATCHED: usize;

    /// Before the first tick a servo has reported what its velocity codes mean.
    const REPORTS_RANGES: bool;

    /// For this long after the frame that switches it on, a missed reply is expected, ns: of 245 times a RobStride servo took 5 ms at
    /// most.
    const SWITCHING_NS: i64 = 6_000_000;

    /// The servo's id.
    fn id(&self) -> u8;

    /// Its codes, and the gains it is driven with.
    fn drive(&self) -> &Drive;

    /// The frame with this message, which is answered.
    fn frame(&mut self, message: Message) -> Frame;

    /// What the frame made last carries switches it on, where it was made of [`Message::Enable`]: something may have to be sent first.
    fn switches_on(&self) -> bool {
        true
    }

    /// What goes before the frame made last, in this order: that frame is a query then, and these carry the rest. They are not answered
    /// with a state.
    fn before(&self) -> &[Frame] {
        &[]
    }

    /// One of these frames was handed to the bus.
    fn sent_before(&mut self, which: usize) {
        let _ = which;
    }

    /// The frame made last was handed to the bus.
    fn sent(&mut self, now_ns: i64) {
        let _ = now_ns;
    }

    /// It has been made ready with this mark.
    fn made_ready(&mut self, mark: u32);

    /// The frame is one of its replies.
    fn is_from(&self, frame: &Frame) -> bool;

    /// The content of one of its replies.
    fn receive(&mut self, frame: &Frame) -> Received;

    /// The frame is of a second servo with its id, although it is none of its replies.
    fn is_from_twin(&mut self, frame: &Frame) -> bool {
        let _ = frame;
        false
    }
}

/// A watchdog as it travels, in steps of 50 µs. 0 would switch it off.
pub fn timeout(seconds: f64) -> u32 {
    ((seconds * TIMEOUT_PER_S).round() as u32).max(1)
}

/// A message to a servo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Follow, or damp.
    Command(Codes),
    /// Output on.
    Enable,
    /// Output off.
    Disable,
    /// Clear what its watchdog has left: sent only to a servo that reports [`Output::TimedOut`]. Its output stays off.
    Clear,
    /// Report your state, and change nothing. It may be sent as [`Message::Disable`]: the output is off.
    Ask,
    /// Report the register of this mark.
    Mark(usize),
}

/// The content of a reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Received {
    /// What the servo does and measures.
    State(Reported),
    /// The same of a servo that reports only its position while it is not driven: its velocity is what its positions change by.
    Position(Reported),
    /// It has carried out its command, or reports something that is no state.
    Done {
        /// What its output does then.
        output: Output,
        /// What is wrong with it.
        fault: Fault,
        /// It answers the newest command; otherwise one before, and shows nothing of the order.
        newest: bool,
    },
    /// A register, with its mark if it is one.
    Register {
        /// Which mark.
        mark: Option<usize>,
        /// It is not as it was set before the first tick.
        changed: bool,
        /// Nor does the servo take commands any more.
        deaf: bool,
    },
    /// A fault that it reports unasked.
    Fault(Fault),
    /// Something without its state, or was not asked for.
    Aside,
    /// Nothing that can be read.
    Nothing,
}

/// A state, in codes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reported {
    /// What its output does.
    pub output: Output,
    /// The same in the family's words, and
    pub mode: Mode,
    /// the fault it reports.
    pub fault: Fault,
    /// As it travels, as are the next two.
    pub position: u32,
    /// See [`Reported::position`].
    pub velocity: u32,
    /// See [`Reported::position`].
    pub torque: u32,
    /// °C; NaN if it does not report it.
    pub celsius: f64,
}

/// The state of a servo's output, as far as it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// No torque.
    Off,
    /// No torque yet: it was commanded to switch on, which takes it longer than a reply.
    Starting,
    /// It carries out commands.
    On,
    /// Its watchdog has switched it off, which it reports as a fault of its own, and nothing else is wrong with it.
    TimedOut,
    /// It has switched itself off.
    Faulted,
    /// It is on, or may be, for something that is no command: it reports a fault at the same time, calibrates, or its report is not
    /// understood.
    Astray,
    /// Not reported: as last commanded.
    AsCommanded,
}

/// The servos of one family on one bus.
#[derive(Debug)]
pub struct Bus<P> {
    servos: Vec<Servo<P>>,
    /// So many of them are asked for a register in this cycle.
    reading: usize,
    /// The first whose turn it is to be verified: one that does not answer must not keep the others waiting.
    first: usize,
}

impl<P> Default for Bus<P> {
    fn default() -> Self {
        Self { servos: Vec::new(), reading: 0, first: 0 }
    }
}

/// What a frame of a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Mark,
    /// See [`Protocol::before`].
    Before(usize),
    Command,
}

/// One servo: its frames, and which of its requests are unanswered.
#[derive(Debug)]
struct Servo<P> {
    number: usize,
    protocol: P,
    codec: Codec,
    queries: Queries,
    turn: Turn,
    /// Reads the mark of the turn.
    mark: Frame,
    command: Frame,
    /// It was seen to be set as it was before the first tick since it was last commanded to stop.
    verified: bool,
    /// Cycles in which it may still be switching on.
    switching: u8,
    doubled: Doubled,
}

impl<P: Protocol> Bus<P> {
    /// Adds a servo; of several whose replies look the same, only the first one is read.
    pub fn add<F>(&mut self, plan: &ServoPlan<F>, mut protocol: P) {
        let off = protocol.frame(Message::Disable);
        self.servos.push(Servo {
            number: plan.servo,
            codec: Codec::new(protocol.drive().clone(), plan.mounting).comparing(!P::REPORTS_RANGES),
            protocol,
            queries: Queries::new(P::MARKS, P::WATCHED),
            turn: Turn::default(),
            mark: off,
            command: off,
            verified: false,
            switching: 0,
            doubled: Doubled::default(),
        });
    }

    /// A frame that is no reply of these servos.
    fn take_unknown(&mut self, frame: &Frame) -> Taken {
        for servo in &mut self.servos {
            if servo.protocol.is_from_twin(frame) {
                return Taken::Duplicate { servo: servo.number };
            }
        }
        Taken::Unexpected
    }
}

/// One in so many servos of a bus is verified in a cycle, and then switched on. A register's frames are longer than a state's: all
/// servos at once would need more of the bus than any other cycle does.
const VERIFIED_AT_ONCE: usize = 4;

impl<P: Protocol> Servo<P> {
    /// A cycle begins. `may_verify`: this servo may be verified in it. Returns whether it is.
    fn begin(&mut self, command: &ServoCommand, may_verify: bool) -> bool {
        if self.queries.has_been_silent() {
            self.codec.has_changed(codec::SILENT);
        }
        self.verified &= *command != ServoCommand::Stop;
        // Where nothing can be read, nothing can be verified.
        let verified = self.verified || P::MARKS == 0;
        let unverified = !verified && self.codec.is_to_be_enabled(command);
        let verify = unverified && may_verify;
        // Until its turn comes it is commanded to stop, as before.
        let command = if unverified && !may_verify { &ServoCommand::Stop } else { command };
        let may_look = self.codec.is_sound() && matches!(command, ServoCommand::Position(_));
        self.turn = self.queries.next(verify, may_look);
        if let Some(mark) = self.turn.mark {
            self.mark = self.protocol.frame(Message::Mark(mark));
        }
        self.switching = self.switching.saturating_sub(1);
        self.doubled.forgive();
        if self.turn.command {
            let may_enable = verified && !self.queries.is_doubtful();
            let message = self.codec.encode(command, may_enable);
            self.command = self.protocol.frame(message);
            match message == Message::Enable {
                true if self.protocol.switches_on() => {
                    self.switching = self.queries.cycles(P::SWITCHING_NS);
                }
                true => self.codec.was_not_switched_on(),
                false => {}
            }
        }
        verify
    }

    /// The parts of the present turn.
    fn part(&self, part: usize) -> Option<(&Frame, Part)> {
        let marks = usize::from(self.turn.mark.is_some());
        if part < marks {
            return Some((&self.mark, Part::Mark));
        }
        let (which, before) = (part - marks, self.protocol.before());
        match before.get(which) {
            _ if !self.turn.command => None,
            Some(frame) => Some((frame, Part::Before(which))),
            None => (which == before.len()).then_some((&self.command, Part::Command)),
        }
    }

    fn parts(&self) -> usize {
        let command = if self.turn.command { self.protocol.before().len() + 1 } else { 0 };
        usize::from(self.turn.mark.is_some()) + command
    }

    fn take_register(&mut self, mark: Option<usize>, changed: bool, deaf: bool) -> Taken {
        let servo = self.number;
        if changed {
            self.codec.has_changed(codec::CHANGED);
        }
        if deaf {
            self.codec.is_deaf();
        }
        // The loop writes no registers; a mark is read.
        let marked = mark.map_or(Marked::No, |mark| self.queries.marked(mark));
        if marked != Marked::No && mark == Some(0) {
            self.verified = true;
        }
        match marked {
            Marked::Alone { sent_ns } => Taken::Answer { servo, sent_ns },
            Marked::Late => Taken::Late { servo },
            Marked::Yes => Taken::Aside,
            Marked::No => Taken::Unexpected,
        }
    }

    /// It has answered something that we have not asked.
    fn was_asked_by_another(&mut self) {
        self.queries.look_again();
        self.doubled.count();
        if self.doubled.is_intruded() {
            self.codec.has_changed(codec::INTRUDED);
            // Damping would take turns with the commands of another host. Off, it does nothing before it is switched on again.
            self.codec.is_deaf();
        }
    }

    fn take(&mut self, frame: &Frame, state: &mut ServoState) -> Taken {
        let servo = self.number;
        let (reported, is_whole) = match self.protocol.receive(frame) {
            Received::State(reported) => (reported, true),
            Received::Position(reported) => (reported, false),
            Received::Done { output, fault, newest } => return self.take_done(output, fault, newest),
            Received::Register { mark, changed, deaf } => return self.take_register(mark, changed, deaf),
            Received::Fault(fault) => {
                self.codec.has_changed(fault);
                return Taken::Aside;
            }
            Received::Aside => return Taken::Aside,
            Received::Nothing => return Taken::Unexpected,
        };
        match self.queries.answered() {
            Answer::News { sent_ns, newest } if is_whole => {
                state.at_ns = sent_ns;
                self.codec.decode(&reported, newest, state);
                Taken::State { servo, sent_ns, newest }
            }
            Answer::News { sent_ns, newest }
                if self.codec.decode_position(&reported, sent_ns, newest, state) =>
            {
                Taken::State { servo, sent_ns, newest }
            }
            Answer::News { sent_ns, newest: true } => Taken::Answer { servo, sent_ns },
            other => self.is_no_news(other),
        }
    }

    /// Something without a state, and answers a command or not.
    fn take_done(&mut self, output: Output, fault: Fault, newest: bool) -> Taken {
        let servo = self.number;
        if fault != Fault::NONE {
            self.codec.has_changed(fault);
        }
        if output == Output::On {
            self.switching = 0;
        }
        if !newest {
            self.codec.output_reported(output, false);
            return Taken::Aside;
        }
        match self.queries.answered() {
            Answer::News { sent_ns, newest } => {
                self.codec.output_reported(output, newest);
                if newest { Taken::Answer { servo, sent_ns } } else { Taken::Late { servo } }
            }
            other => self.is_no_news(other),
        }
    }

    /// What came answers no command that is known.
    fn is_no_news(&mut self, answer: Answer) -> Taken {
        let servo = self.number;
        match answer {
            Answer::Duplicate => {
                self.was_asked_by_another();
                Taken::Duplicate { servo }
            }
            Answer::Unclear { sent_ns } => Taken::Unclear { servo, sent_ns },
            Answer::Unknown if self.switching > 0 => Taken::Aside,
            Answer::News { .. } | Answer::Unknown => Taken::Late { servo },
        }
    }
}

impl<P: Protocol> Servos for Bus<P> {
    fn made_ready(&mut self, mark: u32) {
        self.servos.iter_mut().for_each(|servo| servo.protocol.made_ready(mark));
    }

    fn turns(&self) -> usize {
        self.servos.len()
    }

    fn clear_timeout(&mut self, servo: usize) {
        let of = self.servos.iter_mut().filter(|of| of.number == servo);
        of.for_each(|servo| servo.codec.may_clear_timeout());
    }

    fn servos(&self, turn: usize) -> &[usize] {
        self.servos.get(turn).map_or(&[], |servo| std::slice::from_ref(&servo.number))
    }

    fn begin(&mut self, commands: &[ServoCommand]) {
        let mut turns = self.servos.len().div_ceil(VERIFIED_AT_ONCE);
        self.reading = 0;
        let (count, first) = (self.servos.len(), self.first);
        for place in (first..count).chain(0..first) {
            let servo = &mut self.servos[place];
            if servo.begin(&commands[servo.number], turns > 0) {
                turns -= 1;
                self.first = (place + 1) % count;
            }
            self.reading += usize::from(servo.turn.mark.is_some());
        }
    }

    fn reading(&self) -> usize {
        self.reading
    }

    fn is_reading(&self, turn: usize) -> bool {
        self.servos.get(turn).is_some_and(|servo| servo.turn.mark.is_some())
    }

    fn request(&self, turn: usize, part: usize) -> Option<Request<'_>> {
        let servo = self.servos.get(turn)?;
        let (frame, part) = servo.part(part)?;
        let replies = u16::from(!matches!(part, Part::Before(_)));
        Some(Request { frame, to: Some(servo.protocol.id()), replies })
    }

    fn sent(&mut self, turn: usize, part: usize, now_ns: i64) -> bool {
        let servo = &mut self.servos[turn];
        match servo.part(part) {
            Some((_, Part::Command)) => servo.queries.sent(now_ns),
            Some((_, Part::Mark)) => servo.queries.sent_mark(now_ns),
            Some((_, Part::Before(which))) => servo.protocol.sent_before(which),
            None => {}
        }
        servo.protocol.sent(now_ns);
        part + 1 >= servo.parts()
    }

    fn is_switching_on(&self, turn: usize) -> bool {
        self.servos.get(turn).is_some_and(|servo| servo.switching > 0)
    }

    fn take(&mut self, frame: &Frame, states: &mut [ServoState]) -> Taken {
        match self.servos.iter_mut().find(|servo| servo.protocol.is_from(frame)) {
            Some(servo) => servo.take(frame, &mut states[servo.number]),
            None => self.take_unknown(frame),
        }
    }
}
