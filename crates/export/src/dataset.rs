//! Many logs as one dataset: Parquet files in Hive's layout, by robot and day, which DuckDB, Polars, Spark and Ray read as
//! they are.
//!
//! ```text
//! servo/robot=quad1/day=2026-03-01/0d3c….parquet    a table per record, a file per log
//! _manifest/0d3c….json                              which logs are in
//! _tables/mine.json                                 the columns of records that are not a run's own
//! _tmp/                                             files being written
//! ```
//!
//! A log is known by its content, so that the same log twice changes nothing, and one that has grown takes the place of
//! its former state. Files are written in `_tmp` and renamed when they are whole, the manifest last: an export that is
//! killed leaves a dataset that can be read, and is made good by the next.

mod error;
mod identity;
mod manifest;
mod place;
mod robots;
mod staged;
mod staging;
mod tables;
mod upto;

use crate::columns::Column;
use crate::scan::{Damage, Selection, scan};
use identity::{Begin, Identity, Relation, Samples};
use khz_tlog::{Reader, Source};
use manifest::{Manifest, VERSION};
use staged::{Part, Plan, Staged, Written};
use staging::{Lock, Staging};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tables::{described, joined};
use upto::Upto;

pub use error::DatasetError;
pub use tables::fixed_tables;

/// A dataset in a folder.
#[derive(Debug)]
pub struct Dataset {
    folder: PathBuf,
}

/// What adding a log did.
#[derive(Debug)]
pub struct Added {
    /// The log's id: 20 hexadecimal digits, and `-2` if another log begins alike.
    pub log: String,
    /// What it did.
    pub change: Change,
    /// The robots it is of; empty if it does not say.
    pub robots: Vec<String>,
    /// The UTC day on which it begins; none if it has no time, or one before 1970 or after 9999.
    pub day: Option<String>,
    /// Rows of all tables together.
    pub rows: u64,
    /// Records that do not fit their tables in this dataset, and why: not taken in.
    pub left_out: BTreeMap<String, String>,
    /// What was wrong with the log; nothing if it was not read.
    pub damage: Damage,
}

/// What adding a log changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was not in the dataset.
    New,
    /// An earlier state of it was, which it has replaced.
    Grown,
    /// It was in the dataset, as an older program had written it.
    Renewed,
    /// Nothing: it is in the dataset.
    Unchanged,
    /// Nothing: the dataset has all its samples, or more of them.
    Older,
}

/// What is known of a log before it is read.
struct About<'a> {
    id: String,
    source: &'a Identity,
    samples: &'a Samples,
    begin_us: Option<i64>,
    /// The robot's name if the log does not say it.
    robot: Option<&'a str>,
}

/// Others may add the same log at the same time; so often it is tried again.
const ATTEMPTS: u32 = 5;

impl Dataset {
    /// The dataset in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn open(folder: &Path) -> Result<Self, DatasetError> {
        std::fs::create_dir_all(folder).map_err(DatasetError::at("make the folder", folder))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Adds a log, or its new state. Several processes may do so at once. `name` is that of its file, for people; `robot` is
    /// the robot's name if the log does not say it. `progress` gets the position in the log.
    ///
    /// It reads the log three times, and needs about 32 MiB for each of its records.
    ///
    /// # Errors
    /// If the log cannot be read or holds nothing, or the dataset cannot be written. Then nothing of this log is new in the
    /// dataset but what the next call will replace.
    pub fn add(
        &self,
        log: &File,
        name: &str,
        robot: Option<&str>,
        mut progress: impl FnMut(u64),
    ) -> Result<Added, DatasetError> {
        let bytes = log.size().map_err(|source| khz_tlog::Error::Io { offset: 0, source })?;
        let log = Upto { file: log, bytes };
        let begin = Begin::of(&log)?;
        let source = Identity::of(&log, name)?;
        let mut samples = None;
        for _ in 0..ATTEMPTS {
            let known = self.known(&begin.id)?;
            let same = known.iter().find(|known| known.source.is_same(&source));
            if let Some(same) = same.filter(|same| same.dataset == VERSION) {
                return Ok(told(same, Change::Unchanged, Damage::default()));
            }
            let samples = match &samples {
                Some(samples) => samples,
                None => samples.insert(Samples::of(&log)?),
            };
            let related = known.iter().map(|known| (known, samples.relation(&known.samples)));
            let related = same
                .map(|same| (same, Relation::Grown))
                .or_else(|| related.clone().find(|(_, relation)| *relation != Relation::Other));
            let (id, former, change) = match related {
                None => (numbered(&begin.id, known.len() + 1), None, Change::New),
                Some((known, Relation::Older)) => return Ok(told(known, Change::Older, Damage::default())),
                Some((known, _)) if same.is_some() => (known.log.clone(), Some(known), Change::Renewed),
                Some((known, _)) => (known.log.clone(), Some(known), Change::Grown),
            };
            let about = About { id, source: &source, samples, begin_us: begin.time_us, robot };
            let (staged, damage) = self.stage(&log, about, &mut progress)?;
            if let Some(manifest) = self.publish(staged, former)? {
                return Ok(told(&manifest, change, damage));
            }
        }
        Err(DatasetError::Contended)
    }

    /// What is known of the logs that begin with this sample.
    fn known(&self, id: &str) -> Result<Vec<Manifest>, DatasetError> {
        let mut all = Vec::new();
        while let Some(known) = Manifest::read(&self.manifest(&numbered(id, all.len() + 1)))? {
            all.push(known);
        }
        Ok(all)
    }

    fn manifest(&self, id: &str) -> PathBuf {
        self.folder.join("_manifest").join(format!("{id}.json"))
    }

    /// Writes the log's files, not yet in their places.
    fn stage(
        &self,
        log: &Upto<'_>,
        about: About<'_>,
        progress: &mut impl FnMut(u64),
    ) -> Result<(Staged, Damage), DatasetError> {
        let mut names = robots::names(&mut Reader::open(*log)?)?;
        names.retain(|_, name| !name.is_empty());
        let mut reader = Reader::open(*log)?;
        reader.survey()?;
        let is_received = robots::is_received(&reader);
        let mut plan = Plan::new(about.id.clone());
        for record in reader.records() {
            let (table, sender) = robots::sender(record.name(), is_received);
            plan.add(record, table, sender, self.columns(table)?);
        }
        let (plan, left_out) = plan.ready();
        let mut written = Written::new(&plan, Staging::new(&self.folder)?);
        let damage =
            scan(&mut reader, &Selection::default(), progress, |item| written.write(item).map(|()| true))?;
        let day = about.begin_us.and_then(place::day);
        let mut manifest = Manifest {
            dataset: VERSION,
            log: about.id,
            robots: names
                .values()
                .map(String::as_str)
                .chain(about.robot.filter(|_| names.is_empty()))
                .map(str::to_owned)
                .collect(),
            day,
            from_us: written.from_us,
            to_us: written.to_us,
            finished: reader.is_finished(),
            damages: damage.places,
            source: about.source.clone(),
            samples: about.samples.clone(),
            files: Vec::new(),
            left_out,
            khz: env!("CARGO_PKG_VERSION").into(),
        };
        manifest.robots.sort();
        manifest.robots.dedup();
        let day = manifest.day.as_deref().unwrap_or(place::NONE);
        let path = |part: &Part| {
            let robot = place::robot(names.get(&part.sender).map(String::as_str).or(about.robot));
            format!("{}/{robot}/day={day}/{}.parquet", place::encoded(&part.table), part.log)
        };
        let (staging, files) = written.finish(path)?;
        Ok((Staged { staging, files, manifest }, damage))
    }

    /// Puts a log's files in their places, and removes those of its former state that have no successor. None if somebody
    /// else has changed what is known of the log meanwhile.
    fn publish(&self, staged: Staged, known: Option<&Manifest>) -> Result<Option<Manifest>, DatasetError> {
        let Staged { mut staging, files, mut manifest } = staged;
        let _lock = Lock::wait(&self.folder)?;
        let place = self.manifest(&manifest.log);
        if Manifest::read(&place)?.as_ref() != known {
            return Ok(None);
        }
        for file in files {
            let name = &file.table.table;
            let all = self.columns(name)?;
            match joined(all.clone(), &file.columns) {
                Err(why) => _ = manifest.left_out.insert(name.clone(), why),
                Ok(columns) => {
                    if columns != all || !self.table(name).exists() {
                        staging.put(&self.table(name), &described(&columns))?;
                    }
                    staging::in_place(&file.part, &self.folder.join(&file.table.path))?;
                    manifest.files.push(file.table);
                }
            }
        }
        let kept: Vec<PathBuf> = manifest.paths(&self.folder).collect();
        let former = known.into_iter().flat_map(|known| known.paths(&self.folder));
        for path in former.filter(|path| !kept.contains(path)) {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(DatasetError::at("remove", &path)(error));
                }
                _ => {}
            }
        }
        staging.put(&place, &manifest.text())?;
        Ok(Some(manifest))
    }

    fn table(&self, name: &str) -> PathBuf {
        self.folder.join("_tables").join(format!("{}.json", place::encoded(name)))
    }

    /// The columns a table has by now.
    fn columns(&self, table: &str) -> Result<Vec<Column>, DatasetError> {
        let path = self.table(table);
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(tables::fixed(table)),
            text => text.map_err(DatasetError::at("read", &path))?,
        };
        let wrong = |why: String| DatasetError::Manifest { path: path.clone(), why };
        let read: Vec<(String, String)> =
            serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        let of = |(name, word): &(String, String)| {
            tables::kind(word)
                .map(|kind| tables::column(name, kind))
                .ok_or_else(|| wrong(format!("no type {word}")))
        };
        let known: Vec<Column> = read.iter().skip(1).map(of).collect::<Result<_, _>>()?;
        // A newer program may have more columns of its own.
        joined(known, &tables::fixed(table)).map_err(wrong)
    }
}

/// The id of the n-th log that begins with a sample.
fn numbered(id: &str, number: usize) -> String {
    if number == 1 { id.to_owned() } else { format!("{id}-{number}") }
}

/// What there is to say of a log that is in.
fn told(manifest: &Manifest, change: Change, damage: Damage) -> Added {
    Added {
        log: manifest.log.clone(),
        change,
        robots: manifest.robots.clone(),
        day: manifest.day.clone(),
        rows: manifest.rows(),
        left_out: manifest.left_out.clone(),
        damage,
    }
}
