//! Several families on one bus, in virtual time: each hears its own frames alone, whatever the others send.

use crate::mit::{Outcome, run_robot};
use khz_emu::World;
use khz_file::RobotConfig;
use khz_loop::Doing;
use khz_loop::supervisor::Phase;

/// Ten servos of three families on one classic bus.
fn mixed_arm() -> RobotConfig {
    RobotConfig::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/mixed_arm.toml")).unwrap()
}

fn run_it(script: impl FnMut(&mut World, i64) + Send + 'static) -> Outcome {
    run_robot(&mixed_arm(), script)
}

#[test]
fn ten_servos_of_three_families_miss_no_reply_on_one_bus() {
    let outcome = run_it(|_, _| {});
    assert_eq!(outcome.machine.phase(), Phase::Stopped, "{}", outcome.cause());
    assert_eq!(outcome.doing, [Doing::Off; 10]);
    for (servo, device) in outcome.machine.cycle().devices().iter().enumerate() {
        let stats = outcome.machine.cycle().stats(servo);
        assert_eq!((stats.missed, stats.late), (0, 0), "{}", device.name);
    }
    assert!(outcome.swing > 0.25, "{}", outcome.swing);
}
