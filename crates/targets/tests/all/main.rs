//! Targets, from what programs send to what the joints are commanded.

#![allow(clippy::unwrap_used)]

mod astray;
mod follow;
mod limits;
mod robot;
mod semantics;
mod socket;
mod sticks;
mod streams;
