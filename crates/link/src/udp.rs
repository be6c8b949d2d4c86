//! Devices behind Ethernet: frames in UDP datagrams ([`khz_wire::udp`] has the format).
//!
//! Two ways of asking: *unicast*, one datagram per device, or *to all*, one broadcast that carries the frames
//! of every device and so starts the whole cycle at once. Every burst has a sequence number, which replies
//! repeat: a reply to an older request is dropped and counted. A further reply to the newest one is passed on, so that two devices
//! with one id are noticed. The first number is random, and a reply counts only
//! if it comes from the address of the device that was asked.

mod asked;
mod claims;
mod settings;

pub use settings::{Behind, UdpLink};

use crate::claim::Claim;
use crate::stamp::Clocks;
use crate::sys::batch::{Batch, Packet};
use crate::sys::set_option;
use crate::{Capabilities, Counters, Imu, ImuSample, Link, LinkError, OpenError, Received, Replier, unit};
use asked::{Asked, Verdict};
use khz_wire::udp::{Datagram, DatagramKind, Header, MAX_DATAGRAM, SENSORS, Sensors, Writer};
use khz_wire::{Frame, Request};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// Frames gathered for one burst to all.
const BURST: usize = 256;

/// Frames of one batch of datagrams that are kept; more are lost and counted as [`Counters::full`].
const MOST_RECEIVED: usize = 1024;

/// How to reach the devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where to receive; port 0 lets the kernel choose.
    pub bind: SocketAddr,
    /// How requests travel.
    pub reach: Reach,
    /// Number of buses; the channel travels with each frame.
    pub channels: u8,
    /// For how long the kernel polls the network card instead of waiting for its interrupt (`SO_BUSY_POLL`),
    /// µs; 0 leaves it to interrupts. More than `net.core.busy_read` needs `CAP_NET_ADMIN`.
    pub busy_poll_us: u32,
}

/// How requests travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// One datagram per frame, to the device's own address.
    Unicast(Vec<Peer>),
    /// All frames of a burst in one datagram to this address, usually a broadcast address.
    ///
    /// Behind a broadcast or multicast address the devices are unknown: each keeps the address of its first
    /// reply, whose port must be the one asked.
    All(SocketAddr),
}

/// Whether this is the broadcast address of a network this computer is in, as its interfaces are set up now. Sends nothing.
///
/// Not for the loop: opens a socket. Where no network leads there at present, an address that ends in 255 counts as one.
pub fn is_broadcast(address: SocketAddr) -> bool {
    let IpAddr::V4(ip) = address.ip() else { return false };
    // The kernel connects a socket to a broadcast address only if the socket was set up for broadcasts.
    let connected = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| socket.connect(address));
    match connected.map_err(|error| error.raw_os_error()) {
        Ok(()) => false,
        Err(Some(libc::EACCES)) => true,
        Err(_) => ip.octets()[3] == 255,
    }
}

/// Where a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its bus.
    pub channel: u8,
    /// Its id.
    pub id: u8,
    /// Its address.
    pub address: SocketAddr,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind: (Ipv4Addr::UNSPECIFIED, 0).into(),
            reach: Reach::Unicast(Vec::new()),
            channels: 1,
            busy_poll_us: 0,
        }
    }
}

/// Devices behind Ethernet: a link with as many channels as its options have.
///
/// # Realtime contract
/// As [`Link`]. Unicast makes one `sendto` per frame in [`Link::send`]; to all makes none there and one in
/// [`Link::flush`]. [`Link::receive`] makes at most one `recvmmsg`.
pub struct Udp {
    socket: UdpSocket,
    /// The addresses of the devices are ours.
    _claims: Vec<Claim>,
    options: Options,
    granted: bool,
    burst: Vec<(u8, Frame)>,
    sequence: u32,
    buffer: Box<[u8; MAX_DATAGRAM]>,
    batch: Box<Batch<MAX_DATAGRAM>>,
    received: VecDeque<Received>,
    asked: Asked,
    replier: Replier,
    /// The IMU reading that came with a reply to the last burst.
    reading: Option<ImuSample>,
    down: Option<LinkError>,
    is_down: bool,
    counters: Vec<Counters>,
}

impl Udp {
    /// Opens the socket. Nothing is sent. `replier` as in [`Replier`].
    ///
    /// # Errors
    /// The address cannot be bound, another program on this computer commands one of the devices, or there is no channel.
    pub fn open(
        options: Options,
        replier: impl Fn(u8, &Frame) -> Option<u8> + Send + 'static,
    ) -> Result<Self, OpenError> {
        let target = options.bind.to_string();
        let explain = |error: io::Error| {
            let advice = match error.kind() {
                io::ErrorKind::AddrInUse => "another program has this port; choose another or 0",
                io::ErrorKind::AddrNotAvailable => {
                    "bind to an address of this computer: see `ip -br address`"
                }
                _ => "see `ip -br address`",
            };
            OpenError::new(&target, &error, advice)
        };
        let claims = claims::claim(&options.reach)?;
        let socket = UdpSocket::bind(options.bind).map_err(explain)?;
        let granted = set_up(&socket, &options).map_err(explain)?;
        let counters = vec![Counters::default(); usize::from(options.channels)];
        let asked = Asked::new(options.channels, &options.reach);
        Ok(Self {
            socket,
            _claims: claims,
            granted,
            burst: Vec::with_capacity(BURST),
            // A hasher of the standard library has a random key, and nothing else is needed of it.
            sequence: RandomState::new().hash_one(0) as u32,
            buffer: Box::new([0; MAX_DATAGRAM]),
            batch: Box::new(Batch::new()),
            received: VecDeque::with_capacity(MOST_RECEIVED),
            asked,
            replier: Box::new(replier),
            reading: None,
            down: None,
            is_down: false,
            counters,
            options,
        })
    }

    /// Where it receives.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Busy polling was asked for and granted.
    pub fn is_busy_polling(&self) -> bool {
        self.granted
    }

    fn unicast(&mut self, channel: u8, request: &Request<'_>) -> Result<(), LinkError> {
        let Reach::Unicast(peers) = &self.options.reach else { return Err(LinkError::Unsupported) };
        let wanted = |peer: &&Peer| peer.channel == channel && request.to.is_none_or(|to| peer.id == to);
        let frame = (channel, *request.frame);
        let datagram = write(DatagramKind::Request, self.sequence, &mut &[frame][..], &mut self.buffer[..]);
        let mut result = Err(LinkError::Unsupported);
        for peer in peers.iter().filter(wanted) {
            self.asked.ask(channel, &Request { to: Some(peer.id), ..*request }, self.sequence);
            result = self.socket.send_to(datagram, peer.address).map(|_| ()).map_err(|error| failed(&error));
            result?;
        }
        result
    }

    fn gather(&mut self, channel: u8, request: &Request<'_>) -> Result<(), LinkError> {
        if self.burst.len() == BURST {
            return Err(LinkError::Full);
        }
        self.burst.push((channel, *request.frame));
        self.asked.ask(channel, request, self.sequence);
        Ok(())
    }

    fn send_burst(&mut self, address: SocketAddr) -> Result<(), LinkError> {
        let mut rest = &self.burst[..];
        while !rest.is_empty() {
            let datagram = write(DatagramKind::RequestToAll, self.sequence, &mut rest, &mut self.buffer[..]);
            self.socket.send_to(datagram, address).map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// Counts what went wrong with a channel's frame.
    fn count(&mut self, channel: u8, result: Result<(), LinkError>) -> Result<(), LinkError> {
        let counters = &mut self.counters[usize::from(channel)];
        match result {
            Ok(()) => {
                counters.sent += 1;
                self.is_down = false;
            }
            Err(LinkError::Full) => counters.full += 1,
            Err(LinkError::Down { .. }) => self.went_down(result),
            Err(LinkError::Unsupported) => {}
        }
        result
    }

    fn went_down(&mut self, result: Result<(), LinkError>) {
        if !self.is_down {
            self.is_down = true;
            self.counters.iter_mut().for_each(|counters| counters.downs += 1);
            self.down = result.err();
        }
    }

    fn listen(&mut self, now_ns: i64) {
        let mut clocks = Clocks::default();
        let (received, asked, replier) = (&mut self.received, &mut self.asked, &self.replier);
        let counters = &mut self.counters;
        let (reading, burst) = (&mut self.reading, self.sequence.wrapping_sub(1));
        let result = self.batch.receive(self.socket.as_fd(), |Packet { bytes, stamp, from, .. }| {
            let at_ns = clocks.at_ns(stamp, now_ns);
            let Some(datagram) =
                Datagram::parse(bytes).ok().filter(|it| it.header.kind == DatagramKind::Reply)
            else {
                counters[0].corrupt += 1;
                return;
            };
            let sequence = datagram.header.sequence;
            let (mut answers, mut sensors) = (false, None);
            for (channel, frame) in datagram.frames() {
                if frame.id == SENSORS {
                    sensors = Sensors::from_frame(&frame);
                    continue;
                }
                let Some(counters) = counters.get_mut(usize::from(channel)) else { continue };
                match asked.judge(channel, replier(channel, &frame), sequence, from) {
                    Verdict::Unexpected => counters.unexpected += 1,
                    Verdict::Stale => counters.stale += 1,
                    // The family that asked counts further replies, and never takes one for a state.
                    verdict @ (Verdict::Answer | Verdict::Again) => {
                        answers |= verdict == Verdict::Answer;
                        if received.len() == MOST_RECEIVED {
                            counters.full += 1;
                        } else {
                            counters.received += 1;
                            received.push_back(Received { channel, at_ns, frame });
                        }
                    }
                }
            }
            let is_expected = |_: &Sensors| sequence == burst && (answers || asked.is_device(from));
            if let Some(sensors) = sensors.filter(is_expected) {
                *reading = Some(sample(&sensors, at_ns));
            }
        });
        match result.as_ref().map_err(failed) {
            Ok(_) | Err(LinkError::Full | LinkError::Unsupported) => {}
            Err(error @ LinkError::Down { .. }) => self.went_down(Err(error)),
        }
    }
}

fn sample(sensors: &Sensors, at_ns: i64) -> ImuSample {
    ImuSample {
        at_ns,
        attitude: unit(sensors.attitude.map(f64::from)),
        rate: sensors.rate.map(f64::from),
        acceleration: sensors.acceleration.map(f64::from),
    }
}

/// The IMU of a device, whose readings come with its replies: there is nothing to ask for.
impl Imu for Udp {
    fn request(&mut self, _: i64) -> Result<(), LinkError> {
        Ok(())
    }

    fn poll(&mut self, _: i64) -> Result<Option<ImuSample>, LinkError> {
        Ok(self.reading.take())
    }
}

fn set_up(socket: &UdpSocket, options: &Options) -> io::Result<bool> {
    if options.channels == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a link needs at least one channel"));
    }
    socket.set_nonblocking(true)?;
    socket.set_broadcast(matches!(options.reach, Reach::All(_)))?;
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    let us = i32::try_from(options.busy_poll_us).unwrap_or(i32::MAX);
    let set = |name, value| set_option(socket.as_fd(), libc::SOL_SOCKET, name, value).is_ok();
    Ok(us > 0 && set(libc::SO_BUSY_POLL, us) && set(libc::SO_PREFER_BUSY_POLL, 1))
}

/// Writes as many frames as one datagram holds, and takes them off the front of `frames`.
fn write<'a>(
    kind: DatagramKind,
    sequence: u32,
    frames: &mut &[(u8, Frame)],
    buffer: &'a mut [u8],
) -> &'a [u8] {
    let Ok(mut writer) = Writer::new(Header { kind, sequence }, &mut *buffer) else { return &[] };
    while let Some(((channel, frame), rest)) = frames.split_first() {
        if writer.push(*channel, frame).is_err() {
            break;
        }
        *frames = rest;
    }
    let len = writer.written().len();
    &buffer[..len]
}

fn failed(error: &io::Error) -> LinkError {
    match error.raw_os_error() {
        // An ICMP refusal of an earlier datagram is that device's affair: it will be missed.
        Some(libc::ECONNREFUSED | libc::EINTR) => LinkError::Unsupported,
        Some(libc::EAGAIN | libc::ENOBUFS) => LinkError::Full,
        errno => LinkError::Down { errno: errno.unwrap_or(0) },
    }
}

impl Link for Udp {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: "udp",
            channels: self.options.channels,
            half_duplex: false,
            in_flight: 64,
            emulated: false,
        }
    }

    fn begin_cycle(&mut self, _: i64) {
        for (channel, _) in self.burst.drain(..) {
            let counters = &mut self.counters[usize::from(channel)];
            counters.sent -= 1;
            counters.expired += 1;
        }
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, _: i64) -> Result<(), LinkError> {
        if channel >= self.options.channels || request.frame.remote.is_some() {
            return Err(LinkError::Unsupported);
        }
        let result = match self.options.reach {
            Reach::Unicast(_) => self.unicast(channel, request),
            Reach::All(_) => self.gather(channel, request),
        };
        self.count(channel, result)
    }

    fn flush(&mut self, _: i64) -> Result<(), LinkError> {
        let result = match self.options.reach {
            Reach::All(address) => self.send_burst(address),
            Reach::Unicast(_) => Ok(()),
        };
        if matches!(result, Err(LinkError::Down { .. })) {
            self.went_down(result);
        }
        self.burst.clear();
        self.reading = None;
        self.sequence = self.sequence.wrapping_add(1);
        result
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        if self.received.is_empty() {
            self.listen(now_ns);
        }
        match self.down.take() {
            Some(error) => Err(error),
            None => Ok(self.received.pop_front()),
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn imu(&mut self) -> Option<&mut dyn Imu> {
        Some(self)
    }

    fn counters(&self, channel: u8) -> Counters {
        self.counters.get(usize::from(channel)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_wire::Address;

    const LOCAL: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

    fn open_on(options: Options) -> Result<Udp, OpenError> {
        Udp::open(options, |_, frame| Address::replier(frame))
    }

    /// A socket in place of a device.
    fn device() -> UdpSocket {
        UdpSocket::bind(LOCAL).unwrap()
    }

    /// Its first burst has number 1.
    fn host(reach: Reach) -> Udp {
        let link = open_on(Options { bind: LOCAL.into(), reach, channels: 2, busy_poll_us: 0 }).unwrap();
        Udp { sequence: 1, ..link }
    }

    fn unicast(devices: &[&UdpSocket]) -> Udp {
        let peer = |(index, device): (usize, &&UdpSocket)| Peer {
            channel: 0,
            id: index as u8 + 1,
            address: device.local_addr().unwrap(),
        };
        host(Reach::Unicast(devices.iter().enumerate().map(peer).collect()))
    }

    fn frame(id: u32, byte: u8) -> Frame {
        Frame::new(id, &[byte; 3]).unwrap()
    }

    /// What a device receives next: kind, sequence number, frames.
    fn receive(device: &UdpSocket) -> (DatagramKind, u32, Vec<(u8, Frame)>) {
        let mut buffer = [0; 2048];
        let len = device.recv(&mut buffer).unwrap();
        let datagram = Datagram::parse(&buffer[..len]).unwrap();
        (datagram.header.kind, datagram.header.sequence, datagram.frames().collect())
    }

    /// Asks one device, which receives it; returns the number of the burst.
    fn ask(link: &mut Udp, device: &UdpSocket, id: u32) -> u32 {
        link.send(0, &Address::request(&frame(id, 1)), 0).unwrap();
        link.flush(0).unwrap();
        receive(device).1
    }

    fn reply(device: &UdpSocket, link: &Udp, sequence: u32, frames: &[(u8, Frame)]) {
        let mut buffer = [0; 2048];
        let datagram = write(DatagramKind::Reply, sequence, &mut &frames[..], &mut buffer);
        device.send_to(datagram, link.local_address().unwrap()).unwrap();
    }

    #[test]
    fn unicast_asks_each_device_at_its_own_address() {
        let (a, b) = (device(), device());
        let mut link = unicast(&[&a, &b]);
        link.send(0, &Address::request(&frame(0x8002, 2)), 0).unwrap();
        link.send(0, &Address::request(&frame(0x8001, 1)), 0).unwrap();
        link.flush(0).unwrap();
        assert_eq!(receive(&a), (DatagramKind::Request, 1, vec![(0, frame(0x8001, 1))]));
        assert_eq!(receive(&b), (DatagramKind::Request, 1, vec![(0, frame(0x8002, 2))]));
        reply(&b, &link, 1, &[(0, frame(0x200, 9))]);
        assert_eq!(link.receive(0).unwrap().unwrap().frame, frame(0x200, 9));
        assert_eq!(link.send(0, &Address::request(&frame(0x8009, 1)), 0), Err(LinkError::Unsupported));
    }

    #[test]
    fn what_was_not_flushed_goes_into_no_later_burst() {
        let all = device();
        let mut link = host(Reach::All(all.local_addr().unwrap()));
        link.send(0, &Address::request(&frame(0x8001, 1)), 0).unwrap();
        link.begin_cycle(1);
        link.send(0, &Address::request(&frame(0x8001, 2)), 1).unwrap();
        link.flush(1).unwrap();
        assert_eq!(receive(&all).2, [(0, frame(0x8001, 2))]);
        assert_eq!((link.counters(0).sent, link.counters(0).expired), (1, 1));
    }

    #[test]
    fn one_broadcast_carries_the_frames_of_all() {
        let all = device();
        let mut link = host(Reach::All(all.local_addr().unwrap()));
        let frames: Vec<_> = (1..=32).map(|id| (id % 2, frame(0x8000 | u32::from(id), id))).collect();
        frames.iter().for_each(|(channel, frame)| link.send(*channel, &Address::request(frame), 0).unwrap());
        link.flush(0).unwrap();
        assert_eq!(receive(&all), (DatagramKind::RequestToAll, 1, frames));
        reply(&all, &link, 1, &[(0, frame(0x200, 1)), (1, frame(0x100, 2))]);
        assert_eq!(link.receive(0).unwrap().unwrap().channel, 0);
        assert_eq!(link.receive(0).unwrap().unwrap().channel, 1);
        assert_eq!(link.receive(0), Ok(None));
    }

    #[test]
    fn a_burst_beyond_one_datagram_takes_two() {
        let all = device();
        let mut link = host(Reach::All(all.local_addr().unwrap()));
        let long = Frame::new(0x8001, &[0x50; 64]).unwrap();
        (0..30).for_each(|_| link.send(0, &Address::request(&long), 0).unwrap());
        link.flush(0).unwrap();
        let (first, second) = (receive(&all), receive(&all));
        assert_eq!((first.1, second.1, first.2.len() + second.2.len()), (1, 1, 30));
    }

    #[test]
    fn replies_to_older_requests_are_dropped_and_counted() {
        let a = device();
        let mut link = unicast(&[&a]);
        for _ in 0..2 {
            link.send(0, &Address::request(&frame(0x8001, 1)), 0).unwrap();
            link.flush(0).unwrap();
        }
        reply(&a, &link, 1, &[(0, frame(0x100, 1))]);
        reply(&a, &link, 2, &[(0, frame(0x100, 2))]);
        assert_eq!(link.receive(0).unwrap().unwrap().frame.payload(), [2, 2, 2]);
        assert_eq!((link.counters(0).stale, link.counters(0).received), (1, 1));
    }

    #[test]
    fn a_forged_reply_never_gets_through() {
        let (a, other) = (device(), device());
        let to_all = |a: &UdpSocket| host(Reach::All(a.local_addr().unwrap()));
        for open in [|a: &_| unicast(&[a]), to_all] {
            let mut link = open(&a);
            let reading = Sensors { attitude: [1.0, 0.0, 0.0, 0.0], rate: [9.0; 3], acceleration: [0.0; 3] };
            let forged = [(0, frame(0x100, 66)), (0, reading.to_frame().unwrap())];
            for _ in 0..20 {
                let sequence = ask(&mut link, &a, 0x8001);
                // The unknown sender has seen the request: its sequence is right, its address is not.
                reply(&other, &link, sequence, &forged);
                assert_eq!(link.receive(0), Ok(None));
                assert_eq!(link.imu().unwrap().poll(0), Ok(None), "a forged reading");
                reply(&a, &link, sequence, &[(0, frame(0x100, 1))]);
                assert_eq!(link.receive(0).unwrap().unwrap().frame.payload(), [1; 3]);
            }
            assert_eq!((link.counters(0).unexpected, link.counters(0).received), (20, 20));
        }
    }

    #[test]
    fn a_device_does_not_answer_for_another() {
        let (a, b) = (device(), device());
        let mut link = unicast(&[&a, &b]);
        link.send(0, &Address::request(&frame(0x8002, 1)), 0).unwrap();
        let sequence = ask(&mut link, &a, 0x8001);
        reply(&a, &link, sequence, &[(0, frame(0x200, 66)), (0, frame(0x100, 1))]);
        assert_eq!(link.receive(0).unwrap().unwrap().frame, frame(0x100, 1));
        assert_eq!(link.receive(0), Ok(None));
        assert_eq!(link.counters(0).unexpected, 1);
    }

    #[test]
    fn the_first_sequence_cannot_be_known() {
        let a = device();
        let open = || {
            let address = a.local_addr().unwrap();
            let reach = Reach::Unicast(vec![Peer { channel: 0, id: 1, address }]);
            open_on(Options { bind: LOCAL.into(), reach, ..Options::default() }).unwrap()
        };
        let first: Vec<u32> = (0..4).map(|_| ask(&mut open(), &a, 0x8001)).collect();
        // Two of four random numbers are the same once in 700 million times.
        assert!(first.iter().all(|number| first.iter().filter(|other| *other == number).count() == 1));
    }

    #[test]
    fn a_device_that_was_not_asked_has_nothing_to_answer() {
        let a = device();
        let mut link = unicast(&[&a]);
        reply(&a, &link, link.sequence.wrapping_sub(1), &[(0, frame(0x100, 1))]);
        assert_eq!(link.receive(0), Ok(None));
        let sequence = ask(&mut link, &a, 0x8001);
        (0..2).for_each(|_| reply(&a, &link, sequence, &[(0, frame(0x100, 1))]));
        assert!(link.receive(0).unwrap().is_some());
        assert_eq!(link.counters(0).stale, 1);
    }

    #[test]
    fn a_second_reply_to_one_request_is_passed_on_to_be_counted() {
        let (a, other) = (device(), device());
        let mut link = unicast(&[&a]);
        let sequence = ask(&mut link, &a, 0x8001);
        (0..2).for_each(|_| reply(&a, &link, sequence, &[(0, frame(0x100, 1))]));
        reply(&other, &link, sequence, &[(0, frame(0x100, 66))]);
        reply(&a, &link, sequence.wrapping_sub(1), &[(0, frame(0x100, 67))]);
        for _ in 0..2 {
            assert_eq!(link.receive(0).unwrap().unwrap().frame.payload(), [1; 3]);
        }
        assert_eq!(link.receive(0), Ok(None), "another sender's, or one to an older request");
    }

    #[test]
    fn behind_a_broadcast_each_device_keeps_the_address_of_its_first_reply() {
        let port = device().local_addr().unwrap().port();
        // Both receive a broadcast; on the loopback network each address can be bound.
        let at = |ip: [u8; 4]| UdpSocket::bind((Ipv4Addr::from(ip), port)).unwrap();
        let (a, other, elsewhere) = (at([127, 0, 0, 1]), at([127, 0, 0, 2]), device());
        let mut link = host(Reach::All(([127, 255, 255, 255], port).into()));
        link.send(0, &Address::request(&frame(0x8001, 1)), 0).unwrap();
        link.flush(0).unwrap();
        let sequence = link.sequence.wrapping_sub(1);
        reply(&elsewhere, &link, sequence, &[(0, frame(0x100, 66))]);
        reply(&a, &link, sequence, &[(0, frame(0x100, 1))]);
        assert_eq!(link.receive(0).unwrap().unwrap().frame.payload(), [1; 3]);
        link.send(0, &Address::request(&frame(0x8001, 1)), 0).unwrap();
        link.flush(0).unwrap();
        let sequence = link.sequence.wrapping_sub(1);
        reply(&other, &link, sequence, &[(0, frame(0x100, 66))]);
        reply(&a, &link, sequence, &[(0, frame(0x100, 2))]);
        assert_eq!(link.receive(0).unwrap().unwrap().frame.payload(), [2; 3]);
        assert_eq!(link.counters(0).unexpected, 2);
    }

    #[test]
    fn a_device_not_asked_in_this_burst_may_still_answer_the_last() {
        let (a, b) = (device(), device());
        let mut link = unicast(&[&a, &b]);
        for id in [0x8001, 0x8002] {
            link.send(0, &Address::request(&frame(id, 1)), 0).unwrap();
            link.flush(0).unwrap();
        }
        reply(&a, &link, 1, &[(0, frame(0x100, 1))]);
        assert!(link.receive(0).unwrap().is_some());
    }

    #[test]
    fn an_imu_reading_comes_with_the_reply_to_the_last_burst() {
        let all = device();
        let mut link = host(Reach::All(all.local_addr().unwrap()));
        let reading =
            Sensors { attitude: [1.0, 0.0, 0.0, 0.0], rate: [0.5, 0.0, 0.0], acceleration: [0.0; 3] };
        let both = [(0, frame(0x100, 1)), (0, reading.to_frame().unwrap())];
        for burst in 1..=2 {
            link.send(0, &Address::request(&frame(0x8001, 1)), 0).unwrap();
            link.flush(0).unwrap();
            // Of the second burst only what answers the first has come.
            reply(&all, &link, 1, &both);
            let answered = link.receive(0).unwrap().is_some();
            let sample = link.imu().unwrap().poll(0).unwrap();
            assert_eq!((answered, sample.map(|s| s.rate[0])), (burst == 1, (burst == 1).then_some(0.5)));
            assert_eq!(link.imu().unwrap().poll(0), Ok(None), "reported once");
        }
        assert_eq!(link.counters(0).stale, 1);
    }

    #[test]
    fn an_attitude_is_of_length_1_and_none_is_no_number() {
        let half = std::f64::consts::FRAC_1_SQRT_2;
        let attitude =
            |attitude| sample(&Sensors { attitude, rate: [0.0; 3], acceleration: [0.0; 3] }, 0).attitude;
        for part in [0.5, 3.0, 2e-20] {
            let [w, x, y, z] = attitude([part, part, 0.0, 0.0]);
            assert!((w - half).abs() < 1e-12 && (x - half).abs() < 1e-12 && (y, z) == (0.0, 0.0));
        }
        assert!(attitude([0.0; 4]).iter().all(|part| part.is_nan()));
    }

    #[test]
    fn rubbish_is_counted() {
        let a = device();
        let mut link = unicast(&[&a]);
        a.send_to(b"hello", link.local_address().unwrap()).unwrap();
        assert_eq!(link.receive(0), Ok(None));
        assert_eq!(link.counters(0).corrupt, 1);
    }

    #[test]
    fn a_refused_datagram_does_not_take_the_link_down() {
        let gone = device().local_addr().unwrap();
        let peer = Peer { channel: 0, id: 1, address: gone };
        let mut link = host(Reach::Unicast(vec![peer]));
        for _ in 0..3 {
            assert_eq!(link.send(0, &Address::request(&frame(0x8001, 1)), 0), Ok(()));
            assert_eq!(link.receive(0), Ok(None));
        }
        assert_eq!(link.counters(0).downs, 0);
    }

    #[test]
    fn broadcast_addresses_are_those_of_the_interfaces() {
        // The loopback network is 127.0.0.0/8.
        for (address, expected) in [
            ("127.255.255.255:7757", true),
            ("255.255.255.255:7757", true),
            ("127.0.0.255:7757", false),
            ("127.0.0.1:7757", false),
            ("[::1]:7757", false),
        ] {
            assert_eq!(is_broadcast(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn errors_state_what_to_do() {
        let open = |bind: &str, channels| {
            open_on(Options { bind: bind.parse().unwrap(), channels, ..Options::default() }).map(|_| ())
        };
        let error = open("192.0.2.1:5000", 1).unwrap_err();
        assert!(error.advice.contains("ip -br address"), "{error}");
        assert!(open("127.0.0.1:0", 0).is_err());
    }
}
