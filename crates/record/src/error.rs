//! What keeps a recording from its beginning.

use crate::records::MAX_RECORDS;
use std::path::PathBuf;

/// Why a recording could not begin.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// The file could not be made.
    #[error("cannot write the log {}: {source}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Two records of one name.
    #[error("the record {0:?} is declared twice")]
    Twice(String),
    /// Two sinks of one name, or one with the name of the recorder's own.
    #[error("there is a sink {0:?} already")]
    SinkTwice(String),
    /// A sink could not begin.
    #[error("the sink {name:?} cannot start: {why}")]
    Sink {
        /// Its name.
        name: String,
        /// Its error.
        why: String,
    },
    /// A record that is not there cannot be compressed.
    #[error("no record named {name:?} to compress (log.zstd); the records are {known}")]
    NoRecord {
        /// The name.
        name: String,
        /// Those there are.
        known: String,
    },
    /// Nothing can be sent to the address.
    #[error("cannot send samples to {to}: {source} (log.{key} wants `HOST:PORT`)")]
    Stream {
        /// The key of `[log]`.
        key: &'static str,
        /// The address.
        to: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// More than [`MAX_RECORDS`].
    #[error("more than {MAX_RECORDS} records in one recording")]
    TooMany,
    /// The thread could not be started.
    #[error("cannot start the recorder's thread: {0}")]
    Thread(std::io::Error),
    /// The disk has too little room from the beginning.
    #[error("cannot write the log {}: the disk has {free} bytes free, and {keep} must stay free (log.keep_free_mib)", path.display())]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// Free bytes.
        free: u64,
        /// Bytes to be kept free.
        keep: u64,
    },
}
