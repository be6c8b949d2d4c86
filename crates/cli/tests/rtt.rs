//! `khz rtt` from the command line, against a device that never answers.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use serde_json::Value;
use std::net::UdpSocket;
use std::process::{Command, Stdio};

fn send(device: &UdpSocket, words: &[&str]) -> Command {
    let device = device.local_addr().unwrap().to_string();
    let mut khz = Command::new(env!("CARGO_BIN_EXE_khz"));
    khz.args(["rtt", "send", &device, "--priority", "0", "--json"]).args(words);
    khz.stdout(Stdio::piped()).stderr(Stdio::piped());
    khz
}

#[test]
fn what_cannot_be_saved_is_refused_before_anything_is_measured() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let output = send(&silent, &["--save", "/none/at/all.json"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("cannot write /none/at/all.json") && output.stdout.is_empty(), "{error}");
}

#[test]
fn what_cannot_be_saved_any_more_is_shown_and_everything_else_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (gone, log, report) = (path("gone/all.json"), path("log.tlog"), path("report.html"));
    std::fs::create_dir(folder.path().join("gone")).unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let plan = ["--rate", "20", "--duration", "2.5", "--checkpoint", "1"];
    let outputs = ["--save", &gone, "--log", &log, "--report", &report];
    let khz = send(&silent, &[&plan[..], &outputs].concat()).spawn().unwrap();
    // The log is begun once every output has been found to be writable.
    while !std::fs::exists(&log).unwrap() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::fs::remove_dir_all(folder.path().join("gone")).unwrap();
    let output = khz.wait_with_output().unwrap();
    let message: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &message["planned_ticks"]), (Some(2), &50.into()), "{message}");
    let notes = message["notes"].as_array().unwrap();
    assert_eq!(notes.len(), 1, "each is reported once: {notes:?}");
    assert!(notes.iter().all(|note| note.as_str().unwrap().contains("a checkpoint could not be saved")));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("cannot write") && error.contains("0 round trips logged"), "{error}");
    assert!(khz_tlog::Reader::open(std::fs::File::open(log).unwrap()).unwrap().is_finished());
    assert!(std::fs::exists(report).unwrap());
}

#[test]
fn silence_is_reported_with_what_to_check_and_durations_have_units() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let output = send(&silent, &["--rate", "100", "--duration", "50ms"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("no answer: ") && error.contains("firewalls"), "{error}");
    for wrong in ["-1", "2 parsecs"] {
        let output = send(&silent, &["--duration", wrong]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong}");
    }
}
