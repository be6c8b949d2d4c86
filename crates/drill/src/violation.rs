//! What must hold in every run, and what did not.

use serde::Serialize;
use std::fmt;

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Invariant {
    /// No command beyond a servo's limits is on the wire.
    CommandLimits,
    /// No joint is driven faster than its limit allows.
    JointSpeed,
    /// No joint is driven out of its limits beyond braking distance.
    JointLimits,
    /// No servo carries out a command older than two ticks.
    CommandAge,
    /// No state handed to a controller is older than its age.
    StateAge,
    /// A robot that must not be armed never is.
    Arming,
    /// The state machine never leaves its graph.
    Graph,
    /// The cause in the log is what happened.
    Cause,
    /// A robot that must come down leaves control in time.
    LeavesControl,
    /// A fault on the wire is answered within a tick and the bus cycle.
    Reaction,
    /// Damping ends in its time, and the run with it.
    Damping,
    /// At the end every servo that has power and can be reached is off, and none follows a position.
    OutputsOff,
    /// Without a host the servos damp by themselves.
    Watchdog,
    /// Every sample of a recording is written or counted.
    Recording,
    /// A flooded bus leaves the others served.
    Fairness,
    /// The loop keeps its rate, whatever paces it.
    Rate,
    /// The body moves as physics has it.
    Body,
    /// Nothing prints within a tick, and nothing panics but a controller.
    Panics,
}

/// Something that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violated {
    /// What.
    pub invariant: Invariant,
    /// How.
    pub what: String,
}

impl Violated {
    /// An error of this kind.
    pub fn by<T>(invariant: Invariant, what: impl Into<String>) -> Result<T, Self> {
        Err(Self { invariant, what: what.into() })
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CommandLimits => "command limits",
            Self::JointSpeed => "joint speed",
            Self::JointLimits => "joint limits",
            Self::CommandAge => "command age",
            Self::StateAge => "state age",
            Self::Arming => "arming",
            Self::Graph => "state graph",
            Self::Cause => "cause",
            Self::LeavesControl => "leaves control",
            Self::Reaction => "reaction time",
            Self::Damping => "damping time",
            Self::OutputsOff => "outputs off",
            Self::Watchdog => "servo watchdog",
            Self::Recording => "recording",
            Self::Fairness => "fairness",
            Self::Rate => "rate",
            Self::Body => "simulated body",
            Self::Panics => "panics",
        })
    }
}
