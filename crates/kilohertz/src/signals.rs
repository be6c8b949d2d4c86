//! Signals that ask for an end.

use khz_rt::Caught;
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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

/// Whether this process was started with a signal ignored. Unknown is no.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// The signals that ask for an end, caught for one run: each sets `stop`. When it is dropped they do what they did before.
/// `None` if one has come while they were caught before: a person who stopped one run wants no next one.
pub(crate) fn catch(stop: &Arc<AtomicBool>) -> io::Result<Option<Caught>> {
    Caught::catch(&ending_signals(), stop)
}
