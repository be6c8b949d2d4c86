//! One record of a log, found over the links from each of its samples to the one before.

use crate::block::{BlockKind, DataBody, Header, MAX_HEADER};
use crate::error::{DecodeError, Error, Flaw};
use crate::reader::Reader;
use crate::source::Source;

/// Block header, identifier, flags and link: what must be read of a sample to follow its link.
const HEAD: u64 = MAX_HEADER as u64 + 30 + 12;
/// Samples closer together than this are read many at once.
const CLOSE: u64 = 4 << 10;
/// How much is read at once then.
const CHUNK: u64 = 64 << 10;
/// How many places are kept in memory at most.
const MAX_PLACES: usize = 16 << 20;

impl<S: Source> Reader<S> {
    /// The places of a record's samples, oldest first, for [`sample_at`](Self::sample_at): found backwards over the
    /// links, reading the heads of its blocks and nothing of the other records.
    ///
    /// Where a writer wrote the record's schema anew it began a new chain, so this is the part behind that.
    ///
    /// `None` when the links do not lead through the whole record, when its samples lie many in a block, or when there
    /// are too many to keep their places in memory: then read on from the start, with [`select`](Self::select).
    ///
    /// # Errors
    /// When the log has no such record, cannot be read, or a link leads to something else.
    pub fn places(&mut self, name: &str) -> Result<Option<Vec<u64>>, Error> {
        self.survey()?;
        let record = self.record(name)?;
        if record.is_zstd() {
            return Ok(None);
        }
        let (identifier, mut next) = (record.identifier(), record.last());
        let mut places = Vec::new();
        let mut gap = CLOSE;
        while let Some(position) = next {
            places.push(position);
            match self.link_at(position, gap, identifier)? {
                None => return Ok(None),
                Some(0) => break,
                Some(back) => (gap, next) = (back, position.checked_sub(back)),
            }
            if places.len() > MAX_PLACES {
                return Ok(None);
            }
        }
        places.reverse();
        Ok(Some(places))
    }

    /// How far back the sample before the one at `position` lies.
    fn link_at(&mut self, position: u64, gap: u64, identifier: u64) -> Result<Option<u64>, Error> {
        if gap < CLOSE && !self.window.holds(position, HEAD as usize) {
            let start = position.saturating_sub(CHUNK);
            self.window.at(start, (position - start + HEAD) as usize, 0)?;
        }
        let left = self.size().saturating_sub(position);
        let head = self.window.at(position, HEAD as usize, 0)?;
        let header = Header::read(head, position, left)?;
        let wrong = |source| Error::Block { offset: position, what: "data", source };
        let body = match header.kind {
            // Only the front of the body is there, and only the front is looked at.
            BlockKind::Data => DataBody::read(&head[header.len..]).map_err(wrong)?,
            _ => return Err(wrong(DecodeError { at: 0, flaw: Flaw::Value("data block") })),
        };
        match body.identifier == identifier {
            true => Ok(body.previous),
            false => {
                Err(wrong(DecodeError { at: 0, flaw: Flaw::Value("sample of the record linked to it") }))
            }
        }
    }
}
