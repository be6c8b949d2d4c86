//! A program of this process that sends targets.

use crate::desk::{Desk, Standing};
use crate::message::{Points, Refused, Sender};
use std::time::Duration;

/// Sends targets to a robot under one name.
///
/// # Realtime contract
/// Waits for others who send, but never for the loop; allocates.
#[derive(Clone)]
pub struct Program {
    desk: Desk,
    sender: Sender,
}

impl Program {
    /// Who sends, and to whom.
    pub fn new(desk: Desk, sender: Sender) -> Self {
        Self { desk, sender }
    }

    /// The robot's time now, ns: that of `CLOCK_MONOTONIC`, or virtual time.
    pub fn now_ns(&self) -> i64 {
        self.desk.now_ns()
    }

    /// Sends a target, or a chunk of them.
    ///
    /// # Errors
    /// Why nothing of it is taken.
    pub fn send(&self, points: &Points) -> Result<(), Refused> {
        self.desk.send(&self.sender, points, self.now_ns())
    }

    /// Sends a target for all joints, in the order of the robot file, rad; meant for now.
    ///
    /// # Errors
    /// As [`Program::send`].
    pub fn point(&self, positions: &[f64]) -> Result<(), Refused> {
        self.send(&Points::new(vec![self.now_ns()], vec![positions.to_vec()]))
    }

    /// It will be silent for so long, and means it.
    pub fn hold(&self, time: Duration) {
        let for_ns = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        self.desk.hold(&self.sender.name, for_ns, self.now_ns());
    }

    /// It is done; the robot stands, and nothing more is expected.
    pub fn release(&self) {
        self.desk.release(&self.sender.name);
    }

    /// How the robot stands.
    pub fn standing(&self) -> Standing {
        self.desk.standing()
    }
}
