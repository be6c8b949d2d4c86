//! Whether a panic was printed: within a tick nothing may be, because printing may never return.

use std::cell::Cell;
use std::sync::Once;

thread_local! {
    static PRINTED: Cell<u64> = const { Cell::new(0) };
}

/// Counts the panics that reach the process's panic hook instead of printing them. Call it before the first machine is
/// built: a machine's own hook goes before the one that is there.
pub fn watch_prints() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| count())));
}

/// A panic is printed on this thread.
pub fn count() {
    PRINTED.set(PRINTED.get() + 1);
}

/// Panics on this thread that would have been printed since this was last asked.
pub fn take_prints() -> u64 {
    PRINTED.take()
}
