//! What goes wrong, and when: drawn from a seed.

use khz_emu::noise::Noise;
use khz_robot::supervisor::Cause;
use serde::Serialize;
use std::fmt;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// A servo sends nothing any more.
    Silent(usize),
    /// A servo loses power for a moment.
    Reboot(usize),
    /// A servo faults.
    Fault(usize),
    /// A servo reports NaN.
    Lying(usize),
    /// A servo's encoder stands still.
    Stuck(usize),
    /// A bus is gone.
    BusDead(usize),
    /// Frames on a bus are damaged, this share of them in percent.
    BusNoisy(usize, u8),
    /// Replies on a bus come later by up to this many µs.
    BusSlow(usize, u16),
    /// The IMU does not answer.
    ImuGone,
    /// The supply sags to this many volts.
    BrownOut(u8),
    /// The host's process is gone.
    HostKilled,
    /// The host's process is stopped for this many ms, then goes on.
    HostStopped(u16),
    /// Ticks start late by this many µs, for 30 ticks.
    HostLate(u16),
    /// The disk is full.
    DiskFull,
    /// The controller does not return for this many ms, once.
    ControllerFreezes(u16),
    /// The controller takes this many µs in every tick.
    ControllerSlow(u16),
    /// The controller panics.
    ControllerPanics,
    /// The controller returns an error.
    ControllerFails,
    /// The controller commands NaN.
    ControllerNan,
    /// The controller commands far more than the limits allow.
    ControllerWild,
    /// The operator stops the robot.
    OperatorStop,
}

/// A trouble and its tick.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Event {
    /// When.
    pub tick: u64,
    /// What.
    pub trouble: Trouble,
}

/// Up to three troubles in one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// Seed it was drawn from; gives the same scenario again.
    pub seed: u64,
    /// What goes wrong, in order.
    pub events: Vec<Event>,
}

impl Scenario {
    /// Draws one. Troubles begin between the ticks `from` and `to`.
    pub fn draw(seed: u64, servos: usize, buses: usize, from: u64, to: u64) -> Self {
        let mut noise = Noise::new(seed);
        let mut pick = |n: u64| noise.bits() % n.max(1);
        let count = 1 + pick(3);
        let mut events: Vec<Event> = (0..count)
            .map(|_| Event { tick: from + pick(to - from), trouble: Trouble::draw(&mut pick, servos, buses) })
            .collect();
        events.sort_by_key(|event| event.tick);
        Self { seed, events }
    }
}

impl Trouble {
    fn draw(pick: &mut impl FnMut(u64) -> u64, servos: usize, buses: usize) -> Self {
        let kind = pick(21);
        let servo = pick(servos as u64) as usize;
        let bus = pick(buses as u64) as usize;
        let size = pick(1000) as u16;
        match kind {
            0 => Self::Silent(servo),
            1 => Self::Reboot(servo),
            2 => Self::Fault(servo),
            3 => Self::Lying(servo),
            4 => Self::Stuck(servo),
            5 => Self::BusDead(bus),
            6 => Self::BusNoisy(bus, (size / 10) as u8),
            7 => Self::BusSlow(bus, size),
            8 => Self::ImuGone,
            9 => Self::BrownOut((5 + size / 100) as u8),
            10 => Self::HostKilled,
            11 => Self::HostStopped(1 + size / 2),
            12 => Self::HostLate(size * 2),
            13 => Self::ControllerPanics,
            14 => Self::ControllerFails,
            15 => Self::ControllerNan,
            16 => Self::ControllerWild,
            17 => Self::DiskFull,
            18 => Self::ControllerFreezes(1 + size / 2),
            19 => Self::ControllerSlow(600 + size),
            _ => Self::OperatorStop,
        }
    }

    /// The robot must leave control because of this, whatever else happens.
    pub const fn must_end(self) -> bool {
        match self {
            Self::Stuck(_)
            | Self::BusNoisy(..)
            | Self::BusSlow(..)
            | Self::HostLate(_)
            | Self::ControllerWild
            | Self::DiskFull
            | Self::HostKilled => false,
            Self::HostStopped(ms) | Self::ControllerFreezes(ms) => ms > 110,
            _ => true,
        }
    }

    /// Frames or ticks come late or not at all, so that an answer cannot be timed.
    pub const fn disturbs_the_wire(self) -> bool {
        matches!(
            self,
            Self::Silent(_)
                | Self::BusDead(_)
                | Self::BusNoisy(..)
                | Self::BusSlow(..)
                | Self::HostKilled
                | Self::HostStopped(_)
                | Self::HostLate(_)
                | Self::ControllerFreezes(_)
                | Self::ControllerSlow(_)
        )
    }

    /// Whether the log may name `cause` when this happened.
    pub const fn explains(self, cause: Cause) -> bool {
        match self {
            Self::Silent(_) | Self::BusDead(_) | Self::BusNoisy(..) | Self::BusSlow(..) => matches!(
                cause,
                Cause::MissedReplies { .. }
                    | Cause::Stale { .. }
                    | Cause::BusDown { .. }
                    | Cause::ServoTimedOut { .. }
                    | Cause::Overruns { .. }
                    | Cause::ServoFault { .. }
            ),
            Self::Reboot(_) => matches!(
                cause,
                Cause::ServoReset { .. } | Cause::ServoFault { .. } | Cause::MissedReplies { .. }
            ),
            Self::Fault(_) => matches!(cause, Cause::ServoFault { .. }),
            Self::Lying(_) => matches!(cause, Cause::ServoNotFinite { .. }),
            // A joint that does not feel itself move is driven wherever it goes.
            Self::Stuck(_) => matches!(cause, Cause::Tilt { .. } | Cause::ServoFault { .. }),
            Self::ImuGone => matches!(cause, Cause::ImuSilent { .. }),
            Self::BrownOut(_) => matches!(cause, Cause::VoltageLow { .. } | Cause::ServoFault { .. }),
            Self::HostKilled | Self::DiskFull => false,
            Self::HostStopped(_) | Self::HostLate(_) | Self::ControllerFreezes(_) => matches!(
                cause,
                Cause::ServoTimedOut { .. }
                    | Cause::Overruns { .. }
                    | Cause::MissedReplies { .. }
                    | Cause::Stale { .. }
                    | Cause::ImuSilent { .. }
            ),
            Self::ControllerSlow(_) => {
                matches!(cause, Cause::ControllerSlow { .. } | Cause::Overruns { .. })
            }
            Self::ControllerPanics => matches!(cause, Cause::ControllerPanicked),
            Self::ControllerFails => matches!(cause, Cause::ControllerFailed),
            Self::ControllerNan => matches!(cause, Cause::CommandNotFinite { .. }),
            Self::ControllerWild => matches!(cause, Cause::Tilt { .. } | Cause::CommandOutOfLimits { .. }),
            Self::OperatorStop => matches!(cause, Cause::OperatorStop),
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}:", self.seed)?;
        self.events.iter().try_for_each(|event| write!(f, " {:?} in tick {}", event.trouble, event.tick))
    }
}
