//! A robot file tried out before it is relied on: its emulated machine in virtual time, from the start until it has been controlled
//! for a while.
//!
//! The frames are those of a run and share their wires, so this finds what a prediction leaves out: start-up, arbitration, replies
//! that are late by chance. Adapters and networks have no emulated counterpart: the time that the prediction has for them is taken off
//! the bus deadline.

use crate::costs::Inputs;
use crate::plan::TickPlan;
use khz_file::RobotConfig;
use khz_loop::run::{Observer, RunOptions, Tick, run};
use khz_loop::supervisor::{Arming, Cause, Phase};
use khz_loop::tick::Machine;
use khz_loop::time::{LAST_LOOK_NS, VirtualTime};
use khz_page::duration;
use khz_robot::assemble;
use serde::Serialize;
use std::sync::Arc;

/// Of virtual time: long enough for what comes up seldom in a cycle.
const TRIED_NS: i64 = 600_000_000;
/// At low rates so many ticks, …
const LEAST_TICKS: i64 = 100;
/// … within this.
const MOST_NS: i64 = 10_000_000_000;

/// How a robot did in virtual time. Its bus cycles are without what adapters and networks take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Trial {
    /// The median bus cycle under control; 0 if it never was.
    pub cycle_ns: i64,
    /// The longest bus cycle under control.
    pub longest_cycle_ns: i64,
    /// The longest bus cycle before control.
    pub start_cycle_ns: i64,
    /// What adapters, networks and the last look take, by the prediction: so much earlier the bus deadline was.
    pub taken_off_ns: i64,
    /// The file asks for faults on its buses, and they were left out.
    pub without_faults: bool,
    /// Why the file does not work; `None` if it does.
    pub failure: Option<String>,
}

impl Trial {
    /// Tries a robot. Takes some tenths of a second of the CPU.
    pub fn of(robot: &RobotConfig) -> Self {
        let taken_off_ns = not_emulated_ns(robot) + LAST_LOOK_NS;
        let mut robot = robot.clone();
        let deadline_ns = robot.timing.bus_deadline_ns() - taken_off_ns;
        robot.timing.bus_deadline_us = Some(deadline_ns as f64 / 1e3);
        // There is no operator to arm it, and motion is no evidence about the buses.
        (robot.supervisor.arming, robot.body) = (Arming::Automatic, None);
        let without_faults = robot.buses.iter().any(|bus| !bus.faults.script(0, true).is_empty());
        let tried = machine(&robot).map(|machine| tried(&robot, machine));
        let tried = tried.unwrap_or_else(|failure| Self { failure: Some(failure), ..Self::default() });
        Self { taken_off_ns, without_faults, ..tried }
    }

    /// For a terminal: how it went.
    pub fn text(&self) -> String {
        let faults = if self.without_faults {
            "\n  without the faults that the file asks for on its buses"
        } else {
            ""
        };
        if let Some(failure) = &self.failure {
            return format!("it fails in virtual time: {failure}{faults}");
        }
        let [cycle, longest, start] =
            [self.cycle_ns, self.longest_cycle_ns, self.start_cycle_ns].map(|ns| duration(ns as f64));
        format!(
            "tried in virtual time: cycle {cycle}, at the latest {longest}, before control {start}; no reply missed{faults}"
        )
    }
}

fn machine(robot: &RobotConfig) -> Result<Machine, String> {
    let world = robot.emulate().map_err(|error| error.to_string())?;
    let mut controller = assemble::controller(&robot.controller);
    controller.prepare(&assemble::info(robot)).map_err(|error| error.to_string())?;
    Ok(assemble::machine_on(robot, controller, Box::new(world)))
}

/// What a cycle has that no emulated machine takes, by the prediction.
fn not_emulated_ns(robot: &RobotConfig) -> i64 {
    let real_ns = TickPlan::of(robot, Inputs::of(robot)).longest_ns();
    (real_ns - TickPlan::emulated(robot).longest_ns()).max(0)
}

fn tried(robot: &RobotConfig, mut machine: Machine) -> Trial {
    let (period_ns, mut time) = (robot.timing.period_ns(), VirtualTime::new(0));
    if let Err(error) = machine.make_ready(&mut time) {
        return Trial { failure: Some(error.to_string()), ..Trial::default() };
    }
    let options = RunOptions {
        period_ns,
        overrun: robot.timing.overrun,
        frame_patience_ns: None,
        duration_ns: Some((LEAST_TICKS * period_ns).clamp(TRIED_NS, MOST_NS)),
        stop: Arc::default(),
    };
    let mut seen = Seen::default();
    run(&mut machine, &mut time, &options, &mut [&mut seen]);
    let longest_cycle_ns = seen.cycles.iter().copied().max().unwrap_or(0);
    Trial {
        failure: seen.failure(robot, &machine),
        cycle_ns: median(seen.cycles),
        longest_cycle_ns,
        start_cycle_ns: seen.start_ns,
        ..Trial::default()
    }
}

fn median(mut cycles: Vec<i64>) -> i64 {
    cycles.sort_unstable();
    cycles.get(cycles.len() / 2).copied().unwrap_or(0)
}

fn because(why: Option<Cause>, robot: &RobotConfig) -> String {
    let Some(cause) = why else { return String::new() };
    match cause.servo().and_then(|servo| robot.servos.get(usize::from(servo))) {
        Some(servo) => format!(": {cause} ({})", servo.name),
        None => format!(": {cause}"),
    }
}

/// What an observer sees of the run.
#[derive(Default)]
struct Seen {
    /// The bus cycles under control.
    cycles: Vec<i64>,
    start_ns: i64,
    /// Replies missed and late in these.
    missed: u64,
    late: u64,
}

impl Observer for Seen {
    fn tick(&mut self, tick: &Tick<'_>) {
        let cycle_ns = tick.record.cycle_ns;
        if tick.record.controlled {
            let result = tick.machine.result();
            self.cycles.push(cycle_ns);
            self.missed += u64::from(result.missed);
            self.late += u64::from(result.late);
        } else if self.cycles.is_empty() {
            self.start_ns = self.start_ns.max(cycle_ns);
        }
    }
}

impl Seen {
    fn failure(&self, robot: &RobotConfig, machine: &Machine) -> Option<String> {
        let supervisor = machine.supervisor();
        if self.cycles.is_empty() {
            let why = supervisor.lack().or(supervisor.blame());
            return Some(format!("it does not come under control{}", because(why, robot)));
        }
        if machine.phase() == Phase::Fault {
            return Some(format!("it is brought down{}", because(supervisor.blame(), robot)));
        }
        (self.missed + self.late > 0).then(|| {
            let (missed, late, ticks) = (self.missed, self.late, self.cycles.len());
            let longest = duration(self.start_ns.max(self.cycles.iter().copied().max().unwrap_or(0)) as f64);
            format!(
                "{missed} replies missed and {late} late in {ticks} ticks; the longest cycle took {longest}"
            )
        })
    }
}
