//! The device: sends every request back.
use super::packet::{MAX_PAYLOAD, Packet, PacketKind};
use super::socket::{Came, Receive, Socket};
use super::{Refusal, RttError};
use khz_rt::now_ns;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Answers requests, and nothing else: what is not a whole request of ours gets no answer, and no answer is
/// longer than its request, so that it cannot be used to flood others.
#[derive(Debug)]
pub struct Echo {
    socket: Socket,
    buffer: Vec<u8>,
    counts: EchoCounts,
}

/// What a device has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct EchoCounts {
    /// Requests answered.
    pub answered: u64,
    /// Datagrams of another make.
    pub foreign: u64,
    /// Damaged ones, and those of another version.
    pub damaged: u64,
    /// Replies, which are not answered: two devices cannot keep each other busy.
    pub replies: u64,
    /// Answers the kernel would not send.
    pub unsent: u64,
}

/// How long [`Echo::run`] waits before it looks whether to stop.
const PATIENCE_NS: i64 = 100_000_000;
/// After a stop, what is in the socket already is still answered, up to so many datagrams.
const MOST_AFTER_STOP: usize = 10_000;

impl Echo {
    /// Binds the device's address.
    ///
    /// # Errors
    /// If the address is in use or not of this machine.
    pub fn bind(address: SocketAddr, receive: Receive) -> Result<Self, RttError> {
        let socket = Socket::bind(address, receive).map_err(|source| RttError::Bind { address, source })?;
        Ok(Self { socket, buffer: vec![0; MAX_PAYLOAD], counts: EchoCounts::default() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn address(&self) -> Result<SocketAddr, RttError> {
        Ok(self.socket.inner().local_addr()?)
    }

    /// Answers until `stop` is set; looks ten times a second.
    ///
    /// # Errors
    /// If the socket breaks.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<EchoCounts, RttError> {
        // What came before the stop is answered, too, but a client that goes on asking must not keep this running.
        let mut still = MOST_AFTER_STOP;
        while still > 0 {
            let over = stop.load(Ordering::Relaxed);
            still -= usize::from(over);
            let until_ns = if over { 0 } else { now_ns() + PATIENCE_NS };
            if !self.answer_until(until_ns)? && over {
                break;
            }
        }
        Ok(self.counts)
    }

    /// Waits for one datagram until then, and answers it if it is a request. Returns whether one came.
    ///
    /// # Errors
    /// If the socket breaks.
    pub fn answer_until(&mut self, until_ns: i64) -> Result<bool, RttError> {
        let Some(Came { length, from, .. }) = self.socket.receive(&mut self.buffer, until_ns)? else {
            return Ok(false);
        };
        let came_ns = now_ns();
        let datagram = &mut self.buffer[..length];
        match Packet::read(datagram) {
            Ok(packet) if packet.kind == PacketKind::Request => {
                packet.reply(now_ns() - came_ns).write(datagram);
                match self.socket.inner().send_to(datagram, from) {
                    Ok(_) => self.counts.answered += 1,
                    Err(_) => self.counts.unsent += 1,
                }
            }
            Ok(_) => self.counts.replies += 1,
            Err(Refusal::Foreign) => self.counts.foreign += 1,
            Err(_) => self.counts.damaged += 1,
        }
        Ok(true)
    }

    /// What it has seen so far.
    pub fn counts(&self) -> EchoCounts {
        self.counts
    }
}
