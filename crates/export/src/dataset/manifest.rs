//! What is in a dataset: a file of JSON for each log.

use super::error::DatasetError;
use super::identity::{Identity, Samples};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

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
    /// If the file cannot be read, or is no manifest.
    pub fn read(path: &Path) -> Result<Option<Self>, DatasetError> {
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(DatasetError::at("read", path))?,
        };
        let wrong = |why: String| DatasetError::Manifest { path: path.to_owned(), why };
        let manifest: Self = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        if manifest.dataset > VERSION {
            let (theirs, khz) = (manifest.dataset, manifest.khz);
            return Err(wrong(format!("its layout {theirs} is of a newer program, khz {khz}")));
        }
        Ok(Some(manifest))
    }

    /// As a file has it.
    pub fn text(&self) -> Vec<u8> {
        // Texts, numbers and lists can always be written as JSON.
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// The log's files below `folder`: none outside, whatever the manifest says.
    pub fn paths(&self, folder: &Path) -> impl Iterator<Item = PathBuf> {
        let is_below =
            |path: &&Table| Path::new(&path.path).components().all(|c| matches!(c, Component::Normal(_)));
        self.files.iter().filter(is_below).map(|table| folder.join(&table.path))
    }

    /// All its rows.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|table| table.rows).sum()
    }
}
