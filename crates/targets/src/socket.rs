//! `[targets] from`: messages of other programs, by a Unix socket or UDP, one JSON object each ([`crate::wire`]).
//!
//! A Unix socket is `SOCK_SEQPACKET`, so that a program that ends is noticed, and only of this user. UDP is answered to where a message came from.

use crate::inbox::Inbox;
use crate::wire::{MOST_BYTES, Peer};
use khz_loop::waited::{PATIENCE_NS, Waited};
use khz_rt::now_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recv, send, socket_with,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

/// Messages of one sender per look.
const READS: usize = 64;
/// Programs at once, or addresses that are remembered.
const MOST_PEERS: usize = 32;

/// Why messages cannot be received.
#[derive(Debug, thiserror::Error)]
#[error("[targets] from = \"{from}\": {error}")]
pub struct SocketError {
    from: String,
    error: io::Error,
}

/// Receives messages on its own thread until dropped.
pub struct Receiver {
    over: Arc<AtomicBool>,
    /// What brought the robot down, for those who are connected.
    end: Arc<OnceLock<String>>,
    thread: Option<JoinHandle<()>>,
    /// The socket's file, which goes with it: where, and its device and number.
    file: Option<(PathBuf, [u64; 2])>,
}

impl Receiver {
    /// Listens at the address in the robot file: `unix:PATH` or `udp:ADDRESS:PORT`.
    ///
    /// # Errors
    /// If it cannot be listened to.
    pub fn start(from: &str, inbox: Inbox) -> Result<Self, SocketError> {
        let failed = |error| SocketError { from: from.to_owned(), error };
        Self::listen(from, inbox).map_err(failed)
    }

    fn listen(from: &str, inbox: Inbox) -> io::Result<Self> {
        let (over, end) = (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::new()));
        let (ended, why) = (Arc::clone(&over), Arc::clone(&end));
        let (work, file): (Box<dyn FnOnce() + Send>, _) = if let Some(path) = from.strip_prefix("unix:") {
            let (listener, file) = listen_at(Path::new(path))?;
            let mut ear = UnixEar { listener, programs: Vec::new(), inbox, waited: Waited::new() };
            (Box::new(move || ear.listen(&ended, &why)), Some((PathBuf::from(path), file)))
        } else {
            let no_address =
                || io::Error::new(io::ErrorKind::InvalidInput, "write `unix:PATH` or `udp:ADDRESS:PORT`");
            let socket = UdpSocket::bind(from.strip_prefix("udp:").ok_or_else(no_address)?)?;
            socket.set_nonblocking(true)?;
            // What comes from now on did not wait before the robot was there.
            while socket.recv_from(&mut [0]).is_ok() {}
            let mut ear = UdpEar { socket, peers: BTreeMap::new(), inbox, waited: Waited::new() };
            (Box::new(move || ear.listen(&ended)), None)
        };
        let thread = thread::Builder::new().name("khz-targets".to_owned()).spawn(work)?;
        Ok(Self { over, end, thread: Some(thread), file })
    }

    /// Reports to the clients of a Unix socket what brought the robot down, and ends.
    pub fn finish(self, why: &str) {
        // Set here alone.
        let _ = self.end.set(why.to_owned());
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // It does not panic.
        self.thread.take().map(JoinHandle::join);
        // Another robot may have its own there by now.
        let is_ours = |(path, file): &(PathBuf, [u64; 2])| numbers(path).is_ok_and(|found| found == *file);
        self.file.take().filter(is_ours).map(|(path, _)| fs::remove_file(path));
    }
}

/// A socket that only this user reaches. One without a listener is replaced.
fn listen_at(path: &Path) -> io::Result<(OwnedFd, [u64; 2])> {
    let socket = || {
        socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
    };
    let address = SocketAddrUnix::new(path)?;
    let in_use = |text| io::Error::new(io::ErrorKind::AddrInUse, text);
    if let Ok(found) = fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(in_use("something else is there, and no socket: remove it, or write another path"));
        }
        match connect(socket()?, &address) {
            Err(rustix::io::Errno::CONNREFUSED) => fs::remove_file(path)?,
            _ => return Err(in_use("another robot listens there")),
        }
    }
    let listener = socket()?;
    // Under another name until it listens, so that a program that sees the socket can connect.
    let hidden = path.with_file_name(format!(".{:x}.{:x}", std::process::id(), listener.as_raw_fd()));
    bind(&listener, &SocketAddrUnix::new(&hidden)?)?;
    let named = fs::set_permissions(&hidden, Permissions::from_mode(0o600))
        .and_then(|()| Ok(listen(&listener, 8)?))
        .and_then(|()| fs::hard_link(&hidden, path));
    fs::remove_file(&hidden)?;
    named.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => in_use("another robot listens there"),
        _ => error,
    })?;
    Ok((listener, numbers(path)?))
}

/// The device and the number of a file, which no other one has.
fn numbers(path: &Path) -> io::Result<[u64; 2]> {
    let found = fs::symlink_metadata(path)?;
    Ok([found.dev(), found.ino()])
}

struct UnixEar {
    listener: OwnedFd,
    programs: Vec<(OwnedFd, Peer)>,
    inbox: Inbox,
    waited: Waited,
}

impl UnixEar {
    fn listen(&mut self, over: &AtomicBool, end: &OnceLock<String>) {
        // One more, by which it is seen that a message is too long.
        let mut bytes = vec![0; MOST_BYTES + 1];
        self.waited.found_nothing(now_ns());
        while !over.load(Ordering::Acquire) {
            self.wait();
            let looked_ns = now_ns();
            self.accept();
            let (inbox, waited) = (&self.inbox, &self.waited);
            self.programs.retain_mut(|(socket, peer)| receive(socket, peer, inbox, waited, &mut bytes));
            self.waited.found_nothing(looked_ns);
        }
        if let Some(why) = end.get() {
            let text = json!({ "down": why }).to_string();
            self.programs.iter().for_each(|(socket, _)| _ = answer_with(socket, &text));
        }
    }

    fn wait(&self) {
        let patience = Timespec { tv_sec: 0, tv_nsec: PATIENCE_NS };
        let sources = std::iter::once(self.listener.as_fd())
            .chain(self.programs.iter().map(|(socket, _)| socket.as_fd()));
        let mut sources: Vec<PollFd<'_>> =
            sources.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN)).collect();
        // Interrupted or not, it looks.
        let _ = poll(&mut sources, Some(&patience));
    }

    fn accept(&mut self) {
        while let Ok(socket) = accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            // One too many is hung up on.
            if self.programs.len() < MOST_PEERS {
                self.programs.push((socket, Peer::connected(&self.inbox)));
            }
        }
    }
}

/// Takes what waits there; whether the program is still there.
fn receive(socket: &OwnedFd, peer: &mut Peer, inbox: &Inbox, waited: &Waited, bytes: &mut [u8]) -> bool {
    for _ in 0..READS {
        match recv(socket, &mut *bytes, RecvFlags::DONTWAIT) {
            Ok((1.., len)) if len > 0 => {
                let now_ns = now_ns();
                let answer = answer(peer, inbox, &bytes[..len.min(bytes.len())], waited, now_ns);
                // A client may ignore it.
                let _ = answer_with(socket, &answer);
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return true,
            Ok(_) | Err(_) => {
                peer.end(inbox);
                return false;
            }
        }
    }
    true
}

fn answer_with(socket: &OwnedFd, text: &str) -> rustix::io::Result<usize> {
    send(socket, text.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
}

fn answer(peer: &mut Peer, inbox: &Inbox, bytes: &[u8], waited: &Waited, now_ns: i64) -> String {
    let arrived_ns = now_ns.saturating_sub(waited.at_most_ns(now_ns));
    let mut answer = peer.answer(inbox, bytes, arrived_ns);
    answer["now"] = json!(khz_rt::now_ns() / 1000);
    answer.to_string()
}

struct UdpEar {
    socket: UdpSocket,
    peers: BTreeMap<SocketAddr, Peer>,
    inbox: Inbox,
    waited: Waited,
}

impl UdpEar {
    fn listen(&mut self, over: &AtomicBool) {
        let mut bytes = vec![0; MOST_BYTES];
        self.waited.found_nothing(now_ns());
        while !over.load(Ordering::Relaxed) {
            khz_loop::waited::wait(&self.socket, PATIENCE_NS);
            self.look(&mut bytes);
        }
    }

    fn look(&mut self, bytes: &mut [u8]) {
        for _ in 0..MOST_PEERS * READS {
            let looked_ns = now_ns();
            let Ok((len, from)) = self.socket.recv_from(bytes) else {
                return self.waited.found_nothing(looked_ns);
            };
            if self.peers.len() >= MOST_PEERS && !self.peers.contains_key(&from) {
                // Their clocks are learned again.
                self.peers.clear();
            }
            let peer = self.peers.entry(from).or_insert_with(Peer::elsewhere);
            let answer = answer(peer, &self.inbox, &bytes[..len], &self.waited, now_ns());
            let _ = self.socket.send_to(answer.as_bytes(), from);
        }
    }
}
