//! One robot's loop: bus cycle, supervisor, controller, and what may be asked of them, tick by tick.
//!
//! It knows servos and links by their traits, and no robot file: assembly hands it plain values.
#![forbid(unsafe_code)]

pub mod buses;
pub mod console;
pub mod controller;
pub mod cycle;
pub mod feed;
pub mod operator;
mod pace;
pub mod parameters;
pub mod ready;
pub mod requests;
pub mod run;
pub mod state;
pub mod stats;
pub mod steer;
pub mod supervisor;
mod sync;
pub mod tick;
pub mod time;
pub mod timing;
pub mod waited;
pub mod watchdogs;

pub use controller::{ControlError, Controller};
pub use khz_servo::{
    Aside, Doing, Fault, MOST_ASKED, Mode, Occasion, PositionCommand, Refused, ServoCommand, ServoState,
};
pub use state::{ImuState, RobotState, Teleop};
