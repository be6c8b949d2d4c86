//! The host's side: frames to send, and what comes back.

use super::{Checksum, Dialect, LOWER, Text, UPPER, check, parse_hex, parse_id};
use crate::frame::{Frame, MAX_PAYLOAD, PADDING, padded_len};

/// The longest line the official client accepts.
pub const MAX_INPUT: usize = 512;

/// Writes `can send ID DATA FLAGS` with its line end to `out`; its length.
///
/// The payload is padded to a length CAN-FD can express, as the adapter does not. The form is the official
/// Python client's. `None` if `out` is too small ([`super::MAX_LINE`] always is enough) or the payload is
/// empty, which the adapter refuses.
pub fn write_send(frame: &Frame, dialect: Dialect, out: &mut [u8]) -> Option<usize> {
    let payload = frame.payload();
    if payload.is_empty() {
        return None;
    }
    // The adapter takes the width from the identifier; only a short one in a wide frame must be named.
    let verb: &[u8] = if frame.extended && frame.id <= 0x7ff { b"can ext " } else { b"can send " };
    let padding = &[PADDING; MAX_PAYLOAD][..padded_len(payload.len()) - payload.len()];
    let mut text = Text::new(out);
    text.push(verb).number(frame.id, 4, LOWER).push(b" ").hex(payload, UPPER).hex(padding, UPPER);
    text.push(if frame.brs { b" B" } else { b" b" }).push(if frame.fd { b"F" } else { b"f" });
    text.end(dialect == Dialect::Uart, b"\n")
}

/// A line from the adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromAdapter<'a> {
    /// The oldest outstanding command was accepted.
    Ok,
    /// The oldest outstanding command was refused, with this text.
    Error(&'a [u8]),
    /// A frame from the bus. Without flags it counts as FD with bit-rate switch, and extended as its
    /// identifier requires.
    Received(Frame),
    /// Something else (the answer to a configuration command), to be ignored.
    Other,
}

/// Why a line from the adapter is useless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineError {
    /// No checksum where every line has one.
    ChecksumMissing,
    /// The line was damaged on its way.
    ChecksumWrong,
    /// A received frame with an identifier or data that is no hex, too long, or odd.
    Malformed,
}

impl core::fmt::Display for LineError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::ChecksumMissing => "line without checksum",
            Self::ChecksumWrong => "checksum wrong",
            Self::Malformed => "malformed received frame",
        })
    }
}

impl core::error::Error for LineError {}

/// Reads a line from the adapter (without its end).
///
/// # Errors
/// See [`LineError`]. Such a line is best counted and ignored: the frame it held is lost.
pub fn parse(line: &[u8], dialect: Dialect) -> Result<FromAdapter<'_>, LineError> {
    let content = match (check(line), dialect) {
        (Checksum::Wrong, _) => return Err(LineError::ChecksumWrong),
        (Checksum::Absent(_), Dialect::Uart) => return Err(LineError::ChecksumMissing),
        (Checksum::Absent(content) | Checksum::Right(content), _) => content,
    };
    Ok(match content {
        [b'O', b'K', ..] => FromAdapter::Ok,
        [b'E', b'R', b'R', text @ ..] => FromAdapter::Error(text.trim_ascii_start()),
        [b'r', b'c', b'v', b' ', fields @ ..] => parse_received(fields)?,
        _ => FromAdapter::Other,
    })
}

fn parse_received(fields: &[u8]) -> Result<FromAdapter<'static>, LineError> {
    let mut fields = fields.split(|&byte| byte == b' ');
    let id = fields.next().and_then(parse_id).ok_or(LineError::Malformed)?;
    // No data field at all is a zero-length frame whose trailing space was trimmed.
    let mut data = [0; MAX_PAYLOAD];
    let len = parse_hex(fields.next().unwrap_or(&[]), &mut data).map_err(|_| LineError::Malformed)?;
    let mut frame = Frame::new(id, &data[..len]).ok_or(LineError::Malformed)?;
    for flag in fields {
        match flag {
            b"E" => frame.extended = true,
            b"e" => frame.extended = false,
            b"B" => frame.brs = true,
            b"b" => frame.brs = false,
            b"F" => frame.fd = true,
            b"f" => frame.fd = false,
            b"R" => {
                let extended = frame.extended;
                frame = Frame::remote(id, 0).ok_or(LineError::Malformed)?;
                frame.extended = extended;
            }
            _ => {}
        }
    }
    Ok(FromAdapter::Received(frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(id: u32, payload: &[u8], dialect: Dialect) -> ([u8; 192], usize) {
        let mut out = [0; 192];
        let len = write_send(&Frame::new(id, payload).unwrap(), dialect, &mut out).unwrap();
        (out, len)
    }

    #[test]
    fn sends_what_the_python_client_sends() {
        let query = [0x11, 0, 0x1f, 1, 0x13, 0x0d];
        let (line, len) = sent(0x8001, &query, Dialect::Uart);
        assert_eq!(&line[..len], b"can send 8001 11001F01130D BF *AD\n");
        let (line, len) = sent(0x8001, &query, Dialect::Adapter);
        assert_eq!(&line[..len], b"can send 8001 11001F01130D BF\n");
        let (line, len) = sent(1, b"\x40\x01\x07d stop\n", Dialect::Uart);
        assert_eq!(&line[..len], b"can send 0001 400107642073746F700A5050 BF *12\n");
    }

    #[test]
    fn refuses_an_empty_payload_and_a_small_buffer() {
        let empty = Frame::new(0x8001, &[]).unwrap();
        assert_eq!(write_send(&empty, Dialect::Uart, &mut [0; 192]), None);
        let query = Frame::new(0x8001, &[0x11, 0]).unwrap();
        let whole = b"can send 8001 1100 BF *XX\n".len();
        for len in 0..whole {
            assert_eq!(write_send(&query, Dialect::Uart, &mut [0; 64][..len]), None);
        }
        assert_eq!(write_send(&query, Dialect::Uart, &mut [0; 64][..whole]), Some(whole));
    }

    #[test]
    fn a_short_identifier_in_a_wide_frame_is_named() {
        let mut frame = Frame::new(1, &[0x50]).unwrap();
        frame.extended = true;
        let mut out = [0; 64];
        let len = write_send(&frame, Dialect::Adapter, &mut out).unwrap();
        assert_eq!(&out[..len], b"can ext 0001 50 BF\n");
    }

    #[test]
    fn receives_from_both_dialects() {
        let data = [0x21, 0, 0x0a, 0x50];
        let mut expected = Frame::new(0x100, &data).unwrap();
        let adapter = parse(b"rcv 0100 21000A50 e B F r x-1", Dialect::Adapter);
        assert_eq!(adapter, Ok(FromAdapter::Received(expected)));
        expected.extended = true;
        expected.brs = false;
        let flagged = parse(b"rcv 00000100 21000a50 E b F t123 f00", Dialect::Adapter);
        assert_eq!(flagged, Ok(FromAdapter::Received(expected)));
    }

    #[test]
    fn a_zero_length_frame_survives_trimming() {
        for line in [&b"rcv 00000100  *FD"[..], b"rcv 00000100  E B F *8D"] {
            let Ok(FromAdapter::Received(frame)) = parse(line, Dialect::Uart) else { panic!("a frame") };
            assert!(frame.payload().is_empty());
        }
    }

    #[test]
    fn answers_and_errors() {
        assert_eq!(parse(b"OK *BD", Dialect::Uart), Ok(FromAdapter::Ok));
        assert_eq!(parse(b"ERR checksum *B8", Dialect::Uart), Ok(FromAdapter::Error(b"checksum")));
        assert_eq!(parse(b"OK", Dialect::Uart), Err(LineError::ChecksumMissing));
        assert_eq!(parse(b"OK *BC", Dialect::Adapter), Err(LineError::ChecksumWrong));
        assert_eq!(parse(b"clock 17", Dialect::Adapter), Ok(FromAdapter::Other));
        for bad in [&b"rcv  50"[..], b"rcv 100 5", b"rcv 100 5g", b"rcv g 50"] {
            assert_eq!(parse(bad, Dialect::Adapter), Err(LineError::Malformed));
        }
    }
}
