//! A loop that is paced by frames which come too often.

use super::defect::Defect;
use super::faulty_controller;
use super::fleet::ScenarioRobot;
use super::line::FOREIGN;
use super::rig::{Rig, Set};
use super::scenario::Scenario;
use super::violation::{Invariant, Violated};
use khz_loop::run::{Observer, RunOptions, Tick, run};
use khz_loop::time::VirtualTime;
use std::sync::Arc;

/// Ticks over which the rate is measured.
const WINDOW: usize = 50;
/// The loop may be so much faster than its rate, and jitter may bring two ticks more.
const TOLERANCE: f64 = 1.05;
/// See [`TOLERANCE`].
const JITTER: f64 = 2.0;
/// How long a run lasts, ticks.
const TICKS: i64 = 400;

/// Starts of ticks.
struct Starts(Vec<i64>);

impl Observer for Starts {
    fn tick(&mut self, tick: &Tick<'_>) {
        self.0.push(tick.record.started_ns);
    }
}

/// Runs `robot`, whose first bus carries frames that pace it, `percent` of its rate.
pub fn check(
    robot: &ScenarioRobot,
    scenario: &Scenario,
    percent: u16,
    defect: &dyn Defect,
) -> Result<(), Violated> {
    let mut config = robot.file.clone();
    config.timing.pace_bus = Some(config.buses[0].name.clone());
    config.timing.pace_id = Some(FOREIGN);
    let period_ns = config.timing.period_ns();
    let world =
        robot.world().map_err(|error| Violated { invariant: Invariant::Panics, what: error.to_string() })?;
    let set = Set { world, config: &config, supervised: &robot.supervised, monitor: None, defect };
    let controller = faulty_controller::controller(scenario.style, &config);
    let mut time = VirtualTime::new(0);
    let mut rig = Rig::on(set, controller, &[], time.clone());
    rig.flood(0, (config.timing.rate_hz * f64::from(percent) * 0.01) as i64);
    let options = RunOptions {
        period_ns: defect.period_ns(period_ns),
        overrun: khz_rt::Overrun::Skip,
        frame_patience_ns: Some(config.timing.pace_patience_ns()),
        duration_ns: Some(TICKS * period_ns),
        stop: Arc::default(),
    };
    let mut starts = Starts(Vec::new());
    run(&mut rig.machine, &mut time, &options, &mut [&mut starts]);
    let least_ns = ((WINDOW as f64 - JITTER) * period_ns as f64 / TOLERANCE) as i64;
    match starts.0.windows(WINDOW + 1).find(|window| window[WINDOW] - window[0] < least_ns) {
        Some(window) => {
            let hz = WINDOW as f64 / (window[WINDOW] - window[0]) as f64 * 1e9;
            let what = format!("the loop of {} Hz runs at {hz:.0} Hz", config.timing.rate_hz);
            Violated::by(Invariant::Rate, what)
        }
        None => Ok(()),
    }
}
