//! A recorded trace, played back as a link: what was received then is received now, with the same gaps.
//!
//! [`read`] reads candump log text and pcapng of any program, and what other programs keep as text: asc, trc and csv.

mod texts;

pub use texts::{read_asc, read_csv, read_trc};

use crate::trace::{Traced, Way};
use crate::{Capabilities, Counters, Link, LinkError, Received};
use khz_wire::{Frame, Request};
use std::path::Path;

/// Plays a trace back.
///
/// The first frame of the trace is due when the link is first used, the others as much later as they were in
/// the trace. Frames sent to the link are counted and go nowhere.
pub struct Replay {
    received: Vec<Received>,
    next: usize,
    channels: u8,
    first_ns: i64,
    begun_ns: Option<i64>,
    counters: Vec<Counters>,
}

impl Replay {
    /// Plays what was received in `trace`.
    pub fn new(trace: &[Traced]) -> Self {
        let mut received: Vec<_> =
            trace.iter().filter(|traced| traced.way == Way::Received).map(|traced| traced.item).collect();
        received.sort_by_key(|item| item.at_ns);
        let channels = trace.iter().map(|traced| traced.item.channel.saturating_add(1)).max().unwrap_or(1);
        let first_ns = trace.iter().map(|traced| traced.item.at_ns).min().unwrap_or(0);
        let counters = vec![Counters::default(); usize::from(channels)];
        Self { received, next: 0, channels, first_ns, begun_ns: None, counters }
    }

    /// All frames have been played.
    pub fn is_over(&self) -> bool {
        self.next == self.received.len()
    }

    fn due_ns(&self) -> Option<i64> {
        let item = self.received.get(self.next)?;
        Some(self.begun_ns? + (item.at_ns - self.first_ns))
    }
}

impl Link for Replay {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: "replay",
            channels: self.channels,
            half_duplex: false,
            in_flight: u16::MAX,
            emulated: true,
        }
    }

    fn send(&mut self, channel: u8, _: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
        self.begun_ns.get_or_insert(now_ns);
        self.counters.get_mut(usize::from(channel)).ok_or(LinkError::Unsupported)?.sent += 1;
        Ok(())
    }

    fn receive(&mut self, now_ns: i64) -> Result<Option<Received>, LinkError> {
        self.begun_ns.get_or_insert(now_ns);
        let Some(at_ns) = self.due_ns().filter(|due_ns| *due_ns <= now_ns) else { return Ok(None) };
        let item = self.received[self.next];
        self.next += 1;
        self.counters[usize::from(item.channel)].received += 1;
        Ok(Some(Received { at_ns, ..item }))
    }

    fn next_event_ns(&self) -> Option<i64> {
        self.due_ns()
    }

    fn counters(&self, channel: u8) -> Counters {
        self.counters.get(usize::from(channel)).copied().unwrap_or_default()
    }
}

/// What a trace holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// Its data and remote frames, in its order.
    pub frames: Vec<Traced>,
    /// How many error frames it has; they cannot be sent.
    pub errors: u64,
    /// How many of its lines are about something else than frames.
    pub others: u64,
}

/// Why a trace could not be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line of candump text makes no sense.
    #[error("line {line}: {what} (expected `(1.000500) can0 00008001##11100 T`)")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A line of another text makes no sense.
    #[error("line {line} of {} {format} file: {what}", if *format == "asc" { "an" } else { "a" })]
    Text {
        /// Counted from 1.
        line: usize,
        /// What the file is called.
        format: &'static str,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A format of other programs that is not read.
    #[error(
        "{0} files are not read here: {READ} are. Convert it: `can_logconvert` of python-can makes .asc of .blf, .mf4 and others"
    )]
    Unread(String),
    /// A block of a pcapng file makes no sense.
    #[error("offset {offset}: {what}")]
    Block {
        /// Where the block begins, bytes.
        offset: usize,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// What is read, by the ends of names.
pub const READ: &str = "candump text (.log), .pcapng, .asc, .trc, and .csv of python-can";

/// Formats of traces that others write, by the ends of their names.
const UNREAD: [&str; 9] = ["blf", "mf4", "mdf", "db", "sqlite", "pcap", "gz", "zip", "zst"];

/// The trace's format, by the end of its name.
fn ending(path: &Path) -> String {
    path.extension().map(|end| end.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// Why no trace is written under this name: who reads it would expect another format than candump text or pcapng.
pub fn unwritten(path: &Path) -> Option<String> {
    let end = ending(path);
    let is_other = ["asc", "trc", "csv"].contains(&&*end) || UNREAD.contains(&&*end);
    is_other.then(|| {
        format!(
            ".{end} files are not written here: candump text (.log) and .pcapng are. `can_logconvert` of python-can makes .asc, .blf, .csv \
             and .trc of candump text"
        )
    })
}

/// Reads a trace by the end of its name: candump text, if it is none of the others.
///
/// # Errors
/// What cannot be read, and where; or its format is not read.
pub fn read(path: &Path, bytes: &[u8]) -> Result<Recorded, TraceError> {
    let text = String::from_utf8_lossy;
    match &*ending(path) {
        "pcapng" => read_pcapng(bytes),
        "asc" => read_asc(&text(bytes)),
        "trc" => read_trc(&text(bytes)),
        "csv" => read_csv(&text(bytes)),
        other if UNREAD.contains(&other) => Err(TraceError::Unread(format!(".{other}"))),
        _ => read_candump(&text(bytes)),
    }
}

/// The frame, with an identifier of 29 or 11 bits; `None` if it does not fit.
fn of_kind(mut frame: Frame, extended: bool) -> Option<Frame> {
    frame.extended = extended;
    (extended || frame.id <= 0x7ff).then_some(frame)
}

/// Reads candump log text (`candump -L`, `-L -x`, or [`crate::trace::Candump`]).
///
/// Interfaces become channels in the order they first appear. Lines without `T` at the end count as received.
/// Error frames are no frames of a bus: they are counted. Empty lines and lines that begin with `#` are passed over.
///
/// # Errors
/// [`TraceError::Line`] for the first line that cannot be read.
pub fn read_candump(text: &str) -> Result<Recorded, TraceError> {
    let mut interfaces: Vec<&str> = Vec::new();
    let mut trace = Recorded::default();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| is_content(line)) {
        let bad = |what| TraceError::Line { line: index + 1, what };
        let mut words = line.split_whitespace();
        let at_ns = words.next().and_then(seconds).ok_or(bad("no time in brackets"))?;
        let interface = words.next().ok_or(bad("no interface"))?;
        let content = words.next().ok_or(bad("no frame"))?;
        let Some(frame) = frame(content).ok_or(bad("not a frame"))? else {
            trace.errors += 1;
            continue;
        };
        let way = if words.next() == Some("T") { Way::Sent } else { Way::Received };
        let known = interfaces.iter().position(|name| *name == interface).unwrap_or_else(|| {
            interfaces.push(interface);
            interfaces.len() - 1
        });
        let channel = u8::try_from(known).map_err(|_| bad("more than 256 interfaces"))?;
        trace.frames.push(Traced { way, item: Received { channel, at_ns, frame } });
    }
    Ok(trace)
}

fn is_content(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with('#')
}

fn seconds(word: &str) -> Option<i64> {
    let (whole, fraction) = word.strip_prefix('(')?.strip_suffix(')')?.split_once('.')?;
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let scale = 10_i64.pow(9 - fraction.len() as u32);
    let fraction_ns = fraction.parse::<i64>().ok()? * scale;
    whole.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction_ns)
}

/// `None` if it is no frame at all, `Some(None)` if it is an error frame.
fn frame(word: &str) -> Option<Option<Frame>> {
    let (id, data) = word.split_once('#')?;
    let extended = id.len() > 3;
    let id = u32::from_str_radix(id, 16).ok()?;
    if id >> 29 != 0 {
        return Some(None);
    }
    if let Some(asked) = data.strip_prefix('R') {
        // The length, and perhaps the raw one after an underscore.
        let len = asked.split('_').next().filter(|len| !len.is_empty()).map_or(Ok(0), str::parse);
        return Some(Some(of_kind(Frame::remote(id, len.ok()?)?, extended)?));
    }
    let (flags, data) = match data.strip_prefix('#') {
        Some(rest) => (Some(rest.get(..1)?), rest.get(1..)?),
        None => (None, data),
    };
    let mut payload = [0; 64];
    let payload = hex(data, &mut payload)?;
    let mut frame = of_kind(Frame::new(id, payload)?, extended)?;
    let flags = flags.map(|digit| u8::from_str_radix(digit, 16)).transpose().ok()?;
    frame.fd = flags.is_some();
    frame.brs = flags.is_some_and(|flags| flags & 1 != 0);
    Some(Some(frame))
}

fn hex<'a>(digits: &str, into: &'a mut [u8; 64]) -> Option<&'a [u8]> {
    // Classic frames may carry dots between bytes and the raw DLC after an underscore.
    let mut len = 0;
    let mut digits = digits.split('_').next()?.bytes().filter(|digit| *digit != b'.');
    while let Some(high) = digits.next() {
        let value = |digit: u8| char::from(digit).to_digit(16);
        *into.get_mut(len)? = (value(high)? << 4 | value(digits.next()?)?) as u8;
        len += 1;
    }
    Some(&into[..len])
}

/// Reads pcapng written on a little-endian machine with CAN frames in it (link type 227); other packets are
/// passed over, and error frames counted.
///
/// # Errors
/// [`TraceError::Block`] for the first block that cannot be read.
pub fn read_pcapng(bytes: &[u8]) -> Result<Recorded, TraceError> {
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut trace = Recorded::default();
    let mut offset = 0;
    if bytes.get(..4) != Some(&[0x0a, 0x0d, 0x0d, 0x0a]) {
        return Err(TraceError::Block { offset, what: "no pcapng section header" });
    }
    while offset < bytes.len() {
        let bad = |what| TraceError::Block { offset, what };
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_le_bytes(bytes.get(offset + at..offset + at + 4)?.try_into().ok()?))
        };
        let (kind, len) = word(0).zip(word(4)).ok_or(bad("cut off"))?;
        let end = offset.checked_add(len as usize).filter(|end| *end <= bytes.len() && len >= 12);
        let end = end.ok_or(bad("cut off, or written on a big-endian machine"))?;
        let block = &bytes[offset + 8..end - 4];
        match kind {
            0x0a0d_0d0a => interfaces.clear(),
            1 => interfaces.push(Interface::read(block).ok_or(bad("bad interface description"))?),
            6 => match packet(block, &interfaces).ok_or(bad("bad packet"))? {
                Packet::Frame(traced) => trace.frames.push(traced),
                Packet::Error => trace.errors += 1,
                Packet::Other => {}
            },
            _ => {}
        }
        offset = end;
    }
    Ok(trace)
}

/// The content of an interface description block.
struct Interface {
    is_can: bool,
    /// Time units per second.
    units: u64,
}

impl Interface {
    fn read(block: &[u8]) -> Option<Self> {
        let is_can = u16::from_le_bytes(block.get(..2)?.try_into().ok()?) == 227;
        let resolution = option(block.get(8..)?, 9).and_then(|value| value.first().copied()).unwrap_or(6);
        let exponent = u32::from(resolution & 0x7f);
        let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
        Some(Self { is_can, units: base.checked_pow(exponent)? })
    }
}

/// The value of an option in a list of options.
fn option(mut list: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let code = u16::from_le_bytes(list.get(..2)?.try_into().ok()?);
        let len = usize::from(u16::from_le_bytes(list.get(2..4)?.try_into().ok()?));
        if code == wanted {
            return list.get(4..4 + len);
        }
        if code == 0 {
            return None;
        }
        list = list.get(4 + len.next_multiple_of(4)..)?;
    }
}

/// What a block with a packet holds.
enum Packet {
    Frame(Traced),
    Error,
    /// Nothing of a CAN bus.
    Other,
}

/// `None` if the block is broken.
fn packet(block: &[u8], interfaces: &[Interface]) -> Option<Packet> {
    let word = |at: usize| Some(u32::from_le_bytes(block.get(at..at + 4)?.try_into().ok()?));
    let index = word(0)?;
    let interface = interfaces.get(index as usize)?;
    let units = u64::from(word(4)?) << 32 | u64::from(word(8)?);
    let len = word(12)? as usize;
    let data = block.get(20..20_usize.checked_add(len)?)?;
    if !interface.is_can {
        return Some(Packet::Other);
    }
    let flags =
        option(block.get(20 + len.next_multiple_of(4)..)?, 2).and_then(|value| value.first().copied());
    let way = if flags.is_some_and(|flags| flags & 3 == 2) { Way::Sent } else { Way::Received };
    let at_ns = i64::try_from(u128::from(units) * 1_000_000_000 / u128::from(interface.units)).ok()?;
    let channel = u8::try_from(index).ok()?;
    Some(match can_frame(data)? {
        Some(frame) => Packet::Frame(Traced { way, item: Received { channel, at_ns, frame } }),
        None => Packet::Error,
    })
}

/// `Some(None)`: an error frame.
fn can_frame(data: &[u8]) -> Option<Option<Frame>> {
    let id = u32::from_be_bytes(data.get(..4)?.try_into().ok()?);
    let (len, flags) = (usize::from(*data.get(4)?), *data.get(5)?);
    if id & 1 << 29 != 0 {
        return Some(None);
    }
    if id & 1 << 30 != 0 {
        let mut frame = Frame::remote(id & 0x1fff_ffff, *data.get(4)?)?;
        frame.extended = id >> 31 != 0;
        return Some(Some(frame));
    }
    let mut frame = Frame::new(id & 0x1fff_ffff, data.get(8..8 + len)?)?;
    frame.extended = id >> 31 != 0;
    frame.fd = flags & 4 != 0 || len > 8;
    frame.brs = flags & 1 != 0;
    Some(Some(frame))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Candump, Pcapng, Sink};

    const TEXT: &str = "(10.000100) can0 00008001##111001F01 T\n\
                        (10.000300) can0 00000100##1210000 R\n\
                        # a remark\n\n\
                        (10.000350) can1 123#AB.CD\n\
                        (10.000400) can1 123#R\n\
                        (10.000410) can1 00000123#R4\n\
                        (10.000500) can1 20000088#0000000000000000\n";

    #[test]
    fn candump_text_is_understood() {
        let Recorded { frames: trace, errors, .. } = read_candump(TEXT).unwrap();
        assert_eq!((trace.len(), errors), (5, 1));
        let remote = trace[4].item.frame;
        assert_eq!((trace[3].item.frame.remote, remote.remote, remote.extended), (Some(0), Some(4), true));
        assert_eq!(trace[0].way, Way::Sent);
        assert_eq!(trace[0].item.at_ns, 10_000_100_000);
        assert_eq!(trace[1].item.frame.payload(), [0x21, 0, 0]);
        assert!(trace[1].item.frame.extended && trace[1].item.frame.brs);
        assert_eq!((trace[2].item.channel, trace[2].item.frame.fd), (1, false));
    }

    #[test]
    fn plays_with_the_gaps_of_the_trace() {
        let mut link = Replay::new(&read_candump(TEXT).unwrap().frames);
        assert_eq!(link.receive(1_000_000), Ok(None));
        assert_eq!(link.next_event_ns(), Some(1_200_000));
        let first = link.receive(1_260_000).unwrap().unwrap();
        assert_eq!((first.at_ns, first.frame.id), (1_200_000, 0x100));
        assert_eq!(link.receive(1_260_000).unwrap().unwrap().at_ns, 1_250_000);
        assert!(
            (0..2).all(|_| link.receive(9_000_000).unwrap().is_some_and(|item| item.frame.remote.is_some()))
        );
        assert_eq!(link.receive(9_000_000), Ok(None));
        assert!(link.is_over());
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| read_candump(text).unwrap_err();
        assert_eq!(error("\n(1.0) can0"), TraceError::Line { line: 2, what: "no frame" });
        assert_eq!(error("1.0 can0 1#"), TraceError::Line { line: 1, what: "no time in brackets" });
        assert_eq!(error("(1.0) can0 1#ABC"), TraceError::Line { line: 1, what: "not a frame" });
        assert_eq!(error("(1.0) can0 FFF#"), TraceError::Line { line: 1, what: "not a frame" });
        assert_eq!(error("(1.0) can0 1##"), TraceError::Line { line: 1, what: "not a frame" });
    }

    #[test]
    fn formats_are_recognised_by_the_ends_of_names_and_others_are_named() {
        let text = "(1.0) can0 123#00\n";
        for known in ["a.log", "a", "a.txt"] {
            assert_eq!(read(Path::new(known), text.as_bytes()).unwrap().frames.len(), 1);
            assert_eq!(unwritten(Path::new(known)), None);
        }
        for other in ["a.blf", "a.BLF", "a.asc.gz", "a.mf4"] {
            let why = read(Path::new(other), text.as_bytes()).unwrap_err().to_string();
            assert!(why.contains("are not read here") && why.contains(".pcapng"), "{why}");
            assert!(unwritten(Path::new(other)).is_some());
        }
        assert!(read(Path::new("a.csv"), text.as_bytes()).is_err());
        assert!(unwritten(Path::new("a.csv")).is_some() && unwritten(Path::new("a.pcapng")).is_none());
    }

    #[test]
    fn both_formats_survive_the_round_trip() {
        let trace = Recorded { errors: 0, ..read_candump(TEXT).unwrap() };
        let names = vec!["can0".to_owned(), "can1".to_owned()];
        let mut text = Candump::new(Vec::new(), names.clone(), 0);
        let mut packets = Pcapng::new(Vec::new(), &names, 0).unwrap();
        for traced in &trace.frames {
            text.write(traced).unwrap();
            packets.write(traced).unwrap();
        }
        assert_eq!(read_candump(&String::from_utf8(text.into_inner()).unwrap()).unwrap(), trace);
        assert_eq!(read_pcapng(&packets.into_inner()).unwrap(), trace);
    }

    #[test]
    fn a_cut_or_bent_file_is_an_error_and_never_a_panic() {
        let mut packets = Pcapng::new(Vec::new(), &["can0".into(), "can1".into()], 0).unwrap();
        read_candump(TEXT).unwrap().frames.iter().for_each(|traced| packets.write(traced).unwrap());
        let bytes = packets.into_inner();
        for end in 0..bytes.len() {
            let _ = read_pcapng(&bytes[..end]);
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bent = bytes.clone();
                bent[at] ^= 1 << bit;
                let _ = read_pcapng(&bent);
            }
        }
        assert!(read_pcapng(b"").is_err());
    }
}
