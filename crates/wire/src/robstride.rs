//! The frames of RobStride servos and of the CyberGear, for both ends: their "private protocol" of classic 29-bit frames.
//!
//! Facts are from the maker's manuals of 2026-04-28 (RS00–RS06, EL05), the maker's Python package `robstride-dynamics` 0.0.1, the
//! CyberGear's manual and CyberGear-with-python 7a7f882, and frames of five drives that the project marengo has published. The frames
//! of `vectors/robstride.json` were made by those programs, unmodified, or recorded on those drives.
//!
//! # The identifier
//! | bits | content |
//! |---|---|
//! | 28–24 | what the frame is: [`kind`] |
//! | 23–8 | more of its content, most often who sent it |
//! | 7–0 | whom it is for |
//!
//! Numbers in the payload of commands and states have their most significant byte first; those of parameters, last.

use crate::Frame;
use crate::mit::{Codes, Scale};

pub use crate::mit::TIMEOUT_PER_S;

/// The greatest id of a servo.
pub const MOST_ID: u8 = 127;

/// Identities are addressed to it.
pub const EVERYBODY: u8 = 0xfe;

/// Half the range of positions, rad, whichever the model: two turns.
pub const POSITION_RANGE: f64 = 4.0 * core::f64::consts::PI;

/// What a frame is.
#[allow(missing_docs)]
pub mod kind {
    /// Who is there, and its answer.
    pub const IDENTITY: u8 = 0;
    pub const COMMAND: u8 = 1;
    pub const STATE: u8 = 2;
    pub const ENABLE: u8 = 3;
    /// Output off; clears faults if the first byte is 1.
    pub const STOP: u8 = 4;
    /// Here is 0.
    pub const SET_ZERO: u8 = 6;
    pub const SET_ID: u8 = 7;
    /// A parameter of the table that a CyberGear keeps without power. Undocumented: known from CyberGear-with-python.
    pub const READ_STORED: u8 = 9;
    pub const READ: u8 = 17;
    /// Lost with the power unless it is stored.
    pub const WRITE: u8 = 18;
    /// A servo reports its faults, unasked.
    pub const FAULTS: u8 = 21;
    /// Keep all parameters when the power is gone. To a CyberGear the same frame sets the bit rate.
    pub const STORE: u8 = 22;
    /// Reports on or off; and a report: a state, unasked.
    pub const REPORT: u8 = 24;
}

/// Numbers of parameters.
#[allow(missing_docs)]
pub mod parameter {
    /// 0: commands of [`super::kind::COMMAND`].
    pub const RUN_MODE: u16 = 0x7005;
    /// N·m; no more than the model's range.
    pub const TORQUE_LIMIT: u16 = 0x700b;
    pub const SPEED_LIMIT: u16 = 0x7017;
    pub const CURRENT_LIMIT: u16 = 0x7018;
    /// Supply, V.
    pub const VOLTAGE: u16 = 0x701c;
    /// Of reports; 1: 10 ms, each more 5 ms.
    pub const REPORT_PERIOD: u16 = 0x7026;
    /// 50 µs each; 0: no watchdog.
    pub const TIMEOUT: u16 = 0x7028;
    /// The same of a CyberGear.
    pub const CYBERGEAR_TIMEOUT: u16 = 0x200c;
    /// Where positions begin after power-up; 0: at 0 to one turn, 1: at half a turn either way.
    pub const ZERO_STATE: u16 = 0x7029;
    /// 1: no damping while it is off.
    pub const DAMPER: u16 = 0x702a;
    /// What is wrong, by bit; a state has room for six groups of them ([`super::FAULTS`]).
    pub const FAULTS: u16 = 0x3022;
    /// What is about to be wrong, by bit.
    pub const WARNINGS: u16 = 0x3023;

    /// What the maker's documents call them.
    pub const NAMES: [(u16, &str); 29] = [
        (RUN_MODE, "run_mode"),
        (0x7006, "iq_ref"),
        (0x700a, "spd_ref"),
        (TORQUE_LIMIT, "limit_torque"),
        (0x7010, "cur_kp"),
        (0x7011, "cur_ki"),
        (0x7014, "cur_filt_gain"),
        (0x7016, "loc_ref"),
        (SPEED_LIMIT, "limit_spd"),
        (CURRENT_LIMIT, "limit_cur"),
        (0x7019, "mechPos"),
        (0x701a, "iqf"),
        (0x701b, "mechVel"),
        (VOLTAGE, "VBUS"),
        (0x701e, "loc_kp"),
        (0x701f, "spd_kp"),
        (0x7020, "spd_ki"),
        (0x7021, "spd_filt_gain"),
        (0x7022, "acc_rad"),
        (0x7024, "vel_max"),
        (0x7025, "acc_set"),
        (REPORT_PERIOD, "EPScan_time"),
        (TIMEOUT, "canTimeout"),
        (ZERO_STATE, "zero_sta"),
        (DAMPER, "damper"),
        (0x702b, "add_offset"),
        (CYBERGEAR_TIMEOUT, "CAN_TIMEOUT"),
        (FAULTS, "faultSta"),
        (WARNINGS, "warnSta"),
    ];

    /// How many bytes an integer has; 0: it is a float.
    pub const fn integer(parameter: u16) -> usize {
        match parameter {
            RUN_MODE | ZERO_STATE | DAMPER | 0x702c | 0x702d => 1,
            REPORT_PERIOD => 2,
            TIMEOUT | CYBERGEAR_TIMEOUT | FAULTS | WARNINGS => 4,
            _ => 0,
        }
    }

    /// The value of a parameter as a number.
    pub fn number(parameter: u16, value: [u8; 4]) -> f64 {
        let [a, b, c, d] = value;
        f64::from(match integer(parameter) {
            0 => return f64::from(f32::from_le_bytes(value)),
            1 => u32::from(a),
            2 => u32::from_le_bytes([a, b, 0, 0]),
            _ => u32::from_le_bytes([a, b, c, d]),
        })
    }

    /// The value of a parameter as it travels; a number that its type does not hold is rounded or cut to the nearest it does.
    pub fn value(parameter: u16, number: f64) -> [u8; 4] {
        match integer(parameter) {
            0 => (number as f32).to_le_bytes(),
            1 => u32::from(number as u8).to_le_bytes(),
            2 => u32::from(number as u16).to_le_bytes(),
            _ => (number as u32).to_le_bytes(),
        }
    }
}

/// What a servo is doing.
#[allow(missing_docs)]
pub mod mode {
    /// Off.
    pub const RESET: u8 = 0;
    pub const CALIBRATION: u8 = 1;
    /// Carries out commands.
    pub const RUN: u8 = 2;

    /// The maker's word for it.
    pub const fn name(mode: u8) -> &'static str {
        match mode {
            RESET => "reset",
            CALIBRATION => "calibration",
            RUN => "run",
            _ => "unknown",
        }
    }
}

/// The faults of a state, by bit.
pub const FAULTS: [&str; 6] = [
    "under-voltage",
    "over-current",
    "over-temperature",
    "magnetic encoder",
    "stall or overload",
    "not calibrated",
];

/// What a host asks of a servo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request {
    /// Identify yourself.
    Identity,
    /// Follow; all codes have 16 bits.
    Command(Codes),
    /// Output on.
    Enable,
    /// Output off.
    Stop {
        /// And clear faults.
        clear: bool,
    },
    /// Here is 0.
    SetZero,
    /// Your id is this from now on.
    SetId(u8),
    /// Report a parameter.
    Read(u16),
    /// Report a parameter of the stored table; a CyberGear's only.
    ReadStored(u16),
    /// Take a parameter's value.
    Write(u16, [u8; 4]),
    /// Keep all parameters.
    Store,
    /// Send your state by yourself, or do not.
    Report(bool),
    /// Report the version of your firmware.
    Version,
    /// Report your state. In no manual, but K-Scale's programs ask so (`robstride` 0.3.6, crates.io).
    State,
}

/// The payload of requests that must not come by accident.
const COUNTED: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
/// How the stored table calls a number of four bytes without a sign. The byte after it means nothing.
const STORED_U32: u8 = 4;
/// The first bytes of the question for the version, and of its answer.
const VERSION: [u8; 2] = [0x00, 0xc4];

impl Request {
    /// The request to the servo of this id, from the host of that id, as it travels.
    pub fn to_frame(self, id: u8, host: u8) -> Frame {
        let host = u16::from(host);
        let parameter = |number: u16, [a, b, c, d]: [u8; 4]| {
            let [low, high] = number.to_le_bytes();
            [low, high, 0, 0, a, b, c, d]
        };
        let first = |byte| [byte, 0, 0, 0, 0, 0, 0, 0];
        let (kind, data, payload) = match self {
            Self::Identity => (kind::IDENTITY, host, [0; 8]),
            Self::Command(codes) => (kind::COMMAND, codes.torque as u16, to_payload(codes)),
            Self::Enable => (kind::ENABLE, host, [0; 8]),
            Self::Stop { clear } => (kind::STOP, host, first(clear.into())),
            Self::SetZero => (kind::SET_ZERO, host, first(1)),
            Self::SetId(new) => (kind::SET_ID, u16::from(new) << 8 | host, first(1)),
            Self::Read(number) => (kind::READ, host, parameter(number, [0; 4])),
            Self::ReadStored(number) => (kind::READ_STORED, host, parameter(number, [0; 4])),
            Self::Write(number, value) => (kind::WRITE, host, parameter(number, value)),
            Self::Store => (kind::STORE, host, COUNTED),
            Self::Report(on) => {
                let [a, b, c, d, e, f, ..] = COUNTED;
                (kind::REPORT, host, [a, b, c, d, e, f, on.into(), 0])
            }
            Self::Version => (kind::STOP, host, [VERSION[0], VERSION[1], 0, 0, 0, 0, 0, 0]),
            Self::State => (kind::STATE, host, [0; 8]),
        };
        frame(kind, data, id, payload)
    }

    /// What a frame requests, of the servo with which id, and for which host, if it names one: a command does not.
    pub fn parse(frame: &Frame) -> Option<(Self, u8, Option<u8>)> {
        let (kind, data, id) = parts(frame)?;
        let payload: [u8; 8] = frame.payload().try_into().ok()?;
        let [first, second, _, _, value @ ..] = payload;
        let number = u16::from_le_bytes([first, second]);
        let request = match kind {
            kind::COMMAND => return Some((Self::Command(from_payload(data, payload)), id, None)),
            kind::IDENTITY => Self::Identity,
            kind::ENABLE => Self::Enable,
            kind::STOP if payload[..2] == VERSION => Self::Version,
            kind::STOP => Self::Stop { clear: first == 1 },
            kind::SET_ZERO => Self::SetZero,
            kind::SET_ID => Self::SetId((data >> 8) as u8),
            kind::READ => Self::Read(number),
            kind::READ_STORED => Self::ReadStored(number),
            kind::WRITE => Self::Write(number, value),
            kind::STORE => Self::Store,
            kind::REPORT => Self::Report(payload[6] == 1),
            // Not another servo's state, to a host whose id this one has: nothing of that is 0 throughout.
            kind::STATE if payload == [0; 8] => Self::State,
            _ => return None,
        };
        Some((request, id, Some(data as u8)))
    }
}

/// A message of a servo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reply {
    /// Who it is: the number of its processor.
    Identity {
        /// The id of the servo.
        id: u8,
        /// The number, as it travels.
        number: [u8; 8],
    },
    /// What it does and measures.
    State(State),
    /// A parameter.
    Value {
        /// The id of the servo.
        id: u8,
        /// To this host.
        host: u8,
        /// Which parameter.
        parameter: u16,
        /// Its value; `None`: there is none of this number.
        value: Option<[u8; 4]>,
    },
    /// A number of the stored table, four bytes.
    Stored {
        /// The id of the servo.
        id: u8,
        /// To this host.
        host: u8,
        /// Which parameter.
        parameter: u16,
        /// Its value.
        value: [u8; 4],
    },
    /// The version of its firmware. It looks like a state at 0.038 rad from the negative end.
    Version {
        /// The id of the servo.
        id: u8,
        /// To this host.
        host: u8,
        /// Its parts.
        version: [u8; 4],
    },
    /// Its faults and warnings, reported by itself.
    Faults {
        /// The id of the servo.
        id: u8,
        /// To this host.
        host: u8,
        /// By bit; see the manuals.
        faults: u32,
        /// By bit.
        warnings: u32,
    },
}

impl Reply {
    /// As it travels.
    pub fn to_frame(self) -> Frame {
        match self {
            Self::Identity { id, number } => frame(kind::IDENTITY, id.into(), EVERYBODY, number),
            Self::State(state) => state.to_frame(kind::STATE),
            Self::Value { id, host, parameter, value } => {
                let ([low, high], [a, b, c, d]) = (parameter.to_le_bytes(), value.unwrap_or_default());
                let failed = u16::from(value.is_none()) << 8;
                frame(kind::READ, failed | u16::from(id), host, [low, high, 0, 0, a, b, c, d])
            }
            Self::Stored { id, host, parameter, value: [a, b, c, d] } => {
                let [low, high] = parameter.to_le_bytes();
                frame(kind::READ_STORED, id.into(), host, [low, high, STORED_U32, 0, a, b, c, d])
            }
            Self::Version { id, host, version: [a, b, c, d] } => {
                frame(kind::STATE, id.into(), host, [VERSION[0], VERSION[1], 0x56, a, b, c, d, 0x07])
            }
            Self::Faults { id, host, faults, warnings } => {
                let ([a, b, c, d], [e, f, g, h]) = (faults.to_le_bytes(), warnings.to_le_bytes());
                frame(kind::FAULTS, id.into(), host, [a, b, c, d, e, f, g, h])
            }
        }
    }

    /// Decodes a frame that a servo sent in reply. The answer to [`Request::Version`] cannot be distinguished from a state: ask
    /// [`Reply::version`].
    pub fn parse(frame: &Frame) -> Option<Self> {
        let (kind, data, host) = parts(frame)?;
        let payload: [u8; 8] = frame.payload().try_into().ok()?;
        let id = data as u8;
        let [low, high, _, _, value @ ..] = payload;
        match kind {
            kind::IDENTITY if host == EVERYBODY => Some(Self::Identity { id, number: payload }),
            kind::STATE => State::parse(frame).map(Self::State),
            kind::READ => {
                let parameter = u16::from_le_bytes([low, high]);
                Some(Self::Value { id, host, parameter, value: (data >> 8 == 0).then_some(value) })
            }
            kind::READ_STORED if payload[2] == STORED_U32 => {
                Some(Self::Stored { id, host, parameter: u16::from_le_bytes([low, high]), value })
            }
            kind::FAULTS => {
                let [a, b, c, d, e, f, g, h] = payload;
                let (faults, warnings) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
                Some(Self::Faults { id, host, faults, warnings })
            }
            _ => None,
        }
    }

    /// The version in a frame, as text, if it was sent in answer to [`Request::Version`]. Some answers have seven bytes.
    pub fn version(frame: &Frame) -> Option<(u8, [u8; 4])> {
        let (kind, data, _) = parts(frame)?;
        match *frame.payload() {
            [a, b, 0x56, v0, v1, v2, v3, ..] if [a, b] == VERSION && kind == kind::STATE => {
                Some((data as u8, [v0, v1, v2, v3]))
            }
            _ => None,
        }
    }
}

/// What a servo does and measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The id of the servo.
    pub id: u8,
    /// To this host.
    pub host: u8,
    /// See [`mode`].
    pub mode: u8,
    /// Six bits; see [`FAULTS`].
    pub faults: u8,
    /// 16 bits, as the next two.
    pub position: u16,
    /// Between − and + the model's greatest velocity.
    pub velocity: u16,
    /// The same of torque.
    pub torque: u16,
    /// Tenths of °C.
    pub temperature: i16,
}

impl State {
    /// As it travels, as a reply or as a report.
    pub fn to_frame(self, kind: u8) -> Frame {
        let data = u16::from(self.mode & 3) << 14 | u16::from(self.faults & 0x3f) << 8 | u16::from(self.id);
        let [p1, p0] = self.position.to_be_bytes();
        let [v1, v0] = self.velocity.to_be_bytes();
        let [t1, t0] = self.torque.to_be_bytes();
        let [c1, c0] = self.temperature.to_be_bytes();
        frame(kind, data, self.host, [p1, p0, v1, v0, t1, t0, c1, c0])
    }

    /// Decodes a reply or a report.
    pub fn parse(frame: &Frame) -> Option<Self> {
        let (kind, data, host) = parts(frame)?;
        let &[p1, p0, v1, v0, t1, t0, c1, c0] = frame.payload() else { return None };
        matches!(kind, kind::STATE | kind::REPORT).then(|| Self {
            id: data as u8,
            host,
            mode: (data >> 14) as u8,
            faults: (data >> 8) as u8 & 0x3f,
            position: u16::from_be_bytes([p1, p0]),
            velocity: u16::from_be_bytes([v1, v0]),
            torque: u16::from_be_bytes([t1, t0]),
            temperature: i16::from_be_bytes([c1, c0]),
        })
    }

    /// Its temperature, °C.
    pub fn celsius(&self) -> f64 {
        f64::from(self.temperature) / 10.0
    }
}

/// The kind of a frame, the middle of its identifier, and whom it is for; `None` if it has another format.
pub fn parts(frame: &Frame) -> Option<(u8, u16, u8)> {
    let is_ours = frame.extended && !frame.fd;
    is_ours.then_some(((frame.id >> 24) as u8 & 0x1f, (frame.id >> 8) as u16, frame.id as u8))
}

fn frame(kind: u8, data: u16, to: u8, payload: [u8; 8]) -> Frame {
    let id = u32::from(kind & 0x1f) << 24 | u32::from(data) << 8 | u32::from(to);
    Frame::extended(id, payload)
}

fn to_payload(codes: Codes) -> [u8; 8] {
    let [[p1, p0], [v1, v0], [kp1, kp0], [kd1, kd0]] =
        [codes.position, codes.velocity, codes.kp, codes.kd].map(|code| (code as u16).to_be_bytes());
    [p1, p0, v1, v0, kp1, kp0, kd1, kd0]
}

fn from_payload(torque: u16, [p1, p0, v1, v0, kp1, kp0, kd1, kd0]: [u8; 8]) -> Codes {
    Codes {
        position: u16::from_be_bytes([p1, p0]).into(),
        velocity: u16::from_be_bytes([v1, v0]).into(),
        kp: u16::from_be_bytes([kp1, kp0]).into(),
        kd: u16::from_be_bytes([kd1, kd0]).into(),
        torque: torque.into(),
    }
}

/// The range of a model, in 16 bits.
pub const fn scale(most: f64) -> Scale {
    Scale::symmetric(most, 16)
}
