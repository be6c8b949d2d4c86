//! Buses emulated in this process: one link has all of them, so that the servos move one body.

use super::{Adapter, Around, BusLink, ByHand};
use khz_emu::{BusConfig, EmulatedLink, WireModel};
use khz_link::Link;

impl BusLink for EmulatedLink {
    fn endpoint(&self) -> String {
        self.wire.word().to_owned()
    }

    fn open(&self, around: Around<'_>) -> Result<Box<dyn Link>, String> {
        (around.emulated)()
    }

    fn rate_advice(&self, _: Option<u32>) -> String {
        "an emulated bus has the bit rate of its servos".to_owned()
    }

    fn emulated(&self) -> BusConfig {
        self.bus()
    }

    fn adapter(&self) -> Adapter {
        Adapter::Emulated
    }

    fn has_checksum(&self) -> bool {
        self.wire != WireModel::Instant
    }

    fn shared(&self, bus: usize) -> Option<u8> {
        Some(bus as u8)
    }

    fn classic_only(&self) -> Option<&'static str> {
        (self.wire == WireModel::Can).then_some("`wire = \"can\"` carries classic CAN frames only")
    }

    fn moteus_only(&self) -> Option<&'static str> {
        matches!(self.wire, WireModel::Rs485 | WireModel::Dynamixel | WireModel::Feetech)
            .then_some("a serial line")
    }
}

impl ByHand for EmulatedLink {
    const USAGE: &'static str = "emulated";

    fn at(target: Option<&str>) -> Option<Self> {
        target.is_none().then(Self::default)
    }
}
