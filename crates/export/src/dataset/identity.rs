//! Which log it is, by its content, and whether it is a later state of one that is known.
//!
//! What counts are the samples, not the bytes they lie in: a repaired log has other blocks than the one that was cut off.

use super::error::DatasetError;
use super::manifest::regular;
use super::upto::Upto;
use crate::scan::{Selection, scan};
use khz_tlog::{Error, Item, Reader};
use serde::{Deserialize, Serialize};
use sha1_smol::Sha1;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

const PIECE: usize = 256 << 10;
/// Bytes of a digest that is kept for a sample.
const SHORT: usize = 4;
/// Digests that are compared: those of so many last samples that both have.
const COMPARED: u64 = 64;

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Samples {
    /// How many samples.
    pub count: u64,
    /// Of all of them.
    pub sha1: String,
}

/// For each sample of a log, the first bytes of the digest of it and all before: states of one log agree in them as far as
/// both go, wherever one of them ends.
pub(super) struct Digests(File);

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
        // Damage is reported when the tables are written.
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
    /// Reads all samples. The digests are in a file without a name in `folder`: they are 4 bytes for each sample.
    pub fn of(log: &Upto<'_>, folder: &Path) -> Result<(Self, Digests), DatasetError> {
        let digests = tempfile::tempfile_in(folder).map_err(DatasetError::at("write in", folder))?;
        let mut digests = BufWriter::new(digests);
        let (mut whole, mut count) = (Sha1::new(), 0);
        let each = |item: &Item<'_>| {
            add(&mut whole, item);
            count += 1;
            digests.write_all(&whole.digest().bytes()[..SHORT])?;
            Ok(true)
        };
        scan(&mut Reader::open(*log)?, &Selection::default(), |_| {}, each)?;
        let digests = digests.into_inner().map_err(|error| error.into_error());
        let digests = digests.map_err(DatasetError::at("write in", folder))?;
        Ok((Self { count, sha1: whole.digest().to_string() }, Digests(digests)))
    }

    /// What these are to those that are known, whose digests are in the file `of_known`. Two states of one log agree as far
    /// as both go.
    ///
    /// # Errors
    /// If digests cannot be read, or there are too few.
    pub fn relation(&self, own: &Digests, known: &Self, of_known: &Path) -> Result<Relation, DatasetError> {
        if self.count == known.count {
            return Ok(if self.sha1 == known.sha1 { Relation::Older } else { Relation::Other });
        }
        let both = self.count.min(known.count);
        let short = |why: std::io::Error| DatasetError::Manifest {
            path: of_known.to_owned(),
            why: format!(
                "the digests of the log's samples are missing there ({why}); to add the log again, remove it"
            ),
        };
        let theirs = Digests(regular(of_known).map_err(short)?);
        let (own, theirs) = (own.before(both).map_err(short)?, theirs.before(both).map_err(short)?);
        Ok(match own == theirs {
            false => Relation::Other,
            true if self.count > known.count => Relation::Grown,
            true => Relation::Older,
        })
    }
}

impl Digests {
    /// Those of the last of the first `count` samples.
    fn before(&self, count: u64) -> std::io::Result<Vec<u8>> {
        let from = count.saturating_sub(COMPARED);
        let mut bytes = vec![0; (count - from) as usize * SHORT];
        self.0.read_exact_at(&mut bytes, from * SHORT as u64)?;
        Ok(bytes)
    }

    /// All of them, from the first on.
    pub fn reader(&self) -> std::io::Result<impl Read + '_> {
        let mut file = &self.0;
        file.rewind()?;
        Ok(file)
    }
}

fn add(digest: &mut Sha1, item: &Item<'_>) {
    let name = item.record.name().as_bytes();
    for part in [name, &item.time_us.unwrap_or(i64::MIN).to_le_bytes(), item.payload] {
        digest.update(&(part.len() as u64).to_le_bytes());
        digest.update(part);
    }
}
