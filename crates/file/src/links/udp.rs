//! Devices behind Ethernet.

use super::{Adapter, Around, BusLink, ByHand};
use khz_emu::{BusConfig, WireKind};
use khz_link::Link;
use khz_link::udp::{Behind, Udp, UdpLink};

impl BusLink for UdpLink {
    fn endpoint(&self) -> String {
        self.address.clone()
    }

    fn open(&self, around: Around<'_>) -> Result<Box<dyn Link>, String> {
        let opened = Udp::open(self.options(around.ids)?, around.replier);
        Ok(Box::new(opened.map_err(|error| error.to_string())?))
    }

    fn rate_advice(&self, _: Option<u32>) -> String {
        "the device at its other end sets the bit rate".to_owned()
    }

    /// Without a gateway each device has an Ethernet port of its own: there is no bus they share.
    fn emulated(&self) -> BusConfig {
        let wire = match self.behind {
            Behind::Servo => WireKind::Instant,
            Behind::CanFd => {
                WireKind::CanFd { nominal_bps: self.nominal_bit_rate, data_bps: self.data_bit_rate }
            }
        };
        BusConfig { wire, ..BusConfig::CAN_FD }
    }

    fn adapter(&self) -> Adapter {
        Adapter::Ethernet
    }

    fn moteus_only(&self) -> Option<&'static str> {
        Some("devices behind Ethernet")
    }
}

impl ByHand for UdpLink {
    const USAGE: &'static str = "udp:HOST:PORT";

    fn at(target: Option<&str>) -> Option<Self> {
        target.map(|address| Self { address: address.to_owned(), ..Self::default() })
    }
}
