//! The smallest program that runs a robot: an emulated leg of two joints, held where it is found.
#![allow(missing_docs, clippy::print_stdout)]

use kilohertz::Robot;
use std::time::Duration;

const LEG: &str = r#"
[bus.leg]
link = "emulated"

[[servo]]
name = "hip"
bus = "leg"
id = 1

[[servo]]
name = "knee"
bus = "leg"
id = 2

[controller]
name = "hold"
"#;

fn main() -> Result<(), kilohertz::Error> {
    let run = Robot::parse(LEG, "leg.toml")?.no_log().duration(Duration::from_secs(1)).run()?;
    println!("{}", run.summary);
    run.ended_well()
}
