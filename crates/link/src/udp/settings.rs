//! A bus behind Ethernet in a robot file.

use super::{Options, Peer, Reach, is_broadcast};
use khz_settings::{section, words};
use std::net::{SocketAddr, ToSocketAddrs};

words! {
    /// What an Ethernet port leads to.
    Behind {
        /// A servo, or servos that answer at once.
        Servo = "servo",
        /// A gateway: all servos of this `[bus.NAME]` share a CAN-FD bus behind it.
        CanFd = "can_fd",
    }
}

section! {
    /// A bus with `link = "udp"`.
    UdpLink {
        /// Where the devices listen, `HOST:PORT`; a broadcast address reaches all of them with one datagram.
        address: String, "";
        /// Where replies are received, `HOST:PORT`; port 0 selects any free port.
        listen: String = "0.0.0.0:0".to_owned(), "";
        /// How long the kernel polls the network card for a reply (`SO_BUSY_POLL`); 0 leaves it to interrupts.
        busy_poll_us: u32 = 0, "µs", 0 => 1000;
        /// What a port leads to: emulated by `khz emulate`, and counted by `khz check` and `khz budget`.
        behind: Behind = Behind::Servo, "";
        /// Bit rate of arbitration of a `can_fd` bus behind the port.
        nominal_bit_rate: u32 = 1_000_000, "bit/s", 10_000 => 1_000_000;
        /// Bit rate of the data phase of a `can_fd` bus behind the port.
        data_bit_rate: u32 = 5_000_000, "bit/s", 10_000 => 12_000_000;
    }
}

impl UdpLink {
    /// How to reach these devices. A broadcast address reaches all of them with one datagram; any other is the address of
    /// each, or, if the devices are unknown (`None`), of all. Blocks while a name is looked up.
    ///
    /// # Errors
    /// An address that leads nowhere, in words.
    pub fn options(&self, ids: Option<Vec<u8>>) -> Result<Options, String> {
        let address = resolve(&self.address)?;
        let peers = |ids: Vec<u8>| ids.into_iter().map(|id| Peer { channel: 0, id, address }).collect();
        let reach = match ids {
            Some(ids) if !is_broadcast(address) => Reach::Unicast(peers(ids)),
            _ => Reach::All(address),
        };
        Ok(Options { bind: resolve(&self.listen)?, reach, channels: 1, busy_poll_us: self.busy_poll_us })
    }
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().map_err(|error| format!("{text}: {error}"))?.next();
    found.ok_or_else(|| format!("{text}: no such host"))
}
