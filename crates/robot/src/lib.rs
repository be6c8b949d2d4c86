//! One machine: its configuration, bus cycle, loop, supervisor, and what it records.
#![forbid(unsafe_code)]

pub mod assemble;
mod companions;
pub mod config;
pub mod console;
pub mod controller;
pub mod controllers;
pub mod cycle;
pub mod desk;
pub mod door;
pub mod draft;
pub mod launch;
pub mod links;
pub mod live;
pub mod operator;
mod pace;
pub mod parameters;
pub mod plain;
pub mod ready;
pub mod records;
pub mod replay;
pub mod run;
pub mod session;
pub mod state;
pub mod stats;
pub mod steer;
pub mod stepped;
pub mod supervisor;
mod sync;
pub mod tick;
pub mod time;
pub mod timing;
pub mod viewer;
mod waited;
pub mod watchdogs;

pub use config::{ConfigError, RobotConfig};
pub use controller::{ControlError, Controller};
pub use khz_record as recorder;
pub use khz_servo::{Doing, Fault, Mode, Occasion, PositionCommand, Refused, ServoCommand, ServoState};
pub use state::{ImuState, RobotState, Teleop};
