//! Targets of slow programs as smooth motion: a program that sends targets 30 times a second, sometimes none, moves a joint a thousand
//! times a second, within its limits.
//!
//! ```text
//! points ──► reference ──► + offset ──► limiter ──► mean of N ──► command
//!            (curve,       (where a     (velocity,  (jerk)
//!             hold-over)    curve is     acceleration,
//!                           replaced)    position)
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`limiter`] | a tracker within limits of velocity, acceleration and position that comes to rest without overshoot |
//! | [`mean`] | the mean of the last N positions: it bounds the jerk, and keeps every other bound |
//! | [`curve`] | the reference of one joint: cubics between points with times, and what follows the last point |
//! | [`message`] | what programs send, and what they are answered |
//! | [`inbox`] | where messages of all programs arrive, and become curves |
//! | [`controller`] | the loop's end |
//! | [`follow`] | another loop's end: one arm follows another, without any program |
//! | [`axis`] | one joint: all of these, and the offset that takes a jump of the reference back as a move of its own |
//!
//! Every stage advances by one period per tick, never by a clock: after lost ticks the reference has jumped, and nothing else.
//!
//! # Realtime contract
//! What is called in a tick neither allocates nor locks, prints, waits or reads a clock.
#![forbid(unsafe_code)]

pub mod axis;
mod clock;
pub mod controller;
pub mod curve;
pub mod follow;
pub mod inbox;
mod lease;
pub mod limiter;
pub mod mean;
pub mod message;
mod names;
mod pace;
mod plan;
mod program;
pub mod settings;
pub mod socket;
mod sticks;
pub mod wire;

pub use axis::{Axis, Share};
pub use controller::Targets;
pub use curve::{Curve, Knot, Sample};
pub use follow::{Follow, FollowConfig};
pub use inbox::{Account, Counts, Inbox, Standing};
pub use limiter::{Limiter, Range};
pub use mean::Mean;
pub use message::{Points, Refused, Sender, Stage};
pub use plan::Status;
pub use program::Program;
pub use settings::{Interpolation, SticksConfig, TargetsConfig};

/// A position, and how fast it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Motion {
    /// rad.
    pub position: f64,
    /// rad/s.
    pub velocity: f64,
}

impl Motion {
    /// At rest.
    pub const fn still(position: f64) -> Self {
        Self { position, velocity: 0.0 }
    }

    /// Where it is `dt` seconds later, at the same velocity.
    #[must_use]
    pub fn carried_on(self, dt: f64) -> Self {
        Self { position: self.position + self.velocity * dt, ..self }
    }
}
