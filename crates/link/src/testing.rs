//! A link for unit tests: every frame that wants a reply comes back at once, from the device it was sent to.

use crate::{Capabilities, Counters, Link, LinkError, Received};
use khz_wire::{Address, Frame};
use std::collections::VecDeque;

pub(crate) struct Loopback {
    channels: u8,
    replies: VecDeque<Received>,
    counters: Counters,
}

impl Loopback {
    pub(crate) fn new(channels: u8) -> Self {
        Self { channels, replies: VecDeque::new(), counters: Counters::default() }
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

    fn send(&mut self, channel: u8, frame: &Frame, now_ns: i64) -> Result<(), LinkError> {
        self.counters.sent += 1;
        let address = Address::from_id(frame.id);
        if address.reply {
            let id = address.answered_by(address.destination).id();
            let reply = Frame::new(id, frame.payload()).ok_or(LinkError::Unsupported)?;
            self.replies.push_back(Received { channel, at_ns: now_ns, frame: reply });
        }
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
