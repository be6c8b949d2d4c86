//! Which process has the other end of a socket.

use super::check;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The process that listens where this socket is connected (`SO_PEERCRED`); `None` if the kernel does not name it, as of a
/// process in a container that this one does not see.
pub(crate) fn peer_process(fd: BorrowedFd<'_>) -> Option<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: pointer and length describe `peer` and each other, and live through the call.
    let asked = check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    });
    asked.ok().and_then(|()| u32::try_from(peer.pid).ok()).filter(|&process| process != 0)
}
