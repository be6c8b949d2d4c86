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
    let file = "crates/file/tests/malformed/many_at_once.toml";
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
    let err = text(&refused.stderr);
    assert!(
        err.contains("heartbeat_from") && err.contains("heartbeats cannot be received from a folder"),
        "{err}"
    );
}

fn written(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("robot.toml");
    std::fs::write(&file, text).unwrap();
    let name = file.to_str().unwrap().to_owned();
    (folder, name)
}

#[test]
fn the_commonest_first_robot_is_warned_of_before_it_misses_a_servo_in_every_tick() {
    let servo = |id| format!("[[servo]]\nname = \"m{id}\"\nbus = \"main\"\nid = {id}\n");
    let bus = "[bus.main]\nlink = \"fdcanusb\"\npath = \"/dev/fdcanusb\"\n".to_owned();
    let (_folder, file) = written(&(bus + &servo(1) + &servo(2) + &servo(3)));
    let checked = check(&[&file]);
    assert!(checked.status.success());
    let err = text(&checked.stderr);
    assert!(err.contains("does not fit 1000 Hz") && err.contains("loop.bus_deadline_us ="), "{err}");
    assert!(
        err.contains("m1, m2, m3 without `limits.position`, `limits.velocity`, `limits.torque`"),
        "{err}"
    );
    let json: serde_json::Value = serde_json::from_slice(&check(&[&file, "--json"]).stdout).unwrap();
    assert_eq!(json["budget"]["fits"], false);
    assert!(json["budget"]["cures"].as_array().unwrap().len() > 2);
    assert_eq!(json["warnings"].as_array().unwrap().len(), 2);
}

#[test]
fn shipped_robots_are_checked_without_a_warning() {
    for robot in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots")).unwrap() {
        let path = robot.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let err = text(&check(&[path.to_str().unwrap()]).stderr);
            // Not every computer has MuJoCo; tests/mujoco has it.
            let is_missing = err.contains("MuJoCo is not installed") && err.trim().lines().count() == 1;
            assert!(err.is_empty() || is_missing, "{}: {err}", path.display());
        }
    }
}

#[test]
fn family_model_gains_and_clock_are_shown() {
    let table = text(&check(&["robots/openarm_like.toml"]).stdout);
    assert!(table.contains("real clock") && table.contains("damiao 8009"), "{table}");
    let elbow = table.lines().find(|line| line.contains("elbow")).unwrap();
    assert!(elbow.ends_with("80   2"), "{elbow}");
}

#[test]
fn the_longest_stall_that_does_not_end_a_run_follows_from_the_shortest_watchdog() {
    let bus = "[loop]\nrate_hz = 1000\n[bus.main]\nlink = \"emulated\"\n[servo_defaults]\nbus = \"main\"\n";
    let servos = "[[servo]]\nname = \"hip\"\nid = 1\nwatchdog_s = 0.5\n[[servo]]\nname = \"knee\"\nid = 2\nwatchdog_s = 0.15\n";
    for (more, stall_s) in [("", 0.148), ("heartbeat_ms = 80\nheartbeat_from = \"stdin\"\n", 0.078)] {
        let (_folder, file) = written(&format!("{bus}{servos}[supervisor]\n{more}"));
        let json: serde_json::Value = serde_json::from_slice(&check(&["--json", &file]).stdout).unwrap();
        let message = json["bearable_stall_s"].as_f64().unwrap();
        assert!((message - stall_s).abs() < 1e-9, "{message}");
        let table = text(&check(&[&file]).stdout);
        let line = format!("held up for less than {:.0} ms goes on", stall_s * 1e3);
        assert!(table.contains(&line), "{table}");
    }
    // Without a watchdog it is a second.
    let unwatched = "[servo_defaults.command]\nwatchdog = \"none\"\n[[servo]]\nname = \"hip\"\nid = 1\n";
    let (_folder, file) = written(&format!("{bus}{unwatched}"));
    assert!(text(&check(&[&file]).stdout).contains("held up for less than 998 ms goes on"));
}

#[test]
fn a_robot_that_recovers_from_stalls_says_so_or_why_it_does_not() {
    let bus =
        "[bus.main]\nlink = \"emulated\"\n[servo_defaults]\nbus = \"main\"\nlimits.position = [-1.0, 1.0]\n";
    let damiao = "family = \"damiao\"\ndamiao = { model = \"4310\", kp = 20, kd = 1 }\n";
    let file = |of_servo: &str, reactions: &str| {
        let servo = "[[servo]]\nname = \"hip\"\nid = 1\n";
        let all = format!("{bus}{of_servo}\n{servo}[supervisor]\nrecover = \"on\"\n{reactions}");
        let (_folder, file) = written(&all);
        let output = check(&[&file]);
        text(&output.stdout) + &text(&output.stderr)
    };
    let velocity = "limits.velocity = 2.0\n";
    let able = format!("{velocity}{damiao}");
    let message = file(&able, "");
    assert!(
        message.contains("held up for less than 98 ms goes on; for up to 300 ms, it recovers"),
        "{message}"
    );
    assert!(!message.contains("`recover` does nothing"), "{message}");
    // One without a limit of its velocity; a moteus, which damps by itself; and one that is not to come down anyway.
    for (of_servo, reactions) in [
        (damiao, ""),
        (velocity, ""),
        (&*able, "[supervisor.reactions]\nservo_fault = \"warn\"\n"),
        (&*able, "[supervisor.reactions]\nservo_fault = \"derate\"\n"),
        (&*able, "[supervisor.reactions]\nservo_fault = \"stop\"\n"),
    ] {
        let message = file(of_servo, reactions);
        assert!(
            message.contains("`recover` does nothing") && !message.contains("it recovers if"),
            "{of_servo}{reactions}: {message}"
        );
    }
}

#[test]
fn the_example_of_limits_has_a_torque_only_for_servos_that_take_one() {
    let bus = "[bus.main]\nlink = \"emulated\"\n[servo_defaults]\nbus = \"main\"\n";
    for (family, has_torque) in [("", true), ("family = \"robstride\"\nrobstride.model = \"RS02\"\n", false)]
    {
        let (_folder, file) = written(&format!("{bus}{family}[[servo]]\nname = \"hip\"\nid = 1\n"));
        let err = text(&check(&[&file]).stderr);
        assert!(err.contains("for example `limits = { position"), "{err}");
        assert_eq!(err.contains("torque = 2.0"), has_torque, "{err}");
    }
}

#[test]
fn a_controller_whose_positions_a_mode_does_not_take_is_warned_of() {
    let bus = "[bus.main]\nlink = \"emulated\"\nwire = \"dynamixel\"\n[emulation]\nsupply_v = 5\n[supervisor]\nvoltage_low_v = 4\n\
               [servo_defaults]\nbus = \"main\"\nfamily = \"dynamixel\"\ndynamixel = { model = \"XL330-M288\", torque_constant = 0.35, motor_resistance = 3.4, mode = \"MODE\" }\n\
               [[servo]]\nname = \"hip\"\nid = 1\n";
    let warning = "`hold` commands positions, of which hip takes none (`dynamixel.mode`): the robot comes down at its first command";
    for mode in ["velocity", "current", "pwm", "position", "extended_position", "current_position"] {
        let (_folder, file) = written(&bus.replace("MODE", mode));
        let output = check(&[&file]);
        let err = text(&output.stderr);
        assert_eq!(err.contains(warning), !mode.contains("position"), "{mode}: {err}");
    }
    let moteus = "[bus.main]\nlink = \"emulated\"\n[[servo]]\nbus = \"main\"\nname = \"hip\"\nid = 1\n\
                  command.position = \"none\"\n";
    let (_folder, file) = written(moteus);
    let err = text(&check(&[&file]).stderr);
    assert!(err.contains("(`command.position`)"), "{err}");
    // The leaders of a pair follow no commands.
    let pair = include_str!("../../../robots/koch_pair.toml");
    let (_folder, file) = written(pair);
    assert!(!text(&check(&[&file]).stderr).contains("commands positions"));
}

#[test]
fn a_setting_that_gives_a_promise_up_is_warned_of_by_what_it_does() {
    let pan_tilt = include_str!("../../../robots/pan_tilt.toml");
    let given_up = "[supervisor]\noverruns = 100000\nposition_tolerance = 1.0\nstill_velocity = 10\n";
    let (_folder, file) = written(&format!("{pan_tilt}\n{given_up}"));
    let err = text(&check(&[&file]).stderr);
    for what in [
        "`supervisor.overruns`: a loop that is late in every tick does not bring the robot down within 1.4 s; 0.070 s is promised",
        "`supervisor.position_tolerance`: a joint found at",
        "`supervisor.still_velocity`: outputs are switched off 0.30 s after the robot is to come down, while joints move at 0.5 rad/s",
    ] {
        assert!(err.contains(what), "{err}");
    }
}
