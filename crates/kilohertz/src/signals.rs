//! Signals that ask for an end.

use signal_hook::SigId;
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ};
use signal_hook::{flag, low_level};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A flag that is set by what asks for an end ([`ending_signals`]); these signals do nothing else from now on.
///
/// # Errors
/// If the system does not let signals be caught.
pub fn stop_on_signal() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::<AtomicBool>::default();
    let caught = ending_signals()
        .into_iter()
        .try_for_each(|signal| flag::register(signal, Arc::clone(&stop)).map(drop));
    let caught = caught.and_then(|()| outlive_size_limits());
    caught.map_err(|error| io::Error::new(error.kind(), format!("cannot catch signals: {error}")))?;
    Ok(stop)
}

/// A file at its size limit (`ulimit -f`) is an error of the write, and not the end of the process.
fn outlive_size_limits() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// What asks for an orderly end: Ctrl-C (SIGINT), SIGTERM, and SIGHUP, which a terminal that goes away sends, such as a
/// dropped ssh session; `nohup` has SIGHUP ignored, and so it stays. Also SIGXCPU, which a thread gets that took more CPU
/// time than a limit allows, and signals that are sent by mistake. Not SIGQUIT (Ctrl-\): it ends what does not end.
pub fn ending_signals() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU];
    signals.extend(Some(SIGHUP).filter(|signal| !is_ignored(*signal)));
    signals
}

/// Whether whoever started this process had it ignore a signal. Unknown is no.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// What all runs of a process share.
struct Process {
    /// Nobody has caught the signals: they do what they do to any program.
    is_idle: Arc<AtomicBool>,
    /// One came while they were caught.
    was_asked: Arc<AtomicBool>,
}

static PROCESS: Mutex<Option<Process>> = Mutex::new(None);

/// The signals that ask for an end, caught. When it is dropped they end the program again, as they do any other.
pub struct Caught {
    ids: Vec<SigId>,
    is_idle: Arc<AtomicBool>,
}

impl Caught {
    /// Has each of them set `stop`; `None` if one has come while they were caught before: whoever stopped one run wants no
    /// next one.
    pub fn catch(stop: &Arc<AtomicBool>) -> io::Result<Option<Self>> {
        let mut process = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        if process.is_none() {
            *process = Some(Process::prepare()?);
        }
        let Some(Process { is_idle, was_asked }) = &*process else { return Ok(None) };
        if was_asked.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let register = |signal| flag::register(signal, Arc::clone(stop));
        let ids = ending_signals().into_iter().map(register).collect::<Result<_, _>>()?;
        is_idle.store(false, Ordering::Relaxed);
        Ok(Some(Self { ids, is_idle: Arc::clone(is_idle) }))
    }
}

impl Process {
    fn prepare() -> io::Result<Self> {
        let process = Self { is_idle: Arc::new(AtomicBool::new(true)), was_asked: Arc::default() };
        for signal in ending_signals() {
            // What is registered first is done first: an idle program ends here.
            flag::register_conditional_default(signal, Arc::clone(&process.is_idle))?;
            flag::register(signal, Arc::clone(&process.was_asked))?;
        }
        outlive_size_limits()?;
        Ok(process)
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        self.is_idle.store(true, Ordering::Relaxed);
        self.ids.drain(..).for_each(|id| _ = low_level::unregister(id));
    }
}
