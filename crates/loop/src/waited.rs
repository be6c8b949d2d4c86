//! How long a message may have waited in a socket. It carries no time, but it came after the last look that found nothing
//! there; if that was longer ago than a thread sleeps between two looks, the process was frozen or its thread kept from the
//! CPU, and the message may be as old.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;

/// How long a thread waits at most before it looks again, ns.
pub const PATIENCE_NS: i64 = 50_000_000;

/// When nothing waited.
#[derive(Debug, Default)]
pub struct Waited {
    empty_ns: Option<i64>,
}

impl Waited {
    /// Before the first look.
    pub const fn new() -> Self {
        Self { empty_ns: None }
    }

    /// A look found nothing.
    pub fn found_nothing(&mut self, now_ns: i64) {
        self.empty_ns = Some(now_ns);
    }

    /// How long a message received now may have waited; 0 if not noticeably.
    pub fn at_most_ns(&self, now_ns: i64) -> i64 {
        match self.empty_ns.map(|empty_ns| now_ns - empty_ns) {
            Some(waited_ns) if waited_ns <= 2 * PATIENCE_NS => 0,
            Some(waited_ns) => waited_ns,
            // It waited before the robot was there.
            None => i64::MAX,
        }
    }
}

/// Waits until something can be read, or until the time, ns, is over; returns whether something can.
pub fn wait(source: &impl AsFd, for_ns: i64) -> bool {
    let patience = Timespec { tv_sec: 0, tv_nsec: for_ns };
    matches!(poll(&mut [PollFd::new(source, PollFlags::IN)], Some(&patience)), Ok(1))
}
