//! The frames of MyActuator RMD motors (protocols V3 and V4), for both ends.
//!
//! Facts are from MyActuator's "Servo Motor Control Protocol V4.2" (May 2024); from two clients, 2b-t/myactuator_rmd c43980c and
//! yukunlin1124/myactuator_rmd_v4.3 564d3cd, whose bytes are in `vectors/rmd.json`; and from measurements that almond-bot/axol
//! publishes. Most frames have one layout, a [`Message`] on 0x140 and the id; motion mode has the codes of [`crate::mit`] on 0x400
//! and the id, and replies like CubeMars's. Multi-byte values are little endian but for those codes.
//!
//! A motor whose watchdog has acted answers the first command after that with the command itself, and does not carry it out:
//! [`is_echo`].

use crate::Frame;
use crate::mit::{Codes, Scale};

pub use crate::cubemars::State;
pub use crate::mit::{KD, KP};

/// The greatest id.
pub const MOST_ID: u8 = 32;
/// Messages to a motor go to this and its id, …
pub const REQUESTS: u32 = 0x140;
/// … its replies come from this and its id.
pub const REPLIES: u32 = 0x240;
/// The same for all motors, if they listen: each replies as if it alone had been asked.
pub const ALL: u32 = 0x280;
/// Where ids are read and written, by all motors at once.
pub const IDS: u32 = 0x300;
/// Motion mode: commands go to this and the id, …
pub const MOTIONS: u32 = 0x400;
/// … and replies come from this and the id.
pub const MOTION_REPLIES: u32 = 0x500;

/// First bytes of messages.
pub mod command {
    /// Sets something by its [`super::Message::index`]; see [`super::function`].
    pub const FUNCTION: u8 = 0x20;
    /// Reads a gain by its index, a float (from protocol V4.2 on).
    pub const READ_GAIN: u8 = 0x30;
    /// Writes a gain to RAM, and to ROM.
    pub const WRITE_GAIN: [u8; 2] = [0x31, 0x32];
    /// Reads an acceleration by its index, °/s².
    pub const READ_ACCELERATION: u8 = 0x42;
    /// Writes it, to ROM.
    pub const WRITE_ACCELERATION: u8 = 0x43;
    /// Pulses of the multi-turn encoder: with the offset, without it, and the offset.
    pub const PULSES: [u8; 3] = [0x60, 0x61, 0x62];
    /// The zero becomes so many pulses, from the next [`RESET`] on.
    pub const ZERO_AT: u8 = 0x63;
    /// It becomes where the motor is, from then on.
    pub const ZERO_HERE: u8 = 0x64;
    /// The control loop in its last byte.
    pub const MODE: u8 = 0x70;
    /// 0.1 W in the last two bytes.
    pub const POWER: u8 = 0x71;
    /// Restarts the motor, which answers nothing for more than a second.
    pub const RESET: u8 = 0x76;
    /// Releases the brake; answered once that has moved.
    pub const RELEASE: u8 = 0x77;
    /// Applies it.
    pub const BRAKE: u8 = 0x78;
    /// On [`super::IDS`].
    pub const ID: u8 = 0x79;
    /// Output off.
    pub const OFF: u8 = 0x80;
    /// Holds where it is: this is no "off".
    pub const HOLD: u8 = 0x81;
    /// Encoder within a turn.
    pub const ENCODER: u8 = 0x90;
    /// Angle of the output in 0.01°.
    pub const ANGLE: u8 = 0x92;
    /// The same within a turn.
    pub const TURN_ANGLE: u8 = 0x94;
    /// See [`super::Status`].
    pub const STATUS: u8 = 0x9a;
    /// See [`super::Motion`].
    pub const MOTION: u8 = 0x9c;
    /// Temperature and phase currents.
    pub const PHASES: u8 = 0x9d;
    /// 0.01 A in the first two bytes of the value; as [`SPEED`] and what follows answered like [`MOTION`].
    pub const CURRENT: u8 = 0xa1;
    /// 0.01 °/s.
    pub const SPEED: u8 = 0xa2;
    /// To an angle of 0.01°; the limit in °/s.
    pub const POSITION: u8 = 0xa4;
    /// To one within a turn; the index is the direction.
    pub const WITHIN_TURN: u8 = 0xa6;
    /// By an angle.
    pub const INCREMENT: u8 = 0xa8;
    /// Since its start, ms.
    pub const RUNTIME: u8 = 0xb1;
    /// Date of the firmware, see [`super::V44`].
    pub const VERSION: u8 = 0xb2;
    /// Sets the watchdog, ms; 0: none. It is kept without power, and nothing reads it.
    pub const WATCHDOG: u8 = 0xb3;
    /// Its name in ASCII.
    pub const MODEL: u8 = 0xb5;
    /// Replies sent by themselves.
    pub const UNASKED: u8 = 0xb6;
    /// Not a request: sent every second once the watchdog has acted.
    pub const CUT_OFF: u8 = 0xf1;
}

/// Indices of [`command::FUNCTION`].
pub mod function {
    /// The motor listens to [`super::ALL`] if this is 0.
    pub const ID_FILTER: u8 = 2;
    /// Its id from the next reset on.
    pub const ID: u8 = 5;
}

/// A request or reply that is no motion: the command, an index, a limit and a value. Which of them mean something depends on the
/// command; every eight bytes are a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// See [`command`].
    pub command: u8,
    /// Byte 1.
    pub index: u8,
    /// Bytes 2 and 3.
    pub limit: u16,
    /// Bytes 4 to 7.
    pub value: [u8; 4],
}

impl Message {
    /// A command and nothing else.
    pub const fn of(command: u8) -> Self {
        Self { command, index: 0, limit: 0, value: [0; 4] }
    }

    /// A command with a value.
    pub const fn with(command: u8, value: i32) -> Self {
        Self { value: value.to_le_bytes(), ..Self::of(command) }
    }

    /// As it travels.
    pub const fn to_bytes(self) -> [u8; 8] {
        let ([l0, l1], [v0, v1, v2, v3]) = (self.limit.to_le_bytes(), self.value);
        [self.command, self.index, l0, l1, v0, v1, v2, v3]
    }

    /// Decodes a payload; `None` unless it has eight bytes.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let &[command, index, l0, l1, v0, v1, v2, v3] = payload else { return None };
        Some(Self { command, index, limit: u16::from_le_bytes([l0, l1]), value: [v0, v1, v2, v3] })
    }

    /// The value as a whole number.
    pub const fn number(self) -> i32 {
        i32::from_le_bytes(self.value)
    }

    /// The value as one without a sign: dates, times.
    pub const fn unsigned(self) -> u32 {
        u32::from_le_bytes(self.value)
    }
}

/// The reply is the request, as of a motor whose watchdog has acted: it measures nothing. An angle of exactly 0 looks the same.
pub fn is_echo(request: &Frame, reply: &Frame) -> bool {
    request.payload() == reply.payload()
}

/// What [`command::STATUS`] brings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Status {
    /// °C.
    pub celsius: i8,
    /// The brake is released; with some firmware: it carries out commands.
    pub released: bool,
    /// V.
    pub volts: f64,
    /// By bit; see [`ERRORS`].
    pub errors: u16,
}

impl Status {
    /// As it travels.
    pub fn to_message(self) -> Message {
        let (volts, errors) = ((self.volts * 10.0 + 0.5) as u16, self.errors);
        let ([v0, v1], [e0, e1]) = (volts.to_le_bytes(), errors.to_le_bytes());
        let limit = u16::from(self.released) << 8;
        Message { command: command::STATUS, index: self.celsius as u8, limit, value: [v0, v1, e0, e1] }
    }

    /// The content of a reply.
    pub fn parse(message: Message) -> Option<Self> {
        let [v0, v1, e0, e1] = message.value;
        (message.command == command::STATUS).then(|| Self {
            celsius: message.index as i8,
            released: message.limit >> 8 != 0,
            volts: f64::from(u16::from_le_bytes([v0, v1])) / 10.0,
            errors: u16::from_le_bytes([e0, e1]),
        })
    }
}

/// What [`command::MOTION`] and the commands without gains bring: too coarse for a loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Motion {
    /// °C.
    pub celsius: i8,
    /// 0.01 A.
    pub current: i16,
    /// °/s.
    pub speed: i16,
    /// °.
    pub angle: i16,
}

impl Motion {
    /// As it travels, in answer to this command.
    pub const fn to_message(self, command: u8) -> Message {
        let ([s0, s1], [a0, a1]) = (self.speed.to_le_bytes(), self.angle.to_le_bytes());
        Message { command, index: self.celsius as u8, limit: self.current as u16, value: [s0, s1, a0, a1] }
    }

    /// Decodes a reply, whichever command it answers.
    pub const fn parse(message: Message) -> Self {
        let [s0, s1, a0, a1] = message.value;
        Self {
            celsius: message.index as i8,
            current: message.limit as i16,
            speed: i16::from_le_bytes([s0, s1]),
            angle: i16::from_le_bytes([a0, a1]),
        }
    }
}

/// Bits of [`Status::errors`] with their names. Some vanish by themselves, and the motor moves again.
pub const ERRORS: [(u16, &str); 11] = [
    (0x0002, "stall"),
    (0x0004, "low voltage"),
    (0x0008, "over-voltage"),
    (0x0010, "over-current"),
    (0x0040, "power overrun"),
    (0x0080, "calibration could not be written"),
    (0x0100, "over-speed"),
    (0x0800, "board temperature"),
    (0x1000, "motor temperature"),
    (0x2000, "encoder calibration"),
    (0x4000, "encoder data"),
];

/// These stay until the motor is restarted.
pub const LASTING: u16 = 0x0002 | 0x0010 | 0x0080 | 0x2000;

/// The name of the least significant error.
pub fn error_name(errors: u16) -> &'static str {
    ERRORS.iter().find(|(bit, _)| errors & bit != 0).map_or("unknown", |(_, name)| name)
}

/// Firmware of this date and later has protocol V4.4, and with it other ranges of motion mode.
pub const V44: u32 = 2_026_042_402;

/// Half the ranges of position and velocity, rad and rad/s, of firmware of this date. No document states which shaft the velocity is of.
pub const fn ranges(date: u32) -> [f64; 2] {
    [if date >= V44 { 12.566 } else { 12.5 }, 45.0]
}

/// Half the range of torques before [`V44`], whichever the model, N·m.
pub const OLD_TORQUE: f64 = 24.0;

/// Radians of 0.01°.
pub fn radians(hundredths: i32) -> f64 {
    (f64::from(hundredths) / 100.0).to_radians()
}

/// 0.01° of radians, the nearest.
pub fn hundredths(radians: f64) -> i32 {
    let exact = radians.to_degrees() * 100.0;
    (if exact < 0.0 { exact - 0.5 } else { exact + 0.5 }) as i32
}

/// The state in a reply in motion mode, of the motor with this id. What else comes there is the echo of a command.
pub fn state(id: u8, payload: &[u8]) -> Option<State> {
    let state = State::parse(payload).filter(|state| state.temperature == Some(0) && state.error == 0)?;
    (state.id == id).then_some(state)
}

/// Codes of 16 bits for positions and 12 for velocity and torque, of these half ranges.
pub const fn scales([position, velocity, torque]: [f64; 3]) -> [Scale; 3] {
    [Scale::symmetric(position, 16), Scale::symmetric(velocity, 12), Scale::symmetric(torque, 12)]
}

/// A message to or from this identifier.
pub fn frame(id: u32, message: Message) -> Frame {
    crate::damiao::frame(id, false, message.to_bytes())
}

/// A command of motion mode for the motor of this id.
pub fn motion(id: u8, codes: Codes) -> Frame {
    crate::damiao::frame(MOTIONS + u32::from(id), false, codes.to_bytes())
}
