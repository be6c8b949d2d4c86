//! The examples do what they say.

use signal_hook::consts::SIGINT;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Cargo builds them beside the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test");
    test.parent().and_then(Path::parent).expect("a folder").join("examples").join(name)
}

fn output(name: &str) -> String {
    let ran = Command::new(example(name)).output().expect("the example is built");
    assert!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("text")
}

#[test]
fn the_smallest_program_runs_a_robot() {
    let told = output("smallest");
    assert!(told.contains("the run's time is over"), "{told}");
}

#[test]
fn a_controller_of_ones_own_drives_the_robot() {
    let told = output("own_controller");
    assert!(told.contains("held 1000 Hz of virtual time") && !told.contains("trouble"), "{told}");
}

#[test]
fn records_of_ones_own_are_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let status =
        Command::new(example("own_records")).current_dir(folder.path()).stdout(Stdio::null()).status();
    assert!(status.unwrap().success());
    let log = std::fs::File::open(folder.path().join("own_records.tlog")).unwrap();
    let log = khz_tlog::Reader::open(log).unwrap();
    let swing = log.records().iter().find(|record| record.name() == "swing").unwrap();
    let swing = khz_tlog::Type::decode(swing.schema()).unwrap();
    assert_eq!(swing.units(), [("target".to_owned(), "rad"), ("behind".to_owned(), "rad")]);
}

#[test]
fn ctrl_c_brings_the_readmes_program_down_and_leaves_log_and_report() {
    let folder = tempfile::tempdir().unwrap();
    let robots = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../robots");
    std::os::unix::fs::symlink(robots, folder.path().join("robots")).unwrap();
    let mut command = Command::new(example("ten_lines"));
    let child = command.current_dir(folder.path()).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let pid = i32::try_from(child.id()).unwrap();
    assert!(Command::new("kill").args([&format!("-{SIGINT}"), &pid.to_string()]).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success() && told.contains("stop"), "{told}");
    let files: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        files.iter().any(|name| name.ends_with(".tlog")) && files.iter().any(|name| name.ends_with(".html")),
        "{files:?}"
    );
}

#[test]
fn the_readme_shows_the_example_as_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let example = std::fs::read_to_string(root.join("crates/kilohertz/examples/ten_lines.rs")).unwrap();
    let (_, program) = example.split_once("\n\n").unwrap();
    assert!(
        readme.contains(program),
        "the program of README.md is not crates/kilohertz/examples/ten_lines.rs"
    );
}
