//! The buses of a pi3hat: one link has all of them.

use super::{Adapter, Around, BusLink, ByHand, LinkConfig};
use khz_emu::{BusConfig, WireKind};
use khz_link::Link;
use khz_link::pi3hat::{Options, Pi3hat, Pi3hatLink, Spidev};

impl BusLink for Pi3hatLink {
    fn endpoint(&self) -> String {
        format!("JC{}", self.channel)
    }

    fn open(&self, around: Around<'_>) -> Result<Box<dyn Link>, String> {
        let spi = Spidev::open(&around.pi3hat).map_err(|error| error.to_string())?;
        let options = options(&around);
        let opened = Pi3hat::open(spi, &options, around.replier, khz_rt::now_ns());
        Ok(Box::new(opened.map_err(|error| error.to_string())?))
    }

    fn rate_advice(&self, _: Option<u32>) -> String {
        "a pi3hat has the bit rates of its keys `nominal_bit_rate` and `data_bit_rate` in the robot file"
            .to_owned()
    }

    fn emulated(&self) -> BusConfig {
        let wire = WireKind::CanFd { nominal_bps: self.nominal_bit_rate, data_bps: self.data_bit_rate };
        BusConfig { wire, ..BusConfig::CAN_FD }
    }

    fn adapter(&self) -> Adapter {
        Adapter::Hat(self.channel)
    }

    fn bit_rate_switch(&self) -> bool {
        self.bit_rate_switch
    }

    fn shared(&self, _: usize) -> Option<u8> {
        Some(self.channel())
    }

    fn moteus_only(&self) -> Option<&'static str> {
        Some("not yet tested on a hat")
    }
}

impl ByHand for Pi3hatLink {
    const USAGE: &'static str = "pi3hat";

    fn at(target: Option<&str>) -> Option<Self> {
        target.is_none().then(Self::default)
    }
}

fn options(around: &Around<'_>) -> Options {
    let mut options = Options::default();
    for bus in &around.sharing {
        let LinkConfig::Pi3hat(bus) = bus else { continue };
        options.can[usize::from(bus.channel())] = bus.can();
    }
    if let Some(mounting) = around.imu_mounting {
        let [yaw, pitch, roll] = mounting.map(|angle| angle.to_degrees() as f32);
        (options.imu.yaw_deg, options.imu.pitch_deg, options.imu.roll_deg) = (yaw, pitch, roll);
        options.imu.rate_hz = 1000;
    }
    options
}
