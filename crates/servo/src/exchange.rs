//! What is sent to and requested from a servo before it may be driven.

use khz_wire::Frame;
use std::fmt;
use std::ops::RangeInclusive;

/// The numbers that a run may be marked with.
pub const MARKS: RangeInclusive<u32> = 1..=15;

/// One request and the reply that is wanted, of the dialogue that makes a servo ready. Off the tick.
pub struct Exchange {
    /// What it is for, as in "servo `knee` did not answer: …".
    pub what: String,
    /// What to check if there is no reply, in words for people.
    pub if_silent: &'static str,
    /// Silence before it, ns, unless an answer arrives earlier: time for the servo's watchdog to act.
    pub quiet_ns: i64,
    /// What is sent.
    pub frame: Frame,
    /// What a frame that comes means.
    pub judge: Judge,
}

/// What a frame that comes means for an [`Exchange`].
pub type Judge = Box<dyn Fn(&Frame) -> ReplyCheck + Send>;

/// See [`Judge`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyCheck {
    /// Something else: wait on.
    Unrelated,
    /// As it has to be.
    Good,
    /// The mark of this run is in the servo already, from an earlier one, and would prove nothing.
    Used,
    /// The servo must not be driven: what is wrong, and what to do.
    Wrong(String),
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("what", &self.what)
            .field("frame", &self.frame)
            .finish_non_exhaustive()
    }
}
