//! The kinds of link a robot's bus can have: one list, and a file for each.
//!
//! A new kind is a file here that implements [`BusLink`] for the keys of its link, and a line in the list below. The robot
//! file, its reference and schema, the command line, the emulation and the budget follow; what the file leaves out does not
//! compile.

mod emulated;
mod fdcanusb;
mod pi3hat;
mod rs485;
mod slcan;
mod socketcan;
mod udp;

pub use khz_emu::WireKind;

use khz_emu::{BusConfig, EmulatedLink};
use khz_link::fdcanusb::FdcanusbLink;
use khz_link::pi3hat::{Pi3hatConfig, Pi3hatLink};
use khz_link::rs485::Rs485Link;
use khz_link::slcan::SlcanLink;
use khz_link::socketcan::SocketcanLink;
use khz_link::udp::UdpLink;
use khz_link::{Link, Replier, Role};
use khz_settings::{Documented, Key, Reader, words};
use serde::Serialize;
use toml::de::DeTable;

macro_rules! links {
    ($($(#[doc = $doc:literal])+ $kind:ident($keys:ident) = $word:literal,)+) => {
        words! {
            /// The kinds of link.
            LinkKind { $($(#[doc = $doc])+ $kind = $word,)+ }
        }

        /// How a bus is reached.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum LinkConfig { $($(#[doc = $doc])+ $kind($keys),)+ }

        impl LinkConfig {
            /// The kind, as written in the file.
            pub const fn kind(&self) -> LinkKind {
                match self { $(Self::$kind(_) => LinkKind::$kind,)+ }
            }

            /// What a robot needs of the link, whatever its kind.
            pub const fn bus(&self) -> &dyn BusLink {
                match self { $(Self::$kind(link) => link,)+ }
            }
        }

        impl LinkKind {
            /// The tables of a robot file: title, what each is for, keys.
            pub const TABLES: &'static [Documented] = &[
                $((concat!("`[bus.NAME]` with `link = \"", $word, "\"`"), $keys::ABOUT, $keys::KEYS),)+
            ];

            /// The keys of a bus with this kind of link.
            pub const fn keys(self) -> &'static [Key] {
                match self { $(Self::$kind => $keys::KEYS,)+ }
            }

            pub(crate) fn read(self, table: &DeTable<'_>, path: &str, reader: &mut Reader) -> LinkConfig {
                match self { $(Self::$kind => LinkConfig::$kind($keys::default().over(table, path, reader)),)+ }
            }

            /// The link that a command line names; see [`ByHand::at`].
            fn at(self, target: Option<&str>) -> Option<LinkConfig> {
                match self { $(Self::$kind => <$keys as ByHand>::at(target).map(LinkConfig::$kind),)+ }
            }

            /// How a command line names such a link.
            const fn usage(self) -> &'static str {
                match self { $(Self::$kind => <$keys as ByHand>::USAGE,)+ }
            }
        }
    };
}

links! {
    /// In this process.
    Emulated(EmulatedLink) = "emulated",
    /// A CAN interface of the kernel.
    Socketcan(SocketcanLink) = "socketcan",
    /// USB or UART adapter.
    Fdcanusb(FdcanusbLink) = "fdcanusb",
    /// CANable or another adapter that speaks lines of text.
    Slcan(SlcanLink) = "slcan",
    /// Serial line.
    Rs485(Rs485Link) = "rs485",
    /// SPI hat.
    Pi3hat(Pi3hatLink) = "pi3hat",
    /// Ethernet.
    Udp(UdpLink) = "udp",
}

/// What a robot needs of a bus's link.
pub trait BusLink {
    /// Where it is: an interface, a device, an address.
    fn endpoint(&self) -> String;

    /// Opens it. Devices may be touched. Of buses that share a link the first is asked.
    ///
    /// # Errors
    /// Why not, and what to do.
    fn open(&self, around: Around<'_>) -> Result<Box<dyn Link>, String>;

    /// The bus as it is emulated: what its frames cost, and how long a servo takes to answer.
    fn emulated(&self) -> BusConfig;

    /// What there is between this computer and the bus.
    fn adapter(&self) -> Adapter {
        Adapter::None
    }

    /// Its bytes come by a thread of the kernel, as those of a serial port do: a loop that spins at real-time priority can keep that
    /// thread off its CPU.
    fn by_kernel_thread(&self) -> bool {
        self.adapter() == Adapter::Usb
    }

    /// The data phase of CAN-FD has a bit rate of its own.
    fn bit_rate_switch(&self) -> bool {
        true
    }

    /// A frame with a flipped bit is refused by its receivers, and arrives nowhere.
    fn has_checksum(&self) -> bool {
        true
    }

    /// All buses of this kind share one link, and this is the channel of the one with this number in the robot.
    fn shared(&self, bus: usize) -> Option<u8> {
        let _ = bus;
        None
    }

    /// Why it carries no frames but those of moteus servos, if it does not carry CAN frames of any kind.
    fn moteus_only(&self) -> Option<&'static str> {
        None
    }

    /// Why it carries no CAN-FD frames, if it carries only classic ones.
    fn classic_only(&self) -> Option<&'static str> {
        None
    }

    /// The bit rate of the bus, if its keys have it: of arbitration where it is CAN-FD.
    fn nominal_bit_rate(&self) -> Option<u32> {
        None
    }

    /// How its bit rate is changed, for people: to this one, if it is known which the devices have.
    fn rate_advice(&self, rate: Option<u32>) -> String;

    /// Which of its keys is not possible, and what to write instead.
    fn misfit(&self) -> Option<(String, &'static str)> {
        None
    }

    /// What is wrong with it, and the command that fixes it. Nothing is opened.
    fn findings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A link as a command line names it: the word of its kind, and where it is.
trait ByHand: BusLink + Sized {
    /// For messages.
    const USAGE: &'static str;

    /// The link at `target`, with the defaults; `None` if it is not named so.
    fn at(target: Option<&str>) -> Option<Self>;
}

/// What there is between this computer and a bus, with delays of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adapter {
    /// Nothing: the bus is emulated in this process, in time of its own.
    Emulated,
    /// A controller of this computer.
    None,
    /// An adapter on USB or a UART.
    Usb,
    /// A connector of a pi3hat, 1 to 5.
    Hat(u8),
    /// A network: each device has a port of its own.
    Ethernet,
}

/// What a robot file sets for a link beside its own keys.
pub struct Around<'a> {
    /// What this program is on the bus.
    pub role: Role,
    /// The servos on the bus; `None`: unknown.
    pub ids: Option<Vec<u8>>,
    /// A servo on the bus that speaks CAN-FD, if there is one and that is known.
    pub speaks_fd: Option<String>,
    /// The buses that share the link, with this one.
    pub sharing: Vec<&'a LinkConfig>,
    /// The hat.
    pub pi3hat: Pi3hatConfig,
    /// How the IMU is mounted, if there is one: yaw, pitch and roll, rad.
    pub imu_mounting: Option<[f64; 3]>,
    /// Finds the servo that sent a reply.
    pub replier: Replier,
    /// Makes a link of the emulated devices.
    pub emulated: &'a mut dyn FnMut() -> Result<Box<dyn Link>, String>,
}

impl LinkConfig {
    /// The link that a command line names, `KIND:TARGET` or `KIND`, with the defaults.
    pub fn by_hand(word: &str) -> Option<Self> {
        let (kind, target) = word.split_once(':').map_or((word, None), |(kind, at)| (kind, Some(at)));
        kind.parse::<LinkKind>().ok()?.at(target)
    }

    /// Emulated in this process.
    pub fn is_emulated(&self) -> bool {
        self.bus().adapter() == Adapter::Emulated
    }

    /// Where it is: an interface, a device, an address.
    pub fn endpoint(&self) -> String {
        self.bus().endpoint()
    }
}

impl LinkKind {
    /// How a command line names links, for messages.
    pub fn usages() -> String {
        Self::ALL.iter().map(|kind| kind.usage()).collect::<Vec<_>>().join(", ")
    }
}
