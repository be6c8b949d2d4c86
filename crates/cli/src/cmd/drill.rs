//! `khz drill`: break the emulated robot on purpose and measure what happens.

use super::show;
use anyhow::{Context, Result};
use khz_measure::drill::campaign::{Campaign, campaign};
use khz_measure::drill::fall::{Fall, experiments, page, ratio};
use khz_robot::RobotConfig;
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Break the emulated robot on purpose and measure what happens.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    drill: Drill,
}

#[derive(clap::Subcommand)]
enum Drill {
    /// One fault, several reactions: how hard does the robot come down?
    Fall {
        /// The robot file; without it, the built-in quadruped.
        robot: Option<PathBuf>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
        /// Write the plots to this HTML file.
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
    },
    /// Thousands of runs with faults drawn at random, and what must hold in every one.
    Campaign {
        /// The robot file; without it, the built-in quadruped.
        robot: Option<PathBuf>,
        /// How many runs.
        #[arg(long, default_value_t = 1000)]
        scenarios: u64,
        /// Seed of the first run; a violation's seed replays it.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the drill; 1 if something did not hold.
pub fn run(args: Args) -> Result<ExitCode> {
    let load = |path: Option<PathBuf>| match path {
        Some(path) => RobotConfig::load(path),
        None => Ok(RobotConfig::quadruped()),
    };
    match args.drill {
        Drill::Fall { robot, json, report } => {
            let falls = experiments(&load(robot)?)?;
            if let Some(path) = report {
                std::fs::write(&path, page(&falls).to_string())
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
            show(&if json { falls_json(&falls) } else { falls_table(&falls) })?;
            Ok(ExitCode::SUCCESS)
        }
        Drill::Campaign { robot, scenarios, seed, json } => {
            // Controllers panic by the hundred here; each is caught and none is news.
            std::panic::set_hook(Box::new(|_| {}));
            let result = campaign(&load(robot)?, scenarios, seed);
            drop(std::panic::take_hook());
            let result = result?;
            show(&if json { format!("{:#}\n", json!(result)) } else { campaign_text(&result) })?;
            Ok(ExitCode::from(u8::from(!result.violations.is_empty())))
        }
    }
}

fn falls_json(falls: &[Fall]) -> String {
    let speeds: serde_json::Map<_, _> =
        falls.iter().map(|fall| (fall.name.to_owned(), json!(fall.contact_speed))).collect();
    let value = json!({ "contact_speed": speeds, "ratio_to_power_cut": ratio(falls), "experiments": falls });
    format!("{value:#}\n")
}

fn falls_table(falls: &[Fall]) -> String {
    let mut text = format!(
        "{:<30} {:>11} {:>12} {:>15} {:>12}  {}\n",
        "", "contact m/s", "peak force N", "peak torque N·m", "answered ms", "because of"
    );
    for fall in falls {
        let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<30} {:>11} {:>12.0} {:>15.2} {:>12}  {}",
            fall.name,
            number(fall.contact_speed),
            fall.peak_force,
            fall.peak_torque,
            number(fall.reaction_ms),
            fall.cause.as_deref().unwrap_or("–"),
        );
    }
    if let Some(ratio) = ratio(falls) {
        let _ = writeln!(text, "\ncontact speed of our reaction / power cut: {ratio:.3}");
    }
    text
}

fn campaign_text(campaign: &Campaign) -> String {
    let mut text = format!(
        "{} scenarios from seed {}: {} brought down by trouble, {} violations\n",
        campaign.scenarios,
        campaign.seed,
        campaign.brought_down,
        campaign.violations.len()
    );
    if let Some(reaction) = campaign.reaction_us {
        let _ = writeln!(
            text,
            "fault on the wire → last damping command: p50 {:.0} µs, p90 {:.0} µs, p99 {:.0} µs, p99.9 {:.0} µs, max {:.0} µs (allowed {:.0} µs, {} runs)",
            reaction.p50,
            reaction.p90,
            reaction.p99,
            reaction.p999,
            reaction.max,
            reaction.allowed,
            reaction.count
        );
    }
    for violation in &campaign.violations {
        let _ = writeln!(text, "\nVIOLATION {}\n  {}", violation.what, violation.scenario);
        let _ = writeln!(text, "  replay: khz drill campaign --scenarios 1 --seed {}", violation.seed);
    }
    text
}
