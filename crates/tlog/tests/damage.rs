//! One damaged byte in the schemas of a log costs no more than the records those bytes describe.

use khz_tlog::{Compression, Field, Options, Reader, Sink, Type, Width, Writer, repair};

const T0: i64 = 1_583_798_400_000_000;
const SAMPLES: i64 = 15;

/// The records by identifier, from 1: objects, types at the root whose last byte looks like the beginning of a block,
/// and one compressed by zstd.
fn records() -> Vec<(&'static str, Type, Compression)> {
    let servo = Type::object([("position", Type::Float32), ("mode", Type::Uint(Width::One))]);
    let mode = Type::enumeration([(0, "stopped"), (10, "position")]);
    let optional = Field { default: Some(vec![1, 4]), ..Field::new("x", Type::optional(Type::VarUint)) };
    vec![
        ("servo", servo.clone(), Compression::None),
        ("b", Type::Float32, Compression::None),
        ("n", Type::Uint(Width::One), Compression::None),
        ("state", Type::Object(vec![Field::new("mode", mode), optional]), Compression::Snappy),
        ("batched", servo, Compression::Zstd),
        ("text", Type::String, Compression::None),
    ]
}

fn payload(record: usize, n: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    match record {
        0 | 4 => [&(n as f32).to_le_bytes()[..], &[n as u8]].concat(),
        1 => (n as f32).to_le_bytes().to_vec(),
        2 => vec![n as u8],
        3 => vec![10, 1, n as u8],
        _ => {
            bytes.counted(format!("text number {n}").as_bytes());
            bytes
        }
    }
}

/// A log and where its schema blocks begin; last, where the data begins.
fn log(index: bool, checksums: bool) -> (Vec<u8>, Vec<usize>) {
    let options = Options { index, checksums, marker_period_us: 10_000, ..Options::default() };
    let mut log = Writer::new(Vec::new(), options).unwrap();
    let mut places = vec![log.position() as usize];
    let mut ids = Vec::new();
    for (name, ty, how) in records() {
        ids.push(log.record_with(name, &ty.to_bytes(), how).unwrap());
        places.push(log.position() as usize);
    }
    for n in 0..SAMPLES {
        for (record, id) in ids.iter().enumerate() {
            log.write(*id, Some(T0 + n * 1000), &payload(record, n)).unwrap();
        }
    }
    (log.finish().unwrap(), places)
}

/// The payloads of each record that come back in their order, of a log that must be whole.
fn kept(log: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let names: Vec<_> = records().into_iter().map(|(name, ..)| name).collect();
    let mut kept = vec![Vec::new(); names.len()];
    let mut reader = Reader::open(log).unwrap();
    while let Some(item) = reader.next().unwrap() {
        item.value().unwrap();
        if let Some(record) = names.iter().position(|name| *name == item.record.name()) {
            kept[record].push(item.payload.to_vec());
        }
    }
    kept
}

/// Every way in which one byte at `at` is damaged, in words, and the damaged log.
fn damaged(log: &[u8], at: usize) -> Vec<(String, Vec<u8>)> {
    let flips = (0..8).map(|bit| log[at] ^ 1 << bit).chain([!log[at]]).map(|byte| {
        let mut log = log.to_vec();
        log[at] = byte;
        (format!("byte {at} is {byte:#04x}"), log)
    });
    let inserts = [0, 1, 2, 3, 5, 0x80, 0xff, log[at]].map(|byte| {
        let mut log = log.to_vec();
        log.insert(at, byte);
        (format!("{byte:#04x} inserted at {at}"), log)
    });
    let mut removed = log.to_vec();
    removed.remove(at);
    flips.chain(inserts).chain([(format!("byte {at} removed"), removed)]).collect()
}

fn one_damaged_byte_in_a_schema_costs_no_other_record(index: bool, checksums: bool) {
    let (log, places) = log(index, checksums);
    let whole = kept(&log);
    assert!(whole.iter().all(|samples| samples.len() as i64 == SAMPLES));
    for at in places[0]..places[records().len()] {
        let hurt = places.iter().filter(|&&place| place <= at).count() - 1;
        for (what, damaged) in damaged(&log, at) {
            // A schema whose identifier is changed to another's describes that record.
            let claimed =
                damaged.get(places[hurt] + 2).map_or(usize::MAX, |id| usize::from(*id).wrapping_sub(1));
            let (report, repaired) = repair(damaged, Vec::new(), |_| {}).unwrap();
            let found = kept(&repaired);
            for record in (0..whole.len()).filter(|record| *record != hurt && *record != claimed) {
                let counts = (found[record].len(), whole[record].len());
                assert!(
                    found[record] == whole[record],
                    "{what}: record {record}: {counts:?}: {:?}",
                    report.errors.first()
                );
            }
        }
    }
}

/// One byte in the first schema block once lost a whole log without an index.
#[test]
fn a_damaged_schema_byte_in_a_log_without_index_costs_no_other_record() {
    one_damaged_byte_in_a_schema_costs_no_other_record(false, true);
}

/// One byte more or less in a schema block once lost a whole log with an index.
#[test]
fn a_damaged_schema_byte_in_a_log_with_index_costs_no_other_record() {
    one_damaged_byte_in_a_schema_costs_no_other_record(true, true);
}

#[test]
fn a_damaged_schema_byte_in_a_log_without_checksums_costs_no_other_record() {
    one_damaged_byte_in_a_schema_costs_no_other_record(false, false);
}

/// A bit flipped in the first nine bytes once made `repair` refuse the log.
#[test]
fn a_damaged_head_costs_no_sample() {
    for (index, checksums) in [(true, true), (false, true), (false, false)] {
        let (log, _) = log(index, checksums);
        let whole = kept(&log);
        for at in 0..9 {
            for (what, damaged) in damaged(&log, at) {
                let (report, repaired) = repair(damaged.as_slice(), Vec::new(), |_| {}).unwrap();
                assert!(kept(&repaired) == whole && report.damages > 0, "{what}: {report:?}");
            }
        }
    }
    let error = |bytes: &[u8]| repair(bytes, Vec::new(), |_| {}).unwrap_err().to_string();
    assert!(error(&[b'x'; 5000]).contains("not a TLOG0003 log"));
    assert!(error(b"").contains("not a TLOG0003 log"));
}
