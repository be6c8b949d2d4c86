//! Listens for the operator: somebody who must be heard again and again for the robot to go on.

use crate::config::SupervisorConfig;
use khz_rt::now_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::OpenOptions;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long the thread waits at most before it looks whether it is still wanted.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How long it leaves a pipe alone that nobody has open for writing.
const ALONE: Duration = Duration::from_millis(10);

/// When the operator was last heard. Clones are the same.
#[derive(Clone, Debug)]
pub struct Heartbeat(Arc<AtomicI64>);

impl Heartbeat {
    /// Nobody has been heard yet.
    pub fn new() -> Self {
        Self(Arc::new(AtomicI64::new(i64::MIN)))
    }

    /// The operator is heard. One store; never waits.
    pub fn beat(&self, now_ns: i64) {
        self.0.store(now_ns, Ordering::Relaxed);
    }

    /// How long ago the operator was heard, ns; `i64::MAX`: never.
    pub fn age_ns(&self, now_ns: i64) -> i64 {
        match self.0.load(Ordering::Relaxed) {
            i64::MIN => i64::MAX,
            // Heard after this tick looked at the clock is heard now.
            heard_ns => (now_ns - heard_ns).max(0),
        }
    }
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self::new()
    }
}

/// Why the operator cannot be heard.
#[derive(Debug, thiserror::Error)]
#[error("[supervisor] heartbeat_from = \"{from}\": {error}")]
pub struct OperatorError {
    from: String,
    error: io::Error,
}

/// Listens on a thread of its own until dropped.
pub struct Listener {
    heartbeat: Heartbeat,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Listens where the robot file says; `None` if no operator is expected.
    ///
    /// # Errors
    /// If the socket or pipe cannot be opened.
    pub fn start(config: &SupervisorConfig) -> Result<Option<Self>, OperatorError> {
        let Some(from) = config.heartbeat_from.as_ref().filter(|_| config.heartbeat_ms.is_some()) else {
            return Ok(None);
        };
        let start = || {
            let source = open(from)?;
            let (heartbeat, over) = (Heartbeat::new(), Arc::new(AtomicBool::new(false)));
            let (heard, ended) = (heartbeat.clone(), Arc::clone(&over));
            let work = move || listen(&source, &heard, &ended);
            let thread = thread::Builder::new().name("khz-operator".to_owned()).spawn(work)?;
            Ok(Some(Self { heartbeat, over, thread: Some(thread) }))
        };
        start().map_err(|error| OperatorError { from: from.clone(), error })
    }

    /// What it hears.
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

fn open(from: &str) -> io::Result<OwnedFd> {
    if from == "stdin" {
        return io::stdin().as_fd().try_clone_to_owned();
    }
    if let Some(address) = from.strip_prefix("udp:") {
        return UdpSocket::bind(address).map(Into::into);
    }
    // Without O_NONBLOCK opening would wait for whoever writes.
    let pipe =
        OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32).open(from);
    pipe.map(Into::into)
}

fn listen(source: &OwnedFd, heartbeat: &Heartbeat, over: &AtomicBool) {
    let mut bytes = [0; 4096];
    while !over.load(Ordering::Relaxed) {
        let mut fds = [PollFd::new(source, PollFlags::IN)];
        if !matches!(poll(&mut fds, Some(&PATIENCE)), Ok(1)) {
            continue;
        }
        match rustix::io::read(source, &mut bytes) {
            Ok(count) if count > 0 => heartbeat.beat(now_ns()),
            // Nobody writes to the pipe any more; somebody may again.
            _ => thread::sleep(ALONE),
        }
    }
}
