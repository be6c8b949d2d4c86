//! One account of a run.
//!
//! | module | what it is |
//! |---|---|
//! | [`channel`] | what may be asked of a running robot, and what it answers |
#![forbid(unsafe_code)]

pub mod channel;
