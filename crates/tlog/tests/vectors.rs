//! The worked logs of the format, read and written, and what becomes of damaged ones.

use khz_tlog::{
    Compression, Error, Field, Options, Reader, RecordId, Sink, Symbol, Type, Value, Width, Writer,
};
use proptest::prelude::*;

const T0: i64 = 1_583_798_400_000_000;

fn vector(name: &str) -> Vec<u8> {
    let path = format!("{}/../../vectors/tlog/{name}.hex", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let digits: Vec<_> =
        text.lines().flat_map(|line| line.split('#').next().unwrap().split_whitespace()).collect();
    digits.iter().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

fn writer(compression: Compression) -> Writer<Vec<u8>> {
    Writer::new(Vec::new(), Options { compression, ..Options::default() }).unwrap()
}

/// Every sample as text, and the error the log ends in, if it does.
fn read(log: &[u8]) -> (Vec<String>, Option<Error>) {
    let mut lines = Vec::new();
    let mut reader = match Reader::open(log) {
        Ok(reader) => reader,
        Err(error) => return (lines, Some(error)),
    };
    loop {
        match reader.next().and_then(|item| item.map(|item| line(&item)).transpose()) {
            Ok(Some(line)) => lines.push(line),
            Ok(None) => return (lines, None),
            Err(error) => return (lines, Some(error)),
        }
    }
}

fn line(item: &khz_tlog::Item<'_>) -> Result<String, Error> {
    let since = item.time_us.map(|time| time - T0);
    Ok(format!("{} {} {since:?} {}", item.position, item.record.name(), show(item.value()?)))
}

fn show(value: Value<'_>) -> String {
    let list = |parts: Vec<String>| format!("[{}]", parts.join(" "));
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Float32(value) => value.to_string(),
        Value::Float64(value) => value.to_string(),
        Value::Bytes(value) => format!("{value:?}"),
        Value::String(value) => format!("{value:?}"),
        Value::Object(object) => {
            list(object.map(|(name, value)| format!("{name}={}", show(value))).collect())
        }
        Value::Enum(Symbol { value, name }) => format!("{value}:{}", name.unwrap_or("?")),
        Value::Array(items) => list(items.map(show).collect()),
        Value::Map(entries) => list(entries.map(|(key, value)| format!("{key}:{}", show(value))).collect()),
        Value::Timestamp(us) => format!("@{}", us - T0),
        Value::Duration(us) => format!("{us}us"),
    }
}

fn type_a() -> Type {
    let default = Some(vec![7, 0]);
    Type::Object(vec![Field { default, ..Field::new("v", Type::Uint(Width::Two)) }])
}

fn type_b() -> Type {
    let q = Type::FixedArray(2, Box::new(Type::Float32));
    Type::object([("q", q), ("m", Type::enumeration([(0, "kOff"), (5, "kOn")]))])
}

fn type_c() -> Type {
    let byte = Box::new(Type::Uint(Width::One));
    Type::object([
        ("nu", Type::Null),
        ("bo", Type::Bool),
        ("i2", Type::Int(Width::Two)),
        ("u4", Type::Uint(Width::Four)),
        ("vu", Type::VarUint),
        ("f4", Type::Float32),
        ("f8", Type::Float64),
        ("by", Type::Bytes),
        ("st", Type::String),
        ("ob", Type::object([("x", Type::Bool)])),
        ("en", Type::enumeration([(0, "A"), (200, "B")])),
        ("ar", Type::Array(byte.clone())),
        ("fa", Type::FixedArray(2, Box::new(Type::Int(Width::One)))),
        ("un", Type::optional(Type::Float32)),
        ("ts", Type::Timestamp),
        ("du", Type::Duration),
        ("ma", Type::Map(byte)),
    ])
}

#[test]
fn the_first_worked_log() {
    let mut log = writer(Compression::Snappy);
    let imu = log.record("imu", &type_a()).unwrap();
    log.write(imu, Some(T0), &258u16.to_le_bytes()).unwrap();
    assert_eq!(log.finish().unwrap(), vector("a"));
    let (lines, error) = read(&vector("a"));
    assert!(error.is_none());
    assert_eq!(lines, ["33 imu Some(0) [v=258]"]);
}

fn write_b() -> Vec<u8> {
    let mut log = writer(Compression::Snappy);
    let txt = log.record("txt", &Type::String).unwrap();
    let st = log.record("st", &type_b()).unwrap();
    let mut text = Vec::new();
    text.counted(&[b'a'; 40]);
    log.write(txt, Some(T0), &text).unwrap();
    let mut put = |time, q: [f32; 2], m| {
        let mut payload = Vec::new();
        q.iter().for_each(|q| payload.put(&q.to_le_bytes()));
        payload.varuint(m);
        let position = log.position();
        log.write(st, Some(T0 + time), &payload).unwrap();
        position
    };
    assert_eq!(put(500_000, [1.0, -2.5], 5), 83);
    assert_eq!(put(1_000_000, [0.5, 0.25], 0), 109);
    log.write(txt, Some(T0 + 1_200_000), b"\x03bye").unwrap();
    log.finish().unwrap()
}

#[test]
fn the_second_worked_log() {
    assert_eq!(write_b(), vector("b"));
    let (lines, error) = read(&vector("b"));
    assert!(error.is_none());
    let forty = "a".repeat(40);
    assert_eq!(
        lines,
        [
            format!("59 txt Some(0) {forty:?}").as_str(),
            "83 st Some(500000) [q=[1 -2.5] m=5:kOn]",
            "109 st Some(1000000) [q=[0.5 0.25] m=0:kOff]",
            "164 txt Some(1200000) \"bye\"",
        ]
    );
}

#[test]
fn seeking_in_the_second_worked_log() {
    type Case = (i64, &'static [(u64, u64)], Option<u64>);
    let cases: [Case; 5] = [
        (-1, &[], Some(59)),
        (0, &[(1, 59)], Some(83)),
        (600_000, &[(1, 59), (2, 83)], Some(109)),
        (1_000_000, &[(1, 59), (2, 109)], Some(164)),
        (5_000_000, &[(1, 164), (2, 109)], None),
    ];
    let log = vector("b");
    for (time, expected, next) in cases {
        let mut reader = Reader::open(&log).unwrap();
        let found = reader.seek(T0 + time).unwrap();
        let found: Vec<_> = found.iter().map(|latest| (latest.identifier, latest.position)).collect();
        assert_eq!(found, expected);
        assert_eq!(reader.next().unwrap().map(|item| item.position), next);
    }
}

#[test]
fn the_third_worked_log() {
    let log = vector("c");
    let reader = Reader::open(&log).unwrap();
    assert_eq!(*reader.record("all").unwrap().ty(), type_c());
    let (lines, error) = read(&log);
    assert!(error.is_none());
    assert_eq!(
        lines,
        ["177 all Some(0) [nu=null bo=true i2=-2 u4=16909060 vu=300 f4=1.5 f8=-0.5 by=[10, 11] st=\"hi\" \
          ob=[x=false] en=200:B ar=[7 8 9] fa=[-1 1] un=2 ts=@0 du=-1500000us ma=[k1:1 k2:2]]"]
    );
    let payload = log[177 + 17..260].to_vec();
    let mut again = writer(Compression::None);
    let all = again.record("all", &type_c()).unwrap();
    again.write(all, Some(T0), &payload).unwrap();
    assert_eq!(again.finish().unwrap(), log);
}

/// A log of several records with markers, compressed and plain samples, and where its blocks end.
fn mixed(samples: u32) -> (Vec<u8>, Vec<u64>) {
    let options = Options { marker_period_us: 10_000, ..Options::default() };
    let mut log = Writer::new(Vec::new(), options).unwrap();
    let st = log.record("st", &type_b()).unwrap();
    let txt = log.record("txt", &Type::String).unwrap();
    let mut ends = Vec::new();
    for n in 0..samples {
        let time = Some(T0 + i64::from(n) * 1000);
        let mut payload = Vec::new();
        if n % 3 == 0 {
            payload.counted(&vec![b'x'; n as usize % 200]);
            log.write(txt, time, &payload).unwrap();
        } else {
            [n as f32, 0.5].iter().for_each(|q| payload.put(&q.to_le_bytes()));
            payload.varuint(u64::from(n));
            log.write(st, time, &payload).unwrap();
        }
        ends.push(log.position());
    }
    (log.finish().unwrap(), ends)
}

#[test]
fn a_log_cut_anywhere_gives_all_that_was_whole() {
    let (log, ends) = mixed(60);
    let (whole, _) = read(&log);
    for cut in 0..log.len() {
        let (lines, error) = read(&log[..cut]);
        // A marker may follow a sample, so its end as recorded can lie up to a marker behind the sample itself.
        let surely = ends.iter().filter(|&&end| end <= cut as u64).count();
        assert!(lines.len() >= surely && lines.len() <= surely + 1, "cut at {cut}");
        assert_eq!(lines, whole[..lines.len()], "cut at {cut}");
        if cut < 9 {
            assert!(matches!(error, Some(Error::NotALog | Error::Truncated { .. })));
        } else {
            assert!(matches!(error, None | Some(Error::Truncated { .. })), "cut at {cut}: {error:?}");
        }
    }
}

#[test]
fn a_log_without_index_is_surveyed() {
    let (log, _) = mixed(60);
    let mut whole = Reader::open(&log).unwrap();
    assert!(whole.is_finished());
    let cut = &log[..log.len() - 1];
    let mut reader = Reader::open(cut).unwrap();
    assert!(!reader.is_finished() && reader.records().is_empty());
    reader.survey().unwrap();
    let last = |reader: &Reader<_>| {
        reader.records().iter().map(|r| (r.name().to_owned(), r.last())).collect::<Vec<_>>()
    };
    let found = last(&Reader::open(log.as_slice()).unwrap());
    assert_eq!(reader.records().iter().map(|r| (r.name().to_owned(), r.last())).collect::<Vec<_>>(), found);
    assert!(whole.next().unwrap().is_some());
}

#[test]
fn seeking_agrees_with_reading() {
    let (log, _) = mixed(40_000);
    let mut reader = Reader::open(&log).unwrap();
    for time in [0, 1, 999, 1000, 12_345_678, 20_000_000, 39_998_999, 39_999_000, 99_000_000] {
        reader.rewind();
        let mut expected = std::collections::BTreeMap::new();
        while let Some(item) = reader.next_stored().unwrap() {
            if item.time_us.unwrap() <= T0 + time {
                expected.insert(item.record.identifier(), item.position);
            }
        }
        let found = reader.seek(T0 + time).unwrap();
        assert_eq!(
            found.iter().map(|l| (l.identifier, l.position)).collect::<Vec<_>>(),
            Vec::from_iter(expected)
        );
    }
}

#[test]
fn a_marker_is_never_preceded_by_its_own_first_byte() {
    // 100 = 23 + 77 bytes of pairs: the size the original reader's search fails on.
    let mut stretched = 0;
    for records in 24..32 {
        let mut log = writer(Compression::None);
        let ids: Vec<RecordId> =
            (0..records).map(|n| log.record(&format!("r{n}"), &Type::Null).unwrap()).collect();
        for (n, id) in ids.iter().cycle().take(1000).enumerate() {
            log.write(*id, Some(T0 + n as i64 * 100_000), &[]).unwrap();
        }
        let log = log.finish().unwrap();
        let marker = 0xfdca_b9a8_9786_7564_u64.to_le_bytes();
        let hits: Vec<_> =
            log.windows(8).enumerate().filter(|(_, w)| *w == marker).map(|(at, _)| at).collect();
        assert!(hits.len() > 90);
        assert!(hits.iter().all(|&at| log[at - 1] != 0x64));
        stretched += hits.iter().filter(|&&at| log[at - 3..at] == [5, 0xe4, 0]).count();
        let (lines, error) = read(&log);
        assert!(error.is_none() && lines.len() == 1000);
    }
    assert!(stretched > 0, "no marker of 100 bytes among them");
}

#[test]
fn unknown_flags_are_reported_with_their_place() {
    let mut log = vector("a");
    log[8] = 4;
    assert!(matches!(read(&log).1, Some(Error::HeaderFlags { flags: 4 })));
    for (at, what) in [(12, "schema"), (18, "schema"), (19, "schema"), (36, "data")] {
        let mut log = vector("a");
        log[at] |= 0x20;
        let (_, error) = read(&log);
        let error = error.unwrap().to_string();
        assert!(error.contains(what) && error.contains("flags 0x2"), "{error}");
    }
}

/// What can be read of a log when the reader goes on after damage it reports, and how often it did.
fn read_on(log: &[u8]) -> (Vec<String>, u32) {
    let (mut lines, mut damages) = (Vec::new(), 0);
    let mut reader = Reader::open(log).unwrap();
    loop {
        match reader.next().and_then(|item| item.map(|item| line(&item)).transpose()) {
            Ok(Some(line)) => lines.push(line),
            Ok(None) => return (lines, damages),
            Err(error) => {
                reader.step_over(error).unwrap();
                damages += 1;
            }
        }
    }
}

/// One changed byte that reads as flags once made the whole log unreadable, also for `repair`.
#[test]
fn flags_in_one_schema_or_the_index_cost_no_sample() {
    let whole = read(&vector("a")).0;
    for (at, damages) in [(12, 1), (18, 1), (19, 1), (54, 0)] {
        let mut log = vector("a");
        log[at] |= 0x20;
        assert_eq!(read_on(&log), (whole.clone(), damages), "byte {at}");
        let (report, repaired) = khz_tlog::repair(log, Vec::new(), |_| {}).unwrap();
        assert_eq!((report.samples, report.damages), (whole.len() as u64, u64::from(damages)));
        let (lines, error) = read(&repaired);
        assert!(error.is_none() && lines.len() == whole.len(), "byte {at}: {error:?}");
    }
}

/// Without checksums `repair` once kept samples that could not be decoded, and reported no damage.
#[test]
fn repair_keeps_no_sample_that_does_not_decode() {
    for compression in [Compression::None, Compression::Snappy, Compression::Zstd] {
        let options = Options { checksums: false, compression, ..Options::default() };
        let mut writer = Writer::new(Vec::new(), options).unwrap();
        let id = writer.record("text", &Type::object([("said", Type::String)])).unwrap();
        let data = writer.position() as usize;
        let text = [&[60][..], &[b'a'; 60]].concat();
        for n in 0..50 {
            writer.write(id, Some(T0 + n * 1000), &text).unwrap();
        }
        let log = writer.finish().unwrap();
        for at in data..log.len() - 60 {
            let mut log = log.clone();
            log[at] ^= 0x55;
            let (report, repaired) = khz_tlog::repair(log, Vec::new(), |_| {}).unwrap();
            let (lines, error) = read(&repaired);
            assert!(error.is_none(), "{compression:?}, byte {at}: {error:?}");
            assert_eq!(lines.len() as u64, report.samples);
            assert!(report.samples >= 50 || report.damages > 0, "{compression:?}, byte {at}");
        }
    }
}

#[test]
fn behind_damage_sound_blocks_are_found_again() {
    let (mut log, ends) = mixed(60);
    let (whole, _) = read(&log);
    let hurt = ends[19] as usize;
    log[hurt] = 0x66;
    let mut reader = Reader::open(&log).unwrap();
    let mut lines = Vec::new();
    loop {
        match reader.next().map(|item| item.map(|item| line(&item).unwrap())) {
            Ok(Some(line)) => lines.push(line),
            Ok(None) => break,
            Err(error) => {
                assert!(matches!(error, Error::BlockType { kind: 0x66, .. }));
                let from = reader.position() + 1;
                reader.resync(from).unwrap();
            }
        }
    }
    assert_eq!(lines.len(), whole.len() - 1);
}

#[test]
fn links_lead_to_all_samples_of_a_record_and_to_no_others() {
    let (log, _) = mixed(5000);
    for name in ["txt", "st"] {
        let mut reader = Reader::open(&log).unwrap();
        reader.select([name]);
        let mut expected = Vec::new();
        while let Some(item) = reader.next().unwrap() {
            expected.push(item.position);
        }
        let places = reader.places(name).unwrap().unwrap();
        assert_eq!(places, expected);
        assert!(places.iter().all(|&place| reader.sample_at(place).unwrap().record.name() == name));
    }
    let error = Reader::open(&log).unwrap().places("nobody").unwrap_err();
    assert_eq!(error.to_string(), "no record named \"nobody\" in this log; it has st, txt");
}

#[test]
fn a_growing_log_is_followed() {
    let (log, _) = mixed(60);
    let (whole, _) = read(&log);
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path();
    std::fs::write(path, &log[..200]).unwrap();
    let mut reader = Reader::open(std::fs::File::open(path).unwrap()).unwrap();
    let mut lines = Vec::new();
    for end in (200..=log.len()).step_by(7).chain([log.len()]) {
        std::fs::write(path, &log[..end]).unwrap();
        while let Some(item) = reader.next_if_grown().unwrap() {
            lines.push(line(&item).unwrap());
        }
    }
    assert_eq!(lines, whole);
}

#[test]
fn a_repaired_log_is_whole_and_has_all_that_was_sound() {
    let strip = |log: &[u8]| -> Vec<String> {
        read(log).0.iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    };
    let (log, ends) = mixed(300);
    let whole = strip(&log);
    let cut = &log[..ends[200] as usize + 3];
    let (report, repaired) = khz_tlog::repair(cut, Vec::new(), |_| {}).unwrap();
    assert_eq!((report.samples, report.damages, report.was_finished), (201, 1, false));
    assert_eq!(strip(&repaired), whole[..201]);
    assert!(Reader::open(&repaired).unwrap().is_finished());

    let mut hurt = log.clone();
    hurt[ends[100] as usize + 1] ^= 0x10; // the size of a block: its neighbours must survive
    hurt[ends[150] as usize + 20] ^= 1; // a payload
    let (report, repaired) = khz_tlog::repair(hurt, Vec::new(), |_| {}).unwrap();
    assert!((1..=4).contains(&report.damages), "{:?}", report.errors);
    let found = strip(&repaired);
    assert!(found.len() >= whole.len() - 4 && found.iter().all(|line| whole.contains(line)));
    let (report, again) = khz_tlog::repair(repaired.clone(), Vec::new(), |_| {}).unwrap();
    assert_eq!((report.damages, report.was_finished), (0, true));
    assert_eq!(strip(&again), strip(&repaired));
}

#[test]
fn an_unreadable_block_header_is_no_contained_damage() {
    let log = [b"TLOG0003\0".as_slice(), &[0xff; 30]].concat();
    let mut reader = Reader::open(&log).unwrap();
    let error = reader.next().unwrap_err();
    assert!(!error.is_contained(), "{error}"); // what reads on behind contained damage would never end
    reader.survey().unwrap();
}

#[test]
fn bombs_are_refused_by_size() {
    let nested = Type::FixedArray(1 << 30, Box::new(Type::FixedArray(1 << 30, Box::new(Type::Null))));
    assert!(Type::decode(&nested.to_bytes()).unwrap_err().to_string().contains("limit of 4096"));
    let deep = (0..100).fold(Type::Bool, |inner, _| Type::Array(Box::new(inner)));
    assert!(Type::decode(&deep.to_bytes()).unwrap_err().to_string().contains("nested types"));
    let wide = Type::Union(vec![Type::Null; 100_000]);
    assert!(Type::decode(&wide.to_bytes()).unwrap_err().to_string().contains("types in one schema"));
    let nulls = Type::Array(Box::new(Type::Null));
    let mut count = Vec::new();
    count.varuint(u64::MAX);
    assert!(Value::read(&nulls, &count).unwrap_err().to_string().contains("limit"));
    let mut log = vector("a");
    log[34] = 0xff; // a data block of half an exabyte
    assert!(matches!(read(&log).1, Some(Error::Truncated { .. } | Error::Block { .. })));
}

proptest! {
    #[test]
    fn flipped_bits_never_panic_and_spare_what_is_before_them(at in 90usize..2000, bit in 0..8) {
        let (mut log, ends) = mixed(60);
        let (whole, _) = read(&log);
        let at = at % (log.len() - 150).max(91);
        log[at] ^= 1u8 << bit;
        let before = ends.iter().filter(|&&end| end <= at as u64).count();
        let (lines, _) = read(&log);
        prop_assert_eq!(&lines[..before], &whole[..before]);
    }

    #[test]
    fn random_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..400)) {
        let log = [b"TLOG0003\0".as_slice(), &body].concat();
        let mut reader = Reader::open(&log).unwrap();
        for _ in 0..50 {
            let _ = reader.next().and_then(|item| item.map(|item| item.value().map(|_| ())).transpose());
        }
        let _ = reader.survey();
        let _ = reader.seek(5);
        let _ = reader.resync(0);
        let _ = Type::decode(&body);
    }

    #[test]
    fn random_payloads_never_panic(payload in proptest::collection::vec(any::<u8>(), 0..100)) {
        let ty = type_c();
        if let Ok(value) = Value::read(&ty, &payload) {
            show(value);
        }
    }

    #[test]
    fn types_come_back(ty in any_type()) {
        prop_assert_eq!(Type::decode(&ty.to_bytes()), Ok(ty));
    }
}

fn any_type() -> impl Strategy<Value = Type> {
    let leaf = prop_oneof![
        Just(Type::Null),
        Just(Type::Bool),
        Just(Type::Int(Width::Eight)),
        Just(Type::Uint(Width::One)),
        Just(Type::VarInt),
        Just(Type::Float64),
        Just(Type::Bytes),
        Just(Type::Timestamp),
        Just(Type::Duration),
        Just(Type::enumeration([(0, "off"), (300, "on")])),
        Just(Type::Enum { of: Box::new(Type::Int(Width::Two)), names: vec![(-5, "minus".into())] }),
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        prop_oneof![
            proptest::collection::vec((".{0,9}", inner.clone()), 0..4).prop_map(Type::object),
            boxed.clone().prop_map(Type::Array),
            (0u64..5, boxed.clone()).prop_map(|(size, item)| Type::FixedArray(size, item)),
            boxed.prop_map(Type::Map),
            proptest::collection::vec(inner, 0..4).prop_map(Type::Union),
        ]
    })
}
