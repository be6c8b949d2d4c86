//! The TLOG0003 telemetry log: schema, records, blocks, seek, recovery.
//!
//! A log explains itself: each record begins with a [schema](Type), and its samples follow it as data blocks, mixed
//! with those of the other records. A [`Writer`] writes to any [`std::io::Write`], a [`Reader`] reads from any
//! [`Source`]. What the format is and which choices are ours stands in `docs/log-format.md`.
#![forbid(unsafe_code)]

mod batch;
mod block;
mod code;
mod columns;
mod error;
mod links;
mod reader;
pub mod received;
mod record;
mod records;
mod repair;
mod resync;
mod schema;
mod seek;
mod source;
mod unbatch;
mod units;
mod value;
mod writer;

pub use block::{DATA_START, MAGIC, MAX_BLOCK};
pub use code::{Input, Sink, Slice};
pub use columns::{Columns, FieldInfo, Scalar};
pub use error::{DecodeError, Error, Flaw};
/// Derives [`trait@Columns`] for structs of numbers, truth values and enums.
pub use khz_tlog_derive::Columns;
/// Derives [`trait@Record`] for structs and for enums without data.
pub use khz_tlog_derive::Record;
pub use reader::{Item, Reader};
pub use record::{Bytes, Duration, Record, Timestamp};
#[doc(hidden)]
pub use record::{packed, width_of};
pub use records::{MAX_SCHEMA_BYTES, RecordInfo};
pub use repair::{Copier, Repair, repair};
pub use schema::{Field, MAX_DEPTH, MAX_IDLE, MAX_NODES, Type, Width};
pub use seek::Latest;
pub use source::Source;
pub use units::is_obeyed;
pub use value::{Entries, Items, Object, Symbol, Value};
pub use writer::{Compression, Options, RecordId, Writer};

/// The example in the documentation compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/log-format.md")]
struct Documentation;
