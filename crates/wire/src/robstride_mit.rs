//! The frames of RobStride servos set to their MIT protocol, for both ends: classic CAN, identifiers of 11 bits.
//!
//! Commands are those of [`crate::mit`]. Everything else that is asked is six bytes of `FF`, an argument, and which request it is. Facts
//! are from the maker's manuals of 2026-04-28 (chapter 6) and from LeRobot, whose frames are in `vectors/robstride_mit.json`. A
//! state carries neither whether the output is on nor a fault.

use crate::Frame;
use crate::mit::Codes;

pub use crate::mit::{KD, KP};

/// The greatest id there is.
pub const MOST_ID: u8 = 127;

/// What a servo is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Follow, or damp.
    Command(Codes),
    /// Output on.
    Enable,
    /// Output off.
    Stop,
    /// Here is 0.
    SetZero,
    /// Report your faults, if there are any, or else your state; and clear them.
    Faults {
        /// Clear them.
        clear: bool,
    },
    /// What the output follows when it is on; 0: commands of MIT mode.
    Mode(u8),
}

impl Request {
    /// As it travels. A command that would be another request (six bytes of `FF`: with everything at its greatest) gets a position gain
    /// one code less.
    pub const fn to_bytes(self) -> [u8; 8] {
        let [argument, number] = match self {
            Self::Command(codes) => {
                return match codes.to_bytes() {
                    [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ..] => {
                        Codes { kp: codes.kp - 1, ..codes }.to_bytes()
                    }
                    bytes => bytes,
                };
            }
            Self::Enable => [0xff, 0xfc],
            Self::Stop => [0xff, 0xfd],
            Self::SetZero => [0xff, 0xfe],
            Self::Faults { clear } => [if clear { 0xff } else { 0 }, 0xfb],
            Self::Mode(mode) => [mode, 0xfc],
        };
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, argument, number]
    }

    /// Decodes these bytes; `None`: a request that is not used here (ids, protocol, reports, storing).
    pub const fn from_bytes(bytes: [u8; 8]) -> Option<Self> {
        let [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, argument, number] = bytes else {
            return Some(Self::Command(Codes::from_bytes(bytes)));
        };
        match (argument, number) {
            (0xff, 0xfc) => Some(Self::Enable),
            (mode, 0xfc) => Some(Self::Mode(mode)),
            (0xff, 0xfd) => Some(Self::Stop),
            (0xff, 0xfe) => Some(Self::SetZero),
            (clear, 0xfb) => Some(Self::Faults { clear: clear == 0xff }),
            (_, 0xf8..=0xfa | 0xfd | 1) => None,
            _ => Some(Self::Command(Codes::from_bytes(bytes))),
        }
    }
}

/// What a servo answers, on the identifier that is its host's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To almost everything.
    State(State),
    /// To [`Request::Faults`], if it has any.
    Faults {
        /// Its id.
        id: u8,
        /// Which, by bit; see [`fault_name`].
        faults: u16,
    },
}

/// What a servo reports of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Its id.
    pub id: u8,
    /// 16 bits.
    pub position: u16,
    /// 12 bits.
    pub velocity: u16,
    /// 12 bits.
    pub torque: u16,
    /// In steps of 0.1 °C.
    pub temperature: i16,
}

impl Reply {
    /// As it travels; faults as LeRobot reads them.
    pub const fn to_bytes(self) -> [u8; 8] {
        match self {
            Self::State(State { id, position, velocity, torque, temperature }) => {
                let ([p1, p0], [t1, t0]) = (position.to_be_bytes(), temperature.to_be_bytes());
                let v_t = ((velocity & 0xf) << 4) as u8 | (torque >> 8 & 0xf) as u8;
                [id, p1, p0, (velocity >> 4) as u8, v_t, torque as u8, t1, t0]
            }
            Self::Faults { id, faults } => {
                let [low, high] = faults.to_le_bytes();
                [id, low, high, 0, 0, 0, 0, 0]
            }
        }
    }

    /// Decodes a reply of eight bytes. Faults are known by the zeros behind them. In which order the four bytes of their word come is
    /// nowhere stated; all faults are in its lower half, so the half that is not 0 shows it. A state like that would be of a motor at 0 °C
    /// and at an end of its ranges.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let &[id, p1, p0, v, v_t, t, t1, t0] = payload else { return None };
        Some(match ([p1, p0], [v, v_t], [t, t1, t0]) {
            (word, [0, 0], [0, 0, 0]) if word != [0, 0] => {
                Self::Faults { id, faults: u16::from_le_bytes(word) }
            }
            ([0, 0], word, [0, 0, 0]) if word != [0, 0] => {
                Self::Faults { id, faults: u16::from_be_bytes(word) }
            }
            _ => Self::State(State {
                id,
                position: u16::from_be_bytes([p1, p0]),
                velocity: u16::from(v) << 4 | u16::from(v_t >> 4),
                torque: u16::from(v_t & 0xf) << 8 | u16::from(t),
                temperature: i16::from_be_bytes([t1, t0]),
            }),
        })
    }

    /// The id of the servo that sent it.
    pub const fn id(self) -> u8 {
        match self {
            Self::State(State { id, .. }) | Self::Faults { id, .. } => id,
        }
    }
}

/// What the maker calls the fault of this bit.
pub const fn fault_name(bit: u32) -> &'static str {
    match bit {
        0 => "motor over-temperature",
        1 => "driver chip",
        2 => "under-voltage",
        3 => "over-voltage",
        7 => "encoder not calibrated",
        14 => "stall or overload",
        _ => "a fault that the manual does not name",
    }
}

/// A frame of eight bytes to or from this identifier.
pub fn frame(id: u8, payload: [u8; 8]) -> Frame {
    crate::damiao::frame(id.into(), false, payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_command_is_another_request() {
        let most = Codes::from_bytes([0xff; 8]);
        for (kd, torque) in (0xff0..=0xfff).flat_map(|kd| (0..=0xfff).map(move |torque| (kd, torque))) {
            let sent = Codes { kd, torque, ..most };
            let Some(Request::Command(read)) = Request::from_bytes(Request::Command(sent).to_bytes()) else {
                panic!("{kd:x} {torque:x}");
            };
            assert_eq!((read.kd, read.torque, read.kp), (kd, torque, 0xffe));
        }
    }

    #[test]
    fn faults_are_read_in_either_order_and_no_state_is_taken_for_them() {
        for faults in [1, 1 << 2, 1 << 7 | 1, 1 << 14 | 1 << 2] {
            let reply = Reply::Faults { id: 1, faults };
            let [id, low, high, ..] = reply.to_bytes();
            assert_eq!(Reply::parse(&reply.to_bytes()), Some(reply));
            assert_eq!(Reply::parse(&[id, 0, 0, high, low, 0, 0, 0]), Some(reply));
        }
        let rest = State { id: 1, position: 0x7fff, velocity: 0x7ff, torque: 0x700, temperature: 0 };
        assert_eq!(Reply::parse(&Reply::State(rest).to_bytes()), Some(Reply::State(rest)));
    }
}
