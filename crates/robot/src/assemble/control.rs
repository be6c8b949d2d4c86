//! The controller of a robot file, prepared for its loop.

use super::{info, state};
use khz_controllers::{Excite, Hold, Policy, Sine, StandAndSquat, Walk};
use khz_file::config::{ControllerConfig, RobotConfig, TargetsConfig, TeleopConfig};
use khz_loop::controller::{ControlError, Controller, Decimated, Pipelined};
use khz_loop::feed::Feed;
use khz_loop::parameters::{Parameter, ParameterError, settle};
use khz_loop::state::RobotState;
use khz_loop::supervisor::SupervisorSettings;
use khz_loop::timing::{Clock, LoopConfig, Mode};
use khz_targets::{Follow, Inbox, Targets};
use std::io;

/// Why a controller cannot be prepared for a robot.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// It is not for this robot.
    #[error("the controller: {0}")]
    Controller(ControlError),
    /// A parameter cannot be declared, or the file has a wrong value for it.
    #[error("[parameters] {0}")]
    Parameter(ParameterError),
    /// Its thread could not be made.
    #[error("cannot start the controller's thread: {0}")]
    Thread(#[from] io::Error),
}

/// The controller a robot file names. That of `targets` receives none; `aimed` makes that which does.
pub fn controller(named: &ControllerConfig) -> Box<dyn Controller> {
    match named {
        ControllerConfig::Hold(parameters) => Box::new(Hold::new(*parameters)),
        ControllerConfig::Sine(parameters) => Box::new(Sine::new(*parameters)),
        ControllerConfig::Excite(parameters) => Box::new(Excite::new(*parameters)),
        ControllerConfig::StandAndSquat(parameters) => Box::new(StandAndSquat::new(*parameters)),
        ControllerConfig::Walk(parameters) => Box::new(Walk::new(*parameters)),
        ControllerConfig::Policy(policy) => Box::new(Policy::new((**policy).clone())),
        ControllerConfig::Follow(leader) => Box::new(Follow::new(leader).0),
        ControllerConfig::Targets => {
            Box::new(Targets::new(&TargetsConfig::default(), &TeleopConfig::default()).0)
        }
    }
}

/// The other end of a controller that follows targets.
pub struct Followed {
    /// Where they are sent.
    pub inbox: Inbox,
    /// When the last were.
    pub feed: Feed,
    /// Programs send them, and not a leader alone.
    pub by_programs: bool,
}

/// The controller a robot file names, with the other end of one that follows targets.
pub fn aimed(config: &RobotConfig) -> (Box<dyn Controller>, Option<Followed>) {
    match &config.controller {
        ControllerConfig::Targets => {
            let (targets, inbox) = Targets::new(&config.targets, &config.teleop);
            let feed = targets.feed();
            (Box::new(targets), Some(Followed { inbox, feed, by_programs: true }))
        }
        ControllerConfig::Follow(leader) => {
            let (follow, inbox) = Follow::new(leader);
            let feed = follow.feed();
            (Box::new(follow), Some(Followed { inbox, feed, by_programs: false }))
        }
        other => (controller(other), None),
    }
}

/// A controller that knows its robot.
pub struct Prepared {
    /// It decides as often as it wants to.
    pub controller: Box<dyn Controller>,
    /// Its parameters, as the loop sees them.
    pub parameters: Vec<Parameter>,
    /// It decides less often than the loop ticks, and has a thread for that, whatever the mode is.
    pub is_decimated: bool,
    /// The robot's before anything is known.
    state: RobotState,
}

impl Prepared {
    /// Prepares a controller for the robot of a file.
    ///
    /// # Errors
    /// It is not for this robot, or its rate does not fit the loop's, or the file's parameters do not fit.
    pub fn for_robot(
        config: &RobotConfig,
        mut controller: Box<dyn Controller>,
    ) -> Result<Self, PrepareError> {
        let (info, state) = (info(config), state(config));
        controller.prepare(&info).map_err(PrepareError::Controller)?;
        let parameters = settle(controller.parameters(), info.parameters, &config.parameters)
            .map_err(PrepareError::Parameter)?;
        let Some(pace) = controller.pace().map_err(PrepareError::Controller)? else {
            return Ok(Self { controller, parameters, is_decimated: false, state });
        };
        let decimated = Decimated::new(controller, pace, parameters, &state);
        let parameters = decimated.parameters();
        Ok(Self { controller: Box::new(decimated), parameters, is_decimated: true, state })
    }

    /// The same where the file wants it: in the tick, but for what takes longer, or on a thread of its own.
    ///
    /// # Errors
    /// There is no thread.
    pub fn on_its_thread(
        self,
        timing: &LoopConfig,
        supervisor: &SupervisorSettings,
    ) -> Result<Self, PrepareError> {
        let Self { mut controller, parameters, is_decimated, state } = self;
        if is_decimated || timing.mode == Mode::Inline {
            if timing.clock == Clock::Real {
                controller.to_thread(Box::new(below(timing)))?;
            }
            return Ok(Self { controller, parameters, is_decimated, state });
        }
        let pipelined = Pipelined::with_parameters(controller, parameters, &state, below(timing))?;
        let pipelined = pipelined.patient(patience(supervisor, timing.period_ns()));
        let parameters = pipelined.parameters();
        Ok(Self { controller: Box::new(pipelined), parameters, is_decimated, state })
    }
}

/// Sets a thread up below the loop.
fn below(timing: &LoopConfig) -> impl FnOnce() + Send + 'static {
    let setup = timing.thread_below();
    move || {
        // Whatever is not granted shows in the time the controller takes; the loop's own grants are reported.
        let _ = setup.apply();
    }
}

/// A controller that is late for more ticks in a row than the supervisor would ever bear has failed, whatever the reaction to a
/// slow one is.
fn patience(supervisor: &SupervisorSettings, period_ns: i64) -> u32 {
    let grace = u32::try_from(supervisor.grace_ns() / period_ns).unwrap_or(u32::MAX);
    supervisor.controller_late(period_ns).saturating_add(grace)
}
