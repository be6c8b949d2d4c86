//! Measurements of a machine before a robot runs on it: how punctual it is, and how it is set up.
#![forbid(unsafe_code)]

pub mod doctor;
pub mod jitter;
