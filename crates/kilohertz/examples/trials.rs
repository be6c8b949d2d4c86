//! Several runs of one program, in real time: three trials of an emulated head. Ctrl-C ends the trial and starts no next one.
#![allow(missing_docs, clippy::print_stdout)]

use kilohertz::Robot;
use std::time::Duration;

fn main() -> Result<(), kilohertz::Error> {
    for amplitude in [0.1, 0.2, 0.3] {
        let robot = Robot::load("robots/pan_tilt.toml")?.no_log().duration(Duration::from_secs(20));
        let run = robot.configure(|config| config.name = format!("amplitude {amplitude}")).run()?;
        println!("{}: {}", run.summary.robot, run.summary.end);
    }
    std::thread::sleep(Duration::from_secs(20));
    Ok(())
}
