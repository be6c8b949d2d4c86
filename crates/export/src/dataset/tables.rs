//! The tables of a dataset: which columns they have, and how samples become their rows.

use crate::columns::{Cell, Column, ColumnType, columns};
use crate::names::plain;
use khz_run::record::{KNOWN, Known};
use khz_tlog::Type;
use std::collections::HashMap;

use ColumnType::{Bool, Float32, Float64, Int, Text};

/// The column with the id of the log that a row is of.
pub(super) const LOG: &str = "log";

/// A record that every run has. `vectors/dataset.json` pins its columns: one may be added at the end of a table, none may change
/// or go.
fn known(table: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == table)
}

/// The columns that tables begin with, behind `time`, in a table of this name.
pub(super) fn fixed(table: &str) -> Vec<Column> {
    let known = known(table);
    let head = [LOG].into_iter().chain(known.and_then(|known| known.key)).map(|name| column(name, Text));
    let rest = known.map_or_else(Vec::new, |known| columns(&(known.schema)()));
    head.chain(rest.into_iter().map(|of| column(&of.path.replace('.', "_"), widened(of.kind)))).collect()
}

/// Kinds as every dataset has them.
fn widened(kind: ColumnType) -> ColumnType {
    match kind {
        ColumnType::Uint => Int,
        ColumnType::Json => Text,
        kind => kind,
    }
}

/// The tables that every dataset has the same of.
pub fn fixed_tables() -> impl Iterator<Item = (&'static str, Vec<Column>)> {
    KNOWN.iter().map(|table| (table.name, fixed(table.name)))
}

pub(super) fn column(name: &str, kind: ColumnType) -> Column {
    Column { path: name.to_owned(), name: name.to_owned(), kind, unit: None }
}

/// One row that a sample becomes: the name of the member it is of, and for each column of its own the place of its cell
/// among those of [`fill_row`](crate::fill_row).
#[derive(Debug)]
pub(super) struct Row {
    member: Option<String>,
    cells: Vec<(Column, usize)>,
}

/// The rows that a sample of a record becomes.
///
/// # Errors
/// Fields that would be one column: which of them it were would depend on their order.
pub(super) fn rows(table: &str, ty: &Type) -> Result<Vec<Row>, String> {
    let key = known(table).and_then(|known| known.key);
    let Some((key, fields)) = key.zip(members(ty)) else {
        return Ok(vec![Row { member: None, cells: named(table, None, columns(ty), 0)? }]);
    };
    let mut begin = 0;
    let row = |field: &khz_tlog::Field| {
        let columns = columns(&field.ty);
        let at = begin;
        begin += columns.len();
        let cells = named(table, Some(key), columns, at)?;
        Ok(Row { member: Some(plain(&field.name).into_owned()), cells })
    };
    fields.iter().map(row).collect()
}

/// The fields of an object of objects.
fn members(ty: &Type) -> Option<&[khz_tlog::Field]> {
    let Type::Object(fields) = ty else { return None };
    fields.iter().all(|field| matches!(field.ty, Type::Object(_))).then_some(fields)
}

/// The columns as a dataset has them, with their places from `begin` on: underscores for dots, which engines take for parts
/// of a name, a `_2` behind what every table has, and of a record of one's own the widest kind of number, so that a record that changes its integers or
/// floats keeps its column.
fn named(
    table: &str,
    key: Option<&str>,
    columns: Vec<Column>,
    begin: usize,
) -> Result<Vec<(Column, usize)>, String> {
    let fixed = fixed(table);
    let mut paths = HashMap::new();
    let one = |(at, column): (usize, Column)| {
        let mut name = plain(&column.path).replace('.', "_");
        if ["time", LOG, "robot", "day"].iter().chain(&key).any(|taken| name.eq_ignore_ascii_case(taken)) {
            name.push_str("_2");
        }
        if let Some(other) = paths.insert(name.to_lowercase(), column.path.clone()) {
            let (other, path) = (plain(&other), plain(&column.path));
            return Err(format!("its fields {other} and {path} would both be the column {name}"));
        }
        let known = fixed.iter().find(|fixed| fixed.name == name).map(|fixed| fixed.kind);
        let kind = match (column.kind, known) {
            (
                ColumnType::Float32 | ColumnType::Float64,
                Some(known @ (ColumnType::Float32 | ColumnType::Float64)),
            ) => known,
            (ColumnType::Float32, None) => Float64,
            (kind, _) => widened(kind),
        };
        Ok((Column { name, kind, ..column }, begin + at))
    };
    columns.into_iter().enumerate().map(one).collect()
}

impl Row {
    /// The columns that the row has of its own.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.cells.iter().map(|(column, _)| column)
    }

    /// The row as one of a table of these columns.
    pub fn layout(self, columns: &[Column]) -> Layout {
        let own: HashMap<String, usize> =
            self.cells.iter().map(|(column, at)| (column.name.to_lowercase(), *at)).collect();
        let place = |column: &Column| (own.get(&column.name.to_lowercase()).copied(), column.kind);
        // Behind those that are no cells of the sample.
        let head = 1 + usize::from(self.member.is_some());
        Layout { places: columns.iter().skip(head).map(place).collect(), member: self.member }
    }
}

/// The columns of a table, and behind them those that are new. Names that differ in case only are the same, as they are
/// for Spark and DuckDB.
///
/// # Errors
/// A column that is of another kind here.
pub(super) fn joined<'a>(
    mut known: Vec<Column>,
    more: impl IntoIterator<Item = &'a Column>,
) -> Result<Vec<Column>, String> {
    let mut places: HashMap<String, usize> =
        known.iter().enumerate().map(|(at, column)| (column.name.to_lowercase(), at)).collect();
    for column in more {
        let place = *places.entry(column.name.to_lowercase()).or_insert(known.len());
        match known.get_mut(place) {
            None => known.push(column.clone()),
            Some(there) if there.kind != column.kind => {
                let (name, here, there) = (&column.name, word(column.kind), word(there.kind));
                return Err(format!("its column {name} is {here} here and {there} in the dataset"));
            }
            Some(there) => there.unit = there.unit.take().or_else(|| column.unit.clone()),
        }
    }
    Ok(known)
}

/// The columns as a file has them: names and types, in their order.
pub(super) fn described(columns: &[Column]) -> Vec<u8> {
    let lines = columns.iter().map(|column| (column.name.as_str(), word(column.kind)));
    let all: Vec<_> = [("time", "timestamp")].into_iter().chain(lines).collect();
    // Texts can always be written as JSON.
    serde_json::to_vec_pretty(&all).unwrap_or_default()
}

/// How a sample becomes one row.
#[derive(Debug)]
pub(super) struct Layout {
    member: Option<String>,
    places: Vec<(Option<usize>, ColumnType)>,
}

impl Layout {
    /// The cells of the row, behind its time.
    pub fn cells<'a>(&'a self, log: &'a str, cells: &'a [Cell<'a>]) -> impl Iterator<Item = Cell<'a>> {
        let head = [Some(log), self.member.as_deref()].into_iter().flatten().map(Cell::Text);
        let rest = self.places.iter().map(|(at, kind)| match at.and_then(|at| cells.get(at)) {
            Some(cell) => fitted(cell.clone(), *kind),
            None => Cell::Empty,
        });
        head.chain(rest)
    }
}

/// The cell as a column of this kind has it. An integer beyond 64 bits with sign has no place there.
fn fitted(cell: Cell<'_>, kind: ColumnType) -> Cell<'_> {
    match (cell, kind) {
        (Cell::Uint(value), Int) => i64::try_from(value).map_or(Cell::Empty, Cell::Int),
        (Cell::Float32(value), Float64) => Cell::Float64(value.into()),
        (Cell::Float64(value), Float32) => Cell::Float32(value as f32),
        (cell, _) => cell,
    }
}

/// The word for a kind of column.
pub(super) fn word(kind: ColumnType) -> &'static str {
    match kind {
        ColumnType::Bool => "bool",
        ColumnType::Int | ColumnType::Uint => "int64",
        ColumnType::Float32 => "float32",
        ColumnType::Float64 => "float64",
        ColumnType::Text | ColumnType::Json => "text",
        ColumnType::Bytes => "bytes",
    }
}

/// The kind of column that a word stands for.
pub(super) fn kind(word: &str) -> Option<ColumnType> {
    [Bool, Int, Float32, Float64, Text, ColumnType::Bytes].into_iter().find(|kind| self::word(*kind) == word)
}
