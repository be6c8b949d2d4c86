//! The program of the README: an emulated pan-tilt head looks around. Ctrl-C brings it down gently.
#![allow(missing_docs, clippy::print_stdout)]

use kilohertz::{PositionCommand, Robot, ServoCommand};

fn main() -> Result<(), kilohertz::Error> {
    let run = Robot::load("robots/pan_tilt.toml")?
        .each_tick(|state, commands| {
            commands.fill(ServoCommand::Position(PositionCommand::hold(0.3 * state.time().sin())));
            Ok(())
        })
        .run()?;
    println!("{}", run.summary);
    run.ended_well()
}
