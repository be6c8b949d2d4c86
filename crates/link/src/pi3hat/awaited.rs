//! Whose replies are awaited.

use khz_wire::Address;

/// Ids there are.
const IDS: usize = 128;

/// Replies that queries ask for, by bus and device, so that a frame nobody asked for stands for no reply.
pub(super) struct Awaited {
    of_device: [[u16; IDS]; 5],
    of_processor: [u32; 3],
    /// Prefix and id the last query came from, to which replies are addressed.
    host: (u16, u8),
}

impl Default for Awaited {
    fn default() -> Self {
        Self { of_device: [[0; IDS]; 5], of_processor: [0; 3], host: (0, 0) }
    }
}

impl Awaited {
    /// A frame leaves on a channel. Who answers a broadcast nobody knows, so nobody is awaited.
    pub(super) fn ask(&mut self, channel: usize, sent: Address) {
        let device = self.of_device[channel].get_mut(usize::from(sent.destination));
        let is_one = sent.reply && sent.destination != khz_wire::address::BROADCAST;
        if let (Some(device), true) = (device, is_one) {
            self.host = (sent.prefix, sent.source);
            *device += 1;
            self.of_processor[channel / 2] += 1;
        }
    }

    /// A frame has come on a channel.
    pub(super) fn came(&mut self, channel: usize, frame: Address) {
        let device = &mut self.of_device[channel][usize::from(frame.source)];
        let is_for_us = !frame.reply && (frame.prefix, frame.destination) == self.host;
        if is_for_us && *device > 0 {
            *device -= 1;
            self.of_processor[channel / 2] -= 1;
        }
    }

    /// A processor owes replies.
    pub(super) fn owes(&self, processor: usize) -> bool {
        self.of_processor[processor] > 0
    }

    /// Any of them does.
    pub(super) fn is_owed(&self) -> bool {
        self.of_processor != [0; 3]
    }

    /// Awaits nothing of a processor any more.
    pub(super) fn forget(&mut self, processor: usize) {
        self.of_device.iter_mut().skip(processor * 2).take(2).for_each(|channel| channel.fill(0));
        self.of_processor[processor] = 0;
    }
}
