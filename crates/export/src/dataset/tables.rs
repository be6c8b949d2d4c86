//! The tables of a dataset: which columns they have, and how samples become their rows.

use crate::columns::{Cell, Column, Kind, columns};
use crate::names::plain;
use khz_tlog::Type;
use std::collections::HashMap;

/// A table whose columns are the same in every file of every dataset: what a run of a robot records.
struct Fixed {
    name: &'static str,
    /// The column with the names of the record's members, of which each has a row of its own.
    key: Option<&'static str>,
    /// Kinds, each with the columns that have it.
    columns: &'static [(Kind, &'static [&'static str])],
}

use Kind::{Bool, Float32, Float64, Int, Text};

/// `vectors/dataset.json` pins them: a column may be added at the end of a table, none may change or go.
const FIXED: &[Fixed] = &[
    Fixed {
        name: "tick",
        key: None,
        columns: &[
            (
                Int,
                &[
                    "number",
                    "planned_ns",
                    "waited_for_ns",
                    "due_ns",
                    "ready_ns",
                    "started_ns",
                    "wake_latency_ns",
                    "encode_ns",
                    "send_ns",
                    "collect_ns",
                    "imu_ns",
                    "decide_ns",
                    "control_ns",
                    "record_ns",
                    "loop_compute_ns",
                    "cycle_ns",
                    "cpu_ns",
                    "away_ns",
                    "away_in_cycle_ns",
                    "queued_before_ns",
                    "queued_ns",
                    "faults_ns",
                    "skipped",
                    "missed",
                    "late",
                    "unexpected",
                    "blocked_before",
                    "blocked",
                    "involuntary",
                    "minor_faults",
                    "major_faults",
                ],
            ),
            (Bool, &["overrun", "without_frame", "imu_missed", "controlled", "controller_ran"]),
            (Text, &["cause", "phase"]),
        ],
    },
    Fixed {
        name: "servo",
        key: Some("servo"),
        columns: &[
            (Float32, &["position", "velocity", "torque", "voltage", "temperature"]),
            (Text, &["doing", "mode"]),
            (Int, &["fault"]),
            (Bool, &["fresh"]),
            (Int, &["age_us", "round_trip_ns"]),
        ],
    },
    Fixed {
        name: "command",
        key: Some("servo"),
        columns: &[
            (Text, &["kind"]),
            (Float32, &["position", "velocity", "torque", "kp_scale", "kd_scale", "max_torque"]),
        ],
    },
    Fixed {
        name: "imu",
        key: None,
        columns: &[
            (Float32, &["attitude_0", "attitude_1", "attitude_2", "attitude_3"]),
            (Float32, &["rate_0", "rate_1", "rate_2", "acceleration_0", "acceleration_1", "acceleration_2"]),
            (Bool, &["fresh"]),
            (Int, &["age_us"]),
        ],
    },
    Fixed {
        name: "event",
        key: None,
        columns: &[(Int, &["tick"]), (Text, &["from", "to", "cause", "servo"]), (Bool, &["trouble"])],
    },
    Fixed {
        name: "parameter",
        key: None,
        columns: &[(Int, &["tick"]), (Text, &["name"]), (Float64, &["value", "before"]), (Text, &["by"])],
    },
    Fixed {
        name: "teleop",
        key: None,
        columns: &[
            (Int, &["tick"]),
            (Float32, &["forward", "left", "turn", "height", "roll", "pitch"]),
            (Int, &["age_us"]),
            (Text, &["by"]),
        ],
    },
    Fixed { name: "parameters", key: None, columns: &[(Text, &["text"])] },
    Fixed { name: "robot", key: None, columns: &[(Text, &["name", "file", "passport", "clock"])] },
];

/// The column with the id of the log that a row is of.
pub(super) const LOG: &str = "log";

/// The columns that tables begin with, behind `time`, in a table of this name.
pub(super) fn fixed(table: &str) -> Vec<Column> {
    let fixed = FIXED.iter().find(|fixed| fixed.name == table);
    let head = [(LOG, Text)].into_iter().chain(fixed.and_then(|fixed| fixed.key).map(|key| (key, Text)));
    let groups = fixed.map_or(&[][..], |fixed| fixed.columns);
    let rest = groups.iter().flat_map(|(kind, names)| names.iter().map(|name| (*name, *kind)));
    head.chain(rest).map(|(name, kind)| column(name, kind)).collect()
}

/// The tables that every dataset has the same of.
pub fn fixed_tables() -> impl Iterator<Item = (&'static str, Vec<Column>)> {
    FIXED.iter().map(|table| (table.name, fixed(table.name)))
}

pub(super) fn column(name: &str, kind: Kind) -> Column {
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
    let key = FIXED.iter().find(|fixed| fixed.name == table).and_then(|fixed| fixed.key);
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
            (Kind::Float32 | Kind::Float64, Some(known @ (Kind::Float32 | Kind::Float64))) => known,
            (Kind::Uint, _) => Int,
            (Kind::Float32, None) => Float64,
            (Kind::Json, _) => Text,
            (kind, _) => kind,
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
    places: Vec<(Option<usize>, Kind)>,
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
fn fitted(cell: Cell<'_>, kind: Kind) -> Cell<'_> {
    match (cell, kind) {
        (Cell::Uint(value), Int) => i64::try_from(value).map_or(Cell::Empty, Cell::Int),
        (Cell::Float32(value), Float64) => Cell::Float64(value.into()),
        (Cell::Float64(value), Float32) => Cell::Float32(value as f32),
        (cell, _) => cell,
    }
}

/// The word for a kind of column.
pub(super) fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "bool",
        Kind::Int | Kind::Uint => "int64",
        Kind::Float32 => "float32",
        Kind::Float64 => "float64",
        Kind::Text | Kind::Json => "text",
        Kind::Bytes => "bytes",
    }
}

/// The kind of column that a word stands for.
pub(super) fn kind(word: &str) -> Option<Kind> {
    [Bool, Int, Float32, Float64, Text, Kind::Bytes].into_iter().find(|kind| self::word(*kind) == word)
}
