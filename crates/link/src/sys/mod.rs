//! The system calls links need that no safe crate offers. All `unsafe` of this crate is in here.

pub(crate) mod batch;
pub(crate) mod can;
pub(crate) mod memory;
pub(crate) mod spi;
pub mod stamps;
pub(crate) mod tty;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an integer option of a socket.
pub(crate) fn set_option(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`, which lives through the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), len) })
}

/// The error a system call left behind, if its result says so.
fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
