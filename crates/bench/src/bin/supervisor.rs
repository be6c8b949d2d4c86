//! What the supervisor costs in a tick of 12 servos: watching the state, judging it, and keeping commands in limits.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use anyhow::{Result, ensure};
use khz_bench::Bench;
use khz_file::RobotConfig;
use khz_link::ImuSample;
use khz_loop::state::{ImuState, RobotState};
use khz_loop::supervisor::{Observation, Phase, Supervisor};
use khz_loop::{Doing, Fault, Mode, PositionCommand, ServoCommand, ServoState};
use khz_robot::assemble;
use khz_rt::clock::now_ns;
use std::hint::black_box;

const PERIOD_NS: i64 = 1_000_000;
/// Ticks per look at the clock.
const BATCH: usize = 1_000;

fn main() -> Result<()> {
    let bench = Bench::from_args();
    let robot = RobotConfig::quadruped();
    let mut rig = Rig {
        supervisor: assemble::supervisor(&robot),
        state: assemble::state(&robot),
        commands: vec![ServoCommand::Stop; 12],
        positions: robot.servos.iter().map(|servo| servo.joint.start).collect(),
    };
    (0..BATCH).for_each(|_| rig.tick());
    ensure!(
        rig.supervisor.phase() == Phase::Active,
        "the robot is not under control: {:?}",
        rig.supervisor.lack()
    );
    let mut ticks: Vec<f64> = (0..bench.rounds(2_000)).map(|_| rig.batch()).collect();
    ensure!(rig.supervisor.phase() == Phase::Active, "the robot came down");
    ticks.sort_by(f64::total_cmp);
    println!(
        "supervisor, 12 servos, batches of {BATCH} ticks: median {:.0} ns per tick, slowest batch {:.0} ns",
        ticks[ticks.len() / 2],
        ticks[ticks.len() - 1]
    );
    println!("figure supervisor_tick {:.4} us goal 1.0", ticks[ticks.len() / 2] * 1e-3);
    Ok(())
}

/// A robot of twelve servos to which nothing happens.
struct Rig {
    supervisor: Supervisor,
    state: RobotState,
    commands: Vec<ServoCommand>,
    /// Where the joints are, rad: within their limits.
    positions: Vec<f64>,
}

impl Rig {
    /// The mean time of a tick, ns.
    fn batch(&mut self) -> f64 {
        let from_ns = now_ns();
        (0..BATCH).for_each(|_| self.tick());
        (now_ns() - from_ns) as f64 / BATCH as f64
    }

    /// A tick in which every servo and the IMU answer and the controller commands all anew; the filling in is counted.
    fn tick(&mut self) {
        self.state.now_ns += PERIOD_NS;
        let at_ns = self.state.now_ns;
        let is_on = self.supervisor.phase() == Phase::Active;
        for (servo, &position) in self.state.servos.iter_mut().zip(&self.positions) {
            *servo = ServoState {
                position,
                // One that moves, and stays where it is, is noticed.
                velocity: 0.0,
                torque: 0.5,
                voltage: 24.0,
                temperature: 65.0,
                doing: if is_on { Doing::Following } else { Doing::Off },
                mode: Mode::UNKNOWN,
                fault: Fault::NONE,
                refused: None,
                at_ns,
                round_trip_ns: 0,
                fresh: true,
            };
        }
        let sample = ImuSample {
            at_ns,
            attitude: [1.0, 0.0, 0.0, 0.0],
            // One whose readings never change is noticed.
            rate: [f64::from(self.state.tick as u32 % 2) * 1e-3, 0.0, 0.0],
            acceleration: [0.0, 0.0, 9.81],
        };
        self.state.imu = Some(ImuState { sample, fresh: true });
        for (command, &position) in self.commands.iter_mut().zip(&self.positions) {
            *command = ServoCommand::Position(PositionCommand {
                velocity: 0.5,
                torque: 1.0,
                ..PositionCommand::hold(position)
            });
        }
        self.supervisor.observe(&self.state, black_box(&Observation::default()));
        if self.supervisor.phase() == Phase::Armed {
            self.supervisor.controller_started(&self.state);
        }
        self.supervisor.govern(black_box(&mut self.commands), &self.state);
        black_box(self.supervisor.take_transitions());
        self.state.tick += 1;
    }
}
