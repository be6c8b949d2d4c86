#![no_main]

use khz_record::Intake;
use khz_tlog::{Reader, received};
use std::net::SocketAddr;

/// What the log may have at most.
const LIMIT: u64 = 20_000;

// Whatever comes by UDP, `khz log record` writes a whole log within its limit.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut intake = Intake::new(Vec::new(), LIMIT).expect("memory can be written");
    let mut now_ns = 1_583_798_400_000_000_000;
    let mut rest = bytes;
    while let [kind, sender, number, later, len, tail @ ..] = rest {
        let (messages, tail) = tail.split_at((*len as usize).min(tail.len()));
        rest = tail;
        // Mostly a sound head, so that what is behind it is looked at.
        let mut datagram = Vec::new();
        if kind % 8 != 0 {
            datagram.extend(b"KLOG\x01");
            datagram.extend(u64::from(sender % 3).to_le_bytes());
            datagram.extend(u64::from(*number).to_le_bytes());
        }
        datagram.extend(messages);
        now_ns += i64::from(*later) << 28;
        let from = SocketAddr::from(([127, 0, 0, sender % 5], u16::from(sender % 80)));
        intake.datagram(from, &datagram, now_ns).expect("memory can be written");
        if kind % 16 == 1 {
            intake.flush(now_ns).expect("memory can be written");
        }
    }
    let (counts, log) = intake.finish(now_ns).expect("memory can be written");
    assert!(log.len() as u64 <= LIMIT, "{} bytes", log.len());
    let mut reader = Reader::open(log).expect("a log");
    let mut samples = 0;
    while let Some(item) = reader.next_stored().expect("a whole log") {
        samples += u64::from(!received::MARKS.contains(&item.record.name()));
    }
    assert_eq!(samples, counts.samples);
});
