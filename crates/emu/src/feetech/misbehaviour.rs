//! How Feetech servos misbehave: in what a cycle reads of them, which is their state, or whether they are on.

use super::{STEPS, Setup, VOLTAGE};
use crate::injection::{Injection, Misbehaviour};
use crate::misbehaviour::{FrozenReply, Misbehaviours};
use khz_wire::Frame;
use khz_wire::feetech::{CONDITIONS, address as at, written};
use std::f64::consts::TAU;
use std::ops::Range;

/// Of an answer with a state, behind its conditions: position, speed and load, and the temperature where it is asked for.
const STATE: Range<usize> = 1..7;
const CELSIUS: usize = 8;
/// Of a shorter one.
const TORQUE: usize = 1;
/// In a sync write: the id of the first servo.
const FIRST: usize = 2;

impl Misbehaviours for Setup {
    /// A packet names several servos at once and is answered by all of them, of which none can answer twice. Whether they are on is asked for so
    /// seldom that one true answer in five may be all that is received.
    fn suits(&self, injection: Injection) -> bool {
        match injection {
            Injection::RefuseRead(what) | Injection::RefuseWrite(what) => what.is_none(),
            Injection::Misbehave(Some(kind)) => {
                !matches!(kind, Misbehaviour::Twice | Misbehaviour::Unmeasured | Misbehaviour::Mostly(_))
            }
            Injection::Jump(by) => by.unsigned_abs() >= crate::mit::LEAST_JUMP,
            _ => true,
        }
    }

    fn has_fault(&self, code: u32) -> bool {
        CONDITIONS.iter().any(|(bit, _)| u32::from(*bit) == code && *bit != VOLTAGE)
    }

    fn encoder_step(&self) -> f64 {
        TAU / STEPS
    }

    /// Its torque is off.
    fn other_modes(&self) -> &'static [u8] {
        &[0]
    }

    /// By what is written into the first servo of a packet: a robot comes down as a whole. A goal that damps is one like any other.
    fn follows(&self, request: &Frame) -> Option<bool> {
        match written(request, *request.payload().get(FIRST)?)? {
            (at::GOAL_POSITION | at::GOAL_SPEED | at::GOAL_TIME, _) => Some(true),
            (at::TORQUE_ENABLE, [0]) => Some(false),
            _ => None,
        }
    }

    fn in_mode(&self, reply: &Frame, mode: u8) -> Frame {
        let mut altered = *reply;
        if reply.payload().len() < STATE.end
            && let Some(on) = altered.payload_mut().get_mut(TORQUE)
        {
            *on = mode;
        }
        altered
    }

    fn frozen(&self, reply: &Frame, frozen: &mut FrozenReply) -> Frame {
        if reply.payload().len() < STATE.end { *reply } else { frozen.again(reply, STATE, CELSIUS) }
    }
}
