//! CAN interfaces of the kernel.

use super::{Around, BusLink, ByHand};
use khz_emu::BusConfig;
use khz_link::Link;
use khz_link::socketcan::interface::Interface;
use khz_link::socketcan::{SocketCan, SocketcanLink};

impl BusLink for SocketcanLink {
    fn endpoint(&self) -> String {
        self.interface.clone()
    }

    fn open(&self, around: Around<'_>) -> Result<Box<dyn Link>, String> {
        let link = SocketCan::open_as(around.role, self).map_err(|error| error.to_string())?;
        // What the kernel's interface carries, no file has.
        if let Some(servo) = around.speaks_fd {
            let interface = Interface::read(&self.interface);
            interface.and_then(|it| it.require_fd(&servo)).map_err(|error| error.to_string())?;
        }
        Ok(Box::new(link))
    }

    fn rate_advice(&self, rate: Option<u32>) -> String {
        let (name, rate) = (&self.interface, rate.unwrap_or(500_000));
        format!(
            "the kernel sets the bit rate of {name}; for another: `sudo ip link set {name} down && sudo ip link set {name} up type can \
             bitrate {rate}`"
        )
    }

    /// The bit rates are set in the kernel; moteus servos are shipped with these.
    fn emulated(&self) -> BusConfig {
        BusConfig::CAN_FD
    }

    fn bit_rate_switch(&self) -> bool {
        self.bit_rate_switch
    }

    fn findings(&self) -> Vec<String> {
        let found = Interface::read(&self.interface).map(|interface| interface.findings());
        found.into_iter().flatten().map(|finding| finding.to_string()).collect()
    }
}

impl ByHand for SocketcanLink {
    const USAGE: &'static str = "socketcan:INTERFACE";

    fn at(target: Option<&str>) -> Option<Self> {
        target.map(Self::at)
    }
}
