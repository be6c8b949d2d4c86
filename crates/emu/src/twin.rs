//! What the emulated machine needs of a servo, whichever its family: bytes in and out, a joint to drive, faults to suffer.

use crate::body::{Drive, JointState};
use crate::config::{FamilyConfig, ServoConfig, WireKind};
use crate::injection::Injection;
use crate::{damiao, servo};
use khz_servo::Doing;
use khz_wire::Frame;

/// One emulated servo.
///
/// # Realtime contract
/// Once built nothing here allocates, waits or reads a clock.
pub trait Twin: Send {
    /// The frame is for this servo, which has power to take it.
    fn takes(&self, request: &Frame) -> bool;

    /// Takes a frame from the bus; what it answers. Frames for others are none of its business.
    fn answer(&mut self, request: &Frame, wire: WireKind) -> Option<Frame>;

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

    /// What it is really doing, whatever it says.
    fn doing(&self) -> Doing;

    /// The angle it measures at its output, rad.
    fn position(&self) -> f64;

    /// The torque it puts on its joint, N·m.
    fn torque(&self) -> f64;

    /// How warm its board is, °C.
    fn board_c(&self) -> f64;

    /// The whole servo, if it is a moteus.
    fn as_moteus(&self) -> Option<&servo::Servo> {
        None
    }
}

/// Builds the servo a configuration describes, just switched on.
///
/// # Errors
/// The name of a setting it does not have.
pub(crate) fn new(config: &ServoConfig) -> Result<Box<dyn Twin>, String> {
    Ok(match &config.family {
        FamilyConfig::Moteus => Box::new(servo::Servo::new(config)?),
        FamilyConfig::Damiao(motor) => Box::new(damiao::Servo::new(config, *motor)),
    })
}
