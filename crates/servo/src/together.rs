//! Servos of a line that are asked by one question, and answer it one after the other.
//!
//! - What is written to them comes first, in packets that are not answered; the query is last.
//! - An answer has no number. Queries that are distinguished by their answers take turns: by their lengths, and with some families
//!   by a number that is written before them. So an answer shows which of the last ones it belongs to.
//! - Those behind a silent one may be silent, too. The first that did not reply is asked last in the next cycle: so one that is silent costs the
//!   others one cycle.

use crate::{ServoCommand, ServoState, Servos, Taken};
use khz_wire::{Frame, Request};
use std::fmt::Debug;

/// How many servos one question has room for, whichever the family.
pub const MOST_ASKED: usize = 60;

/// What a family does with servos that are asked together, and what they have in common.
pub(crate) trait Together: Debug + Send {
    /// One of them.
    type Servo: Debug + Send;
    /// What writes to several of them.
    type Packet: SyncWriting;
    /// How many queries are distinguished.
    const TURNS: usize;

    /// Its id.
    fn id(servo: &Self::Servo) -> u8;

    /// A cycle begins with this command.
    fn begin(servo: &mut Self::Servo, command: &ServoCommand);

    /// Which of them the next question is, of this number, from 0; `has_lost`: not every servo has answered the last one. Before what is
    /// written: what a servo wants may depend on it.
    fn turn(&mut self, servos: &mut [Self::Servo], number: u64, has_lost: bool) -> usize;

    /// What a cycle writes before this question.
    fn write(&self, servos: &[Self::Servo], turn: usize, frames: &mut Vec<Frame>);

    /// Asks these.
    fn question(&self, ids: &[u8], turn: usize) -> Option<Frame>;

    /// Whose answer a frame is, and to which question, if to any; `None` if it is none.
    fn answer(frame: &Frame) -> Option<(u8, Option<usize>)>;

    /// A servo that has forgotten how questions are distinguished has sent this answer, which names none, after the question of this turn.
    fn has_forgotten(frame: &Frame, turn: usize) -> bool {
        let _ = (frame, turn);
        false
    }

    /// Reads an answer to this question into a servo and its state: whether it had the state. `None` if it has nothing.
    fn read(servo: &mut Self::Servo, frame: &Frame, turn: usize, state: &mut ServoState) -> Option<bool>;
}

/// A sync write under way, whichever the protocol.
pub(crate) trait SyncWriting: Sized {
    /// Of so many bytes at this address; no servo yet.
    fn begun(address: u16, len: u8) -> Self;
    /// Adds a servo with its bytes; false if there is no room.
    fn put(&mut self, id: u8, data: &[u8]) -> bool;
    /// The packet; `None` if no servo has been added.
    fn done(&self) -> Option<Frame>;
    /// Whether a frame that is no answer addresses the servo with this id.
    fn addresses(frame: &Frame, id: u8) -> bool;
}

macro_rules! sync_writing {
    ($($protocol:ident: $address:ty),+) => {
        $(impl SyncWriting for khz_wire::$protocol::SyncWrite {
            fn begun(address: u16, len: u8) -> Self {
                Self::new(address as $address, len)
            }

            fn put(&mut self, id: u8, data: &[u8]) -> bool {
                self.add(id, data)
            }

            fn done(&self) -> Option<Frame> {
                (!self.is_empty()).then(|| self.packet())
            }

            fn addresses(frame: &Frame, id: u8) -> bool {
                match khz_wire::$protocol::parts(frame) {
                    Some((khz_wire::$protocol::BROADCAST, _)) => khz_wire::$protocol::written(frame, id).is_some(),
                    Some((to, _)) => to == id,
                    None => false,
                }
            }
        })+
    };
}

sync_writing!(dynamixel: u16, feetech: u8);

/// Writes what some of these servos are to have at this address, in as many packets as it needs.
pub(crate) fn write<F: Together, const LEN: usize>(
    servos: &[F::Servo],
    address: impl Into<u16>,
    frames: &mut Vec<Frame>,
    of: impl Fn(&F::Servo) -> Option<[u8; LEN]>,
) {
    let wanted = servos.iter().filter_map(|servo| Some((F::id(servo), of(servo)?)));
    sync_write::<F::Packet>(address.into(), LEN as u8, wanted, frames);
}

fn sync_write<W: SyncWriting>(
    address: u16,
    len: u8,
    wanted: impl Iterator<Item = (u8, impl AsRef<[u8]>)>,
    frames: &mut Vec<Frame>,
) {
    let mut packet = W::begun(address, len);
    for (id, data) in wanted {
        if !packet.put(id, data.as_ref()) {
            frames.extend(packet.done());
            packet = W::begun(address, len);
            packet.put(id, data.as_ref());
        }
    }
    frames.extend(packet.done());
}

/// The packets by which something is written to all of these servos, for how long they take.
pub(crate) fn packets<W: SyncWriting>(ids: &[u8], what: &[(u16, u8)]) -> Vec<Frame> {
    let mut frames = Vec::new();
    for &(address, len) in what {
        sync_write::<W>(address, len, ids.iter().map(|id| (*id, &[0; 8][..len.into()])), &mut frames);
    }
    frames
}

/// Servos that are asked together.
#[derive(Debug)]
pub(crate) struct Group<F: Together> {
    /// What they have in common.
    pub family: F,
    servos: Vec<F::Servo>,
    numbers: Vec<usize>,
    /// The number of the newest question that each has answered.
    answered: Vec<u64>,
    /// Places in `servos`, in the order in which they are asked.
    order: Vec<usize>,
    /// What is written in this cycle, and the question behind it.
    frames: Vec<Frame>,
    /// The last question of each turn.
    asked: Vec<Asked>,
    /// Which of them the next is.
    turn: usize,
    /// The number of the newest question; 0: none yet.
    newest: u64,
}

/// A question that was sent.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    number: u64,
    at_ns: i64,
}

impl<F: Together> Group<F> {
    /// Without servos yet.
    pub fn new(family: F) -> Self {
        Self {
            family,
            servos: Vec::new(),
            numbers: Vec::new(),
            answered: Vec::new(),
            order: Vec::new(),
            frames: Vec::new(),
            asked: vec![Asked::default(); F::TURNS],
            turn: 0,
            newest: 0,
        }
    }

    /// There is room for one more.
    pub fn has_room(&self) -> bool {
        self.servos.len() < MOST_ASKED
    }

    /// Adds one, with its number in the robot; a cycle has so many packets at most.
    pub fn add(&mut self, servo: F::Servo, number: usize, packets: impl Fn(usize) -> usize) {
        self.order.push(self.servos.len());
        self.numbers.push(number);
        self.answered.push(0);
        self.servos.push(servo);
        self.frames = Vec::with_capacity(packets(self.servos.len()) + 1);
    }

    fn begin(&mut self, commands: &[ServoCommand]) {
        let has_lost = self.ask_silent_last();
        self.frames.clear();
        for (servo, &number) in self.servos.iter_mut().zip(&self.numbers) {
            F::begin(servo, &commands[number]);
        }
        self.turn = self.family.turn(&mut self.servos, self.newest, has_lost);
        self.family.write(&self.servos, self.turn, &mut self.frames);
        let (mut ids, len) = ([0; MOST_ASKED], self.order.len());
        for (id, &place) in ids.iter_mut().zip(&self.order) {
            *id = F::id(&self.servos[place]);
        }
        self.frames.extend(self.family.question(&ids[..len], self.turn));
    }

    /// The first that did not answer the newest question goes behind the others: they may have waited for it. Whether there is one.
    fn ask_silent_last(&mut self) -> bool {
        let is_silent = |place: &usize| self.answered[*place] != self.newest;
        let first = self.order.iter().position(is_silent);
        if let Some(first) = first {
            self.order[first..].rotate_left(1);
        }
        first.is_some()
    }

    fn sent(&mut self, part: usize, now_ns: i64) -> bool {
        let is_last = part + 1 >= self.frames.len();
        if is_last {
            self.newest += 1;
            self.asked[self.turn] = Asked { number: self.newest, at_ns: now_ns };
        }
        is_last
    }

    /// Takes a frame that is the answer of a servo to the question of this turn.
    fn take(
        &mut self,
        (id, turn): (u8, Option<usize>),
        frame: &Frame,
        states: &mut [ServoState],
    ) -> Option<Taken> {
        let place = self.servos.iter().position(|servo| F::id(servo) == id)?;
        let servo = self.numbers[place];
        let has_forgotten = turn.is_none() && F::has_forgotten(frame, self.turn);
        let turn = turn.or(has_forgotten.then_some(self.turn));
        let Some((turn, Asked { number, at_ns })) =
            turn.map(|turn| (turn, self.asked[turn])).filter(|(_, asked)| asked.number > 0)
        else {
            return Some(Taken::Unexpected);
        };
        if number == self.answered[place] && !has_forgotten {
            // One that did not get the number of the newest question answers it with the last one that it got.
            let is_second = number == self.newest;
            return Some(if is_second { Taken::Duplicate { servo } } else { Taken::Aside });
        }
        if number <= self.answered[place] {
            return Some(Taken::Late { servo });
        }
        let (newest, state) = (number == self.newest, &mut states[servo]);
        let before = std::mem::replace(&mut state.at_ns, at_ns);
        let is_state = F::read(&mut self.servos[place], frame, turn, state);
        if is_state != Some(true) {
            state.at_ns = before;
        }
        self.answered[place] = number;
        Some(match is_state? {
            true => Taken::State { servo, sent_ns: at_ns, newest },
            false if newest => Taken::Answer { servo, sent_ns: at_ns },
            false => Taken::Late { servo },
        })
    }
}

/// The servos of one bus.
#[derive(Debug)]
pub struct Bus<F: Together> {
    groups: Vec<Group<F>>,
}

impl<F: Together> Default for Bus<F> {
    fn default() -> Self {
        Self { groups: Vec::new() }
    }
}

impl<F: Together> Bus<F> {
    /// The group with room that is found, or a new one.
    pub fn group(&mut self, is_theirs: impl Fn(&F) -> bool, new: impl Fn() -> F) -> &mut Group<F> {
        let found = self.groups.iter().position(|group| is_theirs(&group.family) && group.has_room());
        let place = found.unwrap_or_else(|| {
            self.groups.push(Group::new(new()));
            self.groups.len() - 1
        });
        &mut self.groups[place]
    }
}

impl<F: Together> Servos for Bus<F> {
    fn turns(&self) -> usize {
        self.groups.len()
    }

    fn servos(&self, turn: usize) -> &[usize] {
        self.groups.get(turn).map_or(&[], |group| &group.numbers)
    }

    fn begin(&mut self, commands: &[ServoCommand]) {
        self.groups.iter_mut().for_each(|group| group.begin(commands));
    }

    fn request(&self, turn: usize, part: usize) -> Option<Request<'_>> {
        let group = self.groups.get(turn)?;
        let frame = group.frames.get(part)?;
        let is_question = part + 1 == group.frames.len();
        let replies = if is_question { group.servos.len() as u16 } else { 0 };
        Some(Request { frame, to: None, replies })
    }

    fn sent(&mut self, turn: usize, part: usize, now_ns: i64) -> bool {
        self.groups[turn].sent(part, now_ns)
    }

    fn take(&mut self, frame: &Frame, states: &mut [ServoState]) -> Taken {
        if let Some(answer) = F::answer(frame) {
            let taken = self.groups.iter_mut().find_map(|group| group.take(answer, frame, states));
            return taken.unwrap_or(Taken::Unexpected);
        }
        // Our own packets do not come back: another program writes to one of these servos.
        let mut servos = self.groups.iter().flat_map(|group| group.servos.iter().zip(&group.numbers));
        let addressed = servos.find(|(servo, _)| F::Packet::addresses(frame, F::id(servo)));
        addressed.map_or(Taken::Unexpected, |(_, &servo)| Taken::Duplicate { servo })
    }
}
