//! A log's files, before they have their places in a dataset.

use super::error::DatasetError;
use super::manifest::{Manifest, Table};
use super::staging::{self, Closed, Staging};
use super::tables::{self, Layout, Row, joined};
use crate::columns::{Column, fill_row};
use crate::parquet::Sheet;
use crate::{ExportError, plain};
use khz_tlog::{Item, RecordInfo};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufWriter};
use std::path::PathBuf;

/// The rows of one sender of a log in one table.
pub(super) struct Part {
    pub table: String,
    pub sender: Option<u32>,
    /// What its rows call the log.
    pub log: String,
    columns: Vec<Column>,
}

/// Which record's samples go where, and how.
#[derive(Default)]
pub(super) struct Routes {
    log: String,
    parts: Vec<Part>,
    /// By the place of a record's schema.
    rows: Vec<(u64, usize, Vec<Row>)>,
    left_out: BTreeMap<String, String>,
}

/// For each record, by the place of its schema: the part that its samples go to, and the rows they become.
type Layouts = HashMap<u64, (usize, Vec<Layout>)>;

pub(super) struct Ready {
    parts: Vec<Part>,
    layouts: Layouts,
}

impl Routes {
    pub fn new(log: String) -> Self {
        Self { log, ..Self::default() }
    }

    /// Plans for a record, whose table has these columns so far.
    pub fn add(&mut self, record: &RecordInfo, table: &str, sender: Option<u32>, known: Vec<Column>) {
        let rows = match tables::rows(table, record.ty()) {
            Ok(rows) => rows,
            Err(why) => {
                self.left_out.insert(plain(record.name()).into_owned(), why);
                return;
            }
        };
        let is_there = |part: &Part| part.table == table && part.sender == sender;
        let place = self.parts.iter().position(is_there);
        let before = place.and_then(|at| self.parts.get(at)).map_or(known, |part| part.columns.clone());
        match joined(before, rows.iter().flat_map(Row::columns)) {
            Err(why) => _ = self.left_out.insert(plain(record.name()).into_owned(), why),
            Ok(columns) => {
                let place = place.unwrap_or(self.parts.len());
                match self.parts.get_mut(place) {
                    Some(part) => part.columns = columns,
                    None => {
                        let log = sender
                            .map_or_else(|| self.log.clone(), |number| format!("{}@{number}", self.log));
                        self.parts.push(Part { table: table.to_owned(), sender, log, columns });
                    }
                }
                self.rows.push((record.position(), place, rows));
            }
        }
    }

    /// The routes for all records that were added, and why others are left out.
    pub fn ready(self) -> (Ready, BTreeMap<String, String>) {
        let Self { parts, rows, left_out, .. } = self;
        let layout = |(position, place, rows): (u64, usize, Vec<Row>)| {
            let columns = parts.get(place).map_or(&[][..], |part: &Part| part.columns.as_slice());
            (position, (place, rows.into_iter().map(|row| row.layout(columns)).collect()))
        };
        let layouts = rows.into_iter().map(layout).collect();
        (Ready { parts, layouts }, left_out)
    }
}

/// Whether a time is one for engines: DuckDB takes the ends of the numbers for infinity.
fn is_finite(time_us: &i64) -> bool {
    time_us.unsigned_abs() < i64::MAX.unsigned_abs()
}

/// A file being written.
struct Open {
    path: PathBuf,
    out: Sheet<BufWriter<Closed>>,
    rows: u64,
}

/// What has been written of a log.
pub(super) struct Written<'a> {
    routes: &'a Ready,
    staging: Staging,
    open: BTreeMap<usize, Open>,
    pub from_us: Option<i64>,
    pub to_us: Option<i64>,
}

/// A file that is whole.
pub(super) struct Whole {
    pub table: Table,
    pub part: PathBuf,
    pub columns: Vec<Column>,
}

/// A log's files, and what the dataset will know of it.
pub(super) struct Staged {
    pub staging: Staging,
    pub files: Vec<Whole>,
    pub manifest: Manifest,
}

impl<'a> Written<'a> {
    pub fn new(routes: &'a Ready, staging: Staging) -> Self {
        Self { routes, staging, open: BTreeMap::new(), from_us: None, to_us: None }
    }

    /// Writes the rows of a sample.
    pub fn write(&mut self, item: &Item<'_>) -> Result<(), ExportError> {
        let Some((place, layouts)) = self.routes.layouts.get(&item.record.position()) else { return Ok(()) };
        let Some(part) = self.routes.parts.get(*place) else { return Ok(()) };
        let mut cells = Vec::new();
        fill_row(item.record.ty(), item.value()?, &mut cells);
        let open = match self.open.entry(*place) {
            std::collections::btree_map::Entry::Occupied(open) => open.into_mut(),
            std::collections::btree_map::Entry::Vacant(none) => {
                let (path, out) = self.staging.file().map_err(io::Error::other)?;
                let columns: Vec<&Column> = part.columns.iter().collect();
                none.insert(Open { path, out: Sheet::new(out, &columns)?, rows: 0 })
            }
        };
        for layout in layouts {
            open.out.write(item.time_us.filter(is_finite), layout.cells(&part.log, &cells))?;
            open.rows += 1;
        }
        self.from_us = self.from_us.into_iter().chain(item.time_us).min();
        self.to_us = self.to_us.into_iter().chain(item.time_us).max();
        Ok(())
    }

    /// Ends the files; `path` is where each will be.
    pub fn finish(self, path: impl Fn(&Part) -> String) -> Result<(Staging, Vec<Whole>), DatasetError> {
        let mut files = Vec::new();
        for (place, open) in self.open {
            let Some(part) = self.routes.parts.get(place) else { continue };
            staging::whole(&open.path, open.out.finish()?)?;
            let table = Table { table: part.table.clone(), path: path(part), rows: open.rows };
            files.push(Whole { table, part: open.path, columns: part.columns.clone() });
        }
        Ok((self.staging, files))
    }
}
