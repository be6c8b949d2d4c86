//! Frames as lines of text, as slcan adapters speak them: Lawicel's protocol, with CANable's lines for CAN-FD.
//!
//! | line | frame |
//! |---|---|
//! | `tIIILDD…`, `TIIIIIIIILDD…` | classic, 11 and 29 bits of identifier |
//! | `rIIIL`, `RIIIIIIIIL` | remote, 11 and 29 bits of identifier: no data follows the length |
//! | `d…`, `D…` | CAN-FD at one bit rate |
//! | `b…`, `B…` | CAN-FD, data phase at the data bit rate |
//!
//! `L` is a hex digit for the length: 0 to 8, from 9 on CAN-FD's 12, 16, 20, 24, 32, 48, 64. A line ends in a carriage return. Adapters
//! answer commands with a carriage return, `z` or `Z` with one, a bell for an error, or not at all (CANable). Sources: Lawicel
//! CAN232 manual; normaldotcom/canable2-fw `src/slcan.c` at b158aa7; python-can 4.6.1; Linux `drivers/net/can/slcan`.

use crate::frame::{Frame, MAX_PAYLOAD, padded_len};
use crate::text::{Text, UPPER, digit, parse_hex};

/// Room for any line with a frame: kind, 8 digits of identifier, length, 64 bytes, a timestamp and the end.
pub const MAX_LINE: usize = 160;

/// Ends a line from the adapter: a carriage return, or a bell, which means that something was refused.
pub fn is_end(byte: u8) -> bool {
    matches!(byte, b'\r' | BELL)
}

/// The answer of an adapter that refuses.
pub const BELL: u8 = 7;

/// Lengths of the digits from 9 on.
const LONG: [usize; 7] = [12, 16, 20, 24, 32, 48, 64];

/// Writes a frame as a line, with its end; its length.
///
/// `None` if `out` is too small ([`MAX_LINE`] always is enough), or no such frame has this length.
pub fn write(frame: &Frame, out: &mut [u8]) -> Option<usize> {
    let len = frame.payload().len();
    if padded_len(len) != len || !frame.fd && len > 8 {
        return None;
    }
    let kind = match (frame.fd, frame.brs) {
        (false, _) if frame.remote.is_some() => b'r',
        (false, _) => b't',
        (true, false) => b'd',
        (true, true) => b'b',
    };
    let (kind, digits) = if frame.extended { (kind.to_ascii_uppercase(), 8) } else { (kind, 3) };
    let len = frame.remote.map_or(len, usize::from);
    let length = if len <= 8 { len } else { 9 + LONG.iter().position(|long| *long == len)? };
    let mut text = Text::new(out);
    text.push(&[kind]).number(frame.id, digits, UPPER).number(length as u32, 1, UPPER);
    text.hex(frame.payload(), UPPER).push(b"\r").finish()
}

/// A line from an adapter or a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// A frame.
    Frame(Frame),
    /// Newer adapters report errors on the bus: `e…`.
    BusError,
    /// Anything else: an answer, a version.
    Other,
}

/// A line that begins as a frame and is none: cut short, no hex, a length the kind does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Reads a line without its end.
///
/// # Errors
/// If it is cut short or damaged. The frame it held is lost.
pub fn parse(line: &[u8]) -> Result<Line, Malformed> {
    let Some((kind, rest)) = line.split_first() else { return Ok(Line::Other) };
    let (fd, brs) = match kind {
        b'r' | b'R' => return remote(rest, *kind == b'R').map(Line::Frame).ok_or(Malformed),
        b't' | b'T' | b'x' => (false, false),
        b'd' | b'D' => (true, false),
        b'b' | b'B' => (true, true),
        b'e' => return Ok(Line::BusError),
        _ => return Ok(Line::Other),
    };
    let extended = matches!(kind, b'T' | b'D' | b'B' | b'x');
    let mut frame = read(rest, extended, fd).ok_or(Malformed)?;
    (frame.extended, frame.brs) = (extended, brs);
    Ok(Line::Frame(frame))
}

/// What follows the kind of a remote frame: identifier, length and perhaps a timestamp.
fn remote(text: &[u8], extended: bool) -> Option<Frame> {
    let (id, length, timestamp) = head(text, extended)?;
    let mut frame = Frame::remote(id, length).filter(|_| matches!(timestamp.len(), 0 | 4))?;
    frame.extended = extended;
    Some(frame)
}

/// Identifier and the digit of the length, and what follows them.
fn head(text: &[u8], extended: bool) -> Option<(u32, u8, &[u8])> {
    let (id, text) = text.split_at_checked(if extended { 8 } else { 3 })?;
    let id = id.iter().try_fold(0, |id, byte| Some(id << 4 | u32::from(digit(*byte)?)))?;
    let (length, rest) = text.split_first()?;
    (extended || id <= 0x7ff).then_some((id, digit(*length)?, rest))
}

/// What follows the kind: identifier, length, data and perhaps four digits of a timestamp, which is of no use here: it counts
/// milliseconds.
fn read(text: &[u8], extended: bool, fd: bool) -> Option<Frame> {
    let (id, length, text) = head(text, extended)?;
    let length = usize::from(length);
    let len = if length <= 8 { length } else { LONG[length - 9] };
    let (data, timestamp) = text.split_at_checked(2 * len)?;
    let is_sound = matches!(timestamp.len(), 0 | 4) && (fd || len <= 8);
    let mut bytes = [0; MAX_PAYLOAD];
    parse_hex(data, &mut bytes).ok().filter(|_| is_sound)?;
    if fd { Frame::new(id, &bytes[..len]) } else { Frame::classic(id, &bytes[..len]) }
}

/// The command that sets a bit rate of arbitration; `None` for one no adapter has, or that adapters disagree on (`S7` is 800 kbit/s
/// on some and 750 kbit/s on others).
pub fn nominal_command(bits_per_second: u32) -> Option<&'static [u8; 3]> {
    Some(match bits_per_second {
        10_000 => b"S0\r",
        20_000 => b"S1\r",
        50_000 => b"S2\r",
        100_000 => b"S3\r",
        125_000 => b"S4\r",
        250_000 => b"S5\r",
        500_000 => b"S6\r",
        1_000_000 => b"S8\r",
        _ => return None,
    })
}

/// The command that sets the bit rate of the data phase. CANable 2 has 2 and 5 Mbit/s only.
pub fn data_command(bits_per_second: u32) -> Option<&'static [u8; 3]> {
    Some(match bits_per_second {
        500_000 => b"Y0\r",
        1_000_000 => b"Y1\r",
        2_000_000 => b"Y2\r",
        4_000_000 => b"Y4\r",
        5_000_000 => b"Y5\r",
        8_000_000 => b"Y8\r",
        _ => return None,
    })
}

/// How a device-side [`Adapter`] answers its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// Every command and frame, as Lawicel's do.
    Lawicel,
    /// Nothing but the question for their version, as CANable's do.
    None,
}

/// The adapter's side, for an emulated one: commands, and which frames pass.
#[derive(Clone, Copy, Debug)]
pub struct Adapter {
    answers: Answers,
    /// Bits per second of the bus it sits on.
    bus: (u32, u32),
    /// What the host set; a CANable begins with 125 kbit/s.
    nominal: u32,
    data: Option<u32>,
    channel: Channel,
    /// A frame went out at another bit rate than that of the bus, since the channel was opened.
    has_failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Closed,
    Open,
    ListenOnly,
}

impl Adapter {
    /// One on a bus of these bit rates (arbitration and data phase), closed.
    pub const fn new(nominal_bps: u32, data_bps: u32, answers: Answers) -> Self {
        let bus = (nominal_bps, data_bps);
        Self { answers, bus, nominal: 125_000, data: None, channel: Channel::Closed, has_failed: false }
    }

    /// Takes a line of the host: the frame that goes to the bus, if one does, and the answer.
    pub fn receive(&mut self, line: &[u8]) -> (Option<Frame>, &'static [u8]) {
        let (frame, answer): (_, &[u8]) = match parse(line) {
            Ok(Line::Frame(frame)) if self.channel == Channel::Open && (!frame.fd || self.data.is_some()) => {
                (Some(frame), if frame.extended { b"Z\r" } else { b"z\r" })
            }
            Ok(Line::Frame(_) | Line::BusError) | Err(Malformed) => (None, &[BELL]),
            Ok(Line::Other) => (None, self.command(line)),
        };
        let answer = match self.answers {
            Answers::Lawicel => answer,
            Answers::None if line == b"V" => b"emulated CANable\r",
            Answers::None => b"",
        };
        let carried = frame.filter(|frame| self.carries(frame));
        self.has_failed |= frame.is_some() && carried.is_none();
        (carried, answer)
    }

    /// Writes a frame of the bus for the host; nothing if the adapter does not receive it.
    pub fn write_received(&self, frame: &Frame, out: &mut [u8]) -> Option<usize> {
        let is_open = self.channel != Channel::Closed;
        if is_open && self.carries(frame) { write(frame, out) } else { None }
    }

    /// At other bit rates than the bus's there are only errors.
    fn carries(&self, frame: &Frame) -> bool {
        self.nominal == self.bus.0
            && (!frame.fd || self.data.is_some_and(|data| !frame.brs || data == self.bus.1))
    }

    fn command(&mut self, line: &[u8]) -> &'static [u8] {
        let closed = self.channel == Channel::Closed;
        match line {
            [] | [b'Z', b'0' | b'1'] => {}
            [b'S', ..] if closed => match rate(line, nominal_command) {
                Some(rate) => self.nominal = rate,
                None => return &[BELL],
            },
            [b'Y', ..] if closed => match rate(line, data_command) {
                Some(rate) => self.data = Some(rate),
                None => return &[BELL],
            },
            [b'O'] if closed => self.channel = Channel::Open,
            [b'L'] if closed => self.channel = Channel::ListenOnly,
            [b'C'] if !closed => (self.channel, self.data, self.has_failed) = (Channel::Closed, None, false),
            [b'V'] => return b"V1013\r",
            [b'N'] => return b"NA123\r",
            // Error warning and bus error.
            [b'F'] if !closed => return if self.has_failed { b"F84\r" } else { b"F00\r" },
            _ => return &[BELL],
        }
        b"\r"
    }
}

/// The bit rate that a command sets.
fn rate(line: &[u8], command: fn(u32) -> Option<&'static [u8; 3]>) -> Option<u32> {
    let rates = [10_000, 20_000, 50_000, 100_000, 125_000, 250_000, 500_000, 1_000_000, 2_000_000, 4_000_000];
    let rates = rates.into_iter().chain([5_000_000, 8_000_000]);
    rates.into_iter().find(|rate| command(*rate).is_some_and(|command| &command[..2] == line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(frame: &Frame) -> String<MAX_LINE> {
        let mut bytes = [0; MAX_LINE];
        let len = write(frame, &mut bytes).unwrap();
        String { bytes, len }
    }

    fn with(mut frame: Frame, fd: bool, brs: bool) -> Frame {
        (frame.fd, frame.brs) = (fd, brs);
        frame
    }

    struct String<const N: usize> {
        bytes: [u8; N],
        len: usize,
    }

    impl<const N: usize> String<N> {
        fn as_str(&self) -> &str {
            core::str::from_utf8(&self.bytes[..self.len]).unwrap()
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (id, len) in [(0, 0), (1, 8), (0x7ff, 3), (0x800, 8), (0x1fff_ffff, 1)] {
            let frame = Frame::classic(id, &[0xa5; 8][..len]).unwrap();
            assert_eq!(parse(line(&frame).as_str().trim_end().as_bytes()), Ok(Line::Frame(frame)));
        }
        for len in (0..=64).filter(|len| padded_len(*len) == *len) {
            for brs in [false, true] {
                let frame = with(Frame::new(0x8001, &[0x5a; 64][..len]).unwrap(), true, brs);
                assert_eq!(parse(line(&frame).as_str().trim_end().as_bytes()), Ok(Line::Frame(frame)));
            }
        }
    }

    /// The first is what python-can 4.6.1 sends to ask an ODrive for its estimates.
    #[test]
    fn remote_frames_have_a_length_and_no_data() {
        for (text, frame) in [
            ("r0090", Frame::remote(9, 0).unwrap()),
            ("r1238", Frame::remote(0x123, 8).unwrap()),
            ("R000008014", Frame::remote(0x801, 4).unwrap()),
        ] {
            assert_eq!(line(&frame).as_str().trim_end(), text);
            assert_eq!(parse(text.as_bytes()), Ok(Line::Frame(frame)));
            let with_time = [text.as_bytes(), b"EA5F"].concat();
            assert_eq!(parse(&with_time), Ok(Line::Frame(frame)));
        }
        for wrong in [&b"r009"[..], b"r0099", b"r00901", b"R0090", b"r8000"] {
            assert_eq!(parse(wrong), Err(Malformed));
        }
    }

    #[test]
    fn a_line_cut_anywhere_is_no_frame() {
        let whole = b"t0118117FFF7FF7FF1E1F";
        assert!(parse(whole).is_ok_and(|line| matches!(line, Line::Frame(_))));
        for cut in 1..whole.len() {
            assert_eq!(parse(&whole[..cut]), Err(Malformed), "{cut}");
        }
    }

    #[test]
    fn lines_other_adapters_send_are_understood() {
        let with_time = parse(b"t0118117FFF7FF7FF1E1FEA5F");
        assert_eq!(with_time, parse(b"t0118117fff7ff7ff1e1f"));
        assert_eq!(parse(b"x0000018010203040506070812"), Err(Malformed));
        for other in [&b""[..], b"z", b"Z", b"F80", b"V1013", b"&", b"#1"] {
            assert_eq!(parse(other), Ok(Line::Other));
        }
        assert_eq!(parse(b"e1a"), Ok(Line::BusError));
        for wrong in
            [&b"t8008"[..], b"t0119000000000000000000", b"t00g0", b"t00180", b"T2000000001FF0", b"t0011FF0"]
        {
            assert_eq!(parse(wrong), Err(Malformed));
        }
        // 30 bits of identifier.
        assert_eq!(parse(b"T200000000"), Err(Malformed));
    }

    #[test]
    fn frames_that_have_no_such_length_are_not_written() {
        let mut out = [0; MAX_LINE];
        assert_eq!(write(&Frame::new(1, &[0; 9]).unwrap(), &mut out), None);
        assert_eq!(write(&with(Frame::new(1, &[0; 12]).unwrap(), false, false), &mut out), None);
        assert_eq!(write(&Frame::classic(1, &[0; 8]).unwrap(), &mut out[..21]), None);
    }

    #[test]
    fn an_adapter_passes_frames_only_while_open_and_at_the_bit_rate_of_the_bus() {
        let mut adapter = Adapter::new(1_000_000, 5_000_000, Answers::Lawicel);
        let enable = b"t0018FFFFFFFFFFFFFFFC";
        assert_eq!(adapter.receive(enable), (None, &[BELL][..]));
        for command in [&b"S6"[..], b"O"] {
            assert_eq!(adapter.receive(command), (None, &b"\r"[..]));
        }
        // Queued, and never on the bus.
        assert_eq!(adapter.receive(b"F"), (None, &b"F00\r"[..]));
        assert_eq!(adapter.receive(enable), (None, &b"z\r"[..]));
        assert_eq!(adapter.receive(b"F"), (None, &b"F84\r"[..]));
        for command in [&b"C"[..], b"S8", b"Y5", b"O"] {
            assert_eq!(adapter.receive(command), (None, &b"\r"[..]));
        }
        assert!(adapter.receive(enable).0.is_some() && adapter.receive(b"b0018FFFFFFFFFFFFFFFC").0.is_some());
        assert_eq!(adapter.receive(b"S8"), (None, &[BELL][..]));
        let mut out = [0; MAX_LINE];
        assert_eq!(adapter.write_received(&Frame::classic(0x11, &[]).unwrap(), &mut out), Some(6));
        adapter.receive(b"C");
        assert_eq!(adapter.write_received(&Frame::classic(0x11, &[]).unwrap(), &mut out), None);
    }

    #[test]
    fn listening_only_sends_nothing() {
        let mut adapter = Adapter::new(1_000_000, 5_000_000, Answers::None);
        for command in [&b"S8"[..], b"L"] {
            assert_eq!(adapter.receive(command), (None, &b""[..]));
        }
        assert_eq!(adapter.receive(b"t1230"), (None, &b""[..]));
        let mut out = [0; MAX_LINE];
        assert!(adapter.write_received(&Frame::classic(1, &[]).unwrap(), &mut out).is_some());
    }
}
