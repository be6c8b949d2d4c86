//! `khz budget` as a person or a script meets it.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn budget(arguments: &[&str]) -> Output {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    Command::new(env!("CARGO_BIN_EXE_khz")).arg("budget").args(arguments).current_dir(root).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_robot_has_a_prediction_a_sweep_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("budget.html");
    let page = page.to_str().unwrap();
    let output = budget(&["robots/pan_tilt.toml", "--sweep", "servo.count=1..4", "--report", page]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let output = text(&output.stdout);
    assert!(output.starts_with("pan_tilt: 2 servos") && output.contains("critical path"), "{output}");
    assert!(std::fs::read_to_string(page).unwrap().contains("Over servo.count"));

    let json = budget(&["robots/pan_tilt.toml", "--what-if", "servo.count=9", "--json"]);
    assert_eq!(json.status.code(), Some(1), "nine servos do not fit");
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["prediction"]["servos"], 9);
    assert!(json["prediction"]["headroom_ns"].as_i64().unwrap() < 0);
}

#[test]
fn published_systems_are_a_table_or_json() {
    assert!(text(&budget(&["--published"]).stdout).contains("| pi3hat, Pi 3b+ |"));
    let json: serde_json::Value = serde_json::from_slice(&budget(&["--published", "--json"]).stdout).unwrap();
    assert!(json["published"][0]["error"].as_f64().unwrap().abs() < 0.1);
}

#[test]
fn bad_input_gives_2_and_says_why() {
    let file = budget(&["crates/file/tests/malformed/id_0.toml"]);
    assert_eq!(file.status.code(), Some(2));
    assert!(file.stdout.is_empty() && text(&file.stderr).contains("id_0.toml"));
    let change = budget(&["--what-if", "bus.colour=red"]);
    assert_eq!(change.status.code(), Some(2));
    assert!(text(&change.stderr).contains("servo.count"));
}

#[test]
fn a_fit_is_shown_and_written_where_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (robot, new) = (file("robot.toml"), file("new.toml"));
    let arm = include_str!("../../../robots/arm.toml");
    std::fs::write(&robot, arm).unwrap();

    let output = budget(&[&robot, "--fit", "800", &format!("--write={new}")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("loop.rate_hz") && text(&output.stderr).contains("written"));
    let written = std::fs::read_to_string(&new).unwrap();
    assert!(written.contains("rate_hz = 800") && written.contains("# A 6-joint arm"), "{written}");
    assert_eq!(std::fs::read_to_string(&robot).unwrap(), arm);
    assert_eq!(budget(&[&new]).status.code(), Some(0));

    let again = budget(&[&robot, "--fit", "800", &format!("--write={new}")]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("is there already"));
    assert_eq!(budget(&[&robot, "--fit", "700", "--write"]).status.code(), Some(0));
    assert!(std::fs::read_to_string(&robot).unwrap().contains("rate_hz = 700"));

    let far = budget(&[&robot, "--fit", "3000", "--write"]);
    assert_eq!(far.status.code(), Some(1));
    assert!(text(&far.stdout).contains("the nearest is"), "{}", text(&far.stdout));
    assert!(std::fs::read_to_string(&robot).unwrap().contains("rate_hz = 700"));
}

#[test]
fn the_headline_and_the_line_below_agree() {
    let output = text(
        &budget(&["robots/pan_tilt.toml", "--what-if", "servo.count=3", "--what-if", "loop.rate_hz=1400"])
            .stdout,
    );
    assert!(output.contains("does not fit") && output.contains("too late"), "{output}");
    let fits = text(&budget(&["robots/pan_tilt.toml"]).stdout);
    assert!(
        fits.contains(": fits;") && !fits.contains("too late") && fits.contains("main: emulated"),
        "{fits}"
    );
}
