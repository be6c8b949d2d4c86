//! Times as Python gives them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Thirty years: no sum of two overflows.
const LONGEST_S: f64 = 1e9;

/// The seconds that a caller gave as `name`.
pub fn nanoseconds(name: &str, seconds: f64) -> PyResult<i64> {
    if (0.0..=LONGEST_S).contains(&seconds) {
        return Ok((seconds * 1e9) as i64);
    }
    let text = format!("{name} is {seconds}; it must be from 0 to {LONGEST_S:e} seconds");
    Err(PyValueError::new_err(text))
}
