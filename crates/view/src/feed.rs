//! Where the samples come from.

use crate::control::Robot;
use crate::hub::Hub;
use rustix::net::{RecvFlags, recv};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The largest datagram.
const MAX: usize = 65_536;
/// A sender this silent makes room for another.
const SILENCE: Duration = Duration::from_secs(2);

/// Takes in what comes from the robot by a socket pair of datagrams, and sends it the clients' requests, until the robot
/// closes it.
///
/// # Errors
/// When the socket cannot be read.
pub fn socket(socket: OwnedFd, hub: &Hub) -> io::Result<()> {
    hub.connect(Robot::new(socket.try_clone()?));
    let mut buffer = vec![0; MAX];
    let result = loop {
        match recv(&socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((_, 0)) => break Ok(()),
            Ok((_, len)) => hub.datagram(&buffer[..len.min(MAX)]),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CONNRESET) => break Ok(()),
            Err(error) => break Err(error.into()),
        }
    };
    hub.end();
    result
}

/// Takes in what a robot sends to a UDP port (`log.stream` of its robot file), for ever. One sender at a time: another
/// is heard when the first has been silent for two seconds.
///
/// # Errors
/// When the socket cannot be read.
pub fn udp(socket: &UdpSocket, hub: &Hub) -> io::Result<()> {
    let mut buffer = vec![0; MAX];
    let mut present: Option<(SocketAddr, Instant)> = None;
    loop {
        let (len, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            // What a datagram of ours to nobody would have left behind; there is none.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if present.is_none_or(|(known, heard)| known == from || heard.elapsed() > SILENCE) {
            present = Some((from, Instant::now()));
            hub.datagram(&buffer[..len]);
        }
    }
}
