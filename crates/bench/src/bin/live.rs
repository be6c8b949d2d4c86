//! What viewers cost the loop and this computer: none, one, twenty and one that never reads; against Foxglove's own server.
//!
//! The quadruped of `khz run` runs at 1 kHz with a live view, in turns without viewers, with one, and with twenty and one more that never
//! reads. Then the CPU time of the view's process per viewer, and of that of a Python program with `foxglove-sdk` as the peer: it publishes
//! messages of the same sizes to the same topics as often, from memory; ours takes them from the robot, keeps their history and encodes
//! them. At last, how often our own page draws in a headless Chromium.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail, ensure};
use khz_bench::viewers::{Mute, Viewers};
use khz_bench::{Bench, Samples};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What a run of the quadruped records each tick.
const TOPICS: &[&str] = &["/tick", "/servo", "/command", "/imu"];
/// As many as a room full of people.
const MANY: usize = 20;
/// The kernel counts CPU time in these.
const CLOCK_TICKS_PER_S: f64 = 100.0;

fn main() -> Result<()> {
    let bench = Bench::from_args();
    lateness(&bench)?;
    let sizes = server_cpu(&bench)?;
    against_foxglove(&bench, &sizes)?;
    page(&bench)
}

/// The tick's lateness and own work with viewers, as a ratio to those without.
fn lateness(bench: &Bench) -> Result<()> {
    let variants = [("none", 0, false), ("one", 1, false), ("many", MANY, true)];
    let mut seen: [(Vec<f64>, Vec<f64>); 3] = Default::default();
    for round in 0..bench.rounds(10) {
        for place in 0..variants.len() {
            let variant = (place + round) % variants.len();
            let (_, viewers, mute) = variants[variant];
            let (wake, compute) = watched_run(viewers, mute)?;
            seen[variant].0.push(wake);
            seen[variant].1.push(compute);
        }
    }
    let medians = seen.map(|(wake, compute)| [wake, compute].map(|values| Samples::new(values).median()));
    for ((name, ..), [wake, compute]) in variants.iter().zip(medians) {
        bench.figure(&format!("live_{name}_wake_p99"), wake / 1e3, "us", f64::INFINITY);
        bench.figure(&format!("live_{name}_loop_compute_p99"), compute / 1e3, "us", f64::INFINITY);
    }
    for ((name, ..), [wake, compute]) in variants.iter().zip(medians).skip(1) {
        bench.ratio(&format!("live_{name}_wake_p99_to_none"), wake / medians[0][0], 1.05);
        bench.ratio(&format!("live_{name}_loop_compute_p99_to_none"), compute / medians[0][1], 1.05);
    }
    Ok(())
}

/// A run with so many viewers: p99 of wake latency and of loop compute time, ns.
fn watched_run(viewers: usize, mute: bool) -> Result<(f64, f64)> {
    let (folder, port) = (tempfile::tempdir()?, free_port()?);
    let log = folder.path().join("run.tlog");
    let view = format!("--view=127.0.0.1:{port}");
    let mut command = khz(&["run", "--duration", "6s", "--json", "--no-report", &view, "--log"]);
    let run = command.arg(log).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let run = run.context("cannot start khz")?;
    let reading = (viewers > 0).then(|| Viewers::connect(port, TOPICS, viewers)).transpose()?;
    let mute = mute.then(|| Mute::connect(port, TOPICS)).transpose()?;
    // The view is there as long as there are viewers: they leave before the run is over.
    std::thread::sleep(Duration::from_secs(5));
    ensure!(reading.as_ref().is_none_or(|viewers| viewers.got().0 > 1000), "the viewers got nothing");
    drop((reading, mute));
    let output = run.wait_with_output()?;
    let message = || format!("no summary of the run: {}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).with_context(message)?;
    let p99 = |name: &str| summary[name]["p99"].as_f64().with_context(|| format!("no {name}"));
    Ok((p99("wake_latency_ns")?, p99("loop_compute_ns")?))
}

/// The view's CPU time per viewer; and the size of a message of each topic.
fn server_cpu(bench: &Bench) -> Result<Value> {
    let mut sizes = Value::Null;
    let mut cpu = |viewers: usize| -> Result<f64> {
        let (view, port, _run) = of_robot(bench)?;
        let viewers = (viewers > 0).then(|| Viewers::connect(port, TOPICS, viewers)).transpose()?;
        let share = cpu_share(view.id(), bench)?;
        if let Some(viewers) = &viewers {
            sizes = json!(viewers.sizes());
            print_rate(bench, "live_ours", viewers);
        }
        Ok(share)
    };
    let (none, many) = (cpu(0)?, cpu(MANY)?);
    bench.figure("live_view_cpu_without_viewers", 100.0 * none, "percent", f64::INFINITY);
    bench.figure("live_view_cpu_per_viewer", 100.0 * (many - none) / MANY as f64, "percent", 5.0);
    Ok(sizes)
}

/// A view of a robot that runs, its port, and the robot.
fn of_robot(bench: &Bench) -> Result<(Ended, u16, (Ended, TempDir))> {
    let (port, samples) = (free_port()?, UdpSocket::bind("127.0.0.1:0")?.local_addr()?);
    let mut view = khz(&["view", "--listen", &samples.to_string(), "--at", &format!("127.0.0.1:{port}")]);
    let view = Ended(view.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("cannot start khz")?);
    let seconds = format!("{}s", seconds(bench) + 40);
    let mut run = khz(&["run", "--duration", &seconds, "--no-report", "--stream", &samples.to_string()]);
    let folder = tempfile::tempdir()?;
    run.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok((view, port, (Ended(run.spawn().context("cannot start khz")?), folder)))
}

/// Ours and the peer's CPU time with as many viewers, in turns.
fn against_foxglove(bench: &Bench, sizes: &Value) -> Result<()> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds(5) {
        let (view, port, _run) = of_robot(bench)?;
        let viewers = Viewers::connect(port, TOPICS, MANY)?;
        ours.push(cpu_share(view.id(), bench)?);
        drop(viewers);

        let port = free_port()?;
        let peer = foxglove(port, sizes)?;
        let viewers = Viewers::connect(port, TOPICS, MANY)?;
        theirs.push(cpu_share(peer.id(), bench)?);
        print_rate(bench, "live_foxglove_sdk", &viewers);
    }
    let (ours, theirs) = (Samples::new(ours).median(), Samples::new(theirs).median());
    bench.figure("live_view_cpu_with_many", 100.0 * ours, "percent", f64::INFINITY);
    bench.figure("live_foxglove_sdk_cpu_with_many", 100.0 * theirs, "percent", f64::INFINITY);
    bench.ratio("live_cpu_of_foxglove_sdk", ours / theirs, 0.5);
    Ok(())
}

const FOXGLOVE: &str = r#"
import json, sys, time
import foxglove

port, sizes = int(sys.argv[1]), json.loads(sys.argv[2])
server = foxglove.start_server(port=port)
schema = foxglove.Schema(name="khz_msgs/msg/Any", encoding="ros2msg", data=b"uint8[] data\n")
channels = [(foxglove.Channel(topic, schema=schema, message_encoding="cdr"), bytes(size)) for topic, size in sizes.items()]
print("ready", flush=True)
due = time.perf_counter()
while True:
    due += 0.001
    now = time.time_ns()
    for channel, message in channels:
        channel.log(message, log_time=now)
    time.sleep(max(0.0, due - time.perf_counter()))
"#;

fn foxglove(port: u16, sizes: &Value) -> Result<Ended> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let mut child = Command::new(python)
        .args(["-c", FOXGLOVE, &port.to_string(), &sizes.to_string()])
        .stdout(Stdio::piped())
        // It complains of every viewer that leaves.
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start Python")?;
    let out = child.stdout.take().context("no pipe to Python")?;
    let ended = Ended(child);
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    ensure!(line.trim() == "ready", "foxglove-sdk did not start (are the packages of the tests installed?)");
    Ok(ended)
}

/// How often viewers are served, each.
fn print_rate(bench: &Bench, name: &str, viewers: &Viewers) {
    let before = viewers.got();
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs(1));
    let (messages, bytes) = (viewers.got().0 - before.0, viewers.got().1 - before.1);
    let share = 1.0 / (begun.elapsed().as_secs_f64() * MANY as f64);
    bench.figure(&format!("{name}_messages"), messages as f64 * share, "messages/s", f64::INFINITY);
    bench.figure(&format!("{name}_bytes"), bytes as f64 * share / 1e6, "MB/s", f64::INFINITY);
}

const PAGE: &str = r#"
import os, shutil, sys
from playwright.sync_api import sync_playwright

with sync_playwright() as playwright:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(sys.argv[1])
    page.wait_for_timeout(5000)
    times = page.evaluate("""milliseconds => new Promise(done => {
        const times = [];
        const frame = now => {
            times.push(now);
            now - times[0] < milliseconds ? requestAnimationFrame(frame) : done(times);
        };
        requestAnimationFrame(frame);
    })""", 1000 * int(sys.argv[2]))
    browser.close()
frames = sorted(b - a for a, b in zip(times, times[1:]))
print((times[-1] - times[0]) / len(frames), frames[int(0.95 * len(frames))])
"#;

/// How long the page takes from one picture to the next.
fn page(bench: &Bench) -> Result<()> {
    let (_view, port, _run) = of_robot(bench)?;
    drop(Viewers::connect(port, TOPICS, 1)?);
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let link = format!("http://127.0.0.1:{port}/");
    let output = Command::new(python).args(["-c", PAGE, &link, &seconds(bench).to_string()]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [mean, p95] = numbers[..] else {
        bail!("the page was not measured: {}", String::from_utf8_lossy(&output.stderr))
    };
    bench.figure("live_page_frame_mean", mean, "ms", 33.3);
    bench.figure("live_page_frame_p95", p95, "ms", f64::INFINITY);
    Ok(())
}

/// A process that ends with this value.
struct Ended(Child);

impl Ended {
    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn khz(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var("KHZ").unwrap_or_else(|_| "khz".into()));
    command.args(words);
    command
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn seconds(bench: &Bench) -> u64 {
    bench.rounds(10) as u64
}

/// The share of one CPU that a process uses.
fn cpu_share(process: u32, bench: &Bench) -> Result<f64> {
    std::thread::sleep(Duration::from_secs(2));
    let (begun, before) = (Instant::now(), cpu_s(process)?);
    std::thread::sleep(Duration::from_secs(seconds(bench)));
    Ok((cpu_s(process)? - before) / begun.elapsed().as_secs_f64())
}

/// CPU time of all threads of a process so far, those that ended too.
fn cpu_s(process: u32) -> Result<f64> {
    let path = format!("/proc/{process}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // The name may have spaces; behind its bracket the times are the 12th and 13th.
    let (_, fields) = text.rsplit_once(')').context("an unknown stat")?;
    let times = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Ok(times.sum::<Result<f64, _>>()? / CLOCK_TICKS_PER_S)
}
