//! Network cards and serial adapters, as far as they hold replies back.

use super::{Finding, Level, Machine};
use khz_rt::proc::Root;

const COALESCING: &str =
    "A card that collects packets before it interrupts holds each reply back for that long.";

/// Only for robots on Ethernet, so no more than a note.
pub(super) fn coalescing(machine: &Machine) -> Vec<Finding> {
    let finding = |(card, text): &(String, String)| {
        let wait_us = setting(text, "rx-usecs")?;
        let adaptive = text.lines().any(|line| line.starts_with("Adaptive RX: on"));
        Some(if wait_us == 0 && !adaptive {
            Finding::good("network", format!("{card} interrupts at once"), COALESCING)
        } else {
            let how = if adaptive { "as it likes (adaptive)" } else { "" };
            let what = format!("{card} collects packets for {wait_us} µs {how}");
            let off = if adaptive { "adaptive-rx off adaptive-tx off " } else { "" };
            Finding::new("network", Level::Note, what.trim_end(), COALESCING)
                .fix(format!("sudo ethtool -C {card} {off}rx-usecs 0 tx-usecs 0"))
        })
    };
    machine.coalescing.iter().filter_map(finding).collect()
}

/// A number from the output of `ethtool -c`; it is `n/a` for cards without the setting.
fn setting(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}

/// Network cards with hardware behind them.
pub(super) fn cards(root: &Root) -> Vec<String> {
    const ETHERNET: i64 = 1;
    let ethernet = |card: &String| root.number(&format!("/sys/class/net/{card}/type")) == Some(ETHERNET);
    let real = |card: &String| root.has(&format!("/sys/class/net/{card}/device"));
    root.list("/sys/class/net").into_iter().filter(|card| ethernet(card) && real(card)).collect()
}

const BUSY_POLL: &str = "With busy polling a thread that waits for a packet asks the card itself instead of waiting for \
                         an interrupt: some ten microseconds less for robots on Ethernet.";

pub(super) fn busy_poll(machine: &Machine) -> Vec<Finding> {
    if cards(&machine.root).is_empty() {
        return Vec::new();
    }
    match machine.root.number("/proc/sys/net/core/busy_poll") {
        Some(0) => vec![
            Finding::new("network", Level::Note, "sockets do not poll their card", BUSY_POLL)
                .fix("sudo sysctl net.core.busy_poll=50 net.core.busy_read=50"),
        ],
        Some(us) => vec![Finding::good("network", format!("sockets poll their card for {us} µs"), BUSY_POLL)],
        None => Vec::new(),
    }
}

const SERIAL: &str = "The adapter holds received bytes back until its timer runs out or its buffer is full: with 16 ms a \
                      cycle at 1 kHz is impossible.";

pub(super) fn serial_latency(machine: &Machine) -> Vec<Finding> {
    const PLACE: &str = "/sys/bus/usb-serial/devices";
    let finding = |port: &String| {
        let file = format!("{PLACE}/{port}/latency_timer");
        let ms = machine.root.number(&file)?;
        let what = format!("{port} holds bytes back for {ms} ms");
        Some(if ms <= 1 {
            Finding::good("serial", what, SERIAL)
        } else {
            Finding::new("serial", Level::Bad, what, SERIAL).fix(format!("echo 1 | sudo tee {file}"))
        })
    };
    machine.root.list(PLACE).iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::pretend::{found, machine};
    use super::*;

    const CARD: [(&str, &str); 2] =
        [("/sys/class/net/eth0/type", "1"), ("/sys/class/net/eth0/device/vendor", "x")];

    #[test]
    fn cards_that_collect() {
        let finding = |text: &str| {
            let mut pretend = machine(&CARD);
            pretend.machine.coalescing = vec![("eth0".into(), text.into())];
            let finding = coalescing(&pretend.machine).into_iter().next();
            finding.map(|finding| (finding.what, finding.fix.map_or(String::new(), |fix| fix.to_string())))
        };
        let (what, command) = finding("Adaptive RX: off  TX: off\nrx-usecs: 3\n").unwrap();
        assert_eq!(what, "eth0 collects packets for 3 µs");
        assert_eq!(command, "sudo ethtool -C eth0 rx-usecs 0 tx-usecs 0");
        assert!(finding("Adaptive RX: on  TX: on\nrx-usecs: 0\n").unwrap().1.contains("adaptive-rx off"));
        assert_eq!(finding("Adaptive RX: n/a  TX: n/a\nrx-usecs: 0\n").unwrap().1, "");
        assert_eq!(finding("rx-usecs:\tn/a\n"), None);
    }

    #[test]
    fn only_real_cards_count() {
        let files = [CARD[0], CARD[1], ("/sys/class/net/lo/type", "772"), ("/sys/class/net/ifb0/type", "1")];
        assert_eq!(cards(&machine(&files).machine.root), ["eth0"]);
    }

    #[test]
    fn polling() {
        let poll = |us| ("/proc/sys/net/core/busy_poll", us);
        assert_eq!(found(busy_poll, &[CARD[0], CARD[1], poll("0")])[0].0, Level::Note);
        assert_eq!(found(busy_poll, &[poll("0")]), []);
    }

    #[test]
    fn the_sixteen_milliseconds_of_a_serial_adapter() {
        let timer = "/sys/bus/usb-serial/devices/ttyUSB0/latency_timer";
        assert_eq!(found(serial_latency, &[(timer, "16")])[0].2, format!("echo 1 | sudo tee {timer}"));
        assert_eq!(found(serial_latency, &[(timer, "1")])[0].0, Level::Good);
    }
}
