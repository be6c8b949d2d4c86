//! Where samples go.

use crate::records::{Declared, RecordId};
use std::error::Error;

/// The result of a request to a sink: anything that `?` takes.
pub type SinkResult = Result<(), Box<dyn Error + Send + Sync>>;

/// Somewhere samples go: a file, a network, a plot, a program's own rules.
///
/// The calls come one after another and never from a thread that records, so a sink may allocate, lock and wait. One given
/// to [`RecorderBuilder::sink`](crate::RecorderBuilder::sink) has its own thread, with room for some megabytes of samples: if it is
/// slow it misses samples, and nothing else is affected.
///
/// An error of [`sample`](Self::sample) means that this sample is lost; the sink is still given the next. After a panic it
/// is given nothing any more. Both are counted and reported in the [`SinkSummary`].
pub trait Sink: Send {
    /// Its name, under which its losses are reported.
    fn name(&self) -> &str;

    /// Called once, before the recording begins, on the thread that begins it. `epoch_ns` and a time are ns since the Unix
    /// epoch.
    ///
    /// # Errors
    /// What keeps it from working; then there is no recording.
    fn begin(&mut self, records: &[Declared], epoch_ns: i64) -> SinkResult {
        let _ = (records, epoch_ns);
        Ok(())
    }

    /// Takes a sample: of `records[record.index()]`, stamped with the loop's clock, encoded as the record's type
    /// ([`khz_tlog::Value::read`] decodes it). The samples of all threads come in the order of their times, except those
    /// that were pushed late.
    ///
    /// # Errors
    /// Why this sample is lost.
    fn sample(&mut self, record: RecordId, time_ns: i64, payload: &[u8]) -> SinkResult;

    /// Called some hundred times a second, when the samples so far have been given: what is due by the clock.
    ///
    /// # Errors
    /// What is to be reported. No sample counts as lost by it.
    fn turn(&mut self, now_ns: i64) -> SinkResult {
        let _ = now_ns;
        Ok(())
    }

    /// Called once, after the last sample.
    ///
    /// # Errors
    /// What is to be reported. No sample counts as lost by it.
    fn finish(&mut self, now_ns: i64) -> SinkResult {
        let _ = now_ns;
        Ok(())
    }

    /// How many of the samples it took it has lost since: for sinks that collect samples before they pass them on.
    fn lost(&self) -> u64 {
        0
    }

    /// What a reader of its summary should know that is neither a loss nor an error. Called once, at the end.
    fn note(&self) -> Option<String> {
        None
    }
}

/// What became of the samples given to a sink.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct SinkSummary {
    /// Its name; `log`, `stream`, `view` and `plotjuggler` are the recorder's own.
    pub name: String,
    /// Samples it took and kept.
    pub taken: u64,
    /// Samples it did not: it was too slow, refused them, or had failed. What was dropped before any sink saw it is in
    /// the [`RecordSummary`](crate::RecordSummary).
    pub lost: u64,
    /// What was wrong first; that it panicked, if it did.
    pub error: Option<String>,
    /// What else there is to know of it.
    pub note: Option<String>,
}
