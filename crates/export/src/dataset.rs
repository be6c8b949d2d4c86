//! Many logs as one dataset: Parquet files in Hive's layout, by robot and day, which DuckDB, Polars, Spark and Ray read as
//! they are.
//!
//! ```text
//! servo/robot=quad1/day=2026-03-01/0d3c….parquet    a table per record, a file per log
//! _dataset.json                                     the version of the layout
//! _manifest/0d3c….json                              which logs are in
//! _samples/0d3c….digests                            their samples, to know them again
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
use identity::{Begin, Digests, Identity, Relation, Samples};
use khz_tlog::{Reader, Source};
use manifest::{About, Manifest, VERSION, text_of};
use staged::{Part, Routes, Staged, Written};
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
    /// The robots it is of; empty if it has no name of one.
    pub robots: Vec<String>,
    /// The UTC day on which it begins; none if it has no time, or one before 1970 or after 9999.
    pub day: Option<String>,
    /// Rows of all tables together.
    pub rows: u64,
    /// Records that do not fit their tables in this dataset, and why: not taken in.
    pub left_out: BTreeMap<String, String>,
    /// Logs with the same first sample that are in, too, and of which this is neither an earlier nor a later state: it may be
    /// a damaged copy of one. Each with the name of its file. Only if the log is new.
    pub alike: Vec<(String, String)>,
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

/// What is known of a log before its tables are written.
struct Facts<'a> {
    id: String,
    source: &'a Identity,
    samples: &'a Samples,
    begin_us: Option<i64>,
    /// The robot's name if the log does not have it.
    robot: Option<&'a str>,
}

/// The file with the layout of a dataset.
const ABOUT: &str = "_dataset.json";

/// Others may add the same log at the same time; so often it is tried again.
const ATTEMPTS: u32 = 5;

impl Dataset {
    /// The dataset in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// If the folder cannot be made, has files of others and is no dataset, or a newer program has written it.
    pub fn open(folder: &Path) -> Result<Self, DatasetError> {
        std::fs::create_dir_all(folder).map_err(DatasetError::at("make the folder", folder))?;
        let is_dataset = About::is_there(&folder.join(ABOUT))?
            || ["_manifest", "_tables"].iter().any(|name| folder.join(name).is_dir());
        if !is_dataset && !staging::is_unused(folder).map_err(DatasetError::at("read", folder))? {
            return Err(DatasetError::Foreign(folder.to_owned()));
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// Adds a log, or its new state. Several processes may do so at once. `name` is that of its file, for people; `robot` is
    /// the robot's name if the log does not have it. `progress` gets the position in the log.
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
        let io = |source| khz_tlog::Error::Io { offset: 0, source };
        if !log.metadata().map_err(io)?.is_file() {
            return Err(DatasetError::NoFile);
        }
        let bytes = log.size().map_err(io)?;
        let log = Upto { file: log, bytes };
        let begin = Begin::of(&log)?;
        let source = Identity::of(&log, name)?;
        let mut samples = None;
        for _ in 0..ATTEMPTS {
            let known = self.known(&begin.id)?;
            let same = known.values().find(|known| known.source.is_same(&source));
            if let Some(same) = same.filter(|same| same.dataset == VERSION) {
                return Ok(added(same, Change::Unchanged, Damage::default()));
            }
            let (samples, digests) = match &samples {
                Some(samples) => samples,
                None => samples.insert(Samples::of(&log, &staging::folder(&self.folder)?)?),
            };
            let mut related = same.map(|same| (same, Relation::Grown));
            for known in known.values() {
                if related.is_none() {
                    let theirs = self.digests(&known.log);
                    let relation = samples.relation(digests, &known.samples, &theirs)?;
                    related = Some((known, relation)).filter(|_| relation != Relation::Other);
                }
            }
            let (id, former, change) = match related {
                None => {
                    let free = (1..).find(|number| !known.contains_key(number)).unwrap_or(u32::MAX);
                    (numbered(&begin.id, free), None, Change::New)
                }
                Some((known, Relation::Older)) => return Ok(added(known, Change::Older, Damage::default())),
                Some((known, _)) if same.is_some() => (known.log.clone(), Some(known), Change::Renewed),
                Some((known, _)) => (known.log.clone(), Some(known), Change::Grown),
            };
            let facts = Facts { id, source: &source, samples, begin_us: begin.time_us, robot };
            let (staged, damage) = self.stage(&log, &facts, &mut progress)?;
            let is_current = || Ok(self.known(&begin.id)? == known);
            if let Some(manifest) = self.publish(staged, former, digests, is_current)? {
                let mut added = added(&manifest, change, damage);
                if change == Change::New {
                    let alike = known.values().map(|known| (known.log.clone(), known.source.name.clone()));
                    added.alike = alike.collect();
                }
                return Ok(added);
            }
        }
        Err(DatasetError::Contended)
    }

    /// What is known of the logs that begin with this sample, by their numbers; some may have been removed.
    fn known(&self, id: &str) -> Result<BTreeMap<u32, Manifest>, DatasetError> {
        let folder = self.folder.join("_manifest");
        let mut all = BTreeMap::new();
        let numbers = names(&folder)?.into_iter().filter_map(|name| {
            let behind = name.strip_suffix(".json")?.strip_prefix(id)?;
            if behind.is_empty() { Some(1) } else { behind.strip_prefix('-')?.parse().ok() }
        });
        for number in numbers {
            let log = numbered(id, number);
            if let Some(known) = Manifest::read(&self.manifest(&log), &log)? {
                all.insert(number, known);
            }
        }
        Ok(all)
    }

    fn manifest(&self, log: &str) -> PathBuf {
        self.folder.join("_manifest").join(format!("{log}.json"))
    }

    fn digests(&self, log: &str) -> PathBuf {
        self.folder.join("_samples").join(format!("{log}.digests"))
    }

    /// Writes the log's files, not yet in their places.
    fn stage(
        &self,
        log: &Upto<'_>,
        about: &Facts<'_>,
        progress: &mut impl FnMut(u64),
    ) -> Result<(Staged, Damage), DatasetError> {
        let mut names = robots::names(&mut Reader::open(*log)?)?;
        names.retain(|_, name| !name.is_empty());
        let mut reader = Reader::open(*log)?;
        reader.survey()?;
        let is_received = robots::is_received(&reader);
        let mut routes = Routes::new(about.id.clone());
        for record in reader.records() {
            let (table, sender) = robots::sender(record.name(), is_received);
            routes.add(record, table, sender, self.columns(table)?);
        }
        let (routes, left_out) = routes.ready();
        let mut written = Written::new(&routes, Staging::new(&self.folder)?);
        let damage =
            scan(&mut reader, &Selection::default(), progress, |item| written.write(item).map(|()| true))?;
        let day = about.begin_us.and_then(place::day);
        let mut manifest = Manifest {
            dataset: VERSION,
            log: about.id.clone(),
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

    /// Puts a log's files in their places, and removes those of its former state, and of an export that was killed, that have
    /// no successor. `None` if what is known of the log is outdated: another process has changed it.
    fn publish(
        &self,
        staged: Staged,
        former: Option<&Manifest>,
        digests: &Digests,
        is_current: impl FnOnce() -> Result<bool, DatasetError>,
    ) -> Result<Option<Manifest>, DatasetError> {
        let Staged { mut staging, files, mut manifest } = staged;
        let _lock = Lock::wait(&self.folder)?;
        if !is_current()? {
            return Ok(None);
        }
        let about = self.folder.join(ABOUT);
        if !About::is_there(&about)? {
            staging.put(&about, &About::text())?;
        }
        if let Some(file) = files.iter().find(|file| !place::is_of(&file.table.path, &manifest.log)) {
            return Err(DatasetError::Outside(file.table.path.clone()));
        }
        let mut old = self.files_of(&manifest.log, manifest.day.as_deref())?;
        old.extend(former.into_iter().flat_map(|former| former.paths(&self.folder)));
        let is_replaced = |path: &Path| files.iter().any(|file| path == self.folder.join(&file.table.path));
        old.iter().filter(|path| !is_replaced(path)).try_for_each(|path| self.without_links(path))?;
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
        for path in old.into_iter().filter(|path| !kept.contains(path)) {
            self.without_links(&path)?;
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(DatasetError::at("remove", &path)(error));
                }
                _ => {}
            }
        }
        let place = self.digests(&manifest.log);
        staging.put_from(&place, digests.reader().map_err(DatasetError::at("read", &place))?)?;
        staging.put(&self.manifest(&manifest.log), &manifest.text())?;
        Ok(Some(manifest))
    }

    /// The files of a log that are there, whether or not a manifest lists them: an export that was killed before it wrote
    /// the manifest may have had another name for the robot. A log always begins on the same day.
    fn files_of(&self, log: &str, day: Option<&str>) -> Result<Vec<PathBuf>, DatasetError> {
        let day = format!("day={}", day.unwrap_or(place::NONE));
        let mut found = Vec::new();
        for table in names(&self.folder)?.into_iter().filter(|name| !name.starts_with(['_', '.'])) {
            let table = self.folder.join(table);
            for robot in names(&table)?.into_iter().filter(|name| name.starts_with("robot=")) {
                let folder = table.join(robot).join(&day);
                let files = names(&folder)?.into_iter().filter(|name| place::is_file_of(name, log));
                found.extend(files.map(|name| folder.join(name)));
            }
        }
        Ok(found)
    }

    /// Refuses to remove what lies beyond a link: it may be anything.
    fn without_links(&self, path: &Path) -> Result<(), DatasetError> {
        let below = |path: &&Path| *path != self.folder;
        let is_link = |path: &&Path| path.symlink_metadata().is_ok_and(|about| about.is_symlink());
        match path.ancestors().take_while(below).find(is_link) {
            None => Ok(()),
            Some(link) => Err(DatasetError::Manifest {
                path: link.to_owned(),
                why: format!("it is a symbolic link, and {} would have to be removed", path.display()),
            }),
        }
    }

    fn table(&self, name: &str) -> PathBuf {
        self.folder.join("_tables").join(format!("{}.json", place::encoded(name)))
    }

    /// The columns a table has by now.
    fn columns(&self, table: &str) -> Result<Vec<Column>, DatasetError> {
        let path = self.table(table);
        let Some(text) = text_of(&path)? else { return Ok(tables::fixed(table)) };
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
fn numbered(id: &str, number: u32) -> String {
    if number == 1 { id.to_owned() } else { format!("{id}-{number}") }
}

/// The names in a folder; none if it is no folder. Ours are all text.
fn names(folder: &Path) -> Result<Vec<String>, DatasetError> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries.map_err(DatasetError::at("read", folder))?,
    };
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry
            .map(|entry| entry.file_name().into_string().ok())
            .map_err(DatasetError::at("read", folder))
            .transpose()
    };
    entries.filter_map(name).collect()
}

/// The report on a log that is in.
fn added(manifest: &Manifest, change: Change, damage: Damage) -> Added {
    Added {
        log: manifest.log.clone(),
        change,
        robots: manifest.robots.clone(),
        day: manifest.day.clone(),
        rows: manifest.rows(),
        left_out: manifest.left_out.clone(),
        alike: Vec::new(),
        damage,
    }
}
