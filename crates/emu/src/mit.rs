//! What emulated servos in MIT mode have in common, whichever family.

use crate::body::Drive;
use crate::injection::{Injection, Lie};
use khz_wire::Frame;
use khz_wire::mit::{Codes, Special};
use std::f64::consts::TAU;
use std::ops::Range;

/// The faults put into one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Injected {
    pub silent: bool,
    pub lying: bool,
    pub stuck: bool,
    pub unpowered: bool,
    pub asleep: bool,
}

/// A command as numbers.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    pub kp: f64,
    pub kd: f64,
    /// From the measured position to the commanded one, rad.
    pub toward: f64,
    /// Commanded, rad/s.
    pub velocity: f64,
    /// Added, N·m.
    pub torque: f64,
}

impl Law {
    /// The torque at this measured velocity, at most so much, and what it does to the joint.
    pub fn drive(self, measured: f64, most: f64) -> (f64, Drive) {
        let still = self.kp * self.toward + self.kd * self.velocity + self.torque;
        let torque = (still - self.kd * measured).clamp(-most, most);
        if torque.abs() < most {
            (torque, Drive { torque: still, damping: self.kd })
        } else {
            (torque, Drive { torque, damping: 0.0 })
        }
    }
}

/// What is added to the angle of a joint after power-up by a servo that knows it within one turn of its rotor, rad.
pub fn offset_within_rotor_turn(real: f64, gear: f64) -> f64 {
    let turn = TAU / gear;
    -(real / turn).round() * turn
}

/// The greatest id, as far as nothing else limits it.
pub const MOST_ID: u8 = 127;

/// A jump by less than this is not told from a motion, rad·10⁻³.
const LEAST_JUMP: u16 = 150;

/// See [`crate::lies::Lies::suits`]: it has no registers in its commands and states that it could refuse, nor a value for "not measured".
pub fn suits(injection: Injection) -> bool {
    match injection {
        Injection::RefuseRead(what) | Injection::RefuseWrite(what) => what.is_none(),
        Injection::Jump(by) => by.unsigned_abs() >= LEAST_JUMP,
        Injection::Lie(Some(lie)) => !matches!(lie, Lie::Mostly(_) | Lie::Unmeasured),
        _ => true,
    }
}

/// Whether a command makes the servo follow a position; `None` if it is no command.
pub fn follows(request: &Frame) -> Option<bool> {
    let bytes = request.payload().try_into().ok()?;
    match Special::from_bytes(bytes) {
        Some(Special::Disable) => Some(false),
        Some(_) => None,
        None => Some(Codes::from_bytes(bytes).kp > 0),
    }
}

/// The reply of a servo that says what it `said` first; these bytes of it tell the state, and not the mode.
pub fn frozen(state: Range<usize>, reply: &Frame, said: &mut Option<Frame>) -> Frame {
    if state.is_empty() {
        return *reply;
    }
    let mut frozen = *reply;
    frozen.payload_mut()[state.clone()].copy_from_slice(&said.get_or_insert(*reply).payload()[state]);
    frozen
}
