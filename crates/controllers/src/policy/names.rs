//! How trainers call the terms where a robot file has another word.

use super::settings::Term;

const NAMES: &[(&str, Term)] = &[
    ("actions", Term::LastAction),
    ("joint_pos_rel", Term::JointPos),
    ("dof_pos", Term::JointPos),
    ("joint_vel_rel", Term::JointVel),
    ("dof_vel", Term::JointVel),
    ("ang_vel", Term::BaseAngVel),
    ("gravity_vec", Term::ProjectedGravity),
    ("velocity_commands", Term::Command),
    ("keyboard_velocity_commands", Term::Command),
    ("commands", Term::Command),
    ("twist", Term::Command),
    ("joint_effort", Term::JointTorque),
    ("gait_phase", Term::Phase),
    ("phase", Term::Phase),
];

/// The term with this name in a trainer's file or a robot file, except those that need numbers or names of their own.
pub fn known_term(name: &str) -> Option<Term> {
    let known = NAMES.iter().find(|(known, _)| *known == name).map(|(_, term)| *term);
    let alone = |term: &Term| !matches!(term, Term::Constant | Term::Signal | Term::Contact);
    known.or_else(|| name.parse().ok().filter(alone))
}

/// A servo has the name that a trainer gives a joint: but for its case, `_joint` at its end, and what no robot file takes.
#[must_use]
pub fn is_called(servo: &str, joint: &str) -> bool {
    let plain = |name: &str| {
        let part = |char: char| if char.is_ascii_alphanumeric() { char.to_ascii_lowercase() } else { '_' };
        let mut name: String = name.chars().map(part).collect();
        if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            name.insert_str(0, "joint_");
        }
        name.strip_suffix("_joint").map_or(name.clone(), str::to_owned)
    };
    plain(servo) == plain(joint)
}
