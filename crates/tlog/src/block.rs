//! The blocks a log is made of, apart from where they lie.

use crate::code::{Input, Sink, Slice};
use crate::error::{DecodeError, Error, Flaw};

/// How a log begins; the ninth byte are the header flags, of which none is defined.
pub const MAGIC: &[u8; 8] = b"TLOG0003";
/// Where the first block lies.
pub const DATA_START: u64 = 9;
/// How an index ends.
pub const INDEX_TRAILER: &[u8; 8] = b"TLOGIDEX";
/// How a seek marker's body begins.
pub const MARKER: [u8; 8] = 0xfdca_b9a8_9786_7564_u64.to_le_bytes();
/// The final position of a record without data, in an index.
pub const NO_DATA: u64 = u64::MAX;
/// The largest block that is read or written.
pub const MAX_BLOCK: u64 = 64 << 20;
/// The longest block header: two integers of ten bytes.
pub(crate) const MAX_HEADER: usize = 20;

/// The longest front of a data block's body: three integers, time and checksum.
pub(crate) const MAX_DATA_HEAD: usize = 3 * 10 + 8 + 4;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// What a record's bytes mean.
    Schema = 1,
    /// One sample of a record.
    Data = 2,
    /// Where each record's schema and last sample lie; the end of a finished log.
    Index = 3,
    /// A place that can be found from the middle of the file.
    Marker = 5,
}

/// The flags of a data block.
pub mod flags {
    /// Has the distance back to the record's previous sample.
    pub const PREVIOUS: u64 = 0x01;
    /// Has a time.
    pub const TIMESTAMP: u64 = 0x02;
    /// Has a checksum.
    pub const CHECKSUM: u64 = 0x04;
    /// The payload is one raw snappy block.
    pub const SNAPPY: u64 = 0x10;
    /// All that are defined.
    pub const KNOWN: u64 = PREVIOUS | TIMESTAMP | CHECKSUM | SNAPPY;
}

/// The type and size at the front of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub kind: BlockKind,
    /// Bytes of the header itself.
    pub len: usize,
    /// Bytes of the body.
    pub size: u64,
}

impl Header {
    /// Reads the header of the block at `offset`; `left` bytes of the file remain from there.
    pub fn read(bytes: &[u8], offset: u64, left: u64) -> Result<Self, Error> {
        let cut = |needed| Error::Truncated { offset, needed, left };
        let wrong = |source: DecodeError| match source.flaw {
            Flaw::Short { .. } => cut(left + 1),
            _ => Error::BlockHeader { offset, source },
        };
        let mut input = Input::new(bytes);
        let kind = match input.varuint().map_err(wrong)? {
            1 => BlockKind::Schema,
            2 => BlockKind::Data,
            3 => BlockKind::Index,
            5 => BlockKind::Marker,
            // 4 is reserved for a dictionary, which has never been written.
            kind => return Err(Error::BlockType { offset, kind }),
        };
        let size = input.varuint().map_err(wrong)?;
        let header = Self { kind, len: input.position(), size };
        match header.whole() {
            needed if needed > left => Err(cut(needed)),
            _ if size > MAX_BLOCK => Err(Error::TooLarge { offset, what: "block", size, limit: MAX_BLOCK }),
            _ => Ok(header),
        }
    }

    /// Bytes of the whole block.
    pub fn whole(&self) -> u64 {
        self.size.saturating_add(self.len as u64)
    }
}

/// The body of a schema block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchemaBody<'a> {
    pub identifier: u64,
    pub name: &'a str,
    pub schema: &'a [u8],
    /// Undefined flags; they are ignored and reported.
    pub unknown_flags: Option<DecodeError>,
}

impl<'a> SchemaBody<'a> {
    /// Whether a sound body of `size` bytes can begin so: no flags, and a name that ends within it.
    pub fn can_begin(head: &[u8], size: u64) -> bool {
        let mut input = Input::new(head);
        let mut next = || input.varuint().ok();
        matches!((next(), next(), next()), (Some(_), Some(0), Some(name)) if name < size)
    }

    pub fn read(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut input = Input::new(body);
        let identifier = input.varuint()?;
        let unknown_flags = match no_flags(&mut input, "schema block") {
            Err(error @ DecodeError { flaw: Flaw::Flags { .. }, .. }) => Some(error),
            other => other.map(|()| None)?,
        };
        let start = input;
        let name = std::str::from_utf8(input.counted()?).map_err(|_| start.error(Flaw::Utf8))?;
        Ok(Self { identifier, name, schema: input.rest(), unknown_flags })
    }

    pub fn write(&self, block: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(self.schema.len() + self.name.len() + 16);
        body.varuint(self.identifier);
        body.varuint(0);
        body.counted(self.name.as_bytes());
        body.put(self.schema);
        begin(block, BlockKind::Schema, body.len() as u64);
        block.put(&body);
    }
}

/// The body of a data block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DataBody<'a> {
    pub identifier: u64,
    pub flags: u64,
    pub previous: Option<u64>,
    pub time_us: Option<i64>,
    /// The checksum and where in the body it lies.
    pub checksum: Option<(u32, usize)>,
    pub payload: &'a [u8],
}

impl<'a> DataBody<'a> {
    pub fn read(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut input = Input::new(body);
        let identifier = input.varuint()?;
        let start = input;
        let flags = input.varuint()?;
        if flags & !flags::KNOWN != 0 {
            return Err(start.error(Flaw::Flags { what: "data block", flags }));
        }
        let has = |flag| flags & flag != 0;
        let previous = has(flags::PREVIOUS).then(|| input.varuint()).transpose()?;
        let time_us = has(flags::TIMESTAMP).then(|| input.array().map(i64::from_le_bytes)).transpose()?;
        let at = input.position();
        let checksum =
            has(flags::CHECKSUM).then(|| input.array().map(|c| (u32::from_le_bytes(c), at))).transpose()?;
        Ok(Self { identifier, flags, previous, time_us, checksum, payload: input.rest() })
    }

    /// Appends the block up to its payload; with the checksum flag, the checksum of all of it is computed.
    pub fn write_head(&self, block: &mut Vec<u8>) {
        let mut memory = [0; MAX_DATA_HEAD];
        let mut head = Slice::new(&mut memory);
        head.varuint(self.identifier);
        head.varuint(self.flags);
        self.previous.iter().for_each(|&previous| head.varuint(previous));
        self.time_us.iter().for_each(|time| head.put(&time.to_le_bytes()));
        let check = if self.flags & flags::CHECKSUM != 0 { 4 } else { 0 };
        head.put(&[0; 4][..check]);
        let head = head.written().unwrap_or_default();
        let start = block.len();
        begin(block, BlockKind::Data, (head.len() + self.payload.len()) as u64);
        block.put(head);
        if check != 0 {
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(&block[start..]);
            hasher.update(self.payload);
            let at = block.len() - check;
            block[at..].copy_from_slice(&hasher.finalize().to_le_bytes());
        }
    }
}

/// The body of a seek marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MarkerBody {
    pub time_us: i64,
    /// For each record with data: its identifier, and how far before the marker its last sample lies.
    pub latest: Vec<(u64, u64)>,
}

impl MarkerBody {
    /// Reads and checks a whole block.
    pub fn read(block: &[u8], header_len: usize) -> Result<Self, DecodeError> {
        let mut input = Input::new(block.get(header_len..).unwrap_or_default());
        let wrong = |what| move |input: &Input<'_>| input.error(Flaw::Unsound(what));
        if input.array::<8>()? != MARKER {
            return Err(wrong("seek marker")(&input));
        }
        let stored = u32::from_le_bytes(input.array()?);
        if checksum(block, header_len + 8) != stored || usize::from(input.byte()?) != header_len {
            return Err(wrong("seek marker: its checksum differs")(&input));
        }
        no_flags(&mut input, "seek marker")?;
        let time_us = i64::from_le_bytes(input.array()?);
        let count = input.varuint()?;
        let left = input.rest().len() as u64;
        if count > left / 2 {
            return Err(input.error(Flaw::Short { needed: count.saturating_mul(2), left }));
        }
        let latest =
            (0..count).map(|_| Ok((input.varuint()?, input.varuint()?))).collect::<Result<_, _>>()?;
        match input.is_empty() {
            true => Ok(Self { time_us, latest }),
            false => Err(wrong("seek marker of its size")(&input)),
        }
    }

    /// Appends the block.
    ///
    /// The search of the original C++ reader misses a marker whose preceding byte equals the marker's first, 0x64,
    /// which is the end of the size; such a size is written one byte longer than necessary.
    pub fn write(&self, block: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(32 + self.latest.len() * 12);
        body.put(&MARKER);
        body.put(&[0; 5]);
        body.varuint(0);
        body.put(&self.time_us.to_le_bytes());
        body.varuint(self.latest.len() as u64);
        for (identifier, previous) in &self.latest {
            body.varuint(*identifier);
            body.varuint(*previous);
        }
        let start = block.len();
        begin(block, BlockKind::Marker, body.len() as u64);
        if let Some(last @ &mut 0x64) = block.last_mut() {
            *last |= 0x80;
            block.push(0);
        }
        let header_len = block.len() - start;
        body[12] = header_len as u8;
        block.put(&body);
        let sum = crc32fast::hash(&block[start..]).to_le_bytes();
        block[start + header_len + 8..start + header_len + 12].copy_from_slice(&sum);
    }
}

/// One record's entry in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub identifier: u64,
    /// Where its schema lies.
    pub schema: u64,
    /// Where its last sample lies, or [`NO_DATA`].
    pub last: u64,
}

/// Bytes of the end of an index: its length and its trailer.
pub(crate) const INDEX_TAIL: u64 = 12;

/// The length of the index block that ends in `tail`, if one does.
pub(crate) fn index_len(tail: &[u8]) -> Option<u64> {
    let (len, trailer) = tail.split_first_chunk()?;
    (trailer == INDEX_TRAILER).then(|| u64::from(u32::from_le_bytes(*len)))
}

/// Reads an index's body.
pub(crate) fn read_index(body: &[u8]) -> Result<Vec<IndexEntry>, DecodeError> {
    let mut input = Input::new(body);
    no_flags(&mut input, "index")?;
    let count = input.varuint()?;
    let left = input.rest().len() as u64;
    if count > left / 17 {
        return Err(input.error(Flaw::Short { needed: count.saturating_mul(17), left }));
    }
    (0..count)
        .map(|_| {
            let identifier = input.varuint()?;
            let schema = u64::from_le_bytes(input.array()?);
            Ok(IndexEntry { identifier, schema, last: u64::from_le_bytes(input.array()?) })
        })
        .collect()
}

/// Appends an index block.
pub(crate) fn write_index(entries: impl ExactSizeIterator<Item = IndexEntry>, block: &mut Vec<u8>) {
    let mut body = Vec::with_capacity(16 + entries.len() * 20);
    body.varuint(0);
    body.varuint(entries.len() as u64);
    for entry in entries {
        body.varuint(entry.identifier);
        body.put(&entry.schema.to_le_bytes());
        body.put(&entry.last.to_le_bytes());
    }
    let start = block.len();
    begin(block, BlockKind::Index, body.len() as u64 + 12);
    block.put(&body);
    let whole = (block.len() - start + 12) as u32;
    block.put(&whole.to_le_bytes());
    block.put(INDEX_TRAILER);
}

/// The checksum of a block whose own checksum lies at `at`: over every byte, with those four taken as zero.
pub(crate) fn checksum(block: &[u8], at: usize) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&block[..at]);
    hasher.update(&[0; 4]);
    hasher.update(&block[at + 4..]);
    hasher.finalize()
}

fn begin(block: &mut Vec<u8>, kind: BlockKind, size: u64) {
    block.varuint(kind as u64);
    block.varuint(size);
}

fn no_flags(input: &mut Input<'_>, what: &'static str) -> Result<(), DecodeError> {
    let start = *input;
    match input.varuint()? {
        0 => Ok(()),
        flags => Err(start.error(Flaw::Flags { what, flags })),
    }
}
