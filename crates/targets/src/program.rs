//! A program of this process that sends targets.

use crate::inbox::{Inbox, Standing};
use crate::message::{Points, Refused, Sender};
use crate::names::IN_PROCESS;
use khz_servo::PositionCommand;
use std::time::Duration;

/// Both points of a chunk have times of their own.
const SHORTEST_NS: i64 = 1_000_000;

/// Sends targets to a robot under one name.
///
/// # Realtime contract
/// Waits for others who send, but never for the loop; allocates.
#[derive(Clone)]
pub struct Program {
    inbox: Inbox,
    sender: Sender,
}

impl Program {
    /// Who sends, and to whom.
    pub fn new(inbox: Inbox, sender: Sender) -> Self {
        Self { inbox, sender }
    }

    /// The robot's time now, ns: that of `CLOCK_MONOTONIC`, or virtual time.
    pub fn now_ns(&self) -> i64 {
        self.inbox.now_ns()
    }

    /// Sends a target, or a chunk of them.
    ///
    /// # Errors
    /// Why nothing of it is taken; `Held` also if a program at a Unix socket sends under this name.
    pub fn send(&self, points: &Points) -> Result<(), Refused> {
        self.inbox
            .claim(&self.sender.name, IN_PROCESS)
            .inspect_err(|why| self.inbox.refuse(&self.sender, why, self.now_ns()))?;
        self.inbox.send(&self.sender, points, self.now_ns())
    }

    /// Sends a target for all joints, in the order of the robot file, rad; meant for now.
    ///
    /// # Errors
    /// As [`Program::send`].
    pub fn point(&self, positions: &[f64]) -> Result<(), Refused> {
        self.send(&Points::new(vec![self.now_ns()], vec![positions.to_vec()]))
    }

    /// All joints go from where they are led now to these targets, and are there `within` from now; they stand there if the targets have no
    /// velocity. A chunk of two points.
    ///
    /// # Errors
    /// As [`Program::send`].
    pub fn go(&self, targets: &[PositionCommand], within: Duration) -> Result<(), Refused> {
        let now_ns = self.now_ns();
        let for_ns = i64::try_from(within.as_nanos()).unwrap_or(i64::MAX).max(SHORTEST_NS);
        let status = self.inbox.status();
        let led = status.target.iter().zip(&status.offset).map(|(target, offset)| target + offset).collect();
        let of = |value: fn(&PositionCommand) -> f64| targets.iter().map(value).collect::<Vec<f64>>();
        let both = |value: fn(&PositionCommand) -> f64| vec![of(value); 2];
        let at_ns = vec![now_ns, now_ns.saturating_add(for_ns)];
        self.send(&Points {
            velocity: vec![vec![0.0; targets.len()], of(|target| target.velocity)],
            torque: both(|target| target.torque),
            kp_scale: both(|target| target.kp_scale),
            kd_scale: both(|target| target.kd_scale),
            ..Points::new(at_ns, vec![led, of(|target| target.position)])
        })
    }

    /// It will be silent for so long, and means it.
    pub fn hold(&self, time: Duration) {
        let for_ns = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        self.inbox.hold(&self.sender.name, for_ns, self.now_ns());
    }

    /// It is done; the robot stands, and nothing more is expected.
    pub fn release(&self) {
        self.inbox.release(&self.sender.name);
    }

    /// How the robot stands.
    pub fn standing(&self) -> Standing {
        self.inbox.standing()
    }
}
