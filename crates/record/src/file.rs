//! The log on the disk, with the time as an argument.

use crate::builder::{RecorderBuilder, Sync};
use crate::disk::{Disk, Gone, Output};
use crate::error::RecorderError;
use crate::marks::Marks;
use crate::records::{Counts, Declared, RecordId};
use crate::settings::LogConfig;
use crate::sink::{Sink, SinkResult, SinkSummary};
use crate::summary::{RecordSummary, Summary};
use khz_tlog::{Options, Sink as _, Type, Width, Writer};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// What is reported instead of an error of the disk.
pub(super) const PANICKED: &str = "the recorder panicked, which is a bug in kilohertz";
/// Its name as a sink.
pub(super) const LOG: &str = "log";
/// The record in which the recorder reports on itself: how many samples of each record were dropped so far,
/// and how many every further sink has lost.
pub(super) const OWN_RECORD: &str = "recorder";
/// How long a sample may stay in memory once it has left the ring.
const FLUSH_NS: i64 = 100_000_000;
/// How often the room on the disk is looked at.
const ROOM_NS: i64 = 1_000_000_000;
const GOES_ON: &str = "recording goes on in";
/// How much is written at once.
const BUFFER: usize = 256 << 10;
/// After a full disk, writing goes on only with this much more room, so that it does not begin a file per second.
const RESUME_BYTES: u64 = 64 << 20;

type Log = Writer<BufWriter<Box<dyn Output>>>;

/// The file now being written, if any.
enum Store {
    Open(Box<Log>),
    /// The disk has too little room; more is waited for.
    Full,
    /// The file was removed or cut; the next is begun in the next turn.
    Gone,
    /// Writing failed permanently.
    Failed,
    /// No log is wanted.
    Unwanted,
}

pub(super) struct LogFile<D> {
    config: LogConfig,
    path: PathBuf,
    sync: Sync,
    records: Vec<Declared>,
    counts: Arc<Counts>,
    disk: D,
    store: Store,
    most_bytes: u64,
    epoch_ns: i64,
    /// Of the records that each further file begins with: the newest sample.
    first: Vec<(RecordId, Vec<u8>)>,
    /// When the newest sample came, by the samples' clock.
    last_ns: Option<i64>,
    /// Time of the newest sample, if the samples' clock is not the loop's on this computer.
    newest_ns: Option<i64>,
    opened_ns: i64,
    flushed_ns: i64,
    synced_ns: i64,
    looked_ns: i64,
    /// Names of the other sinks, and what they have lost so far.
    others: Vec<(String, u64)>,
    /// Losses as last reported in the log.
    reported: u64,
    next_file: u32,
    /// Bytes of the files before this one.
    finished_bytes: u64,
    written: Vec<u64>,
    /// Samples in hand that have not left the process: in the log's batches, or waiting to be written at once.
    in_hand: Vec<u64>,
    /// Samples written to this file.
    in_file: Vec<u64>,
    /// Places in this file, and how many samples of each record lie before them.
    marks: Marks,
    /// Samples that came out of the rings and are not in a file.
    lost: u64,
    paths: Vec<PathBuf>,
    /// What went wrong first.
    error: Option<String>,
    /// What went wrong last, until it is reported.
    unreported: Option<String>,
    news: News,
}

/// What went wrong with the log, for displays while it is written.
#[derive(Clone, Default)]
pub(super) struct News(Arc<Mutex<Option<String>>>);

impl News {
    fn put(&self, error: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_owned());
    }

    /// The last, once.
    pub fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<D: Disk> LogFile<D> {
    /// Begins the first file of what is planned. `others` are the names of the other sinks.
    pub fn begin(
        builder: &RecorderBuilder,
        others: Vec<String>,
        epoch_ns: i64,
        disk: D,
        now_ns: i64,
    ) -> Result<Self, RecorderError> {
        let (config, records) = (builder.log.clone(), builder.records.clone());
        let mut file = Self {
            path: PathBuf::from(&config.path),
            config,
            sync: builder.sync,
            counts: Arc::clone(&builder.counts),
            disk,
            store: Store::Full,
            most_bytes: builder.most_bytes,
            epoch_ns,
            first: builder.in_every_file.iter().map(|record| (*record, Vec::new())).collect(),
            last_ns: None,
            newest_ns: builder.newest_ns,
            opened_ns: now_ns,
            flushed_ns: now_ns,
            synced_ns: now_ns,
            looked_ns: now_ns,
            others: others.into_iter().map(|name| (name, 0)).collect(),
            reported: 0,
            next_file: 0,
            finished_bytes: 0,
            in_hand: vec![0; records.len()],
            in_file: vec![0; records.len()],
            marks: Marks::default(),
            written: vec![0; records.len()],
            records,
            lost: 0,
            paths: Vec::new(),
            error: None,
            unreported: None,
            news: News::default(),
        };
        if !builder.has_log {
            file.store = Store::Unwanted;
            return Ok(file);
        }
        file.look_at_room(0)?;
        file.open(now_ns).map_err(|source| file.cannot_create(source))?;
        Ok(file)
    }

    /// What the other sinks have lost so far, in the order of their names.
    pub fn add_losses(&mut self, losses: impl IntoIterator<Item = u64>) {
        self.others.iter_mut().zip(losses).for_each(|((_, lost), now)| *lost = now);
    }

    /// What goes wrong from now on.
    pub fn news(&self) -> News {
        self.news.clone()
    }

    /// What has gone wrong since it was asked last, and the time by the samples' clock.
    pub fn unreported(&mut self, now_ns: i64) -> Option<(String, i64)> {
        let unreported = self.unreported.take()?;
        self.news.put(&unreported);
        Some((unreported, self.by_samples(now_ns)))
    }

    /// What was recorded.
    pub fn summary(self) -> Summary {
        let log = SinkSummary {
            name: LOG.into(),
            taken: self.written.iter().sum(),
            lost: self.lost,
            error: self.error.clone(),
            note: None,
        };
        let records = self.records.into_iter().zip(self.written).enumerate();
        let records = records.map(|(index, (record, written))| RecordSummary {
            name: record.name,
            written,
            dropped: self.counts.dropped(index),
        });
        let records = records.collect();
        Summary {
            paths: self.paths,
            bytes: self.finished_bytes,
            records,
            sinks: vec![log],
            error: self.error,
        }
    }

    /// The present by the clock of the samples.
    fn by_samples(&self, now_ns: i64) -> i64 {
        self.newest_ns.unwrap_or(now_ns)
    }

    /// Records in the log what was lost since the last time.
    fn report_lost(&mut self, now_ns: i64, anyway: bool) {
        let of_others = self.others.iter().map(|(_, lost)| *lost);
        let lost = self.counts.all_dropped() + of_others.clone().sum::<u64>();
        if !anyway && (lost == self.reported || self.has_most()) {
            return;
        }
        let dropped = (0..self.records.len()).map(|index| self.counts.dropped(index));
        let mut payload = Vec::with_capacity((self.records.len() + self.others.len()) * 8);
        dropped.chain(of_others).for_each(|count| payload.put(&count.to_le_bytes()));
        self.reported = lost;
        let time_us = self.by_samples(now_ns).saturating_add(self.epoch_ns) / 1000;
        self.attempt(|log, records| log.write(log.id(records), Some(time_us), &payload).map(|_| ()));
    }

    fn keep_room(&mut self, now_ns: i64) {
        match self.store {
            Store::Open(_) if self.look_at_room(0).is_err() => {
                self.close(now_ns);
                self.store = Store::Full;
            }
            Store::Full if !self.has_most() && self.look_at_room(RESUME_BYTES).is_ok() => self.reopen(now_ns),
            _ => {}
        }
    }

    fn look_at_room(&self, more: u64) -> Result<(), RecorderError> {
        let path = &self.path;
        let keep = self.config.keep_free_bytes() + more;
        match self.disk.free_bytes(path) {
            Ok(free) if free < keep => Err(RecorderError::NoRoom { path: path.clone(), free, keep }),
            // A disk of unknown space is written to; a write will fail when it is full.
            _ => Ok(()),
        }
    }

    /// Whether the files have all the bytes they may.
    fn has_most(&self) -> bool {
        let in_this = if let Store::Open(log) = &self.store { log.position() } else { 0 };
        self.finished_bytes + in_this >= self.most_bytes
    }

    fn is_rotation_due(&self, now_ns: i64) -> bool {
        let Store::Open(log) = &self.store else { return false };
        let large = self.config.rotate_bytes().is_some_and(|most| log.position() >= most);
        large || self.config.rotate_ns().is_some_and(|most| self.by_samples(now_ns) - self.opened_ns >= most)
    }

    fn reopen(&mut self, now_ns: i64) {
        if let Err(error) = self.open(now_ns) {
            self.fail(&error);
        }
    }

    /// Begins another file after one that was removed or cut.
    fn go_on(&mut self, now_ns: i64) {
        let ends = "recording ends";
        let what = match self.open(now_ns) {
            Ok(()) => format!("{GOES_ON} {}", self.paths.last().unwrap_or(&self.path).display()),
            Err(error) => {
                self.store = Store::Failed;
                format!("{ends}, because no other file can be made: {error}")
            }
        };
        // Who removes every file makes no endless text.
        let first = self.error.as_mut().filter(|error| !error.contains(GOES_ON) || what.starts_with(ends));
        first.into_iter().chain(&mut self.unreported).for_each(|error| *error += &format!("; {what}"));
    }

    /// Begins the next file under the first name that is free.
    fn open(&mut self, now_ns: i64) -> io::Result<()> {
        let (path, output) = loop {
            let path = numbered(&self.path, self.next_file);
            self.next_file += 1;
            match self.disk.create(&path) {
                Ok(output) => break (path, output),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        };
        self.paths.push(path);
        let options = Options { compression: self.config.compression.into(), ..Options::default() };
        let mut log = Writer::new(BufWriter::with_capacity(BUFFER, output), options)?;
        for Declared { name, ty } in &self.records {
            log.record_with(name, &ty.to_bytes(), self.config.compression_of(name))?;
        }
        log.record(OWN_RECORD, &self.own_type())?;
        // Not after what comes next, which is the file's beginning otherwise.
        let time_us = self.last_ns.map(|last_ns| last_ns.saturating_add(self.epoch_ns) / 1000);
        for (record, payload) in self.first.iter().filter(|(_, payload)| !payload.is_empty()) {
            log.write(log.id(record.index()), time_us, payload)?;
        }
        log.flush()?;
        self.store = Store::Open(Box::new(log));
        self.in_file.fill(0);
        self.marks.clear();
        self.opened_ns = self.by_samples(now_ns);
        Ok(())
    }

    /// Ends the file with the drops so far and its index.
    fn close(&mut self, now_ns: i64) {
        self.report_lost(now_ns, true);
        if matches!(self.store, Store::Unwanted) {
            return;
        }
        let Store::Open(log) = std::mem::replace(&mut self.store, Store::Failed) else { return };
        let sync = self.sync != Sync::Never;
        let mut bytes = log.position();
        let closed = log.finish().and_then(|mut buffer| {
            let output = buffer.get_mut();
            bytes = output.close()?;
            if sync { output.sync() } else { Ok(()) }
        });
        self.finished_bytes += bytes;
        match closed {
            Ok(()) => self.settle(),
            Err(error) => self.fail(&error),
        }
    }

    /// Has everything leave the process; `sync`: reach the disk itself.
    fn flush(&mut self, sync: bool) {
        self.attempt(|log, _| {
            log.flush()?;
            if sync { log.destination().get_mut().sync() } else { Ok(()) }
        });
        if matches!(self.store, Store::Open(_)) {
            self.settle();
        }
    }

    /// What was in hand is written.
    fn settle(&mut self) {
        self.mark();
        let files = self.written.iter_mut().zip(&mut self.in_file);
        for ((written, in_file), in_hand) in files.zip(&mut self.in_hand) {
            *in_file += *in_hand;
            *written += std::mem::take(in_hand);
        }
    }

    /// Keeps how many samples lie before this place in the file.
    fn mark(&mut self) {
        let Store::Open(log) = &self.store else { return };
        let within = self.in_file.iter().zip(&self.in_hand).map(|(in_file, in_hand)| in_file + in_hand);
        self.marks.add(log.position(), within.collect());
    }

    /// The file was cut to so many bytes: what was written behind is lost, and so is what was written since the last mark before.
    fn cut(&mut self, len: u64) {
        let left = self.marks.within(len).unwrap_or_default().iter().chain(std::iter::repeat(&0));
        let files = self.written.iter_mut().zip(self.in_file.iter_mut().zip(&mut self.in_hand));
        for ((written, (in_file, in_hand)), left) in files.zip(left) {
            let lost = in_file.saturating_sub(*left);
            *written -= lost;
            *in_hand += lost;
            *in_file -= lost;
        }
    }

    /// What was in hand is lost.
    fn lose(&mut self) {
        for (dropped, in_hand) in self.counts.dropped.iter().zip(&mut self.in_hand) {
            let lost = std::mem::take(in_hand);
            self.lost += lost;
            dropped.fetch_add(lost, Ordering::Relaxed);
        }
    }

    /// The file is not there any more, nor what was written to it.
    fn lose_file(&mut self) {
        for (written, (in_file, in_hand)) in
            self.written.iter_mut().zip(self.in_file.iter_mut().zip(&mut self.in_hand))
        {
            *written -= *in_file;
            *in_hand += std::mem::take(in_file);
        }
        self.paths.pop();
    }

    /// Does something with the log, if one is open, giving the number of records declared before its own.
    fn attempt(&mut self, action: impl FnOnce(&mut Log, usize) -> io::Result<()>) {
        if let Store::Open(log) = &mut self.store
            && let Err(error) = action(log, self.records.len())
        {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &io::Error) {
        let gone = Gone::of(error);
        let store = match error.kind() {
            io::ErrorKind::StorageFull => Store::Full,
            _ if gone.is_some() => Store::Gone,
            _ => Store::Failed,
        };
        if let Some(Gone::Cut { len, .. }) = gone {
            self.cut(len);
        }
        self.give_up(store, &error.to_string(), gone == Some(Gone::Removed));
    }

    /// After a panic nothing is written any more; samples are still taken and counted.
    pub fn panicked(&mut self) {
        self.give_up(Store::Failed, PANICKED, false);
    }

    /// Leaves the file as it is. Some of what was in hand may be in it all the same.
    fn give_up(&mut self, store: Store, error: &str, removed: bool) {
        let path = self.paths.last().unwrap_or(&self.path).display();
        let end = if removed { "" } else { "; that file ends there" };
        let error = format!("writing {path} failed: {error}{end}");
        self.error.get_or_insert_with(|| error.clone());
        self.unreported = Some(error);
        if let Store::Open(log) = &self.store {
            self.finished_bytes += log.position();
        }
        self.store = store;
        if removed {
            self.lose_file();
        }
        self.lose();
    }

    /// The type of [`OWN_RECORD`].
    fn own_type(&self) -> Type {
        let counts =
            |names: Vec<&str>| Type::object(names.into_iter().map(|name| (name, Type::Uint(Width::Eight))));
        let records = self.records.iter().map(|record| record.name.as_str()).collect();
        let others: Vec<_> = self.others.iter().map(|(name, _)| name.as_str()).collect();
        let lost = (!others.is_empty()).then(|| ("lost", counts(others)));
        Type::object([("dropped", counts(records))].into_iter().chain(lost))
    }

    fn cannot_create(&self, source: io::Error) -> RecorderError {
        let path = numbered(&self.path, self.next_file.saturating_sub(1));
        RecorderError::Create { path, source }
    }
}

impl<D: Disk> Sink for LogFile<D> {
    fn name(&self) -> &str {
        LOG
    }

    /// What becomes of it shows later: it waits with others to be written.
    fn sample(&mut self, id: RecordId, time_ns: i64, payload: &[u8]) -> SinkResult {
        if matches!(self.store, Store::Unwanted) {
            return Ok(());
        }
        let record = id.index();
        let time_us = time_ns.saturating_add(self.epoch_ns) / 1000;
        self.newest_ns = self.newest_ns.map(|newest_ns| newest_ns.max(time_ns));
        self.last_ns = self.last_ns.max(Some(time_ns));
        if let Some((_, kept)) = self.first.iter_mut().find(|(record, _)| *record == id) {
            kept.clear();
            kept.extend_from_slice(payload);
        }
        if self.has_most() {
            self.lost += 1;
            self.counts.drop_one(id);
            return Ok(());
        }
        self.in_hand[record] += 1;
        match &mut self.store {
            Store::Open(log) => {
                if let Err(error) = log.write(log.id(record), Some(time_us), payload) {
                    self.fail(&error);
                }
            }
            Store::Full | Store::Gone | Store::Failed | Store::Unwanted => self.lose(),
        }
        Ok(())
    }

    /// Does what is due.
    fn turn(&mut self, now_ns: i64) -> SinkResult {
        if now_ns - self.looked_ns >= ROOM_NS {
            self.looked_ns = now_ns;
            self.keep_room(now_ns);
        }
        if now_ns - self.flushed_ns >= FLUSH_NS {
            self.flushed_ns = now_ns;
            self.report_lost(now_ns, false);
            self.flush(false);
        }
        if let Sync::Every(period_ns) = self.sync
            && now_ns - self.synced_ns >= period_ns
        {
            self.synced_ns = now_ns;
            self.flush(true);
        }
        if matches!(self.store, Store::Gone) && !self.has_most() {
            self.go_on(now_ns);
        }
        if self.is_rotation_due(now_ns) && !self.has_most() {
            self.close(now_ns);
            self.reopen(now_ns);
        }
        Ok(())
    }

    /// Ends the log.
    fn finish(&mut self, now_ns: i64) -> SinkResult {
        self.close(now_ns);
        Ok(())
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}

/// A file's names, the second tried when the first is taken, and so on: `run.tlog`, `run-1.tlog`, `run-2.tlog`, … Allocates.
pub fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}
