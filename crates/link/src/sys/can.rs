//! Raw CAN sockets: opened with everything on, and frames in batches of one system call.

use super::batch::BATCH;
use super::{check, set_option};
use khz_wire::Frame;
use khz_wire::frame::MAX_PAYLOAD;
use std::ffi::CString;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `struct canfd_frame` of linux/can.h; a classic `struct can_frame` is its first 16 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawFrame {
    id: u32,
    len: u8,
    flags: u8,
    reserved: [u8; 2],
    data: [u8; MAX_PAYLOAD],
}

const CLASSIC_MTU: usize = 16;
/// Size of a CAN-FD frame as the kernel gives it.
pub(crate) const FD_MTU: usize = size_of::<RawFrame>();

// linux/can.h, linux/can/raw.h, linux/can/error.h.
const EXTENDED: u32 = 1 << 31;
const REMOTE: u32 = 1 << 30;
const ERROR: u32 = 1 << 29;
const BRS: u8 = 1;
const FDF: u8 = 4;
const SOL_CAN_RAW: libc::c_int = 101;
const CAN_RAW_ERR_FILTER: libc::c_int = 2;
const CAN_RAW_FD_FRAMES: libc::c_int = 5;
const CAN_RAW_RECV_OWN_MSGS: libc::c_int = 4;
const ERR_BUS_OFF: u32 = 0x40;
const ERR_RESTARTED: u32 = 0x100;
const ERR_ALL: u32 = 0x1fff_ffff;

/// The same identifier and payload. Kernels differ in the flags they give back.
impl PartialEq for RawFrame {
    fn eq(&self, other: &Self) -> bool {
        (self.id, self.len, self.data) == (other.id, other.len, other.data)
    }
}

impl RawFrame {
    pub(crate) const EMPTY: Self = Self { id: 0, len: 0, flags: 0, reserved: [0; 2], data: [0; MAX_PAYLOAD] };

    pub(crate) fn new(frame: &Frame) -> Self {
        let mut raw = Self {
            id: frame.id
                | if frame.extended { EXTENDED } else { 0 }
                | if frame.remote.is_some() { REMOTE } else { 0 },
            len: frame.remote.unwrap_or(frame.payload().len() as u8),
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
pub(crate) enum Incoming {
    /// A data or remote frame.
    Frame(Frame),
    /// The controller left the bus.
    BusOff,
    /// The controller is back on the bus.
    Restarted,
    /// Another error frame.
    Error,
    /// Bytes that are no frame.
    Useless,
    /// The other end of a substitute socket is closed; a CAN socket never returns this.
    HungUp,
}

/// Reads what a raw socket gave.
pub(crate) fn understand(bytes: &[u8]) -> Incoming {
    let (Some((id, rest)), CLASSIC_MTU | FD_MTU) = (bytes.split_first_chunk(), bytes.len()) else {
        return if bytes.is_empty() { Incoming::HungUp } else { Incoming::Useless };
    };
    let id = u32::from_ne_bytes(*id);
    if id & ERROR != 0 {
        return match id {
            id if id & ERR_BUS_OFF != 0 => Incoming::BusOff,
            id if id & ERR_RESTARTED != 0 => Incoming::Restarted,
            _ => Incoming::Error,
        };
    }
    let (len, flags) = (usize::from(rest[0]), rest[1]);
    let frame = if id & REMOTE != 0 {
        Frame::remote(id & 0x1fff_ffff, rest[0]).filter(|_| bytes.len() == CLASSIC_MTU)
    } else {
        rest[4..].get(..len).and_then(|payload| Frame::new(id & 0x1fff_ffff, payload))
    };
    let Some(mut frame) = frame else { return Incoming::Useless };
    frame.extended = id & EXTENDED != 0;
    frame.fd = bytes.len() == FD_MTU;
    frame.brs = frame.fd && flags & BRS != 0;
    Incoming::Frame(frame)
}

/// Opens a raw socket on an interface: FD frames, error frames and kernel receive timestamps on. `confirm`: the kernel
/// gives own frames back once the driver has sent them.
///
/// # Errors
/// `ENODEV` without such an interface, `EAFNOSUPPORT` without CAN in the kernel.
pub(crate) fn open(interface: &str, confirm: bool) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let raw = unsafe { libc::socket(libc::PF_CAN, kind, libc::CAN_RAW) };
    check(raw)?;
    // SAFETY: `raw` is a descriptor just made and owned by no one else.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    set_option(fd.as_fd(), SOL_CAN_RAW, CAN_RAW_FD_FRAMES, 1)?;
    set_option(fd.as_fd(), SOL_CAN_RAW, CAN_RAW_ERR_FILTER, ERR_ALL as libc::c_int)?;
    set_option(fd.as_fd(), SOL_CAN_RAW, CAN_RAW_RECV_OWN_MSGS, confirm.into())?;
    set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A classic frame with this identifier and length.
    fn classic(id: u32, len: u8) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&id.to_ne_bytes());
        bytes[4] = len;
        bytes
    }

    #[test]
    fn raw_frames_have_the_kernels_layout() {
        assert_eq!((FD_MTU, align_of::<RawFrame>()), (72, 8));
        let raw = RawFrame::new(&Frame::new(0x8001, &[1, 2, 3]).unwrap());
        assert_eq!((raw.id, raw.len, raw.flags, raw.mtu()), (0x8000_8001, 3, 5, 72));
    }

    #[test]
    fn data_error_and_useless_frames_are_distinguished() {
        let Incoming::Frame(frame) = understand(&classic(0x123, 8)) else { panic!() };
        assert!(!frame.fd && !frame.extended && !frame.brs);
        let fd = [&0x8000_8001_u32.to_ne_bytes()[..], &[3, 5, 0, 0, 1, 2, 3], &[0; 61]].concat();
        assert_eq!(understand(&fd), Incoming::Frame(Frame::new(0x8001, &[1, 2, 3]).unwrap()));
        assert_eq!(understand(&classic(0x123, 9)), Incoming::Useless);
        let remote = Frame::remote(1, 8).unwrap();
        assert_eq!(understand(&classic(REMOTE | 1, 8)), Incoming::Frame(remote));
        let raw = RawFrame::new(&remote);
        assert_eq!((raw.id, raw.len, raw.flags), (REMOTE | 1, 8, 0));
        assert_eq!(understand(&classic(REMOTE | 1, 9)), Incoming::Useless);
        assert_eq!(understand(&classic(ERROR | 0x40, 8)), Incoming::BusOff);
        assert_eq!(understand(&classic(ERROR | 0x100, 8)), Incoming::Restarted);
        assert_eq!(understand(&classic(ERROR | 0x88, 8)), Incoming::Error);
        (1..16).for_each(|len| assert_eq!(understand(&fd[..len]), Incoming::Useless));
        assert_eq!(understand(&[]), Incoming::HungUp);
    }
}
