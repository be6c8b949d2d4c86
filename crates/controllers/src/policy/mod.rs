//! A trained policy decides where joints go: an ONNX model, some tens of times a second.
//!
//! ```text
//! state of tick k ──► terms ──► clip, scale ──► history ──► model ──► clip, scale, offset ──► targets from tick k + delay_ticks on
//! ```
//!
//! Before its first decision the joints move to the default posture. A decision is made on a thread of its own ([`Decisions`]); between
//! two of them the servos hold the last targets, a thousand times a second.

mod checks;
mod decider;
mod draft;
mod observation;
pub mod settings;

pub use checks::read;
pub use draft::draft;
use khz_loop::controller::{ControlError, Controller, Decisions, OnThread, Pace, RobotInfo, SectionSummary};
use khz_loop::state::RobotState;
use khz_servo::{PositionCommand, ServoCommand};
use observation::one_or_each;
pub use settings::PolicyConfig;
use settings::{ActionConfig, Between};

/// The steepest a robot may stand when a policy begins, rad, and how fast it may turn, rad/s.
const STEEPEST: f64 = std::f64::consts::FRAC_PI_3;
const FASTEST: f64 = 1.0;

/// See [`PolicyConfig`].
pub struct Policy {
    config: PolicyConfig,
    /// Since [`Controller::prepare`].
    made: Option<Made>,
}

/// A policy for one robot. Lists are in its order.
struct Made {
    decisions: Decisions,
    /// The servo of each joint.
    servos: Vec<usize>,
    /// It sees the IMU.
    needs_imu: bool,
    /// Ticks from one decision to the next.
    every: u64,
    /// Where joints were at the start.
    from: Vec<f64>,
    elapsed_s: f64,
    /// What the decision before wanted, and the last one; since how many ticks it is followed.
    before: Vec<f64>,
    target: Vec<f64>,
    since: u64,
}

impl Policy {
    /// One that is not prepared.
    pub fn new(config: PolicyConfig) -> Self {
        Self { config, made: None }
    }
}

impl Controller for Policy {
    /// Reads the model, checks it against the robot and the file, and tries it.
    ///
    /// # Errors
    /// What does not fit, or what the model says that no robot can do.
    fn prepare(&mut self, robot: &RobotInfo) -> Result<(), ControlError> {
        let fitting = checks::fit(&self.config, robot)?;
        let pace = Pace {
            every: fitting.every,
            delay: self.config.delay_ticks.into(),
            max_late: self.config.max_late,
        };
        let count = fitting.servos.len();
        let state = RobotState::unknown(robot.joints.len(), robot.has_imu, robot.period_ns);
        self.made = Some(Made {
            needs_imu: fitting.decider.needs_imu(),
            decisions: Decisions::new(Box::new(fitting.decider), pace, count, &state),
            servos: fitting.servos,
            every: fitting.every,
            from: vec![0.0; count],
            elapsed_s: 0.0,
            before: self.config.default.clone(),
            target: self.config.default.clone(),
            since: 0,
        });
        Ok(())
    }

    fn to_thread(&mut self, on_thread: OnThread) -> std::io::Result<bool> {
        let Some(made) = &mut self.made else { return Ok(false) };
        made.decisions.to_thread(on_thread).map(|()| true)
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        let made = self.made.as_mut().ok_or("it was not prepared")?;
        if made.needs_imu {
            upright(state)?;
        }
        made.decisions.start();
        for (from, &servo) in made.from.iter_mut().zip(&made.servos) {
            *from = state.servos[servo].position;
        }
        made.before.copy_from_slice(&self.config.default);
        made.target.copy_from_slice(&self.config.default);
        (made.elapsed_s, made.since) = (0.0, 0);
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let made = self.made.as_mut().ok_or("it was not prepared")?;
        made.elapsed_s += state.dt();
        let raised = made.elapsed_s / self.config.start_s.max(f64::MIN_POSITIVE);
        if raised < 1.0 {
            // Evenly speeding up, and slowing down again.
            let share = raised * raised * (3.0 - 2.0 * raised);
            let moving =
                |joint: usize| made.from[joint] + (self.config.default[joint] - made.from[joint]) * share;
            command(&self.config.action, &made.servos, commands, moving);
            return Ok(());
        }
        made.since += 1;
        if made.decisions.tick(state)? {
            made.before.copy_from_slice(&made.target);
            made.target.copy_from_slice(made.decisions.decision());
            made.since = 0;
        }
        let share = match self.config.action.between {
            Between::Hold => 1.0,
            Between::Linear => ((made.since + 1) as f64 / made.every as f64).min(1.0),
        };
        let (before, target) = (&made.before, &made.target);
        let wanted = |joint: usize| before[joint] + (target[joint] - before[joint]) * share;
        command(&self.config.action, &made.servos, commands, wanted);
        Ok(())
    }

    fn profile(&mut self) -> Vec<SectionSummary> {
        self.made.as_ref().map(|made| made.decisions.profile()).unwrap_or_default()
    }
}

fn command(
    action: &ActionConfig,
    servos: &[usize],
    commands: &mut [ServoCommand],
    position: impl Fn(usize) -> f64,
) {
    for (joint, &servo) in servos.iter().enumerate() {
        commands[servo] = ServoCommand::Position(PositionCommand {
            kp_scale: *one_or_each(&action.kp_scale, joint),
            kd_scale: *one_or_each(&action.kd_scale, joint),
            ..PositionCommand::hold(position(joint))
        });
    }
}

/// A policy that sees how the robot stands has learned to keep it up, and not to get it up.
fn upright(state: &RobotState) -> Result<(), ControlError> {
    let Some(imu) = state.imu else { return Err("it sees the IMU, and the robot has none".into()) };
    let rate = imu.sample.rate.iter().map(|rate| rate * rate).sum::<f64>().sqrt();
    if imu.sample.at_ns == i64::MIN || imu.tilt().is_nan() || rate.is_nan() {
        return Err("it sees the IMU, which has no reading yet".into());
    }
    if imu.tilt() > STEEPEST {
        return Err(
            "the robot is tilted by more than 60°, and it has not learned to get up: put it upright".into()
        );
    }
    if rate > FASTEST {
        return Err("the robot turns by more than 1 rad/s: hold it still until the policy begins".into());
    }
    Ok(())
}
