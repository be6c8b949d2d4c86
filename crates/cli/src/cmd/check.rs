//! `khz check`: validates a robot file and summarizes it.

pub mod advice;

use super::robot_file::RobotFile;
use super::{BAD_INPUT, print_line, show, show_text, text};
use advice::Checked;
use anyhow::Result;
use khz_budget::{File, Host};
use khz_controllers::policy::{Evaluator, gain_shares, read};
use khz_file::RobotConfig;
use khz_file::config::{ConfigError, ControllerConfig, Problem, ServoConfig};
use khz_robot::assemble;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Check a robot file and show what it describes.
#[derive(clap::Args)]
pub struct Args {
    /// The robot file; without it, the built-in quadruped.
    robot: Option<PathBuf>,
    /// Print the machine as a Mermaid block diagram.
    #[arg(long, conflicts_with = "json")]
    diagram: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of robot files, for editors.
    #[arg(long, conflicts_with_all = ["json", "diagram", "robot"])]
    schema: bool,
}

/// Shows the robot, or everything wrong with its file.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.schema {
        show(&format!("{:#}\n", khz_file::config::schema()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let checked = match checked(args.robot.as_deref()) {
        Ok(checked) => checked,
        Err(error) => {
            if args.json {
                show(&format!("{:#}\n", refusal(&error)))?;
            } else {
                print_line(format_args!("{error}\n\n{}", verdict(&error)));
            }
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    let warnings = checked.warnings();
    warnings.iter().for_each(|warning| print_line(format_args!("{warning}\n")));
    match (args.json, args.diagram) {
        (true, _) => show(&format!("{:#}\n", summary(&checked, &warnings))),
        (_, true) => show(&checked.robot.diagram()),
        _ => show_text(
            &(table(&checked.robot) + &engine(&checked.robot) + &checked.body() + &checked.budget()),
        ),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// A robot file, with what its controller needs, and what its cycle takes.
///
/// # Errors
/// Everything that is wrong with it.
pub(super) fn checked(robot: Option<&Path>) -> Result<Checked, ConfigError> {
    let source = RobotFile::read(robot)?;
    let robot = prepared(with_heartbeats(RobotConfig::parse(&source.text, &source.name)?)?)?;
    let file = File::read(&source.text, &source.name)?.on(Host::kept());
    let prediction = file.predict();
    let cures = if prediction.fits() { Vec::new() } else { file.cures() };
    let simulation = robot.simulation();
    Ok(Checked { robot, prediction, cures, simulation })
}

/// The robot, if its heartbeats can be received where its file expects them; reading the file alone does not show that.
fn with_heartbeats(robot: RobotConfig) -> Result<RobotConfig, ConfigError> {
    match khz_loop::operator::check(&robot.supervisor) {
        Ok(()) => Ok(robot),
        Err(error) => {
            let problem = Problem::error("supervisor.heartbeat_from", error.to_string());
            Err(ConfigError::new(vec![problem], "", ""))
        }
    }
}

/// A robot whose controller finds what it needs: of a policy, its model.
fn prepared(robot: RobotConfig) -> Result<RobotConfig, ConfigError> {
    match assemble::controller(&robot.controller).prepare(&assemble::info(&robot)) {
        Ok(()) => Ok(robot),
        Err(error) => {
            let problem = Problem::error(
                "controller",
                format!("the controller `{}`: {error}", robot.controller.kind()),
            );
            Err(ConfigError::new(vec![problem], "", ""))
        }
    }
}

fn verdict(error: &ConfigError) -> String {
    let warnings = error.problems.iter().filter(|problem| problem.warning).count();
    let errors = counted(error.problems.len() - warnings, "error", "errors");
    if warnings == 0 { errors } else { format!("{errors}, {}", counted(warnings, "warning", "warnings")) }
}

fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn refusal(error: &ConfigError) -> Value {
    let problem = |problem: &Problem| {
        json!({
            "severity": if problem.warning { "warning" } else { "error" },
            "key": problem.key,
            "line": problem.line,
            "column": problem.column,
            "message": problem.title,
            "help": problem.help,
        })
    };
    json!({ "valid": false, "problems": error.problems.iter().map(problem).collect::<Vec<_>>() })
}

fn summary(checked: &Checked, warnings: &[String]) -> Value {
    let (robot, prediction) = (&checked.robot, &checked.prediction);
    let servo = |servo: &ServoConfig| {
        json!({
            "name": servo.name,
            "id": servo.id,
            "family": servo.family.word(),
            "model": servo.model(),
            "position": servo.limits.position,
            "velocity": servo.limits.velocity,
            "torque": servo.limits.torque,
            "watchdog_s": servo.watchdog_s,
        })
    };
    let bus = |(i, bus): (usize, &khz_file::config::BusConfig)| {
        json!({
            "name": bus.name,
            "link": bus.link.kind().word(),
            "endpoint": bus.link.endpoint(),
            "servos": robot.servos_on(i).map(|(_, s)| servo(s)).collect::<Vec<_>>(),
        })
    };
    json!({
        "valid": true,
        "name": robot.name,
        "rate_hz": robot.timing.rate_hz,
        "mode": robot.timing.mode.word(),
        "period_ns": robot.timing.period_ns(),
        "bus_deadline_ns": robot.timing.bus_deadline_ns(),
        "controller": robot.controller.kind().word(),
        "imu": robot.imu.as_ref().map(|imu| imu.link.word()),
        "log": robot.log.enabled.then_some(&robot.log.path),
        "buses": robot.buses.iter().enumerate().map(bus).collect::<Vec<_>>(),
        "values": robot.values(),
        "clock": robot.timing.clock.word(),
        "bearable_stall_s": robot.bearable_stall_s(),
        "recoverable_stall_s": robot.recoverable_stall_s(),
        "budget": {
            "fits": prediction.fits(),
            "cycle_ns": prediction.cycle_ns,
            "longest_cycle_ns": prediction.longest_cycle_ns,
            "start_cycle_ns": prediction.start_cycle_ns,
            "tick_ns": prediction.tick_ns,
            "counts_until_ns": prediction.counts_until_ns,
            "cures": checked.cures,
        },
        "warnings": warnings,
    })
}

/// What evaluates the model of a policy, and why, if that is not Kilohertz.
fn engine(robot: &RobotConfig) -> String {
    let ControllerConfig::Policy(policy) = &robot.controller else { return String::new() };
    let evaluator =
        read(Path::new(&policy.model)).ok().and_then(|bytes| Evaluator::load(&bytes, policy.engine).ok());
    let Some(evaluator) = evaluator.filter(|evaluator| matches!(evaluator, Evaluator::Library(..))) else {
        return String::new();
    };
    let why = evaluator.beyond().unwrap_or("`engine` says so");
    format!(
        "\n  the policy is evaluated by {}: {why}; tried here, it had the same bits twice\n",
        evaluator.engine()
    )
}

fn table(robot: &RobotConfig) -> String {
    let timing = &robot.timing;
    let imu = robot.imu.as_ref().map_or("none", |imu| imu.link.word());
    let log = if robot.log.enabled { &robot.log.path } else { "none" };
    let mut text = format!(
        "{}: {} on {} at {} Hz, {}, {} clock\n  bus deadline {:.0} µs   wake {}   policy {} {}   controller {}\n  \
         IMU {imu}   log {log}\n\n",
        robot.name,
        counted(robot.servos.len(), "servo", "servos"),
        counted(robot.buses.len(), "bus", "buses"),
        timing.rate_hz,
        timing.mode,
        timing.clock,
        timing.bus_deadline_ns() as f64 / 1e3,
        timing.wake,
        timing.policy,
        timing.priority,
        robot.controller.kind(),
    );
    text.push_str(&servos(robot));
    let mut ends = BTreeSet::new();
    for servo in &robot.servos {
        let end = servo.family().settings().cut_off();
        let after = match servo.in_file().facts().has_watchdog {
            true => format!(" for {} s", servo.watchdog_s),
            false => String::new(),
        };
        ends.insert(format!("\n  family {}: a servo cut off{after} {end}", servo.family));
    }
    text.extend(ends);
    let stall = khz_page::duration(robot.bearable_stall_s() * 1e9);
    let _ = write!(
        text,
        "\n  stalls: a loop that is held up for less than {stall} goes on; {}for longer, a robot that is driven comes down",
        robot.recoverable_stall_s().map_or(String::new(), |most_s| format!(
            "for up to {}, it recovers if its joints have hardly moved; ",
            khz_page::duration(most_s * 1e9)
        ))
    );
    text.push('\n');
    text
}

/// A table of the servos, with a line above those of each bus.
fn servos(robot: &RobotConfig) -> String {
    let head = ["servo", "id", "family", "position rad", "rad/s", "N·m", "kp", "kd"].map(str::to_owned);
    let shares = match &robot.controller {
        ControllerConfig::Policy(policy) => gain_shares(policy, &assemble::info(robot)).ok(),
        _ => None,
    };
    let row = |(place, servo): (usize, &ServoConfig)| {
        let limits = &servo.limits;
        let position = limits.position.map_or("free".to_owned(), |[low, high]| format!("{low} … {high}"));
        let number = |limit: Option<f64>| limit.map_or("–".to_owned(), |limit| limit.to_string());
        let [velocity, torque] = [number(limits.velocity), number(limits.torque)];
        let is_emulated = robot.buses[servo.bus].link.is_emulated();
        let share = shares.as_ref().map_or([1.0; 2], |shares| shares[place]);
        let gains = gains(is_emulated, servo);
        let [kp, kd] = [0, 1].map(|which| commanded(gains[which], share[which]));
        [servo.name.clone(), servo.id.to_string(), family(servo), position, velocity, torque, kp, kd]
    };
    let of_bus = |bus| robot.servos_on(bus).map(row).collect::<Vec<_>>();
    let buses: Vec<_> = (0..robot.buses.len()).map(of_bus).collect();
    let rows: Vec<_> = std::iter::once(head).chain(buses.iter().flatten().cloned()).collect();
    let table = text::aligned(&rows);
    let mut lines = table.lines();
    let mut text: String = lines.next().iter().map(|head| format!("  {head}\n")).collect();
    for (bus, rows) in robot.buses.iter().zip(&buses) {
        let link = format!("{} {}", bus.link.kind(), bus.link.endpoint());
        let _ = writeln!(text, "  {}: {}", bus.name, link.trim_end());
        text.extend(lines.by_ref().take(rows.len()).map(|line| format!("  {line}\n")));
    }
    text
}

/// The family, with the model where the file has one.
fn family(servo: &ServoConfig) -> String {
    let model = servo.model().map(|model| format!(" {model}"));
    format!("{}{}", servo.family, model.unwrap_or_default())
}

/// A gain that is commanded: of the servo's so much, where it is not all of it.
fn commanded(gain: Option<f64>, share: f64) -> String {
    // What follows from a servo's own units has more digits than are known.
    let short = |number: f64| (number * 1e3).round() / 1e3;
    match gain {
        Some(gain) if share != 1.0 => format!("{} of {}", short(gain * share), short(gain)),
        Some(gain) => short(gain).to_string(),
        None if share != 1.0 => format!("× {}", short(share)),
        None => "–".to_owned(),
    }
}

/// The gains in N·m/rad and N·m·s/rad, if the file has them: a real moteus keeps its own.
fn gains(is_emulated: bool, servo: &ServoConfig) -> [Option<f64>; 2] {
    let known = is_emulated || servo.in_file().facts().sends_gains;
    servo.gains().map(|gain| known.then_some(gain))
}
