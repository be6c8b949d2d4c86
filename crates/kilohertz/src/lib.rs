//! Runs a robot's full control cycle a thousand times a second on ordinary Linux, from a program of your own.
//!
//! [`Robot`] is the way in: a robot file and a controller become a run, the run a summary, a log and a report. This program
//! drives the first joint; Ctrl-C brings the robot down gently:
//!
//! ```no_run
//! use kilohertz::{PositionCommand, Robot, ServoCommand};
//!
//! fn main() -> Result<(), kilohertz::Error> {
//!     let run = Robot::load("robot.toml")?
//!         .each_tick(|state, commands| {
//!             commands[0] = ServoCommand::Position(PositionCommand::hold(0.3 * state.time().sin()));
//!             Ok(())
//!         })
//!         .run()?;
//!     println!("{}", run.summary);
//!     run.ended_well()
//! }
//! ```
//!
//! `khz run`, the Python package and the C library run robots by it, too. More examples are in the folder `examples`.
#![forbid(unsafe_code)]

pub mod live;
pub mod output;
mod robot;
mod signals;

pub use khz_controllers::{Hold, Sine, StandAndSquat, Walk};
pub use khz_file::config::{self, RobotConfig};
pub use khz_loop::controller::{ControlError, Controller, JointInfo, Pace, RobotInfo};
pub use khz_loop::parameters::{LiveParameters, Parameter, ParameterError};
pub use khz_loop::run::{Observer, Tick};
pub use khz_loop::state::{ImuState, RobotState, Teleop};
pub use khz_loop::steer::{self, Steering};
pub use khz_loop::{Doing, Fault, PositionCommand, ServoCommand, ServoState};
pub use khz_report::run::RunSummary;
pub use khz_robot::{desk, recorder as record, viewer};
pub use khz_run::record::Tick as LiveTick;
pub use khz_targets as targets;
pub use robot::{Error, Finished, Overrides, ReportPage, Robot, Run};
pub use signals::{ending_signals, stop_on_signal};
