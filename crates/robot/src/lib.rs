//! One machine: what is assembled of its robot file, a run on its own thread, and its records.
#![forbid(unsafe_code)]

pub mod assemble;
mod companions;
pub mod desk;
pub mod launch;
pub mod live;
pub mod plain;
mod recording;
pub mod records;
pub mod replay;
pub mod session;
pub mod stepped;
pub mod viewer;

pub use khz_record as recorder;
