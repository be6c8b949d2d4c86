//! The examples do what they promise.

use signal_hook::consts::SIGINT;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

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

/// What an example prints that runs a robot in real time with limits as on a real one: where the machine stands still it comes down, and
/// the example ends with that error.
fn in_real_time(name: &str) -> String {
    let ran = Command::new(example(name)).output().expect("the example is built");
    let [message, complained] = [ran.stdout, ran.stderr].map(|text| String::from_utf8(text).expect("text"));
    // What such a machine does to a run, and nothing else.
    let stood =
        ["overruns in a row", "held up for", "no reply in time", "ms old", "watchdog expired", "finished"];
    let is_reported = match complained.split_once("did not end as planned: ") {
        Some((_, why)) if !ran.status.success() => stood.iter().any(|word| why.contains(word)),
        _ => ran.status.success() && message.contains("finished"),
    };
    assert!(is_reported, "{name}: {message}{complained}");
    message
}

#[test]
fn the_smallest_program_runs_a_robot() {
    let message = in_real_time("smallest");
    assert!(message.contains("robot: "), "{message}");
}

#[test]
fn a_controller_of_ones_own_drives_the_robot() {
    let message = output("own_controller");
    assert!(message.contains("Held 1000 Hz of virtual time") && !message.contains("trouble"), "{message}");
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
fn a_robot_needs_no_file() {
    let message = in_real_time("without_a_file");
    assert!(message.contains("head"), "{message}");
}

#[test]
fn one_servo_is_moved_by_hand() {
    let message = output("one_servo");
    assert!(
        message.starts_with("id 1 has firmware ") && message.ends_with("at 0.3 rad, 24 V\n"),
        "{message}"
    );
}

/// Puts one of our robot files into a folder: one that nothing brings down but Ctrl-C, however busy this machine is.
fn put_lenient(name: &str, into: &Path) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../robots").join(name);
    let strict = std::fs::read_to_string(file).expect("a robot file");
    // An int8 has room for 1.27 s.
    let text = strict.replace("[servo_defaults]\n", "[servo_defaults]\nwatchdog_s = 30.0\n");
    let text = text.replace("watchdog = \"int8\"", "watchdog = \"int16\"");
    assert!(text != strict && !text.contains("[supervisor]"), "{text}");
    let lenient = "answer_s = 60\noverruns = 100000\nmissed_replies = 100000\nstale_ms = 100000\ncontroller_slow = 100000\n";
    std::fs::write(into, format!("{text}\n[supervisor]\n{lenient}")).expect("a file");
}

/// A folder with the robot files of the examples, in which they run.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let robots = folder.path().join("robots");
    std::fs::create_dir(&robots).expect("a folder");
    put_lenient("pan_tilt.toml", &robots.join("pan_tilt.toml"));
    folder
}

/// Waits until the loop of a program runs.
fn wait_for_its_loop(child: &mut Child) {
    let begun = Instant::now();
    let is_loop = |thread: std::fs::DirEntry| {
        std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.trim() == "khz-loop")
    };
    loop {
        let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).expect("threads");
        if threads.flatten().any(is_loop) {
            return;
        }
        assert_eq!(child.try_wait().expect("a process"), None, "it ended before its loop began");
        assert!(begun.elapsed() < Duration::from_secs(120), "its loop never began");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the robot of a log that is still written has been under control.
fn was_active(log: &Path) -> bool {
    let Some(mut log) = std::fs::File::open(log).ok().and_then(|file| khz_tlog::Reader::open(file).ok())
    else {
        return false;
    };
    log.select(["event"]);
    while let Ok(Some(item)) = log.next() {
        if item.value().is_ok_and(|event| event.at("to") == Some(khz_tlog::Value::String("active"))) {
            return true;
        }
    }
    false
}

/// The output of an example that gets Ctrl-C once the robot of its log is under control; without one, some seconds after its loop began.
fn interrupted(name: &str, folder: &Path, log: Option<&str>) -> Output {
    let mut command = Command::new(example(name));
    command.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the example is built");
    wait_for_its_loop(&mut child);
    let begun = Instant::now();
    let enough = |log| was_active(&folder.join(log)) || begun.elapsed() > Duration::from_secs(120);
    while !log.map_or(begun.elapsed() > Duration::from_secs(4), enough) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let kill = Command::new("kill").args([&format!("-{SIGINT}"), &child.id().to_string()]).status();
    assert!(kill.expect("kill").success());
    child.wait_with_output().expect("an end")
}

#[test]
fn ctrl_c_brings_the_readmes_program_down_and_leaves_log_and_report() {
    let folder = folder();
    let ended = interrupted("ten_lines", folder.path(), Some("pan_tilt.tlog"));
    let message = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success() && message.contains("stop"), "{message}");
    for name in ["pan_tilt.tlog", "pan_tilt.html"] {
        assert!(folder.path().join(name).exists(), "no {name}");
    }
}

#[test]
fn the_controller_of_a_new_project_drives_any_robot() {
    let folder = tempfile::tempdir().unwrap();
    put_lenient("leg3.toml", &folder.path().join("robot.toml"));
    let ended = interrupted("new_project", folder.path(), Some("leg3.tlog"));
    let complained = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success() && folder.path().join("leg3.tlog").exists(), "{complained}");
}

#[test]
fn ctrl_c_in_one_run_of_a_program_starts_no_next_one() {
    let folder = folder();
    let ended = interrupted("trials", folder.path(), None);
    let [message, complained] = [ended.stdout, ended.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(!ended.status.success() && complained.contains("asked to stop"), "{complained}");
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
