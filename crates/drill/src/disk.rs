//! A recording of a drill, on a disk in memory that can be full.

use khz_file::RobotConfig;
use khz_loop::run::{Observer, Tick, recorded};
use khz_loop::tick::{Machine, TickTiming};
use khz_robot::recorder::{Disk, Output, Recorder, RecorderBuilder, RecorderError};
use khz_robot::records::RunLog;
use khz_rt::Disturbance;
use khz_run::record;
use khz_run::tally::Pace;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A recording under way.
pub struct Recording {
    log: RunLog,
    recorder: Recorder,
    full: Arc<AtomicBool>,
    ticks: u64,
}

impl Recording {
    /// Records as the robot file sets, but not to its disk.
    pub fn start(config: &RobotConfig) -> Result<Self, RecorderError> {
        let mut config = config.clone();
        config.log.ring_mib = 1;
        let mut builder = RecorderBuilder::new(config.log.clone()).epoch_ns(0);
        let log = RunLog::declare(&mut builder, &config)?;
        let full = Arc::new(AtomicBool::new(false));
        let recorder = builder.start_on(Memory(Arc::clone(&full)))?;
        Ok(Self { log, recorder, full, ticks: 0 })
    }

    /// From now on there is no room.
    pub fn fill_the_disk(&self) {
        self.full.store(true, Ordering::Relaxed);
    }

    /// A finished tick.
    pub fn tick(&mut self, number: u64, timing: TickTiming, machine: &Machine) {
        let record = record::Tick { number, ..recorded(&timing, &Disturbance::default(), 0, machine) };
        self.log.tick(&Tick { record, pace: Pace::default(), early_frames: 0, machine });
        self.ticks += 1;
    }

    /// Ends it; an error if a tick was neither written nor counted as dropped.
    pub fn finish(self) -> Result<(), String> {
        let summary = self.recorder.finish();
        let record = summary.records.iter().find(|record| record.name == "tick");
        let known = record.map_or(0, |record| record.written + record.dropped);
        if known == self.ticks {
            Ok(())
        } else {
            Err(format!("of {} ticks the recorder knows {known}", self.ticks))
        }
    }
}

/// A disk that forgets what is written.
struct Memory(Arc<AtomicBool>);

impl Disk for Memory {
    fn create(&mut self, _: &Path) -> io::Result<Box<dyn Output>> {
        Ok(Box::new(File { full: Arc::clone(&self.0), written: 0 }))
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(if self.0.load(Ordering::Relaxed) { 0 } else { u64::MAX })
    }
}

struct File {
    full: Arc<AtomicBool>,
    written: u64,
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.full.load(Ordering::Relaxed) {
            return Err(ErrorKind::StorageFull.into());
        }
        self.written += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for File {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn close(&mut self) -> io::Result<u64> {
        Ok(self.written)
    }
}
