//! `khz log` on logs made here.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod diff;
mod export;
mod receive;

use khz_tlog::{Options, Type, Writer, received};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const T0: i64 = 1_583_798_400_000_000;

fn khz(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_khz")).arg("log").args(words).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A second of `imu` at 1 kHz, with `note` at 1 Hz.
fn make(path: &Path, offset: f32) {
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let rate = Type::FixedArray(3, Box::new(Type::Float32));
    let imu = log.record("imu", &Type::object([("rate", rate), ("fresh", Type::Bool)])).unwrap();
    let note = log.record("note", &Type::String).unwrap();
    for n in 0..1000i64 {
        let mut payload: Vec<u8> = [n as f32, offset, -1.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        payload.push(1);
        log.write(imu, Some(T0 + n * 1000), &payload).unwrap();
        if n % 100 == 0 {
            log.write(note, Some(T0 + n * 1000), b"\x05hello").unwrap();
        }
    }
    std::fs::write(path, log.finish().unwrap()).unwrap();
}

struct Bench {
    _folder: tempfile::TempDir,
    log: String,
    folder: String,
}

fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run.tlog");
    make(&log, 0.5);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    Bench { log: text(&log), folder: text(folder.path()), _folder: folder }
}

fn lines_of(words: &[&str]) -> Vec<String> {
    stdout(&khz(words)).lines().map(str::to_owned).collect()
}

fn lines(log: &str, record: &str) -> Vec<String> {
    lines_of(&["cat", log, "-r", record])
}

fn files_in(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Writes a log of `f64` records: name, second and value of each sample.
fn write_samples(path: &str, samples: &[(&str, i64, f64)]) {
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let mut records = std::collections::HashMap::new();
    for &(name, second, value) in samples {
        let ty = Type::object([("x", Type::Float64)]);
        let record = *records.entry(name).or_insert_with(|| log.record(name, &ty).unwrap());
        log.write(record, Some(T0 + second * 1_000_000), &value.to_le_bytes()).unwrap();
    }
    std::fs::write(path, log.finish().unwrap()).unwrap();
}

/// Changes a byte of the `n`-th sample, counted from 0, of the first record.
fn damage_sample(path: &str, n: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    let mut log = khz_tlog::Reader::open(bytes.clone()).unwrap();
    let name = log.records()[0].name().to_owned();
    let places = log.places(&name).unwrap().unwrap();
    let end = places[n] + log.sample_at(places[n]).unwrap().block_len;
    bytes[end as usize - 1] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn info_counts_what_is_there() {
    let bench = bench();
    let output = khz(&["info", &bench.log, "--json"]);
    assert!(output.status.success());
    let info: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(info["records"][0]["name"], "imu");
    assert_eq!(info["records"][0]["samples"], 1000);
    assert_eq!(info["records"][0]["rate_hz"], 1000.0);
    assert_eq!((&info["finished"], &info["damages"]), (&Value::Bool(true), &Value::from(0)));
    assert!(stdout(&khz(&["info", &bench.log])).contains("2020-03-10T00:00:00.000000Z"));
}

#[test]
fn cat_prints_the_chosen_samples_and_fields() {
    let bench = bench();
    let output = khz(&["cat", &bench.log, "-r", "imu", "--from", "0.5", "--to", "0.501", "-f", "rate.0"]);
    let expected = "{\"time\":1583798400.500000,\"record\":\"imu\",\"rate.0\":500}\n\
                    {\"time\":1583798400.501000,\"record\":\"imu\",\"rate.0\":501}\n";
    assert_eq!(stdout(&output), expected);
    let output = khz(&["cat", &bench.log, "-r", "imu", "--csv", "--to", "0", "-f", "rate"]);
    assert_eq!(stdout(&output), "time,rate.0,rate.1,rate.2\n1583798400.000000,0,0.5,-1\n");
    let lines = stdout(&khz(&["cat", &bench.log]));
    assert_eq!(lines.lines().count(), 1010);
    assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
}

#[test]
fn wrong_words_are_reported_with_what_there_is() {
    let bench = bench();
    for (words, message) in [
        (vec!["cat", &bench.log, "-r", "imv"], "no record named \"imv\" in this log; it has imu, note"),
        (vec!["cat", &bench.log, "-r", "imu", "--csv", "-f", "rat"], "no field \"rat\""),
        (vec!["cat", &bench.log, "-f", "rate.0.x", "-f", "fersh"], "no field \"fersh\"; there are rate.0"),
        (vec!["cat", &bench.log, "-f", "fersh"], "(did you mean fresh?)"),
        (vec!["cat", &bench.log, "-r", "imv"], "(did you mean imu?)"),
        (vec!["plot", &bench.log, "imu.rat"], "(did you mean rate.0"),
        (vec!["plot", &bench.log, "rat.0"], "no field \"rat.0\""),
        (vec!["cat", "nowhere.tlog"], "cannot open the log nowhere.tlog"),
        (vec!["info", env!("CARGO_MANIFEST_PATH")], "not a TLOG0003 log"),
        (vec!["plot", &bench.log, "note.text"], "no numbers at \"text\""),
        (vec!["extract", &bench.log, "-o", "x"], "nothing to choose"),
    ] {
        let output = khz(&words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_cut_log_is_read_reported_and_repaired() {
    let bench = bench();
    let bytes = std::fs::read(&bench.log).unwrap();
    std::fs::write(&bench.log, &bytes[..bytes.len() / 2]).unwrap();
    let output = khz(&["info", &bench.log, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(error.contains("the log ends inside this block") && error.contains("khz log repair"), "{error}");
    let samples = |output: &Output| {
        let info: Value = serde_json::from_str(&stdout(output)).unwrap();
        info["records"][0]["samples"].as_u64().unwrap()
    };
    // As it is printed.
    let whole = bench.log.replace(".tlog", ".whole.tlog");
    assert!(error.contains(&format!("`khz log repair {} --output {whole}`", bench.log)), "{error}");
    let repaired = format!("{}/repaired.tlog", bench.folder);
    assert_eq!(khz(&["repair", &bench.log, "--output", &repaired]).status.code(), Some(1));
    let again = khz(&["info", &repaired, "--json"]);
    assert!(again.status.success());
    assert_eq!(samples(&again), samples(&output));
    assert!((400..600).contains(&samples(&again)));
}

#[test]
fn extracts_are_logs() {
    let bench = bench();
    let small = format!("{}/small.tlog", bench.folder);
    assert!(khz(&["extract", &bench.log, "-r", "note", "-o", &small]).status.success());
    let lines = stdout(&khz(&["cat", &small]));
    assert_eq!(lines.lines().count(), 10);
    assert!(lines.starts_with("{\"time\":1583798400.000000,\"record\":\"note\",\"value\":\"hello\"}"));
    let output = khz(&["extract", &bench.log, "-r", "note", "-o", &small]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("--force overwrites it"));
    let words = ["extract", &bench.log, "--from", "0.9", "-o", &small, "--force"];
    assert!(khz(&words).status.success());
    assert_eq!(stdout(&khz(&["cat", &small])).lines().count(), 101);
}

/// Compressed by zstd or not, every command gives the same of a log.
#[test]
fn zstd_is_not_seen_by_any_command() {
    use khz_tlog::Compression;

    let bench = bench();
    let logs = [Compression::None, Compression::Zstd].map(|how| {
        let path = format!("{}/{how:?}.tlog", bench.folder);
        let mut log = Writer::new(Vec::new(), Options { compression: how, ..Options::default() }).unwrap();
        let fast = log.record("fast", &Type::object([("n", Type::VarUint), ("text", Type::String)])).unwrap();
        let slow = log.record_with("slow", &Type::Bool.to_bytes(), Compression::None).unwrap();
        for n in 0..5000i64 {
            log.write(fast, Some(T0 + n * 1000), &[n as u8 & 0x7f, 3, b'a', b'b', b'c']).unwrap();
            if n % 250 == 0 {
                log.write(slow, Some(T0 + n * 1000), &[1]).unwrap();
            }
        }
        std::fs::write(&path, log.finish().unwrap()).unwrap();
        path
    });
    for words in [
        &["-r", "fast"][..],
        &["-r", "slow"],
        &["-r", "fast", "--from", "1.2345", "--to", "3.7"],
        &["-r", "fast", "--csv", "-f", "n", "--to", "0.02"],
    ] {
        let [plain, zstd] = [0, 1].map(|index| stdout(&khz(&[&["cat", &logs[index]], words].concat())));
        assert!(plain.lines().count() > 10 && plain == zstd, "{words:?}");
    }
    assert!(khz(&["diff", &logs[0], &logs[1]]).status.success());
    let part = format!("{}/part.tlog", bench.folder);
    assert!(khz(&["extract", &logs[1], "-r", "fast", "--from", "1", "-o", &part]).status.success());
    let expected = lines_of(&["cat", &logs[0], "-r", "fast", "--from", "1"]);
    assert_eq!(lines_of(&["cat", &part]), expected);
    let info: Value = serde_json::from_str(&stdout(&khz(&["info", &logs[1], "--json"]))).unwrap();
    assert_eq!(info["records"][0]["samples"], 5000);
}

#[test]
fn a_part_of_what_others_sent_still_has_samples_that_came_late() {
    let bench = bench();
    let path = |name: &str| format!("{}/{name}.tlog", bench.folder);
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    received::MARKS.iter().for_each(|name| _ = log.record(name, &Type::Null).unwrap());
    let beat = log.record("beat", &Type::Bool).unwrap();
    for second in [10, 15, 11, 16, 12] {
        log.write(beat, Some(T0 + second * 1_000_000), &[1]).unwrap();
    }
    std::fs::write(path("far"), log.finish().unwrap()).unwrap();
    assert!(khz(&["extract", &path("far"), "-r", "beat", "-o", &path("part")]).status.success());
    assert!(khz(&["repair", &path("far"), "-o", &path("repaired")]).status.success());
    for name in ["far", "part", "repaired"] {
        // From the first sample on: those of 10, 11 and 12.
        assert_eq!(lines_of(&["cat", &path(name), "--to", "2.5"]).len(), 3, "{name}");
    }
}

#[test]
fn cat_leaves_out_samples_without_the_field_and_plot_finds_it_in_every_record() {
    let bench = bench();
    let lines = stdout(&khz(&["cat", &bench.log, "-f", "rate.0"]));
    assert_eq!(lines.lines().count(), 1000);
    assert!(lines.lines().all(|line| line.contains("\"rate.0\":")), "{lines}");
    for (number, what) in ["rate", "rate.1", "imu.*.2", "*.0"].into_iter().enumerate() {
        let page = format!("{}/plot{number}.html", bench.folder);
        assert!(khz(&["plot", &bench.log, what, "-o", &page]).status.success(), "{what}");
    }
}

#[test]
fn what_fails_destroys_nothing_and_leaves_nothing_behind() {
    let bench = bench();
    let good = format!("{}/good", bench.folder);
    for command in [
        &["extract", &bench.log, "-r", "typo"][..],
        &["repair", env!("CARGO_MANIFEST_PATH")],
        &["export", &bench.log, "--format", "mcap", "-r", "typo"],
    ] {
        let into = [command, &["-o", &good]].concat();
        assert_eq!(khz(&into).status.code(), Some(2), "{command:?}");
        assert_eq!(files_in(&bench.folder), ["run.tlog"], "{command:?}");
        std::fs::write(&good, "good").unwrap();
        assert_eq!(khz(&[&into[..], &["--force"]].concat()).status.code(), Some(2), "{command:?}");
        assert_eq!(std::fs::read_to_string(&good).unwrap(), "good", "{command:?}");
        std::fs::remove_file(&good).unwrap();
    }
}

#[test]
fn an_output_may_be_a_pipe_a_device_or_behind_a_link() {
    let bench = bench();
    let extract = |to: &str| khz(&["extract", &bench.log, "-r", "note", "-o", to, "--force"]);
    let piped = extract("/dev/stdout");
    assert!(piped.status.success() && piped.stdout.starts_with(b"TLOG0003"));
    assert!(extract("/dev/null").status.success());
    let (target, link) = (format!("{}/target.tlog", bench.folder), format!("{}/link.tlog", bench.folder));
    std::fs::write(&target, "old").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert!(extract(&link).status.success());
    assert_eq!(lines(&target, "note").len(), 10);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn a_damaged_first_sample_hides_no_other() {
    let bench = bench();
    damage_sample(&bench.log, 0);
    let output = khz(&["cat", &bench.log, "-r", "imu", "--from", "0"]);
    assert_eq!((output.status.code(), stdout(&output).lines().count()), (Some(1), 999));
    let page = format!("{}/plot.html", bench.folder);
    assert_eq!(khz(&["plot", &bench.log, "imu.rate", "-o", &page]).status.code(), Some(1));
    assert!(std::fs::exists(page).unwrap());
}

#[test]
fn times_count_from_the_first_sample_that_has_one() {
    let bench = bench();
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let beat = log.record("beat", &Type::Bool).unwrap();
    for time in [None, Some(T0), Some(T0 + 1_000_000), Some(T0 + 2_000_000)] {
        log.write(beat, time, &[1]).unwrap();
    }
    std::fs::write(&bench.log, log.finish().unwrap()).unwrap();
    assert_eq!(lines_of(&["cat", &bench.log, "--from", "0.5", "--to", "1.5"]).len(), 2, "one has no time");
}

#[test]
fn extract_over_links_steps_over_damage() {
    let bench = bench();
    let path = format!("{}/sparse.tlog", bench.folder);
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let rare = log.record("rare", &Type::Float64).unwrap();
    let filler = log.record("filler", &Type::Bytes).unwrap();
    for n in 0..10i64 {
        log.write(rare, Some(T0 + n), &(n as f64).to_le_bytes()).unwrap();
        let noise: Vec<u8> = (0..2000).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        log.write(filler, Some(T0 + n), &[&[0xd0, 0x0f], &noise[..]].concat()).unwrap();
    }
    std::fs::write(&path, log.finish().unwrap()).unwrap();
    // The newest sample shows how sparse they are; without it the log is read through.
    for (damaged, left) in [(3, 9), (9, 8)] {
        damage_sample(&path, damaged);
        let part = format!("{}/part.tlog", bench.folder);
        let output = khz(&["extract", &path, "-r", "rare", "-o", &part, "--force"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8(output.stderr).unwrap().contains("it is damaged"));
        assert_eq!(lines(&part, "rare").len(), left);
    }
}

#[test]
fn a_payload_that_does_not_fit_its_schema_is_stepped_over() {
    let bench = bench();
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let number = log.record("number", &Type::Float64).unwrap();
    for n in 0..10usize {
        log.write(number, Some(T0), &[0; 8][..if n == 4 { 3 } else { 8 }]).unwrap();
    }
    std::fs::write(&bench.log, log.finish().unwrap()).unwrap();
    let output = khz(&["cat", &bench.log]);
    assert_eq!((output.status.code(), stdout(&output).lines().count()), (Some(1), 9));
}
