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
//! Both sides cut their byte stream into lines with [`Lines`](crate::text::Lines).

pub mod device;
pub mod host;

use crate::text::{HexError, LOWER, Text, UPPER, digit, parse_hex};

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

/// Checks the checksum at the end of a line.
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

/// 1–8 hex digits of a 29-bit identifier; more are allowed if they are leading zeros.
fn parse_id(digits: &[u8]) -> Option<u32> {
    let value = digits
        .iter()
        .try_fold(0_u32, |value, &byte| (value < 1 << 28).then_some(value << 4 | u32::from(digit(byte)?)))?;
    (!digits.is_empty() && value < 1 << 29).then_some(value)
}

impl Text<'_> {
    /// Adds the checksum, if wanted, and the line end. The line's length, or `None` if it did not fit.
    fn end(&mut self, checksum: bool, line_end: &[u8]) -> Option<usize> {
        if checksum {
            self.push(b" ");
            let crc = crc8(self.written());
            self.push(b"*").number(u32::from(crc), 2, UPPER);
        }
        self.push(line_end);
        self.finish()
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
    fn identifiers_have_29_bits_and_any_leading_zeros() {
        assert_eq!(parse_id(b"8001"), Some(0x8001));
        assert_eq!(parse_id(b"1fffFFFF"), Some(0x1fff_ffff));
        assert_eq!(parse_id(b"000000000100"), Some(0x100));
        for bad in [&b""[..], b"20000000", b"100000000", b"8x"] {
            assert_eq!(parse_id(bad), None);
        }
    }
}
