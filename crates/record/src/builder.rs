//! A recording: planned, begun, ended.

use crate::disk::{Disk, Files};
use crate::error::RecorderError;
use crate::file::{LOG, News, OWN_RECORD, PANICKED};
use crate::lane::{LOOK, Lane};
use crate::plotjuggler::PLOTJUGGLER;
use crate::records::{Counts, Declared, MAX_RECORDS, RecordId};
use crate::settings::LogConfig;
use crate::sink::Sink;
use crate::stream::{STREAM, VIEW};
use crate::summary::Summary;
use crate::tap::{self, Drain, Tap};
use crate::until::until_stopped;
use crate::work::Work;
use khz_tlog::Type;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

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

/// A record, and what writes its sample of an error of the log.
pub(super) type ErrorRecord = (RecordId, Box<dyn FnMut(&str) -> Vec<u8> + Send>);

/// What will be recorded, before it begins.
pub struct RecorderBuilder {
    pub(super) log: LogConfig,
    pub(super) sync: Sync,
    pub(super) epoch_ns: Option<i64>,
    /// Time of the newest sample, if the samples' clock is not the loop's on this computer.
    pub(super) newest_ns: Option<i64>,
    pub(super) most_bytes: u64,
    pub(super) records: Vec<Declared>,
    /// Whose newest sample begins each further file.
    pub(super) in_every_file: Vec<RecordId>,
    pub(super) trouble: Option<ErrorRecord>,
    pub(super) drains: Vec<Drain>,
    pub(super) sinks: Vec<Lane>,
    /// A viewer's end of a socket pair.
    pub(super) view: Option<OwnedFd>,
    pub(super) has_log: bool,
    pub(super) counts: Arc<Counts>,
}

impl Default for RecorderBuilder {
    /// With the log of a robot file that has no `[log]`.
    fn default() -> Self {
        Self::new(LogConfig::default())
    }
}

impl RecorderBuilder {
    /// Nothing so far. `log` is the `[log]` of a robot file; `enabled` and `ring_mib` are for the caller
    /// and its [taps](Self::tap).
    pub fn new(log: LogConfig) -> Self {
        let counts = Arc::new(Counts::new());
        let (records, drains, sinks) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            log,
            sync: Sync::default(),
            epoch_ns: None,
            newest_ns: None,
            most_bytes: u64::MAX,
            records,
            in_every_file: Vec::new(),
            trouble: None,
            drains,
            sinks,
            view: None,
            has_log: true,
            counts,
        }
    }

    /// With another log.
    #[must_use]
    pub fn log(self, log: LogConfig) -> Self {
        Self { log, ..self }
    }

    /// Writes no file: what is recorded goes to the other sinks only.
    #[must_use]
    pub fn no_log(self) -> Self {
        Self { has_log: false, ..self }
    }

    /// Also sends everything through this socket, one end of a pair that keeps datagrams apart, to a viewer. One that
    /// does not keep up misses samples, and nothing waits for it.
    #[must_use]
    pub fn view(self, socket: OwnedFd) -> Self {
        Self { view: Some(socket), ..self }
    }

    /// When data must have reached the disk itself.
    pub fn sync(self, sync: Sync) -> Self {
        Self { sync, ..self }
    }

    /// What to add to the loop's clock to get ns since the Unix epoch; without it, the present difference to
    /// `CLOCK_MONOTONIC`.
    pub fn epoch_ns(self, epoch_ns: i64) -> Self {
        Self { epoch_ns: Some(epoch_ns), ..self }
    }

    /// Samples are stamped in virtual time, whose zero is `epoch_ns` since the Unix epoch, unless [`RecorderBuilder::epoch_ns`] has set
    /// another. What the recorder adds itself is as late as the newest sample, and files are rotated by that time. As
    /// virtual time outruns any disk, all [taps](Self::tap) wait for room, some two seconds at the most, before they drop a
    /// sample. Sinks of one's own are not waited for.
    pub fn virtual_time(self, epoch_ns: i64) -> Self {
        self.counts.be_patient();
        Self { epoch_ns: self.epoch_ns.or(Some(epoch_ns)), newest_ns: Some(0), ..self }
    }

    /// Samples are stamped in ns since the Unix epoch, by a clock that may be set meanwhile. What the recorder adds itself
    /// is as late as the newest sample, and files are rotated by that time.
    pub fn since_1970(self) -> Self {
        Self { epoch_ns: Some(0), newest_ns: Some(khz_rt::clock::realtime_ns()), ..self }
    }

    /// Once the files have so many bytes together, samples are lost and counted, and there are no further files. What
    /// ends the last one, its index and the counts, is written all the same.
    pub fn most_bytes(self, most_bytes: u64) -> Self {
        Self { most_bytes, ..self }
    }

    /// Declares a record; its samples are values of `ty`. The recorder's own is named `recorder`.
    ///
    /// # Errors
    /// When there is one of this name, or there are [`MAX_RECORDS`].
    pub fn record(&mut self, name: &str, ty: &Type) -> Result<RecordId, RecorderError> {
        if name == OWN_RECORD || self.records.iter().any(|known| known.name == name) {
            return Err(RecorderError::Twice(name.into()));
        }
        if self.records.len() == MAX_RECORDS {
            return Err(RecorderError::TooMany);
        }
        self.records.push(Declared { name: name.into(), ty: ty.clone() });
        Ok(RecordId(self.records.len() as u16 - 1))
    }

    /// Each further file of the log begins with the newest sample of this record, at the time of the newest sample before it:
    /// for what says whose log it is. Such copies are in no count.
    pub fn in_every_file(&mut self, record: RecordId) {
        self.in_every_file.push(record);
    }

    /// What goes wrong with the log (see [`Recorder::trouble`]) becomes a sample of this record, too, in the log as far as it goes
    /// on and in every other sink. `write` makes its bytes of the error; the recorder's thread calls it.
    pub fn report_errors(&mut self, record: RecordId, write: impl FnMut(&str) -> Vec<u8> + Send + 'static) {
        self.trouble = Some((record, Box::new(write)));
    }

    /// Makes the ring for one thread that records. The loop's wants room for the longest time the disk may take. Its
    /// memory is touched here, so that no tick has to wait for a page.
    pub fn tap(&mut self, ring_bytes: usize) -> Tap {
        let (tap, drain) = tap::ring(ring_bytes, self.counts.clone());
        self.drains.push(drain);
        tap
    }

    /// Gives every sample to `sink`, too, on its own thread.
    ///
    /// # Errors
    /// When another sink has its name, or it is `log`, `stream`, `view` or `plotjuggler`.
    pub fn sink(&mut self, sink: Box<dyn Sink>) -> Result<(), RecorderError> {
        let lane = Lane::new(sink);
        let own = [LOG, STREAM, VIEW, PLOTJUGGLER];
        if own.contains(&lane.name()) || self.sinks.iter().any(|known| known.name() == lane.name()) {
            return Err(RecorderError::SinkTwice(lane.name().into()));
        }
        self.sinks.push(lane);
        Ok(())
    }

    /// Begins the first file and starts the threads. Call it before the loop's thread is given its real-time
    /// treatment, so that these do not inherit its CPU.
    ///
    /// # Errors
    /// When the file cannot be made, the disk is too full, or a sink cannot begin.
    pub fn start(self) -> Result<Recorder, RecorderError> {
        self.start_on(Files)
    }

    /// As [`start`](Self::start), on a disk of your own.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_on(self, disk: impl Disk + 'static) -> Result<Recorder, RecorderError> {
        let mut work = Work::begin(self, disk, khz_rt::now_ns())?;
        let (stop, news) = (Arc::new(AtomicBool::new(false)), work.news());
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("khz-recorder".into()).spawn(move || {
            let step = || work.step(khz_rt::now_ns());
            until_stopped(&stopped, step, || std::thread::park_timeout(LOOK));
            work.finish(khz_rt::now_ns());
            work.summary()
        });
        let thread = thread.map_err(RecorderError::Thread)?;
        Ok(Recorder { thread: Some(thread), stop, news })
    }
}

/// A recording under way. Dropped, it ends like [`finish`](Recorder::finish).
pub struct Recorder {
    thread: Option<JoinHandle<Summary>>,
    stop: Arc<AtomicBool>,
    news: News,
}

impl Recorder {
    /// Writes what is in the rings, ends the log with its index, and reports what was recorded. Blocks until the disk
    /// has taken it, and then for two seconds at most until the builder's sinks have. Samples pushed later are lost.
    pub fn finish(mut self) -> Summary {
        let error = || Some(PANICKED.to_owned());
        self.stop().unwrap_or_else(|| Summary { error: error(), ..Summary::default() })
    }

    /// What has gone wrong with the log since it was asked last: the disk is full, or the file was removed.
    /// [`Summary::error`] has it at the end.
    pub fn trouble(&self) -> Option<String> {
        self.news.take()
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
