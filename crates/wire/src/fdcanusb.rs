//! Frames as lines of text: the fdcanusb adapter, and the checksummed variant moteus speaks on its UART.
//!
//! The host sends `can send 8001 1100 BF`; the adapter answers `OK` or `ERR text`, and reports frames of the
//! bus as `rcv 0100 21000A e B F r x-1` at any time. On a UART every line ends in a CRC-8, ` *XX`. Which
//! bytes are legal where is from mjbots/fdcanusb `fw/can_manager.cc` and mjbots/moteus
//! `fw/uart_fdcanusb_micro_server.h`; the forms the official clients send are in `docs/protocol.md`.
//!
//! | side | lines out | lines in |
//! |---|---|---|
//! | [`host`] | [`host::write_send`] | [`host::parse`] |
//! | [`device`] | [`device::Adapter`], [`device::Uart`] | the same |
//!
//! Both sides cut their byte stream into lines with [`Lines`].

pub mod device;
pub mod host;

/// Which of the two variants a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// A real fdcanusb on USB: plain lines; a checksum is checked where there is one.
    Adapter,
    /// A UART or pseudo terminal: every line carries a checksum, and one without is ignored.
    Uart,
}

/// Room for any line [`host`] or [`device`] writes: `can send` with 8 digits of identifier, 64 bytes of data,
/// flags, checksum and line end.
pub const MAX_LINE: usize = 192;

/// Cuts a byte stream into lines without allocating. `N` bounds a line's length.
///
/// `\r` and `\n` each end a line; empty lines are skipped. A longer line is dropped whole, and counted.
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
            let Some(end) = input.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
                self.keep(input);
                *input = &[];
                return None;
            };
            self.keep(&input[..end]);
            *input = &input[end + 1..];
            let len = core::mem::take(&mut self.len);
            if core::mem::take(&mut self.overlong) {
                self.dropped += 1;
            } else if len > 0 {
                return Some(&self.buffer[..len]);
            }
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

/// CRC-8, polynomial 0x97, initial value 0, most significant bit first.
pub fn crc8(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |crc, &byte| CRC8[usize::from(crc ^ byte)])
}

static CRC8: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut bit) = (i as u8, 0);
        while bit < 8 {
            crc = (crc << 1) ^ if crc & 0x80 != 0 { 0x97 } else { 0 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// What the end of a line says about its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checksum<'a> {
    Absent(&'a [u8]),
    Right(&'a [u8]),
    Wrong,
}

/// Trims the line's right side and takes the checksum off. It is one if a `*` is the third byte from the end;
/// it covers everything before the `*`, the space included.
fn check(line: &[u8]) -> Checksum<'_> {
    let line = line.trim_ascii_end();
    let Some((content, [b'*', high, low])) = line.split_last_chunk() else { return Checksum::Absent(line) };
    match (digit(*high), digit(*low)) {
        (Some(high), Some(low)) if high << 4 | low == crc8(content) => {
            Checksum::Right(content.trim_ascii_end())
        }
        _ => Checksum::Wrong,
    }
}

fn digit(byte: u8) -> Option<u8> {
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

/// 1–8 hex digits of a 29-bit identifier; more are allowed if they are leading zeros.
fn parse_id(digits: &[u8]) -> Option<u32> {
    let value = digits
        .iter()
        .try_fold(0_u32, |value, &byte| (value < 1 << 28).then_some(value << 4 | u32::from(digit(byte)?)))?;
    (!digits.is_empty() && value < 1 << 29).then_some(value)
}

/// Why hex data is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HexError {
    OddLength,
    NotHex,
    TooLong,
}

/// Decodes pairs of hex digits into `bytes`; how many there were.
fn parse_hex(digits: &[u8], bytes: &mut [u8]) -> Result<usize, HexError> {
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

/// A line being written; remembers if it did not fit.
struct Text<'a> {
    buffer: &'a mut [u8],
    len: usize,
    full: bool,
}

/// Which hex digits to write.
type Alphabet = &'static [u8; 16];
const LOWER: Alphabet = b"0123456789abcdef";
const UPPER: Alphabet = b"0123456789ABCDEF";

impl<'a> Text<'a> {
    fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, len: 0, full: false }
    }

    fn push(&mut self, bytes: &[u8]) -> &mut Self {
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
    fn number(&mut self, value: u32, digits: u32, alphabet: Alphabet) -> &mut Self {
        let needed = (32 - value.leading_zeros()).div_ceil(4);
        for i in (0..needed.max(digits)).rev() {
            self.push(&[alphabet[(value >> (4 * i) & 0xf) as usize]]);
        }
        self
    }

    fn hex(&mut self, bytes: &[u8], alphabet: Alphabet) -> &mut Self {
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

    /// Adds the checksum, if wanted, and the line end. The line's length, or `None` if it did not fit.
    fn end(&mut self, checksum: bool, line_end: &[u8]) -> Option<usize> {
        if checksum {
            self.push(b" ");
            let crc = crc8(&self.buffer[..self.len]);
            self.push(b"*").number(u32::from(crc), 2, UPPER);
        }
        self.push(line_end);
        (!self.full).then_some(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_of_the_crc() {
        assert_eq!(crc8(b"123456789"), 0x94);
    }

    #[test]
    fn takes_checksums_off() {
        assert_eq!(check(b"OK *BD"), Checksum::Right(b"OK"));
        assert_eq!(check(b"OK *bd \r"), Checksum::Right(b"OK"));
        assert_eq!(check(b"OK *BE"), Checksum::Wrong);
        assert_eq!(check(b"OK *BX"), Checksum::Wrong);
        assert_eq!(check(b"OK"), Checksum::Absent(b"OK"));
        assert_eq!(check(b"*"), Checksum::Absent(b"*"));
    }

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

    #[test]
    fn identifiers_have_29_bits_and_any_leading_zeros() {
        assert_eq!(parse_id(b"8001"), Some(0x8001));
        assert_eq!(parse_id(b"1fffFFFF"), Some(0x1fff_ffff));
        assert_eq!(parse_id(b"000000000100"), Some(0x100));
        for bad in [&b""[..], b"20000000", b"100000000", b"8x"] {
            assert_eq!(parse_id(bad), None);
        }
    }
}
