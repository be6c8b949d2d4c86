//! USB adapters: what the kernel does to them, and what they do to it.

use super::{Finding, Level, Machine};
use khz_rt::proc::Root;

const DEVICES: &str = "/sys/bus/usb/devices";

/// An adapter: the device's name in `/sys`, such as `1-2.3`, and its port or interface.
type Adapter = (String, String);

/// USB devices with a serial port or a CAN interface, in order.
fn adapters(root: &Root) -> Vec<Adapter> {
    const CAN: i64 = 280;
    let is_can = |name: &String| root.number(&format!("/sys/class/net/{name}/type")) == Some(CAN);
    let of_interface = |interface: String| {
        let (device, _) = interface.split_once(':')?;
        let within = |folder: &str| root.list(&format!("{DEVICES}/{interface}{folder}"));
        let port = within("").into_iter().find(|name| name.starts_with("ttyUSB"));
        let port = port.or_else(|| within("/tty").into_iter().next());
        let port = port.or_else(|| within("/net").into_iter().find(is_can))?;
        Some((device.to_owned(), port))
    };
    let mut adapters: Vec<Adapter> = root.list(DEVICES).into_iter().filter_map(of_interface).collect();
    adapters.sort();
    adapters
}

const AUTOSUSPEND: &str = "The kernel may switch an idle adapter off to save power; it wakes up late, and some lose what comes meanwhile.";

pub(super) fn autosuspend(machine: &Machine) -> Vec<Finding> {
    let finding = |(device, port): &Adapter| {
        let file = format!("{DEVICES}/{device}/power/control");
        Some(match machine.root.read(&file)?.as_str() {
            "auto" => {
                Finding::new("usb", Level::Note, format!("{port} may be suspended when idle"), AUTOSUSPEND)
                    .fix(format!("echo on | sudo tee {file}"))
            }
            _ => Finding::good("usb", format!("{port} is never suspended"), AUTOSUSPEND),
        })
    };
    adapters(&machine.root).iter().filter_map(finding).collect()
}

const HUB: &str = "A hub passes the frames of its ports on one after the other, adds its own delays, and is one plug more to come loose.";

pub(super) fn hubs(machine: &Machine) -> Vec<Finding> {
    // 1-2.3 is port 3 of the hub at port 2.
    let behind = adapters(&machine.root).into_iter().filter(|(device, _)| device.contains('.'));
    let ports: Vec<String> = behind.map(|(_, port)| port).collect();
    if ports.is_empty() {
        return Vec::new();
    }
    let are = if ports.len() == 1 { "is" } else { "are" };
    let what = format!("{} {are} behind a USB hub", ports.join(", "));
    vec![Finding::new("usb", Level::Note, what, HUB).advise("plug each adapter into a port of the computer")]
}

const GS_USB: &str = "Until December 2025 the kernel's driver of these CAN adapters used memory that it had freed: the computer \
                      panicked when an adapter was pulled, or its interface closed and opened again.";

/// By the year in which the kernel was built: the repair went into all kernels that are maintained.
pub(super) fn gs_usb(machine: &Machine) -> Vec<Finding> {
    if !machine.root.has("/sys/module/gs_usb") {
        return Vec::new();
    }
    let version = machine.root.read("/proc/sys/kernel/version").unwrap_or_default();
    let words = version.split(|c: char| !c.is_ascii_digit());
    let year = words.filter(|word| word.len() == 4).filter_map(|word| word.parse().ok());
    let update =
        "update the kernel; until then leave adapters plugged in while it runs, and `can` interfaces up";
    vec![match year.filter(|year| (2000..2100).contains(year)).max() {
        Some(2026..) => Finding::good("usb", "a kernel with the repaired gs_usb driver", GS_USB),
        Some(year) => {
            Finding::new("usb", Level::Warning, format!("gs_usb driver of {year}"), GS_USB).advise(update)
        }
        None => Finding::new("usb", Level::Note, "gs_usb driver of unknown age", GS_USB).advise(update),
    }]
}

#[cfg(test)]
mod tests {
    use super::super::pretend::found;
    use super::*;

    /// An fdcanusb at the computer, a CANable and a serial adapter behind a hub, and a keyboard.
    fn desk(control: &'static str) -> Vec<(&'static str, &'static str)> {
        vec![
            ("/sys/bus/usb/devices/1-1:1.0/tty/ttyACM0/dev", "166:0"),
            ("/sys/bus/usb/devices/1-1/power/control", control),
            ("/sys/bus/usb/devices/1-2.1:1.0/net/can0/type", "280"),
            ("/sys/class/net/can0/type", "280"),
            ("/sys/bus/usb/devices/1-2.4:1.0/ttyUSB0/dev", "188:0"),
            ("/sys/bus/usb/devices/1-3:1.0/input/input5/name", "keyboard"),
            ("/sys/bus/usb/devices/1-3/power/control", "auto"),
        ]
    }

    #[test]
    fn adapters_that_may_be_suspended_are_named_and_keyboards_are_not() {
        let [(level, what, command)] = &found(autosuspend, &desk("auto"))[..] else { panic!() };
        assert_eq!((*level, what.as_str()), (Level::Note, "ttyACM0 may be suspended when idle"));
        assert_eq!(command, "echo on | sudo tee /sys/bus/usb/devices/1-1/power/control");
        assert_eq!(found(autosuspend, &desk("on"))[0].0, Level::Good);
    }

    #[test]
    fn adapters_behind_a_hub() {
        let [(level, what, _)] = &found(hubs, &desk("on"))[..] else { panic!() };
        assert_eq!((*level, what.as_str()), (Level::Note, "can0, ttyUSB0 are behind a USB hub"));
        assert_eq!(found(hubs, &desk("on")[..2]), []);
    }

    #[test]
    fn kernels_whose_gs_usb_panics() {
        let driver = ("/sys/module/gs_usb/refcnt", "1");
        let of = |version| found(gs_usb, &[driver, ("/proc/sys/kernel/version", version)])[0].0;
        assert_eq!(of("#1 SMP PREEMPT_DYNAMIC Debian 6.1.112-1 (2024-09-30)"), Level::Warning);
        assert_eq!(of("#27 SMP PREEMPT_RT Tue Mar 10 11:32:02 UTC 2026"), Level::Good);
        assert_eq!(of("#1-NixOS SMP"), Level::Note);
        assert_eq!(found(gs_usb, &[]), []);
    }
}
