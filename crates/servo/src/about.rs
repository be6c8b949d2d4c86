//! What a family knows about a servo, and where a servo is.

use crate::{Carries, Doing, Exchange, Identifiers, Mounting, Servos};
use khz_wire::Frame;
use std::path::Path;

/// When an exchange takes place. Its frames differ, and so does what they cost on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The servo is commanded to stop: before the robot is controlled, and after.
    Stopped,
    /// It is about to be switched on. One servo in four of a bus is at a time.
    SwitchingOn,
    /// It follows.
    Following,
    /// It follows, and its gains are others than in the cycle before.
    Changing,
    /// Its last reply was lost.
    AfterLoss,
}

/// A question in one of so many cycles. Its answer may come after the cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// One in so many cycles.
    pub every: u32,
    /// Which: servos with the same number are asked in the same ones.
    pub turn: u32,
    /// Question and answer.
    pub frames: [Frame; 2],
}

/// What a family knows about a servo before any frame travels. Not for the tick: allocates.
pub trait FamilySettings {
    /// What can be sent to the servo and received from it.
    fn carries(&self, mounting: &Mounting) -> Carries;

    /// The targets within `limits`, rad at the joint, that are still within them after rounding for the wire. The wrong way round if
    /// there are none.
    fn targets(&self, limits: [f64; 2], mounting: &Mounting) -> [f64; 2];

    /// The frames of one exchange with the servo of this id, the command and the reply: their lengths and identifiers are those of a
    /// real one of a robot at rest at 0.
    fn exchange(&self, id: u8, occasion: Occasion) -> [Frame; 2];

    /// A number that is that of all servos of its bus that are asked by one question with it; `None`: it is asked by itself.
    fn group(&self) -> Option<u32> {
        None
    }

    /// What is sent to a group of these ids instead of the command of each, the question last. Their replies come in this order, each
    /// [`FamilySettings::exchange`]'s.
    fn question(&self, ids: &[u8], occasion: Occasion) -> Vec<Frame> {
        let _ = (ids, occasion);
        Vec::new()
    }

    /// The reply of the first of a group, of which this is the reply of any.
    fn first_of_group(&self, reply: &Frame) -> Frame {
        *reply
    }

    /// What travels besides in that exchange, and is not answered with a state; commonly nothing.
    fn besides(&self, id: u8, occasion: Occasion) -> Vec<Frame> {
        let _ = (id, occasion);
        Vec::new()
    }

    /// What the servo of this id is asked besides in some cycles in which it follows.
    fn aside(&self, id: u8) -> Option<Aside> {
        let _ = id;
        None
    }

    /// What the servo of this id sends by itself, and how often, ns.
    fn by_itself(&self, id: u8) -> Option<(Frame, i64)> {
        let _ = id;
        None
    }

    /// By how much a reply may be later than the fastest one, at random, ns: every delay up to that is as likely.
    fn reply_spread_ns(&self) -> i64 {
        0
    }

    /// How much later than the turnaround of its bus it answers, whatever it is asked, ns.
    fn reply_delay_ns(&self) -> i64 {
        0
    }

    /// How long the answer to the frame that switches its output on may take, ns, if that is longer than for other answers; 0: it is not.
    /// Meanwhile no reply counts as missed.
    fn switching_ns(&self) -> i64 {
        0
    }

    /// What the servo of this id sends or listens to. No servo of another family on its bus may have one of these: it would take
    /// replies for commands, or both would send at once.
    fn identifiers(&self, id: u8) -> Vec<Identifiers>;

    /// The id of the servo that a frame is a reply of, whichever it is; `None` if no servo of this family replies so. For
    /// the tick: does not allocate.
    fn replier(&self, frame: &Frame) -> Option<u8>;

    /// The numbers and names of the servo's modes.
    fn modes(&self) -> Vec<(u64, &'static str)>;

    /// What the servo does when it has received nothing for its watchdog time, in words for people.
    fn cut_off(&self) -> &'static str;

    /// The state a servo reports once its watchdog has expired, with the code of its fault, if nothing else can be meant by it and it
    /// may be switched on again within a run. `None`: it may not.
    fn timed_out_as(&self) -> Option<(Doing, u32)> {
        None
    }

    /// How far from its joint, rad, a target makes the servo exert this torque by its position gain; `None` if the gain is its own.
    fn reach_of(&self, torque: f64) -> Option<f64> {
        let _ = torque;
        None
    }

    /// What is sent to the servo with this id before it may be driven, in order; `watchdog_s` is its watchdog's timeout. `mark` is a number
    /// of this run, [`crate::exchange::MARKS`], for a family that has to know a servo again. None, as a rule.
    fn ready(&self, id: u8, watchdog_s: f64, mark: u32) -> Vec<Exchange> {
        let _ = (id, watchdog_s, mark);
        Vec::new()
    }
}

/// One servo of a bus, with what its family has to know of it.
#[derive(Clone, Debug)]
pub struct ServoPlan<F> {
    /// Its number in the robot.
    pub servo: usize,
    /// Its id on the bus.
    pub id: u8,
    /// How it is mounted.
    pub mounting: Mounting,
    /// The servo acts by itself if it receives nothing this long, s. NaN: never.
    pub watchdog_s: f64,
    /// Its family.
    pub family: F,
}

impl<F> ServoPlan<F> {
    /// The same servo, with something else for its family.
    pub fn of<G>(&self, family: G) -> ServoPlan<G> {
        ServoPlan {
            servo: self.servo,
            id: self.id,
            mounting: self.mounting,
            watchdog_s: self.watchdog_s,
            family,
        }
    }
}

/// The servos of one family on one bus, as they are looked for and put together.
pub(crate) trait OnBus: Sized {
    /// Its place among the families that are asked for on a bus whose families are unknown, the lowest first; `None`: only by its name.
    const ASKED: Option<u8>;

    /// What a servo of the family may be where no robot file gives it, in the order in which to ask for it.
    fn unknown() -> Vec<Self>;

    /// The same, with the file that gives which number each of its settings has; `None`: its settings have no such numbers.
    fn with_endpoints(self, path: &Path) -> Option<Self> {
        let _ = path;
        None
    }

    /// All of them.
    type Bus: Servos + Default;

    /// Adds one.
    fn add(bus: &mut Self::Bus, plan: &ServoPlan<&Self>);
}
