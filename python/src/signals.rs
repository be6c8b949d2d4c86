//! Learning of a signal without holding Python's lock.

use pyo3::prelude::*;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Python's wake-up descriptor for the time of a run: its C-level handler writes a byte when a signal comes.
///
/// A thread that asked Python itself now and then would hold the lock now and then, and if it lost its CPU just
/// then, the loop would wait for it.
pub struct Signals {
    bytes: UnixStream,
    /// Python writes here.
    _wakeup: UnixStream,
    former: i32,
}

impl Signals {
    /// Listens; `None` on any thread but the main one, which alone receives signals.
    pub fn listen(py: Python<'_>) -> Option<Self> {
        let (bytes, wakeup) = UnixStream::pair().ok()?;
        bytes.set_nonblocking(true).ok()?;
        wakeup.set_nonblocking(true).ok()?;
        let former = set_wakeup(py, wakeup.as_raw_fd()).ok()?;
        Some(Self { bytes, _wakeup: wakeup, former })
    }

    /// Whether a signal came since the last time. Needs no lock.
    pub fn came(&self) -> bool {
        let mut some = [0; 64];
        (&self.bytes).read(&mut some).is_ok_and(|read| read > 0)
    }

    /// Gives the descriptor back to its former owner.
    pub fn end(self, py: Python<'_>) {
        // The main thread cannot have become another one.
        let _ = set_wakeup(py, self.former);
    }
}

fn set_wakeup(py: Python<'_>, descriptor: i32) -> PyResult<i32> {
    let signal = py.import("signal")?;
    let quiet = [("warn_on_full_buffer", false)];
    let options = pyo3::types::IntoPyDict::into_py_dict(quiet, py)?;
    signal.call_method("set_wakeup_fd", (descriptor,), Some(&options))?.extract()
}
