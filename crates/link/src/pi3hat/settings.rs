//! The hat and its buses in a robot file.

use khz_settings::section;
use khz_wire::pi3hat::CanConfig;

section! {
    /// `[pi3hat]`: the hat itself, shared by its buses.
    Pi3hatConfig {
        /// SPI device of the two CAN processors (auxiliary SPI, chip selects 0 and 1).
        can_spi: [String; 2] = ["/dev/spidev1.0".to_owned(), "/dev/spidev1.1".to_owned()], "";
        /// SPI device of the third processor: JC5 and IMU.
        aux_spi: String = "/dev/spidev0.0".to_owned(), "";
        /// SPI clock.
        speed_hz: u32 = 10_000_000, "Hz", 100_000 => 10_000_000;
    }
}

section! {
    /// A bus with `link = "pi3hat"`. All such buses belong to the one hat of `[pi3hat]`.
    Pi3hatLink {
        /// Which connector: 1 for JC1 to 5 for JC5.
        channel: u8, "", 1 => 5;
        /// Bit rate of arbitration.
        nominal_bit_rate: u32 = 1_000_000, "bit/s", 10_000 => 1_000_000;
        /// Bit rate of the data phase.
        data_bit_rate: u32 = 5_000_000, "bit/s", 10_000 => 10_000_000;
        /// Send the data phase at the data bit rate.
        bit_rate_switch: bool = true, "";
    }
}

impl Pi3hatLink {
    /// The channel on the link, from 0.
    pub fn channel(&self) -> u8 {
        self.channel.saturating_sub(1)
    }

    /// How the hat sets the bus up.
    pub fn can(&self) -> CanConfig {
        CanConfig {
            nominal: self.nominal_bit_rate as i32,
            data: self.data_bit_rate as i32,
            bit_rate_switch: self.bit_rate_switch,
            ..CanConfig::HOST_DEFAULT
        }
    }
}
