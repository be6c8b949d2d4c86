//! Reading a log, front to back.

use crate::batch;
use crate::block::{
    self, BlockKind, DATA_START, DataBody, Header, INDEX_TAIL, MAGIC, MAX_BLOCK, MAX_HEADER, MarkerBody,
    NO_DATA, SchemaBody,
};
use crate::error::{DecodeError, Error, Flaw};
use crate::received;
use crate::record::Record;
use crate::records::{RecordInfo, Records};
use crate::source::{Source, Window};
use crate::unbatch::Unbatch;
use crate::value::Value;
use std::ops::Range;

/// How much is read at once when reading on.
const AHEAD: usize = 256 << 10;

/// Reads a log. Its memory is bounded: one window of the file, one sample or the samples compressed together with it, and
/// the schemas.
///
/// ```
/// use khz_tlog::{Options, Reader, Type, Value, Writer};
///
/// let mut writer = Writer::new(Vec::new(), Options::default())?;
/// let battery = writer.record("battery", &Type::object([("volts", Type::Float32)]))?;
/// writer.write(battery, Some(1_583_798_400_000_000), &24.5f32.to_le_bytes())?;
///
/// let mut reader = Reader::open(writer.finish()?)?;
/// while let Some(item) = reader.next()? {
///     assert_eq!(item.record.name(), "battery");
///     assert_eq!(item.value()?.at("volts"), Some(Value::Float32(24.5)));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reader<S> {
    pub(crate) window: Window<S>,
    pub(crate) records: Records,
    pub(crate) next: u64,
    /// The block last looked at.
    block: u64,
    /// The schema block last learned: where it begins and ends.
    schema: Range<u64>,
    /// The schema block just before the block last looked at. It has no checksum, so its end may be wrong.
    pub(crate) unproven: Option<u64>,
    /// Where the index begins, if there is one; else nothing is known about the end.
    pub(crate) index: Option<u64>,
    /// How much is read at once.
    ahead: usize,
    /// Bytes of the sample last asked for by its place.
    guess: usize,
    payload: Vec<u8>,
    snappy: snap::raw::Decoder,
    pub(crate) batch: Unbatch,
}

/// One sample, in the reader's memory.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The record it belongs to.
    pub record: &'a RecordInfo,
    /// Where its block lies; samples compressed together share one.
    pub position: u64,
    /// Bytes of its block; 0 for all but the first of those that share one.
    pub block_len: u64,
    /// µs since the Unix epoch.
    pub time_us: Option<i64>,
    /// How far back the record's previous block lies; 0 for the first.
    pub previous: Option<u64>,
    /// The encoded value.
    pub payload: &'a [u8],
    pub(crate) stored: &'a [u8],
    pub(crate) compressed: bool,
    /// Whether the block had a checksum, which was right.
    pub(crate) checked: bool,
}

impl<'a> Item<'a> {
    /// The value, read in place.
    ///
    /// # Errors
    /// When the payload does not fit the schema.
    pub fn value(&self) -> Result<Value<'a>, Error> {
        Value::read(self.record.ty(), self.payload).map_err(|source| self.wrong(source))
    }

    /// The value as a Rust type. Ask [`RecordInfo::holds`] once whether that is the record's type.
    ///
    /// # Errors
    /// When the payload does not fit the type.
    pub fn decode<T: Record>(&self) -> Result<T, Error> {
        T::decode(&mut crate::Input::new(self.payload)).map_err(|source| self.wrong(source))
    }

    pub(crate) fn wrong(&self, source: DecodeError) -> Error {
        Error::Payload { offset: self.position, record: self.record.name().to_owned(), source }
    }
}

/// A block's place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockAt {
    pub position: u64,
    pub header: Header,
}

impl<S: Source> Reader<S> {
    /// Opens a log: checks its header and reads its index, if it has one.
    ///
    /// # Errors
    /// When it is no log, has unknown flags or cannot be read. A log that merely lacks its index is fine.
    pub fn open(source: S) -> Result<Self, Error> {
        let mut window = Window::new(source)?;
        check_head(&mut window)?;
        let mut reader = Self::over(window);
        reader.read_index()?;
        Ok(reader)
    }

    /// As [`open`](Self::open), but a log whose first bytes are damaged is opened too, at its first sound block. The damage
    /// is returned beside it.
    ///
    /// # Errors
    /// When it holds no sound block or cannot be read.
    pub(crate) fn open_damaged(source: S) -> Result<(Self, Option<Error>), Error> {
        let mut window = Window::new(source)?;
        let Err(error) = check_head(&mut window) else {
            let mut reader = Self::over(window);
            reader.read_index()?;
            return Ok((reader, None));
        };
        let mut reader = Self::over(window);
        if matches!(error, Error::Io { .. }) || !reader.skip_head()? {
            return Err(error);
        }
        let first = reader.next;
        reader.read_index()?;
        reader.go_to(first, None);
        Ok((reader, Some(Error::Head { first })))
    }

    fn over(window: Window<S>) -> Self {
        Self {
            window,
            records: Records::default(),
            next: DATA_START,
            block: DATA_START,
            schema: 0..0,
            unproven: None,
            index: None,
            ahead: AHEAD,
            guess: 256,
            payload: Vec::new(),
            snappy: snap::raw::Decoder::new(),
            batch: Unbatch::default(),
        }
    }

    /// The next sample; `None` at the end.
    ///
    /// # Errors
    /// When the next block is damaged. If [the damage is contained](Error::is_contained), calling again goes on
    /// behind it; otherwise it gives the same error again until [`resync`](Self::resync) finds sound blocks.
    #[expect(
        clippy::should_implement_trait,
        reason = "samples borrow the reader, which an iterator cannot express"
    )]
    pub fn next(&mut self) -> Result<Option<Item<'_>>, Error> {
        match self.find()? {
            Some(found) => self.give(found, true).map(Some),
            None => Ok(None),
        }
    }

    /// As [`next`](Self::next), but payloads compressed by snappy stay so: for copying, counting, or looking at times.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_stored(&mut self) -> Result<Option<Item<'_>>, Error> {
        match self.find()? {
            Some(found) => self.give(found, false).map(Some),
            None => Ok(None),
        }
    }

    /// As [`next`](Self::next) in a log that is still being written: looks whether it has grown, and a block not yet
    /// whole is no error, but `None` for now.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_if_grown(&mut self) -> Result<Option<Item<'_>>, Error> {
        self.window.refresh()?;
        let found = match self.find() {
            Err(Error::Truncated { .. }) => Ok(None),
            other => other,
        };
        match found? {
            Some(found) => self.give(found, true).map(Some),
            None => Ok(None),
        }
    }

    /// The sample whose block lies at `position`, taken from an index, a marker or a link. Only this block is
    /// read, in one piece if it is as long as the one asked for before.
    ///
    /// # Errors
    /// When no sound data block of a known record lies there, or one of [many samples](RecordInfo::is_zstd).
    pub fn sample_at(&mut self, position: u64) -> Result<Item<'_>, Error> {
        self.load_as(position, true)
    }

    /// As [`sample_at`](Self::sample_at), but a compressed payload stays compressed.
    ///
    /// # Errors
    /// As [`sample_at`](Self::sample_at).
    pub fn stored_at(&mut self, position: u64) -> Result<Item<'_>, Error> {
        self.load_as(position, false)
    }

    /// Goes back to the first block.
    pub fn rewind(&mut self) {
        self.go_to(DATA_START, None);
    }

    /// Whether, after a sample of `seen_us`, none follows that is as early as `time_us`. Mostly samples lie in the order
    /// of their times; those compressed together come up to a second late, [received] ones up to a minute.
    pub fn is_past(&self, time_us: i64, seen_us: i64) -> bool {
        let is_received = received::MARKS.iter().all(|name| self.record(name).is_ok());
        let received = if is_received { received::AHEAD_US + received::BEHIND_US } else { 0 };
        let batched = if self.records.has_batches() { 2 * batch::MAX_SPAN_US } else { 0 };
        seen_us > time_us.saturating_add(received + batched)
    }

    /// Goes on with the block at `position`, and of samples compressed together only with those later than `after_us`.
    pub(crate) fn go_to(&mut self, position: u64, after_us: Option<i64>) {
        self.next = position;
        self.schema = 0..0;
        self.batch.close();
        self.batch.after_us = after_us;
    }

    /// From here on gives only samples of the named records; the others are stepped over unread.
    pub fn select<N: Into<String>>(&mut self, names: impl IntoIterator<Item = N>) {
        self.records.select(names.into_iter().map(Into::into).collect());
        if self.batch.identifier().is_some_and(|identifier| !self.records.is_selected(identifier)) {
            self.batch.close();
        }
    }

    /// Learns all records of a log without an index, by stepping through it once; then goes back to where it was.
    /// With an index it does nothing.
    ///
    /// # Errors
    /// When the log cannot be read. Damage is no error: it is skipped.
    pub fn survey(&mut self) -> Result<(), Error> {
        if self.index.is_some() {
            return Ok(());
        }
        let (start, batch) = (self.next, std::mem::take(&mut self.batch));
        let surveyed = self.survey_rest();
        (self.next, self.batch) = (start, batch);
        surveyed
    }

    /// The records known so far: all of them with an index or after a [`survey`](Self::survey).
    pub fn records(&self) -> &[RecordInfo] {
        self.records.all()
    }

    /// The record of this name.
    ///
    /// # Errors
    /// When it is not among the records known so far.
    pub fn record(&self, name: &str) -> Result<&RecordInfo, Error> {
        self.records.named(name)
    }

    /// Gives the source back.
    pub fn into_source(self) -> S {
        self.window.into_source()
    }

    /// Whether the log ends in an index, that is, was finished.
    pub fn is_finished(&self) -> bool {
        self.index.is_some()
    }

    /// Bytes of the log.
    pub fn size(&self) -> u64 {
        self.window.size()
    }

    /// Where the next block lies.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Where the block lies that [`next`](Self::next) looked at last: the damaged one, after an error.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// Steps to the next data block of a selected record and past it, learning schemas on the way.
    pub(crate) fn advance(&mut self) -> Result<Option<BlockAt>, Error> {
        loop {
            match self.advance_any()? {
                Some(place) if !self.is_wanted(place)? => {}
                other => return Ok(other),
            }
        }
    }

    /// Steps to the next data block of any record and past it.
    pub(crate) fn advance_any(&mut self) -> Result<Option<BlockAt>, Error> {
        while self.next < self.window.size() {
            let position = self.next;
            self.block = position;
            self.unproven = Some(self.schema.start).filter(|_| self.schema.end == position);
            let header = self.header_at(position)?;
            self.next = position + header.whole();
            let place = BlockAt { position, header };
            match header.kind {
                BlockKind::Schema => self.learn(place)?,
                BlockKind::Data => return Ok(Some(place)),
                BlockKind::Marker => self.check_marker(place)?,
                BlockKind::Index => self.check_index(place)?,
            }
        }
        Ok(None)
    }

    fn survey_rest(&mut self) -> Result<(), Error> {
        loop {
            match self.advance_any() {
                Ok(Some(place)) => self.note_last(place)?,
                Ok(None) => return Ok(()),
                Err(error) => drop(self.step_over(error)?),
            }
        }
    }

    pub(crate) fn header_at(&mut self, position: u64) -> Result<Header, Error> {
        let left = self.window.size().saturating_sub(position);
        Header::read(self.window.at(position, MAX_HEADER, self.ahead)?, position, left)
    }

    fn load_as(&mut self, position: u64, decompress: bool) -> Result<Item<'_>, Error> {
        let place = self.load(position)?;
        match self.is_batch(place)? {
            true => Err(Error::Batch { offset: position }),
            false => self.item(place, decompress),
        }
    }

    /// Has the block at `position` in the window, and little else.
    fn load(&mut self, position: u64) -> Result<BlockAt, Error> {
        self.ahead = self.guess;
        let header = self.header_at(position);
        self.ahead = AHEAD;
        let header = header?;
        self.guess = header.whole().max(MAX_HEADER as u64) as usize;
        self.window.at(position, self.guess, self.guess)?;
        Ok(BlockAt { position, header })
    }

    pub(crate) fn item(&mut self, place: BlockAt, decompress: bool) -> Result<Item<'_>, Error> {
        let BlockAt { position: offset, header } = place;
        let block = self.window.at(offset, header.whole() as usize, AHEAD)?;
        let left = block.len() as u64;
        if left < header.whole() {
            return Err(Error::Truncated { offset, needed: header.whole(), left });
        }
        let body = match header.kind {
            BlockKind::Data => DataBody::read(&block[header.len..]),
            _ => Err(DecodeError { at: 0, flaw: Flaw::Value("data block") }),
        };
        let body = body.map_err(|source| Error::Block { offset, what: "data", source })?;
        if let Some((stored, at)) = body.checksum {
            let computed = block::checksum(block, header.len + at);
            if stored != computed {
                return Err(Error::Checksum { offset, stored, computed });
            }
        }
        let identifier = body.identifier;
        let record = self.records.get(identifier).ok_or(Error::UnknownRecord { offset, identifier })?;
        let compressed = body.flags & block::flags::SNAPPY != 0;
        let payload = match compressed && decompress {
            true => unsnap(&mut self.snappy, body.payload, &mut self.payload, offset)?,
            false => body.payload,
        };
        Ok(Item {
            record,
            position: offset,
            block_len: header.whole(),
            time_us: body.time_us,
            previous: body.previous,
            payload,
            stored: body.payload,
            compressed,
            checked: body.checksum.is_some(),
        })
    }

    fn is_wanted(&mut self, place: BlockAt) -> Result<bool, Error> {
        if !self.records.is_choosy() {
            return Ok(true);
        }
        Ok(self.identifier(place)?.is_some_and(|identifier| self.records.is_selected(identifier)))
    }

    fn note_last(&mut self, place: BlockAt) -> Result<(), Error> {
        if let Some(identifier) = self.identifier(place)? {
            self.records.note_last(identifier, place.position);
        }
        Ok(())
    }

    /// Whose data the block at `place` holds, if that can be read.
    pub(crate) fn identifier(&mut self, BlockAt { position, header }: BlockAt) -> Result<Option<u64>, Error> {
        let head = self.window.at(position, header.len + MAX_HEADER, AHEAD)?;
        Ok(crate::Input::new(head.get(header.len..).unwrap_or_default()).varuint().ok())
    }

    fn learn(&mut self, place: BlockAt) -> Result<(), Error> {
        self.learn_as(place, None)?;
        self.schema = place.position..place.position + place.header.whole();
        Ok(())
    }

    /// Takes in the schema block at `place`; with an identifier, that one is believed.
    fn learn_as(&mut self, place: BlockAt, identifier: Option<u64>) -> Result<(), Error> {
        let offset = place.position;
        let block = self.window.at(offset, place.header.whole() as usize, AHEAD)?;
        let body = SchemaBody::read(block.get(place.header.len..).unwrap_or_default());
        let body = body.map_err(|source| Error::Block { offset, what: "schema", source })?;
        self.records.learn(offset, SchemaBody { identifier: identifier.unwrap_or(body.identifier), ..body })
    }

    /// A marker with unknown flags is sound, and of no use.
    fn check_marker(&mut self, BlockAt { position: offset, header }: BlockAt) -> Result<(), Error> {
        let block = self.window.at(offset, header.whole() as usize, AHEAD)?;
        match MarkerBody::read(block, header.len) {
            Err(source) if !matches!(source.flaw, Flaw::Flags { .. }) => {
                Err(Error::Block { offset, what: "seek marker", source })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check_index(&mut self, BlockAt { position: offset, header }: BlockAt) -> Result<(), Error> {
        let tail = header.whole().saturating_sub(INDEX_TAIL);
        let tail = self.window.at(offset + tail, INDEX_TAIL as usize, AHEAD)?;
        match block::index_len(tail) {
            Some(len) if len == header.whole() => Ok(()),
            _ => {
                let source = DecodeError { at: 0, flaw: Flaw::Unsound("index") };
                Err(Error::Block { offset, what: "index", source })
            }
        }
    }

    /// Takes over an index if the log ends in a sound one; anything else there means there is none. A record whose
    /// schema is damaged is left out or doubtful, and costs no other record.
    fn read_index(&mut self) -> Result<(), Error> {
        let size = self.window.size();
        let tail = self.window.at(size.saturating_sub(INDEX_TAIL), INDEX_TAIL as usize, 0)?;
        let Some(length) = block::index_len(tail) else { return Ok(()) };
        if length > size - DATA_START || length > MAX_BLOCK {
            return Ok(());
        }
        let offset = size - length;
        let block = self.window.at(offset, length as usize, 0)?;
        let Ok(header) = Header::read(block, offset, length) else { return Ok(()) };
        if header.kind != BlockKind::Index || header.whole() != length {
            return Ok(());
        }
        let Ok(entries) = block::read_index(&block[header.len..]) else { return Ok(()) };
        for entry in &entries {
            match self.header_at(entry.schema) {
                Ok(header) if header.kind == BlockKind::Schema => {
                    match self.learn_as(BlockAt { position: entry.schema, header }, Some(entry.identifier)) {
                        // Reported when it is read.
                        Err(error) if error.is_contained() => {}
                        other => other?,
                    }
                }
                Err(error @ Error::Io { .. }) => return Err(error),
                // A byte more or less has moved all that lies behind it.
                _ => {
                    self.records = Records::default();
                    return Ok(());
                }
            }
        }
        entries
            .iter()
            .filter(|e| e.last != NO_DATA)
            .for_each(|e| self.records.note_last(e.identifier, e.last));
        self.index = Some(offset);
        Ok(())
    }
}

/// Checks that the window begins like a log.
fn check_head<S: Source>(window: &mut Window<S>) -> Result<(), Error> {
    let head = window.at(0, DATA_START as usize, AHEAD.min(16 << 10))?;
    match head.split_at_checked(MAGIC.len()) {
        Some((magic, [0])) if magic == MAGIC => Ok(()),
        Some((magic, [flags])) if magic == MAGIC => Err(Error::HeaderFlags { flags: u64::from(*flags) }),
        Some((magic, [])) if magic == MAGIC => Err(Error::Truncated { offset: 8, needed: 1, left: 0 }),
        _ => Err(Error::NotALog),
    }
}

/// Decompresses into `room`, refusing to make more of it than any block may hold.
fn unsnap<'a>(
    decoder: &mut snap::raw::Decoder,
    stored: &[u8],
    room: &'a mut Vec<u8>,
    offset: u64,
) -> Result<&'a [u8], Error> {
    let wrong = |source| Error::Compression { offset, source };
    let len = snap::raw::decompress_len(stored).map_err(wrong)?;
    // A snappy copy makes at most 64 bytes of 3, so a longer claim is false whatever follows.
    let most = (stored.len() as u64 * 64 / 2).min(MAX_BLOCK);
    if len as u64 > most {
        return Err(Error::TooLarge { offset, what: "decompressed payload", size: len as u64, limit: most });
    }
    if room.len() < len {
        room.resize(len, 0);
    }
    let len = decoder.decompress(stored, room).map_err(wrong)?;
    Ok(&room[..len])
}
