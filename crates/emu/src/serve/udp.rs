//! One bus behind a UDP port ([`khz_wire::udp`]).

use super::Port;
use khz_link::ImuSample;
use khz_wire::address::BROADCAST;
use khz_wire::udp::{Datagram, DatagramKind, Header, MAX_DATAGRAM, Sensors, Writer};
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
    /// What was asked and is not on the bus yet; each with the number of its request.
    frames: VecDeque<(u32, Frame)>,
    /// Frames dropped because a newer request to the same device came.
    outdated: u64,
    /// The request of the frame that was taken last.
    last: u32,
    /// Who asked each device last, and how.
    asked: [Option<Asked>; 128],
    /// What goes out with the next [`Port::flush`], and to whom.
    answers: Vec<(Asked, Frame)>,
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
            outdated: 0,
            last: 0,
            asked: [None; 128],
            answers: Vec::with_capacity(AHEAD),
            reading: None,
        })
    }

    fn take(&mut self, datagram: &Datagram<'_>, by: SocketAddr) {
        for (channel, frame) in datagram.frames() {
            self.outdate(datagram.header.sequence, &frame);
            let asked = Some(Asked { by, sequence: datagram.header.sequence, channel });
            match Address::from_id(frame.id).destination {
                BROADCAST => self.asked.fill(asked),
                id => self.asked[usize::from(id & 0x7f)] = asked,
            }
            self.frames.push_back((datagram.header.sequence, frame));
        }
    }

    /// A command lives for one cycle of the host: of several requests to one device only the newest counts.
    fn outdate(&mut self, sequence: u32, newest: &Frame) {
        let before = self.frames.len();
        let to = |frame: &Frame| Address::from_id(frame.id).destination;
        self.frames.retain(|(number, frame)| *number == sequence || to(frame) != to(newest));
        self.outdated += (before - self.frames.len()) as u64;
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
                Ok(datagram) if datagram.header.kind != DatagramKind::Reply => self.take(&datagram, by),
                // Not ours, or another server's answer to a broadcast.
                _ => {}
            }
        }
    }

    fn next_frame(&mut self) -> Option<Frame> {
        self.frames.pop_front().map(|(sequence, frame)| {
            self.last = sequence;
            frame
        })
    }

    fn hand_back(&mut self, frame: Frame) {
        self.frames.push_front((self.last, frame));
    }

    fn outdated(&self) -> u64 {
        self.outdated
    }

    fn sense(&mut self, reading: Option<&ImuSample>) {
        let sensors = reading.map(|reading| Sensors {
            attitude: reading.attitude.map(|value| value as f32),
            rate: reading.rate.map(|value| value as f32),
            acceleration: reading.acceleration.map(|value| value as f32),
        });
        self.reading = sensors.and_then(|sensors| sensors.to_frame());
    }

    fn report(&mut self, frame: &Frame) {
        let source = Address::from_id(frame.id).source;
        let asked = self.asked[usize::from(source)];
        self.answers.extend(asked.map(|asked| (asked, *frame)));
    }

    fn flush(&mut self) {
        let mut rest = &self.answers[..];
        while let Some(&(first, _)) = rest.first() {
            let mut bytes = [0; MAX_DATAGRAM];
            let header = Header { kind: DatagramKind::Reply, sequence: first.sequence };
            let Ok(mut writer) = Writer::new(header, &mut bytes) else { break };
            // One datagram for all who answer the same request at once; a single entry always fits.
            while let Some(((asked, frame), others)) = rest.split_first()
                && (asked.by, asked.sequence) == (first.by, first.sequence)
                && writer.push(asked.channel, frame).is_ok()
            {
                rest = others;
            }
            if let Some(reading) = &self.reading {
                // A datagram without room for it goes without.
                let _ = writer.push(first.channel, reading);
            }
            // A datagram the kernel does not take is lost, as datagrams may be.
            let _ = self.socket.send_to(writer.written(), first.by);
        }
        self.answers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::{Endpoint, Server};
    use crate::{BusConfig, ImuConfig, ServoConfig, World, WorldConfig};
    use khz_wire::udp::SENSORS;
    use std::time::Duration;

    /// A board with an IMU and three servos, 1 to 3, and a host of it.
    fn board() -> (Server, UdpSocket) {
        let servos = (1..=3).map(|id| ServoConfig::new(0, id)).collect();
        let (buses, imu) =
            (vec![BusConfig::INSTANT], Some(ImuConfig { latency_ns: 0, ..ImuConfig::default() }));
        let world = World::new(&WorldConfig { buses, servos, imu, ..WorldConfig::default() }).unwrap();
        let board = Server::at(world, &[Endpoint::Udp(([127, 0, 0, 1], 0).into())]).unwrap();
        let address = board.endpoints().next().unwrap().to_str().unwrap().to_owned();
        let host = UdpSocket::bind("127.0.0.1:0").unwrap();
        host.connect(&address).unwrap();
        host.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        (board, host)
    }

    /// Asks the servos 1 to `last` in one datagram of this number; who answers, `None` being the IMU.
    fn ask(board: &mut Server, host: &UdpSocket, sequence: u32, last: u8) -> Vec<Option<u8>> {
        let mut bytes = [0; MAX_DATAGRAM];
        let mut writer =
            Writer::new(Header { kind: DatagramKind::RequestToAll, sequence }, &mut bytes).unwrap();
        for id in 1..=last {
            writer.push(0, &Frame::new(Address::to(id, true).id(), &[0x11, 0]).unwrap()).unwrap();
        }
        host.send(writer.written()).unwrap();
        board.serve_once(1_000_000 * i64::from(sequence));
        let len = host.recv(&mut bytes).unwrap();
        let answer = Datagram::parse(&bytes[..len]).unwrap();
        assert_eq!((answer.header.kind, answer.header.sequence), (DatagramKind::Reply, sequence));
        let who = |frame: Frame| (frame.id != SENSORS).then(|| Address::from_id(frame.id).source);
        answer.frames().map(|(_, frame)| who(frame)).collect()
    }

    #[test]
    fn a_board_answers_for_all_its_servos_in_one_datagram() {
        let (mut board, host) = board();
        // One more than the board has, as a broadcast does.
        assert_eq!(ask(&mut board, &host, 7, 4), [Some(1), Some(2), Some(3), None]);
        host.set_nonblocking(true).unwrap();
        assert!(host.recv(&mut [0; MAX_DATAGRAM]).is_err(), "a second datagram");
    }

    #[test]
    fn of_several_requests_that_wait_each_servo_takes_the_newest() {
        let (mut board, host) = board();
        let mut bytes = [0; MAX_DATAGRAM];
        for (sequence, id) in [(1, 1), (1, 2), (2, 1), (3, 1), (3, 1)] {
            let mut writer =
                Writer::new(Header { kind: DatagramKind::Request, sequence }, &mut bytes).unwrap();
            writer.push(0, &Frame::new(Address::to(id, true).id(), &[0x11, 0]).unwrap()).unwrap();
            host.send(writer.written()).unwrap();
        }
        board.serve_once(1_000_000);
        assert_eq!((board.passed().taken, board.passed().outdated), (3, 2));
    }

    #[test]
    fn a_board_that_lost_its_imu_sends_no_old_reading() {
        let (mut board, host) = board();
        assert_eq!(ask(&mut board, &host, 1, 1), [Some(1), None]);
        board.world().lose_imu(true);
        assert_eq!(ask(&mut board, &host, 2, 1), [Some(1)]);
        board.world().lose_imu(false);
        assert_eq!(ask(&mut board, &host, 3, 1), [Some(1), None]);
    }
}
