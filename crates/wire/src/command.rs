//! Commands of a host to a servo, and their bytes.
//!
//! Values are in the units of the wire: revolutions, rev/s, N·m, V, A, s. NaN means what the manual gives for
//! each register, usually "none" or "the servo's default". Frames are byte for byte those of the official
//! clients.

use crate::address::Address;
use crate::format::Format;
use crate::frame::{Frame, MAX_PAYLOAD};
use crate::mode::Mode;
use crate::register::Register;
use crate::subframe::{Full, Writer};
use crate::value::{Resolution, Value};

/// A command that puts the servo in a mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Command {
    /// Driver off; clears fault and timeout.
    Stop,
    /// Follow a position, velocity and torque.
    Position(Position),
    /// Damping only.
    ZeroVelocity(ZeroVelocity),
    /// Currents of the rotating frame.
    Current(Current),
    /// A voltage at an electrical angle.
    VoltageFoc(VoltageFoc),
    /// Free between bounds.
    StayWithin(StayWithin),
    /// Phases shorted to ground.
    Brake,
}

macro_rules! values {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident = $default:expr, $register:ident;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name { $($(#[$field_doc])* pub $field: f64,)* }

        impl Default for $name {
            /// What the servo assumes for a register that is not sent.
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $name {
            /// Every register of the command, as floats.
            pub fn all_floats() -> Format {
                Format::listed(&[$((Register::$register, Resolution::Float)),*])
            }

            /// The value for a register, if it is one of the command's.
            #[inline]
            pub const fn value(&self, register: Register) -> Option<f64> {
                match register {
                    $(Register::$register => Some(self.$field),)*
                    _ => None,
                }
            }
        }
    };
}

values! {
    /// Values of [`Command::Position`].
    Position {
        /// rev. NaN: go on from the present control position with `velocity`.
        position = 0.0, COMMAND_POSITION;
        /// rev/s. NaN counts as 0.
        velocity = 0.0, COMMAND_VELOCITY;
        /// Feed-forward torque, N·m.
        torque = 0.0, COMMAND_TORQUE;
        /// Scales the servo's kp, 0 to 1.
        kp_scale = 1.0, COMMAND_KP_SCALE;
        /// Scales the servo's kd, 0 to 1.
        kd_scale = 1.0, COMMAND_KD_SCALE;
        /// N·m. NaN: no limit but the current's.
        max_torque = 100.0, COMMAND_MAX_TORQUE;
        /// rev. NaN: none. Deprecated, and a fault together with limits.
        stop_position = f64::NAN, COMMAND_STOP_POSITION;
        /// s until the servo gives up without another command. 0: its configured time; NaN: never.
        watchdog = 0.0, COMMAND_WATCHDOG;
        /// rev/s. NaN: the configured limit; negative: none.
        velocity_limit = f64::NAN, COMMAND_VELOCITY_LIMIT;
        /// rev/s². NaN: the configured limit; negative: none.
        acceleration_limit = f64::NAN, COMMAND_ACCELERATION_LIMIT;
        /// V. NaN: off.
        fixed_voltage = f64::NAN, COMMAND_FIXED_VOLTAGE;
        /// Scales the servo's integrator limit.
        ilimit_scale = 1.0, COMMAND_ILIMIT_SCALE;
        /// A. NaN: off.
        fixed_current = f64::NAN, COMMAND_FIXED_CURRENT;
        /// Not 0: ignore the configured position bounds.
        ignore_bounds = 0.0, COMMAND_IGNORE_BOUNDS;
    }
}

values! {
    /// Values of [`Command::ZeroVelocity`]: the position command's that still matter.
    ZeroVelocity {
        /// Scales the servo's kd, 0 to 1.
        kd_scale = 1.0, COMMAND_KD_SCALE;
    }
}

values! {
    /// Values of [`Command::Current`].
    Current {
        /// A, makes torque.
        q = 0.0, COMMAND_Q_CURRENT;
        /// A.
        d = 0.0, COMMAND_D_CURRENT;
    }
}

values! {
    /// Values of [`Command::VoltageFoc`].
    VoltageFoc {
        /// Electrical angle in half turns: 0.5 is π/2 rad.
        theta = 0.0, VFOC_THETA;
        /// V.
        voltage = 0.0, VFOC_VOLTAGE;
        /// Half turns per second.
        theta_rate = 0.0, VFOC_THETA_RATE;
    }
}

values! {
    /// Values of [`Command::StayWithin`].
    StayWithin {
        /// rev. NaN: open on this side. What is not sent is 0.
        lower = 0.0, WITHIN_LOWER;
        /// rev. NaN: open on this side. What is not sent is 0.
        upper = 0.0, WITHIN_UPPER;
        /// Feed-forward torque, N·m.
        torque = 0.0, WITHIN_TORQUE;
        /// Scales the servo's kp, 0 to 1.
        kp_scale = 1.0, WITHIN_KP_SCALE;
        /// Scales the servo's kd, 0 to 1.
        kd_scale = 1.0, WITHIN_KD_SCALE;
        /// N·m. NaN: no limit but the current's.
        max_torque = 100.0, WITHIN_MAX_TORQUE;
        /// s until the servo gives up without another command. 0: its configured time; NaN: never.
        watchdog = 0.0, WITHIN_WATCHDOG;
        /// Scales the servo's integrator limit.
        ilimit_scale = 1.0, WITHIN_ILIMIT_SCALE;
        /// Not 0: ignore the configured position bounds.
        ignore_bounds = 0.0, WITHIN_IGNORE_BOUNDS;
    }
}

impl Command {
    /// The mode it puts the servo in.
    pub const fn mode(&self) -> Mode {
        match self {
            Self::Stop => Mode::Stopped,
            Self::Position(_) => Mode::Position,
            Self::ZeroVelocity(_) => Mode::ZeroVelocity,
            Self::Current(_) => Mode::Current,
            Self::VoltageFoc(_) => Mode::VoltageFoc,
            Self::StayWithin(_) => Mode::StayWithin,
            Self::Brake => Mode::Brake,
        }
    }

    /// The value for a register, if it is one of the command's.
    pub const fn value(&self, register: Register) -> Option<f64> {
        match self {
            Self::Stop | Self::Brake => None,
            Self::Position(values) => values.value(register),
            Self::ZeroVelocity(values) => values.value(register),
            Self::Current(values) => values.value(register),
            Self::VoltageFoc(values) => values.value(register),
            Self::StayWithin(values) => values.value(register),
        }
    }

    /// Writes the mode, then those of the command's registers that are in `format`. The mode comes first
    /// because it resets all others.
    ///
    /// # Errors
    /// [`Full`] if they do not all fit; those before are written.
    pub fn write(&self, format: &Format, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.write(u32::from(Register::MODE.0), &[Value::Int8(self.mode() as i8)])?;
        let own = format.only(|register| self.value(register).is_some());
        write_registers(&own, |register| self.value(register).unwrap_or(f64::NAN), writer)
    }

    /// A whole frame: the command, then the query. The address asks for a reply exactly if there is a query.
    ///
    /// # Errors
    /// [`Full`] if it is longer than a frame.
    pub fn frame(&self, address: Address, format: &Format, query: &Format) -> Result<Frame, Full> {
        frame(Address { reply: !query.is_empty(), ..address }, |writer| {
            self.write(format, writer)?;
            query.query(writer)
        })
    }
}

/// Something done at once, whatever the mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Choose the whole turn that makes the position nearest to this, rev.
    SetOutputNearest(f64),
    /// Call the present position this, rev.
    SetOutputExact(f64),
    /// Forget the output position until it is found anew.
    RequireReindex,
    /// Take the measured position and velocity as the control position and velocity.
    Recapture,
    /// Set the pins of a port: bit 0 is the first. `None` leaves a port as it is.
    WriteGpio {
        /// First port.
        aux1: Option<u8>,
        /// Second port.
        aux2: Option<u8>,
    },
    /// Shift the clock, −8 to 8 steps.
    SetTrim(i32),
    /// Set the duties, 0 to 1, of PWM outputs: five of the first port, five of the second. `None` leaves an
    /// output as it is.
    AuxPwm([Option<f64>; 10]),
}

impl Action {
    /// Writes the action.
    ///
    /// # Errors
    /// [`Full`] if it does not fit.
    pub fn write(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        let mut put = |register: Register, value| writer.write(u32::from(register.0), &[value]);
        match *self {
            Self::SetOutputNearest(at) => put(Register::SET_OUTPUT_NEAREST, Value::Float(at as f32)),
            Self::SetOutputExact(at) => put(Register::SET_OUTPUT_EXACT, Value::Float(at as f32)),
            Self::RequireReindex => put(Register::REQUIRE_REINDEX, Value::Int8(1)),
            Self::Recapture => put(Register::RECAPTURE, Value::Int8(1)),
            Self::WriteGpio { aux1: Some(aux1), aux2: Some(aux2) } => {
                let both = [aux1, aux2].map(|bits| Value::Int8(bits as i8));
                writer.write(u32::from(Register::AUX1_GPIO_COMMAND.0), &both)
            }
            Self::WriteGpio { aux1, aux2 } => {
                aux1.map_or(Ok(()), |bits| put(Register::AUX1_GPIO_COMMAND, Value::Int8(bits as i8)))?;
                aux2.map_or(Ok(()), |bits| put(Register::AUX2_GPIO_COMMAND, Value::Int8(bits as i8)))
            }
            Self::SetTrim(steps) => put(Register::CLOCK_TRIM, Value::Int32(steps)),
            Self::AuxPwm(duties) => {
                let output = |i: usize| Register(Register::AUX1_PWM_OUT_1.0 + i as u16);
                let set = (0..duties.len()).filter(|&i| duties[i].is_some());
                let format = set.fold(Format::new(), |format, i| {
                    format.with(output(i), Resolution::Int16).unwrap_or(format)
                });
                let duty = |register: Register| {
                    let index = register.0 - Register::AUX1_PWM_OUT_1.0;
                    duties.get(usize::from(index)).copied().flatten().unwrap_or(f64::NAN)
                };
                write_registers(&format, duty, writer)
            }
        }
    }
}

/// Makes the frame speak only to the device whose unique number starts with `prefix` (4, 8, 12 or 16 bytes);
/// must come first in a frame addressed to everybody. Of other lengths only whole words count, at most four.
///
/// # Errors
/// [`Full`] if it does not fit.
pub fn write_uuid_mask(prefix: &[u8], writer: &mut Writer<'_>) -> Result<(), Full> {
    let words = prefix.as_chunks::<4>().0;
    let mut values = [Value::Int32(0); 4];
    let count = words.len().min(4);
    for (value, &word) in values.iter_mut().zip(words) {
        *value = Value::Int32(i32::from_le_bytes(word));
    }
    writer.write(u32::from(Register::UUID_MASK.0), &values[..count])
}

/// A frame with what `write` writes.
///
/// # Errors
/// [`Full`] if that is longer than a frame.
pub fn frame(
    address: Address,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
) -> Result<Frame, Full> {
    let mut payload = [0; MAX_PAYLOAD];
    let mut writer = Writer::new(&mut payload);
    write(&mut writer)?;
    let len = writer.len();
    Frame::new(address.id(), &payload[..len]).ok_or(Full)
}

/// Writes all of the format's registers.
fn write_registers(
    format: &Format,
    value: impl Fn(Register) -> f64,
    writer: &mut Writer<'_>,
) -> Result<(), Full> {
    for run in format.runs() {
        writer.write_head(run)?;
        for number in (run.start..).take(run.count as usize) {
            let register = Register(number as u16);
            writer.value(register.class().encode(value(register), run.resolution))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn writes(write: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>, expected: &str) {
        let mut buffer = [0; 64];
        let mut writer = Writer::new(&mut buffer);
        write(&mut writer).unwrap();
        let mut digits = [0; 128];
        for (pair, &byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(writer.written()) {
            *pair = [byte >> 4, byte & 15].map(|d| b"0123456789abcdef"[usize::from(d)]);
        }
        let len = 2 * writer.len();
        assert_eq!(core::str::from_utf8(&digits[..len]).unwrap(), expected);
    }

    #[test]
    fn the_default_position_command_with_query() {
        let command = Command::Position(Position { position: 0.25, velocity: 1.0, ..Position::default() });
        let (format, query) = (Format::default_position(), Format::default_query());
        let frame = command.frame(Address::to(1, false), &format, &query).unwrap();
        assert_eq!(frame.id, 0x8001);
        writes(
            |w| command.write(&format, w).and_then(|()| query.query(w)),
            "01000a0e200000803e0000803f11001f01130d",
        );
    }

    #[test]
    fn registers_of_other_commands_are_not_sent() {
        let format = StayWithin::all_floats();
        writes(|w| Command::Position(Position::default()).write(&format, w), "01000a");
        writes(|w| Command::Stop.write(&format, w), "010000");
        writes(|w| Command::Brake.write(&format, w), "01000f");
    }

    #[test]
    fn actions_of_the_official_client() {
        writes(|w| Action::SetOutputNearest(0.5).write(w), "0db0020000003f");
        writes(|w| Action::RequireReindex.write(w), "01b20201");
        writes(|w| Action::WriteGpio { aux1: Some(3), aux2: Some(1) }.write(w), "025c0301");
        writes(|w| Action::WriteGpio { aux1: None, aux2: Some(1) }.write(w), "015d01");
        writes(|w| Action::SetTrim(-2).write(w), "0971feffffff");
        let mut duties = [None; 10];
        (duties[0], duties[1]) = (Some(0.5), Some(1.0));
        writes(|w| Action::AuxPwm(duties).write(w), "0676ff3fff7f");
    }

    #[test]
    fn uuid_masks_of_every_length() {
        writes(|w| write_uuid_mask(&[0x10, 1, 2, 3], w), "09d40210010203");
        let whole = core::array::from_fn::<u8, 16, _>(|i| i as u8);
        writes(|w| write_uuid_mask(&whole, w), "0804d402000102030405060708090a0b0c0d0e0f");
        writes(|w| write_uuid_mask(&[1, 2, 3], w), "");
    }
}
