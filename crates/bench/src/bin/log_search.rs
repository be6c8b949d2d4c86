//! A log of 10 GB: what a search by time reads of it, and taking one record out over its links.
//!
//! With `--quick` it has 1 GB. It lies in the folder for temporary files and is removed afterwards.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use anyhow::{Result, ensure};
use khz_bench::{Bench, Samples};
use khz_robot::recorder::{Disk, Files};
use khz_tlog::{Compression, Options, Reader, Source, Type, Writer};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

fn main() -> Result<()> {
    let bench = Bench::from_args();
    let folder = tempfile::tempdir()?;
    large(&bench, folder.path())?;
    Ok(folder.close()?)
}

/// A file that counts what is read of it.
struct Counting {
    file: File,
    reads: Cell<u64>,
    bytes: Cell<u64>,
}

impl Source for Counting {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(buf, offset)?;
        self.reads.set(self.reads.get() + 1);
        self.bytes.set(self.bytes.get() + read as u64);
        Ok(read)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}

fn counting(path: &Path) -> Result<Counting> {
    Ok(Counting { file: File::open(path)?, reads: Cell::new(0), bytes: Cell::new(0) })
}

/// Seeking in a log of 10 GB (1 GB with `--quick`), and taking 1 % of it out over the links.
fn large(bench: &Bench, folder: &Path) -> Result<()> {
    let path = folder.join("large.tlog");
    let size = bench.rounds(10_000) as u64 * 1_000_000;
    let free = Files.free_bytes(&path)?;
    if free < size + (1 << 30) {
        println!("# large log not made: {} MB free, {} MB needed", free >> 20, (size >> 20) + 1024);
        return Ok(());
    }
    let (duration_us, share) = make_large(&path, size)?;
    let (mut reads, mut bytes) = (Vec::new(), Vec::new());
    for step in 0..101 {
        let mut reader = Reader::open(counting(&path)?)?;
        reader.seek(duration_us / 100 * step + 7)?;
        let source = reader.into_source();
        reads.push(source.reads.get() as f64);
        bytes.push(source.bytes.get() as f64);
    }
    bench.figure("log_seek_reads", Samples::new(reads).max(), "reads", 40.0);
    bench.figure("log_seek_bytes", Samples::new(bytes).max() / 1e6, "MB", 4.0);
    let mut reader = Reader::open(counting(&path)?)?;
    let places = reader.places("rare")?.unwrap_or_default();
    ensure!(!places.is_empty(), "the record was not found over its links");
    for place in &places {
        reader.stored_at(*place)?;
    }
    let read = reader.into_source().bytes.get() as f64 / size as f64 * 100.0;
    println!("# the record is {share:.2} % of the log, {} samples", places.len());
    bench.figure("log_extract_1_percent", read, "%", 3.0);
    Ok(())
}

/// Writes a log in which the record `rare` is about a hundredth of the bytes. Returns its length in time, and the share.
fn make_large(path: &Path, size: u64) -> Result<(i64, f64)> {
    let out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut log = Writer::new(out, Options { compression: Compression::None, ..Options::default() })?;
    let bulk = log.record("bulk", &Type::Bytes)?;
    let rare = log.record("rare", &Type::Bytes)?;
    let payload = vec![0x5a; 1000];
    let (mut time_us, mut rare_bytes) = (0, 0);
    while log.position() < size {
        for _ in 0..100 {
            log.write(bulk, Some(time_us), &payload)?;
            time_us += 1000;
        }
        let before = log.position();
        log.write(rare, Some(time_us), &payload)?;
        rare_bytes += log.position() - before;
    }
    let share = rare_bytes as f64 / log.position() as f64 * 100.0;
    log.finish()?.flush()?;
    Ok((time_us, share))
}
