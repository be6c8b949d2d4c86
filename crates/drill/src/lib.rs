//! Breaks an emulated robot on purpose and measures what happens, in virtual time.
//!
//! [`fall`] puts the same fault to several reactions and measures how hard the robot comes down, [`heat`] does so with an
//! hour in the sun. [`campaign`] composes faults at random, thousands of times, and checks on every step what must always
//! hold.
#![forbid(unsafe_code)]

pub mod campaign;
#[doc(hidden)]
pub mod defect;
mod disk;
mod explain;
pub mod fall;
mod faulty_controller;
pub mod fleet;
pub mod gains;
pub mod heat;
mod line;
mod misbehaviour;
mod monitor;
mod outcomes;
mod paced;
mod prints;
pub mod promises;
mod rig;
mod run;
mod scenario;
mod violation;
mod wire_monitor;
mod words;

pub use fleet::Fleet;
pub use outcomes::{Outcome, outcomes};
pub use prints::watch_prints;
pub use scenario::{Event, Fault, Formats, Queue, Scenario, Style};
pub use violation::Invariant;
pub use words::in_words;
