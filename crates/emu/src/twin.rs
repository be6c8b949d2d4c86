//! What the emulated machine needs of a servo, whichever its family: bytes in and out, a joint to drive, faults to suffer.

use crate::body::{Drive, JointState};
use crate::config::{Device, WireKind};
use crate::injection::Injection;
use crate::misbehaviour::Misbehaviours;
use khz_servo::Doing;
use khz_wire::Frame;
use std::any::Any;

/// Body and control loops move on by this much at a time.
pub const STEP_NS: i64 = 250_000;

/// A family: what is set up in one of its servos.
pub trait Family: Misbehaviours + Sized {
    /// The greatest id its servos can have.
    const MOST_ID: u8;
    /// The least.
    const LEAST_ID: u8 = 1;

    /// Its servos.
    type Servo: Twin + 'static;

    /// A servo that has just been switched on; `seed` is that of its noise. Allocates.
    ///
    /// # Errors
    /// The name of a setting it does not have.
    fn switched_on(device: Device<Self>, seed: u64) -> Result<Self::Servo, String>;
}

/// One emulated servo.
///
/// # Realtime contract
/// Once built nothing here allocates, waits or reads a clock.
pub trait Twin: Send {
    /// The frame is for this servo, which has power to take it.
    fn takes(&self, request: &Frame) -> bool;

    /// Takes a frame from the bus; what it answers. Frames for others are none of its business.
    fn answer(&mut self, request: &Frame, wire: WireKind) -> Option<Frame>;

    /// How much later than the bus's turnaround the reply it has just given is ready, ns.
    fn delay_ns(&self) -> i64 {
        0
    }

    /// Servos of its family can send something unasked; else neither [`Twin::speak`] nor [`Twin::unasked_ns`] is called.
    fn can_speak(&self) -> bool {
        false
    }

    /// What it sends unasked at the end of a control period; asked for until it is `None`.
    fn speak(&mut self) -> Option<Frame> {
        None
    }

    /// From the end of the last control period to the end of the first in which it may send something unasked, ns; `None` if it
    /// sends nothing unasked as long as it receives no frame and no injected fault.
    fn unasked_ns(&self) -> Option<i64> {
        None
    }

    /// Moves on by one control period; what it then does to its joint.
    fn step(&mut self, joint: JointState, dt_s: f64) -> Drive;

    /// A fault is put into it. What its family cannot suffer has no effect.
    fn inject(&mut self, injection: Injection);

    /// Sets its supply voltage without load.
    fn set_supply(&mut self, volts: f64);

    /// Lets heat flow so many times as fast as everything else happens.
    fn set_heat_rate(&mut self, rate: f64);

    /// It has power.
    fn is_powered(&self) -> bool;

    /// What it is really doing, whatever it reports.
    fn doing(&self) -> Doing;

    /// The angle it measures at its output, rad.
    fn position(&self) -> f64;

    /// The torque it puts on its joint, N·m.
    fn torque(&self) -> f64;

    /// How warm its board is, °C.
    fn board_c(&self) -> f64;

    /// The servo itself, for code that knows its family.
    fn as_any(&self) -> &dyn Any;
}
