//! One measured round trip, as it is logged and as it travels to a recorder.
//!
//! A batch is one datagram: `khzrec`, version 1, the number of samples (one byte), a CRC-32 of all that follows it
//! (4 bytes), 4 bytes of zero, the run (8), the batch's number (8), then the samples in the log's own encoding.
//! Numbers are little endian.
use super::packet::Refusal;
use khz_tlog::{Input, Record, Slice};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// One answer to one question. Of a question without a sample the answer never came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Record)]
pub struct RoundTrip {
    /// The run, drawn at random.
    pub run: u64,
    /// The tick that asked.
    pub sequence: u64,
    /// The device's IPv6 address, or its IPv4 address mapped into one.
    pub device: [u8; 16],
    /// The device's port.
    pub device_port: u16,
    /// The address of the sender that reported it, all zero if it wrote the log itself.
    pub sender: [u8; 16],
    /// When it was asked, ns since the run began.
    #[tlog(unit = "ns")]
    pub asked_ns: i64,
    /// Until the answer was there, ns.
    #[tlog(unit = "ns")]
    pub round_trip_ns: i64,
    /// How long the device held it, by its own clock, ns.
    #[tlog(unit = "ns")]
    pub held_ns: i64,
    /// The answer came after the tick was over.
    pub late: bool,
}

/// An address as a log holds it.
pub(super) fn address_bytes(address: SocketAddr) -> [u8; 16] {
    let ip: Ipv6Addr = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    ip.octets()
}

/// Bytes of an encoded sample.
const SAMPLE: usize = 8 + 8 + 16 + 2 + 16 + 8 + 8 + 8 + 1;
const HEADER: usize = 32;
/// Samples of a batch, as many as fit an Ethernet frame.
pub(super) const MOST: usize = (1472 - HEADER) / SAMPLE;
/// Bytes of the largest batch.
pub(super) const LARGEST: usize = HEADER + MOST * SAMPLE;

const MAGIC: &[u8; 6] = b"khzrec";
const VERSION: u8 = 1;

/// A batch being filled.
#[derive(Debug)]
pub(super) struct Batch {
    bytes: [u8; LARGEST],
    run: u64,
    number: u64,
    count: usize,
}

impl Batch {
    /// The first batch of a run.
    pub(super) fn new(run: u64) -> Self {
        Self { bytes: [0; LARGEST], run, number: 0, count: 0 }
    }

    /// Adds a sample; true once the batch is full.
    pub(super) fn push(&mut self, sample: &RoundTrip) -> bool {
        if self.count < MOST {
            let at = HEADER + self.count * SAMPLE;
            sample.encode(&mut Slice::new(&mut self.bytes[at..at + SAMPLE]));
            self.count += 1;
        }
        self.count == MOST
    }

    /// The bytes to send, if there is anything to tell; the next batch is begun.
    pub(super) fn take(&mut self) -> Option<&[u8]> {
        if self.count == 0 {
            return None;
        }
        let length = HEADER + self.count * SAMPLE;
        let header = &mut self.bytes[..HEADER];
        header[..6].copy_from_slice(MAGIC);
        (header[6], header[7]) = (VERSION, self.count as u8);
        header[16..24].copy_from_slice(&self.run.to_le_bytes());
        header[24..32].copy_from_slice(&self.number.to_le_bytes());
        let sum = crc32fast::hash(&self.bytes[12..length]);
        self.bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        (self.count, self.number) = (0, self.number + 1);
        Some(&self.bytes[..length])
    }
}

/// A batch that came: its run, its number, its samples.
pub(super) struct Received<'a> {
    pub(super) run: u64,
    pub(super) number: u64,
    samples: Input<'a>,
    left: usize,
}

impl<'a> Received<'a> {
    /// Reads a datagram.
    pub(super) fn read(datagram: &'a [u8]) -> Result<Self, Refusal> {
        let header: &[u8; HEADER] = datagram.first_chunk().ok_or(Refusal::Foreign)?;
        if &header[..6] != MAGIC {
            return Err(Refusal::Foreign);
        }
        if header[6] != VERSION {
            return Err(Refusal::Version(header[6]));
        }
        let count = usize::from(header[7]);
        let whole = datagram.len() == HEADER + count * SAMPLE && (1..=MOST).contains(&count);
        if !whole || crc32fast::hash(&datagram[12..]).to_le_bytes() != header[8..12] {
            return Err(Refusal::Damaged);
        }
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        Ok(Self { run: word(16), number: word(24), samples: Input::new(&datagram[HEADER..]), left: count })
    }
}

impl Iterator for Received<'_> {
    type Item = RoundTrip;

    fn next(&mut self) -> Option<RoundTrip> {
        self.left = self.left.checked_sub(1)?;
        RoundTrip::decode(&mut self.samples).ok()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn sample(sequence: u64) -> RoundTrip {
        RoundTrip {
            run: 7,
            sequence,
            device: address_bytes(([10, 0, 0, 1], 0).into()),
            device_port: 7755,
            sender: [0; 16],
            asked_ns: 1,
            round_trip_ns: 2,
            held_ns: 3,
            late: false,
        }
    }

    #[test]
    fn a_sample_has_its_size() {
        assert_eq!(sample(1).to_bytes().len(), SAMPLE);
        const { assert!(LARGEST <= 1472) };
    }

    #[test]
    fn a_batch_comes_back() {
        let mut batch = Batch::new(7);
        assert_eq!(batch.take(), None);
        let pushed: Vec<RoundTrip> = (0..MOST as u64).map(sample).collect();
        let full: Vec<bool> = pushed.iter().map(|s| batch.push(s)).collect();
        assert_eq!(full.iter().filter(|full| **full).count(), 1);
        let bytes = batch.take().unwrap_or_default().to_vec();
        let received = Received::read(&bytes).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((received.run, received.number), (7, 0));
        assert_eq!(received.collect::<Vec<_>>(), pushed);
        batch.push(&sample(1));
        assert_eq!(Received::read(batch.take().unwrap_or_default()).map(|r| r.number), Ok(1));
    }

    /// A sender's first datagram takes a place at the recorder, so it must hold something.
    #[test]
    fn a_batch_without_samples_is_refused() {
        let mut bytes = [0; HEADER];
        bytes[..6].copy_from_slice(MAGIC);
        bytes[6] = VERSION;
        let sum = crc32fast::hash(&bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Received::read(&bytes).err(), Some(Refusal::Damaged));
    }

    proptest! {
        #[test]
        fn cut_and_flipped_batches_are_refused(bit in 0usize..8 * (HEADER + 2 * SAMPLE), cut in 0usize..HEADER + 2 * SAMPLE) {
            let mut batch = Batch::new(7);
            for i in 0..2 {
                batch.push(&sample(i));
            }
            let mut bytes = batch.take().unwrap_or_default().to_vec();
            prop_assert!(Received::read(&bytes[..cut]).is_err());
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Received::read(&bytes).is_err());
        }
    }
}
