//! A log in a file: read through once, and again where a viewer zooms in.

use super::pyramid::Pyramid;
use super::schemas::{Rows, Schemas};
use super::{MAX_TIME_US, Span, Store};
use khz_tlog::{Error, Item, Reader};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::fs::File;
use std::path::Path;

/// How many samples one look reads at most: what takes some tens of milliseconds.
const AT_ONCE: usize = 30_000;

/// A log that a [`Store`] shows, whether it was finished, is damaged, or is still being written.
pub struct Log {
    file: File,
    scan: Reader<File>,
    /// By identifier in the log: where the schema lies, and the record's number in the store.
    known: HashMap<u64, (u64, usize)>,
    /// Reads the part that a viewer looks at.
    look: Option<Reader<File>>,
    detail: Option<Detail>,
    budget: usize,
}

/// A stretch of a log, finer than the whole.
#[derive(Debug)]
struct Detail {
    from_us: i64,
    to_us: i64,
    /// It was made for buckets of this level.
    level: u32,
    records: BTreeSet<usize>,
    rows: Rows,
    pyramid: Pyramid,
    is_read: bool,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("file", &self.file).field("detail", &self.detail).finish_non_exhaustive()
    }
}

impl Log {
    /// Opens a log.
    ///
    /// # Errors
    /// If it cannot be read or is no log.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let cannot = |source| Error::Io { offset: 0, source };
        let file = File::open(path).map_err(cannot)?;
        let scan = Reader::open(file.try_clone().map_err(cannot)?)?;
        Ok(Self {
            file,
            scan,
            known: HashMap::new(),
            look: None,
            detail: None,
            budget: super::DEFAULT_BUDGET,
        })
    }

    pub(super) fn with_budget(self, budget: usize) -> Self {
        Self { budget, ..self }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.scan.is_finished()
    }

    pub(super) fn share_read(&self) -> f64 {
        match self.scan.size() {
            0 => 1.0,
            size => (self.scan.position() as f64 / size as f64).min(1.0),
        }
    }

    /// Reads on into the store; `false` when there is nothing more for now.
    pub(super) fn read(
        &mut self,
        samples: usize,
        store: &mut Store,
        each: &mut dyn FnMut(&Item<'_>),
    ) -> Result<bool, Error> {
        for _ in 0..samples {
            match self.scan.next_if_grown() {
                Ok(None) => return Ok(false),
                Ok(Some(item)) => {
                    each(&item);
                    let number = number_of(&mut self.known, &item, store);
                    let time_us =
                        item.time_us.or(store.last_us).unwrap_or(0).clamp(-MAX_TIME_US, MAX_TIME_US);
                    store.put(number, time_us, item.payload);
                    if let Some(detail) = &mut self.detail {
                        detail.take(number, time_us, item.payload, &store.schemas);
                    }
                }
                Err(error) => {
                    self.scan.step_over(error)?;
                    store.losses.damaged += 1;
                }
            }
        }
        Ok(true)
    }

    /// Has a stretch around `span` read, fine enough for it, as far as one call may take; `true` when all of it is.
    pub(super) fn look_at(&mut self, span: Span, signals: &[u32], schemas: &Schemas) -> bool {
        let places = signals.iter().filter_map(|&signal| schemas.place(signal));
        let records: BTreeSet<usize> = places.flat_map(|(record, _)| schemas.sources(record)).collect();
        let fits = |detail: &Detail| detail.covers(span) && detail.records.is_superset(&records);
        if !self.detail.as_ref().is_some_and(fits) && !self.begin(span, records, schemas) {
            return true; // It cannot be read: what is known of the whole has to do.
        }
        let (Some(detail), Some(look)) = (&mut self.detail, &mut self.look) else { return true };
        detail.read(look, &self.known, schemas);
        detail.is_read
    }

    /// What was read around `span`.
    pub(super) fn detail(&self, span: Span) -> Option<&Pyramid> {
        self.detail.as_ref().filter(|detail| detail.covers(span)).map(|detail| &detail.pyramid)
    }

    fn begin(&mut self, span: Span, records: BTreeSet<usize>, schemas: &Schemas) -> bool {
        let detail = Detail::around(span, records, self.budget, schemas);
        let names = detail.records.iter().filter_map(|record| schemas.named(*record)).map(|(name, _)| name);
        let Ok(look) = self.reader() else { return false };
        look.rewind();
        look.select(names);
        // A log too damaged to be searched is read from the start.
        if look.seek(detail.from_us.saturating_sub(1)).is_err() {
            look.rewind();
        }
        self.detail = Some(detail);
        true
    }

    /// The reader for looks: one that knows the log as far as it has been read through.
    fn reader(&mut self) -> Result<&mut Reader<File>, Error> {
        let fresh = self.look.take().filter(|look| look.size() >= self.scan.position());
        let look = match fresh {
            Some(look) => look,
            None => {
                let file = self.file.try_clone().map_err(|source| Error::Io { offset: 0, source })?;
                let mut look = Reader::open(file)?;
                look.survey()?;
                look
            }
        };
        Ok(self.look.insert(look))
    }
}

/// The number of a sample's record in the store.
fn number_of(known: &mut HashMap<u64, (u64, usize)>, item: &Item<'_>, store: &mut Store) -> usize {
    let (identifier, position) = (item.record.identifier(), item.record.position());
    match known.get(&identifier) {
        Some((at, number)) if *at == position => *number,
        _ => {
            let number = store.add(item.record.name(), item.record.ty());
            known.insert(identifier, (position, number));
            number
        }
    }
}

impl Detail {
    /// The span, as much before it and as much behind it, in buckets half as long: who moves or zooms a little needs no
    /// other.
    fn around(span: Span, records: BTreeSet<usize>, budget: usize, schemas: &Schemas) -> Self {
        let length_us = span.to_us() - span.from_us();
        let mut pyramid = Pyramid::from_level(budget, span.level.saturating_sub(1));
        let of = |record: usize| {
            records.contains(&record) || schemas.sources(record).iter().all(|it| records.contains(it))
        };
        let widths: Vec<usize> = schemas.widths().collect();
        let kept: Vec<usize> =
            widths.iter().enumerate().map(|(at, width)| if of(at) { *width } else { 0 }).collect();
        pyramid.resize(&kept);
        let mut rows = Rows::default();
        rows.resize(&widths);
        Self {
            from_us: span.from_us().saturating_sub(length_us),
            to_us: span.to_us().saturating_add(length_us),
            level: span.level,
            records,
            rows,
            pyramid,
            is_read: false,
        }
    }

    fn covers(&self, span: Span) -> bool {
        let is_fine = span.level >= self.pyramid.level().min(self.level);
        is_fine && span.from_us() >= self.from_us && span.to_us() <= self.to_us
    }

    fn read(&mut self, look: &mut Reader<File>, known: &HashMap<u64, (u64, usize)>, schemas: &Schemas) {
        for _ in 0..AT_ONCE {
            if self.is_read {
                return;
            }
            let error = match look.next() {
                Ok(None) => return self.is_read = true,
                Ok(Some(item)) => {
                    let (identifier, time_us) = (item.record.identifier(), item.time_us.unwrap_or(i64::MIN));
                    if let Some((_, number)) = known.get(&identifier) {
                        self.take(*number, time_us, item.payload, schemas);
                    }
                    self.is_read = time_us > self.to_us && look.is_past(self.to_us, time_us);
                    continue;
                }
                Err(error) => error,
            };
            self.is_read = look.step_over(error).is_err();
        }
    }

    /// Takes in a sample that is in the stretch. One that comes twice changes nothing.
    fn take(&mut self, record: usize, time_us: i64, payload: &[u8], schemas: &Schemas) {
        if time_us < self.from_us || time_us > self.to_us || !self.records.contains(&record) {
            return;
        }
        let Ok(derived) = schemas.read(record, payload, &mut self.rows) else { return };
        for record in std::iter::once(record).chain(derived) {
            self.pyramid.push(record, time_us, self.rows.of(record));
        }
    }
}
