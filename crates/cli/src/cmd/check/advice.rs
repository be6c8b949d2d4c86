//! What is right in a robot file, and still will not work or is not safe.

use khz_drill::promises::Broken;
use khz_measure::budget::{Cure, Inputs, Plan, Prediction};
use khz_page::duration;
use khz_robot::RobotConfig;
use khz_robot::config::ServoConfig;

/// A right robot file and the prediction of its cycle.
pub struct Checked {
    pub robot: RobotConfig,
    pub prediction: Prediction,
    /// What would make the cycle fit, if it does not.
    pub cures: Vec<Cure>,
    /// What simulates the body here, if something has to be installed for that.
    pub simulation: Option<Result<String, String>>,
}

impl Checked {
    /// Everything suspicious, ready to be shown.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.robot.warnings.clone();
        warnings.extend(missing_limits(&self.robot));
        warnings.extend(self.does_not_fit());
        let loss = Plan::advice_for_loss(&self.robot, Inputs::of(&self.robot));
        warnings.extend(loss.map(|advice| format!("warning: {advice}")));
        warnings.extend(self.suspicious_body());
        let given_up = khz_drill::promises::broken(&self.robot);
        let is_new = |broken: &Broken| !warnings.iter().any(|warning| names(warning, &broken.keys));
        let given_up: Vec<_> = given_up.into_iter().filter(is_new).map(|broken| told(&broken)).collect();
        warnings.extend(given_up);
        warnings
    }

    /// The prediction in a line.
    pub fn budget(&self) -> String {
        let Prediction { tick_ns, period_ns, .. } = self.prediction;
        let [tick, period] = [tick_ns, period_ns].map(|ns| duration(ns as f64));
        let cycle = self.prediction.told_of_cycles();
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
            Some(Ok(simulator)) => format!("  body: {simulator}\n"),
            Some(Err(_)) => "  body: cannot be simulated here\n".to_owned(),
            None => String::new(),
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
            prediction.told_of_replies()
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

fn told(Broken { keys, what }: &Broken) -> String {
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
        // No greatest torque travels to the others.
        ("`limits.torque`", limits.torque.is_none() && servo.in_file().facts().limits_torque),
    ];
    all.into_iter().filter(|(_, lacks)| *lacks).map(|(key, _)| key).collect()
}

/// A warning for all servos that lack the same limits.
pub fn missing_limits(robot: &RobotConfig) -> Vec<String> {
    let mut groups: Vec<(Vec<&str>, bool, Vec<&str>)> = Vec::new();
    for servo in &robot.servos {
        let (lacks, limits_torque) = (lacks(servo), servo.in_file().facts().limits_torque);
        let is_group =
            |(keys, torque, _): &&mut (Vec<_>, bool, _)| *keys == lacks && *torque == limits_torque;
        match groups.iter_mut().find(is_group) {
            _ if lacks.is_empty() => {}
            Some((_, _, servos)) => servos.push(&servo.name),
            None => groups.push((lacks, limits_torque, vec![&servo.name])),
        }
    }
    let told = |(keys, limits_torque, servos): (Vec<&str>, bool, Vec<&str>)| {
        let [torque, unit] = if limits_torque { [", torque = 2.0", ", N·m"] } else { [""; 2] };
        format!(
            "warning: {} without {}: the supervisor limits only what the file limits\n  for example `limits = {{ position = \
             [-1.5, 1.5], velocity = 5.0{torque} }}` (rad, rad/s{unit}); begin small",
            some(&servos),
            keys.join(", "),
        )
    };
    groups.into_iter().map(told).collect()
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
