//! Signals that set flags while that is requested; before and after they do what the program had them do.

use std::io;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many may want it at one time.
const MOST: usize = 64;

/// The flags that a signal sets.
static FLAGS: [AtomicPtr<AtomicBool>; MOST] = [const { AtomicPtr::new(null_mut()) }; MOST];
/// Handlers that look at the flags just now: until there are none, a flag that was taken out may still be set.
static HANDLING: AtomicUsize = AtomicUsize::new(0);
/// One has come.
static CAME: AtomicBool = AtomicBool::new(false);

/// What the signals did before the first of the flags that there are.
struct Former {
    flags: usize,
    actions: Vec<(libc::c_int, Action, Action)>,
}

static FORMER: Mutex<Former> = Mutex::new(Former { flags: 0, actions: Vec::new() });

type Action = libc::sigaction;

extern "C" fn handle(_: libc::c_int) {
    HANDLING.fetch_add(1, Ordering::SeqCst);
    CAME.store(true, Ordering::SeqCst);
    for flag in &FLAGS {
        // SAFETY: it is NULL, or a flag that lives: the code that takes it out releases it only when no handler reads it any more.
        if let Some(flag) = unsafe { flag.load(Ordering::SeqCst).as_ref() } {
            flag.store(true, Ordering::SeqCst);
        }
    }
    HANDLING.fetch_sub(1, Ordering::SeqCst);
}

/// For SIGXFSZ: then a file at its size limit is an error of the write. Unlike SIG_IGN a program that is started does not inherit it.
extern "C" fn heed_not(_: libc::c_int) {}

/// Signals are caught until it is dropped.
pub struct Caught {
    place: usize,
    /// Held until no handler can set it any more.
    _flag: Arc<AtomicBool>,
}

impl Caught {
    /// Has these signals set `flag`, SIGXFSZ (a file at its size limit) do nothing, and SIGTTOU ignored, as by
    /// [`super::ignore_tostop`]. `None` if one of them has come while they were caught before.
    ///
    /// # Errors
    /// If the system does not let a signal be caught, or there are 64 such flags.
    pub fn catch(signals: &[i32], flag: &Arc<AtomicBool>) -> io::Result<Option<Self>> {
        let mut former = Former::lock();
        if CAME.load(Ordering::SeqCst) {
            return Ok(None);
        }
        let pointer = Arc::as_ptr(flag).cast_mut();
        let is_put = |place: &AtomicPtr<AtomicBool>| {
            place.compare_exchange(null_mut(), pointer, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        };
        let place = FLAGS.iter().position(is_put);
        let place = place.ok_or_else(|| io::Error::other("64 runs catch signals already"))?;
        // From here on it is taken out again by the drop.
        former.flags += 1;
        let caught = Self { place, _flag: Arc::clone(flag) };
        let done = if former.flags == 1 { former.replace(signals) } else { Ok(()) };
        drop(former);
        done.map(|()| Some(caught))
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        let mut former = Former::lock();
        former.flags -= 1;
        if former.flags == 0 {
            former.restore();
        }
        FLAGS[self.place].store(null_mut(), Ordering::SeqCst);
        while HANDLING.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
    }
}

impl Former {
    fn lock() -> MutexGuard<'static, Self> {
        FORMER.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&mut self, signals: &[i32]) -> io::Result<()> {
        let handled = signals.iter().map(|signal| (*signal, handle as *const () as libc::sighandler_t));
        let others =
            [(libc::SIGXFSZ, heed_not as *const () as libc::sighandler_t), (libc::SIGTTOU, libc::SIG_IGN)];
        for (signal, handler) in handled.chain(others) {
            // SAFETY: `sigaction` is plain integers and an optional function, for which all-zero bytes are a value.
            let mut ours: Action = unsafe { zeroed() };
            ours.sa_sigaction = handler;
            // As Rust's and most programs' own threads expect it: calls go on, and a small stack is not overrun.
            ours.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
            let before = exchange(signal, Some(&ours))?;
            self.actions.push((signal, before, ours));
        }
        Ok(())
    }

    /// What a program has set itself meanwhile stays.
    fn restore(&mut self) {
        for (signal, before, ours) in self.actions.drain(..) {
            let is_ours = |now: Action| now.sa_sigaction == ours.sa_sigaction;
            if exchange(signal, None).is_ok_and(is_ours) {
                // What the kernel has taken once it takes again.
                let _ = exchange(signal, Some(&before));
            }
        }
    }
}

/// Sets what a signal does, if there is something to be set, and returns what it did.
fn exchange(signal: libc::c_int, to: Option<&Action>) -> io::Result<Action> {
    // SAFETY: as above.
    let mut before: Action = unsafe { zeroed() };
    let to = to.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both are NULL or live through the call; our handlers touch atomics only, which a handler may.
    let done = unsafe { libc::sigaction(signal, to, &raw mut before) };
    if done == 0 { Ok(before) } else { Err(io::Error::last_os_error()) }
}
