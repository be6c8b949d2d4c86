//! A robot described by the program instead of a file: an emulated head of two joints.
#![allow(missing_docs, clippy::print_stdout)]

use kilohertz::config::{BusConfig, EmulatedLink, LinkConfig, RobotConfig, ServoSettings};
use kilohertz::{PositionCommand, Robot, ServoCommand};
use std::time::Duration;

fn main() -> Result<(), kilohertz::Error> {
    let joint = |(id, name): (u8, &str)| {
        ServoSettings { name: name.into(), bus: "neck".into(), id, ..ServoSettings::default() }.into()
    };
    let head = RobotConfig {
        name: "head".into(),
        buses: vec![BusConfig::new("neck", LinkConfig::Emulated(EmulatedLink::default()))],
        servos: [(1, "pan"), (2, "tilt")].map(joint).to_vec(),
        ..RobotConfig::default()
    };
    let run = Robot::of(&head)?
        .no_log()
        .duration(Duration::from_secs(2))
        .each_tick(|state, commands| {
            commands.fill(ServoCommand::Position(PositionCommand::hold(0.3 * state.time().sin())));
            Ok(())
        })
        .run()?;
    println!("{}", run.summary);
    run.ended_well()
}
