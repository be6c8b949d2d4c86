//! One exception class for each kind of failure, so that no texts need to be matched.

use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::PyException;

create_exception!(
    kilohertz,
    KilohertzError,
    PyException,
    "Whatever Kilohertz cannot do; base of the others."
);
create_exception!(
    kilohertz,
    ConfigError,
    KilohertzError,
    "Something in a robot file is wrong; the text shows where and what to write instead."
);
create_exception!(
    kilohertz,
    StartError,
    KilohertzError,
    "The robot could not be started; the text says what to do."
);
create_exception!(
    kilohertz,
    RobotError,
    KilohertzError,
    "Something brought the robot down: its `summary` tells the whole run."
);
create_exception!(
    kilohertz,
    BusError,
    KilohertzError,
    "A bus refuses or cannot carry frames; the text says which."
);
create_exception!(kilohertz, NoReplyError, KilohertzError, "A servo did not answer in time.");
create_exception!(kilohertz, CommandError, KilohertzError, "A command no servo can follow, such as NaN.");
create_exception!(
    kilohertz,
    ControllerTimeout,
    KilohertzError,
    "The controller did not return in time; raised inside it, too."
);
create_exception!(kilohertz, LogError, KilohertzError, "A log is damaged, or holds no such record or field.");
create_exception!(kilohertz, ClosedError, KilohertzError, "Used after it was closed.");

/// Why a robot was not started.
pub fn cannot_start(error: impl std::fmt::Display) -> PyErr {
    StartError::new_err(error.to_string())
}
