//! One end of a line.

use super::{Decoder, FastStatus, Status, encode, instruction, parts, place};
use crate::frame::Frame;

/// One end of a line, the host's or the servos': it knows what was asked, so that it finds the blocks of the answer to a fast read, or writes them.
#[derive(Clone, Debug)]
pub struct End {
    decoder: Decoder,
    /// The newest packet that was received.
    request: Option<Frame>,
    /// The answer under way.
    fast: Option<FastStatus>,
}

impl End {
    /// With nothing received yet.
    pub const fn new() -> Self {
        Self { decoder: Decoder::new(), request: None, fast: None }
    }

    /// Writes a packet, or a block behind those before it; its length. `None` if it does not fit, or is a block that was not asked for.
    pub fn write(&mut self, frame: &Frame, out: &mut [u8]) -> Option<usize> {
        let Some(place) = place(frame) else {
            let len = encode(frame, out)?;
            if parts(frame).is_some_and(|(_, instruction)| instruction != instruction::STATUS) {
                self.decoder.expect(frame);
            }
            return Some(len);
        };
        let status = Status::parse(frame)?;
        let mut header = 0;
        if place == 0 {
            let (fast, len) = FastStatus::begin(&self.request?, out)?;
            (self.fast, header) = (Some(fast), len);
        }
        Some(header + self.fast.as_mut()?.add(&status, out.get_mut(header..)?)?)
    }

    /// See [`Decoder::next`].
    pub fn next(&mut self, input: &mut &[u8]) -> Option<Frame> {
        let found = self.decoder.next(input)?;
        if place(&found).is_none() {
            (self.request, self.fast) = (Some(found), None);
        }
        Some(found)
    }

    /// See [`Decoder::give_up`].
    pub fn give_up(&mut self) -> bool {
        self.decoder.give_up()
    }

    /// See [`Decoder::corrupt`].
    pub const fn corrupt(&self) -> u64 {
        self.decoder.corrupt()
    }
}

impl Default for End {
    fn default() -> Self {
        Self::new()
    }
}
