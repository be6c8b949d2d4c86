//! Who was asked what, and from where each device may answer.

use super::{Reach, is_broadcast};
use khz_wire::Request;
use std::net::{IpAddr, SocketAddr};

/// Ids there are.
const IDS: usize = 128;

/// What a frame in a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The reply to a request that has none yet, from the device's own address.
    Answer,
    /// A further reply to the newest request to this device, from its own address: two devices may have its id.
    Again,
    /// From the device, and to an older request or to none.
    Stale,
    /// From somewhere else.
    Unexpected,
}

/// Requests without a reply, and the address of each device.
pub(super) struct Asked {
    channels: Vec<[Device; IDS]>,
    /// The devices' port, where a broadcast reaches them: the address of each is that of its first reply.
    learning: Option<u16>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Device {
    /// Number of the last burst it was asked in, and replies it owes to that.
    sequence: u32,
    owed: u16,
    /// It was asked at all.
    is_asked: bool,
    /// Where its replies come from.
    from: Option<Peer>,
}

/// An address as replies are compared by it: an IPv6 flow label is none of its parts.
type Peer = (IpAddr, u16);

fn place(address: SocketAddr) -> Peer {
    (address.ip(), address.port())
}

impl Asked {
    /// Nothing was asked yet. Allocates; asks the kernel about a broadcast address.
    pub(super) fn new(channels: u8, reach: &Reach) -> Self {
        let mut devices = vec![[Device::default(); IDS]; usize::from(channels)];
        let mut learning = None;
        match reach {
            Reach::Unicast(peers) => {
                for peer in peers {
                    if let Some(of_channel) = devices.get_mut(usize::from(peer.channel)) {
                        of_channel[usize::from(peer.id & 0x7f)].from = Some(place(peer.address));
                    }
                }
            }
            Reach::All(all) if is_broadcast(*all) || all.ip().is_multicast() => learning = Some(all.port()),
            Reach::All(one) => {
                devices.iter_mut().flatten().for_each(|device| device.from = Some(place(*one)));
            }
        }
        Self { channels: devices, learning }
    }

    /// A request leaves.
    pub(super) fn ask(&mut self, channel: u8, request: &Request<'_>, sequence: u32) {
        let Some(of_channel) = self.channels.get_mut(usize::from(channel)) else { return };
        match request {
            Request { replies: 0, .. } => {}
            Request { to: Some(id), replies, .. } => {
                of_channel[usize::from(id & 0x7f)].ask(sequence, *replies)
            }
            // Each may be one of those that reply.
            Request { to: None, .. } => of_channel.iter_mut().for_each(|device| device.ask(sequence, 1)),
        }
    }

    /// The address is that of a device.
    pub(super) fn is_device(&self, by: Option<SocketAddr>) -> bool {
        let by = by.map(place);
        by.is_some() && self.channels.iter().flatten().any(|device| device.from == by)
    }

    /// A frame, the reply of a device if it is one, has come in a datagram of this number.
    pub(super) fn judge(
        &mut self,
        channel: u8,
        id: Option<u8>,
        sequence: u32,
        by: Option<SocketAddr>,
    ) -> Verdict {
        let learning = self.learning;
        let of_channel = self.channels.get_mut(usize::from(channel));
        let (Some(of_channel), Some(id), Some(by)) = (of_channel, id, by.map(place)) else {
            return Verdict::Unexpected;
        };
        let device = &mut of_channel[usize::from(id & 0x7f)];
        let is_its_own = device.from.map_or(learning == Some(by.1), |from| from == by);
        if !is_its_own {
            return Verdict::Unexpected;
        }
        if !device.is_asked || device.sequence != sequence {
            return Verdict::Stale;
        }
        if device.owed == 0 {
            return Verdict::Again;
        }
        device.owed -= 1;
        device.from = Some(by);
        Verdict::Answer
    }
}

impl Device {
    fn ask(&mut self, sequence: u32, replies: u16) {
        if self.sequence != sequence {
            (self.sequence, self.owed) = (sequence, 0);
        }
        self.owed = self.owed.saturating_add(replies);
        self.is_asked = true;
    }
}
