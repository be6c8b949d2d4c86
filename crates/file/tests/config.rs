//! Robot files: the shipped ones read well, and each malformed one gets the message it deserves.
//!
//! `tests/malformed/NAME.toml` is a file with a mistake, `NAME.txt` the message about it. After a deliberate
//! change of messages run `UPDATE=1 cargo test -p khz-file --test config` and review the difference.

#![allow(clippy::unwrap_used)]

use khz_file::RobotConfig;
use std::path::{Path, PathBuf};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|ext| ext == "toml")).collect();
    files.sort();
    files
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn shipped_robots_are_right_and_without_warnings() {
    let files = files("../../robots");
    assert!(files.len() >= 3);
    for file in files {
        let robot = RobotConfig::load(&file).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(robot.warnings, [""; 0], "{}", name(&file));
        // The lab plays the devices of this one; a person who runs it by hand has to start them.
        assert!(robot.is_emulated() || name(&file) == "ethernet.toml");
    }
}

#[test]
fn thresholds_at_the_edge_of_sense_are_not_warned_of() {
    let text = "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"pan\"\nbus = \"main\"\nid = 1\nwatchdog_s = 0.25\n\
                limits = { position = [-1.0, 1.0], velocity = 2.0, torque = 5.0 }\n[supervisor]\nposition_tolerance = 2.0\n\
                velocity_factor = 3.0\ntorque_control_hz = 100.0\ngrace_s = 5.0\nstale_ms = 250.0\ndamping_s = 0.25\n\
                reactions.tilt = \"derate\"";
    assert_eq!(RobotConfig::parse(text, "edge").unwrap().warnings, [""; 0]);
}

#[test]
fn a_power_cut_of_wheels_drops_nothing() {
    let warnings = |limits: &str| {
        let text = format!(
            "[bus.main]\nlink = \"emulated\"\n[[servo]]\nname = \"wheel\"\nbus = \"main\"\nid = 1\nlimits = {{ {limits} }}\n\
             [supervisor.reactions]\ntilt = \"stop\""
        );
        RobotConfig::parse(&text, "wheel").unwrap().warnings.len()
    };
    assert_eq!([warnings("velocity = 9.0"), warnings("velocity = 9.0, position = [-1.0, 1.0]")], [0, 1]);
}

#[test]
fn a_bus_that_paces_the_loop_is_used() {
    let text = "[loop]\npace_bus = \"sensor\"\npace_id = 5\n[bus.main]\nlink = \"emulated\"\n[bus.sensor]\nlink = \"emulated\"\n\
                [[servo]]\nname = \"pan\"\nbus = \"main\"\nid = 1\n";
    assert_eq!(RobotConfig::parse(text, "paced").unwrap().warnings, [""; 0]);
}

#[test]
fn every_malformed_file_gets_its_message() {
    let files = files("tests/malformed");
    assert!(files.len() >= 30, "only {} malformed files", files.len());
    let mut differing = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let shown = match RobotConfig::parse(&text, &name(&file)) {
            Err(error) => error.to_string(),
            Ok(robot) => robot.warnings.join("\n\n"),
        };
        assert!(!shown.is_empty(), "{} is accepted without a word", name(&file));
        let golden = file.with_extension("txt");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&golden, shown + "\n").unwrap();
        } else if std::fs::read_to_string(&golden).unwrap_or_default() != shown.clone() + "\n" {
            differing.push(format!("{}:\n{shown}", name(&file)));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n\n"));
}

#[test]
fn every_error_has_a_place_a_key_and_help() {
    for file in files("tests/malformed") {
        let text = std::fs::read_to_string(&file).unwrap();
        let Err(error) = RobotConfig::parse(&text, &name(&file)) else { continue };
        for problem in &error.problems {
            assert!(problem.line > 0 && problem.column > 0, "{}: {problem:?}", name(&file));
            assert!(!problem.help.is_empty(), "{}: {problem:?}", name(&file));
        }
    }
}

#[test]
fn a_file_cut_anywhere_or_flipped_never_panics() {
    let text = khz_file::config::QUADRUPED;
    for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
        let _ = RobotConfig::parse(&text[..end], "cut.toml");
    }
    for at in (0..text.len()).step_by(7) {
        let mut bytes = text.as_bytes().to_vec();
        bytes[at] ^= 1 << (at % 7);
        let _ = RobotConfig::parse(&String::from_utf8_lossy(&bytes), "flipped.toml");
    }
}

#[test]
fn more_links_than_a_cycle_has_bits_for_are_refused() {
    let robot = |buses: usize| {
        let bus = |n| {
            format!(
                "[bus.b{n}]\nlink = \"socketcan\"\ninterface = \"can{n}\"\n\
                 [[servo]]\nname = \"s{n}\"\nbus = \"b{n}\"\nid = 1\n"
            )
        };
        RobotConfig::parse(&(0..buses).map(bus).collect::<String>(), "many.toml")
    };
    assert_eq!(robot(62).map(|robot| robot.buses.len()).ok(), Some(62));
    let error = robot(70).unwrap_err().to_string();
    assert!(error.contains("70 buses with their own link") && error.contains("bus.b62"), "{error}");
}

#[test]
fn a_file_that_is_not_there_says_so() {
    let error = RobotConfig::load("no/such/robot.toml").unwrap_err().to_string();
    assert!(error.contains("cannot read `no/such/robot.toml`"), "{error}");
    // Of a serial port nothing may come for ever.
    let device = khz_file::config::read_text(std::path::Path::new("/dev/null")).unwrap_err().to_string();
    assert!(device.contains("it is a device, not a robot file"), "{device}");
}

#[test]
fn the_page_lists_every_key() {
    const HEADING: &str = "\n## Every key\n";
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (prose, keys) = text.split_at(text.find(HEADING).unwrap());
    let (intro, listed) = keys.split_at(keys.find("\n### ").unwrap_or(keys.len()));
    let reference = format!("\n{}", khz_file::config::reference());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&page, format!("{prose}{}\n{reference}", intro.trim_end())).unwrap();
    } else {
        assert_eq!(listed, reference, "run `UPDATE=1 cargo test -p khz-file --test config`");
    }
}

#[test]
fn the_examples_of_the_page_are_right() {
    let page = include_str!("../../../docs/configuration.md");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    RobotConfig::parse(example, "example").unwrap_or_else(|error| panic!("{error}"));
}
