//! Plays runs in virtual time and writes their logs: `virtual_run ROBOT.toml SCRIPT.json LOG …`, three words a run. Prints a line for
//! each: what `khz run --json` would. With `--reports` first, a second line follows: the verdict of `khz log report`.
//!
//! The script has what goes wrong and when, so its author knows the figures in advance; `tests/oracle` and
//! `tests/dataset` use this.
//! A bus called `sensor` carries the script's frames and nothing else.
#![allow(missing_docs, clippy::print_stdout)]

use khz_file::RobotConfig;
use khz_link::replay::Replay;
use khz_link::trace::{Traced, Way};
use khz_link::{Link, Received};
use khz_loop::controller::{Controller, Decision};
use khz_loop::run::{RunOptions, RunStats, run};
use khz_loop::state::RobotState;
use khz_loop::time::{Freeze, Time, VirtualTime};
use khz_loop::{ControlError, ServoCommand};
use khz_report::run::{RunSummary, from_log};
use khz_robot::assemble::{self, Links};
use khz_robot::recorder::RecorderBuilder;
use khz_robot::records::{RunLog, robot_record, robot_schema};
use khz_robot::session::Outcome;
use khz_rt::{Cause, Disturbance, Grade, Report};
use khz_wire::Frame;
use std::error::Error;
use std::sync::Arc;

/// What goes wrong in a run. All times in ns of virtual time, which begins at 0.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    /// After so long the robot is brought down.
    duration_ns: i64,
    /// Stretches in which the loop does not get the CPU: when they begin, and how long they last.
    #[serde(default)]
    freezes: Vec<(i64, i64)>,
    /// Why it does not get it, for each of them; without it the cause stays unknown.
    #[serde(default)]
    causes: Vec<Cause>,
    /// Ticks in which the controller takes long: their numbers, and how long.
    #[serde(default)]
    slow: Vec<(u64, i64)>,
    /// Ticks in which something else takes long.
    #[serde(default)]
    held: Vec<Held>,
    /// When the frames that pace the loop come.
    #[serde(default)]
    frames: Vec<i64>,
    /// When virtual time begins, in seconds since 1970. With it, the log has the name of its robot.
    begins_s: Option<i64>,
}

/// A tick in which something takes long.
#[derive(Clone, Copy, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Held {
    /// Its number.
    tick: u64,
    /// What of it.
    part: Part,
    /// How long.
    for_ns: i64,
    /// Who took the time, as the kernel counts it: what is no loss of the CPU is the thread's own.
    cause: Cause,
}

/// A part of a tick that can take long.
#[derive(Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    /// Before the first frame is sent.
    Encode,
    /// While replies are waited for.
    Bus,
    /// In the controller.
    Control,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let reports = words.first().is_some_and(|word| word == "--reports");
    words.drain(..usize::from(reports));
    for run in words.chunks(3) {
        let [robot, script, log] = run else { return Err("ROBOT.toml SCRIPT.json LOG …".into()) };
        println!("{}", one(robot, script, log)?);
        if reports {
            println!("{}", serde_json::to_string(&from_log(&[log.into()])?.data.verdict)?);
        }
    }
    Ok(())
}

fn one(robot: &str, script: &str, log: &str) -> Result<String, Box<dyn Error>> {
    let mut config = RobotConfig::load(robot)?;
    log.clone_into(&mut config.log.path);
    let script = serde_json::from_str(&std::fs::read_to_string(script)?)?;
    let outcome = play(&config, &std::fs::read_to_string(robot)?, script)?;
    Ok(serde_json::to_string(&RunSummary::of(&config, &outcome))?)
}

fn play(config: &RobotConfig, text: &str, script: Script) -> Result<Outcome, Box<dyn Error>> {
    let freezes: Vec<Freeze> =
        script.freezes.iter().map(|&(at_ns, for_ns)| Freeze { at_ns, for_ns }).collect();
    let time = VirtualTime::new(0).frozen(freezes.iter().copied());
    let mut inner = assemble::controller(&config.controller);
    inner.prepare(&assemble::info(config))?;
    let policy = inner.policy();
    let slow = |&(tick, for_ns)| Held { tick, part: Part::Control, for_ns, cause: Cause::Controller };
    let held: Vec<Held> = script.held.iter().copied().chain(script.slow.iter().map(slow)).collect();
    let controller = Slow { inner, time: time.clone(), held: held.clone() };
    let causes = freezes.into_iter().zip(script.causes).collect();
    let mut time = Watched { time, causes, held, ..Watched::default() };
    let links = with_sensor(config, assemble::open_links(config, |world| Box::new(world))?, &script.frames);
    let mut machine = assemble::put_together(config, Box::new(controller), links);
    machine.forgive_hold_ups();
    machine.make_ready(&mut time)?;
    // Whatever that took: the scripts are written for ticks that start at whole periods.
    let (ready_ns, period_ns) = (time.now_ns(), config.timing.period_ns());
    time.wait_for_tick((ready_ns + period_ns - 1) / period_ns * period_ns);
    let mut builder = RecorderBuilder::new(config.log.clone()).epoch_ns(0);
    if let Some(begins_s) = script.begins_s {
        builder = builder.epoch_ns(begins_s * 1_000_000_000).virtual_time(0);
    }
    let mut log = RunLog::declare(&mut builder, config)?;
    if let Some(policy) = &policy {
        log = log.with_decisions(&mut builder, policy)?;
    }
    let robot = script.begins_s.map(|_| builder.record("robot", &robot_schema())).transpose()?;
    let mut side = builder.tap(1 << 20);
    let recorder = builder.start()?;
    if let Some(robot) = robot {
        side.push(robot, 0, &robot_record(config, text, "{}", ""));
    }
    let timing = &config.timing;
    let options = RunOptions::of(timing, Some(script.duration_ns), Arc::default());
    let mut stats = RunStats::new(timing.late_ns());
    run(&mut machine, &mut time, &options, &mut [&mut stats, &mut log]);
    let grants = Report { thread: "virtual".into(), grade: Grade::RealTime, settings: Vec::new() };
    Ok(Outcome { recording: Some(recorder.finish()), ..Outcome::of(machine, stats, grants) })
}

/// The robot's links, and one more for the bus called `sensor`, if there is one.
fn with_sensor(config: &RobotConfig, mut links: Links, frames_ns: &[i64]) -> Links {
    if let Some(bus) = config.buses.iter().position(|bus| bus.name == "sensor") {
        links.places[bus] = (links.links.len(), 0);
        links.links.push(sensor(config.timing.pace_id.unwrap_or_default(), frames_ns));
    }
    links
}

fn sensor(id: u32, frames_ns: &[i64]) -> Box<dyn Link> {
    let traced = |way, at_ns| {
        let frame = Frame::new(id, &[1])?;
        Some(Traced { way, item: Received { channel: 0, at_ns, frame } })
    };
    // A trace is played from its first frame on, and virtual time begins at 0.
    let begin = traced(Way::Sent, 0);
    let frames = frames_ns.iter().map(|&at_ns| traced(Way::Received, at_ns));
    let trace: Vec<Traced> = [begin].into_iter().chain(frames).flatten().collect();
    Box::new(Replay::new(&trace))
}

/// Virtual time in which the kernel knows why the loop did not get the CPU.
#[derive(Default)]
struct Watched {
    time: VirtualTime,
    causes: Vec<(Freeze, Cause)>,
    held: Vec<Held>,
    woke: Disturbance,
    /// Ticks that have begun.
    ticks: u64,
    /// Looks at the clock, and waits, since the tick began; none after its bus cycle.
    looks: Option<(u32, u32)>,
}

impl Watched {
    /// What is held up in this tick.
    fn held(&self) -> impl Iterator<Item = &Held> {
        self.held.iter().filter(|held| held.tick + 1 == self.ticks)
    }

    fn hold(&self, part: Part) {
        self.held().filter(|held| held.part == part).for_each(|held| self.time.elapse(held.for_ns));
    }
}

/// The thread's counters after it.
fn counted(so_far: Disturbance, held: &Held) -> Disturbance {
    const FAULT_NS: i64 = 2_500;
    let ns = held.for_ns;
    match held.cause {
        Cause::Preempted => Disturbance {
            away_ns: so_far.away_ns + ns,
            queued_ns: so_far.queued_ns + ns,
            involuntary: so_far.involuntary + 1,
            ..so_far
        },
        Cause::Blocked => Disturbance { away_ns: so_far.away_ns + ns, blocked: so_far.blocked + 1, ..so_far },
        Cause::Unaccounted => Disturbance { away_ns: so_far.away_ns + ns, ..so_far },
        Cause::PageFault => Disturbance {
            faults_ns: so_far.faults_ns + ns,
            minor_faults: so_far.minor_faults + (ns / FAULT_NS) as u32,
            ..so_far
        },
        _ => so_far,
    }
}

impl Time for Watched {
    fn now_ns(&mut self) -> i64 {
        if let Some((looks, _)) = &mut self.looks {
            *looks += 1;
            // The second ends the encoding.
            if *looks == 2 {
                self.hold(Part::Encode);
            }
        }
        self.time.now_ns()
    }

    fn wait_for_tick(&mut self, at_ns: i64) {
        self.time.wait_for_tick(at_ns);
    }

    fn pass(&mut self, until_ns: i64, links: &[Box<dyn Link>]) {
        if let Some((_, waits)) = &mut self.looks {
            *waits += 1;
            if *waits == 1 {
                self.hold(Part::Bus);
            }
        }
        self.time.pass(until_ns, links);
    }

    fn collected(&mut self) {
        self.looks = None;
    }

    fn away_in_cycle_ns(&self) -> i64 {
        let in_cycle = self.held().filter(|held| held.part != Part::Control);
        in_cycle.fold(Disturbance::default(), counted).away_ns
    }

    fn woke(&mut self, now_ns: i64, late_ns: i64, _: i64) {
        (self.ticks, self.looks) = (self.ticks + 1, Some((0, 0)));
        let ended_now = |(freeze, _): &&(Freeze, Cause)| freeze.at_ns + freeze.for_ns == now_ns;
        let cause = self.causes.iter().find(ended_now).map(|(_, cause)| *cause);
        self.woke = match cause {
            Some(Cause::Preempted) => Disturbance { queued_before_ns: late_ns, ..Disturbance::default() },
            Some(Cause::Blocked) => Disturbance { blocked_before: 1, ..Disturbance::default() },
            Some(Cause::PageFault) => {
                Disturbance { blocked_before: 1, major_faults: 1, ..Disturbance::default() }
            }
            _ => Disturbance::default(),
        };
    }

    fn disturbance(&mut self) -> Disturbance {
        self.held().fold(self.woke, counted)
    }
}

/// A controller that takes long in some ticks.
struct Slow {
    inner: Box<dyn Controller>,
    time: VirtualTime,
    held: Vec<Held>,
}

impl Controller for Slow {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.inner.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let now = self.held.iter().filter(|held| held.part == Part::Control && held.tick == state.tick);
        now.for_each(|held| self.time.elapse(held.for_ns));
        self.inner.update(state, commands)
    }

    fn decided(&self) -> Option<&Decision> {
        self.inner.decided()
    }
}
