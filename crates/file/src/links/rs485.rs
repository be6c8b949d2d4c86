//! Serial lines with several servos.

use super::{Around, BusLink, ByHand};
use khz_emu::{BusConfig, WireKind};
use khz_link::Link;
use khz_link::rs485::{Rs485Driver, Rs485Link};

impl BusLink for Rs485Link {
    fn endpoint(&self) -> String {
        self.path.clone()
    }

    fn open(&self, _: Around<'_>) -> Result<Box<dyn Link>, String> {
        self.open().map_err(|error| error.to_string())
    }

    fn rate_advice(&self, _: Option<u32>) -> String {
        "the line has the rate of its key `baud` in the robot file".to_owned()
    }

    fn emulated(&self) -> BusConfig {
        BusConfig { wire: WireKind::Rs485 { baud: self.baud }, ..BusConfig::RS485 }
    }

    /// Not where this process polls the registers.
    fn by_kernel_thread(&self) -> bool {
        self.driver == Rs485Driver::Tty
    }

    fn moteus_only(&self) -> Option<&'static str> {
        Some("a serial line")
    }
}

impl ByHand for Rs485Link {
    const USAGE: &'static str = "rs485:PATH";

    fn at(target: Option<&str>) -> Option<Self> {
        target.map(Self::at)
    }
}
