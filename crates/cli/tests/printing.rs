//! What commands print: a reader that goes away is no failure, and no name from outside reaches a terminal.
#![allow(clippy::unwrap_used)]

mod common;

use common::PAN;
use khz_tlog::{Options, Type, Writer};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Obeyed by terminals: a title, the screen cleared, eight-bit colours, a line of its own, writing from right to left.
const EVIL: &str = "\x1b]0;title\x07\x1b[2J\u{9b}31m\r\nfake\u{202e}\x7f";

fn khz(folder: &Path, words: &[&str]) -> Command {
    let mut khz = Command::new(env!("CARGO_BIN_EXE_khz"));
    khz.args(words).current_dir(folder).stdin(Stdio::null());
    khz
}

/// A folder with a robot, a robot file that is none, two logs and results of `khz jitter`.
fn bench() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("robot.toml"), PAN.to_owned() + "[log]\nenabled = false\n").unwrap();
    std::fs::write(at("wrong.toml"), "[bus.main]\nlink = 1\n").unwrap();
    for (name, count) in [("a.tlog", 20), ("b.tlog", 21)] {
        let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
        let ty = Type::object([("x", Type::Uint(khz_tlog::Width::Eight)), (EVIL, Type::String)]);
        let record = log.record(&format!("a{EVIL}"), &ty).unwrap();
        for number in 0..count {
            let mut payload = vec![number, 0, 0, 0, 0, 0, 0, 0, EVIL.len() as u8];
            payload.extend_from_slice(EVIL.as_bytes());
            log.write(record, Some(1_600_000_000_000_000 + i64::from(number) * 1000), &payload).unwrap();
        }
        std::fs::write(at(name), log.finish().unwrap()).unwrap();
    }
    let words = ["jitter", "--ticks", "20", "--policy", "other", "--wake", "sleep", "--save", "results.json"];
    assert!(khz(folder.path(), &words).output().unwrap().status.success());
    folder
}

/// A command line per command that prints.
fn every_command() -> Vec<Vec<String>> {
    let record = format!("a{EVIL}");
    let mut all: Vec<Vec<&str>> = [
        "check robot.toml",
        "check --json robot.toml",
        "check --diagram robot.toml",
        "check wrong.toml",
        "check --json wrong.toml",
        "check missing.toml",
        "check --schema",
        "budget robot.toml",
        "budget --json robot.toml",
        "budget --published",
        "budget wrong.toml",
        "bus info emulated",
        "bus info emulated --json",
        "bus scan emulated --last 3",
        "bus send --link emulated 1,8001,1300,r",
        "bus watch emulated --duration 1ms",
        "bus record emulated --duration 1ms -o /dev/null",
        "bus spi 2,34,42 --link emulated:pi3hat",
        "doctor",
        "doctor --json",
        "emulate robot.toml --duration 10ms",
        "jitter --ticks 20 --policy other --wake sleep",
        "jitter --ticks 20 --policy other --wake sleep --json",
        "log info a.tlog",
        "log info a.tlog --json",
        "log cat a.tlog",
        "log diff a.tlog b.tlog",
        "log diff a.tlog b.tlog --json",
        "log repair a.tlog -o /dev/null",
        "log repair a.tlog -o /dev/null --json",
        "log export a.tlog --format csv -o tables --force",
        "log plot a.tlog nothing",
        "report results.json",
        "report results.json --json",
        "rtt echo --port 0 --duration 0.01",
        "rtt echo --port 0 --duration 0.01 --json",
        "run robot.toml --duration 50ms",
        "run robot.toml --duration 50ms --json",
        "run wrong.toml",
        "--help",
        "log --help",
        "--version",
        "no-such-command",
    ]
    .into_iter()
    .map(|line| line.split(' ').collect())
    .collect();
    all.push(vec!["log", "cat", "a.tlog", "--csv", "--record", &record]);
    all.push(vec!["log", "plot", "a.tlog", &record, "-o", "/dev/null"]);
    all.into_iter().map(|words| words.into_iter().map(str::to_owned).collect()).collect()
}

fn ended(folder: &Path, words: &[String], stdout: Stdio, stderr: Stdio) -> Output {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    khz(folder, &words).stdout(stdout).stderr(stderr).output().unwrap()
}

/// A pipe without a reader.
fn closed_pipe() -> Stdio {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap().1.into()
}

#[test]
fn a_reader_that_goes_away_changes_no_exit_code() {
    let bench = bench();
    for words in every_command() {
        let read = ended(bench.path(), &words, Stdio::piped(), Stdio::piped());
        let unread = ended(bench.path(), &words, closed_pipe(), Stdio::piped());
        let stderr = String::from_utf8_lossy(&unread.stderr).into_owned();
        assert_eq!(unread.status.code(), read.status.code(), "{words:?}: {stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("pipe"), "{words:?}: {stderr}");
        let deaf = ended(bench.path(), &words, closed_pipe(), closed_pipe());
        assert_eq!(deaf.status.code(), read.status.code(), "{words:?}");
    }
}

#[test]
fn a_good_run_is_good_although_its_table_cannot_be_written() {
    let bench = bench();
    for json in [&[][..], &["--json"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let words = [&["run", "robot.toml", "--virtual", "--duration", "50ms"], json].concat();
        let output = khz(bench.path(), &words).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        assert!(stderr.contains("cannot write to standard output: No space left on device"), "{stderr}");
    }
}

/// Nothing of [`EVIL`] but what is plain.
fn assert_harmless(what: &dyn std::fmt::Debug, text: &[u8]) {
    let text = std::str::from_utf8(text).unwrap();
    let obeyed = |c: &char| c.is_control() && !"\n\t".contains(*c) || *c == '\u{202e}';
    assert_eq!(text.chars().find(obeyed), None, "{what:?}: {text:?}");
}

/// No line but ours.
fn assert_no_line(what: &dyn std::fmt::Debug, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    assert!(!text.lines().any(|line| line.starts_with("fake")), "{what:?}: {text:?}");
}

#[test]
fn names_from_outside_do_not_reach_the_terminal() {
    let bench = bench();
    let mut shown = 0;
    // A table for other programs is as it is when no person reads it.
    for words in every_command().into_iter().filter(|words| !words.contains(&"--csv".to_owned())) {
        let output = ended(bench.path(), &words, Stdio::piped(), Stdio::piped());
        for text in [&output.stdout, &output.stderr] {
            assert_harmless(&words, text);
            assert_no_line(&words, text);
        }
        shown += usize::from(String::from_utf8_lossy(&output.stdout).contains("\\u001b]0;title\\u0007"));
        if words.contains(&"--json".to_owned()) && words[0] != "rtt" && !output.stdout.is_empty() {
            let parsed = serde_json::from_slice::<serde_json::Value>(&output.stdout);
            parsed.unwrap_or_else(|error| panic!("{words:?}: {error}"));
        }
    }
    assert!(shown >= 5, "{shown} commands show the record");
    // Names of files, too.
    let name = format!("no{EVIL}.tlog");
    let words = [&["log", "info", &name][..], &["check", &name], &["run", &name], &["compare", &name]];
    for words in words {
        assert_harmless(&words, &khz(bench.path(), words).output().unwrap().stderr);
    }
}
