//! `khz replay`: a recorded run once more, and what is different.

use super::{note, show, text};
use anyhow::{Result, anyhow};
use khz_file::config::ControllerKind;
use khz_report::replay::{
    self, Apart, AtTick, BodyReplay, ControllerReplay, DecisionApart, Decisions, Deviation, Differences,
    Ended, Engine, Joint, JointDeviation, Source,
};
use std::path::PathBuf;
use std::process::ExitCode;

/// Repeat a recorded run
///
/// Its states for a controller, or its commands for the simulated robot.
///
/// Without `--body`, a controller sees the recorded states, and its commands, within the supervisor's limits, are compared with
/// those that were sent; the exit code is 1 if they differ. With `--body`, the recorded commands drive the simulated servos
/// over the simulated buses, and the joints are compared with the recorded ones: how far the simulation is from the robot.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz replay run.tlog
  khz replay run.tlog --robot tuned.toml
  khz replay run.tlog --body --robot robots/quadruped_mujoco.toml")]
pub struct Args {
    /// The log of a run
    log: PathBuf,
    /// Robot file in place of the one in the log, with other settings or another body
    #[arg(long, value_name = "FILE")]
    robot: Option<PathBuf>,
    /// Controller in place of the robot file's; with its default settings: hold, sine, stand_and_squat or walk
    #[arg(long, value_name = "NAME", conflicts_with = "body")]
    controller: Option<ControllerKind>,
    /// Differences up to this do not count; of numbers above 1, this share of them. The log has 7 digits
    #[arg(long, value_name = "NUMBER", default_value_t = 1e-5, value_parser = tolerance, conflicts_with = "body")]
    tolerance: f64,
    /// Drive the simulated robot
    #[arg(long)]
    body: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "a tolerance is a number from 0 up".to_owned())
}

/// Runs the command.
///
/// # Errors
/// The log or the robot file cannot be used.
pub fn run(args: Args) -> Result<ExitCode> {
    let source = Source { log: args.log, robot: args.robot };
    if args.body {
        let replay = replay::body(&source).map_err(|error| anyhow!(error))?;
        left_out(replay.incomplete, replay.is_cut_off);
        show(&if args.json { json(serde_json::to_string(&replay)?) } else { body_text(&replay) })?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_of_file = args.controller.is_none();
    let replay =
        replay::controller(&source, args.controller, args.tolerance).map_err(|error| anyhow!(error))?;
    left_out(replay.incomplete, replay.is_cut_off);
    if replay.start_missing {
        note(
            "the log begins when the controller was running: it was started at the first tick, and may differ for that",
        );
    }
    if is_of_file && !replay.same && replay.decisions.is_none() {
        note(format_args!(
            "`{}` is what the robot file names; if a controller of your own ran, in Python or Rust, compare it by \
             `kilohertz.replay(log, controller)` or `khz_report::replay::with_controller`",
            replay.controller
        ));
    }
    show(&if args.json { json(serde_json::to_string(&replay)?) } else { controller_text(&replay) })?;
    Ok(ExitCode::from(u8::from(!replay.same)))
}

fn left_out(incomplete: u64, is_cut_off: bool) {
    if is_cut_off {
        note("the log has no end: it is cut off, or still being written; what is there was compared");
    }
    if incomplete > 0 {
        note(format_args!(
            "{incomplete} ticks are not in the log, or not all of them: they were left out, and differences may come from that"
        ));
    }
}

fn json(text: String) -> String {
    text + "\n"
}

fn controller_text(replay: &ControllerReplay) -> String {
    let ControllerReplay { robot, controller, ticks, tolerance, .. } = replay;
    let mut text = format!("controller {controller} on the recorded states of {robot}, {ticks} ticks\n\n");
    let mut rows =
        vec![["joint", "ticks that differ", "first difference", "largest difference"].map(str::to_owned)];
    for Joint { name, outcome: Differences { ticks, first, largest } } in &replay.joints {
        let name = text::name(name).into_owned();
        let [first, largest] =
            [first, largest].map(|apart| apart.as_ref().map_or_else(String::new, difference));
        rows.push([name, ticks.to_string(), first, largest]);
    }
    text.push_str(&text::aligned(&rows));
    if let Some(gave_up) = &replay.gave_up {
        let same = if gave_up.as_recorded { ", as recorded" } else { "" };
        text.push_str(&format!("\nthe controller gave up in tick {}{same}: {}\n", gave_up.tick, gave_up.why));
    }
    let is_reported = |why: &str| replay.gave_up.as_ref().is_some_and(|gave_up| gave_up.why == why);
    if let Some(Ended { tick, why }) = replay.ended.as_ref().filter(|ended| !is_reported(&ended.why)) {
        text.push_str(&format!("\nthe recorded controller gave up in tick {tick}: {why}\n"));
    }
    text.extend(replay.decisions.iter().map(decisions));
    let commands_differ = replay.joints.iter().any(|joint| joint.outcome.ticks > 0);
    let decides_otherwise = replay.decisions.as_ref().is_some_and(|decisions| decisions.first.is_some());
    let beginning =
        if decides_otherwise { "different: the decisions are not those of the log; " } else { "same: " };
    text.push_str(&match replay.same || !commands_differ && replay.gave_up.is_none() {
        true => format!("\n{beginning}every command is within {tolerance:e} of the recorded one\n"),
        false => format!("\ndifferent: not every command is within {tolerance:e} of the recorded one\n"),
    });
    text
}

fn decisions(decisions: &Decisions) -> String {
    let Decisions { recorded, compared, first, models, .. } = decisions;
    let models =
        models.iter().map(|[ran, now]| format!("\nthe model is another one: {ran} ran, this is {now}\n"));
    let outcome = match first {
        None if *compared == 0 => "\nno decision is in the log, and none was made again\n".to_owned(),
        None if compared < recorded => {
            format!("\n{compared} of {recorded} decisions made again, {}\n", how_near(decisions))
        }
        None => format!("\n{compared} decisions made again, {}\n", how_near(decisions)),
        Some(DecisionApart { decision, tick, what, name, element, recorded, replayed }) => {
            let digits = if *what == "carried" { 16 } else { 8 };
            let bits = |bits: &Option<u64>| {
                bits.map_or_else(
                    || "nothing".to_owned(),
                    |bits| format!("{bits:#0width$x}", width = digits + 2),
                )
            };
            let which = match *what {
                "observation" => format!("observation `{}` number {element}", text::name(name)),
                "action" => format!("action for the joint `{}`", text::name(name)),
                _ => "what is carried to the next one".to_owned(),
            };
            let (replayed, recorded) = (bits(replayed), bits(recorded));
            format!(
                "\ndecision {decision}, of tick {tick}, differs: {which} is {replayed}, recorded {recorded}\n"
            )
        }
    };
    models
        .chain([outcome])
        .chain(decisions.engines.as_ref().map(|both| engines(both, decisions.tolerance)))
        .collect()
}

fn how_near(decisions: &Decisions) -> String {
    match decisions.tolerance {
        Some(apart) => {
            format!(
                "within {apart:e} of the largest number of each (largest difference {:.1e})",
                decisions.largest
            )
        }
        None => "equal to the last bit".to_owned(),
    }
}

/// Who was compared with whom.
fn engines([then, now]: &[Engine; 2], tolerance: Option<f64>) -> String {
    let name = |engine: &Engine| {
        let name = if engine.name.is_empty() { "an unknown engine" } else { &engine.name };
        let cpu = if engine.cpu.is_empty() { "an unknown CPU" } else { &engine.cpu };
        format!("{} on {cpu}", name.replace("own ", "Kilohertz "))
    };
    match tolerance {
        None => format!("these and those of the log are by {}\n", name(now)),
        Some(_) => format!(
            "these are by {}, those of the log by {}: onnxruntime repeats its bits only in the same version on the same kind of CPU\n",
            name(now),
            name(then)
        ),
    }
}

fn difference(apart: &Apart) -> String {
    let Apart { place, what, recorded, replayed } = apart;
    let value =
        |value: f64| if *what == "kind" { kind(value).to_owned() } else { (value as f32).to_string() };
    format!("{}: {what} {}, recorded {}", at(place), value(*replayed), value(*recorded))
}

/// Four digits, whatever its size.
fn short(value: f64) -> String {
    if value == 0.0 || value >= 1e-3 { format!("{value:.4}") } else { format!("{value:.1e}") }
}

fn kind(number: f64) -> &'static str {
    ["stop", "damp", "position"].get(number as usize).copied().unwrap_or("unknown")
}

fn at(place: &AtTick) -> String {
    format!("tick {} ({:.3} s)", place.tick, place.time_s)
}

fn body_text(replay: &BodyReplay) -> String {
    let BodyReplay { robot, ticks, .. } = replay;
    let mut text = format!(
        "simulated {robot} under the recorded commands, {ticks} ticks; differences from the recorded joints\n\n"
    );
    let heads = [
        "joint",
        "replies",
        "position RMS",
        "largest",
        "",
        "velocity RMS",
        "largest",
        "torque RMS",
        "largest",
    ];
    let mut rows = vec![heads.map(str::to_owned)];
    for Joint { name, outcome: JointDeviation { position, velocity, torque } } in &replay.joints {
        let of = |deviation: &Deviation, unit: &str| {
            [deviation.rms, deviation.largest].map(|value| match value.is_nan() {
                true => "not reported".to_owned(),
                false => format!("{} {unit}", short(value)),
            })
        };
        let [position_rms, position_most] = of(position, "rad");
        let [velocity_rms, velocity_most] = of(velocity, "rad/s");
        let [torque_rms, torque_most] = of(torque, "N·m");
        let name = text::name(name).into_owned();
        rows.push([
            name,
            position.samples.to_string(),
            position_rms,
            position_most,
            at(&position.place),
            velocity_rms,
            velocity_most,
            torque_rms,
            torque_most,
        ]);
    }
    text.push_str(&text::aligned(&rows));
    text
}
