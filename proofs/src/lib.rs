//! The source files of every hand-over between threads, compiled a second time with the types of the model checker
//! `loom` in place of `std`'s: `crate::sync` is what both sides name. The tests try every order in which the threads
//! can run, and every value that the memory model lets an atomic load see.
//!
//! The rings of `rtrb` are not ours and not checked here: [`sync::RingBuffer`] stands for what they promise. `cargo xtask
//! prove miri` runs the recorder's ring itself.

#[path = "../../crates/loop/src/controller/handover.rs"]
pub mod handover;
#[path = "../../crates/targets/src/lease.rs"]
pub mod lease;
#[path = "../../crates/rt/src/sys/newest.rs"]
pub mod newest;
#[allow(dead_code, reason = "the loop's end of it is crate-private")]
#[path = "../../crates/loop/src/watchdogs/pulse.rs"]
pub mod pulse;
pub mod sync;
#[path = "../../crates/loop/src/parameters/ticket.rs"]
pub mod ticket;
#[path = "../../crates/record/src/until.rs"]
pub mod until;

/// What `pulse` needs of the supervisor.
pub mod supervisor {
    pub use khz_loop::supervisor::Phase;
}

/// The loop's end of a [`pulse::Pulse`].
pub fn beat(pulse: &pulse::Pulse, ticks: u64, phase: supervisor::Phase) {
    pulse.beat(ticks, phase);
}
