//! Targets of programs, and how joints are led to them.

use khz_tlog::Record;
use std::borrow::Cow;

/// A message of a program that sends targets, when it arrived.
#[derive(Clone, Debug, Default, PartialEq, Record)]
pub struct Targets<'a> {
    /// Who sent it.
    pub by: Cow<'a, str>,
    /// Its number among those of its program, and one more; 0: it has none.
    pub seq: u64,
    /// Its points; 0: it could not be read.
    pub points: u32,
    /// When the first is to be reached, by the loop's clock.
    #[tlog(unit = "ns")]
    pub first_ns: i64,
    /// When the last is.
    #[tlog(unit = "ns")]
    pub last_ns: i64,
    /// How long after the time of its first point it arrived; below 0: so long before.
    #[tlog(unit = "ns")]
    pub late_ns: i64,
    /// How long after it was due it came. Due is a target at its time, and any message when the newest point before it has passed, unless its
    /// program had announced a silence; the longer of both counts. 0: in time.
    #[tlog(unit = "ns")]
    pub overdue_ns: i64,
    /// How wrong its times may be, because its clock is another one.
    #[tlog(unit = "ns")]
    pub clock_ns: i64,
    /// Numbers that were beyond a limit, and are at it.
    pub clamped: u32,
    /// Why nothing of it is taken; empty: it is.
    pub refused: Cow<'a, str>,
}

/// Where the targets of a robot stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
pub struct Following {
    /// The tick.
    pub tick: u64,
    /// On time, or since when not.
    pub stage: Stage,
    /// How long ago the newest point was due; below 0: so long until then.
    #[tlog(unit = "us")]
    pub age_us: i64,
    /// The sender has announced that it would be silent.
    pub meant: bool,
    /// Joints whose curve was replaced by another one in this tick.
    pub anew: u16,
    /// Joints that were at the limit of their acceleration.
    pub limited: u16,
    /// How far the joint that is led farthest beside its targets is.
    #[tlog(unit = "rad")]
    pub offset: f32,
}

/// Where targets stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Record)]
pub enum Stage {
    /// No program sends any.
    #[default]
    #[tlog(rename = "idle")]
    Idle = 0,
    /// The next point is known.
    #[tlog(rename = "on_time")]
    OnTime = 1,
    /// It goes on after the newest point, and comes to rest.
    #[tlog(rename = "held_over")]
    HeldOver = 2,
    /// It stands where it came to rest.
    #[tlog(rename = "waiting")]
    Waiting = 3,
    /// It has been standing for longer than `silent_s`.
    #[tlog(rename = "silent")]
    Silent = 4,
}

/// How a servo is led to its targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
pub struct Aim {
    /// Where its targets have it now.
    #[tlog(unit = "rad")]
    pub target: f32,
    /// How far beside that it is led, after a curve was replaced.
    #[tlog(unit = "rad")]
    pub offset: f32,
    /// Both together: what its command follows, within the limits.
    #[tlog(unit = "rad")]
    pub reference: f32,
}
