//! Writing a log, block by block, to anything that takes bytes.

use crate::batch::{Batch, MAX_BYTES, MAX_SPAN_US};
use crate::block::write_index;
use crate::block::{
    DATA_START, DataBody, IndexEntry, MAGIC, MAX_BLOCK, MarkerBody, NO_DATA, SchemaBody, flags,
};
use crate::reader::Item;
use crate::schema::Type;
use std::io::{self, Write};

/// What a [`Writer`] writes beside schemas and data. The default is what the original writer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Link each sample to the record's previous one, so that one record can be read without the others.
    pub previous_offsets: bool,
    /// Give each sample a checksum.
    pub checksums: bool,
    /// How records are compressed unless declared otherwise.
    pub compression: Compression,
    /// End a finished log with an index.
    pub index: bool,
    /// Write a seek marker when this much time has passed since the last, in µs; 0 for never.
    pub marker_period_us: i64,
    /// Write a seek marker when this many bytes have been written since the last; 0 for never. Markers at a bounded
    /// distance make a search by time read little, however much is logged per second.
    pub marker_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            previous_offsets: true,
            checksums: true,
            compression: Compression::Snappy,
            index: true,
            marker_period_us: 1_000_000,
            marker_bytes: 128 << 10,
        }
    }
}

/// How a record's samples are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not.
    None,
    /// By snappy, each sample alone, and only those that shrink.
    Snappy,
    /// By zstd, many samples together: often half of what snappy makes of them. A reader that does not know of it sees a
    /// record of byte strings. Samples reach the file late: when there are 64 KiB or a second of them, or at
    /// [`flush`](Writer::flush).
    Zstd,
}

/// A record declared with a [`Writer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(pub(crate) u64);

impl RecordId {
    /// The number that stands for the record in the file.
    pub const fn identifier(self) -> u64 {
        self.0
    }
}

/// Writes a log. Give it a buffered destination: each block is one or two short `write_all`.
///
/// A log that is dropped instead of [finished](Writer::finish) has no index and lacks what waits to be compressed by
/// zstd, and is readable all the same.
pub struct Writer<W> {
    out: W,
    options: Options,
    position: u64,
    records: Vec<Declared>,
    clock: Option<Clock>,
    block: Vec<u8>,
    compressed: Vec<u8>,
    snappy: snap::raw::Encoder,
    /// Time of the oldest sample in a batch.
    oldest_us: Option<i64>,
}

struct Declared {
    identifier: u64,
    name: String,
    schema: u64,
    last: Option<u64>,
    compression: Compression,
    batch: Batch,
}

/// When and where the next marker is due.
struct Clock {
    newest_us: i64,
    marker_us: i64,
    marker_at: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a log in `out`, which must be empty.
    ///
    /// # Errors
    /// What writing to `out` gives; so for every function here.
    pub fn new(mut out: W, options: Options) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        out.write_all(&[0])?;
        Ok(Self {
            out,
            options,
            position: DATA_START,
            records: Vec::new(),
            clock: None,
            block: Vec::new(),
            compressed: Vec::new(),
            snappy: snap::raw::Encoder::new(),
            oldest_us: None,
        })
    }

    /// Declares a record and writes its schema. A name without dots keeps paths such as `imu.rate.0` clear.
    ///
    /// # Errors
    /// Also when a record of this name is there already.
    pub fn record(&mut self, name: &str, ty: &Type) -> io::Result<RecordId> {
        self.record_with(name, &ty.to_bytes(), self.options.compression)
    }

    /// Declares a record by the bytes of its schema, with its own compression.
    ///
    /// # Errors
    /// Also when a record of this name is there already.
    pub fn record_with(&mut self, name: &str, schema: &[u8], how: Compression) -> io::Result<RecordId> {
        if self.records.iter().any(|record| record.name == name) {
            return Err(invalid(format!("record {name:?} is declared twice")));
        }
        let identifier = self.records.len() as u64 + 1;
        self.records.push(Declared {
            identifier,
            name: name.into(),
            schema: self.position,
            last: None,
            compression: how,
            batch: Batch::default(),
        });
        self.block.clear();
        match how {
            Compression::Zstd => {
                let schema = &crate::batch::outer(schema);
                SchemaBody { identifier, name, schema, unknown_flags: None }.write(&mut self.block);
            }
            _ => SchemaBody { identifier, name, schema, unknown_flags: None }.write(&mut self.block),
        }
        self.put_block()?;
        Ok(RecordId(identifier))
    }

    /// Writes one sample: the encoded `payload`, stamped with µs since the Unix epoch. Times should not decrease over
    /// the log, and every sample should have one; searching by time relies on it.
    ///
    /// # Errors
    /// Also when the payload is larger than a reader would accept, or a sample compressed by zstd has no time.
    pub fn write(&mut self, record: RecordId, time_us: Option<i64>, payload: &[u8]) -> io::Result<()> {
        let how = self.declared(record)?.compression;
        // Beside it a batch holds less than MAX_BYTES, and zstd makes what it cannot shrink longer by a tiny part.
        let beside = if how == Compression::Zstd { 2 * MAX_BYTES as u64 } else { 64 };
        if payload.len() as u64 > MAX_BLOCK - beside {
            return Err(invalid(format!("a sample of {} bytes is too large for a log", payload.len())));
        }
        self.write_batches_before(time_us)?;
        if how == Compression::Zstd {
            return self.collect(record, time_us, payload);
        }
        let mut compressed = std::mem::take(&mut self.compressed);
        let shrunk = match how {
            Compression::Snappy => self.shrink(payload, &mut compressed)?,
            _ => None,
        };
        let written = self.data(record, time_us, shrunk.unwrap_or(payload), shrunk.is_some());
        self.compressed = compressed;
        written
    }

    /// Writes a sample just as it is stored in another log, without decompressing it; one of a batch goes into a batch.
    ///
    /// # Errors
    /// As [`write`](Self::write), and when a sample compressed by snappy is given to a record compressed by zstd.
    pub fn copy(&mut self, record: RecordId, item: &Item<'_>) -> io::Result<()> {
        match self.declared(record)?.compression {
            Compression::Zstd if item.compressed => Err(invalid("a compressed sample for a batch".into())),
            Compression::Zstd => self.write(record, item.time_us, item.stored),
            _ => {
                self.write_batches_before(item.time_us)?;
                self.data(record, item.time_us, item.stored, item.compressed)
            }
        }
    }

    /// Writes the samples that wait to be compressed together, and flushes the destination.
    ///
    /// # Errors
    /// What writing to it gives.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write_batches()?;
        self.out.flush()
    }

    /// Writes the index and gives `out` back, flushed.
    ///
    /// # Errors
    /// What writing to `out` gives.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_batches()?;
        if self.options.index {
            self.block.clear();
            let entries = self.records.iter().map(|record| IndexEntry {
                identifier: record.identifier,
                schema: record.schema,
                last: record.last.unwrap_or(NO_DATA),
            });
            write_index(entries, &mut self.block);
            self.put_block()?;
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// Where the next block will lie: the bytes written so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The record declared as number `index`, from 0; samples of one that was not are refused.
    pub fn id(&self, index: usize) -> RecordId {
        RecordId(index as u64 + 1)
    }

    /// The destination. To flush it, use [`flush`](Self::flush).
    pub fn destination(&mut self) -> &mut W {
        &mut self.out
    }

    fn declared(&mut self, record: RecordId) -> io::Result<&mut Declared> {
        let index = record.0.wrapping_sub(1) as usize;
        self.records.get_mut(index).ok_or_else(|| invalid("a record of another log".into()))
    }

    /// Puts a sample into its record's batch.
    fn collect(&mut self, record: RecordId, time_us: Option<i64>, payload: &[u8]) -> io::Result<()> {
        let Some(time_us) = time_us else {
            return Err(invalid("a sample compressed by zstd needs a time".into()));
        };
        self.oldest_us.get_or_insert(time_us);
        if let Some(clock) = &mut self.clock {
            clock.newest_us = clock.newest_us.max(time_us);
        }
        let declared = self.declared(record)?;
        declared.batch.push(time_us, payload);
        match declared.batch.is_full() {
            true => self.write_batch(record),
            false => Ok(()),
        }
    }

    /// Before a sample of this time is written: no sample waits for longer than [`MAX_SPAN_US`].
    fn write_batches_before(&mut self, time_us: Option<i64>) -> io::Result<()> {
        match time_us.zip(self.oldest_us) {
            Some((time_us, oldest_us)) if time_us.saturating_sub(oldest_us) >= MAX_SPAN_US => {
                self.write_batches()
            }
            _ => Ok(()),
        }
    }

    fn write_batches(&mut self) -> io::Result<()> {
        if self.oldest_us.take().is_none() {
            return Ok(());
        }
        (0..self.records.len()).try_for_each(|index| self.write_batch(self.id(index)))
    }

    /// Writes a record's batch, if there is anything in it. Its time is the newest so far, so that times do not
    /// decrease in the file, and not before that of its samples.
    fn write_batch(&mut self, record: RecordId) -> io::Result<()> {
        let declared = self.declared(record)?;
        if declared.batch.is_empty() {
            return Ok(());
        }
        let newest_us = declared.batch.newest_us();
        let payload = declared.batch.finish()?;
        let time_us = self.clock.as_ref().map_or(newest_us, |clock| clock.newest_us.max(newest_us));
        self.data(record, Some(time_us), &payload, false)
    }

    /// The compressed payload, if it is shorter.
    fn shrink<'a>(&mut self, payload: &[u8], room: &'a mut Vec<u8>) -> io::Result<Option<&'a [u8]>> {
        let most = snap::raw::max_compress_len(payload.len());
        if room.len() < most {
            room.resize(most, 0);
        }
        let len = self.snappy.compress(payload, room).map_err(io::Error::other)?;
        Ok((len < payload.len()).then(|| &room[..len]))
    }

    fn data(
        &mut self,
        record: RecordId,
        time_us: Option<i64>,
        stored: &[u8],
        snappy: bool,
    ) -> io::Result<()> {
        let position = self.position;
        let options = self.options;
        let last = self.declared(record)?.last.replace(position);
        let flag = |set: bool, flag| if set { flag } else { 0 };
        let body = DataBody {
            identifier: record.0,
            flags: flag(options.previous_offsets, flags::PREVIOUS)
                | flag(time_us.is_some(), flags::TIMESTAMP)
                | flag(options.checksums, flags::CHECKSUM)
                | flag(snappy, flags::SNAPPY),
            previous: options.previous_offsets.then(|| last.map_or(0, |last| position - last)),
            time_us,
            checksum: None,
            payload: stored,
        };
        self.block.clear();
        body.write_head(&mut self.block);
        self.put_block()?;
        self.out.write_all(stored)?;
        self.position += stored.len() as u64;
        if let Some(time_us) = time_us {
            self.keep_time(time_us, position)?;
        }
        Ok(())
    }

    /// Writes a marker after the data at `position`, if one is due. The first sample only starts the clock.
    fn keep_time(&mut self, time_us: i64, position: u64) -> io::Result<()> {
        let start = Clock { newest_us: time_us, marker_us: time_us, marker_at: position };
        let clock = self.clock.get_or_insert(start);
        clock.newest_us = clock.newest_us.max(time_us);
        let period = self.options.marker_period_us;
        let bytes = self.options.marker_bytes;
        let by_time = period > 0 && clock.newest_us.saturating_sub(clock.marker_us) >= period;
        let by_bytes = bytes > 0 && self.position - clock.marker_at >= bytes;
        if !by_time && !by_bytes {
            return Ok(());
        }
        clock.marker_us = clock.newest_us;
        clock.marker_at = self.position;
        let at = self.position;
        let latest =
            self.records.iter().filter_map(|r| r.last.map(|last| (r.identifier, at - last))).collect();
        self.block.clear();
        MarkerBody { time_us: clock.newest_us, latest }.write(&mut self.block);
        self.put_block()
    }

    fn put_block(&mut self) -> io::Result<()> {
        self.out.write_all(&self.block)?;
        self.position += self.block.len() as u64;
        Ok(())
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
