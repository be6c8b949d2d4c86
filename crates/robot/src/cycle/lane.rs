//! One bus within the cycle: who is next, and on half-duplex buses who is being waited for.

use super::device::Device;
use khz_link::{Link, LinkError};

/// One bus.
#[derive(Debug)]
pub struct Lane {
    pub link: usize,
    channel: u8,
    half_duplex: bool,
    /// Devices in the order they are asked.
    order: Vec<usize>,
    /// Devices of `order` already asked in this cycle.
    asked: usize,
    outstanding: Option<Outstanding>,
    down: bool,
    /// Device by source id.
    by_source: Box<[Option<usize>; 128]>,
}

/// A half-duplex query on its way.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    device: usize,
    until_ns: i64,
}

impl Lane {
    pub fn new(link: usize, channel: u8, half_duplex: bool) -> Self {
        let by_source = Box::new([None; 128]);
        Self {
            link,
            channel,
            half_duplex,
            order: Vec::new(),
            asked: 0,
            outstanding: None,
            down: false,
            by_source,
        }
    }

    pub fn add(&mut self, id: u8, device: usize) {
        self.order.push(device);
        self.by_source[usize::from(id & 0x7f)] = Some(device);
    }

    /// The device with this source id.
    pub fn device(&self, source: u8) -> Option<usize> {
        self.by_source[usize::from(source & 0x7f)]
    }

    pub fn begin(&mut self) {
        self.asked = 0;
        self.outstanding = None;
        self.down = false;
    }

    /// Offers the next frame to the link, if it is this bus's turn. True if the link took it.
    pub fn send_next(
        &mut self,
        devices: &mut [Device],
        links: &mut [Box<dyn Link>],
        now_ns: i64,
        links_down: &mut u64,
    ) -> bool {
        if self.down || self.outstanding.is_some() {
            return false;
        }
        let Some(&index) = self.order.get(self.asked) else { return false };
        let device = &mut devices[index];
        match links[self.link].send(self.channel, device.frame(), now_ns) {
            Ok(()) => {
                device.sent(now_ns);
                self.asked += 1;
                if self.half_duplex {
                    let until_ns = now_ns + device.reply_timeout_ns();
                    self.outstanding = Some(Outstanding { device: index, until_ns });
                }
                true
            }
            Err(LinkError::Full) => false,
            Err(LinkError::Down { .. } | LinkError::Unsupported) => {
                self.down = true;
                *links_down |= 1 << self.link;
                false
            }
        }
    }

    /// A fresh reply has been read: the bus is free for the next query.
    pub fn answered(&mut self, device: usize) {
        self.outstanding = self.outstanding.filter(|outstanding| outstanding.device != device);
    }

    /// When to stop waiting for the outstanding reply.
    pub fn timeout_ns(&self) -> Option<i64> {
        self.outstanding.map(|outstanding| outstanding.until_ns)
    }

    pub fn time_out(&mut self, now_ns: i64) {
        self.outstanding = self.outstanding.filter(|outstanding| now_ns < outstanding.until_ns);
    }

    /// Settles who is asked first in the next cycle: whoever had no turn in this one. Where all had one, on half-duplex buses a
    /// silent device holds up those after it, so it is asked last.
    pub fn end(&mut self, devices: &[Device]) {
        // The deadline cut the last one off, unless the bus was its own all the time: then it is silent.
        let cut_off = usize::from(self.outstanding.is_some() && self.asked > 1);
        let served = self.asked - cut_off;
        if served < self.order.len() {
            self.order.rotate_left(served);
        } else if self.half_duplex
            && let Some(place) = self.order.iter().position(|&index| devices[index].was_missed())
        {
            self.order[place..].rotate_left(1);
        }
    }
}
