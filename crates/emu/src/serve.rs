//! Serves a [`World`] to other processes in real time: each bus where its clients look for it.
//!
//! | endpoint | client |
//! |---|---|
//! | [`Endpoint::Terminal`] on a CAN bus | speaks the text of moteus's own serial port, for the official Python client among others |
//! | [`Endpoint::Terminal`] on an RS485 bus | speaks the line's bytes |
//! | [`Endpoint::Slcan`] | is a CANable: for python-can and all that is built on it |
//! | [`Endpoint::Can`] | any program on that interface |
//! | [`Endpoint::Udp`] | [`khz_link::udp`] |
//!
//! One thread owns the machine and all its endpoints.

mod can;
mod terminal;
mod udp;

use crate::world::World;
use can::CanPort;
use khz_link::{ImuSample, Link, LinkError};
use khz_rt::clock::now_ns;
use khz_wire::Frame;
use khz_wire::slcan::Answers;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use terminal::Terminal;
use udp::UdpPort;

/// The emulated machine never falls further behind than this, ns.
const LONGEST_SLEEP_NS: i64 = 5_000_000;

/// Where the clients of a bus look for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A new pseudo terminal; what it speaks is the wire's affair.
    Terminal,
    /// A new pseudo terminal, at which an slcan adapter of the bus's bit rates is, and how that answers.
    Slcan(Answers),
    /// A CAN interface of the kernel, for example `vcan0`.
    Can(String),
    /// A UDP port.
    Udp(SocketAddr),
}

/// What serves one bus.
trait Port: Send {
    /// What clients open.
    fn path(&self) -> PathBuf;
    /// What is worth waking up for.
    fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)>;
    /// Reads what the client wrote, once there is something.
    fn fill(&mut self);
    /// The client's oldest frame.
    fn next_frame(&mut self) -> Option<Frame>;
    /// The bus had no room for it now.
    fn hand_back(&mut self, frame: Frame);
    /// Takes the IMU's newest reading along with the next frames; none if it gives none.
    fn sense(&mut self, _: Option<&ImuSample>) {}
    /// Frames dropped so far because a newer one came before the bus took them.
    fn outdated(&self) -> u64 {
        0
    }
    /// Reports a frame on the bus to the client.
    fn report(&mut self, frame: &Frame);
    /// Hands over what was reported.
    fn flush(&mut self);
}

/// A machine with its endpoints.
pub struct Server {
    world: World,
    ports: Vec<Box<dyn Port>>,
    passed: Passed,
}

/// Frames a [`Server`] passed on so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// From clients to the machine.
    pub taken: u64,
    /// From clients, and dropped because a newer frame to the same servo came before the bus took them.
    pub outdated: u64,
    /// From the machine to clients.
    pub reported: u64,
}

impl Server {
    /// Opens one terminal per bus.
    ///
    /// # Errors
    /// If the system gives no pseudo terminal.
    pub fn new(world: World) -> io::Result<Self> {
        let buses = usize::from(world.capabilities().channels);
        Self::at(world, &vec![Endpoint::Terminal; buses])
    }

    /// Opens one endpoint per bus, in their order.
    ///
    /// # Errors
    /// If an endpoint cannot be had, or there are not as many as buses.
    pub fn at(world: World, endpoints: &[Endpoint]) -> io::Result<Self> {
        let buses = usize::from(world.capabilities().channels);
        if endpoints.len() != buses {
            let what = format!("{} endpoints for {buses} buses", endpoints.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let ports = endpoints.iter().enumerate().map(|(bus, endpoint)| open(&world, bus as u8, endpoint));
        let ports = ports.collect::<io::Result<_>>()?;
        Ok(Self { world, ports, passed: Passed::default() })
    }

    /// Serves each bus over a socket that carries whole `struct canfd_frame`s, in order.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn over_can_sockets(world: World, sockets: impl IntoIterator<Item = OwnedFd>) -> io::Result<Self> {
        let port = |fd| -> io::Result<Box<dyn Port>> { Ok(Box::new(CanPort::over(fd)?)) };
        let ports = sockets.into_iter().map(port).collect::<io::Result<_>>()?;
        Ok(Self { world, ports, passed: Passed::default() })
    }

    /// What to open for each bus, in order.
    pub fn endpoints(&self) -> impl Iterator<Item = PathBuf> {
        self.ports.iter().map(|port| port.path())
    }

    /// Frames passed on so far.
    pub fn passed(&self) -> Passed {
        Passed { outdated: self.ports.iter().map(|port| port.outdated()).sum(), ..self.passed }
    }

    /// Does without waiting what [`Server::run`] does again and again; for those who keep time themselves.
    pub fn serve_once(&mut self, now_ns: i64) {
        self.ports.iter_mut().for_each(|port| port.fill());
        self.turn(now_ns);
    }

    /// The machine, to put faults into it.
    pub fn world(&mut self) -> &mut World {
        &mut self.world
    }

    /// Serves until `stop` is set (looked at every few milliseconds) or, if given, until `until_ns` on the
    /// monotonic clock.
    ///
    /// # Errors
    /// What the system reports on waiting; clients cannot cause one.
    pub fn run(&mut self, stop: &AtomicBool, until_ns: Option<i64>) -> io::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let now_ns = now_ns();
            if until_ns.is_some_and(|until_ns| until_ns <= now_ns) {
                break;
            }
            self.turn(now_ns);
            self.wait(until_ns)?;
        }
        Ok(())
    }

    /// Passes everything on that can be passed on now.
    fn turn(&mut self, now_ns: i64) {
        for (channel, port) in self.ports.iter_mut().enumerate() {
            let taken_before = self.passed.taken;
            while let Some(frame) = port.next_frame() {
                if self.world.send(channel as u8, &frame, now_ns) == Err(LinkError::Full) {
                    port.hand_back(frame);
                    break;
                }
                self.passed.taken += 1;
            }
            if self.passed.taken > taken_before {
                port.sense(read_imu(&mut self.world, now_ns).as_ref());
            }
        }
        while let Ok(Some(received)) = self.world.receive(now_ns) {
            if let Some(port) = self.ports.get_mut(usize::from(received.channel)) {
                port.report(&received.frame);
                self.passed.reported += 1;
            }
        }
        self.ports.iter_mut().for_each(|port| port.flush());
    }

    /// Waits until a client wrote, could read, or something happens in the machine.
    fn wait(&mut self, until_ns: Option<i64>) -> io::Result<()> {
        let now_ns = now_ns();
        let events = [self.world.next_event_ns(), until_ns];
        let next_ns = events.into_iter().flatten().min().unwrap_or(i64::MAX);
        let sleep_ns = next_ns.saturating_sub(now_ns).clamp(0, LONGEST_SLEEP_NS);
        let timeout = Timespec { tv_sec: 0, tv_nsec: sleep_ns };
        // A port without a descriptor (its interface is gone) keeps its place.
        let interests: Vec<_> = self.ports.iter().map(|port| port.interest()).collect();
        let mut fds: Vec<_> =
            interests.iter().flatten().map(|(fd, events)| PollFd::from_borrowed_fd(*fd, *events)).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = fds.iter().map(|fd| fd.revents().intersects(PollFlags::IN));
        let readable: Vec<bool> =
            interests.iter().map(|interest| interest.is_some() && ready.next() == Some(true)).collect();
        for (port, _) in self.ports.iter_mut().zip(readable).filter(|(_, readable)| *readable) {
            port.fill();
        }
        Ok(())
    }
}

/// The IMU's reading of now; none if there is no IMU, or it does not answer at once.
fn read_imu(world: &mut World, now_ns: i64) -> Option<ImuSample> {
    let imu = world.imu()?;
    imu.request(now_ns).ok()?;
    imu.poll(now_ns).ok()?
}

fn open(world: &World, bus: u8, endpoint: &Endpoint) -> io::Result<Box<dyn Port>> {
    Ok(match endpoint {
        Endpoint::Terminal => Box::new(Terminal::open(world.bus(bus).map(|config| config.wire))?),
        Endpoint::Slcan(answers) => {
            Box::new(Terminal::slcan(world.bus(bus).map(|config| config.wire), *answers)?)
        }
        Endpoint::Can(interface) => Box::new(CanPort::open(interface).map_err(io::Error::other)?),
        Endpoint::Udp(address) => Box::new(UdpPort::open(*address).map_err(|error| {
            let what = format!("{address}: {error}; is it an address of this machine, and is the port free? check with `ss -ulpn`");
            io::Error::new(error.kind(), what)
        })?),
    })
}

/// Why an endpoint cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}: no endpoint; write terminal, slcan, slcan:canable (an adapter that answers nothing), socketcan:INTERFACE or udp:ADDRESS:PORT"
)]
pub struct EndpointError(String);

impl std::str::FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || EndpointError(text.to_owned());
        match text.split_once(':') {
            None if text == "terminal" => Ok(Self::Terminal),
            None if text == "slcan" => Ok(Self::Slcan(Answers::Lawicel)),
            Some(("slcan", "")) => Ok(Self::Slcan(Answers::Lawicel)),
            Some(("slcan", "canable")) => Ok(Self::Slcan(Answers::None)),
            Some(("socketcan", interface)) if !interface.is_empty() => Ok(Self::Can(interface.to_owned())),
            Some(("udp", address)) => address.parse().map(Self::Udp).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_understood_or_explained() {
        let can = Endpoint::Can("vcan0".into());
        assert_eq!("socketcan:vcan0".parse(), Ok(can));
        assert_eq!("udp:127.0.0.1:7000".parse(), Ok(Endpoint::Udp(([127, 0, 0, 1], 7000).into())));
        assert_eq!("terminal".parse(), Ok(Endpoint::Terminal));
        assert_eq!("slcan:".parse(), Ok(Endpoint::Slcan(Answers::Lawicel)));
        assert_eq!("slcan:canable".parse(), Ok(Endpoint::Slcan(Answers::None)));
        for wrong in ["", "slcan:can0", "vcan0", "socketcan:", "udp:7000", "udp:host:7000", "terminal:1"] {
            let error = wrong.parse::<Endpoint>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{wrong}: no endpoint")), "{error}");
        }
    }
}
