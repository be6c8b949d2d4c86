//! The native half of the Python package `kilohertz`: conversions between Python and the crates, nothing else.
//!
//! | file | what |
//! |---|---|
//! | `error` | one exception class for each kind of failure |
//! | `log` | columns of a log as NumPy arrays |

mod column;
mod error;
mod log;

/// The module `kilohertz._native`; users import `kilohertz`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::error::{ClosedError, KilohertzError, LogError};
    #[pymodule_export]
    use crate::log::Log;
}
