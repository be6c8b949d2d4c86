//! The system calls links need that no safe crate offers. All `unsafe` of this crate is in here.

pub(crate) mod batch;
pub(crate) mod can;
pub(crate) mod memory;
pub(crate) mod peer;
pub(crate) mod spi;
pub mod stamps;
pub(crate) mod tty;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
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

/// Bytes that were sent through a socket and that no driver has taken yet (`SO_MEMINFO`); 0 if the kernel does not report it.
pub(crate) fn queued(fd: BorrowedFd<'_>) -> usize {
    // linux/sock_diag.h: nine numbers, of which this is `SK_MEMINFO_WMEM_ALLOC`.
    const WMEM_ALLOC: usize = 2;
    let mut numbers = [0_u32; 9];
    let mut len = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: pointer and length describe `numbers` and each other, and live through the call.
    let asked = check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut len,
        )
    });
    asked.map_or(0, |()| numbers[WMEM_ALLOC] as usize)
}

/// The error of a system call (`errno`), if its result is negative.
fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The internet address a kernel has written; `None` if it is of another family.
fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let at: *const libc::sockaddr_storage = name;
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: of this family the storage holds a `sockaddr_in`, for which it is large and aligned enough.
            let v4 = unsafe { &*at.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some((ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above, with a `sockaddr_in6`.
            let v6 = unsafe { &*at.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}
