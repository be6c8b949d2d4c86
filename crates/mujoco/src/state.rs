//! The parts of a state and the bits that name them.

/// A part of MuJoCo's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// s, one number.
    Time,
    /// Joints and bodies: angles, lengths, quaternions.
    Position,
    /// Their velocities.
    Velocity,
    /// Where the solver begins.
    WarmStart,
    /// The control inputs of the model's own actuators, one each.
    Control,
    /// Forces and torques at the joints.
    Applied,
}

impl Part {
    /// Its bit. The order changed at 3.5.0.
    pub const fn bit(self, new: bool) -> i32 {
        match (self, new) {
            (Self::Time, _) => 1,
            (Self::Position, _) => 2,
            (Self::Velocity, _) => 4,
            (Self::WarmStart, false) => 16,
            (Self::WarmStart, true) => 32,
            (Self::Control, false) => 32,
            (Self::Control, true) => 64,
            (Self::Applied, false) => 64,
            (Self::Applied, true) => 128,
        }
    }
}
