//! The native half of the Python package `kilohertz`: conversions between Python and the crates, nothing else.
//!
//! | file | what |
//! |---|---|
//! | `robot` | a robot, as its file describes it |
//! | `run` | a run of it |
//! | `control` | a Python controller in the tick, or a chain |
//! | `parameter` | numbers of a controller that may be changed while it runs |
//! | `module` | controllers of the Rust side |
//! | `replay` | a Python controller on recorded states |
//! | `beside` | Python beside the loop |
//! | `stepper` | an emulated robot that Python steps, from decision to decision |
//! | `mapped` | what a policy sees and does |
//! | `shared` | emulated devices with a view into them |
//! | `connection` | servos without a loop |
//! | `injected` | faults put into emulated devices |
//! | `state`, `joint` | what a controller sees and sets, as NumPy arrays, and of one joint |
//! | `attached` | a thread that stays known to Python |
//! | `forked` | children of a process that runs a robot |
//! | `signals` | learning of Ctrl-C without Python's lock |
//! | `log`, `column` | columns of a log as NumPy arrays |
//! | `error` | one exception class for each kind of failure |

mod any;
mod attached;
mod beside;
mod column;
mod connection;
mod control;
mod emulated;
mod error;
mod forked;
mod injected;
mod joint;
mod log;
mod mapped;
mod model;
mod module;
mod parameter;
mod path;
mod replay;
mod robot;
mod run;
mod shared;
mod signals;
mod state;
mod stepper;
mod steppers;
mod times;

/// The module `kilohertz._native`; users import `kilohertz`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::connection::{Connection, Reply};
    #[pymodule_export]
    use crate::error::{
        BusError, ClosedError, CommandError, ConfigError, ControllerTimeout, KilohertzError, LogError,
        NoReplyError, RobotError, StartError,
    };
    #[pymodule_export]
    use crate::joint::{JointCommand, JointState};
    #[pymodule_export]
    use crate::log::Log;
    #[pymodule_export]
    use crate::mapped::Mapped;
    #[pymodule_export]
    use crate::model::Model;
    #[pymodule_export]
    use crate::module::Module;
    #[pymodule_export]
    use crate::parameter::{Declared, Parameters};
    #[pymodule_export]
    use crate::replay::replay;
    #[pymodule_export]
    use crate::robot::Robot;
    #[pymodule_export]
    use crate::run::Run;
    #[pymodule_export]
    use crate::state::{Command, State, Teleop};
    #[pymodule_export]
    use crate::stepper::Stepper;
    #[pymodule_export]
    use crate::steppers::Steppers;

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        use khz_run::figures::{COUNTS, TIMES};
        use pyo3::types::PyModuleMethods;
        use std::collections::BTreeMap;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let counts = COUNTS.iter().map(|count| (count.key, count.definition.trim()));
        let times = TIMES.iter().map(|time| (time.key, time.definition.trim()));
        module.add("FIGURES", counts.chain(times).collect::<BTreeMap<_, _>>())?;
        crate::forked::mark_children(module)
    }
}
