//! Targets, from what programs send to what the joints are commanded.

#![allow(clippy::unwrap_used)]

mod limits;
mod robot;
mod semantics;
mod socket;
mod streams;
