//! RobStride and the CyberGear in a robot file.

use super::{Facts, InFile, mit, written};
use crate::config::{RobotConfig, ServoConfig, ServoSettings};
use khz_emu::FamilyConfig;
use khz_emu::robstride::Setup;
use khz_servo::robstride::RobstrideSettings;
use khz_servo::{Family, robstride};
use khz_settings::{Problem, Reader};

pub(super) struct Robstride;

const TORQUE_LIMIT: &str =
    "the motor's own limit is its parameter 0x700B (`limit_torque`), which is read at the start";

const FACTS: Facts = Facts {
    own_keys: &["robstride"],
    tables: &[("`robstride` of a servo", RobstrideSettings::ABOUT, RobstrideSettings::KEYS)],
    example: "model = \"RS02\"",
    factory_bit_rate: Some(1_000_000),
    within_turn: true,
    ..mit::FACTS
};

impl InFile for Robstride {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn family(&self, servo: &ServoSettings) -> Family {
        Family::Robstride(robstride::Settings::of(&servo.robstride))
    }

    fn gains(&self, servo: &ServoSettings) -> [f64; 2] {
        [servo.robstride.kp, servo.robstride.kd]
    }

    fn damping<'a>(&self, servo: &'a mut ServoSettings) -> Option<&'a mut f64> {
        Some(&mut servo.robstride.damping)
    }

    fn model(&self, servo: &ServoSettings) -> Option<&'static str> {
        servo.robstride.model.map(robstride::Model::word)
    }

    fn speaks_fd(&self, _: &ServoSettings) -> bool {
        false
    }

    fn derates(&self, _: &ServoSettings) -> bool {
        false
    }

    fn twin(&self, servo: &ServoConfig) -> FamilyConfig {
        let settings = robstride::Settings::of(&servo.robstride);
        let ([position, velocity, torque], [kp_most, kd_most]) = (settings.drive.ranges, settings.drive.most);
        let usual = Setup::default();
        FamilyConfig::Robstride(Setup {
            cybergear: settings.cybergear,
            position,
            velocity,
            torque,
            torque_limit: settings.torque_limits[0].min(torque),
            kp_most,
            kd_most,
            fault_c: servo.device.fault_temperature,
            // Set up as in docs/servos.md: a joint may start below 0.
            centred: true,
            version: match servo.robstride.model {
                Some(robstride::Model::Rs00) => [0, 0, 3, 32],
                Some(robstride::Model::Rs03) => [0, 3, 1, 42],
                _ => usual.version,
            },
            ..usual
        })
    }

    fn check(&self, robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
        check_own(robot, i, servo, reader);
        let drive = robstride::Settings::of(&servo.robstride).drive;
        mit::check(robot, i, servo, &mit::Mit::of(drive, TORQUE_LIMIT), reader);
    }
}

/// Sources differ on the ranges of some models, and no servo reports them.
fn check_own(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    mit::check_model(i, servo, "RS02", reader);
    let file = &servo.robstride;
    // What the ranges are is not known of a model that is none: one cause, one message.
    if reader.problems.iter().any(|problem| problem.key.ends_with("robstride.model")) {
        return;
    }
    let Some(model) = file.model else { return };
    let facts = model.facts();
    let ranges = [
        ("velocity_range", file.velocity_range, facts.velocity, "rad/s"),
        ("torque_range", file.torque_range, facts.torque, "N·m"),
    ];
    for (key, written_range, [manual, package], unit) in ranges {
        let key = format!("robstride.{key}");
        if written_range.is_some() || manual == package {
            continue;
        }
        let Some(span) = written(i, "robstride.model", reader) else { continue };
        let title = format!("sources differ on what its codes mean: {manual} or {package} {unit}");
        let measured =
            if model == robstride::Model::Rs03 { "; five of them were measured at 20 rad/s" } else { "" };
        let problem = Problem::error(format!("servo[{i}].{key}"), title)
            .at(span, format!("a {model}: {manual} by its manual, {package} by its maker's Python package{measured}"))
            .help(format!(
                "write `{key} = {manual}`, move the joint by hand, and compare its velocity with its positions; `khz run` stops if \
                 they do not fit"
            ));
        reader.problems.push(problem);
    }
    if file.unwatched
        && model != robstride::Model::CyberGear
        && let Some(span) = written(i, "robstride.unwatched", reader)
    {
        let problem =
            Problem::error(format!("servo[{i}].robstride.unwatched"), "this key is for a CyberGear")
                .at(span, format!("the watchdog of an {model} is always set"))
                .help("remove it");
        reader.problems.push(problem);
    }
    mit::warn_of_unwatched(i, servo, file.unwatched, "robstride.unwatched", reader);
    check_known_ranges(i, &ranges, reader);
    check_position_range(i, file.position_range, reader);
    check_host_id(robot, i, servo, reader);
}

/// Positions of all models travel within two turns either way; old firmware has a little less.
fn check_position_range(i: usize, range: Option<f64>, reader: &mut Reader) {
    if let Some(range) = range.filter(|range| !(12.4..12.6).contains(range))
        && let Some(span) = written(i, "robstride.position_range", reader)
    {
        let title = format!("no source has a range of {range} rad");
        let problem = Problem::warning(format!("servo[{i}].robstride.position_range"), title)
            .at(span, "every position would be wrong by that factor")
            .help("leave it out; firmware before 0.0.2.6 has 12.5");
        reader.problems.push(problem);
    }
}

/// A range that no source has for the model.
fn check_known_ranges(i: usize, ranges: &[(&str, Option<f64>, [f64; 2], &str)], reader: &mut Reader) {
    let wrong = ranges.iter().filter_map(|(key, written_range, known, unit)| {
        let is_known = |range: f64| known.iter().any(|known| (known - range).abs() < 0.01 * known);
        let range = written_range.filter(|range| !is_known(*range))?;
        let span = written(i, &format!("robstride.{key}"), reader)?;
        Some((*key, span, format!("{range} {unit}"), format!("`{key} = {}`", known[0])))
    });
    let wrong: Vec<_> = wrong.collect();
    let Some((key, ..)) = wrong.first() else { return };
    // Two that are wrong have one cause: another model.
    let title = format!(
        "no source has a range of {} for this model",
        wrong.iter().map(|(_, _, range, _)| range.as_str()).collect::<Vec<_>>().join(" and of ")
    );
    let known = wrong.iter().map(|(_, _, _, known)| known.as_str()).collect::<Vec<_>>().join(" and ");
    let other = if wrong.len() > 1 { "; or is it another `robstride.model`?" } else { "" };
    let mut problem = Problem::warning(format!("servo[{i}].robstride.{key}"), title)
        .help(format!("write {known}, unless you have measured it{other}"));
    for (_, span, ..) in &wrong {
        problem = problem.at(span.clone(), "every code would be wrong by that factor");
    }
    reader.problems.push(problem);
}

/// Answers go to the id of the host that asked last.
fn check_host_id(robot: &RobotConfig, i: usize, servo: &ServoConfig, reader: &mut Reader) {
    let host = servo.robstride.host_id;
    let Some(span) = written(i, "robstride.host_id", reader).or_else(|| written(i, "id", reader)) else {
        return;
    };
    let mut beside =
        robot.servos.iter().filter(|other| (other.bus, other.family) == (servo.bus, servo.family));
    let place = format!("servo[{i}].robstride.host_id");
    if let Some(other) = beside.clone().find(|other| other.id == host) {
        let problem = Problem::error(place, format!("`{}` has this id", other.name))
            .at(span, "this computer's id on the bus")
            .help("leave it out: 253 is no servo's");
        reader.problems.push(problem);
    } else if let Some(other) = beside.find(|other| other.robstride.host_id != host) {
        let problem = Problem::error(place, "one computer has one id on a bus")
            .at(span, format!("{host}, and for `{}` {}", other.name, other.robstride.host_id))
            .help("write it in `[servo_defaults]`, or leave it out");
        reader.problems.push(problem);
    }
}

#[cfg(test)]
mod tests {
    use crate::RobotConfig;

    fn warnings_of(keys: &str) -> String {
        let text = format!(
            "[bus.main]\nlink = \"emulated\"\nwire = \"can\"\n[[servo]]\nname = \"knee\"\nbus = \"main\"\nid = 1\nfamily = \"robstride\"\n\
             robstride = {{ {keys} }}\nlimits = {{ position = [-1.0, 1.0], velocity = 2.0 }}\n[loop]\nrate_hz = 200\n"
        );
        match RobotConfig::parse(&text, "knee.toml") {
            Ok(robot) => robot.warnings.join("\n"),
            Err(error) => error.to_string(),
        }
    }

    /// A model that is none brought warnings of the ranges with it, and another model one of each range.
    #[test]
    fn a_wrong_model_is_one_message() {
        let unknown = warnings_of("model = \"RS09\", velocity_range = 44, torque_range = 17");
        assert!(unknown.contains("must be one of") && !unknown.contains("no source has"), "{unknown}");
        let other = warnings_of("model = \"RS03\", velocity_range = 44, torque_range = 17");
        assert_eq!(other.matches("warning: no source has").count(), 1, "{other}");
        assert!(
            other.contains("44 rad/s and of 17 N·m") && other.contains("another `robstride.model`"),
            "{other}"
        );
        assert!(
            !warnings_of("model = \"RS02\", velocity_range = 44, torque_range = 17")
                .contains("no source has")
        );
    }
}
