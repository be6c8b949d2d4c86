//! Datasets of logs that no robot of ours writes.
#![cfg(feature = "parquet")]
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use khz_export::Kind;
use khz_export::dataset::{Added, Change, Dataset, DatasetError, fixed_tables};
use khz_tlog::{Options, Sink, Type, Width, Writer, received};
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

const T0: i64 = 1_772_323_200_000_000;

type Sample<'a> = (&'a str, Type, Option<i64>, Vec<u8>);

fn log(folder: &Path, name: &str, samples: &[Sample<'_>]) -> PathBuf {
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let mut ids = HashMap::new();
    for (record, ty, time_us, payload) in samples {
        let id = *ids.entry(*record).or_insert_with(|| log.record(record, ty).unwrap());
        log.write(id, *time_us, payload).unwrap();
    }
    let path = folder.join(name);
    std::fs::write(&path, log.finish().unwrap()).unwrap();
    path
}

fn beat(name: &str, time_us: Option<i64>) -> Sample<'_> {
    (name, Type::Null, time_us, vec![])
}

fn robot(name: &str) -> (Type, Vec<u8>) {
    let mut bytes = Vec::new();
    bytes.counted(name.as_bytes());
    (Type::object([("name", Type::String)]), bytes)
}

fn add(dataset: &Dataset, log: &Path) -> Result<Added, DatasetError> {
    dataset.add(&File::open(log).unwrap(), "a.tlog", None, |_| {})
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

/// The rows of the only file below a folder, each `name: value, …`.
fn rows(folder: &Path) -> Vec<String> {
    let files = files(folder);
    assert_eq!(files.len(), 1, "{files:?}");
    let reader = SerializedFileReader::new(File::open(&files[0]).unwrap()).unwrap();
    let row = |row: parquet::record::Row| {
        row.get_column_iter().map(|(name, field)| format!("{name}: {field}")).collect::<Vec<_>>().join(", ")
    };
    reader.get_row_iter(None).unwrap().map(|found| row(found.unwrap())).collect()
}

#[test]
fn the_pinned_tables_are_those_of_the_vector() {
    let pinned = read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/dataset.json")));
    let word = |kind| match kind {
        Kind::Bool => "bool",
        Kind::Int => "int64",
        Kind::Float32 => "float32",
        Kind::Float64 => "float64",
        Kind::Text => "text",
        kind => panic!("{kind:?} has no place in a pinned table"),
    };
    let mut tables = serde_json::Map::new();
    for (table, columns) in fixed_tables() {
        let mut all = vec![json!(["time", "timestamp"])];
        all.extend(columns.iter().map(|column| json!([column.name, word(column.kind)])));
        tables.insert(table.to_owned(), all.into());
    }
    assert_eq!(Value::Object(tables), pinned);
}

#[test]
fn a_column_that_changes_its_kind_is_left_out_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    let gain = |ty: Type| Type::object([("gain", ty)]);
    let half = 0.5f32.to_le_bytes().to_vec();
    let first = log(folder.path(), "1", &[("mine", gain(Type::Float32), Some(T0), half)]);
    assert!(add(&dataset, &first).unwrap().left_out.is_empty());
    // A wider number of the same kind fits, and a new column is added.
    let wide = Type::object([("gain", Type::Float64), ("n", Type::Uint(Width::Eight))]);
    let sample = [0.25f64.to_le_bytes(), u64::MAX.to_le_bytes()].concat();
    let second = log(folder.path(), "2", &[("mine", wide, Some(T0 + 1), sample)]);
    let added = add(&dataset, &second).unwrap();
    assert!(added.left_out.is_empty() && added.rows == 1);
    let all = [("mine", gain(Type::Bool), Some(T0 + 2), vec![1]), beat("beat", Some(T0 + 2))];
    let third = log(folder.path(), "3", &all);
    for change in [Change::New, Change::Unchanged] {
        let added = add(&dataset, &third).unwrap();
        assert_eq!((added.change, added.rows, added.left_out.len()), (change, 1, 1));
        assert_eq!(added.left_out["mine"], "its column gain is bool here and float64 in the dataset");
    }
    let columns = json!([["time", "timestamp"], ["log", "text"], ["gain", "float64"], ["n", "int64"]]);
    assert_eq!(read(&folder.path().join("d/_tables/mine.json")), columns);
    assert_eq!(files(&folder.path().join("d/mine")).len(), 2);
}

#[test]
fn joints_have_rows_and_foreign_columns_follow_those_of_a_pinned_table() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(folder.path()).unwrap();
    let joint = Type::object([("position", Type::Float64), ("extra", Type::Bool)]);
    let servo = Type::object([("hip", joint.clone()), ("knee", joint)]);
    let sample = [&1.5f64.to_le_bytes()[..], &[1], &2.5f64.to_le_bytes(), &[0]].concat();
    let (name, bytes) = robot("a/b");
    let all = [("robot", name, None, bytes), ("servo", servo, Some(T0), sample)];
    let added = add(&dataset, &log(folder.path(), "x.tlog", &all)).unwrap();
    assert_eq!((added.robots, added.day.as_deref()), (vec!["a/b".to_owned()], Some("2026-03-01")));
    let rows = rows(&folder.path().join("servo/robot=a%2Fb/day=2026-03-01"));
    assert_eq!(rows.len(), 2);
    assert!(rows[0].contains("servo: \"hip\", position: 1.5, velocity: null"), "{rows:?}");
    assert!(rows[1].contains("servo: \"knee\", position: 2.5"), "{rows:?}");
    assert!(rows[1].ends_with("extra: false"), "{rows:?}");
}

#[test]
fn each_sender_of_a_received_log_has_its_robot() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(folder.path()).unwrap();
    let ((ty, one), (_, two)) = (robot("one"), robot("two"));
    let all = [
        beat(received::SENDERS, Some(T0)),
        beat(received::GAPS, Some(T0)),
        ("robot", ty.clone(), Some(T0), one),
        ("robot@2", ty, Some(T0), two),
        beat("beat", Some(T0)),
        beat("beat@2", Some(T0)),
    ];
    let added = add(&dataset, &log(folder.path(), "x.tlog", &all)).unwrap();
    assert_eq!((added.robots, added.rows), (vec!["one".to_owned(), "two".to_owned()], 6));
    let id = added.log;
    assert!(rows(&folder.path().join("beat/robot=one"))[0].ends_with(&format!("log: \"{id}\"")));
    assert!(rows(&folder.path().join("beat/robot=two"))[0].ends_with(&format!("log: \"{id}@2\"")));
}

#[test]
fn a_log_without_samples_or_with_odd_times_is_no_trouble() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    let empty = log(folder.path(), "empty", &[]);
    assert!(matches!(add(&dataset, &empty), Err(DatasetError::Empty)));
    let odd = [
        (None, None),
        (Some(-1), None),
        (Some(i64::MAX), None),
        (Some(0), Some("1970-01-01")),
        (Some(T0 - 1), Some("2026-02-28")),
    ];
    for (time_us, day) in odd {
        let added = add(&dataset, &log(folder.path(), "odd", &[beat("x", time_us)])).unwrap();
        assert_eq!((added.day.as_deref(), added.rows), (day, 1), "{time_us:?}");
    }
    let none = "d/x/robot=__HIVE_DEFAULT_PARTITION__/day=__HIVE_DEFAULT_PARTITION__";
    assert_eq!(files(&folder.path().join(none)).len(), 3);
}

#[test]
fn two_logs_that_begin_alike_are_both_in() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    let of = |name: &str, text: &str| {
        let mut bytes = Vec::new();
        bytes.counted(text.repeat(3000).as_bytes());
        let noise: Vec<u8> = (0..20_000u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8 ^ text.as_bytes()[0])
            .collect();
        let mut data = Vec::new();
        data.counted(&noise);
        let all = [
            beat("first", Some(T0)),
            ("t", Type::String, Some(T0), bytes),
            ("b", Type::Bytes, Some(T0), data),
        ];
        log(folder.path(), name, &all)
    };
    let (one, other) = (of("1", "a"), of("2", "b"));
    let [first, second] = [&one, &other].map(|path| add(&dataset, path).unwrap());
    assert_eq!((first.change, second.change), (Change::New, Change::New));
    assert_eq!(second.log, format!("{}-2", first.log));
    for path in [&one, &other] {
        assert_eq!(add(&dataset, path).unwrap().change, Change::Unchanged);
    }
}

#[test]
fn no_manifest_makes_an_export_remove_what_is_outside() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    let whole = log(folder.path(), "x", &[beat("x", Some(T0)), beat("x", Some(T0))]);
    let added = add(&dataset, &whole).unwrap();
    let precious = folder.path().join("precious");
    std::fs::write(&precious, "mine").unwrap();
    let manifest = folder.path().join(format!("d/_manifest/{}.json", added.log));
    let mut known = read(&manifest);
    known["dataset"] = 0.into();
    let paths = ["../precious", precious.to_str().unwrap()];
    known["files"] = paths.map(|path| json!({"table": "x", "path": path, "rows": 1})).to_vec().into();
    std::fs::write(&manifest, known.to_string()).unwrap();
    assert_eq!(add(&dataset, &whole).unwrap().change, Change::Renewed);
    assert!(precious.is_file());
    std::fs::write(&manifest, "{").unwrap();
    let error = add(&dataset, &whole).unwrap_err().to_string();
    assert!(error.contains(manifest.to_str().unwrap()), "{error}");
}
