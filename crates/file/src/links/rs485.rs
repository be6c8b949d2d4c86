//! Serial lines with several servos.

use super::{Around, BusLink, ByHand};
use khz_emu::{BusConfig, WireKind};
use khz_link::Link;
use khz_link::rs485::{Rs485Driver, Rs485Link, SerialProtocol};

/// Before the bit rate, and before what the servos speak, on a command line.
const BAUD: &str = ",baud=";
const PROTOCOL: &str = ",protocol=";

impl BusLink for Rs485Link {
    fn endpoint(&self) -> String {
        self.path.clone()
    }

    fn open(&self, _: Around<'_>) -> Result<Box<dyn Link>, String> {
        self.open().map_err(|error| error.to_string())
    }

    fn rate_advice(&self, rate: Option<u32>) -> String {
        match (self.protocol, rate) {
            (SerialProtocol::Dynamixel | SerialProtocol::Feetech, Some(rate)) => format!(
                "write `rs485:{},baud={rate},protocol={}`, or `baud = {rate}` in the robot file",
                self.path, self.protocol
            ),
            _ => "the line has the rate of its key `baud` in the robot file".to_owned(),
        }
    }

    fn emulated(&self) -> BusConfig {
        BusConfig {
            wire: WireKind::Rs485 { baud: self.baud, packets: self.protocol.packets() },
            ..BusConfig::RS485
        }
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
    const USAGE: &'static str = "rs485:PATH[,baud=BIT/S][,protocol=dynamixel|feetech]";

    fn at(target: Option<&str>) -> Option<Self> {
        let target = target?;
        if let Some((rest, protocol)) = target.rsplit_once(PROTOCOL).filter(|(_, it)| !it.contains(BAUD)) {
            let link = <Self as ByHand>::at(Some(rest))?;
            return Some(Self { protocol: protocol.parse::<SerialProtocol>().ok()?, ..link });
        }
        if let Some((rest, baud)) = target.rsplit_once(BAUD) {
            let link = <Self as ByHand>::at(Some(rest))?;
            return Some(Self { baud: baud.parse().ok()?, ..link });
        }
        Some(Self::at(target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_say_what_its_servos_speak() {
        let at = |target| {
            let link = <Rs485Link as ByHand>::at(Some(target))?;
            Some((link.path, link.baud, link.protocol))
        };
        let of = |baud, protocol| Some(("/dev/a".to_owned(), baud, protocol));
        assert_eq!(at("/dev/a"), of(3_000_000, SerialProtocol::Moteus));
        assert_eq!(at("/dev/a,protocol=dynamixel"), of(3_000_000, SerialProtocol::Dynamixel));
        for both in ["/dev/a,baud=57600,protocol=dynamixel", "/dev/a,protocol=dynamixel,baud=57600"] {
            assert_eq!(at(both), of(57_600, SerialProtocol::Dynamixel));
        }
        assert_eq!([at("/dev/a,baud=fast"), at("/dev/a,protocol=modbus")], [None, None]);
    }
}
