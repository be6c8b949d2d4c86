//! The datagrams of a round trip.
//!
//! | offset | bytes | what, little endian |
//! |---|---|---|
//! | 0 | 6 | `khzrtt` |
//! | 6 | 1 | version, 1 |
//! | 7 | 1 | 1 request, 2 reply |
//! | 8 | 4 | CRC-32 (IEEE) of the header with this field zero |
//! | 12 | 4 | zero |
//! | 16 | 8 | the run, drawn at random by the sender |
//! | 24 | 8 | sequence number, the same for all that one tick asks |
//! | 32 | 8 | when the sender sent it, ns of its own clock |
//! | 40 | 8 | how long the device held it, ns; 0 in requests |
//! | 48 | | padding up to the payload wanted |
//!
//! A device sends back what it got with kind, held time and checksum replaced: never more bytes than came.
use std::fmt;

/// Bytes before the padding: the smallest payload.
pub const HEADER: usize = 48;
/// The largest payload of UDP over IPv4.
pub const MAX_PAYLOAD: usize = 65_507;

const MAGIC: &[u8; 6] = b"khzrtt";
const VERSION: u8 = 1;

/// What a datagram is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketKind {
    /// From the sender to a device.
    Request,
    /// From a device back to the sender.
    Reply,
}

/// The header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Request or reply.
    pub kind: PacketKind,
    /// The run it belongs to.
    pub run: u64,
    /// The tick that asked.
    pub sequence: u64,
    /// When it was sent, on the sender's clock.
    pub sent_ns: i64,
    /// How long the device held it.
    pub held_ns: i64,
}

/// Why a datagram is none of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Shorter than a header, or of another make.
    Foreign,
    /// Ours, of a version not known here.
    Version(u8),
    /// Ours, but damaged.
    Damaged,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => write!(f, "not a round-trip datagram"),
            Self::Version(version) => {
                write!(f, "round-trip datagram of version {version}, known is {VERSION}")
            }
            Self::Damaged => write!(f, "damaged round-trip datagram"),
        }
    }
}

impl Packet {
    /// Writes the header; what lies behind it stays as it is.
    ///
    /// # Panics
    /// If there is less room than [`HEADER`].
    pub fn write(&self, out: &mut [u8]) {
        out[..6].copy_from_slice(MAGIC);
        out[6] = VERSION;
        out[7] = if self.kind == PacketKind::Request { 1 } else { 2 };
        out[8..16].fill(0);
        out[16..24].copy_from_slice(&self.run.to_le_bytes());
        out[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        out[32..40].copy_from_slice(&self.sent_ns.to_le_bytes());
        out[40..48].copy_from_slice(&self.held_ns.to_le_bytes());
        let sum = crc32fast::hash(&out[..HEADER]);
        out[8..12].copy_from_slice(&sum.to_le_bytes());
    }

    /// Reads a header.
    ///
    /// # Errors
    /// If it is none of ours.
    pub fn read(datagram: &[u8]) -> Result<Self, Refusal> {
        let header: &[u8; HEADER] = datagram.first_chunk().ok_or(Refusal::Foreign)?;
        if &header[..6] != MAGIC {
            return Err(Refusal::Foreign);
        }
        if header[6] != VERSION {
            return Err(Refusal::Version(header[6]));
        }
        let mut summed = *header;
        summed[8..12].fill(0);
        let kind = match header[7] {
            1 => PacketKind::Request,
            2 => PacketKind::Reply,
            _ => return Err(Refusal::Damaged),
        };
        if crc32fast::hash(&summed).to_le_bytes() != header[8..12] {
            return Err(Refusal::Damaged);
        }
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        Ok(Self {
            kind,
            run: word(16),
            sequence: word(24),
            sent_ns: word(32) as i64,
            held_ns: word(40) as i64,
        })
    }

    /// The reply to this request.
    pub fn reply(self, held_ns: i64) -> Self {
        Self { kind: PacketKind::Reply, held_ns, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REQUEST: Packet =
        Packet { kind: PacketKind::Request, run: 7, sequence: 9, sent_ns: -1, held_ns: 0 };

    #[test]
    fn a_header_has_its_bytes() {
        let mut bytes = [0xff; 50];
        REQUEST.write(&mut bytes);
        assert_eq!(&bytes[..8], b"khzrtt\x01\x01");
        assert_eq!(&bytes[16..40], b"\x07\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff");
        assert_eq!(&bytes[48..], [0xff, 0xff], "padding is left alone");
    }

    #[test]
    fn every_truncation_is_foreign_and_every_flipped_bit_is_noticed() {
        let mut bytes = [0; HEADER];
        REQUEST.write(&mut bytes);
        for len in 0..HEADER {
            assert_eq!(Packet::read(&bytes[..len]), Err(Refusal::Foreign));
        }
        for bit in 0..HEADER * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Packet::read(&flipped).is_err(), "bit {bit}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(run: u64, sequence: u64, sent_ns: i64, held_ns: i64, reply: bool) {
            let kind = if reply { PacketKind::Reply } else { PacketKind::Request };
            let packet = Packet { kind, run, sequence, sent_ns, held_ns };
            let mut bytes = [0; HEADER];
            packet.write(&mut bytes);
            prop_assert_eq!(Packet::read(&bytes), Ok(packet));
        }

        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Packet::read(&bytes);
        }
    }
}
