//! The robot file: its content, the links and families it may name, and drafts of new ones.
//!
//! It knows what the loop, the controllers and the emulation need of a file, and starts none of them.
#![forbid(unsafe_code)]

pub mod config;
pub mod draft;
pub mod edit;
pub mod found;
pub mod links;

pub use config::{ConfigError, RobotConfig};
