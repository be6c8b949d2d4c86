//! The pi3hat cycle against the least its SPI allows: 12 servos on four buses and the attitude.
//!
//! In real time over the emulated hat, whose transfers cost 9 µs and 0.8 µs per byte, the address included; waiting
//! by spinning. The formats: position, velocity and feed-forward torque commanded as int16; position, velocity
//! and torque queried as int16, mode, voltage, temperature and fault as int8. The least is one transfer per
//! command and per reply, one status per six replies and processor, and one attitude.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use anyhow::{Result, ensure};
use khz_bench::machine::{Machine, TRACED, frames, plan, short_command};
use khz_bench::{Bench, Samples};
use khz_emu::hat::Hat;
use khz_emu::{BusConfig, ImuConfig, ServoConfig, World, WorldConfig};
use khz_link::pi3hat::{Options, Pi3hat};
use khz_link::trace::Trace;
use khz_robot::config::{CommandFormat, Format, QueryFormat};
use khz_robot::cycle::CyclePlan;
use khz_robot::time::Receive;
use khz_rt::now_ns;
use khz_wire::pi3hat::Attitude;
use khz_wire::time::SpiCost;
use khz_wire::{Address, Frame};

const SERVOS: u8 = 12;
const BUSES: u8 = 4;
/// Long enough for a machine that does other things too.
const DEADLINE_NS: i64 = 100_000_000;
/// Bytes of a status, and replies it tells of.
const STATUS: usize = 6;

/// The one transfer a frame cannot do without.
fn transfer_ns(frame: &Frame) -> i64 {
    // A command has a size byte and a short identifier before its payload, a reply a size byte and a long one.
    let head = if Address::from_id(frame.id).reply { 3 } else { 5 };
    let mut frame = *frame;
    frame.pad();
    SpiCost::PI3HAT.transaction_with_ns(head + frame.payload().len())
}

fn main() -> Result<()> {
    let bench = Bench::from_args();
    let servos = (1..=SERVOS).map(|id| ServoConfig::new(usize::from((id - 1) % BUSES), id)).collect();
    let config = WorldConfig {
        buses: vec![BusConfig::CAN_FD; 5],
        servos,
        imu: Some(ImuConfig::default()),
        ..WorldConfig::default()
    };
    let hat = Hat::new(World::new(&config)?, 4);
    // As `khz run` sets it: at the hat's own 400 Hz every other cycle would wait for a reading.
    let mut options = Options::default();
    options.imu.rate_hz = 1000;
    let (link, mut tap) = Trace::new(Pi3hat::open(hat, &options, now_ns())?, TRACED);
    let command = CommandFormat { torque: Format::Int16, ..short_command(Format::Int16) };
    let short = Format::Int16;
    let query = QueryFormat { position: short, velocity: short, torque: short, ..QueryFormat::default() };
    let plan = CyclePlan { imu: Some(0), ..plan(SERVOS, BUSES, &command, &query, DEADLINE_NS) };
    let mut machine = Machine::new(Box::new(link), plan);
    let mut time = Machine::time(Receive::Spin)?;

    // Two processors with six servos each.
    let others_ns = 2 * SpiCost::PI3HAT.transaction_with_ns(STATUS)
        + SpiCost::PI3HAT.transaction_with_ns(Attitude::SHORT);
    let (mut ratios, mut cycles, mut missed) = (Vec::new(), Vec::new(), 0);
    for _ in 0..bench.rounds(1000) {
        let (took_ns, result) = machine.cycle(&mut time, DEADLINE_NS);
        missed += result.missed + u16::from(result.imu_missed);
        let transfers_ns: i64 = frames(&mut tap).map(|frame| transfer_ns(&frame)).sum();
        ratios.push(took_ns as f64 / (transfers_ns + others_ns) as f64);
        cycles.push(took_ns as f64 / 1e3);
        // The hat samples its IMU a thousand times a second.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    ensure!(tap.lost() == 0, "a trace of {TRACED} frames is too short for a cycle");
    ensure!(missed == 0, "{missed} replies or attitudes missed: too much else is going on");
    let (ratios, cycles) = (Samples::new(ratios), Samples::new(cycles));
    bench.ratio("bus_pi3hat_cycle_to_least_p50", ratios.median(), 1.05);
    bench.ratio("bus_pi3hat_cycle_to_least_p99", ratios.percentile(99.0), f64::INFINITY);
    bench.figure("bus_pi3hat_cycle_p50", cycles.median(), "us", 740.0);
    bench.figure("bus_pi3hat_least", cycles.median() / ratios.median(), "us", f64::INFINITY);
    Ok(())
}
