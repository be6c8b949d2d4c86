//! The RS485 cycle against what the wire allows: 12 servos on one emulated line of 3 Mbaud, and on four.
//!
//! In real time, the emulated machine in the same thread, waiting by spinning. The bound is every byte that
//! travelled at 3.33 µs and one turnaround of 75 µs per servo; on four lines a quarter of that.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use anyhow::{Result, ensure};
use khz_bench::machine::{Machine, TRACED, frames, plan};
use khz_bench::{Bench, Samples};
use khz_emu::{BusConfig, ServoConfig, World, WorldConfig};
use khz_file::config::{CommandFormat, QueryFormat};
use khz_link::trace::Trace;
use khz_loop::time::Receive;
use khz_wire::rs485::frame_len;

const SERVOS: u8 = 12;
const BYTE_NS: f64 = 10.0 / 3e6 * 1e9;
/// Long enough for a machine that does other things too.
const DEADLINE_NS: i64 = 100_000_000;

fn main() -> Result<()> {
    let bench = Bench::from_args();
    measure(&bench, 1, 1.10)?;
    measure(&bench, 4, 1.15)
}

fn measure(bench: &Bench, buses: u8, goal: f64) -> Result<()> {
    let servos = (1..=SERVOS).map(|id| ServoConfig::new(usize::from((id - 1) % buses), id)).collect();
    let config =
        WorldConfig { buses: vec![BusConfig::RS485; usize::from(buses)], servos, ..WorldConfig::default() };
    let (link, mut tap) = Trace::new(World::new(&config)?, TRACED);
    let plan = plan(SERVOS, buses, &CommandFormat::default(), &QueryFormat::default(), DEADLINE_NS);
    let mut machine = Machine::new(Box::new(link), plan);
    let mut time = Machine::time(Receive::Spin)?;
    let (mut ratios, mut cycles, mut missed) = (Vec::new(), Vec::new(), 0);
    for _ in 0..bench.rounds(1000) {
        let (took_ns, result) = machine.cycle(&mut time, DEADLINE_NS);
        missed += result.missed;
        let bytes: usize = frames(&mut tap).map(|frame| frame_len(frame.payload().len())).sum();
        let wire_ns = bytes as f64 * BYTE_NS;
        let turnarounds_ns = f64::from(SERVOS) * BusConfig::RS485.turnaround_ns as f64;
        ratios.push(took_ns as f64 / ((wire_ns + turnarounds_ns) / f64::from(buses)));
        cycles.push(took_ns as f64 / 1e3);
    }
    ensure!(tap.lost() == 0, "a trace of {TRACED} frames is too short for a cycle");
    ensure!(missed == 0, "{missed} replies missed: too much else is going on");
    let (ratios, cycles) = (Samples::new(ratios), Samples::new(cycles));
    let name = format!("bus_rs485_{buses}_line");
    bench.ratio(&format!("{name}_cycle_to_bound_p50"), ratios.median(), goal);
    bench.ratio(&format!("{name}_cycle_to_bound_p99"), ratios.percentile(99.0), f64::INFINITY);
    bench.figure(&format!("{name}_cycle_p50"), cycles.median(), "us", f64::INFINITY);
    Ok(())
}
