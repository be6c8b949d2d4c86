//! Receives the operator's heartbeats: the robot goes on only while they keep arriving.
//!
//! What waits in a socket or pipe carries no time. It is no older than the last look that left nothing there; if that was
//! longer ago than the operator may be silent (the process was frozen, its thread kept from the CPU), it proves nothing and
//! is thrown away. So is what waited before the first look.

use crate::supervisor::settings::SupervisorSettings;
use crate::waited::wait;
use khz_rt::now_ns;
use rustix::fs::{FileType, OFlags};
use rustix::termios::isatty;
use std::fs::OpenOptions;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long the thread waits at most before it looks whether it is still wanted, ns.
const PATIENCE_NS: i64 = 100_000_000;
/// Reads per poll: more than a pipe of 1 MiB holds. A faster sender is received all the same.
const READS: usize = 1024;
/// How long it leaves a pipe alone that is not open for writing.
const ALONE: Duration = Duration::from_millis(10);

/// When the last heartbeat arrived. Clones share it.
#[derive(Clone, Debug)]
pub struct Heartbeat(Arc<AtomicI64>);

impl Heartbeat {
    /// No heartbeat has arrived yet.
    pub fn new() -> Self {
        Self(Arc::new(AtomicI64::new(i64::MIN)))
    }

    /// A heartbeat arrived. One store; never waits.
    pub fn beat(&self, now_ns: i64) {
        self.0.store(now_ns, Ordering::Relaxed);
    }

    /// Age of the last heartbeat, ns; `i64::MAX`: there was none.
    pub fn age_ns(&self, now_ns: i64) -> i64 {
        match self.0.load(Ordering::Relaxed) {
            i64::MIN => i64::MAX,
            // A heartbeat that arrived after this tick read the clock counts as arrived now.
            received_ns => (now_ns - received_ns).max(0),
        }
    }
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self::new()
    }
}

/// Why heartbeats cannot be received.
#[derive(Debug, thiserror::Error)]
#[error("{key} = \"{from}\": {error}")]
pub struct OperatorError {
    key: &'static str,
    from: String,
    error: io::Error,
}

impl OperatorError {
    pub(crate) fn of(key: &'static str, from: &str, error: io::Error) -> Self {
        Self { key, from: from.to_owned(), error }
    }
}

/// Inputs of a person who steers are the heartbeats: see [`crate::steer`].
pub const TELEOP: &str = "teleop";

const KEY: &str = "[supervisor] heartbeat_from";

/// Whether heartbeats can be received at the source given in the robot file, as far as it exists by now; does not start to receive.
///
/// # Errors
/// If it is a file, a folder or a device that is no terminal, or if it cannot be opened.
pub fn check(config: &SupervisorSettings) -> Result<(), OperatorError> {
    let path = config
        .heartbeat_from
        .as_ref()
        .filter(|from| !["stdin", TELEOP].contains(&from.as_str()) && !from.starts_with("udp:"));
    let Some((from, found)) = path.and_then(|from| Some((from, std::fs::metadata(from).ok()?))) else {
        return Ok(());
    };
    if found.file_type().is_fifo() {
        // A reader or writer that waits at its other end would continue.
        return Ok(());
    }
    open(from).map(drop).map_err(|error| OperatorError::of(KEY, from, error))
}

/// Listens on its own thread until dropped.
pub struct Listener {
    heartbeat: Heartbeat,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Listens at the source given in the robot file; `None` if no operator is expected, or if steering input counts as the heartbeat.
    ///
    /// # Errors
    /// If the socket or pipe cannot be opened, or if it is a file, a folder or a device that is no terminal.
    pub fn start(settings: &SupervisorSettings) -> Result<Option<Self>, OperatorError> {
        let given = settings.heartbeat_from.as_ref().filter(|from| *from != TELEOP);
        let Some((from, heartbeat_ms)) = given.zip(settings.heartbeat_ms) else {
            return Ok(None);
        };
        let start = || {
            let ear = Ear::open(from, (heartbeat_ms * 1e6) as i64)?;
            let (heartbeat, over) = (Heartbeat::new(), Arc::new(AtomicBool::new(false)));
            let (received, ended) = (heartbeat.clone(), Arc::clone(&over));
            let work = move || ear.listen(&received, &ended);
            let thread = thread::Builder::new().name("khz-operator".to_owned()).spawn(work)?;
            Ok(Some(Self { heartbeat, over, thread: Some(thread) }))
        };
        start().map_err(|error| OperatorError::of(KEY, from, error))
    }

    /// What it receives.
    pub fn heartbeat(&self) -> Heartbeat {
        self.heartbeat.clone()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // It does not panic.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Where heartbeats are received.
struct Ear {
    source: OwnedFd,
    /// Nothing is a message too.
    datagrams: bool,
    /// How long the operator may be silent.
    silence_ns: i64,
    /// When nothing waited here.
    empty_ns: Option<i64>,
}

impl Ear {
    fn open(from: &str, silence_ns: i64) -> io::Result<Self> {
        let (source, datagrams) = match from.strip_prefix("udp:") {
            Some(address) => (UdpSocket::bind(address)?.into(), true),
            None => (open(from)?, false),
        };
        Ok(Self { source, datagrams, silence_ns, empty_ns: None })
    }

    fn listen(mut self, heartbeat: &Heartbeat, over: &AtomicBool) {
        let patience_ns = PATIENCE_NS.min(self.silence_ns / 2);
        while !over.load(Ordering::Relaxed) {
            let waiting = wait(&self.source, patience_ns);
            let now_ns = now_ns();
            match self.look(now_ns) {
                true => heartbeat.beat(now_ns),
                // The last writer has closed the pipe; another may open it.
                false if waiting => thread::sleep(ALONE),
                false => {}
            }
        }
    }

    /// Takes all that waits; whether any of it is recent.
    fn look(&mut self, now_ns: i64) -> bool {
        // Standard input is not ours to be made non-blocking, so ask before each read.
        let received = (0..READS).take_while(|_| wait(&self.source, 0) && self.take()).count() > 0;
        let empty_ns = self.empty_ns.replace(now_ns);
        received && empty_ns.is_some_and(|empty_ns| now_ns - empty_ns <= self.silence_ns)
    }

    fn take(&self) -> bool {
        match rustix::io::read(&self.source, &mut [0; 4096]) {
            Ok(count) => count > 0 || self.datagrams,
            Err(_) => false,
        }
    }
}

/// Standard input or a pipe that has a writer, now or until recently.
fn open(from: &str) -> io::Result<OwnedFd> {
    let source = if from == "stdin" {
        io::stdin().as_fd().try_clone_to_owned()?
    } else {
        // Without O_NONBLOCK opening would wait for a writer.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(from)?.into()
    };
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&source)?.st_mode);
    let what = match kind {
        FileType::Fifo | FileType::Socket => return Ok(source),
        FileType::CharacterDevice if isatty(&source) => return Ok(source),
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        _ => "a device that is no terminal",
    };
    let text = format!(
        "heartbeats cannot be received from {what}: name a pipe (`mkfifo`), a terminal or `udp:ADDRESS:PORT`"
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    fn ear(source: impl Into<OwnedFd>, datagrams: bool) -> Ear {
        Ear { source: source.into(), datagrams, silence_ns: 100, empty_ns: None }
    }

    #[test]
    fn what_waited_during_a_freeze_proves_nothing() {
        let (mut operator, source) = UnixStream::pair().unwrap();
        let mut ear = ear(source, false);
        operator.write_all(b"before the robot").unwrap();
        assert!(!ear.look(0));
        operator.write_all(b"here\n").unwrap();
        assert!(ear.look(100));
        assert!(!ear.look(150), "heard once");
        // More than one read takes.
        operator.write_all(&[b'\n'; 20_000]).unwrap();
        assert!(!ear.look(251));
        assert!(!ear.look(252), "thrown away, all of it");
        operator.write_all(b"here\n").unwrap();
        assert!(ear.look(253));
    }

    #[test]
    fn an_empty_datagram_is_received_and_the_end_of_a_pipe_is_not() {
        let (operator, source) = UnixDatagram::pair().unwrap();
        let mut datagrams = ear(source, true);
        datagrams.look(0);
        operator.send(b"").unwrap();
        assert!(datagrams.look(1));
        let (operator, source) = UnixStream::pair().unwrap();
        let mut pipe = ear(source, false);
        pipe.look(0);
        drop(operator);
        assert!(!pipe.look(1));
    }

    #[test]
    fn a_heartbeat_from_what_is_no_operator_is_refused() {
        let file = std::env::current_exe().unwrap().display().to_string();
        for (from, what) in
            [("/dev/zero", "device"), ("/dev/null", "device"), ("/", "a folder"), (file.as_str(), "a file")]
        {
            let config = SupervisorSettings {
                heartbeat_ms: Some(100.0),
                heartbeat_from: Some(from.to_owned()),
                ..SupervisorSettings::default()
            };
            let refused = [check(&config).err(), Listener::start(&config).err()];
            for error in refused.map(|error| error.unwrap().to_string()) {
                assert!(error.contains(what) && error.contains("mkfifo"), "{from}: {error}");
            }
        }
    }

    #[test]
    fn a_heartbeat_from_a_pipe_that_is_made_later_passes_the_check() {
        let from = "/nowhere/heartbeat".to_owned();
        let config = SupervisorSettings { heartbeat_from: Some(from), ..SupervisorSettings::default() };
        assert!(check(&config).is_ok());
    }
}
