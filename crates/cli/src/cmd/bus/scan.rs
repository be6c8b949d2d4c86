//! `khz bus scan`: who is there.

use super::open::Buses;
use crate::cmd::show;
use anyhow::Result;
use khz_link::Received;
use khz_rt::clock::now_ns;
use khz_wire::subframe::Run;
use khz_wire::{Address, Frame, Mode, Register, Resolution, Subframe, Subframes, Value, Writer};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
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

/// Queries of one burst; every adapter takes as many.
const BURST: usize = 16;

/// Asks all ids; exit code 1 if nobody answers.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut buses = Buses::open(&args.links)?;
    let mut asking = Asking::default();
    for bus in 1..=buses.len() {
        scan(&mut buses, bus, args, &mut asking)?;
    }
    let found = asking.found;
    if args.json {
        let devices: Vec<_> = found.iter().map(|(place, device)| device.json(*place)).collect();
        show(&format!("{}\n", json!(devices)))?;
    } else {
        show(&table(&buses, &found)?)?;
    }
    Ok(if found.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What a device said of itself.
#[derive(Default)]
struct Device {
    values: BTreeMap<u32, i32>,
    round_trip_ns: i64,
}

impl Device {
    fn value(&self, register: Register) -> Option<i32> {
        self.values.get(&u32::from(register.0)).copied()
    }

    fn mode(&self) -> &'static str {
        self.value(Register::MODE).and_then(Mode::from_number).map_or("unknown", Mode::name)
    }

    fn firmware(&self) -> String {
        let version = self.value(Register::FIRMWARE_VERSION).unwrap_or(0);
        format!("{}.{}.{}", version >> 16 & 0xff, version >> 8 & 0xff, version & 0xff)
    }

    fn serial(&self) -> String {
        let first = u32::from(Register::SERIAL_NUMBER.0);
        let words = (first..first + 3).map(|register| self.values.get(&register).copied().unwrap_or(0));
        words.map(|word| format!("{word:08x}")).collect()
    }

    fn json(&self, (bus, id): (u8, u8)) -> serde_json::Value {
        json!({
            "bus": bus, "id": id, "mode": self.mode(), "firmware": self.firmware(), "serial": self.serial(),
            "fault": self.value(Register::FAULT), "map": self.value(Register::MAP_VERSION),
            "round_trip_us": self.round_trip_ns as f64 / 1e3,
        })
    }
}

/// Who was asked, and who of them answered; each by bus and id.
#[derive(Default)]
struct Asking {
    sent_ns: BTreeMap<(u8, u8), i64>,
    found: BTreeMap<(u8, u8), Device>,
    /// Those of this burst that have not answered yet.
    open: BTreeSet<(u8, u8)>,
}

impl Asking {
    fn asks(&mut self, bus: u8, ids: &[u8], now_ns: i64) {
        self.open = ids.iter().map(|id| (bus, *id)).collect();
        self.sent_ns.extend(self.open.iter().map(|place| (*place, now_ns)));
    }

    /// Takes a frame, if it answers this burst or one before it. Others may talk on the bus, too.
    fn hears(&mut self, bus: u8, received: &Received) {
        let address = Address::from_id(received.frame.id);
        let place = (bus, address.source);
        let is_answer = address == Address::to(place.1, true).answered_by(place.1);
        let Some(sent_ns) = self.sent_ns.get(&place).filter(|_| is_answer) else { return };
        let round_trip_ns = received.at_ns - sent_ns;
        let fresh = || Device { round_trip_ns, ..Device::default() };
        read(&received.frame, self.found.entry(place).or_insert_with(fresh));
        self.open.remove(&place);
    }
}

fn scan(buses: &mut Buses, bus: u8, args: &Args, asking: &mut Asking) -> Result<()> {
    let ids: Vec<u8> = (1..=args.last).collect();
    let burst = if buses.is_half_duplex(bus) { 1 } else { BURST };
    for ids in ids.chunks(burst) {
        asking.asks(bus, ids, now_ns());
        for id in ids {
            buses.send(bus, &query(*id)?)?;
        }
        buses.flush()?;
        buses.collect(i64::from(args.timeout_ms) * 1_000_000, |bus, received| {
            asking.hears(bus, &received);
            asking.open.is_empty()
        });
    }
    Ok(())
}

fn query(id: u8) -> Result<Frame> {
    let mut payload = [0; 64];
    let mut writer = Writer::new(&mut payload);
    let word = Resolution::Int32;
    for (register, resolution, count) in [
        (Register::MODE, Resolution::Int8, 1),
        (Register::FAULT, Resolution::Int8, 1),
        (Register::FIRMWARE_VERSION, word, 2),
        (Register::SERIAL_NUMBER, word, 3),
    ] {
        let run = Run { resolution, start: u32::from(register.0), count, long: false };
        writer.read(run).map_err(|_| anyhow::anyhow!("the query does not fit a frame"))?;
    }
    let frame = Frame::new(Address::to(id, true).id(), writer.written());
    frame.ok_or_else(|| anyhow::anyhow!("the query does not fit a frame"))
}

fn read(frame: &Frame, device: &mut Device) {
    for subframe in Subframes::new(frame.payload()).flatten() {
        let Subframe::Reply(values) = subframe else { continue };
        device.values.extend(values.iter().map(|(register, value)| {
            let number = match value {
                Value::Int8(value) => i32::from(value),
                Value::Int16(value) => i32::from(value),
                Value::Int32(value) => value,
                Value::Float(value) => value as i32,
            };
            (register, number)
        }));
    }
}

fn table(buses: &Buses, found: &BTreeMap<(u8, u8), Device>) -> Result<String> {
    if found.is_empty() {
        return Ok("no device answered: are they powered, terminated, and at the bus's bit rates?\n".into());
    }
    let mut text =
        String::from("bus   id  mode            fault  firmware  serial                    round trip\n");
    for ((bus, id), device) in found {
        writeln!(
            text,
            "{bus:<4} {id:>3}  {:<14} {:>6}  {:<8}  {:<24} {:>8.0} µs  {}",
            device.mode(),
            device.value(Register::FAULT).unwrap_or(0),
            device.firmware(),
            device.serial(),
            device.round_trip_ns as f64 / 1e3,
            buses.name(*bus)
        )?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_of_those_asked_are_devices_and_end_a_burst() {
        let mut asking = Asking::default();
        let hears = |asking: &mut Asking, address: Address, at_ns| {
            let frame = Frame::new(address.id(), &[]).unwrap();
            asking.hears(1, &Received { channel: 0, at_ns, frame });
        };
        let answer = |id| Address::to(id, true).answered_by(id);
        asking.asks(1, &[1, 2], 100);
        hears(&mut asking, answer(1), 150);
        asking.asks(1, &[3, 4], 200);
        // Another master with our id and with one of its own, and its devices.
        let master = Address { source: 4, ..Address::to(3, true) };
        let system = Address { prefix: 7, ..answer(3) };
        for other in [Address::to(3, true), master, master.answered_by(3), system, answer(5)] {
            hears(&mut asking, other, 210);
        }
        assert_eq!(asking.open.len(), 2);
        // One of the burst before that is late, and one that answers twice.
        for (id, at_ns) in [(2, 220), (3, 230), (3, 240)] {
            hears(&mut asking, answer(id), at_ns);
        }
        assert_eq!(asking.open, [(1, 4)].into());
        let found: Vec<_> =
            asking.found.iter().map(|((_, id), device)| (*id, device.round_trip_ns)).collect();
        assert_eq!(found, [(1, 50), (2, 120), (3, 30)]);
    }
}
