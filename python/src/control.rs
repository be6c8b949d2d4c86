//! A Python controller in the tick.

use crate::attached::keep_attached;
use crate::error::ControllerTimeout;
use crate::forked;
use crate::module::Module;
use crate::parameter::{Parameters, declared_by};
use crate::state::{Command, State};
use khz_loop::controller::{Chain, Pace, RobotInfo};
use khz_loop::parameters::Parameter;
use khz_loop::{ControlError, Controller, RobotState, ServoCommand};
use khz_rt::{Histogram, now_ns};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// So many late decisions in a row are an error, unless a controller sets another number.
const MAX_LATE: u32 = 2;

/// What the loop's thread and the one that waits for it both look at.
#[derive(Default)]
pub struct Shared {
    /// What the controller raised.
    raised: Mutex<Option<PyErr>>,
    /// When the call under way began; 0 between calls.
    called_ns: AtomicI64,
    /// Python's number of the loop's thread.
    thread: AtomicU64,
    /// Time in a call of Python and our own time around it, of all modules, once they are gone.
    times: Mutex<Option<(Histogram, Histogram)>>,
}

/// What a user gave as controller, made into one.
///
/// It may be a callable, an object with `update`, a `Module`, or a dictionary of these: a chain.
///
/// # Errors
/// `TypeError` if it is none of them; `ValueError` for an empty chain.
pub fn controller(
    py: Python<'_>,
    given: &Bound<'_, PyAny>,
    names: &[String],
) -> PyResult<(Box<dyn Controller>, Arc<Shared>)> {
    let shared = Arc::new(Shared::default());
    // Modules of a chain see one state.
    let state = Py::new(py, State::new(py, names)?)?;
    let made = |name: &str, given: &Bound<'_, PyAny>, first: bool| -> PyResult<Box<dyn Controller>> {
        if let Ok(module) = given.cast::<Module>() {
            return Ok(module.get().make());
        }
        let update = given.getattr_opt("update")?.unwrap_or_else(|| given.clone());
        if !update.is_callable() {
            let text = format!(
                "{name} is a {}; it must be a function of (state, command), an object with a method `update` like \
                 that, or a kilohertz.Module",
                given.get_type().name()?
            );
            return Err(PyTypeError::new_err(text));
        }
        let start = given.getattr_opt("start")?;
        for function in start.iter().chain([&update]) {
            refuse_if_it_only_returns_its_body(name, function)?;
        }
        Ok(Box::new(PyController {
            declared: declared_by(given)?,
            parameters: Py::new(py, Parameters(Vec::new()))?,
            name: name.to_owned(),
            update: update.unbind(),
            start: start.map(Bound::unbind),
            decides: Decides::of(given)?,
            period_ns: 0,
            state: state.clone_ref(py),
            command: Py::new(py, Command::new(py, names))?,
            first,
            has_returned: false,
            shared: Arc::clone(&shared),
            call_ns: Histogram::new(),
            overhead_ns: Histogram::new(),
        }))
    };
    let Ok(modules) = given.cast::<PyDict>() else {
        return Ok((made("the controller", given, true)?, shared));
    };
    if modules.is_empty() {
        return Err(PyValueError::new_err("a chain needs at least one module"));
    }
    let mut chain = Chain::new();
    for (index, (name, module)) in modules.iter().enumerate() {
        let name: String = name.extract()?;
        chain = chain.then(&name, made(&name, &module, index == 0)?);
    }
    Ok((Box::new(chain), shared))
}

/// How often a controller decides, and how long that takes, as its attributes set.
#[derive(Clone, Copy)]
struct Decides {
    rate_hz: f64,
    delay: Option<u32>,
    max_late: u32,
}

impl Decides {
    /// # Errors
    /// An attribute that is no such number.
    fn of(given: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Some(rate_hz) = given.getattr_opt("decision_hz")? else { return Ok(None) };
        let number = |name| given.getattr_opt(name)?.map(|number| number.extract()).transpose();
        Ok(Some(Self {
            rate_hz: rate_hz.extract()?,
            delay: number("delay_ticks")?,
            max_late: number("max_late")?.unwrap_or(MAX_LATE),
        }))
    }
}

/// A call of a coroutine or generator function runs none of its body.
///
/// # Errors
/// `TypeError` if it is one.
fn refuse_if_it_only_returns_its_body(name: &str, function: &Bound<'_, PyAny>) -> PyResult<()> {
    let inspect = function.py().import("inspect")?;
    // Of an object that is called, it is the method of its class.
    let method = function.get_type().getattr("__call__")?;
    for (test, what) in [
        ("iscoroutinefunction", "a coroutine function (`async def`)"),
        ("isasyncgenfunction", "an asynchronous generator function (`async def` with `yield`)"),
        ("isgeneratorfunction", "a generator function (it has a `yield`)"),
    ] {
        let test = inspect.getattr(test)?;
        if test.call1((function,))?.is_truthy()? || test.call1((&method,))?.is_truthy()? {
            let text = format!(
                "{name} is {what}, and a call would run none of it; the loop calls a plain function every tick"
            );
            return Err(PyTypeError::new_err(text));
        }
    }
    Ok(())
}

/// Calls `update(state, command)` every tick.
struct PyController {
    /// What messages call it.
    name: String,
    update: Py<PyAny>,
    start: Option<Py<PyAny>>,
    state: Py<State>,
    command: Py<Command>,
    /// Its own parameters, and these with the robot file's.
    declared: Vec<Parameter>,
    parameters: Py<Parameters>,
    /// Set if it decides less often than the loop ticks.
    decides: Option<Decides>,
    period_ns: i64,
    /// The first one keeps its command from tick to tick; others see what those before them command.
    first: bool,
    /// The first update is over.
    has_returned: bool,
    shared: Arc<Shared>,
    call_ns: Histogram,
    overhead_ns: Histogram,
}

impl PyController {
    /// The state and the parameters that this module sees.
    fn look(&self, py: Python<'_>, state: &RobotState) -> PyResult<()> {
        let mut seen = self.state.try_borrow_mut(py)?;
        seen.fill(py, state)?;
        seen.parameters = self.parameters.clone_ref(py);
        Ok(())
    }

    fn call(&self, py: Python<'_>, function: &Py<PyAny>, command: bool) -> PyResult<Py<PyAny>> {
        self.shared.called_ns.store(now_ns(), Ordering::Relaxed);
        let result = match command {
            true => function.call1(py, (&self.state, &self.command)),
            false => function.call1(py, (&self.state,)),
        };
        self.shared.called_ns.store(0, Ordering::Relaxed);
        forked::end_child(py)?;
        result
    }

    /// A user who returns a command, a coroutine or a generator expects something to be done with it.
    fn refuse_returned(&self, returned: &Bound<'_, PyAny>) -> PyResult<()> {
        if returned.is_none() {
            return Ok(());
        }
        let text = format!(
            "{} returned a {}, which is not used: write into the command, and return nothing",
            self.name,
            returned.get_type().name()?
        );
        Err(PyTypeError::new_err(text))
    }

    fn gave_up(&self, py: Python<'_>, error: PyErr) -> ControlError {
        let text = format!(
            "{} raised {}",
            self.name,
            error.value(py).repr().map_or_else(|_| "an exception".into(), |text| text.to_string())
        );
        *self.shared.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        ControlError(text.into())
    }
}

impl Controller for PyController {
    fn prepare(&mut self, robot: &RobotInfo) -> Result<(), ControlError> {
        let list = [self.declared.clone(), robot.parameters.clone()].concat();
        let made = Python::attach(|py| Py::new(py, Parameters(list)));
        self.parameters = made.map_err(|error| ControlError(error.to_string().into()))?;
        self.period_ns = robot.period_ns;
        Ok(())
    }

    fn pace(&self) -> Result<Option<Pace>, ControlError> {
        let of =
            |decides: Decides| Pace::of(decides.rate_hz, decides.delay, decides.max_late, self.period_ns);
        self.decides.map(of).transpose()
    }

    fn parameters(&self) -> Vec<Parameter> {
        self.declared.clone()
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        keep_attached();
        Python::attach(|py| {
            let begin = || -> PyResult<()> {
                // SAFETY: it only asks the system for this thread's number.
                let thread = unsafe { ffi::PyThread_get_thread_ident() };
                self.shared.thread.store(thread, Ordering::Relaxed);
                self.look(py, state)?;
                self.command.get().hold(py, state);
                self.start.as_ref().map_or(Ok(()), |start| self.call(py, start, false).map(drop))
            };
            begin().map_err(|error| self.gave_up(py, error))
        })
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let begun_ns = now_ns();
        keep_attached();
        let times = Python::attach(|py| {
            let mut tick = || -> PyResult<(i64, i64)> {
                self.look(py, state)?;
                if !self.first {
                    self.command.get().fill(py, state, commands);
                }
                let called_ns = now_ns();
                let returned = self.call(py, &self.update, true)?;
                let returned_ns = now_ns();
                // Later it would only end a run that went well so far.
                if !self.has_returned {
                    self.refuse_returned(returned.bind(py))?;
                    self.has_returned = true;
                }
                self.command.get().read(py, commands)?;
                Ok((called_ns, returned_ns))
            };
            tick().map_err(|error| self.gave_up(py, error))
        });
        let (called_ns, returned_ns) = times?;
        let call_ns = returned_ns - called_ns;
        self.call_ns.record(call_ns, begun_ns);
        self.overhead_ns.record(now_ns() - begun_ns - call_ns, begun_ns);
        Ok(())
    }
}

impl Drop for PyController {
    fn drop(&mut self) {
        let mut times = self.shared.times.lock().unwrap_or_else(PoisonError::into_inner);
        let (call_ns, overhead_ns) = times.get_or_insert_default();
        call_ns.add(&self.call_ns);
        overhead_ns.add(&self.overhead_ns);
    }
}

impl Shared {
    /// What the controller raised, if it did; taken.
    pub fn raised(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Time in a call of Python, and our own around it. Known once the controller is gone.
    pub fn times(&self) -> Option<(Histogram, Histogram)> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// How long the call under way has taken, ns; 0 between calls.
    pub fn in_call_ns(&self) -> i64 {
        match self.called_ns.load(Ordering::Relaxed) {
            0 => 0,
            called_ns => now_ns() - called_ns,
        }
    }

    /// Raises `ControllerTimeout` inside the controller, as soon as it runs Python code.
    pub fn interrupt(&self, py: Python<'_>) {
        let thread = self.thread.load(Ordering::Relaxed);
        let exception = py.get_type::<ControllerTimeout>();
        // SAFETY: we hold the lock; the exception class lives as long as the module.
        unsafe { ffi::PyThreadState_SetAsyncExc(thread as std::ffi::c_long, exception.as_ptr()) };
    }
}
