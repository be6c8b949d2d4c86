//! What programs that send targets cost the loop: none, one at 60 Hz, and four of which one floods.
//!
//! `robots/arm_targets.toml` runs at 1 kHz, in turns without a program, with one, and with three at 60 Hz and one that sends as fast as it is answered.
//! They send by the Unix socket, from this process; one has the robot, the others are refused, and the flood beyond 500 a second.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, ensure};
use khz_bench::{Bench, Samples};
use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often a program sends; 0: as fast as it is answered.
const PROGRAMS: [&[u32]; 3] = [&[], &[60], &[60, 60, 60, 0]];
const NAMES: [&str; 3] = ["none", "one", "four"];

fn main() -> Result<()> {
    let bench = Bench::from_args();
    let mut seen: [[Vec<f64>; 3]; 3] = Default::default();
    for round in 0..bench.rounds(10) {
        for place in 0..PROGRAMS.len() {
            let variant = (place + round) % PROGRAMS.len();
            let times = run(PROGRAMS[variant])?;
            seen[variant].iter_mut().zip(times).for_each(|(all, time)| all.push(time));
        }
    }
    let medians = seen.map(|times| times.map(|values| Samples::new(values).median()));
    let figures = ["wake_p99", "loop_compute_p99", "control_p99"];
    for (name, times) in NAMES.iter().zip(medians) {
        for (figure, time) in figures.iter().zip(times) {
            bench.figure(&format!("targets_{name}_{figure}"), time / 1e3, "us", f64::INFINITY);
        }
    }
    for (name, times) in NAMES.iter().zip(medians).skip(1) {
        for (place, figure) in figures.iter().enumerate().take(2) {
            bench.ratio(&format!("targets_{name}_{figure}_to_none"), times[place] / medians[0][place], 1.05);
        }
    }
    Ok(())
}

/// A run with these programs: p99 of wake latency, loop compute time and controller, ns.
fn run(programs: &[u32]) -> Result<[f64; 3]> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("arm.toml");
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/arm_targets.toml");
    std::fs::copy(text, &file).with_context(|| format!("cannot copy {text}"))?;
    let mut command = Command::new(std::env::var("KHZ").unwrap_or_else(|_| "khz".into()));
    command.args(["run", "arm.toml", "--duration", "6s", "--json", "--no-report"]).current_dir(&folder);
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("cannot start khz")?;
    let over = Arc::new(AtomicBool::new(false));
    let socket = folder.path().join("arm_targets.sock");
    let sending =
        |(number, &hz): (usize, &u32)| Sending::begin(&socket, &format!("program {number}"), hz, &over);
    let sending: Result<Vec<Sending>> = programs.iter().enumerate().map(sending).collect();
    let output = run.wait_with_output()?;
    over.store(true, Ordering::Relaxed);
    let answered: u64 = sending?.into_iter().map(Sending::end).sum();
    let message = || format!("no summary of the run: {}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).with_context(message)?;
    ensure!(programs.is_empty() || answered > 100, "the programs were answered {answered} times");
    let p99 = |name: &str| summary[name]["p99"].as_f64().with_context(|| format!("no {name}"));
    Ok([p99("wake_latency_ns")?, p99("loop_compute_ns")?, p99("control_ns")?])
}

/// A program on its own thread.
struct Sending(JoinHandle<u64>);

impl Sending {
    fn begin(path: &Path, name: &str, hz: u32, over: &Arc<AtomicBool>) -> Result<Self> {
        let (socket, name, over) = (connected(path)?, name.to_owned(), Arc::clone(over));
        Ok(Self(thread::spawn(move || sends(&socket, &name, hz, &over))))
    }

    /// How often it was answered.
    fn end(self) -> u64 {
        self.0.join().unwrap_or(0)
    }
}

/// The robot is there after some time.
fn connected(path: &Path) -> Result<OwnedFd> {
    let begun = Instant::now();
    loop {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        match connect(&socket, &SocketAddrUnix::new(path)?) {
            Ok(()) => return Ok(socket),
            Err(error) if begun.elapsed() > Duration::from_secs(20) => return Err(error).context("no robot"),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn sends(socket: &OwnedFd, name: &str, hz: u32, over: &AtomicBool) -> u64 {
    let (begun, mut answered, mut bytes) = (Instant::now(), 0, vec![0; 4096]);
    while !over.load(Ordering::Relaxed) {
        let angle = 0.4 * (2.0 * begun.elapsed().as_secs_f64()).sin();
        let message = json!({ "from": name, "position": [angle, angle, angle] }).to_string();
        let was_sent = send(socket, message.as_bytes(), SendFlags::NOSIGNAL).is_ok();
        if !was_sent || !matches!(recv(socket, &mut bytes[..], RecvFlags::empty()), Ok((1.., _))) {
            break;
        }
        answered += 1;
        if hz > 0 {
            thread::sleep(Duration::from_secs(1) / hz);
        }
    }
    answered
}
