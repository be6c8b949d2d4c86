//! One field of a record over many samples.
//!
//! A path steps through objects by name and through arrays by number; without a number it means that field of
//! every item, as in `joints.position`. A `*` steps into every field of an object that has the rest of the path:
//! `*.position`. A field name with a dot in it is written as it is.

use crate::any::Any;
use khz_tlog::{Input, Type, Value};
use numpy::{Element, PyArray1, PyArrayMethods};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

/// The step into every field of an object.
const EVERY: &str = "*";

/// A field being collected.
pub struct Column {
    path: Vec<String>,
    /// The type of each of its values.
    leaf: Type,
    /// Where its values lie, if the layout before and of them never changes: nothing else need be read then.
    offsets: Option<Vec<usize>>,
    values: Values,
    /// Whether a sample holds several values.
    many: bool,
    /// How many each sample so far holds, as long as that is the same in all of them …
    width: Option<usize>,
    /// … and from then on where the values of each sample end.
    ends: Vec<usize>,
    samples: usize,
}

/// The values as NumPy keeps them, sample after sample.
enum Values {
    Bool(Vec<bool>),
    Int(Vec<i64>),
    Uint(Vec<u64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Text(Vec<String>),
    Bytes(Vec<Vec<u8>>),
    /// Integers that may be absent.
    MaybeInt(Vec<Option<i128>>),
    /// What has no NumPy type: maps, unions, optional texts and objects.
    Any(Vec<Any>),
}

/// Integers beyond it have no exact float64.
const EXACT: i128 = 1 << 53;

impl Column {
    /// A field of a record of this type; `None` if it has no field of that path.
    pub fn new(record: &Type, path: &str) -> Option<Self> {
        let path = resolve(record, path)?;
        let (leaf, many) = target(record, &path)?;
        let mut offsets = Vec::new();
        let fixed = leaf.fixed_size().and_then(|_| place(record, &path, 0, &mut offsets));
        let values = Values::for_type(leaf)?;
        let leaf = leaf.clone();
        Some(Self {
            path,
            leaf,
            offsets: fixed.map(|()| offsets),
            values,
            many,
            width: None,
            ends: Vec::new(),
            samples: 0,
        })
    }

    /// Every path a record of this type has, arrays without their numbers.
    pub fn paths(record: &Type) -> Vec<String> {
        let mut paths = Vec::new();
        list(record, "", &mut paths);
        paths
    }

    /// Takes the field of one sample. An error tells what is wrong with it.
    pub fn push(&mut self, record: &Type, payload: &[u8]) -> Result<(), String> {
        let before = self.values.len();
        match &self.offsets {
            Some(offsets) => {
                for &offset in offsets {
                    let rest = payload.get(offset..).ok_or("is cut off")?;
                    self.values.push(read(&self.leaf, rest)?);
                }
            }
            None => collect(read(record, payload)?, &self.path, &mut self.values),
        }
        self.note_width(before);
        Ok(())
    }

    /// Notes that a sample has given the values from `before` on.
    fn note_width(&mut self, before: usize) {
        let end = self.values.len();
        match self.width {
            Some(width) if width != end - before && self.ends.is_empty() => {
                self.ends = (1..=self.samples).map(|sample| sample * width).collect();
                self.ends.push(end);
            }
            _ if !self.ends.is_empty() => self.ends.push(end),
            _ => self.width = Some(end - before),
        }
        self.samples += 1;
    }

    /// The NumPy array: one dimension, or two where a sample holds several values. Where their number changes, a list of
    /// one array per sample. Texts, bytes and what has no NumPy type are lists.
    pub fn into_array(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let width = self.many.then(|| self.width.unwrap_or(0));
        if self.ends.is_empty() {
            return self.values.into_array(py, width);
        }
        let flat = self.values.into_array(py, None)?;
        let mut start = 0;
        let mut parts = Vec::with_capacity(self.ends.len());
        for end in self.ends {
            let slice = pyo3::types::PySlice::new(py, start as isize, end as isize, 1);
            parts.push(flat.bind(py).get_item(slice)?);
            start = end;
        }
        parts.into_py_any(py)
    }
}

impl Values {
    /// None yet, of the kind that holds this type; `None` for what is made of several values.
    fn for_type(leaf: &Type) -> Option<Self> {
        Some(match leaf {
            Type::Bool => Self::Bool(Vec::new()),
            Type::Int(_) | Type::VarInt | Type::Enum { .. } | Type::Timestamp | Type::Duration => {
                Self::Int(Vec::new())
            }
            Type::Uint(_) | Type::VarUint => Self::Uint(Vec::new()),
            Type::Float32 => Self::Float32(Vec::new()),
            Type::Float64 => Self::Float64(Vec::new()),
            Type::String => Self::Text(Vec::new()),
            Type::Bytes => Self::Bytes(Vec::new()),
            Type::Union(members) if members.iter().all(is_wide_integer_or_null) => Self::MaybeInt(Vec::new()),
            // An absent optional number is NaN.
            Type::Union(members) if members.iter().all(is_number_or_null) => Self::Float64(Vec::new()),
            Type::Union(_) | Type::Map(_) => Self::Any(Vec::new()),
            _ => return None,
        })
    }

    fn into_array(self, py: Python<'_>, width: Option<usize>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Bool(values) => shaped(py, values, width),
            Self::Int(values) => shaped(py, values, width),
            Self::Uint(values) => shaped(py, values, width),
            Self::Float32(values) => shaped(py, values, width),
            Self::Float64(values) => shaped(py, values, width),
            Self::Text(values) => values.into_py_any(py),
            Self::Bytes(values) => values.into_py_any(py),
            Self::Any(values) => values.into_py_any(py),
            // An absent one is NaN, unless that would cost the others digits.
            Self::MaybeInt(values) if values.iter().flatten().all(|value| value.abs() <= EXACT) => {
                let floats = values.iter().map(|value| value.map_or(f64::NAN, |value| value as f64));
                shaped(py, floats.collect(), width)
            }
            Self::MaybeInt(values) => values.into_py_any(py),
        }
    }

    fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Self::Bool(values), Value::Bool(value)) => values.push(value),
            (Self::Int(values), Value::Int(value) | Value::Timestamp(value) | Value::Duration(value)) => {
                values.push(value);
            }
            (Self::Int(values), Value::Enum(symbol)) => values.push(symbol.value as i64),
            (Self::Uint(values), Value::Uint(value)) => values.push(value),
            (Self::Float32(values), Value::Float32(value)) => values.push(value),
            (Self::Float64(values), value) => values.push(value.number().unwrap_or(f64::NAN)),
            (Self::Text(values), Value::String(value)) => values.push(value.to_owned()),
            (Self::Text(values), Value::Bytes(value)) => {
                values.push(String::from_utf8_lossy(value).into_owned());
            }
            (Self::Bytes(values), Value::Bytes(value)) => values.push(value.to_vec()),
            (
                Self::MaybeInt(values),
                Value::Int(value) | Value::Timestamp(value) | Value::Duration(value),
            ) => {
                values.push(Some(value.into()));
            }
            (Self::MaybeInt(values), Value::Uint(value)) => values.push(Some(value.into())),
            (Self::MaybeInt(values), _) => values.push(None),
            (Self::Any(values), value) => values.push(Any::from(value)),
            // The schema said which kind; a value of another kind cannot be read from it.
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
            Self::Text(values) => values.len(),
            Self::Bytes(values) => values.len(),
            Self::MaybeInt(values) => values.len(),
            Self::Any(values) => values.len(),
        }
    }
}

/// The type of the values a path means.
pub fn type_at<'a>(record: &'a Type, path: &str) -> Option<&'a Type> {
    target(record, &resolve(record, path)?).map(|(leaf, _)| leaf)
}

/// The steps of a path, of which a field name with dots is one; `None` if it leads nowhere.
fn resolve(ty: &Type, path: &str) -> Option<Vec<String>> {
    if path.is_empty() {
        return Some(Vec::new());
    }
    // Every way to cut off a first step, the shortest first.
    let cuts = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
    cuts.into_iter().find_map(|cut| {
        let (step, rest) = (&path[..cut], path.get(cut + 1..).unwrap_or_default());
        let below = match ty {
            Type::Object(fields) if step == EVERY => fields
                .iter()
                .find_map(|field| resolve(&field.ty, rest).filter(|s| target(&field.ty, s).is_some())),
            Type::Object(fields) => resolve(&fields.iter().find(|field| field.name == step)?.ty, rest),
            Type::Array(item) | Type::FixedArray(_, item) if is_number(step) => resolve(item, rest),
            Type::Array(item) | Type::FixedArray(_, item) => return resolve(item, path),
            _ => None,
        }?;
        Some(std::iter::once(step.to_owned()).chain(below).collect())
    })
}

fn read<'a>(ty: &'a Type, bytes: &'a [u8]) -> Result<Value<'a>, String> {
    Value::next(ty, &mut Input::new(bytes)).map_err(|error| error.to_string())
}

fn is_wide_integer_or_null(ty: &Type) -> bool {
    use khz_tlog::Width::Eight;
    matches!(
        ty,
        Type::Null
            | Type::Int(Eight)
            | Type::Uint(Eight)
            | Type::VarInt
            | Type::VarUint
            | Type::Timestamp
            | Type::Duration
    )
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

/// The type at the end of a path, and whether the path means several values.
fn target<'a>(ty: &'a Type, path: &[String]) -> Option<(&'a Type, bool)> {
    match (ty, path.split_first()) {
        (Type::Object(fields), Some((step, rest))) if step == EVERY => {
            let mut leaves = fields.iter().filter_map(|field| target(&field.ty, rest));
            let (first, _) = leaves.next()?;
            leaves.all(|(leaf, _)| leaf == first).then_some((first, true))
        }
        (Type::Object(fields), Some((step, rest))) => {
            target(&fields.iter().find(|field| field.name == *step)?.ty, rest)
        }
        (Type::Array(item) | Type::FixedArray(_, item), Some((step, rest))) if is_number(step) => {
            target(item, rest)
        }
        (Type::Array(item) | Type::FixedArray(_, item), _) => {
            target(item, path).map(|(leaf, _)| (leaf, true))
        }
        (_, None) => Some((ty, false)),
        _ => None,
    }
}

/// Offsets of the values a path means, where nothing before them varies in length.
fn place(ty: &Type, path: &[String], start: usize, offsets: &mut Vec<usize>) -> Option<()> {
    match (ty, path.split_first()) {
        (Type::Object(fields), Some((step, rest))) if step == EVERY => {
            fields.iter().try_fold(start, |start, field| {
                if target(&field.ty, rest).is_some() {
                    place(&field.ty, rest, start, offsets)?;
                }
                Some(start + field.ty.fixed_size()?)
            })?;
            Some(())
        }
        (Type::Object(fields), Some((step, rest))) => {
            let index = fields.iter().position(|field| field.name == *step)?;
            let before = fields[..index].iter().map(|field| field.ty.fixed_size()).sum::<Option<usize>>()?;
            place(&fields[index].ty, rest, start + before, offsets)
        }
        (Type::FixedArray(len, item), Some((step, rest))) if is_number(step) => {
            let index: usize = step.parse().ok()?;
            let within = (index as u64) < *len;
            place(item, rest, start + within.then_some(index)? * item.fixed_size()?, offsets)
        }
        (Type::FixedArray(len, item), _) => {
            let size = item.fixed_size()?;
            (0..usize::try_from(*len).ok()?).try_for_each(|i| place(item, path, start + i * size, offsets))
        }
        (Type::Array(_), _) => None,
        (_, None) => {
            offsets.push(start);
            Some(())
        }
        _ => None,
    }
}

fn is_number(step: &str) -> bool {
    step.bytes().all(|byte| byte.is_ascii_digit())
}

/// Adds the values a path means within one value.
fn collect(value: Value<'_>, path: &[String], values: &mut Values) {
    match (value, path.split_first()) {
        (Value::Object(object), Some((step, rest))) if step == EVERY => {
            object.for_each(|(_, value)| collect(value, rest, values));
        }
        (Value::Object(object), Some((step, rest))) => {
            if let Some(value) = object.field(step) {
                collect(value, rest, values);
            }
        }
        (Value::Array(mut items), Some((step, rest))) if is_number(step) => {
            if let Some(value) = step.parse().ok().and_then(|index| items.nth(index)) {
                collect(value, rest, values);
            }
        }
        (Value::Array(items), _) => items.for_each(|item| collect(item, path, values)),
        (value, None) => values.push(value),
        _ => {}
    }
}

fn list(ty: &Type, path: &str, paths: &mut Vec<String>) {
    match ty {
        Type::Object(fields) => fields.iter().for_each(|field| {
            let dot = if path.is_empty() { "" } else { "." };
            list(&field.ty, &format!("{path}{dot}{}", field.name), paths);
        }),
        Type::Array(item) | Type::FixedArray(_, item) => list(item, path, paths),
        _ if Values::for_type(ty).is_some() => paths.push(path.to_owned()),
        _ => {}
    }
}

fn shaped<T: Element>(py: Python<'_>, values: Vec<T>, width: Option<usize>) -> PyResult<Py<PyAny>> {
    let len = values.len();
    let flat = PyArray1::from_vec(py, values);
    match width {
        None => flat.into_py_any(py),
        Some(width) => flat.reshape([len.checked_div(width).unwrap_or(0), width])?.into_py_any(py),
    }
}
