//! What is checked of a policy before a robot moves, and the errors if it does not fit.

use super::command;
use super::decider::{Action, Decider};
use super::metadata::agree;
use super::observation::{Joints, Observation, one_or_each};
use super::settings::{Kind, PolicyConfig};
use khz_loop::controller::{ControlError, Decide, Pace, RobotInfo, cpu_time_ns, record};
use khz_loop::state::{RobotState, Signal};
use khz_onnxruntime::Evaluator;
use khz_policy::{Port, metadata, model::LARGEST, sha256};
use khz_servo::ServoCommand;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Observations that a model is tried with; so few of a large one that all of them take a second or so.
const PROBES: u64 = 256;
const PROBED_WORK: u64 = 2_000_000_000;
/// The work of a model that others evaluate is not known: no further observation after so long.
const PROBED_NS: i64 = 2_000_000_000;

/// What a policy is for a robot.
pub(super) struct Fitting {
    pub(super) decider: Decider,
    pub(super) fixed: Fixed,
    /// How long a decision takes, but for one in a hundred.
    pub(super) took_ns: i64,
    /// For the log.
    pub(super) policy: record::Policy,
}

/// What a policy is for a robot but for its model.
pub(super) struct Frame {
    pub(super) observation: Observation,
    pub(super) action: Action,
    pub(super) fixed: Fixed,
}

/// What follows from the file and does not change. Lists are in the policy's order.
pub(super) struct Fixed {
    /// The servo of each joint.
    pub(super) servos: Vec<usize>,
    /// What is given for each joint, and the shares of its servo's gains.
    pub(super) kinds: Vec<Kind>,
    pub(super) gains: Vec<[f64; 2]>,
    pub(super) pace: Pace,
    /// It sees the IMU.
    pub(super) needs_imu: bool,
}

/// The shares of its servos' gains that a policy commands, in the robot's order.
///
/// # Errors
/// What does not fit; the model is not looked at.
pub fn gain_shares(config: &PolicyConfig, robot: &RobotInfo) -> Result<Vec<[f64; 2]>, ControlError> {
    let Fixed { servos, kinds, gains, .. } = frame(config, robot)?.fixed;
    let mut shares = vec![[1.0; 2]; robot.joints.len()];
    for ((servo, kind), gains) in servos.into_iter().zip(kinds).zip(gains) {
        if let ServoCommand::Position(command) = command(kind, 0.0, gains) {
            shares[servo] = [command.kp_scale, command.kd_scale];
        }
    }
    Ok(shares)
}

/// Checks the file against the robot, and not the model.
///
/// # Errors
/// The first thing that does not fit.
pub(super) fn frame(config: &PolicyConfig, robot: &RobotInfo) -> Result<Frame, ControlError> {
    let pace = Pace::of(config.rate_hz, Some(config.delay_ticks), config.most_late(), robot.period_ns)?;
    let servos = servos(config, robot)?;
    lists(config)?;
    let gains =
        (0..servos.len()).map(|joint| gains(config, robot, &servos, joint)).collect::<Result<_, _>>()?;
    let kinds = (0..servos.len()).map(|joint| *one_or_each(&config.action.kinds, joint)).collect();
    let joints =
        Joints { servos: servos.clone(), names: config.joints.clone(), default: config.default.clone() };
    let observation = Observation::new(&config.observe, &config.history, joints, 1.0 / config.rate_hz)?;
    if observation.needs_imu() && !robot.has_imu {
        return Err(wrong(
            "a term is of the IMU, and the robot file has no `[imu]`: add it with its `link`".into(),
        ));
    }
    let needs_imu = observation.needs_imu();
    let fixed = Fixed { servos, kinds, gains, pace, needs_imu };
    Ok(Frame { observation, action: Action::new(config), fixed })
}

/// Reads the model and checks it against the robot and the file.
///
/// # Errors
/// The first thing that does not fit.
pub(super) fn fit(config: &PolicyConfig, robot: &RobotInfo) -> Result<Fitting, ControlError> {
    guesses(config)?;
    let Frame { observation, action, fixed } = frame(config, robot)?;
    let (model, bytes, sha256) = model(config)?;
    ports(&model, &observation, config.joints.len())?;
    let policy = record::Policy {
        bytes,
        sha256,
        kp_scale: fixed.gains.iter().map(|[kp, _]| *kp).collect(),
        kd_scale: fixed.gains.iter().map(|[_, kd]| *kd).collect(),
        every: fixed.pace.every,
        delay: fixed.pace.delay,
        max_late: fixed.pace.max_late,
        ..record_of(config, &model, &observation, &action)
    };
    let mut decider = Decider { model, observation, action };
    pairs(&mut decider, config)?;
    let took_ns = probe(&mut decider).map_err(|error| wrong(format!("`{}`: {error}", config.model)))?;
    posture(&mut decider, robot, &fixed.servos, config)?;
    Ok(Fitting { decider, fixed, took_ns, policy })
}

/// A robot is not moved by guesses.
fn guesses(config: &PolicyConfig) -> Result<(), ControlError> {
    if config.not_known.is_empty() {
        return Ok(());
    }
    let all: String = config.not_known.iter().map(|what| format!("\n  {what}")).collect();
    Err(wrong(format!(
        "`khz new` has guessed what `not_known` lists; correct or confirm each of these in the file, and delete it from the list:{all}"
    )))
}

/// What the log records of it.
fn record_of(
    config: &PolicyConfig,
    model: &Evaluator,
    observation: &Observation,
    action: &Action,
) -> record::Policy {
    let operators = model.operators().iter().map(|(name, count)| format!("{count} {name}"));
    record::Policy {
        model: config.model.clone(),
        engine: model.engine(),
        operators: operators.collect::<Vec<_>>().join(", "),
        terms: observation.terms(),
        joints: config.joints.clone(),
        default: config.default.clone(),
        scale: action.scale.clone(),
        offset: action.offset.clone(),
        ..record::Policy::default()
    }
}

/// A model's file: no more of it than [`Evaluator::load`] needs to refuse one that is too large.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The model, its size and its hash.
fn model(config: &PolicyConfig) -> Result<(Evaluator, u64, String), ControlError> {
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
    let model =
        Evaluator::load(&bytes, config.engine).map_err(|error| wrong(format!("`{path}`: {error}")))?;
    let recorded = metadata(&bytes).map_err(|error| wrong(format!("`{path}`: {error}")))?;
    agree(&recorded, config).map_err(|what| wrong(format!("`{path}`: {what}")))?;
    Ok((model, bytes.len() as u64, found))
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
    // One that is not there has another meaning.
    let given = |list: &[f64]| if list.is_empty() { joints } else { list.len() };
    let lists = [
        ("kinds", action.kinds.len()),
        ("clip", action.clip.len()),
        ("scale", action.scale.len()),
        ("kp_scale", action.kp_scale.len()),
        ("kd_scale", action.kd_scale.len()),
        ("offset", given(&action.offset)),
        ("kp", given(&action.kp)),
        ("kd", given(&action.kd)),
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

/// Shares of the gains of a joint's servo.
fn gains(
    config: &PolicyConfig,
    robot: &RobotInfo,
    servos: &[usize],
    joint: usize,
) -> Result<[f64; 2], ControlError> {
    let action = &config.action;
    let share = |which: usize, key: &str, wanted: &[f64], shares: &[f64]| {
        if wanted.is_empty() {
            return Ok(*one_or_each(shares, joint));
        }
        let (wanted, name) = (*one_or_each(wanted, joint), &config.joints[joint]);
        let Some(gains) = robot.joints[servos[joint]].gains else {
            return Err(wrong(format!(
                "`action.{key}` is of servos whose gains the robot file has, and the servo `{name}` has its own, which no command changes: \
                 leave `{key}` out, and give the servo the gain of the training with its maker's program"
            )));
        };
        if !shares.iter().all(|share| *share == 1.0) {
            return Err(wrong(format!(
                "`action.{key}` and `action.{key}_scale` are both there: write one of them"
            )));
        }
        if which == 0 && wanted <= 0.0 {
            return Err(wrong(format!(
                "`action.kp` is {wanted} for the joint `{name}`, which nothing would hold: write the gain of the training, more than 0"
            )));
        }
        let most = gains[which];
        if wanted > most {
            return Err(wrong(format!(
                "`action.{key}` is {wanted} for the joint `{name}`, whose servo has {most}: set the servo's `{key}` to that of the training"
            )));
        }
        Ok(if most > 0.0 { wanted / most } else { 0.0 })
    };
    Ok([share(0, "kp", &action.kp, &action.kp_scale)?, share(1, "kd", &action.kd, &action.kd_scale)?])
}

/// The first input is the observation, the first output the action; the others are carried from one decision to the next.
fn ports(model: &Evaluator, observation: &Observation, joints: usize) -> Result<(), ControlError> {
    let len = |port: &Port| port.shape.iter().product::<usize>();
    let (inputs, outputs) = (model.inputs(), model.outputs());
    let (found, wanted) = (len(&inputs[0]), observation.len());
    if found != wanted {
        let (name, table) = (&inputs[0].name, observation.table());
        return Err(wrong(format!(
            "the model's input `{name}` has {found} numbers, and the terms have {wanted}: {table}"
        )));
    }
    let (name, count) = (&outputs[0].name, len(&outputs[0]));
    if count != joints {
        return Err(wrong(format!(
            "the model's output `{name}` has {count} numbers, and there are {joints} joints"
        )));
    }
    if let Some((input, output)) = crossed(inputs, outputs) {
        return Err(wrong(format!(
            "the model's input `{}` has the place {input}, and its output `{}` the place {output}: the first input is the observation, the first \
             output the action, and what is carried has the same place in both; export it in this order",
            inputs[input].name, outputs[output].name
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

/// An input and an output that belong together by their names, `h_in` and `h_out`, and not by their places.
fn crossed(inputs: &[Port], outputs: &[Port]) -> Option<(usize, usize)> {
    let together = |input: &Port, output: &Port| {
        let [input, output] = [input, output].map(|port| port.name.to_lowercase());
        let ends = input.strip_suffix("_in").is_some_and(|name| output.strip_suffix("_out") == Some(name));
        ends || input.strip_prefix("in_").is_some_and(|name| output.strip_prefix("out_") == Some(name))
    };
    let place = |input| outputs.iter().position(|output| together(input, output));
    let pairs: Vec<_> =
        inputs.iter().enumerate().filter_map(|(at, input)| Some((at, place(input)?))).collect();
    // A model that carries nothing may name its input and output like that.
    let is_wrong =
        |&(input, output): &(usize, usize)| input != output || input == 0 && inputs.len() > pairs.len();
    pairs.iter().copied().filter(|_| inputs.len() > 1).find(is_wrong)
}

/// Checks that the model has the outputs that its trainer recorded.
fn pairs(decider: &mut Decider, config: &PolicyConfig) -> Result<(), ControlError> {
    let Some(path) = &config.test else { return Ok(()) };
    let bytes =
        read(Path::new(path)).map_err(|error| wrong(format!("`test`: {path} cannot be read: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        wrong(format!(
            "`test`: {path} is no text; write one in Python by `numpy.savetxt(\"pairs.csv\", numpy.hstack([observations, actions]))`"
        ))
    })?;
    let (seen, joints) = (decider.model.input_mut(0).len(), config.joints.len());
    decider.begin();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let mut number = 0;
    for (line, pair) in lines.enumerate().filter(|(_, pair)| !pair.is_empty()) {
        let line = line + 1;
        let words = pair.split([',', ' ', '\t']).filter(|word| !word.is_empty());
        let numbers = words.map(str::parse).collect::<Result<Vec<f32>, _>>();
        let numbers =
            numbers.map_err(|_| wrong(format!("`test`: line {line} of {path} has what is no number")))?;
        if numbers.len() != seen + joints {
            let found = numbers.len();
            return Err(wrong(format!(
                "`test`: line {line} of {path} has {found} numbers; an observation has {seen}, and an action {joints}"
            )));
        }
        let (observation, action) = numbers.split_at(seen);
        decider.model.input_mut(0).copy_from_slice(observation);
        decider.evaluate().map_err(|error| wrong(format!("`test`: pair {number}: {error}")))?;
        let largest = action.iter().fold(1.0_f32, |largest, value| largest.max(value.abs()));
        let apart =
            |(found, wanted): (&f32, &f32)| (found - wanted).abs() > 1e-4 * largest || !wanted.is_finite();
        if let Some(joint) = decider.action.output().iter().zip(action).position(apart) {
            let (found, wanted, name) =
                (decider.action.output()[joint], action[joint], &config.joints[joint]);
            return Err(wrong(format!(
                "`test`: pair {number} (line {line}) has {wanted} for the joint `{name}`, and the model says {found}"
            )));
        }
        number += 1;
    }
    if number == 0 {
        return Err(wrong(format!("`test`: {path} has no pair")));
    }
    Ok(())
}

/// Whatever is within reach gives numbers, and of another engine than ours the same ones twice. Returns how long it takes, but for one in
/// a hundred.
fn probe(decider: &mut Decider) -> Result<i64, ControlError> {
    let mut times_ns = Vec::new();
    let mut random = 42_u64;
    let probes = (PROBED_WORK / decider.model.work().max(1)).clamp(8, PROBES);
    let is_own = matches!(decider.model, Evaluator::Own(_));
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
        let mut evaluated = Ok(());
        times_ns.push(cpu_time_ns(|| evaluated = decider.evaluate()));
        evaluated.map_err(tried)?;
        if is_own {
            // It has the same bits each time.
            continue;
        }
        let first = (decider.action.output().to_vec(), decider.carried());
        decider.begin();
        decider.evaluate().map_err(tried)?;
        repeats(&first, &(decider.action.output().to_vec(), decider.carried()), &decider.action.names)
            .map_err(|what| {
                wrong(format!("tried twice with observation {number} of {probes} within ±3, {what}"))
            })?;
        if number > 0 && times_ns.iter().sum::<i64>() > PROBED_NS {
            break;
        }
    }
    times_ns.sort_unstable();
    Ok(times_ns[(times_ns.len() - 1) * 99 / 100])
}

/// What a model outputs and carries to the next decision has the same bits the second time.
///
/// # Errors
/// It has not.
fn repeats(first: &(Vec<f32>, u64), second: &(Vec<f32>, u64), names: &[String]) -> Result<(), String> {
    let cure = "a replay would decide otherwise: export it without what draws random numbers, with the mean of its actions";
    let differs = |(one, other): (&f32, &f32)| one.to_bits() != other.to_bits();
    if let Some(joint) = first.0.iter().zip(&second.0).position(differs) {
        let (one, other, name) = (first.0[joint], second.0[joint], &names[joint]);
        return Err(format!("it says {one} and then {other} for the joint `{name}`; {cure}"));
    }
    if first.1 != second.1 {
        return Err(format!("it carries other numbers to the next decision the second time; {cure}"));
    }
    Ok(())
}

/// A decision has its delay, and no more than a quarter of the time to the next.
///
/// # Errors
/// It takes longer on this computer.
pub(super) fn in_time(took_ns: i64, pace: Pace, period_ns: i64) -> Result<(), String> {
    let Pace { every, delay, .. } = pace;
    let (ms, ticks) = (took_ns as f64 * 1e-6, |ticks: u64| ticks as f64 * period_ns as f64 * 1e-6);
    let needed = (took_ns / period_ns.max(1)) as u64 + 1;
    if ms > ticks(every) / 4.0 {
        return Err(format!(
            "a decision takes {ms:.1} ms here, more than a quarter of the {} ms to the next: take a smaller model, a lower rate, or another computer",
            ticks(every)
        ));
    }
    if ms > ticks(delay) {
        return Err(format!(
            "a decision takes {ms:.1} ms here: write `delay_ticks = {}` or more",
            needed.max(delay + 1)
        ));
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
    state.signals.fill(Signal { value: 0.0, tick: Some(state.tick) });
    let mut targets = vec![0.0; servos.len()];
    decider.begin();
    decider.decide(&state, &mut targets)?;
    for (joint, (&servo, target)) in servos.iter().zip(&targets).enumerate() {
        let limits = &robot.joints[servo].limits;
        let both = |most: Option<f64>| most.map(|most| [-most, most]);
        let (allowed, unit) = match one_or_each(&config.action.kinds, joint) {
            Kind::Position => (limits.position, "rad"),
            Kind::Velocity => (both(limits.velocity), "rad/s"),
            Kind::Torque => (both(limits.torque), "N·m"),
        };
        let within = |what: &str, value: f64, allowed: Option<[f64; 2]>, unit: &str| match allowed {
            Some([least, most]) if !(least..=most).contains(&value) => Err(wrong(format!(
                "{what} is {value:.3} {unit} for the joint `{}`, whose limits are {least} to {most} {unit}",
                config.joints[joint]
            ))),
            _ => Ok(()),
        };
        within("the default posture", config.default[joint], limits.position, "rad")?;
        within("what the policy wants in the default posture", *target, allowed, unit)?;
    }
    Ok(())
}

fn wrong(text: String) -> ControlError {
    ControlError(text.into())
}

#[cfg(test)]
mod tests {
    use super::{in_time, repeats};
    use khz_loop::controller::Pace;

    #[test]
    fn a_decision_that_does_not_fit_in_its_time_is_refused() {
        let pace = |delay| Pace { every: 20, delay, max_late: 2, waits_for_first: false };
        let refusal =
            |took_us: i64, delay| in_time(took_us * 1000, pace(delay), 1_000_000).err().unwrap_or_default();
        assert_eq!([refusal(999, 1), refusal(4_900, 5)], ["", ""]);
        assert_eq!(refusal(1_200, 1), "a decision takes 1.2 ms here: write `delay_ticks = 2` or more");
        let too_slow = "a decision takes 30.0 ms here, more than a quarter of the 20 ms to the next: take a smaller model, a lower rate, or another computer";
        assert_eq!(refusal(30_000, 20), too_slow);
    }

    #[test]
    fn a_model_that_says_something_else_the_second_time_is_refused() {
        let names = ["hip".to_owned(), "knee".to_owned()];
        let refusal = |second: (Vec<f32>, u64)| {
            repeats(&(vec![0.5, 0.0], 7), &second, &names).err().unwrap_or_default()
        };
        assert_eq!(refusal((vec![0.5, 0.0], 7)), "");
        let says = refusal((vec![0.5, -0.0], 7));
        assert!(
            says.starts_with("it says 0 and then -0 for the joint `knee`; a replay would decide"),
            "{says}"
        );
        assert!(refusal((vec![0.5, 0.0], 8)).starts_with("it carries other numbers"));
    }
}
