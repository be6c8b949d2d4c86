//! Traces that other programs keep as text: Vector's asc, PEAK's trc, and python-can's csv.
//!
//! Facts are from what python-can 4.6.1 writes and reads, and PEAK's description of trc (versions 1.0 to 2.1). Times are those of the file,
//! whatever they count from: only the gaps between frames matter here. Lines of other kinds (status, statistics, other buses) are counted.

use super::{Recorded, TraceError, of_kind};
use crate::Received;
use crate::trace::{Traced, Way};
use khz_wire::Frame;

/// How long the data of each length code are, bytes.
const LENGTHS: [usize; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 32, 48, 64];
/// What begins python-can's csv.
const CSV: &str = "timestamp,arbitration_id,extended,remote,error,dlc,data";

/// The content of a line.
enum Line {
    Frame(Traced),
    Error,
    /// Something that is no frame.
    Other,
    /// Nothing: a header, a remark.
    Empty,
}

type Read = Result<Line, &'static str>;

/// Collects the lines, each parsed by `read`.
fn lines(
    text: &str,
    format: &'static str,
    mut read: impl FnMut(&str) -> Read,
) -> Result<Recorded, TraceError> {
    let mut trace = Recorded::default();
    for (index, line) in text.lines().enumerate() {
        match read(line.trim()).map_err(|what| TraceError::Text { line: index + 1, format, what })? {
            Line::Frame(traced) => trace.frames.push(traced),
            Line::Error => trace.errors += 1,
            Line::Other => trace.others += 1,
            Line::Empty => {}
        }
    }
    Ok(trace)
}

/// Times of `unit` ns.
fn time(word: &str, unit: f64) -> Result<i64, &'static str> {
    let ns = word.parse::<f64>().map_err(|_| "no time")? * unit;
    // Within three centuries, as all times here.
    (ns.abs() < 9e18).then(|| ns.round() as i64).ok_or("no time")
}

fn way(word: &str) -> Way {
    if word.eq_ignore_ascii_case("rx") { Way::Received } else { Way::Sent }
}

/// A channel that is counted from 1; 0 and none are the first.
fn channel(word: &str) -> Result<u8, &'static str> {
    let number: u16 = word.parse().map_err(|_| "no channel")?;
    u8::try_from(number.saturating_sub(1)).map_err(|_| "more than 256 channels")
}

/// The bytes of `count` words.
fn bytes(words: &[&str], count: usize, base: u32) -> Result<Vec<u8>, &'static str> {
    let words = words.get(..count).ok_or("less data than its length says")?;
    words.iter().map(|word| u8::from_str_radix(word, base).map_err(|_| "data that are no bytes")).collect()
}

fn remote(id: u32, extended: bool, len: usize) -> Result<Frame, &'static str> {
    let frame = u8::try_from(len).ok().and_then(|len| Frame::remote(id, len));
    frame.and_then(|frame| of_kind(frame, extended)).ok_or("no remote frame of CAN")
}

fn data(id: u32, extended: bool, payload: &[u8], [fd, brs]: [bool; 2]) -> Result<Frame, &'static str> {
    let frame = if fd { Frame::new(id, payload) } else { Frame::classic(id, payload) };
    let mut frame = frame.and_then(|frame| of_kind(frame, extended)).ok_or("no frame of CAN")?;
    (frame.fd, frame.brs) = (fd, brs);
    Ok(frame)
}

const fn traced(way: Way, channel: u8, at_ns: i64, frame: Frame) -> Line {
    Line::Frame(Traced { way, item: Received { channel, at_ns, frame } })
}

/// Reads asc, as Vector's tools and python-can write it.
///
/// # Errors
/// [`TraceError::Text`] for the first frame that cannot be read.
pub fn read_asc(text: &str) -> Result<Recorded, TraceError> {
    let mut asc = Asc { base: 16, adds_up: false, at_ns: 0 };
    lines(text, "asc", |line| asc.line(line))
}

struct Asc {
    base: u32,
    /// Each time counts from the line before.
    adds_up: bool,
    at_ns: i64,
}

/// Bits of a CANFD line's flags.
const REMOTE: u32 = 1 << 4;
const FD: u32 = 1 << 12;

impl Asc {
    fn line(&mut self, line: &str) -> Read {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first().is_some_and(|word| word.eq_ignore_ascii_case("base")) {
            self.base =
                if words.get(1).is_some_and(|word| word.eq_ignore_ascii_case("dec")) { 10 } else { 16 };
            self.adds_up = words.get(3).is_some_and(|word| word.eq_ignore_ascii_case("relative"));
        }
        let [first, rest @ ..] = &words[..] else { return Ok(Line::Empty) };
        let Ok(stamp_ns) = time(first, 1e9) else { return Ok(Line::Empty) };
        self.at_ns = if self.adds_up { self.at_ns.saturating_add(stamp_ns) } else { stamp_ns };
        match rest {
            [fd, bus, rest @ ..] if fd.eq_ignore_ascii_case("canfd") => self.fd(bus, rest),
            [bus, rest @ ..] if bus.bytes().all(|digit| digit.is_ascii_digit()) => self.classic(bus, rest),
            ["Start", "of", "measurement"] => Ok(Line::Empty),
            _ => Ok(Line::Other),
        }
    }

    fn classic(&self, bus: &str, words: &[&str]) -> Read {
        let (id, way, kind, rest) = match words {
            [word, ..] if is_error(word) => return Ok(Line::Error),
            [id, way_word, kind, rest @ ..] if is_way(way_word) => (self.id(id)?, way(way_word), *kind, rest),
            // A request to send, which the next line repeats as sent; statistics and other events.
            _ => return Ok(Line::Other),
        };
        let len = rest
            .first()
            .map_or(Ok(0), |len| usize::from_str_radix(len, self.base))
            .map_err(|_| "no length")?;
        let frame = match kind {
            "r" | "R" => remote(id.0, id.1, len.min(8))?,
            "d" | "D" if rest.is_empty() => return Err("no length"),
            // Codes of 9 to 15 are 8 bytes.
            "d" | "D" => data(id.0, id.1, &bytes(&rest[1..], len.min(8), self.base)?, [false; 2])?,
            _ => return Ok(Line::Other),
        };
        Ok(traced(way, channel(bus)?, self.at_ns, frame))
    }

    /// CANFD channel direction id [name] brs esi code length data… duration bits flags …
    fn fd(&self, bus: &str, words: &[&str]) -> Read {
        let (way, id, rest) = match words {
            [_, word, ..] if is_error(word) => return Ok(Line::Error),
            [way_word, id, rest @ ..] if is_way(way_word) => (way(way_word), self.id(id)?, rest),
            _ => return Ok(Line::Other),
        };
        // A name is no digit.
        let has_name = rest.first().is_some_and(|word| !matches!(*word, "0" | "1"));
        let [brs, _, code, len, rest @ ..] = &rest[usize::from(has_name)..] else { return Err("cut off") };
        let len: usize = len.parse().map_err(|_| "no length")?;
        let payload = bytes(rest, len, self.base)?;
        let flags = rest.get(len + 2).map(|flags| u32::from_str_radix(flags, 16).map_err(|_| "no flags"));
        let flags = flags.transpose()?.unwrap_or(FD);
        let frame = if flags & REMOTE != 0 {
            let asked = usize::from_str_radix(code, 16).map_err(|_| "no length")?;
            remote(id.0, id.1, asked.min(8))?
        } else {
            data(id.0, id.1, &payload, [flags & FD != 0, *brs == "1"])?
        };
        Ok(traced(way, channel(bus)?, self.at_ns, frame))
    }

    /// An identifier, and whether it is one of 29 bits.
    fn id(&self, word: &str) -> Result<(u32, bool), &'static str> {
        let digits = word.strip_suffix(['x', 'X']);
        let id = u32::from_str_radix(digits.unwrap_or(word), self.base).map_err(|_| "no identifier")?;
        Ok((id, digits.is_some()))
    }
}

fn is_error(word: &str) -> bool {
    word.eq_ignore_ascii_case("errorframe")
}

fn is_way(word: &str) -> bool {
    word.eq_ignore_ascii_case("rx") || word.eq_ignore_ascii_case("tx")
}

/// Reads trc, as PEAK's tools and python-can write it.
///
/// # Errors
/// [`TraceError::Text`] for the first frame that cannot be read.
pub fn read_trc(text: &str) -> Result<Recorded, TraceError> {
    // The columns of version 1.0, which has no line that names them.
    let mut columns: Vec<char> = "NOIL".chars().collect();
    lines(text, "trc", |line| match line.strip_prefix(';') {
        Some(header) => {
            columns = columns_of(header)?.unwrap_or_else(|| std::mem::take(&mut columns));
            Ok(Line::Empty)
        }
        None if line.is_empty() => Ok(Line::Empty),
        None => trc(line, &columns),
    })
}

/// The columns that a header names, by the letters of version 2; `None` if it names none.
fn columns_of(header: &str) -> Result<Option<Vec<char>>, &'static str> {
    let (key, value) = header.split_once('=').unwrap_or((header, ""));
    let columns = match (key.trim(), value.trim()) {
        ("$FILEVERSION", "1.0") => "NOIL",
        ("$FILEVERSION", "1.1") => "NOdIL",
        ("$FILEVERSION", "1.2") => "NOBdIL",
        ("$FILEVERSION", "1.3") => "NOBdIRL",
        // These name their columns.
        ("$FILEVERSION", "2.0" | "2.1") => return Ok(None),
        ("$FILEVERSION", _) => return Err("a version of trc that is not read: 1.0 to 1.3, 2.0 and 2.1 are"),
        ("$COLUMNS", named) => {
            return Ok(Some(
                named
                    .split(',')
                    .filter_map(|column| column.trim().chars().next())
                    .filter(|column| *column != 'D')
                    .collect(),
            ));
        }
        _ => return Ok(None),
    };
    Ok(Some(columns.chars().collect()))
}

/// What is beyond its columns is data.
fn trc(line: &str, columns: &[char]) -> Read {
    let words: Vec<&str> = line.split_whitespace().collect();
    let word =
        |column: char| columns.iter().position(|each| *each == column).and_then(|at| words.get(at)).copied();
    // Where there is no type, what is no direction is one.
    let kind = match (word('T'), word('d')) {
        (Some(kind), _) => kind,
        (None, None | Some("Rx" | "Tx" | "rx" | "tx")) => "DT",
        (None, Some(other)) => other,
    };
    let [fd, brs] = match kind {
        "DT" | "RR" => [false; 2],
        "FD" | "BI" => [true, false],
        "FB" | "FE" => [true; 2],
        "ER" | "Error" => return Ok(Line::Error),
        _ => return Ok(Line::Other),
    };
    let digits = word('I').ok_or("no identifier")?;
    if digits == "FFFFFFFF" {
        // Version 1.0 marks events of the bus with this identifier.
        return Ok(Line::Other);
    }
    let id = u32::from_str_radix(digits, 16).map_err(|_| "no identifier")?;
    let extended = digits.len() > 4;
    let at_ns = time(word('O').ok_or("no time")?, 1e6)?;
    let len = match (word('l'), word('L')) {
        (Some(len), _) => len.parse().map_err(|_| "no length")?,
        (None, Some(code)) => {
            let code: usize = code.parse().map_err(|_| "no length")?;
            // Codes of 9 to 15 are 8 bytes in a classic frame.
            *LENGTHS.get(if fd { code } else { code.min(8) }).ok_or("no length")?
        }
        (None, None) => return Err("no length"),
    };
    let rest = words.get(columns.len()..).unwrap_or_default();
    let frame = if kind == "RR" || rest.first() == Some(&"RTR") {
        remote(id, extended, len.min(8))?
    } else {
        data(id, extended, &bytes(rest, len, 16)?, [fd, brs])?
    };
    let bus = word('B').map_or(Ok(0), channel)?;
    Ok(traced(word('d').map_or(Way::Received, way), bus, at_ns, frame))
}

/// Reads csv as python-can writes it. It has neither direction nor bus, so all frames are received ones on the first bus. Those of more
/// than eight bytes are CAN-FD, with its faster bit rate.
///
/// # Errors
/// [`TraceError::Text`] for the first line that cannot be read.
pub fn read_csv(text: &str) -> Result<Recorded, TraceError> {
    let mut is_known = false;
    lines(text, "csv", |line| match line {
        "" => Ok(Line::Empty),
        CSV => {
            is_known = true;
            Ok(Line::Empty)
        }
        _ if !is_known => Err("it is none of python-can's, which begin with `timestamp,arbitration_id,…`"),
        line => csv(line),
    })
}

fn csv(line: &str) -> Read {
    let words: Vec<&str> = line.split(',').collect();
    let [at, id, extended, is_remote, is_error, dlc, encoded] = words[..] else {
        return Err("not seven values");
    };
    if is_error == "1" {
        return Ok(Line::Error);
    }
    let id = id.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let (id, extended) = (id.ok_or("no identifier")?, extended == "1");
    let payload = base64(encoded).ok_or("data that are not base64")?;
    let frame = if is_remote == "1" {
        remote(id, extended, dlc.parse().map_err(|_| "no length")?)?
    } else {
        data(id, extended, &payload, [payload.len() > 8; 2])?
    };
    Ok(traced(Way::Received, 0, time(at, 1e9)?, frame))
}

/// What base64 (RFC 4648) stands for.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let (mut bits, mut held, mut bytes) = (0_u32, 0, Vec::new());
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, held) = (bits << 6 | u32::from(value), held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASC: &str = "date Fri Nov 27 10:00:00.000 2026\nbase hex  timestamps absolute\ninternal events logged\n\
                       Begin Triggerblock Fri Nov 27 10:00:00.000 2026\n 0.000000 Start of measurement\n\
                       // a remark\n\
                       \x20 0.000100 1  123             Rx   d 2 0A ff Length = 230000 BitCount = 118\n\
                       \x20 0.000200 2  18ABC123x       Tx   d 0\n\
                       \x20 0.000300 1  009             Rx   r\n\
                       \x20 0.000400 1  ErrorFrame\n\
                       \x20 0.000500 1  123             TxRq   d 2 0A ff\n\
                       \x20 0.000600 CANFD   1 Rx        7FF                                  1 0 9 12 00 01 02 03 04 05 06 07 08 09 0a 0b        0    0     3000        0        0        0        0        0\n\
                       \x20 0.000700 CANFD   1 Rx        7FF  Name   0 0 0  0        0    0     1000        0\n\
                       \x20 0.000800 1  Statistic: D 0 R 0 XD 0 XR 0 E 0 O 0 B 0.00%\n\
                       End TriggerBlock\n";

    fn summary(trace: &Recorded) -> Vec<(i64, u8, bool, u32, bool, usize)> {
        let one = |traced: &Traced| {
            let Received { channel, at_ns, frame } = traced.item;
            (at_ns / 1000, channel, traced.way == Way::Sent, frame.id, frame.fd, frame.payload().len())
        };
        trace.frames.iter().map(one).collect()
    }

    #[test]
    fn asc_is_understood() {
        let trace = read_asc(ASC).unwrap();
        let expected = [
            (100, 0, false, 0x123, false, 2),
            (200, 1, true, 0x18AB_C123, false, 0),
            (300, 0, false, 9, false, 0),
            (600, 0, false, 0x7ff, true, 12),
            (700, 0, false, 0x7ff, true, 0),
        ];
        assert_eq!(summary(&trace), expected);
        assert_eq!((trace.errors, trace.others), (1, 2));
        assert_eq!(trace.frames[2].item.frame.remote, Some(0));
        assert_eq!([3, 4].map(|at: usize| trace.frames[at].item.frame.brs), [true, false]);
        let decimal = "base dec timestamps relative\n0.5 1 291 Rx d 1 10\n0.5 1 291x Rx r 8\n";
        let trace = read_asc(decimal).unwrap();
        assert_eq!(trace.frames[0].item.frame, Frame::classic(0x123, &[10]).unwrap());
        assert_eq!(trace.frames[1].item.at_ns, 1_000_000_000);
        assert!(trace.frames[1].item.frame.extended);
    }

    #[test]
    fn every_version_of_trc_is_understood() {
        for (header, line) in [
            ("", "1)   1.5 0123 2 0A FF"),
            (";$FILEVERSION=1.1\n", "1)   1.5 Rx 0123 2 0A FF"),
            (";$FILEVERSION=1.3\n", "1)   1.5 1 Rx 0123 - 2 0A FF"),
            (";$FILEVERSION=2.1\n;$COLUMNS=N,O,T,B,I,d,R,L,D\n", "1 1.5 DT 1 0123 Rx - 2 0A FF"),
            (";$FILEVERSION=2.0\n;$COLUMNS=N,O,T,I,d,l,D\n", "1 1.5 DT 0123 Rx 2 0A FF"),
        ] {
            let trace = read_trc(&format!("{header}; a remark\n\n{line}\n")).unwrap();
            assert_eq!(summary(&trace), [(1500, 0, false, 0x123, false, 2)], "{header}");
        }
        let text = ";$FILEVERSION=2.1\n;$COLUMNS=N,O,T,B,I,d,R,L,D\n1 1 RR 2 00000009 Tx - 8\n2 2 ER 1 - Rx - 5 04 00 02 00 00\n\
                    3 3 ST 1 - Rx - 4 00 00 00 08\n4 4 FB 1 0123 Rx - 9 0 1 2 3 4 5 6 7 8 9 A B\n";
        let trace = read_trc(text).unwrap();
        assert_eq!(summary(&trace), [(1000, 1, true, 9, false, 0), (4000, 0, false, 0x123, true, 12)]);
        assert_eq!((trace.errors, trace.others, trace.frames[0].item.frame.remote), (1, 1, Some(8)));
        assert!(trace.frames[0].item.frame.extended);
    }

    #[test]
    fn csv_of_python_can_is_understood() {
        let text = format!(
            "{CSV}\n1.5,0x123,0,0,0,2,Cv8=\n2.5,0x9,1,1,0,4,\n3.0,0x0,0,0,1,0,\n4.0,0x7ff,0,0,0,12,AAECAwQFBgcICQoL\n"
        );
        let trace = read_csv(&text).unwrap();
        assert_eq!(trace.frames[0].item.frame, Frame::classic(0x123, &[10, 255]).unwrap());
        assert_eq!((trace.frames[1].item.frame.remote, trace.frames[1].item.frame.extended), (Some(4), true));
        assert_eq!((trace.frames.len(), trace.errors, trace.frames[2].item.frame.fd), (3, 1, true));
        let other = read_csv("Time Stamp,ID,Extended,Dir,Bus,LEN,D1\n").unwrap_err().to_string();
        assert!(other.contains("none of python-can's"), "{other}");
    }

    #[test]
    fn what_is_no_frame_is_an_error_with_its_line() {
        let error = |read: Result<Recorded, TraceError>| read.unwrap_err().to_string();
        for (message, what) in [
            (error(read_asc("0.1 1 123 Rx d 8 00 01")), "line 1 of an asc file: less data"),
            (error(read_asc("\n0.1 1 800 Rx d 1 00")), "line 2 of an asc file: no frame of CAN"),
            (error(read_asc("0.1 1 20000000x Rx d 1 00")), "no frame of CAN"),
            (error(read_asc("0.1 1 123 Rx d")), "no length"),
            (error(read_asc("0.1 257 123 Rx d 0")), "more than 256 channels"),
            (error(read_asc("0.1 99999999 123 Rx d 0")), "no channel"),
            (error(read_asc("0.1 CANFD 1 Rx 123 1 0 f 2147483648 00")), "less data"),
            (error(read_asc("0.1 CANFD 1 Rx 123 1 0 f 18446744073709551615 00")), "less data"),
            (error(read_trc("1) 1.5 0123 8 00")), "line 1 of a trc file: less data"),
            (error(read_trc("1) 1e300 0123 0")), "no time"),
            (error(read_trc(";$FILEVERSION=3.0")), "a version of trc that is not read"),
            (error(read_trc(";$FILEVERSION=2.1\n1 1 DT 1 0123 Rx - 2 0A FF")), "no identifier"),
            (
                error(read_csv(&format!("{CSV}\n1,0x1,0,0,0,1,A"))),
                "line 2 of a csv file: data that are not base64",
            ),
            (error(read_csv(&format!("{CSV}\nnan,0x1,0,0,0,0,"))), "no time"),
            (error(read_csv(&format!("{CSV}\n1,0x1,0,1,0,9,"))), "no remote frame"),
        ] {
            assert!(message.contains(what), "{message}: {what}");
        }
    }

    #[test]
    fn cut_or_bent_texts_are_never_a_panic() {
        let csv = format!("{CSV}\n1.5,0x123,0,0,0,2,Cv8=\n");
        let trc = ";$FILEVERSION=2.1\n;$COLUMNS=N,O,T,B,I,d,R,L,D\n1 1 RR 2 00000009 Tx - 8\n";
        type Reader = fn(&str) -> Result<Recorded, TraceError>;
        let readers: [Reader; 3] = [read_asc, read_trc, read_csv];
        for text in [ASC, trc, &csv] {
            for at in 0..text.len() {
                for other in ["", " ", "9", "é", "x", "\u{0}", "-", "\n"] {
                    let bent = format!("{}{other}{}", &text[..at], &text[(at + 1).min(text.len())..]);
                    readers.iter().for_each(|read| drop(read(&bent)));
                    readers.iter().for_each(|read| drop(read(&text[..at])));
                }
            }
        }
    }
}
