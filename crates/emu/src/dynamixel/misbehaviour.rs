//! How Dynamixel servos misbehave: in what a cycle reads of them, whose last bytes report whether they are on and what is wrong with them.

use super::{STEPS, Setup, VOLTAGE};
use crate::injection::{Injection, Misbehaviour, Refused};
use crate::misbehaviour::{FrozenReply, Misbehaviours};
use khz_wire::Frame;
use khz_wire::dynamixel::{HARDWARE_ERRORS, address as at, written};
use std::f64::consts::TAU;
use std::ops::Range;

/// Of the answer in a cycle, behind its error: current, velocity and position, torque enable, and the temperature where it is asked for.
const STATE: Range<usize> = 1..11;
const TORQUE: usize = 11;
const CELSIUS: usize = 15;
/// The least bytes of one.
const CYCLE: usize = 14;
/// In a sync write: the id of the first servo.
const FIRST: usize = 4;

impl Misbehaviours for Setup {
    /// A packet names several servos at once and is answered by all of them, of which none can answer twice.
    fn suits(&self, injection: Injection) -> bool {
        match injection {
            Injection::RefuseRead(what) => what.is_none(),
            Injection::RefuseWrite(what) => what != Some(Refused::MaxTorque),
            Injection::Misbehave(Some(kind)) => {
                !matches!(kind, Misbehaviour::Twice | Misbehaviour::Unmeasured)
            }
            Injection::Jump(by) => by.unsigned_abs() >= crate::mit::LEAST_JUMP,
            _ => true,
        }
    }

    fn has_fault(&self, code: u32) -> bool {
        HARDWARE_ERRORS.iter().any(|(bit, _)| u32::from(*bit) == code && *bit != VOLTAGE)
    }

    fn encoder_step(&self) -> f64 {
        TAU / STEPS
    }

    /// Its torque is off.
    fn other_modes(&self) -> &'static [u8] {
        &[0]
    }

    /// By what is written into the first servo of a packet: a robot comes down as a whole.
    fn follows(&self, request: &Frame) -> Option<bool> {
        let (address, data) = written(request, *request.payload().get(FIRST)?)?;
        match (address, data) {
            (at::GOAL_POSITION, _) => Some(true),
            (at::TORQUE_ENABLE, [0]) | (at::POSITION_D_GAIN, [_, _, _, _, 0, 0]) => Some(false),
            _ => None,
        }
    }

    fn in_mode(&self, reply: &Frame, mode: u8) -> Frame {
        let mut altered = *reply;
        if reply.payload().len() >= CYCLE {
            altered.payload_mut()[TORQUE] = mode;
        }
        altered
    }

    fn frozen(&self, reply: &Frame, frozen: &mut FrozenReply) -> Frame {
        if reply.payload().len() < CYCLE { *reply } else { frozen.again(reply, STATE, CELSIUS) }
    }
}
