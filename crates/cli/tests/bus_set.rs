//! `khz bus set-zero`, `set-id` and `set-watchdog`: what is announced, asked, refused and reported.
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
fn what_is_set_is_announced_on_stderr_and_reported_on_stdout() {
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
        let err = text(&output.stderr);
        assert!(err.contains(announced), "{err}");
        let about_power = if words.contains(&"--store") {
            "keeps this and all its other settings"
        } else {
            "Without --store it may forget"
        };
        assert!(err.contains(about_power), "{err}");
        assert_eq!(err.contains("That takes 0.02 s"), words[0] == "set-zero", "{err}");
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

/// A motor that held an arm was switched off by being looked at, before the question; "nothing was changed" was printed then.
#[test]
fn a_servo_that_a_query_switches_off_is_not_asked_before_a_yes() {
    let folder = tempfile::tempdir().unwrap();
    let arm = "[bus.main]\nlink = \"emulated\"\n[[servo]]\nbus = \"main\"\nname = \"hip\"\nid = 1\nfamily = \"robstride_mit\"\n\
               robstride_mit = { model = \"RS00\", unwatched = true }\n";
    std::fs::write(folder.path().join("mit.toml"), arm).unwrap();
    let output =
        command(folder.path(), &["set-zero", "mit.toml", "hip"]).stdin(Stdio::null()).output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("that is asked") && message.contains("there is no terminal to ask on"),
        "{message}"
    );
    assert!(!message.contains("becomes 0"), "it was asked where it is: {message}");
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

const ODRIVES: &str = "[bus.main]\nlink = \"emulated\"\nwire = \"can\"\n[servo_defaults]\nbus = \"main\"\nfamily = \"odrive\"\n\
                       [[servo]]\nname = \"hip\"\nid = 0\nodrive = { firmware = \"0.6\", torque_constant = 0.1, unwatched = true }\n\
                       [[servo]]\nname = \"knee\"\nid = 2\nodrive = { firmware = \"0.6\", torque_constant = 0.1, unwatched = true }\n";
const RMDS: &str = "[loop]\nrate_hz = 400\n[bus.main]\nlink = \"emulated\"\nwire = \"can\"\n[servo_defaults]\nbus = \"main\"\nfamily = \"rmd\"\n\
                    rmd = { model = \"X8\", protocol = \"V4.2\" }\n\
                    [[servo]]\nname = \"hip\"\nid = 1\n[[servo]]\nname = \"knee\"\nid = 2\n";
const ENDPOINTS: &str = include_str!("../../../robots/odrive_endpoints.json");

/// What a tool prints for these robots: standard output, standard error, exit code.
fn tool(words: &[&str]) -> (String, String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("odrives.toml", ODRIVES),
        ("old.toml", &ODRIVES.replace("0.6", "0.5")),
        ("rmds.toml", RMDS),
        ("endpoints.json", ENDPOINTS),
        ("other.json", &ENDPOINTS.replace("0.6.11", "0.6.10")),
        ("bad.json", &ENDPOINTS[..200]),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let output = command(folder.path(), words).stdin(Stdio::null()).output().unwrap();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn every_tool_sets_an_odrive_also_node_0() {
    let endpoints = ["--endpoints", "endpoints.json", "--yes"];
    for (words, announced, message) in [
        (
            &["set-zero", "odrives.toml", "hip", "--yes"][..],
            "rad, becomes 0",
            "hip: joint position 0.000 rad, mode idle\n",
        ),
        (
            &["set-zero", "old.toml", "knee", "--yes"],
            "rad, becomes 0",
            "knee: joint position 0.000 rad, mode idle\n",
        ),
        (&["set-id", "old.toml", "knee", "5", "--yes"], "its id becomes 5", "knee: id 5, mode idle\n"),
        (&["set-id", "old.toml", "knee", "0", "--yes"], "", ""),
        (
            &[&["set-watchdog", "odrives.toml", "hip", "0.2"][..], &endpoints].concat(),
            "`khz run` cannot change it",
            "hip: watchdog 0.2 s, mode idle\n",
        ),
        (
            &[&["set-watchdog", "odrives.toml", "hip", "0.2", "--store"][..], &endpoints].concat(),
            "keeps this and all its other settings",
            "hip: watchdog 0.2 s, mode idle, stored\n",
        ),
        (
            &[&["set-watchdog", "odrives.toml", "hip", "0"][..], &endpoints].concat(),
            "for ever",
            "hip: watchdog 0 s, mode idle\n",
        ),
        (
            &[&["set", "odrives.toml", "hip", "axis0.config.can.heartbeat_msg_rate_ms=50"][..], &endpoints]
                .concat(),
            "(`axis0.config.can.heartbeat_msg_rate_ms`) becomes 50; now it is 20.",
            "hip: endpoint 274 (`axis0.config.can.heartbeat_msg_rate_ms`) = 50, mode idle\n",
        ),
        (
            &[&["set", "odrives.toml", "hip", "axis0.config.motor.torque_constant=0.05"][..], &endpoints]
                .concat(),
            "becomes 0.05; now it is 0.1",
            "hip: endpoint 400 (`axis0.config.motor.torque_constant`) = 0.05",
        ),
    ] {
        let (out, err, code) = tool(words);
        if message.is_empty() {
            assert!(code == Some(1) && err.contains("on the bus already"), "{words:?}: {err}");
            continue;
        }
        assert!(code == Some(0) && err.contains(announced), "{words:?}: {out} {err}");
        assert!(!err.contains("NaN"), "{err}");
        assert!(out.starts_with(message), "{out}");
    }
}

#[test]
fn what_an_odrive_cannot_do_by_can_is_refused_with_what_can() {
    for (words, code, why) in [
        (
            &["set-watchdog", "odrives.toml", "hip", "0.2", "--yes"][..],
            2,
            "give the `flat_endpoints.json` of its release",
        ),
        (
            &["set", "odrives.toml", "hip", "axis0.config.enable_watchdog=1", "--yes"],
            2,
            "give the `flat_endpoints.json`",
        ),
        (&["set-id", "odrives.toml", "hip", "5", "--yes"], 2, "axis0.config.can.node_id"),
        (&["set-id", "old.toml", "knee", "63", "--yes"], 2, "nodes are from 0 to 62"),
        (
            &["set-watchdog", "old.toml", "knee", "0.2", "--endpoints", "endpoints.json", "--yes"],
            2,
            "firmware 0.5 has no endpoints",
        ),
        (
            &["set-watchdog", "odrives.toml", "hip", "0.2", "--endpoints", "bad.json", "--yes"],
            2,
            "bad.json: it is no JSON",
        ),
        (
            &["set-watchdog", "odrives.toml", "hip", "0.2", "--endpoints", "none.json", "--yes"],
            2,
            "none.json: No such file",
        ),
        (
            &["set-watchdog", "odrives.toml", "hip", "0.2", "--endpoints", "other.json", "--yes"],
            1,
            "its firmware is 0.6.11 on board 5.2.0",
        ),
        (
            &[
                "set",
                "odrives.toml",
                "hip",
                "axis0.config.enable_watchdg=1",
                "--endpoints",
                "endpoints.json",
                "--yes",
            ],
            2,
            "no endpoint `axis0.config.enable_watchdg`; did you mean",
        ),
        (
            &["set", "odrives.toml", "hip", "7=1", "--endpoints", "endpoints.json", "--yes"],
            2,
            "no endpoint 7",
        ),
        (
            &[
                "set",
                "odrives.toml",
                "hip",
                "axis0.config.enable_watchdog=2",
                "--endpoints",
                "endpoints.json",
                "--yes",
            ],
            2,
            "2 is no bool",
        ),
        (
            &["set-watchdog", "rmds.toml", "hip", "0.2", "--endpoints", "endpoints.json", "--yes"],
            2,
            "no RMD has any",
        ),
    ] {
        let (out, err, is) = tool(words);
        assert_eq!((out.as_str(), is), ("", Some(code)), "{words:?}: {err}");
        assert!(err.contains(why), "{words:?}: {err}");
    }
}

#[test]
fn every_tool_sets_an_rmd() {
    for (words, announced, message) in [
        (
            &["set-zero", "rmds.toml", "hip", "--yes"][..],
            "rad, becomes 0",
            "hip: joint position 0.000 rad, mode off\n",
        ),
        (&["set-id", "rmds.toml", "knee", "5", "--yes"], "its id becomes 5", "knee: id 5, mode off\n"),
        (
            &["set-watchdog", "rmds.toml", "hip", "0.2", "--yes"],
            "It keeps this without power",
            "hip: watchdog 0.2 s, mode off\n",
        ),
        (&["set-watchdog", "rmds.toml", "hip", "0", "--yes"], "for ever", "hip: watchdog 0 s, mode off\n"),
        (
            &["set", "rmds.toml", "hip", "acceleration_up=6000", "--yes"],
            "becomes 6000",
            "hip: register 0x4200 (`acceleration_up`) = 6000",
        ),
    ] {
        let (out, err, code) = tool(words);
        assert!(code == Some(0) && err.contains(announced), "{words:?}: {out} {err}");
        assert!(!err.contains("NaN"), "{err}");
        assert!(out.starts_with(message), "{out}");
    }
    for (words, code, why) in [
        (&["set-id", "rmds.toml", "hip", "2", "--yes"][..], 1, "on the bus already"),
        (&["set-id", "rmds.toml", "hip", "33", "--yes"], 2, "ids are from 1 to 32"),
        (&["set-watchdog", "rmds.toml", "hip", "0.01", "--yes"], 2, "less than 20 ms"),
        (&["set", "rmds.toml", "hip", "acceleration_up=7", "--yes"], 2, "100 to 60000"),
        (&["set-zero", "rmds.toml", "hip", "--store", "--yes"], 2, "leave `--store` out"),
    ] {
        let (out, err, is) = tool(words);
        assert_eq!((out.as_str(), is), ("", Some(code)), "{words:?}: {err}");
        assert!(err.contains(why), "{words:?}: {err}");
    }
}

#[test]
fn a_scan_finds_odrives_and_rmds_of_a_robot_file() {
    for (robot, words) in [
        ("odrives.toml", ["odrive  idle", "0.6.11", "odrive"]),
        ("old.toml", ["odrive  idle", "0.5", "odrive"]),
        ("rmds.toml", ["rmd     off", "X8", "rmd"]),
    ] {
        let (out, err, code) = tool(&["scan", robot]);
        assert_eq!(code, Some(0), "{out} {err}");
        words.iter().for_each(|word| assert!(out.contains(word), "{out}"));
    }
}
