//! What hand-overs between threads are made of, named in one place: `proofs/` puts a model checker's types here and
//! compiles the same files.

pub use std::sync::atomic::{AtomicBool, Ordering};
