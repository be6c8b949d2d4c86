//! Finds packets, and the blocks of fast statuses, in a byte stream.

use super::{
    Asked, BLOCK, BROADCAST, FAST_HEADER, HEADER, LEAD_IN, MAX_PACKET, Question, asked, block, crc16,
    instruction, packet, parts,
};
use crate::frame::{Frame, MAX_PAYLOAD};
use crate::serial::window::Window;

/// Room for the longest packet and what is read with it.
const CAPACITY: usize = 256;

/// Finds packets in a byte stream, whatever else is in it. Holds less than two of them; never allocates.
///
/// A false lead-in costs only itself: after a wrong length or CRC the bytes behind it are searched again, at once. The blocks of a fast status are
/// given one by one as they come, each with its own CRC, so that one that is damaged costs only itself; for that [`Decoder::expect`] has to
/// be given the request.
#[derive(Clone, Debug)]
pub struct Decoder {
    window: Window<CAPACITY>,
    corrupt: u64,
    asked: Option<Frame>,
    fast: Option<Fast>,
}

/// A fast status whose header has come.
#[derive(Clone, Copy, Debug)]
struct Fast {
    /// The next block.
    place: u8,
    /// The CRC of what came before it: as it was computed, and as it was received where that differs.
    crc: [u16; 2],
}

/// What is at the front of the buffer.
enum Front {
    Packet(Frame, usize),
    Header(Fast),
    Block(Option<Frame>, usize, Fast),
    /// The last block has come.
    FastEnd,
    /// Not a packet; this many bytes can go.
    Discard(usize),
    Corrupt,
    /// The packet is whole, and longer than any we send or ask for.
    TooLong(usize),
    Incomplete,
}

impl Decoder {
    /// With nothing received yet.
    pub const fn new() -> Self {
        Self { window: Window::new(), corrupt: 0, asked: None, fast: None }
    }

    /// This has been sent: what it asks for is expected, and nothing of what was asked before.
    pub fn expect(&mut self, request: &Frame) {
        self.asked = asked(request).next().is_some().then_some(*request);
        self.fast = None;
    }

    /// Takes bytes off the front of `input` until a packet or a block is complete. `None` once `input` is used up; a packet begun is kept
    /// for the next call.
    pub fn next(&mut self, input: &mut &[u8]) -> Option<Frame> {
        loop {
            match self.front() {
                Front::Packet(frame, len) => {
                    self.window.used(len);
                    return Some(frame);
                }
                Front::Header(fast) => {
                    self.window.used(FAST_HEADER);
                    self.fast = Some(fast);
                }
                Front::Block(frame, len, fast) => {
                    self.window.used(len);
                    self.fast = Some(fast);
                    match frame {
                        Some(frame) => return Some(frame),
                        None => self.corrupt += 1,
                    }
                }
                Front::FastEnd => self.fast = None,
                Front::Discard(count) => self.window.discard(count),
                Front::Corrupt => {
                    self.corrupt += 1;
                    self.window.discard(LEAD_IN.len() - 1);
                }
                Front::TooLong(len) => {
                    self.corrupt += 1;
                    self.window.discard(len);
                }
                Front::Incomplete if input.is_empty() => return None,
                Front::Incomplete => self.window.take(input),
            }
        }
    }

    /// Gives up the packet begun, as when its query has ended, so that [`Decoder::next`] searches what is behind its lead-in. `false` if
    /// nothing was begun; that a servo has added no block to a fast status is nothing.
    pub fn give_up(&mut self) -> bool {
        let begun = self.window.bytes().len();
        if self.fast.take().is_none() {
            self.window.discard(begun.min(LEAD_IN.len() - 1));
        }
        begun > 0
    }

    /// Bytes that belonged to no packet.
    pub const fn discarded(&self) -> u64 {
        self.window.discarded()
    }

    /// Packets and blocks whose CRC was wrong (or lead-ins that were none).
    pub const fn corrupt(&self) -> u64 {
        self.corrupt
    }

    fn questions(&self) -> Asked<'_> {
        self.asked.as_ref().map_or(Asked { item: None, rest: &[] }, asked)
    }

    fn front(&self) -> Front {
        let bytes = self.window.bytes();
        if let Some(fast) = self.fast {
            return self
                .questions()
                .nth(fast.place.into())
                .map_or(Front::FastEnd, |next| fast.block(next, bytes));
        }
        let noise = self.window.noise(LEAD_IN[0]);
        if noise > 0 {
            return Front::Discard(noise);
        }
        if bytes.iter().zip(LEAD_IN).any(|(byte, lead_in)| *byte != lead_in) {
            return Front::Discard(1);
        }
        match bytes.first_chunk::<FAST_HEADER>() {
            Some([.., BROADCAST, _, _, instruction::STATUS]) if self.is_fast() => {
                Front::Header(self.begun(&bytes[..FAST_HEADER]))
            }
            Some([.., id, low, high, instruction]) => {
                let len = usize::from(u16::from_le_bytes([*low, *high]));
                self.packet(bytes, *id, *instruction, len)
            }
            None => Front::Incomplete,
        }
    }

    /// A fast status is expected.
    fn is_fast(&self) -> bool {
        let instruction = self.asked.as_ref().and_then(parts).map(|(_, instruction)| instruction);
        matches!(instruction, Some(instruction::FAST_SYNC_READ | instruction::FAST_BULK_READ))
    }

    /// The header of a fast status: its length may be damaged, and is known.
    fn begun(&self, header: &[u8]) -> Fast {
        let blocks: usize = self.questions().map(|next| usize::from(next.len) + BLOCK).sum();
        let mut right = [0; FAST_HEADER];
        right.copy_from_slice(header);
        right[5..HEADER].copy_from_slice(&((1 + blocks) as u16).to_le_bytes());
        Fast { place: 0, crc: [crc16(0, header), crc16(0, &right)] }
    }

    /// The greatest length that a packet can claim: a damaged one is not to swallow those behind it.
    fn longest(&self, instruction: u8) -> usize {
        let data = self.questions().map(|next| usize::from(next.len)).max();
        let data = data.filter(|_| instruction == instruction::STATUS);
        let covered = data.map_or(1 + MAX_PAYLOAD, |data| (2 + data).min(1 + MAX_PAYLOAD));
        covered + covered / 3 + 2
    }

    fn packet(&self, bytes: &[u8], id: u8, instruction: u8, len: usize) -> Front {
        if len < 3 || HEADER + len > CAPACITY {
            return Front::Discard(1);
        }
        let is_long = len > self.longest(instruction);
        // What other programs write at once may be longer than our frames: it is skipped whole, unless it is a status, whose length is known.
        if is_long && instruction == instruction::STATUS {
            return Front::Corrupt;
        }
        let Some(whole) = bytes.get(..HEADER + len) else { return Front::Incomplete };
        let (covered, crc) = whole.split_at(whole.len() - 2);
        if crc != crc16(0, covered).to_le_bytes() {
            return Front::Corrupt;
        }
        unstuffed(id, instruction, &covered[HEADER + 1..]).map_or(Front::TooLong(whole.len()), |frame| {
            debug_assert!(is_long || whole.len() <= MAX_PACKET);
            Front::Packet(frame, whole.len())
        })
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Fast {
    /// The block that answers this question.
    fn block(self, next: Question, bytes: &[u8]) -> Front {
        let data_end = 2 + usize::from(next.len);
        let Some(whole) = bytes.get(..data_end + 2) else {
            // No block can be so long: what was asked is not to be had.
            return if data_end + 2 > CAPACITY { Front::FastEnd } else { Front::Incomplete };
        };
        let (covered, crc) = whole.split_at(data_end);
        let received = u16::from_le_bytes([crc[0], crc[1]]);
        let computed = self.crc.map(|before| crc16(before, covered));
        let is_right = computed.contains(&received) && covered[1] == next.id;
        // Of a damaged block either the data or the CRC are as they were sent.
        let after = if is_right { [received; 2] } else { [received, computed[0]] };
        let fast = Self {
            place: self.place.saturating_add(1),
            crc: after.map(|before| crc16(before, &before.to_le_bytes())),
        };
        if !is_right && whole.starts_with(&LEAD_IN) {
            return Front::FastEnd;
        }
        let (error, data) = (covered[0], &covered[2..]);
        let mut parameters = [0; MAX_PAYLOAD];
        let fits = parameters.get_mut(1..=data.len()).map(|room| room.copy_from_slice(data)).is_some();
        parameters[0] = error;
        let frame =
            (is_right && fits).then(|| block(next.id, self.place, &parameters[..=data.len()])).flatten();
        Front::Block(frame, whole.len(), fast)
    }
}

/// The packet of what was received between instruction and CRC; `None` if it is longer than a frame.
fn unstuffed(id: u8, instruction: u8, received: &[u8]) -> Option<Frame> {
    let (mut parameters, mut len) = ([0; MAX_PAYLOAD], 0);
    let mut window = [0; 3];
    for &byte in received {
        let is_stuffed = window == LEAD_IN[..3] && byte == 0xfd;
        window = [window[1], window[2], byte];
        if !is_stuffed {
            *parameters.get_mut(len)? = byte;
            len += 1;
        }
    }
    packet(id, instruction, &parameters[..len])
}
