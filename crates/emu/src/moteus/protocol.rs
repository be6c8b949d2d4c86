//! The servo's end of the protocol: frames in, frames out.

use super::Servo;
use crate::config::WireKind;
use khz_wire::address::BROADCAST;
use khz_wire::device::{Refusal, RegisterFile};
use khz_wire::frame::MAX_PAYLOAD;
use khz_wire::{Address, Frame, Register, Resolution, Value};

impl Servo {
    /// The frame is for this servo, which has power to take it.
    pub(super) fn is_addressed(&self, request: &Frame) -> bool {
        let destination = Address::from_id(request.id).destination;
        !self.injected.unpowered && (destination == self.id() || destination == BROADCAST)
    }

    /// Takes a frame from the bus; what it answers.
    pub(super) fn reply(&mut self, request: &Frame, wire: WireKind) -> Option<Frame> {
        if self.injected.unpowered {
            return None;
        }
        // Whichever client it is for: a client that is gone is forgotten by the time of the first frame after that.
        if self.console_abandoned() {
            let mut server = self.server;
            server.forget_unacknowledged(self);
            self.server = server;
        }
        if self.is_addressed(request) { self.reply_to_own(request, wire) } else { None }
    }

    // Apart, so that the frames of others, which are most, need no room for its variables.
    #[inline(never)]
    fn reply_to_own(&mut self, request: &Frame, wire: WireKind) -> Option<Frame> {
        self.commanded = false;
        let mut server = self.server;
        let reply = match wire {
            WireKind::Rs485 { .. } => self.answer_serial(&mut server, request),
            WireKind::CanFd { .. } | WireKind::Instant => {
                let prefix = self.settings.can.prefix as u16;
                let mut forms = self.forms.take().unwrap_or_default();
                let reply = server.answer_frame(request, self.id(), prefix, self, &mut forms);
                self.forms = Some(forms);
                reply
            }
        };
        self.server = server;
        reply.filter(|_| !self.injected.silent)
    }

    /// Serial frames have no prefix and no padding.
    fn answer_serial(&mut self, server: &mut khz_wire::device::Server, request: &Frame) -> Option<Frame> {
        let address = Address::from_id(request.id);
        if address.destination != self.id() && address.destination != BROADCAST {
            return None;
        }
        let mut payload = [0; MAX_PAYLOAD];
        let len = server.answer(request.payload(), address.reply, self, &mut payload)?;
        Frame::new(Address { prefix: 0, ..address.answered_by(self.id()) }.id(), &payload[..len])
    }
}

impl RegisterFile for Servo {
    fn read(&mut self, register: Register, resolution: Resolution) -> Result<Value, Refusal> {
        if self.injected.refused_read == Some(register) {
            return Err(Refusal::Unknown);
        }
        self.read_register(register, resolution)
    }

    fn write(&mut self, register: Register, value: Value) -> Result<(), Refusal> {
        if self.injected.refused_write == Some(register) {
            return Err(Refusal::NotWritable);
        }
        self.write_register(register, value)
    }

    #[inline]
    fn take(&mut self, register: Register, quantity: f64) -> bool {
        match self.written.value(register) {
            Some(target) if self.injected.refused_write.is_none() => {
                *target = quantity;
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn give(&mut self, register: Register) -> Option<f64> {
        if self.injected.refused_read.is_some() { None } else { self.quantity(register) }
    }

    fn complete(&mut self) {
        if std::mem::take(&mut self.commanded) {
            self.apply(self.written);
        }
    }

    fn uuid(&self) -> [u8; 16] {
        self.settings.uuid.uuid
    }

    fn output(&mut self, channel: u32) -> Option<&[u8]> {
        self.stream_output(channel)
    }

    fn consume(&mut self, channel: u32, count: usize) {
        self.stream_consume(channel, count);
    }

    fn input(&mut self, channel: u32, data: &[u8]) {
        self.stream_input(channel, data);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Setup;
    use super::*;
    use crate::family::ServoConfig;
    use crate::moteus::settings::Settings;

    const RESOLUTIONS: [Resolution; 4] =
        [Resolution::Int8, Resolution::Int16, Resolution::Int32, Resolution::Float];

    #[test]
    fn what_is_given_and_taken_the_short_way_is_what_is_read_and_written() {
        let mut servo = Servo::boot(ServoConfig::new(0, 1).of(Setup), Settings::default());
        let (mut given, mut taken) = (0, 0);
        for register in (0..=u16::MAX).map(Register) {
            for resolution in RESOLUTIONS {
                if let Some(quantity) = servo.give(register) {
                    let encoded = register.class().encode(quantity, resolution);
                    let read = servo.read(register, resolution).map(bits);
                    assert_eq!(read, Ok(bits(encoded)), "{register:?} {resolution:?}");
                    given += 1;
                }
                for value in [0x80, 7].map(|byte| Value::read(resolution, &[byte, byte, 0, byte]).unwrap()) {
                    let mut quick = servo.clone();
                    if quick.take(register, register.class().decode(value)) {
                        let mut usual = servo.clone();
                        assert_eq!(usual.write(register, value), Ok(()), "{register:?} {value:?}");
                        assert_eq!(format!("{usual:?}"), format!("{quick:?}"), "{register:?} {value:?}");
                        taken += 1;
                    }
                }
            }
        }
        assert!(given > 100 && taken > 100, "{given}, {taken}");
    }

    /// With NaN equal to itself.
    fn bits(value: Value) -> (Resolution, [u8; 4]) {
        let mut bytes = [0; 4];
        value.write(&mut bytes).unwrap();
        (value.resolution(), bytes)
    }

    #[test]
    fn what_it_refuses_is_not_for_the_short_way() {
        let mut servo = Servo::boot(ServoConfig::new(0, 1).of(Setup), Settings::default());
        servo.injected.refused_read = Some(Register::POSITION);
        servo.injected.refused_write = Some(Register::COMMAND_MAX_TORQUE);
        assert!(servo.give(Register::POSITION).is_none() && !servo.take(Register::COMMAND_MAX_TORQUE, 1.0));
    }
}
