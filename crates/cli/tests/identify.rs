//! `khz identify`: what it refuses, and what it writes.
#![allow(clippy::unwrap_used)]

use khz_file::RobotConfig;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn identify(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_khz"))
        .args(["identify", "--joint", "tilt"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// A joint of 0.02 kg·m² that swings to its goals and back, 4 s at 200 Hz.
fn recording() -> String {
    let mut text = "t;target;angle\n".to_owned();
    let (mut angle, mut speed): (f64, f64) = (0.0, 0.0);
    for index in 0..800 {
        let time_s = f64::from(index) * 0.005;
        let goal = if time_s % 1.0 < 0.5 { 0.8 } else { -0.5 };
        let _ = writeln!(text, "{time_s};{goal};{angle:.4}");
        for _ in 0..20 {
            let torque = (3.0 * (goal - angle)).clamp(-2.0, 2.0) - 0.15 * speed - angle.sin();
            speed += torque / 0.02 * 250e-6;
            angle += speed * 250e-6;
        }
    }
    text
}

#[test]
fn what_is_no_recording_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("one.csv"), "time,goal,position\n0,0,0\n").unwrap();
    fs::write(folder.path().join("b.json"), "{}").unwrap();
    for name in ["same.csv", "same_again.csv"] {
        fs::write(folder.path().join(name), recording()).unwrap();
    }
    for (arguments, expected) in [
        (&["one.csv"][..], "one.csv: it has 1 samples; 20 are the least"),
        (&["b.json"], "b.json: it needs `mass`, a number above 0"),
        (&["none.csv"], "cannot read none.csv"),
        (
            &["same.csv", "same_again.csv", "--columns", "t,target,angle"],
            "same.csv and same_again.csv are the same recording",
        ),
        (&["one.csv", "--columns", "a,b"], "--columns needs three names"),
        (&["a.tlog"], "a log needs the robot file for its gains (--robot)"),
    ] {
        let refused = identify(folder.path(), arguments);
        let err = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && err.contains(expected), "{err}");
    }
}

#[test]
fn what_was_found_is_reported_and_written_and_the_robot_file_keeps_its_comments() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("a.csv"), recording()).unwrap();
    let robot = "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"tilt\" # of the head\nbus = \"main\"\nid = 1\n\
                 joint = { inertia = 0.01, coulomb = 0.02 }\n";
    fs::write(at("r.toml"), robot).unwrap();
    let arguments =
        ["a.csv", "--columns", "t,target,angle", "--friction", "m1", "--robot", "r.toml", "--write"];
    let more = ["--inertia", "0.015", "--gravity", "1", "--bam", "b.json", "--mjcf", "m.xml", "-o", "p.html"];
    let done = identify(folder.path(), &[&arguments[..], &more].concat());
    let out = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(out.contains("rad  fitted") && out.contains("written into r.toml"), "{out}");
    let written = fs::read_to_string(at("r.toml")).unwrap();
    assert!(written.contains("# of the head") && written.contains("armature = "), "{written}");
    let bam: serde_json::Value = serde_json::from_str(&fs::read_to_string(at("b.json")).unwrap()).unwrap();
    assert!(bam["kt"].as_f64().is_some_and(|kt| kt > 0.0) && bam["model"] == "m1", "{bam}");
    assert!(fs::read_to_string(at("m.xml")).unwrap().contains("<position joint=\"tilt\" kp="));
    assert!(fs::read_to_string(at("p.html")).unwrap().contains("simulated"));
}

/// An arm of one Feetech servo that excites its joint, with a joint and a servo of these keys.
fn arm(joint: &str, servo: &str) -> String {
    format!(
        "[loop]\nrate_hz = 500\nbus_deadline_us = 1900\n[bus.arm]\nlink = \"emulated\"\nwire = \"feetech\"\nbaud = 1_000_000\n\
         [emulation]\nsupply_v = 7.4\n[supervisor]\nvoltage_low_v = 5\n[[servo]]\nname = \"tilt\"\nfamily = \"feetech\"\nbus = \"arm\"\n\
         id = 1\nlimits = {{ position = [-1.7, 1.7], velocity = 6, torque = 1.5 }}\n\
         feetech = {{ model = \"STS3215\", unwatched = true, {servo} }}\njoint = {{ {joint} }}\n\
         [controller]\nname = \"excite\"\nsweep_s = 6\nshare = 0.8\n"
    )
}

fn khz(folder: &Path, arguments: &[&str]) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_khz")).args(arguments).current_dir(folder).output().unwrap();
    let [out, wrong] = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(done.status.success(), "{arguments:?}: {out}{wrong}");
    out
}

/// What it says of a parameter: value and uncertainty; `None` if the data do not determine it.
fn fitted(out: &str, name: &str) -> Option<[f64; 2]> {
    let line = out.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    (words[2] == "±").then(|| [words[1], words[3]].map(|word| word.parse().unwrap()))
}

#[test]
fn an_emulated_arm_is_found_as_its_file_has_it_and_written_so_that_it_moves_alike() {
    let folder = tempfile::tempdir().unwrap();
    for (number, [inertia, viscous, coulomb, gravity, goal_speed, delay_ms]) in
        [[0.0314, 0.0591, 0.0524, 0.2, 1.8, 35.0], [0.012, 0.03, 0.08, 0.4, 2.0, 12.0]]
            .into_iter()
            .enumerate()
    {
        let joint = format!(
            "inertia = {inertia}, viscous = {viscous}, coulomb = {coulomb}, gravity = {gravity}, gravity_at = 0.3"
        );
        let servo = format!("goal_speed = {goal_speed}, delay_ms = {delay_ms}");
        fs::write(folder.path().join("true.toml"), arm(&joint, &servo)).unwrap();
        let log = format!("{number}.tlog");
        khz(folder.path(), &["run", "true.toml", "--virtual", "--log", &log, "--no-report"]);
        // What it has is of no use: another joint, and what the fit does not look for.
        let other = "inertia = 0.002, armature = 0.005, coulomb = 0.2, stribeck = 0.1, load_friction = 0.3";
        let stale = arm(other, "delay_ms = 5")
            .replace("[controller]", "uncertainty = { armature = 9 }\n[controller]");
        fs::write(folder.path().join("found.toml"), stale).unwrap();
        let fit =
            ["identify", &log, "--joint", "tilt", "--robot", "found.toml", "--friction", "m1", "--write"];
        let out = khz(folder.path(), &fit);
        for (name, value) in [
            ("inertia", inertia),
            ("viscous", viscous),
            ("coulomb", coulomb),
            ("gravity", gravity),
            ("goal_speed", goal_speed),
            ("delay_ms", delay_ms),
        ] {
            let [found, uncertainty] = fitted(&out, name).unwrap_or_else(|| panic!("{name}: {out}"));
            assert!((found - value).abs() < 2.5 * uncertainty, "{name} is {value}: {out}");
            assert!(uncertainty < 0.3 * value, "{name}: {out}");
        }
        let written = fs::read_to_string(folder.path().join("found.toml")).unwrap();
        // How well it is known is written as it is printed, in place of what was known before.
        let known = RobotConfig::load(folder.path().join("found.toml")).unwrap().servos[0].uncertainty;
        for (name, by) in
            [("inertia", known.inertia), ("coulomb", known.coulomb), ("delay_ms", known.delay_ms)]
        {
            let [_, printed] = fitted(&out, name).unwrap();
            assert!((by - printed).abs() <= 0.01 * printed, "{name}: {written}");
        }
        assert_eq!(known.armature, 0.0, "{written}");
        assert!(written.contains("stribeck = 0") && written.contains("load_friction = 0"), "{written}");
        let files = ["--bam", "b.json", "--mjcf", "m.xml", "--force"];
        khz(folder.path(), &[&fit[..], &files].concat());
        let [again, bam, mjcf] = ["found.toml", "b.json", "m.xml"]
            .map(|name| fs::read_to_string(folder.path().join(name)).unwrap());
        assert_eq!(again, written);
        // They had a motor of 1 N·m/A, no inertia, and no actuator.
        let bam: serde_json::Value = serde_json::from_str(&bam).unwrap();
        for (name, value, by) in
            [("kt", 1.2116, 1e-6), ("R", 2.676, 1e-6), ("armature", inertia, 0.1 * inertia)]
        {
            assert!(bam[name].as_f64().is_some_and(|it| (it - value).abs() <= by), "{name}: {bam}");
        }
        assert!(mjcf.contains("<position joint=\"tilt\" kp=") && mjcf.contains(" kg·m² in all"), "{mjcf}");
        let alike = khz(folder.path(), &["replay", &log, "--body", "--robot", "found.toml", "--json"]);
        let alike: serde_json::Value = serde_json::from_str(&alike).unwrap();
        let rms = alike["joints"][0]["position"]["rms"].as_f64().unwrap_or_else(|| panic!("{alike}"));
        assert!(rms < 0.0015, "{alike}");
    }
}

/// The gains of the robot file given were taken for those of the recording, without a word.
#[test]
fn a_log_that_was_recorded_with_another_servo_is_refused_with_both_values() {
    let folder = tempfile::tempdir().unwrap();
    let joint = "inertia = 0.03, viscous = 0.06";
    fs::write(folder.path().join("then.toml"), arm(joint, "position_p = 32")).unwrap();
    khz(
        folder.path(),
        &["run", "then.toml", "--virtual", "--duration", "2s", "--log", "a.tlog", "--no-report"],
    );
    let now = arm(joint, "position_p = 16, goal_speed = 3").replace("id = 1", "id = 1\nsign = -1");
    fs::write(folder.path().join("now.toml"), now).unwrap();
    let refused = identify(folder.path(), &["a.tlog", "--robot", "now.toml"]);
    let err = String::from_utf8_lossy(&refused.stderr).into_owned();
    let expected = "`feetech.position_p` was 32 and is 16, `sign` was 1 and is -1. What";
    assert!(refused.status.code() == Some(2) && err.contains(expected), "{err}");
    // What is damaged is said.
    let log = fs::read(folder.path().join("a.tlog")).unwrap();
    fs::write(folder.path().join("cut.tlog"), &log[..log.len() * 3 / 4]).unwrap();
    let fit = identify(folder.path(), &["cut.tlog", "--robot", "then.toml", "--friction", "m1"]);
    let err = String::from_utf8_lossy(&fit.stderr).into_owned();
    assert!(err.contains("cut.tlog: ") && err.contains("it has no end: it is cut off"), "{err}");
}
