//! Requests of a form that has come before, answered without being taken apart again.
//!
//! A host's loop sends the same few requests all the time, with other numbers in them. What such a request writes and reads, and where
//! its numbers and those of the reply are, is worked out once. Whatever does not go as usual is left to the general way, so that
//! the bytes are the same.

use super::{RESERVE, RegisterFile};
use crate::format::MAX_REGISTERS;
use crate::frame::MAX_PAYLOAD;
use crate::register::Register;
use crate::subframe::{RegisterRun, Subframe, Subframes, Writer};
use crate::template::{Layout, Reading};
use crate::value::Value;

/// Forms that are remembered: a query's reads rotate, and there are at most seven.
const FORMS: usize = 8;

/// The forms of a device's latest requests.
#[derive(Clone, Debug)]
pub struct Forms {
    forms: [Form; FORMS],
    /// Of these, those that are there.
    known: usize,
    /// The one that came last.
    last: usize,
}

impl Default for Forms {
    fn default() -> Self {
        Self { forms: [Form::NONE; FORMS], known: 0, last: 0 }
    }
}

impl Forms {
    /// The form of this request, which wants a reply; learned, if it is a new one. `None` if it has to be taken apart.
    pub(super) fn of(&mut self, request: &[u8; MAX_PAYLOAD], len: usize) -> Option<&Form> {
        // Rotations take turns: the one after the last is the likeliest.
        let known = (1..=self.known).map(|on| (self.last + on) % self.known);
        let found = { known }.find(|&place| self.forms[place].request.fits(request, len));
        self.last = match found {
            Some(place) => place,
            None => {
                let form = Form::new(&request[..len])?;
                let place = if self.known < FORMS { self.known } else { (self.last + 1) % FORMS };
                self.known = self.known.max(place + 1);
                self.forms[place] = form;
                place
            }
        };
        self.forms.get(self.last)
    }
}

/// What requests of one form have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    request: Layout,
    /// How the request's numbers are read, one after the other.
    readings: [Reading; MAX_REGISTERS],
    reply: Layout,
}

impl Form {
    const NONE: Self =
        Self { request: Layout::EMPTY, readings: [Reading::ABSENT; MAX_REGISTERS], reply: Layout::EMPTY };

    /// Of a request that writes registers, then reads registers, all of which fit a frame; `None` for others.
    fn new(request: &[u8]) -> Option<Self> {
        let mut form = Self::NONE;
        let mut subframes = Subframes::new(request);
        let mut end = 0;
        while let Some(subframe) = subframes.next() {
            let start = core::mem::replace(&mut end, request.len() - subframes.rest().len());
            let bytes = &request[start..end];
            match subframe.ok()? {
                Subframe::Write(values) => form.writes(bytes, values.run, values.bytes().len())?,
                Subframe::Read(run) => form.reads(bytes, run)?,
                Subframe::Nop => form.request.known(bytes),
                _ => return None,
            }
        }
        for (reading, number) in form.readings.iter_mut().zip(form.request.iter()) {
            *reading = Reading::of(*number);
        }
        Some(form)
    }

    fn writes(&mut self, bytes: &[u8], run: RegisterRun, values: usize) -> Option<()> {
        let masks = u32::from(Register::UUID_MASK.0)..u32::from(Register::UUID_MASK.0) + 4;
        let is_plain = masks.start >= run.start.saturating_add(run.count) || masks.end <= run.start;
        // A register that is read first would have its old value.
        let comes_first = self.reply.is_empty() && self.has_room();
        (is_plain && comes_first).then_some(())?;
        self.request.known(&bytes[..bytes.len() - values]);
        self.request.numbers(run)
    }

    fn reads(&mut self, bytes: &[u8], run: RegisterRun) -> Option<()> {
        self.has_room().then_some(())?;
        self.request.known(bytes);
        let mut head = [0; MAX_PAYLOAD];
        let mut writer = Writer::new(&mut head[..MAX_PAYLOAD - self.reply.len()]);
        writer.reply_head(run).ok()?;
        self.reply.known(writer.written());
        self.reply.numbers(run)
    }

    /// The device would look at a further subframe.
    fn has_room(&self) -> bool {
        MAX_PAYLOAD - self.reply.len() >= RESERVE
    }

    /// Writes and reads as a request of this form asks; the length of the reply.
    ///
    /// # Errors
    /// How many values the device has taken, if it refused the next or one that was to be read: all else is the general way's.
    pub(super) fn answer(
        &self,
        request: &[u8; MAX_PAYLOAD],
        file: &mut impl RegisterFile,
        reply: &mut [u8; MAX_PAYLOAD],
    ) -> Result<usize, usize> {
        let mut taken = 0;
        for (number, reading) in self.request.iter().zip(&self.readings) {
            if !file.take(number.register, reading.value_in(request)) {
                let value = Value::read(number.resolution, number.of(request)).ok_or(taken)?;
                file.write(number.register, value).map_err(|_| taken)?;
            }
            taken += 1;
        }
        *reply = *self.reply.bytes();
        for number in self.reply.iter() {
            if let Some(quantity) = file.give(number.register) {
                number.write(quantity, reply);
                continue;
            }
            let value = file.read(number.register, number.resolution).map_err(|_| taken)?;
            if value.resolution() != number.resolution {
                return Err(taken);
            }
            value.write(number.of_mut(reply)).ok_or(taken)?;
        }
        Ok(self.reply.len())
    }
}
