//! `khz log` on logs made here.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use khz_tlog::{Options, Type, Writer, received};
use rustix::process::{Pid, Signal, kill_process};
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

fn lines_of(words: &[&str]) -> Vec<String> {
    stdout(&khz(words)).lines().map(str::to_owned).collect()
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
fn exports_and_plots_are_written() {
    let bench = bench();
    for format in ["mcap", "csv"] {
        assert!(khz(&["export", &bench.log, "--format", format]).status.success(), "{format}");
    }
    let mcap = std::fs::read(format!("{}/run.mcap", bench.folder)).unwrap();
    assert!(mcap.starts_with(b"\x89MCAP0\r\n") && mcap.ends_with(b"\x89MCAP0\r\n"));
    let table = std::fs::read_to_string(format!("{}/run.csv/imu.csv", bench.folder)).unwrap();
    assert_eq!(table.lines().count(), 1001);
    let page = format!("{}/plot.html", bench.folder);
    assert!(khz(&["plot", &bench.log, "imu.rate", "-o", &page]).status.success());
    assert!(std::fs::read_to_string(page).unwrap().contains("rate.2"));
}

/// `khz log record` on a port of its own.
struct Receiver {
    process: std::process::Child,
    address: String,
    log: String,
}

impl Receiver {
    fn start(folder: &str, more: &[&str]) -> Self {
        use std::io::{BufRead, BufReader};
        use std::process::Stdio;

        let log = format!("{folder}/received.tlog");
        let words = ["log", "record", "--listen", "127.0.0.1:0", "--keep-free", "0", "--json", "-o", &log];
        let mut command = Command::new(env!("CARGO_BIN_EXE_khz"));
        let command = command.args(words).args(more).stderr(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        // A byte at a time: what comes later is left in the pipe.
        BufReader::with_capacity(1, process.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening at ").unwrap().to_owned();
        Self { process, address, log }
    }

    /// Waits until the log has so many samples of a record, or for a while, as some may be lost; then ends it.
    fn finish(self, record: &str, samples: usize) -> Value {
        let (code, summary) = self.finish_with_code(record, samples);
        assert_eq!(code, Some(0));
        summary
    }

    fn finish_with_code(mut self, record: &str, samples: usize) -> (Option<i32>, Value) {
        use std::io::Read;

        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while lines(&self.log, record).len() < samples && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        kill_process(Pid::from_child(&self.process), Signal::INT).unwrap();
        let mut text = String::new();
        self.process.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        (self.process.wait().unwrap().code(), serde_json::from_str(&text).unwrap())
    }
}

/// It once printed "whole" and ended with 0.
#[test]
fn a_received_log_that_is_removed_truncated_or_replaced_is_an_error_at_once() {
    let removed = |log: &str| std::fs::remove_file(log).unwrap();
    let truncated = |log: &str| _ = std::fs::File::create(log).unwrap();
    let replaced = |log: &str| std::fs::rename(format!("{log}.other"), log).unwrap();
    let tries = [
        (removed as fn(&str), "the file was removed meanwhile"),
        (truncated, "the file was cut to 0 of "),
        (replaced, "the file was removed meanwhile"),
    ];
    for (meanwhile, why) in tries {
        let bench = bench();
        let receiver = Receiver::start(&bench.folder, &[]);
        std::fs::write(format!("{}.other", receiver.log), "somebody's").unwrap();
        while std::fs::metadata(&receiver.log).unwrap().len() == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        meanwhile(&receiver.log);
        let ended = receiver.process.wait_with_output().unwrap();
        let text = String::from_utf8(ended.stderr).unwrap();
        assert!(!ended.status.success() && ended.stdout.is_empty(), "{text}");
        assert!(text.contains("received.tlog") && text.contains(why), "{text}");
    }
}

fn lines(log: &str, record: &str) -> Vec<String> {
    lines_of(&["cat", log, "-r", record])
}

#[test]
fn samples_sent_by_a_recorder_are_received() {
    let bench = bench();
    let receiver = Receiver::start(&bench.folder, &[]);
    let mut builder = khz_robot::recorder::RecorderBuilder::new(khz_robot::recorder::LogConfig {
        path: format!("{}/sent.tlog", bench.folder),
        keep_free_mib: 0,
        stream: Some(receiver.address.clone()),
        ..Default::default()
    });
    let tick = builder.record("tick", &Type::Float64).unwrap();
    let mut tap = builder.tap(1 << 20);
    let recorder = builder.start().unwrap();
    (0..50).for_each(|n| assert!(tap.push_value(tick, khz_rt::now_ns(), &f64::from(n))));
    let sent = recorder.finish();
    let received = receiver.log.clone();
    let summary = receiver.finish("tick", 50);
    assert_eq!(summary["bytes"], std::fs::metadata(&received).unwrap().len());
    assert_eq!(
        (&summary["samples"], &summary["lost"], &summary["senders"]),
        (&50.into(), &0.into(), &1.into())
    );
    assert_eq!(lines(&received, "tick"), lines(sent.paths[0].to_str().unwrap(), "tick"));
}

/// They went into the log, and `--strict` was content.
#[test]
fn a_sample_that_does_not_fit_its_schema_is_refused_and_strict_notices() {
    use khz_tlog::Sink;

    let bench = bench();
    let receiver = Receiver::start(&bench.folder, &["--strict"]);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let sizes = [8, 4, 8];
    for (number, size) in (0u64..).zip(sizes) {
        let mut datagram = b"KLOG\x01".to_vec();
        datagram.put(&7u64.to_le_bytes());
        datagram.put(&number.to_le_bytes());
        datagram.put(&[1, 0]);
        datagram.counted(b"r");
        datagram.counted(&Type::object([("b", Type::Float32), ("c", Type::Float32)]).to_bytes());
        datagram.put(&[2, 0]);
        // The same sample twice would be one that is sent again.
        datagram.put(&(number as i64).to_le_bytes());
        datagram.counted(&[0; 8][..size]);
        socket.send_to(&datagram, &receiver.address).unwrap();
    }
    let received = receiver.log.clone();
    let (code, summary) = receiver.finish_with_code("r", 2);
    let message = (&summary["samples"], &summary["unfit"], &summary["whole"]);
    assert_eq!((code, message), (Some(1), (&2.into(), &1.into(), &false.into())), "{summary}");
    assert!(khz(&["cat", &received]).status.success());
}

/// A robot runs in one process and is recorded by another: every sample arrives as it was logged, or its datagram is
/// counted as lost.
#[test]
fn a_run_is_recorded_by_another_process() {
    let bench = bench();
    let receiver = Receiver::start(&bench.folder, &[]);
    let sent = format!("{}/sent.tlog", bench.folder);
    let words = ["run", "--duration", "500ms", "--no-report", "--json", "--log", &sent, "--stream"];
    let mut run = Command::new(env!("CARGO_BIN_EXE_khz"));
    let run = run.args(words).arg(&receiver.address).output().unwrap();
    let message: Value = serde_json::from_slice(&run.stdout).unwrap();
    let received = receiver.log.clone();
    let ticks = lines(&sent, "tick").len();
    assert!(ticks > 0 && message["log_dropped"] == 0, "{message}");
    let summary = receiver.finish("tick", ticks);
    let nothing_lost = summary["lost"] == 0 && summary["dropped"] == 0;
    for record in ["robot", "tick", "servo", "command", "imu", "event"] {
        let (sent, received) = (lines(&sent, record), lines(&received, record));
        assert!(!sent.is_empty(), "{record}");
        let sent_set: std::collections::HashSet<_> = sent.iter().collect();
        assert!(received.iter().all(|line| sent_set.contains(line)), "{record}");
        assert!(received.len() == sent.len() || !nothing_lost, "{record}: {summary}");
    }
    let sender = lines(&received, "sender");
    assert!(sender.len() == 1 && sender[0].contains("\"address\":\"127.0.0.1:"), "{sender:?}");
}

#[test]
fn an_impossible_address_is_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_khz"));
    let output = run.args(["run", "--stream", "here"]).current_dir(&folder).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("cannot send samples to here"), "{error}");
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

fn files_in(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn records_whose_names_become_the_same_have_tables_of_their_own() {
    let bench = bench();
    let path = format!("{}/names.tlog", bench.folder);
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let names = ["tick@2", "tick_2", "tick.2", "tick_2_2"];
    let records = names.map(|name| log.record(name, &Type::Bool).unwrap());
    for (index, record) in records.into_iter().enumerate() {
        (0..=index).for_each(|_| log.write(record, Some(T0), &[1]).unwrap());
    }
    std::fs::write(&path, log.finish().unwrap()).unwrap();
    let folder = format!("{}/tables", bench.folder);
    let words = ["export", &path, "--format", "csv", "-o", &folder];
    let paths = lines_of(&words);
    let samples = |path: &String| std::fs::read_to_string(path).unwrap().lines().count() - 1;
    assert_eq!(paths.iter().map(samples).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(paths[0].ends_with("/tick_2.csv") && paths[1].ends_with("/tick_2_2.csv"), "{paths:?}");
    assert_eq!(lines_of(&[&words[..], &["--force"]].concat()), paths);
}

#[test]
fn tables_of_records_without_a_name_or_of_different_case_share_no_file() {
    let bench = bench();
    let path = format!("{}/names.tlog", bench.folder);
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    for name in ["a_b", "A_B", ""] {
        let record = log.record(name, &Type::Bool).unwrap();
        log.write(record, Some(T0), &[1]).unwrap();
    }
    std::fs::write(&path, log.finish().unwrap()).unwrap();
    let folder = format!("{}/tables", bench.folder);
    let paths = lines_of(&["export", &path, "--format", "csv", "-o", &folder]);
    assert_eq!(paths, ["a_b.csv", "A_B_2.csv", "unnamed.csv"].map(|name| format!("{folder}/{name}")));
    assert!(khz(&["export", &path, "--format", "mcap"]).status.success());
}

#[test]
fn thousands_of_units_filled_the_screen() {
    use khz_tlog::Field;

    let bench = bench();
    let path = format!("{}/units.tlog", bench.folder);
    let field = |n: usize| Field::new(format!("f{n}"), Type::Bool).with_unit(&format!("u{n}"));
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    log.record("many", &Type::Object((0..2000).map(field).collect())).unwrap();
    std::fs::write(&path, log.finish().unwrap()).unwrap();
    let shown = stdout(&khz(&["info", &path]));
    assert!(shown.ends_with(", f19 u19, and 1980 more (--json)\n"), "{shown}");
}

#[test]
fn info_shows_units_and_plots_have_them_at_their_axis() {
    use khz_tlog::Field;

    let bench = bench();
    let path = format!("{}/units.tlog", bench.folder);
    let leg = Type::Object(vec![
        Field::new("angle", Type::Float64).with_unit("rad"),
        Field::new("t_s", Type::Float64).with_unit("s"),
    ]);
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let record = log.record("legs", &Type::object([("left", leg.clone()), ("right", leg)])).unwrap();
    log.write(record, Some(T0), &[0; 32]).unwrap();
    std::fs::write(&path, log.finish().unwrap()).unwrap();
    assert!(stdout(&khz(&["info", &path])).ends_with("\nrecord units\nlegs   angle rad\n"));
    let info: Value = serde_json::from_str(&stdout(&khz(&["info", &path, "--json"]))).unwrap();
    assert_eq!(
        info["records"][0]["units"],
        serde_json::json!({"left.angle": "rad", "left.t_s": "s", "right.angle": "rad", "right.t_s": "s"})
    );
    let plot = |what: &str| {
        let page = format!("{}/plot.html", bench.folder);
        assert!(khz(&["plot", &path, what, "-o", &page, "--force"]).status.success());
        std::fs::read_to_string(page).unwrap()
    };
    let has_unit = |page: String| page.contains("\"unit\":\"rad\"");
    // Seconds are on axes of their own.
    assert!(
        has_unit(plot("legs.left.angle")) && has_unit(plot("legs.left")) && !has_unit(plot("legs.left.t_s"))
    );
}

/// PlotJuggler stops at an integer that no float64 holds exactly.
#[test]
fn an_mcap_export_rounds_integers_beyond_float64_and_keeps_them_on_request() {
    let bench = bench();
    let path = format!("{}/ids.tlog", bench.folder);
    let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
    let record = log.record("ids", &Type::object([("id", Type::Int(khz_tlog::Width::Eight))])).unwrap();
    log.write(record, Some(T0), &((1i64 << 53) + 1).to_le_bytes()).unwrap();
    std::fs::write(&path, log.finish().unwrap()).unwrap();
    let export = |more: &[&str]| {
        let output = khz(&[&["export", &path, "--force"], more].concat());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let definition = || {
        let file = std::fs::read(format!("{}/ids.mcap", bench.folder)).unwrap();
        let has = |text: &[u8]| file.windows(text.len()).any(|bytes| bytes == text);
        (has(b"float64 id\n"), has(b"int64 id\n"))
    };
    for (more, message, written) in [
        (None, "they were rounded: --exact-integers", (true, false)),
        (Some("--exact-integers"), "PlotJuggler stops there", (false, true)),
    ] {
        let (code, error) = export(&[&["--format", "mcap"], more.as_slice()].concat());
        assert!(code == Some(0) && error.contains("64-bit integers in ids"), "{error}");
        assert!(error.contains(message) && definition() == written, "{error}");
    }
    assert_eq!(export(&["--format", "csv", "--exact-integers"]).0, Some(2));
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
