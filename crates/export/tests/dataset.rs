//! Datasets of logs that no robot of ours writes.
#![cfg(feature = "parquet")]
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use khz_export::ColumnType;
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
        ColumnType::Bool => "bool",
        ColumnType::Int => "int64",
        ColumnType::Float32 => "float32",
        ColumnType::Float64 => "float64",
        ColumnType::Text => "text",
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
fn a_manifest_that_is_not_of_its_log_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    let whole = log(folder.path(), "x", &[beat("x", Some(T0)), beat("x", Some(T0))]);
    let added = add(&dataset, &whole).unwrap();
    let precious = folder.path().join("precious");
    std::fs::write(&precious, "mine").unwrap();
    let manifest = folder.path().join(format!("d/_manifest/{}.json", added.log));
    let good = read(&manifest);
    let mut known = good.clone();
    known["dataset"] = 0.into();
    let other = format!("x/robot=a/day=b/{}-2.parquet", added.log);
    for path in ["../precious", precious.to_str().unwrap(), "_manifest/precious", "", &other] {
        known["files"] = json!([{"table": "x", "path": path, "rows": 1}]);
        std::fs::write(&manifest, known.to_string()).unwrap();
        let error = add(&dataset, &whole).unwrap_err().to_string();
        assert!(error.contains(manifest.to_str().unwrap()) && error.contains("is no place"), "{error}");
    }
    let mut known = good.clone();
    known["log"] = "../evil".into();
    std::fs::write(&manifest, known.to_string()).unwrap();
    assert!(add(&dataset, &whole).unwrap_err().to_string().contains("its log is \"../evil\""));
    std::fs::write(&manifest, "{").unwrap();
    assert!(add(&dataset, &whole).unwrap_err().to_string().contains(manifest.to_str().unwrap()));
    assert!(precious.is_file());
    let mut known = good;
    known["dataset"] = 0.into();
    std::fs::write(&manifest, known.to_string()).unwrap();
    assert_eq!(add(&dataset, &whole).unwrap().change, Change::Renewed);
}

#[test]
fn nothing_is_removed_beyond_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    let short = [beat("x", Some(T0)), beat("x", Some(T0))];
    let added = add(&dataset, &log(folder.path(), "x", &short[..1])).unwrap();
    let manifest = folder.path().join(format!("d/_manifest/{}.json", added.log));
    let name = format!("{}.parquet", added.log);
    let precious = folder.path().join("elsewhere/day=2026-03-01").join(&name);
    std::fs::create_dir_all(precious.parent().unwrap()).unwrap();
    std::fs::write(&precious, "mine").unwrap();
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), folder.path().join("d/x/robot=b")).unwrap();
    let mut known = read(&manifest);
    known["files"] = json!([{"table": "x", "path": format!("x/robot=b/day=2026-03-01/{name}"), "rows": 1}]);
    std::fs::write(&manifest, known.to_string()).unwrap();
    let error = add(&dataset, &log(folder.path(), "x", &short)).unwrap_err().to_string();
    assert!(error.contains("symbolic link") && precious.is_file(), "{error}");
}

#[test]
fn a_record_without_a_name_stays_within_the_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(folder.path()).unwrap();
    let day = "robot=__HIVE_DEFAULT_PARTITION__/day=2026-03-01";
    let names = ["", "/", "..", ".", "~", "\0", "../../x"];
    let path = log(folder.path(), "a.tlog", &names.map(|name| beat(name, Some(T0))));
    let added = add(&dataset, &path).unwrap();
    assert_eq!((added.rows, added.left_out.len()), (7, 0));
    for table in ["~", "%2F", "%2E.", "%2E", "%7E", "%00", "%2E.%2F..%2Fx"] {
        assert_eq!(rows(&folder.path().join(table).join(day)).len(), 1, "{table}");
    }
}

#[test]
fn what_others_have_in_tmp_stays() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    let elsewhere = folder.path().join("elsewhere");
    let tmp = folder.path().join("d/_tmp");
    // A folder of another name, one of ours without a lock, and links to one that looks as ours do.
    for inside in [tmp.join("other"), tmp.join("export-theirs"), elsewhere.clone(), tmp.join("export-ours")] {
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(inside.join("data"), "").unwrap();
    }
    for locked in [tmp.join("other"), elsewhere.clone(), tmp.join("export-ours")] {
        std::fs::write(locked.join("lock"), "").unwrap();
    }
    std::os::unix::fs::symlink(&elsewhere, tmp.join("export-link")).unwrap();
    add(&dataset, &log(folder.path(), "x", &[beat("x", Some(T0))])).unwrap();
    let kept = [tmp.join("other"), tmp.join("export-theirs"), tmp.join("export-link"), elsewhere];
    assert!(kept.iter().all(|folder| folder.join("data").is_file()));
    assert!(!tmp.join("export-theirs/lock").exists() && !tmp.join("export-ours").exists());
}

#[test]
fn a_folder_of_others_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("_tmp")).unwrap();
    Dataset::open(folder.path()).unwrap();
    std::fs::write(folder.path().join("_tmp/theirs"), "").unwrap();
    let refused = |why: &str| {
        let error = Dataset::open(folder.path()).unwrap_err();
        assert!(
            matches!(error, DatasetError::Foreign(_)) && error.to_string().contains("empty folder"),
            "{why}"
        );
    };
    refused("another's _tmp");
    std::fs::write(folder.path().join("_tmp/lock"), "").unwrap();
    Dataset::open(folder.path()).unwrap();
    std::fs::write(folder.path().join("notes"), "").unwrap();
    refused("a file");
    std::fs::create_dir(folder.path().join("_tables")).unwrap();
    Dataset::open(folder.path()).unwrap();
}

#[test]
fn a_removed_log_hides_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    let of = |name: &str| log(folder.path(), name, &[beat("first", Some(T0)), beat(name, Some(T0))]);
    let all = ["a", "b", "c"].map(of);
    let ids = all.each_ref().map(|path| add(&dataset, path).unwrap().log);
    assert_eq!(ids[1..], [format!("{}-2", ids[0]), format!("{}-3", ids[0])]);
    let manifest = folder.path().join(format!("d/_manifest/{}.json", ids[0]));
    for file in read(&manifest)["files"].as_array().unwrap() {
        std::fs::remove_file(folder.path().join("d").join(file["path"].as_str().unwrap())).unwrap();
    }
    std::fs::remove_file(manifest).unwrap();
    for path in &all[1..] {
        assert_eq!(add(&dataset, path).unwrap().change, Change::Unchanged);
    }
    let again = add(&dataset, &all[0]).unwrap();
    assert_eq!((again.change, &again.log), (Change::New, &ids[0]));
}

#[test]
fn logs_are_compared_as_far_as_both_go() {
    let folder = tempfile::tempdir().unwrap();
    let number = Type::object([("n", Type::Uint(Width::Eight))]);
    // The same up to sample 66 of 100, and then others.
    let of = |name: &str, count: u64, from: u64, other: u64| {
        let sample = |n: u64| {
            let value = if n < from { n } else { n + other };
            ("x", number.clone(), Some(T0 + n as i64), value.to_le_bytes().to_vec())
        };
        log(folder.path(), name, &(0..count).map(sample).collect::<Vec<_>>())
    };
    let all = [
        of("1", 100, 66, 0),
        of("2", 100, 66, 5000),
        of("3", 101, 66, 9000),
        of("4", 99, 66, 12_000),
        // They differ in the last sample that both have.
        of("5", 90, 89, 1),
        of("6", 120, 99, 1),
    ];
    for (at, order) in [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [3, 5, 0, 4, 2, 1]].iter().enumerate() {
        let dataset = Dataset::open(&folder.path().join(format!("d{at}"))).unwrap();
        for &log in order {
            assert_eq!(add(&dataset, &all[log]).unwrap().change, Change::New, "{order:?}, {log}");
        }
    }
    // And any state of one is known as such.
    let dataset = Dataset::open(&folder.path().join("d0")).unwrap();
    for count in 67..100 {
        let change = add(&dataset, &of("state", count, 66, 5000)).unwrap().change;
        assert_eq!(change, Change::Older, "{count}");
    }
    let grown = add(&dataset, &of("state", 140, 66, 5000)).unwrap();
    assert_eq!((grown.change, grown.rows), (Change::Grown, 140));
    std::fs::remove_file(folder.path().join(format!("d0/_samples/{}.digests", grown.log))).unwrap();
    let error = add(&dataset, &of("state", 70, 66, 5000)).unwrap_err().to_string();
    assert!(error.contains(".digests"), "{error}");
}

#[test]
fn a_log_beside_one_that_begins_alike_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    let all =
        [("a", Some(T0)), ("b", Some(T0 + 1)), ("c", Some(T0 + 2))].map(|(name, time)| beat(name, time));
    let whole = add(&dataset, &log(folder.path(), "1", &all)).unwrap();
    assert!(whole.alike.is_empty());
    let path = log(folder.path(), "2", &[all[0].clone(), all[2].clone()]);
    let damaged = add(&dataset, &path).unwrap();
    assert_eq!(damaged.alike, [(whole.log, "a.tlog".to_owned())]);
    assert!(add(&dataset, &path).unwrap().alike.is_empty());
}

#[test]
fn a_killed_exports_files_are_not_counted_beside_those_of_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    let path = log(folder.path(), "x", &[beat("x", Some(T0))]);
    let with = |robot| dataset.add(&File::open(&path).unwrap(), "x", Some(robot), |_| {}).unwrap();
    let first = with("one");
    // It was killed before it wrote the manifest.
    std::fs::remove_file(folder.path().join(format!("d/_manifest/{}.json", first.log))).unwrap();
    let neighbour =
        folder.path().join("d/x/robot=one/day=2026-03-01").join(format!("{}-2.parquet", first.log));
    std::fs::write(&neighbour, "").unwrap();
    let second = with("two");
    assert_eq!((second.change, second.robots), (Change::New, vec!["two".to_owned()]));
    assert_eq!(rows(&folder.path().join("d/x/robot=two")).len(), 1);
    assert_eq!(files(&folder.path().join("d/x/robot=one")), [neighbour]);
    // Under a third name it stays what it is.
    let third = with("three");
    assert_eq!((third.change, third.robots), (Change::Unchanged, vec!["two".to_owned()]));
}

#[test]
fn a_log_may_have_more_tables_than_files_may_be_open() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    let names: Vec<String> = (0..1500).map(|n| format!("r{n}")).collect();
    let all: Vec<_> = names.iter().map(|name| beat(name, Some(T0))).collect();
    let path = log(folder.path(), "x", &all);
    let usual = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let few = rustix::process::Rlimit { current: Some(256), ..usual };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
    let added = add(&dataset, &path);
    rustix::process::setrlimit(rustix::process::Resource::Nofile, usual).unwrap();
    let added = added.unwrap();
    assert_eq!((added.rows, added.left_out.len()), (1500, 0));
}

#[test]
fn fields_that_would_be_one_column_are_left_out_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    let a = ("a", Type::object([("b", Type::Bool)]));
    let records = [
        ("dots", Type::object([a.clone(), ("a_b", Type::Bool)])),
        ("dots", Type::object([("a_b", Type::Bool), a])),
        ("cases", Type::object([("A", Type::Bool), ("a", Type::Bool)])),
        ("cases", Type::object([("a", Type::Bool), ("A", Type::Bool)])),
        ("taken", Type::object([("Log", Type::Bool), ("log_2", Type::Bool)])),
    ];
    for (at, (name, ty)) in records.into_iter().enumerate() {
        let all = [(name, ty, Some(T0 + at as i64), vec![0, 1]), beat("beat", Some(T0 + at as i64))];
        let added = add(&dataset, &log(folder.path(), "x", &all)).unwrap();
        assert_eq!(added.rows, 1);
        assert!(added.left_out[name].contains("would both be the column"), "{:?}", added.left_out);
    }
    // What every table has is not the field's.
    let odd = ["time", "log", "Robot", "day"].map(|name| (name, Type::Bool));
    let all = [("odd", Type::object(odd), Some(T0), vec![1; 4])];
    assert!(add(&dataset, &log(folder.path(), "x", &all)).unwrap().left_out.is_empty());
    let row = rows(&folder.path().join("d/odd")).remove(0);
    assert!(row.ends_with("time_2: true, log_2: true, Robot_2: true, day_2: true"), "{row}");
}

#[test]
fn wide_records_have_their_columns() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    let names: Vec<String> = (0..30_000).map(|n| format!("c{n}")).collect();
    let ty = Type::object(names.iter().map(|name| (name.as_str(), Type::Bool)));
    let sample = (0..30_000).map(|n| u8::from(n == 29_998)).collect();
    add(&dataset, &log(folder.path(), "x", &[("wide", ty, Some(T0), sample)])).unwrap();
    let row = rows(&folder.path().join("d/wide")).remove(0);
    assert!(row.ends_with("c29997: false, c29998: true, c29999: false"));
}

#[test]
fn pipes_are_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    let pipe = |path: &Path| rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap();
    let log_pipe = folder.path().join("pipe");
    pipe(&log_pipe);
    // For reading and writing, a pipe opens at once.
    let opened = File::options().read(true).write(true).open(&log_pipe).unwrap();
    assert!(matches!(dataset.add(&opened, "pipe", None, |_| {}), Err(DatasetError::NoFile)));
    let path = log(folder.path(), "x", &[beat("x", Some(T0))]);
    let id = add(&dataset, &path).unwrap().log;
    for place in [format!("_manifest/{id}.json"), "_tables/x.json".into(), "_tmp/lock".into()] {
        let place = folder.path().join("d").join(place);
        std::fs::remove_file(&place).unwrap();
        pipe(&place);
        let other = log(folder.path(), "y", &[beat("x", Some(T0 + 1))]);
        let tried = if place.ends_with(format!("{id}.json")) { &path } else { &other };
        let error = add(&dataset, tried).unwrap_err().to_string();
        assert!(error.contains(place.to_str().unwrap()), "{error}");
        std::fs::remove_file(&place).unwrap();
        if place.ends_with("x.json") {
            std::fs::write(&place, r#"[["time", "timestamp"], ["log", "text"]]"#).unwrap();
        }
    }
}

#[test]
fn a_dataset_of_a_newer_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    add(&dataset, &log(folder.path(), "x", &[beat("x", Some(T0))])).unwrap();
    let about = folder.path().join("d/_dataset.json");
    assert_eq!(read(&about)["dataset"], 1);
    std::fs::write(&about, r#"{"dataset": 2, "khz": "9.0.0"}"#).unwrap();
    // Also for a log that is not in, and if it becomes newer behind our back.
    let of_open = Dataset::open(&folder.path().join("d")).unwrap_err().to_string();
    let of_add = add(&dataset, &log(folder.path(), "y", &[beat("y", Some(T0 + 1))])).unwrap_err().to_string();
    assert!([of_open, of_add].iter().all(|error| error.contains("khz 9.0.0")));
    assert_eq!(files(&folder.path().join("d/_manifest")).len(), 1);
}

#[test]
fn the_ends_of_time_are_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&folder.path().join("d")).unwrap();
    let times = [i64::MAX, i64::MAX - 1, -i64::MAX, i64::MIN, 1 - i64::MAX];
    add(&dataset, &log(folder.path(), "x", &times.map(|time| beat("x", Some(time))))).unwrap();
    let file = files(&folder.path().join("d/x")).remove(0);
    let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    let statistics = reader.metadata().row_group(0).column(0).statistics().unwrap().clone();
    assert_eq!(statistics.null_count_opt(), Some(3));
}

#[test]
fn an_error_says_its_cause_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "").unwrap();
    let error = Dataset::open(&path).unwrap_err();
    assert!(
        error.to_string().contains("File exists") && std::error::Error::source(&error).is_none(),
        "{error}"
    );
}
