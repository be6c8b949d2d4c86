//! A controller that records its own values, beside those of every run: `cargo run --release --package kilohertz --example own_records`.
//!
//! An emulated joint swings for two seconds. `khz log plot own_records.tlog -o swing.html` shows `swing.behind` in its unit.
#![allow(clippy::print_stdout)]

use khz_tlog::Record;
use kilohertz::record::{RecordId, RecorderBuilder, Tap};
use kilohertz::{ControlError, Controller, Robot, RobotState, ServoCommand, Sine};
use std::error::Error;
use std::time::Duration;

const ROBOT: &str = r#"
    [bus.main]
    link = "emulated"

    [[servo]]
    name = "pan"
    bus = "main"
    id = 1

    [log]
    path = "own_records.tlog"
"#;

/// What is recorded in every tick: names, types and units in the log are those written here.
#[derive(Record)]
struct Swing {
    #[tlog(unit = "rad")]
    target: f32,
    #[tlog(unit = "rad")]
    behind: f32,
}

struct Swinging {
    sine: Sine,
    swing: RecordId,
    tap: Tap,
}

impl Controller for Swinging {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.sine.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.sine.update(state, commands)?;
        if let ServoCommand::Position(command) = &commands[0] {
            let behind = command.position - state.servos[0].position;
            let value = Swing { target: command.position as f32, behind: behind as f32 };
            // Never waits. When the log cannot keep up it returns false, and the sample is counted as dropped.
            self.tap.push_value(self.swing, state.now_ns, &value);
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut builder = RecorderBuilder::default();
    let swing = builder.record("swing", &Swing::schema())?;
    let tap = builder.tap(1 << 20);
    let controller = Swinging { sine: Sine::new(Default::default()), swing, tap };
    let robot = Robot::parse(ROBOT, "own_records")?.recorder(builder).controller(controller);
    let run = robot.duration(Duration::from_secs(2)).run()?;
    println!("{}", run.summary);
    Ok(())
}
