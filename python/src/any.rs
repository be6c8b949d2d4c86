//! A value of a log as Python has it, where NumPy has no type for it.

use crate::path::unique;
use khz_tlog::Value;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// A value that owns what it holds, made without the interpreter's lock.
pub enum Any {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Any>),
    Dict(Vec<(String, Any)>),
}

impl From<Value<'_>> for Any {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Int(value) | Value::Timestamp(value) | Value::Duration(value) => Self::Int(value.into()),
            Value::Uint(value) => Self::Int(value.into()),
            Value::Float32(value) => Self::Float(value.into()),
            Value::Float64(value) => Self::Float(value),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
            Value::String(text) => Self::Text(text.to_owned()),
            Value::Enum(symbol) => Self::Int(symbol.value),
            Value::Array(items) => Self::List(items.map(Self::from).collect()),
            Value::Object(fields) => {
                Self::Dict(fields.map(|(name, value)| (name.to_owned(), value.into())).collect())
            }
            Value::Map(entries) => {
                Self::Dict(entries.map(|(key, value)| (key.to_owned(), value.into())).collect())
            }
        }
    }
}

impl<'py> IntoPyObject<'py> for Any {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Null => Ok(py.None().into_bound(py)),
            Self::Bool(value) => value.into_bound_py_any(py),
            Self::Int(value) => value.into_bound_py_any(py),
            Self::Float(value) => value.into_bound_py_any(py),
            Self::Text(text) => text.into_bound_py_any(py),
            Self::Bytes(bytes) => PyBytes::new(py, &bytes).into_bound_py_any(py),
            Self::List(items) => items.into_bound_py_any(py),
            Self::Dict(fields) => {
                let (names, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
                let dict = PyDict::new(py);
                // Two of one name are both there.
                unique(&names)
                    .into_iter()
                    .zip(values)
                    .try_for_each(|(name, value)| dict.set_item(name, value))?;
                dict.into_bound_py_any(py)
            }
        }
    }
}
