//! Where the samples come from.

use crate::control::Robot;
use crate::hub::{Hub, is_answer};
use crate::senders::{Ignored, Senders};
use crate::store::Log;
use khz_tlog::Item;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// The largest datagram.
const MAX: usize = 65_536;
/// How many datagrams may wait to be taken in.
const WAITING: usize = 256;
/// A sender this silent makes room for another.
const SILENCE: Duration = Duration::from_secs(2);
/// Of how many senders it is reported that they are ignored.
const MAX_REPORTS: usize = 16;
/// How many samples of a log are read before it is the clients' turn.
const AT_ONCE: usize = 5000;
/// How often a log that is not finished is looked at.
const GROWING: Duration = Duration::from_millis(100);

/// Takes in what comes from the robot by a socket pair of datagrams, and sends it the clients' requests, until the robot
/// closes it.
///
/// # Errors
/// When the socket cannot be read.
pub fn socket(socket: OwnedFd, hub: &Hub) -> io::Result<()> {
    hub.connect(Robot::new(socket.try_clone()?));
    let receive = |buffer: &mut [u8]| match recv(&socket, buffer, RecvFlags::empty()) {
        Ok((_, len)) => Ok((len > 0).then_some(len)),
        Err(Errno::CONNRESET) => Ok(None),
        Err(error) => Err(error.into()),
    };
    let result = pass_on(receive, hub);
    hub.end();
    result
}

/// Takes in what a robot sends to a UDP port (`log.stream` of its robot file), for ever; of the address `only` alone, if it is
/// named. One sender at a time: another is accepted when the first has ended its run, or was silent for two seconds. `report` is
/// called once for each of the senders that are ignored, with the reason.
///
/// # Errors
/// When the socket cannot be read.
pub fn udp(
    socket: &UdpSocket,
    only: Option<IpAddr>,
    hub: &Hub,
    mut report: impl FnMut(SocketAddr, Ignored) + Send,
) -> io::Result<()> {
    let (mut senders, mut reported) = (Senders::new(only, SILENCE), BTreeSet::new());
    let receive = |buffer: &mut [u8]| {
        loop {
            let (len, from) = socket.recv_from(buffer)?;
            match senders.admit(from, &buffer[..len], Instant::now()) {
                Ok(()) => return Ok(Some(len)),
                Err(why) if reported.len() < MAX_REPORTS && reported.insert((from.ip(), why)) => {
                    report(from, why)
                }
                Err(_) => {}
            }
        }
    };
    pass_on(receive, hub)
}

/// Receives on one thread and takes in on another: while a client searches the store, what comes waits here and not in the
/// socket, which has room for a fraction of a second.
fn pass_on(
    mut receive: impl FnMut(&mut [u8]) -> io::Result<Option<usize>> + Send,
    hub: &Hub,
) -> io::Result<()> {
    let (sender, receiver) = sync_channel::<Vec<u8>>(WAITING);
    std::thread::scope(|scope| {
        let receiving = move || {
            let mut buffer = vec![0; MAX];
            loop {
                match receive(&mut buffer) {
                    // A client that asked does not wait until this process has caught up with the samples.
                    Ok(Some(len)) if is_answer(&buffer[..len.min(MAX)]) => {
                        hub.datagram(&buffer[..len.min(MAX)])
                    }
                    // What does not fit is lost, and counted by its number: answers come behind samples, and one of them
                    // may be that of Stop.
                    Ok(Some(len)) => {
                        if let Err(TrySendError::Disconnected(_)) =
                            sender.try_send(buffer[..len.min(MAX)].to_vec())
                        {
                            return Ok(());
                        }
                    }
                    Ok(None) => return Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        };
        let thread =
            std::thread::Builder::new().name("khz-view-feed".into()).spawn_scoped(scope, receiving)?;
        receiver.iter().for_each(|datagram| hub.datagram(&datagram));
        thread.join().unwrap_or(Ok(()))
    })
}

/// Takes in a log, as far as it can be read; one that is still being written for ever.
///
/// # Errors
/// When the file cannot be read.
pub fn log(log: Log, hub: &Hub) -> Result<(), khz_tlog::Error> {
    hub.show_log(log);
    loop {
        let each = &mut |item: &Item<'_>| hub.item(item.record, item.time_us.unwrap_or(0), item.payload);
        let reads_on = hub.store().read(AT_ONCE, each)?;
        match (reads_on, hub.store().is_finished()) {
            (true, _) => {}
            (false, true) => break,
            (false, false) => std::thread::sleep(GROWING),
        }
    }
    hub.end();
    Ok(())
}
