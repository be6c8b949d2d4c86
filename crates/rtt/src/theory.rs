//! What the wire alone takes, and what a measurement has more than that.
use khz_page::duration;
use khz_wire::time::{EthernetPath, EthernetRate};
use serde::{Deserialize, Serialize};

/// A network between sender and device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Bits per second of the sender's own link.
    pub sender_bits_per_second: u32,
    /// Bits per second of the device's link.
    pub device_bits_per_second: u32,
    /// Store-and-forward switches on the way.
    pub switches: u32,
    /// What each switch adds to each pass besides storing the frame, ns.
    pub switch_delay_ns: i64,
}

/// What a round trip takes on the wire, and a burst of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Theory {
    /// Bytes a datagram has on the wire, with preamble and gap.
    pub wire_bytes: usize,
    /// A datagram on the sender's wire, to its last bit, ns.
    pub sender_pass_ns: i64,
    /// A datagram on the device's wire, to its last bit, ns.
    pub device_pass_ns: i64,
    /// How often a datagram is put on a wire during a round trip.
    pub passes: u32,
    /// All passes of a round trip with the switches' own delay, ns.
    pub round_trip_ns: i64,
    /// What the last of many answers waits at the port to the sender, ns.
    pub burst_ns: i64,
}

impl Network {
    /// The theory for a payload and this many devices that answer at once.
    pub fn theory(&self, payload: usize, devices: usize) -> Theory {
        let path = self.path();
        Theory {
            wire_bytes: EthernetRate::udp_bytes(payload) + EthernetRate::GAP,
            sender_pass_ns: path.sender.udp_ns(payload),
            device_pass_ns: path.device.udp_ns(payload),
            passes: path.passes(),
            round_trip_ns: path.round_trip_ns(payload),
            burst_ns: path.burst_ns(payload, devices),
        }
    }

    fn path(&self) -> EthernetPath {
        let rate = |bits_per_second: u32| EthernetRate { bits_per_second: bits_per_second.max(1) };
        EthernetPath {
            sender: rate(self.sender_bits_per_second),
            device: rate(self.device_bits_per_second),
            switches: self.switches,
            switch_delay_ns: self.switch_delay_ns,
        }
    }
}

impl std::fmt::Display for Network {
    /// As a sentence names it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mbit = |rate: u32| f64::from(rate) / 1e6;
        write!(f, "{} Mbit/s at the sender, ", mbit(self.sender_bits_per_second))?;
        write!(f, "{} Mbit/s at the device, ", mbit(self.device_bits_per_second))?;
        match self.switches {
            1 => write!(f, "one switch")?,
            many => write!(f, "{many} switches")?,
        }
        match self.switch_delay_ns {
            0 => Ok(()),
            delay_ns => write!(f, " of {} each way", duration(delay_ns as f64)),
        }
    }
}

/// A typical round trip taken apart: what the wire must take, what the device's program held, and the rest. All ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Shares {
    /// The measured round trip, p50.
    pub measured_ns: f64,
    /// Of it, computed: all passes over the wires, with the switches' own delay.
    pub wire_ns: f64,
    /// Of it, as reported by the device: how long its program had the request, p50.
    pub held_ns: f64,
    /// The rest: the sender's and the device's operating system, driver and network card. Below zero if the
    /// network is faster than was given.
    pub rest_ns: f64,
}

impl Shares {
    /// Takes a measurement apart.
    pub fn new(theory: &Theory, measured_ns: f64, held_ns: f64) -> Self {
        let wire_ns = theory.round_trip_ns as f64;
        Self { measured_ns, wire_ns, held_ns, rest_ns: measured_ns - wire_ns - held_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Network = Network {
        sender_bits_per_second: 100_000_000,
        device_bits_per_second: 100_000_000,
        switches: 1,
        switch_delay_ns: 0,
    };

    /// HEBI Robotics, "Analyzing the viability of Ethernet and UDP for robot control" (2016): 266 bytes on the wire
    /// for 200 of payload.
    #[test]
    fn the_published_figures() {
        let baseline = FAST.theory(200, 1);
        assert_eq!((baseline.wire_bytes, baseline.passes, baseline.burst_ns), (266, 4, 0));
        assert_eq!(baseline.round_trip_ns, 4 * 20_320);
    }

    #[test]
    fn what_is_neither_wire_nor_held_is_the_computers() {
        // The study's baseline: p90 194 µs, of which "roughly 80 µs" on the wire.
        let shares = Shares::new(&FAST.theory(200, 1), 194_000.0, 10_000.0);
        assert_eq!((shares.wire_ns, shares.rest_ns), (81_280.0, 102_720.0));
    }

    #[test]
    fn a_network_is_named() {
        assert_eq!(FAST.to_string(), "100 Mbit/s at the sender, 100 Mbit/s at the device, one switch");
        let slow =
            Network { switches: 2, switch_delay_ns: 2_900, sender_bits_per_second: 1_000_000_000, ..FAST };
        assert_eq!(
            slow.to_string(),
            "1000 Mbit/s at the sender, 100 Mbit/s at the device, 2 switches of 2.9 µs each way"
        );
    }
}
