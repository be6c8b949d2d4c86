//! An emulated arm that follows targets.

use crate::rig::{MS, Rig};
use khz_file::RobotConfig;
use khz_loop::supervisor::{Cause, Phase};
use khz_loop::tick::Machine;
use khz_robot::assemble;
use khz_servo::ServoCommand;
use khz_targets::{Inbox, Points, Sender, Targets};
use std::sync::atomic::{AtomicU64, Ordering};

struct Arm {
    rig: Rig,
    inbox: Inbox,
    joints: usize,
}

/// Under control. `reaction` is the content of `[supervisor.reactions]`.
fn arm(reaction: &str) -> Arm {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/arm_targets.toml");
    let text = std::fs::read_to_string(file).unwrap();
    arm_of(&text.replace("targets = \"warn\"", reaction))
}

fn arm_of(text: &str) -> Arm {
    let config = RobotConfig::parse(text, "arm").unwrap();
    let (mut targets, inbox) = Targets::new(&config.targets, &config.teleop);
    khz_loop::Controller::prepare(&mut targets, &assemble::info(&config)).unwrap();
    let feed = targets.feed();
    let mut machine = assemble::machine(&config, Box::new(targets)).unwrap();
    machine.watch_feed(feed);
    let mut rig = Rig::under_control(machine);
    rig.tick();
    Arm { rig, inbox, joints: config.servos.len() }
}

impl Arm {
    fn now_ns(&self) -> i64 {
        self.rig.machine.state().now_ns
    }

    /// All joints, at so many ms from now.
    fn send(&self, points: &[(i64, f64)]) {
        let at_ns = points.iter().map(|(ms, _)| self.now_ns() + ms * MS).collect();
        let position = points.iter().map(|&(_, position)| vec![position; self.joints]).collect();
        self.inbox.send(&Sender::new("policy"), &Points::new(at_ns, position), self.now_ns()).unwrap();
    }
}

#[test]
fn an_arm_follows_and_no_tick_allocates() {
    let mut arm = arm("");
    for round in 0..60 {
        arm.send(&[
            (0, 0.4 * (f64::from(round) * 0.2).sin()),
            (100, 0.4 * (f64::from(round + 1) * 0.2).sin()),
        ]);
        for _ in 0..100 {
            arm.rig.tick_without_heap();
        }
    }
    let wanted = 0.4 * (60.0_f64 * 0.2).sin();
    let roll = arm.rig.machine.state().servos[2].position;
    assert!((roll - wanted).abs() < 0.05, "{roll} instead of {wanted}");
    assert_eq!(arm.rig.machine.supervisor().clamped(), 0, "the guard had nothing to do");
}

#[test]
fn silence_brings_the_arm_down_or_it_holds() {
    for (reaction, last) in [("", Phase::Damping), ("targets = \"warn\"", Phase::Active)] {
        let mut arm = arm(reaction);
        for _ in 0..2000 {
            arm.rig.tick();
        }
        assert_eq!(arm.rig.machine.phase(), Phase::Active, "no program has sent: nothing is missed");
        arm.send(&[(0, 0.1), (50, 0.1)]);
        for _ in 0..1040 {
            arm.rig.tick();
        }
        assert_eq!(arm.rig.machine.phase(), Phase::Active);
        for _ in 0..20 {
            arm.rig.tick();
        }
        assert_eq!(arm.rig.machine.phase(), last);
        let silent = |cause: &&Cause| matches!(cause, Cause::TargetsSilent { age_ns } if *age_ns > 1000 * MS);
        assert_eq!(arm.rig.causes.iter().filter(silent).count(), 1, "{:?}", arm.rig.causes);
    }
}

/// Programs at random: not one command is beyond what the guard lets through.
#[test]
fn random_programs_give_the_guard_nothing_to_do() {
    random_programs(41, 60_000);
}

/// `cargo xtask nightly targets`: 24 hours, each of a seed of its own. `KHZ_HOURS=7..9` is some of them.
#[test]
#[ignore = "a day takes some twenty minutes"]
fn a_day_of_random_programs_gives_the_guard_nothing_to_do() {
    let hours = std::env::var("KHZ_HOURS").unwrap_or_else(|_| "0..24".to_owned());
    let (first, end) = hours.split_once("..").expect("KHZ_HOURS=FIRST..END");
    let (next, end) = (AtomicU64::new(first.parse().unwrap()), end.parse().unwrap());
    let hour = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|hour| *hour < end);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                std::iter::from_fn(hour).for_each(|hour| {
                    random_programs(hour, 3_600_000);
                    println!("hour {hour} passed");
                });
            });
        }
    });
}

/// The farthest position that is commanded, rad.
fn commanded(machine: &Machine) -> f64 {
    let position = |command: &ServoCommand| match command {
        ServoCommand::Position(command) => command.position.abs(),
        _ => 0.0,
    };
    machine.commands().iter().map(position).fold(0.0, f64::max)
}

/// A moteus goes on at the velocity of its last command while the loop is held up, so that it can pass its limit; what is commanded
/// does not, before and after.
#[test]
fn a_loop_that_is_held_up_commands_nothing_beyond_a_limit() {
    let text = "[bus.main]\nlink = \"emulated\"\n[servo_defaults]\nbus = \"main\"\nwatchdog_s = 0.1\n\
                limits = { position = [-1, 1], velocity = 3, acceleration = 30, jerk = 3000 }\n\
                [[servo]]\nname = \"elbow\"\nid = 1\n[controller]\nname = \"targets\"\n\
                [supervisor.reactions]\ntargets = \"warn\"\n";
    let mut farthest = 0.0_f64;
    for seed in 0..40 {
        let (mut arm, mut random) = (arm_of(text), Random(seed));
        let mut tick = 0;
        while tick < 4000 && arm.rig.machine.phase() == Phase::Active {
            let sender = Sender { takes: true, ..Sender::new(["one", "two"][tick % 2]) };
            let at_ns = vec![arm.now_ns() + random.below(600) as i64 * MS - 300 * MS];
            let mut points = Points::new(at_ns, vec![vec![random.up_to(3.0)]]);
            points.velocity = vec![vec![random.up_to(99.0)]];
            let _ = arm.inbox.send(&sender, &points, arm.now_ns());
            if random.below(100) == 0 {
                arm.rig.number += random.below(60) as i64;
            }
            arm.rig.tick();
            let machine = &arm.rig.machine;
            assert!(commanded(machine) <= 1.0, "seed {seed}, tick {tick}: {:?}", machine.commands());
            farthest = farthest.max(machine.state().servos[0].position.abs());
            tick += 1;
        }
    }
    assert!(farthest > 0.9, "it was tried: {farthest} rad");
    println!("farthest {farthest} rad");
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    /// Up to so much, either way.
    fn up_to(&mut self, most: f64) -> f64 {
        (self.below(8001) as f64 / 4000.0 - 1.0) * most
    }
}

/// Three programs that take the robot from each other, let go of it and announce silences; now and then the loop loses ticks.
fn random_programs(seed: u64, ticks: u64) {
    let (mut arm, mut random) = (arm("targets = \"warn\""), Random(seed));
    let mut taken = 0;
    for tick in 0..ticks {
        if random.below(60) == 0 {
            taken += u64::from(arm.random_message(&mut random));
        }
        if random.below(5000) == 0 {
            arm.rig.number += random.below(20) as i64;
        }
        arm.rig.tick();
        let machine = &arm.rig.machine;
        assert_eq!(machine.supervisor().clamped(), 0, "seed {seed}, tick {tick}");
        assert_eq!(machine.phase(), Phase::Active, "seed {seed}, tick {tick}: {:?}", arm.rig.causes);
        assert!(commanded(machine) <= 1.5, "seed {seed}, tick {tick}: {:?}", machine.commands());
    }
    let anchored = arm.inbox.standing().fared.anchored;
    assert!(taken > ticks / 300 && anchored > ticks / 100, "{taken} taken, {anchored} times anew");
}

impl Arm {
    /// Whether it was taken.
    fn random_message(&self, random: &mut Random) -> bool {
        let name = ["policy", "leader", "view"][random.below(3) as usize];
        match random.below(40) {
            0 => self.inbox.hold(name, random.below(3000) as i64 * MS, self.now_ns()),
            1 => self.inbox.release(name),
            2 => self.inbox.gone(name),
            _ => {
                let priority = 4 + random.below(3) as u8;
                let sender = Sender { takes: random.below(2) == 0, priority, ..Sender::new(name) };
                return self.inbox.send(&sender, &self.random_points(random), self.now_ns()).is_ok();
            }
        }
        false
    }

    /// 1, 2 or 10 of them, from 100 ms ago to 700 ms ahead, also beyond the limits, of all joints or one, some with velocities.
    fn random_points(&self, random: &mut Random) -> Points {
        let (count, apart_ms) = ([1, 2, 10][random.below(3) as usize], 10 + random.below(60) as i64);
        let begins_ms = random.below(200) as i64 - 100;
        let joints = if random.below(4) == 0 { vec!["elbow".to_owned()] } else { Vec::new() };
        let columns = if joints.is_empty() { self.joints } else { 1 };
        let mut rows = |most: f64| -> Vec<Vec<f64>> {
            (0..count).map(|_| (0..columns).map(|_| random.up_to(most)).collect()).collect()
        };
        let (position, velocity) = (rows(2.0), rows(5.0));
        let at_ns = (0..count).map(|point| self.now_ns() + (begins_ms + point * apart_ms) * MS).collect();
        let velocity = if random.below(4) == 0 { velocity } else { Vec::new() };
        Points { joints, velocity, ..Points::new(at_ns, position) }
    }
}

/// A joint that a hand carries out of its limits is led near it by the guard, so that it does not snap back. When the hand brought it back,
/// its command went home at `limits.velocity` from one tick to the next.
#[test]
fn a_joint_that_was_carried_out_of_its_limits_goes_back_as_smoothly_as_it_moves() {
    let text = "[bus.main]\nlink = \"emulated\"\n[servo_defaults]\nbus = \"main\"\nwatchdog_s = 0.1\n\
                limits = { position = [-0.5, 0.5], velocity = 3, acceleration = 30, jerk = 3000, torque = 1 }\n\
                [[servo]]\nname = \"elbow\"\nid = 1\njoint = { hand_rad = 0.9, hand_hz = 0.4 }\n[controller]\n\
                name = \"targets\"\n[supervisor]\nout_of_limits = \"trip\"\n\
                [supervisor.reactions]\ntargets = \"warn\"\nposition = \"warn\"\n";
    let mut arm = arm_of(text);
    let (mut sent, mut untouched, mut carried) = ([0.0; 3], 0, 0);
    for tick in 0..6000 {
        if tick % 30 == 0 {
            arm.send(&[(40, -0.3)]);
        }
        let before = arm.rig.machine.supervisor().clamped();
        arm.rig.tick();
        let machine = &arm.rig.machine;
        let ServoCommand::Position(command) = machine.commands()[0] else {
            panic!("tick {tick}: {:?}", arm.rig.causes)
        };
        sent = [sent[1], sent[2], command.position];
        let is_touched = machine.supervisor().clamped() > before;
        untouched = if is_touched { 0 } else { untouched + 1 };
        carried += u32::from(is_touched);
        let measured = machine.state().servos[0].position;
        assert!(!is_touched || measured.abs() > 0.5, "tick {tick}: at {measured}");
        let acceleration = (sent[2] - 2.0 * sent[1] + sent[0]) * 1e6;
        assert!(untouched < 3 || acceleration.abs() < 30.001, "tick {tick}: {acceleration} rad/s²");
    }
    assert!(carried > 1000, "a hand has carried it: {carried}");
}
