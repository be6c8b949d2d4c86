//! `khz bus watch`: everything on the buses, as a live table.

use super::open::{Links, listen};
use crate::cmd::{show, stop_on_signal};
use crate::duration;
use anyhow::Result;
use khz_link::Counters;
use khz_robot::desk::Desk;
use khz_wire::Frame;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Show every identifier seen, how often, and its last data, once per second.
///
/// Listens only; on a CAN interface also beside a program that commands the servos. Links that carry nothing without queries
/// (fdcanusb, RS485, UDP) show replies to others' queries
/// only where the bus is shared.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz bus watch socketcan:can0
  khz bus watch robot.toml --duration 10s")]
pub struct Args {
    #[command(flatten)]
    links: Links,
    /// End after this time, for example 10s.
    #[arg(long, value_parser = duration::parse)]
    duration: Option<Duration>,
}

#[derive(Default)]
struct Seen {
    count: u64,
    before: u64,
    last: Option<Frame>,
}

/// By bus, identifier, and whether they are remote frames: those have the identifier of what they ask for.
type Table = BTreeMap<(usize, u32, Option<u8>), Seen>;

/// Watches until Ctrl-C.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut desk = listen(&args.links.all())?;
    let stop = stop_on_signal()?;
    let mut seen: Table = BTreeMap::new();
    let started = Instant::now();
    while !stop.load(Ordering::Relaxed) && args.duration.is_none_or(|most| started.elapsed() < most) {
        desk.receive_until(1_000_000_000, |bus, received| {
            let entry = seen.entry((bus, received.frame.id, received.frame.remote)).or_default();
            entry.count += 1;
            entry.last = Some(received.frame);
            stop.load(Ordering::Relaxed)
        });
        show(&table(&desk, &mut seen)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(desk: &Desk, seen: &mut Table) -> Result<String> {
    let mut text = String::new();
    for bus in 0..desk.buses() {
        writeln!(text, "bus {} {}: {} errors", bus + 1, desk.name(bus), errors(&desk.counters(bus)))?;
    }
    writeln!(text, "bus        id     per s      total  data")?;
    for ((bus, id, remote), entry) in seen {
        let rate = entry.count - std::mem::replace(&mut entry.before, entry.count);
        write!(text, "{:<4} {id:>8X}  {rate:>8}  {:>9}  ", bus + 1, entry.count)?;
        if let Some(len) = remote {
            write!(text, "remote, {len} bytes asked for")?;
        }
        let payload = entry.last.iter().flat_map(|frame| frame.payload().iter());
        payload.take(32).try_for_each(|byte| write!(text, "{byte:02x}"))?;
        writeln!(text)?;
    }
    Ok(text + "\n")
}

/// Errors of all kinds.
pub(super) const fn errors(counters: &Counters) -> u64 {
    let refused = counters.full + counters.expired + counters.stale + counters.unexpected;
    counters.corrupt + counters.errors + counters.downs + refused
}
