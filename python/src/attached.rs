//! A thread of ours that Python knows for as long as it lives.

use pyo3::ffi;
use std::cell::RefCell;

thread_local! {
    static ATTACHED: RefCell<Option<Attached>> = const { RefCell::new(None) };
}

/// Python's idea of a thread. Without it Python would make and throw away one for every call from that thread.
struct Attached {
    gil: ffi::PyGILState_STATE,
    saved: *mut ffi::PyThreadState,
}

/// Makes this thread known to Python until it ends. The interpreter lock is not held afterwards.
///
/// Call it on a thread that was not started by Python and does not hold the lock.
pub fn keep_attached() {
    ATTACHED.with_borrow_mut(|attached| {
        if attached.is_none() {
            // SAFETY: the interpreter runs, since it is what started us, and waits for this thread to end.
            let gil = unsafe { ffi::PyGILState_Ensure() };
            // SAFETY: the line before made this thread hold the lock.
            let saved = unsafe { ffi::PyEval_SaveThread() };
            *attached = Some(Attached { gil, saved });
        }
    });
}

impl Drop for Attached {
    fn drop(&mut self) {
        // SAFETY: runs at the end of the thread that made `saved`, which does not hold the lock.
        unsafe { ffi::PyEval_RestoreThread(self.saved) };
        // SAFETY: pairs with the `PyGILState_Ensure` of `keep_attached`; the lock is held again.
        unsafe { ffi::PyGILState_Release(self.gil) };
    }
}
