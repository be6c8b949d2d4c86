//! The robot's process dies, freezes, hangs or is asked to end, and servos served by another process do the right thing
//! by themselves. Nothing is timed: everything happens eventually.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "../../robot/tests/common/port.rs"]
mod port;

use common::{Process, SERVOS};
use khz_file::RobotConfig;
use khz_link::Link;
use khz_link::fdcanusb::Fdcanusb;
use khz_loop::{ControlError, Controller, Doing, RobotState, ServoCommand, ServoState};
use khz_robot::launch::{Launch, LaunchOptions};
use khz_rt::now_ns;
use khz_wire::fdcanusb::Dialect;
use khz_wire::{Address, Frame, Mode};
use rustix::fs::{CWD, FileType, OFlags, mknodat, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Action, LocalModes, OptionalActions, tcflow, tcgetattr, tcsetattr};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A busy machine must not fail a test; a test that fails waits so long.
const GENEROUS: Duration = Duration::from_secs(120);

impl Process {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Waits until none of its threads runs any more: a stop takes effect when a thread has a processor.
    fn frozen(&self) {
        let threads = format!("/proc/{}/task", self.0.id());
        let stopped = |thread: PathBuf| {
            let stat = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        };
        eventually("the process is frozen", || {
            let mut threads = std::fs::read_dir(&threads).unwrap();
            threads.all(|thread| stopped(thread.unwrap().path())).then_some(())
        });
    }

    /// What it has written to standard output, once it has ended.
    fn output(&mut self) -> String {
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    fn ended(&mut self) -> ExitStatus {
        eventually("the process ends", || self.0.try_wait().unwrap())
    }

    /// It ended as it was asked to.
    fn ended_in_order(&mut self, why: &str) {
        let status = self.ended();
        is_orderly(status, &self.output(), why);
    }
}

/// An end that was asked for. On a busy machine a servo of another process may not report often enough in the last ten ticks that it is
/// off, and then the run says that.
fn is_orderly(status: ExitStatus, text: &str, why: &str) {
    // A terminal has lines.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_unconfirmed = status.code() == Some(1) && text.contains("did not say often enough that it is off");
    assert!(status.code() == Some(0) || is_unconfirmed, "{why}: {status}: {text}");
}

/// Asks again and again until there is an answer.
fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < GENEROUS, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Servos in a process of their own, and a robot file for another.
struct Stand {
    folder: tempfile::TempDir,
    endpoint: PathBuf,
    notify: UnixDatagram,
    _servos: Process,
}

impl Stand {
    /// Servos with a long watchdog, so that a machine that stands still for seconds does not let them down. `more` ends the robot file.
    fn new(more: &str) -> Self {
        Self::with(30.0, more)
    }

    /// Servos that act by themselves after so many seconds without a command.
    fn with(watchdog_s: f64, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let served = folder.path().join("served.toml");
        std::fs::write(&served, format!("[bus.main]\nlink = \"emulated\"\n{SERVOS}")).unwrap();
        let mut servos = Command::new(env!("CARGO_BIN_EXE_khz"));
        let mut servos = Process(servos.arg("emulate").arg(&served).stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(servos.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let endpoint = PathBuf::from(line.trim().strip_prefix("main ").unwrap());
        // Lenient in everything but the servos' own watchdogs, because the machine may be busy.
        let robot = format!(
            "[loop]\nrate_hz = 100\npolicy = \"other\"\nlock_memory = false\n[bus.main]\nlink = \"fdcanusb\"\npath = {endpoint:?}\n\
             [servo_defaults]\nwatchdog_s = {watchdog_s:?}\n{SERVOS}\n[log]\nenabled = false\n[supervisor]\nanswer_s = 60\n\
             damping_s = 0.3\noverruns = 100000\nmissed_replies = 24\nstale_ms = 100000\ncontroller_slow = 100000\n\
             reactions = {{ missed_replies = \"warn\", bus_down = \"warn\", overruns = \"warn\" }}\n{more}"
        );
        std::fs::write(folder.path().join("robot.toml"), robot).unwrap();
        let notify = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        notify.set_read_timeout(Some(GENEROUS)).unwrap();
        Self { folder, endpoint, notify, _servos: servos }
    }

    fn robot(&self) -> PathBuf {
        self.folder.path().join("robot.toml")
    }

    /// A program that reports to this stand, as to systemd. SIGHUP has its default effect, even if the tests run with it ignored, as under
    /// `nohup`.
    fn program(&self, path: impl AsRef<Path>, words: &[&str]) -> Command {
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP").arg(path.as_ref());
        command.args(words).env("NOTIFY_SOCKET", self.folder.path().join("notify"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `khz run`, which prints all figures.
    fn run(&self) -> Process {
        let robot = self.robot();
        let mut command = self.program(env!("CARGO_BIN_EXE_khz"), &["run", robot.to_str().unwrap()]);
        Process(command.args(["-v", "--no-report"]).spawn().unwrap())
    }

    /// Waits for a message of the robot's process, past all others.
    fn wait_for(&self, wanted: &str) {
        common::wait_for(&self.notify, wanted);
    }

    /// Waits until the robot holds its servos. The tick that ends in `active` is followed by one that asks the controller
    /// for the first time, and that by one that sends its commands; a process killed before leaves servos that never
    /// left `Stopped`.
    fn wait_until_it_holds(&self) {
        self.wait_for("STATUS=active");
        // Each time it is fed it has ticked.
        self.wait_for("WATCHDOG=1");
        self.wait_for("WATCHDOG=1");
    }

    /// Waits for a moment in which the robot holds its servos, and freezes it then. A servo whose replies are late by 24 ms is damped
    /// until they come again; damped by a command, it stays so however long no other comes, and has no watchdog that could expire.
    fn freeze_it_holding(&self, robot: &Process) {
        self.wait_until_it_holds();
        loop {
            robot.signal(Signal::STOP);
            robot.frozen();
            if self
                .modes()
                .iter()
                .all(|mode| [Mode::Position, Mode::PositionTimeout].map(|mode| mode as u8).contains(mode))
            {
                return;
            }
            robot.signal(Signal::CONT);
            self.waiting();
            self.wait_for("WATCHDOG=1");
        }
    }

    /// Messages that are waiting.
    fn waiting(&self) -> usize {
        self.notify.set_nonblocking(true).unwrap();
        let count = std::iter::from_fn(|| self.notify.recv(&mut [0; 256]).ok()).count();
        self.notify.set_nonblocking(false).unwrap();
        count
    }

    /// The wire, past the lock of the robot's process, which does not read any more.
    fn wire(&self) -> Fdcanusb {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK;
        let fd = open(&self.endpoint, flags, rustix::fs::Mode::empty()).unwrap();
        // Ends what a process was writing when it was killed.
        rustix::io::write(&fd, b"\n").unwrap();
        Fdcanusb::from_fd(fd, Dialect::Uart)
    }

    /// The modes in which the servos are.
    fn modes(&self) -> [u8; 2] {
        let mut wire = self.wire();
        [1, 2].map(|id| ask(&mut wire, id).0)
    }

    /// Waits until every servo reports this mode; returns their torques.
    fn servos_in(&self, mode: Mode) -> [f32; 2] {
        let mut wire = self.wire();
        let begun = Instant::now();
        [1, 2].map(|id| {
            loop {
                let (now, torque) = ask(&mut wire, id);
                if now == mode as u8 {
                    return torque;
                }
                assert!(begun.elapsed() < GENEROUS, "servo {id} is in mode {now}, never in {mode:?}");
                thread::sleep(Duration::from_millis(20));
            }
        })
    }
}

/// Mode and torque of a servo, read without commanding anything. Another question soon after the first would leave an answer on the
/// wire, where a robot that thaws takes it for the reply of a second servo with this id. Emulated servos that had no processor for a
/// while have lost it, though: each holds eight at once, and those to the robot were first.
fn ask(wire: &mut Fdcanusb, id: u8) -> (u8, f32) {
    // Read one int8 at register 0, the mode, and one float at register 3, the torque.
    let query = Frame::new(0x8000 | u32::from(id), &[0x11, 0x00, 0x1d, 0x03]).unwrap();
    let mut asked: Option<Instant> = None;
    eventually(&format!("servo {id} answers"), || {
        if asked.is_none_or(|asked| asked.elapsed() > Duration::from_secs(10)) {
            wire.send(0, &Address::request(&query), now_ns()).unwrap();
            wire.flush(now_ns()).unwrap();
            asked = Some(Instant::now());
        }
        while let Ok(Some(received)) = wire.receive(now_ns()) {
            // Replies to the robot's own queries look different.
            if received.frame.id == u32::from(id) << 8
                && let [0x21, 0x00, mode, 0x2d, 0x03, a, b, c, d, ..] = *received.frame.payload()
            {
                return Some((mode, f32::from_le_bytes([a, b, c, d])));
            }
        }
        None
    })
}

#[test]
fn a_killed_robot_is_damped_by_its_servos() {
    let stand = Stand::with(3.0, "");
    let mut robot = stand.run();
    stand.freeze_it_holding(&robot);
    robot.signal(Signal::KILL);
    robot.ended();
    let torque = stand.servos_in(Mode::PositionTimeout);
    assert!(torque.iter().all(|torque| torque.abs() < 0.1), "{torque:?}");
}

#[test]
fn a_frozen_robot_is_damped_by_its_servos_and_stays_down_when_it_thaws() {
    let stand = Stand::with(3.0, "");
    let mut robot = stand.run();
    stand.freeze_it_holding(&robot);
    stand.servos_in(Mode::PositionTimeout);
    robot.signal(Signal::CONT);
    let status = robot.ended();
    let text = robot.output();
    assert_eq!(status.code(), Some(1), "{text}");
    // The servos' replies in the first tick give the first reason. If they come too late on a busy machine, the loop's clock gives the second.
    let why = ["the servo's own watchdog expired", "the loop was held up for"];
    assert!(why.iter().any(|why| text.contains(why)), "{text}");
    assert_eq!(stand.servos_in(Mode::Stopped), [0.0; 2]);
}

#[test]
fn a_robot_frozen_for_less_than_its_watchdogs_goes_on_and_says_so() {
    let stand = Stand::new("");
    let mut robot = stand.run();
    stand.wait_until_it_holds();
    robot.signal(Signal::STOP);
    robot.frozen();
    // 60 ms or, on a busy machine, longer; the servos wait for 30 s.
    thread::sleep(Duration::from_millis(60));
    robot.signal(Signal::CONT);
    stand.waiting();
    // Enough ticks for a robot that was brought down to be at rest.
    (0..20).for_each(|_| stand.wait_for("WATCHDOG=1"));
    assert_eq!(robot.0.try_wait().unwrap(), None);
    robot.signal(Signal::TERM);
    let (status, text) = (robot.ended(), robot.output());
    is_orderly(status, &text, "thawed");
    assert!(text.contains("the loop was held up for"), "{text}");
    assert_eq!(stand.servos_in(Mode::Stopped), [0.0; 2]);
}

#[test]
fn signals_that_ask_for_an_end_get_an_orderly_one() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::XCPU, Signal::USR1, Signal::ALARM] {
        let stand = Stand::new("");
        let mut robot = stand.run();
        // A run that is asked to end before its first controlled tick has failed.
        stand.wait_until_it_holds();
        robot.signal(signal);
        robot.ended_in_order(&format!("{signal:?}"));
        assert_eq!(stand.servos_in(Mode::Stopped), [0.0; 2]);
    }
}

#[test]
fn a_file_at_its_size_limit_does_not_end_the_robot() {
    let stand = Stand::new("");
    let log = stand.folder.path().join("short.tlog");
    let (khz, robot) = (env!("CARGO_BIN_EXE_khz"), stand.robot());
    // As `ulimit -f` has it.
    let words =
        ["--fsize=65536", khz, "run", robot.to_str().unwrap(), "--log", log.to_str().unwrap(), "--no-report"];
    let mut robot = Process(stand.program("prlimit", &words).spawn().unwrap());
    stand.wait_until_it_holds();
    while !log.exists() || log.metadata().unwrap().len() < 65_536 {
        stand.wait_for("WATCHDOG=1");
    }
    (0..5).for_each(|_| stand.wait_for("WATCHDOG=1"));
    robot.signal(Signal::TERM);
    assert!(robot.ended().code().is_some(), "it ended by itself");
    assert_eq!(stand.servos_in(Mode::Stopped), [0.0; 2]);
}

/// A pseudo terminal: the end a person looks at, and the programs'.
fn terminal() -> (OwnedFd, OwnedFd) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let name = ptsname(&person, Vec::new()).unwrap();
    let programs =
        open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, rustix::fs::Mode::empty()).unwrap();
    (person, programs)
}

#[test]
fn a_dropped_session_brings_the_robot_down_gently_and_finishes_the_log() {
    let stand = Stand::new("");
    let log = stand.folder.path().join("dropped.tlog");
    let (person, programs) = terminal();
    let same = || programs.try_clone().unwrap();
    // A session of its own whose terminal this is, as behind ssh.
    let khz = env!("CARGO_BIN_EXE_khz");
    let robot = stand.robot();
    let words = ["--ctty", khz, "run", robot.to_str().unwrap(), "--log", log.to_str().unwrap()];
    let mut command = stand.program("setsid", &words);
    command.stdin(same()).stdout(same()).stderr(same());
    let mut robot = Process(command.spawn().unwrap());
    drop((command, programs));
    stand.wait_until_it_holds();
    drop(person);
    let status = robot.ended();
    let events =
        Command::new(khz).args(["log", "cat", log.to_str().unwrap(), "-r", "event"]).output().unwrap();
    is_orderly(status, &String::from_utf8_lossy(&events.stdout), "hung up");
    assert_eq!(stand.servos_in(Mode::Stopped), [0.0; 2]);
    assert!(khz_tlog::Reader::open(std::fs::File::open(&log).unwrap()).unwrap().is_finished());
    assert!(log.with_extension("html").exists());
}

#[test]
fn a_robot_started_by_nohup_outlives_its_session() {
    let stand = Stand::new("");
    let robot = stand.robot();
    let words = [env!("CARGO_BIN_EXE_khz"), "run", robot.to_str().unwrap(), "--no-report"];
    let mut robot = Process(stand.program("nohup", &words).spawn().unwrap());
    stand.wait_until_it_holds();
    robot.signal(Signal::HUP);
    stand.waiting();
    // Enough ticks for a robot that was asked to come down to be at rest.
    (0..20).for_each(|_| stand.wait_for("WATCHDOG=1"));
    assert_eq!(robot.0.try_wait().unwrap(), None);
    robot.signal(Signal::TERM);
    robot.ended_in_order("nohup");
}

#[test]
fn a_terminal_that_stops_background_output_does_not_stop_a_robot() {
    let stand = Stand::new("");
    let (person, programs) = terminal();
    let same = || programs.try_clone().unwrap();
    let [robot, pid] = [stand.robot(), stand.folder.path().join("pid")];
    // A shell with job control, which puts the robot into a process group of its own.
    let line = "set -m; \"$0\" run \"$1\" --no-report & echo $! > \"$2\"; wait $!";
    let words = [robot.to_str().unwrap(), pid.to_str().unwrap()];
    let words = [&["--ctty", "bash", "-c", line, env!("CARGO_BIN_EXE_khz")], &words[..]].concat();
    let mut command = stand.program("setsid", &words);
    command.stdin(same()).stdout(same()).stderr(same());
    let mut shell = Process(command.spawn().unwrap());
    stand.wait_until_it_holds();
    // Now, as what is warned of before the start may wait for a terminal.
    let mut modes = tcgetattr(&programs).unwrap();
    modes.local_modes |= LocalModes::TOSTOP;
    tcsetattr(&programs, OptionalActions::Now, &modes).unwrap();
    // The live line is due by then, more than once.
    (0..10).for_each(|_| stand.wait_for("WATCHDOG=1"));
    let pid: i32 = std::fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    let status = shell.ended();
    rustix::io::ioctl_fionbio(&person, true).unwrap();
    let mut shown = Vec::new();
    let _ = std::fs::File::from(person).read_to_end(&mut shown);
    is_orderly(status, &String::from_utf8_lossy(&shown), "in the background");
    assert_eq!(stand.servos_in(Mode::Stopped), [0.0; 2]);
}

/// Its verdict waited for a reader for ever, with the bus, and signals only asked for an end that had come.
#[test]
fn a_run_whose_verdict_is_not_read_gives_its_bus_back_and_ends_when_asked() {
    let stand = Stand::new("");
    let (stdout, _unread) = full_pipe();
    let file = stand.robot();
    let words = ["run", file.to_str().unwrap(), "--no-report", "--duration", "1s"];
    let mut command = stand.program(env!("CARGO_BIN_EXE_khz"), &words);
    let mut robot = Process(command.stdout(stdout).spawn().unwrap());
    // Under control or not: its second may be over before.
    stand.wait_for("STATUS=stopped");
    eventually("another program has the bus", || {
        let other = Command::new(env!("CARGO_BIN_EXE_khz")).args(words).output().unwrap();
        let output = String::from_utf8_lossy(&other.stderr).into_owned();
        (!output.contains("in use by")).then_some(())
    });
    assert_eq!(robot.0.try_wait().unwrap(), None, "a late reader gets all of it");
    robot.signal(Signal::TERM);
    assert!(robot.ended().code().is_some());
}

#[test]
fn a_terminal_stopped_with_everything_on_it_does_not_keep_a_run_from_ending() {
    let stand = Stand::new("");
    let (_person, programs) = terminal();
    let same = || programs.try_clone().unwrap();
    let robot = stand.robot();
    let mut command = stand.program(env!("CARGO_BIN_EXE_khz"), &["run", robot.to_str().unwrap()]);
    command.arg("--no-report").stdin(same()).stdout(same()).stderr(same());
    let mut robot = Process(command.spawn().unwrap());
    stand.wait_until_it_holds();
    tcflow(&programs, Action::OOff).unwrap();
    robot.signal(Signal::TERM);
    assert!(robot.ended().code().is_some());
    assert_eq!(stand.servos_in(Mode::Stopped), [0.0; 2]);
}

#[test]
fn a_stopped_terminal_does_not_keep_a_run_from_ending() {
    let (stand, pipe) = watched_by_the_kernel(30.0);
    let (_person, programs) = terminal();
    let robot = stand.robot();
    let mut command =
        stand.program(env!("CARGO_BIN_EXE_khz"), &["run", robot.to_str().unwrap(), "--no-report"]);
    let mut robot = Process(command.stderr(programs.try_clone().unwrap()).spawn().unwrap());
    drop(command);
    stand.wait_until_it_holds();
    // Ctrl-S.
    tcflow(&programs, Action::OOff).unwrap();
    // The live line is due by then.
    (0..5).for_each(|_| stand.wait_for("WATCHDOG=1"));
    robot.signal(Signal::TERM);
    robot.ended_in_order("Ctrl-S");
    assert_eq!(stand.servos_in(Mode::Stopped), [0.0; 2]);
    let mut food = Vec::new();
    let _ = std::fs::File::from(pipe).read_to_end(&mut food);
    assert!(food.contains(&b'V'), "the kernel's watchdog is called off: {food:?}");
}

/// A stand with a pipe as the kernel's watchdog, and that pipe.
fn watched_by_the_kernel(watchdog_s: f64) -> (Stand, OwnedFd) {
    let stand = Stand::with(watchdog_s, "[watchdog]\ndevice = \"DEVICE\"\n");
    let device = stand.folder.path().join("watchdog");
    mknodat(CWD, &device, FileType::Fifo, 0o600.into(), 0).unwrap();
    // Read and write: opening does not wait for the other end.
    let pipe = open(&device, OFlags::RDWR | OFlags::NONBLOCK, rustix::fs::Mode::empty()).unwrap();
    let text = std::fs::read_to_string(stand.robot()).unwrap();
    std::fs::write(stand.robot(), text.replace("DEVICE", device.to_str().unwrap())).unwrap();
    (stand, pipe)
}

/// Holds for so many ticks, and then, once every servo has reported in some in a row that it follows, never returns. One whose replies were late
/// is damped for a while, and on a busy machine there are not many ticks in a row without any.
struct Hanging {
    after: u32,
    in_a_row: u32,
}

impl Controller for Hanging {
    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let is_held = |servo: &ServoState| servo.fresh && servo.doing == Doing::Following;
        self.in_a_row = if state.servos.iter().all(is_held) { self.in_a_row + 1 } else { 0 };
        self.after = self.after.saturating_sub(1);
        if self.after == 0 && self.in_a_row >= 3 {
            notify("HANGS");
            loop {
                thread::park();
            }
        }
        for (command, servo) in commands.iter_mut().zip(&state.servos) {
            *command = ServoCommand::Position(khz_loop::PositionCommand::hold(servo.position));
        }
        Ok(())
    }
}

/// Reports to the stand of this process, as its watchdogs do.
fn notify(message: &str) {
    let stand = UnixDatagram::unbound().unwrap();
    stand.send_to(message.as_bytes(), std::env::var_os("NOTIFY_SOCKET").unwrap()).unwrap();
}

/// The process of the test below; no test without it.
#[test]
fn a_process_whose_loop_hangs() {
    let Some(path) = std::env::var_os("HANGING_ROBOT") else { return };
    let config = RobotConfig::load(path).unwrap();
    let _robot = Launch::start(
        &config,
        "",
        LaunchOptions {
            controller: Some(Box::new(Hanging { after: 20, in_a_row: 0 })),
            ..LaunchOptions::default()
        },
    )
    .unwrap();
    thread::sleep(GENEROUS);
}

/// Holds for so many ticks, and then panics.
struct Panicking(u32);

impl Controller for Panicking {
    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.0 = self.0.checked_sub(1).expect("a bug in the controller");
        for (command, servo) in commands.iter_mut().zip(&state.servos) {
            *command = ServoCommand::Position(khz_loop::PositionCommand::hold(servo.position));
        }
        Ok(())
    }
}

/// The process of the test below; no test without it.
#[test]
fn a_process_whose_controller_panics() {
    let Some(path) = std::env::var_os("PANICKING_ROBOT") else { return };
    let mut config = RobotConfig::load(path).unwrap();
    if std::env::var_os("PIPELINED").is_some() {
        config.timing.mode = khz_loop::timing::Mode::Pipelined;
    }
    let robot = Launch::start(
        &config,
        "",
        LaunchOptions { controller: Some(Box::new(Panicking(100))), ..LaunchOptions::default() },
    )
    .unwrap();
    let outcome = robot.wait().unwrap();
    let phases: Vec<_> = outcome.stats.transitions.iter().map(|change| change.to.name()).collect();
    let summary = khz_report::run::RunSummary::of(&config, &outcome);
    std::fs::write(std::env::var_os("SAY").unwrap(), format!("{phases:?} {}", summary.end)).unwrap();
}

/// A pipe into which nothing fits any more, and its other end. A write waits until that is closed.
fn full_pipe() -> (Stdio, OwnedFd) {
    let (unread, full) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    rustix::io::ioctl_fionbio(&full, true).unwrap();
    while rustix::io::write(&full, &[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&full, false).unwrap();
    (full.into(), unread)
}

#[test]
fn a_controller_that_panics_with_stderr_blocked_is_damped_and_stopped() {
    for pipelined in [false, true] {
        let stand = Stand::new("");
        let output = stand.folder.path().join("output");
        let (stderr, _unread) = full_pipe();
        // Without `--nocapture` the test's harness would keep what is printed, and nothing would block.
        let words = ["a_process_whose_controller_panics", "--exact", "--nocapture"];
        let mut command = stand.program(std::env::current_exe().unwrap(), &words);
        command.env("PANICKING_ROBOT", stand.robot()).env("SAY", &output).stderr(stderr);
        if pipelined {
            command.env("PIPELINED", "1");
        }
        let mut robot = Process(command.spawn().unwrap());
        drop(command);
        assert!(robot.ended().success());
        assert_eq!(stand.servos_in(Mode::Stopped), [0.0; 2]);
        let output = std::fs::read_to_string(&output).unwrap();
        assert!(output.contains("\"damping\""), "{output}");
        // In between are the servos that were not reported off.
        assert!(
            ["the controller panicked", "a bug in the controller"].iter().all(|part| output.contains(part)),
            "{output}"
        );
        assert!(output.contains("processes.rs:"), "{output}");
    }
}

#[test]
fn a_robot_whose_loop_hangs_is_damped_by_its_servos_and_feeds_no_watchdog() {
    let (stand, pipe) = watched_by_the_kernel(3.0);
    let mut pipe = std::fs::File::from(pipe);
    let words = ["a_process_whose_loop_hangs", "--exact"];
    let mut command = stand.program(std::env::current_exe().unwrap(), &words);
    let mut robot = Process(command.env("HANGING_ROBOT", stand.robot()).spawn().unwrap());
    // The test asks the servos only once the robot has stopped reading: before, it would take replies away from it.
    stand.wait_for("HANGS");
    stand.servos_in(Mode::PositionTimeout);

    // The process and its feeding thread are there, but no watchdog is fed any more.
    let mut food = Vec::new();
    let mut fed = || {
        food.clear();
        let _ = pipe.read_to_end(&mut food);
        food.clone()
    };
    assert!(stand.waiting() > 0 || !fed().is_empty());
    fed();
    thread::sleep(Duration::from_secs(1));
    assert_eq!(robot.0.try_wait().unwrap(), None);
    assert_eq!((stand.waiting(), fed()), (0, Vec::new()));
}

#[test]
fn the_kernels_watchdog_is_fed_and_called_off_after_an_orderly_end_only() {
    for (signal, good_bye) in [(Signal::TERM, true), (Signal::KILL, false)] {
        let (stand, pipe) = watched_by_the_kernel(30.0);
        let mut robot = stand.run();
        stand.wait_until_it_holds();
        robot.signal(signal);
        robot.ended();
        let mut food = Vec::new();
        let _ = std::fs::File::from(pipe).read_to_end(&mut food);
        assert!(food.contains(&0), "{food:?}");
        assert_eq!(food.contains(&b'V'), good_bye, "{signal:?}: {food:?}");
    }
}

/// Calls `beat` until the robot is active; without further heartbeats it then comes down.
fn comes_down_without(from: &str, mut beat: impl FnMut(&mut Process)) {
    let stand = Stand::new(&format!("heartbeat_ms = 2000\nheartbeat_from = \"{from}\"\n"));
    let mut robot = stand.run();
    // Without the operator it waits.
    stand.wait_for("STATUS=idle");
    stand.notify.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    eventually("the robot goes on with the operator", || {
        // Where this test stood still for longer than a heartbeat lasts, it has come down before.
        if robot.0.try_wait().unwrap().is_some() {
            return Some(());
        }
        beat(&mut robot);
        let mut message = [0; 256];
        let len = stand.notify.recv(&mut message).unwrap_or(0);
        message[..len].ends_with(b"STATUS=active").then_some(())
    });
    let status = robot.ended();
    let text = robot.output();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("no operator heartbeat"), "{text}");
    assert_eq!(stand.servos_in(Mode::Stopped), [0.0; 2]);
}

#[test]
fn an_operator_by_udp_who_falls_silent_brings_the_robot_down() {
    let free = port::free_port();
    let operator = UdpSocket::bind("127.0.0.1:0").unwrap();
    comes_down_without(&format!("udp:127.0.0.1:{free}"), |_| {
        _ = operator.send_to(b"here", ("127.0.0.1", free));
    });
}

#[test]
fn an_operator_in_a_named_pipe_who_falls_silent_brings_the_robot_down() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("operator");
    mknodat(CWD, &path, FileType::Fifo, 0o600.into(), 0).unwrap();
    comes_down_without(path.to_str().unwrap(), |_| {
        // Writers may come and go. As long as the robot does not read the pipe, opening it fails.
        if let Ok(pipe) = open(&path, OFlags::WRONLY | OFlags::NONBLOCK, rustix::fs::Mode::empty()) {
            let _ = std::fs::File::from(pipe).write_all(b"here\n");
        }
    });
}

#[test]
fn an_operator_on_stdin_who_falls_silent_brings_the_robot_down() {
    // One that is over reads no more.
    comes_down_without("stdin", |robot| _ = robot.0.stdin.as_mut().unwrap().write_all(b"here\n"));
}
