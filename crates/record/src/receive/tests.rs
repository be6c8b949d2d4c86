use super::*;
use khz_tlog::{Reader, Sink};

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn datagram(session: u64, number: u64, samples: &[(u64, i64)]) -> Vec<u8> {
    let mut bytes = b"KLOG\x01".to_vec();
    bytes.put(&session.to_le_bytes());
    bytes.put(&number.to_le_bytes());
    if number == 0 {
        bytes.put(&[1, 0]);
        bytes.counted(b"tick");
        bytes.counted(&Type::Bool.to_bytes());
    }
    for (record, time_us) in samples {
        bytes.put(&[2, *record as u8]);
        bytes.put(&time_us.to_le_bytes());
        bytes.counted(&[1]);
    }
    bytes
}

#[test]
fn samples_of_several_senders_are_kept_apart_and_gaps_counted() {
    let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
    for number in [0, 1, 3, 2, 2, 7] {
        intake.datagram(address(1), &datagram(5, number, &[(0, number as i64)]), 0).unwrap();
    }
    intake.datagram(address(2), &datagram(5, 0, &[(0, 9), (1, 9)]), 0).unwrap();
    let (counts, log) = intake.finish(1000).unwrap();
    let expected =
        IntakeCounts { senders: 2, samples: 6, lost: 3, repeated: 1, unknown: 1, ..Default::default() };
    assert_eq!(counts, expected);
    let mut reader = Reader::open(log).unwrap();
    let mut found = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        let value = item.value().unwrap();
        let text = value.at("lost").or(value.at("address")).map(|value| format!("{value:?}"));
        found.push(format!("{} {}", item.record.name(), text.unwrap_or_default()));
    }
    assert_eq!(found[0], "sender String(\"127.0.0.1:1\")");
    assert_eq!(found.iter().filter(|line| line.starts_with("tick@2")).count(), 1);
    assert!(found.contains(&"gaps Uint(3)".into()));
}

/// They were written, and `khz log cat` and the Python reader failed on them.
#[test]
fn samples_that_do_not_fit_their_schema_are_refused_and_counted() {
    let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
    for (number, payload) in [&[1; 8][..], &[2; 4], &[3; 10], &[4; 8]].into_iter().enumerate() {
        let mut bytes = datagram(5, number as u64 + 1, &[]);
        bytes.put(&[1, 0]);
        bytes.counted(b"r");
        bytes.counted(&Type::object([("b", Type::Float32), ("c", Type::Float32)]).to_bytes());
        bytes.put(&[2, 0]);
        bytes.put(&[0; 8]);
        bytes.counted(payload);
        intake.datagram(address(1), &bytes, 0).unwrap();
    }
    let (counts, log) = intake.finish(0).unwrap();
    assert_eq!((counts.samples, counts.unfit, counts.is_whole()), (3, 1, false));
    let mut reader = Reader::open(log).unwrap();
    while let Some(item) = reader.next().unwrap() {
        item.value().unwrap();
    }
}

#[test]
fn a_sender_whose_samples_never_fit_is_refused_and_takes_no_place() {
    let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
    let mut bytes = datagram(5, 0, &[]);
    bytes.put(&[2, 0]);
    bytes.put(&[0; 8]);
    bytes.counted(&[]);
    intake.datagram(address(1), &bytes, 0).unwrap();
    let counts = intake.counts();
    assert_eq!((counts.senders, counts.unfit, counts.unknown), (0, 1, 0));
}

#[test]
fn another_session_from_the_same_address_changes_no_gaps() {
    let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
    intake.datagram(address(1), &datagram(5, 0, &[(0, 0)]), 0).unwrap();
    intake.datagram(address(1), &datagram(6, 1 << 40, &[]), 0).unwrap();
    intake.datagram(address(1), &datagram(5, u64::MAX, &[]), 0).unwrap();
    intake.datagram(address(1), &datagram(5, 1, &[]), 0).unwrap();
    assert_eq!((intake.counts().lost, intake.counts().refused), (0, 1));
}

#[test]
fn the_last_number_of_all_is_refused() {
    let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
    intake.datagram(address(1), &datagram(5, u64::MAX, &[]), 0).unwrap();
    assert_eq!((intake.counts().senders, intake.counts().refused), (0, 1));
    for number in [u64::MAX - 1, u64::MAX] {
        intake.datagram(address(1), &datagram(6, number, &[]), 0).unwrap();
    }
    assert_eq!((intake.counts().senders, intake.counts().lost, intake.counts().refused), (0, 0, 2));
}

/// An address of the host with this number.
fn host(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 7))
}

#[test]
fn no_more_senders_than_there_is_room_for() {
    let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
    let sample = [(0, 0)];
    (0..1000).for_each(|n| intake.datagram(host(1), &datagram(n, 0, &sample), 0).unwrap());
    assert_eq!(intake.counts().senders as usize, MAX_OF_ADDRESS, "one address takes half of the places");
    (2..5).for_each(|last| {
        (0..100).for_each(|n| intake.datagram(host(last), &datagram(n, 0, &sample), 0).unwrap());
    });
    assert_eq!(intake.counts().senders as usize, MAX_SENDERS);
    assert!(intake.senders.len() <= MAX_SENDERS + MAX_CANDIDATES);
    intake.datagram(host(1), &datagram(5000, 0, &sample), SILENCE_NS + 1).unwrap();
    assert_eq!(intake.counts().senders as usize, MAX_SENDERS + 1);
}

#[test]
fn bare_heads_and_schemas_take_no_place_and_no_name() {
    let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
    for last in 1..200 {
        // A head alone, a schema alone, a sample of no record, a sample that is none.
        intake.datagram(host(last), &datagram(1, 1, &[]), 0).unwrap();
        intake.datagram(host(last), &datagram(2, 0, &[]), 0).unwrap();
        intake.datagram(host(last), &datagram(3, 0, &[(7, 0)]), 0).unwrap();
        let mut bad = datagram(4, 0, &[(0, 0)]);
        bad.truncate(bad.len() - 2);
        bad.put(&[0]);
        intake.datagram(host(last), &bad, 0).unwrap();
    }
    assert_eq!((intake.counts().senders, intake.schema_bytes), (0, 0));
    assert!(intake.senders.len() <= MAX_CANDIDATES && intake.counts().evicted > 0);
    intake.datagram(host(250), &datagram(9, 0, &[(0, 1)]), 0).unwrap();
    let (counts, log) = intake.finish(0).unwrap();
    assert_eq!((counts.senders, counts.samples), (1, 1));
    let names: Vec<String> =
        Reader::open(log).unwrap().records().iter().map(|record| record.name().to_owned()).collect();
    assert_eq!(names, ["sender", "gaps", "tick"], "the first that gave a sample has the plain names");
}

/// As the auditor did it: 94 datagrams of 22 kB of schemas each.
#[test]
fn an_unknown_sender_with_many_schemas_leaves_room_for_a_newcomer() {
    let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
    let schema = Type::object([("x".repeat(22_000), Type::Null)]).to_bytes();
    for session in 0..94 {
        let mut bytes = datagram(session, 0, &[(0, 0)]);
        bytes.put(&[1, 1]);
        bytes.counted(b"large");
        bytes.counted(&schema);
        intake.datagram(host(1), &bytes, 0).unwrap();
    }
    assert!(intake.counts().no_room > 0 && intake.schema_bytes <= MAX_SCHEMAS / 4);
    let refused = intake.counts().refused;
    for number in 0..10 {
        intake.datagram(host(2), &datagram(1, number, &[(0, number as i64)]), 0).unwrap();
    }
    let before = intake.counts().samples - 10;
    assert_eq!((intake.counts().refused, before > 0), (refused, true));
    assert!(!intake.counts().is_whole());
}

#[test]
fn no_address_ends_the_recording_of_the_others() {
    const LIMIT: u64 = 1 << 20;
    let mut intake = Intake::new(Vec::new(), LIMIT).unwrap();
    intake.datagram(host(2), &datagram(1, 0, &[(0, 0)]), 0).unwrap();
    for number in 0..20_000 {
        intake.datagram(host(1), &datagram(1, number, &[(0, 0), (0, 1)]), 0).unwrap();
    }
    assert!(!intake.is_full() && intake.counts().beyond_share > 0);
    let before = intake.counts().samples;
    (1..100).for_each(|number| {
        intake.datagram(host(2), &datagram(1, number, &[(0, number as i64)]), 0).unwrap();
    });
    assert_eq!(intake.counts().samples, before + 99);
}

#[test]
fn a_sender_that_is_not_received_from_its_start_is_reported_with_what_came_before() {
    let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
    for number in [70, 72, 69, 68] {
        intake.datagram(address(1), &datagram(5, number, &[]), 0).unwrap();
    }
    // Its schemas, which it sends again every second, and a sample.
    let mut bytes = datagram(5, 0, &[(0, 0)]);
    bytes[13..21].copy_from_slice(&73u64.to_le_bytes());
    intake.datagram(address(1), &bytes, 0).unwrap();
    let (counts, log) = intake.finish(0).unwrap();
    assert_eq!(counts.lost, 1);
    let mut reader = Reader::open(log).unwrap();
    let sender = reader.next().unwrap().unwrap().value().unwrap();
    assert_eq!(sender.at("before"), Some(khz_tlog::Value::Uint(70)));
}

/// Samples whose times leap once made a marker each, which is much larger than they are.
#[test]
fn no_sender_makes_the_log_larger_than_its_limit() {
    const LIMIT: u64 = 1 << 20;
    let mut intake = Intake::new(Vec::new(), LIMIT).unwrap();
    for number in 0..200u64 {
        let mut bytes = datagram(1, number + 1, &[]);
        bytes.put(&[1]);
        bytes.varuint(number);
        bytes.counted(format!("r{number}").as_bytes());
        bytes.counted(&Type::Null.to_bytes());
        for sample in 0..5000 {
            bytes.put(&[2]);
            bytes.varuint(number);
            bytes.put(&(sample * 10_000_000_i64).to_le_bytes());
            bytes.counted(&[]);
        }
        intake.datagram(address(1), &bytes, 0).unwrap();
    }
    assert!(intake.is_full());
    let (counts, log) = intake.finish(0).unwrap();
    assert_eq!(counts.samples + counts.beyond + counts.unknown, 200 * 5000 + (200 - counts_of_records(&log)));
    assert!((LIMIT / 2..LIMIT).contains(&(log.len() as u64)), "{}", log.len());
}

fn counts_of_records(log: &[u8]) -> u64 {
    Reader::open(log).unwrap().records().len() as u64 - 2
}

#[test]
fn a_sender_whose_clock_is_wrong_spoils_no_search() {
    const NOW_US: i64 = 1_700_000_000_000_000;
    let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
    for number in 0..1000u64 {
        let now_us = NOW_US + number as i64 * 1000;
        let wild = [i64::MAX, i64::MIN, 0, NOW_US + 3_600_000_000][number as usize % 4];
        intake.datagram(address(1), &datagram(1, number, &[(0, wild)]), now_us * 1000).unwrap();
        intake.datagram(address(2), &datagram(2, number, &[(0, now_us - 500)]), now_us * 1000).unwrap();
    }
    let (counts, log) = intake.finish(0).unwrap();
    assert_eq!((counts.samples, counts.restamped), (2000, 1000));
    let mut reader = Reader::open(log).unwrap();
    reader.seek(NOW_US + 500_000).unwrap();
    reader.select(["tick@2"]);
    assert_eq!(reader.next().unwrap().unwrap().time_us, Some(NOW_US + 500_500));
}

#[test]
fn a_sample_that_is_sent_again_for_late_receivers_is_written_once() {
    let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
    (0..3).for_each(|number| intake.datagram(address(1), &datagram(1, number, &[(0, 7)]), 0).unwrap());
    assert_eq!(intake.counts().samples, 1);
    // What is sent twice after that was two samples.
    (3..6).for_each(|number| intake.datagram(address(1), &datagram(1, number, &[(0, 8)]), 0).unwrap());
    assert_eq!(intake.counts().samples, 4);
}

#[test]
fn no_sender_takes_the_name_of_another() {
    let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
    let mut bytes = datagram(1, 1, &[]);
    for (record, name) in ["tick@2", "gaps", "sender"].into_iter().enumerate() {
        bytes.put(&[1, record as u8]);
        bytes.counted(name.as_bytes());
        bytes.counted(&Type::Null.to_bytes());
    }
    bytes.put(&[2, 0]);
    bytes.put(&[0; 8]);
    bytes.counted(&[]);
    intake.datagram(address(1), &bytes, 0).unwrap();
    intake.datagram(address(2), &datagram(2, 0, &[(0, 0)]), 0).unwrap();
    let (counts, log) = intake.finish(0).unwrap();
    assert_eq!(counts.refused, 0);
    let reader = Reader::open(log).unwrap();
    let names: Vec<_> = reader.records().iter().map(|record| record.name()).collect();
    assert_eq!(names, ["sender", "gaps", "tick@2@1", "gaps@1", "sender@1", "tick@2"]);
}

#[test]
fn hostile_datagrams_are_counted() {
    let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
    let good = datagram(5, 0, &[(0, 1)]);
    for len in 0..good.len() {
        intake.datagram(address(9), &good[..len], 0).unwrap();
    }
    for (index, byte) in (0..good.len()).flat_map(|index| [0, 1, 0x7f, 0xff].map(|byte| (index, byte))) {
        let mut bad = good.clone();
        bad[index] = byte;
        intake.datagram(address(8), &bad, 0).unwrap();
    }
    let (counts, log) = intake.finish(0).unwrap();
    assert!(counts.refused > 20);
    let mut reader = Reader::open(log).unwrap();
    while reader.next().unwrap().is_some() {}
}

#[test]
fn schemas_beyond_the_limit_are_refused() {
    let mut intake = Intake::new(Vec::new(), 1 << 30).unwrap();
    let schema = Type::object([("x".repeat(50_000), Type::Bool)]).to_bytes();
    for number in 0..100u64 {
        let mut bytes = datagram(1, number + 1, &[]);
        bytes.put(&[1]);
        bytes.varuint(number);
        bytes.counted(format!("r{number}").as_bytes());
        bytes.counted(&schema);
        intake.datagram(address(1), &bytes, 0).unwrap();
    }
    assert!((85..100).contains(&intake.counts().refused), "{:?}", intake.counts());
    let (_, log) = intake.finish(0).unwrap();
    assert!(Reader::open(log).unwrap().is_finished());
}
