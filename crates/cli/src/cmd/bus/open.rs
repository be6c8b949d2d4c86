//! Links as the command line names them, and exchanges over them.

use crate::cmd::show;
use anyhow::{Context, Result, bail};
use khz_emu::hat::Hat;
use khz_emu::{BusConfig, World};
use khz_link::fdcanusb::{Fdcanusb, FdcanusbLink};
use khz_link::pi3hat::{Pi3hat, Pi3hatConfig, Spi, Spidev};
use khz_link::rs485::{Rs485, Rs485Link};
use khz_link::socketcan::{SocketCan, SocketcanLink, interface};
use khz_link::udp::{Options, Reach, Udp};
use khz_link::{Link, LinkError, Received};
use khz_robot::RobotConfig;
use khz_robot::assemble::{Links, open_links};
use khz_rt::clock::now_ns;
use khz_wire::{Address, Frame};
use serde_json::json;
use std::fmt::Write;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Tell what each link is, what it can do, and what is wrong with it.
#[derive(clap::Args)]
pub struct Args {
    /// The links: KIND:TARGET, a robot file, or `emulated`.
    #[arg(required = true, value_name = "LINK")]
    links: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Opened links and their buses.
pub struct Buses {
    links: Vec<Box<dyn Link>>,
    places: Vec<Place>,
}

/// Where a bus is.
#[derive(Clone)]
struct Place {
    link: usize,
    channel: u8,
    name: String,
}

/// The robot files among links as the command line names them.
pub fn robots(words: &[String]) -> Vec<PathBuf> {
    words.iter().filter(|word| is_robot(word)).map(PathBuf::from).collect()
}

fn is_robot(word: &str) -> bool {
    word.ends_with(".toml")
}

impl Buses {
    /// Opens links as the command line names them.
    pub fn open(words: &[String]) -> Result<Self> {
        let mut buses = Self { links: Vec::new(), places: Vec::new() };
        words.iter().try_for_each(|word| buses.add(word))?;
        Ok(buses)
    }

    fn add(&mut self, word: &str) -> Result<()> {
        let link: Box<dyn Link> = match word.split_once(':') {
            Some(("socketcan", interface)) => Box::new(SocketCan::open(&SocketcanLink::at(interface))?),
            Some(("fdcanusb", path)) => Box::new(Fdcanusb::open(&FdcanusbLink::at(path))?),
            Some(("rs485", path)) => Box::new(Rs485::open(&Rs485Link::at(path))?),
            Some(("udp", address)) => {
                let found = address.to_socket_addrs().with_context(|| address.to_owned())?.next();
                let reach = Reach::All(found.with_context(|| format!("{address}: no such host"))?);
                Box::new(Udp::open(Options { reach, ..Options::default() }, replier)?)
            }
            _ if ["pi3hat", "emulated:pi3hat"].contains(&word) => {
                Box::new(Pi3hat::open(spi(word)?, &Default::default(), replier, now_ns())?)
            }
            _ if word == "emulated" => Box::new(World::new(&RobotConfig::quadruped().world())?),
            _ if is_robot(word) => return self.add_robot(word),
            _ => bail!(
                "{word}: not a link; write socketcan:INTERFACE, fdcanusb:PATH, rs485:PATH, udp:HOST:PORT, \
                 pi3hat, a robot file (.toml), emulated, or emulated:pi3hat"
            ),
        };
        for channel in 0..link.capabilities().channels {
            self.places.push(Place { link: self.links.len(), channel, name: word.to_owned() });
        }
        self.links.push(link);
        Ok(())
    }

    fn add_robot(&mut self, path: &str) -> Result<()> {
        let robot = RobotConfig::load(path).map_err(|error| anyhow::anyhow!("{error}"))?;
        let Links { links, places, .. } = open_links(&robot, |world| Box::new(world))?;
        for ((link, channel), bus) in places.into_iter().zip(&robot.buses) {
            let link = self.links.len() + link;
            self.places.push(Place { link, channel, name: bus.name.clone() });
        }
        self.links.extend(links);
        Ok(())
    }

    /// How many buses.
    pub fn len(&self) -> u8 {
        self.places.len() as u8
    }

    /// The name of a bus, counted from 1.
    pub fn name(&self, bus: u8) -> &str {
        &self.places[usize::from(bus) - 1].name
    }

    /// Sends a frame on a bus, counted from 1, without waiting.
    pub fn send(&mut self, bus: u8, frame: &Frame) -> Result<(), LinkError> {
        let place = self.places[usize::from(bus) - 1].clone();
        self.links[place.link].send(place.channel, &Address::request(frame), now_ns())
    }

    /// Hands everything sent to the wires.
    pub fn flush(&mut self) -> Result<(), LinkError> {
        self.links.iter_mut().try_for_each(|link| link.flush(now_ns()))
    }

    /// What came by now, with its bus.
    pub fn receive(&mut self) -> Option<(u8, Received)> {
        let places = &self.places;
        self.links.iter_mut().enumerate().find_map(|(index, link)| {
            let received = link.receive(now_ns()).ok()??;
            let bus = places.iter().position(|it| it.link == index && it.channel == received.channel)?;
            Some((bus as u8 + 1, received))
        })
    }

    /// Collects what comes until `done` says so or the time is over.
    pub fn collect(&mut self, timeout_ns: i64, mut take: impl FnMut(u8, Received) -> bool) {
        let until_ns = now_ns() + timeout_ns;
        loop {
            match self.receive() {
                Some((bus, received)) if take(bus, received) => return,
                Some(_) => {}
                None if now_ns() >= until_ns => return,
                // Short enough for any reply, long enough to leave the CPU alone.
                None => std::thread::sleep(std::time::Duration::from_micros(20)),
            }
        }
    }

    /// Only one query may be under way on this bus.
    pub fn is_half_duplex(&self, bus: u8) -> bool {
        let place = &self.places[usize::from(bus) - 1];
        self.links[place.link].half_duplex(place.channel)
    }

    /// The first link with an IMU of its own.
    pub fn imu(&mut self) -> Option<&mut dyn khz_link::Imu> {
        self.links.iter_mut().find_map(|link| link.imu())
    }

    fn about(&mut self) -> Vec<String> {
        let tell = |link: &mut Box<dyn Link>| {
            let kind = link.capabilities().kind;
            link.about()
                .unwrap_or_else(|error| vec![format!("{kind}: cannot be asked about itself: {error}")])
        };
        self.links.iter_mut().flat_map(tell).collect()
    }

    fn counters(&self, bus: u8) -> khz_link::Counters {
        let place = &self.places[usize::from(bus) - 1];
        self.links[place.link].counters(place.channel)
    }

    /// Errors of all kinds on a bus.
    pub fn errors(&self, bus: u8) -> u64 {
        let counters = self.counters(bus);
        let refused = counters.full + counters.expired + counters.stale + counters.unexpected;
        counters.corrupt + counters.errors + counters.downs + refused
    }
}

/// A link that the command line names may have any devices.
fn replier(_: u8, frame: &Frame) -> Option<u8> {
    Address::replier(frame)
}

/// The SPI of the hat that a word names.
pub fn spi(word: &str) -> Result<Box<dyn Spi>> {
    let hat = match word {
        "pi3hat" => Pi3hatConfig::default(),
        "emulated:pi3hat" => {
            let mut world = RobotConfig::quadruped().world();
            world.buses.resize(5, BusConfig::CAN_FD);
            return Ok(Box::new(Hat::new(World::new(&world)?, 4)));
        }
        _ if is_robot(word) => {
            let robot = RobotConfig::load(word).map_err(|error| anyhow::anyhow!("{error}"))?;
            robot.pi3hat.unwrap_or_default()
        }
        _ => bail!("{word}: not a pi3hat; write pi3hat, a robot file (.toml) with a hat, or emulated:pi3hat"),
    };
    Ok(Box::new(Spidev::open(&hat)?))
}

/// `khz bus info`.
pub fn info(args: &Args) -> Result<ExitCode> {
    let findings: Vec<_> = args.links.iter().flat_map(|word| findings(word)).collect();
    let mut buses = Buses::open(&args.links);
    let about: Vec<_> = buses.iter_mut().flat_map(Buses::about).collect();
    if args.json {
        let problems: Vec<_> = findings.iter().map(ToString::to_string).collect();
        let error = buses.as_ref().err().map(|error| format!("{error:#}"));
        let list: Vec<_> = buses.iter().flat_map(describe).collect();
        show(&format!(
            "{}\n",
            json!({ "buses": list, "about": about, "findings": problems, "error": error })
        ))?;
    } else {
        let mut text = String::new();
        for bus in buses.iter().flat_map(describe) {
            writeln!(
                text,
                "bus {} {} ({}): {}, {} frames in flight",
                bus["bus"],
                bus["name"].as_str().unwrap_or_default(),
                bus["kind"].as_str().unwrap_or_default(),
                if bus["half_duplex"] == json!(true) { "half duplex" } else { "full duplex" },
                bus["in_flight"]
            )?;
        }
        about.iter().try_for_each(|line| writeln!(text, "{line}"))?;
        findings.iter().try_for_each(|finding| writeln!(text, "{finding}"))?;
        show(&text)?;
    }
    buses?;
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe(buses: &Buses) -> Vec<serde_json::Value> {
    let one = |(index, place): (usize, &Place)| {
        let link = &buses.links[place.link];
        let can = link.capabilities();
        json!({
            "bus": index + 1, "name": place.name, "kind": can.kind, "half_duplex": link.half_duplex(place.channel),
            "in_flight": can.in_flight, "emulated": can.emulated,
        })
    };
    buses.places.iter().enumerate().map(one).collect()
}

/// What is wrong with the CAN interface a word names.
fn findings(word: &str) -> Vec<interface::Finding> {
    let name = word.strip_prefix("socketcan:");
    let read = name.and_then(|name| interface::Interface::read(name).ok());
    read.map_or_else(Vec::new, |interface| interface.findings())
}
