//! The emulated machine of a robot file in real time, and how near its bus cycles come to what the wires allow.
//!
//! The bound of a tick is its longest bus: the time its frames occupied the wire, and one turnaround.

use crate::Samples;
use anyhow::{Context, Result};
use khz_emu::World;
use khz_file::config::RobotConfig;
use khz_link::{Link, LinkError, Received};
use khz_loop::run::{Observer, Tick};
use khz_loop::supervisor::Phase;
use khz_loop::time::Receive;
use khz_loop::timing::Clock;
use khz_robot::session::{Outcome, Session, SessionSettings};
use khz_robot::{assemble, recorder, records};
use khz_rt::{Overrun, Setup, Wake};
use khz_wire::Request;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Buses of a machine that is watched.
pub const BUSES: usize = 4;

/// The emulated machine, recording how long each wire was in use.
struct Watched {
    world: World,
    busy_ns: Arc<[AtomicI64; BUSES]>,
}

impl Link for Watched {
    khz_link::forward_link!(it => it.world; capabilities, half_duplex, begin_cycle, next_event_ns, imu, counters);

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        self.world.send(channel, request.frame, now_ns)
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let received = self.world.receive(now_ns);
        for (bus, busy_ns) in self.busy_ns.iter().enumerate() {
            busy_ns.store(self.world.busy_ns(bus as u8), Relaxed);
        }
        received
    }
}

/// Keeps the ratio of each active tick's cycle to its bound; records the tick as `khz run` does.
struct Ratios {
    log: records::RunLog,
    turnaround_ns: i64,
    busy_ns: Arc<[AtomicI64; BUSES]>,
    before_ns: [i64; BUSES],
    ratios: Vec<f64>,
    missed_clean: u64,
    result: Arc<Mutex<(Vec<f64>, u64)>>,
}

impl Observer for Ratios {
    fn tick(&mut self, tick: &Tick<'_>) {
        self.log.tick(tick);
        let now_ns: [i64; BUSES] = std::array::from_fn(|bus| self.busy_ns[bus].load(Relaxed));
        let before_ns = std::mem::replace(&mut self.before_ns, now_ns);
        let longest_ns = now_ns.iter().zip(before_ns).map(|(now, before)| now - before).max().unwrap_or(0);
        if tick.machine.phase() == Phase::Active && self.ratios.len() < self.ratios.capacity() {
            let bound_ns = longest_ns + self.turnaround_ns;
            self.ratios.push(tick.record.cycle_ns as f64 / bound_ns as f64);
        }
        if tick.record.controlled && tick.record.cause == khz_run::record::Loss::None {
            self.missed_clean += u64::from(tick.machine.result().missed);
        }
    }
}

impl Drop for Ratios {
    fn drop(&mut self) {
        if let Ok(mut result) = self.result.lock() {
            *result = (std::mem::take(&mut self.ratios), self.missed_clean);
        }
    }
}

/// What was seen of a run.
pub struct Seen {
    /// How it went.
    pub outcome: Outcome,
    /// Each active tick's ratio of its cycle to the bound.
    pub ratios: Samples,
    /// Replies missed under control in ticks that lost no time to anything.
    pub missed_clean: u64,
}

/// Runs a robot with up to [`BUSES`] buses, recorded, for so long.
///
/// # Errors
/// What keeps it from running.
pub fn run(config: &RobotConfig, turnaround_ns: i64, seconds: i64) -> Result<Seen> {
    let busy_ns: Arc<[AtomicI64; BUSES]> = Arc::default();
    let world = World::new(&config.world())?;
    let link = Box::new(Watched { world, busy_ns: Arc::clone(&busy_ns) });
    let machine = assemble::machine_on(config, assemble::controller(&config.controller), link);

    let folder = tempfile::tempdir().context("no place for the log")?;
    let path = folder.path().join("run.tlog").display().to_string();
    let mut builder = recorder::RecorderBuilder::new(recorder::LogConfig { path, ..Default::default() });
    let log = records::RunLog::declare(&mut builder, config)?;
    let recorder = builder.start()?;
    let result: Arc<Mutex<(Vec<f64>, u64)>> = Arc::default();
    let ratios = Vec::with_capacity((seconds * 1_000_000_000 / config.timing.period_ns()) as usize);
    let before_ns = [0; BUSES];
    let missed_clean = 0;
    let observer =
        Ratios { log, turnaround_ns, busy_ns, before_ns, ratios, missed_clean, result: Arc::clone(&result) };

    let settings = SessionSettings {
        clock: Clock::Real,
        setup: Setup::default(),
        wake: Wake::Hybrid,
        receive: Receive::Spin,
        period_ns: config.timing.period_ns(),
        overrun: Overrun::Skip,
        frame_patience_ns: None,
        late_ns: config.timing.late_ns(),
        duration_ns: Some(seconds * 1_000_000_000),
    };
    let session = Session::start(machine, vec![Box::new(observer)], settings, Arc::default())?;
    let outcome = session.wait()?;
    drop(recorder);
    let (ratios, missed_clean) = result.lock().map(|result| result.clone()).unwrap_or_default();
    Ok(Seen { outcome, ratios: Samples::new(ratios), missed_clean })
}
