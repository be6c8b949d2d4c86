//! The frames of CubeMars (T-Motor) AK servos in MIT mode, for both ends.
//!
//! Commands and special codes are those of [`crate::mit`]; no register can be read or written. Facts are from `TMotorCANControl`
//! 1.2.6, whose frames are in `vectors/cubemars.json`, and the maker's manual V1.0.8. A reply carries neither whether the output is on
//! nor what it answers.

use crate::Frame;

pub use crate::mit::{KD, KP};

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
    /// °C; some firmware does not send it.
    pub temperature: Option<u8>,
    /// See [`error_name`]; 0: none. Some firmware does not send it.
    pub error: u8,
}

impl State {
    /// As it travels, in eight bytes.
    pub const fn to_bytes(self) -> [u8; 8] {
        let [p1, p0] = self.position.to_be_bytes();
        [
            self.id,
            p1,
            p0,
            (self.velocity >> 4) as u8,
            ((self.velocity & 0xf) << 4) as u8 | (self.torque >> 8 & 0xf) as u8,
            self.torque as u8,
            match self.temperature {
                Some(celsius) => celsius,
                None => 0,
            },
            self.error,
        ]
    }

    /// Decodes a reply of six or eight bytes.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (&[id, p1, p0, v, v_t, t], rest) = payload.split_first_chunk()?;
        let (temperature, error) = match *rest {
            [] => (None, 0),
            [temperature, error] => (Some(temperature), error),
            _ => return None,
        };
        Some(Self {
            id,
            position: u16::from_be_bytes([p1, p0]),
            velocity: u16::from(v) << 4 | u16::from(v_t >> 4),
            torque: u16::from(v_t & 0xf) << 8 | u16::from(t),
            temperature,
            error,
        })
    }
}

/// What the maker calls an error.
pub const fn error_name(error: u8) -> &'static str {
    match error {
        0 => "none",
        1 => "over-temperature",
        2 => "over-current",
        3 => "over-voltage",
        4 => "under-voltage",
        5 => "encoder",
        6 => "phase current unbalance",
        _ => "unknown",
    }
}

/// A frame of eight bytes to or from this identifier.
pub fn frame(id: u32, payload: [u8; 8]) -> Frame {
    crate::damiao::frame(id, false, payload)
}
