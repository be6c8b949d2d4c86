//! Devices behind Ethernet.

use super::{Adapter, Around, BusLink, ByHand};
use khz_emu::BusConfig;
use khz_link::Link;
use khz_link::udp::{Udp, UdpLink};

impl BusLink for UdpLink {
    fn endpoint(&self) -> String {
        self.address.clone()
    }

    fn open(&self, around: Around<'_>) -> Result<Box<dyn Link>, String> {
        let opened = Udp::open(self.options(around.ids)?, around.replier);
        Ok(Box::new(opened.map_err(|error| error.to_string())?))
    }

    /// Each device has an Ethernet port of its own: there is no bus they share.
    fn emulated(&self) -> BusConfig {
        BusConfig { turnaround_ns: BusConfig::CAN_FD.turnaround_ns, ..BusConfig::INSTANT }
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
