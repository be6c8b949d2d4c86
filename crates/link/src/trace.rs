//! Any link, with every frame copied aside: to candump text or pcapng, on another thread.
//!
//! [`Trace`] puts each frame into a ring; [`Tap`], on an ordinary thread, takes them out and writes them. A
//! full ring loses frames for the trace only, and counts them.
//!
//! | format | read by |
//! |---|---|
//! | candump log text (can-utils `candump -L -x`) | `canplayer`, python-can, SavvyCAN, [`crate::replay`] |
//! | pcapng, link type 227 | Wireshark, tshark |

use crate::{Link, LinkError, Received};
use khz_wire::Request;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One traced frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traced {
    /// Sent by this computer, or received.
    pub way: Way,
    /// Bus, time and content. For a sent frame the time is when it was handed to the link.
    pub item: Received,
}

/// Which way a traced frame went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Sent by this computer.
    Sent,
    /// Received by this computer.
    Received,
}

/// A link that copies every frame into a ring.
///
/// # Realtime contract
/// As [`Link`]. Copying takes a slot of the ring; a full ring is counted in [`Tap::lost`], never waited for.
pub struct Trace<L> {
    link: L,
    ring: rtrb::Producer<Traced>,
    lost: Arc<AtomicU64>,
}

/// The other end of a [`Trace`].
pub struct Tap {
    ring: rtrb::Consumer<Traced>,
    lost: Arc<AtomicU64>,
}

impl<L: Link> Trace<L> {
    /// Wraps a link; the ring holds `capacity` frames.
    pub fn new(link: L, capacity: usize) -> (Self, Tap) {
        let (producer, consumer) = rtrb::RingBuffer::new(capacity);
        let lost = Arc::new(AtomicU64::new(0));
        (Self { link, ring: producer, lost: Arc::clone(&lost) }, Tap { ring: consumer, lost })
    }

    fn copy(&mut self, way: Way, item: Received) {
        if self.ring.push(Traced { way, item }).is_err() {
            // A plain count: nothing is published through it.
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Tap {
    /// The oldest frame not yet taken.
    pub fn take(&mut self) -> Option<Traced> {
        self.ring.pop().ok()
    }

    /// Writes everything there is.
    ///
    /// # Errors
    /// Those of the writer underneath; the frame concerned is lost.
    pub fn drain(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        while let Some(traced) = self.take() {
            sink.write(&traced)?;
        }
        Ok(())
    }

    /// Frames that found the ring full.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The traced link is gone; what is still in the ring can be taken.
    pub fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }
}

impl<L: Link> Link for Trace<L> {
    crate::forward_link!(it => it.link; capabilities, half_duplex, begin_cycle, flush, next_event_ns, fd, imu, about, misnamed, holds_back,
        set_bit_rate, close, counters);

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        self.link.send(channel, request, now_ns)?;
        self.copy(Way::Sent, Received { channel, at_ns: now_ns, frame: *request.frame });
        Ok(())
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        let received = self.link.receive(now_ns)?;
        if let Some(item) = received {
            self.copy(Way::Received, item);
        }
        Ok(received)
    }
}

/// Where traced frames are written.
pub trait Sink {
    /// Writes one frame.
    ///
    /// # Errors
    /// Those of the writer underneath.
    fn write(&mut self, traced: &Traced) -> io::Result<()>;
}

/// candump log text: one line per frame.
///
/// `(SECONDS.MICROSECONDS) INTERFACE ID#DATA T`, with `##FLAGS` for CAN-FD (1 = bit-rate switch) and `R` or
/// `T` at the end for received or sent, as can-utils writes it; a remote frame's data are `R` and how many bytes it asks for.
pub struct Candump<W> {
    out: W,
    interfaces: Vec<String>,
    epoch_ns: i64,
}

impl<W: Write> Candump<W> {
    /// Writes to `out`, naming channels by `interfaces` (`bus0`, `bus1`… beyond its end) and adding `epoch_ns`
    /// to every time: the difference between wall clock and `CLOCK_MONOTONIC`, or 0.
    pub fn new(out: W, interfaces: Vec<String>, epoch_ns: i64) -> Self {
        Self { out, interfaces, epoch_ns }
    }

    /// The writer underneath.
    pub fn into_inner(self) -> W {
        self.out
    }
}

impl<W: Write> Sink for Candump<W> {
    fn write(&mut self, traced: &Traced) -> io::Result<()> {
        let Received { channel, at_ns, frame } = &traced.item;
        let us = at_ns.saturating_add(self.epoch_ns).max(0) / 1000;
        write!(self.out, "({}.{:06}) ", us / 1_000_000, us % 1_000_000)?;
        match self.interfaces.get(usize::from(*channel)) {
            Some(name) => write!(self.out, "{name} ")?,
            None => write!(self.out, "bus{channel} ")?,
        }
        let width = if frame.extended { 8 } else { 3 };
        write!(self.out, "{:0width$X}#", frame.id)?;
        if let Some(len) = frame.remote {
            write!(self.out, "R{len}")?;
        }
        if frame.fd {
            write!(self.out, "#{}", u8::from(frame.brs))?;
        }
        frame.payload().iter().try_for_each(|byte| write!(self.out, "{byte:02X}"))?;
        writeln!(self.out, " {}", if traced.way == Way::Sent { 'T' } else { 'R' })
    }
}

/// pcapng with link type 227 (SocketCAN), nanosecond times, one interface per bus.
pub struct Pcapng<W> {
    out: W,
    block: Vec<u8>,
    epoch_ns: i64,
}

impl<W: Write> Pcapng<W> {
    /// Writes the headers to `out`; channels are the interfaces named, in order. `epoch_ns` is added to every
    /// time: the difference between wall clock and `CLOCK_MONOTONIC`, or 0.
    ///
    /// # Errors
    /// Those of the writer underneath.
    pub fn new(out: W, interfaces: &[String], epoch_ns: i64) -> io::Result<Self> {
        let mut writer = Self { out, block: Vec::with_capacity(160), epoch_ns };
        writer.start(0x0a0d_0d0a);
        writer.put(&0x1a2b_3c4d_u32.to_le_bytes());
        writer.put(&[1, 0, 0, 0]); // Version 1.0.
        writer.put(&u64::MAX.to_le_bytes()); // Section length not known.
        writer.finish()?;
        for name in interfaces {
            writer.start(1);
            writer.put(&[LINKTYPE_CAN_SOCKETCAN, 0, 0, 0]);
            writer.put(&0_u32.to_le_bytes()); // No limit on the length.
            writer.option(2, name.as_bytes());
            writer.option(9, &[9]); // Times in units of 10⁻⁹ s.
            writer.option(0, &[]);
            writer.finish()?;
        }
        Ok(writer)
    }

    /// The writer underneath.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn start(&mut self, kind: u32) {
        self.block.clear();
        self.put(&kind.to_le_bytes());
        self.put(&[0; 4]); // The length, filled in by `finish`.
    }

    fn put(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
    }

    fn align(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.put(&code.to_le_bytes());
        self.put(&(value.len() as u16).to_le_bytes());
        self.put(value);
        self.align();
    }

    fn finish(&mut self) -> io::Result<()> {
        let len = (self.block.len() as u32 + 4).to_le_bytes();
        self.block[4..8].copy_from_slice(&len);
        self.put(&len);
        self.out.write_all(&self.block)
    }
}

/// Link type of a CAN frame in the layout of the kernel, identifier big endian (tcpdump.org/linktypes).
const LINKTYPE_CAN_SOCKETCAN: u8 = 227;

impl<W: Write> Sink for Pcapng<W> {
    fn write(&mut self, traced: &Traced) -> io::Result<()> {
        let Received { channel, at_ns, frame } = &traced.item;
        let ns = at_ns.saturating_add(self.epoch_ns).max(0) as u64;
        let len = 8 + frame.payload().len() as u32;
        self.start(6);
        self.put(&u32::from(*channel).to_le_bytes());
        self.put(&((ns >> 32) as u32).to_le_bytes());
        self.put(&(ns as u32).to_le_bytes());
        self.put(&len.to_le_bytes());
        self.put(&len.to_le_bytes());
        let flags = u32::from(frame.extended) << 31 | u32::from(frame.remote.is_some()) << 30;
        self.put(&(frame.id | flags).to_be_bytes());
        let flags = u8::from(frame.fd) << 2 | u8::from(frame.brs);
        self.put(&[frame.remote.unwrap_or(frame.payload().len() as u8), flags, 0, 0]);
        self.put(frame.payload());
        self.align();
        let inbound_or_outbound = if traced.way == Way::Sent { 2_u32 } else { 1 };
        self.option(2, &inbound_or_outbound.to_le_bytes());
        self.option(0, &[]);
        self.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Loopback;
    use khz_wire::{Address, Frame};

    fn traced(way: Way, at_ns: i64, frame: Frame) -> Traced {
        Traced { way, item: Received { channel: 0, at_ns, frame } }
    }

    #[test]
    fn copies_both_ways_and_counts_what_does_not_fit() {
        let (mut link, mut tap) = Trace::new(Loopback::new(1), 3);
        let frame = Frame::new(0x8001, &[1]).unwrap();
        for now_ns in 0..2 {
            link.send(0, &Address::request(&frame), now_ns).unwrap();
            assert!(link.receive(now_ns).unwrap().is_some());
        }
        let ways: Vec<_> = std::iter::from_fn(|| tap.take()).map(|traced| traced.way).collect();
        assert_eq!(ways, [Way::Sent, Way::Received, Way::Sent]);
        assert_eq!(tap.lost(), 1);
        drop(link);
        assert!(tap.is_abandoned());
    }

    #[test]
    fn candump_lines() {
        let mut sink = Candump::new(Vec::new(), vec!["can0".into()], 1_000_000_000);
        let mut classic = Frame::new(0x123, &[0xab]).unwrap();
        (classic.fd, classic.brs) = (false, false);
        sink.write(&traced(Way::Sent, 500_000, Frame::new(0x8001, &[0x11, 0]).unwrap())).unwrap();
        sink.write(&traced(Way::Received, 1_500, classic)).unwrap();
        let mut other = traced(Way::Received, 0, Frame::new(0x100, &[]).unwrap());
        other.item.channel = 1;
        sink.write(&other).unwrap();
        let text = String::from_utf8(sink.into_inner()).unwrap();
        let lines = "(1.000500) can0 00008001##11100 T\n(1.000001) can0 123#AB R\n(1.000000) bus1 100##1 R\n";
        assert_eq!(text, lines);
    }

    #[test]
    fn pcapng_blocks_are_whole() {
        let mut sink = Pcapng::new(Vec::new(), &["can0".into()], 0).unwrap();
        sink.write(&traced(Way::Sent, 5_000_000_000, Frame::new(0x8001, &[1, 2, 3]).unwrap())).unwrap();
        let bytes = sink.into_inner();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let (mut at, mut kinds) = (0, Vec::new());
        while at < bytes.len() {
            let len = word(at + 4) as usize;
            assert_eq!(word(at + len - 4) as usize, len);
            kinds.push(word(at));
            at += len;
        }
        assert_eq!(kinds, [0x0a0d_0d0a, 1, 6]);
        let packet = [0x80, 0, 0x80, 1, 3, 5, 0, 0, 1, 2, 3, 0];
        assert!(bytes.windows(12).any(|window| window == packet));
    }
}
