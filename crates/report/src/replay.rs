//! Replays: a controller on recorded states, or the simulated robot under recorded commands, compared with the log.

mod compare;
mod decided;
mod recorded;

pub use compare::{Apart, AtTick, Deviation, Differences, Joint, JointDeviation};
pub use decided::{APART, DecisionApart, Decisions, Engine};

use compare::{Commands, Motion};
use decided::Compared;
use khz_controllers::{
    ExciteParameters, HoldParameters, SineParameters, StandAndSquatParameters, WalkParameters,
};
use khz_file::RobotConfig;
use khz_file::config::{ControllerConfig, ControllerKind, RobotBody};
use khz_loop::Controller;
use khz_loop::controller::ControlError;
use khz_loop::supervisor::Phase;
use khz_robot::assemble;
use khz_robot::replay::{Playback, Rerun};
use khz_rt::Passport;
use recorded::{Recorded, Recording};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Why there is no replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file.
    #[error("{path}: {why}")]
    Read {
        /// Its path.
        path: String,
        /// Why it cannot be read.
        why: String,
    },
    /// The log is not that of a run.
    #[error("{path} has no record `{record}`: a replay needs the log of a run (`khz run`), recorded whole")]
    NoRecord {
        /// The log.
        path: String,
        /// What is missing.
        record: &'static str,
    },
    /// The log lacks the robot file, as a part of a log may.
    #[error("the log has no record `robot`, which contains the robot file: give the file (--robot)")]
    NoRobot,
    /// A record has other fields.
    #[error(
        "the record `{record}` does not have the fields that this version records: the log is of another version"
    )]
    Unfit {
        /// Which.
        record: &'static str,
    },
    /// What is behind the damage cannot be read.
    #[error("the log is damaged: {0}")]
    Damaged(String),
    /// The robot file.
    #[error("{0}")]
    Robot(String),
    /// The log has the robot file, but not the model.
    #[error(
        "the robot is simulated in the MuJoCo model {0}, which the log does not contain: give the robot file beside it (--robot)"
    )]
    Model(String),
    /// The ticks are of another length.
    #[error("the log was recorded at {log} Hz, the robot file has {file} Hz")]
    Rate {
        /// The log's.
        log: f64,
        /// The file's.
        file: f64,
    },
    /// The robot file is that of another robot.
    #[error("the log has the joints {log}, the robot file {file}")]
    Joints {
        /// Those of the log.
        log: String,
        /// Those of the file.
        file: String,
    },
    /// Neither controller nor simulation can be made.
    #[error(transparent)]
    Robots(#[from] khz_robot::replay::ReplayError),
    /// Nothing to compare.
    #[error("the controller never ran in this log: nothing was compared")]
    NeverRan,
    /// What it depends on is not in the log.
    #[error(
        "`targets` goes where programs send it, and the log has their messages, but not their points: replay another controller \
         (--controller), or the simulated robot (--body)"
    )]
    Sent,
    /// Nothing to compare.
    #[error("no tick of this log is complete: nothing was compared")]
    NoTick,
    /// The simulation gave up.
    #[error("tick {tick}: {why}")]
    Simulation {
        /// In which tick.
        tick: u64,
        /// Why.
        why: String,
    },
}

/// What is replayed.
#[derive(Clone, Debug)]
pub struct Source {
    /// The log.
    pub log: PathBuf,
    /// Robot file in place of that in the log.
    pub robot: Option<PathBuf>,
}

/// How a controller did on the recorded states.
#[derive(Clone, Debug, Serialize)]
pub struct ControllerReplay {
    /// Name of the robot.
    pub robot: String,
    /// The controller.
    pub controller: String,
    /// It commands what the log has, within the tolerance; a policy has decided the same, to the last bit or as
    /// near as the engines that evaluated it can.
    pub same: bool,
    /// Ticks that were compared.
    pub ticks: u64,
    /// Ticks that the log lacks, or a part of them; they were left out.
    pub incomplete: u64,
    /// The log has no end: it is cut off, or still being written.
    pub is_cut_off: bool,
    /// The log begins when the controller was running: it was started at the first tick instead.
    pub start_missing: bool,
    /// Differences up to this, relative to numbers above 1, do not count.
    pub tolerance: f64,
    /// The controller gave up, and the replay ended.
    pub gave_up: Option<GaveUp>,
    /// The recorded one did, by the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Joint by joint.
    pub joints: Vec<Joint<Differences>>,
    /// Of a policy whose decisions are in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decisions: Option<Decisions>,
}

/// A controller that gave up.
#[derive(Clone, Debug, Serialize)]
pub struct GaveUp {
    /// In which tick.
    pub tick: u64,
    /// Its reason.
    pub why: String,
    /// The recorded controller's commands ended there, too.
    pub as_recorded: bool,
}

/// How a recorded run ended whose controller gave up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// In which tick.
    pub tick: u64,
    /// The controller's error.
    pub why: String,
}

/// How the simulated robot moved under the recorded commands.
#[derive(Clone, Debug, Serialize)]
pub struct BodyReplay {
    /// Name of the robot.
    pub robot: String,
    /// Ticks that were compared.
    pub ticks: u64,
    /// Ticks that the log lacks, or a part of them; in them the servos got no new command.
    pub incomplete: u64,
    /// The log has no end: it is cut off, or still being written.
    pub is_cut_off: bool,
    /// Joint by joint.
    pub joints: Vec<Joint<JointDeviation>>,
}

/// The joints of the log, in its order: those of the states and commands that a controller sees.
///
/// # Errors
/// See [`ReplayError`].
pub fn joints(log: &Path) -> Result<Vec<String>, ReplayError> {
    Recording::open(log).map(|recording| recording.joints)
}

/// Feeds the recorded states to a controller of the program: the robot file's, or that of this name.
///
/// # Errors
/// See [`ReplayError`].
pub fn controller(
    source: &Source,
    kind: Option<ControllerKind>,
    tolerance: f64,
) -> Result<ControllerReplay, ReplayError> {
    let recording = Recording::open(&source.log)?;
    let mut config = robot(source, &recording)?;
    choose(&mut config, kind);
    if config.controller.kind() == ControllerKind::Targets {
        return Err(ReplayError::Sent);
    }
    let controller = assemble::controller(&config.controller);
    let name = config.controller.kind().word();
    rerun(recording, config, (name, controller), tolerance)
}

/// Feeds the recorded states to a controller of your own; `name` is what the outcome calls it.
///
/// # Errors
/// See [`ReplayError`].
pub fn with_controller(
    source: &Source,
    named: (&str, Box<dyn Controller>),
    tolerance: f64,
) -> Result<ControllerReplay, ReplayError> {
    let recording = Recording::open(&source.log)?;
    let config = robot(source, &recording)?;
    rerun(recording, config, named, tolerance)
}

fn rerun(
    mut recording: Recording,
    config: RobotConfig,
    (name, controller): (&str, Box<dyn Controller>),
    tolerance: f64,
) -> Result<ControllerReplay, ReplayError> {
    let mut rerun = Rerun::new(&config, controller)?;
    let decisions = decisions(&mut recording, &mut rerun);
    // What follows of decisions cannot be nearer than they are.
    let of_engines = decisions.as_ref().and_then(Compared::tolerance);
    let tolerance = of_engines.map_or(tolerance, |apart| apart.max(tolerance));
    let commands = Commands::of(&recording.joints, tolerance);
    let mut comparison = Comparison {
        rerun,
        decisions,
        commands,
        ticks: 0,
        first_ns: None,
        is_started: false,
        start_missing: false,
    };
    let mut gave_up = None;
    while let Some(mut recorded) = recording.next(config.timing.period_ns())? {
        if let Err(error) = comparison.tick(&mut recorded) {
            let as_recorded = recorded.phase != Phase::Active;
            gave_up = Some(GaveUp { tick: recorded.state.tick, why: error.to_string(), as_recorded });
            break;
        }
    }
    if comparison.ticks == 0 && gave_up.is_none() {
        return Err(ReplayError::NeverRan);
    }
    let joints = comparison.commands.finish();
    let decisions = comparison.decisions.map(Compared::finish);
    let same = decisions.as_ref().is_none_or(|decisions| decisions.first.is_none())
        && joints.iter().all(|joint| joint.outcome.ticks == 0)
        && gave_up.as_ref().is_none_or(|gave_up| gave_up.as_recorded);
    Ok(ControllerReplay {
        robot: config.name,
        controller: name.to_owned(),
        same,
        ticks: comparison.ticks,
        incomplete: recording.incomplete,
        is_cut_off: recording.is_cut_off(),
        start_missing: comparison.start_missing,
        tolerance,
        gave_up,
        ended: recording.ended.take(),
        joints,
        decisions,
    })
}

/// A controller that runs again, compared with the log tick by tick.
struct Comparison {
    rerun: Rerun,
    decisions: Option<Compared>,
    commands: Commands,
    /// Ticks that were compared.
    ticks: u64,
    first_ns: Option<i64>,
    is_started: bool,
    start_missing: bool,
}

impl Comparison {
    /// Runs the controller on a recorded tick, and compares; an error is that of the controller.
    fn tick(&mut self, recorded: &mut Recorded) -> Result<(), ControlError> {
        for change in &recorded.changes {
            self.rerun.set(&change.name, change.value, change.tick);
        }
        recorded.state.signals = self.rerun.signals();
        let done = self.run(recorded);
        if let (Some(compared), Some(decided)) =
            (&mut self.decisions, self.rerun.decided(recorded.state.tick))
        {
            compared.compare(decided);
        }
        done
    }

    fn run(&mut self, recorded: &mut Recorded) -> Result<(), ControlError> {
        let state = &mut recorded.state;
        let since_ns = state.started_ns - *self.first_ns.get_or_insert(state.started_ns);
        // It is started in the tick before its first update.
        let starts = !recorded.controller_ran && recorded.phase == Phase::Active;
        let starts_late = recorded.controller_ran && !self.is_started;
        self.start_missing |= starts_late;
        if starts || starts_late {
            self.is_started = true;
            self.rerun.start(state)?;
        }
        if recorded.controller_ran {
            let replayed = self.rerun.update(state)?;
            self.ticks += 1;
            if !self.decisions.as_ref().is_some_and(|decisions| decisions.ended_in(state.tick)) {
                self.commands.compare((state.tick, since_ns), &recorded.commands, replayed);
            }
        }
        Ok(())
    }
}

/// The recorded decisions of a policy, if one decides again: of the same states, and followed in the same ticks.
fn decisions(recording: &mut Recording, rerun: &mut Rerun) -> Option<Compared> {
    let (policy, (decisions, named)) = (rerun.policy()?, recording.decisions.take()?);
    rerun.decide_again(decisions.iter().map(|decision| [decision.of_tick, decision.in_tick]).collect());
    Some(Compared::of(decisions, named, &policy, &Passport::read().cpu))
}

/// Sends the recorded commands to the simulated servos.
///
/// # Errors
/// See [`ReplayError`].
pub fn body(source: &Source) -> Result<BodyReplay, ReplayError> {
    let mut recording = Recording::open(&source.log)?;
    let config = robot(source, &recording)?;
    if source.robot.is_none()
        && let Some(body) = config.body.as_ref().and_then(RobotBody::mujoco)
    {
        // Its path counts from a folder that the log does not name; another file of that name is another robot.
        return Err(ReplayError::Model(body.model.clone()));
    }
    let start = start(&source.log, &recording)?;
    let mut playback = Playback::new(&config, &start)?;
    let mut motion = Motion::of(&recording.joints);
    let (mut ticks, mut first_ns) = (0, None);
    while let Some(recorded) = recording.next(config.timing.period_ns())? {
        let state = &recorded.state;
        let since_ns = state.started_ns - *first_ns.get_or_insert(state.started_ns);
        let simulated = playback
            .tick(state.started_ns, &recorded.commands)
            .map_err(|why| ReplayError::Simulation { tick: state.tick, why })?;
        motion.compare((state.tick, since_ns), &state.servos, &simulated.servos);
        ticks += 1;
    }
    if ticks == 0 {
        return Err(ReplayError::NoTick);
    }
    Ok(BodyReplay {
        robot: config.name,
        ticks,
        incomplete: recording.incomplete,
        is_cut_off: recording.is_cut_off(),
        joints: motion.finish(),
    })
}

/// Where the joints of a real robot were when their servos first reported, rad. NaN of one that never did, and of all that
/// were emulated: they started where the robot file has them.
fn start(log: &Path, recording: &Recording) -> Result<Vec<f64>, ReplayError> {
    let mut start = vec![f64::NAN; recording.joints.len()];
    if RobotConfig::parse(&recording.text, &recording.name).is_ok_and(|config| config.is_emulated()) {
        return Ok(start);
    }
    let mut recording = Recording::open(log)?;
    while start.iter().any(|position| !position.is_finite()) {
        let Some(recorded) = recording.next(0)? else { break };
        for (start, servo) in start.iter_mut().zip(&recorded.state.servos) {
            if !start.is_finite() {
                *start = servo.position;
            }
        }
    }
    Ok(start)
}

/// The robot that is replayed: that of the log, or of the file in its place.
fn robot(source: &Source, recording: &Recording) -> Result<RobotConfig, ReplayError> {
    let read = match &source.robot {
        Some(path) => RobotConfig::load(path),
        None if recording.text.is_empty() => return Err(ReplayError::NoRobot),
        None => RobotConfig::parse(&recording.text, &recording.name),
    };
    let config = read.map_err(|error| ReplayError::Robot(error.to_string()))?;
    if let Ok(recorded) = RobotConfig::parse(&recording.text, &recording.name)
        && recorded.timing.rate_hz != config.timing.rate_hz
    {
        return Err(ReplayError::Rate { log: recorded.timing.rate_hz, file: config.timing.rate_hz });
    }
    let file: Vec<&str> = config.servos.iter().map(|servo| servo.name.as_str()).collect();
    if file != recording.joints {
        return Err(ReplayError::Joints { log: recording.joints.join(", "), file: file.join(", ") });
    }
    Ok(config)
}

/// Another controller than the robot file's has its default settings.
fn choose(config: &mut RobotConfig, kind: Option<ControllerKind>) {
    let Some(kind) = kind.filter(|kind| *kind != config.controller.kind()) else { return };
    config.controller = match kind {
        ControllerKind::Hold => ControllerConfig::Hold(HoldParameters::default()),
        ControllerKind::Sine => ControllerConfig::Sine(SineParameters::default()),
        ControllerKind::Excite => ControllerConfig::Excite(ExciteParameters::default()),
        ControllerKind::StandAndSquat => ControllerConfig::StandAndSquat(StandAndSquatParameters::default()),
        ControllerKind::Walk => ControllerConfig::Walk(WalkParameters::default()),
        ControllerKind::Targets => ControllerConfig::Targets,
        ControllerKind::Policy => ControllerConfig::Policy(Box::default()),
        ControllerKind::Follow => ControllerConfig::Follow(Box::default()),
    };
    config.parameters.clear();
}
