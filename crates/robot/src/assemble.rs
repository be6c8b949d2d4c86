//! From a robot file to a machine: links opened, cycle planned, controller chosen.

use crate::config::{BusConfig, ControllerConfig, ImuLink, LinkConfig, RobotConfig, ServoConfig};
use crate::controller::{Controller, Hold, Sine, StandAndSquat};
use crate::cycle::{Cycle, CyclePlan, DevicePlan, PaceFrame};
use crate::state::RobotState;
use crate::supervisor::Supervisor;
use crate::tick::Machine;
use khz_emu::World;
use khz_link::faults::{Fault, Faults};
use khz_link::fdcanusb::Fdcanusb;
use khz_link::pi3hat::{self, Pi3hat, Spidev};
use khz_link::socketcan::SocketCan;
use khz_link::udp::Udp;
use khz_link::{Link, OpenError, Replier};
use khz_servo::{Family, family};
use std::mem::discriminant;

/// Why the machine could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// A bus could not be opened.
    #[error("bus {bus}: {why}")]
    Open {
        /// Its name.
        bus: String,
        /// What the link says, and what to do.
        why: String,
    },
    /// The emulated devices could not be built.
    #[error("emulation: {0}")]
    Emulation(#[from] khz_emu::ConfigError),
    /// The IMU is on a link no bus of the robot uses.
    #[error("[imu] link = \"{0}\" needs a bus on the same link")]
    Imu(&'static str),
}

/// Builds the machine of a robot file around a controller. Opens every link, so devices may be touched.
///
/// # Errors
/// A link that cannot be opened, with its bus.
pub fn machine(config: &RobotConfig, controller: Box<dyn Controller>) -> Result<Machine, AssembleError> {
    Ok(put_together(config, controller, open_links(config, |world| Box::new(world))?))
}

/// Builds the machine of a robot file on a link of your own, whose channels are the file's buses in their order
/// and whose IMU is the robot's: for tests and benches that look into the devices.
pub fn machine_on(config: &RobotConfig, controller: Box<dyn Controller>, link: Box<dyn Link>) -> Machine {
    let places = (0..config.buses.len()).map(|bus| (0, bus as u8)).collect();
    let imu = config.imu.iter().map(|_| 0).collect();
    put_together(config, controller, Links { links: vec![link], places, imu })
}

/// Builds the machine of a robot file on links that are open.
pub fn put_together(config: &RobotConfig, controller: Box<dyn Controller>, links: Links) -> Machine {
    let (cycle, state) = (cycle(config, &links), state(config));
    let supervisor = Supervisor::of(config);
    Machine::new(links.links, cycle, supervisor, controller, state, config.timing.bus_deadline_ns())
}

/// The bus cycle of a robot file on links that are open.
pub fn cycle(config: &RobotConfig, links: &Links) -> Cycle {
    let devices = config.servos.iter().map(|servo| device(config, servo, links.places[servo.bus])).collect();
    let plan = CyclePlan { devices, imu: links.imu.clone(), pace: pace_frame(config, links) };
    Cycle::new(plan, &links.links)
}

fn pace_frame(config: &RobotConfig, links: &Links) -> Option<PaceFrame> {
    let timing = &config.timing;
    let bus = config.buses.iter().position(|bus| timing.pace_bus.as_ref() == Some(&bus.name))?;
    let (link, channel) = links.places[bus];
    Some(PaceFrame { link, channel, id: timing.pace_id? })
}

/// The state of the robot before anything is known.
pub fn state(config: &RobotConfig) -> RobotState {
    RobotState::unknown(config.servos.len(), config.imu.is_some(), config.timing.period_ns())
}

/// The controller a robot file names.
pub fn controller(config: &ControllerConfig) -> Box<dyn Controller> {
    match config {
        ControllerConfig::Hold(_) => Box::new(Hold::default()),
        ControllerConfig::Sine(parameters) => Box::new(Sine::new(*parameters)),
        ControllerConfig::StandAndSquat(parameters) => Box::new(StandAndSquat::new(*parameters)),
    }
}

/// A bus's place: its link and its channel there.
pub type Place = (usize, u8);

/// A robot's links, open.
pub struct Links {
    /// Each link once.
    pub links: Vec<Box<dyn Link>>,
    /// Where each bus of the file is.
    pub places: Vec<Place>,
    /// The links whose devices may have the IMU.
    pub imu: Vec<usize>,
}

/// Opens every link of a robot file. `make_emulated` makes a link of the emulated devices, if there are any.
///
/// # Errors
/// A link that cannot be opened, with its bus.
pub fn open_links(
    config: &RobotConfig,
    make_emulated: impl FnOnce(World) -> Box<dyn Link>,
) -> Result<Links, AssembleError> {
    let mut links: Vec<Box<dyn Link>> = Vec::new();
    if is_emulating(config) {
        // One world holds all buses, so that the servos move one body; the channel is the bus.
        let world = config.emulate()?;
        links.push(with_faults(config, 0, make_emulated(world), &emulated_script(config)));
    }
    if has_hat(config) {
        let hat = links.len();
        links.push(with_faults(config, hat, open_hat(config, hat)?, &hat_script(config)));
    }
    let places = places(config);
    for (index, bus) in config.buses.iter().enumerate() {
        // The others are on a link that is open.
        if places[index].0 == links.len() {
            let link = links.len();
            links.push(with_faults(config, link, open(config, index)?, &bus.faults.script(0)));
        }
    }
    let of_kind = |kind| {
        let of_kind =
            (0..links.len()).filter(|&link| links[link].capabilities().kind == kind).collect::<Vec<_>>();
        if of_kind.is_empty() { Err(AssembleError::Imu(kind)) } else { Ok(of_kind) }
    };
    let imu = match config.imu.as_ref().map(|imu| imu.link) {
        None => Vec::new(),
        Some(ImuLink::Emulated) => vec![0],
        Some(ImuLink::Pi3hat) => of_kind("pi3hat")?,
        // Any of them may have the device whose replies carry readings.
        Some(ImuLink::Udp) => of_kind("udp")?,
    };
    Ok(Links { links, places, imu })
}

/// Where each bus of a robot file is: the link of the emulated devices is the first if there is one, that of the hat comes
/// next, and every other bus has its own.
fn places(config: &RobotConfig) -> Vec<Place> {
    let hat = usize::from(is_emulating(config));
    let mut next = hat + usize::from(has_hat(config));
    let place = |(index, bus): (usize, &BusConfig)| match &bus.link {
        LinkConfig::Emulated(_) => (0, index as u8),
        LinkConfig::Pi3hat(bus) => (hat, bus.channel()),
        _ => {
            next += 1;
            (next - 1, 0)
        }
    };
    config.buses.iter().enumerate().map(place).collect()
}

/// What to call each link of a robot file, in the order in which they are opened: by its buses.
pub fn link_names(config: &RobotConfig) -> Vec<String> {
    let places = places(config);
    let links = places.iter().map(|(link, _)| link + 1).max().unwrap_or(0);
    let name = |link| {
        let on_link = config.buses.iter().zip(&places).filter(|(_, place)| place.0 == link);
        let buses: Vec<&str> = on_link.map(|(bus, _)| bus.name.as_str()).collect();
        match &buses[..] {
            [] => "the emulated IMU".to_owned(),
            [bus] => format!("bus {bus}"),
            several => format!("the link of buses {}", several.join(", ")),
        }
    };
    (0..links).map(name).collect()
}

fn is_emulating(config: &RobotConfig) -> bool {
    config.imu.as_ref().is_some_and(|imu| imu.link == ImuLink::Emulated)
        || config.buses.iter().any(|bus| matches!(bus.link, LinkConfig::Emulated(_)))
}

fn has_hat(config: &RobotConfig) -> bool {
    config.buses.iter().any(|bus| matches!(bus.link, LinkConfig::Pi3hat(_)))
}

/// What the `faults` of the emulated buses ask for; their channel is the bus.
fn emulated_script(config: &RobotConfig) -> Vec<Fault> {
    config.buses.iter().enumerate().flat_map(|(index, bus)| bus.faults.script(index as u8)).collect()
}

fn open(config: &RobotConfig, index: usize) -> Result<Box<dyn Link>, AssembleError> {
    let bus = &config.buses[index];
    let failed = |why: String| AssembleError::Open { bus: bus.name.clone(), why };
    let opened: Result<Box<dyn Link>, OpenError> = match &bus.link {
        LinkConfig::Fdcanusb(link) => Fdcanusb::open(link).map(boxed),
        LinkConfig::Socketcan(link) => SocketCan::open(link).map(boxed),
        LinkConfig::Rs485(link) => link.open(),
        LinkConfig::Udp(link) => {
            let ids = config.servos_on(index).map(|(_, servo)| servo.id);
            Udp::open(link.options(ids).map_err(failed)?, replier(config, [(0, index)])).map(boxed)
        }
        other => return Err(failed(format!("`khz run` cannot open link = \"{}\" yet", other.kind()))),
    };
    opened.map_err(|error| failed(error.to_string()))
}

fn boxed(link: impl Link + 'static) -> Box<dyn Link> {
    Box::new(link)
}

/// The one hat behind all buses with `link = "pi3hat"`.
fn open_hat(config: &RobotConfig, link: usize) -> Result<Box<dyn Link>, AssembleError> {
    let failed = |why: String| AssembleError::Open { bus: "pi3hat".into(), why };
    let hat = config.pi3hat.clone().unwrap_or_default();
    let spi = Spidev::open(&hat).map_err(|error| failed(error.to_string()))?;
    let mut options = pi3hat::Options::default();
    for bus in &config.buses {
        let LinkConfig::Pi3hat(bus) = &bus.link else { continue };
        options.can[usize::from(bus.channel())] = bus.can();
    }
    if let Some(imu) = &config.imu {
        let [yaw, pitch, roll] = imu.mounting.map(|angle| angle.to_degrees() as f32);
        (options.imu.yaw_deg, options.imu.pitch_deg, options.imu.roll_deg) = (yaw, pitch, roll);
        options.imu.rate_hz = 1000;
    }
    let opened = Pi3hat::open(spi, &options, replier(config, channels(config, link)), khz_rt::now_ns());
    Ok(Box::new(opened.map_err(|error| failed(error.to_string()))?))
}

/// The faults of the hat's buses, each on its own channel.
fn hat_script(config: &RobotConfig) -> Vec<Fault> {
    let on_hat = config.buses.iter().filter_map(|bus| match &bus.link {
        LinkConfig::Pi3hat(link) => Some(bus.faults.script(link.channel())),
        _ => None,
    });
    on_hat.flatten().collect()
}

/// A link of a robot file, by its place among them, made worse as a script says.
fn with_faults(config: &RobotConfig, place: usize, link: Box<dyn Link>, script: &[Fault]) -> Box<dyn Link> {
    if script.is_empty() {
        return link;
    }
    let replier = replier(config, channels(config, place));
    Box::new(Faults::new(link, script, config.emulation.seed, replier))
}

/// The channels of a link of a robot file, each with its bus.
fn channels(config: &RobotConfig, link: usize) -> impl Iterator<Item = (u8, usize)> {
    let buses = places(config).into_iter().enumerate();
    buses.filter_map(move |(bus, (on, channel))| (on == link).then_some((channel, bus)))
}

/// Tells a link with these channels, each with its bus, of which servo a frame is a reply: the families on the bus know.
pub fn replier(config: &RobotConfig, channels: impl IntoIterator<Item = (u8, usize)>) -> Replier {
    let families_on = |bus| {
        let mut families: Vec<Family> = config.servos_on(bus).map(|(_, servo)| servo.family()).collect();
        families.dedup_by_key(|family| discriminant(family));
        families
    };
    let buses: Vec<_> = channels.into_iter().map(|(channel, bus)| (channel, families_on(bus))).collect();
    Box::new(move |channel, frame| {
        let bus = buses.iter().find(|(here, families)| *here == channel && !families.is_empty());
        match bus {
            Some((_, families)) => families.iter().find_map(|family| family.settings().replier(frame)),
            // The file has no servos there.
            None => family::replier(frame),
        }
    })
}

fn device(config: &RobotConfig, servo: &ServoConfig, (link, channel): Place) -> DevicePlan {
    DevicePlan {
        link,
        channel,
        id: servo.id,
        mounting: servo.mounting(),
        family: servo.family(),
        watchdog_s: servo.watchdog_s,
        reply_timeout_ns: reply_timeout_ns(&config.buses[servo.bus].link),
    }
}

/// On a half-duplex bus: the longest query and reply on the wire, and then some for the servo and the kernel.
fn reply_timeout_ns(link: &LinkConfig) -> i64 {
    const SLACK_NS: i64 = 300_000;
    const LONGEST_EXCHANGE_BITS: i64 = 2 * (64 + 8) * 10;
    let baud = match link {
        LinkConfig::Rs485(link) => link.baud,
        LinkConfig::Emulated(link) => link.baud,
        _ => return SLACK_NS,
    };
    LONGEST_EXCHANGE_BITS * 1_000_000_000 / i64::from(baud) + SLACK_NS
}
