//! Round trips into a log file, without waiting for the disk.
use super::ledger::Closed;
use super::sample::RoundTrip;
use khz_tlog::{Options, Record, Writer};
use rtrb::{Consumer, Producer, RingBuffer};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Samples the ring holds: a disk may stall for a second and a half at forty devices and 1 kHz.
const RING: usize = 1 << 16;
/// How often what was written is handed to the system.
const FLUSH: Duration = Duration::from_millis(200);
/// How long the writer rests when there is nothing to write.
const REST: Duration = Duration::from_millis(5);

#[derive(Debug)]
enum Entry {
    RoundTrip(RoundTrip),
    Tick(AskedTick),
}

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
#[derive(Debug)]
pub struct Tap {
    ring: Producer<(i64, Entry)>,
    dropped: Arc<AtomicU64>,
}

impl Tap {
    /// Hands a sample over, stamped with nanoseconds since 1970.
    pub fn put(&mut self, time_ns: i64, sample: RoundTrip) {
        self.push(time_ns, Entry::RoundTrip(sample));
    }

    /// Hands a tick over, as [`Tap::put`].
    pub fn tick(&mut self, time_ns: i64, tick: AskedTick) {
        self.push(time_ns, Entry::Tick(tick));
    }

    fn push(&mut self, time_ns: i64, entry: Entry) {
        if self.ring.push((time_ns, entry)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A log being written by a thread of its own.
#[derive(Debug)]
pub struct Log {
    writer: JoinHandle<io::Result<u64>>,
    over: Arc<AtomicBool>,
    dropped: Arc<AtomicU64>,
}

/// What became of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Logged {
    /// Round trips in the file.
    pub written: u64,
    /// Round trips and ticks that are not in the file: the disk was too slow, or the file had reached its limit.
    pub dropped: u64,
}

impl Log {
    /// Begins a file, which must not be there yet, and grows it to `limit` bytes at most.
    ///
    /// # Errors
    /// If the file is there, or cannot be made.
    pub fn create(path: &Path, limit: u64) -> io::Result<(Tap, Self)> {
        let file = File::create_new(path)?;
        let (ring, rest) = RingBuffer::new(RING);
        let (over, dropped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, drops) = (over.clone(), dropped.clone());
        let writer = std::thread::Builder::new().name("rtt log".into());
        let writer = writer.spawn(move || write(file, rest, &ends, &drops, limit))?;
        Ok((Tap { ring, dropped: dropped.clone() }, Self { writer, over, dropped }))
    }

    /// Writes what is still in the ring and ends the file.
    ///
    /// # Errors
    /// What the disk said.
    pub fn finish(self) -> io::Result<Logged> {
        self.over.store(true, Ordering::Release);
        let written = self.writer.join().map_err(|_| io::Error::other("the log's writer broke down"))??;
        Ok(Logged { written, dropped: self.dropped.load(Ordering::Relaxed) })
    }
}

fn write(
    file: File,
    mut ring: Consumer<(i64, Entry)>,
    over: &AtomicBool,
    dropped: &AtomicU64,
    limit: u64,
) -> io::Result<u64> {
    let mut log = Writer::new(BufWriter::with_capacity(1 << 16, file), Options::default())?;
    let trips = log.record("round_trip", &RoundTrip::schema())?;
    let mut ticks = None;
    let (mut written, mut bytes, mut flushed) = (0, Vec::with_capacity(128), std::time::Instant::now());
    loop {
        // Asked before the ring is emptied, so that nothing put in before the end is left behind.
        let last = over.load(Ordering::Acquire);
        while let Ok((time_ns, entry)) = ring.pop() {
            if log.position() >= limit {
                dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            bytes.clear();
            let record = match entry {
                Entry::RoundTrip(sample) => {
                    sample.encode(&mut bytes);
                    written += 1;
                    trips
                }
                Entry::Tick(tick) => {
                    tick.encode(&mut bytes);
                    match ticks {
                        Some(record) => record,
                        // A recorder of streams has none.
                        None => *ticks.insert(log.record("tick", &AskedTick::schema())?),
                    }
                }
            };
            log.write(record, Some(time_ns / 1_000), &bytes)?;
        }
        if last {
            log.finish()?.flush()?;
            return Ok(written);
        }
        if flushed.elapsed() >= FLUSH {
            log.destination().flush()?;
            flushed = std::time::Instant::now();
        }
        std::thread::sleep(REST);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::sample;
    use super::*;

    fn logged(count: u64, limit: u64) -> (Logged, u64) {
        let Ok(folder) = tempfile::tempdir() else { panic!("no temporary folder") };
        let path = folder.path().join("a.tlog");
        let result = Log::create(&path, limit).and_then(|(mut tap, log)| {
            (0..count).for_each(|i| tap.put(i as i64 * 1_000, sample(i)));
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
        let kept = file.map(|file| Log::create(file.path(), u64::MAX).is_err());
        assert!(kept.is_ok_and(|refused| refused));
    }
}
