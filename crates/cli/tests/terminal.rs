//! What people see at a terminal: help with examples, colours, completions, man pages, one prefix for errors.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod common;

use common::{PAN_TILT, khz, stderr, stdout};
use std::path::Path;
use std::process::{Command, Stdio};

/// The commands under one, by its help.
fn commands(of: &[&str]) -> Vec<String> {
    let help = stdout(&khz(Path::new("."), &[of, &["--help"]].concat()));
    // The first help has them in groups.
    let lists = if of.is_empty() { "\n\n" } else { "Commands:\n" };
    let list = help.split_once(lists).unwrap_or_default().1;
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
}

#[test]
fn the_help_of_every_command_has_examples() {
    // Those that check, budget and make robot files are tested on their own.
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

/// What `khz` wrote to a terminal of so many columns.
fn at_terminal(columns: u16, folder: &Path, words: &[&str]) -> String {
    use rustix::{pty, termios};
    use std::io::Read;
    let master = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY).unwrap();
    pty::grantpt(&master).unwrap();
    pty::unlockpt(&master).unwrap();
    let name = pty::ptsname(&master, Vec::new()).unwrap();
    let open = || std::fs::OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let terminal = open();
    let size = termios::Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    termios::tcsetwinsize(&terminal, size).unwrap();
    let mut khz = Command::new(env!("CARGO_BIN_EXE_khz"));
    khz.args(words).current_dir(folder).env("TERM", "xterm").env_remove("NO_COLOR").stdin(Stdio::null());
    let mut running = khz.stdout(open()).stderr(open()).spawn().unwrap();
    // The command holds the terminal open, too.
    drop((terminal, khz));
    let (mut master, mut text) = (std::fs::File::from(master), Vec::new());
    // It ends with an error when the other side is closed.
    let _ = master.read_to_end(&mut text);
    running.wait().unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

/// Rows of a terminal: what is between carriage returns and line breaks, without what moves the cursor or colours.
fn rows(text: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain += before;
        rest = after.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest);
    }
    (plain + rest).split(['\r', '\n']).map(str::to_owned).filter(|row| !row.trim().is_empty()).collect()
}

/// The live line needed two rows at 80 columns, so that each update scrolled; sentences were cut within words.
#[test]
fn nothing_is_wider_than_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("robot.toml"), PAN_TILT).unwrap();
    for columns in [40, 80, 120] {
        let run = at_terminal(columns, folder.path(), &["run", "robot.toml", "--duration", "1s"]);
        assert!(run.contains("\r\x1b[2K") && run.contains(" Hz"), "{run:?}");
        for words in
            [&["check", "robot.toml"][..], &["check"], &["budget", "robot.toml"], &["budget"], &["doctor"]]
        {
            let message = at_terminal(columns, folder.path(), words);
            assert!(!message.is_empty(), "{words:?}");
            for row in rows(&message).into_iter().chain(rows(&run)) {
                // A command stays in one piece, to be copied, and so does a word for which a line is too short.
                let is_word = !row.trim().contains(' ') && row.trim().chars().count() > columns.into();
                let is_whole = row.contains("sudo ") || row.contains('`') || is_word;
                assert!(row.chars().count() <= columns.into() || is_whole, "{columns}: {row:?}");
            }
        }
    }
}

/// `khz bus scan` was a usage error, and most bad verdicts ended in it.
#[test]
fn every_cure_that_a_verdict_prints_runs_as_printed() {
    use khz_run::verdict::{BUDGET, Broken, DOCTOR, Facts, RobotFile, SCAN, judge};
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("robot.toml"), PAN_TILT).unwrap();
    for file in [RobotFile::BuiltIn, RobotFile::At("robot.toml".into())] {
        for cure in [DOCTOR, SCAN, BUDGET] {
            let broken = Some(Broken { after_s: Some(1.0), what: "it fell".into(), remedy: Some(cure) });
            let message = judge(&Facts {
                target_hz: 1000.0,
                periods: 1,
                broken,
                file: file.clone(),
                ..Facts::default()
            });
            let command = message.text.split('`').nth(1).unwrap();
            let words: Vec<&str> = command.split(' ').skip(1).collect();
            let output = khz(folder.path(), &words);
            // 1 and 3: it was done, and not all is well.
            assert!(
                [Some(0), Some(1), Some(3)].contains(&output.status.code()),
                "{command}: {}",
                stderr(&output)
            );
            assert!(
                words[0] == "doctor" || file == RobotFile::BuiltIn || words.contains(&"robot.toml"),
                "{command}"
            );
        }
    }
}

#[test]
fn a_verdict_has_the_colour_of_its_level() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("robot.toml"), PAN_TILT).unwrap();
    let words = ["run", "robot.toml", "--virtual", "--duration", "300ms", "--no-report"];
    let message = at_terminal(80, folder.path(), &words);
    assert!(message.contains("\x1b[1m\x1b[32mHeld 1000 Hz of virtual time.\x1b[0m"), "{message:?}");
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
    assert!(lines.iter().all(|line| line.len() <= 80), "{lines:#?}");
}

#[test]
fn a_former_name_is_answered_with_the_present_one() {
    for (words, now) in [
        (&["report", "a.json"][..], "`khz report` is now `khz compare`"),
        (&["body", "--mjcf"], "`khz body` is now `khz new --model-of ROBOT.toml`"),
        (&["rtt", "record", "--port", "7756"], "`khz rtt record` is now `khz log record`"),
        (&["help", "report"], "`khz report` is now `khz compare`"),
    ] {
        let output = khz(Path::new("."), words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert_eq!(stderr(&output), format!("error: {now}\n"));
    }
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
        &["compare", "nowhere.json"],
        &["drill", "fall", "nowhere.toml"],
    ] {
        let output = khz(Path::new("."), words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let message = stderr(&output);
        assert!(message.starts_with("error: ") && !message.contains("error: error"), "{words:?}: {message}");
    }
}

#[test]
fn a_fix_is_never_run_without_a_yes() {
    let output = Command::new(env!("CARGO_BIN_EXE_khz"))
        .args(["doctor", "--fix"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let message = stdout(&output) + &stderr(&output);
    let refused = ["needs root: sudo ", "no terminal to ask on", "nothing that a command fixes"];
    assert!(refused.iter().any(|why| message.contains(why)), "{message}");
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
