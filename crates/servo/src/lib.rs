//! What a control loop needs of a servo, without a family's words, and the families that speak it.
//!
//! A *family* is a protocol: the commands and queries of its servos, their frames, and what their replies mean. The loop, the
//! supervisor and the log know [`ServoState`] and [`ServoCommand`] alone. On each bus one [`Servos`] per family turns commands
//! into frames and frames into state; the bus cycle decides when a frame leaves and whether a reply came in time.
//!
//! | module | what it is |
//! |---|---|
//! | [`state`], [`command`] | the state of a servo, and its commands |
//! | [`carries`] | what its messages can carry |
//! | [`about`] | what a family knows about a servo, and where a servo is |
//! | [`family`] | the list of families, of which each has a module: [`moteus`] and the rest |
//! | [`by_hand`] | servos without a loop: who is there, single commands, registers, zero, id and watchdog |
//! | [`exchange`] | what is sent to and requested from a servo before it may be driven |
//! | [`identifiers`] | which frames of a bus belong to a servo |
//! | [`mit`] | what all families in MIT mode have in common |
//!
//! A new family is a module whose `Settings` implement [`FamilySettings`] and [`ByHand`] and define which [`Servos`] they are put
//! together to, and a line in [`family`]; what it leaves out does not compile. `ARCHITECTURE.md` has what else belongs to it.
//!
//! # Realtime contract
//! What a tick calls ([`Servos`]) neither allocates nor locks, prints, waits or reads a clock.
#![forbid(unsafe_code)]

pub mod about;
pub mod by_hand;
pub mod carries;
pub mod command;
pub mod cubemars;
pub mod damiao;
mod doubled;
pub mod dynamixel;
pub mod exchange;
pub mod family;
pub mod feetech;
pub mod identifiers;
pub mod mit;
pub mod moteus;
mod mounting;
pub mod odrive;
pub mod rmd;
pub mod robstride;
pub mod robstride_mit;
pub mod state;
mod together;
mod track;

pub use about::{Aside, FamilySettings, Occasion, ServoPlan};
pub use by_hand::ByHand;
pub use carries::{Carries, Quantity};
pub use command::{PositionCommand, ServoCommand};
pub use doubled::Doubled;
pub use exchange::{Exchange, ReplyCheck};
pub use family::{Family, FamilyName};
pub use identifiers::Identifiers;
pub use mounting::Mounting;
pub use state::{Doing, Fault, Mode, Refused, ServoState};
pub use together::MOST_ASKED;
pub use track::Track;

use khz_wire::{Frame, Request};
use std::fmt::Debug;

/// The servos of one family on one bus.
///
/// They are asked in *turns*: those of a turn share their requests. Most families have a turn for each servo; one that asks
/// many servos with one packet has a turn for all. In every cycle each turn has its requests, its *parts*, which leave in
/// their order: one or more, or none while a servo's late replies are waited out.
///
/// Servos are called by their numbers in the robot: commands and states are those of the whole robot.
pub trait Servos: Debug + Send {
    /// How many turns there are; constant.
    fn turns(&self) -> usize;

    /// The servos of a turn; constant.
    fn servos(&self, turn: usize) -> &[usize];

    /// Every servo has been made ready ([`FamilySettings::ready`]) with this mark. Before the first cycle.
    fn made_ready(&mut self, mark: u32) {
        let _ = mark;
    }

    /// Servos did not answer what they were asked by hand before the first cycle. Those answers may still come at any time; they answer
    /// none of the cycles' requests.
    fn unanswered(&mut self) {}

    /// The next stop of this servo, if it is sent in the next cycle, may clear what its watchdog has left, and nothing else.
    fn clear_timeout(&mut self, servo: usize) {
        let _ = servo;
    }

    /// A cycle begins: makes its requests.
    fn begin(&mut self, commands: &[ServoCommand]);

    /// How many turns of the present cycle read a register. Where their frames lose the arbitration to every reply, they are best sent
    /// before all others, while no reply is ready: later they hold up the requests behind them, and the last reply comes a turnaround
    /// later.
    fn reading(&self) -> usize {
        0
    }

    /// This turn is one of them.
    fn is_reading(&self, turn: usize) -> bool {
        let _ = turn;
        false
    }

    /// A request of the present cycle, or `None` if the turn has no such part.
    fn request(&self, turn: usize, part: usize) -> Option<Request<'_>>;

    /// The request was handed to the bus. Returns whether it was the turn's last part.
    fn sent(&mut self, turn: usize, part: usize, now_ns: i64) -> bool;

    /// The servo of this turn is switching its output on, which takes some of them longer than a cycle: that it does not answer in time
    /// means nothing for the bus. Not for long.
    fn is_switching_on(&self, turn: usize) -> bool {
        let _ = turn;
        false
    }

    /// Reads a frame that came from the bus into the state of its servo. The frame may be anything.
    fn take(&mut self, frame: &Frame, states: &mut [ServoState]) -> Taken;
}

/// What a received frame was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The state of a servo, which has been updated, with its time.
    State {
        /// Which servo.
        servo: usize,
        /// When the request it answers was sent.
        sent_ns: i64,
        /// It answers this cycle's request.
        newest: bool,
    },
    /// The answer to this cycle's only request to a servo, which did not ask for its state: that stays as it is.
    Answer {
        /// From which servo.
        servo: usize,
        /// When the request was sent.
        sent_ns: i64,
    },
    /// To this cycle's request, or to an earlier one that was missed: indistinguishable, so its state is not used. Nothing was late, so
    /// that the request is taken for answered.
    Unclear {
        /// From which servo.
        servo: usize,
        /// When this cycle's request was sent.
        sent_ns: i64,
    },
    /// A reply to an older request, which has nothing new.
    Late {
        /// From which servo.
        servo: usize,
    },
    /// A further reply to a request already answered, or a command of another program: two servos may have the same id, or
    /// another program commands this one.
    Duplicate {
        /// Which servo.
        servo: usize,
    },
    /// A reply that does not carry state.
    Aside,
    /// From none of these servos, or no reply.
    Unexpected,
}
