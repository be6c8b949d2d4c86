//! A link for unit tests: every frame that wants a reply comes back at once, from the device it was sent to.

use crate::{Capabilities, Counters, Link, LinkError, Received};
use khz_wire::{Address, Frame, Request};
use std::collections::VecDeque;

pub(crate) struct Loopback {
    channels: u8,
    replies: VecDeque<Received>,
    counters: Counters,
    /// Frames taken before the next flush.
    pub(crate) room: u64,
    taken: u64,
    pub(crate) is_down: bool,
    /// Calls of [`Link::begin_cycle`].
    pub(crate) cycles: u64,
}

impl Loopback {
    pub(crate) fn new(channels: u8) -> Self {
        Self {
            channels,
            replies: VecDeque::new(),
            counters: Counters::default(),
            room: u64::MAX,
            taken: 0,
            is_down: false,
            cycles: 0,
        }
    }
}

impl Link for Loopback {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: "loopback",
            channels: self.channels,
            half_duplex: false,
            in_flight: u16::MAX,
            emulated: true,
        }
    }

    fn begin_cycle(&mut self, _: i64) {
        self.cycles += 1;
    }

    fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        if self.is_down {
            return Err(LinkError::Down { errno: 0 });
        }
        if self.taken == self.room {
            return Err(LinkError::Full);
        }
        self.taken += 1;
        self.counters.sent += 1;
        if let Request { to: Some(device), replies: 1.., frame } = *request {
            let id = Address::from_id(frame.id).answered_by(device).id();
            let reply = Frame::new(id, frame.payload()).ok_or(LinkError::Unsupported)?;
            self.replies.push_back(Received { channel, at_ns: now_ns, frame: reply });
        }
        Ok(())
    }

    fn flush(&mut self, _: i64) -> Result<(), LinkError> {
        self.taken = 0;
        Ok(())
    }

    fn receive(&mut self, _: i64) -> Result<Option<Received>, LinkError> {
        self.counters.received += u64::from(!self.replies.is_empty());
        Ok(self.replies.pop_front())
    }

    fn next_event_ns(&self) -> Option<i64> {
        self.replies.front().map(|reply| reply.at_ns)
    }

    fn counters(&self, _: u8) -> Counters {
        self.counters
    }
}
