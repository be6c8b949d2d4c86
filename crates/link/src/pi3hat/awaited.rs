//! Whose replies are outstanding.

use khz_wire::Request;

/// Ids there are.
const IDS: usize = 128;

/// Replies that requests bring, by bus and device, so that an unexpected frame stands for no reply.
pub(super) struct Awaited {
    of_device: [[u16; IDS]; 5],
    /// To requests to all, from whichever devices.
    of_channel: [u16; 5],
    of_processor: [u32; 3],
}

impl Default for Awaited {
    fn default() -> Self {
        Self { of_device: [[0; IDS]; 5], of_channel: [0; 5], of_processor: [0; 3] }
    }
}

impl Awaited {
    /// A request leaves on a channel. If the number of replies is unknown, no reply is outstanding.
    pub(super) fn ask(&mut self, channel: usize, request: &Request<'_>) {
        let awaited = match request.to {
            Some(device) => self.of_device[channel].get_mut(usize::from(device)),
            None => Some(&mut self.of_channel[channel]),
        };
        if let Some(awaited) = awaited.filter(|_| request.replies != Request::UNKNOWN) {
            *awaited = awaited.saturating_add(request.replies);
            self.of_processor[channel / 2] += u32::from(request.replies);
        }
    }

    /// A reply of a device has come on a channel.
    pub(super) fn came(&mut self, channel: usize, device: u8) {
        let of_device = self.of_device[channel].get_mut(usize::from(device)).filter(|awaited| **awaited > 0);
        let awaited = of_device.unwrap_or(&mut self.of_channel[channel]);
        if *awaited > 0 {
            *awaited -= 1;
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
        let channels = self.of_device.iter_mut().zip(&mut self.of_channel).skip(processor * 2).take(2);
        channels.for_each(|(of_device, of_channel)| {
            of_device.fill(0);
            *of_channel = 0;
        });
        self.of_processor[processor] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_wire::Frame;

    #[test]
    fn one_request_to_all_brings_as_many_replies_as_it_says() {
        let frame = Frame::new(0x80, &[]).unwrap();
        let mut awaited = Awaited::default();
        awaited.ask(3, &Request { frame: &frame, to: Some(2), replies: 1 });
        awaited.ask(3, &Request { frame: &frame, to: None, replies: 2 });
        for device in [2, 5, 2] {
            assert!(awaited.owes(1) && !awaited.owes(0));
            awaited.came(3, device);
        }
        assert!(!awaited.is_owed());
        awaited.ask(3, &Request { frame: &frame, to: None, replies: Request::UNKNOWN });
        assert!(!awaited.is_owed(), "how many is unknown");
    }
}
