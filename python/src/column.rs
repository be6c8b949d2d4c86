//! One field of a record over many samples.
//!
//! A path steps through objects by name and through arrays by number; without a number it means that field of
//! every item, as in `joints.position`. A `*` steps into every field of an object that has the rest of the path:
//! `*.position`.

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
    /// Whether a sample holds several values, and how many, known from the first sample on.
    many: bool,
    width: Option<usize>,
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
}

impl Column {
    /// A field of a record of this type; `None` if it has no field of that path.
    pub fn new(record: &Type, path: &str) -> Option<Self> {
        let path = steps(path);
        let (leaf, many) = target(record, &path)?;
        let mut offsets = Vec::new();
        let fixed = leaf.fixed_size().and_then(|_| place(record, &path, 0, &mut offsets));
        let values = Values::for_type(leaf)?;
        let leaf = leaf.clone();
        Some(Self { path, leaf, offsets: fixed.map(|()| offsets), values, many, width: None })
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
        let width = self.values.len() - before;
        match self.width.replace(width) {
            Some(expected) if expected != width => Err(format!(
                "has {width} values in one sample and {expected} in the one before; take them one by one, as in \
                 `{}.0`",
                self.path.join(".")
            )),
            _ => Ok(()),
        }
    }

    /// The NumPy array: one dimension, or two where a sample holds several values.
    pub fn into_array(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let width = self.many.then(|| self.width.unwrap_or(0));
        match self.values {
            Values::Bool(values) => shaped(py, values, width),
            Values::Int(values) => shaped(py, values, width),
            Values::Uint(values) => shaped(py, values, width),
            Values::Float32(values) => shaped(py, values, width),
            Values::Float64(values) => shaped(py, values, width),
            Values::Text(values) => values.into_py_any(py),
            Values::Bytes(values) => values.into_py_any(py),
        }
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
            // An absent optional number is NaN.
            Type::Union(members) if members.iter().all(is_number_or_null) => Self::Float64(Vec::new()),
            _ => return None,
        })
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
        }
    }
}

/// The type of the values a path means.
pub fn type_at<'a>(record: &'a Type, path: &str) -> Option<&'a Type> {
    target(record, &steps(path)).map(|(leaf, _)| leaf)
}

fn steps(path: &str) -> Vec<String> {
    path.split('.').filter(|step| !step.is_empty()).map(str::to_owned).collect()
}

fn read<'a>(ty: &'a Type, bytes: &'a [u8]) -> Result<Value<'a>, String> {
    Value::next(ty, &mut Input::new(bytes)).map_err(|error| error.to_string())
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
