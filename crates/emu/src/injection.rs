//! What can be wrong with an emulated servo on purpose.

/// A fault put into one servo from outside, to see how the host takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// It carries out commands but sends nothing.
    Silent(bool),
    /// Position, velocity and torque read as NaN, or as beyond their range where the family has no NaN.
    Lying(bool),
    /// Its encoder stands still.
    Stuck(bool),
    /// It faults because it is too warm.
    Overheated,
    /// It faults with this code of its family.
    Fault(u32),
    /// It loses power for a moment.
    Reboot,
    /// It loses power for a moment, and is wrong by so many turns of the rotor when it is back.
    RebootTurned(i8),
    /// Power off: it receives nothing, sends nothing and drives nothing. Power on: it starts as after [`Injection::Reboot`].
    Power(bool),
    /// It answers reads of this with an error.
    RefuseRead(Option<Refused>),
    /// It answers writes of this with an error, and ignores them.
    RefuseWrite(Option<Refused>),
    /// It stays in mode 0 whatever it is commanded.
    Asleep(bool),
    /// From now on the position it measures is greater by so many thousandths of a radian.
    Jump(i16),
    /// From now on it misbehaves so; `None`: not any more.
    Misbehave(Option<Misbehaviour>),
}

/// What a servo may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its position, to read; its target position, to write.
    Position,
    /// Its greatest torque.
    MaxTorque,
}

/// How a servo misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misbehaviour {
    /// It goes on with the last command that it followed, whatever it is commanded then: it neither damps nor stops.
    StaysOn,
    /// It reports this mode of its family, whatever it does. CubeMars servos report no mode: there it is the error.
    Mode(u8),
    /// It reports so in four of five replies, and the truth in the fifth.
    Mostly(u8),
    /// Position, velocity, torque and temperature are reported as they were.
    Frozen,
    /// It replies twice.
    Twice,
    /// Its replies come so many µs later.
    Slow(u16),
    /// One bit of its replies is altered on the way, in this share of them, percent; checksums hold.
    Altered(u8),
    /// Voltage and temperature are no numbers; only of families that have a value for that.
    Unmeasured,
}
