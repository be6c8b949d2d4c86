//! Finds packets in a byte stream.

use super::{
    AROUND, BROADCAST, HEADER, LEAD_IN, MOST_ID, Status, checksum, encode, instruction, packet, parts,
};
use crate::frame::{Frame, MAX_PAYLOAD};
use crate::serial::window::Window;

/// Room for the longest packet and what is read with it.
const CAPACITY: usize = 512;

/// Who receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It receives replies.
    Host,
    /// It receives instructions, and the replies of other servos, which have their form.
    Servo,
}

/// Finds packets in a byte stream, whatever else is in it. Never allocates.
///
/// The checksum of eight bits lets one of 256 damaged packets pass. A host has more to go by: a reply is taken only from a servo that was
/// asked, with as many bytes as were asked for ([`Decoder::expect`]); an echo of its own request, as adapters give that do not switch their
/// receiver off, is none. What is to all servos it receives as it was sent.
#[derive(Clone, Debug)]
pub struct Decoder {
    end_of: End,
    window: Window<CAPACITY>,
    corrupt: u64,
    asked: Option<Frame>,
}

/// What is at the front of the buffer.
enum Front {
    Packet(Frame, usize),
    /// The host's own words; they are whole.
    Echo(usize),
    /// Not a packet; this many bytes can go.
    Discard(usize),
    Corrupt,
    /// The packet is whole, and longer than any we send or ask for.
    TooLong(usize),
    Incomplete,
}

impl Decoder {
    /// With nothing received yet.
    pub const fn new(end_of: End) -> Self {
        Self { end_of, window: Window::new(), corrupt: 0, asked: None }
    }

    /// This has been sent: its replies are expected, and those of nothing else.
    pub fn expect(&mut self, request: &Frame) {
        self.asked = Some(*request);
    }

    /// Takes bytes off the front of `input` until a packet is complete. `None` once `input` is used up; a packet begun is kept for the
    /// next call.
    pub fn next(&mut self, input: &mut &[u8]) -> Option<Frame> {
        loop {
            match self.front() {
                Front::Packet(frame, len) => {
                    self.window.used(len);
                    return Some(frame);
                }
                Front::Echo(count) | Front::Discard(count) => self.window.discard(count),
                Front::Corrupt => {
                    self.corrupt += 1;
                    self.window.discard(1);
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

    /// Gives up the packet begun, as when its query has ended, so that [`Decoder::next`] searches what is behind its first byte.
    /// `false` if nothing was begun.
    pub fn give_up(&mut self) -> bool {
        let begun = !self.window.bytes().is_empty();
        self.window.discard(usize::from(begun));
        begun
    }

    /// Bytes that belonged to no packet.
    pub const fn discarded(&self) -> u64 {
        self.window.discarded()
    }

    /// Packets with a wrong checksum or that came unasked (or lead-ins that were none).
    pub const fn corrupt(&self) -> u64 {
        self.corrupt
    }

    fn front(&self) -> Front {
        let bytes = self.window.bytes();
        let noise = self.window.noise(LEAD_IN[0]);
        if noise > 0 {
            return Front::Discard(noise);
        }
        match *bytes {
            [_, second, ..] if second != LEAD_IN[1] => Front::Discard(1),
            // The second byte may be the first of a packet that begins one later.
            [_, _, id, ..] if id > BROADCAST => Front::Discard(1),
            [_, _, _, len, ..] if len < 2 => Front::Discard(1),
            [_, _, id, len, ..] => self.packet(bytes, id, usize::from(len)),
            _ => Front::Incomplete,
        }
    }

    fn packet(&self, bytes: &[u8], id: u8, len: usize) -> Front {
        let data = len - 2;
        if self.end_of == End::Host {
            if let Some(echo) = self.echo(bytes) {
                return echo;
            }
            if id != BROADCAST && !self.is_expected(id, data) {
                return Front::Corrupt;
            }
        }
        let Some(whole) = bytes.get(..HEADER + len) else { return Front::Incomplete };
        let last = whole.len() - 1;
        if whole[last] != checksum(&whole[LEAD_IN.len()..last]) {
            return Front::Corrupt;
        }
        let (byte, parameters) = (whole[HEADER], &whole[HEADER + 1..last]);
        let frame = match self.end_of {
            // No reply: an earlier one of its own packets, or one of another program.
            End::Host if id == BROADCAST => packet(id, byte, parameters),
            End::Host => Status { id, conditions: byte, data: parameters }.packet(),
            // No servo of ours receives what has no instruction's number.
            End::Servo if byte == instruction::STATUS => None,
            End::Servo => packet(id, byte, parameters),
        };
        frame.map_or(Front::TooLong(whole.len()), |frame| Front::Packet(frame, whole.len()))
    }

    /// The request that was sent, come back. A reply that equals it, a servo in just these conditions whose bytes are just these, is not
    /// distinguished from it.
    fn echo(&self, bytes: &[u8]) -> Option<Front> {
        let mut own = [0; AROUND + MAX_PAYLOAD];
        let len = encode(self.asked.as_ref()?, &mut own)?;
        let begun = bytes.len().min(len);
        if bytes[..begun] != own[..begun] {
            return None;
        }
        Some(if begun == len { Front::Echo(len) } else { Front::Incomplete })
    }

    /// A reply with so many bytes was asked of this servo.
    fn is_expected(&self, from: u8, data: usize) -> bool {
        let Some(asked) = &self.asked else { return false };
        let Some((to, instruction)) = parts(asked) else { return false };
        let is_asked = from <= MOST_ID && (to == from || to == BROADCAST);
        match (instruction, asked.payload()) {
            (instruction::SYNC_READ, [_, len, ids @ ..]) => ids.contains(&from) && data == usize::from(*len),
            (instruction::READ, [_, len]) => is_asked && data == usize::from(*len),
            (instruction::SYNC_WRITE, _) => false,
            _ => is_asked && data == 0,
        }
    }
}
