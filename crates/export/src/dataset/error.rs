//! Why a log is not in a dataset.

use crate::ExportError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a log was not added.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The log cannot be read, or a table cannot be written.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A file or folder of the dataset.
    #[error("cannot {doing} {}: {error}", .path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The folder has files of others.
    #[error(
        "{} is not empty and no dataset (it has neither _dataset.json nor _manifest nor _tables); name a new or an empty folder",
        .0.display()
    )]
    Foreign(PathBuf),
    /// The log is a pipe, a device or a folder.
    #[error("the log is no regular file; a log that comes through a pipe must be written to a file first")]
    NoFile,
    /// A name in the log makes a path that is none of a dataset.
    #[error("the names in the log make the path {0:?}, which is not within the dataset")]
    Outside(String),
    /// A file of the dataset is not what it should be.
    #[error("{} does not belong to a dataset that this program can extend: {why}", .path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The log has no samples yet.
    #[error("the log has no samples")]
    Empty,
    /// Others add the same log all the time.
    #[error("other exports keep adding this log; try again when they have ended")]
    Contended,
}

impl DatasetError {
    pub(super) fn at<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |error| Self::File { doing, path: path.to_owned(), error }
    }
}

impl From<khz_tlog::Error> for DatasetError {
    fn from(error: khz_tlog::Error) -> Self {
        Self::Export(error.into())
    }
}
