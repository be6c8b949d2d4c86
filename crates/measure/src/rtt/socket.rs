//! A UDP socket that waits in the way asked for.
use khz_rt::now_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recvfrom};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{SocketAddr, UdpSocket};
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

/// A UDP socket and the way it waits.
#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    receive: Receive,
}

impl Socket {
    /// Binds a socket.
    ///
    /// # Errors
    /// What the kernel says: the address is in use, or is not of this machine.
    pub fn bind(address: SocketAddr, receive: Receive) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        socket.set_read_timeout(Some(Duration::from_millis(10)))?;
        // A limit below (`net.core.rmem_max`) is no failure: what is lost then is counted.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, ROOM);
        Ok(Self { socket, receive })
    }

    /// The socket itself.
    pub fn inner(&self) -> &UdpSocket {
        &self.socket
    }

    /// Waits until a datagram comes or the clock reaches `until_ns`: its length and its sender. What was
    /// there before is taken even when it is past the time.
    ///
    /// # Errors
    /// What the kernel says; an interrupted call and an earlier datagram that was refused (`ECONNREFUSED`)
    /// are not errors here.
    pub fn receive(&self, buffer: &mut [u8], until_ns: i64) -> io::Result<Option<(usize, SocketAddr)>> {
        let sleep_from_ns = match self.receive {
            Receive::Block => i64::MIN,
            Receive::Hybrid => now_ns() + MOMENT_NS,
            Receive::Spin => i64::MAX,
        };
        loop {
            let now = now_ns();
            let left_ns = if now < sleep_from_ns { 0 } else { until_ns - now };
            let flags = if left_ns > FAR_NS { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
            if (1..=FAR_NS).contains(&left_ns) {
                self.wait(left_ns);
            }
            match recvfrom(&self.socket, &mut *buffer, flags) {
                Ok((length, _, from)) => {
                    let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                    return Ok(from.map(|from| (length.min(buffer.len()), from)));
                }
                Err(Errno::AGAIN) if now < until_ns => std::hint::spin_loop(),
                Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
                Err(Errno::CONNREFUSED) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn wait(&self, left_ns: i64) {
        let timeout = Timespec { tv_sec: left_ns / 1_000_000_000, tv_nsec: left_ns % 1_000_000_000 };
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout));
    }
}
