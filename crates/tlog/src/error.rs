//! What can be wrong with a log, and where.

use std::io;

/// What is wrong in encoded bytes, and at which byte of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{flaw} (at its byte {at})")]
pub struct DecodeError {
    /// Offset from the start of the schema or value being read.
    pub at: usize,
    /// What is wrong there.
    pub flaw: Flaw,
}

/// What is wrong in encoded bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The bytes end too early.
    #[error("{needed} bytes are needed and {left} are left")]
    Short {
        /// Bytes needed from here.
        needed: u64,
        /// Bytes left from here.
        left: u64,
    },
    /// More bytes than belong here.
    #[error("{left} bytes too many")]
    Trailing {
        /// How many.
        left: u64,
    },
    /// An integer that does not fit 64 bits.
    #[error("an integer longer than 64 bits")]
    Overlong,
    /// An undefined type code.
    #[error("unknown type code {0}")]
    TypeCode(u64),
    /// A fixed-size integer of a size other than 1, 2, 4 or 8.
    #[error("an integer of {0} bytes; only 1, 2, 4 and 8 exist")]
    IntegerSize(u8),
    /// Undefined flags.
    #[error("unknown {what} flags {flags:#x}")]
    Flags {
        /// Whose flags.
        what: &'static str,
        /// All of them.
        flags: u64,
    },
    /// An enum whose values are not integers.
    #[error("an enum over something that is not an integer")]
    EnumChild,
    /// A union index with no member.
    #[error("union index {index}, and only {members} members")]
    UnionIndex {
        /// The index read.
        index: u64,
        /// How many members there are.
        members: usize,
    },
    /// A name or a text that must be UTF-8 and is not.
    #[error("a text that is not UTF-8")]
    Utf8,
    /// More than the documented limit.
    #[error("{what}: {value}, more than the limit of {limit}")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// How much there is.
        value: u64,
        /// How much there may be.
        limit: u64,
    },
    /// A value that the Rust type it is read into cannot hold.
    #[error("a value the type {0} cannot hold")]
    Value(&'static str),
    /// Something that is not what it must be here.
    #[error("not a valid {0}")]
    Unsound(&'static str),
}

/// What is wrong with a log. Offsets count from the start of the file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("byte {offset}: {source}")]
    Io {
        /// Where it was being read.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// What was read could not be written elsewhere.
    #[error("writing: {0}")]
    Write(io::Error),
    /// The file does not begin like a log.
    #[error("not a TLOG0003 log: it does not begin with the eight bytes \"TLOG0003\"")]
    NotALog,
    /// Undefined header flags; the blocks could mean anything.
    #[error("byte 8: unknown header flags {flags:#x}; a newer program may have written this log")]
    HeaderFlags {
        /// The flags.
        flags: u64,
    },
    /// The file does not begin like a log, but holds blocks of one.
    #[error(
        "byte 0: the first bytes are not those of a TLOG0003 log; its first sound block lies at byte {first}"
    )]
    Head {
        /// Start of that block.
        first: u64,
    },
    /// The log ends inside a block, as it does when its writer was killed.
    #[error("byte {offset}: the log ends inside this block ({needed} bytes needed, {left} there)")]
    Truncated {
        /// Start of the block.
        offset: u64,
        /// The block's length, or the least it can be.
        needed: u64,
        /// What the file still has.
        left: u64,
    },
    /// An undefined block type; what follows cannot be trusted.
    #[error("byte {offset}: unknown block type {kind}; the log is damaged here")]
    BlockType {
        /// Start of the block.
        offset: u64,
        /// The type read.
        kind: u64,
    },
    /// A block whose type or size cannot be read; where the next one lies is not known.
    #[error("byte {offset}: no block begins here: {source}; the log is damaged here")]
    BlockHeader {
        /// Where a block should begin.
        offset: u64,
        /// What is wrong.
        source: DecodeError,
    },
    /// A block whose body does not make sense.
    #[error("byte {offset}: bad {what} block: {source}")]
    Block {
        /// Start of the block.
        offset: u64,
        /// Which kind of block.
        what: &'static str,
        /// What is wrong in it.
        source: DecodeError,
    },
    /// Samples compressed together lie where one alone was asked for.
    #[error("byte {offset}: here are many samples, compressed together; they can only be read in order")]
    Batch {
        /// Start of the block.
        offset: u64,
    },
    /// Data of a record no schema was seen for.
    #[error("byte {offset}: data of record {identifier}, for which there is no schema before it")]
    UnknownRecord {
        /// Start of the block.
        offset: u64,
        /// The record's identifier.
        identifier: u64,
    },
    /// A block that is not what was written.
    #[error("byte {offset}: checksum {computed:08x}, but the block says {stored:08x}; it is damaged")]
    Checksum {
        /// Start of the block.
        offset: u64,
        /// The checksum in the block.
        stored: u32,
        /// The checksum of the block.
        computed: u32,
    },
    /// Something larger than the documented limit.
    #[error("byte {offset}: {what} of {size}, more than the limit of {limit}")]
    TooLarge {
        /// Start of the block.
        offset: u64,
        /// What is too large.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// A payload that does not decompress.
    #[error("byte {offset}: the compressed payload is damaged: {source}")]
    Compression {
        /// Start of the block.
        offset: u64,
        /// The decompressor's error.
        source: snap::Error,
    },
    /// A payload that does not fit its record's schema.
    #[error("byte {offset}: payload of record {record:?}: {source}")]
    Payload {
        /// Start of the block.
        offset: u64,
        /// The record's name.
        record: String,
        /// What is wrong in it.
        source: DecodeError,
    },
    /// A record the log does not have.
    #[error("no record named {name:?} in this log; it has {known}")]
    NoRecord {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A record whose schema is not that of the Rust type it should be read into.
    #[error("record {name:?} has another schema than the type it should be read into")]
    OtherSchema {
        /// The record's name.
        name: String,
    },
}

impl Error {
    /// Whether reading can go on with the next block: this one's extent is known, only its content is bad.
    pub fn is_contained(&self) -> bool {
        matches!(
            self,
            Self::Block { .. }
                | Self::Batch { .. }
                | Self::UnknownRecord { .. }
                | Self::Checksum { .. }
                | Self::Compression { .. }
                | Self::Payload { .. }
        )
    }
}
