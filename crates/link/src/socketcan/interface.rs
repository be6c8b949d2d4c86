//! How a CAN interface is set up, and what is wrong with it.
//!
//! Length and queue come from sysfs, bit rates and state from the kernel by netlink (which needs no
//! privilege). The wanted values are those of moteus servos: 1 and 5 Mbit/s with the sample point at 2/3
//! (mjbots/moteus `docs/platforms/socketcan.md`). An interface for classic CAN (MTU 16) is as good for servos that speak
//! classic CAN; whether all of them do is in the robot file.

use crate::OpenError;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The state and settings of an interface, as the kernel reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// It is up.
    pub up: bool,
    /// Largest frame: 16 for classic CAN, 72 for CAN-FD.
    pub mtu: u32,
    /// Frames the kernel queues for sending.
    pub queue: u32,
    /// A virtual interface: no bits, no bit rates.
    pub is_virtual: bool,
    /// Bit rate of the arbitration phase.
    pub nominal: Option<Timing>,
    /// Bit rate of the data phase.
    pub data: Option<Timing>,
    /// The controller's condition.
    pub state: Option<State>,
    /// Its driver gives frames back once they are sent (`IFF_ECHO`).
    pub echo: bool,
    /// An unacknowledged frame is given up, not repeated (`one-shot on`).
    pub one_shot: bool,
    /// After bus-off the kernel restarts the controller this much later, ms; 0 never.
    pub restart_ms: Option<u32>,
}

/// A bit rate as the kernel computed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Bits per second.
    pub bit_rate: u32,
    /// Where a bit is sampled, in thousandths of it.
    pub sample_point: u32,
    /// How far a bit may be stretched or shortened to stay in step, time quanta.
    pub sync_jump_width: u32,
}

/// Condition of the controller (linux/can/netlink.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Fewer than 96 errors.
    ErrorActive,
    /// 96 errors or more.
    ErrorWarning,
    /// 128 errors or more: it sends no error flags.
    ErrorPassive,
    /// It has left the bus.
    BusOff,
    /// Down or asleep.
    Stopped,
}

/// Something wrong with an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The link cannot work like this; otherwise it works badly.
    pub fatal: bool,
    /// What is wrong.
    pub what: String,
    /// Why it matters.
    pub why: &'static str,
    /// The commands that fix it; they need root.
    pub command: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; `{}`", self.what, self.why, self.command)
    }
}

impl Interface {
    /// Asks the kernel.
    ///
    /// # Errors
    /// There is no interface of this name, or it is no CAN interface.
    pub fn read(name: &str) -> Result<Self, OpenError> {
        let mut interface = Self::read_sysfs(Path::new("/sys"), name)?;
        // Without netlink the bit rates stay unknown, and `findings` does not check them.
        if let Some(details) = ask_kernel(&Path::new("/sys/class/net").join(name)) {
            interface.add_details(&details);
        }
        Ok(interface)
    }

    fn read_sysfs(sys: &Path, name: &str) -> Result<Self, OpenError> {
        let class = sys.join("class/net");
        let place = class.join(name);
        let number = |file: &str| read_number(&place.join(file));
        if name.is_empty() || name.contains('/') || !place.exists() {
            let advice = match can_interfaces(&class).as_slice() {
                [] => {
                    "there is no CAN interface at all: plug the adapter in, or `sudo modprobe can_raw`".into()
                }
                known => format!("there is: {}", known.join(", ")),
            };
            return Err(OpenError::new(name, &"no such interface", &advice));
        }
        if number("type") != Some(ARPHRD_CAN) {
            return Err(OpenError::new(name, &"not a CAN interface", "`ip -br link` lists what there is"));
        }
        Ok(Self {
            name: name.into(),
            up: number("flags").is_some_and(|flags| flags & IFF_UP != 0),
            echo: number("flags").is_some_and(|flags| flags & IFF_ECHO != 0),
            mtu: number("mtu").unwrap_or(0),
            queue: number("tx_queue_len").unwrap_or(0),
            is_virtual: !place.join("device").exists(),
            ..Self::default()
        })
    }

    fn add_details(&mut self, link_message: &[u8]) {
        let Some(info) = attribute(link_message, IFLA_LINKINFO) else { return };
        let Some(can) = attribute(info, IFLA_INFO_DATA) else { return };
        self.nominal = attribute(can, IFLA_CAN_BITTIMING).and_then(Timing::read);
        self.data = attribute(can, IFLA_CAN_DATA_BITTIMING).and_then(Timing::read);
        self.state = attribute(can, IFLA_CAN_STATE).and_then(|value| word(value, 0)).and_then(State::read);
        // `struct can_ctrlmode`: a mask, then the flags.
        let modes = attribute(can, IFLA_CAN_CTRLMODE).and_then(|value| word(value, 4));
        self.one_shot = modes.is_some_and(|modes| modes & ONE_SHOT != 0);
        self.restart_ms = attribute(can, IFLA_CAN_RESTART_MS).and_then(|value| word(value, 0));
    }

    /// Every frame sent is given back, sooner or later. In one-shot mode those that were given up are not.
    pub fn confirms(&self) -> bool {
        self.echo && !self.one_shot
    }

    /// The first fatal finding as an error.
    ///
    /// # Errors
    /// The interface cannot carry frames as it is.
    pub fn require_usable(&self) -> Result<(), OpenError> {
        match self.findings().into_iter().find(|finding| finding.fatal) {
            Some(Finding { what, command, .. }) => {
                Err(OpenError::new(&self.name, &what, &format!("`{command}`")))
            }
            None => Ok(()),
        }
    }

    /// For a servo that speaks CAN-FD.
    ///
    /// # Errors
    /// The interface carries classic CAN frames only.
    pub fn require_fd(&self, servo: &str) -> Result<(), OpenError> {
        if self.carries_fd() {
            return Ok(());
        }
        let what =
            format!("CAN-FD is off (MTU {}, not {FD_MTU}), and servo `{servo}` speaks CAN-FD", self.mtu);
        Err(OpenError::new(&self.name, &what, &format!("`{}`", self.set_up())))
    }

    /// Everything wrong with it, the fatal first.
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut add = |fatal, what: String, why, command| found.push(Finding { fatal, what, why, command });
        if ![CLASSIC_MTU, FD_MTU].contains(&self.mtu) {
            let what = format!("MTU {}, neither {FD_MTU} (CAN-FD) nor {CLASSIC_MTU} (classic CAN)", self.mtu);
            add(true, what, "no other frames are known", self.set_up());
        }
        if !self.up {
            add(true, "the interface is down".into(), "no frame passes", self.set_up());
        }
        if self.state == Some(State::BusOff) {
            let command = format!("sudo ip link set {} type can restart", self.name);
            add(true, "the controller is off the bus".into(), "too many errors: wiring, bit rates?", command);
        }
        if let Some(timing) = self.nominal.filter(|timing| timing.bit_rate != NOMINAL) {
            let what = format!("bit rate {}, not {NOMINAL}", timing.bit_rate);
            add(false, what, "servos with factory settings stay silent", self.set_up());
        }
        // Drivers keep the data phase's timing when CAN-FD is switched off.
        let data = self.data.filter(|_| self.carries_fd());
        if let Some(timing) = data.filter(|timing| timing.bit_rate != DATA) {
            let what = format!("data bit rate {}, not {DATA}", timing.bit_rate);
            add(false, what, "frames with bit-rate switch are lost", self.set_up());
        }
        for (phase, timing) in [("", self.nominal), ("data ", data)] {
            if let Some(timing) = timing.filter(|timing| !SAMPLE_POINTS.contains(&timing.sample_point)) {
                let what = format!("{phase}sample point 0.{:03}, not near 0.666", timing.sample_point);
                add(false, what, "errors as soon as cables get longer", self.set_up());
            }
        }
        if self.restart_ms == Some(0) {
            let command = format!(
                "sudo ip link set {0} down; sudo ip link set {0} type can restart-ms 100; sudo ip link set {0} up",
                self.name
            );
            add(
                false,
                "no restart after bus-off".into(),
                "one bus-off stops the bus until it is restarted by hand",
                command,
            );
        }
        if self.queue < QUEUE {
            let what = format!("a transmit queue of {} frames", self.queue);
            let command = format!("sudo ip link set {} txqueuelen {QUEUE}", self.name);
            add(false, what, "a burst for 12 servos meets a full queue (ENOBUFS)", command);
        }
        found.sort_by_key(|finding| !finding.fatal);
        found
    }

    /// CAN-FD frames pass; if not, classic ones only.
    pub fn carries_fd(&self) -> bool {
        self.mtu == FD_MTU
    }

    /// The commands that set the interface up for CAN-FD, as moteus servos speak it.
    pub fn set_up(&self) -> String {
        let name = &self.name;
        if self.is_virtual {
            return format!("sudo ip link set {name} down; sudo ip link set {name} mtu 72 up");
        }
        format!(
            "sudo ip link set {name} down; sudo ip link set {name} up type can bitrate {NOMINAL} \
             dbitrate {DATA} sjw 10 dsjw 5 sample-point 0.666 dsample-point 0.666 restart-ms 100 fd on"
        )
    }
}

const NOMINAL: u32 = 1_000_000;
const DATA: u32 = 5_000_000;
// linux/can.h.
const CLASSIC_MTU: u32 = 16;
const FD_MTU: u32 = 72;
/// Controllers cannot reach 0.666 exactly; the kernel picks the nearest of what they can.
const SAMPLE_POINTS: std::ops::RangeInclusive<u32> = 600..=750;
/// The kernel's default. A longer queue is of no use: what does not fit is offered again within the tick, and what waits
/// in the queue cannot be recalled.
const QUEUE: u32 = 10;

// linux/if_arp.h, linux/if.h, linux/rtnetlink.h, linux/if_link.h, linux/can/netlink.h.
const ARPHRD_CAN: u32 = 280;
const IFF_UP: u32 = 1;
const IFF_ECHO: u32 = 1 << 18;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const NLM_F_REQUEST: u16 = 1;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_CAN_BITTIMING: u16 = 1;
const IFLA_CAN_STATE: u16 = 4;
const IFLA_CAN_CTRLMODE: u16 = 5;
const ONE_SHOT: u32 = 8;
const IFLA_CAN_RESTART_MS: u16 = 6;
const IFLA_CAN_DATA_BITTIMING: u16 = 9;

impl Timing {
    /// Reads `struct can_bittiming`.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (bit_rate, sample_point) = (word(bytes, 0)?, word(bytes, 4)?);
        Some(Self { bit_rate, sample_point, sync_jump_width: word(bytes, 24)? }).filter(|_| bit_rate != 0)
    }
}

impl State {
    fn read(number: u32) -> Option<Self> {
        let states = [Self::ErrorActive, Self::ErrorWarning, Self::ErrorPassive, Self::BusOff];
        match number {
            0..=3 => Some(states[number as usize]),
            4 | 5 => Some(Self::Stopped),
            _ => None,
        }
    }
}

/// The attributes of an interface, as the kernel answers `RTM_GETLINK`.
fn ask_kernel(place: &Path) -> Option<Vec<u8>> {
    let index = read_number(&place.join("ifindex"))?;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, ROUTE).ok()?;
    let mut request = [0; 32];
    request[0..4].copy_from_slice(&32_u32.to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    request[20..24].copy_from_slice(&index.to_ne_bytes());
    sendto(&socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0)).ok()?;
    let mut answer = vec![0; 1 << 16];
    let (len, _) = recv(&socket, answer.as_mut_slice(), RecvFlags::empty()).ok()?;
    attributes_of(&answer[..len]).map(<[u8]>::to_vec)
}

/// `NETLINK_ROUTE` is protocol 0.
const ROUTE: Option<rustix::net::Protocol> = None;

/// What follows the two headers of a link message.
fn attributes_of(answer: &[u8]) -> Option<&[u8]> {
    let len = word(answer, 0)? as usize;
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    if kind == RTM_NEWLINK { answer.get(32..len) } else { None }
}

/// The value of one of a list of attributes.
fn attribute(mut list: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let len = usize::from(u16::from_ne_bytes(list.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(list.get(2..4)?.try_into().ok()?) & 0x3fff;
        let value = list.get(4..len)?;
        if kind == wanted {
            return Some(value);
        }
        list = list.get(len.next_multiple_of(4)..)?;
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn read_number(path: &Path) -> Option<u32> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Names of all CAN interfaces.
pub fn list() -> Vec<String> {
    can_interfaces(Path::new("/sys/class/net"))
}

fn can_interfaces(class: &Path) -> Vec<String> {
    let is_can = |place: &PathBuf| read_number(&place.join("type")) == Some(ARPHRD_CAN);
    let places = fs::read_dir(class).into_iter().flatten().flatten().map(|entry| entry.path()).filter(is_can);
    let mut names: Vec<_> =
        places.filter_map(|place| Some(place.file_name()?.to_string_lossy().into_owned())).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Interface {
        let timing = |bit_rate| Timing { bit_rate, sample_point: 666, sync_jump_width: 5 };
        Interface {
            name: "can0".into(),
            up: true,
            mtu: 72,
            queue: 10,
            nominal: Some(timing(NOMINAL)),
            data: Some(timing(DATA)),
            state: Some(State::ErrorActive),
            restart_ms: Some(100),
            ..Interface::default()
        }
    }

    fn only(interface: &Interface) -> Finding {
        let mut findings = interface.findings();
        assert_eq!(findings.len(), 1, "{findings:?}");
        findings.remove(0)
    }

    #[test]
    fn nothing_to_say_about_a_good_one() {
        assert_eq!(good().findings(), []);
        assert!(good().require_usable().is_ok());
    }

    #[test]
    fn classic_can_is_as_good_and_needs_no_data_bit_rate() {
        let data = Some(Timing { bit_rate: 2_000_000, sample_point: 875, sync_jump_width: 1 });
        let classic = Interface { mtu: 16, data, ..good() };
        assert!(!classic.carries_fd() && classic.require_usable().is_ok());
        assert_eq!(classic.findings(), []);
        let error = classic.require_fd("knee").unwrap_err().to_string();
        let what =
            "can0: CAN-FD is off (MTU 16, not 72), and servo `knee` speaks CAN-FD; `sudo ip link set can0";
        assert!(error.starts_with(what) && error.ends_with("restart-ms 100 fd on`"), "{error}");
        assert!(good().require_fd("knee").is_ok());
        let vcan = Interface { is_virtual: true, name: "vcan0".into(), ..classic };
        assert_eq!(vcan.set_up(), "sudo ip link set vcan0 down; sudo ip link set vcan0 mtu 72 up");
    }

    #[test]
    fn an_interface_for_frames_of_another_kind_is_refused_with_the_command() {
        let strange = Interface { mtu: 2060, ..good() };
        assert!(only(&strange).command.ends_with("restart-ms 100 fd on"));
        let error = strange.require_usable().unwrap_err().to_string();
        assert!(
            error.starts_with("can0: MTU 2060, neither 72 (CAN-FD) nor 16 (classic CAN); `sudo"),
            "{error}"
        );
    }

    #[test]
    fn what_works_badly_is_not_fatal() {
        let timing = Timing { bit_rate: NOMINAL, sample_point: 875, sync_jump_width: 1 };
        for interface in [
            Interface { nominal: Some(timing), ..good() },
            Interface { data: Some(Timing { bit_rate: 2_000_000, ..good().data.unwrap() }), ..good() },
            Interface { queue: 3, ..good() },
            Interface { restart_ms: Some(0), ..good() },
        ] {
            assert!(!only(&interface).fatal);
            assert!(interface.require_usable().is_ok());
        }
        let sampled = Interface { nominal: Some(timing), ..good() };
        assert_eq!(only(&sampled).what, "sample point 0.875, not near 0.666");
    }

    #[test]
    fn down_and_bus_off_are_fatal() {
        assert!(only(&Interface { up: false, ..good() }).fatal);
        assert!(only(&Interface { state: Some(State::BusOff), ..good() }).fatal);
    }

    #[test]
    fn netlink_attributes_are_understood_and_bad_ones_survived() {
        let pack = |kind: u16, value: &[u8]| {
            let mut bytes = (value.len() as u16 + 4).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let timing: Vec<u8> =
            [5_000_000_u32, 700, 10, 1, 2, 3, 4, 5].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let can = [
            pack(IFLA_CAN_STATE, &3_u32.to_ne_bytes()),
            pack(IFLA_CAN_CTRLMODE, &[0x29_u32, 0x28].map(u32::to_ne_bytes).concat()),
            pack(IFLA_CAN_RESTART_MS, &100_u32.to_ne_bytes()),
            pack(IFLA_CAN_DATA_BITTIMING, &timing),
        ];
        let info = [pack(1, b"can\0"), pack(IFLA_INFO_DATA, &can.concat())].concat();
        let message = [pack(3, b"can0\0"), pack(IFLA_LINKINFO, &info)].concat();
        let mut interface = Interface::default();
        interface.add_details(&message);
        assert_eq!(interface.state, Some(State::BusOff));
        assert_eq!(interface.restart_ms, Some(100));
        assert!(interface.one_shot && !Interface { echo: true, ..interface.clone() }.confirms());
        let data = Timing { bit_rate: 5_000_000, sample_point: 700, sync_jump_width: 4 };
        assert_eq!(interface.data, Some(data));
        for end in 0..message.len() {
            Interface::default().add_details(&message[..end]);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let sys = tempfile::tempdir().unwrap();
        let place = |name: &str| sys.path().join("class/net").join(name);
        for (name, kind) in [("can0", "280"), ("can1", "280"), ("eth0", "1")] {
            fs::create_dir_all(place(name)).unwrap();
            let files = [("type", kind), ("flags", "0x40081"), ("mtu", "72"), ("tx_queue_len", "10")];
            files.iter().for_each(|(file, text)| fs::write(place(name).join(file), text).unwrap());
        }
        let error = Interface::read_sysfs(sys.path(), "can7").unwrap_err();
        assert_eq!(error.to_string(), "can7: no such interface; there is: can0, can1");
        assert!(Interface::read_sysfs(sys.path(), "eth0").is_err());
        let can0 = Interface::read_sysfs(sys.path(), "can0").unwrap();
        assert_eq!((can0.up, can0.mtu, can0.queue, can0.is_virtual), (true, 72, 10, true));
        assert!(can0.confirms());
    }

    #[test]
    fn the_kernel_answers_for_the_loopback_interface() {
        let attributes = ask_kernel(Path::new("/sys/class/net/lo")).unwrap();
        let name = attribute(&attributes, 3).unwrap();
        assert_eq!(name, b"lo\0");
    }
}
