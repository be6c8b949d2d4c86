//! How long a second of the quadruped in MuJoCo takes in virtual time, without a log, against MuJoCo's steps alone under the same torques;
//! and a decision of `kilohertz.Env` against MuJoCo alone.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use anyhow::{Context, Result, ensure};
use khz_bench::Bench;
use khz_emu::body::{Body, Drive, Forces, JointState, Trunk};
use khz_emu::{World, twin::STEP_NS};
use khz_file::RobotConfig;
use khz_file::config::RobotBody;
use khz_loop::run::{RunOptions, run};
use khz_loop::time::VirtualTime;
use khz_mujoco::{Binding, Mujoco};
use khz_robot::assemble;
use kilohertz::Robot;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ROBOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/quadruped_mujoco.toml");
const ENVIRONMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/env_bench.py");
const SECONDS: u64 = 10;
/// What a simulated second may take, s: a fifth of real time.
const GOAL_S: f64 = 0.2;

fn main() -> Result<()> {
    let bench = Bench::from_args();
    let config = RobotConfig::load(ROBOT)?;
    let body = config.body.as_ref().and_then(RobotBody::mujoco).context("it is not in MuJoCo")?;
    let plan = config.mujoco_binding(body);
    let torques = torques(&config, &plan)?;
    let width = torques.width;
    let steps = torques.applied.len() / width;
    let simulated_s = steps as f64 * STEP_NS as f64 * 1e-9;
    let whole = || {
        let robot = Robot::load(ROBOT).map(|robot| robot.no_log().virtual_time());
        let robot = robot.map(|robot| robot.duration(Duration::from_secs(SECONDS)));
        let from = Instant::now();
        let finished = robot.and_then(Robot::start).and_then(kilohertz::Run::finish);
        let took = from.elapsed();
        assert!(finished.is_ok_and(|finished| finished.summary.ended_well));
        took.as_secs_f64() / simulated_s
    };
    let alone = || {
        let Ok(mut body) = Mujoco::new(&plan) else { return f64::NAN };
        let from = Instant::now();
        torques.applied.chunks_exact(width).for_each(|applied| body.step_alone(applied));
        from.elapsed().as_secs_f64() / simulated_s
    };
    let (whole, alone) = bench.interleave(20, whole, alone);
    bench.figure("sim_second_p50", whole.median() * 1e3, "ms", GOAL_S * 1e3);
    bench.figure("sim_mj_step_p50", alone.median() * simulated_s / steps as f64 * 1e6, "us", f64::INFINITY);
    bench.ratio("sim_over_mj_step_p50", whole.median() / alone.median(), 2.5);
    let python = std::env::var_os("PYTHON").context("start it with `cargo xtask bench sim`")?;
    let status = Command::new(python).arg(ENVIRONMENT).args(std::env::args().skip(1)).status()?;
    ensure!(status.success(), "the measurement of kilohertz.Env failed: {status}");
    Ok(())
}

/// What the servos applied in every step of a run: so many numbers per step.
struct Torques {
    width: usize,
    applied: Vec<f64>,
}

fn torques(config: &RobotConfig, plan: &Binding) -> Result<Torques> {
    let applied = Arc::new(Mutex::new(Vec::new()));
    let body = Mujoco::new(plan)?;
    let width = body.applied().len();
    let world =
        World::with_body(&config.world(), Box::new(Recorder { body, applied: Arc::clone(&applied) }))?;
    let controller = assemble::controller(&config.controller);
    let mut machine = assemble::machine_on(config, controller, Box::new(world));
    let mut time = VirtualTime::new(0);
    machine.make_ready(&mut time)?;
    let options = RunOptions::of(&config.timing, Some(SECONDS as i64 * 1_000_000_000), Arc::default());
    run(&mut machine, &mut time, &options, &mut []);
    let applied = applied.lock().map(|mut applied| std::mem::take(&mut *applied));
    Ok(Torques { width, applied: applied.unwrap_or_default() })
}

/// Keeps what is applied to the body in each step.
struct Recorder {
    body: Mujoco,
    applied: Arc<Mutex<Vec<f64>>>,
}

impl Body for Recorder {
    fn longest_step_s(&self) -> f64 {
        self.body.longest_step_s()
    }

    fn step(&mut self, dt_s: f64, drives: &[Drive]) {
        self.body.step(dt_s, drives);
        if let Ok(mut applied) = self.applied.lock() {
            applied.extend(self.body.applied());
        }
    }

    fn joints(&self) -> &[JointState] {
        self.body.joints()
    }

    fn trunk(&self) -> Trunk {
        self.body.trunk()
    }

    fn forces(&self) -> Option<Forces> {
        self.body.forces()
    }

    fn failed(&self) -> Option<&str> {
        self.body.failed()
    }
}
