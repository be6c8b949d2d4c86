//! The loop's sign of life. `proofs/tests/pulse.rs` tries every order in which two threads can use it.

use crate::supervisor::Phase;
use crate::sync::{AtomicU8, AtomicU64, Ordering};

/// What the loop reports in every tick.
#[derive(Debug, Default)]
pub struct Pulse {
    ticks: AtomicU64,
    phase: AtomicU8,
}

impl Pulse {
    /// Ticks finished so far.
    pub fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Acquire)
    }

    /// The phase after the last of them, or a newer one.
    pub fn phase(&self) -> Phase {
        let number = usize::from(self.phase.load(Ordering::Relaxed));
        Phase::ALL.get(number).copied().unwrap_or(Phase::Init)
    }

    /// Two stores: what the tick spends on it.
    pub(crate) fn beat(&self, ticks: u64, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.ticks.store(ticks, Ordering::Release);
    }
}
