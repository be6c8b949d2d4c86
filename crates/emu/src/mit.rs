//! What emulated servos in MIT mode have in common, whichever family.

use crate::body::Drive;
use std::f64::consts::TAU;

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
