//! Many packets with one system call, each with the time the kernel received it.

use super::check;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Packets per system call.
pub(crate) const BATCH: usize = 32;

/// Room for one timestamp as control data.
const CONTROL: usize = 64;

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

/// Room for a batch of packets of up to `SIZE` bytes each; longer ones are cut off.
pub(crate) struct Batch<const SIZE: usize> {
    packets: Box<[[u8; SIZE]]>,
    controls: Box<[Control]>,
}

impl<const SIZE: usize> Batch<SIZE> {
    pub(crate) fn new() -> Self {
        Self { packets: vec![[0; SIZE]; BATCH].into(), controls: vec![Control([0; CONTROL]); BATCH].into() }
    }

    /// Receives up to [`BATCH`] packets with one `recvmmsg` and gives each, with the kernel's timestamp in
    /// nanoseconds of `CLOCK_REALTIME` if there is one, to `each`; how many there were.
    ///
    /// # Errors
    /// `EAGAIN` if there was none; what befell the interface.
    pub(crate) fn receive(
        &mut self,
        fd: BorrowedFd<'_>,
        mut each: impl FnMut(&[u8], Option<i64>),
    ) -> io::Result<usize> {
        let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; BATCH];
        let mut messages = [const { MaybeUninit::<libc::mmsghdr>::zeroed() }; BATCH];
        let room = self.packets.iter_mut().zip(self.controls.iter_mut());
        for ((packet, control), (part, message)) in room.zip(parts.iter_mut().zip(&mut messages)) {
            let part = part.write(libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: SIZE });
            // SAFETY: all-zero is a valid `mmsghdr`: no address, no parts, no control data.
            let message = unsafe { message.assume_init_mut() };
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = (&raw mut *control).cast();
            message.msg_hdr.msg_controllen = CONTROL as _;
        }
        let (first, count) = (messages.as_mut_ptr().cast(), BATCH as libc::c_uint);
        let (flags, no_timeout) = (libc::MSG_DONTWAIT as _, std::ptr::null_mut());
        // SAFETY: all `BATCH` messages are initialised; each points to its own packet and control data with
        // their true lengths, which are plain bytes and outlive the call.
        let received = unsafe { libc::recvmmsg(fd.as_raw_fd(), first, count, flags, no_timeout) };
        check(received)?;
        for (message, packet) in messages.iter().zip(&self.packets).take(received as usize) {
            // SAFETY: initialised above, and then by the kernel.
            let message = unsafe { message.assume_init_ref() };
            let len = (message.msg_len as usize).min(SIZE);
            each(&packet[..len], timestamp(&message.msg_hdr));
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
