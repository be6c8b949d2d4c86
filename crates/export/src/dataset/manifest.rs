//! What is in a dataset: a file of JSON for each log.

use super::error::DatasetError;
use super::identity::{Identity, Samples};
use super::place;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What the layout is called. Logs that were taken in under an older one are taken in again.
pub(super) const VERSION: u32 = 1;

/// A log in a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The version of the layout.
    pub dataset: u32,
    /// The log's id.
    pub log: String,
    /// The robots it is of.
    pub robots: Vec<String>,
    /// The UTC day on which it begins.
    pub day: Option<String>,
    /// Its first and its last time, µs since 1970.
    pub from_us: Option<i64>,
    pub to_us: Option<i64>,
    /// Whether it was whole, or cut off, or still being written.
    pub finished: bool,
    /// Damaged places that were left out.
    pub damages: u64,
    /// The file it came from.
    pub source: Identity,
    /// What was in it.
    pub samples: Samples,
    /// Its files.
    pub files: Vec<Table>,
    /// Records that do not fit their tables, and why.
    pub left_out: BTreeMap<String, String>,
    /// The program that wrote it.
    pub khz: String,
}

/// The rows of a log in one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Table {
    pub table: String,
    /// Below the dataset's folder.
    pub path: String,
    pub rows: u64,
}

impl Manifest {
    /// What is known of the log of this id.
    ///
    /// # Errors
    /// If the file cannot be read, or is no manifest of this log, or names files that are not the log's.
    pub fn read(path: &Path, log: &str) -> Result<Option<Self>, DatasetError> {
        let Some(text) = text_of(path)? else { return Ok(None) };
        let wrong = |why: String| DatasetError::Manifest { path: path.to_owned(), why };
        is_layout_known(path, &text)?;
        let manifest: Self = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        if manifest.log != log {
            return Err(wrong(format!("it says that its log is {:?}, and is not called so", manifest.log)));
        }
        match manifest.files.iter().find(|table| !place::is_of(&table.path, log)) {
            Some(table) => Err(wrong(format!("{:?} is no place for a file of this log", table.path))),
            None => Ok(Some(manifest)),
        }
    }

    /// As a file has it.
    pub fn text(&self) -> Vec<u8> {
        // Texts, numbers and lists can always be written as JSON.
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// The log's files below `folder`.
    pub fn paths(&self, folder: &Path) -> impl Iterator<Item = PathBuf> {
        self.files.iter().map(|table| folder.join(&table.path))
    }

    /// All its rows.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|table| table.rows).sum()
    }
}

/// Which layout a dataset has: the content of its file `_dataset.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct About {
    dataset: u32,
    khz: String,
}

impl About {
    /// Of this program.
    pub fn text() -> Vec<u8> {
        let about = Self { dataset: VERSION, khz: env!("CARGO_PKG_VERSION").into() };
        // A number and a text can always be written as JSON.
        serde_json::to_vec(&about).unwrap_or_default()
    }

    /// Whether a dataset has its layout written down. A manifest has it, too, but only for its own log.
    ///
    /// # Errors
    /// If the layout is of a newer program, or the file cannot be read.
    pub fn is_there(path: &Path) -> Result<bool, DatasetError> {
        text_of(path)?.map(|text| is_layout_known(path, &text)).transpose().map(|known| known.is_some())
    }
}

/// Refuses the layouts of newer programs.
fn is_layout_known(path: &Path, text: &[u8]) -> Result<(), DatasetError> {
    let wrong = |why: String| DatasetError::Manifest { path: path.to_owned(), why };
    let About { dataset, khz } = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
    match dataset {
        0..=VERSION => Ok(()),
        _ => Err(wrong(format!("its layout {dataset} is of a newer program, khz {khz}"))),
    }
}

/// The text of a file of the dataset; none if there is no such file.
///
/// # Errors
/// If it cannot be read, or is no regular file.
pub(super) fn text_of(path: &Path) -> Result<Option<Vec<u8>>, DatasetError> {
    let mut text = Vec::new();
    match regular(path).and_then(|mut file| file.read_to_end(&mut text)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(|_| Some(text)).map_err(DatasetError::at("read", path)),
    }
}

/// Opens a file to be read, and refuses a pipe instead of waiting for who writes it.
///
/// # Errors
/// If it cannot be opened, or is no regular file.
pub(super) fn regular(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}
