//! The system calls of a tick: a list, and a kernel that ends the process on any other.
//!
//! Each test starts itself again. That process runs a whole robot (loop, recorder, statistics) on the machine's clock; once
//! the robot is under control the loop's own thread takes a seccomp filter upon itself, which it cannot get rid of, and
//! has to live through 200 more ticks. `docs/proofs.md` has the list for people.
#![allow(clippy::unwrap_used, clippy::print_stderr)]
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use khz_controllers::Hold;
use khz_emu::serve::{Endpoint, Server};
use khz_file::RobotConfig;
use khz_loop::controller::Pipelined;
use khz_loop::{ControlError, Controller, RobotState, ServoCommand};
use khz_robot::assemble;
use khz_robot::launch::{Launch, LaunchOptions};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Names the robot that the process started again has to run.
const ROBOT: &str = "KHZ_CONFINED_ROBOT";
/// Ticks under control before the filter, and with it.
const FREE: u32 = 20;
const CONFINED: u32 = 200;

/// Of every tick: the thread's own clock, sleeping, and the thread monitor, which reads what its thread got of its CPU.
const ALWAYS: [i64; 4] =
    [libc::SYS_clock_gettime, libc::SYS_clock_nanosleep, libc::SYS_getrusage, libc::SYS_pread64];
/// Of links over serial ports; also `ioctl`, but only to ask how much the kernel still holds ([`filter`]).
const SERIAL: [i64; 3] = [libc::SYS_read, libc::SYS_write, libc::SYS_ioctl];
/// Of links over UDP.
const UDP: [i64; 2] = [libc::SYS_sendto, libc::SYS_recvmmsg];
/// Of `loop.receive = "poll"`.
const POLL: [i64; 1] = [libc::SYS_ppoll];

/// What a tick of this robot may call. A pipelined controller is woken by one call more.
fn filter(calls: &[i64], wakes: bool) -> BpfProgram {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = calls.iter().map(|&call| (call, Vec::new())).collect();
    let only = |command, value| {
        let condition = SeccompCondition::new(1, SeccompCmpArgLen::Dword, command, value).unwrap();
        vec![SeccompRule::new(vec![condition]).unwrap()]
    };
    if let Some(ioctl) = rules.get_mut(&libc::SYS_ioctl) {
        *ioctl = only(SeccompCmpOp::Eq, libc::TIOCOUTQ);
    }
    if wakes {
        rules.insert(libc::SYS_futex, only(SeccompCmpOp::MaskedEq(0x7f), libc::FUTEX_WAKE as u64));
    }
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, arch);
    filter.unwrap().try_into().unwrap()
}

/// Confines the loop's thread, then counts its ticks.
struct Confining {
    inner: Box<dyn Controller>,
    filter: BpfProgram,
    ticks: u32,
    done: Arc<AtomicBool>,
    /// Breaks the rule, to show that it is kept.
    forbidden: bool,
}

impl Controller for Confining {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.inner.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.ticks += 1;
        if self.ticks == FREE {
            apply_filter(&self.filter).map_err(|_| "the kernel takes no filter")?;
        }
        if self.ticks > FREE && self.forbidden {
            let _ = std::fs::metadata("/");
        }
        if self.ticks == FREE + CONFINED {
            self.done.store(true, Ordering::Release);
        }
        self.inner.update(state, commands)
    }
}

/// Nothing here depends on how fast the machine is.
fn robot(name: &str) -> (String, Vec<i64>) {
    let device = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (link, receive, calls): (_, _, &[&[i64]]) = match name {
        "udp" => (format!("link = \"udp\"\naddress = \"{device}\""), "spin", &[&UDP]),
        "udp_poll" => (format!("link = \"udp\"\naddress = \"{device}\""), "poll", &[&UDP, &POLL]),
        "fdcanusb" => ("link = \"fdcanusb\"\npath = \"PATH\"".to_owned(), "spin", &[&SERIAL]),
        _ => ("link = \"emulated\"".to_owned(), "spin", &[]),
    };
    let file = format!(
        "[loop]\nrate_hz = 100\nbus_deadline_us = 9000\nlock_memory = false\npolicy = \"other\"\nreceive = \"{receive}\"\n\
         [bus.main]\n{link}\n[log]\npath = \"LOG\"\n\
         [supervisor]\nanswer_s = 60.0\nanswer_ticks = 1\nmissed_replies = 100000\nstale_ms = 100000.0\n\
         overruns = 100000\ncontroller_slow = 100000\nreactions = {{ overruns = \"warn\" }}\n\
         [[servo]]\nname = \"knee\"\nbus = \"main\"\nid = 1\nwatchdog_s = 10.0\n"
    );
    (file, [&ALWAYS[..], &calls.concat()].concat())
}

/// Serves the devices of a robot that is not emulated within the loop, and returns its file with the device's path.
fn serve(name: &str, file: String) -> String {
    let placeholder = RobotConfig::parse(&file, "test").unwrap();
    let endpoint = match name {
        "fdcanusb" => Endpoint::Terminal,
        "udp" | "udp_poll" => {
            let address = file.split("address = \"").nth(1).unwrap().split('"').next().unwrap();
            Endpoint::Udp(address.parse().unwrap())
        }
        _ => return file,
    };
    let mut server = Server::at(placeholder.emulate().unwrap(), &[endpoint]).unwrap();
    let path = server.endpoints().next().unwrap().display().to_string();
    std::thread::spawn(move || server.run(&AtomicBool::new(false), None));
    file.replace("PATH", &path)
}

/// Runs the robot and never returns.
fn confined(name: &str) -> ! {
    let folder = tempfile::tempdir().unwrap();
    let (file, calls) = robot(name);
    let file = serve(name, file).replace("LOG", &folder.path().join("run.tlog").display().to_string());
    let config = RobotConfig::parse(&file, "test").unwrap();
    let pipelined = name == "pipelined";
    let inner: Box<dyn Controller> = if pipelined {
        Box::new(Pipelined::new(Box::new(Hold::default()), &assemble::state(&config), || ()).unwrap())
    } else {
        Box::new(Hold::default())
    };
    let done = Arc::new(AtomicBool::new(false));
    let controller = Confining {
        inner,
        filter: filter(&calls, pipelined),
        ticks: 0,
        done: Arc::clone(&done),
        forbidden: name == "forbidden",
    };
    let launch = Launch::start(
        &config,
        &file,
        LaunchOptions { controller: Some(Box::new(controller)), ..LaunchOptions::default() },
    )
    .unwrap();
    while !done.load(Ordering::Acquire) {
        if launch.session.is_over() {
            let outcome = launch.wait().map(|outcome| outcome.stats.transitions);
            eprintln!("the robot came down before its time: {outcome:?}");
            std::process::exit(3);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // The loop's thread can no longer end: that takes calls that are no tick's.
    drop(folder);
    std::process::exit(0);
}

/// Runs the test of this name again as a process that runs the robot; gives the signal that ended it.
fn run_confined(test: &str, name: &str) -> Option<i32> {
    if let Ok(robot) = std::env::var(ROBOT) {
        confined(&robot);
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let child = command.args([test, "--exact", "--nocapture"]).env(ROBOT, name).output().unwrap();
    let stderr = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.signal().is_some() || child.status.success(), "{name}: {}: {stderr}", child.status);
    child.status.signal()
}

#[test]
fn ticks_of_an_emulated_robot_make_only_listed_system_calls() {
    let killed = run_confined("ticks_of_an_emulated_robot_make_only_listed_system_calls", "emulated");
    assert_eq!(killed, None, "which call it was: strace -f");
}

#[test]
fn ticks_over_udp_make_only_listed_system_calls() {
    for name in ["udp", "udp_poll"] {
        let killed = run_confined("ticks_over_udp_make_only_listed_system_calls", name);
        assert_eq!(killed, None, "{name}; which call it was: strace -f");
    }
}

#[test]
fn ticks_over_a_serial_port_make_only_listed_system_calls() {
    let killed = run_confined("ticks_over_a_serial_port_make_only_listed_system_calls", "fdcanusb");
    assert_eq!(killed, None, "which call it was: strace -f");
}

#[test]
fn ticks_with_a_pipelined_controller_add_one_wake_up() {
    let killed = run_confined("ticks_with_a_pipelined_controller_add_one_wake_up", "pipelined");
    assert_eq!(killed, None, "which call it was: strace -f");
}

#[test]
fn a_tick_that_makes_another_call_is_caught() {
    let killed = run_confined("a_tick_that_makes_another_call_is_caught", "forbidden");
    assert_eq!(killed, Some(libc::SIGSYS));
}
