//! `khz check` as a person or a script meets it.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn check(arguments: &[&str]) -> Output {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    Command::new(env!("CARGO_BIN_EXE_khz")).arg("check").args(arguments).current_dir(root).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_right_file_is_shown_as_a_table_a_diagram_and_json() {
    let table = check(&["robots/pan_tilt.toml"]);
    assert!(table.status.success() && table.stderr.is_empty());
    assert!(text(&table.stdout).contains("pan_tilt: 2 servos on 1 bus at 1000 Hz"));

    let diagram = text(&check(&["robots/pan_tilt.toml", "--diagram"]).stdout);
    assert!(diagram.starts_with("flowchart LR\n") && diagram.contains("tilt<br/>id 2"));

    let json = check(&["--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["valid"], true);
    assert_eq!(json["buses"][3]["servos"][2]["name"], "rear_right_knee");
    assert_eq!(json["values"]["supervisor"]["tilt"], 1.0);
}

#[test]
fn a_wrong_file_gives_2_and_every_error_on_stderr() {
    let file = "crates/robot/tests/malformed/many_at_once.toml";
    let refused = check(&[file]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stdout.is_empty());
    assert!(text(&refused.stderr).ends_with("\n\n6 errors\n"), "{}", text(&refused.stderr));

    let json: serde_json::Value = serde_json::from_slice(&check(&[file, "--json"]).stdout).unwrap();
    assert_eq!(json["problems"].as_array().unwrap().len(), 6);
    assert_eq!(json["problems"][0]["line"], 2);
}

#[test]
fn a_heartbeat_from_a_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("robot.toml");
    let pan_tilt = include_str!("../../../robots/pan_tilt.toml");
    let heartbeat = format!("[supervisor]\nheartbeat_ms = 500\nheartbeat_from = {:?}", folder.path());
    std::fs::write(&file, format!("{pan_tilt}\n{heartbeat}\n")).unwrap();
    let refused = check(&[file.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(
        said.contains("heartbeat_from") && said.contains("heartbeats cannot be received from a folder"),
        "{said}"
    );
}
