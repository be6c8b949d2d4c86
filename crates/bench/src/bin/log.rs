//! The log: hand-over from the tick, cost per second, throughput against `mcap` and plain writes.
//!
//! The quadruped's tick is six records of about 1 kB together: timing, twelve servos, twelve commands, IMU. The
//! articles' load is 400 samples per second of 2,000 four-byte values.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use anyhow::{Result, ensure};
use khz_bench::{Bench, Samples, timed_ns};
use khz_robot::recorder::{Disk, Files, LogConfig, RecordId, RecorderBuilder, Tap};
use khz_rt::clock::{now_ns, thread_cpu_ns};
use khz_tlog::{Compression, Options, Record, Type, Writer};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

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
    fn declare(builder: &mut RecorderBuilder) -> Result<Self> {
        Ok(Self {
            timing: builder.record("tick", &Timing::schema())?,
            joints: builder.record("servo", &<[Joint; 12]>::schema())?,
            commands: builder.record("command", &<[Command; 12]>::schema())?,
            imu: builder.record("imu", &Imu::schema())?,
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
    let folder = tempfile::tempdir()?;
    all(&bench, folder.path())?;
    Ok(folder.close()?)
}

fn all(bench: &Bench, folder: &Path) -> Result<()> {
    hand_over(bench, folder)?;
    cost(bench)?;
    throughput(bench, folder)
}

fn to(folder: &Path, name: &str) -> LogConfig {
    let path = folder.join(name).display().to_string();
    LogConfig { path, keep_free_mib: 0, ..LogConfig::default() }
}

/// One tick's records into the ring, at 1 kHz as in the loop: caches are as cold as they are there.
fn hand_over(bench: &Bench, folder: &Path) -> Result<()> {
    let mut builder = RecorderBuilder::new(to(folder, "hand_over.tlog"));
    let ids = Ids::declare(&mut builder)?;
    let mut tap = builder.tap(16 << 20);
    let recorder = builder.start()?;
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
    let ways = [
        ("plain", Compression::None, 1.0),
        ("snappy", Compression::Snappy, 2.0),
        ("zstd", Compression::Zstd, f64::INFINITY),
    ];
    for (name, compression, goal) in ways {
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

/// Payloads of many ticks, one after another as in the recorder's ring.
struct Ticks {
    bytes: Vec<u8>,
    /// Where the payloads of each tick end.
    ends: Vec<[usize; 4]>,
}

impl Ticks {
    fn new(count: u64) -> Self {
        let (mut robot, mut bytes, mut ends) = (Robot::new(), Vec::new(), Vec::new());
        for tick in 0..count {
            robot.step(tick);
            ends.push(payloads(&robot).map(|payload| {
                bytes.extend(payload);
                bytes.len()
            }));
        }
        Self { bytes, ends }
    }

    /// Calls with each tick's number, record and payload, all of it [`REPEATS`] times.
    fn each(&self, mut each: impl FnMut(usize, usize, &[u8]) -> Result<()>) -> Result<()> {
        for repeat in 0..REPEATS {
            let mut start = 0;
            for (tick, ends) in self.ends.iter().enumerate() {
                for (record, &end) in ends.iter().enumerate() {
                    each(repeat * self.ends.len() + tick, record, &self.bytes[start..end])?;
                    start = end;
                }
            }
        }
        Ok(())
    }
}

/// How often the ticks are written in one round: enough for the disk to be what counts.
const REPEATS: usize = 10;

/// Writing the same records to the same disk: ours, the `mcap` crate, and a plain buffered write of our bytes.
fn throughput(bench: &Bench, folder: &Path) -> Result<()> {
    let ticks = Ticks::new(20_000);
    let bytes = ticks.bytes.len();
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

fn write_tlog(path: &Path, ticks: &Ticks) -> Result<u64> {
    std::fs::remove_file(path).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    let out = BufWriter::with_capacity(256 << 10, Files.create(path)?);
    let mut log = Writer::new(out, Options { compression: Compression::None, ..Options::default() })?;
    let types = [Timing::schema(), <[Joint; 12]>::schema(), <[Command; 12]>::schema(), Imu::schema()];
    let ids = ["tick", "servo", "command", "imu"].iter().zip(&types).map(|(name, ty)| log.record(name, ty));
    let ids = ids.collect::<io::Result<Vec<_>>>()?;
    ticks.each(|tick, record, payload| Ok(log.write(ids[record], Some(tick as i64 * 1000), payload)?))?;
    let bytes = log.position();
    log.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?.sync()?;
    Ok(bytes)
}

fn write_mcap(path: &Path, ticks: &Ticks) -> Result<()> {
    let out = BufWriter::with_capacity(256 << 10, File::create(path)?);
    let mut log = mcap::WriteOptions::new().compression(None).create(out)?;
    let mut channels = Vec::new();
    for name in ["tick", "servo", "command", "imu"] {
        channels.push(log.add_channel(0, name, "raw", &BTreeMap::new())?);
    }
    ticks.each(|tick, record, payload| {
        let (channel_id, sequence, time) = (channels[record], tick as u32, tick as u64 * 1_000_000);
        let header =
            mcap::records::MessageHeader { channel_id, sequence, log_time: time, publish_time: time };
        Ok(log.write_to_known_channel(&header, payload)?)
    })?;
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
