//! The adapter's side, for emulation: [`Adapter`] as the fdcanusb does it, [`Uart`] as moteus does it on its
//! own serial port.

use super::{Checksum, HexError, LOWER, Text, UPPER, check, parse_hex, parse_id};
use crate::frame::{Frame, MAX_PAYLOAD};

/// Why a command line is refused; the text follows `ERR `.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal(pub &'static str);

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for Refusal {}

/// The plain dialect of a real fdcanusb.
///
/// Of its commands only `can send`, `can std` and `can ext` are understood.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adapter;

impl Adapter {
    /// The longest line it accepts.
    pub const MAX_INPUT: usize = 300;

    /// Reads a command line (without its end).
    ///
    /// # Errors
    /// The text the adapter answers.
    pub fn parse(self, line: &[u8]) -> Result<Frame, Refusal> {
        let mut words = line.split(|&byte| byte == b' ');
        if words.next() != Some(b"can") {
            return Err(Refusal("unknown command"));
        }
        let extended = match words.next() {
            Some(b"send") => None,
            Some(b"std") => Some(false),
            Some(b"ext") => Some(true),
            _ => return Err(Refusal("unknown subcommand")),
        };
        let (Some(id), Some(digits)) = (words.next(), words.next()) else {
            return Err(Refusal("insufficient options"));
        };
        let (brs, fd) = flags(words.next().unwrap_or(&[])).ok_or(Refusal("unknown flag"))?;
        if words.next().is_some() {
            return Err(Refusal("unknown flag"));
        }
        let id = parse_id(id).ok_or(Refusal("bad id"))?;
        let mut data = [0; MAX_PAYLOAD];
        let len = parse_hex(digits, &mut data).map_err(|error| match error {
            HexError::NotHex => Refusal("invalid data"),
            HexError::OddLength | HexError::TooLong => Refusal("data invalid length"),
        })?;
        if len == 0 {
            return Err(Refusal("insufficient options"));
        }
        let mut frame = Frame::new(id, &data[..len]).ok_or(Refusal("bad id"))?;
        (frame.brs, frame.fd) = (brs, fd);
        match extended {
            Some(false) if frame.extended => return Err(Refusal("bad id")),
            Some(extended) => frame.extended = extended,
            None => {}
        }
        Ok(frame)
    }

    /// Writes `OK`; its length, `None` if `out` is too small.
    pub fn write_ok(self, out: &mut [u8]) -> Option<usize> {
        Text::new(out).push(b"OK").end(false, b"\r\n")
    }

    /// Writes `ERR text`; its length, `None` if `out` is too small.
    pub fn write_refusal(self, refusal: Refusal, out: &mut [u8]) -> Option<usize> {
        Text::new(out).push(b"ERR ").push(refusal.0.as_bytes()).end(false, b"\r\n")
    }

    /// Writes `rcv ID DATA FLAGS`; its length, `None` if `out` is too small.
    pub fn write_received(self, frame: &Frame, out: &mut [u8]) -> Option<usize> {
        let digits = (32 - frame.id.leading_zeros()).div_ceil(8).max(1) * 2;
        let mut text = Text::new(out);
        text.push(b"rcv ").number(frame.id, digits, UPPER).push(b" ").hex(frame.payload(), UPPER);
        text.push(if frame.extended { b" E" } else { b" e" });
        text.push(if frame.brs { b" B" } else { b" b" });
        text.push(if frame.fd { b" F" } else { b" f" });
        text.push(b" r x-1").end(false, b"\r\n")
    }
}

/// Bit-rate switch and FD of a flags word; both are on unless switched off. Remote frames are not offered.
fn flags(word: &[u8]) -> Option<(bool, bool)> {
    word.iter().try_fold((true, true), |(brs, fd), flag| match flag {
        b'B' => Some((true, fd)),
        b'b' => Some((false, fd)),
        b'F' => Some((brs, true)),
        b'f' => Some((brs, false)),
        b'r' => Some((brs, fd)),
        _ => None,
    })
}

/// The checksummed dialect of moteus's UART.
///
/// Until a line with a right checksum has come, lines without one are accepted and answers carry none;
/// from then on every line must have one and every answer does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uart {
    checksums: bool,
}

impl Uart {
    /// The longest line it accepts.
    pub const MAX_INPUT: usize = 256;

    /// Freshly booted: checksums not yet seen.
    pub const fn new() -> Self {
        Self { checksums: false }
    }

    /// Reads a command line (without its end). Flags are ignored, data beyond 64 bytes too.
    ///
    /// # Errors
    /// The text the device answers.
    pub fn parse(&mut self, line: &[u8]) -> Result<Frame, Refusal> {
        let content = match check(line) {
            Checksum::Right(content) => {
                self.checksums = true;
                content
            }
            Checksum::Absent(content) if !self.checksums => content,
            _ => return Err(Refusal("checksum")),
        };
        let words = content.strip_prefix(b"can send ").ok_or(Refusal("unknown command"))?;
        let mut words = words.split(|&byte| byte == b' ');
        let id = words.next().and_then(parse_id).ok_or(Refusal("invalid hex in id"))?;
        let digits = words.next().filter(|digits| !digits.is_empty()).ok_or(Refusal("missing data"))?;
        let mut data = [0; MAX_PAYLOAD];
        let kept = &digits[..digits.len().min(2 * MAX_PAYLOAD)];
        let len = parse_hex(kept, &mut data).map_err(|_| Refusal("malformed data"))?;
        let frame = Frame::new(id, &data[..len]).ok_or(Refusal("invalid hex in id"))?;
        // moteus's own UART reads no flags; for other families one shows whether a frame is CAN-FD.
        let is_classic = words.next().is_some_and(|flags| flags.contains(&b'f'));
        Ok(Frame::classic(id, &data[..len]).filter(|_| is_classic).unwrap_or(frame))
    }

    /// Writes `OK`; its length, `None` if `out` is too small.
    pub fn write_ok(self, out: &mut [u8]) -> Option<usize> {
        Text::new(out).push(b"OK").end(self.checksums, b"\r\n")
    }

    /// Writes `ERR text`; its length, `None` if `out` is too small.
    pub fn write_refusal(self, refusal: Refusal, out: &mut [u8]) -> Option<usize> {
        Text::new(out).push(b"ERR ").push(refusal.0.as_bytes()).end(self.checksums, b"\r\n")
    }

    /// Writes `rcv ID DATA`; its length, `None` if `out` is too small.
    ///
    /// A zero-length frame gets flags, which the real device does not send: without them the official Python
    /// client (moteus 1.1.1) trims the line to two words and its reader dies. A frame of classic CAN gets them, too: no
    /// moteus sends one, but a host takes a frame without flags for CAN-FD.
    pub fn write_received(self, frame: &Frame, out: &mut [u8]) -> Option<usize> {
        let mut text = Text::new(out);
        text.push(b"rcv ").number(frame.id, 8, LOWER).push(b" ").hex(frame.payload(), LOWER);
        if !frame.fd {
            text.push(if frame.extended { b" E b f" } else { b" e b f" });
        } else if frame.payload().is_empty() {
            text.push(b" E B F");
        }
        text.end(self.checksums, b"\r\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(write: impl FnOnce(&mut [u8]) -> Option<usize>) -> ([u8; 192], usize) {
        let mut out = [0; 192];
        let len = write(&mut out).unwrap();
        (out, len)
    }

    #[test]
    fn the_uart_latches_checksums() {
        let mut uart = Uart::new();
        assert!(uart.parse(b"can send 8001 1100 BF").is_ok());
        let (ok, len) = line(|out| uart.write_ok(out));
        assert_eq!(&ok[..len], b"OK\r\n");

        let frame = uart.parse(b"can send 8001 11001F01130D BF *AD").unwrap();
        assert_eq!(frame, Frame::new(0x8001, &[0x11, 0, 0x1f, 1, 0x13, 0x0d]).unwrap());
        let (ok, len) = line(|out| uart.write_ok(out));
        assert_eq!(&ok[..len], b"OK *BD\r\n");

        let refusal = uart.parse(b"can send 8001 1100 BF").unwrap_err();
        let (error, len) = line(|out| uart.write_refusal(refusal, out));
        assert_eq!(&error[..len], b"ERR checksum *B8\r\n");
    }

    #[test]
    fn the_uart_refuses_with_its_own_words() {
        let mut uart = Uart::new();
        for (line, text) in [
            (&b"can on"[..], "unknown command"),
            (b"can send 8g 1100", "invalid hex in id"),
            (b"can send 8001", "missing data"),
            (b"can send 8001 110", "malformed data"),
            (b"can send 8001 11xx", "malformed data"),
            (b"can send 8001 1100 BF *00", "checksum"),
        ] {
            assert_eq!(uart.parse(line), Err(Refusal(text)));
        }
    }

    #[test]
    fn the_uart_reports_frames() {
        let mut uart = Uart::new();
        let data = b"\x21\0\x0a\x2f\x01\0\0\x80\x3e\0\0\x80\x3f\xcd\xcc\xcc\x3d\x23\x0d\x31\x1e\0\x50\x50";
        uart.parse(b"can send 807f 1804D00211D802 BF *7F").unwrap();
        let (text, len) = line(|out| uart.write_received(&Frame::new(0x100, data).unwrap(), out));
        let expected = b"rcv 00000100 21000a2f010000803e0000803fcdcccc3d230d311e005050 *0F\r\n";
        assert_eq!(&text[..len], expected);
        let (text, len) = line(|out| uart.write_received(&Frame::new(0x100, &[]).unwrap(), out));
        assert_eq!(&text[..len], b"rcv 00000100  E B F *8D\r\n");
        let (text, len) = line(|out| Uart::new().write_received(&Frame::classic(1, &[0xab]).unwrap(), out));
        assert_eq!(&text[..len], b"rcv 00000001 ab e b f\r\n");
    }

    #[test]
    fn the_adapter_takes_flags_and_reports_frames() {
        let frame = Adapter.parse(b"can send 100 1100 bf").unwrap();
        assert_eq!((frame.brs, frame.fd, frame.extended), (false, false, false));
        assert!(Adapter.parse(b"can ext 1 50").unwrap().extended);
        let (text, len) = line(|out| Adapter.write_received(&Frame::new(0x100, &[0xab]).unwrap(), out));
        assert_eq!(&text[..len], b"rcv 0100 AB e B F r x-1\r\n");
        let (text, len) = line(|out| Adapter.write_received(&Frame::new(0x12_8001, &[]).unwrap(), out));
        assert_eq!(&text[..len], b"rcv 128001  E B F r x-1\r\n");
    }

    #[test]
    fn the_adapter_refuses_with_its_own_words() {
        for (line, text) in [
            (&b"conf"[..], "unknown command"),
            (b"can foo", "unknown subcommand"),
            (b"can send 1", "insufficient options"),
            (b"can send 1  BF", "insufficient options"),
            (b"can send 1 50 B F", "unknown flag"),
            (b"can send 1 50 *7F", "unknown flag"),
            (b"can send 20000000 50", "bad id"),
            (b"can std 800 50", "bad id"),
            (b"can send 1 5", "data invalid length"),
            (b"can send 1 5x", "invalid data"),
        ] {
            assert_eq!(Adapter.parse(line), Err(Refusal(text)));
        }
    }
}
