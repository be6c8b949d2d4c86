//! Panics that are kept, not printed.
//!
//! By default a panic is printed on stderr before it unwinds. When stderr is not read (a pipe that is full, a terminal
//! stopped by Ctrl-S) that write never returns, and a loop that could still bring its robot down hangs instead.
//! [`catch`] keeps the message in memory that exists already; the caller reports it when there is time.
//!
//! ```
//! use khz_rt::panics::{self, Panic};
//!
//! panics::install();
//! let mut panic = Panic::new();
//! assert_eq!(panics::catch(&mut panic, || 6 * 7), Some(42));
//! assert_eq!(panics::catch(&mut panic, || -> i32 { panic!("a bug") }), None);
//! assert!(panic.to_string().starts_with("a bug, at "));
//! ```

use std::cell::{Cell, RefCell};
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

/// Bytes kept of a message.
const ROOM: usize = 480;

thread_local! {
    /// How many calls of [`catch`] this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static LAST: RefCell<Panic> = const { RefCell::new(Panic::new()) };
}

/// The message of a panic, and where it was. Of a long message the beginning.
#[derive(Clone)]
pub struct Panic {
    text: [u8; ROOM],
    len: usize,
}

impl Panic {
    /// Room for a message. Allocates nothing.
    pub const fn new() -> Self {
        Self { text: [0; ROOM], len: 0 }
    }

    fn keep(&mut self, info: &PanicHookInfo<'_>) {
        self.len = 0;
        let payload = info.payload();
        let message = payload.downcast_ref::<&str>().copied();
        let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        // A message that does not fit is cut off.
        let _ = self.write_str(message.unwrap_or("no message"));
        if let Some(place) = info.location() {
            // A long message must not push the place out.
            self.len = self.len.min(ROOM * 3 / 4);
            self.len = std::str::from_utf8(&self.text[..self.len]).map_or_else(|e| e.valid_up_to(), str::len);
            let _ = write!(self, ", at {place}");
        }
    }

    fn as_str(&self) -> &str {
        match std::str::from_utf8(&self.text[..self.len]) {
            Ok("") | Err(_) => "no message",
            Ok(text) => text,
        }
    }
}

impl Default for Panic {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for Panic {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = text.len().min(ROOM - self.len);
        // Never half a character.
        let fits = (0..=room).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        self.text[self.len..self.len + fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.len += fits;
        Ok(())
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Makes [`catch`] quiet from now on, once per process. Panics outside of it go to the hook that was set before.
///
/// A hook set later replaces this one, and panics are printed again; a program that sets one calls the hook before it
/// (`std::panic::take_hook`) too. Locks and allocates; does nothing on a thread that panics just now.
pub fn install() {
    static INSTALLED: Once = Once::new();
    // The hook cannot be changed by a thread that unwinds.
    if std::thread::panicking() {
        return;
    }
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let kept = is_catching()
                && LAST.with(|last| last.try_borrow_mut().map(|mut last| last.keep(info)).is_ok());
            if !kept {
                before(info);
            }
        }));
    });
}

/// Calls `code`. If it panics, nothing is printed: the message is put into `panic`, and there is no value.
///
/// Neither locks nor prints nor allocates by itself; what a panic carries is allocated by the one who panics, and never
/// freed, because freeing it may run code that panics again. A panic that `code` catches itself is not printed either.
/// Needs [`install`].
pub fn catch<T>(panic: &mut Panic, code: impl FnOnce() -> T) -> Option<T> {
    DEPTH.set(DEPTH.get() + 1);
    let outcome = catch_unwind(AssertUnwindSafe(code));
    DEPTH.set(DEPTH.get() - 1);
    match outcome {
        Ok(value) => Some(value),
        Err(payload) => {
            std::mem::forget(payload);
            // One that goes on after it was caught (`resume_unwind`) has no message.
            *panic = LAST.take();
            None
        }
    }
}

/// Whether this thread is in a call of [`catch`]: a panic here is kept once [`install`] was called. For hooks that are set
/// later. Does not allocate.
pub fn is_catching() -> bool {
    DEPTH.get() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caught(code: impl FnOnce()) -> String {
        install();
        let mut panic = Panic::new();
        assert_eq!(catch(&mut panic, code), None);
        panic.to_string()
    }

    #[test]
    fn message_and_place_are_kept() {
        let number = 7;
        let message = caught(|| panic!("bug number {number}"));
        assert!(message.starts_with("bug number 7, at ") && message.contains("panics.rs:"), "{message}");
    }

    #[test]
    fn a_long_message_leaves_room_for_the_place() {
        let message = caught(|| panic!("{}", "ü".repeat(1000)));
        assert!(message.starts_with("üüü") && message.contains("panics.rs:"), "{message}");
    }

    #[test]
    fn what_has_no_message_is_no_older_panic() {
        caught(|| panic!("older"));
        assert_eq!(caught(|| std::panic::resume_unwind(Box::new(1))), "no message");
        assert!(caught(|| std::panic::panic_any(1)).starts_with("no message, at "));
    }

    /// Panics again when it is freed.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the bomb");
        }
    }

    #[test]
    fn a_payload_that_panics_when_freed_does_no_harm() {
        assert!(caught(|| std::panic::panic_any(Bomb)).starts_with("no message"));
    }

    #[test]
    fn calls_within_calls_each_catch_their_own() {
        let outer = caught(|| {
            assert!(caught(|| panic!("inner")).starts_with("inner"));
            panic!("outer");
        });
        assert!(outer.starts_with("outer"), "{outer}");
    }
}
