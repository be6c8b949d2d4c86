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
