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
    #[error("cannot {doing} {}: {source}", .path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
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
        move |source| Self::File { doing, path: path.to_owned(), source }
    }
}

impl From<khz_tlog::Error> for DatasetError {
    fn from(error: khz_tlog::Error) -> Self {
        Self::Export(error.into())
    }
}
