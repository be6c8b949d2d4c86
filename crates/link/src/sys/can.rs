//! Raw CAN sockets: opened with everything on, and frames in batches of one system call.

use khz_wire::Frame;
use khz_wire::frame::MAX_PAYLOAD;
use std::ffi::CString;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Frames per system call.
pub(crate) const BATCH: usize = 32;

/// `struct canfd_frame` of linux/can.h; a classic `struct can_frame` is its first 16 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct RawFrame {
    id: u32,
    len: u8,
    flags: u8,
    reserved: [u8; 2],
    data: [u8; MAX_PAYLOAD],
}

const CLASSIC_MTU: usize = 16;
const FD_MTU: usize = size_of::<RawFrame>();

// linux/can.h, linux/can/raw.h, linux/can/error.h.
const EXTENDED: u32 = 1 << 31;
const REMOTE: u32 = 1 << 30;
const ERROR: u32 = 1 << 29;
const BRS: u8 = 1;
const FDF: u8 = 4;
const SOL_CAN_RAW: libc::c_int = 101;
const CAN_RAW_ERR_FILTER: libc::c_int = 2;
const CAN_RAW_FD_FRAMES: libc::c_int = 5;
const ERR_BUS_OFF: u32 = 0x40;
const ERR_RESTARTED: u32 = 0x100;
const ERR_ALL: u32 = 0x1fff_ffff;

impl RawFrame {
    pub(crate) const EMPTY: Self = Self { id: 0, len: 0, flags: 0, reserved: [0; 2], data: [0; MAX_PAYLOAD] };

    pub(crate) fn new(frame: &Frame) -> Self {
        let mut raw = Self {
            id: frame.id | if frame.extended { EXTENDED } else { 0 },
            len: frame.payload().len() as u8,
            flags: if frame.fd { FDF | if frame.brs { BRS } else { 0 } } else { 0 },
            ..Self::EMPTY
        };
        raw.data[..frame.payload().len()].copy_from_slice(frame.payload());
        raw
    }

    fn mtu(&self) -> usize {
        if self.flags & FDF != 0 { FD_MTU } else { CLASSIC_MTU }
    }
}

/// What a raw socket hands up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Heard {
    /// A data frame.
    Frame(Frame),
    /// The controller left the bus.
    BusOff,
    /// The controller is back on the bus.
    Restarted,
    /// Another error frame.
    Error,
    /// A remote frame, or bytes that are no frame.
    Useless,
    /// The other end of a stand-in socket is closed; a CAN socket never says so.
    HungUp,
}

fn understand(raw: &RawFrame, bytes: usize) -> Heard {
    if !matches!(bytes, CLASSIC_MTU | FD_MTU) {
        return if bytes == 0 { Heard::HungUp } else { Heard::Useless };
    }
    if raw.id & ERROR != 0 {
        return match raw.id {
            id if id & ERR_BUS_OFF != 0 => Heard::BusOff,
            id if id & ERR_RESTARTED != 0 => Heard::Restarted,
            _ => Heard::Error,
        };
    }
    let most = if bytes == FD_MTU { MAX_PAYLOAD } else { 8 };
    let len = usize::from(raw.len);
    if raw.id & REMOTE != 0 || len > most {
        return Heard::Useless;
    }
    let Some(mut frame) = Frame::new(raw.id & 0x1fff_ffff, &raw.data[..len]) else { return Heard::Useless };
    frame.extended = raw.id & EXTENDED != 0;
    frame.fd = bytes == FD_MTU;
    frame.brs = frame.fd && raw.flags & BRS != 0;
    Heard::Frame(frame)
}

/// Opens a raw socket on an interface: FD frames, error frames and kernel receive timestamps on.
///
/// # Errors
/// `ENODEV` without such an interface, `EAFNOSUPPORT` without CAN in the kernel.
pub(crate) fn open(interface: &str) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let raw = unsafe { libc::socket(libc::PF_CAN, kind, libc::CAN_RAW) };
    check(raw)?;
    // SAFETY: `raw` is a descriptor just made and owned by no one else.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    set(&fd, SOL_CAN_RAW, CAN_RAW_FD_FRAMES, 1)?;
    set(&fd, SOL_CAN_RAW, CAN_RAW_ERR_FILTER, ERR_ALL as libc::c_int)?;
    set(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    let name = CString::new(interface)?;
    // SAFETY: `name` ends in a zero byte and lives through the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    // SAFETY: integers only; zero is valid for each.
    let mut address: libc::sockaddr_can = unsafe { std::mem::zeroed() };
    address.can_family = libc::AF_CAN as libc::sa_family_t;
    address.can_ifindex = index as libc::c_int;
    let len = size_of::<libc::sockaddr_can>() as libc::socklen_t;
    // SAFETY: pointer and length describe `address`, which lives through the call.
    check(unsafe { libc::bind(raw, (&raw const address).cast(), len) })?;
    Ok(fd)
}

fn set(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`, which lives through the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), len) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends up to [`BATCH`] frames with one `sendmmsg`; how many the kernel took.
///
/// # Errors
/// The error of the first frame, if none was taken.
pub(crate) fn send(fd: BorrowedFd<'_>, frames: &[RawFrame]) -> io::Result<usize> {
    let count = frames.len().min(BATCH);
    let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; BATCH];
    let mut messages = [const { MaybeUninit::<libc::mmsghdr>::zeroed() }; BATCH];
    for (i, frame) in frames[..count].iter().enumerate() {
        let base = (&raw const *frame).cast_mut().cast();
        let part = parts[i].write(libc::iovec { iov_base: base, iov_len: frame.mtu() });
        // SAFETY: all-zero is a valid `mmsghdr`: no address, no parts, no control data.
        let message = unsafe { messages[i].assume_init_mut() };
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
    }
    let (flags, count) = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL, count as libc::c_uint);
    // SAFETY: the first `count` messages are initialised and point to parts of `frames`, which the kernel only
    // reads, and which outlive the call.
    let sent = unsafe { libc::sendmmsg(fd.as_raw_fd(), messages.as_mut_ptr().cast(), count, flags as _) };
    check(sent)?;
    Ok(sent as usize)
}

/// Room for one timestamp as control data.
const CONTROL: usize = 64;

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

/// Receives up to [`BATCH`] frames with one `recvmmsg` and gives each, with the kernel's timestamp in
/// nanoseconds of `CLOCK_REALTIME` if there is one, to `each`; how many there were.
///
/// # Errors
/// `EAGAIN` if there was none; what befell the interface.
pub(crate) fn receive(fd: BorrowedFd<'_>, mut each: impl FnMut(Heard, Option<i64>)) -> io::Result<usize> {
    let mut frames = [RawFrame::EMPTY; BATCH];
    let mut controls = [Control([0; CONTROL]); BATCH];
    let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; BATCH];
    let mut messages = [const { MaybeUninit::<libc::mmsghdr>::zeroed() }; BATCH];
    for i in 0..BATCH {
        let base = (&raw mut frames[i]).cast();
        let part = parts[i].write(libc::iovec { iov_base: base, iov_len: FD_MTU });
        // SAFETY: all-zero is a valid `mmsghdr`: no address, no parts, no control data.
        let message = unsafe { messages[i].assume_init_mut() };
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
        message.msg_hdr.msg_control = (&raw mut controls[i]).cast();
        message.msg_hdr.msg_controllen = CONTROL as _;
    }
    let (first, count) = (messages.as_mut_ptr().cast(), BATCH as libc::c_uint);
    let (flags, no_timeout) = (libc::MSG_DONTWAIT as _, std::ptr::null_mut());
    // SAFETY: every message is initialised and points to its own frame and control buffer with their true
    // lengths; any bytes the kernel writes are valid for both; all outlive the call.
    let received = unsafe { libc::recvmmsg(fd.as_raw_fd(), first, count, flags, no_timeout) };
    check(received)?;
    for (message, frame) in messages.iter().zip(&frames).take(received as usize) {
        // SAFETY: initialised above, and then by the kernel.
        let message = unsafe { message.assume_init_ref() };
        each(understand(frame, message.msg_len as usize), timestamp(&message.msg_hdr));
    }
    Ok(received as usize)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_frames_have_the_kernels_layout() {
        assert_eq!(FD_MTU, 72);
        let frame = Frame::new(0x8001, &[1, 2, 3]).unwrap();
        let raw = RawFrame::new(&frame);
        assert_eq!((raw.id, raw.len, raw.flags, raw.mtu()), (0x8000_8001, 3, 5, 72));
        assert_eq!(understand(&raw, 72), Heard::Frame(frame));
    }

    #[test]
    fn classic_error_and_useless_frames_are_told_apart() {
        let classic = RawFrame { id: 0x123, len: 8, ..RawFrame::EMPTY };
        let Heard::Frame(frame) = understand(&classic, 16) else { panic!() };
        assert!(!frame.fd && !frame.extended && !frame.brs);
        assert_eq!(understand(&RawFrame { len: 9, ..classic }, 16), Heard::Useless);
        assert_eq!(understand(&RawFrame { len: 65, ..classic }, 72), Heard::Useless);
        assert_eq!(understand(&classic, 15), Heard::Useless);
        assert_eq!(understand(&RawFrame { id: REMOTE | 1, ..classic }, 16), Heard::Useless);
        assert_eq!(understand(&RawFrame { id: ERROR | 0x40, ..classic }, 16), Heard::BusOff);
        assert_eq!(understand(&RawFrame { id: ERROR | 0x100, ..classic }, 16), Heard::Restarted);
        assert_eq!(understand(&RawFrame { id: ERROR | 0x88, ..classic }, 16), Heard::Error);
    }
}
