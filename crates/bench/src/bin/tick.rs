//! What a tick costs us, and how near the bus cycle comes to what the wire allows: 12 servos and IMU at 1 kHz.
//!
//! Runs the quadruped of `khz run` in real time, without log, and watches the emulated wire. The bound of a tick
//! is its longest bus: the time its frames occupied the wire, and one turnaround.

use anyhow::Result;
use khz_bench::{Bench, watched};
use khz_emu::BusConfig;
use khz_file::config::RobotConfig;

fn main() -> Result<()> {
    let bench = Bench::from_args();
    let seconds = bench.rounds(10) as i64;
    let watched::Seen { outcome, ratios, .. } =
        watched::run(&RobotConfig::quadruped(), BusConfig::CAN_FD.turnaround_ns, seconds)?;

    let stats = &outcome.stats;
    let own = stats.times.loop_compute.summary();
    let cycle = stats.times.cycle.summary();
    bench.figure("tick_loop_compute_p50", own.p50 as f64 / 1e3, "us", 15.0);
    bench.figure("tick_loop_compute_p99", own.p99 as f64 / 1e3, "us", 15.0);
    bench.ratio("tick_cycle_to_wire_bound_p50", ratios.median(), 1.1);
    bench.figure("tick_cycle_p50", cycle.p50 as f64 / 1e3, "us", 800.0);
    bench.figure("tick_cycle_max", cycle.max as f64 / 1e3, "us", 1000.0);
    let clean = stats.all().missed_replies - stats.all().missed_while_off_cpu;
    bench.figure("tick_missed_replies_clean", clean as f64, "replies", 0.0);
    bench.figure("tick_rate_error", (stats.counter.rate_hz() - 1000.0).abs(), "Hz", 0.1);
    bench.figure("tick_lost_time", stats.lost.ticks as f64, "ticks", f64::INFINITY);
    Ok(())
}
