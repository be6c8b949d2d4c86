//! `khz-fleet ls`.

use super::show;
use crate::fleet::{NONE_SEEN, Robots, look};
use crate::names::RobotName;
use crate::network::{Options, Role};
use anyhow::Result;
use khz_view::text::{name, plain, shortened};
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;

/// List the robots: which are up, their phases, rates and verdicts
///
/// STATE is up while samples arrive; ended after the robot has reported the end of its run; silent if samples stopped without such a
/// report (dead, frozen or cut off); unreachable without a bridge. A robot that has answered here within the last 24 h is expected until
/// --forget. Several bridges that answer for one robot are an alarm. WORST WAKE is the worst wake latency of the loop in the last 10 s,
/// LOST the samples lost on the way here since the run began. For a robot that a fault has brought down, the last column has the cause.
///
/// Exit codes: 0 every robot is up, 1 one is not or there is none, 2 the network cannot be reached.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON: an object for each robot
    #[arg(long)]
    json: bool,
    /// Stop expecting this robot; repeatable
    #[arg(long, value_name = "ROBOT", value_parser = RobotName::new)]
    forget: Vec<RobotName>,
}

/// Runs the command.
pub fn run(args: &Args, network: &Options) -> Result<ExitCode> {
    let session = network.session(Role::Visitor)?;
    let mut known = network.known()?;
    args.forget.iter().for_each(|robot| _ = known.forget(robot));
    let mut robots = known.robots();
    look(&session, &mut robots)?;
    known.note_answering(&robots);
    show(&if args.json { as_json(&robots) } else { table(&robots) })?;
    let all_up = !robots.is_empty() && robots.values().all(crate::fleet::Seen::is_up);
    Ok(ExitCode::from(u8::from(!all_up)))
}

fn as_json(robots: &Robots) -> String {
    let one = |(name, seen): (&crate::names::RobotName, &crate::fleet::Seen)| {
        let status = seen.status();
        json!({ "name": name.as_str(), "up": seen.is_up(), "state": seen.state(), "bridges": seen.bridges, "status": status })
    };
    format!("{:#}\n", json!(robots.iter().map(one).collect::<Vec<_>>()))
}

/// The robots as a table; the columns line up.
pub fn table(robots: &Robots) -> String {
    if robots.is_empty() {
        return format!("{NONE_SEEN}\n");
    }
    let head = ["ROBOT", "STATE", "PHASE", "RATE", "WORST WAKE", "LOST", "LAST 10 S"].map(str::to_owned);
    let rows = robots.iter().map(|(robot, seen)| {
        let [phase, rate, wake, lost, last] = seen.figures("-");
        // A text of the network has one line, and no control over the terminal: columns line up with what is shown.
        let cells = [robot.to_string(), seen.state(), phase, rate, wake, lost]
            .map(|cell| shortened(&plain(&cell)).into_owned());
        let [robot, state, phase, rate, wake, lost] = cells;
        [robot, state, phase, rate, wake, lost, plain(&name(&last))]
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
