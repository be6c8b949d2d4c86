//! What a servo reports of itself, taken from a reply of any layout.

use crate::mode::{Fault, Mode};
use crate::register::Register;
use crate::subframe::{RegisterError, Subframe, SubframeError, Subframes};
use crate::value::Value;

/// The most registers without a field of their own that a [`Reply`] holds.
pub const MAX_EXTRAS: usize = 16;

/// The number of a mode of which a reply has two, which no servo sends: no mode.
pub const TWO_MODES: i32 = -1;

/// The registers a reply brought, in the units of the wire (revolutions, N·m, A, V, °C, W). What it did not
/// bring is `None`; values the servo cannot report are NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reply {
    /// Operating mode; `None` also for a number that is no mode.
    pub mode: Option<Mode>,
    /// The number of the mode; [`TWO_MODES`] if the reply brought it twice, with two values.
    pub mode_number: Option<i32>,
    /// Output shaft, rev.
    pub position: Option<f64>,
    /// rev/s.
    pub velocity: Option<f64>,
    /// N·m.
    pub torque: Option<f64>,
    /// A.
    pub q_current: Option<f64>,
    /// A.
    pub d_current: Option<f64>,
    /// Of the second encoder, rev.
    pub absolute_position: Option<f64>,
    /// W; negative while regenerating.
    pub power: Option<f64>,
    /// °C.
    pub motor_temperature: Option<f64>,
    /// The trajectory reached its target.
    pub trajectory_complete: Option<bool>,
    /// 0 relative, 1 rotor, 2 output.
    pub home_state: Option<i32>,
    /// Supply, V.
    pub voltage: Option<f64>,
    /// Of the driver board, °C.
    pub temperature: Option<f64>,
    /// Why it stopped, or what limits it.
    pub fault: Option<Fault>,
    /// The first register it would not read. What was asked behind it is not in the reply either.
    pub read_error: Option<RegisterError>,
    /// The first register it would not write.
    pub write_error: Option<RegisterError>,
    extras: [Option<(Register, f64)>; MAX_EXTRAS],
}

impl Reply {
    /// Reads a reply; subframes that carry no registers (streams, padding) are passed over.
    ///
    /// # Errors
    /// [`SubframeError`] if it is cut off or holds an unknown opcode.
    pub fn parse(payload: &[u8]) -> Result<Self, SubframeError> {
        let mut reply = Self::default();
        for subframe in Subframes::new(payload) {
            match subframe? {
                Subframe::Reply(values) => values.iter().for_each(|(register, value)| {
                    if let Ok(number) = u16::try_from(register) {
                        reply.set(Register(number), value);
                    }
                }),
                Subframe::ReadError(error) => _ = reply.read_error.get_or_insert(error),
                Subframe::WriteError(error) => _ = reply.write_error.get_or_insert(error),
                _ => {}
            }
        }
        Ok(reply)
    }

    /// The value of a register without a field of its own.
    pub fn extra(&self, register: Register) -> Option<f64> {
        self.extras().find(|&(number, _)| number == register).map(|(_, value)| value)
    }

    /// The registers without a field of their own.
    pub fn extras(&self) -> impl Iterator<Item = (Register, f64)> + '_ {
        self.extras.iter().flatten().copied()
    }

    /// Takes a register's value.
    pub(crate) fn set(&mut self, register: Register, value: Value) {
        let (integer, value) = (value.integer(), register.class().decode(value));
        match register {
            Register::MODE => {
                let differs = self.mode_number.is_some_and(|number| number != integer);
                let number = if differs { TWO_MODES } else { integer };
                (self.mode_number, self.mode) = (Some(number), Mode::from_number(number));
            }
            Register::POSITION => self.position = Some(value),
            Register::VELOCITY => self.velocity = Some(value),
            Register::TORQUE => self.torque = Some(value),
            Register::Q_CURRENT => self.q_current = Some(value),
            Register::D_CURRENT => self.d_current = Some(value),
            Register::ABSOLUTE_POSITION => self.absolute_position = Some(value),
            Register::POWER => self.power = Some(value),
            Register::MOTOR_TEMPERATURE => self.motor_temperature = Some(value),
            Register::TRAJECTORY_COMPLETE => self.trajectory_complete = Some(integer != 0),
            Register::HOME_STATE => self.home_state = Some(integer),
            Register::VOLTAGE => self.voltage = Some(value),
            Register::TEMPERATURE => self.temperature = Some(value),
            Register::FAULT => self.fault = Some(Fault(integer as u8)),
            _ => self.set_extra(register, value),
        }
    }

    /// Keeps an extra, if there is room.
    fn set_extra(&mut self, register: Register, value: f64) {
        let slot = self.extras.iter_mut().find(|slot| slot.is_none_or(|(number, _)| number == register));
        if let Some(slot) = slot {
            *slot = Some((register, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_reply() {
        let bytes = b"\x21\0\x0a\x2f\x01\0\0\x80\x3e\0\0\x80\x3f\xcd\xcc\xcc\x3d\x23\x0d\x31\x1e\0\x50\x50";
        let reply = Reply::parse(bytes).unwrap();
        let expected = Reply {
            mode: Some(Mode::Position),
            mode_number: Some(10),
            position: Some(0.25),
            velocity: Some(1.0),
            torque: Some(f64::from(0.1_f32)),
            voltage: Some(24.5),
            temperature: Some(30.0),
            fault: Some(Fault::NONE),
            ..Reply::default()
        };
        assert_eq!(reply, expected);
    }

    #[test]
    fn errors_and_extras() {
        let reply = Reply::parse(&[0x30, 0x91, 0x02, 0x01, 0x31, 0xb2, 0x02, 0x01]).unwrap();
        assert_eq!(reply.write_error, Some(RegisterError { register: 0x111, code: 1 }));
        assert_eq!(reply.read_error, Some(RegisterError { register: 0x132, code: 1 }));
        let reply = Reply::parse(&[0x29, 0x70, 1, 0, 0, 0x80, 0x21, 0x5e, 3]).unwrap();
        assert_eq!(reply.extra(Register::MILLISECOND_COUNTER), Some(1.0 - f64::from(1_u32 << 31)));
        assert_eq!(reply.extra(Register::AUX1_GPIO_STATUS), Some(3.0));
        assert_eq!(reply.extra(Register::AUX2_GPIO_STATUS), None);
    }

    #[test]
    fn more_extras_than_room_lose_only_the_surplus() {
        let mut bytes = [7; 53];
        bytes[..3].copy_from_slice(&[0x20, 50, 0x30]);
        assert_eq!(Reply::parse(&bytes).unwrap().extras().count(), MAX_EXTRAS);
    }

    #[test]
    fn damaged_replies_are_refused() {
        assert_eq!(Reply::parse(&[0x2f, 0x01, 0, 0]), Err(SubframeError::Truncated));
        assert_eq!(Reply::parse(&[0x60]), Err(SubframeError::UnknownOpcode(0x60)));
        assert_eq!(Reply::parse(&[]), Ok(Reply::default()));
    }
}
