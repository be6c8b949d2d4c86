//! How soon a robot answers a stop: alone, beside 200 silent websockets, and while 60 connections flood it with changes of parameters.
//!
//! The quadruped of `khz run` runs at 1 kHz with a live view. Each stop comes by a connection of its own, as of a person who has just
//! opened one, and is timed from before the connection to the answer of the tick that obeyed. The first one of a run brings the robot
//! down; further ones are asked until the run is over, and answered by the same way.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, ensure};
use khz_bench::viewers::Mute;
use khz_bench::{Bench, Samples};
use khz_view::Connection;
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SILENT: usize = 200;
const FLOODING: usize = 60;
/// How many changes a flooding connection writes before it looks whether it shall end.
const AT_ONCE: usize = 64;
/// What a stop may take, ms.
const GOAL_MS: f64 = 50.0;
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> Result<()> {
    let bench = Bench::from_args();
    for (load, silent, flooding) in [("alone", 0, 0), ("silent", SILENT, 0), ("flood", SILENT, FLOODING)] {
        let (mut first, mut all) = (Vec::new(), Vec::new());
        for _ in 0..bench.rounds(20) {
            let times = stops(silent, flooding).with_context(|| format!("load {load}"))?;
            first.push(times[0]);
            all.extend(times);
        }
        let (first, all) = (Samples::new(first), Samples::new(all));
        bench.figure(&format!("stop_{load}_first_p50"), first.median(), "ms", f64::INFINITY);
        bench.figure(&format!("stop_{load}_first_worst"), first.percentile(100.0), "ms", GOAL_MS);
        bench.figure(&format!("stop_{load}_p50"), all.median(), "ms", f64::INFINITY);
        bench.figure(&format!("stop_{load}_p99"), all.percentile(99.0), "ms", GOAL_MS);
    }
    Ok(())
}

/// Runs a robot under this load and stops it. How long each stop took, ms; the first one brought it down.
fn stops(silent: usize, flooding: usize) -> Result<Vec<f64>> {
    let (folder, port) = (tempfile::tempdir()?, TcpListener::bind("127.0.0.1:0")?.local_addr()?.port());
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    let mut command = Command::new(std::env::var("KHZ").unwrap_or_else(|_| "khz".into()));
    command.args(["run", "--duration", "120s", "--no-report", &format!("--view={at}"), "--log", "run.tlog"]);
    command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let run = Ended(command.spawn().context("cannot start khz")?);
    wait_for(at)?;
    let silent = (0..silent).map(|_| open(at)).collect::<Result<Vec<_>>>()?;
    let mute = Mute::connect(port, &["/servo", "/tick"])?;
    let flood = Flood::start(at, flooding)?;
    std::thread::sleep(Duration::from_millis(500));
    let mut times = Vec::new();
    while let Some(time_ms) = stop(at, times.is_empty())? {
        times.push(time_ms);
    }
    drop((flood, silent, mute, run));
    Ok(times)
}

/// How long a stop took, ms; nothing when the run is over. The first one must be answered.
fn stop(at: SocketAddr, is_first: bool) -> Result<Option<f64>> {
    let begun = Instant::now();
    let tick = Connection::open(at, None).and_then(|mut connection| connection.stop());
    match tick {
        Ok(_) => Ok(Some(begun.elapsed().as_secs_f64() * 1e3)),
        Err(error) if is_first => Err(error).context("the robot was not stopped"),
        Err(_) => Ok(None),
    }
}

/// Waits until the robot is under control.
fn wait_for(at: SocketAddr) -> Result<()> {
    let begun = Instant::now();
    let has_run = || -> Option<()> { Connection::open(at, None).ok()?.now().ok()?.1.map(drop) };
    while has_run().is_none() {
        ensure!(begun.elapsed() < PATIENCE, "no live view at {at}");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(1));
    Ok(())
}

/// A websocket that sends nothing by itself.
fn open(at: SocketAddr) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: {at}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: khz.ask.v1\r\n\r\n"
    )?;
    let mut head = [0; 1024];
    let len = stream.read(&mut head)?;
    ensure!(head[..len].starts_with(b"HTTP/1.1 101"), "refused: {}", String::from_utf8_lossy(&head[..len]));
    Ok(stream)
}

/// Connections that change parameters as fast as they can, until dropped.
struct Flood {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    fn start(at: SocketAddr, count: usize) -> Result<Self> {
        let streams = (0..count).map(|_| open(at)).collect::<Result<Vec<_>>>()?;
        let (begun, now_us) = (Instant::now(), Connection::open(at, None)?.now_us()?);
        let is_over = Arc::<AtomicBool>::default();
        let ended = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || flood(streams, begun, (at, now_us), &ended));
        Ok(Self { is_over, thread: Some(thread) })
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn flood(streams: Vec<TcpStream>, begun: Instant, (at, now_us): (SocketAddr, u64), is_over: &AtomicBool) {
    let mut answers = [0; 64 << 10];
    let mut flooding: Vec<(TcpStream, Vec<u8>)> =
        streams.into_iter().map(|stream| (stream, Vec::new())).collect();
    while !is_over.load(Relaxed) {
        let now_us = now_us + begun.elapsed().as_micros() as u64;
        let change = frame(&json!({ "set": { "kp_scale": 1.0 }, "now_us": now_us }).to_string());
        for (stream, unsent) in &mut flooding {
            let _ = (stream.set_nonblocking(true), stream.read(&mut answers));
            if unsent.is_empty() {
                *unsent = change.repeat(AT_ONCE);
            }
            match stream.write(unsent) {
                Ok(len) => drop(unsent.drain(..len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // It had to leave, and comes again.
                Err(_) => {
                    unsent.clear();
                    open(at).into_iter().for_each(|again| *stream = again);
                }
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A text message whose mask changes nothing.
fn frame(text: &str) -> Vec<u8> {
    let mut frame = vec![0x81, 0x80 | 126];
    frame.extend((text.len() as u16).to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(text.as_bytes());
    frame
}

/// A process that ends with this value.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
