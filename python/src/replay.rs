//! A Python controller on the states of a recorded run.

use crate::control::controller;
use crate::error::{ConfigError, KilohertzError, LogError};
use khz_report::replay::{ReplayError, Source, joints, with_controller};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::thread;

/// What came of it, as JSON.
///
/// # Errors
/// What the controller raised; `LogError` or `ConfigError` if there is no replay.
#[pyfunction]
pub fn replay(
    py: Python<'_>,
    log: PathBuf,
    given: &Bound<'_, PyAny>,
    robot: Option<PathBuf>,
    tolerance: f64,
) -> PyResult<String> {
    let source = Source { log, robot };
    let names = py.detach(|| joints(&source.log)).map_err(refused)?;
    let (controller, shared) = controller(py, given, &names)?;
    // On a thread that Python does not know, as the loop's.
    let work = || with_controller(&source, ("python", controller), tolerance);
    let done = py.detach(|| thread::scope(|scope| scope.spawn(work).join()));
    if let Some(raised) = shared.raised() {
        return Err(raised);
    }
    let replay = done.map_err(|_| KilohertzError::new_err("the replay panicked"))?.map_err(refused)?;
    serde_json::to_string(&replay).map_err(|error| KilohertzError::new_err(error.to_string()))
}

fn refused(error: ReplayError) -> PyErr {
    match error {
        ReplayError::Robot(text) => ConfigError::new_err(text),
        error => LogError::new_err(error.to_string()),
    }
}
