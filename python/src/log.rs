//! Logs, column by column.

use crate::any::Any;
use crate::column::Table;
use crate::error::{ClosedError, LogError};
use crate::path::{Found, Paths};
use khz_tlog::{Error, Reader, Type};
use numpy::PyArray1;
use pyo3::exceptions::{PyKeyError, PyOSError, PyRuntimeWarning};
use pyo3::prelude::*;
use std::ffi::CString;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Times, and one array for each field.
type Columns = (Py<PyArray1<i64>>, Vec<Py<PyAny>>);

/// An open log. Holds one window of the file and what it is asked for, never the whole.
#[pyclass(frozen, module = "kilohertz")]
pub struct Log {
    path: PathBuf,
    reader: Mutex<Option<Reader<File>>>,
}

#[pymethods]
impl Log {
    /// Opens a log file.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let file = File::open(&path).map_err(|error| {
            let number = error.raw_os_error().unwrap_or(0);
            PyOSError::new_err((number, error.to_string(), path.display().to_string()))
        })?;
        let reader = py.detach(|| {
            let mut reader = Reader::open(file)?;
            reader.survey()?;
            Ok(reader)
        });
        let reader = reader.map_err(|error: Error| error_of(&path, &error))?;
        Ok(Self { path, reader: Mutex::new(Some(reader)) })
    }

    /// Names of the records.
    #[getter]
    fn records(&self) -> PyResult<Vec<String>> {
        self.with(|reader| Ok(reader.records().iter().map(|record| record.name().to_owned()).collect()))
    }

    /// Whether the log was finished properly; one cut off is readable to its last whole block.
    #[getter]
    fn finished(&self) -> PyResult<bool> {
        self.with(|reader| Ok(reader.is_finished()))
    }

    /// Paths of a record's fields.
    fn fields(&self, record: &str) -> PyResult<Vec<String>> {
        self.with(|reader| Ok(Paths::new(type_of(reader, record)?).names().map(str::to_owned).collect()))
    }

    /// Paths of the fields that have a unit, and their units.
    fn units(&self, record: &str) -> PyResult<Vec<(String, String)>> {
        self.with(|reader| {
            let units = type_of(reader, record)?.units().into_iter();
            Ok(units.map(|(path, unit)| (path, unit.to_owned())).collect())
        })
    }

    /// Names of an enum field's values; empty for other fields.
    fn names(&self, record: &str, field: &str) -> PyResult<Vec<(Any, String)>> {
        self.with(|reader| {
            let ty = type_of(reader, record)?;
            let names = enum_names(ty, field).unwrap_or_default();
            Ok(names.iter().map(|(value, name)| (Any::Int(*value), name.clone())).collect())
        })
    }

    /// Time of the first sample that has one, µs since the Unix epoch.
    fn start_us(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        py.detach(|| self.with(|reader| first_time(reader).map_err(|error| error_of(&self.path, &error))))
    }

    /// The times of a record's samples (int64, µs since the Unix epoch; NumPy's NaT where there is none) and the given
    /// fields as arrays, of the samples with `start_us` ≤ time < `stop_us`. Damage is stepped over, and warned of.
    #[pyo3(signature = (record, fields, start_us=None, stop_us=None))]
    fn columns(
        &self,
        py: Python<'_>,
        record: &str,
        fields: Vec<String>,
        start_us: Option<i64>,
        stop_us: Option<i64>,
    ) -> PyResult<Columns> {
        let (times, damage, table) = py.detach(|| {
            self.with(|reader| {
                let ty = type_of(reader, record)?;
                let mut table = Table::new(ty, &fields).map_err(|what| no_field(record, &what, ty))?;
                let (times, damage) = self.collect(reader, record, &mut table, start_us, stop_us)?;
                Ok((times, damage, table))
            })
        })?;
        if let Some(first) = damage.first {
            let others = if damage.places > 1 {
                format!(" ({} damaged places)", damage.places)
            } else {
                String::new()
            };
            let text =
                format!("{}: {first}{others}; the samples before and behind are there", self.path.display());
            let text = CString::new(text).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 4)?;
        }
        Ok((PyArray1::from_vec(py, times).unbind(), table.into_arrays(py)?))
    }

    /// Closes the file; using the log afterwards is an error.
    fn close(&self) {
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Log {
    fn with<T>(&self, ask: impl FnOnce(&mut Reader<File>) -> PyResult<T>) -> PyResult<T> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        match reader.as_mut() {
            Some(reader) => ask(reader),
            None => Err(ClosedError::new_err(format!("{} was closed", self.path.display()))),
        }
    }

    fn collect(
        &self,
        reader: &mut Reader<File>,
        record: &str,
        table: &mut Table,
        start_us: Option<i64>,
        stop_us: Option<i64>,
    ) -> PyResult<(Vec<i64>, Damage)> {
        let wrong = |error: Error| error_of(&self.path, &error);
        reader.select([record]);
        match start_us {
            Some(start_us) => drop(reader.seek(start_us.saturating_sub(1)).map_err(wrong)?),
            None => reader.rewind(),
        }
        let (mut times, mut damage) = (Vec::new(), Damage::default());
        let in_slice = |time_us: Option<i64>| match time_us {
            Some(time_us) => {
                start_us.is_none_or(|start| start <= time_us) && stop_us.is_none_or(|stop| time_us < stop)
            }
            None => start_us.is_none() && stop_us.is_none(),
        };
        loop {
            let error = match reader.next() {
                Ok(None) => break,
                Ok(Some(item)) if in_slice(item.time_us) => match table.push(item.payload) {
                    Ok(()) => {
                        times.push(item.time_us.unwrap_or(NO_TIME));
                        continue;
                    }
                    Err(source) => {
                        Error::Payload { offset: item.position, record: record.to_owned(), source }
                    }
                },
                Ok(Some(item)) => match item.time_us.zip(stop_us) {
                    Some((time_us, stop_us)) if reader.is_past(stop_us, time_us) => break,
                    _ => continue,
                },
                Err(error) => error,
            };
            damage.add(reader.step_over(error).map_err(wrong)?);
        }
        Ok((times, damage))
    }
}

/// What was wrong on the way.
#[derive(Default)]
struct Damage {
    places: u64,
    first: Option<Error>,
}

impl Damage {
    /// Where a log was cut off it ends; see `finished`.
    fn add(&mut self, error: Error) {
        if !matches!(error, Error::Truncated { .. }) {
            self.places += 1;
            self.first.get_or_insert(error);
        }
    }
}

/// The time of a sample that has none: NumPy's NaT.
const NO_TIME: i64 = i64::MIN;

fn type_of<'a>(reader: &'a Reader<File>, record: &str) -> PyResult<&'a Type> {
    reader.record(record).map(|record| record.ty()).map_err(|_| {
        let names: Vec<&str> = reader.records().iter().map(|record| record.name()).collect();
        PyKeyError::new_err(format!("no record `{record}`; there are: {}", names.join(", ")))
    })
}

fn no_field(record: &str, what: &str, ty: &Type) -> PyErr {
    let paths: Vec<_> = Paths::new(ty).names().map(str::to_owned).collect();
    PyKeyError::new_err(format!("{record}: {what}; there are: {}", paths.join(", ")))
}

fn enum_names<'a>(ty: &'a Type, path: &str) -> Option<&'a [(i128, String)]> {
    let Found::One(plan) = Paths::new(ty).find(path) else { return None };
    match plan.target(ty)?.0 {
        Type::Enum { names, .. } => Some(names),
        _ => None,
    }
}

fn first_time(reader: &mut Reader<File>) -> Result<Option<i64>, Error> {
    let all: Vec<String> = reader.records().iter().map(|record| record.name().to_owned()).collect();
    reader.select(all);
    reader.rewind();
    loop {
        let error = match reader.next_stored() {
            Ok(Some(item)) if item.time_us.is_some() => return Ok(item.time_us),
            Ok(Some(_)) => continue,
            Ok(None) => return Ok(None),
            Err(error) => error,
        };
        reader.step_over(error)?;
    }
}

fn error_of(path: &std::path::Path, error: &Error) -> PyErr {
    LogError::new_err(format!("{}: {error}", path.display()))
}
