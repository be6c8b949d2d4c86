//! What people see at a terminal: help with examples, colours, completions, man pages, one prefix for errors.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod common;

use common::{PAN_TILT, khz, stderr, stdout};
use std::path::Path;
use std::process::{Command, Stdio};

/// The commands under one, by its help.
fn commands(of: &[&str]) -> Vec<String> {
    let help = stdout(&khz(Path::new("."), &[of, &["--help"]].concat()));
    let list = help.split("Commands:\n").nth(1).unwrap_or_default();
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
}

#[test]
fn the_help_of_every_command_has_examples() {
    // Those that check, budget and make robot files say theirs in their own tests.
    for command in commands(&[]).iter().filter(|name| !["check", "budget", "new"].contains(&name.as_str())) {
        let under = commands(&[command]);
        let all = if under.is_empty() {
            vec![vec![command.as_str()]]
        } else {
            under.iter().map(|name| vec![command, name.as_str()]).collect()
        };
        for words in all {
            let help = stdout(&khz(Path::new("."), &[&words[..], &["--help"]].concat()));
            assert!(help.contains("Examples:\n  "), "{words:?}");
        }
    }
}

#[test]
fn colours_are_for_terminals_unless_asked_for_or_refused() {
    let doctor = |name: &str, value: &str| {
        let mut khz = Command::new(env!("CARGO_BIN_EXE_khz"));
        khz.arg("doctor").env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env(name, value);
        stdout(&khz.output().unwrap())
    };
    assert!(doctor("CLICOLOR_FORCE", "1").contains("\x1b["));
    assert!(!doctor("NO_COLOR", "1").contains('\x1b'));
    assert!(!doctor("TERM", "xterm").contains('\x1b'));
}

#[test]
fn shells_and_man_learn_every_command() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = khz(folder.path(), &["completions", shell]);
        assert!(output.status.success() && stdout(&output).contains("drill"), "{shell}");
    }
    assert!(khz(folder.path(), &["man", "pages"]).status.success());
    for page in ["khz.1", "khz-run.1", "khz-log-report.1", "khz-rtt-send.1"] {
        let text = std::fs::read_to_string(folder.path().join("pages").join(page)).unwrap();
        assert!(text.contains(".SH"), "{page}");
    }
}

#[test]
fn the_first_help_fits_a_terminal() {
    let output = khz(Path::new("."), &["--help"]);
    let lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
    assert!(lines.len() <= 25, "{} lines", lines.len());
    assert!(lines.iter().all(|line| line.len() <= 81), "{lines:#?}");
}

#[test]
fn errors_have_one_prefix() {
    for words in [
        &["no-such-command"][..],
        &["log", "info", "nowhere.tlog"],
        &["run", "nowhere.toml"],
        &["check", "nowhere.toml"],
        &["bus", "scan", "nope"],
        &["rtt", "send", "127.0.0.1", "--payload", "1"],
        &["report", "nowhere.json"],
        &["drill", "fall", "nowhere.toml"],
    ] {
        let output = khz(Path::new("."), words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let told = stderr(&output);
        assert!(told.starts_with("error: ") && !told.contains("error: error"), "{words:?}: {told}");
    }
}

#[test]
fn a_fix_is_never_run_without_a_yes() {
    let output = Command::new(env!("CARGO_BIN_EXE_khz"))
        .args(["doctor", "--fix"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = stdout(&output) + &stderr(&output);
    let refused = ["needs root: sudo ", "no terminal to ask on", "nothing that a command fixes"];
    assert!(refused.iter().any(|why| told.contains(why)), "{told}");
}

#[test]
fn links_are_named_alike_in_every_command() {
    for words in [&["info", "emulated"][..], &["info", "--link", "emulated"], &["info", "-l", "emulated"]] {
        let output = khz(Path::new("."), &[&["bus"], words].concat());
        assert!(stdout(&output).contains("bus 1 "), "{words:?}: {}", stderr(&output));
    }
    assert_eq!(khz(Path::new("."), &["bus", "info"]).status.code(), Some(2));
}

#[test]
fn an_export_has_the_format_of_its_ending() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("robot.toml"), PAN_TILT).unwrap();
    let words = ["run", "robot.toml", "--virtual", "--duration", "50ms", "--log", "run.tlog", "--no-report"];
    assert!(khz(folder.path(), &words).status.success());
    let export = |words: &[&str]| khz(folder.path(), &[&["log", "export", "run.tlog"], words].concat());
    assert!(export(&["-o", "run.mcap"]).status.success());
    assert!(std::fs::read(folder.path().join("run.mcap")).unwrap().starts_with(b"\x89MCAP"));
    assert!(export(&["-o", "run.csv"]).status.success());
    assert!(folder.path().join("run.csv/servo.csv").is_file());
    for words in [&[][..], &["-o", "tables"]] {
        let output = export(words);
        assert!(
            output.status.code() == Some(2) && stderr(&output).contains("--format"),
            "{}",
            stderr(&output)
        );
    }
}
