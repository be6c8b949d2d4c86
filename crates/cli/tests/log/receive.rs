//! `khz log record`.

use super::{bench, khz, lines};
use khz_tlog::Type;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::process::Command;

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
        std::fs::write(format!("{}.other", receiver.log), "another file").unwrap();
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
