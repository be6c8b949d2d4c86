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
        // Whoever it is for: a client that is gone is forgotten by the time of the first frame after that.
        if self.console_abandoned() {
            let mut server = self.server;
            server.forget_unacknowledged(self);
            self.server = server;
        }
        if !self.is_addressed(request) {
            return None;
        }
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
