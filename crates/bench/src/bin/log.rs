//! The log: hand-over from the tick, cost per second, throughput against `mcap` and plain writes, seek, extraction, a disk that stalls.
//!
//! The quadruped's tick is six records of about 1 kB together: timing, twelve servos, twelve commands, IMU. The
//! articles' load is 400 samples per second of 2,000 four-byte values. The large log for seeking is sparse on disk as
//! far as the file system allows, but written and read as any other.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use anyhow::{Result, ensure};
use khz_bench::{Bench, Samples, timed_ns};
use khz_robot::recorder::{Disk, Files, Output, Plan, RecordId, Recorder, RecorderOptions, Summary, Tap};
use khz_rt::clock::{now_ns, thread_cpu_ns};
use khz_tlog::{Compression, Options, Reader, Record, Source, Type, Writer};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Default, Record)]
struct Timing {
    planned_ns: i64,
    started_ns: i64,
    encoded_ns: i64,
    sent_ns: i64,
    collected_ns: i64,
    decided_ns: i64,
    control_ns: i64,
    own_ns: i64,
    missed: u32,
    late: u32,
}

#[derive(Clone, Copy, Default, Record)]
struct Joint {
    position: f32,
    velocity: f32,
    torque: f32,
    voltage: f32,
    temperature: f32,
    mode: u8,
    fault: u8,
    age_us: u32,
}

#[derive(Clone, Copy, Default, Record)]
struct Command {
    position: f32,
    velocity: f32,
    torque: f32,
    kp: f32,
    kd: f32,
    max_torque: f32,
}

#[derive(Clone, Copy, Default, Record)]
struct Imu {
    attitude: [f64; 4],
    rate: [f64; 3],
    acceleration: [f64; 3],
}

/// A tick's worth of values.
struct Robot {
    timing: Timing,
    joints: [Joint; 12],
    commands: [Command; 12],
    imu: Imu,
}

impl Robot {
    fn new() -> Self {
        let joint = Joint { voltage: 24.0, temperature: 35.0, mode: 10, ..Joint::default() };
        let (timing, imu) = (Timing::default(), Imu::default());
        Self { timing, joints: [joint; 12], commands: [Command::default(); 12], imu }
    }

    /// Values as restless as a walking robot's.
    fn step(&mut self, tick: u64) {
        let noise = |seed: u64| {
            let mixed = (tick * 31 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            mixed as f32 / 16_777_216.0
        };
        self.timing.planned_ns = tick as i64 * 1_000_000;
        self.timing.started_ns = self.timing.planned_ns + (noise(99) * 20_000.0) as i64;
        for (index, joint) in self.joints.iter_mut().enumerate() {
            joint.position = (tick as f32 * 0.01).sin() + noise(index as u64) * 0.001;
            joint.velocity = noise(index as u64 + 20);
            joint.torque = noise(index as u64 + 40);
        }
        for (index, command) in self.commands.iter_mut().enumerate() {
            command.position = self.joints[index].position;
        }
        self.imu.rate = [0, 1, 2].map(|axis| f64::from(noise(axis + 60)));
        self.imu.acceleration = [0, 1, 2].map(|axis| f64::from(noise(axis + 80)));
    }
}

struct Ids {
    timing: RecordId,
    joints: RecordId,
    commands: RecordId,
    imu: RecordId,
}

impl Ids {
    fn declare(plan: &mut Plan) -> Result<Self> {
        Ok(Self {
            timing: plan.record("tick", &Timing::schema())?,
            joints: plan.record("servo", &<[Joint; 12]>::schema())?,
            commands: plan.record("command", &<[Command; 12]>::schema())?,
            imu: plan.record("imu", &Imu::schema())?,
        })
    }

    fn push(&self, tap: &mut Tap, robot: &Robot, now_ns: i64) -> bool {
        tap.push_value(self.timing, now_ns, &robot.timing)
            & tap.push_value(self.joints, now_ns, &robot.joints)
            & tap.push_value(self.commands, now_ns, &robot.commands)
            & tap.push_value(self.imu, now_ns, &robot.imu)
    }
}

fn main() -> Result<()> {
    let bench = Bench::from_args();
    let folder = std::env::temp_dir().join(format!("khz-bench-log-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let outcome = all(&bench, &folder);
    std::fs::remove_dir_all(&folder)?;
    outcome
}

fn all(bench: &Bench, folder: &Path) -> Result<()> {
    hand_over(bench, folder)?;
    cost(bench)?;
    throughput(bench, folder)?;
    large(bench, folder)?;
    stalls(bench, folder)
}

fn options(folder: &Path, name: &str) -> RecorderOptions {
    RecorderOptions { path: folder.join(name), keep_free_bytes: 0, ..RecorderOptions::default() }
}

/// One tick's records into the ring, at 1 kHz as in the loop: caches are as cold as they are there.
fn hand_over(bench: &Bench, folder: &Path) -> Result<()> {
    let mut plan = Plan::new(options(folder, "hand_over.tlog"));
    let ids = Ids::declare(&mut plan)?;
    let mut tap = plan.tap(16 << 20);
    let recorder = plan.start()?;
    let mut robot = Robot::new();
    let mut took = Vec::new();
    for tick in 0..bench.rounds(20_000) as u64 {
        robot.step(tick);
        std::thread::sleep(Duration::from_micros(200));
        took.push(timed_ns(|| ids.push(&mut tap, &robot, now_ns())));
    }
    ensure!(recorder.finish().dropped() == 0, "the ring overflowed");
    let took = Samples::new(took);
    bench.figure("log_hand_over_p50", took.median(), "ns", 500.0);
    bench.figure("log_hand_over_p99", took.percentile(99.0), "ns", 2000.0);
    Ok(())
}

/// Share of a core that writing costs: CPU time of making a second's blocks, without disk.
fn cost(bench: &Bench) -> Result<()> {
    let mut values = Vec::with_capacity(8000);
    for (name, compression, goal) in [("plain", Compression::None, 1.0), ("snappy", Compression::Snappy, 2.0)]
    {
        let mut percent = Vec::new();
        for round in 0..bench.rounds(30) {
            let mut log = Writer::new(io::sink(), Options { compression, ..Options::default() })?;
            let ty = Type::FixedArray(2000, Box::new(Type::Float32));
            let id = log.record("values", &ty)?;
            for sample in 0..400 {
                values.clear();
                let wave = |n: i32| ((n + sample + round as i32) as f32 * 0.001).sin().to_le_bytes();
                (0..2000).for_each(|n| values.extend(wave(n)));
                let before_ns = thread_cpu_ns();
                log.write(id, Some(i64::from(sample) * 2500), &values)?;
                percent.push((thread_cpu_ns() - before_ns) as f64);
            }
        }
        let second: f64 = Samples::new(percent).mean() * 400.0;
        bench.figure(&format!("log_articles_load_{name}"), second / 1e7, "%", goal);
    }
    let mut log = Writer::new(io::sink(), Options::default())?;
    let types = [Timing::schema(), <[Joint; 12]>::schema(), <[Command; 12]>::schema(), Imu::schema()];
    let ids = ["tick", "servo", "command", "imu"].iter().zip(&types).map(|(name, ty)| log.record(name, ty));
    let ids = ids.collect::<io::Result<Vec<_>>>()?;
    let mut robot = Robot::new();
    let mut took = Vec::new();
    for tick in 0..bench.rounds(20_000) as u64 {
        robot.step(tick);
        let payloads = payloads(&robot);
        let before_ns = thread_cpu_ns();
        for (id, payload) in ids.iter().zip(&payloads) {
            log.write(*id, Some(tick as i64 * 1000), payload)?;
        }
        took.push((thread_cpu_ns() - before_ns) as f64);
    }
    bench.figure("log_quadruped_1khz", Samples::new(took).mean() * 1000.0 / 1e7, "%", 1.0);
    Ok(())
}

fn payloads(robot: &Robot) -> [Vec<u8>; 4] {
    [robot.timing.to_bytes(), robot.joints.to_bytes(), robot.commands.to_bytes(), robot.imu.to_bytes()]
}

/// How often the ticks are written in one round: enough for the disk to be what counts.
const REPEATS: usize = 10;

/// Writing the same records to the same disk: ours, the `mcap` crate, and a plain buffered write of our bytes.
fn throughput(bench: &Bench, folder: &Path) -> Result<()> {
    let mut robot = Robot::new();
    let ticks: Vec<_> = (0..20_000)
        .map(|tick| {
            robot.step(tick);
            payloads(&robot)
        })
        .collect();
    let bytes: usize = ticks.iter().flatten().map(Vec::len).sum();
    let path = folder.join("throughput");
    let ours = || timed_ns(|| write_tlog(&path, &ticks).unwrap());
    let peer = || timed_ns(|| write_mcap(&path, &ticks).unwrap());
    let (log, mcap) = bench.interleave(7, ours, peer);
    let log_bytes = write_tlog(&path, &ticks)?;
    let whole = std::fs::read(&path)?;
    let (again, plain) = bench.interleave(7, ours, || timed_ns(|| write_plain(&path, &whole).unwrap()));
    println!("# {} MB of payload, {} MB of log", REPEATS * bytes / 1_000_000, log_bytes / 1_000_000);
    bench.ratio("log_write_vs_mcap", log.median() / mcap.median(), 1.0);
    bench.ratio("log_write_vs_plain_write", again.median() / plain.median(), 1.0 / 0.9);
    println!("# log {:.0} MB/s", log_bytes as f64 / again.median() * 1e3);
    Ok(())
}

fn write_tlog(path: &Path, ticks: &[[Vec<u8>; 4]]) -> Result<u64> {
    let out = BufWriter::with_capacity(256 << 10, File::create(path)?);
    let mut log = Writer::new(out, Options { compression: Compression::None, ..Options::default() })?;
    let types = [Timing::schema(), <[Joint; 12]>::schema(), <[Command; 12]>::schema(), Imu::schema()];
    let ids = ["tick", "servo", "command", "imu"].iter().zip(&types).map(|(name, ty)| log.record(name, ty));
    let ids = ids.collect::<io::Result<Vec<_>>>()?;
    for (tick, payloads) in std::iter::repeat_n(ticks, REPEATS).flatten().enumerate() {
        for (id, payload) in ids.iter().zip(payloads) {
            log.write(*id, Some(tick as i64 * 1000), payload)?;
        }
    }
    let bytes = log.position();
    log.finish()?.into_inner()?.sync_data()?;
    Ok(bytes)
}

fn write_mcap(path: &Path, ticks: &[[Vec<u8>; 4]]) -> Result<()> {
    let out = BufWriter::with_capacity(256 << 10, File::create(path)?);
    let mut log = mcap::WriteOptions::new().compression(None).create(out)?;
    let mut channels = Vec::new();
    for name in ["tick", "servo", "command", "imu"] {
        channels.push(log.add_channel(0, name, "raw", &BTreeMap::new())?);
    }
    for (tick, payloads) in std::iter::repeat_n(ticks, REPEATS).flatten().enumerate() {
        for (&channel_id, payload) in channels.iter().zip(payloads) {
            let time = tick as u64 * 1_000_000;
            let sequence = tick as u32;
            let header =
                mcap::records::MessageHeader { channel_id, sequence, log_time: time, publish_time: time };
            log.write_to_known_channel(&header, payload)?;
        }
    }
    log.finish()?;
    log.into_inner().into_inner()?.sync_data()?;
    Ok(())
}

fn write_plain(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut out = BufWriter::with_capacity(256 << 10, File::create(path)?);
    bytes.chunks(1024).try_for_each(|chunk| out.write_all(chunk))?;
    out.into_inner()?.sync_data()?;
    Ok(())
}

/// A file that counts what is read of it.
struct Counting {
    file: File,
    reads: Cell<u64>,
    bytes: Cell<u64>,
}

impl Source for Counting {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(buf, offset)?;
        self.reads.set(self.reads.get() + 1);
        self.bytes.set(self.bytes.get() + read as u64);
        Ok(read)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}

fn counting(path: &Path) -> Result<Counting> {
    Ok(Counting { file: File::open(path)?, reads: Cell::new(0), bytes: Cell::new(0) })
}

/// Seeking in a log of 10 GB (1 GB with `--quick`), and taking 1 % of it out over the links.
fn large(bench: &Bench, folder: &Path) -> Result<()> {
    let path = folder.join("large.tlog");
    let size = bench.rounds(10_000) as u64 * 1_000_000;
    let free = Files.free_bytes(&path)?;
    if free < size + (1 << 30) {
        println!("# large log not made: {} MB free, {} MB needed", free >> 20, (size >> 20) + 1024);
        return Ok(());
    }
    let (duration_us, share) = make_large(&path, size)?;
    let (mut reads, mut bytes) = (Vec::new(), Vec::new());
    for step in 0..101 {
        let mut reader = Reader::open(counting(&path)?)?;
        reader.seek(duration_us / 100 * step + 7)?;
        let source = reader.into_source();
        reads.push(source.reads.get() as f64);
        bytes.push(source.bytes.get() as f64);
    }
    bench.figure("log_seek_reads", Samples::new(reads).max(), "reads", 40.0);
    bench.figure("log_seek_bytes", Samples::new(bytes).max() / 1e6, "MB", 4.0);
    let mut reader = Reader::open(counting(&path)?)?;
    let places = reader.places("rare")?.unwrap_or_default();
    ensure!(!places.is_empty(), "the record was not found over its links");
    for place in &places {
        reader.stored_at(*place)?;
    }
    let read = reader.into_source().bytes.get() as f64 / size as f64 * 100.0;
    println!("# the record is {share:.2} % of the log, {} samples", places.len());
    bench.figure("log_extract_1_percent", read, "%", 3.0);
    Ok(())
}

/// Writes a log in which the record `rare` is about a hundredth of the bytes. Returns its length in time, and the share.
fn make_large(path: &Path, size: u64) -> Result<(i64, f64)> {
    let out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut log = Writer::new(out, Options { compression: Compression::None, ..Options::default() })?;
    let bulk = log.record("bulk", &Type::Bytes)?;
    let rare = log.record("rare", &Type::Bytes)?;
    let payload = vec![0x5a; 1000];
    let (mut time_us, mut rare_bytes) = (0, 0);
    while log.position() < size {
        for _ in 0..100 {
            log.write(bulk, Some(time_us), &payload)?;
            time_us += 1000;
        }
        let before = log.position();
        log.write(rare, Some(time_us), &payload)?;
        rare_bytes += log.position() - before;
    }
    let share = rare_bytes as f64 / log.position() as f64 * 100.0;
    log.finish()?.flush()?;
    Ok((time_us, share))
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
    let (stopped, calm) = bench.interleave(5, stopped, calm);
    println!("# stops of 10 s with a ring of 4 MiB: {dropped} samples dropped");
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
    let mut plan = Plan::new(options(folder, "run.tlog"));
    let ids = Ids::declare(&mut plan)?;
    let mut tap = plan.tap(ring);
    let recorder: Recorder = plan.start_on(Stalling { every, stall })?;
    let mut robot = Robot::new();
    let mut late = Vec::new();
    let ticks = seconds * 1000;
    let start_ns = now_ns();
    let mut waiter = khz_rt::Waiter::new(khz_rt::Wake::Sleep)?;
    for tick in 0..ticks {
        let deadline_ns = start_ns + tick as i64 * 1_000_000;
        late.push((waiter.wait_until(deadline_ns) - deadline_ns) as f64);
        robot.step(tick);
        ids.push(&mut tap, &robot, now_ns());
    }
    let summary = recorder.finish();
    Ok(Run { late: Samples::new(late), pushed: ticks * 4, summary })
}
