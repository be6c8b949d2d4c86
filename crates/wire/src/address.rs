//! Who speaks to whom: prefix, source, destination and whether a reply is wanted, in one identifier.

use crate::frame::Frame;
use crate::request::Request;

/// Every device listens to this destination.
pub const BROADCAST: u8 = 0x7f;

/// The parts of an identifier: bits 28–16 prefix, 15 reply wanted, 14–8 source, 7–0 destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// 13 bits that separate several systems on one bus; both directions carry the same. Usually 0.
    pub prefix: u16,
    /// Who sends, 0–127. The host is usually 0.
    pub source: u8,
    /// Who is meant, 0–127, or [`BROADCAST`].
    pub destination: u8,
    /// The sender wants a reply (never set in replies).
    pub reply: bool,
}

impl Address {
    /// From the host (id 0, prefix 0) to one device.
    pub const fn to(destination: u8, reply: bool) -> Self {
        Self { prefix: 0, source: 0, destination, reply }
    }

    /// The 29-bit identifier. Bits that do not fit their field are dropped.
    pub const fn id(self) -> u32 {
        (self.prefix as u32 & 0x1fff) << 16
            | (self.reply as u32) << 15
            | (self.source as u32 & 0x7f) << 8
            | self.destination as u32
    }

    /// Takes an identifier apart. `destination` keeps its bit 7, which no device accepts.
    pub const fn from_id(id: u32) -> Self {
        Self {
            prefix: (id >> 16 & 0x1fff) as u16,
            reply: id & 0x8000 != 0,
            source: (id >> 8 & 0x7f) as u8,
            destination: id as u8,
        }
    }

    /// The address of the answer a device with id `own` sends to this request.
    pub const fn answered_by(self, own: u8) -> Self {
        Self { prefix: self.prefix, source: own, destination: self.source, reply: false }
    }

    /// A frame of the register protocol as a request: its identifier gives where it goes and what it brings.
    pub const fn request(frame: &Frame) -> Request<'_> {
        let Self { destination, reply, .. } = Self::from_id(frame.id);
        match destination {
            BROADCAST => Request { frame, to: None, replies: if reply { Request::UNKNOWN } else { 0 } },
            one => Request { frame, to: Some(one), replies: reply as u16 },
        }
    }

    /// The device that a frame of the register protocol is a reply of.
    pub fn replier(frame: &Frame) -> Option<u8> {
        let Self { source, reply, .. } = Self::from_id(frame.id);
        (!reply).then_some(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_identifiers_of_the_python_client() {
        assert_eq!(Address::to(1, true).id(), 0x8001);
        assert_eq!(Address::to(1, false).id(), 0x0001);
        assert_eq!(Address::to(BROADCAST, true).id(), 0x807f);
        assert_eq!(Address { source: 0x7d, ..Address::to(1, true) }.id(), 0xfd01);
        assert_eq!(Address { prefix: 0x12, ..Address::to(1, true) }.id(), 0x0012_8001);
        assert_eq!(Address::to(1, true).answered_by(1).id(), 0x0100);
    }

    #[test]
    fn identifiers_say_where_a_frame_goes_and_who_replies() {
        let frame = |id| Frame::new(id, &[]).unwrap();
        for (id, to, replies) in
            [(0x8001, Some(1), 1), (0x0005, Some(5), 0), (0x807f, None, Request::UNKNOWN), (0x007f, None, 0)]
        {
            let frame = frame(id);
            let request = Address::request(&frame);
            assert_eq!((request.to, request.replies), (to, replies), "{id:x}");
        }
        assert_eq!(Address::replier(&frame(0x300)), Some(3));
        assert_eq!(Address::replier(&frame(0x8301)), None, "a query");
    }

    #[test]
    fn every_identifier_survives_the_round_trip() {
        for id in (0..1_u32 << 29).step_by(1237) {
            assert_eq!(Address::from_id(id).id(), id);
        }
    }
}
