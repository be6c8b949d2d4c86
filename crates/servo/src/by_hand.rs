//! Servos by hand, without a loop: who is there, single commands, registers.
//!
//! A family defines what to send and decodes what is received; the code that sends and waits knows no family.
//!
//! Nothing here is for the tick: everything allocates.

use crate::{Family, Fault, Mode, Mounting, PositionCommand};
use khz_wire::{Frame, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;

/// What a family does by hand.
pub trait ByHand {
    /// The ids its servos can have.
    fn ids(&self) -> RangeInclusive<u8>;

    /// Asks everybody on a bus who they are; `None` if the family cannot. For buses on which answers do not collide.
    fn everybody(&self) -> Option<Ask> {
        None
    }

    /// Asks the servo with this id who it is: the first request shows that it is there, the others ask for details.
    fn who(&self, id: u8) -> Vec<Ask>;

    /// The servo that sends this unasked, as far as can be known; it may also be another message of another servo.
    fn announced(&self, frame: &Frame) -> Option<u8> {
        let _ = frame;
        None
    }

    /// What a servo does when it is asked who it is, if that is more than to reply: shown before a scan.
    fn who_does(&self) -> Option<&'static str> {
        None
    }

    /// The frame that switches the servo of this id off, at any time and whatever else was sent. Its reply is not needed.
    fn off(&self, id: u8) -> Frame;

    /// Asks a servo whether its output is on: the answer is [`Answer::wrong`] while it is and can be let down. `None`: servos of this family are
    /// not asked before a run begins, but switched off.
    fn left_on(&self, id: u8) -> Option<Ask> {
        let _ = id;
        None
    }

    /// Tells a servo to damp, then asks for its state as [`ByHand::left_on`] does. Empty: it has nothing that damps.
    fn let_down(&self, id: u8, mounting: &Mounting) -> Vec<Ask> {
        let _ = (id, mounting);
        Vec::new()
    }

    /// Asks a servo for its state and for further registers, after telling it the order, if there is one. The requests are sent
    /// one after another, each when the one before has been answered.
    ///
    /// # Errors
    /// What of it cannot be sent, in words.
    fn exchange(
        &self,
        id: u8,
        mounting: &Mounting,
        order: Option<&Order>,
        registers: &[Wanted<'_>],
    ) -> Result<Vec<Ask>, String>;

    /// Writes a register, in the servo's own units.
    ///
    /// # Errors
    /// What of it cannot be sent, in words.
    fn write(&self, id: u8, register: &Wanted<'_>, value: f64) -> Result<Vec<Ask>, String>;

    /// Writes a register and reads it back, as [`ByHand::set_zero`] does with the position: the servo's output is off.
    ///
    /// # Errors
    /// These servos cannot, or not this register or value: what to do instead.
    fn set_register(&self, id: u8, register: u16, value: f64) -> Result<Vec<Ask>, String> {
        let _ = (id, register, value);
        Err(ELSEWHERE.to_owned())
    }

    /// What a register is called in messages.
    fn called(&self, register: u16) -> String {
        format!("register {register}")
    }

    /// Why a servo that identified itself like this cannot be driven as it is set, and the command that repairs it.
    fn amiss(&self, message: &Answer) -> Option<String> {
        let _ = message;
        None
    }

    /// The lines of a robot file for a servo that identified itself like this.
    fn in_file(&self, message: &Answer) -> Vec<String> {
        let _ = message;
        Vec::new()
    }

    /// The number of the register that the servo's manual calls so.
    fn register(&self, name: &str) -> Option<u16>;

    /// Why it has no register of this name, where that is known.
    fn no_register(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }

    /// Makes the present position of the servo its zero.
    ///
    /// Here and in the following, the first request only asks for the state, and its answer is [`Answer::wrong`] unless the output is
    /// off; the last one reads what was set, and its answer is wrong if the servo reports something else. An echo proves nothing.
    ///
    /// # Errors
    /// These servos cannot: what to do instead.
    fn set_zero(&self, id: u8) -> Result<Vec<Ask>, String> {
        let _ = id;
        Err(ELSEWHERE.to_owned())
    }

    /// How long [`ByHand::set_zero`] takes a servo, s: meanwhile it may not answer, or with its old position. The last request waits
    /// for that.
    fn zero_takes_s(&self) -> f64 {
        0.0
    }

    /// What is set by hand stays without power, and a run sets no watchdog at its start but expects the one that was set.
    fn keeps_what_is_set(&self) -> bool {
        false
    }

    /// The same of a register.
    fn keeps_register(&self, register: u16) -> bool {
        let _ = register;
        self.keeps_what_is_set()
    }

    /// The bit rate at which it answers once this register is set so, bit/s; `None`: that of now.
    fn rate_after(&self, register: u16, value: f64) -> Option<u32> {
        let _ = (register, value);
        None
    }

    /// A run sets its watchdog at every start, whatever was set by hand.
    fn run_sets_watchdog(&self) -> bool {
        !self.keeps_what_is_set()
    }

    /// Gives a servo another id. The last request goes to the new one.
    ///
    /// # Errors
    /// These servos cannot, or cannot have that id: what to do instead.
    fn set_id(&self, id: u8, new: u8) -> Result<Vec<Ask>, String> {
        let _ = (id, new);
        Err(ELSEWHERE.to_owned())
    }

    /// Giving this id to a servo that identified itself like this would change nothing.
    fn has_id(&self, id: u8, message: &Answer) -> bool {
        message.id == id
    }

    /// What else changes with the id, in words.
    fn changes_with_id(&self, new: u8) -> Option<String> {
        let _ = new;
        None
    }

    /// Why a servo cannot have this id beside another servo that identified itself like this.
    fn collision(&self, new: u8, other: &Answer) -> Option<String> {
        (other.id == new).then(|| format!("a servo with id {new} is on the bus already"))
    }

    /// Sets how long a servo waits for a frame before it acts by itself, s; 0: for ever.
    ///
    /// # Errors
    /// These servos cannot, or not for so long: what to do instead.
    fn set_watchdog(&self, id: u8, seconds: f64) -> Result<Vec<Ask>, String> {
        let _ = (id, seconds);
        Err(ELSEWHERE.to_owned())
    }

    /// Makes a servo keep its settings when it loses its power. Its output is off.
    ///
    /// # Errors
    /// These servos cannot: what to do instead.
    fn store(&self, id: u8) -> Result<Vec<Ask>, String> {
        let _ = id;
        Err(ELSEWHERE.to_owned())
    }
}

/// The error of a family that has no frame for something.
const ELSEWHERE: &str = "servos of this family cannot do this over the bus: use their maker's tool";

/// A servo whose position was set to zero reports at most this, rad: its load may move it meanwhile.
pub const ZERO: f64 = 0.05;

/// The error for a servo whose position is not zero although it was set so.
pub(crate) fn not_zero(position: f64) -> String {
    format!("it says {position:.3} rad after its position was set to 0: hold the joint still and try again")
}

/// The error for a servo that is not to be set while its output is on.
pub(crate) fn output_is_on(mode: &str) -> String {
    format!("its output is on ({mode}): end the program that drives it, and switch it off")
}

/// The error for a servo on a line whose torque is on.
pub(crate) fn torque_is_on() -> String {
    "its torque is on: end the program that drives it, and write `torque_enable=0`: the joint is free then"
        .to_owned()
}

/// The error for an id that is to be written as a register, beside which another servo may have it already.
pub(crate) fn id_as_register() -> String {
    "its id is set with `khz bus set-id`, which asks first whether another servo has the new one".to_owned()
}

/// The error for a servo that would not answer what it is asked and told afterwards.
pub(crate) fn answers_no_more(register: &str, level: u8) -> String {
    format!(
        "only `{register}={level}` lets it answer all that is asked of it and written to it, which Kilohertz needs"
    )
}

/// The error for a torque that is to be switched on by hand.
pub(crate) fn torque_on_by_hand() -> String {
    "by hand torque is switched off alone: a servo that is on goes to whatever goal it has. `khz run` switches it on where the joint is"
        .to_owned()
}

/// The error for the register of this name, if it has another value than was written.
pub(crate) fn not_written(answer: &Answer, number: u16, called: &str, value: f64) -> Option<String> {
    match answer.registers.get(&number) {
        Some(message) if *message == value => None,
        Some(message) => Some(format!("its {called} is {message} although {value} was written")),
        None => Some(format!("it has no {called}, or does not let it be read")),
    }
}

/// What [`ByHand::exchange`] sends where a servo is asked for one thing at a time: the order, then each register, then its state.
///
/// # Errors
/// The first of them that cannot be sent.
pub(crate) fn in_turn(
    order: Option<Result<Vec<Ask>, String>>,
    registers: &[Wanted<'_>],
    read: impl Fn(&Wanted<'_>) -> Result<Ask, String>,
    state: impl IntoIterator<Item = Ask>,
) -> Result<Vec<Ask>, String> {
    let mut asks = order.transpose()?.unwrap_or_default();
    for wanted in registers {
        asks.push(read(wanted)?);
    }
    asks.extend(state);
    Ok(asks)
}

/// The same request, whose answer is wrong for a reason.
pub(crate) fn judged(ask: Ask, wrong: impl Fn(&Answer) -> Option<String> + Send + 'static) -> Ask {
    let read = ask.read;
    let judged = move |frame: &Frame| {
        let answer = read(frame)?;
        let wrong = wrong(&answer);
        Some(Answer { wrong, ..answer })
    };
    Ask { read: Box::new(judged), ..ask }
}

/// A request, and how to know the answers to it.
pub struct Ask {
    /// What is sent.
    pub frame: Frame,
    /// Who is asked; `None`: everybody.
    pub id: Option<u8>,
    /// How many replies it gets; [`Request::UNKNOWN`] if that is unknown.
    pub answers: u16,
    /// Where it brings none: how long to wait for the next, ns. Else how long an answer may take at least, whatever the timeout.
    pub quiet_ns: i64,
    /// Reads a frame; `None` if it answers something else. Others talk on the bus, too: other hosts and their servos, and
    /// servos that answer late.
    pub read: Reader,
}

/// How to know an answer.
pub type Reader = Box<dyn Fn(&Frame) -> Option<Answer> + Send>;

impl Ask {
    /// Asks the servo of this id, which answers once.
    pub(crate) fn one(
        id: u8,
        frame: Frame,
        read: impl Fn(&Frame) -> Option<Answer> + Send + 'static,
    ) -> Self {
        Self { frame, id: Some(id), answers: 1, quiet_ns: 0, read: Box::new(read) }
    }

    /// Sends the servo with this id something that it does not answer; for this long it answers nothing at all, ns.
    pub(crate) fn silent(id: u8, frame: Frame, quiet_ns: i64) -> Self {
        Self { answers: 0, quiet_ns, ..Self::one(id, frame, |_| None) }
    }

    /// What is handed to a link.
    pub const fn request(&self) -> Request<'_> {
        Request { frame: &self.frame, to: self.id, replies: self.answers }
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("frame", &self.frame).field("id", &self.id).finish_non_exhaustive()
    }
}

/// One command by hand. In each, a watchdog of 0 is the servo's own setting, s; NaN: it never acts by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// Output off; clears a fault.
    Stop,
    /// Damping without holding a position.
    Damp {
        /// Share of the velocity gain.
        kd_scale: f64,
        /// The watchdog.
        watchdog_s: f64,
    },
    /// Follow a position (NaN: from wherever it is) and velocity, adding a torque.
    Position {
        /// What to follow.
        command: PositionCommand,
        /// The watchdog.
        watchdog_s: f64,
    },
}

/// A register to be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Its number.
    pub number: u16,
    /// How it is to travel, in the family's words; `None`: as suits it.
    pub format: Option<&'a str>,
}

/// What a servo answered. Values not in the answer are `None`; values the servo cannot report are NaN.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Whose.
    pub id: u8,
    /// What it is doing.
    pub mode: Option<Mode>,
    /// Joint position, rad.
    pub position: Option<f64>,
    /// Joint velocity, rad/s.
    pub velocity: Option<f64>,
    /// Joint torque, N·m.
    pub torque: Option<f64>,
    /// Supply, V.
    pub voltage: Option<f64>,
    /// Board temperature, °C.
    pub temperature: Option<f64>,
    /// How long it waits for a frame before it acts by itself, s; 0: for ever.
    pub watchdog_s: Option<f64>,
    /// Why it stopped.
    pub fault: Option<Fault>,
    /// Why it switched off last, if it reports that as well.
    pub disarmed_by: Option<Fault>,
    /// The first register it would not read or write, and the code of why.
    pub refused: Option<(u32, u32)>,
    /// Every other register, in the servo's own units.
    pub registers: BTreeMap<u16, f64>,
    /// Who it is, if that was asked.
    pub identity: Identity,
    /// Why it cannot be read to its end, if it cannot.
    pub damaged: Option<String>,
    /// Why the servo must not be driven, if what was asked shows it: no further request is sent.
    pub wrong: Option<String>,
    /// To [`ByHand::left_on`]: it is on, and may turn or push as it was told last; nothing of this family's damps it then.
    pub may_turn: bool,
}

/// A servo that was found on a bus.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its bus, counted from 0.
    pub bus: usize,
    /// What it speaks.
    pub family: Family,
    /// What it reported of itself, its id included.
    pub answer: Answer,
    /// From handing the request to the link until the first answer had arrived, ns.
    pub round_trip_ns: i64,
    /// What further replies to the same request reported: other servos with the same id.
    pub others: Vec<Answer>,
}

impl Found {
    /// A sentence if several servos have this id, with their serial numbers where they are known.
    pub fn twins(&self) -> Option<String> {
        if self.others.is_empty() {
            return None;
        }
        let all = std::iter::once(&self.answer).chain(&self.others);
        let serials: BTreeSet<_> = all.filter_map(|answer| answer.identity.serial.as_deref()).collect();
        let serials = if serials.len() > 1 {
            format!(" (serial {})", Vec::from_iter(serials).join(", "))
        } else {
            String::new()
        };
        Some(format!("{} servos answer to id {}{serials}", self.others.len() + 1, self.answer.id))
    }
}

/// Who a servo is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Version of its firmware.
    pub firmware: Option<String>,
    /// Version of its register map.
    pub map: Option<i64>,
    /// Serial number.
    pub serial: Option<String>,
    /// Its UUID.
    pub uuid: Option<[u8; 16]>,
}

impl Answer {
    /// Adds what another answer of the same servo brought.
    pub fn add(&mut self, other: Self) {
        fn newer<T>(old: &mut Option<T>, new: Option<T>) {
            if new.is_some() {
                *old = new;
            }
        }
        newer(&mut self.mode, other.mode);
        newer(&mut self.position, other.position);
        newer(&mut self.velocity, other.velocity);
        newer(&mut self.torque, other.torque);
        newer(&mut self.voltage, other.voltage);
        newer(&mut self.temperature, other.temperature);
        newer(&mut self.watchdog_s, other.watchdog_s);
        newer(&mut self.fault, other.fault);
        newer(&mut self.disarmed_by, other.disarmed_by);
        newer(&mut self.damaged, other.damaged);
        newer(&mut self.wrong, other.wrong);
        self.may_turn |= other.may_turn;
        self.refused = self.refused.or(other.refused);
        self.registers.extend(other.registers);
        newer(&mut self.identity.firmware, other.identity.firmware);
        newer(&mut self.identity.map, other.identity.map);
        newer(&mut self.identity.serial, other.identity.serial);
        newer(&mut self.identity.uuid, other.identity.uuid);
    }
}
