//! `khz bus set-zero`, `set-id` and `set-watchdog`: what is announced, asked, refused and told.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const ARM: &str = "[bus.main]\nlink = \"emulated\"\n[servo_defaults]\nbus = \"main\"\nfamily = \"damiao\"\ndamiao.model = \"4310\"\n\
                   [[servo]]\nname = \"hip\"\nid = 1\noffset = 0.25\n[[servo]]\nname = \"knee\"\nid = 2\n";

fn command(folder: &Path, words: &[&str]) -> Command {
    std::fs::write(folder.join("arm.toml"), ARM).unwrap();
    let mut khz = Command::new(env!("CARGO_BIN_EXE_khz"));
    khz.current_dir(folder).arg("bus").args(words);
    khz
}

fn khz(words: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    command(folder.path(), words).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn what_is_set_is_announced_on_stderr_and_told_on_stdout() {
    for (words, announced, message) in [
        (
            &["set-zero", "arm.toml", "hip", "--yes"][..],
            "hip (damiao, id 1 on bus main): its present position, ",
            "hip: joint position 0.250 rad, mode disabled\n",
        ),
        (
            &["set-id", "arm.toml", "knee", "5", "--store", "--yes"],
            "Also, it replies on identifier 21 then, the default of `damiao.master_id`.",
            "knee: id 5, mode disabled, stored\n",
        ),
        (
            &["set-watchdog", "arm.toml", "2", "0.05", "--yes"],
            "after 0.05 s without a frame it acts by itself.",
            "knee: watchdog 0.05 s, mode disabled\n",
        ),
        (&["set-watchdog", "arm.toml", "2", "0", "--yes"], "for ever", "knee: watchdog 0 s, mode disabled\n"),
        (
            &["set-watchdog", "arm.toml", "2", "50ms", "--yes"],
            "after 0.05 s",
            "knee: watchdog 0.05 s, mode disabled\n",
        ),
        (
            &["set", "arm.toml", "knee", "timeout=2000", "--store", "--yes"],
            "its register 9 (`TIMEOUT`) becomes 2000; now it is 0.",
            "knee: register 9 (`TIMEOUT`) = 2000, mode disabled, stored\n",
        ),
    ] {
        let output = khz(words);
        assert_eq!((text(&output.stdout).as_str(), output.status.code()), (message, Some(0)), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains(announced), "{said}");
        let about_power = if words.contains(&"--store") {
            "keeps this and all its other settings"
        } else {
            "Without --store it may forget"
        };
        assert!(said.contains(about_power), "{said}");
        assert_eq!(said.contains("That takes 0.02 s"), words[0] == "set-zero", "{said}");
    }
}

#[test]
fn json_says_what_the_servo_says() {
    let output = khz(&["set-id", "arm.toml", "knee", "5", "--yes", "--json"]);
    let message: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&message["set"], &message["id"], &message["name"]),
        (&"id".into(), &5.into(), &"knee".into())
    );
    assert_eq!((&message["mode"], &message["stored"]), (&"disabled".into(), &false.into()));
}

#[test]
fn nothing_is_done_without_a_terminal_or_a_yes() {
    let output = khz(&["set-zero", "arm.toml", "hip"]);
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("", Some(2)));
    let message = text(&output.stderr);
    assert!(
        message.contains("becomes 0") && message.contains("there is no terminal to ask on: give --yes"),
        "{message}"
    );
}

#[test]
fn at_a_terminal_only_a_yes_does_it() {
    for (answer, code) in [("\n", 1), ("n\n", 1), ("Y\n", 0)] {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let terminal = File::options().read(true).write(true).open(name).unwrap();
        File::from(master.try_clone().unwrap()).write_all(answer.as_bytes()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let output = command(folder.path(), &["set-zero", "arm.toml", "hip"])
            .stdin(Stdio::from(terminal))
            .output()
            .unwrap();
        let message = text(&output.stderr);
        assert!(message.contains("Do it? [y/N] "), "{message}");
        assert_eq!(output.status.code(), Some(code), "{answer:?}: {message}");
        assert_eq!(message.contains("nothing was changed"), code == 1);
        assert_eq!(output.stdout.is_empty(), code == 1);
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    for (words, code, why) in [
        (&["set-id", "arm.toml", "knee", "1", "--yes"][..], 1, "a servo with id 1 is on the bus already"),
        (&["set-id", "arm.toml", "knee", "16", "--yes"], 2, "a Damiao cannot have id 16"),
        (&["set", "arm.toml", "knee", "8=5", "--yes"], 2, "its id is set with `khz bus set-id`"),
        (&["set", "arm.toml", "knee", "sped=5", "--yes"], 2, "knee: no register is called `sped`"),
        (&["set", "arm.toml", "knee", "timeout=fast", "--yes"], 2, "the value is no number"),
        (&["set", "emulated", "1", "7=5", "--bus", "1", "--yes"], 2, "registers of a moteus are commands"),
        (&["set-zero", "arm.toml", "elbow", "--yes"], 2, "no servo is called `elbow`; there are: hip, knee"),
        (&["set-zero", "arm.toml", "9", "--yes"], 2, "servo 9 on bus main did not reply; replied: 1, 2"),
        (&["set-zero", "emulated", "1", "--yes"], 2, "on which bus is servo 1?"),
        (&["set-id", "emulated", "1", "2", "--bus", "1", "--yes"], 2, "conf set id.id 2"),
    ] {
        let output = khz(words);
        assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("", Some(code)), "{output:?}");
        let message = text(&output.stderr);
        assert!(message.starts_with("error: ") && message.contains(why), "{message}");
    }
}
