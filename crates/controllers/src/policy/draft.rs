//! What a model's file says of itself, as a section of a robot file.

use super::settings::Term;
use khz_policy::Model;
use std::fmt::Write;

/// How exporters call the terms.
const NAMES: &[(&str, Term)] = &[
    ("actions", Term::LastAction),
    ("last_action", Term::LastAction),
    ("joint_pos", Term::JointPos),
    ("joint_pos_rel", Term::JointPos),
    ("dof_pos", Term::JointPos),
    ("joint_vel", Term::JointVel),
    ("joint_vel_rel", Term::JointVel),
    ("dof_vel", Term::JointVel),
    ("base_ang_vel", Term::BaseAngVel),
    ("ang_vel", Term::BaseAngVel),
    ("projected_gravity", Term::ProjectedGravity),
    ("gravity_vec", Term::ProjectedGravity),
    ("velocity_commands", Term::Command),
    ("commands", Term::Command),
    ("command", Term::Command),
    ("twist", Term::Command),
];

/// `[controller]` for a model in `file`, with what its metadata says (the keys of Isaac Lab's and mjlab's exporters), where each value is
/// from, and what has to be written by hand.
pub fn draft(model: &Model, file: &str, sha256: &str) -> String {
    let said = Said(model);
    let mut text =
        format!("[controller]\nname = \"policy\"\nmodel = {}\nsha256 = \"{sha256}\"\n", quoted(file));
    text.push_str("rate_hz = 50  # not in the model: 1 / (time step × decimation) of the training\n");
    let count = model.outputs()[0].shape.iter().product::<usize>();
    let joints = said.list("joint_names");
    let names: Vec<String> = joints.iter().map(|name| quoted(name)).collect();
    said.line(
        &mut text,
        "joints",
        &names,
        "joint_names",
        &format!("the {count} joints by the names of your servos"),
    );
    said.line(
        &mut text,
        "default",
        &said.numbers("default_joint_pos"),
        "default_joint_pos",
        "the default posture, rad",
    );
    said.observe(&mut text);
    text.push_str("\n[controller.action]\n");
    said.line(&mut text, "scale", &said.numbers("action_scale"), "action_scale", "the scale of actions, rad");
    for (key, of_servo) in [("joint_stiffness", "kp"), ("joint_damping", "kd")] {
        let numbers = said.numbers(key);
        if !numbers.is_empty() {
            let _ = writeln!(
                text,
                "# {key} of the model: set `{of_servo}` of the servos to {}",
                numbers.join(", ")
            );
        }
    }
    text
}

struct Said<'a>(&'a Model);

impl Said<'_> {
    /// What is between the commas; nothing if there is no such key.
    fn list(&self, key: &str) -> Vec<&str> {
        let found = self.0.metadata().iter().find(|(name, _)| name == key);
        found
            .map(|(_, value)| value.split(',').map(str::trim).filter(|part| !part.is_empty()).collect())
            .unwrap_or_default()
    }

    /// The same, if all of it are finite numbers.
    fn numbers(&self, key: &str) -> Vec<String> {
        let number = |part: &&str| {
            part.parse().ok().filter(|number: &f64| number.is_finite()).map(|number| number.to_string())
        };
        self.list(key).iter().map(number).collect::<Option<_>>().unwrap_or_default()
    }

    fn line(&self, text: &mut String, key: &str, values: &[String], from: &str, wanted: &str) {
        let note = if values.is_empty() {
            format!("not in the model: {wanted}")
        } else {
            format!("the model's {from}")
        };
        let _ = writeln!(text, "{key} = [{}]  # {note}", values.join(", "));
    }

    fn observe(&self, text: &mut String) {
        let (names, lengths) = (self.list("observation_names"), self.numbers("observation_history_lengths"));
        if names.is_empty() {
            let numbers = self.0.inputs()[0].shape.iter().product::<usize>();
            let _ = writeln!(
                text,
                "\n# not in the model: the terms of its {numbers} numbers, one table each, in order\n[[controller.observe]]\nterm = \"constant\""
            );
        }
        for (place, name) in names.iter().enumerate() {
            match NAMES.iter().find(|(known, _)| known == name) {
                Some((_, term)) => {
                    let _ = writeln!(
                        text,
                        "\n[[controller.observe]]\nterm = \"{term}\"  # the model's {}; its clip and scale are not in the model",
                        quoted(name)
                    );
                }
                None => {
                    let _ = writeln!(
                        text,
                        "\n# the model's {}: no term is known by this name\n[[controller.observe]]\nterm = \"constant\"",
                        quoted(name)
                    );
                }
            }
            if let Some(length) = lengths
                .get(place)
                .and_then(|length| length.parse::<f64>().ok())
                .filter(|length| *length > 1.0)
            {
                let _ = writeln!(text, "history = {length}");
            }
        }
    }
}

/// As text of a TOML file, on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            control if control.is_control() => drop(write!(quoted, "\\u{:04x}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted + "\""
}
