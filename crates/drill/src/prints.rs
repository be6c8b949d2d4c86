//! Whether a panic was printed: within a tick nothing may be, because printing may never return.

use khz_rt::panics;
use std::cell::Cell;
use std::sync::Once;

thread_local! {
    static PRINTED: Cell<u64> = const { Cell::new(0) };
}

/// Counts the panics that would be printed instead of printing them, from now on and for the whole process. It makes no
/// difference whether a machine was built before: what a machine catches goes to the hook that keeps it, and is not counted.
pub fn watch_prints() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Now, so that a machine that another thread builds meanwhile does not come between the two calls below.
        panics::install();
        let keep = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| if panics::is_catching() { keep(info) } else { count() }));
    });
}

/// A panic is printed on this thread.
pub fn count() {
    PRINTED.set(PRINTED.get() + 1);
}

/// Panics on this thread that would have been printed since this was last asked.
pub fn take_prints() -> u64 {
    PRINTED.take()
}
