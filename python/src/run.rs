//! A run of a robot: waiting for its end, and what may be asked of it meanwhile.

use crate::beside::Operator;
use crate::control::Shared;
use crate::error::{ClosedError, ControllerTimeout, KilohertzError, cannot_start};
use crate::injected::{End, InjectedFault, Outside};
use crate::parameter::Parameters;
use crate::signals::Signals;
use crate::state::{Command, State};
use crate::times::nanoseconds;
use khz_loop::ServoCommand;
use khz_loop::console::Console;
use khz_loop::parameters::LiveParameters;
use khz_report::run::RunSummary;
use khz_rt::now_ns;
use kilohertz::ReportPage;
use kilohertz::live::Watcher;
use kilohertz::output::OutputError;
use kilohertz::targets::wire::Peer;
use kilohertz::targets::{Inbox, Program, Refused, Sender};
use pyo3::exceptions::{PyException, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rtrb::Producer;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often the waiting thread looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(10);
/// How often a notebook shows how far the run is.
const PROGRESS: Duration = Duration::from_secs(1);
/// How long an interrupted controller may take to return before it is given up.
const GIVE_UP_NS: i64 = 2_000_000_000;

/// What the waiting thread has to do something about.
enum Event {
    /// The robot is down.
    Over,
    /// A signal came.
    Signal,
    /// Time to show how far the run is.
    Progress,
    /// The controller has not returned for too long.
    Hangs,
    /// It was interrupted, and still has not.
    Stuck,
}

/// What Python keeps of a run.
pub(crate) struct Ends {
    /// Of the controller, if it is Python's.
    pub shared: Option<Arc<Shared>>,
    /// Of the loop's states and commands, if Python is beside it.
    pub operator: Option<Operator>,
    pub patience_ns: i64,
    /// Of emulated devices.
    pub outside: Option<Outside>,
}

/// A robot running.
#[pyclass(frozen, module = "kilohertz")]
pub struct Run {
    names: Vec<String>,
    /// Once it was waited for.
    page: Mutex<Option<ReportPage>>,
    /// What ended it, if that is to be raised, once it was waited for.
    raises: Mutex<Option<PyErr>>,
    /// The address of its live view.
    view: Option<String>,
    run: Mutex<Option<Box<kilohertz::Run>>>,
    operator: Option<Mutex<Operator>>,
    faults: Mutex<Option<Producer<InjectedFault>>>,
    /// How the emulated devices ended.
    world_end: Option<Arc<OnceLock<End>>>,
    shared: Option<Arc<Shared>>,
    patience_ns: i64,
    parameters: LiveParameters,
    console: Arc<Console>,
    /// Where targets arrive, and who sends them from here.
    targets: Option<Mutex<(Inbox, Peer)>>,
    stop: Arc<AtomicBool>,
    process: u32,
}

#[pymethods]
impl Run {
    /// Brings the robot down gently; returns at once.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The address of its live view.
    #[getter]
    fn view(&self) -> Option<&str> {
        self.view.as_deref()
    }

    /// Arms a robot that waits for it.
    fn arm(&self) -> PyResult<()> {
        self.console.arm().map_err(|error| KilohertzError::new_err(error.0))
    }

    /// The controller's parameters.
    #[getter]
    fn parameters(&self) -> Parameters {
        Parameters(self.parameters.list().to_vec())
    }

    /// Changes values together, and waits until a tick has taken them.
    fn set_parameters(&self, py: Python<'_>, values: &Bound<'_, PyDict>) -> PyResult<()> {
        crate::parameter::set(py, &self.parameters, values)
    }

    /// Whether the robot is down.
    #[getter]
    fn over(&self) -> bool {
        // Code that waited for it waited until it was down.
        self.with(kilohertz::Run::is_over).unwrap_or(true)
    }

    /// Waits until the robot is down, and returns the figures of the run as JSON. Ctrl-C brings it down gently.
    /// What ended it is left to `raise_end`. `watched`: with a live line on stderr, if that is a terminal. `progress` is called
    /// with that line every second instead.
    #[pyo3(signature = (watched=false, progress=None))]
    fn finish(&self, py: Python<'_>, watched: bool, progress: Option<Bound<'_, PyAny>>) -> PyResult<String> {
        self.own_process()?;
        let mut watcher = self.with(|run| match progress {
            Some(_) => Some(Watcher::without_terminal(run)),
            None => watched.then(|| Watcher::new(run)),
        })?;
        let interrupted = self.wait(py, watcher.as_mut(), progress);
        drop(watcher);
        let interrupted = interrupted?;
        let run = self.taken().ok_or_else(|| ClosedError::new_err("this run has been waited for"))?;
        let ended = py.detach(|| run.finish().map(|finished| (finished.page(), finished.into_summary())));
        let (page, figures) = ended.map_err(cannot_start)?;
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = Some(page);
        let summary = self.summary(&figures);
        let raises = interrupted.or_else(|| {
            let error = self.shared.as_ref()?.raised()?;
            self.explain_timeout(py, &error);
            let note = format!("the robot was brought down: {}", summary["end"].as_str().unwrap_or(""));
            let _ = error.value(py).call_method1("add_note", (note,));
            Some(error)
        });
        *self.raises.lock().unwrap_or_else(PoisonError::into_inner) = raises;
        Ok(summary.to_string())
    }

    /// Raises what the controller raised, or the signal that ended the run, once it was waited for.
    fn raise_end(&self) -> PyResult<()> {
        self.raises.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// The page of the run, once it was waited for.
    fn page(&self, py: Python<'_>) -> PyResult<String> {
        self.with_page(py, ReportPage::to_string)
    }

    /// Writes the page into a new file of this name, or of the first with a number that is free. Returns where it is.
    fn write_report(&self, py: Python<'_>, path: PathBuf) -> PyResult<PathBuf> {
        self.with_page(py, |page| page.save(&path, false))?.map_err(not_written)
    }

    /// Puts a fault into the emulated devices.
    #[pyo3(signature = (kind, servo=0, value=0.0))]
    fn inject(&self, kind: &str, servo: usize, value: f64) -> PyResult<()> {
        let fault = crate::injected::fault(kind, servo, value)?;
        crate::injected::put(self.faults.lock().unwrap_or_else(PoisonError::into_inner).as_mut(), fault)
    }

    /// The newest state: arrays of its own, which are not rewritten.
    fn state(&self, py: Python<'_>) -> PyResult<State> {
        let operator = self.operator()?;
        let mut operator = operator.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = State::new(py, &self.names)?;
        state.fill(py, operator.states.read())?;
        state.parameters = Py::new(py, self.parameters())?;
        Ok(state)
    }

    /// A command to fill in: hold every joint where it is now.
    fn command(&self, py: Python<'_>) -> PyResult<Command> {
        let operator = self.operator()?;
        let mut operator = operator.lock().unwrap_or_else(PoisonError::into_inner);
        let command = Command::new(py, &self.names);
        command.hold(py, operator.states.read());
        Ok(command)
    }

    /// Hands a command to the loop; positions go there in a straight line within `over` seconds.
    #[pyo3(signature = (command, over=0.0))]
    fn send(&self, py: Python<'_>, command: &Command, over: f64) -> PyResult<()> {
        self.own_process()?;
        let over_ns = nanoseconds("over", over)?;
        let operator = self.operator()?;
        let mut operator = operator.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(orders) = operator.orders.as_mut() else { return self.go(py, command, over_ns) };
        let order = orders.value();
        command.read(py, &mut order.commands)?;
        (order.at_ns, order.over_ns) = (now_ns(), over_ns);
        orders.publish();
        Ok(())
    }

    /// A message of `[targets] from` and its answer, both JSON.
    fn target(&self, py: Python<'_>, message: &str) -> PyResult<String> {
        self.own_process()?;
        let text = "this robot does not follow targets: write `name = \"targets\"` below `[controller]`";
        let targets = self.targets.as_ref().ok_or_else(|| KilohertzError::new_err(text))?;
        // Others who send may keep it waiting.
        Ok(py.detach(|| {
            let mut targets = targets.lock().unwrap_or_else(PoisonError::into_inner);
            let (inbox, peer) = &mut *targets;
            peer.answer(inbox, message.as_bytes(), now_ns()).to_string()
        }))
    }

    /// The phase after the last tick.
    #[getter]
    fn phase(&self) -> &'static str {
        self.console.seen().1.name()
    }
}

impl Run {
    pub(crate) fn new(run: kilohertz::Run, names: Vec<String>, ends: Ends) -> Self {
        let (faults, world_end) = ends.outside.map(|outside| (outside.faults, outside.end)).unzip();
        Self {
            names,
            page: Mutex::new(None),
            raises: Mutex::new(None),
            view: run.view().map(str::to_owned),
            parameters: run.parameters(),
            console: run.console(),
            targets: run.targets_inbox().map(|inbox| Mutex::new((inbox, Peer::in_process()))),
            stop: run.stop_flag(),
            run: Mutex::new(Some(Box::new(run))),
            faults: Mutex::new(faults),
            world_end,
            operator: ends.operator.map(Mutex::new),
            shared: ends.shared,
            patience_ns: ends.patience_ns,
            process: std::process::id(),
        }
    }

    /// A command to a robot that follows targets.
    fn go(&self, py: Python<'_>, command: &Command, over_ns: i64) -> PyResult<()> {
        let text = "this robot takes no commands";
        let targets = self.targets.as_ref().ok_or_else(|| KilohertzError::new_err(text))?;
        let mut commands = vec![ServoCommand::Stop; self.names.len()];
        command.read(py, &mut commands)?;
        let position = |command: ServoCommand| match command {
            ServoCommand::Position(target) => Ok(target),
            _ => Err(PyValueError::new_err("a robot that follows targets takes positions only")),
        };
        let goal: Vec<_> = commands.into_iter().map(position).collect::<PyResult<_>>()?;
        let sent = py.detach(|| {
            let targets = targets.lock().unwrap_or_else(PoisonError::into_inner);
            let program = Program::new(targets.0.clone(), Sender::new("send"));
            program.go(&goal, Duration::from_nanos(over_ns.unsigned_abs()))
        });
        sent.map_err(|why| match why {
            Refused::Invalid(text) => PyValueError::new_err(text),
            Refused::Held(by) => KilohertzError::new_err(format!("`{by}` sends targets to this robot")),
            why => KilohertzError::new_err(format!("the robot does not take it: {why}")),
        })
    }

    /// Waits for the loop's end. Gives the exception of a Ctrl-C that came meanwhile.
    fn wait(
        &self,
        py: Python<'_>,
        watcher: Option<&mut Watcher>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Option<PyErr>> {
        let signals = Signals::listen(py);
        let ended = self.watch(py, signals.as_ref(), watcher, progress);
        if let Some(signals) = signals {
            signals.end(py);
        }
        ended
    }

    fn watch(
        &self,
        py: Python<'_>,
        signals: Option<&Signals>,
        mut watcher: Option<&mut Watcher>,
        mut progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Option<PyErr>> {
        // A signal that came before we listened has left no byte.
        let mut interrupted = self.interruption(py);
        let mut stopped_ns = None;
        let mut shown = Instant::now();
        loop {
            let show_at = progress.as_ref().map(|_| shown + PROGRESS);
            match py.detach(|| self.next_event(signals, stopped_ns, watcher.as_deref_mut(), show_at)) {
                Event::Over => return Ok(interrupted),
                Event::Progress => {
                    shown = Instant::now();
                    let line = watcher.as_ref().and_then(|watcher| watcher.line());
                    let failed =
                        progress.as_ref().zip(line).and_then(|(show, line)| show.call1((line,)).err());
                    match failed {
                        // A page that shows nothing more is no reason to bring the robot down; Ctrl-C is.
                        Some(error) if error.is_instance_of::<PyException>(py) => progress = None,
                        Some(error) => {
                            self.stop();
                            interrupted = Some(error);
                        }
                        None => {}
                    }
                }
                Event::Signal => interrupted = self.interruption(py).or(interrupted),
                Event::Hangs => {
                    if let Some(shared) = &self.shared {
                        shared.interrupt(py);
                    }
                    self.stop();
                    stopped_ns = Some(now_ns());
                }
                Event::Stuck => return Err(self.give_up(py)),
            }
        }
    }

    /// Has Python handle its signals; what a handler raises brings the robot down.
    fn interruption(&self, py: Python<'_>) -> Option<PyErr> {
        py.check_signals().err().inspect(|_| self.stop())
    }

    /// What next needs Python's lock. Waits without it, so that the loop never waits for us.
    fn next_event(
        &self,
        signals: Option<&Signals>,
        stopped_ns: Option<i64>,
        mut watcher: Option<&mut Watcher>,
        show_at: Option<Instant>,
    ) -> Event {
        let mut looked = Instant::now();
        loop {
            if let Some(watcher) = watcher.as_mut().filter(|_| looked.elapsed() >= Watcher::INTERVAL) {
                looked = Instant::now();
                let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
                run.iter_mut().for_each(|run| watcher.look(run));
            }
            let in_call_ns = self.shared.as_ref().map_or(0, |shared| shared.in_call_ns());
            // On a thread of its own the controller may still hang when the robot is long down.
            if in_call_ns == 0 && self.over() {
                return Event::Over;
            }
            if signals.is_some_and(Signals::came) {
                return Event::Signal;
            }
            if show_at.is_some_and(|at| Instant::now() >= at) {
                return Event::Progress;
            }
            match stopped_ns {
                None if in_call_ns > self.patience_ns => return Event::Hangs,
                Some(stopped_ns) if in_call_ns > 0 && now_ns() - stopped_ns > GIVE_UP_NS => {
                    return Event::Stuck;
                }
                _ => std::thread::sleep(LOOK),
            }
        }
    }

    /// Leaves the thread behind that is stuck in code that cannot be interrupted: the loop's, or, when the robot is
    /// down, the controller's own.
    fn give_up(&self, py: Python<'_>) -> PyErr {
        let servos = match self.taken() {
            Some(run) if run.is_over() => {
                // Ends the log; what is wrong with the run is reported here.
                let _ = py.detach(|| run.finish().map(drop));
                "robot was brought down"
            }
            run => {
                std::mem::forget(run);
                "servos have stopped by their own watchdogs"
            }
        };
        ControllerTimeout::new_err(format!(
            "the controller is stuck in code that Python cannot interrupt; its thread was left behind, and the {servos}"
        ))
    }

    /// Python raises it inside the controller without a text.
    fn explain_timeout(&self, py: Python<'_>, error: &PyErr) {
        if error.is_instance_of::<ControllerTimeout>(py) {
            let text = format!(
                "the controller did not return within {} s (patience)",
                self.patience_ns as f64 / 1e9
            );
            let _ = error.value(py).setattr("args", (text,));
        }
    }

    /// The figures of `khz run --json`, where the simulated trunk ended, and the time in Python and our own around it.
    fn summary(&self, figures: &RunSummary) -> Value {
        let mut summary = serde_json::to_value(figures).unwrap_or(Value::Null);
        let trunk = self.world_end.as_ref().and_then(|end| end.get()?.trunk);
        summary["trunk"] = json!(trunk.map(|position| json!({ "position": position })));
        if let Some((call, overhead)) = self.shared.as_ref().and_then(|shared| shared.times()) {
            summary["python_ns"] = json!(call.summary());
            summary["overhead_ns"] = json!(overhead.summary());
        }
        summary
    }

    fn with<T>(&self, ask: impl FnOnce(&kilohertz::Run) -> T) -> PyResult<T> {
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        let run = run.as_ref().ok_or_else(|| ClosedError::new_err("this run has been waited for"))?;
        Ok(ask(run))
    }

    /// The run, once.
    fn taken(&self) -> Option<Box<kilohertz::Run>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn with_page<T: Send>(&self, py: Python<'_>, ask: impl FnOnce(&ReportPage) -> T + Send) -> PyResult<T> {
        let page = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        let page =
            page.as_ref().ok_or_else(|| KilohertzError::new_err("this run has not been waited for"))?;
        Ok(py.detach(|| ask(page)))
    }

    fn operator(&self) -> PyResult<&Mutex<Operator>> {
        self.with(|_| ())?;
        let text = "this robot runs its own controller: start it with `start_beside` to command it from here";
        self.operator.as_ref().ok_or_else(|| KilohertzError::new_err(text))
    }

    fn own_process(&self) -> PyResult<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        let text = "this process was forked from the one that runs the robot, and has no loop; start robots after forking";
        Err(KilohertzError::new_err(text))
    }
}

/// In the words of Python's own functions.
fn not_written(error: OutputError) -> PyErr {
    match error {
        OutputError::Io { path, source } => {
            let text = source.to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((source.raw_os_error(), text, path))
        }
        error => PyOSError::new_err(error.to_string()),
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop();
        let run = self.taken();
        if std::process::id() != self.process {
            // The threads it would wait for are the parent's.
            std::mem::forget(run);
        } else if run.is_some() {
            // It waits for a loop that may need the interpreter lock.
            Python::attach(|py| py.detach(|| drop(run)));
        }
    }
}
