//! Giving the samples of a [batch](crate::batch) one by one, as if each had a block of its own.

use crate::batch::{self, Cursor};
use crate::block::MAX_BLOCK;
use crate::error::Error;
use crate::reader::{BlockAt, Item, Reader};
use crate::records::RecordInfo;
use crate::source::Source;
use std::ops::Range;

/// The batch being read.
#[derive(Default)]
pub(crate) struct Unbatch {
    open: Option<Open>,
    /// Its samples, decompressed.
    bytes: Vec<u8>,
    /// Samples up to this time are stepped over: what was sought is behind it.
    pub after_us: Option<i64>,
}

#[derive(Clone, Copy)]
pub(crate) struct Open {
    place: BlockAt,
    cursor: Cursor,
    /// None of its samples has been given yet.
    fresh: bool,
    identifier: u64,
    previous: Option<u64>,
    checked: bool,
}

/// Where the next sample lies.
pub(crate) enum Found {
    /// In a block of its own.
    Block(BlockAt),
    /// In the batch being read.
    Batched { batch: Open, time_us: i64, payload: Range<usize> },
}

impl Unbatch {
    /// Leaves the batch being read.
    pub fn close(&mut self) {
        self.open = None;
    }

    /// Whose batch is being read.
    pub fn identifier(&self) -> Option<u64> {
        self.open.map(|open| open.identifier)
    }

    /// The next sample of the batch being read; `None` behind its last.
    fn next(&mut self) -> Result<Option<Found>, Error> {
        let Some(mut open) = self.open.take() else { return Ok(None) };
        let wrong = |source| Error::Block { offset: open.place.position, what: "data", source };
        while let Some((time_us, payload)) = open.cursor.next(&self.bytes).map_err(wrong)? {
            if self.after_us.is_none_or(|after_us| time_us > after_us) {
                self.open = Some(Open { fresh: false, ..open });
                return Ok(Some(Found::Batched { batch: open, time_us, payload }));
            }
        }
        Ok(None)
    }
}

impl<S: Source> Reader<S> {
    /// Steps to the next sample of a selected record.
    pub(crate) fn find(&mut self) -> Result<Option<Found>, Error> {
        loop {
            if let Some(found) = self.batch.next()? {
                return Ok(Some(found));
            }
            let Some(place) = self.advance()? else { return Ok(None) };
            if !self.is_batch(place)? {
                return Ok(Some(Found::Block(place)));
            }
            let mut bytes = std::mem::take(&mut self.batch.bytes);
            let opened = self.unpack(place, &mut bytes);
            self.batch.bytes = bytes;
            self.batch.open = Some(opened?);
        }
    }

    /// The sample found; `decompress`: also if it is alone in its block and compressed by snappy.
    pub(crate) fn give(&mut self, found: Found, decompress: bool) -> Result<Item<'_>, Error> {
        let (batch, time_us, payload) = match found {
            Found::Block(place) => return self.item(place, decompress),
            Found::Batched { batch, time_us, payload } => (batch, time_us, payload),
        };
        let (offset, identifier) = (batch.place.position, batch.identifier);
        let record = self.records.get(identifier).ok_or(Error::UnknownRecord { offset, identifier })?;
        let payload = &self.batch.bytes[payload];
        Ok(Item {
            record,
            position: offset,
            block_len: if batch.fresh { batch.place.header.whole() } else { 0 },
            time_us: Some(time_us),
            previous: batch.previous,
            payload,
            stored: payload,
            compressed: false,
            checked: batch.checked,
        })
    }

    /// Whether the block at `place` holds many samples.
    pub(crate) fn is_batch(&mut self, place: BlockAt) -> Result<bool, Error> {
        if !self.records.has_batches() {
            return Ok(false);
        }
        let identifier = self.identifier(place)?;
        Ok(identifier.and_then(|identifier| self.records.get(identifier)).is_some_and(RecordInfo::is_zstd))
    }

    /// Decompresses the batch at `place` into `room`.
    fn unpack(&mut self, place: BlockAt, room: &mut Vec<u8>) -> Result<Open, Error> {
        let item = self.item(place, true)?;
        let cursor = batch::unpack(item.payload, room, MAX_BLOCK).and_then(|()| Cursor::new(room));
        Ok(Open {
            place,
            cursor: cursor.map_err(|source| item.wrong(source))?,
            fresh: true,
            identifier: item.record.identifier(),
            previous: item.previous,
            checked: item.checked,
        })
    }
}
