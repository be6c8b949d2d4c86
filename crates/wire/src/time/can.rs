//! CAN and CAN-FD (ISO 11898-1:2015), bit by bit.

use super::duration_ns;
use crate::frame::{Frame, MAX_PAYLOAD, PADDING, padded_len};

/// The bit rates of a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanRate {
    /// Bits per second of the arbitration phase and of frames without bit-rate switch.
    pub nominal: u32,
    /// Bits per second of the data phase of frames with bit-rate switch.
    pub data: u32,
}

impl CanRate {
    /// 1 and 5 Mbit/s, as moteus servos are shipped.
    pub const MOTEUS: Self = Self { nominal: 1_000_000, data: 5_000_000 };

    /// From the start bit to the last bit of the end-of-frame field: then every receiver has the frame.
    pub fn frame_ns(self, frame: &Frame) -> i64 {
        CanBits::of(frame).ns(self)
    }

    /// As [`CanRate::frame_ns`], with the three bits of intermission before the next frame may start.
    pub fn occupied_ns(self, frame: &Frame) -> i64 {
        CanBits::of(frame).with_intermission().ns(self)
    }
}

/// How many bits a frame has at each rate, from the start bit to the end-of-frame field.
///
/// The rate changes at the *sample points* of the bit-rate-switch bit and of the CRC delimiter. Each of the
/// two is partly nominal and partly fast, and together they last exactly one bit of either kind; so the
/// first counts as nominal and the second as fast, and the sum is exact whatever the sample points are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanBits {
    /// Bits at the nominal rate.
    pub nominal: u32,
    /// Bits at the data rate.
    pub data: u32,
}

/// What decides a frame's fixed fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanFormat {
    /// 29-bit identifier.
    pub extended: bool,
    /// CAN-FD format (else classic CAN).
    pub fd: bool,
    /// Bit-rate switch; means nothing without `fd`.
    pub brs: bool,
}

/// How many stuff bits to assume where the contents are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuffing {
    /// None: the shortest a frame can be.
    Least,
    /// As random bits need: one per 30.
    Average,
    /// The most any contents can need.
    Worst,
}

/// Acknowledge slot, acknowledge delimiter and end of frame.
const TAIL: u32 = 1 + 1 + 7;
const INTERMISSION: u32 = 3;
/// Longer payloads than this carry CRC-21 instead of CRC-17.
const CRC_17_PAYLOAD: usize = 16;

impl CanBits {
    /// Counts a frame's bits, stuff bits included. A payload whose length CAN cannot express counts as
    /// padded with NOPs.
    pub fn of(frame: &Frame) -> Self {
        if frame.fd { fd_bits(frame) } else { classic_bits(frame) }
    }

    /// What a frame of this format with `len` bytes of unknown contents takes.
    pub fn for_length(format: CanFormat, len: usize, stuffing: Stuffing) -> Self {
        if format.fd { fd_estimate(format, len, stuffing) } else { classic_estimate(format, len, stuffing) }
    }

    /// With the three bits of intermission that separate frames.
    pub const fn with_intermission(self) -> Self {
        Self { nominal: self.nominal + INTERMISSION, ..self }
    }

    /// The bits' duration.
    pub fn ns(self, rate: CanRate) -> i64 {
        duration_ns(u64::from(self.nominal), rate.nominal)
            .saturating_add(duration_ns(u64::from(self.data), rate.data))
    }
}

/// Who wins arbitration: of frames that start together, the one with the lowest rank is sent first.
///
/// The bits of the arbitration field in wire order: 11 identifier bits, then for 29-bit frames a recessive
/// SRR and IDE bit and 18 more identifier bits, so that an 11-bit frame beats a 29-bit frame with the same
/// first 11 bits; then the bit that a remote frame leaves recessive, so that the data it asks for beat it.
pub const fn arbitration_rank(frame: &Frame) -> u32 {
    let remote = frame.remote.is_some() as u32;
    if frame.extended {
        (frame.id >> 18 & 0x7ff) << 21 | 0b11 << 19 | (frame.id & 0x3_ffff) << 1 | remote
    } else {
        (frame.id & 0x7ff) << 21 | remote << 20
    }
}

/// The stuffing rule: after five equal bits an opposite one follows, which counts for the next five.
///
/// The stuff bit is counted when the bit after it comes, because at the end of a CAN-FD frame's dynamically
/// stuffed part the CRC field's first fixed stuff bit takes its place (ISO 11898-1:2015, 10.5).
#[derive(Clone, Copy)]
struct Stuffer {
    /// `last bit × 5 + run length − 1`.
    state: u8,
    stuffed: u32,
}

impl Stuffer {
    /// After the (dominant) start bit.
    const fn after_start() -> Self {
        Self { state: 0, stuffed: 0 }
    }

    const fn bit(mut self, bit: bool) -> Self {
        let (mut last, mut run) = (self.state / 5 == 1, self.state % 5 + 1);
        if run == 5 {
            self.stuffed += 1;
            (last, run) = (!last, 1);
        }
        let run = if bit == last { run + 1 } else { 1 };
        self.state = bit as u8 * 5 + run - 1;
        self
    }

    /// The low `count` bits, highest first, one after the other: what [`STEPS`] is made of.
    const fn one_by_one(mut self, value: u64, count: u32) -> Self {
        let mut left = count;
        while left > 0 {
            left -= 1;
            self = self.bit(value >> left & 1 == 1);
        }
        self
    }

    /// The low `count` bits, highest first.
    fn bits(mut self, value: u64, count: u32) -> Self {
        let mut left = count;
        while left > 8 {
            left -= 8;
            self = self.step((value >> left) as u8, 8);
        }
        self.step((value & ((1 << left) - 1)) as u8, left)
    }

    /// At most a frame's payload.
    fn bytes(self, bytes: &[u8]) -> Self {
        let (mut step, mut sum) = (u16::from(self.state) << 8, 0);
        let mut add = |byte: u8| {
            step = BYTES[usize::from(step & 0xf00 | u16::from(byte))];
            sum += u32::from(step);
        };
        // Nearly all lengths are multiples of four.
        let (fours, rest) = bytes.as_chunks::<4>();
        for &[a, b, c, d] in fours {
            add(a);
            add(b);
            add(c);
            add(d);
        }
        rest.iter().for_each(|&byte| add(byte));
        // A payload has fewer than 256 stuff bits: no carry leaves the low byte.
        Self { state: (step >> 8) as u8, stuffed: self.stuffed + (sum & 0xff) }
    }

    /// At most eight bits; those of `value` above them must be 0.
    fn step(self, value: u8, count: u32) -> Self {
        let step = STEPS[usize::from(self.state & 0xf)][1 << count | usize::from(value)];
        Self { state: step & 0xf, stuffed: self.stuffed + u32::from(step >> 4) }
    }

    const fn ends_with_five(self) -> bool {
        self.state % 5 == 4
    }
}

/// What up to eight bits, behind a 1 that marks how many they are, do to each of the ten states: stuff bits in the high
/// nibble, next state in the low.
///
/// There are as many rows as four bits address, so that no index needs to be checked.
static STEPS: [[u8; 512]; 16] = {
    let mut steps = [[0; 512]; 16];
    let mut state = 0;
    while state < 10 {
        let mut marked = 1;
        while marked < 512_usize {
            let count = marked.ilog2();
            let value = marked as u64 - (1 << count);
            let after = Stuffer { state: state as u8, stuffed: 0 }.one_by_one(value, count);
            steps[state][marked] = (after.stuffed as u8) << 4 | after.state;
            marked += 1;
        }
        state += 1;
    }
    steps
};

/// What eight bits do to a state, by `state << 8 | byte`: next state in the high byte, stuff bits in the low. Both can be summed up without
/// being taken apart.
static BYTES: [u16; 16 << 8] = {
    let mut steps = [0; 16 << 8];
    let mut index = 0;
    while index < 10 << 8 {
        let before = Stuffer { state: (index >> 8) as u8, stuffed: 0 };
        let after = before.one_by_one(index as u64 & 0xff, 8);
        steps[index] = (after.state as u16) << 8 | after.stuffed as u16;
        index += 1;
    }
    steps
};

/// The 4-bit length code of a padded length.
const fn length_code(padded: usize) -> u8 {
    match padded {
        0..=8 => padded as u8,
        9..=24 => 6 + padded.div_ceil(4) as u8,
        25..=32 => 13,
        33..=48 => 14,
        _ => 15,
    }
}

fn padding(len: usize) -> &'static [u8] {
    const NOPS: [u8; MAX_PAYLOAD] = [PADDING; MAX_PAYLOAD];
    &NOPS[..padded_len(len).saturating_sub(len)]
}

/// Identifier and the flag bits in it, everything between the start bit and the bit that marks FD: the bits, and how many.
const fn identifier(frame: &Frame) -> (u64, u32) {
    let (id, remote) = (frame.id as u64, frame.remote.is_some() as u64);
    if frame.extended {
        // SRR and IDE recessive; RTR (in CAN-FD: RRS) dominant but for a remote frame.
        ((id >> 18 & 0x7ff) << 21 | 0b11 << 19 | (id & 0x3_ffff) << 1 | remote, 11 + 2 + 18 + 1)
    } else {
        // RTR (in CAN-FD: RRS), which is the same, then IDE, dominant.
        ((id & 0x7ff) << 2 | remote << 1, 11 + 1 + 1)
    }
}

/// Bits of the start bit and [`identifier`].
const fn identifier_len(extended: bool) -> u32 {
    if extended { 1 + 11 + 2 + 18 + 1 } else { 1 + 11 + 1 + 1 }
}

/// Stuff count (4 bits), CRC-17 or CRC-21, and a fixed stuff bit before every four of these; the contents do
/// not matter. 21 + 6 or 25 + 7 bits.
const fn fd_crc_field(len: usize) -> u32 {
    if len <= CRC_17_PAYLOAD { 27 } else { 32 }
}

/// Splits at the end of the bit-rate-switch bit (nominal) and of the CRC delimiter (fast).
const fn fd_split(brs: bool, head: u32, fast: u32) -> CanBits {
    if brs {
        CanBits { nominal: head + TAIL, data: fast }
    } else {
        CanBits { nominal: head + fast + TAIL, data: 0 }
    }
}

fn fd_bits(frame: &Frame) -> CanBits {
    let payload = frame.payload();
    let padded = padded_len(payload.len());
    let (identifier, count) = identifier(frame);
    // FDF recessive, res dominant, BRS.
    let head = Stuffer::after_start().bits(identifier << 3 | 0b100 | u64::from(frame.brs), count + 3);
    // ESI dominant (error active), then the length code.
    let all = head.step(length_code(padded), 5).bytes(payload).bytes(padding(payload.len()));
    let head_bits = identifier_len(frame.extended) + 3 + head.stuffed;
    let body = 1 + 4 + 8 * padded as u32 + (all.stuffed - head.stuffed);
    fd_split(frame.brs, head_bits, body + fd_crc_field(padded) + 1)
}

fn fd_estimate(format: CanFormat, len: usize, stuffing: Stuffing) -> CanBits {
    let padded = padded_len(len);
    let (before_fdf, body) = (identifier_len(format.extended), 1 + 4 + 8 * padded as u32);
    let (head_stuff, body_stuff) = match stuffing {
        Stuffing::Least => (0, 0),
        Stuffing::Average => (before_fdf / 30, body / 30),
        // FDF, res, BRS are 1, 0, 1 (or 1, 0, 0), which breaks runs: a stuff bit can follow the fifth, ninth,
        // … bit before FDF, and of ESI and what comes after (from res on, without bit-rate switch), but not
        // the last bit, whose stuff bit the CRC field replaces.
        Stuffing::Worst if format.brs => ((before_fdf - 1) / 4, (body - 2) / 4),
        Stuffing::Worst => ((before_fdf - 1) / 4, (body + 2 - 2) / 4),
    };
    fd_split(format.brs, before_fdf + 3 + head_stuff, body + body_stuff + fd_crc_field(padded) + 1)
}

/// Control field of classic CAN before the length code: r0, or r1 and r0.
const fn classic_reserved(extended: bool) -> u32 {
    if extended { 2 } else { 1 }
}

/// Everything between the start bit and the data: the bits, and how many.
const fn classic_head(frame: &Frame, payload: &[u8]) -> (u64, u32) {
    let (identifier, count) = identifier(frame);
    let control = classic_reserved(frame.extended) + 4;
    let length = match frame.remote {
        Some(len) => len as u64,
        None => payload.len() as u64,
    };
    (identifier << control | length, count + control)
}

fn classic_bits(frame: &Frame) -> CanBits {
    let payload = &frame.payload()[..frame.payload().len().min(8)];
    let (bits, count) = classic_head(frame, payload);
    let head = Stuffer::after_start().bits(bits, count);
    let all = head.bytes(payload).bits(u64::from(classic_crc(bits, payload)), 15);
    let stuffed = all.stuffed + all.ends_with_five() as u32;
    classic_total(frame.extended, payload.len(), stuffed)
}

const fn classic_total(extended: bool, len: usize, stuffed: u32) -> CanBits {
    // The length code, the data, CRC-15, its delimiter.
    let rest = classic_reserved(extended) + 4 + 8 * len as u32 + 15 + 1;
    CanBits { nominal: identifier_len(extended) + rest + stuffed + TAIL, data: 0 }
}

fn classic_estimate(format: CanFormat, len: usize, stuffing: Stuffing) -> CanBits {
    let len = len.min(8);
    let stuffable = classic_total(format.extended, len, 0).nominal - TAIL - 1;
    let stuffed = match stuffing {
        Stuffing::Least => 0,
        Stuffing::Average => stuffable / 30,
        Stuffing::Worst => (stuffable - 1) / 4,
    };
    classic_total(format.extended, len, stuffed)
}

/// CRC-15 of classic CAN, polynomial 0x4599, after these bits, highest first.
const fn crc_one_by_one(mut crc: u16, value: u64, count: u32) -> u16 {
    let mut left = count;
    while left > 0 {
        left -= 1;
        let flip = (value >> left & 1 == 1) != (crc & 0x4000 != 0);
        crc = (crc << 1 & 0x7fff) ^ if flip { 0x4599 } else { 0 };
    }
    crc
}

/// What eight bits make of a CRC of which only the upper eight are left.
static CRC_BYTES: [u16; 256] = {
    let mut bytes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        bytes[byte] = crc_one_by_one(0, byte as u64, 8);
        byte += 1;
    }
    bytes
};

/// The CRC over everything from the start bit to the data, before stuffing: over `head`, of less than 64 bits, and the payload. As the start
/// bit, zeros before the head make no difference.
fn classic_crc(head: u64, payload: &[u8]) -> u16 {
    head.to_be_bytes()
        .iter()
        .chain(payload)
        .fold(0, |crc: u16, &byte| crc << 8 & 0x7fff ^ CRC_BYTES[usize::from((crc >> 7) as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(id: u32, payload: &[u8]) -> Frame {
        Frame::new(id, payload).unwrap()
    }

    #[test]
    fn the_default_query_of_a_moteus_servo() {
        // 29-bit id 0x8001, FD, BRS, data 11 00 1f 01 13 0d. Stuff bits (marked |):
        //   SOF, 11 × 0             00000|00000|00
        //   SRR, IDE, 18 id bits    11 001 00000|00000|0000 1
        //   RRS FDF res BRS         0 1 0 1                   head: 1+11+2+18+1+3 = 36 bits + 4
        //   ESI, length code 6      0 0110
        //   11 00 1f                0001 0001 0000 0|000 00|01 1111|
        //   01 13 0d                0000|0001 0001 0011 0000 1101
        //                                                     body: 1+4+48 = 53 bits + 4
        //   CRC field 27, delimiter 1                         fast: 57 + 28 = 85
        //   ACK, delimiter, EOF     9                         nominal: 40 + 9 = 49
        let query = frame(0x8001, &[0x11, 0, 0x1f, 1, 0x13, 0x0d]);
        assert_eq!(CanBits::of(&query), CanBits { nominal: 49, data: 85 });
        assert_eq!(CanRate::MOTEUS.frame_ns(&query), 66_000);
        assert_eq!(CanRate::MOTEUS.occupied_ns(&query), 69_000);
    }

    #[test]
    fn an_empty_reply_with_an_eleven_bit_identifier() {
        // Id 0x100 = 00100000000, FD, BRS, no data.
        //   SOF, id, RRS, IDE       0 001 00000|000 0 0|
        //   FDF res BRS             1 0 1                    head: 14 + 3 = 17 bits + 2
        //   ESI, length code 0      0 0000                   body: 5; the CRC field replaces its stuff bit
        let empty = frame(0x100, &[]);
        assert_eq!(CanBits::of(&empty), CanBits { nominal: 19 + 9, data: 5 + 28 });
    }

    #[test]
    fn longer_payloads_have_the_longer_crc() {
        // 0x55 needs no stuffing; id 0x555 neither. 16 → 20 bytes: 32 data bits and 5 CRC bits more.
        let [short, long] = [&[0x55; 16][..], &[0x55; 20]].map(|data| CanBits::of(&frame(0x555, data)));
        assert_eq!(long.data - short.data, 32 + 5);
    }

    #[test]
    fn without_bit_rate_switch_everything_is_nominal() {
        let mut slow = frame(0x555, &[0x55; 8]);
        let fast = CanBits::of(&slow);
        slow.brs = false;
        // res, BRS, ESI are then 000 and the length code 8 adds none: no further stuff bit.
        assert_eq!(CanBits::of(&slow), CanBits { nominal: fast.nominal + fast.data, data: 0 });
    }

    #[test]
    fn the_crc_by_bytes_is_that_by_bits() {
        let mut seed = 1_u64;
        for len in (0..=8).cycle().take(2000) {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (head, payload) = (seed >> 26, seed.to_be_bytes());
            let by_bits = payload[..len]
                .iter()
                .fold(crc_one_by_one(0, head, 38), |crc, &byte| crc_one_by_one(crc, byte.into(), 8));
            assert_eq!(classic_crc(head, &payload[..len]), by_bits, "{head:x} {len}");
        }
    }

    #[test]
    fn a_classic_frame() {
        // 11-bit id 0x014, one byte 0x01; CRC 0x7753 by hand division. Stuff bits (marked |):
        //   SOF, id                 00000|00 1 0 1 00
        //   RTR IDE r0, length 1    000| 0001
        //   data 01                 00000|00 1
        //   CRC                     111011101010011          42 bits + 3
        //   delimiter               1
        //   ACK, delimiter, EOF     9
        let mut classic = frame(0x014, &[0x01]);
        (classic.fd, classic.brs) = (false, false);
        assert_eq!(classic_crc(classic_head(&classic, &[0x01]).0, &[0x01]), 0x7753);
        assert_eq!(CanBits::of(&classic), CanBits { nominal: 42 + 3 + 1 + 9, data: 0 });
        assert_eq!(CanRate::MOTEUS.frame_ns(&classic), 55_000);
    }

    /// An ODrive's estimates asked for: 44 bits, three of them intermission, and one stuff bit for each five equal ones.
    #[test]
    fn a_remote_frame_is_short_and_loses_to_the_data_it_asks_for() {
        let remote = Frame::remote(9, 0).unwrap();
        // SOF, id, RTR IDE r0, length: 00000|00 1001 1 0 00000; the CRC decides the rest.
        let CanBits { nominal, data } = CanBits::of(&remote).with_intermission();
        assert!((47 + 1..=47 + 8).contains(&nominal) && data == 0, "{nominal}");
        let data = Frame::classic(9, &[0; 8]).unwrap();
        assert!(arbitration_rank(&data) < arbitration_rank(&remote));
        assert!(arbitration_rank(&remote) < arbitration_rank(&Frame::classic(10, &[]).unwrap()));
    }

    /// A fixed pseudo-random walk over formats, with runs of equal bits frequent.
    fn all_kinds() -> impl Iterator<Item = Frame> {
        let mut seed = 1_u32;
        let mut next = move || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 8
        };
        (0..20_000).map(move |_| {
            let (mut data, len) = ([0; 64], next() as usize % 65);
            data.fill_with(|| [0x00, 0xff, 0xf0, 0x07, next() as u8][next() as usize % 5]);
            let mut frame = frame(next() << 8 & 0x1fff_ffff, &data[..len]);
            // Identifiers of long runs, and any others.
            match next() % 4 {
                0 => (frame.id, frame.extended) = (frame.id & 0x700, false),
                1 => (frame.id, frame.extended) = (next() & 0x7ff, false),
                2 => (frame.id, frame.extended) = (next() ^ next() << 8 & 0x1fff_ffff, true),
                _ => {}
            }
            frame.id &= 0x1fff_ffff;
            (frame.fd, frame.brs) = (next() % 4 > 0, next() % 2 == 0);
            frame
        })
    }

    /// [`CanBits::of`] without its tables: every field bit by bit, in the order of the standard.
    fn bit_by_bit(frame: &Frame) -> CanBits {
        let start = Stuffer::after_start();
        let id = u64::from(frame.id);
        let identifier = if frame.extended {
            start.one_by_one(id >> 18, 11).one_by_one(0b11, 2).one_by_one(id, 18).bit(false)
        } else {
            start.one_by_one(id, 11).bit(false).bit(false)
        };
        let bytes = |stuffer: Stuffer, bytes: &[u8]| {
            bytes.iter().fold(stuffer, |stuffer, &byte| stuffer.one_by_one(u64::from(byte), 8))
        };
        if frame.fd {
            let mut padded = *frame;
            padded.pad();
            let payload = padded.payload();
            let head = identifier.bit(true).bit(false).bit(frame.brs);
            let length = head.bit(false).one_by_one(u64::from(length_code(payload.len())), 4);
            let all = bytes(length, payload);
            let head_bits = identifier_len(frame.extended) + 3 + head.stuffed;
            let body = 1 + 4 + 8 * payload.len() as u32 + (all.stuffed - head.stuffed);
            fd_split(frame.brs, head_bits, body + fd_crc_field(payload.len()) + 1)
        } else {
            let payload = &frame.payload()[..frame.payload().len().min(8)];
            let reserved =
                if frame.extended { identifier.bit(false).bit(false) } else { identifier.bit(false) };
            let data = bytes(reserved.one_by_one(payload.len() as u64, 4), payload);
            let all = data.one_by_one(u64::from(classic_crc(classic_head(frame, payload).0, payload)), 15);
            let stuffed = all.stuffed + u32::from(all.ends_with_five());
            classic_total(frame.extended, payload.len(), stuffed)
        }
    }

    #[test]
    fn the_tables_count_what_counting_bit_by_bit_does() {
        for frame in all_kinds() {
            assert_eq!(CanBits::of(&frame), bit_by_bit(&frame), "{frame:?}");
        }
    }

    #[test]
    fn no_contents_exceed_the_bounds() {
        for frame in all_kinds() {
            let len = frame.payload().len();
            let format = CanFormat { extended: frame.extended, fd: frame.fd, brs: frame.brs };
            let bound = |stuffing| CanBits::for_length(format, len, stuffing);
            let (least, bits, worst) = (bound(Stuffing::Least), CanBits::of(&frame), bound(Stuffing::Worst));
            assert!(least.nominal <= bits.nominal && bits.nominal <= worst.nominal, "{frame:?}");
            assert!(least.data <= bits.data && bits.data <= worst.data, "{frame:?}");
        }
    }

    #[test]
    fn the_classic_worst_case_of_the_literature() {
        // 8 bytes, 11-bit id: 47 + 64 bits with intermission, plus ⌊(34 + 64 − 1) / 4⌋ = 24: 135 bits.
        let classic = CanFormat { extended: false, fd: false, brs: false };
        let worst = CanBits::for_length(classic, 8, Stuffing::Worst).with_intermission();
        assert_eq!(worst.nominal, 135);
        let extended = CanFormat { extended: true, ..classic };
        assert_eq!(CanBits::for_length(extended, 8, Stuffing::Worst).with_intermission().nominal, 160);
    }

    #[test]
    fn unexpressible_lengths_count_as_padded() {
        let mut padded = frame(0x8001, &[7; 19]);
        let bits = CanBits::of(&padded);
        padded.pad();
        assert_eq!(CanBits::of(&padded), bits);
    }

    #[test]
    fn eleven_bits_beat_twenty_nine() {
        let mut extended = frame(0x100, &[]);
        extended.extended = true;
        extended.id = 0x100 << 18;
        assert!(arbitration_rank(&frame(0x100, &[])) < arbitration_rank(&extended));
        assert!(arbitration_rank(&extended) < arbitration_rank(&frame(0x101, &[])));
    }
}
