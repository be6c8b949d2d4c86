//! What people beside the loop see of it: its last tick and phase, and the way to ask it to arm.

use crate::parameters::ParameterError;
use crate::requests::{self, Made};
use crate::supervisor::Phase;
use crate::timing::Clock;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

/// No request is pending.
const NEVER: i64 = i64::MIN;

/// What people beside the loop see of it, and whether they asked it to arm.
#[derive(Debug)]
pub struct Console {
    tick: AtomicU64,
    phase: AtomicU8,
    /// When the request to arm was decided that no tick has taken yet.
    arm_ns: AtomicI64,
    clock: Clock,
}

impl Console {
    /// Of a loop that has not ticked yet, and runs by this clock.
    pub const fn new(clock: Clock) -> Self {
        Self { tick: AtomicU64::new(0), phase: AtomicU8::new(0), arm_ns: AtomicI64::new(NEVER), clock }
    }

    /// The number of the last tick, and the phase after it.
    pub fn seen(&self) -> (u64, Phase) {
        let phase = usize::from(self.phase.load(Ordering::Relaxed));
        (self.tick.load(Ordering::Relaxed), Phase::ALL[phase.min(Phase::ALL.len() - 1)])
    }

    /// Asks the robot to arm, with `supervisor.arming = "operator"`. Counts for 0.4 s from now.
    ///
    /// # Errors
    /// It does not wait for that.
    pub fn arm(&self) -> Result<(), ParameterError> {
        let made = Made::now(self.clock);
        self.arm_as(made, made.decided_ns)
    }

    /// As [`Console::arm`], of a request that was made some time before `now_ns`.
    ///
    /// # Errors
    /// It is too old, or the robot does not wait for it.
    pub fn arm_as(&self, made: Made, now_ns: i64) -> Result<(), ParameterError> {
        requests::Request::Arm.admit(made, now_ns, self.seen().1)?;
        self.arm_ns.store(made.decided_ns, Ordering::Relaxed);
        Ok(())
    }

    /// When the request to arm was decided that came since the last tick. Neither allocates nor waits.
    pub(crate) fn asked_to_arm(&self) -> Option<i64> {
        let is_asked = self.arm_ns.load(Ordering::Relaxed) != NEVER;
        is_asked.then(|| self.arm_ns.swap(NEVER, Ordering::Relaxed))
    }

    /// After a tick. Neither allocates nor waits.
    pub fn show(&self, tick: u64, phase: Phase) {
        self.tick.store(tick, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
    }
}
