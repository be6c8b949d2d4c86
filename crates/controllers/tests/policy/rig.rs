//! A robot of two joints and an IMU, and models for it.

use crate::onnx::{Graph, whole};
use khz_controllers::Policy;
use khz_controllers::policy::settings::{ActionConfig, ObserveConfig, PolicyConfig, Term};
use khz_loop::controller::{ControlError, Controller, JointInfo, RobotInfo};
use khz_loop::state::RobotState;
use khz_loop::supervisor::Limits;
use khz_loop::{PositionCommand, ServoCommand};
use tempfile::TempDir;

/// The loop at 1 kHz; a policy's order of the joints is the other way round.
pub(crate) fn robot() -> RobotInfo {
    let limits = Limits { position: Some([-2.0, 2.0]), ..Limits::default() };
    let joint = |name: &str| JointInfo {
        name: name.into(),
        limits: limits.clone(),
        gains: Some([40.0, 2.0]),
        torque: limits.torque,
    };
    RobotInfo {
        name: "two".into(),
        period_ns: 1_000_000,
        joints: vec![joint("hip"), joint("knee")],
        has_imu: true,
        parameters: Vec::new(),
    }
}

pub(crate) fn term(term: Term) -> ObserveConfig {
    ObserveConfig { term, ..ObserveConfig::default() }
}

/// With these terms, at 100 Hz, and without a way to the default posture, which is 0.1 for the knee and 0.2 for the hip.
pub(crate) fn config(observe: Vec<ObserveConfig>) -> PolicyConfig {
    PolicyConfig {
        rate_hz: 100.0,
        joints: vec!["knee".into(), "hip".into()],
        default: vec![0.1, 0.2],
        start_s: 0.0,
        observe,
        action: ActionConfig { scale: vec![0.5], ..ActionConfig::default() },
        ..PolicyConfig::default()
    }
}

/// Outputs the first two numbers of its observation, from `first` on.
pub(crate) fn echo(inputs: u64, first: i64) -> Vec<u8> {
    let graph = Graph::default().input("obs", &[1, inputs]).output("actions", &[1, 2]);
    let graph = graph.ints("places", &[first, first + 1]);
    graph.node_with("Gather", &["obs", "places"], &["actions"], &[whole("axis", 1)]).file()
}

/// A policy for the robot, its model in a folder of its own.
pub(crate) fn prepared(model: &[u8], mut config: PolicyConfig) -> Result<(Policy, TempDir), ControlError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("policy.onnx");
    std::fs::write(&path, model).expect("a file");
    config.model = path.display().to_string();
    let mut policy = Policy::new(config);
    policy.prepare(&robot())?;
    Ok((policy, folder))
}

/// Level and at rest, the hip at 0.5 rad and the knee at 0.3.
pub(crate) fn state() -> RobotState {
    let mut state = RobotState::unknown(2, true, 1_000_000);
    for (servo, position) in state.servos.iter_mut().zip([0.5, 0.3]) {
        (servo.position, servo.velocity, servo.torque) = (position, 0.0, 0.0);
    }
    if let Some(imu) = &mut state.imu {
        (imu.sample.at_ns, imu.sample.attitude) = (0, [1.0, 0.0, 0.0, 0.0]);
        (imu.sample.rate, imu.sample.acceleration) = ([0.0; 3], [0.0; 3]);
    }
    state
}

/// Ticks of a controller; each gives the positions of hip and knee.
pub(crate) struct Ticks {
    pub(crate) policy: Policy,
    pub(crate) state: RobotState,
    pub(crate) commands: [ServoCommand; 2],
}

impl Ticks {
    pub(crate) fn of(policy: Policy) -> Self {
        let mut ticks = Self { policy, state: state(), commands: [ServoCommand::Stop; 2] };
        ticks.policy.start(&ticks.state).expect("a start");
        ticks
    }

    pub(crate) fn next(&mut self) -> Result<[f64; 2], ControlError> {
        self.policy.update(&self.state, &mut self.commands)?;
        self.state.tick += 1;
        Ok(self.commands.map(|command| match command {
            ServoCommand::Position(PositionCommand { position, .. }) => position,
            _ => f64::NAN,
        }))
    }

    /// A limit takes this off the command of a servo.
    pub(crate) fn cut(&mut self, servo: usize, by: f64) {
        if let ServoCommand::Position(command) = &mut self.commands[servo] {
            command.position += by;
        }
    }

    /// So many more; the last one's positions.
    pub(crate) fn after(&mut self, ticks: usize) -> [f64; 2] {
        (0..ticks).fold([f64::NAN; 2], |_, _| self.next().expect("a command"))
    }
}

/// What a policy of these terms sees in its first decision, and after so many more with other states.
pub(crate) fn seen(
    config: PolicyConfig,
    inputs: u64,
    mut change: impl FnMut(&mut RobotState, u64),
    decisions: u64,
) -> Vec<f64> {
    let look = |first: i64, change: &mut dyn FnMut(&mut RobotState, u64)| {
        let mut config = config.clone();
        config.action = ActionConfig { offset: vec![0.0], ..ActionConfig::default() };
        let (policy, _folder) =
            prepared(&echo(inputs, first), config).unwrap_or_else(|error| panic!("{error}"));
        let mut ticks = Ticks::of(policy);
        for decision in 0..decisions {
            change(&mut ticks.state, decision);
            ticks.after(10);
        }
        let [hip, knee] = ticks.after(1);
        [knee, hip]
    };
    (0..inputs as i64).step_by(2).flat_map(|first| look(first.min(inputs as i64 - 2), &mut change)).collect()
}
