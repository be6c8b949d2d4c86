//! The registers of a serial port the kernel knows, mapped into this process.

use super::{Pl011, Registers, register};
use crate::OpenError;
use crate::serial::{self, Direction, Settings};
use crate::sys::memory::Memory;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// `PORT_AMBA` of linux/serial_core.h: what the kernel calls a PL011.
const PORT_AMBA: u64 = 32;

/// The memory of a PL011 under `/dev/mem`.
pub struct Mapped {
    memory: Memory,
    /// The kernel's port stays open, and locked, as long as we use its device: that keeps clock and pins on.
    _port: OwnedFd,
}

impl Pl011<Mapped> {
    /// Takes the UART behind a serial port of the kernel, for example `/dev/ttyAMA0`, into our own hands. The kernel's
    /// driver keeps clock and pins on, but gets no more interrupts. Closing the port gives the UART back.
    ///
    /// # Errors
    /// The port is no PL011, cannot be opened, or its memory may not be mapped, which takes root.
    pub fn open(path: impl AsRef<Path>, baud: u32) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let target = path.display().to_string();
        let class = Path::new("/sys/class/tty");
        require_pl011(class, path)?;
        let port = serial::claim(path, Settings { baud, direction: Direction::Adapter })?;
        // Only an open port has its clock running and reports the rate.
        let place = PortAddress::read(class, path)
            .ok_or_else(|| OpenError::new(&target, &"the kernel does not report its address", REMEDY))?;
        let memory = Memory::map(Path::new("/dev/mem"), place.address, register::SPACE)
            .map_err(|error| explain(&target, &error))?;
        Self::new(Mapped { memory, _port: port }, &target, place.clock_hz, baud, khz_rt::now_ns())
    }
}

impl Registers for Mapped {
    fn read(&mut self, offset: usize, _: i64) -> u32 {
        self.memory.read(offset)
    }

    fn write(&mut self, offset: usize, value: u32, _: i64) {
        self.memory.write(offset, value);
    }
}

const REMEDY: &str = "write `driver = \"tty\"`, which works with every serial port";

/// Where a port's registers are, and its clock.
#[derive(Debug, PartialEq, Eq)]
struct PortAddress {
    address: u64,
    clock_hz: u32,
}

impl PortAddress {
    /// Reads what the serial core reports under `class` (Linux, Documentation/ABI/testing/sysfs-tty).
    fn read(class: &Path, path: &Path) -> Option<Self> {
        let address = attribute(class, path, "iomem_base").filter(|address| *address != 0)?;
        let clock_hz = u32::try_from(attribute(class, path, "uartclk")?).ok()?;
        Some(Self { address, clock_hz })
    }
}

fn require_pl011(class: &Path, path: &Path) -> Result<(), OpenError> {
    if attribute(class, path, "type") == Some(PORT_AMBA) {
        return Ok(());
    }
    Err(OpenError::new(&path.display().to_string(), &"no PL011 UART, or there is no such port", REMEDY))
}

/// A number in decimal, or in hex after `0x`.
fn attribute(class: &Path, path: &Path, name: &str) -> Option<u64> {
    let device = path.canonicalize().ok()?;
    let text = std::fs::read_to_string(class.join(device.file_name()?).join(name)).ok()?;
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn explain(target: &str, error: &io::Error) -> OpenError {
    let advice = match error.kind() {
        io::ErrorKind::NotFound => "this kernel has no /dev/mem; write `driver = \"tty\"`",
        io::ErrorKind::PermissionDenied => {
            "mapping /dev/mem takes root; if root is refused too, boot with `iomem=relaxed`"
        }
        _ => REMEDY,
    };
    OpenError::new(target, &format!("/dev/mem: {error}"), advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_port_that_is_no_pl011_is_refused_with_the_remedy() {
        for path in ["/dev/null", "/dev/no-such-port"] {
            let error = Pl011::open(path, 3_000_000).map(|_| ()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{path}: no PL011 UART")), "{error}");
            assert!(error.contains("driver = \"tty\""), "{error}");
        }
    }

    #[test]
    fn the_kernel_reports_where_a_pl011_is() {
        let folder = tempfile::tempdir().unwrap();
        let (port, class) = (folder.path().join("ttyAMA0"), folder.path().join("class"));
        fs::write(&port, "").unwrap();
        fs::create_dir_all(class.join("ttyAMA0")).unwrap();
        let write = |name: &str, text: &str| fs::write(class.join("ttyAMA0").join(name), text).unwrap();
        write("type", "4\n");
        assert!(require_pl011(&class, &port).is_err());
        write("type", "32\n");
        assert!(require_pl011(&class, &port).is_ok());
        write("uartclk", "48000000\n");
        assert_eq!(PortAddress::read(&class, &port), None);
        write("iomem_base", "0xFE201000\n");
        assert_eq!(
            PortAddress::read(&class, &port),
            Some(PortAddress { address: 0xfe20_1000, clock_hz: 48_000_000 })
        );
    }
}
