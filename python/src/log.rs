//! Logs, column by column.

use crate::column::Column;
use crate::error::{ClosedError, LogError};
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
        let reader = reader.map_err(|error: Error| told(&path, &error))?;
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
        self.with(|reader| Ok(Column::paths(type_of(reader, record)?)))
    }

    /// Paths of the fields that have a unit, and their units.
    fn units(&self, record: &str) -> PyResult<Vec<(String, String)>> {
        self.with(|reader| {
            let units = type_of(reader, record)?.units().into_iter();
            Ok(units.map(|(path, unit)| (path, unit.to_owned())).collect())
        })
    }

    /// Names of an enum field's values; empty for other fields.
    fn names(&self, record: &str, field: &str) -> PyResult<Vec<(i64, String)>> {
        self.with(|reader| {
            let ty = type_of(reader, record)?;
            let names = enum_names(ty, field).unwrap_or_default();
            Ok(names.iter().map(|(value, name)| (*value as i64, name.clone())).collect())
        })
    }

    /// Time of the first sample that has one, µs since the Unix epoch.
    fn start_us(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        py.detach(|| self.with(|reader| first_time(reader).map_err(|error| told(&self.path, &error))))
    }

    /// The times of a record's samples (int64, µs since the Unix epoch) and the given fields as arrays, of the
    /// samples with `start_us` ≤ time < `stop_us`. Damage is stepped over, and warned of.
    #[pyo3(signature = (record, fields, start_us=None, stop_us=None))]
    fn columns(
        &self,
        py: Python<'_>,
        record: &str,
        fields: Vec<String>,
        start_us: Option<i64>,
        stop_us: Option<i64>,
    ) -> PyResult<Columns> {
        let ((times, damage), columns) = py.detach(|| {
            self.with(|reader| {
                let ty = type_of(reader, record)?.clone();
                let mut wanted = Vec::new();
                for field in &fields {
                    wanted.push(Column::new(&ty, field).ok_or_else(|| no_field(record, field, &ty))?);
                }
                let times = self.collect(reader, record, &ty, &mut wanted, start_us, stop_us)?;
                Ok((times, wanted))
            })
        })?;
        if let Some(error) = damage {
            let text =
                format!("{}: {error}; the samples before and behind it are there", self.path.display());
            let text = CString::new(text).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 4)?;
        }
        let arrays = columns.into_iter().map(|column| column.into_array(py)).collect::<PyResult<_>>()?;
        Ok((PyArray1::from_vec(py, times).unbind(), arrays))
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
        ty: &Type,
        columns: &mut [Column],
        start_us: Option<i64>,
        stop_us: Option<i64>,
    ) -> PyResult<(Vec<i64>, Option<Error>)> {
        let wrong = |error: Error| told(&self.path, &error);
        reader.select([record]);
        match start_us {
            Some(start_us) => drop(reader.seek(start_us.saturating_sub(1)).map_err(wrong)?),
            None => reader.rewind(),
        }
        let (mut times, mut damage) = (Vec::new(), None);
        loop {
            let item = match reader.next() {
                Ok(Some(item)) => item,
                Ok(None) => break,
                Err(error) => {
                    let error = reader.step_over(error).map_err(wrong)?;
                    // Where a log was cut off it ends; `finished` tells.
                    if !matches!(error, Error::Truncated { .. }) {
                        damage.get_or_insert(error);
                    }
                    continue;
                }
            };
            let time_us = item.time_us.unwrap_or(i64::MIN);
            if let Some(stop_us) = stop_us
                && time_us >= stop_us
            {
                if reader.is_past(stop_us, time_us) {
                    break;
                }
                continue;
            }
            if start_us.is_some_and(|start_us| time_us < start_us) {
                continue;
            }
            for column in columns.iter_mut() {
                let at = item.position;
                column.push(ty, item.payload).map_err(|what| {
                    LogError::new_err(format!("{}: {record} at byte {at}: {what}", self.path.display()))
                })?;
            }
            times.push(time_us);
        }
        Ok((times, damage))
    }
}

fn type_of<'a>(reader: &'a Reader<File>, record: &str) -> PyResult<&'a Type> {
    reader.record(record).map(|record| record.ty()).map_err(|_| {
        let names: Vec<&str> = reader.records().iter().map(|record| record.name()).collect();
        PyKeyError::new_err(format!("no record `{record}`; there are: {}", names.join(", ")))
    })
}

fn no_field(record: &str, field: &str, ty: &Type) -> PyErr {
    let paths = Column::paths(ty);
    PyKeyError::new_err(format!("{record} has no field `{field}`; there are: {}", paths.join(", ")))
}

fn enum_names<'a>(ty: &'a Type, path: &str) -> Option<&'a [(i128, String)]> {
    match crate::column::type_at(ty, path)? {
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

fn told(path: &std::path::Path, error: &Error) -> PyErr {
    LogError::new_err(format!("{}: {error}", path.display()))
}
