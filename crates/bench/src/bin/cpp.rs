//! What the C interface costs: time around the callback of a C++ controller, against the same controller in Rust.
//!
//! Both run the emulated quadruped in real time, without log, one after the other in turns; each side is a process of its own,
//! with real-time setup and a cache of its own. The figure is the median over the rounds of the difference of their p99.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)] // The Rust side's figures go to the side that compares.

use anyhow::{Context, Result, ensure};
use khz_bench::{Bench, Samples};
use kilohertz::{ControlError, Controller, PositionCommand, Robot, RobotState, ServoCommand};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cpp/controller.cpp");
const HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../capi/include");
/// How long a run takes.
const SECONDS: &str = "2.0";
/// The word that makes this program the Rust side.
const RUST: &str = "--run-in-rust";

fn main() -> Result<()> {
    if std::env::args().any(|word| word == RUST) {
        return in_rust();
    }
    let bench = Bench::from_args();
    let library = std::env::var_os("KHZ_LIBRARY").context("start it with `cargo xtask bench cpp`")?;
    let folder = tempfile::tempdir()?;
    let program = compiled(Path::new(&library), folder.path())?;
    let mut differences = [Vec::new(), Vec::new()];
    let mut rust = [Vec::new(), Vec::new()];
    let rounds = bench.rounds(40);
    for round in 0..rounds {
        let cpp_first = round % 2 == 0;
        let first = if cpp_first { in_cpp(&program)? } else { by_rust()? };
        let second = if cpp_first { by_rust()? } else { in_cpp(&program)? };
        let (cpp, own) = if cpp_first { (first, second) } else { (second, first) };
        for at in 0..2 {
            differences[at].push(cpp[at] - own[at]);
            rust[at].push(own[at]);
        }
    }
    let [p50, p99] = differences.map(Samples::new);
    let [rust_p50, rust_p99] = rust.map(Samples::new);
    println!(
        "cpp, 12 servos, {rounds} rounds of {SECONDS} s: in Rust p50 {:.2} µs, p99 {:.2} µs; difference of p99 from {:.2} to {:.2} µs",
        rust_p50.median(),
        rust_p99.median(),
        p99.percentile(10.0),
        p99.percentile(90.0)
    );
    bench.figure("cpp_callback_p50_over_rust", p50.median(), "us", 1.0);
    bench.figure("cpp_callback_p99_over_rust", p99.median(), "us", 1.0);
    Ok(())
}

/// The C++ side, compiled, the library within.
fn compiled(library: &Path, folder: &Path) -> Result<PathBuf> {
    let program = folder.join("controller");
    let mut command = Command::new("g++");
    command.args(["-std=c++17", "-O2", "-I", HEADERS, SOURCE, "-o"]).arg(&program);
    command.arg(library.join("libkhz.a")).args(["-lpthread", "-ldl", "-lm"]);
    let status = command.status().context("cannot start g++: is it installed?")?;
    ensure!(status.success(), "{SOURCE} does not compile");
    Ok(program)
}

fn in_cpp(program: &Path) -> Result<[f64; 2]> {
    control(Command::new(program).arg(SECONDS))
}

fn by_rust() -> Result<[f64; 2]> {
    control(Command::new(std::env::current_exe()?).arg(RUST))
}

/// p50 and p99 of the time in the controller, µs.
fn control(command: &mut Command) -> Result<[f64; 2]> {
    let output = command.output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "a run failed: {stderr}");
    let summary: Value = serde_json::from_slice(&output.stdout)?;
    let of = |name: &str| summary["control_ns"][name].as_f64().context("the summary has no control_ns");
    Ok([of("p50")? / 1e3, of("p99")? / 1e3])
}

fn in_rust() -> Result<()> {
    let robot = Robot::quadruped().controller(Swing { found: [0.0; 12] }).no_log();
    let finished = robot.duration(Duration::from_secs_f64(SECONDS.parse()?)).start()?.finish()?;
    finished.ended_well()?;
    println!("{}", serde_json::to_string(&finished.summary)?);
    Ok(())
}

/// As in `cpp/controller.cpp`.
struct Swing {
    found: [f64; 12],
}

impl Controller for Swing {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        for (found, servo) in self.found.iter_mut().zip(&state.servos) {
            *found = servo.position;
        }
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let by = 0.05 * (3.0 * state.time()).sin();
        for ((command, servo), found) in commands.iter_mut().zip(&state.servos).zip(&self.found) {
            let torque = -0.1 * servo.velocity;
            *command =
                ServoCommand::Position(PositionCommand { torque, ..PositionCommand::hold(found + by) });
        }
        Ok(())
    }
}
