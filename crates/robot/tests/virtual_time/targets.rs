//! An emulated arm that follows targets.

use crate::rig::{MS, Rig};
use khz_file::RobotConfig;
use khz_loop::supervisor::{Cause, Phase};
use khz_robot::assemble;
use khz_targets::{Desk, Points, Sender};

struct Arm {
    rig: Rig,
    desk: Desk,
    joints: usize,
}

/// Under control. `reaction` is what `[supervisor.reactions]` says.
fn arm(reaction: &str) -> Arm {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/arm_targets.toml");
    let text = std::fs::read_to_string(file).unwrap();
    let config = RobotConfig::parse(&text.replace("targets = \"warn\"", reaction), "arm").unwrap();
    let (mut targets, desk) = assemble::targets(&config);
    khz_loop::Controller::prepare(&mut targets, &assemble::info(&config)).unwrap();
    let feed = targets.feed();
    let mut machine = assemble::machine(&config, Box::new(targets)).unwrap();
    machine.watch_feed(feed);
    let mut rig = Rig::under_control(machine);
    rig.tick();
    Arm { rig, desk, joints: config.servos.len() }
}

impl Arm {
    fn now_ns(&self) -> i64 {
        self.rig.machine.state().now_ns
    }

    /// All joints, at so many ms from now.
    fn send(&self, points: &[(i64, f64)]) {
        let at_ns = points.iter().map(|(ms, _)| self.now_ns() + ms * MS).collect();
        let position = points.iter().map(|&(_, position)| vec![position; self.joints]).collect();
        self.desk.send(&Sender::new("policy"), &Points::new(at_ns, position), self.now_ns()).unwrap();
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
        assert_eq!(arm.rig.machine.phase(), Phase::Active, "nobody has sent: nothing is missed");
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

/// Chunks and targets at random: not one command is beyond what the guard lets through.
#[test]
fn random_programs_give_the_guard_nothing_to_do() {
    random_programs(60_000);
}

/// `cargo xtask nightly targets`.
#[test]
#[ignore = "a day takes some twenty minutes"]
fn a_day_of_random_programs_gives_the_guard_nothing_to_do() {
    random_programs(24 * 3600 * 1000);
}

/// In a day they are silent for more than a second now and then.
fn random_programs(ticks: u64) {
    let mut arm = arm("targets = \"warn\"");
    let mut seed = 41_u64;
    let mut random = |most: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % most
    };
    for tick in 0..ticks {
        if random(60) == 0 {
            let (count, apart_ms) = ([1, 2, 10][random(3) as usize], 10 + random(60) as i64);
            let begins_ms = random(200) as i64 - 100;
            let positions = (0..count).map(|_| random(4000) as f64 * 1e-3 - 2.0).collect::<Vec<_>>();
            let points: Vec<(i64, f64)> =
                (0..count).map(|point| (begins_ms + point as i64 * apart_ms, positions[point])).collect();
            let at_ns = points.iter().map(|(ms, _)| arm.now_ns() + ms * MS).collect();
            let rows = points.iter().map(|&(_, position)| vec![position; arm.joints]).collect();
            // Refused or not.
            let _ = arm.desk.send(&Sender::new("policy"), &Points::new(at_ns, rows), arm.now_ns());
        }
        arm.rig.tick();
        assert_eq!(arm.rig.machine.supervisor().clamped(), 0, "tick {tick}");
        assert_eq!(arm.rig.machine.phase(), Phase::Active, "tick {tick}: {:?}", arm.rig.causes);
    }
    assert_eq!(arm.rig.machine.phase(), Phase::Active, "{:?}", arm.rig.causes);
    let standing = arm.desk.standing();
    assert!(standing.accounts[0].counts.taken > 500 && standing.status.anchored > 1000, "{standing:?}");
}
