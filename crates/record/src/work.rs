//! What the recorder's thread does, with the time as an argument.

use crate::builder::{ErrorRecord, RecorderBuilder};
use crate::disk::Disk;
use crate::error::RecorderError;
use crate::file::{LogFile, News};
use crate::lane::{self, Beside, Lane};
use crate::plotjuggler::{PLOTJUGGLER, Plot};
use crate::records::RecordId;
use crate::settings::LogConfig;
use crate::sink::Sink;
use crate::stream::{STREAM, Uplink, VIEW, new_session};
use crate::summary::Summary;
use crate::tap::{self, Drain};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

pub(super) struct Work<D> {
    drains: Vec<Drain>,
    file: LogFile<D>,
    /// Those on the recorder's own thread, because they never wait.
    uplinks: Vec<Lane>,
    others: Vec<Beside>,
    trouble: Option<ErrorRecord>,
    /// For sinks that are behind at the end.
    patience: Duration,
}

impl<D: Disk> Work<D> {
    pub fn begin(builder: RecorderBuilder, disk: D, now_ns: i64) -> Result<Self, RecorderError> {
        Self::begin_with(builder, disk, now_ns, lane::RING_BYTES, lane::PATIENCE)
    }

    pub fn begin_with(
        mut builder: RecorderBuilder,
        disk: D,
        now_ns: i64,
        ring_bytes: usize,
        patience: Duration,
    ) -> Result<Self, RecorderError> {
        check_zstd(&builder)?;
        let epoch_ns = builder.epoch_ns.unwrap_or_else(|| khz_rt::clock::realtime_ns() - khz_rt::now_ns());
        let mut uplinks = uplinks(&mut builder)?;
        let plotjuggler = plotjuggler(&builder.log)?;
        let mut others: Vec<Lane> =
            plotjuggler.into_iter().chain(std::mem::take(&mut builder.sinks)).collect();
        for lane in uplinks.iter_mut().chain(&mut others) {
            let begun = lane.begin(&builder.records, epoch_ns);
            begun.map_err(|why| RecorderError::Sink { name: lane.name().to_owned(), why })?;
        }
        let names = uplinks.iter().chain(&others).map(|lane| lane.name().to_owned()).collect();
        let file = LogFile::begin(&builder, names, epoch_ns, disk, now_ns)?;
        let others = others.into_iter().map(|lane| Beside::start(lane, ring_bytes));
        let others = others.collect::<Result<_, _>>().map_err(RecorderError::Thread)?;
        Ok(Self { drains: builder.drains, file, uplinks, others, trouble: builder.trouble, patience })
    }

    /// Takes what the rings hold, and does what is due.
    pub fn step(&mut self, now_ns: i64) {
        self.drain();
        let losses = self.uplinks.iter().map(Lane::lost).chain(self.others.iter().map(Beside::lost));
        self.file.add_losses(losses);
        guard(&mut self.file, |file| file.turn(now_ns));
        self.report_errors(now_ns);
        self.uplinks.iter_mut().for_each(|uplink| uplink.turn(now_ns));
    }

    /// Takes what is left and ends the log. The other sinks are waited for afterwards, by [`Work::summary`].
    pub fn finish(&mut self, now_ns: i64) {
        self.step(now_ns);
        self.others.iter().for_each(Beside::stop);
        guard(&mut self.file, |file| file.finish(now_ns));
        self.report_errors(now_ns);
        self.uplinks.iter_mut().for_each(|uplink| uplink.finish(now_ns));
    }

    /// What goes wrong with the log from now on.
    pub fn news(&self) -> News {
        self.file.news()
    }

    /// What was recorded.
    pub fn summary(self) -> Summary {
        let deadline = Instant::now() + self.patience;
        let mut summary = self.file.summary();
        summary.sinks.extend(self.uplinks.into_iter().map(Lane::summary));
        summary.sinks.extend(self.others.into_iter().map(|other| other.summary(deadline)));
        summary
    }

    /// Gives samples to every sink, the oldest first over all rings, until these are empty.
    fn drain(&mut self) {
        while let Some((index, head)) = tap::oldest(&mut self.drains) {
            let payload = self.drains[index].take(head);
            give(&mut self.file, &mut self.uplinks, &mut self.others, head.record, head.time_ns, payload);
        }
    }

    /// Gives every sink a sample of what has gone wrong with the log.
    fn report_errors(&mut self, now_ns: i64) {
        let Some((error, time_ns)) = self.file.unreported(now_ns) else { return };
        let Some((record, write)) = &mut self.trouble else { return };
        give(&mut self.file, &mut self.uplinks, &mut self.others, *record, time_ns, &write(&error));
    }
}

/// Gives every sink a sample.
fn give<D: Disk>(
    file: &mut LogFile<D>,
    uplinks: &mut [Lane],
    others: &mut [Beside],
    record: RecordId,
    time_ns: i64,
    payload: &[u8],
) {
    guard(file, |file| file.sample(record, time_ns, payload));
    uplinks.iter_mut().for_each(|uplink| uplink.sample(record, time_ns, payload));
    others.iter_mut().for_each(|other| other.sample(record, time_ns, payload));
}

/// Has a panic reported like a disk that failed, and what was recorded before it.
fn guard<D: Disk, T>(file: &mut LogFile<D>, action: impl FnOnce(&mut LogFile<D>) -> T) {
    if catch_unwind(AssertUnwindSafe(|| action(file))).is_err() {
        file.panicked();
    }
}

/// To the network, as `log.stream` says, and to a viewer.
fn uplinks(builder: &mut RecorderBuilder) -> Result<Vec<Lane>, RecorderError> {
    if builder.log.stream.is_none() && builder.view.is_none() {
        return Ok(Vec::new());
    }
    // One number for both: who receives the stream and asks the viewer sees that they belong to the same run.
    let session =
        new_session().map_err(|why| RecorderError::Sink { name: STREAM.into(), why: why.to_string() })?;
    let to_network = |to: &String| {
        Uplink::new(to, session).map_err(|source| RecorderError::Stream {
            key: STREAM,
            to: to.clone(),
            source,
        })
    };
    let to_viewer = |socket| {
        Uplink::to_viewer(socket, session)
            .map_err(|why| RecorderError::Sink { name: VIEW.into(), why: why.to_string() })
    };
    let stream = builder.log.stream.as_ref().map(to_network).transpose()?;
    let view = builder.view.take().map(to_viewer).transpose()?;
    Ok(stream.into_iter().chain(view).map(|uplink| Lane::new(Box::new(uplink))).collect())
}

/// Its own sink beside the recorder's thread: it makes texts of numbers, which takes time.
fn plotjuggler(log: &LogConfig) -> Result<Option<Lane>, RecorderError> {
    let Some(to) = &log.plotjuggler else { return Ok(None) };
    let failed = |source| RecorderError::Stream { key: PLOTJUGGLER, to: to.clone(), source };
    Ok(Some(Lane::new(Box::new(Plot::new(to).map_err(failed)?))))
}

/// A record that is not there cannot be compressed.
fn check_zstd(builder: &RecorderBuilder) -> Result<(), RecorderError> {
    let known: Vec<_> = builder.records.iter().map(|record| record.name.as_str()).collect();
    match builder.log.zstd.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(RecorderError::NoRecord { name: name.clone(), known: known.join(", ") }),
        None => Ok(()),
    }
}
