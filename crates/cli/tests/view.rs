//! `khz run --view`, `khz view` and `khz param` as their users have them.
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod common;

use common::{SERVOS, khz};
use kilohertz::{Parameter, PositionCommand, Robot, ServoCommand, viewer};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Long enough on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A robot that runs until it is stopped, however busy this machine is.
fn robot() -> String {
    format!(
        "[loop]\nrate_hz = 100\npolicy = \"other\"\nlock_memory = false\n[bus.main]\nlink = \"emulated\"\n\
         [servo_defaults]\nwatchdog_s = 30.0\n{SERVOS}\n[supervisor]\nanswer_s = 60\ndamping_s = 0.2\noverruns = 100000\n\
         missed_replies = 100000\nstale_ms = 100000\ncontroller_slow = 100000\n"
    )
}

/// Where a live view is, of the link to it.
fn address(link: &str) -> String {
    link.strip_prefix("http://").unwrap().trim_end_matches('/').to_owned()
}

/// A program and the address of the live view it has announced.
fn start(folder: &Path, words: &[&str]) -> (Child, String) {
    let mut khz = Command::new(env!("CARGO_BIN_EXE_khz"));
    khz.args(words).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = khz.spawn().unwrap();
    let link = match words[0] {
        // After what is warned of.
        "run" => loop {
            let line = first_line(child.stderr.as_mut().unwrap());
            assert!(!line.is_empty(), "no live view");
            if let Some(link) = line.strip_prefix("live view: ") {
                break link.to_owned();
            }
        },
        _ => first_line(child.stdout.as_mut().unwrap()),
    };
    (child, address(&link))
}

fn first_line(from: &mut impl Read) -> String {
    let mut line = String::new();
    BufReader::with_capacity(1, from).read_line(&mut line).unwrap();
    line.trim().to_owned()
}

fn get(at: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {at}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn terminate(child: &Child) {
    signal(child, Signal::TERM);
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Asks for a change, as long as the answer is that it came too late: it counts for a second, and in the phase it was asked in.
fn in_time(ask: impl Fn() -> Output) -> Output {
    let since = Instant::now();
    loop {
        let answer = ask();
        if !String::from_utf8_lossy(&answer.stderr).contains("ask again") {
            return answer;
        }
        assert!(since.elapsed() < PATIENCE, "{answer:?}");
    }
}

#[test]
fn a_gain_is_tuned_while_the_robot_runs_and_the_log_has_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("robot.toml"), robot()).unwrap();
    let words = ["--duration", "600s", "--log", "run.tlog", "--no-report", "--json"];
    let run = [&["run", "robot.toml", "--view=127.0.0.1:0"][..], &words].concat();
    let (mut child, at) = start(folder.path(), &run);
    let param = |words: &[&str]| khz(folder.path(), &[&["param"], words, &["--at", &at]].concat());
    // The robot declares them before its first tick.
    let since = Instant::now();
    let mut list = param(&["list", "--json"]);
    while !String::from_utf8_lossy(&list.stdout).contains("kp_scale") {
        assert!(since.elapsed() < PATIENCE, "{list:?}");
        list = param(&["list", "--json"]);
    }
    let taken = in_time(|| param(&["set", "kp_scale=0.5"]));
    assert!(String::from_utf8_lossy(&taken.stdout).starts_with("taken by tick "), "{taken:?}");
    assert_eq!(param(&["get", "kp_scale"]).stdout, b"0.5\n");
    let refused = in_time(|| param(&["set", "kp_scale=7"]));
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("outside"), "{refused:?}");
    assert!(String::from_utf8_lossy(&param(&["get", "kp_scal"]).stderr).contains("did you mean kp_scale"));
    terminate(&child);
    // Whether it was under control by then depends on how busy the machine is.
    assert!(child.wait().unwrap().code().is_some_and(|code| code < 2));
    // Without the robot and without a page, the view ends, too.
    let since = Instant::now();
    while TcpStream::connect(&at).is_ok() {
        assert!(since.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
    let log = khz(folder.path(), &["log", "cat", "run.tlog", "-r", "parameter"]);
    assert!(String::from_utf8_lossy(&log.stdout).contains(r#""name":"kp_scale","value":0.5"#), "{log:?}");
    assert!(khz(folder.path(), &["log", "report", "run.tlog", "-o", "run.html"]).status.success());
    assert!(std::fs::read_to_string(folder.path().join("run.html")).unwrap().contains("Parameter changes"));
}

#[test]
fn a_controller_of_a_program_is_watched_and_tuned() {
    let stiffness = Parameter::float("stiffness", 0.5, 0.0..=1.0);
    let used = stiffness.clone();
    let robot = Robot::parse(&robot(), "robot.toml")
        .unwrap()
        .no_log()
        .view(viewer::Options { at: ([127, 0, 0, 1], 0).into(), ..viewer::Options::default() });
    let run = robot.each_tick_with(vec![stiffness], move |_, commands| {
        let kp_scale = used.get();
        commands.fill(ServoCommand::Position(PositionCommand { kp_scale, ..PositionCommand::hold(0.0) }));
        Ok(())
    });
    let run = run.start().unwrap();
    let at = address(run.view().unwrap());
    let param = |words: &[&str]| khz(Path::new("."), &[&["param"], words, &["--at", &at]].concat());
    let since = Instant::now();
    let mut taken = param(&["set", "stiffness=0.25"]);
    while !taken.status.success() {
        assert!(since.elapsed() < PATIENCE, "{taken:?}");
        taken = param(&["set", "stiffness=0.25"]);
    }
    assert!((run.parameters().list()[0].get() - 0.25).abs() < 1e-9);
    run.stop();
    // Whether it was under control by then depends on how busy the machine is.
    let finished = run.finish().unwrap();
    assert!((finished.parameters()[0].get() - 0.25).abs() < 1e-9);
}

#[test]
fn a_finished_log_is_shown_until_the_view_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let run =
        khz(folder.path(), &["run", "--virtual", "--duration", "1s", "--log", "run.tlog", "--no-report"]);
    assert!(run.status.success());
    let (mut child, at) = start(folder.path(), &["view", "run.tlog", "--at", "127.0.0.1:0"]);
    assert!(get(&at).starts_with("HTTP/1.1 200 OK\r\n"));
    // A process that was stopped while it waited for the rest of a request reads on.
    let mut stream = TcpStream::connect(&at).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    for _ in 0..10 {
        signal(&child, Signal::STOP);
        waitpid(Some(Pid::from_child(&child)), WaitOptions::UNTRACED).unwrap();
        signal(&child, Signal::CONT);
        // For it to wait again.
        std::thread::sleep(Duration::from_millis(10));
    }
    stream.write_all(format!("Host: {at}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    terminate(&child);
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_cannot_be_viewed_is_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.path().join("pipe"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let cases: [(&[&str], &str); 5] = [
        (&["view"], "khz view --listen"),
        (&["view", "nothere.tlog"], "cannot read nothere.tlog: No such file"),
        (&["view", "pipe"], "a pipe cannot be searched"),
        (&["view", "--listen", "7400"], "0.0.0.0:7400"),
        (&["run", "--view", "0.0.0.0"], "--view=ADDR"),
    ];
    for (words, expected) in cases {
        let message = khz(folder.path(), words);
        let text = String::from_utf8_lossy(&message.stderr);
        assert_eq!(message.status.code(), Some(2), "{words:?}: {text}");
        assert!(text.contains(expected), "{words:?}: {text}");
    }
}

#[test]
fn without_a_live_view_the_message_says_what_to_do() {
    // A port at which only root may listen.
    let param = khz(Path::new("."), &["param", "list", "--at", "127.0.0.1:1"]);
    assert_eq!(param.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&param.stderr).contains("khz run --view"), "{param:?}");
    let token = khz(Path::new("."), &["run", "--token", "12345678"]);
    assert_eq!(token.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&token.stderr).contains("--view"), "{token:?}");
}

#[test]
fn a_view_that_cannot_be_served_moves_no_robot() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let run =
        khz(folder.path(), &["run", &format!("--view={}", taken.local_addr().unwrap()), "--log", "run.tlog"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run.stderr).contains("cannot serve at"), "{run:?}");
    assert!(!folder.path().join("run.tlog").exists());
}
