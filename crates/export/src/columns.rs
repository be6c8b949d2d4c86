//! Records as tables: one row per sample, one column per number or text.

use crate::json::Json;
use crate::names::plain;
use khz_tlog::{Type, Value};
use std::collections::HashSet;

/// Fixed arrays up to this length have a column per item; longer ones, and everything else whose number of values can
/// change, are one column of JSON.
const SPREAD: u64 = 64;

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Where it comes from, such as `front_left_hip.position` or `rate.0`; `value` when the record is no object.
    pub path: String,
    /// Its heading in a table: the path, with a number behind it where a column before has the same, and where the path
    /// is `time`, the heading of the log's own times; what a terminal obeys is escaped. Names that differ in case only count as the same, as they do for
    /// many programs that read tables.
    pub name: String,
    /// What its cells are.
    pub kind: ColumnType,
    /// The unit of its numbers, if the schema has one.
    pub unit: Option<String>,
}

/// What a column holds. Any cell may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Truth values.
    Bool,
    /// Signed integers; timestamps and durations in µs.
    Int,
    /// Unsigned integers.
    Uint,
    /// Binary32 numbers.
    Float32,
    /// Binary64 numbers.
    Float64,
    /// Texts and names of enums.
    Text,
    /// Bytes.
    Bytes,
    /// JSON of whatever has no fixed shape.
    Json,
}

/// One cell of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// No value.
    Empty,
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A binary32 number.
    Float32(f32),
    /// A binary64 number.
    Float64(f64),
    /// A text.
    Text(&'a str),
    /// A text made for this cell.
    Made(String),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// The columns of a record.
pub fn columns(ty: &Type) -> Vec<Column> {
    let mut all = Vec::new();
    spread(ty, String::new(), None, &mut all);
    let mut names = Names::default();
    names.unique(TIME);
    all.iter_mut().for_each(|column| column.name = names.unique(&plain(&column.path)));
    all
}

/// The heading of the log's own times.
pub(crate) const TIME: &str = "time";

/// Names given so far, none twice, also for a disk or a program to which `A` and `a` are the same.
#[derive(Default)]
pub struct Names(HashSet<String>);

impl Names {
    /// `name`, with a number behind it if it was given before, in whatever case.
    pub fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        let mut number = 2;
        while !self.0.insert(unique.to_lowercase()) {
            unique = format!("{name}_{number}");
            number += 1;
        }
        unique
    }
}

/// Fills `row` with the cells of `value`, in the order of [`columns`].
pub fn fill_row<'a>(ty: &Type, value: Value<'a>, row: &mut Vec<Cell<'a>>) {
    row.clear();
    fill(ty, Some(value), row);
}

fn spread(ty: &Type, path: String, unit: Option<&str>, all: &mut Vec<Column>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (ty, optional(ty)) {
        (Type::Object(fields), _) => {
            fields.iter().for_each(|field| spread(&field.ty, below(&field.name), field.unit(), all));
        }
        (Type::FixedArray(size, item), _) if *size <= SPREAD => {
            (0..*size).for_each(|index| spread(item, below(&index.to_string()), unit, all));
        }
        (_, Some(inner)) => spread(inner, path, unit, all),
        (Type::Null, _) => {}
        (leaf, _) => {
            let path = if path.is_empty() { "value".to_owned() } else { path };
            all.push(Column { path, name: String::new(), kind: kind(leaf), unit: unit.map(str::to_owned) });
        }
    }
}

fn fill<'a>(ty: &Type, value: Option<Value<'a>>, row: &mut Vec<Cell<'a>>) {
    match (ty, optional(ty)) {
        (Type::Object(fields), _) => {
            let mut values = match value {
                Some(Value::Object(object)) => Some(object),
                _ => None,
            };
            for field in fields {
                let value = values.as_mut().and_then(Iterator::next).map(|(_, value)| value);
                fill(&field.ty, value, row);
            }
        }
        (Type::FixedArray(size, item), _) if *size <= SPREAD => {
            let mut values = match value {
                Some(Value::Array(items)) => Some(items),
                _ => None,
            };
            (0..*size).for_each(|_| fill(item, values.as_mut().and_then(Iterator::next), row));
        }
        (_, Some(inner)) => fill(inner, value.filter(|value| *value != Value::Null), row),
        (Type::Null, _) => {}
        // JSON whatever the value, so that a column is of one kind.
        _ if kind(ty) == ColumnType::Json => row.push(value.map_or(Cell::Empty, json)),
        _ => row.push(value.map_or(Cell::Empty, cell)),
    }
}

fn cell(value: Value<'_>) -> Cell<'_> {
    match value {
        Value::Null => Cell::Empty,
        Value::Bool(value) => Cell::Bool(value),
        Value::Int(value) | Value::Timestamp(value) | Value::Duration(value) => Cell::Int(value),
        Value::Uint(value) => Cell::Uint(value),
        Value::Float32(value) => Cell::Float32(value),
        Value::Float64(value) => Cell::Float64(value),
        Value::Bytes(bytes) => Cell::Bytes(bytes),
        Value::String(text) => Cell::Text(text),
        Value::Enum(symbol) => match symbol.name {
            Some(name) => Cell::Text(name),
            None => Cell::Made(symbol.value.to_string()),
        },
        shapeless => Cell::Made(Json(shapeless).to_string()),
    }
}

fn json(value: Value<'_>) -> Cell<'_> {
    match value {
        Value::Null => Cell::Empty,
        value => Cell::Made(Json(value).to_string()),
    }
}

/// The type of a value that may be absent.
pub(crate) fn optional(ty: &Type) -> Option<&Type> {
    match ty {
        Type::Union(members) => match members.as_slice() {
            [Type::Null, inner] | [inner, Type::Null] => Some(inner),
            _ => None,
        },
        _ => None,
    }
}

fn kind(ty: &Type) -> ColumnType {
    match ty {
        Type::Bool => ColumnType::Bool,
        Type::Int(_) | Type::VarInt | Type::Timestamp | Type::Duration => ColumnType::Int,
        Type::Uint(_) | Type::VarUint => ColumnType::Uint,
        Type::Float32 => ColumnType::Float32,
        Type::Float64 => ColumnType::Float64,
        Type::String | Type::Enum { .. } => ColumnType::Text,
        Type::Bytes => ColumnType::Bytes,
        _ => ColumnType::Json,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_tlog::Field;

    #[test]
    fn a_record_becomes_a_row() {
        let ty = Type::object([
            ("q", Type::FixedArray(2, Box::new(Type::Float32))),
            ("mode", Type::enumeration([(1, "on")])),
            ("maybe", Type::optional(Type::object([("a", Type::Bool), ("b", Type::Bool)]))),
            ("list", Type::Array(Box::new(Type::Bool))),
            ("nothing", Type::Null),
        ]);
        let paths: Vec<_> = columns(&ty).into_iter().map(|column| column.path).collect();
        assert_eq!(paths, ["q.0", "q.1", "mode", "maybe.a", "maybe.b", "list"]);
        let payload = [&1f32.to_le_bytes()[..], &2f32.to_le_bytes(), &[1, 0, 1, 1]].concat();
        let mut row = Vec::new();
        fill_row(&ty, Value::read(&ty, &payload).unwrap(), &mut row);
        let (one, two) = (Cell::Float32(1.0), Cell::Float32(2.0));
        let rest = [Cell::Text("on"), Cell::Empty, Cell::Empty, Cell::Made("[true]".into())];
        assert_eq!(row, [&[one, two][..], &rest].concat());
    }

    #[test]
    fn columns_have_the_unit_of_their_field() {
        let rate = Type::optional(Type::FixedArray(2, Box::new(Type::Float32)));
        let ty = Type::Object(vec![
            Field::new("rate", rate).with_unit("rad/s"),
            Field::new("leg", Type::object([("on", Type::Bool)])).with_unit("m"),
        ]);
        let units: Vec<_> = columns(&ty).into_iter().map(|column| (column.path, column.unit)).collect();
        let [a, b] = ["rate.0", "rate.1"].map(|path| (path.to_owned(), Some("rad/s".to_owned())));
        assert_eq!(units, [a, b, ("leg.on".to_owned(), None)]);
    }

    #[test]
    fn no_two_columns_have_one_name_and_none_is_called_time() {
        let ty =
            Type::object([("time", Type::Bool), ("a", Type::Bool), ("A", Type::Bool), ("a", Type::Bool)]);
        let names: Vec<_> = columns(&ty).into_iter().map(|column| column.name).collect();
        assert_eq!(names, ["time_2", "a", "A_2", "a_3"]);
    }

    /// CSV and Parquet once had escape sequences and line breaks of a log's names in their headings.
    #[test]
    fn a_heading_has_nothing_that_a_terminal_obeys() {
        let evil = "a\u{1b}[2J\n\u{202e}";
        let column = columns(&Type::object([(evil, Type::Bool)])).remove(0);
        assert_eq!((column.path.as_str(), column.name.as_str()), (evil, r"a\u001b[2J\u000a\u202e"));
    }

    /// Parquet once made nulls of the numbers of such a union.
    #[test]
    fn a_union_of_numbers_and_texts_is_json_whatever_it_holds() {
        let ty = Type::Union(vec![Type::Float64, Type::String, Type::Null]);
        let mut row = Vec::new();
        let number = [&[0][..], &1.5f64.to_le_bytes()].concat();
        for (payload, expected) in [
            (&number[..], Cell::Made("1.5".into())),
            (&[1, 1, b'a'], Cell::Made("\"a\"".into())),
            (&[2], Cell::Empty),
        ] {
            fill_row(&ty, Value::read(&ty, payload).unwrap(), &mut row);
            assert_eq!(row, [expected]);
        }
    }
}
