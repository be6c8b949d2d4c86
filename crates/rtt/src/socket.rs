//! A UDP socket that waits in the way asked for.
use khz_link::stamps::{self, Queued, Stamps};
use khz_rt::now_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recvfrom};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::str::FromStr;
use std::time::Duration;

/// How to wait for a datagram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Receive {
    /// Sleep in the kernel until one comes.
    Block,
    /// Ask again and again for a moment, then sleep: saves the wake-up when answers are quick.
    #[default]
    Hybrid,
    /// Ask again and again: takes the CPU, saves the wake-up.
    Spin,
}

impl FromStr for Receive {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "block" => Ok(Self::Block),
            "hybrid" => Ok(Self::Hybrid),
            "spin" => Ok(Self::Spin),
            _ => Err(format!("no way to receive is called `{word}`: use block, hybrid or spin")),
        }
    }
}

impl Receive {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Hybrid => "hybrid",
            Self::Spin => "spin",
        }
    }
}

/// With more time left than this a plain blocking call will do, which saves one system call. Its own timeout
/// is as coarse as the kernel's tick.
const FAR_NS: i64 = 50_000_000;

/// For how long [`Receive::Hybrid`] asks again and again: longer than an answer on a quick network takes.
const MOMENT_NS: i64 = 50_000;

/// Room the kernel is asked to keep for datagrams that were not fetched yet: bursts of many devices.
const ROOM: usize = 4 << 20;

/// Datagrams sent of which the kernel's time of sending is remembered; a power of two.
const SENT: usize = 4096;

/// Undelivered datagrams of which is remembered whose they were; more than can come between two looks.
const UNDELIVERED: usize = 1024;

/// A UDP socket and the way it waits.
#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    receive: Receive,
    /// The kernel is asked for times of arrivals, at least.
    stamped: bool,
    /// To whom a datagram did not get, and whether its port was closed; not yet taken. Never grows.
    undelivered: Vec<(SocketAddr, bool)>,
    /// When the last datagrams left, by their number; none while the kernel is not asked for times.
    sent: Option<Vec<(u32, Stamps)>>,
}

/// A datagram that came.
#[derive(Debug, Clone, Copy)]
pub struct Came {
    /// Its bytes, as many as the buffer holds.
    pub length: usize,
    /// Its sender.
    pub from: SocketAddr,
    /// The kernel's times, if it was asked for them.
    pub stamps: Stamps,
}

impl Socket {
    /// Binds a socket.
    ///
    /// # Errors
    /// Those of the kernel: the address is in use, or is not of this machine.
    pub fn bind(address: SocketAddr, receive: Receive) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        socket.set_read_timeout(Some(Duration::from_millis(10)))?;
        // A limit below (`net.core.rmem_max`) is no failure: what is lost then is counted.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, ROOM);
        Ok(Self { socket, receive, stamped: false, undelivered: Vec::new(), sent: None })
    }

    /// The socket itself.
    pub fn inner(&self) -> &UdpSocket {
        &self.socket
    }

    /// Has the kernel poll the network card for so many µs when nothing is there (`SO_BUSY_POLL`).
    ///
    /// # Errors
    /// Those of the kernel: more than `net.core.busy_read` needs `CAP_NET_ADMIN`.
    pub fn busy_poll(&self, us: u32) -> io::Result<()> {
        stamps::busy_poll(self.socket.as_fd(), us)
    }

    /// Asks the kernel when datagrams arrive, and which of those sent could not be delivered.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn explain(&mut self) -> io::Result<()> {
        let v6 = self.socket.local_addr()?.is_ipv6();
        self.undelivered.reserve_exact(UNDELIVERED);
        stamps::enable_undelivered(self.socket.as_fd(), v6)?;
        stamps::enable_arrivals(self.socket.as_fd())?;
        self.stamped = true;
        Ok(())
    }

    /// To whom a datagram could not be delivered, and whether that is because its port is closed; each is reported once.
    pub fn undelivered(&mut self) -> Option<(SocketAddr, bool)> {
        self.undelivered.pop()
    }

    /// Whether a call failed because an earlier datagram could not be delivered. The kernel's report on it is kept for
    /// [`Socket::undelivered`].
    pub fn failed_for_earlier(&mut self, error: &io::Error) -> bool {
        let earlier = Errno::from_io_error(error).is_some_and(is_delivery_failure);
        if earlier {
            self.take_queue();
        }
        earlier
    }

    /// Asks the kernel for its own times of every datagram, and counts those sent from 0 again.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn stamp(&mut self) -> io::Result<()> {
        while stamps::queued(self.socket.as_fd())?.is_some() {}
        stamps::enable(self.socket.as_fd())?;
        self.stamped = true;
        let sent = self.sent.get_or_insert_with(|| Vec::with_capacity(SENT));
        sent.clear();
        sent.resize(SENT, (u32::MAX, Stamps::default()));
        Ok(())
    }

    /// When the kernel handed on the datagram of this number, if it reported that and the time is still kept.
    pub fn sent(&mut self, number: u32) -> Option<Stamps> {
        let slot = number as usize % SENT;
        if self.sent.as_ref()?[slot].0 != number {
            self.take_queue();
        }
        self.sent.as_ref().map(|sent| sent[slot]).filter(|known| known.0 == number).map(|known| known.1)
    }

    /// Empties the error queue.
    fn take_queue(&mut self) {
        while let Ok(Some(queued)) = stamps::queued(self.socket.as_fd()) {
            match queued {
                Queued::Sent(number, stamps) => self.remember(number, stamps),
                Queued::Undelivered { to, refused }
                    if self.undelivered.len() < self.undelivered.capacity() =>
                {
                    self.undelivered.push((to, refused));
                }
                Queued::Undelivered { .. } => {}
            }
        }
    }

    fn remember(&mut self, number: u32, stamps: Stamps) {
        let Some(sent) = &mut self.sent else { return };
        // The card's time comes apart from the kernel's.
        let known = &mut sent[number as usize % SENT];
        let before = if known.0 == number { known.1 } else { Stamps::default() };
        let software_ns = stamps.software_ns.or(before.software_ns);
        let hardware_ns = stamps.hardware_ns.or(before.hardware_ns);
        *known = (number, Stamps { software_ns, hardware_ns });
    }

    /// Waits until a datagram comes or the clock reaches `until_ns`: its length and its sender. What was
    /// there before is taken even when it is past the time.
    ///
    /// # Errors
    /// Those of the kernel; an interrupted call and an earlier datagram that could not be delivered
    /// are not errors here.
    pub fn receive(&mut self, buffer: &mut [u8], until_ns: i64) -> io::Result<Option<Came>> {
        let sleep_from_ns = match self.receive {
            Receive::Block => i64::MIN,
            Receive::Hybrid => now_ns() + MOMENT_NS,
            Receive::Spin => i64::MAX,
        };
        loop {
            let now = now_ns();
            let left_ns = if now < sleep_from_ns { 0 } else { until_ns - now };
            let waits = (1..=FAR_NS).contains(&left_ns);
            if waits {
                self.wait(left_ns);
            }
            match self.take(buffer, left_ns > FAR_NS) {
                Ok((length, from, stamps)) => {
                    let length = length.min(buffer.len());
                    return Ok(from.map(|from| Came { length, from, stamps }));
                }
                // What lies on the error queue wakes a poll, so it must not lie there.
                Err(Errno::AGAIN) if now < until_ns && waits => self.take_queue(),
                Err(Errno::AGAIN) if now < until_ns => {}
                Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
                Err(error) if is_delivery_failure(error) => self.take_queue(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn take(&self, buffer: &mut [u8], wait: bool) -> Result<(usize, Option<SocketAddr>, Stamps), Errno> {
        if self.stamped {
            let taken = stamps::receive(self.socket.as_fd(), buffer, wait);
            return taken.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
        }
        let flags = if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        let (length, _, from) = recvfrom(&self.socket, buffer, flags)?;
        Ok((length, from.and_then(|from| SocketAddr::try_from(from).ok()), Stamps::default()))
    }

    fn wait(&self, left_ns: i64) {
        let timeout = Timespec { tv_sec: left_ns / 1_000_000_000, tv_nsec: left_ns % 1_000_000_000 };
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout));
    }
}

/// The errors ICMP messages become (Linux `net/ipv4/icmp.c`, `icmp_err_convert`): of earlier datagrams, so that the call
/// that failed may be made again.
fn is_delivery_failure(error: Errno) -> bool {
    const FAILURES: [Errno; 9] = [
        Errno::CONNREFUSED,
        Errno::HOSTUNREACH,
        Errno::NETUNREACH,
        Errno::HOSTDOWN,
        Errno::NONET,
        Errno::NOPROTOOPT,
        Errno::OPNOTSUPP,
        Errno::PROTO,
        Errno::MSGSIZE,
    ];
    FAILURES.contains(&error)
}
