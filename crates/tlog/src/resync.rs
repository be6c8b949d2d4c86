//! Finding a place in a log behind damage.

use crate::block::{DATA_START, Header, Kind, MAX_HEADER, MarkerBody};
use crate::error::Error;
use crate::reader::{Place, Reader};
use crate::seek::{Marker, PROBE};
use crate::source::Source;

/// Larger samples are not tried when looking for sound ones: damage can look like the beginning of anything.
const MAX_RESYNC: u64 = 1 << 20;

impl<S: Source> Reader<S> {
    /// After an error of [`next`](Self::next): goes on behind the damage, and gives the error back.
    ///
    /// # Errors
    /// The error itself, when it is no damage but the log cannot be read.
    pub fn step_over(&mut self, error: Error) -> Result<Error, Error> {
        if matches!(error, Error::Io { .. } | Error::Write(_)) {
            return Err(error);
        }
        if !error.is_contained() {
            self.resync(self.block() + 1)?;
        }
        Ok(error)
    }

    /// After damage: goes to the next place at or behind `from` where a whole block can be proved sound by its
    /// checksum, a seek marker or a sample of a known record. Returns it; `None` when the log has no more.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn resync(&mut self, from: u64) -> Result<Option<u64>, Error> {
        let mut position = from.max(DATA_START);
        while position < self.window.size() {
            let bytes = self.window.at(position, MAX_HEADER, PROBE)?;
            let is_sound = match bytes.first() {
                Some(5) => self.marker_at(position)?.is_some(),
                Some(2) => self.is_sound_sample(position)?,
                _ => false,
            };
            if is_sound {
                self.go_to(position, self.batch.after_us);
                return Ok(Some(position));
            }
            position += 1;
        }
        self.go_to(self.window.size(), self.batch.after_us);
        Ok(None)
    }

    /// The marker at `position`, if a sound one lies there.
    pub(crate) fn marker_at(&mut self, position: u64) -> Result<Option<Marker>, Error> {
        let Some(header) = self.sound_header(position, Kind::Marker)? else { return Ok(None) };
        let block = self.window.at(position, header.whole() as usize, PROBE)?;
        Ok(MarkerBody::read(block, header.len).ok().map(|body| Marker { position, body }))
    }

    fn is_sound_sample(&mut self, position: u64) -> Result<bool, Error> {
        let Some(header) = self.sound_header(position, Kind::Data)? else { return Ok(false) };
        if header.size > MAX_RESYNC {
            return Ok(false);
        }
        match self.item(Place { position, header }, false) {
            Ok(item) => Ok(item.checked),
            Err(error @ Error::Io { .. }) => Err(error),
            Err(_) => Ok(false),
        }
    }

    fn sound_header(&mut self, position: u64, kind: Kind) -> Result<Option<Header>, Error> {
        match self.header_at(position) {
            Ok(header) if header.kind == kind => Ok(Some(header)),
            Err(error @ Error::Io { .. }) => Err(error),
            _ => Ok(None),
        }
    }
}
