//! One servo by hand, without a loop: who is there, a command, a register. Here it is emulated; on a real bus only the
//! robot's file differs.
#![allow(missing_docs, clippy::print_stdout)]

use kilohertz::desk::{Desk, Order, Scan, Wanted};
use kilohertz::{PositionCommand, RobotConfig};
use std::error::Error;
use std::time::Duration;

const ONE: &str = r#"
[bus.main]
link = "emulated"

[[servo]]
name = "pan"
bus = "main"
id = 1
"#;

/// An answer takes some hundred microseconds; a busy computer more.
const TIMEOUT_NS: i64 = 1_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut desk = Desk::connect(&RobotConfig::parse(ONE, "one.toml")?)?;
    for found in desk.scan(0, &Scan { last: 4, timeout_ns: 50_000_000, together: false })? {
        println!(
            "id {} has firmware {}",
            found.answer.id,
            found.answer.identity.firmware.unwrap_or_default()
        );
    }

    let pan = desk.servos()[0].clone();
    // So that it follows although the command is not repeated.
    let follow = Order::Position { command: PositionCommand::hold(0.3), watchdog_s: f64::NAN };
    desk.exchange(&pan, Some(&follow), &[], TIMEOUT_NS)?;
    std::thread::sleep(Duration::from_secs(1));

    let voltage = pan.register("bus voltage")?;
    let answer =
        desk.exchange(&pan, None, &[Wanted { number: voltage, format: Some("float") }], TIMEOUT_NS)?;
    println!(
        "at {:.1} rad, {:.0} V",
        answer.position.unwrap_or(f64::NAN),
        answer.voltage.unwrap_or(f64::NAN)
    );
    desk.exchange(&pan, Some(&Order::Stop), &[], TIMEOUT_NS)?;
    Ok(())
}
