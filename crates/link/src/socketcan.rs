//! CAN interfaces of the Linux kernel: raw CAN-FD sockets.
//!
//! A burst is one `sendmmsg`, what came back is one `recvmmsg`, each frame with the kernel's receive time.
//! [`interface`] reads how the interface is set up and explains what is wrong with it.

pub mod interface;

use crate::reopen::Reopener;
use crate::stamp::Clocks;
use crate::sys::batch::{BATCH, Batch, Packet};
use crate::sys::can::{self, FD_MTU, Heard, RawFrame, understand};
use crate::{Capabilities, Counters, Link, LinkError, OpenError, Received};
use interface::Interface;
use khz_wire::Frame;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Frames held for the next flush.
const QUEUE: usize = 128;

/// How to use an interface. How it is set up is `ip link`'s affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Send the data phase at the data bit rate, where the frame asks for it.
    pub bit_rate_switch: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { bit_rate_switch: true }
    }
}

/// One CAN interface: a link with one channel.
///
/// # Realtime contract
/// As [`Link`]. [`Link::send`] makes no system call, [`Link::flush`] one `sendmmsg` per 32 frames,
/// [`Link::receive`] at most one `recvmmsg` (and a `sendmmsg` while the kernel did not take all of a burst).
///
/// A full kernel queue (`ENOBUFS`) is counted in [`Counters::full`]; what did not fit is offered again with
/// the next call. On bus-off the controller restarts by itself if the interface has `restart-ms`; the link
/// is down until then.
pub struct SocketCan {
    options: Options,
    fd: Option<OwnedFd>,
    reopener: Option<Reopener>,
    out: VecDeque<RawFrame>,
    batch: Batch<FD_MTU>,
    heard: VecDeque<Received>,
    bus_off: bool,
    down: bool,
    untold: Option<LinkError>,
    counters: Counters,
}

impl SocketCan {
    /// Opens an interface, for example `can0`.
    ///
    /// # Errors
    /// There is no such interface, it is down, or it cannot carry CAN-FD; each with the command that mends it.
    pub fn open(name: &str, options: Options) -> Result<Self, OpenError> {
        Interface::read(name).and_then(|interface| interface.require_usable())?;
        let again = name.to_owned();
        Self::over(options, move || can::open(&again))
            .map_err(|error| OpenError::new(name, &error, "is CAN in this kernel? `sudo modprobe can_raw`"))
    }

    /// Speaks over sockets that carry whole `struct canfd_frame`s: raw CAN sockets opened elsewhere, or a
    /// stand-in. When one dies, `socket` is asked for the next, on a thread of its own, until it gives one.
    ///
    /// # Errors
    /// What `socket` reports the first time, or the system about the thread.
    pub fn over(
        options: Options,
        socket: impl Fn() -> io::Result<OwnedFd> + Send + 'static,
    ) -> io::Result<Self> {
        let fd = Some(socket()?);
        let reopener = Some(Reopener::new(socket)?);
        Ok(Self {
            options,
            fd,
            reopener,
            out: VecDeque::with_capacity(QUEUE),
            batch: Batch::new(),
            heard: VecDeque::with_capacity(BATCH),
            bus_off: false,
            down: false,
            untold: None,
            counters: Counters::default(),
        })
    }

    /// Counts a loss once, and keeps it for the next `receive`.
    fn went_down(&mut self, errno: i32) -> LinkError {
        let error = LinkError::Down { errno };
        if !self.down {
            self.down = true;
            self.counters.downs += 1;
            self.untold = Some(error);
        }
        self.out.clear();
        error
    }

    fn is_up(&mut self) {
        self.down = false;
        self.bus_off = false;
    }

    /// What an error of the socket means.
    fn failed(&mut self, error: &io::Error) -> LinkError {
        let errno = error.raw_os_error().unwrap_or(0);
        match errno {
            libc::EAGAIN | libc::ENOBUFS => {
                self.counters.full += 1;
                LinkError::Full
            }
            // The interface is down; the socket outlives that. A controller that was off the bus starts anew with it,
            // and says nothing of a restart then.
            libc::ENETDOWN => {
                self.bus_off = false;
                self.went_down(errno)
            }
            // The interface is gone, and the socket with it; the next has a controller that is on the bus.
            libc::ENODEV | libc::ENXIO | libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN | libc::EBADF => {
                self.bus_off = false;
                let dead = self.fd.take();
                match &mut self.reopener {
                    Some(reopener) => reopener.lost(dead),
                    None => drop(dead),
                }
                self.went_down(errno)
            }
            _ => {
                self.counters.errors += 1;
                self.out.pop_front();
                LinkError::Unsupported
            }
        }
    }

    fn take_up_again(&mut self) {
        if self.fd.is_none() {
            self.fd = self.reopener.as_mut().and_then(Reopener::poll);
        }
    }

    /// Asks the kernel for what came.
    fn listen(&mut self, now_ns: i64) -> Result<(), LinkError> {
        self.take_up_again();
        let Some(fd) = &self.fd else { return Ok(()) };
        let (mut bus_off, mut up, mut hung_up) = (false, false, false);
        let (heard, counters) = (&mut self.heard, &mut self.counters);
        let mut clocks = Clocks::default();
        let result = self.batch.receive(fd.as_fd(), |Packet { bytes, stamp, .. }| match understand(bytes) {
            Heard::Frame(frame) => {
                up = true;
                counters.received += 1;
                heard.push_back(Received { channel: 0, at_ns: clocks.at_ns(stamp, now_ns), frame });
            }
            Heard::BusOff => (bus_off, up) = (true, false),
            Heard::Restarted => (bus_off, up) = (false, true),
            Heard::Error => counters.errors += 1,
            Heard::Useless => counters.corrupt += 1,
            Heard::HungUp => hung_up = true,
        });
        if bus_off {
            self.bus_off = true;
            self.counters.errors += 1;
            self.went_down(0);
        } else if up {
            self.is_up();
        }
        match result {
            Ok(_) if hung_up => Err(self.failed(&io::Error::from_raw_os_error(libc::ECONNRESET))),
            Ok(_) => Ok(()),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => Ok(()),
            Err(error) => Err(self.failed(&error)),
        }
    }
}

impl Link for SocketCan {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: "socketcan",
            channels: 1,
            half_duplex: false,
            in_flight: QUEUE as u16,
            emulated: false,
        }
    }

    fn send(&mut self, channel: u8, frame: &Frame, _: i64) -> Result<(), LinkError> {
        if channel != 0 || (!frame.fd && frame.payload().len() > 8) {
            return Err(LinkError::Unsupported);
        }
        self.take_up_again();
        if self.bus_off || self.fd.is_none() {
            return Err(LinkError::Down { errno: 0 });
        }
        if self.out.len() == QUEUE {
            self.counters.full += 1;
            return Err(LinkError::Full);
        }
        let mut frame = *frame;
        if frame.fd {
            frame.pad();
        }
        frame.brs &= self.options.bit_rate_switch;
        self.out.push_back(RawFrame::new(&frame));
        Ok(())
    }

    fn flush(&mut self, _: i64) -> Result<(), LinkError> {
        while !self.out.is_empty() {
            let Some(fd) = &self.fd else { return Ok(()) };
            let frames = self.out.make_contiguous();
            match can::send(fd.as_fd(), frames) {
                Ok(sent) => {
                    self.out.drain(..sent);
                    self.counters.sent += sent as u64;
                    self.is_up();
                }
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(())
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        if let Some(received) = self.heard.pop_front() {
            return Ok(Some(received));
        }
        // A queue that is still full or a bus that is still down was told by `flush`.
        let _ = self.flush(now_ns);
        // The loss itself is told below, once.
        let _ = self.listen(now_ns);
        match self.untold.take() {
            Some(error) => Err(error),
            None => Ok(self.heard.pop_front()),
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    fn counters(&self, _: u8) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::sync::Mutex;

    /// Sequenced packets stand in for CAN, as they too keep frames whole.
    fn sockets() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    /// Two links, each the other's bus.
    fn wired() -> (SocketCan, SocketCan) {
        let (a, b) = sockets();
        (on(a, Options::default()), on(b, Options::default()))
    }

    /// A link over one socket, which stays dead once it has died.
    fn on(socket: OwnedFd, options: Options) -> SocketCan {
        let socket = Mutex::new(Some(socket));
        let take = move || socket.lock().unwrap().take().ok_or(io::ErrorKind::NotFound.into());
        SocketCan::over(options, take).unwrap()
    }

    fn frame(id: u32, payload: &[u8]) -> Frame {
        Frame::new(id, payload).unwrap()
    }

    /// Writes a raw frame as a driver would.
    fn inject(link: &SocketCan, id: u32) {
        let mut raw = [0; 16];
        raw[..4].copy_from_slice(&id.to_ne_bytes());
        raw[4] = 8;
        rustix::io::write(link.fd().unwrap(), &raw).unwrap();
    }

    const ERROR: u32 = 1 << 29;

    #[test]
    fn bursts_larger_than_a_batch_arrive_in_order() {
        let (mut host, mut device) = wired();
        (0..70).for_each(|n| host.send(0, &frame(0x8001, &[n; 12]), 0).unwrap());
        host.flush(0).unwrap();
        for n in 0..70 {
            let received = device.receive(9).unwrap().unwrap();
            assert_eq!((received.frame, received.at_ns), (frame(0x8001, &[n; 12]), 9));
        }
        assert_eq!(device.receive(9), Ok(None));
        assert_eq!((host.counters(0).sent, device.counters(0).received), (70, 70));
    }

    #[test]
    fn odd_lengths_are_padded_and_classic_frames_stay_classic() {
        let (mut host, mut device) = wired();
        let mut classic = frame(0x123, &[1, 2]);
        (classic.fd, classic.brs) = (false, false);
        host.send(0, &frame(0x8001, &[7; 9]), 0).unwrap();
        host.send(0, &classic, 0).unwrap();
        host.flush(0).unwrap();
        let first = device.receive(0).unwrap().unwrap().frame;
        assert_eq!(first.payload(), [7, 7, 7, 7, 7, 7, 7, 7, 7, 0x50, 0x50, 0x50]);
        assert_eq!(device.receive(0).unwrap().unwrap().frame, classic);
    }

    #[test]
    fn without_bit_rate_switch_no_frame_has_it() {
        let (a, b) = sockets();
        let (mut host, mut device) = (on(a, Options { bit_rate_switch: false }), on(b, Options::default()));
        host.send(0, &frame(0x8001, &[7]), 0).unwrap();
        host.flush(0).unwrap();
        let received = device.receive(0).unwrap().unwrap().frame;
        assert!(received.fd && !received.brs);
    }

    #[test]
    fn a_full_kernel_queue_is_counted_and_loses_nothing() {
        let (mut host, mut device) = wired();
        let mut sent = 0_u32;
        'fill: loop {
            for _ in 0..BATCH {
                host.send(0, &frame(0x8001, &sent.to_be_bytes()), 0).unwrap();
                sent += 1;
            }
            match host.flush(0) {
                Ok(()) => {}
                Err(LinkError::Full) => break 'fill,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(host.counters(0).full, 1);
        for n in 0..sent {
            let received = loop {
                match device.receive(0).unwrap() {
                    Some(received) => break received,
                    // Room again: the host's next call offers what did not fit.
                    None => assert_eq!(host.receive(0), Ok(None)),
                }
            };
            assert_eq!(received.frame.payload(), n.to_be_bytes());
        }
    }

    #[test]
    fn bus_off_is_told_once_and_ends_with_the_restart() {
        let (mut host, device) = wired();
        inject(&device, ERROR | 0x40);
        assert_eq!(host.receive(0), Err(LinkError::Down { errno: 0 }));
        assert_eq!(host.receive(0), Ok(None));
        assert!(matches!(host.send(0, &frame(1, &[1]), 0), Err(LinkError::Down { .. })));
        inject(&device, ERROR | 0x100);
        assert_eq!(host.receive(0), Ok(None));
        assert_eq!(host.send(0, &frame(1, &[1]), 0), Ok(()));
        assert_eq!(host.counters(0).downs, 1);
    }

    #[test]
    fn an_interface_set_down_and_up_ends_bus_off() {
        let (mut host, mut device) = wired();
        inject(&device, ERROR | 0x40);
        assert_eq!(host.receive(0), Err(LinkError::Down { errno: 0 }));
        // What the kernel says of an interface that is down, which no socket pair is.
        let down = LinkError::Down { errno: libc::ENETDOWN };
        assert_eq!(host.failed(&io::Error::from_raw_os_error(libc::ENETDOWN)), down);
        assert_eq!(host.receive(0), Ok(None));
        assert_eq!(host.send(0, &frame(0x123, &[1]), 0), Ok(()));
        assert_eq!(host.flush(0), Ok(()));
        assert_eq!(device.receive(0).unwrap().unwrap().frame.id, 0x123);
        assert_eq!(host.counters(0).downs, 1);
    }

    #[test]
    fn a_new_socket_is_not_off_the_bus() {
        let (ours, theirs) = sockets();
        let (again, far) = sockets();
        let sockets = Mutex::new(vec![again, ours]);
        let next = move || sockets.lock().unwrap().pop().ok_or(io::ErrorKind::NotFound.into());
        let mut host = SocketCan::over(Options::default(), next).unwrap();
        let (theirs, mut far) = (on(theirs, Options::default()), on(far, Options::default()));
        inject(&theirs, ERROR | 0x40);
        assert_eq!(host.receive(0), Err(LinkError::Down { errno: 0 }));
        drop(theirs);
        // Ends when the new socket is there, however long that takes.
        while host.send(0, &frame(0x123, &[1]), 0).is_err() {
            let _ = host.receive(0);
            std::thread::yield_now();
        }
        host.flush(0).unwrap();
        assert_eq!(far.receive(0).unwrap().unwrap().frame.id, 0x123);
    }

    #[test]
    fn error_frames_and_rubbish_are_counted() {
        let (mut host, device) = wired();
        inject(&device, ERROR | 0x8);
        rustix::io::write(device.fd().unwrap(), b"rubbish").unwrap();
        inject(&device, 0x123);
        assert_eq!(host.receive(0).unwrap().unwrap().frame.id, 0x123);
        assert_eq!((host.counters(0).errors, host.counters(0).corrupt), (1, 1));
    }

    #[test]
    fn a_dead_socket_is_told_once() {
        let (mut host, device) = wired();
        drop(device);
        assert!(matches!(host.receive(0), Err(LinkError::Down { .. })));
        assert_eq!(host.receive(0), Ok(None));
        assert!(matches!(host.send(0, &frame(1, &[1]), 0), Err(LinkError::Down { .. })));
        assert_eq!(host.counters(0).downs, 1);
    }
}
