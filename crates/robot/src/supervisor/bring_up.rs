//! Whether every servo answers as it should before the robot may be armed.

use super::Cause;
use crate::cycle::CycleResult;
use crate::state::RobotState;

/// Complete ticks in a row: every servo answered, in time and once, and is off, as it was told. A single one proves little: on a
/// bus that cannot keep
/// up, or with replies that come late, one now and then looks complete.
#[derive(Clone, Debug, Default)]
pub struct BringUp {
    complete: u32,
    /// What the last tick lacked.
    lack: Option<Cause>,
    /// Replies missed and replies come late, since so many complete ticks in a row as are no chance.
    missed: u32,
    late: u32,
}

/// Complete ticks in a row after which earlier misses say nothing any more.
const SETTLED: u32 = 20;

impl BringUp {
    /// Counts a tick.
    pub fn update(&mut self, state: &RobotState, cycle: &CycleResult) {
        let missing = state.servos.iter().position(|servo| !servo.fresh);
        self.missed = self.missed.saturating_add(u32::from(cycle.missed));
        self.late = self.late.saturating_add(cycle.late);
        // A late reply comes ticks after its query; of a silent servo none does, however many others are late.
        let are_late = self.late.saturating_mul(2) >= self.missed && self.late > 0;
        let late = |servo: usize| are_late && state.servos[servo].is_known();
        let not_seen = |servo: usize| Cause::NotSeen { servo: servo as u16, late: late(servo) };
        let twice = cycle.answered_twice.map(|servo| Cause::DuplicateReplies { servo });
        // Somebody else has switched it on, or it does not obey.
        let on = (0..).zip(&state.servos).find(|(_, servo)| servo.doing.is_on());
        let on = on.map(|(at, servo)| Cause::ServoNotObeying { servo: at, mode: servo.mode });
        self.lack = missing.map(not_seen).or(twice).or(on);
        self.complete = if self.lack.is_none() { self.complete.saturating_add(1) } else { 0 };
        if self.complete >= SETTLED {
            (self.missed, self.late) = (0, 0);
        }
    }

    /// What the last tick lacked; `None` if it was complete.
    pub const fn lack(&self) -> Option<Cause> {
        self.lack
    }

    /// The last so many ticks were complete.
    pub const fn is_over(&self, ticks: u32) -> bool {
        self.complete >= ticks
    }
}
