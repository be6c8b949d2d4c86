//! `khz run` as a user calls it.
#![allow(clippy::unwrap_used)]

mod common;

use common::{PAN_TILT, khz, stderr, stdout};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", stdout(output), stderr(output)))
}

#[test]
fn json_has_every_promised_key_and_the_files_are_there() {
    let folder = tempfile::tempdir().unwrap();
    // How the run ends depends on how busy this machine is; what it reports does not.
    let run = json(&khz(folder.path(), &["run", "--duration", "300ms", "--json"]));
    for key in ["ticks", "missed_replies", "late_replies", "overruns", "skipped", "late_wakes"] {
        assert!(run[key].is_u64(), "{key}: {}", run[key]);
    }
    assert!(run["ticks"].as_u64().unwrap() > 0 && run["rate_hz"].is_f64());
    for key in ["wake_latency_ns", "start_delay_ns", "period_ns", "cycle_ns", "loop_compute_ns", "cpu_ns"] {
        for figure in ["p50", "p90", "p99", "p999", "max"] {
            assert!(run[key][figure].is_i64(), "{key}.{figure}");
        }
    }
    let names: Vec<_> =
        run["parts"].as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap()).collect();
    let parts = ["wake", "previous tick", "encode", "send", "bus", "imu", "control", "supervise", "record"];
    assert_eq!(names, parts);
    let bus = &run["parts"][4];
    assert!(bus["time_ns"]["p50"].is_i64() && bus["predicted_ns"].as_i64().unwrap() > 100_000, "{bus}");
    assert_eq!(run["late"]["threshold_ns"], 100_000);
    let verdict = &run["verdict"];
    assert_eq!((&run["format"], &run["version"]), (&"khz-run".into(), &1.into()));
    let held = run["controlled"]["lost_periods"] == 0 && run["ended_well"] == true;
    assert_eq!(verdict["held"], held, "{verdict}");
    assert_eq!(verdict["headline"].as_str().unwrap().starts_with("held 1000 Hz"), held, "{verdict}");
    for key in ["controlled", "outside"] {
        let ticks = |name: &str| run[key][name].as_u64().unwrap();
        assert_eq!(ticks("periods"), ticks("ticks") + ticks("lost_periods"));
    }
    assert!(run["late"]["causes"]["late"].is_u64() && run["late"]["worst"].is_array());
    assert!(["ordinary", "degraded", "real-time"].contains(&run["grade"].as_str().unwrap()));
    for key in ["log", "report"] {
        let file = folder.path().join(run[key].as_str().unwrap());
        assert!(file.metadata().unwrap().len() > 1000, "{}", file.display());
    }
}

#[test]
fn a_robot_file_runs_and_an_existing_log_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("robot.toml"), PAN_TILT).unwrap();
    std::fs::write(folder.path().join("run.tlog"), "another file").unwrap();
    // Whether a robot comes under control within 0.2 s of a busy machine is another question.
    let output =
        khz(folder.path(), &["run", "robot.toml", "--virtual", "--duration", "200ms", "--no-report"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    assert!(text.contains("\npan_tilt: ") && text.contains("finished"), "{text}");
    assert_eq!(std::fs::read_to_string(folder.path().join("run.tlog")).unwrap(), "another file");
    assert!(!text.contains("report "), "{text}");
}

#[test]
fn the_measured_tick_stands_beside_its_prediction() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("robot.toml"), PAN_TILT).unwrap();
    let words = ["run", "robot.toml", "--duration", "200ms"];
    // The row, not the words: the verdict of a run on a busy machine has them too.
    let plain = String::from_utf8(khz(folder.path(), &words).stdout).unwrap();
    assert!(!plain.contains("\nlate ticks") && !plain.contains("predicted"), "{plain}");
    let all = String::from_utf8(khz(folder.path(), &[&words[..], &["-v"]].concat()).stdout).unwrap();
    assert!(all.contains("\nlate ticks") && !all.contains("predicted"), "{all}");
    let beside = String::from_utf8(khz(folder.path(), &[&words[..], &["--budget"]].concat()).stdout).unwrap();
    let (_, budget) = beside.split_once("predicted").unwrap();
    for part in ["encode", "send", "bus", "imu", "control", "supervise", "record"] {
        assert!(budget.contains(&format!("\n{part} ")), "{part}: {beside}");
    }
    let pages = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path());
    let page = pages.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "html")).unwrap();
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("p50 against prediction") && page.contains("Late ticks"));
}

/// The verdict stood above 33 lines, some of them about parts that the robot does not have.
#[test]
fn a_run_ends_with_the_verdict_and_at_most_six_lines() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("robot.toml"), PAN_TILT).unwrap();
    let run = |more: &[&str]| {
        let words = ["run", "robot.toml", "--virtual", "--duration", "300ms"];
        stdout(&khz(folder.path(), &[&words[..], more].concat()))
    };
    let message = run(&[]);
    let lines: Vec<&str> = message.lines().collect();
    assert!(lines.len() <= 6 && lines[0] == "Held 1000 Hz of virtual time.", "{message}");
    assert!(lines[1].starts_with("pan_tilt: ") && lines[1].ends_with(" ticks, finished"), "{message}");
    assert!(lines[2].starts_with("1000.00 Hz  lost 0  missed 0  worst cycle "), "{message}");
    assert!(lines[3].starts_with("log ") && lines[4].starts_with("report ") && lines.len() == 5, "{message}");
    for absent in ["IMU", "early", "dropped", "overruns"] {
        assert!(!message.contains(absent), "{absent}: {message}");
    }
    let all = run(&["-v"]);
    assert!(
        all.starts_with("Held 1000 Hz of virtual time.\n")
            && all.contains("\nlost periods ")
            && all.contains("\nperiod "),
        "{all}"
    );
}

/// A refused attempt left an empty log, and the next run another name.
#[test]
fn a_run_that_is_refused_leaves_no_log() {
    let folder = tempfile::tempdir().unwrap();
    let robot = format!("{PAN_TILT}\n[watchdog]\ndevice = \"/no/such/watchdog\"\n");
    std::fs::write(folder.path().join("robot.toml"), robot).unwrap();
    let output = khz(folder.path(), &["run", "robot.toml", "--duration", "1s"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("/no/such/watchdog"), "{}", stderr(&output));
    let left: Vec<_> = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["robot.toml"]);
}

#[test]
fn the_report_is_opened_when_the_run_is_over() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("robot.toml"), PAN_TILT).unwrap();
    let browser = folder.path().join("xdg-open");
    // Whole or not there: the test looks while it is written.
    std::fs::write(&browser, "#!/bin/sh\necho \"$1\" > opened.part && mv opened.part opened\n").unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = |more: &[&str]| {
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let mut khz = Command::new(env!("CARGO_BIN_EXE_khz"));
        khz.args(["run", "robot.toml", "--virtual", "--duration", "100ms", "--open"]).args(more);
        khz.current_dir(folder.path()).env("PATH", path).output().unwrap()
    };
    assert_eq!(run(&[]).status.code(), Some(0));
    let opened = folder.path().join("opened");
    for _ in 0..6_000 {
        if opened.exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(std::fs::read_to_string(&opened).unwrap(), "run.html\n");
    let refused = run(&["--no-report"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--open opens the report"), "{}", stderr(&refused));
}

#[test]
fn a_bus_that_dies_mid_run_is_reported_in_summary_and_log() {
    let folder = tempfile::tempdir().unwrap();
    let dying = format!("{PAN_TILT}\n[bus.main.faults]\nevents = [{{ at_s = 0.7, kind = \"bus_off\" }}]");
    std::fs::write(folder.path().join("robot.toml"), dying).unwrap();
    let output = khz(folder.path(), &["run", "robot.toml", "--virtual", "--duration", "20s", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let run = json(&output);
    assert_eq!(run["ended_well"], false);
    let down = |event: &&Value| event["trouble"] == true && event["to"] == "damping";
    let trouble = run["events"].as_array().unwrap().iter().find(down).unwrap();

    let log = std::fs::File::open(folder.path().join("run.tlog")).unwrap();
    let mut reader = khz_tlog::Reader::open(log).unwrap();
    reader.select(["event"]);
    let mut causes = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        if let Some(khz_tlog::Value::String(cause)) = item.value().unwrap().at("cause") {
            causes.push(cause.to_owned());
        }
    }
    assert!(causes.iter().any(|cause| trouble["cause"] == cause.as_str()), "{causes:?}");
}

#[test]
fn a_log_that_could_not_be_written_is_reported_in_table_and_figures() {
    let folder = tempfile::tempdir().unwrap();
    // No file may be longer than 100 blocks: a disk that fails in the middle of the log.
    let run = |words: &str| {
        let khz = env!("CARGO_BIN_EXE_khz");
        let line = format!(
            "trap '' XFSZ; ulimit -f 100; exec {khz} run --virtual --duration 3s --no-report {words}"
        );
        Command::new("sh").args(["-c", &line]).current_dir(folder.path()).output().unwrap()
    };
    let figures = json(&run("--json"));
    let error = figures["log_error"].as_str().unwrap();
    assert!(error.contains("writing run.tlog failed"), "{error}");
    assert!(figures["log_dropped"].as_u64().unwrap() > 0);
    let table = run("").stdout;
    let table = String::from_utf8_lossy(&table);
    assert!(table.contains("writing run-1.tlog failed") && table.contains(" dropped)"), "{table}");
}

#[test]
fn bad_input_ends_with_2_and_says_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("robot.toml"), PAN_TILT.replace("id = 2", "id = 1")).unwrap();
    let output = khz(folder.path(), &["run", "robot.toml"]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("robot.toml:") && text.contains("id"), "{text}");

    let missing = khz(folder.path(), &["run", "no_such.toml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("no_such.toml"));
}

#[test]
fn a_log_asked_for_is_written_although_the_robot_file_wants_none() {
    let folder = tempfile::tempdir().unwrap();
    let silent = format!("{PAN_TILT}\n[log]\nenabled = false");
    std::fs::write(folder.path().join("robot.toml"), silent).unwrap();
    let run = ["run", "robot.toml", "--duration", "100ms", "--no-report", "--json"];
    assert_eq!(json(&khz(folder.path(), &run))["log"], Value::Null);
    for (words, log) in [(["--log", "mine.tlog"], "mine.tlog"), (["--stream", "127.0.0.1:9"], "run.tlog")] {
        let message = json(&khz(folder.path(), &[&run[..], &words].concat()));
        assert_eq!(message["log"], log, "{message}");
        assert!(folder.path().join(log).exists());
    }
}

#[test]
fn a_robot_file_from_a_pipe_is_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("robot.toml"), PAN_TILT).unwrap();
    let mut khz = Command::new(env!("CARGO_BIN_EXE_khz"));
    khz.args(["run", "/dev/stdin", "--duration", "100ms", "--no-report"]).current_dir(folder.path());
    let mut cat = Command::new("cat");
    cat.arg("robot.toml").current_dir(folder.path()).stdout(std::process::Stdio::piped());
    let mut cat = cat.spawn().unwrap();
    let output = khz.stdin(cat.stdout.take().unwrap()).output().unwrap();
    assert!(cat.wait().unwrap().success() && output.status.code() != Some(2), "{output:?}");
    let log = std::fs::File::open(folder.path().join("run.tlog")).unwrap();
    let mut reader = khz_tlog::Reader::open(log).unwrap();
    reader.select(["robot"]);
    let item = reader.next().unwrap().unwrap();
    assert_eq!(item.value().unwrap().at("file"), Some(khz_tlog::Value::String(PAN_TILT)));
}

/// What `khz check` lets through, the recorder does, too.
#[test]
fn every_record_of_a_run_can_be_compressed_by_zstd() {
    let folder = tempfile::tempdir().unwrap();
    for (file, robot) in [("plain.toml", PAN_TILT.to_owned()), ("imu.toml", format!("{PAN_TILT}{IMU}"))] {
        let imu = if file == "imu.toml" { "\"imu\", " } else { "" };
        let rest = "\"event\", \"parameter\", \"teleop\", \"robot\", \"parameters\"";
        let all = format!("[log]\nzstd = [\"tick\", \"servo\", \"command\", {imu}{rest}]");
        std::fs::write(folder.path().join(file), format!("{robot}\n{all}")).unwrap();
        let words = ["run", file, "--duration", "100ms", "--no-report", "--json"];
        let run = json(&khz(folder.path(), &words));
        let log = std::fs::File::open(folder.path().join(run["log"].as_str().unwrap())).unwrap();
        let reader = khz_tlog::Reader::open(log).unwrap();
        let others: Vec<_> = reader.records().iter().filter(|r| !r.is_zstd()).map(|r| r.name()).collect();
        assert_eq!(others, ["recorder"], "{file}");
    }
}

const IMU: &str = "[imu]\nlink = \"emulated\"\n";

#[test]
fn a_robot_that_never_came_under_control_is_a_failure_that_names_what_was_lacking() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["run", "robot.toml", "--duration", "1s", "--no-report", "--json"];
    let ends = |text: String| {
        std::fs::write(folder.path().join("robot.toml"), text).unwrap();
        let output = khz(folder.path(), &words);
        assert_eq!(output.status.code(), Some(1));
        let run = json(&output);
        assert_eq!(run["ended_well"], false);
        run["end"].as_str().unwrap().to_owned()
    };
    let dead = "[bus.main.faults]\nevents = [{ at_s = 0.0, kind = \"bus_off\" }]";
    let silent = PAN_TILT.replace("[supervisor]", &format!("{dead}\n[supervisor]"));
    let end = ends(silent);
    assert_eq!(end, "finished before it was under control: no reply during start-up (pan, tilt on bus main)");
    // Slow, so that a reply is late only where the machine stands still for most of a period.
    let pan_tilt = format!("[loop]\nrate_hz = 20\n{PAN_TILT}");
    let heartbeat = "[supervisor]\nheartbeat_ms = 1000\nheartbeat_from = \"udp:127.0.0.1:0\"";
    let end = ends(pan_tilt.replace("[supervisor]", heartbeat));
    assert_eq!(end, "finished before it was under control: no heartbeat from the operator yet");
}

#[test]
fn what_cannot_run_leaves_no_log() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("robot.toml"), common::PAN).unwrap();
    for (words, message) in [
        (["--cpu", "4096"], "CPU 4096 is not online"),
        (["--log", "other.toml"], "log.path is other.toml, the name of a robot file"),
    ] {
        let output = khz(folder.path(), &[&["run", "robot.toml", "--duration", "50ms"], &words[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "{words:?}");
    }
}

#[test]
fn a_campaign_of_no_scenario_is_refused() {
    let output = khz(Path::new("."), &["drill", "campaign", "--scenarios", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--scenarios"), "{}", stderr(&output));
}

#[test]
fn parameters_are_saved_as_a_table_or_into_the_robot_file() {
    let folder = tempfile::tempdir().unwrap();
    let robot = folder.path().join("robot.toml");
    let text = format!("{PAN_TILT}\n[parameters]\nkp_scale = 0.5 # found on Monday\n");
    std::fs::write(&robot, &text).unwrap();
    let with = |more: &[&str]| {
        let words = ["run", "robot.toml", "--virtual", "--duration", "200ms", "--no-report"];
        let output = khz(folder.path(), &[&words[..], more].concat());
        (output.status.code(), stderr(&output))
    };
    let run = |file: &str| with(&["--save-parameters", file]);
    let (code, message) = run("found.toml");
    assert!(code == Some(0) && message.contains("the parameters are in found.toml"), "{message}");
    let found = std::fs::read_to_string(folder.path().join("found.toml")).unwrap();
    assert!(found.starts_with("[parameters]\n") && found.contains("\nkp_scale = 0.5 # 0 to 1"), "{found}");
    // Nothing was changed, so neither is the robot file.
    assert_eq!(run("robot.toml").0, Some(0));
    assert_eq!(std::fs::read_to_string(&robot).unwrap(), text);
    let (code, message) = run("found.toml");
    assert!(code != Some(0) && message.contains("--force overwrites it"), "it is there: {message}");
    // It was advised, and refused without --report.
    assert_eq!(with(&["--save-parameters", "found.toml", "--force"]).0, Some(0));
}
