//! The hat through the kernel's SPI devices.

use super::{Pi3hatConfig, Processor, Spi};
use crate::claim::{claim_node, is_taken, taken_node};
use crate::sys::spi;
use crate::{LinkError, OpenError};
use rustix::fs::{Mode, OFlags, open};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Three SPI devices of the kernel, one per processor.
///
/// Never run on a hat: what was tested is all above [`Spi`], against the emulated hat.
pub struct Spidev {
    devices: [OwnedFd; 3],
    speed_hz: u32,
}

impl Spidev {
    /// Opens the devices of the two CAN processors and of the third.
    ///
    /// # Errors
    /// A device is not there, not ours to open, in use, or refuses the mode.
    pub fn open(hat: &Pi3hatConfig) -> Result<Self, OpenError> {
        let device = |path: &str| {
            let path = Path::new(path);
            let explain = |error: std::io::Error| {
                let advice = match error.kind() {
                    std::io::ErrorKind::NotFound => {
                        "enable SPI in /boot/config.txt: `dtparam=spi=on`, `dtoverlay=spi1-2cs`, then reboot"
                    }
                    std::io::ErrorKind::PermissionDenied => "let your user in: `sudo usermod -aG spi $USER`",
                    _ => "is this a spidev device?",
                };
                OpenError::new(&path.display().to_string(), &error, advice)
            };
            let fd = open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
            let fd = fd.map_err(|error| explain(error.into()))?;
            claim_node(&fd)
                .map_err(|error| if is_taken(&error) { taken_node(path) } else { explain(error) })?;
            spi::set_mode_0(fd.as_fd()).map_err(explain)?;
            Ok(fd)
        };
        let [can_1, can_2] = &hat.can_spi;
        let devices = [device(can_1)?, device(can_2)?, device(&hat.aux_spi)?];
        Ok(Self { devices, speed_hz: hat.speed_hz })
    }

    fn transfer(&self, with: Processor, register: u8, data: spi::Data<'_>) -> Result<i64, LinkError> {
        let device = self.devices[with as usize].as_fd();
        let result = spi::transfer(device, register, data, self.speed_hz);
        result.map_err(|error| LinkError::Down { errno: error.raw_os_error().unwrap_or(0) })?;
        Ok(khz_rt::now_ns())
    }
}

impl Spi for Spidev {
    fn read(&mut self, of: Processor, register: u8, into: &mut [u8], _: i64) -> Result<i64, LinkError> {
        self.transfer(of, register, spi::Data::Read(into))
    }

    fn write(&mut self, to: Processor, register: u8, bytes: &[u8], _: i64) -> Result<i64, LinkError> {
        self.transfer(to, register, spi::Data::Write(bytes))
    }

    fn settle(&mut self, ns: i64, _: i64) -> i64 {
        sleep(Duration::from_nanos(ns.unsigned_abs()));
        khz_rt::now_ns()
    }
}
