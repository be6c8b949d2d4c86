//! Plays a run in virtual time and writes its log: `virtual_run ROBOT.toml SCRIPT.json LOG`. Prints what `khz run --json` would.
//!
//! The script says what goes wrong and when, so whoever wrote it knows the figures in advance; `tests/oracle` and
//! `tests/dataset` do.
//! A bus called `sensor` carries the script's frames and nothing else.
#![allow(missing_docs, clippy::print_stdout)]

use khz_link::replay::Replay;
use khz_link::trace::{Traced, Way};
use khz_link::{Link, Received};
use khz_measure::run::RunSummary;
use khz_robot::assemble::{self, Links};
use khz_robot::controller::Controller;
use khz_robot::launch::{Landed, LiveSummary};
use khz_robot::recorder::Plan;
use khz_robot::records::{RunLog, robot_record, robot_schema};
use khz_robot::run::{RunOptions, RunStats, run};
use khz_robot::session::Outcome;
use khz_robot::state::RobotState;
use khz_robot::time::{Freeze, Time, VirtualTime};
use khz_robot::{ControlError, RobotConfig, ServoCommand};
use khz_rt::{Cause, Disturbance, Grade, Passport, Report, Usage};
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
    freezes: Vec<(i64, i64)>,
    /// Why it does not get it, for each of them; without it nobody knows.
    #[serde(default)]
    causes: Vec<Cause>,
    /// Ticks in which the controller takes long: their numbers, and how long.
    slow: Vec<(u64, i64)>,
    /// When the frames that pace the loop come.
    frames: Vec<i64>,
    /// When virtual time begins, in seconds since 1970. With it, the log says which robot it is of.
    begins_s: Option<i64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [robot, script, log] = &words[..] else { return Err("ROBOT.toml SCRIPT.json LOG".into()) };
    let mut config = RobotConfig::parse(&std::fs::read_to_string(robot)?, robot)?;
    config.log.path.clone_from(log);
    let script = serde_json::from_str(&std::fs::read_to_string(script)?)?;
    let landed = play(&config, &std::fs::read_to_string(robot)?, script)?;
    println!("{}", serde_json::to_string(&RunSummary::of(&config, &landed))?);
    Ok(())
}

fn play(config: &RobotConfig, text: &str, script: Script) -> Result<Landed, Box<dyn Error>> {
    let freezes: Vec<Freeze> =
        script.freezes.iter().map(|&(at_ns, for_ns)| Freeze { at_ns, for_ns }).collect();
    let time = VirtualTime::new(0).frozen(freezes.iter().copied());
    let inner = assemble::controller(&config.controller);
    let controller = Slow { inner, time: time.clone(), slow: script.slow };
    let mut time = Watched {
        time,
        causes: freezes.into_iter().zip(script.causes).collect(),
        woke: Disturbance::default(),
    };
    let links = with_sensor(config, assemble::open_links(config, |world| Box::new(world))?, &script.frames);
    let mut machine = assemble::put_together(config, Box::new(controller), links);
    machine.forgive_hold_ups();
    let mut plan = Plan::new(config.log.clone()).epoch_ns(0);
    if let Some(begins_s) = script.begins_s {
        plan = plan.epoch_ns(begins_s * 1_000_000_000).virtual_time(0);
    }
    let mut log = RunLog::declare(&mut plan, config)?;
    let robot = script.begins_s.map(|_| plan.record("robot", &robot_schema())).transpose()?;
    let mut side = plan.tap(1 << 20);
    let recorder = plan.start()?;
    if let Some(robot) = robot {
        side.push(robot, 0, &robot_record(&config.name, text, "{}", config.timing.clock));
    }
    let timing = &config.timing;
    let options = RunOptions {
        period_ns: timing.period_ns(),
        overrun: timing.overrun,
        frame_patience_ns: timing.pace_bus.as_ref().map(|_| timing.pace_patience_ns()),
        duration_ns: Some(script.duration_ns),
        stop: Arc::default(),
    };
    let mut stats = RunStats::new(timing.late_ns());
    run(&mut machine, &mut time, &options, &mut [&mut stats, &mut log]);
    let outcome = Outcome {
        modules: machine.controller_profile(),
        machine,
        stats,
        windows: Vec::new(),
        stopped_ns: 0,
        grants: Report { thread: "virtual".into(), grade: Grade::Ordinary, settings: Vec::new() },
        passport: Passport::default(),
        usage: Usage::default(),
        unsent: Vec::new(),
    };
    Ok(Landed {
        outcome,
        recording: Some(recorder.finish()),
        parameters: Vec::new(),
        live: LiveSummary::default(),
    })
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
struct Watched {
    time: VirtualTime,
    causes: Vec<(Freeze, Cause)>,
    woke: Disturbance,
}

impl Time for Watched {
    fn now_ns(&mut self) -> i64 {
        self.time.now_ns()
    }

    fn wait_for_tick(&mut self, at_ns: i64) {
        self.time.wait_for_tick(at_ns);
    }

    fn pass(&mut self, until_ns: i64, links: &[Box<dyn Link>]) {
        self.time.pass(until_ns, links);
    }

    fn woke(&mut self, now_ns: i64, late_ns: i64, _: i64) {
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
        self.woke
    }
}

/// A controller that takes long in some ticks.
struct Slow {
    inner: Box<dyn Controller>,
    time: VirtualTime,
    slow: Vec<(u64, i64)>,
}

impl Controller for Slow {
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.inner.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let now = self.slow.iter().filter(|(tick, _)| *tick == state.tick);
        now.for_each(|&(_, ns)| self.time.elapse(ns));
        self.inner.update(state, commands)
    }
}
