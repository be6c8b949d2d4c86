//! Frames on a serial line: lead-in, addresses, size, payload, CRC-16 (mjbots/mjlib
//! `mjlib/multiplex/format.h`).
//!
//! | offset | field |
//! |---|---|
//! | 0 | `54 ab` |
//! | 2 | source; bit 7: a reply is wanted |
//! | 3 | destination |
//! | 4 | size of the payload, a varuint |
//! | 5… | payload, not padded |
//! | end | CRC-16 of all before, low byte first |
//!
//! Nothing is escaped: the lead-in may occur inside a frame, so [`Decoder`] trusts only the CRC.

use crate::address::Address;
use crate::frame::{Frame, MAX_PAYLOAD};
use crate::serial::crc;
use crate::serial::window::Window;
use crate::subframe::{read_varuint, varuint_len, write_varuint};

const LEAD_IN: [u8; 2] = [0x54, 0xab];

/// The longest frame [`encode`] writes.
pub const MAX_FRAME: usize = frame_len(MAX_PAYLOAD);

/// Bytes on the wire of a frame with so many bytes of payload.
pub const fn frame_len(payload: usize) -> usize {
    2 + 2 + varuint_len(payload as u32) + payload + 2
}

/// The envelope has room for all of the frame's identifier: no prefix travels, and no remote frame.
pub const fn carries(frame: &Frame) -> bool {
    Address::from_id(frame.id).prefix == 0 && frame.remote.is_none()
}

/// Writes a frame to `out`; its length, or `None` if it does not fit. The address's prefix does not travel.
pub fn encode(frame: &Frame, out: &mut [u8]) -> Option<usize> {
    let address = Address::from_id(frame.id);
    let payload = frame.payload();
    let out = out.get_mut(..frame_len(payload.len()))?;
    out[..2].copy_from_slice(&LEAD_IN);
    out[2] = address.source | if address.reply { 0x80 } else { 0 };
    out[3] = address.destination;
    let head = 4 + write_varuint(payload.len() as u32, &mut out[4..])?;
    let end = head + payload.len();
    out[head..end].copy_from_slice(payload);
    let crc = crc16(&out[..end]);
    out[end..].copy_from_slice(&crc.to_le_bytes());
    Some(out.len())
}

/// Finds frames in a byte stream, whatever else is in it. Holds less than two frames; never allocates.
///
/// A false lead-in costs only itself: after a wrong size or CRC the bytes behind it are searched again, at
/// once.
#[derive(Clone, Debug)]
pub struct Decoder {
    window: Window<CAPACITY>,
    corrupt: u64,
}

/// The longest frame with the longest form of its size is 75 bytes.
const CAPACITY: usize = 128;

/// What is at the front of the buffer.
enum Front {
    Frame(Frame, usize),
    /// Not a frame; this many bytes can go.
    Discard(usize),
    Corrupt,
    Incomplete,
}

impl Decoder {
    /// With nothing received yet.
    pub const fn new() -> Self {
        Self { window: Window::new(), corrupt: 0 }
    }

    /// Takes bytes off the front of `input` until a frame is complete. `None` once `input` is used up; a
    /// frame begun is kept for the next call.
    pub fn next(&mut self, input: &mut &[u8]) -> Option<Frame> {
        loop {
            match self.front() {
                Front::Frame(frame, len) => {
                    self.window.used(len);
                    return Some(frame);
                }
                Front::Discard(count) => self.window.discard(count),
                Front::Corrupt => {
                    self.corrupt += 1;
                    self.window.discard(LEAD_IN.len());
                }
                Front::Incomplete if input.is_empty() => return None,
                Front::Incomplete => self.window.take(input),
            }
        }
    }

    /// Gives up the frame begun, as after a query that ended without its rest: discards its lead-in, so that
    /// [`Decoder::next`] searches what is behind. `false` if nothing was begun.
    ///
    /// ```
    /// # let mut decoder = khz_wire::rs485::Decoder::new();
    /// while decoder.give_up() {
    ///     while let Some(frame) = decoder.next(&mut &[][..]) { /* take it */ }
    /// }
    /// ```
    pub fn give_up(&mut self) -> bool {
        let begun = self.window.bytes().len();
        self.window.discard(begun.min(LEAD_IN.len()));
        begun > 0
    }

    /// Bytes that belonged to no frame.
    pub const fn discarded(&self) -> u64 {
        self.window.discarded()
    }

    /// Frames whose CRC was wrong (or lead-ins that were none).
    pub const fn corrupt(&self) -> u64 {
        self.corrupt
    }

    fn front(&self) -> Front {
        let (bytes, noise) = (self.window.bytes(), self.window.noise(LEAD_IN[0]));
        match bytes {
            _ if noise > 0 => Front::Discard(noise),
            [] | [_] => Front::Incomplete,
            [_, second, ..] if *second != LEAD_IN[1] => Front::Discard(1),
            [_, _, source, destination, rest @ ..] => complete(bytes, *source, *destination, rest),
            _ => Front::Incomplete,
        }
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads on from the size.
fn complete(bytes: &[u8], source: u8, destination: u8, rest: &[u8]) -> Front {
    let Some((size, size_len)) = read_varuint(rest) else { return Front::Incomplete };
    let size = size as usize;
    if size > MAX_PAYLOAD {
        return Front::Discard(1);
    }
    let head = 4 + size_len;
    let Some(whole) = bytes.get(..head + size + 2) else { return Front::Incomplete };
    let (covered, crc) = whole.split_at(head + size);
    if crc != crc16(covered).to_le_bytes() {
        return Front::Corrupt;
    }
    let address = Address { prefix: 0, source: source & 0x7f, destination, reply: source & 0x80 != 0 };
    match Frame::new(address.id(), &covered[head..]) {
        Some(frame) => Front::Frame(frame, whole.len()),
        None => Front::Corrupt,
    }
}

/// CRC-16/CCITT-FALSE: polynomial 0x1021, initial value 0xffff, most significant bit first.
pub fn crc16(bytes: &[u8]) -> u16 {
    crc::crc16(&CRC16, 0xffff, bytes)
}

static CRC16: [u16; 256] = crc::table(0x1021);

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: [u8; 7] = [0x54, 0xab, 0x01, 0x02, 0x00, 0x03, 0x28];
    const QUERY: [u8; 13] = *b"\x54\xab\x80\x01\x06\x11\x00\x1f\x01\x13\x0d\x89\xcb";

    #[track_caller]
    fn finds(stream: &[u8], ids: &[u32], discarded: u64) -> Decoder {
        for cut in 0..=stream.len() {
            let mut decoder = Decoder::new();
            let mut found = 0;
            for mut piece in [&stream[..cut], &stream[cut..]] {
                while let Some(frame) = decoder.next(&mut piece) {
                    assert_eq!(frame.id, ids[found]);
                    found += 1;
                }
            }
            assert_eq!((found, decoder.discarded()), (ids.len(), discarded), "cut at {cut}");
        }
        let (mut decoder, mut input) = (Decoder::new(), stream);
        while decoder.next(&mut input).is_some() {}
        decoder
    }

    #[test]
    fn check_value_of_the_crc() {
        assert_eq!(crc16(b"123456789"), 0x29b1);
    }

    #[test]
    fn encodes_the_default_query() {
        let frame = Frame::new(0x8001, &[0x11, 0, 0x1f, 1, 0x13, 0x0d]).unwrap();
        let mut out = [0; MAX_FRAME];
        assert_eq!(encode(&frame, &mut out), Some(13));
        assert_eq!(out[..13], QUERY);
        assert_eq!(encode(&frame, &mut out[..12]), None);
        assert_eq!(Decoder::new().next(&mut &QUERY[..]), Some(frame));
    }

    #[test]
    fn resynchronises_after_anything() {
        let join = |parts: &[&[u8]]| {
            let (mut all, mut len) = ([0; 128], 0);
            for part in parts {
                all[len..len + part.len()].copy_from_slice(part);
                len += part.len();
            }
            (all, len)
        };
        let (mut bad, lone) = (QUERY, [0x54]);
        bad[7] ^= 1;
        for (parts, ids, discarded) in [
            (&[&b"noise"[..], &QUERY][..], &[0x8001][..], 5),
            (&[&lone, &QUERY, &EMPTY], &[0x8001, 0x102], 1),
            (&[&[0x54, 0x00], &QUERY], &[0x8001], 2),
            (&[&bad, &QUERY], &[0x8001], 13),
            (&[&[0x54, 0xab, 0x80, 0x01, 0xff, 0x01], &QUERY], &[0x8001], 6),
            (&[&[0x54, 0xab, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], &EMPTY], &[0x102], 9),
            // A lead-in whose size swallows the real frame: found when the size's frame proves corrupt.
            (&[&[0x54, 0xab, 0x01, 0x02, 12], &QUERY, &EMPTY], &[0x8001, 0x102], 5),
        ] {
            let (stream, len) = join(parts);
            finds(&stream[..len], ids, discarded);
        }
    }

    #[test]
    fn silence_frees_a_frame_stuck_behind_a_false_lead_in() {
        let mut decoder = Decoder::new();
        assert_eq!(decoder.next(&mut &[0x54, 0xab, 0x01, 0x02, 60][..]), None);
        assert_eq!(decoder.next(&mut &QUERY[..]), None);
        let mut found = 0;
        while decoder.give_up() {
            while decoder.next(&mut &[][..]).is_some() {
                found += 1;
            }
        }
        assert_eq!(found, 1);
        assert!(!decoder.give_up());
    }

    #[test]
    fn counts_corrupt_frames() {
        let mut bad = QUERY;
        bad[12] ^= 0x40;
        assert_eq!(finds(&bad, &[], 13).corrupt(), 1);
    }
}
