//! `khz log repair` of damaged logs.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod common;

use common::{khz, stdout};
use khz_tlog::{Options, Type, Writer};
use std::path::Path;
use std::process::Output;

fn repair(folder: &Path, words: &[&str]) -> Output {
    let words = [&["log", "repair", "--force", "-o", "out.tlog"], words].concat();
    khz(folder, &words)
}

/// A log without an index, of a record `a` with samples and a record `b` with as many.
fn log(samples: u8) -> Vec<u8> {
    let mut log = Writer::new(Vec::new(), Options { index: false, ..Options::default() }).unwrap();
    let ids = ["a", "b"].map(|name| log.record(name, &Type::object([("n", Type::VarUint)])).unwrap());
    for n in 0..samples {
        for id in ids {
            log.write(id, Some(1_600_000_000_000_000 + i64::from(n) * 1000), &[n % 100]).unwrap();
        }
    }
    log.finish().unwrap()
}

#[test]
fn a_repair_of_a_log_that_has_lost_samples_says_so_by_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.tlog");
    let codes = |log: &[u8]| {
        std::fs::write(&path, log).unwrap();
        let json = repair(folder.path(), &["in.tlog", "--json"]);
        (repair(folder.path(), &["in.tlog"]).status.code(), json.status.code())
    };
    let mut lost = log(0);
    lost.extend([0x77; 100]);
    assert_eq!(codes(&lost), (Some(1), Some(1)));
    assert_eq!(codes(&log(0)), (Some(0), Some(0)));
    // Without an index, and whole.
    assert_eq!(codes(&log(50)), (Some(0), Some(0)));
    let mut first_schema = log(50);
    first_schema[9] ^= 1;
    assert_eq!(codes(&first_schema), (Some(1), Some(1)));
    let cut = log(50);
    assert_eq!(codes(&cut[..cut.len() - 1]), (Some(1), Some(1)));
    std::fs::write(&path, &first_schema).unwrap();
    let output = stdout(&repair(folder.path(), &["in.tlog"]));
    assert!(output.contains("50 samples from in.tlog"), "{output}");
}

/// A record whose schema is lost once had a line for each of its samples.
#[test]
fn a_repair_describes_few_of_many_damaged_places() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = log(200);
    log[9] ^= 1;
    std::fs::write(folder.path().join("in.tlog"), &log).unwrap();
    let output = stdout(&repair(folder.path(), &["in.tlog"]));
    assert!(output.lines().count() == 12 && output.contains("and 191 more damaged places\n"), "{output}");
    assert!(output.contains("200 samples from in.tlog"), "{output}");
}
