//! Fields of a record over many samples.
//!
//! One rule for every type: a sample is one entry. Numbers become NumPy arrays as long as no digit is lost; everything
//! else, and numbers that would lose some, become a list with one Python value per sample.

use crate::any::Any;
use crate::path::{Found, Paths, Route, Shape, through};
use khz_tlog::{DecodeError, Input, Type, Value, Width};
use numpy::{Element, PyArray1, PyArrayMethods};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

/// Some fields of a record, being collected.
pub struct Table {
    record: Type,
    /// How long every sample is, if that never changes and nothing of it but the columns need be read.
    size: Option<usize>,
    columns: Vec<Column>,
    samples: usize,
}

struct Column {
    route: Route,
    /// The type of each of its values.
    leaf: Type,
    shape: Shape,
    /// Where its values lie, if the layout before and of them never changes: nothing else need be read then.
    offsets: Option<Vec<usize>>,
    values: Values,
    /// Where the values of each sample end, if their number may change.
    ends: Vec<usize>,
}

/// The values: numbers as NumPy keeps them, one after another, all else sample by sample.
enum Values {
    Bool(Vec<bool>),
    Int(Vec<i64>),
    Uint(Vec<u64>),
    Float32(Vec<f32>),
    /// Also numbers that may be absent or of several kinds, if none of them has more digits than a float64.
    Float64(Vec<f64>),
    /// Numbers that may be absent or of several kinds, with digits that a float64 may not have.
    Numbers(Vec<Any>),
    Any(Vec<Any>),
}

/// Integers beyond it have no exact float64.
const EXACT: i128 = 1 << 53;

impl Table {
    /// The fields of these paths; the first that is none, or several, is reported.
    pub fn new(record: &Type, paths: &[String]) -> Result<Self, String> {
        let all = Paths::new(record);
        let columns =
            paths.iter().map(|path| Column::new(record, &all, path)).collect::<Result<Vec<_>, _>>()?;
        let size = record.fixed_size().filter(|_| columns.iter().all(|column| column.offsets.is_some()));
        Ok(Self { record: record.clone(), size, columns, samples: 0 })
    }

    /// Takes one sample in.
    ///
    /// # Errors
    /// When it does not fit the record's type; nothing of it is taken then.
    pub fn push(&mut self, payload: &[u8]) -> Result<(), DecodeError> {
        // Enough bytes are a value of a type that always has so many.
        let value = match self.size {
            Some(size) if payload.len() >= size => None,
            _ => Some(Value::read(&self.record, payload)?),
        };
        self.columns.iter_mut().for_each(|column| column.push(payload, value));
        self.samples += 1;
        Ok(())
    }

    /// One array or list for each field.
    pub fn into_arrays(self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        self.columns.into_iter().map(|column| column.into_array(py, self.samples)).collect()
    }
}

impl Column {
    fn new(record: &Type, paths: &Paths<'_>, path: &str) -> Result<Self, String> {
        let (route, (leaf, shape)) = match paths.find(path) {
            Found::One(route) => route.target(record).map(|target| (route, target)),
            Found::Nothing => None,
            Found::Several => return Err(format!("`{path}` can mean several fields")),
        }
        .ok_or_else(|| format!("no field `{path}`"))?;
        let mut offsets = Vec::new();
        let fixed = route.offsets(record, 0, &mut offsets);
        let (leaf, values) = (leaf.clone(), Values::new(leaf, shape));
        Ok(Self { route, leaf, shape, offsets: fixed.map(|()| offsets), values, ends: Vec::new() })
    }

    /// Takes its values out of a sample that fits its type; `value` is needed where offsets are not known.
    fn push(&mut self, payload: &[u8], value: Option<Value<'_>>) {
        match (&self.offsets, value, &mut self.values) {
            (Some(offsets), _, values) => {
                let at = |offset: &usize| Input::new(payload.get(*offset..).unwrap_or_default());
                let read = offsets.iter().flat_map(|offset| Value::next(&self.leaf, &mut at(offset)));
                read.for_each(|value| values.push(value));
            }
            (None, Some(value), Values::Any(values) | Values::Numbers(values)) => {
                values.push(gathered(&self.route, value));
            }
            (None, Some(value), values) => {
                let before = values.len();
                self.route.each(value, &mut |value| values.push(value));
                if self.shape == Shape::Maybe && values.len() == before {
                    values.push(Value::Null);
                }
            }
            (None, None, _) => {}
        }
        if self.shape == Shape::Many(None) {
            self.ends.push(self.values.len());
        }
    }

    fn into_array(self, py: Python<'_>, samples: usize) -> PyResult<Py<PyAny>> {
        let Self { shape, ends, values, .. } = self;
        match values {
            Values::Bool(values) => shaped(py, values, shape, &ends, samples),
            Values::Int(values) => shaped(py, values, shape, &ends, samples),
            Values::Uint(values) => shaped(py, values, shape, &ends, samples),
            Values::Float32(values) => shaped(py, values, shape, &ends, samples),
            Values::Float64(values) => shaped(py, values, shape, &ends, samples),
            Values::Numbers(values) => match floats(&values) {
                Some((floats, ends)) => shaped(py, floats, shape, &ends, samples),
                None => values.into_py_any(py),
            },
            Values::Any(values) => values.into_py_any(py),
        }
    }
}

impl Values {
    /// None yet, of the kind that holds values of this type.
    fn new(leaf: &Type, shape: Shape) -> Self {
        let members = match leaf {
            Type::Union(members) => members,
            leaf => std::slice::from_ref(leaf),
        };
        let mixed = shape == Shape::Maybe || matches!(leaf, Type::Union(_));
        match integer_of(leaf) {
            _ if shape == Shape::Nested || !members.iter().all(is_number_or_null) => Self::Any(Vec::new()),
            _ if mixed && members.iter().any(is_wide) => Self::Numbers(Vec::new()),
            // An absent number is NaN.
            _ if mixed => Self::Float64(Vec::new()),
            Type::Bool => Self::Bool(Vec::new()),
            Type::Uint(_) | Type::VarUint => Self::Uint(Vec::new()),
            Type::Float32 => Self::Float32(Vec::new()),
            Type::Float64 => Self::Float64(Vec::new()),
            _ => Self::Int(Vec::new()),
        }
    }

    fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Self::Bool(values), Value::Bool(value)) => values.push(value),
            (Self::Int(values), Value::Int(value) | Value::Timestamp(value) | Value::Duration(value)) => {
                values.push(value);
            }
            // The enum's integer is of this very type, so it loses nothing.
            (Self::Int(values), Value::Enum(symbol)) => values.push(symbol.value as i64),
            (Self::Uint(values), Value::Enum(symbol)) => values.push(symbol.value as u64),
            (Self::Uint(values), Value::Uint(value)) => values.push(value),
            (Self::Float32(values), Value::Float32(value)) => values.push(value),
            (Self::Float64(values), value) => values.push(value.number().unwrap_or(f64::NAN)),
            (Self::Numbers(values) | Self::Any(values), value) => values.push(Any::from(value)),
            // The schema determines the kind; a value of another kind cannot be read from it.
            _ => {}
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Bool(values) => values.len(),
            Self::Int(values) => values.len(),
            Self::Uint(values) => values.len(),
            Self::Float32(values) => values.len(),
            Self::Float64(values) => values.len(),
            Self::Numbers(values) | Self::Any(values) => values.len(),
        }
    }
}

/// What an enum is kept as; any other type itself.
fn integer_of(ty: &Type) -> &Type {
    match ty {
        Type::Enum { of, .. } => of,
        ty => ty,
    }
}

fn is_number_or_null(ty: &Type) -> bool {
    !matches!(
        ty,
        Type::String
            | Type::Bytes
            | Type::Object(_)
            | Type::Array(_)
            | Type::FixedArray(..)
            | Type::Map(_)
            | Type::Union(_)
    )
}

/// Whether numbers of this type can have more digits than a float64.
fn is_wide(ty: &Type) -> bool {
    matches!(
        integer_of(ty),
        Type::Int(Width::Eight)
            | Type::Uint(Width::Eight)
            | Type::VarInt
            | Type::VarUint
            | Type::Timestamp
            | Type::Duration
    )
}

/// What a sample holds at the end of a route: a list for each array and each `*` on the way.
fn gathered(route: &Route, value: Value<'_>) -> Any {
    match (route, value) {
        (Route::Here, value) => value.into(),
        (Route::Field(number, route), Value::Object(mut fields)) => {
            fields.nth(*number).map_or(Any::Null, |(_, value)| gathered(route, value))
        }
        (Route::Item(number, route), Value::Array(mut items)) => {
            items.nth(*number).map_or(Any::Null, |value| gathered(route, value))
        }
        (Route::Items(route), Value::Array(items)) => {
            Any::List(items.map(|value| gathered(route, value)).collect())
        }
        (Route::Every(routes), Value::Object(fields)) => {
            Any::List(through(fields, routes).map(|(route, value)| gathered(route, value)).collect())
        }
        _ => Any::Null,
    }
}

/// The numbers of all samples, absent ones as NaN, and where those of each sample end; `None` if a digit would be lost.
fn floats(samples: &[Any]) -> Option<(Vec<f64>, Vec<usize>)> {
    let (mut floats, mut ends) = (Vec::with_capacity(samples.len()), Vec::new());
    for sample in samples {
        add_floats(sample, &mut floats)?;
        ends.push(floats.len());
    }
    Some((floats, ends))
}

fn add_floats(value: &Any, floats: &mut Vec<f64>) -> Option<()> {
    floats.push(match value {
        Any::List(items) => return items.iter().try_for_each(|item| add_floats(item, floats)),
        Any::Null => f64::NAN,
        Any::Bool(value) => f64::from(u8::from(*value)),
        Any::Float(value) => *value,
        Any::Int(value) if value.abs() <= EXACT => *value as f64,
        _ => return None,
    });
    Some(())
}

/// One dimension, or two where every sample holds as many values; a list of one array per sample where they do not.
fn shaped<T: Element>(
    py: Python<'_>,
    values: Vec<T>,
    shape: Shape,
    ends: &[usize],
    samples: usize,
) -> PyResult<Py<PyAny>> {
    let flat = PyArray1::from_vec(py, values);
    let width = match shape {
        Shape::Many(Some(width)) => Some(width),
        Shape::Many(None) => width_of(ends),
        _ => return flat.into_py_any(py),
    };
    if let Some(width) = width {
        return flat.reshape([samples, width])?.into_py_any(py);
    }
    let starts = [0].into_iter().chain(ends.iter().copied());
    let part = |(start, end): (usize, &usize)| {
        flat.get_item(pyo3::types::PySlice::new(py, start as isize, *end as isize, 1))
    };
    starts.zip(ends).map(part).collect::<PyResult<Vec<_>>>()?.into_py_any(py)
}

/// How many values each sample holds, if that is the same in all of them.
fn width_of(ends: &[usize]) -> Option<usize> {
    let width = ends.first().copied().unwrap_or(0);
    ends.windows(2).all(|pair| pair[1] - pair[0] == width).then_some(width)
}
