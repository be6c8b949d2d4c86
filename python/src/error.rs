//! One exception class for each kind of failure, so that nobody has to match texts.

use pyo3::create_exception;
use pyo3::exceptions::PyException;

create_exception!(
    kilohertz,
    KilohertzError,
    PyException,
    "Whatever Kilohertz cannot do; base of the others."
);
create_exception!(kilohertz, LogError, KilohertzError, "A log is damaged, or holds no such record or field.");
create_exception!(kilohertz, ClosedError, KilohertzError, "Used after it was closed.");
