//! The terminal, as far as it decides how a text is laid out.

use std::os::fd::AsFd;

/// How many characters a line of this terminal holds. `None`: it is no terminal, or one that does not report it.
pub fn columns(terminal: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    Some(size.ws_col.into()).filter(|columns| *columns > 0)
}
