//! One measured round trip, as it is logged and streamed.
use khz_tlog::Record;
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
    /// All zero: once the address of a sender whose samples another program logged; now `run` distinguishes senders.
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;

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
}
