//! One machine: its configuration, bus cycle, loop, supervisor and recorder.
#![forbid(unsafe_code)]

pub mod command;
pub mod controller;
pub mod state;

pub use command::{PositionCommand, ServoCommand};
pub use controller::{ControlError, Controller};
pub use state::{ImuState, RobotState, ServoState};
