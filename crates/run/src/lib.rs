//! One account of a run: its records, what is counted of them, why a tick was late, and the verdict.
//!
//! | module | what it is |
//! |---|---|
//! | [`channel`] | what may be asked of a running robot, and what it answers |
//! | [`record`] | the records of a run: schema, bytes, and fields by name come from one struct each |
//! | [`figures`] | every figure of a run, declared once: its key, label, definition, and what may be required of it |
//! | [`tally`] | the only counter: fed one `tick` record at a time, by the loop and by every reader of logs |
//! | [`recent`] | the same of the last ten seconds |
//! | [`late`] | the only judge of a tick: late or not, which part of it, and why |
//! | [`costs`] | what late ticks cost, by cause |
//! | [`watch`] | a run seen from outside, by its records as they come |
//! | [`verdict`] | the only verdict on a run |
//!
//! It knows no robot file, no link, no byte of a wire and no Linux: a tick is a tick, whether a loop has just run it or it
//! comes from a log. `docs/metrics.md` defines every figure.
#![forbid(unsafe_code)]

pub mod channel;
mod commands;
pub mod costs;
pub mod decisions;
pub mod figures;
pub mod late;
mod phase;
pub mod recent;
pub mod record;
pub mod tally;
pub mod targets;
mod usual;
pub mod verdict;
pub mod watch;

pub use phase::Phase;
pub use usual::Usual;
