//! Protocol 2.0 of Dynamixel servos (X series), for both ends.
//!
//! Facts are from the maker's manual (ROBOTIS-GIT/emanual, "Protocol 2.0" and the pages of the X series) and the sources of its SDK;
//! bytes of three clients are in `vectors/dynamixel.json`. No real servo was used.
//!
//! | offset | field |
//! |---|---|
//! | 0 | `ff ff fd 00` |
//! | 4 | id; 0xfe: all |
//! | 5 | length of what follows, two bytes |
//! | 7 | instruction; 0x55 of a status |
//! | 8… | parameters; of a status the first is its error |
//! | end | CRC-16 of all before, low byte first |
//!
//! After each `ff ff fd` from the instruction on another `fd` is sent. A packet travels in this program as a [`Frame`]: [`identifier`]
//! has its id and instruction, the payload its parameters, without what was stuffed. A *fast* read is answered by one packet to which
//! every servo adds its block; each block is a frame of its own here ([`block`]), whose CRC is over everything before it.
//!
//! Everything is little endian, signed numbers are two's complement.

mod decoder;
mod end;
mod model;
mod table;

pub use decoder::Decoder;
pub use end::End;
pub use model::{MODELS, Model};
pub use table::{ITEMS, Item, address, item, item_named};

use crate::frame::{Frame, MAX_PAYLOAD};
use crate::serial::crc;
use crate::serial::entries::Entries;

/// The greatest id.
pub const MOST_ID: u8 = 252;
/// All servos; none replies to a write.
pub const BROADCAST: u8 = 0xfe;

const LEAD_IN: [u8; 4] = [0xff, 0xff, 0xfd, 0x00];
/// From the lead-in to the length.
const HEADER: usize = 7;
/// Of a fast status up to its first block.
const FAST_HEADER: usize = HEADER + 1;
/// What a block has besides its data: error, id, CRC.
const BLOCK: usize = 4;
/// In an identifier: the place of a block in its packet.
const PLACE: u32 = 16;

/// The longest packet [`encode`] writes: every third of its bytes may need one more.
pub const MAX_PACKET: usize = HEADER + 1 + MAX_PAYLOAD + (1 + MAX_PAYLOAD) / 3 + 2;

/// The shortest answer there can be: a block without data.
pub const SHORTEST: usize = BLOCK;

/// What a packet asks for.
pub mod instruction {
    /// Model and firmware.
    pub const PING: u8 = 0x01;
    /// Address and length.
    pub const READ: u8 = 0x02;
    /// Address and data.
    pub const WRITE: u8 = 0x03;
    /// The same, carried out at the next [`ACTION`].
    pub const REG_WRITE: u8 = 0x04;
    /// Carries out what was registered.
    pub const ACTION: u8 = 0x05;
    /// See [`super::reset`].
    pub const FACTORY_RESET: u8 = 0x06;
    /// Restarts: the way out of a shutdown.
    pub const REBOOT: u8 = 0x08;
    /// With [`super::CLEAR_TURNS`]: forgets whole turns.
    pub const CLEAR: u8 = 0x10;
    /// An answer.
    pub const STATUS: u8 = 0x55;
    /// Address, length and ids: each answers, in this order.
    pub const SYNC_READ: u8 = 0x82;
    /// Address, length, and for each an id and its data; not answered.
    pub const SYNC_WRITE: u8 = 0x83;
    /// As [`SYNC_READ`], answered by one packet.
    pub const FAST_SYNC_READ: u8 = 0x8a;
    /// Id, address and length of each: each answers, in this order.
    pub const BULK_READ: u8 = 0x92;
    /// Id, address, length and data of each; not answered.
    pub const BULK_WRITE: u8 = 0x93;
    /// As [`BULK_READ`], answered by one packet.
    pub const FAST_BULK_READ: u8 = 0x9a;
}

/// What [`instruction::FACTORY_RESET`] resets.
pub mod reset {
    /// Everything.
    pub const ALL: u8 = 0xff;
    /// Not the id.
    pub const BUT_ID: u8 = 0x01;
    /// Neither id nor baud rate.
    pub const BUT_ID_AND_BAUD: u8 = 0x02;
}

/// The parameters of [`instruction::CLEAR`] that forget whole turns.
pub const CLEAR_TURNS: [u8; 5] = [0x01, 0x44, 0x58, 0x4c, 0x22];

/// Numbers in the error of a status.
pub mod error {
    /// The instruction failed.
    pub const RESULT: u8 = 1;
    /// No such instruction, or nothing was registered.
    pub const INSTRUCTION: u8 = 2;
    /// A wrong CRC.
    pub const CRC: u8 = 3;
    /// Data out of their range.
    pub const RANGE: u8 = 4;
    /// Shorter than the item.
    pub const LENGTH: u8 = 5;
    /// Beyond a limit that is set.
    pub const LIMIT: u8 = 6;
    /// Read-only, not there, or locked while the torque is on.
    pub const ACCESS: u8 = 7;
    /// Set in every status of a servo with a hardware error.
    pub const ALERT: u8 = 0x80;

    /// What the manual calls a number.
    pub const fn name(number: u8) -> &'static str {
        match number & !ALERT {
            0 => "none",
            RESULT => "it failed",
            INSTRUCTION => "unknown instruction",
            CRC => "wrong CRC",
            RANGE => "out of range",
            LENGTH => "too short",
            LIMIT => "beyond a limit",
            ACCESS => "read-only, not there, or locked while the torque is on",
            _ => "unknown error",
        }
    }
}

/// Bits of the hardware error status, and what the manual calls them.
pub const HARDWARE_ERRORS: [(u8, &str); 5] = [
    (0x01, "input voltage out of limits"),
    (0x04, "overheating"),
    (0x08, "motor encoder"),
    (0x10, "electrical shock or insufficient power"),
    (0x20, "overload"),
];

/// The name of the first of these hardware errors.
pub fn hardware_error(bits: u8) -> &'static str {
    let named = HARDWARE_ERRORS.iter().find(|(bit, _)| bits & bit != 0);
    named.map_or("unknown hardware error", |(_, name)| name)
}

/// Baud rates by the number of the register.
pub const BAUDS: [u32; 8] = [9_600, 57_600, 115_200, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 4_500_000];

/// The identifier of a packet as a frame.
pub const fn identifier(id: u8, instruction: u8) -> u32 {
    (instruction as u32) << 8 | id as u32
}

/// Id and instruction of a frame; `None` if it is no packet.
pub const fn parts(frame: &Frame) -> Option<(u8, u8)> {
    if !frame.extended || frame.remote.is_some() || frame.id >> 24 != 0 {
        return None;
    }
    Some((frame.id as u8, (frame.id >> 8) as u8))
}

/// A packet with these parameters; `None` if they are more than [`MAX_PAYLOAD`].
pub fn packet(id: u8, instruction: u8, parameters: &[u8]) -> Option<Frame> {
    extended(identifier(id, instruction), parameters)
}

fn extended(id: u32, parameters: &[u8]) -> Option<Frame> {
    let mut frame = Frame::new(id, parameters)?;
    frame.extended = true;
    Some(frame)
}

/// One of a few parameters, which always fits.
fn short(id: u8, instruction: u8, parameters: &[u8]) -> Frame {
    packet(id, instruction, parameters).unwrap_or(Frame::extended(0, [0; 8]))
}

/// The block of a servo in the answer to a fast read, at its place; `parameters` as in a status: error, data.
pub fn block(id: u8, place: u8, parameters: &[u8]) -> Option<Frame> {
    let id = (place as u32) << PLACE | identifier(id, instruction::FAST_SYNC_READ);
    extended(id, parameters)
}

/// The place of a block in its packet; `None` if the frame is none.
pub fn place(frame: &Frame) -> Option<u8> {
    let (id, instruction) = parts(frame)?;
    (instruction == instruction::FAST_SYNC_READ && id != BROADCAST).then_some((frame.id >> PLACE) as u8)
}

/// Asks who is there.
pub fn ping(id: u8) -> Frame {
    short(id, instruction::PING, &[])
}

/// Reads so many bytes.
pub fn read(id: u8, address: u16, len: u16) -> Frame {
    let ([a, b], [c, d]) = (address.to_le_bytes(), len.to_le_bytes());
    short(id, instruction::READ, &[a, b, c, d])
}

/// Writes bytes; `None` if they are too many.
pub fn write(id: u8, address: u16, data: &[u8]) -> Option<Frame> {
    let mut parameters = [0; MAX_PAYLOAD];
    let [a, b] = address.to_le_bytes();
    parameters[..2].copy_from_slice(&[a, b]);
    parameters.get_mut(2..2 + data.len())?.copy_from_slice(data);
    packet(id, instruction::WRITE, &parameters[..2 + data.len()])
}

/// Restarts a servo.
pub fn reboot(id: u8) -> Frame {
    short(id, instruction::REBOOT, &[])
}

/// Resets settings; see [`reset`].
pub fn factory_reset(id: u8, what: u8) -> Frame {
    short(id, instruction::FACTORY_RESET, &[what])
}

/// Forgets whole turns.
pub fn clear_turns(id: u8) -> Frame {
    short(id, instruction::CLEAR, &CLEAR_TURNS)
}

/// The same bytes of several servos, which answer in the order of their ids; `fast`: by one packet. `None` if they are too many.
pub fn sync_read(address: u16, len: u16, ids: &[u8], fast: bool) -> Option<Frame> {
    let mut parameters = [0; MAX_PAYLOAD];
    let ([a, b], [c, d]) = (address.to_le_bytes(), len.to_le_bytes());
    parameters[..4].copy_from_slice(&[a, b, c, d]);
    parameters.get_mut(4..4 + ids.len())?.copy_from_slice(ids);
    let instruction = if fast { instruction::FAST_SYNC_READ } else { instruction::SYNC_READ };
    packet(BROADCAST, instruction, &parameters[..4 + ids.len()])
}

/// A sync write under way: as many servos as there is room for.
#[derive(Clone, Copy, Debug)]
pub struct SyncWrite(Entries);

impl SyncWrite {
    /// Of so many bytes at this address; no servo yet.
    pub const fn new(address: u16, len: u8) -> Self {
        let [a, b] = address.to_le_bytes();
        Self(Entries::new([a, b, len, 0], len as usize))
    }

    /// How many servos one packet has room for.
    pub const fn room(len: u8) -> usize {
        (MAX_PAYLOAD - 4) / (1 + len as usize)
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

/// Whose bytes a packet asks for: address and length for each, in the order in which they answer. Empty if it asks for none, or is damaged.
pub fn asked(frame: &Frame) -> Asked<'_> {
    let instruction = parts(frame).map(|(_, instruction)| instruction);
    let (item, rest) = match (instruction, frame.payload()) {
        (Some(instruction::SYNC_READ | instruction::FAST_SYNC_READ), [a, b, c, d, ids @ ..]) => {
            (Some((u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d]))), ids)
        }
        (Some(instruction::BULK_READ | instruction::FAST_BULK_READ), all) if all.len() % 5 == 0 => {
            (None, all)
        }
        _ => (None, &[][..]),
    };
    Asked { item, rest }
}

/// See [`asked`].
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    item: Option<(u16, u16)>,
    rest: &'a [u8],
}

/// One servo of a read of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Who.
    pub id: u8,
    /// From which address.
    pub address: u16,
    /// How many bytes.
    pub len: u16,
}

impl Iterator for Asked<'_> {
    type Item = Question;

    fn next(&mut self) -> Option<Question> {
        match (self.item, self.rest) {
            (Some((address, len)), &[id, ref rest @ ..]) => {
                self.rest = rest;
                Some(Question { id, address, len })
            }
            (None, &[id, a, b, c, d, ref rest @ ..]) => {
                self.rest = rest;
                let (address, len) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
                Some(Question { id, address, len })
            }
            _ => None,
        }
    }
}

/// What a sync or bulk write has for a servo: address and data. `None` if nothing, or the packet is damaged.
pub fn written(frame: &Frame, to: u8) -> Option<(u16, &[u8])> {
    let (_, instruction) = parts(frame)?;
    let mut rest = frame.payload();
    match instruction {
        instruction::SYNC_WRITE => {
            let ([a, b, c, d], entries) = rest.split_first_chunk()?;
            let len = usize::from(u16::from_le_bytes([*c, *d]));
            let mut entries = entries.chunks_exact(1 + len);
            let entry = entries.find(|entry| entry[0] == to)?;
            Some((u16::from_le_bytes([*a, *b]), &entry[1..]))
        }
        instruction::BULK_WRITE => {
            while let Some(([id, a, b, c, d], after)) = rest.split_first_chunk() {
                let (data, after) = after.split_at_checked(usize::from(u16::from_le_bytes([*c, *d])))?;
                if *id == to {
                    return Some((u16::from_le_bytes([*a, *b]), data));
                }
                rest = after;
            }
            None
        }
        _ => None,
    }
}

/// The answer of a servo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status<'a> {
    /// Whose.
    pub id: u8,
    /// It has a hardware error.
    pub alert: bool,
    /// Why it did not do what it was asked, by [`error`]; 0: it did.
    pub error: u8,
    /// What was asked for; of no meaning with an error.
    pub data: &'a [u8],
}

impl<'a> Status<'a> {
    /// Decodes a frame, a whole status or a block of a fast one; `None` if it is neither.
    pub fn parse(frame: &'a Frame) -> Option<Self> {
        let (id, instruction) = parts(frame)?;
        let is_one = id <= MOST_ID && (instruction == instruction::STATUS || place(frame).is_some());
        let [error, data @ ..] = frame.payload() else { return None };
        is_one.then_some(Self { id, alert: error & error::ALERT != 0, error: error & !error::ALERT, data })
    }

    /// The error as it travels.
    pub const fn error_byte(&self) -> u8 {
        self.error & !error::ALERT | if self.alert { error::ALERT } else { 0 }
    }

    fn parameters(&self, out: &mut [u8; MAX_PAYLOAD]) -> Option<usize> {
        out[0] = self.error_byte();
        out.get_mut(1..=self.data.len())?.copy_from_slice(self.data);
        Some(1 + self.data.len())
    }

    /// As it travels alone; `None` if it is too long.
    pub fn packet(&self) -> Option<Frame> {
        let mut out = [0; MAX_PAYLOAD];
        let len = self.parameters(&mut out)?;
        packet(self.id, instruction::STATUS, &out[..len])
    }

    /// The same as the block at this place in the answer to a fast read.
    pub fn block(&self, place: u8) -> Option<Frame> {
        let mut out = [0; MAX_PAYLOAD];
        let len = self.parameters(&mut out)?;
        block(self.id, place, &out[..len])
    }
}

/// Bytes on the wire of a frame: of a packet as [`encode`] writes it, or of a block, of which the first has the packet's header.
pub fn wire_len(frame: &Frame) -> usize {
    match place(frame) {
        Some(0) => FAST_HEADER + BLOCK + frame.payload().len() - frame.payload().len().min(1),
        Some(_) => BLOCK + frame.payload().len() - frame.payload().len().min(1),
        None => HEADER + 1 + frame.payload().len() + stuffed(frame) + 2,
    }
}

/// How many bytes are stuffed into a packet. The instruction is none that could begin `ff ff fd`.
fn stuffed(frame: &Frame) -> usize {
    let mut window = [0; 3];
    let mut count = 0;
    for &byte in frame.payload() {
        window = [window[1], window[2], byte];
        count += usize::from(window == LEAD_IN[..3]);
    }
    count
}

/// Writes a packet to `out`; its length, or `None` if it does not fit, or is no packet (a block is none: [`FastStatus`]).
pub fn encode(frame: &Frame, out: &mut [u8]) -> Option<usize> {
    let (id, instruction) = parts(frame).filter(|_| place(frame).is_none())?;
    let len = wire_len(frame);
    let out = out.get_mut(..len)?;
    out[..4].copy_from_slice(&LEAD_IN);
    out[4] = id;
    out[5..HEADER].copy_from_slice(&((len - HEADER) as u16).to_le_bytes());
    out[HEADER] = instruction;
    let mut at = HEADER + 1;
    for &byte in frame.payload() {
        out[at] = byte;
        at += 1;
        if at >= HEADER + 4 && out[at - 3..at] == LEAD_IN[..3] {
            out[at] = 0xfd;
            at += 1;
        }
    }
    let crc = crc16(0, &out[..at]);
    out[at..].copy_from_slice(&crc.to_le_bytes());
    Some(len)
}

/// Writes the answer to a fast read, as the servos do one after the other. Not stuffed.
#[derive(Clone, Debug)]
pub struct FastStatus {
    crc: u16,
}

impl FastStatus {
    /// The answer to this request, to which `out` gets what the first servo sends before its block; how many bytes. `None` if the packet is no
    /// fast read, or there is no room.
    pub fn begin(request: &Frame, out: &mut [u8]) -> Option<(Self, usize)> {
        let (_, instruction) = parts(request)?;
        let is_fast = matches!(instruction, instruction::FAST_SYNC_READ | instruction::FAST_BULK_READ);
        let blocks: usize = asked(request).map(|question| usize::from(question.len) + BLOCK).sum();
        let out = out.get_mut(..FAST_HEADER).filter(|_| is_fast && blocks > 0)?;
        out[..4].copy_from_slice(&LEAD_IN);
        out[4] = BROADCAST;
        out[5..HEADER].copy_from_slice(&u16::try_from(1 + blocks).ok()?.to_le_bytes());
        out[HEADER] = instruction::STATUS;
        Some((Self { crc: crc16(0, out) }, FAST_HEADER))
    }

    /// Adds a block; how many bytes. `None` if there is no room.
    pub fn add(&mut self, status: &Status<'_>, out: &mut [u8]) -> Option<usize> {
        let end = 2 + status.data.len();
        let out = out.get_mut(..end + 2)?;
        out[..2].copy_from_slice(&[status.error_byte(), status.id]);
        out[2..end].copy_from_slice(status.data);
        let crc = crc16(self.crc, &out[..end]).to_le_bytes();
        out[end..].copy_from_slice(&crc);
        self.crc = crc16(crc16(self.crc, &out[..end]), &crc);
        Some(out.len())
    }
}

/// CRC-16/UMTS: polynomial 0x8005, most significant bit first; `crc` is that of what came before, 0 at first.
pub fn crc16(crc: u16, bytes: &[u8]) -> u16 {
    crc::crc16(&CRC16, crc, bytes)
}

static CRC16: [u16; 256] = crc::table(0x8005);
