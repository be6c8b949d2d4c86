//! A whole log from what is left of one.

use crate::error::Error;
use crate::reader::{Item, Reader};
use crate::records::RecordInfo;
use crate::source::Source;
use crate::writer::{Compression, Options, RecordId, Writer};
use std::collections::{HashMap, HashSet};
use std::io::Write;

/// How many damaged places are described; the others are only counted.
const MAX_ERRORS: usize = 100;

/// What a repair found.
#[derive(Debug, Default)]
pub struct Repair {
    /// Samples taken over.
    pub samples: u64,
    /// Damaged places.
    pub damages: u64,
    /// What was wrong at the first hundred of them.
    pub errors: Vec<Error>,
    /// Bytes that were skipped because of damage.
    pub skipped_bytes: u64,
    /// Whether the log ended in a sound index.
    pub was_finished: bool,
}

/// Writes everything sound in a log to a new one, which has an index, links and markers. After damage it goes on with
/// the next block whose checksum is right. A sample is sound if it decompresses and fits its schema, and its checksum, if
/// it has one, is right. Samples are taken over as they are stored, records also without any. A record whose schema
/// changed on the way becomes two, the second with a number behind its name.
///
/// Also the first bytes of the log may be damaged; what follows proves itself.
///
/// `progress` gets the position now and then, at least once for each sample.
///
/// # Errors
/// When `source` holds no block of a log or cannot be read, or when `out` cannot be written.
pub fn repair<S: Source, W: Write>(
    source: S,
    out: W,
    mut progress: impl FnMut(u64),
) -> Result<(Repair, W), Error> {
    let (mut reader, damage) = Reader::open_damaged(source)?;
    let mut report = Repair { was_finished: reader.is_finished(), ..Repair::default() };
    if let Some(error) = damage {
        report.damages = 1;
        report.skipped_bytes = reader.position();
        report.errors.push(error);
    }
    let mut copier = Copier::new(out)?;
    loop {
        let error = match reader.next().and_then(|item| item.map(sound).transpose()) {
            Ok(None) => break,
            Ok(Some(item)) => {
                report.samples += 1;
                progress(item.position);
                copier.copy(&item)?;
                continue;
            }
            Err(error) => error,
        };
        let damaged = reader.block();
        let error = reader.step_over(error)?;
        report.skipped_bytes += reader.position().saturating_sub(damaged);
        report.damages += 1;
        if report.errors.len() < MAX_ERRORS {
            report.errors.push(error);
        }
    }
    reader.records().iter().try_for_each(|record| copier.keep(record))?;
    Ok((report, copier.finish()?))
}

/// The sample, if its value can be read. Without a checksum nothing else shows damage, and a repaired log must be readable.
fn sound(item: Item<'_>) -> Result<Item<'_>, Error> {
    item.value().map(|_| item)
}

/// Writes samples of one log to another, declaring records as they come.
pub struct Copier<W> {
    writer: Writer<W>,
    /// The new records, by the place of the old schema.
    ids: HashMap<u64, RecordId>,
    names: HashSet<String>,
}

impl<W: Write> Copier<W> {
    /// Begins a log in `out`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(out: W) -> Result<Self, Error> {
        let writer = Writer::new(out, Options::default()).map_err(Error::Write)?;
        Ok(Self { writer, ids: HashMap::new(), names: HashSet::new() })
    }

    /// Writes a sample as it is stored; one of a batch goes into a batch.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn copy(&mut self, item: &Item<'_>) -> Result<(), Error> {
        let id = match self.ids.get(&item.record.position()) {
            Some(id) => *id,
            None => self.declare(item.record)?,
        };
        self.writer.copy(id, item).map_err(Error::Write)?;
        Ok(())
    }

    /// Has a record in the new log even if none of its samples was copied.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&mut self, record: &RecordInfo) -> Result<(), Error> {
        match self.ids.contains_key(&record.position()) {
            true => Ok(()),
            false => self.declare(record).map(drop),
        }
    }

    /// Ends the log.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> Result<W, Error> {
        self.writer.finish().map_err(Error::Write)
    }

    fn declare(&mut self, record: &RecordInfo) -> Result<RecordId, Error> {
        let mut name = record.name().to_owned();
        let mut number = 2;
        while !self.names.insert(name.clone()) {
            name = format!("{}_{number}", record.name());
            number += 1;
        }
        let how = if record.is_zstd() { Compression::Zstd } else { Compression::None };
        let id = self.writer.record_with(&name, record.schema(), how).map_err(Error::Write)?;
        self.ids.insert(record.position(), id);
        Ok(id)
    }
}
