//! What a bridge to Zenoh costs the loop, and how soon a robot far away stops: the quadruped with and without its bridge.
//!
//! The quadruped of `khz run` runs at 1 kHz and sends its samples by UDP, in turns to a bridge with a router and a watcher, and to
//! a socket that no program reads. Then five robots at 200 Hz are stopped at once, again and again; the 99th percentile of the time between the question
//! and the answer that a tick has obeyed is the figure. `$KHZ_FLEET` is `khz-fleet`.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, ensure};
use khz_bench::{Bench, Samples};
use serde_json::Value;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROBOTS: usize = 5;
/// Long enough on any machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> Result<()> {
    let bench = Bench::from_args();
    lateness(&bench)?;
    stops(&bench)
}

/// The tick's lateness with a bridge, as a ratio to that without.
fn lateness(bench: &Bench) -> Result<()> {
    let mut seen: [(Vec<f64>, Vec<f64>); 2] = Default::default();
    for round in 0..bench.rounds(10) {
        for place in 0..2 {
            let variant = (place + round) % 2;
            let (wake, compute) = run(variant == 1)?;
            seen[variant].0.push(wake);
            seen[variant].1.push(compute);
        }
    }
    let [without, with] =
        seen.map(|(wake, compute)| [wake, compute].map(|values| Samples::new(values).median()));
    for (name, without, with) in [("wake", without[0], with[0]), ("loop_compute", without[1], with[1])] {
        bench.figure(&format!("fleet_without_{name}_p99"), without / 1e3, "us", f64::INFINITY);
        bench.figure(&format!("fleet_with_{name}_p99"), with / 1e3, "us", f64::INFINITY);
        bench.ratio(&format!("fleet_{name}_p99"), with / without, 1.05);
    }
    Ok(())
}

/// A run with or without a bridge: p99 of wake latency and of loop compute time, ns.
fn run(with_bridge: bool) -> Result<(f64, f64)> {
    let folder = tempfile::tempdir()?;
    let (unread, router) = (UdpSocket::bind("127.0.0.1:0")?, free_tcp()?);
    let stream = if with_bridge { free_udp()? } else { unread.local_addr()?.to_string() };
    let mut others = Vec::new();
    if with_bridge {
        others.push(Process::start(fleet(&router).arg("router"))?);
        others.push(Process::start(fleet(&router).args([
            "bridge",
            "--name",
            "quadruped",
            "--listen",
            &stream,
        ]))?);
        wait_for("the bridge", || listed(&router, "STATE", 1))?;
        others.push(Process::start(fleet(&router).arg("top"))?);
    }
    let mut command =
        khz(&["run", "--duration", "6s", "--json", "--no-report", "--stream", &stream, "--log"]);
    let output = command.arg(folder.path().join("run.tlog")).output().context("cannot start khz")?;
    let message = || format!("no summary of the run: {}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).with_context(message)?;
    let p99 = |name: &str| summary[name]["p99"].as_f64().with_context(|| format!("no {name}"));
    Ok((p99("wake_latency_ns")?, p99("loop_compute_ns")?))
}

/// How long it takes until robots that are stopped from elsewhere report by which tick.
fn stops(bench: &Bench) -> Result<()> {
    let router = free_tcp()?;
    let _router = Process::start(fleet(&router).arg("router"))?;
    let mut took = Vec::new();
    for _ in 0..bench.rounds(20) {
        took.extend(stopped(&router)?);
    }
    let samples = Samples::new(took);
    bench.figure("fleet_stop_ack_p50", samples.median(), "ms", f64::INFINITY);
    bench.figure("fleet_stop_ack_p99", samples.percentile(99.0), "ms", 50.0);
    Ok(())
}

/// Starts robots with their bridges, stops them, and returns how long it took until each reported by which tick, ms.
fn stopped(router: &str) -> Result<Vec<f64>> {
    let folder = tempfile::tempdir()?;
    let mut all = Vec::new();
    for number in 0..ROBOTS {
        let (stream, view, home) = (free_udp()?, free_tcp()?, folder.path().join(number.to_string()));
        std::fs::create_dir(&home)?;
        let name = format!("robot{number}");
        let robot =
            include_str!("../../../../robots/leg3.toml").replacen("rate_hz = 1000", "rate_hz = 200", 1);
        ensure!(robot.contains("rate_hz = 200"), "robots/leg3.toml has another rate than this bench expects");
        std::fs::write(home.join("robot.toml"), robot)?;
        all.push(Process::start(
            fleet(router).args(["bridge", "--name", &name, "--listen", &stream, "--view", &view]),
        )?);
        let mut command =
            khz(&["run", "robot.toml", "--no-report", "--stream", &stream, &format!("--view={view}")]);
        all.push(Process::start(command.current_dir(home))?);
    }
    wait_for("the robots", || listed(router, " active ", ROBOTS))?;
    let output =
        fleet(router).args(["stop", "--all", "--json"]).output().context("cannot start khz-fleet")?;
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let took: Vec<f64> = lines
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|answer| answer["at_rest"] == true)
        .filter_map(|answer| answer["taken_ms"].as_f64())
        .collect();
    ensure!(took.len() == ROBOTS, "only {} of {ROBOTS} robots stopped: {lines}", took.len());
    Ok(took)
}

/// Whether `khz-fleet ls` prints something so many times.
fn listed(router: &str, what: &str, times: usize) -> bool {
    let output = fleet(router).arg("ls").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).matches(what).count() == times)
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let since = Instant::now();
    while !is_so() {
        ensure!(since.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn fleet(router: &str) -> Command {
    let mut command = Command::new(std::env::var_os("KHZ_FLEET").unwrap_or_else(|| "khz-fleet".into()));
    command.args(["--router", &format!("tcp/{router}")]);
    command
}

fn khz(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("KHZ").unwrap_or_else(|| "khz".into()));
    command.args(arguments);
    command
}

fn free_tcp() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

fn free_udp() -> Result<String> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// A program that ends with this.
struct Process(Child);

impl Process {
    fn start(command: &mut Command) -> Result<Self> {
        let program = Path::new(command.get_program()).display().to_string();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Self(child.with_context(|| format!("cannot start {program}"))?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
