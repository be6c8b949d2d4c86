//! Finding a place in a log behind damage.

use crate::block::{self, BlockKind, DATA_START, DataBody, Header, MAX_HEADER, MarkerBody, SchemaBody};
use crate::error::Error;
use crate::reader::{BlockAt, Reader};
use crate::schema::Type;
use crate::seek::{Marker, PROBE};
use crate::source::Source;

/// Larger samples are not tried when looking for sound ones: damage can look like the beginning of anything.
const MAX_RESYNC: u64 = 1 << 20;
/// So many blocks one behind another are no accident, without any checksum.
const CHAIN: usize = 8;

/// What samples have in a chain of blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checks {
    /// A checksum or none.
    Any,
    /// No checksum. Where the others have one, what lacks it is no sample, but a part of one.
    None,
}

impl<S: Source> Reader<S> {
    /// After an error of [`next`](Self::next): goes on behind the damage, and gives the error back. Where a damaged block
    /// ends is believed only if a sound block begins there; the end of a schema, which has no checksum, is not.
    ///
    /// # Errors
    /// The error itself, when it is no damage but the log cannot be read.
    pub fn step_over(&mut self, error: Error) -> Result<Error, Error> {
        if matches!(error, Error::Io { .. } | Error::Write(_)) {
            return Err(error);
        }
        if !self.goes_on(&error)? {
            let damaged = self.block();
            self.resync_but(self.unproven.unwrap_or(damaged) + 1, Some(damaged))?;
        }
        Ok(error)
    }

    /// Whether reading can go on where the block that gave this error ends.
    fn goes_on(&mut self, error: &Error) -> Result<bool, Error> {
        match error {
            error if !error.is_contained() => Ok(false),
            Error::Block { what: "schema", .. } => Ok(false),
            // The error is one of its samples, not of the block.
            _ if self.batch.identifier().is_some() => Ok(true),
            _ => self.is_chain(self.next, Checks::Any),
        }
    }

    /// After damage: goes to the next place at or behind `from` where a whole block can be proved sound: a seek marker or a
    /// sample of a known record by its checksum; a schema, or a sample without checksum, by fitting its block and by
    /// the blocks behind it. Returns it; `None` when the log has no more.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn resync(&mut self, from: u64) -> Result<Option<u64>, Error> {
        self.resync_but(from.max(DATA_START), None)
    }

    /// In a log whose head is damaged: goes to its first sound block, if it has one. A lost byte of the head has moved it.
    pub(crate) fn skip_head(&mut self) -> Result<bool, Error> {
        Ok(self.resync_but(0, None)?.is_some())
    }

    /// As [`resync`](Self::resync), but the block at `damaged` is not given a second time.
    fn resync_but(&mut self, from: u64, damaged: Option<u64>) -> Result<Option<u64>, Error> {
        let mut position = from;
        while position < self.window.size() {
            let bytes = self.window.at(position, MAX_HEADER, PROBE)?;
            let is_sound = match bytes.first() {
                Some(5) => self.marker_at(position)?.is_some(),
                Some(2) => self.is_sound_sample(position)?,
                Some(1) => self.is_sound_schema(position)?,
                _ => false,
            };
            if is_sound && damaged != Some(position) {
                self.go_to(position, self.batch.after_us);
                return Ok(Some(position));
            }
            position += 1;
        }
        self.go_to(self.window.size(), self.batch.after_us);
        Ok(None)
    }

    /// Whether sound blocks follow one another from `position` on: up to one with a checksum, the end of the log, or so
    /// many that it is no accident.
    fn is_chain(&mut self, mut position: u64, checks: Checks) -> Result<bool, Error> {
        for _ in 0..CHAIN {
            if position == self.window.size() {
                return Ok(true);
            }
            let header = match self.header_at(position) {
                Ok(header) => header,
                Err(error @ Error::Io { .. }) => return Err(error),
                Err(_) => return Ok(false),
            };
            let place = BlockAt { position, header };
            match header.kind {
                BlockKind::Marker => return Ok(self.marker_at(position)?.is_some()),
                BlockKind::Schema if self.is_exact_schema(place)? => {}
                BlockKind::Index if self.check_index(place).is_ok() => {}
                BlockKind::Data => {
                    if let Some(is_right) = self.is_sound_data(place)? {
                        return Ok(is_right && checks == Checks::Any);
                    }
                }
                _ => return Ok(false),
            }
            position += header.whole();
        }
        Ok(true)
    }

    /// Whether a schema lies at `position` that takes exactly its block, with sound blocks behind it.
    fn is_sound_schema(&mut self, position: u64) -> Result<bool, Error> {
        let Some(header) = self.sound_header(position, BlockKind::Schema)? else { return Ok(false) };
        let place = BlockAt { position, header };
        Ok(header.size <= MAX_RESYNC
            && self.is_exact_schema(place)?
            && self.is_chain(position + header.whole(), Checks::Any)?)
    }

    fn is_exact_schema(&mut self, BlockAt { position, header }: BlockAt) -> Result<bool, Error> {
        // Most of what only looks like a schema is found out before much is read.
        let head = self.window.at(position, header.len + MAX_HEADER, PROBE)?;
        if !SchemaBody::can_begin(head.get(header.len..).unwrap_or_default(), header.size) {
            return Ok(false);
        }
        let block = self.window.at(position, header.whole() as usize, PROBE)?;
        let body = SchemaBody::read(block.get(header.len..).unwrap_or_default());
        Ok(body.is_ok_and(|body| body.unknown_flags.is_none() && Type::decode(body.schema).is_ok()))
    }

    /// Whether the checksum of the data block at `place` is right; `None` if it has none.
    fn is_sound_data(&mut self, BlockAt { position, header }: BlockAt) -> Result<Option<bool>, Error> {
        let block = self.window.at(position, header.whole() as usize, PROBE)?;
        Ok(match DataBody::read(block.get(header.len..).unwrap_or_default()) {
            Ok(DataBody { checksum: Some((stored, at)), .. }) => {
                Some(block::checksum(block, header.len + at) == stored)
            }
            Ok(_) => None,
            Err(_) => Some(false),
        })
    }

    /// The marker at `position`, if a sound one lies there.
    pub(crate) fn marker_at(&mut self, position: u64) -> Result<Option<Marker>, Error> {
        let Some(header) = self.sound_header(position, BlockKind::Marker)? else { return Ok(None) };
        let block = self.window.at(position, header.whole() as usize, PROBE)?;
        Ok(MarkerBody::read(block, header.len).ok().map(|body| Marker { position, body }))
    }

    fn is_sound_sample(&mut self, position: u64) -> Result<bool, Error> {
        let Some(header) = self.sound_header(position, BlockKind::Data)? else { return Ok(false) };
        if header.size > MAX_RESYNC {
            return Ok(false);
        }
        let place = BlockAt { position, header };
        match self.item(place, true) {
            Ok(item) if item.checked => Ok(true),
            // A batch is compressed: its bytes cannot be checked against the schema.
            Ok(item) if !item.record.is_zstd() && item.value().is_err() => Ok(false),
            Ok(_) => self.is_chain(position + header.whole(), Checks::None),
            Err(error @ Error::Io { .. }) => Err(error),
            Err(_) => Ok(false),
        }
    }

    fn sound_header(&mut self, position: u64, kind: BlockKind) -> Result<Option<Header>, Error> {
        match self.header_at(position) {
            Ok(header) if header.kind == kind => Ok(Some(header)),
            Err(error @ Error::Io { .. }) => Err(error),
            _ => Ok(None),
        }
    }
}
