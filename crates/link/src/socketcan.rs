//! CAN interfaces of the Linux kernel: raw sockets, for CAN-FD and classic CAN.
//!
//! A burst is one `sendmmsg`, what came back is one `recvmmsg`, each frame with the kernel's receive time.
//! [`interface`] reads how the interface is set up and explains what is wrong with it.

mod in_flight;
pub mod interface;

use crate::claim::{Claim, Role};
use crate::identity::{Guard, Identity, SYS};
use crate::reopen::Reopener;
use crate::stamp::Clocks;
use crate::sys::batch::{BATCH, Batch};
use crate::sys::can::{self, FD_MTU, Incoming, RawFrame, understand};
use crate::sys::queued;
use crate::{Capabilities, Counters, Link, LinkError, OpenError, Received};
use in_flight::{Allowed, InFlight};
use interface::Interface;
use khz_settings::section;
use khz_wire::Request;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Frames held for the next flush.
const QUEUE: usize = 128;

/// How to name an interface permanently.
const BY_UDEV: &str = "give each adapter its own name with a udev rule or systemd .link file (docs/links.md)";

/// How long the last frames may take to leave when the link is closed, ms.
const LEAVING_MS: u32 = 20;

section! {
    /// A bus with `link = "socketcan"`. Bit rates, and whether it carries CAN-FD, are set with `ip link`, not here.
    SocketcanLink {
        /// Name of the network interface.
        interface: String, "";
        /// Send the data phase at the data bit rate.
        bit_rate_switch: bool = true, "";
    }
}

impl SocketcanLink {
    /// This interface, with the defaults.
    pub fn at(interface: impl Into<String>) -> Self {
        Self { interface: interface.into(), ..Self::default() }
    }
}

/// One CAN interface: a link with one channel.
///
/// # Realtime contract
/// As [`Link`]. [`Link::send`] makes no system call, [`Link::flush`] one `sendmmsg` per 32 frames,
/// [`Link::receive`] at most one `recvmmsg` (and a `sendmmsg` while the kernel did not take all of a burst).
///
/// A full kernel queue (`ENOBUFS`) is counted in [`Counters::full`]; what did not fit is offered again with the next
/// call, until the next cycle begins. Frames of an earlier cycle that have not left yet let none queue up behind them:
/// [`Link::flush`] then reports [`LinkError::Full`]. [`Link::begin_cycle`] makes one `getsockopt`.
///
/// On bus-off the controller restarts by itself if the interface has `restart-ms`; the link
/// is down until then.
pub struct SocketCan {
    /// The interface, or what stands in for one.
    name: String,
    bit_rate_switch: bool,
    /// How to make the interface carry CAN-FD frames, if it carries classic ones only.
    for_fd: Option<String>,
    /// The interface is ours, also while it is gone.
    _claim: Option<Claim>,
    fd: Option<OwnedFd>,
    reopener: Option<Reopener>,
    /// Why another interface under the same name was not taken.
    refusal: Arc<OnceLock<String>>,
    out: VecDeque<RawFrame>,
    in_flight: InFlight,
    batch: Batch<FD_MTU>,
    received: VecDeque<Received>,
    bus_off: bool,
    down: bool,
    unreported: Option<LinkError>,
    counters: Counters,
}

impl SocketCan {
    /// Opens an interface for its only host. What it carries is decided here, by its MTU: over one for classic CAN, CAN-FD frames are refused.
    ///
    /// # Errors
    /// There is no such interface, or it is down, each with the command that fixes it; another program commands it.
    pub fn open(link: &SocketcanLink) -> Result<Self, OpenError> {
        Self::open_as(Role::Host, link)
    }

    /// The same, for another role.
    ///
    /// # Errors
    /// As [`SocketCan::open`].
    pub fn open_as(role: Role, link: &SocketcanLink) -> Result<Self, OpenError> {
        let name = &link.interface;
        let interface = Interface::read(name)?;
        interface.require_usable()?;
        let claim = Claim::new(role, "socketcan", name)?;
        let (again, confirms) = (name.to_owned(), interface.confirms());
        let sys = Path::new(SYS);
        let refusal = Arc::new(OnceLock::new());
        let guard = Guard::new(name, Identity::of_interface(sys, name), BY_UDEV, Arc::clone(&refusal));
        let socket = move || {
            let socket = can::open(&again, confirms)?;
            guard.check(&Identity::of_interface(sys, &again)).map(|()| socket)
        };
        Self::opened(name, link.bit_rate_switch, confirms, socket)
            .map(|link| Self {
                _claim: claim,
                refusal,
                for_fd: (!interface.carries_fd()).then(|| interface.set_up()),
                ..link
            })
            .map_err(|error| OpenError::new(name, &error, "is CAN in this kernel? `sudo modprobe can_raw`"))
    }

    /// Speaks over sockets that carry whole `struct canfd_frame`s: raw CAN sockets opened elsewhere, or a
    /// substitute. `bit_rate_switch`: as in [`SocketcanLink`]. When one dies, `socket` is asked for the next, on its own thread, until it gives one.
    ///
    /// # Errors
    /// What `socket` reports the first time, or the system about the thread.
    pub fn over(
        bit_rate_switch: bool,
        socket: impl Fn() -> io::Result<OwnedFd> + Send + 'static,
    ) -> io::Result<Self> {
        Self::opened("the socket", bit_rate_switch, false, socket)
    }

    fn opened(
        name: &str,
        bit_rate_switch: bool,
        confirms: bool,
        socket: impl Fn() -> io::Result<OwnedFd> + Send + 'static,
    ) -> io::Result<Self> {
        let fd = Some(socket()?);
        let reopener = Some(Reopener::new(socket)?);
        Ok(Self {
            name: name.into(),
            bit_rate_switch,
            for_fd: None,
            _claim: None,
            fd,
            reopener,
            refusal: Arc::default(),
            out: VecDeque::with_capacity(QUEUE),
            in_flight: InFlight::new(confirms),
            batch: Batch::new(),
            received: VecDeque::with_capacity(BATCH),
            bus_off: false,
            down: false,
            unreported: None,
            counters: Counters::default(),
        })
    }

    /// Counts a loss once, and keeps it for the next `receive`.
    fn went_down(&mut self, errno: i32) -> LinkError {
        let error = LinkError::Down { errno };
        if !self.down {
            self.down = true;
            self.counters.downs += 1;
            self.unreported = Some(error);
        }
        self.out.clear();
        self.in_flight.forget();
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
            // and sends no message about a restart then.
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

    /// Frames handed over that have not left; if only the queue is known, one stands for all.
    fn unsent(&self) -> usize {
        let is_queued = self.fd.as_ref().is_some_and(|fd| queued(fd.as_fd()) > 0);
        self.in_flight.len().max(is_queued.into())
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
        let (received, counters, in_flight) = (&mut self.received, &mut self.counters, &mut self.in_flight);
        let mut clocks = Clocks::default();
        let result = self.batch.receive(fd.as_fd(), |packet| match understand(packet.bytes) {
            Incoming::Frame(frame) if packet.is_own => {
                up = true;
                in_flight.confirmed(&RawFrame::new(&frame));
            }
            Incoming::Frame(frame) => {
                up = true;
                counters.received += 1;
                received.push_back(Received { channel: 0, at_ns: clocks.at_ns(packet.stamp, now_ns), frame });
            }
            Incoming::BusOff => (bus_off, up) = (true, false),
            // The driver has thrown away what it had.
            Incoming::Restarted => {
                (bus_off, up) = (false, true);
                in_flight.forget();
            }
            Incoming::Error => counters.errors += 1,
            Incoming::Useless => counters.corrupt += 1,
            Incoming::HungUp => hung_up = true,
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

    fn begin_cycle(&mut self, _: i64) {
        self.counters.expired += self.out.len() as u64;
        self.out.clear();
        self.in_flight.begin_cycle(self.fd.as_ref().map_or(0, |fd| queued(fd.as_fd())));
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, _: i64) -> Result<(), LinkError> {
        let mut frame = *request.frame;
        let is_carried = if frame.fd { self.for_fd.is_none() } else { frame.payload().len() <= 8 };
        if channel != 0 || !is_carried {
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
        if frame.fd {
            frame.pad();
        }
        frame.brs &= self.bit_rate_switch;
        self.out.push_back(RawFrame::new(&frame));
        Ok(())
    }

    fn flush(&mut self, now_ns: i64) -> Result<(), LinkError> {
        while !self.out.is_empty() {
            let Some(fd) = &self.fd else { return Ok(()) };
            let most = match self.in_flight.allowed(now_ns, || queued(fd.as_fd())) {
                Allowed::All => usize::MAX,
                Allowed::One => 1,
                Allowed::None => return Err(LinkError::Full),
            };
            let frames = self.out.make_contiguous();
            match can::send(fd.as_fd(), &frames[..frames.len().min(most)]) {
                Ok(sent) => {
                    self.in_flight.sent(&frames[..sent]);
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
        if let Some(received) = self.received.pop_front() {
            return Ok(Some(received));
        }
        // A queue that is still full or a bus that is still down was reported by `flush`.
        let _ = self.flush(now_ns);
        // The loss itself is reported below, once.
        let _ = self.listen(now_ns);
        match self.unreported.take() {
            Some(error) => Err(error),
            None => Ok(self.received.pop_front()),
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    fn about(&mut self) -> Result<Vec<String>, LinkError> {
        let classic = |command: &String| {
            let name = &self.name;
            format!(
                "{name}: classic CAN frames only (MTU 16); for servos that speak CAN-FD (every moteus): `{command}`"
            )
        };
        Ok(self.for_fd.iter().map(classic).collect())
    }

    fn close(&mut self, now_ns: i64) -> Vec<String> {
        self.counters.expired += self.out.len() as u64;
        self.out.clear();
        if let Some(refusal) = self.refusal.get().filter(|_| self.fd.is_none()) {
            return vec![refusal.clone()];
        }
        // The last frames may just be on the bus.
        for _ in 0..LEAVING_MS {
            let _ = self.listen(now_ns);
            if self.unsent() == 0 {
                return Vec::new();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let (name, most) = (&self.name, self.unsent());
        vec![format!(
            "{name}: {most} or more of the last frames were not sent and wait in the kernel or the controller; they are \
             sent once the bus works again. Discard them: `sudo ip link set {name} down`"
        )]
    }

    fn counters(&self, _: u8) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_wire::{Address, Frame};
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
        (on(a, true), on(b, true))
    }

    /// A link over one socket, which stays dead once it has died.
    fn on(socket: OwnedFd, bit_rate_switch: bool) -> SocketCan {
        let socket = Mutex::new(Some(socket));
        let take = move || socket.lock().unwrap().take().ok_or(io::ErrorKind::NotFound.into());
        SocketCan::over(bit_rate_switch, take).unwrap()
    }

    fn frame(id: u32, payload: &[u8]) -> Frame {
        Frame::new(id, payload).unwrap()
    }

    /// As on an interface for classic CAN.
    fn classic(link: SocketCan) -> SocketCan {
        SocketCan { for_fd: Some("ip link".into()), ..link }
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
        (0..70).for_each(|n| host.send(0, &Address::request(&frame(0x8001, &[n; 12])), 0).unwrap());
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
        host.send(0, &Address::request(&frame(0x8001, &[7; 9])), 0).unwrap();
        host.send(0, &Address::request(&classic), 0).unwrap();
        host.flush(0).unwrap();
        let first = device.receive(0).unwrap().unwrap().frame;
        assert_eq!(first.payload(), [7, 7, 7, 7, 7, 7, 7, 7, 7, 0x50, 0x50, 0x50]);
        assert_eq!(device.receive(0).unwrap().unwrap().frame, classic);
    }

    #[test]
    fn over_classic_can_travel_frames_of_16_bytes_with_11_and_29_bits() {
        let (ours, theirs) = sockets();
        let mut host = classic(on(ours, true));
        let narrow = Frame::classic(0x123, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let wide = Frame::classic(0x0300_fd01, &[8, 7, 6, 5, 4, 3, 2, 1]).unwrap();
        for (frame, id) in [(narrow, 0x123_u32), (wide, 0x8300_fd01)] {
            host.send(0, &Address::request(&frame), 0).unwrap();
            host.flush(0).unwrap();
            let mut raw = [0; 72];
            assert_eq!(rustix::io::read(&theirs, &mut raw).unwrap(), 16);
            assert_eq!(raw[..8], [&id.to_ne_bytes()[..], &[8, 0, 0, 0]].concat());
            assert_eq!(raw[8..16], *frame.payload());
            rustix::io::write(&theirs, &raw[..16]).unwrap();
            assert_eq!(host.receive(0).unwrap().unwrap().frame, frame);
        }
    }

    #[test]
    fn over_classic_can_a_can_fd_frame_is_refused_and_not_cut() {
        let (host, mut device) = wired();
        let mut host = classic(host);
        for len in [1, 8, 12, 64] {
            let frame = frame(0x8001, &[7; 64][..len]);
            assert_eq!(host.send(0, &Address::request(&frame), 0), Err(LinkError::Unsupported));
        }
        host.flush(0).unwrap();
        assert_eq!(device.receive(0), Ok(None));
        assert!(host.about().unwrap().concat().contains("classic CAN frames only (MTU 16)"));
    }

    #[test]
    fn without_bit_rate_switch_no_frame_has_it() {
        let (a, b) = sockets();
        let (mut host, mut device) = (on(a, false), on(b, true));
        host.send(0, &Address::request(&frame(0x8001, &[7])), 0).unwrap();
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
                host.send(0, &Address::request(&frame(0x8001, &sent.to_be_bytes())), 0).unwrap();
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
    fn a_kernel_queue_that_is_full_for_many_cycles_lets_no_old_command_out() {
        let (mut host, mut device) = wired();
        // Another program's frames fill the queue.
        while rustix::io::write(host.fd().unwrap(), b"another program's").is_ok() {}
        for cycle in 0..50_u8 {
            host.begin_cycle(cycle.into());
            for servo in 1..=3 {
                host.send(0, &Address::request(&frame(0x8000 + servo, &[cycle])), cycle.into()).unwrap();
            }
            let _ = host.flush(cycle.into());
            assert_eq!(host.receive(cycle.into()), Ok(None));
        }
        assert_eq!(device.receive(0), Ok(None));
        let mut came = Vec::new();
        while came.len() < 3 {
            came.extend(device.receive(50).unwrap().map(|received| received.frame.payload()[0]));
            let _ = host.receive(50);
        }
        assert_eq!(came, [49; 3]);
        assert_eq!((host.counters(0).sent, host.counters(0).expired), (3, 49 * 3));
    }

    #[test]
    fn a_queue_that_takes_frames_and_holds_them_has_those_of_one_cycle() {
        let (mut host, mut device) = wired();
        for cycle in 0..50_u8 {
            host.begin_cycle(cycle.into());
            host.send(0, &Address::request(&frame(0x8001, &[cycle])), cycle.into()).unwrap();
            assert_eq!(host.flush(cycle.into()).is_ok(), cycle == 0, "cycle {cycle}");
        }
        assert_eq!(device.receive(50).unwrap().unwrap().frame.payload(), [0]);
        assert_eq!(device.receive(50), Ok(None));
        // What waited is gone; the newest goes at once.
        assert_eq!(host.receive(50), Ok(None));
        assert_eq!(device.receive(50).unwrap().unwrap().frame.payload(), [49]);
        assert_eq!((host.counters(0).sent, host.counters(0).expired), (2, 48));
    }

    #[test]
    fn what_cannot_be_recalled_at_the_end_is_reported() {
        let (mut host, mut device) = wired();
        host.send(0, &Address::request(&frame(0x8001, &[1])), 0).unwrap();
        host.flush(0).unwrap();
        host.begin_cycle(1);
        host.send(0, &Address::request(&frame(0x8001, &[2])), 1).unwrap();
        let message = host.close(2).concat();
        assert!(
            message.contains("1 or more of the last frames") && message.contains("ip link set"),
            "{message}"
        );
        // What was not handed over never leaves.
        assert_eq!(device.receive(2).unwrap().unwrap().frame.payload(), [1]);
        assert_eq!((host.close(3), device.receive(3)), (Vec::new(), Ok(None)));
    }

    #[test]
    fn bus_off_is_reported_once_and_ends_with_the_restart() {
        let (mut host, device) = wired();
        inject(&device, ERROR | 0x40);
        assert_eq!(host.receive(0), Err(LinkError::Down { errno: 0 }));
        assert_eq!(host.receive(0), Ok(None));
        assert!(matches!(host.send(0, &Address::request(&frame(1, &[1])), 0), Err(LinkError::Down { .. })));
        inject(&device, ERROR | 0x100);
        assert_eq!(host.receive(0), Ok(None));
        assert_eq!(host.send(0, &Address::request(&frame(1, &[1])), 0), Ok(()));
        assert_eq!(host.counters(0).downs, 1);
    }

    #[test]
    fn an_interface_set_down_and_up_ends_bus_off() {
        let (mut host, mut device) = wired();
        inject(&device, ERROR | 0x40);
        assert_eq!(host.receive(0), Err(LinkError::Down { errno: 0 }));
        // The kernel's error for an interface that is down, which a socket pair never returns.
        let down = LinkError::Down { errno: libc::ENETDOWN };
        assert_eq!(host.failed(&io::Error::from_raw_os_error(libc::ENETDOWN)), down);
        assert_eq!(host.receive(0), Ok(None));
        assert_eq!(host.send(0, &Address::request(&frame(0x123, &[1])), 0), Ok(()));
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
        let mut host = SocketCan::over(true, next).unwrap();
        let (theirs, mut far) = (on(theirs, true), on(far, true));
        inject(&theirs, ERROR | 0x40);
        assert_eq!(host.receive(0), Err(LinkError::Down { errno: 0 }));
        drop(theirs);
        // Ends when the new socket is there, however long that takes.
        while host.send(0, &Address::request(&frame(0x123, &[1])), 0).is_err() {
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
    fn a_dead_socket_is_reported_once() {
        let (mut host, device) = wired();
        drop(device);
        assert!(matches!(host.receive(0), Err(LinkError::Down { .. })));
        assert_eq!(host.receive(0), Ok(None));
        assert!(matches!(host.send(0, &Address::request(&frame(1, &[1])), 0), Err(LinkError::Down { .. })));
        assert_eq!(host.counters(0).downs, 1);
    }
}
