//! What the emulated machine costs its host: a millisecond of twelve servos, and a whole bus cycle.

use khz_bench::{Bench, timed_ns};
use khz_emu::{BusConfig, ServoConfig, World, WorldConfig};
use khz_link::Link;
use khz_wire::{Address, Frame};

const MS: i64 = 1_000_000;
const SERVOS: u8 = 12;

fn main() -> anyhow::Result<()> {
    let bench = Bench::from_args();
    let mut moving = quadruped()?;
    let mut cycling = quadruped()?;
    let frames = (1..=SERVOS).map(request).collect::<Option<Vec<_>>>().unwrap_or_default();
    let (mut moved_ns, mut cycled_ns) = (0, 0);
    cycle(&mut moving, &frames, &mut moved_ns);
    let (advance, cycle) = bench.interleave(
        20_000,
        || {
            moved_ns += MS;
            timed_ns(|| moving.advance(moved_ns))
        },
        || timed_ns(|| cycle(&mut cycling, &frames, &mut cycled_ns)),
    );
    bench.figure("emulator_advance_1ms_12_servos_p50", advance.median() / 1e3, "us", 5.0);
    bench.figure("emulator_cycle_12_servos_p50", cycle.median() / 1e3, "us", 30.0);
    Ok(())
}

/// Four CAN-FD buses of three servos.
fn quadruped() -> anyhow::Result<World> {
    let servos = (1..=SERVOS).map(|id| ServoConfig::new(usize::from(id - 1) / 3, id)).collect();
    let config = WorldConfig { buses: vec![BusConfig::CAN_FD; 4], servos, imu: None, seed: 1 };
    Ok(World::new(&config)?)
}

/// Position 0.25 at 1 rev/s without watchdog, and the default query.
fn request(id: u8) -> Option<Frame> {
    let payload = [
        0x01, 0x00, 0x0a, 0x0e, 0x20, 0, 0, 0x80, 0x3e, 0, 0, 0x80, 0x3f, 0x0d, 0x27, 0, 0, 0xc0, 0x7f, 0x11,
        0, 0x1f, 1, 0x13, 0x0d,
    ];
    let mut frame = Frame::new(Address::to(id, true).id(), &payload)?;
    frame.pad();
    Some(frame)
}

/// One millisecond: everything sent at its start, everything received by its end.
fn cycle(world: &mut World, frames: &[Frame], now_ns: &mut i64) {
    for (index, frame) in frames.iter().enumerate() {
        let _ = world.send(index as u8 / 3, frame, *now_ns);
    }
    *now_ns += MS;
    while matches!(world.receive(*now_ns), Ok(Some(_))) {}
}
