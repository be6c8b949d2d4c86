//! What it answers, and when.

use super::Servo;
use crate::config::WireKind;
use crate::dynamixel::{MIDDLE, steps};
use khz_wire::Frame;
use khz_wire::feetech::{BROADCAST, SHORTEST, Status, address as at, asked, instruction, parts, written};
use khz_wire::time::UartRate;

/// Between two answers to a ping of all, ns.
const PING_GAP_NS: i64 = 50_000;
/// Written to its torque enable: where it is becomes the middle.
const SET_MIDDLE: u8 = 128;

/// The answer that is due when another servo has answered.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    after: u8,
    address: u8,
    len: u8,
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
            instruction::SYNC_WRITE => written(request, id).is_some(),
            instruction::SYNC_READ => asked(request).is_some_and(|(.., ids)| ids.contains(&id)),
            instruction::PING | instruction::WRITE | instruction::REG_WRITE | instruction::ACTION => {
                to == id || to == BROADCAST
            }
            _ => to == id,
        }
    }

    /// Another servo has answered.
    pub(super) fn another_answered(&mut self, from: u8) -> Option<Frame> {
        let Waiting { address, len, .. } = self.waiting.take_if(|waiting| waiting.after == from)?;
        self.delay_ns = self.return_delay_ns();
        self.values(address, len)
    }

    fn return_delay_ns(&self) -> i64 {
        i64::from(self.table.get(at::RETURN_DELAY)) * 2000
    }

    /// Carries out a packet of a host; what is answered at once.
    pub(super) fn carry_out(&mut self, request: &Frame, wire: WireKind) -> Option<Frame> {
        // Also a request to another servo ends an answer that is still due.
        self.waiting = None;
        if !self.is_named(request) {
            return None;
        }
        self.delay_ns = self.return_delay_ns();
        let (to, instruction) = parts(request)?;
        let id = self.id();
        match (instruction, request.payload()) {
            (instruction::PING, _) => self.pinged(to, wire),
            (instruction::READ, &[address, len]) => self.values(address, len),
            (instruction::SYNC_READ, _) => self.asked_with_others(request),
            (instruction::SYNC_WRITE, _) => {
                let (address, data) = written(request, id)?;
                self.write(address, data);
                None
            }
            (instruction::REBOOT, _) => {
                self.restart();
                None
            }
            (instruction, parameters) => {
                self.do_it(instruction, parameters, request);
                // Under the id it had.
                let answers = self.table.get(at::RESPONSE_LEVEL) == 1 && to != BROADCAST;
                Status { id, ..self.status(&[]) }.packet().filter(|_| answers)
            }
        }
    }

    fn pinged(&mut self, to: u8, wire: WireKind) -> Option<Frame> {
        if let (BROADCAST, WireKind::Rs485 { baud, .. }) = (to, wire) {
            let slot_ns = UartRate::eight_n_one(baud).bytes_ns(SHORTEST) + PING_GAP_NS;
            self.delay_ns += slot_ns * i64::from(self.id());
        }
        self.status(&[]).packet()
    }

    fn status<'a>(&self, data: &'a [u8]) -> Status<'a> {
        Status { id: self.id(), conditions: self.conditions(), data }
    }

    /// These bytes of its table; silence where it ends before them, or they are more than a reply of ours can be.
    fn values(&self, address: u8, len: u8) -> Option<Frame> {
        self.status(self.table.read(address, len)?).packet()
    }

    /// With other servos: at once if it is the first, else after the one before it.
    fn asked_with_others(&mut self, request: &Frame) -> Option<Frame> {
        let (address, len, ids) = asked(request)?;
        let place = ids.iter().position(|id| *id == self.id())?;
        let Some(before) = place.checked_sub(1) else { return self.values(address, len) };
        self.waiting = Some(Waiting { after: ids[before], address, len });
        None
    }

    fn write(&mut self, address: u8, data: &[u8]) {
        let [offset, was_on] = [at::HOMING_OFFSET, at::TORQUE_ENABLE].map(|item| self.table.get(item));
        if (address, data) == (at::TORQUE_ENABLE, &[SET_MIDDLE]) {
            return self.calibrate(MIDDLE as i32);
        }
        self.table.write(address, data);
        let is_on = self.table.get(at::TORQUE_ENABLE) == 1;
        let given = usize::from(address)..usize::from(address) + data.len();
        // A goal that was written before is followed, too.
        if is_on && (was_on == 0 || given.contains(&at::GOAL_POSITION.into())) {
            self.aim();
        }
        // What has switched it off keeps it off.
        if self.failed != 0 && is_on {
            self.fail(0);
        }
        if self.table.get(at::HOMING_OFFSET) != offset {
            self.refresh();
        }
    }

    /// Where it is becomes this position.
    fn calibrate(&mut self, position: i32) {
        self.table.put(at::HOMING_OFFSET, steps(self.measured.position) - position);
        self.refresh();
    }

    fn do_it(&mut self, instruction: u8, parameters: &[u8], request: &Frame) {
        match (instruction, parameters) {
            (instruction::WRITE, [address, data @ ..]) => self.write(*address, data),
            (instruction::REG_WRITE, [_, _, ..]) => self.registered = Some(*request),
            (instruction::ACTION, _) => {
                if let Some(registered) = self.registered.take()
                    && let [address, data @ ..] = registered.payload()
                {
                    self.write(*address, data);
                }
            }
            (instruction::FACTORY_RESET, _) => {
                self.table.reset(&self.setup);
                self.restart();
                self.deaf_s = 0.0;
            }
            (instruction::CLEAR, _) => {
                self.forget_turns();
                self.refresh();
            }
            (instruction::CALIBRATE, []) => self.calibrate(MIDDLE as i32),
            (instruction::CALIBRATE, &[low, high]) => self.calibrate(u16::from_le_bytes([low, high]).into()),
            _ => {}
        }
    }
}
