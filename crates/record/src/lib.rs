//! Everything kept, nothing ever waits for the disk. Knows no robots.
//!
//! The tick hands its samples to a [`Tap`]: a bounded ring it shares with nobody but the recorder's thread. That
//! thread, at normal priority, makes a TLOG0003 log of them. When the disk is too slow for too long the ring fills
//! up; then samples are dropped, and each drop is counted, in the [`Summary`] and in the log itself (record
//! `recorder`). What the tick calls allocates nothing, locks nothing, makes no system call and never waits.
//!
//! ```no_run
//! use khz_record::{LogConfig, Plan};
//! use khz_tlog::Type;
//!
//! let mut plan = Plan::new(LogConfig::default());
//! let battery = plan.record("battery", &Type::object([("volts", Type::Float32)]))?;
//! let mut tap = plan.tap(16 << 20);
//! let recorder = plan.start()?;
//! tap.push(battery, khz_rt::now_ns(), &24.5f32.to_le_bytes());
//! println!("{:?}", recorder.finish());
//! # Ok::<(), khz_record::RecorderError>(())
//! ```
#![forbid(unsafe_code)]

mod disk;
mod receive;
mod settings;
mod stream;
mod sync;
mod tap;
#[cfg(test)]
mod tests;
mod until;
mod writing;

pub use disk::{Disk, Files, Output};
pub use receive::{Intake, IntakeCounts};
pub use settings::{Compression, LogConfig};
pub use tap::{MAX_SAMPLE, Tap};
pub use writing::numbered;

use khz_tlog::Type;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tap::Drain;
use writing::Writing;

/// How many records one recording may have.
pub const MAX_RECORDS: usize = 256;

/// How often the recorder's thread looks into the rings. It cannot be woken: that would be a system call of the tick.
const LOOK: Duration = Duration::from_millis(5);

/// When written data is forced onto the disk. The file system's own pace is some tens of seconds; the death of the
/// program alone loses nothing that was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Left to the file system.
    Never,
    /// When a file is finished.
    #[default]
    Finish,
    /// When a file is finished and every so many ns before.
    Every(i64),
}

/// Why a recording could not begin.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// The file could not be made.
    #[error("cannot write the log {}: {source}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Two records of one name.
    #[error("the record {0:?} is declared twice")]
    Twice(String),
    /// A record that is not there cannot be compressed.
    #[error("no record named {name:?} to compress (log.zstd); the records are {known}")]
    NoRecord {
        /// The name.
        name: String,
        /// Those there are.
        known: String,
    },
    /// Nothing can be sent to the address.
    #[error("cannot send samples to {to}: {source} (log.stream wants `HOST:PORT`)")]
    Stream {
        /// The address.
        to: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// More than [`MAX_RECORDS`].
    #[error("more than {MAX_RECORDS} records in one recording")]
    TooMany,
    /// The thread could not be started.
    #[error("cannot start the recorder's thread: {0}")]
    Thread(std::io::Error),
    /// The disk has too little room from the beginning.
    #[error("cannot write the log {}: the disk has {free} bytes free, and {keep} are to be kept (log.keep_free_mib)", path.display())]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// Free bytes.
        free: u64,
        /// Bytes to be kept free.
        keep: u64,
    },
}

/// A record of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordId(u16);

/// What will be recorded, before it begins.
pub struct Plan {
    log: LogConfig,
    sync: Sync,
    epoch_ns: Option<i64>,
    records: Vec<(String, Type)>,
    drains: Vec<Drain>,
    counts: Arc<Counts>,
}

impl Plan {
    /// Nothing so far. `log` is the `[log]` of a robot file; `enabled` and `ring_mib` are for whoever makes the plan
    /// and its [taps](Self::tap).
    pub fn new(log: LogConfig) -> Self {
        let counts = Arc::new(Counts::new());
        Self { log, sync: Sync::default(), epoch_ns: None, records: Vec::new(), drains: Vec::new(), counts }
    }

    /// When data must have reached the disk itself.
    pub fn sync(self, sync: Sync) -> Self {
        Self { sync, ..self }
    }

    /// What to add to the loop's clock to get ns since the Unix epoch; if it is not said, the present difference to
    /// `CLOCK_MONOTONIC`. With virtual time, say what its zero means.
    pub fn epoch_ns(self, epoch_ns: i64) -> Self {
        Self { epoch_ns: Some(epoch_ns), ..self }
    }

    /// Declares a record; its samples are values of `ty`. The recorder's own is named `recorder`.
    ///
    /// # Errors
    /// When there is one of this name, or there are [`MAX_RECORDS`].
    pub fn record(&mut self, name: &str, ty: &Type) -> Result<RecordId, RecorderError> {
        if name == writing::OWN_RECORD || self.records.iter().any(|(known, _)| known == name) {
            return Err(RecorderError::Twice(name.into()));
        }
        if self.records.len() == MAX_RECORDS {
            return Err(RecorderError::TooMany);
        }
        self.records.push((name.into(), ty.clone()));
        Ok(RecordId(self.records.len() as u16 - 1))
    }

    /// Makes the ring for one thread that records. The loop's wants room for the longest time the disk may take. Its
    /// memory is touched here, so that no tick has to wait for a page.
    pub fn tap(&mut self, ring_bytes: usize) -> Tap {
        let (tap, drain) = tap::ring(ring_bytes, self.counts.clone());
        self.drains.push(drain);
        tap
    }

    /// Begins the first file and starts the thread. Call it before the loop's thread is given its real-time
    /// treatment, so that this one does not inherit its CPU.
    ///
    /// # Errors
    /// When the file cannot be made or the disk is too full.
    pub fn start(self) -> Result<Recorder, RecorderError> {
        self.start_on(Files)
    }

    /// As [`start`](Self::start), on a disk of your own.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_on(self, disk: impl Disk + 'static) -> Result<Recorder, RecorderError> {
        let mut writing = self.writing(disk, khz_rt::now_ns())?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("khz-recorder".into()).spawn(move || {
            let step = || guard(&mut writing, |writing| writing.step(khz_rt::now_ns()));
            until::until_stopped(&stopped, step, || std::thread::park_timeout(LOOK));
            guard(&mut writing, |writing| writing.finish(khz_rt::now_ns()));
            writing.summary()
        });
        let thread = thread.map_err(RecorderError::Thread)?;
        Ok(Recorder { thread: Some(thread), stop })
    }

    fn writing<D: Disk>(self, disk: D, now_ns: i64) -> Result<Writing<D>, RecorderError> {
        Writing::begin(self, disk, now_ns)
    }
}

/// What is told instead of what a disk would say.
const PANICKED: &str = "the recorder panicked, which is a bug in kilohertz";

/// Has a panic told like a disk that failed, and what was recorded before it.
fn guard<D: Disk>(writing: &mut Writing<D>, action: impl FnOnce(&mut Writing<D>)) {
    if catch_unwind(AssertUnwindSafe(|| action(writing))).is_err() {
        writing.panicked();
    }
}

/// A recording under way. Dropped, it ends like [`finish`](Recorder::finish).
pub struct Recorder {
    thread: Option<JoinHandle<Summary>>,
    stop: Arc<AtomicBool>,
}

impl Recorder {
    /// Writes what is in the rings, ends the log with its index, and tells what was recorded. Blocks until the disk
    /// has taken it. Samples pushed later are lost.
    pub fn finish(mut self) -> Summary {
        let error = || Some(PANICKED.to_owned());
        self.stop().unwrap_or_else(|| Summary { error: error(), ..Summary::default() })
    }

    fn stop(&mut self) -> Option<Summary> {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        thread.join().ok()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The files, oldest first.
    pub paths: Vec<PathBuf>,
    /// Their bytes together.
    pub bytes: u64,
    /// The records, in the order of their declaration.
    pub records: Vec<RecordSummary>,
    /// Why writing ended early, if it did.
    pub error: Option<String>,
}

impl Summary {
    /// Samples dropped, of all records.
    pub fn dropped(&self) -> u64 {
        self.records.iter().map(|record| record.dropped).sum()
    }
}

/// What was recorded of one record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordSummary {
    /// Its name.
    pub name: String,
    /// Samples that left the process for the disk.
    pub written: u64,
    /// Samples dropped: the ring was full, the disk was, or it failed. Of a failed write all that was under way.
    pub dropped: u64,
}

/// What the threads count together. Every number has one meaning and is only added to, so no order among them
/// matters and all accesses are relaxed.
struct Counts {
    dropped: [AtomicU64; MAX_RECORDS],
}

impl Counts {
    fn new() -> Self {
        Self { dropped: [const { AtomicU64::new(0) }; MAX_RECORDS] }
    }

    fn drop_one(&self, RecordId(index): RecordId) {
        self.dropped[usize::from(index)].fetch_add(1, Ordering::Relaxed);
    }

    fn dropped(&self, index: usize) -> u64 {
        self.dropped[index].load(Ordering::Relaxed)
    }

    fn all_dropped(&self) -> u64 {
        (0..MAX_RECORDS).map(|index| self.dropped(index)).sum()
    }
}
