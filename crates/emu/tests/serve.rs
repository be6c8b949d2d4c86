//! Pseudo terminals, with a client on the other side.

use khz_emu::serve::Server;
use khz_emu::{BusConfig, ServoConfig, World, WorldConfig};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Serves one bus of two servos while `client` talks to its terminal.
fn with_client(bus: BusConfig, client: impl FnOnce(&mut File)) {
    let servos = vec![ServoConfig::new(0, 1), ServoConfig::new(0, 2)];
    let config = WorldConfig { buses: vec![bus], servos, ..WorldConfig::default() };
    let mut server = Server::new(World::new(&config).unwrap()).unwrap();
    let path = server.endpoints().next().unwrap().to_owned();
    let stop = Arc::new(AtomicBool::new(false));
    let thread = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || server.run(&stop, None)
    });
    client(&mut File::options().read(true).write(true).open(path).unwrap());
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap().unwrap();
}

/// Reads until `end` has come; a terminal that stays silent fails the test instead of blocking it.
fn read_until(terminal: &mut File, end: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while !all.ends_with(end) {
        let timeout = Timespec { tv_sec: 20, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&*terminal, PollFlags::IN)], Some(&timeout)).unwrap();
        assert_eq!(ready, 1, "silence after {:?}", String::from_utf8_lossy(&all));
        let mut bytes = [0; 256];
        let count = terminal.read(&mut bytes).unwrap();
        all.extend_from_slice(&bytes[..count]);
    }
    all
}

#[test]
fn text_with_checksums_as_the_official_client_writes_it() {
    with_client(BusConfig::CAN_FD, |terminal| {
        terminal.write_all(b"can send 8001 1100 BF\n").unwrap();
        assert_eq!(read_until(terminal, b"rcv 00000100 210000\r\n"), b"OK\r\nrcv 00000100 210000\r\n");
        // Two lines in one write, the second cut in two; from the first checksum on all lines have one.
        terminal.write_all(b"can send 8001 11001F01130D BF *AD\ncan se").unwrap();
        terminal.write_all(b"nd 8001 11001F01130D BF *AC\n").unwrap();
        let text = String::from_utf8(read_until(terminal, b"5050 *D7\r\n")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.contains(&"OK *BD") && lines.contains(&"ERR checksum *B8"), "{text}");
    });
}

#[test]
fn rs485_frames() {
    with_client(BusConfig::RS485, |terminal| {
        // Noise, then the NOP with reply request and the default query of the format's worked examples.
        terminal.write_all(b"\x00\x54\x54\xab\x80\x01\x01\x50\x72\x3d").unwrap();
        let empty = read_until(terminal, &[0x54, 0xab, 1, 0, 0, 0x61, 0x4e]);
        assert_eq!(empty.len(), 7);
    });
}
