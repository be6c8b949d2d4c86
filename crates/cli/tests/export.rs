//! `khz log export` of logs with untrusted names.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod common;

use common::{khz, stderr, stdout};
use khz_tlog::{Options, Type, Writer};
use std::path::Path;

/// A log with a sample of each record.
fn log(folder: &Path, names: &[&str]) {
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    for name in names {
        let record = log.record(name, &Type::object([("n", Type::VarUint)])).unwrap();
        log.write(record, Some(1_600_000_000_000_000), &[7]).unwrap();
    }
    std::fs::write(folder.join("a.tlog"), log.finish().unwrap()).unwrap();
}

/// Any sender can choose such a name for what `khz log record` writes. No table at all was written.
#[test]
fn a_record_with_a_long_name_stops_no_export() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(5000);
    let wide = "ß".repeat(300);
    let (like, other) = (long.clone() + "y", "x".repeat(200));
    log(folder.path(), &["before", &long, &like, &wide, &other, "after"]);
    for format in ["csv", "parquet"] {
        let output = khz(folder.path(), &["log", "export", "a.tlog", "--format", format, "-o", format]);
        let error = stderr(&output);
        if format == "parquet" && error.contains("built without Parquet") {
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{error}");
        let message = error.lines().filter(|line| line.contains("too long for a file; its table is")).count();
        assert_eq!(message, 3, "{error}");
        assert!(error.lines().all(|line| line.len() < 500), "{error}");
        let mut names: Vec<_> = std::fs::read_dir(folder.path().join(format))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let cut = "x".repeat(200);
        let expected = ["after", "before", &cut, &format!("{cut}_2"), &format!("{cut}_3"), &"ß".repeat(100)];
        assert_eq!(names, expected.map(|name| format!("{name}.{format}")));
    }
    let table = stdout(&khz(folder.path(), &["log", "info", "a.tlog"]));
    assert!(table.lines().all(|line| line.chars().count() < 200), "{table}");
}
