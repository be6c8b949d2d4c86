//! Two programs and one bus: the second is refused, with the name of the first, until that has ended, however it ended.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Process, SERVOS, stderr, wait_for};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn khz(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_khz"));
    command.args(words);
    command
}

/// Servos in a process of their own, served at `--at main=…`, and where they are.
fn served(folder: &Path, at: &str) -> (Process, String) {
    let devices = folder.join("devices.toml");
    std::fs::write(&devices, format!("[bus.main]\nlink = \"emulated\"\n{SERVOS}")).unwrap();
    let at = format!("main={at}");
    let mut servos = khz(&["emulate", devices.to_str().unwrap(), "--at", &at]);
    let mut servos = Process(servos.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(servos.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (servos, line.trim().strip_prefix("main ").unwrap().to_owned())
}

/// A robot that waits in idle: it commands its servos from the first tick on.
fn robot(folder: &Path, link: &str) -> PathBuf {
    let file = folder.join("robot.toml");
    let text = format!(
        "[loop]\nrate_hz = 100\npolicy = \"other\"\nlock_memory = false\n[bus.main]\n{link}\n\
         [supervisor]\narming = \"operator\"\nanswer_s = 60\nreactions = {{ overruns = \"warn\" }}\n[log]\nenabled = false\n{SERVOS}"
    );
    std::fs::write(&file, text).unwrap();
    file
}

/// The refusal of a second program, which says who has the bus and what to do.
fn is_refused(second: &Output, first: &Process) {
    let refusal = stderr(second);
    assert!(!second.status.success(), "{refusal}");
    for part in
        ["in use by `khz run", &format!("(process {}, running for ", first.0.id()), "stop that one first"]
    {
        assert!(refusal.contains(part), "{part}: {refusal}");
    }
}

fn one_program_at_a_time(folder: &Path, link: &str, by_hand: &str) {
    let robot = robot(folder, link);
    let robot = robot.to_str().unwrap();
    let notify = UnixDatagram::bind(folder.join("notify")).unwrap();
    notify.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let mut first = khz(&["run", robot, "--no-report"]);
    first.env("NOTIFY_SOCKET", folder.join("notify")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut first = Process(first.spawn().unwrap());
    wait_for(&notify, "STATUS=idle");
    for second in [&["run", robot, "--no-report"][..], &["bus", "scan", by_hand], &["bus", "scan", robot]] {
        is_refused(&khz(second).output().unwrap(), &first);
    }
    assert!(first.0.try_wait().unwrap().is_none(), "the first goes on");
    // Killed, it has no time to release anything.
    drop(first);
    let scan = khz(&["bus", "scan", by_hand, "--last", "2", "--timeout-ms", "10000"]).output().unwrap();
    assert!(scan.status.success(), "{}", stderr(&scan));
}

#[test]
fn a_serial_port_has_one_program() {
    let folder = tempfile::tempdir().unwrap();
    let (_servos, path) = served(folder.path(), "terminal");
    let link = format!("link = \"fdcanusb\"\npath = {path:?}");
    one_program_at_a_time(folder.path(), &link, &format!("fdcanusb:{path}"));
}

#[test]
fn devices_behind_ethernet_have_one_program() {
    let folder = tempfile::tempdir().unwrap();
    let (_servos, address) = served(folder.path(), "udp:127.0.0.1:0");
    let link = format!("link = \"udp\"\naddress = {address:?}");
    one_program_at_a_time(folder.path(), &link, &format!("udp:{address}"));
}
