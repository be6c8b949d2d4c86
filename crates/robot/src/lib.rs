//! One machine: its robot file, what is assembled of it, and the life and the records of a run.
#![forbid(unsafe_code)]

pub mod assemble;
mod companions;
pub mod config;
pub mod desk;
pub mod draft;
pub mod launch;
pub mod links;
pub mod live;
pub mod plain;
pub mod records;
pub mod replay;
pub mod session;
pub mod stepped;
pub mod viewer;

pub use config::{ConfigError, RobotConfig};
pub use khz_record as recorder;
