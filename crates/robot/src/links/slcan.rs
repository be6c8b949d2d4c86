//! CAN adapters that speak lines of text: CANable and its clones.

use super::{Adapter, Around, BusLink, ByHand};
use khz_emu::{BusConfig, WireKind};
use khz_link::Link;
use khz_link::slcan::{Slcan, SlcanLink};

/// Between the path and the bit rate of the data phase, on a command line.
const RATE: &str = ",data=";

impl BusLink for SlcanLink {
    fn endpoint(&self) -> String {
        self.path.clone()
    }

    fn open(&self, _: Around<'_>) -> Result<Box<dyn Link>, String> {
        Ok(Box::new(Slcan::open(self).map_err(|error| error.to_string())?))
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

    fn misfit(&self) -> Option<(String, &'static str)> {
        self.greeting().err()
    }
}

impl ByHand for SlcanLink {
    const USAGE: &'static str = "slcan:PATH[,data=BIT/S]";

    fn at(target: Option<&str>) -> Option<Self> {
        let target = target?;
        let Some((path, rate)) = target.split_once(RATE) else { return Some(Self::at(target)) };
        Some(Self { data_bit_rate: Some(rate.parse().ok()?), ..Self::at(path) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_give_the_bit_rate_of_the_data_phase() {
        let at = |target| <SlcanLink as ByHand>::at(Some(target)).map(|link| (link.path, link.data_bit_rate));
        assert_eq!(at("/dev/a"), Some(("/dev/a".to_owned(), None)));
        assert_eq!(at("/dev/a,data=5000000"), Some(("/dev/a".to_owned(), Some(5_000_000))));
        assert_eq!(at("/dev/a,data=fast"), None);
    }
}
