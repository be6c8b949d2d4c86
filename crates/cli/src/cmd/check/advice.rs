//! What is right in a robot file, and still will not work or is not safe.

use khz_budget::{Cure, Inputs, Prediction, TickPlan};
use khz_drill::gains::Unfit;
use khz_drill::promises::Broken;
use khz_file::RobotConfig;
use khz_file::config::{ControllerConfig, ServoConfig, Simulation};
use khz_page::duration;

/// A right robot file and the prediction of its cycle.
pub struct Checked {
    pub robot: RobotConfig,
    pub prediction: Prediction,
    /// What would make the cycle fit, if it does not.
    pub cures: Vec<Cure>,
    /// What simulates the body here, if something has to be installed for that.
    pub simulation: Option<Result<Simulation, String>>,
}

impl Checked {
    /// Everything suspicious, ready to be shown.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.robot.warnings.clone();
        warnings.extend(missing_limits(&self.robot));
        warnings.extend(without_positions(&self.robot));
        warnings.extend(unfit_gains(&self.robot));
        warnings.extend(self.does_not_fit());
        let loss = TickPlan::advice_for_loss(&self.robot, Inputs::of(&self.robot));
        warnings.extend(loss.map(|advice| format!("warning: {advice}")));
        warnings.extend(self.suspicious_body());
        warnings.extend(self.not_drawn().map(|why| format!("warning: {why}")));
        let given_up = khz_drill::promises::broken(&self.robot);
        let is_new = |broken: &Broken| !warnings.iter().any(|warning| names(warning, &broken.keys));
        let given_up: Vec<_> = given_up.into_iter().filter(is_new).map(|broken| warning(&broken)).collect();
        warnings.extend(given_up);
        warnings
    }

    /// The prediction in a line.
    pub fn budget(&self) -> String {
        let Prediction { tick_ns, period_ns, .. } = self.prediction;
        let [tick, period] = [tick_ns, period_ns].map(|ns| duration(ns as f64));
        let cycle = self.prediction.cycle_text();
        let link =
            if self.robot.is_emulated() { "; emulated links: no delays of adapters counted" } else { "" };
        let host = if self.prediction.host_measured { "measured" } else { "assumed" };
        format!(
            "  predicted: cycle {cycle}, tick {tick} of {period} (`khz budget`{link}; this computer's own parts {host})\n"
        )
    }

    /// The simulator in a line.
    pub fn body(&self) -> String {
        match &self.simulation {
            Some(Ok(simulation)) => format!("  body: {}\n", simulation.text),
            Some(Err(_)) => "  body: cannot be simulated here\n".to_owned(),
            None => String::new(),
        }
    }

    /// A model that is simulated has been read already.
    fn not_drawn(&self) -> Option<String> {
        match &self.simulation {
            Some(simulation) => simulation.as_ref().ok()?.not_drawn.clone(),
            None => khz_file::draft::shape(&self.robot).err(),
        }
    }

    fn suspicious_body(&self) -> Option<String> {
        let why = self.simulation.as_ref()?.as_ref().err()?;
        Some(format!("warning: [body] cannot be simulated on this computer: {why}"))
    }

    fn does_not_fit(&self) -> Option<String> {
        let prediction = &self.prediction;
        if prediction.fits() {
            return None;
        }
        let what = if prediction.deadline_missed {
            prediction.replies_text()
        } else {
            format!("the tick takes {}", duration(prediction.tick_ns as f64))
        };
        let cure = |Cure { what, cycle_ns, fits, tight }: &Cure| {
            let verdict = match (fits, tight) {
                (true, false) => "fits",
                (true, true) => "fits barely",
                _ => "not enough",
            };
            format!("\n  {verdict:11} cycle {:>7}  {what}", duration(*cycle_ns as f64))
        };
        let cures: String = self.cures.iter().map(cure).collect();
        Some(format!(
            "warning: the cycle does not fit {} Hz: {what}\n  predicted from bytes, bits and delays (`khz budget`); with these \
             changes, each by itself:{cures}",
            self.robot.timing.rate_hz
        ))
    }
}

/// A warning has one of these keys.
fn names(warning: &str, keys: &[String]) -> bool {
    let short = |key: &String| format!("`{}`", key.trim_start_matches("supervisor."));
    keys.iter().any(|key| warning.contains(&short(key)) || warning.contains(key))
}

fn warning(Broken { keys, what }: &Broken) -> String {
    let keys = keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(" and ");
    format!(
        "warning: {keys}: {what}\n  tried in virtual time; leave the key out for its default, or know why this robot needs it (docs/safety.md)"
    )
}

/// The limits that a servo can have and does not.
fn lacks(servo: &ServoConfig) -> Vec<&'static str> {
    let limits = &servo.limits;
    let all = [
        // With a velocity alone it is a joint that turns freely on purpose, a wheel for example.
        ("`limits.position`", limits.position.is_none() && limits.velocity.is_none()),
        ("`limits.velocity`", limits.velocity.is_none()),
        // No greatest torque travels to the others, nor to a servo that measures no current.
        (
            "`limits.torque`",
            limits.torque.is_none()
                && servo.in_file().facts().limits_torque
                && servo.carries().max_torque > 0.0,
        ),
    ];
    all.into_iter().filter(|(_, lacks)| *lacks).map(|(key, _)| key).collect()
}

/// A warning for all servos that lack the same limits.
pub fn missing_limits(robot: &RobotConfig) -> Vec<String> {
    let lacking = robot.servos.iter().filter_map(|servo| {
        let lacks = lacks(servo);
        (!lacks.is_empty()).then(|| ((lacks, servo.in_file().facts().limits_torque), servo.name.as_str()))
    });
    let warning = |((keys, limits_torque), servos): ((Vec<&str>, bool), Vec<&str>)| {
        let [torque, unit] = if limits_torque { [", torque = 2.0", ", N·m"] } else { [""; 2] };
        format!(
            "warning: {} without {}: the supervisor limits only what the file limits\n  for example `limits = {{ position = \
             [-1.5, 1.5], velocity = 5.0{torque} }}` (rad, rad/s{unit}); begin small",
            some(&servos),
            keys.join(", "),
        )
    };
    grouped(lacking).into_iter().map(warning).collect()
}

/// A warning for servos that take no positions, although the controller of the file commands some: its first command brings the robot down.
pub fn without_positions(robot: &RobotConfig) -> Option<String> {
    let kind = robot.controller.kind();
    let is_commanded = |name: &str| match &robot.controller {
        ControllerConfig::Follow(follow) => follow.follower.iter().any(|follower| follower == name),
        // What it commands is in its file.
        ControllerConfig::Policy(_) => false,
        _ => true,
    };
    let refusing = robot.servos.iter().filter(|it| is_commanded(&it.name) && it.carries().position == 0.0);
    let refusing: Vec<_> = refusing.collect();
    let first = refusing.first()?;
    let facts = first.in_file().facts();
    let key = if facts.has_formats { "command.position" } else { &*format!("{}.mode", first.family.word()) };
    let names: Vec<&str> = refusing.iter().map(|servo| servo.name.as_str()).collect();
    Some(format!(
        "warning: the controller `{kind}` commands positions, of which {} takes none (`{key}`): the robot comes down at its first command\n  \
         write another `{key}`, or command velocities or torques by a controller of your own",
        some(&names)
    ))
}

/// What is the same of several servos once, with all their names, in the order in which it came first.
fn grouped<'a, T: PartialEq>(found: impl Iterator<Item = (T, &'a str)>) -> Vec<(T, Vec<&'a str>)> {
    let mut groups: Vec<(T, Vec<&str>)> = Vec::new();
    for (what, servo) in found {
        match groups.iter_mut().find(|(other, _)| *other == what) {
            Some((_, servos)) => servos.push(servo),
            None => groups.push((what, vec![servo])),
        }
    }
    groups
}

/// A warning for all servos whose gains do not suit their joints in the same way.
fn unfit_gains(robot: &RobotConfig) -> Vec<String> {
    let found = khz_drill::gains::unfit(robot).into_iter().map(|(servo, unfit)| {
        let [kp, kd] = servo.in_file().gain_keys();
        let problem = match unfit {
            Unfit::Jumps { fastest, tolerated } => format!(
                "gains too high for the inertia of the joint at {} Hz: it jumps from target to target, at up to {fastest:.1} rad/s, and \
                 more than {tolerated:.1} rad/s brings the robot down\n  lower `{kp}`, raise `{kd}`, or raise `loop.rate_hz`",
                robot.timing.rate_hz
            ),
            Unfit::Overshoots { past, range } => format!(
                "the joint overshoots by {past:.2} rad with these gains, and `limits.position` is a range of {range:.2} rad\n  raise \
                 `{kd}`, lower `limits.velocity`, or widen `limits.position`"
            ),
        };
        (problem, servo.name.as_str())
    });
    let warning = |(problem, servos): (String, Vec<&str>)| {
        format!("warning: {}: {problem}; tried on the emulated joint", some(&servos))
    };
    grouped(found).into_iter().map(warning).collect()
}

/// The names, or the first few of many.
fn some(names: &[&str]) -> String {
    match names {
        [first, second, third, rest @ ..] if rest.len() > 2 => {
            format!("{first}, {second}, {third} and {} more", rest.len())
        }
        few => few.join(", "),
    }
}
