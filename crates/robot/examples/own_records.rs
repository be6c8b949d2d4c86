//! A controller that records values of its own, beside those of every run: `cargo run --release -p khz-robot --example own_records`.
//!
//! An emulated joint swings for two seconds. `khz log plot own_records.tlog -o swing.html` shows `swing.behind` in its unit.
#![allow(clippy::print_stdout)]

use khz_robot::controller::{Controller, Sine};
use khz_robot::launch::Launch;
use khz_robot::recorder::{Plan, RecordId, Tap};
use khz_robot::{ControlError, RobotConfig, RobotState, ServoCommand};
use khz_tlog::Record;
use std::error::Error;
use std::sync::Arc;

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
    let config = RobotConfig::parse(ROBOT, "own_records")?;
    let mut plan = Plan::new(config.log.clone());
    let swing = plan.record("swing", &Swing::schema())?;
    let tap = plan.tap(1 << 20);
    let controller = Box::new(Swinging { sine: Sine::new(Default::default()), swing, tap });
    let launch =
        Launch::start_with(plan, &config, ROBOT, Some(controller), Some(2_000_000_000), Arc::default())?;
    let recording = launch.land()?.recording.unwrap_or_default();
    for record in &recording.records {
        println!("{}: {} samples, {} dropped", record.name, record.written, record.dropped);
    }
    println!("{:?}", recording.paths);
    Ok(())
}
