//! Lines of text: cut out of a byte stream, read, and written, without allocating.

/// Cuts a byte stream into lines without allocating. `N` bounds a line's length.
///
/// A longer line is dropped whole, and counted.
#[derive(Clone, Debug)]
pub struct Lines<const N: usize> {
    buffer: [u8; N],
    len: usize,
    overlong: bool,
    dropped: u64,
}

impl<const N: usize> Lines<N> {
    /// With nothing received yet.
    pub const fn new() -> Self {
        Self { buffer: [0; N], len: 0, overlong: false, dropped: 0 }
    }

    /// Takes bytes off the front of `input` up to the end of the next line, and gives that line without its
    /// end. `None` once `input` is used up; what it left of a line is kept for the next call.
    pub fn next(&mut self, input: &mut &[u8]) -> Option<&[u8]> {
        loop {
            let (len, _) = self.cut(input, |byte| matches!(byte, b'\r' | b'\n'))?;
            if len > 0 {
                return Some(&self.buffer[..len]);
            }
        }
    }

    /// The same for lines that end where `is_end` is true: also empty ones, and with the byte that ended it.
    pub fn next_ended(&mut self, input: &mut &[u8], is_end: impl Fn(u8) -> bool) -> Option<(&[u8], u8)> {
        self.cut(input, is_end).map(|(len, end)| (&self.buffer[..len], end))
    }

    /// How long the next line is, which the buffer begins with, and the byte that ended it.
    fn cut(&mut self, input: &mut &[u8], is_end: impl Fn(u8) -> bool) -> Option<(usize, u8)> {
        loop {
            let Some(at) = input.iter().position(|byte| is_end(*byte)) else {
                self.keep(input);
                *input = &[];
                return None;
            };
            self.keep(&input[..at]);
            let end = input[at];
            *input = &input[at + 1..];
            let len = core::mem::take(&mut self.len);
            if !core::mem::take(&mut self.overlong) {
                return Some((len, end));
            }
            self.dropped += 1;
        }
    }

    /// Forgets a line begun, as after reopening the port.
    pub fn clear(&mut self) {
        (self.len, self.overlong) = (0, false);
    }

    /// Lines dropped because they were too long.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    fn keep(&mut self, part: &[u8]) {
        match self.buffer[self.len..].get_mut(..part.len()) {
            Some(room) if !self.overlong => {
                room.copy_from_slice(part);
                self.len += part.len();
            }
            _ => (self.len, self.overlong) = (0, true),
        }
    }
}

impl<const N: usize> Default for Lines<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// A line being written; remembers if it did not fit.
pub(crate) struct Text<'a> {
    buffer: &'a mut [u8],
    len: usize,
    full: bool,
}

/// Which hex digits to write.
pub(crate) type Alphabet = &'static [u8; 16];
pub(crate) const LOWER: Alphabet = b"0123456789abcdef";
pub(crate) const UPPER: Alphabet = b"0123456789ABCDEF";

impl<'a> Text<'a> {
    pub(crate) fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, len: 0, full: false }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) -> &mut Self {
        match self.buffer[self.len..].get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.full = true,
        }
        self
    }

    /// `digits` or as many as the number needs.
    pub(crate) fn number(&mut self, value: u32, digits: u32, alphabet: Alphabet) -> &mut Self {
        let needed = (32 - value.leading_zeros()).div_ceil(4);
        for i in (0..needed.max(digits)).rev() {
            self.push(&[alphabet[(value >> (4 * i) & 0xf) as usize]]);
        }
        self
    }

    pub(crate) fn written(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// The line's length, or `None` if it did not fit.
    pub(crate) fn finish(&self) -> Option<usize> {
        (!self.full).then_some(self.len)
    }

    pub(crate) fn hex(&mut self, bytes: &[u8], alphabet: Alphabet) -> &mut Self {
        let Some(room) = self.buffer[self.len..].get_mut(..2 * bytes.len()) else {
            self.full = true;
            return self;
        };
        for (pair, &byte) in room.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
            *pair = [alphabet[usize::from(byte >> 4)], alphabet[usize::from(byte & 0xf)]];
        }
        self.len += 2 * bytes.len();
        self
    }
}

pub(crate) fn digit(byte: u8) -> Option<u8> {
    let value = DIGITS[usize::from(byte)];
    (value < 16).then_some(value)
}

/// The value of each hex digit; 255 for other bytes.
static DIGITS: [u8; 256] = {
    let mut table = [255; 256];
    let mut i = 0;
    while i < 16 {
        table[b"0123456789abcdef"[i] as usize] = i as u8;
        table[b"0123456789ABCDEF"[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// Why hex data is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HexError {
    OddLength,
    NotHex,
    TooLong,
}

/// Decodes pairs of hex digits into `bytes`; how many there were.
pub(crate) fn parse_hex(digits: &[u8], bytes: &mut [u8]) -> Result<usize, HexError> {
    let (pairs, odd) = digits.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(HexError::OddLength);
    }
    let target = bytes.get_mut(..pairs.len()).ok_or(HexError::TooLong)?;
    // One check at the end: a byte that is no digit leaves a bit above the fourth.
    let mut seen = 0;
    for (byte, &[high, low]) in target.iter_mut().zip(pairs) {
        let (high, low) = (DIGITS[usize::from(high)], DIGITS[usize::from(low)]);
        seen |= high | low;
        *byte = high << 4 | low & 0xf;
    }
    if seen < 16 { Ok(pairs.len()) } else { Err(HexError::NotHex) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_lines_wherever_the_pieces_end() {
        let text = b"OK\r\n\r\nrcv 0100 50\nERR x\r";
        for cut in 0..text.len() {
            let mut lines = Lines::<16>::new();
            let mut count = 0;
            for mut piece in [&text[..cut], &text[cut..]] {
                while let Some(line) = lines.next(&mut piece) {
                    assert_eq!(line, [&b"OK"[..], b"rcv 0100 50", b"ERR x"][count]);
                    count += 1;
                }
            }
            assert_eq!(count, 3);
        }
    }

    #[test]
    fn drops_overlong_lines_whole() {
        let mut lines = Lines::<4>::new();
        let mut input = &b"12345\n1234\n123456789"[..];
        assert_eq!(lines.next(&mut input), Some(&b"1234"[..]));
        assert_eq!(lines.next(&mut input), None);
        assert_eq!(lines.next(&mut &b"0\nOK\n"[..]), Some(&b"OK"[..]));
        assert_eq!(lines.dropped(), 2);
    }
}
