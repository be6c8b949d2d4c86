//! Experiments on time and the reports on them and on runs.
#![forbid(unsafe_code)]

pub mod budget;
pub mod doctor;
pub mod found;
pub mod jitter;
pub mod late;
pub mod replay;
pub mod require;
pub mod run;
