//! How long a frame occupies its wire: pure functions that the emulated wire and the budget share.
//!
//! | wire | type | cost |
//! |---|---|---|
//! | CAN, CAN-FD | [`CanRate`] | bit-accurate from the frame's own bits, or a bound from its length |
//! | UART, RS485 | [`UartRate`] | bits per byte |
//! | Ethernet | [`EthernetRate`], [`EthernetPath`] | preamble, headers, minimum size, checksum, gap |
//! | SPI | [`SpiCost`] | a fixed part per transaction and a part per byte |
//!
//! Rates are per second and must not be 0 (a rate of 0 counts as 1). Results are whole nanoseconds, each
//! rounded to the nearest.

mod can;

pub use can::{CanBits, CanFormat, CanRate, Stuffing, arbitration_rank};

/// `units` at `per_second`, in nanoseconds.
fn duration_ns(units: u64, per_second: u32) -> i64 {
    let rate = u64::from(per_second.max(1));
    // Every frame there can be stays within 64 bits, which a processor divides at once.
    if let Some(units_ns) = units.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(rate / 2)) {
        return i64::try_from(units_ns / rate).unwrap_or(i64::MAX);
    }
    let rate = u128::from(rate);
    let ns = (u128::from(units) * 1_000_000_000 + rate / 2) / rate;
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// An asynchronous serial line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UartRate {
    /// Bits per second on the wire.
    pub baud: u32,
    /// Start, data, parity and stop bits; 10 for 8N1.
    pub bits_per_byte: u8,
}

impl UartRate {
    /// 8 data bits, no parity, one stop bit.
    pub const fn eight_n_one(baud: u32) -> Self {
        Self { baud, bits_per_byte: 10 }
    }

    /// From the first start bit to the last stop bit of `bytes` sent back to back.
    pub fn bytes_ns(self, bytes: usize) -> i64 {
        duration_ns((bytes as u64).saturating_mul(u64::from(self.bits_per_byte)), self.baud)
    }
}

/// A full-duplex Ethernet link (IEEE 802.3), carrying UDP over IPv4 without options or VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetRate {
    /// Bits per second, e.g. 100_000_000.
    pub bits_per_second: u32,
}

impl EthernetRate {
    /// Preamble and start delimiter.
    pub const PREAMBLE: usize = 8;
    /// Destination, source, type.
    pub const HEADER: usize = 14;
    /// Shorter contents are padded to this.
    pub const MIN_CONTENT: usize = 46;
    /// Frame check sequence.
    pub const FCS: usize = 4;
    /// Silence before the next frame.
    pub const GAP: usize = 12;
    /// IPv4 and UDP headers.
    pub const IP_UDP: usize = 20 + 8;

    /// Bytes from the preamble to the frame check sequence of a datagram with `payload` bytes.
    pub const fn udp_bytes(payload: usize) -> usize {
        let content = payload.saturating_add(Self::IP_UDP);
        let content = if content < Self::MIN_CONTENT { Self::MIN_CONTENT } else { content };
        content.saturating_add(Self::PREAMBLE + Self::HEADER + Self::FCS)
    }

    /// From the first preamble bit to the last check bit: what each store-and-forward hop adds.
    pub fn udp_ns(self, payload: usize) -> i64 {
        self.bytes_ns(Self::udp_bytes(payload))
    }

    /// As [`EthernetRate::udp_ns`], with the gap before the next frame: what a datagram uses up.
    pub fn udp_occupied_ns(self, payload: usize) -> i64 {
        self.bytes_ns(Self::udp_bytes(payload).saturating_add(Self::GAP))
    }

    fn bytes_ns(self, bytes: usize) -> i64 {
        duration_ns((bytes as u64).saturating_mul(8), self.bits_per_second)
    }
}

/// Two Ethernet links with store-and-forward switches between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetPath {
    /// The link of the sender of requests.
    pub sender: EthernetRate,
    /// The link of the sender of replies; those between switches are as fast.
    pub device: EthernetRate,
    /// Switches on the way.
    pub switches: u32,
    /// What each switch adds to each pass besides storing the frame, ns.
    pub switch_delay_ns: i64,
}

impl EthernetPath {
    /// How often a datagram is put on a wire during a round trip.
    pub const fn passes(self) -> u32 {
        2 * (self.switches + 1)
    }

    /// There and back, to the last check bit, with the switches' own delay.
    pub fn round_trip_ns(self, payload: usize) -> i64 {
        let (near_ns, far_ns) = (self.sender.udp_ns(payload), self.device.udp_ns(payload));
        if self.switches == 0 {
            return 2 * near_ns.max(far_ns);
        }
        // One pass each way on the sender's link; the others, between switches and to the device, at the device's.
        let switches = i64::from(self.switches);
        2 * (near_ns + switches * far_ns + switches * self.switch_delay_ns)
    }

    /// What the last of so many answers at once waits at the port to the sender.
    pub fn burst_ns(self, payload: usize, answers: usize) -> i64 {
        // A lone datagram is over with its last check bit; in a burst the gap counts too.
        self.sender.udp_occupied_ns(payload) * answers.saturating_sub(1) as i64
    }
}

/// A register access over SPI: holds and gaps, then bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpiCost {
    /// Time per transaction that does not depend on its length, ns.
    pub transaction_ns: i64,
    /// Time per byte, the address byte included, ns.
    pub byte_ns: i64,
}

impl SpiCost {
    /// The pi3hat at 10 MHz: three holds of 3 µs (chip select to address, address to data, between
    /// transactions) and 8 bits of 100 ns (mjbots/pi3hat docs/reference.md, "SPI Protocol").
    pub const PI3HAT: Self = Self { transaction_ns: 9_000, byte_ns: 800 };

    /// One transaction of an address byte and `data` bytes.
    pub fn transaction_with_ns(self, data: usize) -> i64 {
        let bytes = i64::try_from(data).unwrap_or(i64::MAX).saturating_add(1);
        self.transaction_ns.saturating_add(self.byte_ns.saturating_mul(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_query_at_three_megabaud() {
        // 13 bytes × 10 bits / 3 Mbaud = 43.333 µs; its reply of 29 bytes 96.667 µs.
        let line = UartRate::eight_n_one(3_000_000);
        assert_eq!(line.bytes_ns(13), 43_333);
        assert_eq!(line.bytes_ns(29), 96_667);
        assert_eq!(line.bytes_ns(0), 0);
    }

    #[test]
    fn two_hundred_bytes_of_udp() {
        // 8 + 14 + 20 + 8 + 200 + 4 = 254 bytes: 20.32 µs at 100 Mbit/s, so one more store-and-forward
        // switch costs a round trip 40.6 µs, and 4.06 µs at 1 Gbit/s.
        let fast = EthernetRate { bits_per_second: 100_000_000 };
        let gigabit = EthernetRate { bits_per_second: 1_000_000_000 };
        assert_eq!(2 * fast.udp_ns(200), 40_640);
        assert_eq!(2 * gigabit.udp_ns(200), 4_064);
    }

    fn path(bits_per_second: u32, switches: u32) -> EthernetPath {
        let rate = EthernetRate { bits_per_second };
        EthernetPath { sender: rate, device: rate, switches, switch_delay_ns: 0 }
    }

    /// HEBI Robotics, "Analyzing the viability of Ethernet and UDP for robot control" (2016): 20.3 µs a pass for 200 bytes,
    /// "roughly 80 µs" of a baseline round trip, 40.6 µs for each switch more.
    #[test]
    fn the_published_round_trip() {
        let baseline = path(100_000_000, 1);
        assert_eq!(
            (baseline.passes(), baseline.round_trip_ns(200), baseline.burst_ns(200, 1)),
            (4, 4 * 20_320, 0)
        );
        assert_eq!(path(100_000_000, 2).round_trip_ns(200) - baseline.round_trip_ns(200), 2 * 20_320);
    }

    #[test]
    fn forty_answers_wait_for_each_other() {
        assert_eq!(path(1_000_000_000, 1).burst_ns(200, 40), 39 * 2_128);
    }

    #[test]
    fn a_short_datagram_is_padded_to_the_minimum() {
        // 8 + 14 + 46 + 4 = 72 bytes, 84 with the gap: 5.76 and 6.72 µs at 100 Mbit/s.
        let fast = EthernetRate { bits_per_second: 100_000_000 };
        assert_eq!(fast.udp_ns(1), 5_760);
        assert_eq!(fast.udp_ns(18), 5_760);
        assert_eq!(fast.udp_occupied_ns(1), 6_720);
        assert_eq!(fast.udp_ns(19), 5_840);
    }

    #[test]
    fn a_pi3hat_transaction() {
        // Receive status: address and 6 bytes, 9 µs + 7 × 0.8 µs.
        assert_eq!(SpiCost::PI3HAT.transaction_with_ns(6), 14_600);
    }

    #[test]
    fn durations_go_on_where_64_bits_end() {
        let last = u64::MAX / 1_000_000_000;
        for rate in [1, 3, 1_000_000, 3_000_000, u32::MAX] {
            for units in [0, 1, 7, 640, last - 1, last, last + 1, 2 * last] {
                let exact = (u128::from(units) * 1_000_000_000 + u128::from(rate) / 2) / u128::from(rate);
                let expected = i64::try_from(exact).unwrap_or(i64::MAX);
                assert_eq!(duration_ns(units, rate), expected, "{units} at {rate}");
            }
        }
    }

    #[test]
    fn absurd_sizes_saturate() {
        assert_eq!(UartRate { baud: 0, bits_per_byte: 10 }.bytes_ns(usize::MAX), i64::MAX);
        assert_eq!(SpiCost::PI3HAT.transaction_with_ns(usize::MAX), i64::MAX);
        assert_eq!(EthernetRate { bits_per_second: 0 }.udp_occupied_ns(usize::MAX), i64::MAX);
    }
}
