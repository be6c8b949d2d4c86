//! `cargo xtask`: the project's chores.
#![forbid(unsafe_code)]

fn main() {}
