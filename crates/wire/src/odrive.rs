//! CANSimple, the messages of ODrives on CAN (firmware 0.5.6 and 0.6), for both ends.
//!
//! Facts are from the sources of firmware 0.5.6 (odriverobotics/ODrive f9b5419, `can_simple.cpp`), the maker's page "CAN Protocol" of
//! firmware 0.6, odriverobotics/ros_odrive 8ed510b, and the DBC files of odrive-can 2.1.0, whose bytes are in `vectors/odrive.json`.
//! Firmware 0.6 is closed.
//!
//! An identifier of 11 bits is a node and a command. A drive sends some messages by itself and answers a remote frame, or a data frame
//! without data, with the data of that identifier. Everything is little endian, turns and seconds, of the motor's shaft.

use crate::Frame;

/// The greatest node; the next is that of a drive without an address.
pub const MOST_NODE: u8 = 62;
/// No address has been given to the drive.
pub const UNADDRESSED: u8 = 63;

/// The low five bits of an identifier. Messages to a drive that have data, unless stated otherwise.
pub mod command {
    /// Answered with [`super::Version`]; 0.6 only.
    pub const VERSION: u8 = 0x00;
    /// Sent by itself: [`super::Heartbeat`].
    pub const HEARTBEAT: u8 = 0x01;
    /// Off at once, and an error that stays.
    pub const ESTOP: u8 = 0x02;
    /// 0.6, answered: the active errors and why it disarmed last; 0.5: the motor's errors in 64 bits.
    pub const ERROR: u8 = 0x03;
    /// 0.6: reads or writes an endpoint, [`super::Sdo`]; 0.5, answered: the encoder's errors.
    pub const RX_SDO: u8 = 0x04;
    /// 0.6: the value of an endpoint that was read; 0.5, answered: the errors of the sensorless estimator.
    pub const TX_SDO: u8 = 0x05;
    /// 0.6: [`super::Address`], both ways; 0.5: the new node.
    pub const ADDRESS: u8 = 0x06;
    /// See [`super::state`].
    pub const AXIS_STATE: u8 = 0x07;
    /// Answered, and sent by itself: turns, turns/s.
    pub const ESTIMATES: u8 = 0x09;
    /// 0.5, answered: counts of the encoder.
    pub const COUNT: u8 = 0x0a;
    /// See [`super::control`] and [`super::input`].
    pub const CONTROLLER_MODE: u8 = 0x0b;
    /// [`super::InputPos`].
    pub const INPUT_POS: u8 = 0x0c;
    /// turns/s, and N·m added.
    pub const INPUT_VEL: u8 = 0x0d;
    /// N·m.
    pub const INPUT_TORQUE: u8 = 0x0e;
    /// turns/s, A.
    pub const LIMITS: u8 = 0x0f;
    /// turns/s.
    pub const TRAJECTORY_VELOCITY: u8 = 0x11;
    /// turns/s², up and down.
    pub const TRAJECTORY_ACCELERATION: u8 = 0x12;
    /// N·m/(turn/s²).
    pub const TRAJECTORY_INERTIA: u8 = 0x13;
    /// Answered: A, wanted and measured.
    pub const IQ: u8 = 0x14;
    /// Answered; 0.6: °C of inverter and motor; 0.5: the sensorless estimates.
    pub const TEMPERATURE: u8 = 0x15;
    /// 0.6: see [`super::reboot`].
    pub const REBOOT: u8 = 0x16;
    /// Answered: V, A.
    pub const BUS: u8 = 0x17;
    /// 0.6: with 1 it blinks.
    pub const CLEAR_ERRORS: u8 = 0x18;
    /// 0.6: it is at so many turns; 0.5: at so many counts.
    pub const ABSOLUTE_POSITION: u8 = 0x19;
    /// (turns/s)/turn.
    pub const POS_GAIN: u8 = 0x1a;
    /// N·m/(turn/s), and the integrator's N·m/turn.
    pub const VEL_GAINS: u8 = 0x1b;
    /// Answered; 0.6: N·m, wanted and estimated; 0.5: V of an analogue pin.
    pub const TORQUES: u8 = 0x1c;
    /// Answered; 0.6: W, electrical and mechanical; 0.5: the controller's errors.
    pub const POWERS: u8 = 0x1d;
    /// Leaves the firmware. Never sent here.
    pub const DFU: u8 = 0x1f;
}

/// States of an axis.
pub mod state {
    /// Output off.
    pub const IDLE: u8 = 1;
    /// It carries out set-points.
    pub const CLOSED_LOOP: u8 = 8;
    /// Their names, by number.
    pub const NAMES: [&str; 15] = [
        "undefined",
        "idle",
        "startup",
        "calibration",
        "motor calibration",
        "sensorless",
        "index search",
        "encoder calibration",
        "closed loop",
        "lock-in spin",
        "encoder direction",
        "homing",
        "hall polarity",
        "hall phase",
        "anticogging",
    ];
}

/// What its controller controls.
pub mod control {
    /// Position, with the velocity and torque of a set-point added.
    pub const POSITION: u32 = 3;
}

/// What becomes of a set-point.
pub mod input {
    /// It is taken as it is.
    pub const PASSTHROUGH: u32 = 1;
}

/// What [`command::REBOOT`] does.
pub mod reboot {
    /// Restarts.
    pub const RESTART: u8 = 0;
    /// Keeps its settings, and restarts.
    pub const SAVE: u8 = 1;
}

/// The two lines of firmware, whose messages differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// 0.5.6 (ODrive v3).
    V05,
    /// 0.6 (Pro, S1, Micro).
    V06,
}

impl Line {
    /// The error its watchdog leaves.
    pub const fn watchdog(self) -> u32 {
        match self {
            Self::V05 => 0x800,
            Self::V06 => 0x0100_0000,
        }
    }

    /// The error that [`command::ESTOP`] leaves.
    pub const fn estop(self) -> u32 {
        match self {
            Self::V05 => 0x4000,
            Self::V06 => 0x0200_0000,
        }
    }

    /// Its errors, by their bits.
    pub const fn errors(self) -> &'static [(u32, &'static str)] {
        match self {
            Self::V05 => &ERRORS_05,
            Self::V06 => &ERRORS_06,
        }
    }

    /// The name of the first of these errors; the watchdog's comes last, as it follows from others.
    pub fn error_name(self, errors: u32) -> &'static str {
        let named = self.errors().iter().find(|(bit, _)| errors & bit != 0);
        named.map_or("unknown error", |(_, name)| name)
    }
}

const ERRORS_05: [(u32, &str); 16] = [
    (0x1, "invalid state requested: not calibrated, or not while it is on"),
    (0x2, "bus voltage too low"),
    (0x4, "bus voltage too high"),
    (0x8, "current measurement timed out"),
    (0x10, "brake resistor disarmed"),
    (0x20, "motor disarmed"),
    (0x40, "motor failed: its own error says why"),
    (0x80, "sensorless estimator failed"),
    (0x100, "encoder failed: its own error says why"),
    (0x200, "controller failed: its velocity limit, as a rule"),
    (0x1000, "endstop pressed"),
    (0x2000, "endstop pressed"),
    (0x4000, "stopped by hand: emergency stop requested"),
    (0x20000, "homing without an endstop"),
    (0x40000, "over temperature"),
    (0x800, "watchdog expired"),
];

const ERRORS_06: [(u32, &str); 22] = [
    (0x1, "initialising"),
    (0x2, "system level"),
    (0x4, "timing"),
    (0x8, "no position estimate"),
    (0x10, "bad configuration"),
    (0x20, "gate driver failed"),
    (0x40, "missing input"),
    (0x100, "bus voltage too high"),
    (0x200, "bus voltage too low"),
    (0x400, "bus current too high"),
    (0x800, "bus regeneration current too high"),
    (0x1000, "current limit violation"),
    (0x2000, "motor over temperature"),
    (0x4000, "inverter over temperature"),
    (0x8000, "velocity limit violation"),
    (0x10000, "position limit violation"),
    (0x0200_0000, "stopped by hand: emergency stop requested"),
    (0x0400_0000, "spin-out detected"),
    (0x0800_0000, "brake resistor disarmed"),
    (0x1000_0000, "thermistor disconnected"),
    (0x4000_0000, "calibration failed"),
    (0x0100_0000, "watchdog expired"),
];

/// The identifier of a command of a node.
pub const fn identifier(node: u8, command: u8) -> u32 {
    (node as u32 & 0x3f) << 5 | command as u32 & 0x1f
}

/// Node and command of a frame; `None` if no drive sends or takes it.
pub const fn parts(frame: &Frame) -> Option<(u8, u8)> {
    if frame.extended || frame.fd || frame.id > 0x7ff {
        return None;
    }
    Some(((frame.id >> 5) as u8, frame.id as u8 & 0x1f))
}

/// A message with these bytes, of which the first eight are sent.
pub fn frame(node: u8, command: u8, payload: &[u8]) -> Frame {
    let payload = &payload[..payload.len().min(8)];
    // Never `None`: eleven bits and eight bytes at the most.
    Frame::classic(identifier(node, command), payload).unwrap_or(Frame::extended(0, [0; 8]))
}

/// Asks a node for the data of a command.
pub fn ask(node: u8, command: u8) -> Frame {
    Frame::remote(identifier(node, command), 0).unwrap_or(Frame::extended(0, [0; 8]))
}

/// The frame asks for the data of its identifier: a remote frame, or one without data.
pub fn is_asking(frame: &Frame) -> bool {
    frame.remote.is_some() || frame.payload().is_empty()
}

/// Two floats as they travel.
pub const fn floats([first, second]: [f32; 2]) -> [u8; 8] {
    words([first.to_bits(), second.to_bits()])
}

/// Two words as they travel.
pub const fn words([first, second]: [u32; 2]) -> [u8; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_le_bytes(), second.to_le_bytes());
    [a, b, c, d, e, f, g, h]
}

/// The two floats of eight bytes.
pub fn two_floats(payload: &[u8]) -> Option<[f32; 2]> {
    two_words(payload).map(|words| words.map(f32::from_bits))
}

/// The two words of eight bytes.
pub fn two_words(payload: &[u8]) -> Option<[u32; 2]> {
    let &[a, b, c, d, e, f, g, h] = payload else { return None };
    Some([u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])])
}

/// Bytes that a client has left out at the end, as zeros; `None` if there are less than `least`, or more than eight.
pub fn filled(payload: &[u8], least: usize) -> Option<[u8; 8]> {
    let mut bytes = [0; 8];
    bytes.get_mut(..payload.len())?.copy_from_slice(payload);
    (payload.len() >= least).then_some(bytes)
}

/// The content of [`command::HEARTBEAT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Errors by their bits; of 0.5 those of the axis.
    pub errors: u32,
    /// See [`state`].
    pub state: u8,
    /// 0.6: how the last procedure ended; 0.5: bit 0, the motor has an error.
    pub byte_5: u8,
    /// 0.6: bit 0, the trajectory is done; 0.5: bit 0, the encoder has an error.
    pub byte_6: u8,
    /// 0.5: bit 0, the controller has an error, bit 7, the trajectory is done.
    pub byte_7: u8,
}

impl Heartbeat {
    /// As it travels.
    pub const fn to_bytes(self) -> [u8; 8] {
        let [a, b, c, d] = self.errors.to_le_bytes();
        [a, b, c, d, self.state, self.byte_5, self.byte_6, self.byte_7]
    }

    /// Decodes eight bytes.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let &[a, b, c, d, state, byte_5, byte_6, byte_7] = payload else { return None };
        Some(Self { errors: u32::from_le_bytes([a, b, c, d]), state, byte_5, byte_6, byte_7 })
    }

    /// It has an error, of whatever kind.
    pub const fn has_error(self, line: Line) -> bool {
        let of_parts = match line {
            Line::V05 => (self.byte_5 | self.byte_6 | self.byte_7) & 1,
            Line::V06 => 0,
        };
        self.errors != 0 || of_parts != 0
    }
}

/// What a set-point carries of velocity and torque: thousandths, unless a drive of 0.6 is set otherwise.
pub const FEED_FORWARD: f64 = 1000.0;

/// [`command::INPUT_POS`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InputPos {
    /// Turns.
    pub position: f32,
    /// turns/s, in steps of a thousandth.
    pub velocity: i16,
    /// N·m, in steps of a thousandth.
    pub torque: i16,
}

impl InputPos {
    /// Turns, turns/s and N·m, the last two in steps; what is beyond the last step becomes that one. NaN is as 0.
    pub fn new(position: f64, velocity: f64, torque: f64) -> Self {
        Self { position: position as f32, velocity: steps(velocity), torque: steps(torque) }
    }

    /// As it travels.
    pub const fn to_bytes(self) -> [u8; 8] {
        let [a, b, c, d] = self.position.to_le_bytes();
        let ([e, f], [g, h]) = (self.velocity.to_le_bytes(), self.torque.to_le_bytes());
        [a, b, c, d, e, f, g, h]
    }

    /// Decodes these bytes.
    pub const fn from_bytes([a, b, c, d, e, f, g, h]: [u8; 8]) -> Self {
        let (velocity, torque) = (i16::from_le_bytes([e, f]), i16::from_le_bytes([g, h]));
        Self { position: f32::from_le_bytes([a, b, c, d]), velocity, torque }
    }
}

/// The nearest step; conversions saturate.
fn steps(value: f64) -> i16 {
    let scaled = value * FEED_FORWARD;
    (scaled + if scaled < 0.0 { -0.5 } else { 0.5 }) as i16
}

/// [`command::RX_SDO`], and the answer to reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sdo {
    /// Writes; otherwise reads.
    pub write: bool,
    /// Which of its firmware's endpoints.
    pub endpoint: u16,
    /// The value, in as many bytes as it has.
    pub value: [u8; 4],
}

impl Sdo {
    /// As it travels, whole.
    pub const fn to_bytes(self) -> [u8; 8] {
        let ([low, high], [a, b, c, d]) = (self.endpoint.to_le_bytes(), self.value);
        [self.write as u8, low, high, 0, a, b, c, d]
    }

    /// Decodes a message, which may end with the last byte that is needed.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let [opcode, low, high, _, a, b, c, d] = filled(payload, 4)?;
        let write = match opcode {
            0 => false,
            1 if payload.len() > 4 => true,
            _ => return None,
        };
        Some(Self { write, endpoint: u16::from_le_bytes([low, high]), value: [a, b, c, d] })
    }
}

/// [`command::ADDRESS`] of 0.6: a drive reports its own, and accepts a new one for its serial number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The node.
    pub node: u8,
    /// 48 bits.
    pub serial: u64,
}

impl Address {
    /// As it travels.
    pub const fn to_bytes(self) -> [u8; 8] {
        let [a, b, c, d, e, f, ..] = self.serial.to_le_bytes();
        [self.node, a, b, c, d, e, f, 0]
    }

    /// Decodes these bytes; the last may be missing.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let [node, a, b, c, d, e, f, _] = filled(payload, 7)?;
        Some(Self { node, serial: u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) })
    }
}

/// [`command::VERSION`] of 0.6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// Of the protocol: 2.
    pub protocol: u8,
    /// Product line, version and variant of the board.
    pub hardware: [u8; 3],
    /// Major, minor, revision.
    pub firmware: [u8; 3],
    /// The firmware is none that was released.
    pub unreleased: u8,
}

impl Version {
    /// As it travels.
    pub const fn to_bytes(self) -> [u8; 8] {
        let ([a, b, c], [d, e, f]) = (self.hardware, self.firmware);
        [self.protocol, a, b, c, d, e, f, self.unreleased]
    }

    /// Decodes eight bytes.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let &[protocol, a, b, c, d, e, f, unreleased] = payload else { return None };
        Some(Self { protocol, hardware: [a, b, c], firmware: [d, e, f], unreleased })
    }
}
