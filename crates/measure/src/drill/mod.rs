//! Breaks an emulated robot on purpose and measures what happens, in virtual time.
//!
//! [`fall`] puts the same fault to several reactions and measures how hard the robot comes down, [`heat`] does so with an
//! hour in the sun. [`campaign`] composes faults at random, thousands of times, and checks on every step what must always
//! hold.

pub mod campaign;
mod disk;
pub mod fall;
pub mod heat;
mod rig;
mod scenario;
mod spy;

pub use scenario::{Event, Scenario, Trouble};
