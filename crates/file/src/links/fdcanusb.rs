//! Buses behind an fdcanusb.

use super::{Adapter, Around, BusLink, ByHand};
use khz_emu::BusConfig;
use khz_link::Link;
use khz_link::fdcanusb::{Fdcanusb, FdcanusbLink};

impl BusLink for FdcanusbLink {
    fn endpoint(&self) -> String {
        self.path.clone()
    }

    fn open(&self, _: Around<'_>) -> Result<Box<dyn Link>, String> {
        Ok(Box::new(Fdcanusb::open(self).map_err(|error| error.to_string())?))
    }

    fn rate_advice(&self, rate: Option<u32>) -> String {
        let Some(rate) = rate else { return "only an fdcanusb on USB can change its bit rate".to_owned() };
        format!(
            "store it in the adapter: `printf 'can off\\nconf set can.bitrate {rate}\\nconf write\\ncan on\\n' > {}`",
            self.path
        )
    }

    /// The bit rates are set in the adapter; moteus servos are shipped with these.
    fn emulated(&self) -> BusConfig {
        BusConfig::CAN_FD
    }

    fn adapter(&self) -> Adapter {
        Adapter::Usb
    }

    fn bit_rate_switch(&self) -> bool {
        self.bit_rate_switch
    }
}

impl ByHand for FdcanusbLink {
    const USAGE: &'static str = "fdcanusb:PATH";

    fn at(target: Option<&str>) -> Option<Self> {
        target.map(Self::at)
    }
}
