//! Whether a late tick is explained by what made it late: each cause produced alone, and the tool's answers counted.
//!
//! A real loop of two emulated servos runs at 1 kHz at SCHED_FIFO 80 on one CPU. Of each cause the bench knows which ticks it
//! made late: by their number, where the controller does it, else by how long it takes. What else made ticks late meanwhile
//! (the machine is shared) is not counted. Hypervisor and firmware cannot be produced.
#![allow(clippy::print_stdout)] // The matrix on standard output is what the bench is for.

use anyhow::{Context, Result, ensure};
use khz_bench::Bench;
use khz_controllers::Hold;
use khz_file::RobotConfig;
use khz_loop::controller::Controller;
use khz_loop::state::RobotState;
use khz_loop::time::Receive;
use khz_loop::{ControlError, ServoCommand};
use khz_robot::assemble;
use khz_robot::session::{Outcome, Session, SessionSettings};
use khz_rt::late::LateTick;
use khz_rt::{Cause, DISTURBED_NS, Overrun, Policy, Setup, Sleeps, ThreadMonitor, Wake, now_ns};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const ROBOT: &str = r#"
[robot]
name = "pair"
[loop]
bus_deadline_us = 800
[bus.main]
link = "emulated"
[[servo]]
name = "one"
bus = "main"
id = 1
[[servo]]
name = "two"
bus = "main"
id = 2
[servo_defaults]
watchdog_s = 30.0
[supervisor]
damping_s = 0.2
overruns = 100000
[supervisor.reactions]
missed_replies = "warn"
stale = "warn"
controller = "warn"
overruns = "warn"
"#;

const MS: i64 = 1_000_000;
/// A cause is at work in every hundredth tick, once the loop has learnt what is usual.
const EVERY: u64 = 100;
const FROM: u64 = 500;

/// What the controller does in every hundredth tick.
type Fault = Box<dyn FnMut() + Send>;

struct Faulty {
    hold: Hold,
    fault: Fault,
}

impl Controller for Faulty {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.hold.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        if state.tick >= FROM && state.tick.is_multiple_of(EVERY) {
            (self.fault)();
        }
        self.hold.update(state, commands)
    }
}

/// A loop to be disturbed.
struct Scenario {
    seconds: i64,
    overrun: Overrun,
    robot: String,
    fault: Fault,
}

impl Scenario {
    fn new(bench: &Bench, fault: impl FnMut() + Send + 'static) -> Self {
        let seconds = (bench.rounds(40) as i64).max(4) / 4;
        Self { seconds, overrun: Overrun::Skip, robot: ROBOT.to_owned(), fault: Box::new(fault) }
    }

    fn run(self) -> Result<Outcome> {
        let config = RobotConfig::parse(&self.robot, "attribution")?;
        let controller = Faulty { hold: Hold::default(), fault: self.fault };
        let machine = assemble::machine(&config, Box::new(controller))?;
        let settings = SessionSettings {
            clock: khz_loop::timing::Clock::Real,
            // Unlocked, so that fresh memory is not there before it is touched.
            setup: Setup { cpu: Some(cpu()), lock_memory: false, ..Setup::default() },
            wake: Wake::Hybrid,
            receive: Receive::Spin,
            period_ns: MS,
            overrun: self.overrun,
            frame_patience_ns: None,
            late_ns: MS / 10,
            duration_ns: Some((self.seconds + 1) * 1000 * MS),
        };
        Ok(Session::start(machine, Vec::new(), settings, Arc::default())?.wait()?)
    }
}

/// The last CPU.
fn cpu() -> usize {
    std::thread::available_parallelism().map_or(0, |count| count.get() - 1)
}

/// The tool's answers to the ticks that a cause made late.
fn answers(late: &[LateTick], theirs: impl Fn(&LateTick) -> bool) -> Vec<Cause> {
    late.iter().filter(|tick| theirs(tick)).map(LateTick::cause).collect()
}

fn by_number(tick: &LateTick) -> bool {
    tick.number >= FROM && tick.number.is_multiple_of(EVERY)
}

fn lasting(ns: Range<i64>) -> impl Fn(&LateTick) -> bool {
    move |tick| ns.contains(&(tick.response_ns - tick.usual_ns))
}

fn busy(ns: i64) {
    let until_ns = now_ns() + ns;
    while now_ns() < until_ns {
        std::hint::spin_loop();
    }
}

/// Another thread does something beside the loop until dropped.
struct Beside(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Beside {
    fn start(mut work: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !theirs.load(Ordering::Relaxed) {
                work();
            }
        });
        Self(stop, Some(thread))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(std::thread::JoinHandle::join);
    }
}

fn sleeping(bench: &Bench) -> Result<Vec<Cause>> {
    let outcome = Scenario::new(bench, || std::thread::sleep(Duration::from_micros(400))).run()?;
    Ok(answers(&outcome.stats.worst(), by_number))
}

fn locked(bench: &Bench) -> Result<Vec<Cause>> {
    let lock = Arc::new(Mutex::new(()));
    let theirs = Arc::clone(&lock);
    // Held nearly always; a waiting thread gets it at its next release.
    let holder = Beside::start(move || {
        let held = theirs.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::sleep(Duration::from_micros(900));
        drop(held);
        std::thread::sleep(Duration::from_micros(100));
    });
    let take = move || drop(lock.lock().unwrap_or_else(PoisonError::into_inner));
    let outcome = Scenario::new(bench, take).run()?;
    drop(holder);
    Ok(answers(&outcome.stats.worst(), by_number))
}

/// A controller in Python beside a Python thread that holds the interpreter, in its own process.
fn interpreter(bench: &Bench) -> Result<Vec<Cause>> {
    const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/interpreter.py");
    let python = std::env::var_os("PYTHON").context("start it with `cargo xtask bench attribution`")?;
    let folder = tempfile::tempdir()?;
    let robot = folder.path().join("robot.toml");
    std::fs::write(&robot, ROBOT.replace("[loop]", &format!("[loop]\ncpu = {}", cpu())))?;
    let seconds = (Scenario::new(bench, || ()).seconds + 1).to_string();
    let output = Command::new(python).arg(SCRIPT).arg(&robot).arg(seconds).output()?;
    ensure!(output.status.success(), "{SCRIPT}: {}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout)?;
    lines.lines().map(|cause| Ok(serde_json::from_str(cause)?)).collect()
}

fn computing(bench: &Bench) -> Result<Vec<Cause>> {
    let outcome = Scenario::new(bench, || busy(MS * 4 / 10)).run()?;
    Ok(answers(&outcome.stats.worst(), by_number))
}

fn previous(bench: &Bench) -> Result<Vec<Cause>> {
    let scenario = Scenario::new(bench, || busy(MS * 3 / 2));
    // Each makes two ticks late, and a hundred late ticks are kept.
    let seconds = scenario.seconds.min(4);
    let outcome = Scenario { overrun: Overrun::RunLateOnce, seconds, ..scenario }.run()?;
    Ok(answers(&outcome.stats.worst(), |tick| by_number(&LateTick { number: tick.number - 1, ..*tick })))
}

fn faulting(bench: &Bench) -> Result<Vec<Cause>> {
    let mut kept = Vec::new();
    let grow = move || {
        let mut fresh = vec![0u8; 1600 * 1024];
        fresh.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        kept.push(fresh);
    };
    let outcome = Scenario::new(bench, grow).run()?;
    Ok(answers(&outcome.stats.worst(), by_number))
}

fn preempted(bench: &Bench) -> Result<Vec<Cause>> {
    let mut granted = None;
    let competitor = Beside::start(move || {
        granted.get_or_insert_with(|| {
            Setup {
                policy: Policy::Fifo,
                priority: 90,
                cpu: Some(cpu()),
                lock_memory: false,
                ..Setup::default()
            }
            .apply()
            .ok()
        });
        std::thread::sleep(Duration::from_millis(97));
        busy(3 * MS);
    });
    let outcome = Scenario::new(bench, || ()).run()?;
    drop(competitor);
    Ok(answers(&outcome.stats.worst(), lasting(MS..4 * MS)))
}

fn silent(bench: &Bench) -> Result<Vec<Cause>> {
    let mut scenario = Scenario::new(bench, || ());
    let silence = |n: i64| {
        format!("{{ at_s = {:.3}, for_s = 0.0015, kind = \"silence\", id = 1 }}", 0.5 + n as f64 / 10.0)
    };
    let events: Vec<String> = (0..scenario.seconds * 10).map(silence).collect();
    scenario.robot += &format!("[bus.main.faults]\nevents = [{}]\n", events.join(", "));
    let outcome = scenario.run()?;
    // Silent every 100 ms for 1.5 ms, about from the start of the loop on.
    let first_ns = outcome.stats.counter.first_ns();
    let meanwhile =
        |tick: &LateTick| !(5 * MS..97 * MS).contains(&(tick.at_ns - first_ns).rem_euclid(100 * MS));
    let long = lasting(MS * 3 / 10..MS * 6 / 10);
    Ok(answers(&outcome.stats.worst(), |tick| meanwhile(tick) && long(tick)))
}

/// The loop in its own process, which prints its late ticks at the end.
fn child(bench: &Bench) -> Result<()> {
    for tick in Scenario::new(bench, || ()).run()?.stats.worst() {
        println!("{} {}", tick.response_ns - tick.usual_ns, serde_json::to_string(&tick.cause())?);
    }
    Ok(())
}

fn stopped(bench: &Bench) -> Result<Vec<Cause>> {
    const STOPPED: Duration = Duration::from_millis(7);
    let quick = std::env::args().filter(|word| word == "--quick");
    let mut process =
        Command::new(std::env::current_exe()?).arg("--child").args(quick).stdout(Stdio::piped()).spawn()?;
    let pid = Pid::from_child(&process);
    std::thread::sleep(Duration::from_millis(1000));
    for _ in 0..Scenario::new(bench, || ()).seconds * 8 {
        kill_process(pid, Signal::STOP)?;
        std::thread::sleep(STOPPED);
        kill_process(pid, Signal::CONT)?;
        std::thread::sleep(Duration::from_millis(93));
    }
    let mut causes = Vec::new();
    for line in BufReader::new(process.stdout.take().context("no output")?).lines() {
        let line = line?;
        let (excess_ns, cause) = line.split_once(' ').context("not as the child prints it")?;
        if (5 * MS..9 * MS).contains(&excess_ns.parse::<i64>()?) {
            causes.push(serde_json::from_str(cause)?);
        }
    }
    ensure!(process.wait()?.success(), "the stopped loop failed");
    Ok(causes)
}

/// What reading the thread's counters costs a tick: after a late wake, when they are read there too, and at its end.
fn cost(bench: &Bench) {
    let mut monitor = ThreadMonitor::new();
    let (mut woke, mut done) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds(20_000) {
        let from_ns = now_ns();
        monitor.woke(from_ns, DISTURBED_NS, 0);
        let woke_ns = now_ns();
        std::hint::black_box(monitor.done(woke_ns, Sleeps::START));
        woke.push((woke_ns - from_ns) as f64);
        done.push((now_ns() - woke_ns) as f64);
    }
    let [woke, done] = [woke, done].map(|costs| khz_bench::Samples::new(costs).median());
    bench.figure("attribution_witness_woke_p50", woke, "ns", 3_000.0);
    bench.figure("attribution_witness_done_p50", done, "ns", 3_000.0);
}

type Produce = fn(&Bench) -> Result<Vec<Cause>>;

fn main() -> Result<()> {
    let bench = Bench::from_args();
    if std::env::args().any(|word| word == "--child") {
        return child(&bench);
    }
    let causes: [(&str, Cause, Produce); 9] = [
        ("process stopped for 7 ms", Cause::Blocked, stopped),
        ("thread at FIFO 90 on the same CPU, 3 ms", Cause::Preempted, preempted),
        ("400 fresh pages touched", Cause::PageFault, faulting),
        ("controller sleeps 0.4 ms", Cause::Blocked, sleeping),
        ("controller waits for a lock", Cause::Blocked, locked),
        ("another Python thread's call holds the interpreter, 3 ms", Cause::Blocked, interpreter),
        ("controller computes 0.4 ms", Cause::Controller, computing),
        ("tick before took 1.5 ms more", Cause::PreviousTick, previous),
        ("a servo is silent for a tick", Cause::Bus, silent),
    ];
    println!("| produced | right answer | {} | right |", Cause::ALL.map(Cause::name).join(" | "));
    println!("|---|---|{}---|", "---|".repeat(Cause::ALL.len()));
    let (mut right, mut all) = (0, 0);
    for (name, expected, produce) in causes {
        let mut counts = BTreeMap::new();
        let answers = produce(&bench).with_context(|| name.to_owned())?;
        answers.iter().for_each(|cause| *counts.entry(cause.name()).or_insert(0) += 1);
        let count = |cause: Cause| counts.get(cause.name()).copied().unwrap_or(0);
        let cells = Cause::ALL.map(|cause| count(cause).to_string()).join(" | ");
        let share = 100.0 * f64::from(count(expected)) / answers.len().max(1) as f64;
        println!("| {name} | {} | {cells} | {share:.0} % |", expected.name());
        (right, all) = (right + count(expected), all + answers.len());
    }
    bench.figure("attribution_wrong", 100.0 * (1.0 - f64::from(right) / all.max(1) as f64), "percent", 10.0);
    cost(&bench);
    Ok(())
}
