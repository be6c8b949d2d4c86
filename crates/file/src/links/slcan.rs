//! CAN adapters that speak lines of text: CANable and its clones.

use super::{Adapter, Around, BusLink, ByHand};
use khz_emu::{BusConfig, WireKind};
use khz_link::Link;
use khz_link::slcan::{Slcan, SlcanLink};

/// Before the bit rate of the bus, and before that of the data phase, on a command line.
const NOMINAL: &str = ",bitrate=";
const DATA: &str = ",data=";

impl BusLink for SlcanLink {
    fn endpoint(&self) -> String {
        self.path.clone()
    }

    fn open(&self, _: Around<'_>) -> Result<Box<dyn Link>, String> {
        Ok(Box::new(Slcan::open(self).map_err(|error| error.to_string())?))
    }

    fn rate_advice(&self, rate: Option<u32>) -> String {
        let rate = rate.map_or("BIT/S".to_owned(), |rate| rate.to_string());
        format!(
            "write `slcan:{},bitrate={rate}`, or `nominal_bit_rate = {rate}` in the robot file",
            self.path
        )
    }

    fn emulated(&self) -> BusConfig {
        let data_bps = self.data_bit_rate.unwrap_or(self.nominal_bit_rate);
        let wire = WireKind::CanFd { nominal_bps: self.nominal_bit_rate, data_bps };
        BusConfig { wire, ..BusConfig::CAN_FD }
    }

    fn adapter(&self) -> Adapter {
        Adapter::Usb
    }

    fn classic_only(&self) -> Option<&'static str> {
        self.data_bit_rate.is_none().then_some("without `data_bit_rate` it carries classic CAN frames only")
    }

    fn nominal_bit_rate(&self) -> Option<u32> {
        Some(self.nominal_bit_rate)
    }

    fn misfit(&self) -> Option<(String, &'static str)> {
        self.greeting().err()
    }
}

impl ByHand for SlcanLink {
    const USAGE: &'static str = "slcan:PATH[,bitrate=BIT/S][,data=BIT/S]";

    fn at(target: Option<&str>) -> Option<Self> {
        let target = target?;
        if let Some((rest, rate)) = target.rsplit_once(DATA).filter(|(_, rate)| !rate.contains(NOMINAL)) {
            let link = <Self as ByHand>::at(Some(rest))?;
            return Some(Self { data_bit_rate: Some(rate.parse().ok()?), ..link });
        }
        if let Some((rest, rate)) = target.rsplit_once(NOMINAL) {
            let link = <Self as ByHand>::at(Some(rest))?;
            return Some(Self { nominal_bit_rate: rate.parse().ok()?, ..link });
        }
        Some(Self::at(target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_give_the_bit_rates() {
        let at = |target| {
            let link = <SlcanLink as ByHand>::at(Some(target))?;
            Some((link.path, link.nominal_bit_rate, link.data_bit_rate))
        };
        let path = || "/dev/a".to_owned();
        assert_eq!(at("/dev/a"), Some((path(), 1_000_000, None)));
        assert_eq!(at("/dev/a,data=5000000"), Some((path(), 1_000_000, Some(5_000_000))));
        assert_eq!(at("/dev/a,bitrate=500000"), Some((path(), 500_000, None)));
        let both = Some((path(), 500_000, Some(2_000_000)));
        assert_eq!(at("/dev/a,bitrate=500000,data=2000000"), both);
        assert_eq!(at("/dev/a,data=2000000,bitrate=500000"), both);
        assert_eq!([at("/dev/a,data=fast"), at("/dev/a,bitrate=500k")], [None, None]);
    }
}
