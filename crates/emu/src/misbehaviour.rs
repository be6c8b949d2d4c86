//! How the servos of a family misbehave: what they receive instead of a frame, and what they send instead of a reply.

use crate::injection::Injection;
use khz_wire::{Frame, Value};
use std::ops::Range;

/// A family's misbehaviours.
pub trait Misbehaviours {
    /// Drills put this into its servos: they can suffer or report it, and a host can be expected to notice.
    fn suits(&self, injection: Injection) -> bool;

    /// Its servos can have a fault of this code.
    fn has_fault(&self, code: u32) -> bool {
        (1..=u32::from(u8::MAX)).contains(&code)
    }

    /// The steps in which its servos know their angle, rad at the joint; 0: what their replies carry is all there is.
    fn encoder_step(&self) -> f64 {
        0.0
    }

    /// Modes, as its servos number them, in which none under control is, whatever it is commanded.
    fn other_modes(&self) -> &'static [u8];

    /// Whether a command makes the servo follow a position; `None` if it is no command.
    fn follows(&self, request: &Frame) -> Option<bool>;

    /// A request that commands what `followed` commands, and asks for what `request` asks.
    fn commanded_by(&self, followed: &Frame, request: &Frame) -> Frame {
        let _ = request;
        *followed
    }

    /// The reply of a servo that reports this mode.
    fn in_mode(&self, reply: &Frame, mode: u8) -> Frame;

    /// The reply of a servo that repeats its `first` reply.
    fn frozen(&self, reply: &Frame, first: &mut FrozenReply) -> Frame;

    /// The reply of a servo whose voltage and temperature are no numbers, where its family has a value for that.
    fn unmeasured(&self, reply: &Frame) -> Frame {
        *reply
    }
}

/// What a servo reported when it froze.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrozenReply {
    /// By register.
    pub values: [Option<(u32, Value)>; 8],
    /// As a whole.
    pub frame: Option<Frame>,
}

impl FrozenReply {
    /// A reply with these bytes, and the one at `other`, as far as both have it, as they were sent first.
    pub fn again(&mut self, reply: &Frame, state: Range<usize>, other: usize) -> Frame {
        let before = *self.frame.get_or_insert(*reply);
        let mut altered = *reply;
        let places = state.chain([other]);
        for (place, first) in places.filter_map(|place| Some((place, before.payload().get(place)?))) {
            if let Some(byte) = altered.payload_mut().get_mut(place) {
                *byte = *first;
            }
        }
        altered
    }
}
