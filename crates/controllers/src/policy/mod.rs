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
mod metadata;
mod names;
mod observation;
mod outside;
pub mod settings;
mod signals;

use checks::Fixed;
pub use checks::{gain_shares, read};
use khz_loop::controller::{
    ControlError, Controller, Decide, Decision, Decisions, OnThread, RobotInfo, SectionSummary, record,
};
use khz_loop::parameters::Parameter;
use khz_loop::state::RobotState;
pub use khz_onnxruntime::{Engine, Evaluator};
use khz_servo::{PositionCommand, ServoCommand};
pub use metadata::{entries, is_same};
pub use names::{is_called, known_term};
pub use outside::Outside;
pub use settings::PolicyConfig;
use settings::{Between, Kind};
use std::collections::VecDeque;
use std::f64::consts::TAU;

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
    fixed: Fixed,
    /// How long a decision takes, and a tick.
    took_ns: i64,
    period_ns: i64,
    /// Where joints were at the start.
    from: Vec<f64>,
    elapsed_s: f64,
    /// What the decision before wanted, and the last one; since how many ticks it is followed.
    before: Vec<f64>,
    target: Vec<f64>,
    since: u64,
    /// Position commanded in the tick before; NaN: none.
    asked: Vec<f64>,
    /// What is wanted, filtered.
    filtered: Vec<f64>,
    /// Joints whose commands were cut since the decision that is followed.
    cut: Vec<bool>,
    /// What is logged; `None` for one that is decided outside.
    record: Option<record::Policy>,
}

impl Policy {
    /// One that is not prepared.
    pub fn new(config: PolicyConfig) -> Self {
        Self { config, made: None }
    }

    /// For one robot; nothing of it is logged.
    fn made(&self, decide: Box<dyn Decide>, fixed: Fixed, robot: &RobotInfo) -> Made {
        let (count, pace) = (fixed.servos.len(), fixed.pace);
        let state = RobotState::unknown(robot.joints.len(), robot.has_imu, robot.period_ns);
        Made {
            decisions: Decisions::new(decide, pace, vec![0.0; count], &state),
            fixed,
            took_ns: 0,
            period_ns: robot.period_ns,
            from: vec![0.0; count],
            elapsed_s: 0.0,
            before: self.config.default.clone(),
            target: self.config.default.clone(),
            since: 0,
            asked: vec![f64::NAN; count],
            filtered: vec![0.0; count],
            cut: vec![false; count],
            record: None,
        }
    }

    /// How much of the way to the default posture is behind it so many seconds after the start; from 1 on it decides.
    fn risen(&self, elapsed_s: f64) -> f64 {
        elapsed_s / self.config.start_s.max(f64::MIN_POSITIVE)
    }

    /// Whether it decides in the tick of this state, or has before.
    fn has_risen(&self, state: &RobotState) -> bool {
        self.made.as_ref().is_some_and(|made| self.risen(made.elapsed_s + state.dt()) >= 1.0)
    }
}

impl Controller for Policy {
    /// Reads the model, checks it against the robot and the file, and tries it.
    ///
    /// # Errors
    /// What does not fit, or what the model outputs that no robot can do.
    fn prepare(&mut self, robot: &RobotInfo) -> Result<(), ControlError> {
        let fitting = checks::fit(&self.config, robot)?;
        let made = self.made(Box::new(fitting.decider), fitting.fixed, robot);
        self.made = Some(Made { took_ns: fitting.took_ns, record: Some(fitting.policy), ..made });
        Ok(())
    }

    /// Its signals.
    fn parameters(&self) -> Vec<Parameter> {
        signals::parameters(&self.config.observe)
    }

    fn to_thread(&mut self, on_thread: OnThread) -> std::io::Result<bool> {
        let Some(made) = &mut self.made else { return Ok(false) };
        checks::in_time(made.took_ns, made.fixed.pace, made.period_ns).map_err(std::io::Error::other)?;
        made.decisions.to_thread(on_thread).map(|()| true)
    }

    fn start(&mut self, state: &RobotState) -> Result<(), ControlError> {
        let made = self.made.as_mut().ok_or("it was not prepared")?;
        if made.fixed.needs_imu {
            upright(state)?;
        }
        made.decisions.start();
        for (from, &servo) in made.from.iter_mut().zip(&made.fixed.servos) {
            *from = state.servos[servo].position;
        }
        for joint in 0..made.fixed.kinds.len() {
            let rest =
                if made.fixed.kinds[joint] == Kind::Position { self.config.default[joint] } else { 0.0 };
            (made.before[joint], made.target[joint], made.filtered[joint]) = (rest, rest, rest);
        }
        (made.elapsed_s, made.since) = (0.0, 0);
        made.asked.fill(f64::NAN);
        made.cut.fill(false);
        Ok(())
    }

    fn update(&mut self, state: &RobotState, commands: &mut [ServoCommand]) -> Result<(), ControlError> {
        let elapsed_s = self.made.as_ref().map_or(0.0, |made| made.elapsed_s) + state.dt();
        let risen = self.risen(elapsed_s);
        let made = self.made.as_mut().ok_or("it was not prepared")?;
        made.elapsed_s = elapsed_s;
        if risen < 1.0 {
            // Evenly speeding up, and slowing down again.
            let share = risen * risen * (3.0 - 2.0 * risen);
            for (joint, &servo) in made.fixed.servos.iter().enumerate() {
                let position = made.from[joint] + (self.config.default[joint] - made.from[joint]) * share;
                commands[servo] = command(Kind::Position, position, made.fixed.gains[joint]);
            }
            return Ok(());
        }
        made.since += 1;
        made.see_cuts(commands);
        let is_new = made.decisions.tick(state);
        if made.record.is_some() && made.decisions.followed().begins_in(state.tick) {
            made.record_cuts();
        }
        if is_new? {
            made.before.copy_from_slice(&made.target);
            made.target.copy_from_slice(made.decisions.decision());
            made.since = 0;
        }
        let share = match self.config.action.between {
            Between::Hold => 1.0,
            Between::Linear => ((made.since + 1) as f64 / made.fixed.pace.every as f64).min(1.0),
        };
        made.ask(share, self.config.action.filter_hz * state.dt(), commands);
        Ok(())
    }

    fn policy(&self) -> Option<record::Policy> {
        self.made.as_ref().and_then(|made| made.record.clone())
    }

    fn decided(&self) -> Option<&Decision> {
        self.made.as_ref().map(|made| made.decisions.followed())
    }

    fn cut(&mut self, servos: &[bool]) {
        let Some(made) = &mut self.made else { return };
        for (joint, &servo) in made.fixed.servos.iter().enumerate() {
            made.cut[joint] |= servos[servo] && !made.asked[joint].is_nan();
        }
    }

    fn decide_again(&mut self, plan: VecDeque<[u64; 2]>) {
        if let Some(made) = &mut self.made {
            made.decisions.again(plan);
        }
    }

    fn profile(&mut self) -> Vec<SectionSummary> {
        self.made.as_ref().map(|made| made.decisions.profile()).unwrap_or_default()
    }
}

impl Made {
    /// Commands each servo, on the way from the decision before to the last one. `turns` is how often the filter's frequency goes round in a
    /// tick.
    fn ask(&mut self, share: f64, turns: f64, commands: &mut [ServoCommand]) {
        // Without a function whose last bit differs from one C library to another.
        let turned = turns * TAU;
        let part = if turned > 0.0 { turned / (1.0 + turned) } else { 1.0 };
        for (joint, &servo) in self.fixed.servos.iter().enumerate() {
            let (before, target) = (self.before[joint], self.target[joint]);
            let wanted = before + (target - before) * share;
            let filtered = &mut self.filtered[joint];
            *filtered = if part < 1.0 { *filtered + (wanted - *filtered) * part } else { wanted };
            self.asked[joint] = *filtered;
            commands[servo] = command(self.fixed.kinds[joint], *filtered, self.fixed.gains[joint]);
        }
    }

    /// Commands that are not what was asked for were cut by the limits of the servos; they are seen here where the controller runs in the
    /// tick.
    fn see_cuts(&mut self, commands: &[ServoCommand]) {
        for (joint, &servo) in self.fixed.servos.iter().enumerate() {
            let ServoCommand::Position(command) = commands[servo] else { continue };
            let sent = match self.fixed.kinds[joint] {
                Kind::Position => command.position,
                Kind::Velocity => command.velocity,
                Kind::Torque => command.torque,
            };
            self.cut[joint] |= sent != self.asked[joint] && !self.asked[joint].is_nan();
        }
    }

    fn record_cuts(&mut self) {
        self.decisions.followed_mut().cut.0.copy_from_slice(&self.cut);
        self.cut.fill(false);
    }
}

fn command(kind: Kind, wanted: f64, [kp_scale, kd_scale]: [f64; 2]) -> ServoCommand {
    // Wherever the joint is.
    let free = PositionCommand { kp_scale: 0.0, ..PositionCommand::hold(f64::NAN) };
    ServoCommand::Position(match kind {
        Kind::Position => PositionCommand { kp_scale, kd_scale, ..PositionCommand::hold(wanted) },
        Kind::Velocity => PositionCommand { velocity: wanted, kd_scale, ..free },
        Kind::Torque => PositionCommand { torque: wanted, kd_scale: 0.0, ..free },
    })
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
