//! Records compressed by zstd between others, and what one sees who does not know of it.

use khz_tlog::{Compression, Input, Options, Reader, Sink, Source, Type, Value, Width, Writer, repair};

const T0: i64 = 1_583_798_400_000_000;

/// `fast` at 1 kHz by zstd, `slow` at 10 Hz plain.
fn log(samples: i64) -> Vec<u8> {
    log_with(Options::default(), samples)
}

fn log_with(options: Options, samples: i64) -> Vec<u8> {
    let mut log = Writer::new(Vec::new(), options).unwrap();
    let ty = Type::object([("n", Type::Uint(Width::Four)), ("text", Type::String)]);
    let fast = log.record_with("fast", &ty.to_bytes(), Compression::Zstd).unwrap();
    let slow = log.record_with("slow", &Type::Int(Width::Eight).to_bytes(), Compression::None).unwrap();
    for n in 0..samples {
        let mut payload = (n as u32).to_le_bytes().to_vec();
        payload.counted(format!("a text of some length, number {n}").as_bytes());
        log.write(fast, Some(T0 + n * 1000), &payload).unwrap();
        if n % 100 == 0 {
            log.write(slow, Some(T0 + n * 1000), &n.to_le_bytes()).unwrap();
        }
    }
    log.finish().unwrap()
}

fn numbers<S: Source>(reader: &mut Reader<S>) -> Vec<(u64, i64)> {
    let mut numbers = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        if item.record.name() == "fast" {
            let Some(Value::Uint(n)) = item.value().unwrap().at("n") else { panic!() };
            numbers.push((n, item.time_us.unwrap()));
        }
    }
    numbers
}

fn expected(range: std::ops::Range<i64>) -> Vec<(u64, i64)> {
    range.map(|n| (n as u64, T0 + n * 1000)).collect()
}

#[test]
fn samples_come_back_with_their_times_and_the_log_is_small() {
    let log = log(10_000);
    let mut reader = Reader::open(log.as_slice()).unwrap();
    assert!(reader.record("fast").unwrap().is_zstd() && !reader.record("slow").unwrap().is_zstd());
    assert_eq!(numbers(&mut reader), expected(0..10_000));
    reader.rewind();
    reader.select(["slow"]);
    let slow = std::iter::from_fn(|| reader.next().unwrap().map(|item| item.position));
    assert_eq!(slow.count(), 100);
    assert!(log.len() < 10_000 * 10, "{}", log.len());
}

/// `vectors/tlog/d.hex`: what some version of zstd wrote, every later one must read.
#[test]
fn a_log_written_once_can_be_read_ever_after() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/tlog/d.hex");
    if std::env::var_os("UPDATE").is_some() {
        let hex: Vec<String> = log(20).chunks(32).map(hex).collect();
        let about = "# Two records: \"fast\", 20 samples in one batch compressed by zstd, and \"slow\", one plain sample.\n\
             # Origin: our own writer (khz-tlog with zstd 1.5.7); the format is docs/log-format.md's, the batch ours.\n";
        std::fs::write(path, format!("{about}{}\n", hex.join("\n"))).unwrap();
    }
    let text = std::fs::read_to_string(path).unwrap();
    let digits = text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
    let bytes: Vec<u8> = digits.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let mut reader = Reader::open(bytes.as_slice()).unwrap();
    assert_eq!(numbers(&mut reader), expected(0..20));
    assert!(reader.record("fast").unwrap().is_zstd());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn who_does_not_know_of_it_reads_an_object_of_bytes() {
    let log = log(10);
    // The schema block at the log's beginning: type, size, identifier, flags, name, schema.
    let mut input = Input::new(&log[9..]);
    assert_eq!(input.varuint(), Ok(1));
    let mut body = Input::new(input.counted().unwrap());
    assert_eq!((body.varuint(), body.varuint()), (Ok(1), Ok(0)));
    assert_eq!(body.counted(), Ok(&b"fast"[..]));
    let Ok(Type::Object(fields)) = Type::decode(body.rest()) else { panic!() };
    assert_eq!((fields.len(), fields[0].name.as_str(), &fields[0].ty), (1, "zstd", &Type::Bytes));
}

#[test]
fn a_search_by_time_goes_between_the_samples_of_a_batch() {
    let log = log(10_000);
    let mut reader = Reader::open(log.as_slice()).unwrap();
    for first in [0, 1, 4_321, 9_999] {
        reader.seek(T0 + first * 1000 - 1).unwrap();
        assert_eq!(numbers(&mut reader), expected(first..10_000), "{first}");
    }
    reader.seek(T0 + 9_999_000).unwrap();
    assert_eq!(numbers(&mut reader), []);
}

#[test]
fn choosing_records_within_a_batch_loses_none_of_it() {
    let log = log(1000);
    let mut reader = Reader::open(log.as_slice()).unwrap();
    for name in ["fast", "slow", "fast"] {
        reader.rewind();
        reader.select(["fast", "slow"]);
        while reader.next().unwrap().unwrap().record.name() != "fast" {}
        reader.select([name]);
        let left = numbers(&mut reader);
        assert_eq!(left.len(), if name == "fast" { 999 } else { 0 });
    }
}

#[test]
fn a_large_sample_behind_a_small_one_can_be_read_or_is_refused() {
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let id = log.record_with("a", &Type::Bytes.to_bytes(), Compression::Zstd).unwrap();
    let payload = |len: usize| {
        let mut payload = Vec::new();
        payload.counted(&vec![0; len]);
        payload
    };
    let (small, large, larger) = (60_000, (64 << 20) - (130 << 10), (64 << 20) - 100);
    log.write(id, Some(1), &payload(small)).unwrap();
    log.write(id, Some(2), &payload(large)).unwrap();
    log.write(id, Some(3), &payload(small)).unwrap();
    assert!(log.write(id, Some(4), &payload(larger)).is_err());
    let mut reader = Reader::open(log.finish().unwrap()).unwrap();
    for len in [small, large, small] {
        assert_eq!(reader.next().unwrap().unwrap().payload.len(), payload(len).len());
    }
    assert!(reader.next().unwrap().is_none());
}

#[test]
fn no_sample_of_a_batch_can_be_asked_for_alone() {
    let log = log(1000);
    let mut reader = Reader::open(log.as_slice()).unwrap();
    reader.select(["fast"]);
    let first = reader.next().unwrap().unwrap().position;
    let error = reader.sample_at(first).unwrap_err();
    assert!(matches!(error, khz_tlog::Error::Batch { offset } if offset == first), "{error}");
    assert!(reader.places("fast").unwrap().is_none());
    assert_eq!(numbers(&mut reader), expected(1..1000), "looking elsewhere does not lose the place");
}

#[test]
fn reading_up_to_a_time_does_not_miss_what_waited_in_a_batch() {
    let log = log(10_000);
    let mut reader = Reader::open(log.as_slice()).unwrap();
    let (mut slow, mut fast) = (0, 0);
    while let Some(item) = reader.next().unwrap() {
        let (is_fast, time_us) = (item.record.name() == "fast", item.time_us.unwrap());
        if time_us <= T0 + 3_000_000 {
            *(if is_fast { &mut fast } else { &mut slow }) += 1;
        } else if reader.is_past(T0 + 3_000_000, time_us) {
            break;
        }
    }
    assert_eq!((fast, slow), (3001, 31));
    assert!(reader.position() < reader.size() * 3 / 4);
}

#[test]
fn a_repaired_log_has_the_same_samples_as_small() {
    let log = log(10_000);
    let (report, repaired) = repair(log.as_slice(), Vec::new(), |_| {}).unwrap();
    assert_eq!((report.samples, report.damages), (10_100, 0));
    assert!(repaired.len() < log.len() + log.len() / 10);
    assert_eq!(numbers(&mut Reader::open(repaired.as_slice()).unwrap()), expected(0..10_000));
}

#[test]
fn a_rare_sample_is_not_late_in_a_repaired_log() {
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let rare = log.record_with("rare", &Type::Null.to_bytes(), Compression::Zstd).unwrap();
    let often = log.record("often", &Type::Null).unwrap();
    log.write(rare, Some(T0), &[]).unwrap();
    (0..100).for_each(|n| log.write(often, Some(T0 + n * 100_000), &[]).unwrap());
    let (_, repaired) = repair(log.finish().unwrap(), Vec::new(), |_| {}).unwrap();
    let mut reader = Reader::open(repaired).unwrap();
    let before = std::iter::from_fn(|| reader.next().unwrap().map(|item| item.record.name() == "often"));
    assert_eq!(before.take_while(|is_often| *is_often).count(), 10, "those of the first second");
}

#[test]
fn what_was_whole_before_a_cut_comes_back() {
    let log = log(300);
    let whole = numbers(&mut Reader::open(log.as_slice()).unwrap());
    for cut in 9..log.len() {
        let mut reader = Reader::open(&log[..cut]).unwrap();
        let mut found = Vec::new();
        while let Ok(Some(item)) = reader.next() {
            if item.record.name() == "fast" {
                found.push(item.time_us.unwrap());
            }
        }
        assert!(found.iter().zip(&whole).all(|(found, (_, whole))| found == whole));
    }
}

#[test]
fn a_bit_flipped_in_a_batch_costs_that_batch() {
    let mut log = log(10_000);
    let middle = log.len() / 2;
    log[middle] ^= 0x10;
    let (report, repaired) = repair(log.as_slice(), Vec::new(), |_| {}).unwrap();
    assert_eq!(report.damages, 1);
    let found = numbers(&mut Reader::open(repaired.as_slice()).unwrap());
    assert!(found.len() < 10_000 && found.len() > 5_000, "{}", found.len());
}

#[test]
fn without_checksums_too_no_changed_byte_ends_a_repair() {
    let log = log_with(Options { checksums: false, ..Options::default() }, 300);
    for at in 9..log.len() {
        for bits in [0x01, 0x80, 0xff] {
            let mut log = log.clone();
            log[at] ^= bits;
            let (report, repaired) = repair(log, Vec::new(), |_| {}).unwrap();
            let mut reader = Reader::open(repaired).unwrap();
            let samples =
                std::iter::from_fn(|| reader.next().unwrap().map(|item| assert!(item.value().is_ok())))
                    .count();
            assert_eq!(samples as u64, report.samples, "byte {at} changed by {bits:#x}");
        }
    }
}

#[test]
fn a_sample_without_a_time_is_refused() {
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let id = log.record_with("a", &Type::Null.to_bytes(), Compression::Zstd).unwrap();
    assert!(log.write(id, None, &[]).is_err());
}

#[test]
fn samples_reach_the_file_when_asked_to() {
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let id = log.record_with("a", &Type::Null.to_bytes(), Compression::Zstd).unwrap();
    log.write(id, Some(5), &[]).unwrap();
    let before = log.position();
    log.flush().unwrap();
    assert!(log.position() > before);
    let bytes = log.destination().clone();
    assert_eq!(Reader::open(bytes).unwrap().next().unwrap().unwrap().time_us, Some(5));
}
