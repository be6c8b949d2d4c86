//! `[bus.NAME]`: how a bus is reached, and what may go wrong on it on purpose.

use khz_settings::Problem;
use khz_settings::{Key, Reader, join, section, suggestion, words};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The most links of a robot: the result of a cycle has a bit for each.
pub const MAX_LINKS: usize = 64;

/// One bus: a name, a link, and faults to inject.
#[derive(Clone, Debug, PartialEq)]
pub struct BusConfig {
    /// As in `[bus.NAME]`.
    pub name: String,
    /// How it is reached.
    pub link: LinkConfig,
    /// What to break on purpose; nothing by default.
    pub faults: FaultsConfig,
}

/// How a bus is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkConfig {
    /// Emulated in this process.
    Emulated(EmulatedLink),
    /// A CAN-FD interface of the kernel.
    Socketcan(SocketcanLink),
    /// An fdcanusb adapter, or a servo's UART that speaks the same text.
    Fdcanusb(FdcanusbLink),
    /// A serial line with several servos.
    Rs485(Rs485Link),
    /// One of the five buses of a pi3hat.
    Pi3hat(Pi3hatLink),
    /// One datagram per frame.
    Udp(UdpLink),
}

words! {
    /// The kinds of link.
    LinkKind {
        /// In this process.
        Emulated = "emulated",
        /// A kernel CAN-FD interface.
        Socketcan = "socketcan",
        /// USB or UART adapter.
        Fdcanusb = "fdcanusb",
        /// Serial line.
        Rs485 = "rs485",
        /// SPI hat.
        Pi3hat = "pi3hat",
        /// Ethernet.
        Udp = "udp",
    }
}

words! {
    /// What an emulated frame costs.
    WireModel {
        /// CAN-FD: arbitration, stuffing, two bit rates.
        CanFd = "can_fd",
        /// RS485: half duplex, ten bits per byte.
        Rs485 = "rs485",
        /// Nothing: leaves the host's own cost to be measured.
        Instant = "instant",
    }
}

section! {
    /// A bus with `link = "emulated"`.
    EmulatedLink {
        /// What a frame costs.
        wire: WireModel = WireModel::CanFd, "";
        /// Bit rate of arbitration, for `can_fd`.
        nominal_bit_rate: u32 = 1_000_000, "bit/s", 10_000 => 1_000_000;
        /// Bit rate of the data phase, for `can_fd`.
        data_bit_rate: u32 = 5_000_000, "bit/s", 10_000 => 12_000_000;
        /// Bit rate, for `rs485`.
        baud: u32 = 3_000_000, "bit/s", 9600 => 12_000_000;
        /// Time a servo takes from the end of a request to the start of its reply.
        turnaround_us: f64 = 75.0, "µs", 0.0 => 100_000.0;
    }
}

section! {
    /// A bus with `link = "socketcan"`. Bit rates are set with `ip link`, not here.
    SocketcanLink {
        /// Name of the network interface.
        interface: String, "";
        /// Send the data phase at the data bit rate.
        bit_rate_switch: bool = true, "";
    }
}

section! {
    /// A bus with `link = "fdcanusb"`.
    FdcanusbLink {
        /// The serial device; `/dev/serial/by-id/…` does not change between boots.
        path: String, "";
        /// Line speed, for adapters on a UART; USB adapters ignore it.
        baud: u32 = 921_600, "bit/s", 9600 => 12_000_000;
        /// Every line carries a checksum: needed on a UART, unknown to USB adapters. Without the key, on everything but a
        /// USB adapter that is known.
        checksum: Option<bool> = None, "";
        /// Send the data phase at the data bit rate.
        bit_rate_switch: bool = true, "";
    }
}

words! {
    /// Who turns the line around.
    Rs485Direction {
        /// The driver, if it can; else the adapter.
        Auto = "auto",
        /// The kernel's driver, with `TIOCSRS485`.
        Kernel = "kernel",
        /// The adapter does it by itself.
        Adapter = "adapter",
    }
}

words! {
    /// What drives a serial port.
    Rs485Driver {
        /// The kernel.
        Tty = "tty",
        /// This process, which asks the registers of a PL011 UART (`/dev/ttyAMA0` of a Raspberry Pi) all the time.
        /// Takes root and a CPU of its own.
        Pl011 = "pl011",
    }
}

section! {
    /// A bus with `link = "rs485"`.
    Rs485Link {
        /// The serial device.
        path: String, "";
        /// Line speed.
        baud: u32 = 3_000_000, "bit/s", 9600 => 12_000_000;
        /// Who switches between sending and receiving. With `driver = "pl011"` it is always the adapter.
        direction: Rs485Direction = Rs485Direction::Auto, "";
        /// What drives the serial port.
        driver: Rs485Driver = Rs485Driver::Tty, "";
    }
}

section! {
    /// A bus with `link = "pi3hat"`. All such buses belong to the one hat of `[pi3hat]`.
    Pi3hatLink {
        /// Which connector: 1 for JC1 to 5 for JC5.
        channel: u8, "", 1 => 5;
        /// Bit rate of arbitration.
        nominal_bit_rate: u32 = 1_000_000, "bit/s", 10_000 => 1_000_000;
        /// Bit rate of the data phase.
        data_bit_rate: u32 = 5_000_000, "bit/s", 10_000 => 10_000_000;
        /// Send the data phase at the data bit rate.
        bit_rate_switch: bool = true, "";
    }
}

section! {
    /// A bus with `link = "udp"`.
    UdpLink {
        /// Where the devices listen, `HOST:PORT`; a broadcast address reaches all of them with one datagram.
        address: String, "";
        /// Where replies are received, `HOST:PORT`; port 0 takes any.
        listen: String = "0.0.0.0:0".to_owned(), "";
        /// How long the kernel polls the network card for a reply (`SO_BUSY_POLL`); 0 leaves it to interrupts.
        busy_poll_us: u32 = 0, "µs", 0 => 1000;
    }
}

section! {
    /// `[pi3hat]`: the hat itself, shared by its buses.
    Pi3hatConfig {
        /// SPI device of the two CAN processors (auxiliary SPI, chip selects 0 and 1).
        can_spi: [String; 2] = ["/dev/spidev1.0".to_owned(), "/dev/spidev1.1".to_owned()], "";
        /// SPI device of the third processor: JC5 and IMU.
        aux_spi: String = "/dev/spidev0.0".to_owned(), "";
        /// SPI clock.
        speed_hz: u32 = 10_000_000, "Hz", 100_000 => 10_000_000;
    }
}

section! {
    /// `[bus.NAME.faults]`: what to break on purpose. Everything happens by the seed of `[emulation]`, so a run
    /// can be repeated.
    FaultsConfig {
        /// Share of frames lost.
        loss: f64 = 0.0, "", 0.0 => 1.0;
        /// Share of frames that come twice.
        duplicate: f64 = 0.0, "", 0.0 => 1.0;
        /// Share of frames with a flipped bit.
        corrupt: f64 = 0.0, "", 0.0 => 1.0;
        /// Share of frames overtaken by the next one.
        reorder: f64 = 0.0, "", 0.0 => 1.0;
        /// Every frame comes this much later.
        delay_us: f64 = 0.0, "µs", 0.0 => 1_000_000.0;
        /// And up to this much more, at random.
        jitter_us: f64 = 0.0, "µs", 0.0 => 1_000_000.0;
        /// What happens when: `{ at_s = 2, for_s = 1, kind = "silence", id = 3 }`.
        events: Vec<FaultEvent> = Vec::new(), "";
    }
}

words! {
    /// What breaks at a set time.
    FaultKind {
        /// Frames of the device, or of the whole bus, vanish.
        Silence = "silence",
        /// The link reports that it is down.
        BusOff = "bus_off",
    }
}

section! {
    /// One entry of `events`.
    FaultEvent {
        /// When it begins, from the start of the run.
        at_s: f64, "s", 0.0 => 1e9;
        /// How long it lasts; without the key, to the end.
        for_s: Option<f64> = None, "s", 0.0 => 1e9;
        /// What breaks.
        kind: FaultKind = FaultKind::Silence, "";
        /// The device meant; without the key, the whole bus.
        id: Option<u8> = None, "", 1 => 126;
    }
}

impl LinkConfig {
    /// The kind, as written in the file.
    pub const fn kind(&self) -> LinkKind {
        match self {
            Self::Emulated(_) => LinkKind::Emulated,
            Self::Socketcan(_) => LinkKind::Socketcan,
            Self::Fdcanusb(_) => LinkKind::Fdcanusb,
            Self::Rs485(_) => LinkKind::Rs485,
            Self::Pi3hat(_) => LinkKind::Pi3hat,
            Self::Udp(_) => LinkKind::Udp,
        }
    }

    /// Where it is: an interface, a device, an address.
    pub fn endpoint(&self) -> String {
        match self {
            Self::Emulated(link) => link.wire.word().to_owned(),
            Self::Socketcan(link) => link.interface.clone(),
            Self::Fdcanusb(link) => link.path.clone(),
            Self::Rs485(link) => link.path.clone(),
            Self::Pi3hat(link) => format!("JC{}", link.channel),
            Self::Udp(link) => link.address.clone(),
        }
    }
}

impl LinkKind {
    /// The keys of a bus with this kind of link.
    pub const fn keys(self) -> &'static [Key] {
        match self {
            Self::Emulated => EmulatedLink::KEYS,
            Self::Socketcan => SocketcanLink::KEYS,
            Self::Fdcanusb => FdcanusbLink::KEYS,
            Self::Rs485 => Rs485Link::KEYS,
            Self::Pi3hat => Pi3hatLink::KEYS,
            Self::Udp => UdpLink::KEYS,
        }
    }

    fn read(self, table: &DeTable<'_>, path: &str, reader: &mut Reader) -> LinkConfig {
        match self {
            Self::Emulated => LinkConfig::Emulated(EmulatedLink::default().over(table, path, reader)),
            Self::Socketcan => LinkConfig::Socketcan(SocketcanLink::default().over(table, path, reader)),
            Self::Fdcanusb => LinkConfig::Fdcanusb(FdcanusbLink::default().over(table, path, reader)),
            Self::Rs485 => LinkConfig::Rs485(Rs485Link::default().over(table, path, reader)),
            Self::Pi3hat => LinkConfig::Pi3hat(Pi3hatLink::default().over(table, path, reader)),
            Self::Udp => LinkConfig::Udp(UdpLink::default().over(table, path, reader)),
        }
    }
}

section! {
    /// The keys every bus has.
    BusSection {
        /// How the bus is reached.
        link: LinkKind, "";
        /// What to break on purpose.
        faults: FaultsConfig = FaultsConfig::default(), "";
    }
}

/// Reads all `[bus.NAME]` tables in the order of the file.
pub(super) fn read_buses(value: &Spanned<DeValue<'_>>, reader: &mut Reader) -> Vec<BusConfig> {
    let Some(table) = value.get_ref().as_table() else {
        let problem = Problem::error("bus", "`bus` must be tables, one per bus")
            .at(value.span(), "this is none")
            .help("write `[bus.NAME]` above the settings of each bus");
        reader.problems.push(problem);
        return Vec::new();
    };
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
        .into_iter()
        .filter_map(|(name, value)| read_bus(name.get_ref(), name.span(), value, reader))
        .collect()
}

fn read_bus(
    name: &str,
    span: std::ops::Range<usize>,
    value: &Spanned<DeValue<'_>>,
    reader: &mut Reader,
) -> Option<BusConfig> {
    let path = join("bus", name);
    reader.remember(path.clone(), span.clone());
    let Some(table) = value.get_ref().as_table() else {
        let problem = Problem::error(&path, format!("`{path}` must be a table"))
            .at(span, "this is none")
            .help(format!(
                "write `[bus.NAME]` above the settings of each bus; a bus cannot be called `{name}` here"
            ));
        reader.problems.push(problem);
        return None;
    };
    let bus = BusSection::default().over(table, &path, reader);
    // Without a valid kind nobody knows which other keys belong here.
    if reader.span(&join(&path, "link")).is_none() {
        reader.require(table, span, &path, BusSection::KEYS, &[]);
        return None;
    }
    refuse_foreign(table, &path, bus.link, reader);
    reader.require(table, span, &path, bus.link.keys(), &[]);
    Some(BusConfig { name: name.to_owned(), link: bus.link.read(table, &path, reader), faults: bus.faults })
}

/// Unknown keys, and keys that belong to another kind of link.
fn refuse_foreign(table: &DeTable<'_>, path: &str, kind: LinkKind, reader: &mut Reader) {
    let known: Vec<_> = BusSection::KEYS.iter().chain(kind.keys()).map(|key| key.name).collect();
    for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
        let name = key.get_ref().as_ref();
        let owner = LinkKind::ALL.iter().find(|other| other.keys().iter().any(|key| key.name == name));
        let (title, help) = match owner {
            Some(owner) => (
                format!("`{name}` is no setting of a bus with `link = \"{kind}\"`"),
                format!("it belongs to `link = \"{owner}\"`; the keys here are `{}`", known.join("`, `")),
            ),
            None => {
                (format!("unknown key `{name}` in `{path}`"), suggestion(name, &known, "the keys here are"))
            }
        };
        reader
            .problems
            .push(Problem::error(join(path, name), title).at(key.span(), "no such key here").help(help));
    }
}
