//! Where the samples come from.

use crate::control::Robot;
use crate::hub::Hub;
use khz_tlog::Reader;
use rustix::net::{RecvFlags, recv};
use std::fs::File;
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

/// Takes in a finished log, as far as it can be read.
///
/// # Errors
/// When it is no log.
pub fn log(file: File, hub: &Hub) -> Result<(), khz_tlog::Error> {
    let mut reader = Reader::open(file)?;
    loop {
        match reader.next() {
            Ok(Some(item)) => {
                hub.item(item.record, item.time_us.unwrap_or(0), item.payload);
            }
            Ok(None) => break,
            Err(error) => _ = reader.step_over(error)?,
        }
    }
    hub.end();
    Ok(())
}
