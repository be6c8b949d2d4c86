//! A real link whose other end keeps virtual time.

use crate::shared::Share;
use khz_emu::serve::{Passed, Server};
use khz_link::{Counters, Link, LinkError, Received};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What the kernel has not carried over by then is lost, and the case with it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The servos' end, shared between the link and the case. `None`: cut off.
pub type Far = Share<Option<Server>>;

/// A link and the servos' end of its wire, moved on together.
pub struct Lockstep<L> {
    host: L,
    server: Far,
    /// Frames sent before the present server was there.
    sent_before: u64,
    /// Frames received from the present server.
    got: u64,
    /// Replies the link had refused before the present server was there.
    refused_before: u64,
    cut: bool,
    /// The servos' end does nothing.
    is_paused: Arc<AtomicBool>,
    waiting: VecDeque<Received>,
}

impl<L: Link> Lockstep<L> {
    /// Joins a link and a server.
    pub fn new(host: L, server: Far, is_paused: Arc<AtomicBool>) -> Self {
        Self {
            host,
            server,
            sent_before: 0,
            got: 0,
            refused_before: 0,
            cut: false,
            is_paused,
            waiting: VecDeque::new(),
        }
    }

    fn sent(&self) -> u64 {
        self.count(|counters| counters.sent)
    }

    /// Replies the link has dropped for a reason.
    fn refused(&self) -> u64 {
        self.count(|counters| counters.stale + counters.unexpected)
    }

    fn count(&self, of: impl Fn(Counters) -> u64) -> u64 {
        let channels = 0..self.host.capabilities().channels;
        channels.map(|channel| of(self.host.counters(channel))).sum()
    }

    /// Lets the servos' end take everything that was sent, and then answer.
    fn serve(&mut self, now_ns: i64) -> Option<u64> {
        if self.is_paused.load(Relaxed) {
            return None;
        }
        let shared = self.server.clone();
        let mut server = shared.get();
        let Some(server) = server.as_mut() else {
            self.cut = true;
            return None;
        };
        if std::mem::take(&mut self.cut) {
            (self.sent_before, self.got, self.refused_before) = (self.sent(), 0, self.refused());
        }
        let started = Instant::now();
        loop {
            server.serve_once(now_ns);
            let Passed { taken, outdated, .. } = server.passed();
            if taken + outdated >= self.sent() - self.sent_before {
                return Some(server.passed().reported);
            }
            assert!(started.elapsed() < PATIENCE, "frames were lost on the way to the servos");
            std::thread::yield_now();
        }
    }

    /// Takes everything the servos' end has reported.
    fn collect(&mut self, reported: u64, now_ns: i64) -> Result<(), LinkError> {
        // Links hand over what was held in here, too.
        if let Some(received) = self.host.receive(now_ns)? {
            self.got += 1;
            self.waiting.push_back(Received { at_ns: now_ns, ..received });
        }
        let started = Instant::now();
        while self.got + self.refused() - self.refused_before < reported {
            match self.host.receive(now_ns)? {
                Some(received) => {
                    self.got += 1;
                    self.waiting.push_back(Received { at_ns: now_ns, ..received });
                }
                // What came was refused.
                None if self.got + self.refused() - self.refused_before >= reported => break,
                None => {
                    assert!(started.elapsed() < PATIENCE, "replies were lost on the way to the host");
                    self.wait();
                }
            }
        }
        Ok(())
    }

    fn wait(&self) {
        let Some(fd) = self.host.fd() else { return std::thread::yield_now() };
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 }));
    }
}

impl<L: Link> Link for Lockstep<L> {
    khz_link::forward_link!(it => it.host; capabilities, half_duplex, begin_cycle, send, counters);

    fn flush(&mut self, now_ns: i64) -> Result<(), LinkError> {
        self.host.flush(now_ns)?;
        self.serve(now_ns);
        Ok(())
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        if self.waiting.is_empty() {
            match self.serve(now_ns) {
                Some(reported) => self.collect(reported, now_ns)?,
                None => return self.host.receive(now_ns),
            }
        }
        Ok(self.waiting.pop_front())
    }

    fn next_event_ns(&self) -> Option<i64> {
        let mut server = self.server.get();
        server.as_mut().and_then(|server| server.world().next_event_ns())
    }
}
