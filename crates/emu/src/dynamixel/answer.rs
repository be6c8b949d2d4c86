//! What it answers, and when.

use super::Servo;
use crate::config::WireKind;
use khz_wire::Frame;
use khz_wire::dynamixel::{
    BROADCAST, CLEAR_TURNS, Question, Status, address as at, asked, error, instruction, parts, reset, written,
};
use khz_wire::frame::MAX_PAYLOAD;
use khz_wire::time::UartRate;
use std::f64::consts::TAU;

/// What a status carries at most: the error comes first.
const MOST_DATA: usize = MAX_PAYLOAD - 1;
/// Bytes of the answer to a ping, and what is between two of them, ns.
const PING: (usize, i64) = (14, 50_000);

/// The answer that is due when another servo has answered.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    after: u8,
    question: Question,
    /// Place in the answer to a fast read.
    place: Option<u8>,
}

impl Servo {
    fn id(&self) -> u8 {
        self.table.get(at::ID) as u8
    }

    /// The packet has something for this servo.
    pub(super) fn is_named(&self, request: &Frame) -> bool {
        let Some((to, instruction)) = parts(request) else { return false };
        let id = self.id();
        match instruction {
            instruction::STATUS => false,
            instruction::SYNC_WRITE | instruction::BULK_WRITE => written(request, id).is_some(),
            _ if to == BROADCAST && asked(request).next().is_some() => asked(request).any(|one| one.id == id),
            instruction::PING | instruction::WRITE | instruction::REG_WRITE | instruction::ACTION => {
                to == id || to == BROADCAST
            }
            _ => to == id,
        }
    }

    /// Another servo has answered.
    pub(super) fn another_answered(&mut self, from: u8) -> Option<Frame> {
        let Waiting { question, place, .. } = self.waiting.take_if(|waiting| waiting.after == from)?;
        self.delay_ns = if place.is_some() { 0 } else { self.return_delay_ns() };
        self.values(question, place)
    }

    fn return_delay_ns(&self) -> i64 {
        self.table.get(at::RETURN_DELAY_TIME) * 2000
    }

    /// Carries out a packet of a host; what is answered at once.
    pub(super) fn carry_out(&mut self, request: &Frame, wire: WireKind) -> Option<Frame> {
        // Also a request to another servo ends an answer that is still due.
        self.waiting = None;
        if !self.is_named(request) {
            return None;
        }
        self.silent_s = 0.0;
        self.delay_ns = self.return_delay_ns();
        let (to, instruction) = parts(request)?;
        if asked(request).next().is_some() {
            return self.asked_with_others(request, instruction);
        }
        let id = self.id();
        if let Some((address, data)) = written(request, id) {
            // A sync write has no status that could report an error.
            let _ = self.write(address, data);
            return None;
        }
        match instruction {
            instruction::PING => self.pinged(to, wire),
            instruction::READ => {
                let question = Question { id, address: word(request, 0)?, len: word(request, 2)? };
                self.values(question, None)
            }
            _ => {
                let result = self.do_it(instruction, request);
                self.done(id, to, result)
            }
        }
    }

    fn pinged(&mut self, to: u8, wire: WireKind) -> Option<Frame> {
        if let (BROADCAST, WireKind::Rs485 { baud, .. }) = (to, wire) {
            let slot_ns = UartRate::eight_n_one(baud).bytes_ns(PING.0) + PING.1;
            self.delay_ns += slot_ns * i64::from(self.id());
        }
        let [low, high] = self.setup.model.to_le_bytes();
        self.status(&[low, high, self.setup.firmware]).packet()
    }

    fn status<'a>(&self, data: &'a [u8]) -> Status<'a> {
        Status { id: self.id(), alert: self.has_error(), error: 0, data }
    }

    /// What it is asked for, as far as its return level lets it answer.
    fn values(&mut self, question: Question, place: Option<u8>) -> Option<Frame> {
        if self.table.get(at::STATUS_RETURN_LEVEL) == 0 {
            return None;
        }
        let mut data = [0; MOST_DATA];
        let len = usize::from(question.len);
        let read = data.get_mut(..len).ok_or(error::LENGTH);
        let status = match read.and_then(|data| self.table.read(question.address, data)) {
            Ok(()) => self.status(data.get(..len)?),
            Err(error) => Status { error, ..self.status(&[]) },
        };
        match place {
            // A block has the bytes that were asked for, whatever they are.
            Some(place) => Status { data: data.get(..len)?, ..status }.block(place),
            None => status.packet(),
        }
    }

    /// With other servos: at once if it is the first, else after the one before it.
    fn asked_with_others(&mut self, request: &Frame, instruction: u8) -> Option<Frame> {
        let fast = matches!(instruction, instruction::FAST_SYNC_READ | instruction::FAST_BULK_READ);
        let knows = self.setup.model().is_none_or(|model| model.is_fast(self.setup.firmware));
        if fast && !knows {
            return None;
        }
        let id = self.id();
        let mut before = None;
        for (place, question) in (0..).zip(asked(request)) {
            if question.id == id {
                let place = fast.then_some(place);
                let Some(after) = before else { return self.values(question, place) };
                self.waiting = Some(Waiting { after, question, place });
                return None;
            }
            before = Some(question.id);
        }
        None
    }

    fn write(&mut self, address: u16, data: &[u8]) -> Result<(), u8> {
        self.table.write(address, data, &self.setup)
    }

    fn do_it(&mut self, instruction: u8, request: &Frame) -> Result<(), u8> {
        let parameters = request.payload();
        match instruction {
            instruction::WRITE | instruction::REG_WRITE if parameters.len() < 3 => Err(error::LENGTH),
            instruction::WRITE => self.write(word(request, 0).ok_or(error::LENGTH)?, &parameters[2..]),
            instruction::REG_WRITE => {
                self.registered = Some(*request);
                self.table.put(at::REGISTERED_INSTRUCTION, 1);
                Ok(())
            }
            instruction::ACTION => {
                let registered = self.registered.take().ok_or(error::INSTRUCTION)?;
                self.table.put(at::REGISTERED_INSTRUCTION, 0);
                self.do_it(instruction::WRITE, &registered)
            }
            instruction::REBOOT => {
                self.restart();
                Ok(())
            }
            instruction::FACTORY_RESET => {
                let what = *parameters.first().ok_or(error::LENGTH)?;
                let [keeps_id, keeps_baud] = match what {
                    reset::ALL => [false, false],
                    reset::BUT_ID => [true, false],
                    reset::BUT_ID_AND_BAUD => [true, true],
                    _ => return Err(error::RANGE),
                };
                self.table.reset(&self.setup, keeps_id, keeps_baud);
                self.restart();
                Ok(())
            }
            instruction::CLEAR if *parameters == CLEAR_TURNS => {
                if self.table.get(at::MOVING) != 0 {
                    return Err(error::RESULT);
                }
                let turns = ((self.joint.position + self.offset) / TAU + 0.5).floor();
                self.shift(-turns * TAU);
                Ok(())
            }
            _ => Err(error::INSTRUCTION),
        }
    }

    /// The answer to what was done, under the id it had.
    fn done(&self, id: u8, to: u8, result: Result<(), u8>) -> Option<Frame> {
        let answers = self.table.get(at::STATUS_RETURN_LEVEL) == 2 && to != BROADCAST;
        let status = Status { id, error: result.err().unwrap_or(0), ..self.status(&[]) };
        status.packet().filter(|_| answers)
    }
}

/// Two bytes of the parameters.
fn word(request: &Frame, at: usize) -> Option<u16> {
    let bytes = request.payload().get(at..at + 2)?;
    Some(u16::from_le_bytes([bytes[0], bytes[1]]))
}
