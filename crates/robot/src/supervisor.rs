//! Decides every tick whether the robot may be controlled, must be damped, or is at rest.
//!
//! ```text
//! Init ──all servos seen──► Armed ──controller started──► Active
//!   │                         │                             │ any trigger
//!   └────────── trigger ──────┴──────────► Damping ◄────────┘
//!                                             │ damping time over
//!                                             ▼
//!                                          Stopped
//! ```
//! A pure state machine: it is told what happened and the time, and never reads a clock.

use crate::command::ServoCommand;
use crate::cycle::CycleResult;
use crate::state::RobotState;
use arrayvec::ArrayVec;
use khz_wire::{Fault, Mode};
use std::fmt;

/// Where the robot is on its way from rest to control and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Phase {
    /// Asking for every servo; outputs off.
    Init = 0,
    /// Every servo has answered and is healthy; the controller is being started.
    Armed = 1,
    /// The controller's commands reach the servos.
    Active = 2,
    /// Every unfaulted servo brakes by damping.
    Damping = 3,
    /// Outputs off; the run is over.
    Stopped = 4,
}

impl Phase {
    /// All phases in numerical order.
    pub const ALL: [Self; 5] = [Self::Init, Self::Armed, Self::Active, Self::Damping, Self::Stopped];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Armed => "armed",
            Self::Active => "active",
            Self::Damping => "damping",
            Self::Stopped => "stopped",
        }
    }
}

/// Why the phase changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Every servo has answered.
    AllServosSeen,
    /// The controller accepted the measured positions.
    ControllerStarted,
    /// The run's time is over.
    TimeOver,
    /// Ctrl-C, SIGTERM, or a stop asked for by the operator.
    OperatorStop,
    /// A servo reports a fault.
    ServoFault {
        /// Which servo.
        servo: u16,
        /// What it reports.
        fault: Fault,
    },
    /// A servo missed too many replies in a row.
    MissedReplies {
        /// Which servo.
        servo: u16,
        /// How many.
        count: u32,
    },
    /// Not every servo answered in time at the start.
    NotSeen {
        /// The first one missing.
        servo: u16,
    },
    /// The controller returned an error.
    ControllerFailed,
    /// The controller panicked.
    ControllerPanicked,
    /// The damping time is over.
    DampingOver,
}

impl Cause {
    /// Not part of a run that ends as planned.
    pub const fn is_trouble(self) -> bool {
        !matches!(
            self,
            Self::AllServosSeen
                | Self::ControllerStarted
                | Self::TimeOver
                | Self::OperatorStop
                | Self::DampingOver
        )
    }

    /// The servo it is about.
    pub const fn servo(self) -> Option<u16> {
        match self {
            Self::ServoFault { servo, .. } | Self::MissedReplies { servo, .. } | Self::NotSeen { servo } => {
                Some(servo)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllServosSeen => f.write_str("every servo has answered"),
            Self::ControllerStarted => f.write_str("controller started"),
            Self::TimeOver => f.write_str("the run's time is over"),
            Self::OperatorStop => f.write_str("stopped by the operator"),
            Self::ServoFault { fault, .. } => write!(f, "servo fault {} ({})", fault.0, fault.name()),
            Self::MissedReplies { count, .. } => write!(f, "{count} replies missed in a row"),
            Self::NotSeen { .. } => f.write_str("no reply at the start"),
            Self::ControllerFailed => f.write_str("the controller failed"),
            Self::ControllerPanicked => f.write_str("the controller panicked"),
            Self::DampingOver => f.write_str("damping time over"),
        }
    }
}

/// A change of phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

/// The transitions of one tick: armed and active may be entered in the same.
pub type Transitions = ArrayVec<Transition, 4>;

/// Thresholds and times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SupervisorSettings {
    /// Replies a servo may miss in a row.
    pub missed_replies: u32,
    /// How long all servos may take to answer at the start.
    pub start_grace_ns: i64,
    /// How long to damp before outputs go off.
    pub damping_ns: i64,
}

impl Default for SupervisorSettings {
    fn default() -> Self {
        Self { missed_replies: 3, start_grace_ns: 1_000_000_000, damping_ns: 1_000_000_000 }
    }
}

/// What happened in a tick, besides the state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observation {
    /// The cycle's result.
    pub cycle: CycleResult,
    /// The operator, a signal or the run's end asks to stop.
    pub stop: Option<Cause>,
}

/// The state machine.
#[derive(Clone, Debug)]
pub struct Supervisor {
    settings: SupervisorSettings,
    phase: Phase,
    since_ns: Option<i64>,
    missed: Vec<u32>,
    transitions: Transitions,
}

impl Supervisor {
    /// Watches `servos` servos.
    pub fn new(settings: SupervisorSettings, servos: usize) -> Self {
        Self {
            settings,
            phase: Phase::Init,
            since_ns: None,
            missed: vec![0; servos],
            transitions: Transitions::new(),
        }
    }

    /// Looks at the tick. What changes is told by [`Supervisor::take_transitions`].
    pub fn observe(&mut self, state: &RobotState, observation: &Observation) {
        let since_ns = *self.since_ns.get_or_insert(state.now_ns);
        for (missed, servo) in self.missed.iter_mut().zip(&state.servos) {
            *missed = if servo.fresh { 0 } else { missed.saturating_add(1) };
        }
        let elapsed_ns = state.now_ns - since_ns;
        let next = match self.phase {
            Phase::Init => self.init(state, observation, elapsed_ns),
            Phase::Armed | Phase::Active => {
                self.trigger(state, observation).map(|cause| (Phase::Damping, cause))
            }
            Phase::Damping if elapsed_ns >= self.settings.damping_ns => {
                Some((Phase::Stopped, Cause::DampingOver))
            }
            Phase::Damping | Phase::Stopped => None,
        };
        if let Some((to, cause)) = next {
            self.enter(to, cause, state);
        }
    }

    fn init(&self, state: &RobotState, observation: &Observation, elapsed_ns: i64) -> Option<(Phase, Cause)> {
        if let Some(cause) = observation.stop {
            return Some((Phase::Stopped, cause));
        }
        let Some(servo) = state.servos.iter().position(|servo| !servo.fresh) else {
            return match fault(state) {
                Some(cause) => (elapsed_ns > self.settings.start_grace_ns).then_some((Phase::Stopped, cause)),
                None => Some((Phase::Armed, Cause::AllServosSeen)),
            };
        };
        (elapsed_ns > self.settings.start_grace_ns)
            .then_some((Phase::Stopped, Cause::NotSeen { servo: servo as u16 }))
    }

    fn trigger(&self, state: &RobotState, observation: &Observation) -> Option<Cause> {
        observation.stop.or_else(|| fault(state)).or_else(|| {
            let limit = self.settings.missed_replies;
            let servo = self.missed.iter().position(|&missed| missed >= limit)?;
            Some(Cause::MissedReplies { servo: servo as u16, count: self.missed[servo] })
        })
    }

    /// The controller has been started.
    pub fn controller_started(&mut self, state: &RobotState) {
        self.enter(Phase::Active, Cause::ControllerStarted, state);
    }

    /// The controller has given up.
    pub fn controller_failed(&mut self, cause: Cause, state: &RobotState) {
        self.enter(Phase::Damping, cause, state);
    }

    fn enter(&mut self, to: Phase, cause: Cause, state: &RobotState) {
        let from = std::mem::replace(&mut self.phase, to);
        self.since_ns = Some(state.now_ns);
        let transition = Transition { tick: state.tick, at_ns: state.now_ns, from, to, cause };
        // There is room: a tick has one observation and one turn of the controller.
        let _ = self.transitions.try_push(transition);
    }

    /// Replaces the commands with what the phase demands.
    pub fn govern(&self, commands: &mut [ServoCommand]) {
        match self.phase {
            Phase::Init | Phase::Armed | Phase::Stopped => commands.fill(ServoCommand::Stop),
            Phase::Damping => commands.fill(ServoCommand::Damp),
            Phase::Active => {}
        }
    }

    /// The phase now.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// The transitions since this was last asked, oldest first.
    pub fn take_transitions(&mut self) -> Transitions {
        std::mem::take(&mut self.transitions)
    }
}

fn fault(state: &RobotState) -> Option<Cause> {
    let faulted =
        |servo: &crate::state::ServoState| servo.mode == Mode::Fault || servo.mode == Mode::PositionTimeout;
    let servo = state.servos.iter().position(faulted)?;
    Some(Cause::ServoFault { servo: servo as u16, fault: state.servos[servo].fault })
}
