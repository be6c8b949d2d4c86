//! From a robot file to a machine: links opened, cycle planned, controller chosen.

use khz_controllers::{Excite, Hold, Policy, Sine, StandAndSquat, Walk};
use khz_emu::{EmulatedLink, WireKind, World};
use khz_file::config::{ControllerConfig, ImuLink, RobotConfig, ServoConfig, TargetsConfig, TeleopConfig};
use khz_file::links::{Around, LinkConfig, LinkKind};
use khz_link::faults::{Fault, Faults};
use khz_link::{Link, Replier, Role};
use khz_loop::controller::{ControlError, Controller, JointInfo, Paced, RobotInfo};
use khz_loop::cycle::{Cycle, CyclePlan, DevicePlan, PaceFrame};
use khz_loop::parameters::Parameter;
use khz_loop::state::RobotState;
use khz_loop::supervisor::{Cause, Joint, Supervisor};
use khz_loop::tick::Machine;
use khz_servo::{Family, Identifiers, family};
use khz_targets::{Desk, Follow, Targets};

/// Why the machine could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// A bus could not be opened.
    #[error("bus {bus}: {why}")]
    Open {
        /// Its name, or the kind of the link it shares with others.
        bus: String,
        /// The link's error, and what to do.
        why: String,
    },
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
    Machine::new(links.links, cycle, supervisor(config), controller, state, config.timing.bus_deadline_ns())
}

/// The bus cycle of a robot file on links that are open.
pub fn cycle(config: &RobotConfig, links: &Links) -> Cycle {
    let devices = config
        .servos
        .iter()
        .enumerate()
        .map(|(number, servo)| device(config, number, links.places[servo.bus]))
        .collect();
    let plan = CyclePlan { devices, imu: links.imu.clone(), pace: pace_frame(config, links) };
    Cycle::new(plan, &links.links)
}

fn pace_frame(config: &RobotConfig, links: &Links) -> Option<PaceFrame> {
    let timing = &config.timing;
    let bus = config.buses.iter().position(|bus| timing.pace_bus.as_ref() == Some(&bus.name))?;
    let (link, channel) = links.places[bus];
    Some(PaceFrame { link, channel, id: timing.pace_id? })
}

/// The supervisor of the robot of a file, with its thresholds and limits.
pub fn supervisor(config: &RobotConfig) -> Supervisor {
    let joint =
        |servo: &ServoConfig| Joint::new(&servo.limits, &servo.family(), &servo.mounting(), servo.timeout());
    let bearable_ns = (config.bearable_stall_s() * 1e9) as i64;
    Supervisor::of(config.supervisor_settings(), config.servos.iter().map(joint).collect(), bearable_ns)
}

/// What a controller gets to know about the robot of a file.
pub fn info(config: &RobotConfig) -> RobotInfo {
    let joint = |servo: &ServoConfig| JointInfo {
        name: servo.name.clone(),
        limits: servo.limits.clone(),
        gains: servo.in_file().facts().sends_gains.then(|| servo.gains()),
        torque: servo.limits.torque.or_else(|| {
            let carried = servo.carries().torque;
            (!servo.in_file().facts().limits_torque && carried.is_finite()).then_some(carried)
        }),
    };
    RobotInfo {
        name: config.name.clone(),
        period_ns: config.timing.period_ns(),
        joints: config.servos.iter().map(joint).collect(),
        has_imu: config.imu.is_some(),
        parameters: config.parameters.iter().filter_map(|(name, given)| given.declared(name)).collect(),
    }
}

/// The state of the robot before anything is known.
pub fn state(config: &RobotConfig) -> RobotState {
    RobotState::unknown(config.servos.len(), config.imu.is_some(), config.timing.period_ns())
}

/// The controller a robot file names. That of `targets` receives none; see [`targets`].
pub fn controller(config: &ControllerConfig) -> Box<dyn Controller> {
    match config {
        ControllerConfig::Hold(parameters) => Box::new(Hold::new(*parameters)),
        ControllerConfig::Sine(parameters) => Box::new(Sine::new(*parameters)),
        ControllerConfig::Excite(parameters) => Box::new(Excite::new(*parameters)),
        ControllerConfig::StandAndSquat(parameters) => Box::new(StandAndSquat::new(*parameters)),
        ControllerConfig::Walk(parameters) => Box::new(Walk::new(*parameters)),
        ControllerConfig::Policy(config) => Box::new(Policy::new((**config).clone())),
        ControllerConfig::Follow(config) => Box::new(Follow::new(config).0),
        ControllerConfig::Targets => {
            Box::new(Targets::new(&TargetsConfig::default(), &TeleopConfig::default()).0)
        }
    }
}

/// A controller, and its parameters as the loop sees them.
pub type Ready = (Box<dyn Controller>, Vec<Parameter>);

/// A controller that is prepared, made to decide as often as it wants to.
///
/// # Errors
/// It wants to decide at a rate that does not fit the loop's.
pub fn paced(
    config: &RobotConfig,
    controller: Box<dyn Controller>,
    list: Vec<Parameter>,
) -> Result<Ready, ControlError> {
    let Some(pace) = controller.pace()? else { return Ok((controller, list)) };
    let paced = Paced::new(controller, pace, list, &state(config));
    let list = paced.parameters();
    Ok((Box::new(paced), list))
}

/// The controller of a robot that follows targets, and the end of those who send them.
pub fn targets(config: &RobotConfig) -> (Targets, Desk) {
    Targets::new(&config.targets, &config.teleop)
}

/// A bus's place: its link and its channel there.
pub type BusPlace = (usize, u8);

/// A robot's links, open.
pub struct Links {
    /// Each link once.
    pub links: Vec<Box<dyn Link>>,
    /// Where each bus of the file is.
    pub places: Vec<BusPlace>,
    /// The links whose devices may have the IMU.
    pub imu: Vec<usize>,
}

/// Opens every link of a robot file, to command its devices. `make_emulated` makes a link of the emulated devices, if there
/// are any.
///
/// # Errors
/// A link that cannot be opened, with its bus.
pub fn open_links(
    config: &RobotConfig,
    make_emulated: impl FnOnce(World) -> Box<dyn Link>,
) -> Result<Links, AssembleError> {
    open_links_as(Role::Host, Devices::Servos, config, make_emulated)
}

/// Which devices the links of a robot file reach, for links that must know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// The servos of the file.
    Servos,
    /// All devices on its buses, known or not.
    All,
}

/// The same, for another role.
///
/// # Errors
/// As [`open_links`].
pub fn open_links_as(
    role: Role,
    devices: Devices,
    config: &RobotConfig,
    make_emulated: impl FnOnce(World) -> Box<dyn Link>,
) -> Result<Links, AssembleError> {
    let mut make_emulated = Some(make_emulated);
    let mut links = Vec::new();
    for group in groups(config) {
        let mut emulated = || -> Result<Box<dyn Link>, String> {
            let world = config.emulate().map_err(|error| error.to_string())?;
            Ok(make_emulated
                .take()
                .map_or_else(|| unreachable!("the emulated devices are one link"), |make| make(world)))
        };
        links.push(group.open(role, devices, config, &mut emulated)?);
    }
    let places = places(config);
    let of_kind = |kind: &str| {
        let is_one = |link: &usize| links[*link].capabilities().kind == kind;
        (0..links.len()).filter(is_one).collect::<Vec<_>>()
    };
    let imu = match config.imu.as_ref().map(|imu| imu.link) {
        None => Vec::new(),
        Some(ImuLink::Emulated) => vec![0],
        // Any of them may have the device whose replies carry readings.
        Some(link) => match of_kind(link.kind().word()) {
            none if none.is_empty() => return Err(AssembleError::Imu(link.word())),
            links => links,
        },
    };
    Ok(Links { links, places, imu })
}

/// The buses of one link; none if it has nothing but the IMU.
struct Group {
    link: LinkConfig,
    buses: Vec<usize>,
}

/// The links of a robot file: first those that buses share, in the order of the list, then one for every other bus.
fn groups(config: &RobotConfig) -> Vec<Group> {
    let of_kind = |kind: &LinkKind| {
        let buses = config.buses.iter().enumerate().filter(|(_, bus)| bus.link.kind() == *kind);
        let (buses, links): (Vec<_>, Vec<_>) = buses.map(|(index, bus)| (index, &bus.link)).unzip();
        let has_imu =
            config.imu.iter().any(|imu| imu.link == ImuLink::Emulated) && *kind == LinkKind::Emulated;
        let alone = has_imu.then(|| LinkConfig::Emulated(EmulatedLink::default()));
        let link = links.first().map(|&link| link.clone()).or(alone)?;
        link.bus().shared(0).map(|_| Group { link, buses })
    };
    let own = config.buses.iter().enumerate().filter(|(_, bus)| bus.link.bus().shared(0).is_none());
    let own = own.map(|(index, bus)| Group { link: bus.link.clone(), buses: vec![index] });
    LinkKind::ALL.iter().filter_map(of_kind).chain(own).collect()
}

impl Group {
    fn open(
        &self,
        role: Role,
        devices: Devices,
        config: &RobotConfig,
        emulated: &mut dyn FnMut() -> Result<Box<dyn Link>, String>,
    ) -> Result<Box<dyn Link>, AssembleError> {
        let ids = self.buses.iter().flat_map(|&bus| config.servos_on(bus)).map(|(_, servo)| servo.id);
        let mut servos = self.buses.iter().flat_map(|&bus| config.servos_on(bus));
        let around = Around {
            role,
            ids: (devices == Devices::Servos).then(|| ids.collect()),
            speaks_fd: servos.find(|(_, servo)| servo.speaks_fd()).map(|(_, servo)| servo.name.clone()),
            sharing: self.buses.iter().map(|&bus| &config.buses[bus].link).collect(),
            pi3hat: config.pi3hat.clone().unwrap_or_default(),
            imu_mounting: config.imu.as_ref().map(|imu| imu.mounting),
            replier: self.replier(config),
            emulated,
        };
        let failed = |why| AssembleError::Open { bus: self.name(config), why };
        let link = self.link.bus().open(around).map_err(failed)?;
        let scripts = self.buses.iter().map(|&bus| {
            let of = &config.buses[bus];
            of.faults.script(self.channel(config, bus), of.link.bus().has_checksum())
        });
        let script: Vec<Fault> = scripts.flatten().collect();
        let seed = config.emulation.seed;
        Ok(if script.is_empty() {
            link
        } else {
            Box::new(Faults::new(link, &script, seed, self.replier(config)))
        })
    }

    /// For the link: of which servo a frame is a reply.
    fn replier(&self, config: &RobotConfig) -> Replier {
        replier(config, self.buses.iter().map(|&bus| (self.channel(config, bus), bus)))
    }

    fn channel(&self, config: &RobotConfig, bus: usize) -> u8 {
        config.buses[bus].link.bus().shared(bus).unwrap_or(0)
    }

    /// What to call it if it cannot be opened: its bus, or its kind if several share it.
    fn name(&self, config: &RobotConfig) -> String {
        match (self.link.bus().shared(0), &self.buses[..]) {
            (None, [bus]) => config.buses[*bus].name.clone(),
            _ => self.link.kind().to_string(),
        }
    }
}

/// For a link with these channels, each with its bus: of which servo a frame is a reply, by the families on the bus.
pub fn replier(config: &RobotConfig, channels: impl IntoIterator<Item = (u8, usize)>) -> Replier {
    let buses: Vec<_> =
        channels.into_iter().map(|(channel, bus)| (channel, families_on(config, bus))).collect();
    Box::new(move |channel, frame| {
        let bus = buses.iter().find(|(here, families)| *here == channel && !families.is_empty());
        match bus {
            Some((_, families)) => {
                let mut of_it = families.iter().filter(|(_, own)| own.iter().any(|own| own.has(frame)));
                of_it.find_map(|(family, _)| family.settings().replier(frame))
            }
            // The file has no servos there.
            None => family::replier(frame),
        }
    })
}

/// The families on a bus, which recognize replies. Each is asked only about the frames of its identifiers: beside other families those of
/// its own servos.
fn families_on(config: &RobotConfig, bus: usize) -> Vec<(Family, Vec<Identifiers>)> {
    let is_shared = config
        .servos_on(bus)
        .any(|(_, servo)| config.servos_on(bus).any(|(_, other)| other.family != servo.family));
    let mut families: Vec<(Family, Vec<Identifiers>)> = Vec::new();
    for (_, servo) in config.servos_on(bus) {
        let family = servo.family();
        let own = if is_shared { family.settings().identifiers(servo.id) } else { Identifiers::ALL.to_vec() };
        match families.last_mut().filter(|(last, _)| *last == family) {
            Some((_, of_it)) => of_it.extend(own),
            None => families.push((family, own)),
        }
    }
    families
}

/// Where each bus of a robot file is.
pub fn places(config: &RobotConfig) -> Vec<BusPlace> {
    let mut places = vec![(0, 0); config.buses.len()];
    for (link, group) in groups(config).iter().enumerate() {
        group.buses.iter().for_each(|&bus| places[bus] = (link, group.channel(config, bus)));
    }
    places
}

/// What to call each link of a robot file, in the order in which they are opened: by its buses. Behind them the buses themselves, in
/// their order: see [`narrowed`].
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
    let buses = config.buses.iter().map(|bus| format!("bus {}", bus.name));
    (0..links).map(name).chain(buses).collect()
}

/// Of a link that is down and that several buses share, the one bus that was, as [`link_names`] has it behind the links. What else
/// went down, and every other cause, stays as it is. Allocates nothing.
pub fn narrowed(cause: Cause, links: &[Box<dyn Link>], places: &[BusPlace]) -> Cause {
    let Cause::BusDown { link } = cause else { return cause };
    let was_down = |(_, (of, channel)): &(usize, &BusPlace)| {
        *of == usize::from(link) && links.get(*of).is_some_and(|link| link.counters(*channel).downs > 0)
    };
    let mut down = places.iter().enumerate().filter(was_down);
    match (down.next(), down.next()) {
        (Some((bus, _)), None) => Cause::BusDown { link: (links.len() + bus) as u16 },
        _ => cause,
    }
}

fn device(config: &RobotConfig, number: usize, (link, channel): BusPlace) -> DevicePlan {
    let servo = &config.servos[number];
    DevicePlan {
        name: servo.name.clone(),
        link,
        channel,
        servo: servo.plan(number),
        reply_timeout_ns: reply_timeout_ns(config, servo.bus),
    }
}

/// For how long without its reply the next query of a half-duplex bus is not sent, ns, whatever is left of the cycle: the longest query and reply
/// on the wire, or all answers of servos that are asked together, and then some for the servo and the kernel.
fn reply_timeout_ns(config: &RobotConfig, bus: usize) -> i64 {
    const SLACK_NS: i64 = 300_000;
    const LONGEST_EXCHANGE_BITS: i64 = 2 * (64 + 8) * 10;
    // A servo's share of what is asked together, and its answer.
    const LONGEST_SHARED_BITS: i64 = 32 * 10;
    let WireKind::Rs485 { baud, packets } = config.buses[bus].link.bus().emulated().wire else {
        return SLACK_NS;
    };
    let together = packets.answers_in_order();
    let servos = config.servos_on(bus).count() as i64;
    let bits = if together { LONGEST_SHARED_BITS * servos } else { LONGEST_EXCHANGE_BITS };
    let timeout_ns = bits * 1_000_000_000 / i64::from(baud) + SLACK_NS;
    // One that is silent is not to hold up the next cycle's question to all.
    if together { timeout_ns.min(config.timing.period_ns() * 3 / 4) } else { timeout_ns }
}
