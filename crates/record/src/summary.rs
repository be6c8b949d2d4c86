//! What became of a recording.

use crate::sink::SinkSummary;
use std::path::PathBuf;

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The files, oldest first; without those that were removed meanwhile.
    pub paths: Vec<PathBuf>,
    /// Their bytes together.
    pub bytes: u64,
    /// The records, in the order of their declaration.
    pub records: Vec<RecordSummary>,
    /// Where the samples went: the log, the stream and PlotJuggler if they are there, and the sinks of the builder in their order.
    pub sinks: Vec<SinkSummary>,
    /// Why writing a file ended early, if one did, and where it went on.
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
    /// Samples that are not in the log: the ring was full, the disk was, or it failed. Of a failed write all that was
    /// under way.
    pub dropped: u64,
}
