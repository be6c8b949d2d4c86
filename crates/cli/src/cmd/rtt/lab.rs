//! `khz rtt lab`: the study's experiments inside one machine.

use super::send;
use crate::cmd::{output, print_line, show, stop_on_signal};
use anyhow::{Context, Result};
use khz_file::RobotConfig;
use khz_rtt::{Lab, LabResults, Ports, Receive, with_servos};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Build a network in namespaces of this machine, measure in it, and remove it again.
///
/// Needs root. Nothing outside the namespaces is touched. There is no wire in it: it shows what the kernel and the
/// programs take. Exit code 1: something was lost, or never asked.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo khz rtt lab --duration 10s --report lab.html
  sudo khz rtt lab --loss-percent 0.1 --only \"1 kHz\"
  sudo khz rtt lab --robot robots/ethernet.toml --per-board 3")]
pub struct Args {
    /// Devices at the switch, 1 to 250.
    #[arg(long, default_value_t = 40)]
    devices: usize,
    /// Time for each of the seven experiments, for example 10s; a number alone is seconds.
    #[arg(long, default_value = "10s", value_parser = crate::duration::parse_seconds)]
    duration: Duration,
    /// Bytes of a datagram.
    #[arg(long, default_value_t = 200)]
    payload: usize,
    /// Limit each port to this many Mbit/s (the kernel's qdisc tbf).
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    limit_mbit: Option<u32>,
    /// Delay of each datagram in each direction (the kernel's qdisc netem), µs.
    #[arg(long, default_value_t = 0)]
    delay_us: u32,
    /// Random variation of this delay, up or down by at most this, µs.
    #[arg(long, default_value_t = 0)]
    jitter_us: u32,
    /// Packet loss each way, in percent (the kernel's qdisc netem).
    #[arg(long, default_value_t = 0.0)]
    loss_percent: f64,
    /// How the controller waits for answers: block, hybrid or spin.
    #[arg(long, default_value = "block")]
    receive: Receive,
    /// Real-time priority of the controller, 1 to 98; 0 for an ordinary thread.
    #[arg(long, default_value_t = 80)]
    priority: u8,
    /// Only the experiments whose name contains this, for example "1 kHz".
    #[arg(long, value_name = "WORD")]
    only: Option<String>,
    /// Use the kernel's timestamps of every datagram.
    #[arg(long)]
    stamps: bool,
    /// Instead of the experiments, run this robot file (`khz run`) against its servos, emulated on boards that have a
    /// namespace each. Its one bus must be a broadcast to 10.77.255.255.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["devices", "payload", "only", "stamps"])]
    robot: Option<PathBuf>,
    /// Servos on a board, which answers for all of them in one datagram.
    #[arg(long, value_name = "SERVOS", default_value_t = 1, requires = "robot")]
    per_board: usize,
    /// Write the HTML report here, which must not be there yet; by default to `rtt-lab.html`, or `rtt-lab-1.html` and so on.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Overwrite the report if it is there.
    #[arg(long)]
    force: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const DEFAULT_REPORT: &str = "rtt-lab.html";

/// Makes the experiments, then shows them.
pub fn run(args: Args) -> Result<ExitCode> {
    output::check_all(&args.report, &args.robot, args.force)?;
    let report = args.report.clone().unwrap_or_else(|| DEFAULT_REPORT.into());
    if let Some(file) = &args.robot {
        return run_robot(file, &report, &args);
    }
    let lab = Lab {
        devices: args.devices,
        seconds: args.duration.as_secs_f64(),
        payload: args.payload,
        ports: ports(&args),
        receive: args.receive,
        setup: super::setup(args.priority, None),
        only: args.only,
        stamps: args.stamps,
    };
    let stop = stop_on_signal()?;
    let results = lab.run(&stop, |name| print_line(format_args!("{name} …")))?;
    let page = results.page();
    let report = output::save(&report, args.force, |file| write!(file, "{page}"))?;
    show(&if args.json { format!("{:#}\n", summary(&results)) } else { table(&results) })?;
    print_line(format_args!("report: {}", report.display()));
    let whole = results.runs.iter().all(|run| run.problems().is_empty());
    Ok(ExitCode::from(u8::from(!whole)))
}

fn ports(args: &Args) -> Ports {
    let &Args { limit_mbit, delay_us, jitter_us, loss_percent, .. } = args;
    Ports { limit_mbit, delay_us, jitter_us, loss_percent }
}

/// `khz run` in the controller's namespace, with this program's own output; its exit code is ours.
fn run_robot(file: &Path, report: &Path, args: &Args) -> Result<ExitCode> {
    let robot = RobotConfig::load(file)?;
    let khz = std::env::current_exe().context("this program cannot be found")?;
    let status = with_servos(&robot, args.per_board, &ports(args), |space| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", space]).arg(khz).arg("run").arg(file);
        command
            .arg("--duration")
            .arg(format!("{}s", args.duration.as_secs_f64()))
            .arg("--report")
            .arg(report);
        if args.force {
            command.arg("--force");
        }
        if args.json {
            command.arg("--json");
        }
        command.status()
    })?;
    let code = status.context("cannot run `ip`; it is in the package iproute2")?.code();
    Ok(ExitCode::from(u8::try_from(code.unwrap_or(2)).unwrap_or(2)))
}

fn summary(results: &LabResults) -> serde_json::Value {
    let runs = results.runs.iter().map(|run| (run.name.clone(), send::summary(run, &[])));
    json!({ "experiments": runs.collect::<serde_json::Map<_, _>>(), "ports": results.ports.to_string() })
}

fn table(results: &LabResults) -> String {
    results.runs.iter().map(|run| format!("{}\n{}\n", run.name, send::table(run, &[]))).collect()
}
