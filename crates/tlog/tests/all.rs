//! Logs against vectors and damage, in one program: linking takes longer than they do.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what cannot be read fails the test")]

mod damage;
mod typed;
mod vectors;
mod zstd;
