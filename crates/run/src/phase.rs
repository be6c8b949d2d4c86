//! Where the robot is on its way from rest to control and back.

use khz_tlog::Record;

/// A state of the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Record)]
#[repr(u8)]
pub enum Phase {
    /// Asking for every servo; outputs off.
    #[tlog(rename = "init")]
    Init = 0,
    /// Every servo has answered and is healthy; outputs off until someone arms.
    #[tlog(rename = "idle")]
    Idle = 1,
    /// The controller is being started from measured positions; outputs off.
    #[tlog(rename = "armed")]
    Armed = 2,
    /// The controller's commands reach the servos, within the limits.
    #[tlog(rename = "active")]
    Active = 3,
    /// Every servo that can brakes by damping; a faulted one ignores that.
    #[tlog(rename = "damping")]
    Damping = 4,
    /// Outputs off; the run ended as planned.
    #[tlog(rename = "stopped")]
    Stopped = 5,
    /// Outputs off; something went wrong.
    #[tlog(rename = "fault")]
    Fault = 6,
}

impl Phase {
    /// All phases in numerical order.
    pub const ALL: [Self; 7] =
        [Self::Init, Self::Idle, Self::Armed, Self::Active, Self::Damping, Self::Stopped, Self::Fault];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Idle => "idle",
            Self::Armed => "armed",
            Self::Active => "active",
            Self::Damping => "damping",
            Self::Stopped => "stopped",
            Self::Fault => "fault",
        }
    }

    /// Nothing more happens unless the robot is armed again.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Stopped | Self::Fault)
    }

    /// Whether the state machine has an edge from here to `next`.
    pub const fn leads_to(self, next: Self) -> bool {
        use Phase::{Active, Armed, Damping, Fault, Idle, Init, Stopped};
        matches!(
            (self, next),
            (Init, Idle | Stopped | Fault)
                | (Idle, Armed | Init | Stopped | Fault)
                | (Armed, Active | Stopped | Fault)
                | (Active, Damping | Stopped | Fault)
                | (Damping, Stopped | Fault)
                | (Stopped | Fault, Init)
                // A servo turns out to be still on.
                | (Stopped, Fault)
        )
    }
}
