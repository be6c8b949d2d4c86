//! What the supervisor reacts to, and the record it leaves.

mod text;

use super::Phase;
use super::{Reaction, Reactions};
use arrayvec::ArrayVec;
use khz_servo::{Fault, Mode, Quantity, Refused};
use std::fmt;

/// Why the phase changed, or what was warned of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cause {
    /// Every servo has answered.
    AllServosSeen,
    /// A person, a program or the settings requested to arm.
    ArmRequested,
    /// The controller accepted the measured positions.
    ControllerStarted,
    /// The run's time is over, or its controller has done what it was to do.
    TimeOver,
    /// Ctrl-C, SIGTERM, or a stop asked for by the operator.
    OperatorStop,
    /// The operator's heartbeat stopped.
    HeartbeatLost {
        /// How long ago it was last received.
        age_ns: i64,
    },
    /// Who sends the controller's targets has stopped.
    TargetsSilent {
        /// How long ago the newest was due.
        age_ns: i64,
    },
    /// It waits for an operator to arm it; see [`Supervisor::lack`](super::Supervisor::lack).
    NotArmed,
    /// A servo reports a fault.
    ServoFault {
        /// Which servo.
        servo: u16,
        /// What it reports.
        fault: Fault,
    },
    /// A servo's own watchdog ran out; it damps by itself and has to be stopped before it obeys again.
    ServoTimedOut {
        /// Which servo.
        servo: u16,
    },
    /// A servo that was running is off: it started anew, and may not know where it is.
    ServoReset {
        /// Which servo.
        servo: u16,
    },
    /// A servo reports a position or velocity that is not a number.
    ServoNotFinite {
        /// Which servo.
        servo: u16,
    },
    /// A servo reports a position or velocity at the end of its format, which may be any beyond it.
    ServoSaturated {
        /// Which servo.
        servo: u16,
        /// What it reports.
        quantity: Quantity,
        /// Where the format ends: rad from the servo's zero, or rad/s.
        most: f64,
    },
    /// A servo refused to read or write a register that every tick needs.
    RegisterRefused {
        /// Which servo.
        servo: u16,
        /// What it refused.
        refused: Refused,
        /// It was seen running: it had taken the same before.
        ran: bool,
    },
    /// A servo stays off although it was commanded to move or damp, or on although it was commanded to stop.
    ServoNotObeying {
        /// Which servo.
        servo: u16,
        /// What it does instead.
        mode: Mode,
    },
    /// A joint is somewhere else than it can have moved to since the reply before: the servo restarted, or has another zero.
    PositionJumped {
        /// Which servo.
        servo: u16,
        /// Where it was, rad.
        from: f64,
        /// The position it reports, rad.
        to: f64,
    },
    /// The robot is at rest, and a servo that was commanded to stop reports that it is on.
    ServoStillOn {
        /// Which servo.
        servo: u16,
        /// What it does.
        mode: Mode,
    },
    /// The robot is at rest, and a servo that was on has not replied to any stop.
    ServoNotReportedOff {
        /// Which servo.
        servo: u16,
    },
    /// A joint is beyond its position limits.
    PositionOutOfLimits {
        /// Which servo.
        servo: u16,
        /// Where it is, rad.
        position: f64,
        /// The limit it is beyond, rad.
        limit: f64,
    },
    /// A joint is faster than its limit allows.
    TooFast {
        /// Which servo.
        servo: u16,
        /// How fast it is, rad/s.
        velocity: f64,
        /// Its limit, rad/s.
        limit: f64,
    },
    /// A servo missed too many replies in a row.
    MissedReplies {
        /// Which servo.
        servo: u16,
        /// How many.
        count: u32,
    },
    /// What is known of a servo is too old.
    Stale {
        /// Which servo.
        servo: u16,
        /// How old.
        age_ns: i64,
    },
    /// Not every servo answered in time at the start.
    NotSeen {
        /// The first one missing.
        servo: u16,
        /// It has replied, but not in time.
        late: bool,
    },
    /// A servo answers more than it is asked: most likely two servos have its id, or another program commands it.
    DuplicateReplies {
        /// Which servo.
        servo: u16,
    },
    /// A link refused to carry frames for too many ticks in a row.
    BusDown {
        /// Which link.
        link: u16,
    },
    /// Too many ticks in a row took longer than a period; or one did, and the loop stops on an overrun.
    Overruns {
        /// How many.
        count: u32,
    },
    /// The IMU has not answered for too long.
    ImuSilent {
        /// Age of its newest reading.
        age_ns: i64,
    },
    /// State is too old because the loop itself was held up (preempted, its CPU stolen, a controller that took long):
    /// meanwhile no device could be queried, and no reply received.
    LoopHeldUp {
        /// What the age of the state would have been called otherwise: [`Trigger::Stale`] or [`Trigger::Imu`].
        /// [`Trigger::Overruns`]: nothing is too old, and it is only reported.
        of: Trigger,
        /// For how long.
        held_up_ns: i64,
    },
    /// Servos that had timed out while the loop was held up hold their joints again; see `supervisor.recover`.
    Recovered {
        /// The joint that has moved most.
        servo: u16,
        /// How far, rad.
        moved: f64,
        /// For how long the loop was held up.
        held_up_ns: i64,
    },
    /// The IMU's reading is not a number.
    ImuNotFinite,
    /// The IMU repeats one reading, bit for bit.
    ImuFrozen {
        /// For how long.
        for_ns: i64,
    },
    /// The body leans too far.
    Tilt {
        /// How far, rad.
        angle: f64,
    },
    /// The controller commanded something that is not a number.
    CommandNotFinite {
        /// For which servo.
        servo: u16,
    },
    /// The controller commanded something beyond the servo's limits.
    CommandOutOfLimits {
        /// For which servo.
        servo: u16,
    },
    /// The controller commanded something that the formats of the servo's command cannot carry.
    CommandNotSendable {
        /// For which servo.
        servo: u16,
        /// What.
        quantity: Quantity,
        /// How much, in rad, rad/s or N·m, or a share of a gain.
        value: f64,
        /// The greatest magnitude that can be sent, a position's from the servo's zero. 0: it is not sent at all.
        most: f64,
    },
    /// A torque on a joint with limits that could not be braked in time.
    TorqueNotBraked {
        /// Which servo.
        servo: u16,
    },
    /// The controller returned an error.
    ControllerFailed,
    /// The controller panicked.
    ControllerPanicked,
    /// The controller took too long, too many ticks in a row.
    ControllerSlow {
        /// How many.
        count: u32,
        /// How long in the last of them.
        took_ns: i64,
    },
    /// The controller's thread got no CPU, for so many ticks in a row that its commands are as old as `stale_ms`.
    ControllerPreempted {
        /// How many.
        count: u32,
        /// How long in the last of them.
        took_ns: i64,
        /// Of that, how long it waited for a CPU.
        waited_ns: i64,
    },
    /// The supply of a servo is too low.
    VoltageLow {
        /// Which servo.
        servo: u16,
        /// What it measures, V.
        volts: f64,
    },
    /// A servo that is asked for its supply does not report a number.
    VoltageUnknown {
        /// Which servo.
        servo: u16,
    },
    /// A servo that is asked for its temperature does not report a number.
    TemperatureUnknown {
        /// Which servo.
        servo: u16,
    },
    /// A servo is too warm.
    Hot {
        /// Which servo.
        servo: u16,
        /// What it measures, °C.
        celsius: f64,
    },
    /// Every joint stands still.
    Still,
    /// The damping time is over.
    DampingOver,
    /// Requested to begin again.
    Rearmed,
}

/// The kinds of trouble; each has a reaction in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Trigger {
    /// The operator asks to stop.
    Operator = 0,
    /// A servo reports a fault, has timed out or started anew, does not obey, refused a register, or reports what is no
    /// number.
    ServoFault,
    /// Missed replies in a row. Before `BusDown`, as it names the servo.
    MissedReplies,
    /// A link is down.
    BusDown,
    /// Old state.
    Stale,
    /// The controller failed, panicked or took too long.
    Controller,
    /// Overruns in a row. After `Controller`, which is more specific if it is the reason.
    Overruns,
    /// IMU silent or not finite.
    Imu,
    /// The body leans too far.
    Tilt,
    /// A command that is not a number or beyond the limits.
    Command,
    /// No heartbeat from the operator.
    Heartbeat,
    /// Low supply.
    Voltage,
    /// Too warm.
    Temperature,
    /// A joint beyond its position limits.
    Position,
    /// A joint faster than its limit.
    Velocity,
    /// No targets for the controller.
    Targets,
}

impl Trigger {
    /// How many there are.
    pub const COUNT: usize = Self::Targets as usize + 1;

    /// The configured reaction to it.
    pub const fn reaction(self, reactions: &Reactions) -> Reaction {
        match self {
            Self::Operator => reactions.operator.reaction(),
            Self::ServoFault => reactions.servo_fault,
            Self::BusDown => reactions.bus_down,
            Self::MissedReplies => reactions.missed_replies,
            Self::Stale => reactions.stale,
            Self::Overruns => reactions.overruns,
            Self::Imu => reactions.imu,
            Self::Tilt => reactions.tilt,
            Self::Command => reactions.command.reaction(),
            Self::Controller => reactions.controller,
            Self::Heartbeat => reactions.heartbeat,
            Self::Voltage => reactions.voltage,
            Self::Temperature => reactions.temperature,
            Self::Position => reactions.position,
            Self::Velocity => reactions.velocity,
            Self::Targets => reactions.targets,
        }
    }
}

impl Cause {
    /// The kind of trouble it is; `None` for what is no trouble.
    pub const fn trigger(self) -> Option<Trigger> {
        Some(match self {
            Self::OperatorStop => Trigger::Operator,
            Self::HeartbeatLost { .. } => Trigger::Heartbeat,
            Self::TargetsSilent { .. } => Trigger::Targets,
            Self::ServoFault { .. }
            | Self::ServoTimedOut { .. }
            | Self::ServoReset { .. }
            | Self::ServoNotFinite { .. }
            | Self::ServoSaturated { .. }
            | Self::RegisterRefused { .. }
            | Self::ServoNotObeying { .. }
            | Self::PositionJumped { .. }
            | Self::ServoStillOn { .. } => Trigger::ServoFault,
            Self::PositionOutOfLimits { .. } => Trigger::Position,
            Self::TooFast { .. } => Trigger::Velocity,
            Self::MissedReplies { .. }
            | Self::NotSeen { .. }
            | Self::DuplicateReplies { .. }
            | Self::ServoNotReportedOff { .. } => Trigger::MissedReplies,
            Self::Stale { .. } => Trigger::Stale,
            Self::LoopHeldUp { of, .. } => of,
            Self::BusDown { .. } => Trigger::BusDown,
            Self::Overruns { .. } | Self::Recovered { .. } => Trigger::Overruns,
            Self::ImuSilent { .. } | Self::ImuNotFinite | Self::ImuFrozen { .. } => Trigger::Imu,
            Self::Tilt { .. } => Trigger::Tilt,
            Self::CommandNotFinite { .. }
            | Self::CommandOutOfLimits { .. }
            | Self::CommandNotSendable { .. }
            | Self::TorqueNotBraked { .. } => Trigger::Command,
            Self::ControllerFailed
            | Self::ControllerPanicked
            | Self::ControllerSlow { .. }
            | Self::ControllerPreempted { .. } => Trigger::Controller,
            Self::VoltageLow { .. } | Self::VoltageUnknown { .. } => Trigger::Voltage,
            Self::Hot { .. } | Self::TemperatureUnknown { .. } => Trigger::Temperature,
            Self::AllServosSeen
            | Self::ArmRequested
            | Self::ControllerStarted
            | Self::TimeOver
            | Self::NotArmed
            | Self::Still
            | Self::DampingOver
            | Self::Rearmed => return None,
        })
    }

    /// Not part of a run that ends as planned.
    pub const fn is_trouble(self) -> bool {
        !matches!(self, Self::OperatorStop) && self.trigger().is_some()
    }

    /// For people who know buses, not links: `links` are what each link is called. Allocates
    /// nothing.
    pub fn named(self, links: &[String]) -> impl fmt::Display {
        text::NamedCause { cause: self, links }
    }

    /// The servo it is about.
    pub const fn servo(self) -> Option<u16> {
        match self {
            Self::ServoFault { servo, .. }
            | Self::ServoTimedOut { servo }
            | Self::ServoReset { servo }
            | Self::ServoNotFinite { servo }
            | Self::ServoSaturated { servo, .. }
            | Self::RegisterRefused { servo, .. }
            | Self::ServoNotObeying { servo, .. }
            | Self::PositionJumped { servo, .. }
            | Self::ServoStillOn { servo, .. }
            | Self::ServoNotReportedOff { servo }
            | Self::PositionOutOfLimits { servo, .. }
            | Self::Recovered { servo, .. }
            | Self::TooFast { servo, .. }
            | Self::MissedReplies { servo, .. }
            | Self::Stale { servo, .. }
            | Self::NotSeen { servo, .. }
            | Self::DuplicateReplies { servo }
            | Self::CommandNotFinite { servo }
            | Self::CommandOutOfLimits { servo }
            | Self::CommandNotSendable { servo, .. }
            | Self::TorqueNotBraked { servo }
            | Self::VoltageLow { servo, .. }
            | Self::VoltageUnknown { servo }
            | Self::TemperatureUnknown { servo }
            | Self::Hot { servo, .. } => Some(servo),
            _ => None,
        }
    }
}

/// A change of phase; or, with equal phases, something that was warned of or derated for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transition {
    /// In which tick.
    pub tick: u64,
    /// When.
    pub at_ns: i64,
    /// The phase left.
    pub from: Phase,
    /// The phase entered.
    pub to: Phase,
    /// Why.
    pub cause: Cause,
    /// When the phase entered ends at the latest; `None`: it may last.
    pub deadline_ns: Option<i64>,
    /// When all was last well with what the cause is about.
    pub last_good_ns: i64,
}

/// The transitions of one tick: armed and active may be entered in the same.
pub type Transitions = ArrayVec<Transition, 4>;
