//! Frames in UDP datagrams: our own format, for devices behind Ethernet and for emulated ones.
//!
//! All numbers are little endian. A datagram is a header and one or more entries:
//!
//! | offset | size | header |
//! |---|---|---|
//! | 0 | 2 | `4b 7a` ("Kz") |
//! | 2 | 1 | version, 1 |
//! | 3 | 1 | kind: 0 request, 1 reply, 2 request to all |
//! | 4 | 4 | sequence number: one per cycle of the host, repeated in the replies to it |
//!
//! | offset | size | entry |
//! |---|---|---|
//! | 0 | 4 | identifier, 29 bits |
//! | 4 | 1 | channel: which bus of the device's adapter |
//! | 5 | 1 | flags: bit 0 extended, bit 1 FD, bit 2 bit-rate switch; the others are 0 |
//! | 6 | 1 | length of the payload, at most 64 |
//! | 7 | … | payload, not padded |
//!
//! A request carries one entry to one device. A *request to all* is broadcast with the entries of every
//! device; each takes those addressed to it and answers at once, so that a single datagram starts the whole
//! cycle. Replies carry one entry or several. A reply whose sequence number is not the current one is stale. The host
//! begins with a random number, and a device answers from the address and port it was asked at. Of several requests
//! that wait, a device takes for each servo the newest.
//!
//! A device with an IMU adds its newest reading to its reply, as an entry with the identifier [`SENSORS`]: attitude
//! (w, x, y, z), rate (rad/s) and acceleration without gravity (m/s²), ten 32-bit floats.

use crate::frame::Frame;
use crate::subframe::Full;

const MAGIC: [u8; 2] = *b"Kz";
const VERSION: u8 = 1;
const HEADER: usize = 8;
const ENTRY: usize = 7;

/// The most a datagram may hold so that Ethernet carries it in one piece: 1500 bytes less the IPv4 and UDP
/// headers.
pub const MAX_DATAGRAM: usize = 1472;

/// The identifier of an entry with sensor values. Identifiers of the register protocol have 16 bits.
pub const SENSORS: u32 = 0x1f00_0000;

/// What an entry with sensor values adds to a datagram.
pub const SENSORS_ENTRY: usize = ENTRY + 40;

/// A reading of an IMU, as a datagram carries it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sensors {
    /// Attitude as a unit quaternion w, x, y, z (body → world).
    pub attitude: [f32; 4],
    /// Angular rate, rad/s.
    pub rate: [f32; 3],
    /// Acceleration without gravity, m/s².
    pub acceleration: [f32; 3],
}

impl Sensors {
    /// As an entry of a datagram.
    pub fn to_frame(&self) -> Option<Frame> {
        let mut payload = [0; SENSORS_ENTRY - ENTRY];
        let values = self.attitude.iter().chain(&self.rate).chain(&self.acceleration);
        for (bytes, value) in payload.chunks_exact_mut(4).zip(values) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        Frame::new(SENSORS, &payload)
    }

    /// What an entry carries, if it is one of sensor values. Values that are not finite come from the sensor.
    pub fn from_frame(frame: &Frame) -> Option<Self> {
        let payload: &[u8; SENSORS_ENTRY - ENTRY] = frame.payload().try_into().ok()?;
        let mut values = [0.0; 10];
        for (value, bytes) in values.iter_mut().zip(payload.chunks_exact(4)) {
            *value = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let [w, x, y, z, p, q, r, a, b, c] = values;
        (frame.id == SENSORS).then_some(Self {
            attitude: [w, x, y, z],
            rate: [p, q, r],
            acceleration: [a, b, c],
        })
    }
}

/// What a datagram is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DatagramKind {
    /// Host → one device.
    Request = 0,
    /// Device → host.
    Reply = 1,
    /// Host → all devices, with the frames of each.
    RequestToAll = 2,
}

/// The start of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is for.
    pub kind: DatagramKind,
    /// The host's cycle it belongs to; wraps.
    pub sequence: u32,
}

/// Writes a datagram into a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    /// Starts with the header.
    ///
    /// # Errors
    /// [`Full`] if `buffer` has not even room for that.
    pub fn new(header: Header, buffer: &'a mut [u8]) -> Result<Self, Full> {
        let start = buffer.first_chunk_mut::<HEADER>().ok_or(Full)?;
        start[..4].copy_from_slice(&[MAGIC[0], MAGIC[1], VERSION, header.kind as u8]);
        start[4..].copy_from_slice(&header.sequence.to_le_bytes());
        Ok(Self { buffer, len: HEADER })
    }

    /// Adds a frame.
    ///
    /// # Errors
    /// [`Full`] if it does not fit; nothing was written.
    pub fn push(&mut self, channel: u8, frame: &Frame) -> Result<(), Full> {
        let payload = frame.payload();
        let room = self.buffer[self.len..].get_mut(..ENTRY + payload.len()).ok_or(Full)?;
        let flags = u8::from(frame.extended) | u8::from(frame.fd) << 1 | u8::from(frame.brs) << 2;
        room[..4].copy_from_slice(&frame.id.to_le_bytes());
        room[4..ENTRY].copy_from_slice(&[channel, flags, payload.len() as u8]);
        room[ENTRY..].copy_from_slice(payload);
        self.len += ENTRY + payload.len();
        Ok(())
    }

    /// The datagram so far.
    pub fn written(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

/// A received datagram, checked from end to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// What it is for, and which cycle it belongs to.
    pub header: Header,
    entries: &'a [u8],
}

/// Why a datagram is none of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramError {
    /// Does not start with our two bytes.
    Foreign,
    /// Another version of this format.
    Version(u8),
    /// A kind this version does not have.
    Kind(u8),
    /// Ends within an entry, or an entry is impossible (identifier, flags, length).
    Malformed,
}

impl core::fmt::Display for DatagramError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Foreign => f.write_str("not a kilohertz datagram"),
            Self::Version(version) => write!(f, "datagram version {version}, expected {VERSION}"),
            Self::Kind(kind) => write!(f, "unknown kind of datagram {kind}"),
            Self::Malformed => f.write_str("malformed datagram"),
        }
    }
}

impl core::error::Error for DatagramError {}

impl<'a> Datagram<'a> {
    /// Checks a datagram.
    ///
    /// # Errors
    /// [`DatagramError`]; nothing of such a datagram is to be used.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DatagramError> {
        let (header, entries) = bytes.split_first_chunk::<HEADER>().ok_or(DatagramError::Foreign)?;
        let [m0, m1, version, kind, sequence @ ..] = *header;
        if [m0, m1] != MAGIC {
            return Err(DatagramError::Foreign);
        }
        if version != VERSION {
            return Err(DatagramError::Version(version));
        }
        let kind = [DatagramKind::Request, DatagramKind::Reply, DatagramKind::RequestToAll]
            .into_iter()
            .find(|&known| known as u8 == kind)
            .ok_or(DatagramError::Kind(kind))?;
        let mut rest = entries;
        while !rest.is_empty() {
            (_, _, rest) = entry(rest).ok_or(DatagramError::Malformed)?;
        }
        Ok(Self { header: Header { kind, sequence: u32::from_le_bytes(sequence) }, entries })
    }

    /// Channel and frame of every entry.
    pub fn frames(&self) -> impl Iterator<Item = (u8, Frame)> + use<'a> {
        let mut rest = self.entries;
        core::iter::from_fn(move || {
            let (channel, frame, behind) = entry(rest)?;
            rest = behind;
            Some((channel, frame))
        })
    }
}

/// The first entry and what is behind it.
fn entry(bytes: &[u8]) -> Option<(u8, Frame, &[u8])> {
    let ([i0, i1, i2, i3, channel, flags, len], rest) = bytes.split_first_chunk::<ENTRY>()?;
    let (payload, rest) = rest.split_at_checked(usize::from(*len))?;
    let mut frame = Frame::new(u32::from_le_bytes([*i0, *i1, *i2, *i3]), payload)?;
    frame.extended = flags & 1 != 0;
    frame.fd = flags & 2 != 0;
    frame.brs = flags & 4 != 0;
    (flags & !7 == 0).then_some((*channel, frame, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_to_all_byte_by_byte() {
        let mut buffer = [0; 64];
        let header = Header { kind: DatagramKind::RequestToAll, sequence: 0x0102_0304 };
        let mut writer = Writer::new(header, &mut buffer).unwrap();
        let frames = [Frame::new(0x8001, &[0x11, 0]).unwrap(), Frame::new(2, &[0x50]).unwrap()];
        writer.push(0, &frames[0]).unwrap();
        writer.push(3, &frames[1]).unwrap();
        let expected = [
            &[0x4b, 0x7a, 1, 2, 4, 3, 2, 1][..],
            &[0x01, 0x80, 0, 0, 0, 0b111, 2, 0x11, 0],
            &[0x02, 0x00, 0, 0, 3, 0b110, 1, 0x50],
        ];
        assert!(writer.written().iter().eq(expected.iter().copied().flatten()));

        let datagram = Datagram::parse(writer.written()).unwrap();
        assert_eq!(datagram.header, header);
        assert!(datagram.frames().eq([(0, frames[0]), (3, frames[1])]));
        for cut in 0..writer.written().len() {
            let whole_entries = [8, 17].contains(&cut);
            assert_eq!(Datagram::parse(&writer.written()[..cut]).is_ok(), whole_entries, "{cut}");
        }
    }

    #[test]
    fn strangers_are_refused() {
        let start = [0x4b, 0x7a, 1, 0, 0, 0, 0, 0];
        let changed = |at: usize, to: u8| {
            let mut bytes = start;
            bytes[at] = to;
            Datagram::parse(&bytes).map(|_| ())
        };
        assert_eq!(changed(0, 0), Err(DatagramError::Foreign));
        assert_eq!(changed(2, 2), Err(DatagramError::Version(2)));
        assert_eq!(changed(3, 9), Err(DatagramError::Kind(9)));
        for entry in [[0, 0, 0, 0x20, 0, 7, 0], [0, 0, 0, 0, 0, 8, 0], [0, 0, 0, 0, 0, 7, 1]] {
            let mut bytes = [0; 15];
            bytes[..8].copy_from_slice(&start);
            bytes[8..].copy_from_slice(&entry);
            assert_eq!(Datagram::parse(&bytes), Err(DatagramError::Malformed));
        }
    }

    #[test]
    fn sensor_values_come_back_and_nothing_else_is_taken_for_them() {
        let sensors = Sensors {
            attitude: [1.0, 0.0, 0.25, -0.5],
            rate: [1.0, 2.0, 3.0],
            acceleration: [-1.0, 0.5, 9.0],
        };
        let frame = sensors.to_frame().unwrap();
        assert_eq!((frame.id, frame.payload().len()), (SENSORS, 40));
        assert_eq!(&frame.payload()[..4], &1f32.to_le_bytes());
        assert_eq!(Sensors::from_frame(&frame), Some(sensors));
        assert_eq!(Sensors::from_frame(&Frame::new(0x8001, frame.payload()).unwrap()), None);
        assert_eq!(Sensors::from_frame(&Frame::new(SENSORS, &[0; 39]).unwrap()), None);
        // What is no number is for the supervisor to see: dropped here, the sensor would pass for silent.
        let nan = Sensors { rate: [f32::NAN; 3], ..sensors };
        let message = Sensors::from_frame(&nan.to_frame().unwrap()).unwrap();
        assert!(message.rate.iter().all(|value| value.is_nan()) && message.attitude == sensors.attitude);
    }

    #[test]
    fn what_does_not_fit_is_refused_whole() {
        let header = Header { kind: DatagramKind::Request, sequence: 0 };
        assert!(Writer::new(header, &mut [0; 7]).is_err());
        let mut buffer = [0; 16];
        let mut writer = Writer::new(header, &mut buffer).unwrap();
        assert_eq!(writer.push(0, &Frame::new(1, &[1, 2]).unwrap()), Err(Full));
        assert_eq!(writer.written().len(), 8);
        assert_eq!(writer.push(0, &Frame::new(1, &[1]).unwrap()), Ok(()));
    }
}
