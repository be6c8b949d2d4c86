//! Signals that ask for an end.

use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that is set by what asks for an end ([`ending_signals`]); these signals do nothing else from now on.
///
/// # Errors
/// If the system does not let signals be caught.
pub fn stop_on_signal() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in ending_signals() {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    // A file at its size limit (`ulimit -f`) is an error of the write, and not the end of the process.
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    Ok(stop)
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
