//! A POSIX timer that signals one thread, which waits for the signal (`timer_create` + `sigwait`).

use crate::clock::Clock;
use std::io;
use std::marker::PhantomData;
use std::mem::zeroed;
use std::ptr;

/// A timer bound to the thread that made it. The signal is `SIGRTMAX`, blocked in that thread.
pub(crate) struct SignalTimer {
    timer: libc::timer_t,
    signal: libc::sigset_t,
    _on_its_thread: PhantomData<*const ()>,
}

impl SignalTimer {
    pub(crate) fn new(clock: Clock) -> io::Result<SignalTimer> {
        let signal = block(libc::SIGRTMAX())?;
        // SAFETY: `sigevent` is plain data for which all-zero bytes are a value.
        let mut event: libc::sigevent = unsafe { zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGRTMAX();
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer: libc::timer_t = ptr::null_mut();
        // SAFETY: both pointers are to locals that live through the call.
        let made =
            unsafe { libc::timer_create(clock.id() as libc::clockid_t, &raw mut event, &raw mut timer) };
        check(made)?;
        Ok(SignalTimer { timer, signal, _on_its_thread: PhantomData })
    }

    /// Sleeps until the clock reaches `deadline_ns`; at once if it has.
    pub(crate) fn wait_until(&mut self, deadline_ns: i64) -> io::Result<()> {
        let mut due = once();
        // A value of zero would disarm the timer and sleep for ever.
        let deadline_ns = deadline_ns.max(1);
        // Not by its name: musl's `time_t` is deprecated while its width changes.
        due.it_value.tv_sec = (deadline_ns / 1_000_000_000) as _;
        due.it_value.tv_nsec = (deadline_ns % 1_000_000_000) as libc::c_long;
        // SAFETY: the timer is ours until drop; `due` lives through the call; a null old value is allowed.
        let armed =
            unsafe { libc::timer_settime(self.timer, libc::TIMER_ABSTIME, &raw const due, ptr::null_mut()) };
        check(armed)?;
        let mut number = 0;
        // SAFETY: the set was filled by `block` and both pointers live through the call.
        match unsafe { libc::sigwait(&raw const self.signal, &raw mut number) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

impl Drop for SignalTimer {
    fn drop(&mut self) {
        // SAFETY: the timer was created by `new` and is deleted once.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// Blocks a signal in the calling thread and returns the set holding it.
pub(super) fn block(signal: libc::c_int) -> io::Result<libc::sigset_t> {
    // SAFETY: `sigset_t` is plain data; `sigemptyset` below makes it a valid set.
    let mut set: libc::sigset_t = unsafe { zeroed() };
    // SAFETY: the pointer is to a local.
    check(unsafe { libc::sigemptyset(&raw mut set) })?;
    // SAFETY: the pointer is to an initialised local.
    check(unsafe { libc::sigaddset(&raw mut set, signal) })?;
    // SAFETY: the set is initialised; a null old set is allowed.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) } {
        0 => Ok(set),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn once() -> libc::itimerspec {
    // SAFETY: `itimerspec` is plain integers, for which all-zero bytes are a value.
    unsafe { zeroed() }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
