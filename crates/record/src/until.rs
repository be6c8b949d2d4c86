//! The recorder's thread, as far as other threads see it. `proofs/tests/recorder.rs` tries every order: whatever was
//! pushed before the stop is there when this returns.

use crate::sync::{AtomicBool, Ordering};

/// Steps and rests until it is stopped. What was pushed before that may not have been seen by the last step.
pub fn until_stopped(stop: &AtomicBool, mut step: impl FnMut(), rest: impl Fn()) {
    while !stop.load(Ordering::Acquire) {
        step();
        rest();
    }
}
