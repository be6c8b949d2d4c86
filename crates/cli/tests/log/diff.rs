//! `khz log diff`.

use super::{T0, bench, khz, make, stdout, write_samples};
use khz_tlog::{Options, Type, Writer, received};
use serde_json::Value;
use std::path::Path;

#[test]
fn diff_finds_the_field_that_differs() {
    let bench = bench();
    let other = format!("{}/other.tlog", bench.folder);
    make(Path::new(&other), 0.75);
    let same = khz(&["diff", &bench.log, &bench.log]);
    assert!(same.status.success());
    let output = khz(&["diff", &bench.log, &other, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let diff: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let fields = &diff[0]["fields"];
    assert_eq!(fields.as_array().unwrap().len(), 1);
    assert_eq!((&fields[0]["field"], &fields[0]["samples"]), (&Value::from("rate.1"), &Value::from(1000)));
    assert_eq!(fields[0]["largest"], 0.25);
    assert!(khz(&["diff", &bench.log, &other, "--tolerance", "0.25"]).status.success());
}

#[test]
fn diff_compares_samples_of_the_same_time_not_of_the_same_number() {
    let bench = bench();
    let [whole, lossy] = ["whole", "lossy"].map(|name| format!("{}/{name}.tlog", bench.folder));
    let all: Vec<_> = (0..10).map(|second| ("imu", second, second as f64)).collect();
    write_samples(&whole, &[&[("robot", -3, 0.0)], &all[..]].concat());
    // Started sooner after its first record, and lost a sample.
    write_samples(&lossy, &[&[("robot", -1, 0.0)], &all[..4], &all[5..]].concat());
    let (code, message, _) = diff(&[&whole, &lossy, "-r", "imu"]);
    assert_eq!(
        (code, &message[0]["only_before"], &message[0]["only_after"]),
        (Some(1), &1.into(), &0.into()),
        "{message}"
    );
    assert_eq!(message[0]["fields"], Value::Array(Vec::new()));
    let (_, message, _) = diff(&[&whole, &lossy, "-r", "imu", "--by", "number"]);
    assert_eq!(
        (&message[0]["fields"][0]["samples"], &message[0]["fields"][0]["first_s"]),
        (&5.into(), &4.0.into()),
        "{message}"
    );
}

/// What `khz log diff` prints, with its exit code.
fn diff(words: &[&str]) -> (Option<i32>, Value, String) {
    let output = khz(&[&["diff", "--json"], words].concat());
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    (output.status.code(), serde_json::from_str(&stdout(&output)).unwrap_or_default(), message)
}

#[test]
fn diff_takes_times_from_the_start_of_the_log_for_every_record() {
    let bench = bench();
    let [a, b] = ["a", "b"].map(|name| format!("{}/{name}.tlog", bench.folder));
    write_samples(&a, &[("robot", 0, 1.0), ("imu", 5, 1.0), ("imu", 9, 1.0), ("robot", 10, 1.0)]);
    let (code, message, _) = diff(&[&a, &a, "--to", "6"]);
    assert_eq!(
        (code, &message[0]["before"], &message[1]["before"]),
        (Some(0), &1.into(), &1.into()),
        "{message}"
    );
    // Also of a record only one of them has.
    write_samples(&b, &[("robot", 0, 1.0), ("robot", 10, 1.0)]);
    let (_, message, _) = diff(&[&b, &a, "--to", "6"]);
    assert_eq!(
        (&message[0]["record"], &message[0]["before"], &message[0]["after"]),
        (&"imu".into(), &0.into(), &1.into())
    );
}

#[test]
fn diff_reports_a_record_neither_log_has() {
    let bench = bench();
    let (code, _, message) = diff(&[&bench.log, &bench.log, "-r", "typo"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("no record named \"typo\" in either log; they have imu, note"), "{message}");
}

#[test]
fn diff_of_a_window_without_samples_is_not_the_same_but_an_error() {
    let bench = bench();
    for window in [["--from", "5000", "--to", "6000"], ["--from", "0.2", "--to", "0.1"]] {
        let (code, _, message) = diff(&[&[&*bench.log, &*bench.log], &window[..]].concat());
        assert!(code == Some(2) && message.contains("nothing was compared"), "{message}");
    }
    for wrong in ["nan", "-1", "inf", "x"] {
        let (code, _, message) = diff(&[&bench.log, &bench.log, &format!("--tolerance={wrong}")]);
        assert!(code == Some(2) && message.contains("a tolerance is a number from 0 up"), "{message}");
    }
}

#[test]
fn diff_reports_the_passport_and_does_not_count_it() {
    let bench = bench();
    let write = |name: &str, passport: &str| {
        let path = format!("{}/{name}.tlog", bench.folder);
        let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
        let robot = log.record("robot", &Type::object([("passport", Type::String)])).unwrap();
        log.write(robot, Some(T0), &[&[passport.len() as u8], passport.as_bytes()].concat()).unwrap();
        std::fs::write(&path, log.finish().unwrap()).unwrap();
        path
    };
    let (before, after) = (write("before", "load 0.1"), write("after", "load 0.2"));
    let (code, message, _) = diff(&[&before, &after]);
    assert_eq!((code, &message[0]["fields"][0]["counts"]), (Some(0), &false.into()), "{message}");
    let shown = stdout(&khz(&["diff", &before, &after]));
    assert!(shown.contains("the same") && shown.contains("does not count"), "{shown}");
}

#[test]
fn diff_reads_what_is_sound_of_damaged_logs_and_reports_the_damage() {
    let bench = bench();
    let bytes = std::fs::read(&bench.log).unwrap();
    let cut = format!("{}/cut.tlog", bench.folder);
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    for logs in [[&bench.log, &cut], [&cut, &bench.log]] {
        let (code, diff, message) = diff(&[logs[0], logs[1]]);
        assert_eq!(code, Some(1));
        assert!(message.contains(&format!("{cut}: byte")), "{message}");
        assert!(diff[0]["fields"].as_array().unwrap().is_empty(), "{diff}");
    }
    // The damaged log and its repaired copy have the same samples, and still the damage is reported.
    let repaired = format!("{}/repaired.tlog", bench.folder);
    assert_eq!(khz(&["repair", &cut, "-o", &repaired]).status.code(), Some(1));
    let (code, _, message) = diff(&[&cut, &repaired]);
    assert!(code == Some(1) && message.contains(&format!("{cut}: byte")), "{message}");
}

#[test]
fn diff_sees_fields_that_only_the_other_log_has_and_numbers_that_are_none() {
    let bench = bench();
    let [small, large, none] = ["small", "large", "none"].map(|name| format!("{}/{name}.tlog", bench.folder));
    write_samples(&small, &[("imu", 0, 1.0), ("imu", 1, 2.0)]);
    write_samples(&none, &[("imu", 0, 1.0), ("imu", 1, f64::NAN)]);
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let imu = log.record("imu", &Type::object([("x", Type::Float64), ("fresh", Type::Bool)])).unwrap();
    for (second, x) in [(0, 1.0f64), (1, 2.0)] {
        log.write(imu, Some(T0 + second * 1_000_000), &[&x.to_le_bytes()[..], &[1]].concat()).unwrap();
    }
    std::fs::write(&large, log.finish().unwrap()).unwrap();
    let (code, message, _) = diff(&[&small, &large]);
    let fields = &message[0]["fields"];
    assert_eq!(
        (code, &fields[0]["field"], &fields[0]["samples"]),
        (Some(1), &"fresh".into(), &2.into()),
        "{message}"
    );
    for logs in [[&small, &none], [&none, &small]] {
        let output = khz(&["diff", logs[0], logs[1]]);
        assert!(
            stdout(&output).contains("x: 1 sample differs, first at 1.000000 s\n"),
            "{}",
            stdout(&output)
        );
    }
}

#[test]
fn diff_takes_the_late_samples_of_several_senders() {
    let bench = bench();
    let path = format!("{}/far.tlog", bench.folder);
    let marks = received::MARKS.map(|name| (name, 0, 0.0));
    let beats = [10, 15, 11, 16, 12].map(|second| ("beat", second, 0.0));
    write_samples(&path, &[&marks[..], &beats].concat());
    let (code, message, _) = diff(&[&path, &path, "-r", "beat", "--to", "12"]);
    assert_eq!((code, &message[0]["before"], &message[0]["after"]), (Some(0), &3.into(), &3.into()));
}
