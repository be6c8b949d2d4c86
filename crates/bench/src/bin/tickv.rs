//! Scratch.
use khz_emu::World;
use khz_robot::assemble;
use khz_robot::config::RobotConfig;
use khz_robot::run::{Observer, RunOptions, RunStats};
use khz_robot::time::VirtualTime;
use khz_rt::Overrun;
use std::sync::Arc;

fn main() -> anyhow::Result<()> {
    let ticks: i64 = std::env::args().nth(1).map_or(3000, |t| t.parse().unwrap());
    let config = RobotConfig::quadruped();
    let world = World::new(&config.world())?;
    let mut machine =
        assemble::machine_on(&config, assemble::controller(&config.controller), Box::new(world));
    let mut stats = RunStats::new();
    let options = RunOptions {
        period_ns: config.timing.period_ns(),
        overrun: Overrun::Skip,
        frame_patience_ns: None,
        duration_ns: Some(ticks * 1_000_000),
        stop: Arc::default(),
    };
    let mut parts = khz_robot::parts::TickProfile::new(100_000);
    let observers: &mut [&mut dyn Observer] = &mut [&mut stats, &mut parts];
    khz_robot::run::run(&mut machine, &mut VirtualTime::new(0), &options, observers);
    println!("{} ticks", stats.ticks);
    Ok(())
}
