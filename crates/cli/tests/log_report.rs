//! `khz log report`: the page of a run from its log alone.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod common;

use common::{PAN_TILT, khz, stderr, stdout};
use std::path::Path;
use std::process::Output;

/// A folder with the log of a run in virtual time.
fn run() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("robot.toml"), PAN_TILT).unwrap();
    let words = ["run", "robot.toml", "--virtual", "--duration", "500ms", "--log", "run.tlog", "--no-report"];
    assert!(khz(folder.path(), &words).status.success());
    folder
}

fn report(folder: &Path, words: &[&str]) -> Output {
    khz(folder, &[&["log", "report"], words].concat())
}

fn read(folder: &Path, page: &str) -> String {
    std::fs::read_to_string(folder.join(page)).unwrap()
}

#[test]
fn a_whole_log_gives_the_page_of_its_run() {
    let folder = run();
    let output = report(folder.path(), &["run.tlog"]);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(0), "run.html\n"),
        "{}",
        stderr(&output)
    );
    let page = read(folder.path(), "run.html");
    for part in
        ["Held 1000 Hz", "pan_tilt: 2 servos at 1000 Hz", "virtual time", "Events", "Round trips", "tilt"]
    {
        assert!(page.contains(part), "{part}");
    }
    // The name is taken now.
    assert_eq!(stdout(&report(folder.path(), &["run.tlog"])), "run-1.html\n");
    let again = report(folder.path(), &["run.tlog", "--out", "run.html"]);
    assert!(again.status.code() == Some(2) && stderr(&again).contains("--force"), "{}", stderr(&again));
    assert!(report(folder.path(), &["run.tlog", "--out", "run.html", "--force"]).status.success());
}

#[test]
fn a_damaged_log_gives_a_page_that_says_what_is_missing() {
    let folder = run();
    let whole = std::fs::read(folder.path().join("run.tlog")).unwrap();
    std::fs::write(folder.path().join("cut.tlog"), &whole[..whole.len() / 2]).unwrap();
    let output = report(folder.path(), &["cut.tlog"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("warning: cut.tlog"), "{}", stderr(&output));
    assert!(read(folder.path(), "cut.html").contains("cut.tlog"));

    let mut holes = whole;
    let middle = holes.len() / 3;
    holes[middle..middle + 5_000].fill(0);
    std::fs::write(folder.path().join("holes.tlog"), &holes).unwrap();
    let output = report(folder.path(), &["holes.tlog"]);
    assert_eq!(output.status.code(), Some(1));
    let (message, page) = (stderr(&output), read(folder.path(), "holes.html"));
    assert!(message.contains("is damaged in") && message.contains("ticks are not in the log"), "{message}");
    assert!(page.contains("ticks are not in the log") && page.contains("pan_tilt"), "{message}");
}

#[test]
fn the_logs_of_two_runs_are_not_one_run() {
    let (folder, other) = (run(), run());
    let other = other.path().join("run.tlog").display().to_string();
    for logs in [["run.tlog", "run.tlog"], ["run.tlog", &other]] {
        let output = report(folder.path(), &logs);
        let message = stderr(&output);
        assert!(
            output.status.code() == Some(2) && message.contains("give the files of one run only"),
            "{message}"
        );
    }
    assert!(!folder.path().join("run.html").exists());
}

#[test]
fn every_cut_of_a_log_gives_a_page_or_an_error() {
    let folder = run();
    let whole = std::fs::read(folder.path().join("run.tlog")).unwrap();
    for length in (0..whole.len()).step_by(whole.len() / 12) {
        std::fs::write(folder.path().join("cut.tlog"), &whole[..length]).unwrap();
        let output = report(folder.path(), &["cut.tlog", "--out", "cut.html", "--force"]);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{length}: {}", stderr(&output));
        assert!(!stderr(&output).contains("panicked"), "{length}: {}", stderr(&output));
    }
}

#[test]
fn a_log_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let log = khz_tlog::Writer::new(Vec::new(), khz_tlog::Options::default()).unwrap().finish().unwrap();
    std::fs::write(folder.path().join("other.tlog"), log).unwrap();
    let output = report(folder.path(), &["other.tlog"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("error: no tick of a run is in this log"), "{}", stderr(&output));
}
