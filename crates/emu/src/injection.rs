//! What can be wrong with an emulated servo on purpose.

use khz_wire::{Fault, Register};

/// A fault put into one servo from outside, to see how the host takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// It carries out commands but sends nothing.
    Silent(bool),
    /// Position, velocity and torque read as NaN.
    Lying(bool),
    /// Its encoder stands still.
    Stuck(bool),
    /// It faults with this code.
    Fault(Fault),
    /// It loses power for a moment.
    Reboot,
    /// It loses power for a moment, and is wrong by so many turns of the rotor when it is back.
    RebootTurned(i8),
    /// Power off: it hears nothing, says nothing and drives nothing. Power on: it starts as after [`Injection::Reboot`].
    Power(bool),
    /// It answers reads of this register with an error.
    RefuseRead(Option<Register>),
    /// It answers writes to this register with an error, and ignores them.
    RefuseWrite(Option<Register>),
    /// It stays in mode 0 whatever it is commanded.
    Asleep(bool),
}
