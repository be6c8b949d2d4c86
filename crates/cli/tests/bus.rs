//! `khz bus` against the emulated quadruped.
#![allow(clippy::unwrap_used)]

use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, Output, Stdio};

fn khz(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_khz")).arg("bus").args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn frames_are_sent_and_replies_printed_as_pi3hat_tool_does() {
    let output =
        khz(&["send", "--link", "emulated", "1,8001,1300,r", "2,8004,1300,r", "--timeout-ms", "2000"]);
    assert_eq!(text(&output.stdout), "CAN 1,100,2300000000\nCAN 2,400,2300000000\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_reply_that_does_not_come_is_a_failure() {
    let output = khz(&["send", "--link", "emulated", "1,8063,1300,r"]);
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("", Some(1)));
}

#[test]
fn the_attitude_is_printed_in_degrees() {
    let output = khz(&["send", "--link", "emulated", "--read-att", "--timeout-ms", "2000"]);
    assert!(text(&output.stdout).starts_with("ATT rpy=("), "{output:?}");
}

#[test]
fn a_hat_reports_what_it_is_and_what_its_registers_hold() {
    let output = khz(&["info", "emulated:pi3hat"]);
    let about = text(&output.stdout);
    assert!(about.contains("CAN1: 000") && about.contains("AUX: average:300 min:250"), "{output:?}");
    // The configuration that opening writes is not there: registers are read from a hat that was not opened.
    let output = khz(&["spi", "--link", "emulated:pi3hat", "1,7,25", "2,32,1", "2,97,2"]);
    assert_eq!(text(&output.stdout), "40420f00404b4c000101010000ffffffffffffffff32000000\n20\n0000\n");
    let output = khz(&["send", "--link", "emulated:pi3hat", "4,800b,1300,r", "--timeout-ms", "2000"]);
    assert!(text(&output.stdout).starts_with("CAN 4,B00,23"), "{output:?}");
}

#[test]
fn scan_finds_every_servo() {
    let output = khz(&["scan", "emulated", "--last", "14", "--timeout-ms", "50", "--json"]);
    assert_eq!(text(&output.stdout).matches("\"firmware\"").count(), 12, "{output:?}");
}

#[test]
fn bad_input_is_explained() {
    for (words, message) in [
        (&["scan", "nope"][..], "not a link"),
        (&["send", "--link", "emulated", "9,8001,1300"], "there is no bus 9"),
        (&["send", "--link", "emulated", "1,8001"], "BUS,ID,DATA"),
        (&["info", "socketcan:no-such"], "no such interface"),
        (&["spi", "--link", "emulated", "1,7,25"], "not a pi3hat"),
        (&["spi", "--link", "emulated:pi3hat", "3,7,25"], "processors are 0, 1 and 2"),
        (&["replay", "/no/such/trace", "--link", "emulated"], "/no/such/trace"),
    ] {
        let output = khz(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
}

#[test]
fn sending_again_and_again_ends_with_ctrl_c_and_reports_the_rate() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("times");
    let mut khz = Command::new(env!("CARGO_BIN_EXE_khz"));
    khz.args(["bus", "send", "--link", "emulated", "1,8001,1300,r", "--run", "1000000000", "--time-log"]);
    let mut khz = khz.arg(&log).stdout(Stdio::piped()).spawn().unwrap();
    let process = Pid::from_child(&khz);
    while std::fs::metadata(&log).map_or(0, |log| log.len()) == 0 && khz.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    kill_process(process, Signal::INT).unwrap();
    let message = text(&khz.wait_with_output().unwrap().stdout);
    let (cycles, _) = message.split_once(" cycles, ").unwrap_or_else(|| panic!("{message}"));
    let times = std::fs::read_to_string(log).unwrap();
    assert_eq!(cycles.parse(), Ok(times.lines().count()));
}

#[test]
fn a_trace_that_does_not_fit_the_disk_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let full = folder.path().join("full.pcapng");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let output = khz(&["record", "emulated", "-o", full.to_str().unwrap(), "--duration", "1ms"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("full.pcapng"), "{}", text(&output.stderr));
}
