//! `khz jitter`, `khz compare` and `khz doctor` from the command line.

use std::path::Path;
use std::process::{Command, Output};

#[expect(clippy::unwrap_used, reason = "a test")]
fn khz(words: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_khz")).args(words).current_dir(folder).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn impossible_requests_exit_2_and_say_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    for (words, word) in [
        (&["--period", "0s"][..], "10us to 10s"),
        (&["--period", "1"], "unit of time"),
        (&["--ticks", "0"], "more ticks"),
        (&["--priority", "100"], "1 to 98"),
        (&["--cpu", "4000"], "not online"),
        (&["--load", "gpu=1"], "cpu=4"),
        (&["--load", "stress-ng --no-such-thing", "--ticks", "10"], "stress-ng"),
        (&["--work", "busy=5ms"], "do not fit"),
        (&["--wake", "busy"], "hybrid"),
        (&["--policy", "rt"], "fifo"),
        (&["--clock", "tai"], "monotonic"),
        (&["--overrun", "catch-up"], "run_late_once"),
        (&["--matrix", "cpu=1"], "policy, wake, load"),
        (&["--rounds", "0"], "1..="),
        (&["--csv", "raw.csv", "--ticks", "20000000"], "at most 4000000"),
    ] {
        let output = khz(&[&["jitter"], words].concat(), folder.path());
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(word), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn a_measurement_that_stopped_itself_exits_1_and_says_how_much_of_it_ran() {
    let folder = tempfile::tempdir().unwrap();
    // More work than the period has left over, so that sooner or later a tick overruns.
    let words =
        ["jitter", "--policy", "other", "--overrun", "stop", "--period", "100us", "--work", "busy=99999ns"];
    let output = khz(&[&words[..], &["--ticks", "100000"]].concat(), folder.path());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("stopped on an overrun after") && text.contains("of 100,000 ticks"), "{text}");
    assert!(!text.contains("held 10000 Hz"), "{text}");
}

#[test]
fn a_matrix_is_measured_saved_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["jitter", "--matrix", "policy=other|fifo;load=none|cpu=1", "--ticks", "4", "--rounds", "2"];
    let files = ["--save", "a.json", "--csv", "raw.csv", "--hgrm", "wake.hgrm", "--html", "a.html"];
    let output = khz(&[&words[..], &files].concat(), folder.path());
    // Whether FIFO is granted depends on who runs the test.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("ordinary, hybrid, cpu=1") && text.contains("fifo 80, hybrid, idle"), "{text}");
    let raw = std::fs::read_to_string(folder.path().join("raw-4.csv")).unwrap();
    assert_eq!(raw.lines().count(), 1 + 4);
    assert!(folder.path().join("wake-1.hgrm").exists());

    let output = khz(&["compare", "a.json", "a.json", "-o", "both.html"], folder.path());
    assert!(output.status.success(), "{}", stderr(&output));
    let page = std::fs::read_to_string(folder.path().join("both.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("8 runs side by side"));
}

#[test]
fn results_that_cannot_be_used_exit_2_and_say_why() {
    let folder = tempfile::tempdir().unwrap();
    for (text, word) in [
        ("{\"format\":\"khz-jitter\",\"version\":1,\"ru", "cut off after"),
        ("{\"format\":\"khz-jitter\",\"version\":0,\"runs\":[]}", "version 0"),
        ("{\"format\":\"khz-jitter\",\"version\":1,\"runs\":[]}", "no run"),
        ("{}", "no results of khz jitter"),
        ("", "cut off after 0 bytes"),
    ] {
        std::fs::write(folder.path().join("a.json"), text).unwrap();
        let output = khz(&["compare", "a.json"], folder.path());
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(word), "{text}: {}", stderr(&output));
    }
}

#[test]
fn the_doctor_exits_by_its_worst_finding() {
    let folder = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let examine = || khz(&["doctor", "--json", "--root", "."], folder.path());
    put("proc/sys/kernel/version", "#1 SMP PREEMPT_RT");
    put("proc/self/status", "CapEff:\t000001ffffffffff\n");
    assert_eq!(examine().status.code(), Some(0), "{}", String::from_utf8_lossy(&examine().stdout));
    put("proc/swaps", "Filename Type Size Used Priority\n/swap file 9999999 20480 -2\n");
    assert_eq!(examine().status.code(), Some(1));
    put("sys/bus/usb-serial/devices/ttyUSB0/latency_timer", "16\n");
    let output = examine();
    assert_eq!(output.status.code(), Some(3));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (report["grade"].as_str(), report["findings"][0]["topic"].as_str()),
        (Some("bad"), Some("serial"))
    );
    assert_eq!(report["findings"][0]["fix"]["root"], true);
}

#[test]
fn the_set_up_files_are_written_once() {
    let folder = tempfile::tempdir().unwrap();
    let write = || khz(&["doctor", "--setup", "--user", "ada", "--robot", "/etc/arm.toml"], folder.path());
    let output = write();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        String::from_utf8_lossy(&output.stdout)
            .contains("sudo install -m 644 kilohertz-setup/99-kilohertz.conf")
    );
    let limits = std::fs::read_to_string(folder.path().join("kilohertz-setup/99-kilohertz.conf")).unwrap();
    assert!(limits.contains("ada - rtprio 98"));
    let again = write();
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("remove the old one"));
}

/// With `USER` and `SUDO_USER` as given.
#[expect(clippy::unwrap_used, reason = "a test")]
fn set_up(folder: &Path, user: &str, sudo_user: &str, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_khz"));
    command.args(["doctor", "--setup"]).args(words).current_dir(folder);
    command.env("USER", user).env("SUDO_USER", sudo_user).output().unwrap()
}

#[test]
fn no_unit_is_written_for_no_user_or_for_root_by_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("kilohertz-setup/kilohertz.service");
    for (user, words) in [("", &[][..]), ("root", &[]), ("ada", &["--user", ""]), ("a\nb", &[])] {
        let output = set_up(folder.path(), user, "", words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{user:?} {words:?}: {error}");
        assert!(error.contains("give --user NAME"), "{error}");
        assert!(!unit.exists());
    }
    let line = "ada\nExecStartPre=/bin/evil";
    let output = set_up(folder.path(), "ada", "", &["--robot", line]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!unit.exists());
    // Behind sudo it is the user who called sudo.
    assert!(set_up(folder.path(), "root", "ada", &[]).status.success());
    assert!(std::fs::read_to_string(&unit).unwrap().contains("\nUser=ada\n"));
}

/// Where systemd's own program is installed, it reads the unit and finds nothing wrong.
#[test]
fn systemd_reads_the_words_of_the_unit_as_they_were_given() {
    let folder = tempfile::tempdir().unwrap();
    // The program has to be there for systemd to be content.
    let tools = folder.path().join("my 50%h tools");
    std::fs::create_dir(&tools).unwrap();
    let khz = tools.join("khz");
    std::fs::copy(env!("CARGO_BIN_EXE_khz"), &khz).unwrap();
    let mut command = Command::new(&khz);
    command
        .args(["doctor", "--setup", "--user", "root", "--robot", "/a b%h$HOME\"it's\\.toml"])
        .current_dir(folder.path());
    assert!(command.output().unwrap().status.success());
    let unit = folder.path().join("kilohertz-setup/kilohertz.service");
    let verified = Command::new("systemd-analyze").arg("verify").arg("--man=no").arg(&unit).output();
    let Ok(verified) = verified else { return };
    let err = String::from_utf8_lossy(&verified.stderr);
    assert!(!err.contains("kilohertz.service"), "{err}");
    // And it does report a wrong line.
    let text = std::fs::read_to_string(&unit).unwrap();
    std::fs::write(&unit, text.replace("50%%h", "50%h")).unwrap();
    let verified = Command::new("systemd-analyze").arg("verify").arg("--man=no").arg(&unit).output().unwrap();
    assert!(String::from_utf8_lossy(&verified.stderr).contains("kilohertz.service"));
}
