//! A run afterwards: its summary and page, its late ticks, what was required of it, and its replay.
#![forbid(unsafe_code)]

pub mod late;
pub mod replay;
pub mod require;
pub mod run;
