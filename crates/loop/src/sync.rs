//! What hand-overs between threads are made of, named in one place: `proofs/` puts a model checker's types here and
//! compiles the same files.

pub use rtrb::{Consumer, Producer, RingBuffer};
pub use std::sync::Arc;
pub use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
pub use std::thread::{Thread, park};
