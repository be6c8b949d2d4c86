//! `khz replay`: a recorded run once more.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod common;

use common::{khz, stderr, stdout};
use serde_json::Value;
use std::path::Path;

const LEG: &str = include_str!("../../../robots/leg3.toml");

/// A folder with `leg3.toml` and the log of its run.
fn run() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("leg3.toml"), LEG).unwrap();
    let words = ["run", "leg3.toml", "--virtual", "--duration", "1s", "--log", "run.tlog", "--no-report"];
    assert!(khz(folder.path(), &words).status.success());
    folder
}

fn replay(folder: &Path, words: &[&str]) -> (Option<i32>, Value) {
    let output = khz(folder, &[&["replay", "run.tlog", "--json"], words].concat());
    (output.status.code(), serde_json::from_str(&stdout(&output)).unwrap())
}

#[test]
fn the_recorded_controller_commands_the_same_again() {
    let folder = run();
    let (code, outcome) = replay(folder.path(), &[]);
    assert_eq!((code, &outcome["same"]), (Some(0), &Value::Bool(true)), "{outcome}");
    assert!(outcome["ticks"].as_u64().unwrap() > 900 && outcome["incomplete"] == 0);
    let out = stdout(&khz(folder.path(), &["replay", "run.tlog"]));
    assert!(out.contains("same: every command is within 1e-5 of the recorded one"), "{out}");
}

/// Both printed `different`: the last digits of what was measured led a follower elsewhere, and no log has what programs sent.
#[test]
fn a_follower_is_led_the_same_again_and_targets_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("follow", include_str!("../../../robots/leader_follower.toml")),
        ("targets", include_str!("../../../robots/arm_targets.toml")),
    ] {
        let [file, log] = ["toml", "tlog"].map(|end| format!("{name}.{end}"));
        std::fs::write(folder.path().join(&file), text).unwrap();
        let words = ["run", &file, "--virtual", "--duration", "3s", "--log", &log, "--no-report"];
        assert!(khz(folder.path(), &words).status.success());
    }
    let followed = khz(folder.path(), &["replay", "follow.tlog", "--tolerance", "1e-6"]);
    assert_eq!(followed.status.code(), Some(0), "{}", stdout(&followed));
    let sent = khz(folder.path(), &["replay", "targets.tlog"]);
    assert!(sent.status.code() == Some(2) && stderr(&sent).contains("not their points"), "{}", stderr(&sent));
    let held = khz(folder.path(), &["replay", "targets.tlog", "--controller", "hold"]);
    assert_eq!(held.status.code(), Some(0), "{}", stdout(&held));
}

#[test]
fn another_controller_and_other_settings_differ_from_a_tick_on() {
    let folder = run();
    let (code, outcome) = replay(folder.path(), &["--controller", "hold"]);
    assert_eq!((code, &outcome["controller"]), (Some(1), &"hold".into()), "{outcome}");
    let knee = &outcome["joints"][2];
    assert!(knee["name"] == "knee" && knee["ticks"].as_u64().unwrap() > 100, "{knee}");
    assert!(knee["first"]["tick"].as_u64().unwrap() < knee["largest"]["tick"].as_u64().unwrap());
    std::fs::write(folder.path().join("lower.toml"), LEG.replace("stand_m = 0.22", "stand_m = 0.2")).unwrap();
    let (code, outcome) = replay(folder.path(), &["--robot", "lower.toml"]);
    assert_eq!((code, &outcome["same"]), (Some(1), &Value::Bool(false)), "{outcome}");
}

#[test]
fn a_simulated_joint_under_the_recorded_commands_moves_as_recorded() {
    let folder = run();
    let (code, outcome) = replay(folder.path(), &["--body"]);
    assert_eq!(code, Some(0));
    for joint in outcome["joints"].as_array().unwrap() {
        assert!(joint["position"]["rms"].as_f64().unwrap() < 1e-6, "{joint}");
    }
    let heavy = LEG.replace("inertia = 0.006", "inertia = 0.06");
    std::fs::write(folder.path().join("heavy.toml"), heavy).unwrap();
    let (_, other) = replay(folder.path(), &["--body", "--robot", "heavy.toml"]);
    assert!(other["joints"][2]["position"]["largest"].as_f64().unwrap() > 1e-3, "{other}");
}

#[test]
fn ticks_that_a_damaged_log_lacks_are_reported() {
    let folder = run();
    let log = folder.path().join("run.tlog");
    let mut bytes = std::fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 3000].iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(&log, bytes).unwrap();
    let (_, outcome) = replay(folder.path(), &[]);
    assert!(
        outcome["incomplete"].as_u64().unwrap() > 0 && outcome["ticks"].as_u64().unwrap() > 500,
        "{outcome}"
    );
    let err = stderr(&khz(folder.path(), &["replay", "run.tlog"]));
    assert!(err.contains("ticks are not in the log, or not all of them"), "{err}");
}

#[test]
fn what_cannot_be_replayed_is_refused_with_the_reason() {
    let folder = run();
    let refused = |words: &[&str]| {
        let output = khz(folder.path(), &[&["replay"], words].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        stderr(&output)
    };
    assert!(refused(&["leg3.toml"]).contains("not a TLOG0003 log"));
    assert!(refused(&["nowhere.tlog"]).contains("nowhere.tlog"));
    assert!(refused(&["run.tlog", "--controller", "holt"]).contains("`holt` is none of"));
    std::fs::write(folder.path().join("other.toml"), LEG.replace("\"knee\"", "\"ankle\"")).unwrap();
    assert!(refused(&["run.tlog", "--robot", "other.toml"]).contains("hip, thigh, ankle"));
    assert!(
        khz(folder.path(), &["log", "extract", "run.tlog", "-r", "tick", "-o", "ticks.tlog"])
            .status
            .success()
    );
    let err = refused(&["ticks.tlog"]);
    assert!(err.contains("has no record `servo`: a replay needs the log of a run"), "{err}");
    assert!(
        khz(folder.path(), &["log", "extract", "run.tlog", "--from", "0.5", "-o", "late.tlog"])
            .status
            .success()
    );
    assert!(refused(&["late.tlog"]).contains("give the file (--robot)"));
    let late = khz(folder.path(), &["replay", "late.tlog", "--robot", "leg3.toml"]);
    assert!(stderr(&late).contains("begins when the controller was running"), "{}", stderr(&late));
}
