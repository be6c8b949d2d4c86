//! What is checked of a policy before a robot moves, and what is said if it does not fit.

use super::decider::{Action, Decider};
use super::observation::{Joints, Observation};
use super::settings::PolicyConfig;
use khz_loop::controller::{ControlError, Decide, RobotInfo};
use khz_loop::state::RobotState;
use khz_policy::{Model, Port, model::LARGEST, sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Observations that a model is tried with; so few of a large one that all of them take a second or so.
const PROBES: u64 = 256;
const PROBED_WORK: u64 = 2_000_000_000;

/// What a policy is for a robot.
pub(super) struct Fitting {
    pub(super) decider: Decider,
    pub(super) servos: Vec<usize>,
    pub(super) every: u64,
}

/// Reads the model and checks it against the robot and the file.
///
/// # Errors
/// The first thing that does not fit.
pub(super) fn fit(config: &PolicyConfig, robot: &RobotInfo) -> Result<Fitting, ControlError> {
    let every = ticks(config, robot)?;
    let servos = servos(config, robot)?;
    lists(config)?;
    let model = model(config)?;
    let joints =
        Joints { servos: servos.clone(), names: config.joints.clone(), default: config.default.clone() };
    let observation = Observation::new(&config.observe, &config.history, joints, 1.0 / config.rate_hz)?;
    if observation.needs_imu() && !robot.has_imu {
        return Err(wrong("a term is of the IMU, and the robot file has no `[imu]`".into()));
    }
    ports(&model, &observation, config.joints.len())?;
    let action = Action::new(&config.action, config.joints.clone(), &config.default);
    let mut decider = Decider { model, observation, action };
    probe(&mut decider)?;
    posture(&mut decider, robot, &servos, config)?;
    Ok(Fitting { decider, servos, every })
}

/// A model's file: no more of it than [`Model::parse`] needs to refuse one that is too large.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn model(config: &PolicyConfig) -> Result<Model, ControlError> {
    let path = &config.model;
    let bytes = read(Path::new(path)).map_err(|error| {
        wrong(format!("`{path}` cannot be read: {error}; it counts from the folder of the robot file (of a log: `--robot FILE`)"))
    })?;
    let found = sha256(&bytes);
    let differs = |wanted: &&String| bytes.len() <= LARGEST && !wanted.eq_ignore_ascii_case(&found);
    if let Some(wanted) = config.sha256.as_ref().filter(differs) {
        return Err(wrong(format!(
            "`{path}` is another file than the one that was meant: its SHA-256 is {found}, and `sha256` is {wanted}"
        )));
    }
    Model::parse(&bytes).map_err(|error| wrong(format!("`{path}`: {error}")))
}

/// Ticks from one decision to the next.
fn ticks(config: &PolicyConfig, robot: &RobotInfo) -> Result<u64, ControlError> {
    let loop_hz = 1e9 / robot.period_ns as f64;
    let every = loop_hz / config.rate_hz;
    if every < 1.0 || (every - every.round()).abs() > 1e-6 {
        return Err(wrong(format!("`rate_hz = {}` does not divide the loop's {loop_hz} Hz", config.rate_hz)));
    }
    let every = every.round() as u64;
    if u64::from(config.delay_ticks) > every {
        let delay = config.delay_ticks;
        return Err(wrong(format!(
            "`delay_ticks = {delay}` is longer than the {every} ticks from one decision to the next"
        )));
    }
    Ok(every)
}

/// The servo of each joint.
fn servos(config: &PolicyConfig, robot: &RobotInfo) -> Result<Vec<usize>, ControlError> {
    let servos = config.joints.iter().map(|name| robot.joint(name)).collect::<Result<Vec<_>, _>>()?;
    for (place, name) in config.joints.iter().enumerate() {
        if config.joints[..place].contains(name) {
            return Err(wrong(format!("`joints` has `{name}` twice")));
        }
    }
    if let Some(joint) = robot.joints.iter().find(|joint| !config.joints.contains(&joint.name)) {
        return Err(wrong(format!(
            "`joints` lacks the servo `{}`: a policy moves every servo of its robot",
            joint.name
        )));
    }
    Ok(servos)
}

/// Lists of joints are as long as `joints`, or have one for all.
fn lists(config: &PolicyConfig) -> Result<(), ControlError> {
    let (joints, action) = (config.joints.len(), &config.action);
    if config.default.len() != joints {
        return Err(wrong(format!("`default` has {} values for {joints} joints", config.default.len())));
    }
    let lists = [
        ("clip", action.clip.len()),
        ("scale", action.scale.len()),
        ("kp_scale", action.kp_scale.len()),
        ("kd_scale", action.kd_scale.len()),
        ("offset", if action.offset.is_empty() { joints } else { action.offset.len() }),
    ];
    if let Some((name, count)) = lists.into_iter().find(|&(_, count)| count != 1 && count != joints) {
        return Err(wrong(format!(
            "`action.{name}` has {count} values for {joints} joints: write 1 or {joints}"
        )));
    }
    match action.clip.iter().find(|[least, most]| least > most) {
        Some([least, most]) => Err(wrong(format!("`action.clip` is from {least} to {most}"))),
        None => Ok(()),
    }
}

/// The first input is the observation, the first output the action; the others are carried from one decision to the next.
fn ports(model: &Model, observation: &Observation, joints: usize) -> Result<(), ControlError> {
    let len = |port: &Port| port.shape.iter().product::<usize>();
    let (inputs, outputs) = (model.inputs(), model.outputs());
    let (found, wanted) = (len(&inputs[0]), observation.len());
    if found != wanted {
        let (name, table) = (&inputs[0].name, observation.table());
        return Err(wrong(format!(
            "the model's input `{name}` has {found} numbers, and the terms have {wanted}: {table}"
        )));
    }
    let (name, said) = (&outputs[0].name, len(&outputs[0]));
    if said != joints {
        return Err(wrong(format!(
            "the model's output `{name}` has {said} numbers, and there are {joints} joints"
        )));
    }
    for (number, input) in inputs.iter().enumerate().skip(1) {
        let output = outputs.get(number).filter(|output| len(output) == len(input));
        if output.is_none() {
            let (name, shape) = (&input.name, &input.shape);
            return Err(wrong(format!(
                "the model's input `{name}` is carried from decision to decision, and output {number} has not its shape {shape:?}"
            )));
        }
    }
    Ok(())
}

/// Whatever is within reach gives numbers.
fn probe(decider: &mut Decider) -> Result<(), ControlError> {
    let mut random = 42_u64;
    let probes = (PROBED_WORK / decider.model.work().max(1)).clamp(8, PROBES);
    for number in 0..probes {
        decider.begin();
        for value in decider.model.input_mut(0) {
            // Xorshift; within ±3, and all 0 the first time.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            *value = if number == 0 { 0.0 } else { (random >> 40) as f32 / (1 << 23) as f32 * 3.0 - 3.0 };
        }
        let tried = |error| wrong(format!("tried with observation {number} of {probes} within ±3, {error}"));
        decider.evaluate().map_err(tried)?;
    }
    Ok(())
}

/// Level, at rest, in the default posture, with nothing asked for: what it wants then is within the limits.
fn posture(
    decider: &mut Decider,
    robot: &RobotInfo,
    servos: &[usize],
    config: &PolicyConfig,
) -> Result<(), ControlError> {
    let mut state = RobotState::unknown(robot.joints.len(), robot.has_imu, robot.period_ns);
    for (&servo, &position) in servos.iter().zip(&config.default) {
        let servo = &mut state.servos[servo];
        (servo.position, servo.velocity, servo.torque) = (position, 0.0, 0.0);
    }
    if let Some(imu) = &mut state.imu {
        imu.sample.attitude = [1.0, 0.0, 0.0, 0.0];
        (imu.sample.rate, imu.sample.acceleration) = ([0.0; 3], [0.0; 3]);
    }
    let mut targets = vec![0.0; servos.len()];
    decider.begin();
    decider.decide(&state, &mut targets)?;
    for (joint, (&servo, target)) in servos.iter().zip(&targets).enumerate() {
        let Some([least, most]) = robot.joints[servo].limits.position else { continue };
        let default = config.default[joint];
        for (what, value) in
            [("the default posture", default), ("what the policy wants in the default posture", *target)]
        {
            if !(least..=most).contains(&value) {
                let name = &config.joints[joint];
                return Err(wrong(format!(
                    "{what} is {value:.3} rad for the joint `{name}`, whose limits are {least} to {most} rad"
                )));
            }
        }
    }
    Ok(())
}

fn wrong(text: String) -> ControlError {
    ControlError(text.into())
}
