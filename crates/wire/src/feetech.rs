//! The protocol of Feetech's STS and SMS servos, for both ends.
//!
//! Facts are from copies of the maker's manual and register tables, and from three clients, whose bytes are in
//! `vectors/feetech.json`. No real servo was used.
//!
//! | offset | field |
//! |---|---|
//! | 0 | `ff ff` |
//! | 2 | id; 0xfe: all |
//! | 3 | length of what follows |
//! | 4 | instruction; of a reply the conditions the servo is in ([`CONDITIONS`]) |
//! | 5… | parameters |
//! | end | checksum: the complement of the sum from the id on |
//!
//! Nothing is escaped, and a reply has the form of an instruction: only who receives it knows what it is, so that a [`Decoder`] is one
//! of a host or of a servo. A packet travels in this program as a [`Frame`]: [`identifier`] has its id and instruction, a reply is a
//! [`instruction::STATUS`] whose payload begins with its conditions.
//!
//! Words have the low byte first; signed ones are a magnitude with a sign bit ([`Item::sign_bit`]).

mod decoder;
mod table;

pub use decoder::{Decoder, End};
pub use table::{ITEMS, Item, MODELS, Model, address, item, item_named};

use crate::frame::{Frame, MAX_PAYLOAD};
use crate::serial::entries::Entries;

/// The greatest id.
pub const MOST_ID: u8 = 253;
/// All servos; none replies to a write.
pub const BROADCAST: u8 = 0xfe;

const LEAD_IN: [u8; 2] = [0xff, 0xff];
/// From the lead-in to the length.
const HEADER: usize = 4;
/// What a packet has besides its parameters.
const AROUND: usize = HEADER + 2;

/// The longest packet [`encode`] writes.
pub const MAX_PACKET: usize = AROUND + MAX_PAYLOAD;
/// The shortest reply.
pub const SHORTEST: usize = AROUND;

/// What a packet asks for.
pub mod instruction {
    /// Who is there.
    pub const PING: u8 = 0x01;
    /// Address and length.
    pub const READ: u8 = 0x02;
    /// Address and data.
    pub const WRITE: u8 = 0x03;
    /// The same, carried out at the next [`ACTION`].
    pub const REG_WRITE: u8 = 0x04;
    /// Carries out what was registered.
    pub const ACTION: u8 = 0x05;
    /// Factory values; manuals differ on whether the id is among them.
    pub const FACTORY_RESET: u8 = 0x06;
    /// Restarts. According to one manual it is not answered, one client waits for an answer.
    pub const REBOOT: u8 = 0x08;
    /// Forgets whole turns.
    pub const CLEAR: u8 = 0x0a;
    /// The present position becomes the middle, or a given one (STS from firmware 3.10).
    pub const CALIBRATE: u8 = 0x0b;
    /// A reply; no packet has this byte.
    pub const STATUS: u8 = 0x55;
    /// Address, length and ids: each answers, in this order.
    pub const SYNC_READ: u8 = 0x82;
    /// Address, length, and for each an id and its data; not answered.
    pub const SYNC_WRITE: u8 = 0x83;
}

/// Bits of the conditions in every reply and in [`address::STATUS`], with their names. They show the servo's condition, not whether it did what it
/// was asked: nothing shows that.
pub const CONDITIONS: [(u8, &str); 5] = [
    (0x01, "input voltage out of limits"),
    (0x02, "encoder"),
    (0x04, "overheating"),
    (0x08, "overcurrent"),
    (0x20, "overload"),
];

/// The name of the first of these conditions.
pub fn condition(bits: u8) -> &'static str {
    let named = CONDITIONS.iter().find(|(bit, _)| bits & bit != 0);
    named.map_or("unknown condition", |(_, name)| name)
}

/// Baud rates by the number of the register. Sources disagree on the numbers behind these.
pub const BAUDS: [u32; 5] = [1_000_000, 500_000, 250_000, 128_000, 115_200];

/// The identifier of a packet as a frame.
pub const fn identifier(id: u8, instruction: u8) -> u32 {
    (instruction as u32) << 8 | id as u32
}

/// Id and instruction of a frame; `None` if it is no packet.
pub const fn parts(frame: &Frame) -> Option<(u8, u8)> {
    if !frame.extended || frame.remote.is_some() || frame.id >> 16 != 0 {
        return None;
    }
    Some((frame.id as u8, (frame.id >> 8) as u8))
}

/// A packet with these parameters; `None` if they are more than [`MAX_PAYLOAD`].
pub fn packet(id: u8, instruction: u8, parameters: &[u8]) -> Option<Frame> {
    let mut frame = Frame::new(identifier(id, instruction), parameters)?;
    frame.extended = true;
    Some(frame)
}

/// One of a few parameters, which always fits.
fn short(id: u8, instruction: u8, parameters: &[u8]) -> Frame {
    packet(id, instruction, parameters).unwrap_or(Frame::extended(0, [0; 8]))
}

/// Asks who is there.
pub fn ping(id: u8) -> Frame {
    short(id, instruction::PING, &[])
}

/// Reads so many bytes.
pub fn read(id: u8, address: u8, len: u8) -> Frame {
    short(id, instruction::READ, &[address, len])
}

/// Writes bytes; `None` if they are too many.
pub fn write(id: u8, address: u8, data: &[u8]) -> Option<Frame> {
    let mut parameters = [address; MAX_PAYLOAD];
    parameters.get_mut(1..=data.len())?.copy_from_slice(data);
    packet(id, instruction::WRITE, &parameters[..=data.len()])
}

/// Restarts a servo.
pub fn reboot(id: u8) -> Frame {
    short(id, instruction::REBOOT, &[])
}

/// The same bytes of several servos, which answer in the order of their ids. `None` if they are too many.
pub fn sync_read(address: u8, len: u8, ids: &[u8]) -> Option<Frame> {
    let mut parameters = [len; MAX_PAYLOAD];
    parameters[0] = address;
    parameters.get_mut(2..2 + ids.len())?.copy_from_slice(ids);
    packet(BROADCAST, instruction::SYNC_READ, &parameters[..2 + ids.len()])
}

/// A sync write under way: as many servos as there is room for.
#[derive(Clone, Copy, Debug)]
pub struct SyncWrite(Entries);

impl SyncWrite {
    /// Of so many bytes at this address; no servo yet.
    pub const fn new(address: u8, len: u8) -> Self {
        Self(Entries::new([address, len], len as usize))
    }

    /// How many servos one packet has room for.
    pub const fn room(len: u8) -> usize {
        (MAX_PAYLOAD - 2) / (1 + len as usize)
    }

    /// Adds a servo with its bytes; false if there is no room, or these are not as many as are written.
    pub fn add(&mut self, id: u8, data: &[u8]) -> bool {
        self.0.add(id, data)
    }

    /// No servo has been added.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The packet.
    pub fn packet(&self) -> Frame {
        short(BROADCAST, instruction::SYNC_WRITE, self.0.bytes())
    }
}

/// What a packet asks of whom: address and length, and ids in the order in which they answer. `None` if it asks for no bytes, or is damaged.
pub fn asked(frame: &Frame) -> Option<(u8, u8, &[u8])> {
    match (parts(frame)?, frame.payload()) {
        ((_, instruction::SYNC_READ), [address, len, ids @ ..]) => Some((*address, *len, ids)),
        _ => None,
    }
}

/// What a sync write has for a servo: address and data. `None` if nothing, or the packet is damaged.
pub fn written(frame: &Frame, to: u8) -> Option<(u8, &[u8])> {
    match (parts(frame)?, frame.payload()) {
        ((_, instruction::SYNC_WRITE), [address, len, entries @ ..]) => {
            let mut entries = entries.chunks_exact(1 + usize::from(*len));
            Some((*address, &entries.find(|entry| entry[0] == to)?[1..]))
        }
        _ => None,
    }
}

/// The reply of a servo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status<'a> {
    /// Whose.
    pub id: u8,
    /// How it is: see [`CONDITIONS`].
    pub conditions: u8,
    /// What was asked for.
    pub data: &'a [u8],
}

impl<'a> Status<'a> {
    /// Decodes a frame; `None` if it is no reply.
    pub fn parse(frame: &'a Frame) -> Option<Self> {
        match (parts(frame)?, frame.payload()) {
            ((id @ ..=MOST_ID, instruction::STATUS), [conditions, data @ ..]) => {
                Some(Self { id, conditions: *conditions, data })
            }
            _ => None,
        }
    }

    /// As it travels; `None` if it is too long.
    pub fn packet(&self) -> Option<Frame> {
        let mut out = [self.conditions; MAX_PAYLOAD];
        out.get_mut(1..=self.data.len())?.copy_from_slice(self.data);
        packet(self.id, instruction::STATUS, &out[..=self.data.len()])
    }
}

/// Bytes on the wire of a packet.
pub fn wire_len(frame: &Frame) -> usize {
    AROUND + frame.payload().len() - usize::from(Status::parse(frame).is_some())
}

/// Writes a packet to `out`; its length, or `None` if it does not fit, or is no packet.
pub fn encode(frame: &Frame, out: &mut [u8]) -> Option<usize> {
    let (id, instruction) = parts(frame)?;
    let (byte, parameters) = match Status::parse(frame) {
        Some(status) => (status.conditions, status.data),
        None if instruction == instruction::STATUS => return None,
        None => (instruction, frame.payload()),
    };
    let len = AROUND + parameters.len();
    let out = out.get_mut(..len)?;
    out[..2].copy_from_slice(&LEAD_IN);
    out[2..=HEADER].copy_from_slice(&[id, (len - HEADER) as u8, byte]);
    out[HEADER + 1..len - 1].copy_from_slice(parameters);
    out[len - 1] = checksum(&out[2..len - 1]);
    Some(len)
}

/// The checksum of what stands between the lead-in and it.
pub fn checksum(bytes: &[u8]) -> u8 {
    !bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte))
}
