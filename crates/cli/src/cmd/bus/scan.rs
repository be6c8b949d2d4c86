//! `khz bus scan`: who is there.

use super::open::desk;
use crate::cmd::show;
use anyhow::Result;
use khz_robot::desk::{Desk, Found, Scan};
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;

/// Find the devices on every bus.
#[derive(clap::Args)]
pub struct Args {
    /// The links: KIND:TARGET, a robot file, or `emulated`.
    #[arg(required = true, value_name = "LINK")]
    links: Vec<String>,
    /// The highest id to ask for.
    #[arg(long, default_value_t = 126, value_parser = clap::value_parser!(u8).range(1..=126))]
    last: u8,
    /// How long to wait for the replies to one burst of queries, ms.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    timeout_ms: u16,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Asks all ids; exit code 1 if nobody answers.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut desk = desk(&args.links)?;
    let scan = Scan { last: args.last, timeout_ns: i64::from(args.timeout_ms) * 1_000_000, together: false };
    let mut found = Vec::new();
    for bus in 0..desk.buses() {
        found.extend(desk.scan(bus, &scan)?);
    }
    if args.json {
        let devices: Vec<_> = found.iter().map(described).collect();
        show(&format!("{}\n", json!(devices)))?;
    } else {
        show(&table(&desk, &found)?)?;
    }
    Ok(if found.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn mode(found: &Found) -> &'static str {
    found.answer.mode.map_or("unknown", |mode| mode.name)
}

fn described(found: &Found) -> serde_json::Value {
    let Found { bus, answer, round_trip_ns } = found;
    let who = &answer.identity;
    json!({
        "bus": bus + 1, "id": answer.id, "mode": mode(found), "firmware": who.firmware, "serial": who.serial,
        "fault": answer.fault.map(|fault| fault.code), "map": who.map, "round_trip_us": *round_trip_ns as f64 / 1e3,
    })
}

fn table(desk: &Desk, found: &[Found]) -> Result<String> {
    if found.is_empty() {
        return Ok("no device answered: are they powered, terminated, and at the bus's bit rates? Without a robot file only moteus \
             servos are asked for; others take a file with their `family`\n".into());
    }
    let mut text =
        String::from("bus   id  mode            fault  firmware  serial                    round trip\n");
    for each in found {
        let who = &each.answer.identity;
        writeln!(
            text,
            "{:<4} {:>3}  {:<14} {:>6}  {:<8}  {:<24} {:>8.0} µs  {}",
            each.bus + 1,
            each.answer.id,
            mode(each),
            each.answer.fault.map_or(0, |fault| fault.code),
            who.firmware.as_deref().unwrap_or("unknown"),
            who.serial.as_deref().unwrap_or("unknown"),
            each.round_trip_ns as f64 / 1e3,
            desk.name(each.bus)
        )?;
    }
    Ok(text)
}
