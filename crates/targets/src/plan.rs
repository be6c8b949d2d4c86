//! What passes between the loop and those who send: curves one way, how it stands the other.

use crate::curve::Curve;
use crate::message::Stage;
use khz_run::record::Following;
use khz_run::targets::Course;

/// All curves as of the newest message. Two messages within a tick lose nothing.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Of which start of the controller; 0: none.
    pub epoch: u32,
    /// Counts messages.
    pub generation: u64,
    /// For each joint; fewer where nothing was sent yet.
    pub curves: Vec<Curve>,
    /// When the newest point is due.
    pub end_ns: i64,
    /// Until when silence is meant.
    pub hold_until_ns: i64,
    /// A program is to go on.
    pub is_expected: bool,
}

impl Plan {
    /// When the next point is owed.
    pub fn owed_ns(&self) -> i64 {
        self.end_ns.max(self.hold_until_ns)
    }
}

impl Default for Plan {
    fn default() -> Self {
        let (end_ns, hold_until_ns) = (i64::MIN, i64::MIN);
        Self { epoch: 0, generation: 0, curves: Vec::new(), end_ns, hold_until_ns, is_expected: false }
    }
}

impl Clone for Plan {
    fn clone(&self) -> Self {
        Self { curves: self.curves.clone(), ..*self }
    }

    fn clone_from(&mut self, other: &Self) {
        let mut curves = std::mem::take(&mut self.curves);
        curves.clone_from(&other.curves);
        *self = Self { curves, ..*other };
    }
}

/// How it stands, as of the last tick.
#[derive(Debug, Default, PartialEq)]
pub struct Status {
    /// How often the controller was started; 0: not yet.
    pub epoch: u32,
    /// The tick.
    pub tick: u64,
    /// When its state was complete, ns.
    pub now_ns: i64,
    /// An operator moves its joints; programs have to wait.
    pub is_steered: bool,
    /// Where the targets stand.
    pub stage: Stage,
    /// How long ago the newest point was due, ns; below 0: so long until then; 0 before the first.
    pub age_ns: i64,
    /// What the log has of this tick, …
    pub following: Following,
    /// … and what all ticks were.
    pub course: Course,
    /// For each joint, rad: where its targets have it; where it stands, without any.
    pub target: Vec<f64>,
    /// For each joint, rad: how far it is led beside its targets.
    pub offset: Vec<f64>,
    /// For each joint, ticks in which it was at the limit of its acceleration.
    pub limited: Vec<u64>,
    /// For each joint what was measured: position, rad; velocity, rad/s; torque, N·m.
    pub measured: Vec<[f64; 3]>,
    /// For each joint when the query was sent that this answers, ns; `i64::MIN` before the first answer.
    pub measured_ns: Vec<i64>,
    /// For each joint the position it was commanded in this tick, rad; NaN before the first.
    pub command: Vec<f64>,
}

impl Clone for Status {
    fn clone(&self) -> Self {
        let Self { target, offset, limited, measured, .. } = self;
        let (target, offset) = (target.clone(), offset.clone());
        let (measured_ns, command) = (self.measured_ns.clone(), self.command.clone());
        let (limited, measured) = (limited.clone(), measured.clone());
        Self { target, offset, limited, measured, measured_ns, command, ..*self }
    }

    fn clone_from(&mut self, other: &Self) {
        let (mut offset, mut limited) = (std::mem::take(&mut self.offset), std::mem::take(&mut self.limited));
        let (mut target, mut measured) =
            (std::mem::take(&mut self.target), std::mem::take(&mut self.measured));
        let (mut measured_ns, mut command) =
            (std::mem::take(&mut self.measured_ns), std::mem::take(&mut self.command));
        target.clone_from(&other.target);
        offset.clone_from(&other.offset);
        limited.clone_from(&other.limited);
        measured.clone_from(&other.measured);
        measured_ns.clone_from(&other.measured_ns);
        command.clone_from(&other.command);
        *self = Self { target, offset, limited, measured, measured_ns, command, ..*other };
    }
}
