//! Which device stands behind a name, so that one that was lost is not taken for another that got its name.
//!
//! The kernel gives names like `ttyACM0` and `can0` in the order in which devices appear. Two adapters that are plugged
//! in again in another order swap their names, and with them a robot's legs. What stays is in sysfs: the USB serial
//! number, or else the place where the device is plugged in.

use rustix::fs::{fstat, major, minor};
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Where the kernel describes devices.
pub(crate) const SYS: &str = "/sys";

/// A device's identity, as far as it has one. Pseudo terminals and virtual interfaces have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// USB vendor and product.
    pub(crate) usb: Option<(u16, u16)>,
    /// USB serial number, if no other device that is plugged in has the same.
    serial: Option<String>,
    /// Where it is plugged in: the USB port, or the device's place in sysfs.
    place: Option<String>,
    /// Which of several ports or channels of one device.
    part: String,
}

impl Identity {
    /// Of an open serial port. `sys` is [`SYS`] but in tests.
    pub(crate) fn of_tty(sys: &Path, port: BorrowedFd<'_>) -> Self {
        device_of_tty(sys, port).map_or_else(Self::default, |device| Self::at(sys, &device, String::new()))
    }

    /// Of a network interface.
    pub(crate) fn of_interface(sys: &Path, name: &str) -> Self {
        let place = sys.join("class/net").join(name);
        let part = [text(&place.join("dev_id")), text(&place.join("dev_port"))];
        Self::at(sys, &place.join("device"), part.into_iter().flatten().collect::<Vec<_>>().join("/"))
    }

    /// Of the device a link in sysfs leads to.
    fn at(sys: &Path, link: &Path, part: String) -> Self {
        let Ok(device) = link.canonicalize() else { return Self::default() };
        // ttyACM and can sit in their USB interface, ttyUSB one deeper.
        let Some(usb) = device.ancestors().take(3).find(|place| usb_id(place).is_some()) else {
            return Self { place: Some(device.display().to_string()), part, ..Self::default() };
        };
        let port = name(usb);
        let interface = device.ancestors().map(name).find(|name| name.starts_with(&format!("{port}:")));
        let interface = interface.and_then(|name| Some(name.rsplit_once(':')?.1.to_owned()));
        let serial = text(&usb.join("serial")).filter(|serial| is_only_one(sys, usb, serial));
        Self { usb: usb_id(usb), serial, place: Some(port), part: joined(interface, part) }
    }

    /// The device found under the name is the one expected: the same serial number, or, where one of them has none of its
    /// own, the same place.
    fn is(&self, expected: &Self) -> bool {
        let same = match (&self.serial, &expected.serial) {
            (Some(found), Some(expected)) => found == expected,
            _ => self.place == expected.place,
        };
        same && (self.usb, &self.part) == (expected.usb, &expected.part)
    }
}

/// The timer of an adapter that holds received bytes back for longer than it must.
pub(crate) struct LatencyTimer {
    /// What the system calls the port.
    pub port: String,
    pub ms: u32,
}

/// Of an open serial port. Nothing, where a driver has none, or it is as short as can be.
pub(crate) fn latency_timer(sys: &Path, port: BorrowedFd<'_>) -> Option<LatencyTimer> {
    let device = device_of_tty(sys, port)?.canonicalize().ok()?;
    let ms = text(&device.join("latency_timer"))?.parse().ok().filter(|ms| *ms > 1)?;
    Some(LatencyTimer { port: name(&device), ms })
}

/// The link in sysfs that leads to the device of an open serial port.
fn device_of_tty(sys: &Path, port: BorrowedFd<'_>) -> Option<PathBuf> {
    let stat = fstat(port).ok()?;
    let number = format!("{}:{}", major(stat.st_rdev), minor(stat.st_rdev));
    Some(sys.join("dev/char").join(number).join("device"))
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.usb, &self.place) {
            (Some((vendor, product)), _) => write!(f, "USB device {vendor:04x}:{product:04x}")?,
            (None, Some(_)) => write!(f, "a device")?,
            (None, None) => return write!(f, "a device without identity"),
        }
        if let Some(serial) = &self.serial {
            write!(f, " with serial number {serial}")?;
        }
        if let Some(place) = &self.place {
            write!(f, " at {place}")?;
        }
        if self.part.is_empty() { Ok(()) } else { write!(f, " ({})", self.part) }
    }
}

/// What a name stood for when it was opened first, and why it was not opened again.
pub(crate) struct Guard {
    name: String,
    expected: Identity,
    advice: &'static str,
    refusal: Arc<OnceLock<String>>,
}

impl Guard {
    /// `name` stands for the device `expected`; `advice` is how to name it permanently. The reason for a refusal goes to
    /// `refusal`.
    pub(crate) fn new(
        name: &str,
        expected: Identity,
        advice: &'static str,
        refusal: Arc<OnceLock<String>>,
    ) -> Self {
        Self { name: name.into(), expected, advice, refusal }
    }

    /// Takes the device found under the name only if it is the one that was there first.
    ///
    /// # Errors
    /// It is another: which, and what to do.
    pub(crate) fn check(&self, found: &Identity) -> io::Result<()> {
        if found.is(&self.expected) {
            return Ok(());
        }
        let Self { name, expected, advice, .. } = self;
        let message = format!("{name}: not opened again: found {found}, expected {expected}; {advice}");
        // The first reason is kept; it is reported when the link is closed.
        let _ = self.refusal.set(message.clone());
        Err(io::Error::other(message))
    }
}

/// An interface of a USB device, and a port of that.
fn joined(interface: Option<String>, part: String) -> String {
    let parts = interface.into_iter().chain(Some(part));
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

/// No other USB device has this serial number; cheap adapters all have the same.
fn is_only_one(sys: &Path, usb: &Path, serial: &str) -> bool {
    let devices = fs::read_dir(sys.join("bus/usb/devices")).into_iter().flatten().flatten();
    let others = devices.filter_map(|entry| entry.path().canonicalize().ok()).filter(|other| other != usb);
    let id = usb_id(usb);
    !others
        .into_iter()
        .any(|other| usb_id(&other) == id && text(&other.join("serial")).as_deref() == Some(serial))
}

fn usb_id(place: &Path) -> Option<(u16, u16)> {
    let number = |file| u16::from_str_radix(&text(&place.join(file))?, 16).ok();
    Some((number("idVendor")?, number("idProduct")?))
}

fn text(file: &PathBuf) -> Option<String> {
    let text = fs::read_to_string(file).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn name(place: &Path) -> String {
    place.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Plugs an adapter into a USB port of a sysfs made up; `link` leads to it.
    pub(crate) fn plug_in(sys: &Path, port: &str, serial: &str, link: &str) {
        let usb = sys.join("devices/usb1").join(port);
        let interface = usb.join(format!("{port}:1.0"));
        fs::create_dir_all(&interface).unwrap();
        for (file, text) in [("idVendor", "1209\n"), ("idProduct", "2323\n"), ("serial", serial)] {
            fs::write(usb.join(file), text).unwrap();
        }
        let list = sys.join("bus/usb/devices");
        fs::create_dir_all(&list).unwrap();
        let _ = symlink(&usb, list.join(port));
        let link = sys.join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&link);
        symlink(&interface, &link).unwrap();
    }

    fn can(sys: &Path, name: &str) -> Identity {
        Identity::of_interface(sys, name)
    }

    #[test]
    fn an_adapter_is_known_by_its_serial_number_wherever_it_is_plugged_in() {
        let sys = tempfile::tempdir().unwrap();
        let sys = sys.path().canonicalize().unwrap();
        plug_in(&sys, "1-1", "A\n", "class/net/can0/device");
        plug_in(&sys, "1-2", "B\n", "class/net/can1/device");
        let (a, b) = (can(&sys, "can0"), can(&sys, "can1"));
        assert!(a.is(&a) && !b.is(&a) && a.usb == Some((0x1209, 0x2323)));
        plug_in(&sys, "1-2", "A\n", "class/net/can0/device");
        plug_in(&sys, "1-1", "B\n", "class/net/can1/device");
        assert!(can(&sys, "can0").is(&a), "the same adapter at the other port");
        assert!(!can(&sys, "can1").is(&a));
    }

    #[test]
    fn adapters_with_the_same_serial_number_are_known_by_their_port() {
        let sys = tempfile::tempdir().unwrap();
        let sys = sys.path().canonicalize().unwrap();
        plug_in(&sys, "1-1", "0001", "class/net/can0/device");
        plug_in(&sys, "1-2", "0001", "class/net/can1/device");
        let (a, b) = (can(&sys, "can0"), can(&sys, "can1"));
        assert!(a.is(&a) && !b.is(&a) && !a.is(&b));
    }

    #[test]
    fn channels_of_one_adapter_differ_and_what_has_no_identity_is_taken() {
        let sys = tempfile::tempdir().unwrap();
        let sys = sys.path().canonicalize().unwrap();
        for (name, port) in [("can0", "0"), ("can1", "1")] {
            plug_in(&sys, "1-1", "A", &format!("class/net/{name}/device"));
            fs::write(sys.join("class/net").join(name).join("dev_port"), port).unwrap();
        }
        let (first, second) = (can(&sys, "can0"), can(&sys, "can1"));
        assert!(first.is(&first) && !second.is(&first));
        let none = can(&sys, "vcan0");
        assert!(none.is(&none) && !none.is(&first) && !first.is(&none));
    }

    #[test]
    fn the_refusal_names_both_and_what_to_do() {
        let sys = tempfile::tempdir().unwrap();
        let sys = sys.path().canonicalize().unwrap();
        plug_in(&sys, "1-1", "A", "class/net/can0/device");
        plug_in(&sys, "1-2", "B", "class/net/can1/device");
        let refusal = Arc::new(OnceLock::new());
        let guard = Guard::new("can0", can(&sys, "can0"), "name it by udev", refusal.clone());
        assert!(guard.check(&can(&sys, "can0")).is_ok());
        let message = guard.check(&can(&sys, "can1")).unwrap_err().to_string();
        let expected = "can0: not opened again: found USB device 1209:2323 with serial number B at 1-2 (1.0), expected \
                        USB device 1209:2323 with serial number A at 1-1 (1.0); name it by udev";
        assert_eq!((message.as_str(), refusal.get().unwrap().as_str()), (expected, expected));
    }
}
