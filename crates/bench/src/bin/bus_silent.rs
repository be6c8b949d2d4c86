//! What a silent servo costs the others: 1 of 12 silent, on four emulated CAN-FD buses and on four RS485 lines.
//!
//! In real time, a bus deadline of 1 ms on CAN-FD and 3 ms on RS485, waiting by spinning, on a thread set up as that of
//! `khz run`. The cycle waits for the silent one and ends by the deadline; whatever the others lose is counted, in
//! cycles that nothing interrupted.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use anyhow::Result;
use khz_bench::machine::{Machine, plan};
use khz_bench::{Bench, Samples};
use khz_emu::{BusConfig, Injection, ServoConfig, World, WorldConfig};
use khz_file::config::{CommandFormat, QueryFormat};
use khz_loop::time::{Receive, Time};
use khz_rt::{Setup, now_ns};

const SERVOS: u8 = 12;
const BUSES: u8 = 4;
/// Where a half-duplex bus gives a servo up: two of the longest frames and some slack.
const REPLY_TIMEOUT_NS: i64 = 780_000;
/// A cycle in which the CPU was away for so long proves nothing about the bus.
const INTERRUPTED_NS: i64 = 50_000;

fn main() -> Result<()> {
    let bench = Bench::from_args();
    let _setup = Setup::default().apply()?;
    measure(&bench, "can_fd", BusConfig::CAN_FD, 1_000_000)?;
    measure(&bench, "rs485", BusConfig::RS485, 3_000_000)
}

fn measure(bench: &Bench, name: &str, bus: BusConfig, deadline_ns: i64) -> Result<()> {
    let servos = (1..=SERVOS).map(|id| ServoConfig::new(usize::from((id - 1) % BUSES), id)).collect();
    let config = WorldConfig { buses: vec![bus; usize::from(BUSES)], servos, ..WorldConfig::default() };
    let mut world = World::new(&config)?;
    world.inject(4, Injection::Silent(true), now_ns());
    let plan = plan(SERVOS, BUSES, &CommandFormat::default(), &QueryFormat::default(), REPLY_TIMEOUT_NS);
    let mut machine = Machine::new(Box::new(world), plan);
    let mut time = Machine::time(Receive::Spin)?;
    let (mut over, mut undisturbed, mut lost) = (Vec::new(), Vec::new(), 0);
    for _ in 0..bench.rounds(1000) {
        time.woke(now_ns(), 0, 0);
        let (took_ns, result) = machine.cycle(&mut time, deadline_ns);
        over.push(took_ns as f64 / deadline_ns as f64);
        if time.disturbance().away_ns < INTERRUPTED_NS {
            undisturbed.push(took_ns as f64 / deadline_ns as f64);
            lost += result.missed - 1;
        }
    }
    let interrupted = over.len() - undisturbed.len();
    let (over, undisturbed) = (Samples::new(over), Samples::new(undisturbed));
    bench.ratio(&format!("bus_silent_{name}_cycle_to_deadline_p50"), over.median(), 1.0);
    bench.ratio(&format!("bus_silent_{name}_cycle_to_deadline_p99"), over.percentile(99.0), 1.0);
    bench.ratio(&format!("bus_silent_{name}_uninterrupted_p99"), undisturbed.percentile(99.0), 1.0);
    bench.figure(&format!("bus_silent_{name}_lost_by_the_others"), f64::from(lost), "replies", 0.0);
    bench.figure(&format!("bus_silent_{name}_interrupted"), interrupted as f64, "cycles", f64::INFINITY);
    Ok(())
}
