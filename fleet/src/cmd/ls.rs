//! `khz-fleet ls`.

use super::show;
use crate::fleet::{Robots, look};
use crate::network::{Options, Role};
use anyhow::Result;
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;

/// List the robots: which are up, their phases, rates and verdicts
///
/// Exit codes: 0 every robot is up, 1 one is not or there is none, 2 the network cannot be reached.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON: an object for each robot
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args, network: &Options) -> Result<ExitCode> {
    let session = network.session(Role::Visitor)?;
    let robots = look(&session)?;
    show(&if args.json { as_json(&robots) } else { table(&robots) })?;
    let all_up = !robots.is_empty() && robots.values().all(|robot| robot.is_up);
    Ok(ExitCode::from(u8::from(!all_up)))
}

fn as_json(robots: &Robots) -> String {
    let one = |(name, seen): (&crate::names::RobotName, &crate::fleet::Seen)| {
        let status = seen.status.as_ref().map(|(status, _)| status);
        json!({ "name": name.as_str(), "up": seen.is_up, "state": seen.state(), "bridges": seen.bridges, "status": status })
    };
    format!("{:#}\n", json!(robots.iter().map(one).collect::<Vec<_>>()))
}

/// The robots as a table; the columns line up.
pub fn table(robots: &Robots) -> String {
    if robots.is_empty() {
        return "no robot is on the network\n".into();
    }
    let head = ["ROBOT", "STATE", "PHASE", "RATE", "WAKE", "LOST", "LAST 10 S"].map(str::to_owned);
    let rows = robots.iter().map(|(name, seen)| {
        let status = seen.status.as_ref().map(|(status, _)| status);
        let of =
            |text: &dyn Fn(&crate::bridge::Status) -> String| status.map_or_else(|| "-".to_owned(), text);
        [
            name.to_string(),
            seen.state(),
            of(&|status| status.health.phase.clone()),
            of(&|status| format!("{:.0} Hz", status.health.rate_hz)),
            of(&|status| format!("{:.0} µs", status.health.recent.worst_wake_us)),
            of(&|status| {
                (status.received.lost + status.received.behind + status.dropped + seen.lost).to_string()
            }),
            of(&|status| status.verdict.clone()),
        ]
    });
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    let widths: Vec<usize> =
        (0..7).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let line: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.chars().count())))
            .collect();
        _ = writeln!(text, "{}", line.join("  ").trim_end());
    }
    text
}
