//! The kernel's own times of datagrams, received and sent (Linux `Documentation/networking/timestamping.rst`).

use super::{address, check, set_option};
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Times of one datagram. Both clocks count nanoseconds, each from its own origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// By the kernel, `CLOCK_REALTIME`.
    pub software_ns: Option<i64>,
    /// By the network card's own clock.
    pub hardware_ns: Option<i64>,
}

/// What the kernel reports about a datagram that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// The number of a datagram and the times of its sending.
    Sent(u32, Stamps),
    /// A datagram to this address did not get there, by an ICMP message.
    Undelivered {
        /// The address it was sent to.
        to: SocketAddr,
        /// No program listens on that port (port unreachable). Else there is no way to the host.
        refused: bool,
    },
}

/// What was asked to be stamped, and how.
const WANTED: libc::c_uint = libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_RX_SOFTWARE
    | libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_TX_HARDWARE
    | libc::SOF_TIMESTAMPING_RX_HARDWARE
    | libc::SOF_TIMESTAMPING_RAW_HARDWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;

/// All of that but the count. Arrivals stay asked for: where the last on the machine who asks takes that back, the kernel
/// stops noting them, and begins again only a moment after the next asked.
const UNCOUNTED: libc::c_uint = WANTED & !libc::SOF_TIMESTAMPING_OPT_ID;

/// Room for the control data of one datagram: times and, on the error queue, what they belong to.
const CONTROL: usize = 256;

#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Asks the kernel for times; datagrams sent from now on are counted from 0. If no program on the machine asked
/// before, arrivals are stamped only a moment later.
///
/// # Errors
/// If it has no such option.
pub fn enable(socket: BorrowedFd<'_>) -> io::Result<()> {
    // The count starts again where counting is asked for anew.
    ask(socket, UNCOUNTED)?;
    ask(socket, WANTED)
}

fn ask(socket: BorrowedFd<'_>, flags: libc::c_uint) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as libc::c_int)
}

/// Asks the kernel for its own times of arrivals alone, which costs no further system call. If no program on the machine
/// asked before, arrivals are stamped only a moment later.
///
/// # Errors
/// If it has no such option.
pub fn enable_arrivals(socket: BorrowedFd<'_>) -> io::Result<()> {
    ask(socket, libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE)
}

/// Asks the kernel to queue ICMP errors about datagrams sent ([`Queued::Undelivered`]), also on a socket that
/// sends to many. The next call on the socket then fails with their error, once for each.
///
/// # Errors
/// If it has no such option.
pub fn enable_undelivered(socket: BorrowedFd<'_>, v6: bool) -> io::Result<()> {
    let (level, name) =
        if v6 { (libc::SOL_IPV6, libc::IPV6_RECVERR) } else { (libc::SOL_IP, libc::IP_RECVERR) };
    set_option(socket, level, name, 1)
}

/// Lets the kernel poll the network card for so many µs when a receive finds nothing, instead of waiting for an
/// interrupt (`SO_BUSY_POLL`, `SO_PREFER_BUSY_POLL`).
///
/// # Errors
/// `EPERM`: more than `net.core.busy_read` needs `CAP_NET_ADMIN`.
pub fn busy_poll(socket: BorrowedFd<'_>, us: u32) -> io::Result<()> {
    let us = libc::c_int::try_from(us).unwrap_or(libc::c_int::MAX);
    set_option(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, us)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, 1)
}

/// Takes a datagram, its sender and its times; waits for one only if `wait`.
///
/// # Errors
/// As `recvmsg`; `EAGAIN` if there is none.
pub fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    wait: bool,
) -> io::Result<(usize, Option<SocketAddr>, Stamps)> {
    let mut message = Message::default();
    let length = message.take(socket, buffer, if wait { 0 } else { libc::MSG_DONTWAIT })?;
    Ok((length, message.sender(), message.stamps()))
}

/// The number and the times of a datagram that was sent, if any are there that were not taken yet.
///
/// # Errors
/// As `recvmsg`.
pub fn sent(socket: BorrowedFd<'_>) -> io::Result<Option<(u32, Stamps)>> {
    loop {
        match queued(socket)? {
            Some(Queued::Sent(key, stamps)) => return Ok(Some((key, stamps))),
            Some(Queued::Undelivered { .. }) => {}
            None => return Ok(None),
        }
    }
}

/// What the kernel has queued about datagrams sent, if there is anything. Never waits.
///
/// # Errors
/// As `recvmsg`.
pub fn queued(socket: BorrowedFd<'_>) -> io::Result<Option<Queued>> {
    loop {
        let mut message = Message::default();
        match message.take(socket, &mut [], libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        if let Some(queued) = message.queued() {
            return Ok(Some(queued));
        }
    }
}

/// Where `recvmsg` puts what belongs to a datagram.
struct Message {
    name: MaybeUninit<libc::sockaddr_storage>,
    name_len: libc::socklen_t,
    control: Control,
    control_len: usize,
}

impl Default for Message {
    fn default() -> Self {
        Self { name: MaybeUninit::zeroed(), name_len: 0, control: Control([0; CONTROL]), control_len: 0 }
    }
}

impl Message {
    #[allow(clippy::useless_conversion, reason = "lengths have other types with other C libraries")]
    fn take(&mut self, socket: BorrowedFd<'_>, buffer: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all-zero is a valid `msghdr`: no address, no parts, no control data.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_name = self.name.as_mut_ptr().cast();
        header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = (&raw mut self.control).cast();
        header.msg_controllen = CONTROL as _;
        // SAFETY: the header points to buffers with their true lengths, which outlive the call.
        let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
        check(length.min(0) as libc::c_int)?;
        self.name_len = header.msg_namelen;
        self.control_len = usize::try_from(header.msg_controllen).unwrap_or(0);
        Ok((length as usize).min(buffer.len()))
    }

    fn sender(&self) -> Option<SocketAddr> {
        if self.name_len == 0 {
            return None;
        }
        // SAFETY: zeroed at first, and then written by the kernel; any bytes are a valid `sockaddr_storage`.
        let name = unsafe { self.name.assume_init_ref() };
        address(name)
    }

    /// Every piece of control data: level, type, bytes.
    #[allow(clippy::useless_conversion, reason = "lengths have other types with other C libraries")]
    fn pieces(&self) -> impl Iterator<Item = (libc::c_int, libc::c_int, &[u8])> {
        const HEADER: usize = size_of::<libc::cmsghdr>();
        let mut rest = &self.control.0[..self.control_len.min(CONTROL)];
        std::iter::from_fn(move || {
            let head = rest.get(..HEADER)?;
            // SAFETY: as many bytes as a `cmsghdr` has, any of which are valid; read without need of alignment.
            let head: libc::cmsghdr = unsafe { head.as_ptr().cast::<libc::cmsghdr>().read_unaligned() };
            let length = usize::try_from(head.cmsg_len).unwrap_or(usize::MAX);
            let bytes = rest.get(HEADER..length)?;
            let next = length.next_multiple_of(size_of::<usize>()).min(rest.len());
            rest = &rest[next..];
            Some((head.cmsg_level, head.cmsg_type, bytes))
        })
    }

    fn stamps(&self) -> Stamps {
        let wanted = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
        let Some((_, _, bytes)) = self.pieces().find(|piece| (piece.0, piece.1) == wanted) else {
            return Stamps::default();
        };
        // `struct scm_timestamping`: the kernel's time, one no longer used, the card's.
        Stamps { software_ns: timespec(bytes, 0), hardware_ns: timespec(bytes, 2) }
    }

    /// Reads a message of the error queue, if it is of a kind asked for.
    fn queued(&self) -> Option<Queued> {
        let of_error = |level, kind| {
            (level, kind) == (libc::SOL_IP, libc::IP_RECVERR)
                || (level, kind) == (libc::SOL_IPV6, libc::IPV6_RECVERR)
        };
        let (_, _, bytes) = self.pieces().find(|(level, kind, _)| of_error(*level, *kind))?;
        let bytes = bytes.get(..size_of::<libc::sock_extended_err>())?;
        // SAFETY: as many bytes as the type has, any of which are valid; read without need of alignment.
        let error = unsafe { bytes.as_ptr().cast::<libc::sock_extended_err>().read_unaligned() };
        match error.ee_origin {
            libc::SO_EE_ORIGIN_TIMESTAMPING => Some(Queued::Sent(error.ee_data, self.stamps())),
            libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6 => {
                let refused = error.ee_errno == libc::ECONNREFUSED as u32;
                // The kernel puts the address of the datagram's receiver where a sender's would be.
                Some(Queued::Undelivered { to: self.sender()?, refused })
            }
            _ => None,
        }
    }
}

/// The time at this place of an array of `struct timespec`; none where it is zero.
#[allow(clippy::useless_conversion, reason = "a timespec's fields have 32 bits on some machines")]
fn timespec(bytes: &[u8], at: usize) -> Option<i64> {
    const SIZE: usize = size_of::<libc::timespec>();
    let bytes = bytes.get(at * SIZE..(at + 1) * SIZE)?;
    // SAFETY: as many bytes as a `timespec` has, any of which are valid; read without need of alignment.
    let time = unsafe { bytes.as_ptr().cast::<libc::timespec>().read_unaligned() };
    let ns = i64::from(time.tv_sec).checked_mul(1_000_000_000)?.checked_add(i64::from(time.tv_nsec))?;
    (ns != 0).then_some(ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    /// Returns once arrivals are stamped, which is a moment after `enable`.
    fn warm_up(host: &UdpSocket) {
        let begun = std::time::Instant::now();
        let stamped = || {
            host.send_to(b"x", host.local_addr().unwrap()).unwrap();
            while sent(host.as_fd()).unwrap().is_some() {}
            std::thread::yield_now();
            receive(host.as_fd(), &mut [0; 10], true).unwrap().2.software_ns.is_some()
        };
        while !stamped() {
            assert!(begun.elapsed().as_secs() < 60, "no arrival was ever stamped");
        }
    }

    #[test]
    fn a_datagram_over_loopback_is_stamped_on_its_way_out_and_in() {
        let device = UdpSocket::bind("127.0.0.1:0").unwrap();
        let host = UdpSocket::bind("127.0.0.1:0").unwrap();
        enable(host.as_fd()).unwrap();
        warm_up(&host);
        enable(host.as_fd()).unwrap();
        for number in 0..3 {
            host.send_to(b"there", device.local_addr().unwrap()).unwrap();
            let (key, out) = sent(host.as_fd()).unwrap().unwrap();
            assert_eq!(key, number);
            device.send_to(b"back", host.local_addr().unwrap()).unwrap();
            let mut buffer = [0; 10];
            let (length, from, back) = receive(host.as_fd(), &mut buffer, true).unwrap();
            assert_eq!((&buffer[..length], from), (&b"back"[..], device.local_addr().ok()));
            assert!(out.software_ns.unwrap() <= back.software_ns.unwrap());
            assert_eq!((out.hardware_ns, back.hardware_ns), (None, None), "loopback has no card");
        }
        assert_eq!(sent(host.as_fd()).unwrap(), None);
        let error = receive(host.as_fd(), &mut [0; 10], false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    /// All of it was taken back once to start the count again, and a kernel that stopped noting arrivals just then left
    /// the next ones without a time.
    #[test]
    fn arrivals_stay_stamped_while_the_count_starts_again() {
        let host = UdpSocket::bind("127.0.0.1:0").unwrap();
        enable(host.as_fd()).unwrap();
        warm_up(&host);
        ask(host.as_fd(), UNCOUNTED).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        ask(host.as_fd(), WANTED).unwrap();
        host.send_to(b"x", host.local_addr().unwrap()).unwrap();
        assert_eq!(sent(host.as_fd()).unwrap().map(|(key, _)| key), Some(0));
        assert!(receive(host.as_fd(), &mut [0; 10], true).unwrap().2.software_ns.is_some());
    }

    #[test]
    fn a_closed_port_is_named() {
        let host = UdpSocket::bind("127.0.0.1:0").unwrap();
        enable_undelivered(host.as_fd(), false).unwrap();
        // Only root may listen on port 1, and no program does.
        let closed: SocketAddr = ([127, 0, 0, 1], 1).into();
        host.send_to(b"x", closed).unwrap();
        assert_eq!(queued(host.as_fd()).unwrap(), Some(Queued::Undelivered { to: closed, refused: true }));
        assert_eq!(queued(host.as_fd()).unwrap(), None);
    }

    #[test]
    fn enabling_again_counts_again() {
        // IPv6 may be off.
        let host = UdpSocket::bind("[::1]:0").or_else(|_| UdpSocket::bind("127.0.0.1:0")).unwrap();
        for _ in 0..2 {
            enable(host.as_fd()).unwrap();
            host.send_to(b"x", host.local_addr().unwrap()).unwrap();
            assert_eq!(sent(host.as_fd()).unwrap().map(|(key, _)| key), Some(0));
            let from = receive(host.as_fd(), &mut [0; 10], true).unwrap().1;
            assert_eq!(from, host.local_addr().ok());
        }
    }
}
