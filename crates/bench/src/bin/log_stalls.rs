//! A 1 kHz loop that records to a disk which stalls 700 ms again and again, or stops for 10 s: what is dropped, how late the loop is.
//!
//! The loop's thread is treated as that of `khz run`; a tick records 1 kB.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use anyhow::Result;
use khz_bench::{Bench, Samples};
use khz_robot::recorder::{Disk, Files, LogConfig, Output, RecordId, RecorderBuilder, Summary, Tap};
use khz_rt::{Setup, Waiter, Wake, now_ns};
use khz_tlog::Type;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let bench = Bench::from_args();
    let folder = tempfile::tempdir()?;
    stalls(&bench, folder.path())?;
    Ok(folder.close()?)
}

/// A disk whose writes stand still now and then.
struct Stalling {
    every: Duration,
    stall: Duration,
}

struct StallingFile {
    out: Box<dyn Output>,
    every: Duration,
    stall: Duration,
    last: Instant,
}

impl Disk for Stalling {
    fn create(&mut self, path: &Path) -> io::Result<Box<dyn Output>> {
        let out = Files.create(path)?;
        Ok(Box::new(StallingFile { out, every: self.every, stall: self.stall, last: Instant::now() }))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        Files.free_bytes(path)
    }
}

impl Write for StallingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.last.elapsed() >= self.every {
            std::thread::sleep(self.stall);
            self.last = Instant::now();
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Output for StallingFile {
    fn sync(&mut self) -> io::Result<()> {
        self.out.sync()
    }

    fn close(&mut self) -> io::Result<u64> {
        self.out.close()
    }
}

/// What a 1 kHz loop that records has of it: how late its ticks are, and what was dropped.
fn stalls(bench: &Bench, folder: &Path) -> Result<()> {
    let ms = Duration::from_millis;
    let stalling = run_on(folder, 10, 16 << 20, (ms(300), ms(700)))?;
    bench.figure("log_700ms_stalls_dropped", stalling.summary.dropped() as f64, "samples", 0.0);
    let (mut dropped, mut uncounted) = (0, 0);
    let calm = || run_on(folder, 12, 4 << 20, (ms(1 << 40), ms(0))).unwrap().late.percentile(99.0);
    let stopped = || {
        let run = run_on(folder, 12, 4 << 20, (ms(1000), ms(10_000))).unwrap();
        let counted: u64 = run.summary.records.iter().map(|record| record.written + record.dropped).sum();
        dropped += run.summary.dropped();
        uncounted += run.pushed.abs_diff(counted);
        run.late.percentile(99.0)
    };
    let (stopped, calm) = bench.interleave(10, stopped, calm);
    println!("# stops of 10 s with a ring of 4 MiB: {dropped} samples dropped");
    println!("# lateness, p99 of each run: stopped {stopped:?} ns, calm {calm:?} ns");
    bench.figure("log_10s_stop_uncounted", uncounted as f64, "samples", 0.0);
    bench.ratio("log_10s_stop_lateness_p99", stopped.median() / calm.median(), 1.1);
    Ok(())
}

struct Run {
    late: Samples,
    pushed: u64,
    summary: Summary,
}

fn run_on(folder: &Path, seconds: u64, ring: usize, (every, stall): (Duration, Duration)) -> Result<Run> {
    let path = folder.join("run.tlog").display().to_string();
    let mut builder = RecorderBuilder::new(LogConfig { path, keep_free_mib: 0, ..LogConfig::default() });
    let tick = builder.record("tick", &Type::FixedArray(1000, Box::new(Type::Uint(khz_tlog::Width::One))))?;
    let tap = builder.tap(ring);
    let recorder = builder.start_on(Stalling { every, stall })?;
    let ticks = seconds * 1000;
    let late = std::thread::spawn(move || beat(ticks, tick, tap)).join().unwrap()?;
    let summary = recorder.finish();
    summary.paths.iter().try_for_each(std::fs::remove_file)?;
    Ok(Run { late: Samples::new(late), pushed: ticks, summary })
}

/// The loop: how late it woke, ns, in each tick.
fn beat(ticks: u64, record: RecordId, mut tap: Tap) -> Result<Vec<f64>> {
    let mut late = Vec::with_capacity(ticks as usize);
    let _setup = Setup::default().apply()?;
    let mut waiter = Waiter::new(Wake::default())?;
    let start_ns = now_ns();
    let mut payload = [0; 1000];
    for tick in 0..ticks {
        let deadline_ns = start_ns + tick as i64 * 1_000_000;
        let woke_ns = waiter.wait_until(deadline_ns);
        late.push((woke_ns - deadline_ns) as f64);
        payload.iter_mut().for_each(|byte: &mut u8| *byte = byte.wrapping_mul(181).wrapping_add(tick as u8));
        tap.push(record, woke_ns, &payload);
    }
    Ok(late)
}
