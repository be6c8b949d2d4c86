//! Which log it is, by its content, and whether it is a later state of one that is known.
//!
//! What counts are the samples, not the bytes they lie in: a repaired log has other blocks than the one that was cut off.

use super::error::DatasetError;
use super::upto::Upto;
use crate::scan::{Selection, scan};
use khz_tlog::{Error, Item, Reader};
use serde::{Deserialize, Serialize};
use sha1_smol::Sha1;
use std::os::unix::fs::FileExt;

const PIECE: usize = 256 << 10;

/// How a log begins, which stays as it is while the log grows.
pub(super) struct Begin {
    /// A digest of its first sample that has a time, or of its first if none has.
    pub id: String,
    /// The time of that sample.
    pub time_us: Option<i64>,
}

/// The file that a state of a log was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    /// The name of the file, for people.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Of the whole file.
    pub sha1: String,
}

/// What a state of a log holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Samples {
    /// How many samples.
    pub count: u64,
    /// Of the first sample, of the first two, of the first four, and so on.
    pub digests: Vec<String>,
}

/// How a state of a log compares with one that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// It goes on where the known one ends.
    Grown,
    /// It holds nothing more than the known one.
    Older,
    /// Another log that begins alike.
    Other,
}

impl Begin {
    /// Reads up to the first sample that has a time.
    pub fn of(log: &Upto<'_>) -> Result<Self, DatasetError> {
        let (mut id, mut time_us) = (None, None);
        let to_first = |item: &Item<'_>| {
            if item.time_us.is_some() || id.is_none() {
                let mut digest = Sha1::new();
                add(&mut digest, item);
                // 80 bits: two of a million logs are alike once in a trillion datasets.
                id = Some(digest.digest().to_string()[..20].to_owned());
            }
            time_us = item.time_us;
            Ok(time_us.is_none())
        };
        // Damage is reported by whoever writes the tables.
        scan(&mut Reader::open(*log)?, &Selection::default(), |_| {}, to_first)?;
        id.map(|id| Self { id, time_us }).ok_or(DatasetError::Empty)
    }
}

impl Identity {
    /// Reads the whole file.
    ///
    /// # Errors
    /// If it cannot be read, or is shorter by now.
    pub fn of(log: &Upto<'_>, name: &str) -> Result<Self, DatasetError> {
        let (mut whole, mut piece, mut at) = (Sha1::new(), vec![0; PIECE], 0);
        while at < log.bytes {
            let len = usize::try_from(log.bytes - at).unwrap_or(PIECE).min(PIECE);
            let read = log.file.read_exact_at(&mut piece[..len], at);
            read.map_err(|source| Error::Io { offset: at, source })?;
            whole.update(&piece[..len]);
            at += len as u64;
        }
        Ok(Self { name: name.to_owned(), bytes: log.bytes, sha1: whole.digest().to_string() })
    }

    /// Whether these are the same bytes, whatever the files are called.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.bytes, &self.sha1) == (other.bytes, &other.sha1)
    }
}

impl Samples {
    /// Reads all samples.
    pub fn of(log: &Upto<'_>) -> Result<Self, DatasetError> {
        let (mut whole, mut all) = (Sha1::new(), Self::default());
        let each = |item: &Item<'_>| {
            add(&mut whole, item);
            all.count += 1;
            if all.count.is_power_of_two() {
                all.digests.push(whole.digest().to_string());
            }
            Ok(true)
        };
        scan(&mut Reader::open(*log)?, &Selection::default(), |_| {}, each)?;
        Ok(all)
    }

    /// What these are to those that are known. Two states of one log agree as far as both go; that is checked of at least
    /// half of the shorter one.
    pub fn relation(&self, known: &Self) -> Relation {
        match self.digests.iter().zip(&known.digests).any(|(one, other)| one != other) {
            true => Relation::Other,
            false if self.count > known.count => Relation::Grown,
            false => Relation::Older,
        }
    }
}

fn add(digest: &mut Sha1, item: &Item<'_>) {
    let name = item.record.name().as_bytes();
    for part in [name, &item.time_us.unwrap_or(i64::MIN).to_le_bytes(), item.payload] {
        digest.update(&(part.len() as u64).to_le_bytes());
        digest.update(part);
    }
}
