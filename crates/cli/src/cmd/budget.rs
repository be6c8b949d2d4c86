//! `khz budget`: what a robot's cycle takes, before there is a robot.

use super::{BAD_INPUT, output, show, tell_line};
use anyhow::Result;
use khz_measure::budget::{ChangeError, Inputs, Plan, Prediction, Sweep, apply, published};
use khz_robot::RobotConfig;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Predict the cycle of a robot from bytes, bits and delays
#[derive(clap::Args)]
pub struct Args {
    /// The robot file; without it, the built-in quadruped
    robot: Option<PathBuf>,
    /// Show the published systems and what the model says of them
    #[arg(long, conflicts_with_all = ["robot", "what_if", "sweep", "report"])]
    published: bool,
    /// Change an input, for example bus.rate=8e6; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    what_if: Vec<String>,
    /// Predict for the values of an input, for example servo.count=1..40 or host.gap_us=0.2..0.8
    #[arg(long, value_name = "KEY=FROM..TO")]
    sweep: Option<String>,
    /// Write a page with the chart of one tick; must not be there yet
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Overwrite the page if it is there
    #[arg(long)]
    force: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// If the page cannot be written.
pub fn run(args: Args) -> Result<ExitCode> {
    output::check_all(&args.report, &args.robot, args.force)?;
    if args.published {
        return show_published(args.json);
    }
    let robot = match args.robot.as_ref().map(RobotConfig::load) {
        None => RobotConfig::quadruped(),
        Some(Ok(robot)) => robot,
        Some(Err(error)) => {
            tell_line(&error);
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    robot.warnings.iter().for_each(|warning| tell_line(format_args!("{warning}\n")));
    match predict(&robot, &args) {
        Ok((prediction, sweep)) => tell(&args, &prediction, sweep.as_ref()),
        Err(error) => {
            tell_line(format_args!("khz budget: {error}"));
            Ok(ExitCode::from(BAD_INPUT))
        }
    }
}

fn predict(robot: &RobotConfig, args: &Args) -> Result<(Prediction, Option<Sweep>), ChangeError> {
    let mut plan = Plan::of(robot, Inputs::of(robot));
    args.what_if.iter().try_for_each(|change| apply(&mut plan, change))?;
    let sweep = args.sweep.as_ref().map(|sweep| Sweep::of(&plan, sweep)).transpose()?;
    Ok((plan.predict(), sweep))
}

/// Exit code 1 if the tick does not fit.
fn tell(args: &Args, prediction: &Prediction, sweep: Option<&Sweep>) -> Result<ExitCode> {
    if let Some(file) = &args.report {
        let page = prediction.page(sweep);
        output::save(file, args.force, |file| write!(file, "{page}"))?;
    }
    if args.json {
        show(&format!("{:#}\n", json!({ "prediction": prediction, "sweep": sweep })))?;
    } else {
        show(&(prediction.text() + &sweep.map(Sweep::text).unwrap_or_default()))?;
    }
    let fits = prediction.headroom_ns >= 0 && !prediction.deadline_missed;
    Ok(ExitCode::from(u8::from(!fits)))
}

fn show_published(json: bool) -> Result<ExitCode> {
    let rows = published::all()?;
    let text = if json {
        let row = |row: &published::Published| {
            let mut value = json!(row);
            value["error"] = json!(row.error());
            value
        };
        format!("{:#}\n", json!({ "published": rows.iter().map(row).collect::<Vec<_>>() }))
    } else {
        published::table(&rows)
    };
    show(&text)?;
    Ok(ExitCode::SUCCESS)
}
