//! Whether every servo answers as it should before the robot may be armed.

use super::Cause;
use crate::cycle::CycleResult;
use crate::state::RobotState;

/// Complete ticks in a row: every servo answered, in time and once, and is off, as commanded. A single one proves little: on a
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
    /// Whose replies came late; see [`CycleResult::late_servos`].
    late_servos: u64,
}

/// Complete ticks in a row after which earlier misses no longer count.
const SETTLED: u32 = 20;

impl BringUp {
    /// Counts a tick.
    pub fn update(&mut self, state: &RobotState, cycle: &CycleResult) {
        let missing = state.servos.iter().position(|servo| !servo.fresh);
        self.missed = self.missed.saturating_add(u32::from(cycle.missed));
        self.late = self.late.saturating_add(cycle.late);
        self.late_servos |= cycle.late_servos;
        let not_seen = |servo: usize| Cause::NotSeen { servo: servo as u16, late: self.is_late(servo) };
        let twice = cycle.answered_twice.map(|servo| Cause::DuplicateReplies { servo });
        // Another host has switched it on, or it does not obey.
        let on = (0..).zip(&state.servos).find(|(_, servo)| servo.doing.is_on());
        let on = on.map(|(at, servo)| Cause::ServoNotObeying { servo: at, mode: servo.mode });
        self.lack = missing.map(not_seen).or(twice).or(on);
        self.complete = if self.lack.is_none() { self.complete.saturating_add(1) } else { 0 };
        if self.complete >= SETTLED {
            (self.missed, self.late, self.late_servos) = (0, 0, 0);
        }
    }

    /// The replies of a servo come too late. Of a silent one none does, however many others are late; where many are lost, it is not
    /// because they are late. On a bus that cannot keep up, most queries never leave: a fourth is many.
    fn is_late(&self, servo: usize) -> bool {
        self.late_servos >> (servo % 64) & 1 == 1 && self.late.saturating_mul(4) >= self.missed
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
