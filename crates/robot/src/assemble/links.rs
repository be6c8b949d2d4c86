//! The links of a robot file, opened, and which buses each of them has.

use khz_emu::{EmulatedLink, World};
use khz_file::config::{ImuLink, RobotConfig};
use khz_file::links::{Around, LinkConfig, LinkKind};
use khz_link::faults::{Fault, Faults};
use khz_link::{Link, Replier, Role};
use khz_loop::buses::BusPlace;
use khz_servo::{Family, Identifiers, family};

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
fn places(config: &RobotConfig) -> Vec<BusPlace> {
    let mut places = vec![(0, 0); config.buses.len()];
    for (link, group) in groups(config).iter().enumerate() {
        group.buses.iter().for_each(|&bus| places[bus] = (link, group.channel(config, bus)));
    }
    places
}
