//! Many packets with one system call, each with the time the kernel received it.

use super::{address, check};
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Packets per system call.
pub(crate) const BATCH: usize = 32;

/// Room for one timestamp as control data.
const CONTROL: usize = 64;

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

/// One packet of a batch.
pub(crate) struct Packet<'a> {
    /// What it carries.
    pub(crate) bytes: &'a [u8],
    /// When the kernel received it, ns of `CLOCK_REALTIME`, if it noted that.
    pub(crate) stamp: Option<i64>,
    /// Who sent it, where that is an internet address.
    pub(crate) from: Option<SocketAddr>,
    /// On a CAN socket: one of our own frames, which the driver has sent.
    pub(crate) is_own: bool,
}

/// Room for a batch of packets of up to `SIZE` bytes each; longer ones are cut off.
pub(crate) struct Batch<const SIZE: usize> {
    packets: Box<[[u8; SIZE]]>,
    controls: Box<[Control]>,
    names: Box<[libc::sockaddr_storage]>,
}

impl<const SIZE: usize> Batch<SIZE> {
    pub(crate) fn new() -> Self {
        // SAFETY: integers only; zero is valid for each.
        let name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        Self {
            packets: vec![[0; SIZE]; BATCH].into(),
            controls: vec![Control([0; CONTROL]); BATCH].into(),
            names: vec![name; BATCH].into(),
        }
    }

    /// Receives up to [`BATCH`] packets with one `recvmmsg` and gives each to `each`; how many there were.
    ///
    /// # Errors
    /// `EAGAIN` if there was none; what befell the interface.
    pub(crate) fn receive(
        &mut self,
        fd: BorrowedFd<'_>,
        mut each: impl FnMut(Packet<'_>),
    ) -> io::Result<usize> {
        let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; BATCH];
        let mut messages = [const { MaybeUninit::<libc::mmsghdr>::zeroed() }; BATCH];
        let room = self.packets.iter_mut().zip(self.controls.iter_mut()).zip(self.names.iter_mut());
        for (((packet, control), name), (part, message)) in room.zip(parts.iter_mut().zip(&mut messages)) {
            let part = part.write(libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: SIZE });
            // SAFETY: all-zero is a valid `mmsghdr`: no address, no parts, no control data.
            let message = unsafe { message.assume_init_mut() };
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_name = (&raw mut *name).cast();
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            message.msg_hdr.msg_control = (&raw mut *control).cast();
            message.msg_hdr.msg_controllen = CONTROL as _;
        }
        let (first, count) = (messages.as_mut_ptr().cast(), BATCH as libc::c_uint);
        let (flags, no_timeout) = (libc::MSG_DONTWAIT as _, std::ptr::null_mut());
        // SAFETY: all `BATCH` messages are initialised; each points to its own packet, name and control data with
        // their true lengths, which are plain bytes and outlive the call.
        let received = unsafe { libc::recvmmsg(fd.as_raw_fd(), first, count, flags, no_timeout) };
        check(received)?;
        let filled = messages.iter().zip(&self.packets).zip(&self.names);
        for ((message, packet), name) in filled.take(received as usize) {
            // SAFETY: initialised above, and then by the kernel.
            let message = unsafe { message.assume_init_ref() };
            let len = (message.msg_len as usize).min(SIZE);
            each(Packet {
                bytes: &packet[..len],
                stamp: timestamp(&message.msg_hdr),
                from: (message.msg_hdr.msg_namelen > 0).then(|| address(name)).flatten(),
                is_own: message.msg_hdr.msg_flags & libc::MSG_CONFIRM != 0,
            });
        }
        Ok(received as usize)
    }
}

/// The receive time among a message's control data, ns of `CLOCK_REALTIME`.
#[allow(clippy::useless_conversion, reason = "a timespec's fields have 32 bits on some machines")]
fn timestamp(header: &libc::msghdr) -> Option<i64> {
    // SAFETY: the kernel filled in control pointer and length, and the buffer is still there.
    let first = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: null, or aligned within the control buffer with a whole header behind it.
    let control = unsafe { first.as_ref() }?;
    if control.cmsg_level != libc::SOL_SOCKET || control.cmsg_type != libc::SO_TIMESTAMPNS {
        return None;
    }
    // SAFETY: `first` is a valid header.
    let data = unsafe { libc::CMSG_DATA(first) };
    // SAFETY: this kind of control data is a `timespec`; it may be unaligned.
    let time: libc::timespec = unsafe { data.cast::<libc::timespec>().read_unaligned() };
    i64::from(time.tv_sec).checked_mul(1_000_000_000)?.checked_add(i64::from(time.tv_nsec))
}
