//! How much delay a leader that is given its follower's torque bears: the pair over the emulated wire, shaken by a hand at one frequency after
//! the other. A pair that is passive takes work from the hand at each of them.

use crate::machine::Shared;
use crate::rig::{MS, Rig};
use khz_file::RobotConfig;
use khz_file::config::ControllerConfig;
use khz_loop::ServoCommand;
use khz_loop::controller::{ControlError, Controller, RobotInfo};
use khz_loop::state::RobotState;
use khz_loop::supervisor::Phase;
use khz_loop::time::Time;
use khz_robot::assemble;
use khz_targets::Follow;
use std::collections::VecDeque;
use std::f64::consts::TAU;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

/// One joint of `robots/leader_follower.toml`, without a weight.
const PAIR: &str = r#"
    [bus.leader]
    link = "emulated"
    turnaround_us = 50
    [bus.follower]
    link = "emulated"
    turnaround_us = 50
    [servo_defaults]
    family = "damiao"
    damiao = { can_fd = true, model = "4340", kp = 80, kd = 2, damping = 2 }
    limits = { position = [-1.5, 1.5], velocity = 4, acceleration = 30, jerk = JERK }
    joint = { inertia = 0.05, viscous = 0.1, coulomb = 0.1 }
    watchdog_s = 0.2
    [[servo]]
    name = "leader"
    bus = "leader"
    id = 1
    [[servo]]
    name = "follower"
    bus = "follower"
    id = 1
    joint = { STOPS }
    [controller]
    name = "follow"
    leader = ["leader"]
    follower = ["follower"]
    leader_damping = 0.05
    feedback = FEEDBACK
    feedback_torque = 8
"#;

/// The follower's joint.
const FREE: &str = "";
const HELD: &str = "stops = [-0.001, 0.001]";
/// Their swings are whole ticks.
const FREQUENCIES_HZ: [f64; 12] = [1.0, 2.0, 3.125, 5.0, 8.0, 10.0, 12.5, 15.625, 20.0, 25.0, 40.0, 62.5];
/// About how fast the hand moves the leader, rad/s.
const SPEED: f64 = 0.5;

/// A controller that sees everything so many ticks later.
struct Late {
    follow: Follow,
    ticks: usize,
    seen: VecDeque<RobotState>,
}

impl Controller for Late {
    fn prepare(&mut self, robot: &RobotInfo) -> Result<(), ControlError> {
        self.follow.prepare(robot)
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        self.seen.clear();
        self.follow.start(state)
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        self.seen.push_back(state.clone());
        if self.seen.len() > self.ticks + 1 {
            self.seen.pop_front();
        }
        self.follow.update(&self.seen[0], commands)
    }
}

/// What the hand feels: N·m for each rad/s, on average over whole swings. Below 0 the pair does work on it. `None`: it came down.
fn damping(feedback: f64, late_ticks: usize, jerk: u32, hz: f64, stops: &str) -> Option<f64> {
    let text = PAIR
        .replace("FEEDBACK", &feedback.to_string())
        .replace("STOPS", stops)
        .replace("JERK", &jerk.to_string());
    let config = RobotConfig::parse(&text, "pair").unwrap_or_else(|error| panic!("{error}"));
    let ControllerConfig::Follow(follow) = &config.controller else { panic!("{:?}", config.controller) };
    let mut late = Late { follow: Follow::new(follow).0, ticks: late_ticks, seen: VecDeque::new() };
    late.prepare(&assemble::info(&config)).unwrap();
    let world = Shared(Arc::new(Mutex::new(config.emulate().unwrap())));
    let machine = assemble::machine_on(&config, Box::new(late), Box::new(world.clone()));
    let mut rig = Rig::under_control(machine);
    (0..200).for_each(|_| rig.tick());
    let rate = TAU * hz;
    // Its weight and its friction, and the dry one.
    let most = SPEED * 0.2_f64.hypot(0.05 * rate) + 0.13;
    let swing = (1000.0 / hz) as usize;
    let settles = swing * (500 / swing).max(2);
    let lasts = swing * (1000 / swing).max(1);
    // What of its speed is of this frequency: it may swing at another one by itself.
    let (mut work, mut swings) = (0.0, [0.0; 2]);
    let mut last = f64::NAN;
    for tick in 0..=settles + lasts {
        rig.time.wait_for_tick(rig.number * MS);
        let torque = most * (rate * tick as f64 * 1e-3).sin();
        let at = {
            let mut world = world.0.lock().unwrap();
            world.push(0, torque, rig.time.now_ns());
            world.body_mut().joints()[0].position
        };
        // What was done in the tick before, with the torque of then.
        if tick > settles {
            let before = most * (rate * (tick - 1) as f64 * 1e-3).sin();
            work += before * (at - last);
            let (sin, cos) = (rate * (tick as f64 - 0.5) * 1e-3).sin_cos();
            swings = [swings[0] + sin * (at - last), swings[1] + cos * (at - last)];
        }
        last = at;
        rig.tick();
        if rig.machine.phase() != Phase::Active {
            return None;
        }
    }
    // Work of so many ticks, and half the square of the speed's amplitude.
    let ticks = lasts as f64 * 1e-3;
    let speed = 2.0 / ticks * swings[0].hypot(swings[1]);
    Some(work / ticks / (0.5 * speed * speed))
}

/// A hand of any of these frequencies does work on the pair, whether its follower is free or held.
fn is_passive(feedback: f64, late_ticks: usize, jerk: u32) -> bool {
    let takes =
        |stops: &str, hz: f64| damping(feedback, late_ticks, jerk, hz, stops).is_some_and(|felt| felt > 0.0);
    [FREE, HELD].iter().all(|stops| FREQUENCIES_HZ.iter().all(|&hz| takes(stops, hz)))
}

/// The shipped pair is passive with its share of 0.1, and with all of the torque, late, it is not.
#[test]
fn a_small_share_is_passive_and_the_whole_torque_is_not() {
    let felt = damping(0.0, 0, 3000, 3.125, FREE).unwrap();
    // Viscous friction, `leader_damping`, and the dry friction at that speed.
    assert!((0.2..0.8).contains(&felt), "{felt}");
    assert!(is_passive(0.1, 0, 3000) && !is_passive(1.0, 30, 3000));
}

/// `UPDATE=1 cargo test -p khz-robot --test virtual_time -- --ignored delay_of_feedback` writes what the picture is drawn of: the least share
/// of the torque, in steps of 0.01, with which the pair is not passive any more.
#[test]
#[ignore = "some minutes"]
fn delay_of_feedback() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/feedback.tsv");
    let mut table = "jerk\tlate_ms\tshare\n".to_owned();
    for jerk in [3000, 15_000] {
        for late_ticks in [0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 40] {
            let border = (1..=100).map(|hundredths| f64::from(hundredths) * 0.01);
            let border =
                border.into_iter().find(|&share| !is_passive(share, late_ticks, jerk)).unwrap_or(1.0);
            writeln!(table, "{jerk}\t{late_ticks}\t{border:.2}").unwrap();
        }
    }
    eprintln!("{table}");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(file, table).unwrap();
    }
}
