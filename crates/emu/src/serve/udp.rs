//! One bus behind a UDP port ([`khz_wire::udp`]).

use super::Port;
use khz_link::ImuSample;
use khz_wire::address::BROADCAST;
use khz_wire::udp::{Datagram, Header, Kind, MAX_DATAGRAM, Sensors, Writer};
use khz_wire::{Address, Frame};
use rustix::event::PollFlags;
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

/// Frames taken ahead of the bus; more datagrams wait in the kernel.
const AHEAD: usize = 256;

/// The devices' end of a UDP port.
pub(super) struct UdpPort {
    socket: UdpSocket,
    address: SocketAddr,
    frames: VecDeque<Frame>,
    /// Who asked each device last, and how.
    asked: [Option<Asked>; 128],
    /// The IMU's newest reading, as an entry.
    reading: Option<Frame>,
}

/// A request that a device may answer.
#[derive(Clone, Copy)]
struct Asked {
    by: SocketAddr,
    sequence: u32,
    channel: u8,
}

impl UdpPort {
    /// Listens on `address`; port 0 takes any.
    pub(super) fn open(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok(Self {
            socket,
            address,
            frames: VecDeque::with_capacity(AHEAD),
            asked: [None; 128],
            reading: None,
        })
    }

    fn take(&mut self, datagram: &Datagram<'_>, by: SocketAddr) {
        for (channel, frame) in datagram.frames() {
            let asked = Some(Asked { by, sequence: datagram.header.sequence, channel });
            match Address::from_id(frame.id).destination {
                BROADCAST => self.asked.fill(asked),
                id => self.asked[usize::from(id & 0x7f)] = asked,
            }
            self.frames.push_back(frame);
        }
    }
}

impl Port for UdpPort {
    fn path(&self) -> PathBuf {
        self.address.to_string().into()
    }

    fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let events = if self.frames.len() < AHEAD { PollFlags::IN } else { PollFlags::empty() };
        Some((self.socket.as_fd(), events))
    }

    fn fill(&mut self) {
        let mut bytes = [0; MAX_DATAGRAM];
        while self.frames.len() < AHEAD {
            let Ok((len, by)) = self.socket.recv_from(&mut bytes) else { return };
            match Datagram::parse(&bytes[..len]) {
                Ok(datagram) if datagram.header.kind != Kind::Reply => self.take(&datagram, by),
                // Not ours, or another server's answer to a broadcast.
                _ => {}
            }
        }
    }

    fn next_frame(&mut self) -> Option<Frame> {
        self.frames.pop_front()
    }

    fn hand_back(&mut self, frame: Frame) {
        self.frames.push_front(frame);
    }

    fn sense(&mut self, reading: &ImuSample) {
        let sensors = Sensors {
            attitude: reading.attitude.map(|value| value as f32),
            rate: reading.rate.map(|value| value as f32),
            acceleration: reading.acceleration.map(|value| value as f32),
        };
        self.reading = sensors.to_frame();
    }

    fn report(&mut self, frame: &Frame) {
        let source = Address::from_id(frame.id).source;
        let Some(asked) = self.asked[usize::from(source)] else { return };
        let mut bytes = [0; MAX_DATAGRAM];
        let header = Header { kind: Kind::Reply, sequence: asked.sequence };
        let Ok(mut writer) = Writer::new(header, &mut bytes) else { return };
        if writer.push(asked.channel, frame).is_ok() {
            if let Some(reading) = &self.reading {
                // There is room: a datagram holds twenty entries.
                let _ = writer.push(asked.channel, reading);
            }
            // A datagram the kernel does not take is lost, as datagrams may be.
            let _ = self.socket.send_to(writer.written(), asked.by);
        }
    }

    fn flush(&mut self) {}
}
