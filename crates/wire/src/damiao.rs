//! The frames of Damiao servos (DM4310 and relatives), for both ends: MIT commands, special codes, registers, state.
//!
//! Facts are from `damiao-motor` 1.0.6 and its notes, `openarm_can` 9866604, LeRobot 0.6.2 and DAMIAO_Control_Arduino
//! 8bdc617; the frames of `vectors/damiao.json` were made by `damiao-motor`, unmodified.

use crate::Frame;

pub use crate::mit::{KD, KP, Special, TIMEOUT_PER_S};

/// Every register request goes to this identifier, whichever servo it is for.
pub const REGISTERS: u32 = 0x7ff;

/// The state a reply carries has room for four bits of the id.
pub const MOST_ID: u8 = 15;

/// Register numbers.
#[allow(missing_docs)]
pub mod register {
    pub const MASTER_ID: u8 = 7;
    pub const ID: u8 = 8;
    /// 50 µs each; 0: no watchdog.
    pub const TIMEOUT: u8 = 9;
    /// 1: MIT commands.
    pub const CONTROL_MODE: u8 = 10;
    pub const HARDWARE: u8 = 13;
    pub const SOFTWARE: u8 = 14;
    pub const SERIAL: u8 = 15;
    pub const POLE_PAIRS: u8 = 16;
    /// Half the range of positions, rad.
    pub const POSITION_RANGE: u8 = 21;
    /// Of velocities, rad/s.
    pub const VELOCITY_RANGE: u8 = 22;
    /// Of torques, N·m.
    pub const TORQUE_RANGE: u8 = 23;
    pub const BIT_RATE: u8 = 35;
    pub const SUB_VERSION: u8 = 36;
    /// Supply, V.
    pub const VOLTAGE: u8 = 60;
    /// Temperature of the board, °C.
    pub const BOARD: u8 = 61;
    /// Temperature of the rotor, °C.
    pub const ROTOR: u8 = 62;

    /// What the makers' documents call those that people read and write.
    pub const NAMES: [(u8, &str); 28] = [
        (0, "UV_Value"),
        (1, "KT_Value"),
        (2, "OT_Value"),
        (3, "OC_Value"),
        (4, "ACC"),
        (5, "DEC"),
        (6, "MAX_SPD"),
        (MASTER_ID, "MST_ID"),
        (ID, "ESC_ID"),
        (TIMEOUT, "TIMEOUT"),
        (CONTROL_MODE, "CTRL_MODE"),
        (11, "Damp"),
        (12, "Inertia"),
        (HARDWARE, "hw_ver"),
        (SOFTWARE, "sw_ver"),
        (SERIAL, "SN"),
        (POLE_PAIRS, "NPP"),
        (17, "Rs"),
        (20, "Gr"),
        (POSITION_RANGE, "PMAX"),
        (VELOCITY_RANGE, "VMAX"),
        (TORQUE_RANGE, "TMAX"),
        (29, "OV_Value"),
        (BIT_RATE, "can_br"),
        (SUB_VERSION, "sub_ver"),
        (VOLTAGE, "VBus"),
        (BOARD, "Tpcb"),
        (ROTOR, "Tmtr"),
    ];

    /// The value is an integer; otherwise a float.
    pub const fn is_integer(register: u8) -> bool {
        matches!(register, 7..=10 | 13..=16 | 35 | 36)
    }
}

/// What is asked with a frame to [`REGISTERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Report a register.
    Read(u8),
    /// Take a register's value.
    Write(u8, [u8; 4]),
    /// Report the state.
    Refresh,
    /// Keep all registers when the power is gone.
    Store,
}

/// The third byte of a request to read, and of its reply.
pub const READ: u8 = 0x33;
/// The same of a request to write, …
pub const WRITE: u8 = 0x55;
/// … and of one to store.
pub const STORE: u8 = 0xaa;
const REFRESH: u8 = 0xcc;

impl Access {
    /// The request for the servo of this id, as it travels.
    pub const fn to_bytes(self, id: u8) -> [u8; 8] {
        match self {
            Self::Read(register) => [id, 0, READ, register, 0, 0, 0, 0],
            Self::Write(register, [a, b, c, d]) => [id, 0, WRITE, register, a, b, c, d],
            Self::Refresh => [id, 0, REFRESH, 0, 0, 0, 0, 0],
            Self::Store => [id, 0, STORE, 1, 0, 0, 0, 0],
        }
    }

    /// What a request asks, and of which servo. The last bytes may be missing where they mean nothing.
    pub fn parse(payload: &[u8]) -> Option<(u16, Self)> {
        let &[low, high, what, ref rest @ ..] = payload else { return None };
        let id = u16::from_le_bytes([low, high]);
        let register = rest.first().copied();
        let access = match what {
            READ => Self::Read(register?),
            WRITE => Self::Write(register?, rest.get(1..5)?.try_into().ok()?),
            REFRESH => Self::Refresh,
            STORE => Self::Store,
            _ => return None,
        };
        Some((id, access))
    }
}

/// A reply with registers, and not with the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterReply {
    /// What was asked: [`READ`], [`WRITE`] or [`STORE`].
    pub asked: u8,
    /// The register; of [`STORE`], 1 if it was done.
    pub register: u8,
    /// Its value, least significant byte first.
    pub value: [u8; 4],
}

impl RegisterReply {
    /// As the servo of this id sends it.
    pub const fn to_bytes(self, id: u8) -> [u8; 8] {
        let [a, b, c, d] = self.value;
        [id, 0, self.asked, self.register, a, b, c, d]
    }

    /// Decodes a reply of the servo with this id, unless it is its state. Code that reads a state asks here first.
    ///
    /// The state of a servo that is off may look the same: at three of 65536 positions, 12.4 to 12.5 rad from its zero.
    pub fn parse(payload: &[u8], id: u8) -> Option<Self> {
        match *payload {
            [from, 0, asked @ (READ | WRITE | STORE), register, a, b, c, d] if from == id => {
                Some(Self { asked, register, value: [a, b, c, d] })
            }
            _ => None,
        }
    }

    /// The value as a number, whichever type the register has.
    pub fn number(&self) -> f64 {
        if register::is_integer(self.register) {
            f64::from(u32::from_le_bytes(self.value))
        } else {
            f64::from(f32::from_le_bytes(self.value))
        }
    }
}

/// What a servo reports of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The last four bits of its id.
    pub id: u8,
    /// See [`status`].
    pub status: u8,
    /// 16 bits, between −[`register::POSITION_RANGE`] and that.
    pub position: u16,
    /// 12 bits.
    pub velocity: u16,
    /// 12 bits.
    pub torque: u16,
    /// Temperature of the board, as it travels.
    pub board: u8,
    /// Of the rotor.
    pub rotor: u8,
}

impl State {
    /// As it travels.
    pub const fn to_bytes(self) -> [u8; 8] {
        let [p1, p0] = self.position.to_be_bytes();
        [
            self.status << 4 | self.id & 0xf,
            p1,
            p0,
            (self.velocity >> 4) as u8,
            ((self.velocity & 0xf) << 4) as u8 | (self.torque >> 8 & 0xf) as u8,
            self.torque as u8,
            self.board,
            self.rotor,
        ]
    }

    /// Decodes a reply of eight bytes that is no [`RegisterReply`].
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let &[head, p1, p0, v, v_t, t, board, rotor] = payload else { return None };
        Some(Self {
            id: head & 0xf,
            status: head >> 4,
            position: u16::from_be_bytes([p1, p0]),
            velocity: u16::from(v) << 4 | u16::from(v_t >> 4),
            torque: u16::from(v_t & 0xf) << 8 | u16::from(t),
            board,
            rotor,
        })
    }
}

/// A temperature in °C. It travels in one byte; no servo works at more than 200 °C, so what is above that is below zero.
pub fn celsius(byte: u8) -> f64 {
    if byte > 200 { f64::from(byte) - 256.0 } else { f64::from(byte) }
}

/// Numbers of [`State::status`].
#[allow(missing_docs)]
pub mod status {
    pub const DISABLED: u8 = 0;
    pub const ENABLED: u8 = 1;
    pub const SENSOR: u8 = 5;
    pub const PARAMETER: u8 = 6;
    pub const OVER_VOLTAGE: u8 = 8;
    pub const UNDER_VOLTAGE: u8 = 9;
    pub const OVER_CURRENT: u8 = 10;
    pub const BOARD_TOO_WARM: u8 = 11;
    pub const ROTOR_TOO_WARM: u8 = 12;
    pub const LOST_COMMUNICATION: u8 = 13;
    pub const OVERLOAD: u8 = 14;

    /// Every one that has a name.
    pub const ALL: [u8; 11] = [
        DISABLED,
        ENABLED,
        SENSOR,
        PARAMETER,
        OVER_VOLTAGE,
        UNDER_VOLTAGE,
        OVER_CURRENT,
        BOARD_TOO_WARM,
        ROTOR_TOO_WARM,
        LOST_COMMUNICATION,
        OVERLOAD,
    ];

    /// What it is called.
    pub const fn name(status: u8) -> &'static str {
        match status {
            DISABLED => "disabled",
            ENABLED => "enabled",
            SENSOR => "sensor error",
            PARAMETER => "parameter error",
            OVER_VOLTAGE => "over-voltage",
            UNDER_VOLTAGE => "under-voltage",
            OVER_CURRENT => "over-current",
            BOARD_TOO_WARM => "MOSFET over-temperature",
            ROTOR_TOO_WARM => "rotor over-temperature",
            LOST_COMMUNICATION => "communication lost",
            OVERLOAD => "overload",
            _ => "unknown",
        }
    }
}

/// A frame of eight bytes.
pub fn frame(id: u32, fd: bool, payload: [u8; 8]) -> Frame {
    let made = if fd { Frame::new(id & 0x7ff, &payload) } else { Frame::classic(id & 0x7ff, &payload) };
    made.unwrap_or_else(|| unreachable!("eight bytes and eleven bits fit every frame"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_survive_the_way_there_and_back() {
        let value = [0xe8, 3, 0, 0];
        for access in [Access::Read(9), Access::Write(9, value), Access::Refresh, Access::Store] {
            assert_eq!(Access::parse(&access.to_bytes(3)), Some((3, access)));
        }
        for asked in [READ, WRITE, STORE] {
            let reply = RegisterReply { asked, register: 9, value };
            assert_eq!(RegisterReply::parse(&reply.to_bytes(1), 1), Some(reply));
            assert_eq!(RegisterReply::parse(&reply.to_bytes(1), 2), None, "somebody else's");
        }
        let reply = RegisterReply { asked: READ, register: 9, value };
        assert_eq!(reply.number(), 1000.0);
        let state = State {
            id: 1,
            status: 1,
            position: 0x851e,
            velocity: 0x7ff,
            torque: 0x7ff,
            board: 0x1e,
            rotor: 0x1f,
        };
        assert_eq!(state.to_bytes(), [0x11, 0x85, 0x1e, 0x7f, 0xf7, 0xff, 0x1e, 0x1f]);
        assert_eq!(State::parse(&state.to_bytes()), Some(state));
    }

    #[test]
    fn what_is_cut_off_says_nothing() {
        let request = Access::Write(9, [1, 2, 3, 4]).to_bytes(1);
        (0..8).for_each(|len| assert_eq!(Access::parse(&request[..len]), None, "{len}"));
        let reply = RegisterReply { asked: READ, register: 9, value: [0; 4] }.to_bytes(1);
        (0..8).for_each(|len| assert_eq!(RegisterReply::parse(&reply[..len], 1), None, "{len}"));
        (0..8).for_each(|len| assert_eq!(State::parse(&reply[..len]), None, "{len}"));
    }

    #[test]
    fn frost_is_no_heat() {
        assert_eq!([celsius(30), celsius(145), celsius(251)], [30.0, 145.0, -5.0]);
    }
}
