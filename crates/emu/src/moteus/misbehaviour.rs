//! How a moteus misbehaves: other values in its replies, other commands in what it receives.

use super::Setup;
use crate::injection::Injection;
use crate::misbehaviour::{FrozenReply, Misbehaviours};
use khz_wire::{Frame, Mode, Register, Subframe, Subframes, Value, Writer};

const MODE: u32 = Register::MODE.0 as u32;

impl Misbehaviours for Setup {
    fn suits(&self, _: Injection) -> bool {
        true
    }

    /// PWM, brake, and a number that is no mode.
    fn other_modes(&self) -> &'static [u8] {
        &[5, 15, 77]
    }

    fn follows(&self, request: &Frame) -> Option<bool> {
        Subframes::new(request.payload()).flatten().find_map(|subframe| match subframe {
            Subframe::Write(values) => {
                let mut values = values.iter();
                let (_, mode) = values.find(|(register, _)| *register == MODE)?;
                Some(mode.integer() == Mode::Position as i32)
            }
            _ => None,
        })
    }

    fn commanded_by(&self, command: &Frame, request: &Frame) -> Frame {
        rewritten(request, |writer| {
            for subframe in Subframes::new(command.payload()).flatten() {
                if let Subframe::Write(values) = subframe {
                    let mut written = [Value::Int8(0); 16];
                    let count =
                        values.iter().zip(&mut written).map(|((_, value), into)| *into = value).count();
                    writer.write(values.run.start, &written[..count]).ok()?;
                }
            }
            for subframe in Subframes::new(request.payload()).flatten() {
                if let Subframe::Read(run) = subframe {
                    writer.read(run).ok()?;
                }
            }
            Some(())
        })
    }

    fn in_mode(&self, reply: &Frame, mode: u8) -> Frame {
        copied(reply, |register, value| match value {
            Value::Int8(_) if register == MODE => Value::Int8(mode as i8),
            Value::Int16(_) if register == MODE => Value::Int16(mode.into()),
            value => value,
        })
    }

    fn frozen(&self, reply: &Frame, first: &mut FrozenReply) -> Frame {
        copied(reply, |register, value| {
            let lives = [Register::MODE, Register::FAULT].iter().any(|live| u32::from(live.0) == register);
            let place =
                first.values.iter_mut().find(|place| place.is_none_or(|(known, _)| known == register));
            place.filter(|_| !lives).map_or(value, |place| place.get_or_insert((register, value)).1)
        })
    }

    fn unmeasured(&self, reply: &Frame) -> Frame {
        let is_it = |register| {
            [Register::VOLTAGE, Register::TEMPERATURE].iter().any(|it| u32::from(it.0) == register)
        };
        copied(reply, |register, value| match value {
            value if !is_it(register) => value,
            Value::Int8(_) => Value::Int8(i8::MIN),
            Value::Int16(_) => Value::Int16(i16::MIN),
            Value::Int32(_) => Value::Int32(i32::MIN),
            Value::Float(_) => Value::Float(f32::NAN),
        })
    }
}

/// A reply with other values, and without the registers the servo refused to write.
pub fn copied(reply: &Frame, mut change: impl FnMut(u32, Value) -> Value) -> Frame {
    rewritten(reply, |writer| {
        for subframe in Subframes::new(reply.payload()).flatten() {
            match subframe {
                Subframe::Reply(values) => {
                    writer.reply_head(values.run).ok()?;
                    for (register, value) in values.iter() {
                        writer.value(change(register, value)).ok()?;
                    }
                }
                Subframe::ReadError(error) => writer.read_error(error).ok()?,
                _ => {}
            }
        }
        Some(())
    })
}

/// A frame with another payload; the same where that does not fit.
pub fn rewritten(frame: &Frame, write: impl FnOnce(&mut Writer<'_>) -> Option<()>) -> Frame {
    let mut payload = [0; khz_wire::frame::MAX_PAYLOAD];
    let mut writer = Writer::new(&mut payload);
    let written = write(&mut writer).and_then(|()| Frame::new(frame.id, writer.written()));
    written.map_or(*frame, |mut written| {
        written.pad();
        (written.extended, written.fd, written.brs) = (frame.extended, frame.fd, frame.brs);
        written
    })
}
