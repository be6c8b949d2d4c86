//! `khz budget`: what a robot's cycle takes, before there is a robot.

use super::robot_file::RobotFile;
use super::{BAD_INPUT, output, print_line, show, show_text};
use anyhow::{Context, Result};
use khz_budget::{ChangeError, File, Host, Inputs, Prediction, Sweep, TickPlan, apply, published};
use khz_file::RobotConfig;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Predict the cycle of a robot from bytes, bits and delays
#[derive(clap::Args)]
pub struct Args {
    /// The robot file; without it, the built-in quadruped
    robot: Option<PathBuf>,
    /// Measure what this computer takes for its own parts of a tick, with the robot's devices emulated, for 2 s, and keep it for
    /// predictions
    #[arg(long, conflicts_with = "published")]
    measure: bool,
    /// Compare the model's predictions with published systems
    #[arg(long, conflicts_with_all = ["robot", "what_if", "sweep", "report"])]
    published: bool,
    /// Change an input, for example bus.rate=8e6; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    what_if: Vec<String>,
    /// Predict for the values of an input, for example servo.count=1..40 or host.gap_us=0.2..0.8
    #[arg(long, value_name = "KEY=FROM..TO")]
    sweep: Option<String>,
    /// Propose what to change in the robot file to reach this rate, in Hz
    #[arg(long, value_name = "RATE", value_parser = rate, conflicts_with_all = ["published", "what_if", "sweep", "report"])]
    fit: Option<f64>,
    /// Write the file with the changes of --fit; without FILE, the robot file itself. Comments stay
    #[arg(long, value_name = "FILE", requires = "fit", num_args = 0..=1, require_equals = true)]
    write: Option<Option<PathBuf>>,
    /// Write a page with the chart of one tick; must not be there yet
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Overwrite the page, or the FILE of --write, if it is there
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
    if args.measure
        && let Err(error) = measure(args.robot.as_deref())
    {
        print_line(format_args!("khz budget --measure: {error}"));
        return Ok(ExitCode::from(BAD_INPUT));
    }
    if let Some(rate_hz) = args.fit {
        return fit(&args, rate_hz);
    }
    let robot = match args.robot.as_ref().map(RobotConfig::load) {
        None => RobotConfig::quadruped(),
        Some(Ok(robot)) => robot,
        Some(Err(error)) => {
            print_line(&error);
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    robot.warnings.iter().for_each(|warning| print_line(format_args!("{warning}\n")));
    match predict(&robot, &args) {
        Ok((prediction, sweep)) => {
            if let Some(advice) = TickPlan::advice_for_loss(&robot, Inputs::of(&robot)) {
                print_line(format_args!("warning: {advice}\n"));
            }
            show_prediction(&args, &prediction, sweep.as_ref())
        }
        Err(error) => {
            print_line(format_args!("khz budget: {error}"));
            Ok(ExitCode::from(BAD_INPUT))
        }
    }
}

/// Measures this computer with a robot, and keeps what it takes.
fn measure(robot: Option<&Path>) -> Result<(), String> {
    let file = RobotFile::read(robot).map_err(|error| error.to_string())?;
    let robot = RobotConfig::parse(&file.text, &file.name).map_err(|error| error.to_string())?;
    let place =
        Host::measure(&robot, &file.text)?.keep().map_err(|error| format!("cannot be kept: {error}"))?;
    print_line(format_args!(
        "measured on this computer with `{}`, kept in {}\n",
        robot.name,
        place.display()
    ));
    Ok(())
}

fn predict(robot: &RobotConfig, args: &Args) -> Result<(Prediction, Option<Sweep>), ChangeError> {
    let mut plan = TickPlan::of(robot, Inputs::of(robot).on(Host::kept().as_ref(), robot));
    args.what_if.iter().try_for_each(|change| apply(&mut plan, change))?;
    let sweep = args.sweep.as_ref().map(|sweep| Sweep::of(&plan, sweep)).transpose()?;
    Ok((plan.predict(), sweep))
}

/// Exit code 1 if the tick does not fit.
fn show_prediction(args: &Args, prediction: &Prediction, sweep: Option<&Sweep>) -> Result<ExitCode> {
    if let Some(file) = &args.report {
        let page = prediction.page(sweep);
        output::save(file, args.force, |file| write!(file, "{page}"))?;
    }
    if args.json {
        show(&format!("{:#}\n", json!({ "prediction": prediction, "sweep": sweep })))?;
    } else {
        show_text(&(prediction.text() + &sweep.map(Sweep::text).unwrap_or_default()))?;
    }
    Ok(ExitCode::from(u8::from(!prediction.fits())))
}

/// Within what `loop.rate_hz` takes.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (1.0..=10_000.0).contains(rate));
    rate.ok_or_else(|| "a rate is 1 to 10000 Hz".to_owned())
}

/// Exit code 1 if the rate cannot be reached; then nothing is written.
fn fit(args: &Args, rate_hz: f64) -> Result<ExitCode> {
    let target = match &args.write {
        Some(Some(file)) => Some(file),
        Some(None) => Some(args.robot.as_ref().context("--write needs `=FILE` for the built-in robot")?),
        None => None,
    };
    let in_place = target.is_some() && target == args.robot.as_ref();
    let force = args.force || in_place;
    target.map_or(Ok(()), |file| output::check(file, force))?;
    let source = RobotFile::read(args.robot.as_deref());
    let fit = match source.and_then(|file| File::read(&file.text, &file.name)?.on(Host::kept()).fit(rate_hz))
    {
        Ok(fit) => fit,
        Err(error) => {
            print_line(&error);
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    if args.json {
        show(&format!("{:#}\n", json!({ "fit": fit })))?;
    } else {
        show_text(&fit.text())?;
    }
    if !fit.is_reached() {
        if let Some(file) = target {
            print_line(format_args!(
                "nothing was written to {}: {rate_hz} Hz is not reached",
                file.display()
            ));
        }
        return Ok(ExitCode::FAILURE);
    }
    if let Some(file) = target {
        let written = output::save(file, force, |out| write!(out, "{}", fit.text))?;
        print_line(format_args!("written: {}", written.display()));
    }
    Ok(ExitCode::SUCCESS)
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
