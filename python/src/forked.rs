//! Processes forked from one that runs a robot.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// This process is a child of the one that loaded us.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Has Python mark every forked child as one.
///
/// # Errors
/// If Python cannot.
pub fn mark_children(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let options = pyo3::types::PyDict::new(module.py());
    options.set_item("after_in_child", wrap_pyfunction!(is_child, module)?)?;
    module.py().import("os")?.call_method("register_at_fork", (), Some(&options)).map(drop)
}

#[pyfunction]
fn is_child() {
    FORKED.store(true, Ordering::Relaxed);
}

/// Ends a child that a controller forked and did not end itself: what called the controller would go on with it, and command
/// the same servos as the parent. No exit handler runs: they are for what the parent's threads hold.
pub fn end_child(py: Python<'_>) -> PyResult<()> {
    if !FORKED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let os = py.import("os")?;
    let text = "kilohertz: a process forked in a controller must end there, with os._exit: the robot is its parent's\n";
    let _ = os.call_method1("write", (2, text.as_bytes()));
    os.call_method1("_exit", (1,)).map(drop)
}
