//! A port for a test.

use std::net::UdpSocket;

/// A free port outside those the kernel assigns by itself: another test cannot be given it before it is used.
pub fn free_port() -> u16 {
    let mut ports = (20_000..32_000).cycle().skip(std::process::id() as usize % 12_000);
    ports.find(|port| UdpSocket::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}
