//! The user's part of the tick: from the robot's state to the next command.

mod about;
mod chain;
mod decimated;
mod decisions;
mod handover;
mod pipelined;

pub use about::{JointInfo, RobotInfo};
pub use chain::Chain;
pub use decimated::Decimated;
pub use decisions::{Decide, Decisions, OnThread, Pace, cpu_time_ns};
pub use pipelined::Pipelined;
pub use pipelined::hold as hold_still;

use crate::parameters::Parameter;
use crate::state::RobotState;
pub use khz_rt::SectionSummary;
pub use khz_run::record::{self, Decision};
use khz_servo::ServoCommand;
use std::borrow::Cow;
use std::collections::VecDeque;

/// Where a controller on a thread of its own stands in a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// How long its last job took, as [`Controller::elsewhere_ns`].
    pub took_ns: i64,
    /// It has decided nothing new in this tick.
    pub is_behind: bool,
    /// When the tick started whose state the present commands are of; `None`: it has decided nothing yet.
    pub of_ns: Option<i64>,
}

/// A control law, called once per tick.
///
/// # Realtime contract
/// [`Controller::update`] runs on the loop's thread (inline mode) or on the controller's own (pipelined mode).
/// It must not allocate, lock, print or wait, and should return well within the period: a controller that
/// takes too long, fails or panics makes the supervisor bring the robot down gently. A panic is not printed but reported
/// after the run ([`crate::tick::Machine::failure`]); printing may never return when the output is not read.
///
/// ```
/// use khz_loop::{ControlError, Controller, PositionCommand, RobotState, ServoCommand};
///
/// /// Pulls every joint to zero with half the gains.
/// struct Zero;
///
/// impl Controller for Zero {
///     fn update(&mut self, _: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
///         commands.fill(ServoCommand::Position(PositionCommand { kp_scale: 0.5, ..PositionCommand::hold(0.0) }));
///         Ok(())
///     }
/// }
/// ```
pub trait Controller: Send {
    /// Called once before the loop starts, and off it: the place to look joints up by name, and to allocate.
    ///
    /// # Errors
    /// Whatever makes this the wrong robot; nothing is started and the text is shown.
    fn prepare(&mut self, robot: &RobotInfo) -> Result<(), ControlError> {
        let _ = robot;
        Ok(())
    }

    /// Numbers that a person may change while it runs, each a clone of one that the controller reads: see
    /// [`crate::parameters`]. Asked once, after [`Controller::prepare`]. A change is taken on the thread of the update, between
    /// two updates.
    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }

    /// Called before the first update, again after every re-arming, and again if the loop is held up before every servo has followed its
    /// first target: with measured positions. One that takes 10 ms or more holds the loop up itself.
    /// Start from these: what you command next is what the robot does next.
    ///
    /// # Errors
    /// Whatever makes it impossible to begin; the robot stays down and the text is shown.
    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        let _ = state;
        Ok(())
    }

    /// Looks at the state and sets one command per servo. `commands` holds the last ones.
    ///
    /// # Errors
    /// Whatever makes it impossible to go on; the supervisor damps the robot and shows the text.
    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError>;

    /// Moves what takes longer than a tick to a thread of its own, which first calls `on_thread` (to set its scheduling up), and returns
    /// true; false: there is no such thing. Called once, after [`Controller::prepare`], where the clock is a real one; elsewhere time
    /// stands still while it decides.
    ///
    /// # Errors
    /// If the thread cannot be made.
    fn to_thread(&mut self, on_thread: OnThread) -> std::io::Result<bool> {
        drop(on_thread);
        Ok(false)
    }

    /// How long the last update took, ns, or has taken so far, if it does not run within [`Controller::update`] but
    /// beside it, as that of [`Pipelined`]; the supervisor's `controller_us` is the limit. Called once per tick, after
    /// the update.
    fn elsewhere_ns(&self) -> i64 {
        0
    }

    /// Of [`Controller::elsewhere_ns`], how long its thread was ready to run but had no CPU, ns. The supervisor does not hold
    /// that against the controller; see `controller_slow`. Called as often.
    fn waited_ns(&self) -> i64 {
        0
    }

    /// Where a controller on a thread of its own stands, after the update of this tick; `None`: it has decided within it. Called
    /// as often.
    fn beside(&self) -> Option<Beside> {
        None
    }

    /// How often it decides, and how long that takes, if that is less often than the loop ticks: it is then called on a thread of its own,
    /// or where time stands still within the tick, and what it commands is followed in a tick that is known before ([`Decimated`]). Asked
    /// once, after [`Controller::prepare`].
    ///
    /// # Errors
    /// A pace that does not fit the loop's.
    fn pace(&self) -> Result<Option<Pace>, ControlError> {
        Ok(None)
    }

    /// What it is, if a trained policy decides: for the log. Asked once, after [`Controller::prepare`].
    fn policy(&self) -> Option<record::Policy> {
        None
    }

    /// The decision that it follows now, if it decides less often than it is asked; it is new if it is followed from this tick on
    /// ([`Decision::in_tick`]). Called once per tick, after the update.
    fn decided(&self) -> Option<&Decision> {
        None
    }

    /// Limits have cut the commands of these servos since it was asked last. Called before an update whose `commands` are not those that
    /// were sent, as on a thread of its own ([`Pipelined`]), if the controller decides less often than it is asked.
    fn cut(&mut self, servos: &[bool]) {
        let _ = servos;
    }

    /// It runs on recorded states, and makes its decisions of the first, and follows them in the second of each pair of ticks. Called
    /// before the first start.
    fn decide_again(&mut self, plan: VecDeque<[u64; 2]>) {
        drop(plan);
    }

    /// The controller is done: the run ends as planned, as at the end of its duration. Called once per tick, after the update.
    fn is_finished(&self) -> bool {
        false
    }

    /// Where its time went, by named sections (see [`khz_rt::Profile`]), for the summary of the run. Called once,
    /// after the last update and off the loop.
    fn profile(&mut self) -> Vec<SectionSummary> {
        Vec::new()
    }
}

/// Why a controller gave up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ControlError(pub Cow<'static, str>);

impl From<&'static str> for ControlError {
    fn from(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }
}
