//! `khz rtt` from the command line, against a device that never answers.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use serde_json::Value;
use std::net::UdpSocket;
use std::process::{Command, Output};

fn send(words: &[&str]) -> Output {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let device = silent.local_addr().unwrap().to_string();
    let plan = ["rtt", "send", &device, "--priority", "0", "--json"];
    Command::new(env!("CARGO_BIN_EXE_khz")).args(plan).args(words).output().unwrap()
}

#[test]
fn what_cannot_be_saved_is_shown_and_everything_else_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (nowhere, log, report) = (path("none/at/all.json"), path("log.tlog"), path("report.html"));
    let output = send(&[
        "--rate",
        "20",
        "--duration",
        "2.5",
        "--save",
        &nowhere,
        "--checkpoint",
        "1",
        "--log",
        &log,
        "--report",
        &report,
    ]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &told["planned_ticks"]), (Some(2), &50.into()), "{told}");
    let notes = told["notes"].as_array().unwrap();
    assert!(notes.iter().all(|note| note.as_str().unwrap().contains("a checkpoint could not be saved")));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("cannot write") && error.contains("0 round trips logged"), "{error}");
    assert!(khz_tlog::Reader::open(std::fs::File::open(log).unwrap()).unwrap().is_finished());
    assert!(std::fs::exists(report).unwrap());
}
