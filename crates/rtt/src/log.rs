//! Round trips into a log file or a stream, without waiting for the disk.
use super::ledger::Closed;
use super::sample::RoundTrip;
use khz_record::{Disk, Files, LogConfig, Output, RecordId, Recorder, RecorderBuilder, RecorderError};
use khz_tlog::Record;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Between sender and disk: the disk may stall for two seconds at forty devices and 1 kHz.
const RING_BYTES: usize = 8 << 20;

/// A tick in which was asked. Periods without one were missed. Times in ns since the run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Record)]
pub struct AskedTick {
    /// The run, drawn at random.
    pub run: u64,
    /// The tick's number, as [`RoundTrip::sequence`].
    pub sequence: u64,
    /// When it was to begin.
    #[tlog(unit = "ns")]
    pub planned_ns: i64,
    /// When it began.
    #[tlog(unit = "ns")]
    pub begun_ns: i64,
    /// When its time was over: answers after that are late.
    #[tlog(unit = "ns")]
    pub ends_ns: i64,
    /// How late it began after the time waited for, which lies before `planned_ns` if periods were missed.
    #[tlog(unit = "ns")]
    pub late_ns: i64,
    /// Planned periods before it in which was not asked.
    pub missed: u64,
    /// From its beginning to the last of its answers; -1 if not all came in time.
    #[tlog(unit = "ns")]
    pub cycle_ns: i64,
}

impl AskedTick {
    /// Of a tick that is over, in a run that began at `start_ns`.
    pub(super) fn new(run: u64, start_ns: i64, closed: &Closed) -> Self {
        let turn = closed.turn;
        Self {
            run,
            sequence: turn.sequence,
            planned_ns: turn.planned_ns - start_ns,
            begun_ns: turn.begun_ns - start_ns,
            ends_ns: turn.ends_ns - start_ns,
            late_ns: turn.late_ns,
            missed: turn.missed,
            cycle_ns: closed.cycle_ns.unwrap_or(-1),
        }
    }
}

/// The end that takes samples. Allocates nothing, never blocks; a sample that finds the ring full is dropped
/// and counted.
pub struct Tap {
    ring: khz_record::Tap,
    round_trip: RecordId,
    tick: RecordId,
}

impl Tap {
    /// Hands a sample over, stamped with nanoseconds since 1970.
    pub fn put(&mut self, time_ns: i64, sample: &RoundTrip) {
        self.ring.push_value(self.round_trip, time_ns, sample);
    }

    /// Hands a tick over, as [`Tap::put`].
    pub fn tick(&mut self, time_ns: i64, tick: &AskedTick) {
        self.ring.push_value(self.tick, time_ns, tick);
    }
}

/// A log being written, a stream being sent, or both, by a thread of their own.
pub struct Log(Recorder);

/// What became of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Logged {
    /// Round trips in the file.
    pub written: u64,
    /// Round trips and ticks that are not in the file: the disk was too slow, or the file had reached its limit.
    pub dropped: u64,
}

impl Log {
    /// Begins a log of round trips and ticks in a file, which must not be there yet, and sends them to `khz log record` at the
    /// address `to`; what of both is wanted.
    ///
    /// # Errors
    /// If the file is there or cannot be made, or no socket can be had.
    pub fn begin(path: Option<&Path>, to: Option<SocketAddr>) -> io::Result<(Tap, Self)> {
        begin(path, to, u64::MAX).map_err(cause)
    }

    /// Writes what is still in the ring and ends the file.
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn finish(self) -> io::Result<Logged> {
        let summary = self.0.finish();
        match &summary.error {
            Some(error) => Err(io::Error::other(error.as_str())),
            None => Ok(Logged { written: summary.records[0].written, dropped: summary.dropped() }),
        }
    }
}

fn begin(path: Option<&Path>, to: Option<SocketAddr>, limit: u64) -> Result<(Tap, Log), RecorderError> {
    let file = path.map(Path::to_owned);
    let mut config = LogConfig { stream: to.map(|to| to.to_string()), ..LogConfig::default() };
    // However full the disk is: a file that the user named is written.
    config.keep_free_mib = 0;
    config.path = path.map_or(config.path, |path| path.display().to_string());
    let builder = RecorderBuilder::new(config).since_1970().most_bytes(limit);
    let mut builder = if file.is_some() { builder } else { builder.no_log() };
    let round_trip = builder.record("round_trip", &RoundTrip::schema())?;
    let tick = builder.record("tick", &AskedTick::schema())?;
    let ring = builder.tap(RING_BYTES);
    let recorder = builder.start_on(OneFile(file))?;
    Ok((Tap { ring, round_trip, tick }, Log(recorder)))
}

fn cause(error: RecorderError) -> io::Error {
    match error {
        RecorderError::Create { source, .. } => source,
        other => io::Error::other(other),
    }
}

/// Makes the file that was named, or none: no further name is tried, neither for one that is there nor after a full disk.
struct OneFile(Option<PathBuf>);

impl Disk for OneFile {
    fn create(&mut self, _: &Path) -> io::Result<Box<dyn Output>> {
        let path = self.0.take().ok_or_else(|| io::Error::other("a log of round trips is one file"))?;
        Files.create(&path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => io::Error::other(error),
            _ => error,
        })
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        Files.free_bytes(path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::sample;
    use super::*;

    fn logged(count: u64, limit: u64) -> (Logged, u64) {
        let Ok(folder) = tempfile::tempdir() else { panic!("no temporary folder") };
        let path = folder.path().join("a.tlog");
        let result = begin(Some(&path), None, limit).map_err(cause).and_then(|(mut tap, log)| {
            (0..count).for_each(|i| tap.put(i as i64 * 1_000, &sample(i)));
            log.finish()
        });
        let size = std::fs::metadata(&path).map_or(0, |m| m.len());
        (result.unwrap_or_else(|e| panic!("{e}")), size)
    }

    #[test]
    fn times_have_their_unit() {
        let units = |ty: &khz_tlog::Type| {
            ty.units().iter().map(|(path, unit)| format!("{path} {unit}")).collect::<Vec<_>>()
        };
        assert_eq!(units(&RoundTrip::schema()), ["asked_ns ns", "round_trip_ns ns", "held_ns ns"]);
        let tick = ["planned_ns ns", "begun_ns ns", "ends_ns ns", "late_ns ns", "cycle_ns ns"];
        assert_eq!(units(&AskedTick::schema()), tick);
    }

    #[test]
    fn every_sample_is_written() {
        let (logged, size) = logged(1_000, u64::MAX);
        assert_eq!(logged, Logged { written: 1_000, dropped: 0 });
        assert!(size > 1_000);
    }

    #[test]
    fn the_limit_holds_and_the_rest_is_counted() {
        let (logged, size) = logged(1_000, 10_000);
        assert_eq!(logged.written + logged.dropped, 1_000);
        assert!(logged.dropped > 0 && size < 20_000);
    }

    #[test]
    fn a_file_that_is_there_is_kept() {
        let file = tempfile::NamedTempFile::new();
        let kept = file.map(|file| Log::begin(Some(file.path()), None).is_err());
        assert!(kept.is_ok_and(|refused| refused));
    }
}
