//! What the exporter wrote into the model about its joints, and what the robot file says of them.

use super::names::{is_called, known_term};
use super::observation::one_or_each;
use super::settings::{PolicyConfig, Term};

/// Exporters round to three decimals: what differs by no more is the same.
const ROUNDED: f64 = 0.0005;

/// The same number but for what exporters round.
#[must_use]
pub fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() <= ROUNDED + 1e-6 * one.abs()
}

/// The entries of a list in an ONNX file's metadata.
pub fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// Checks that the file does not contradict the model. What the exporter did not write, or not as numbers, is not compared.
///
/// # Errors
/// The first list that differs, as the model has it and as the file has it.
pub(super) fn agree(metadata: &[(String, String)], config: &PolicyConfig) -> Result<(), String> {
    let list = |key: &str| {
        let (_, text) = metadata.iter().find(|(known, _)| known == key)?;
        let list: Vec<&str> = entries(text).collect();
        Some(list).filter(|list| !list.is_empty())
    };
    if let Some(names) = list("joint_names") {
        joints(&names, config)?;
    }
    let names = list("observation_names").unwrap_or_default();
    terms(&names, config)?;
    let lengths = list("observation_history_lengths").unwrap_or_default();
    let lengths: Option<Vec<u32>> = lengths.iter().map(|length| length.parse().ok()).collect();
    histories(&names, &lengths.unwrap_or_default(), config)?;
    let action = &config.action;
    for (key, called, mine) in [
        ("default_joint_pos", "default", &config.default),
        ("action_scale", "action.scale", &action.scale),
        ("joint_stiffness", "action.kp", &action.kp),
        ("joint_damping", "action.kd", &action.kd),
    ] {
        let numbers = |list: Vec<&str>| list.iter().map(|number| number.parse().ok()).collect();
        let trained: Option<Vec<f64>> = list(key).and_then(numbers);
        // Without `action.kp` the gains are the servos'.
        let Some(trained) = trained.filter(|_| !mine.is_empty()) else { continue };
        let count = config.joints.len();
        let fits = trained.len() == 1 || trained.len() == count;
        let differs = |&joint: &usize| !is_same(*one_or_each(&trained, joint), *one_or_each(mine, joint));
        let whose = match (0..count).find(differs).filter(|_| fits) {
            Some(joint) => format!("differ for the joint `{}`", config.joints[joint]),
            None if fits => continue,
            None => format!("differ in length for {count} joints"),
        };
        return Err(format!(
            "`{called}` and the model's `{key}` {whose}: the file has {mine:?}, the model {trained:?}; write the model's, or export it \
             with what is meant"
        ));
    }
    Ok(())
}

/// It may stand for any term of the training that a robot cannot observe itself: its value comes from a program, or is fixed.
fn stands_in(term: Term) -> bool {
    matches!(term, Term::Constant | Term::Signal | Term::Contact)
}

/// Terms by the names that are known here. Those of another number are compared only where none may be in place of several.
fn terms(trained: &[&str], config: &PolicyConfig) -> Result<(), String> {
    let mine: Vec<Term> = config.observe.iter().map(|term| term.term).collect();
    let known: Vec<Option<Term>> = trained.iter().map(|name| known_term(name)).collect();
    let differs = |(place, known): (usize, &Option<Term>)| {
        known.is_some_and(|known| known != mine[place] && !stands_in(mine[place]))
    };
    let whose = if trained.is_empty() {
        return Ok(());
    } else if trained.len() == mine.len() {
        let Some(place) = known.iter().enumerate().position(differs) else { return Ok(()) };
        format!("differ in place {place}")
    } else if known.contains(&None) || mine.iter().any(|&term| stands_in(term)) {
        return Ok(());
    } else {
        "differ in length".to_owned()
    };
    let mine: Vec<&str> = mine.iter().map(|term| term.word()).collect();
    Err(format!(
        "`observe` and the model's `observation_names` {whose}: the file has {mine:?}, the model {trained:?}; write the terms in the model's \
         order"
    ))
}

/// How many values each term has, where the model names as many terms as the file.
fn histories(names: &[&str], trained: &[u32], config: &PolicyConfig) -> Result<(), String> {
    let observe = &config.observe;
    if trained.len() != observe.len() || !names.is_empty() && names.len() != observe.len() {
        return Ok(());
    }
    // Trainers write 0 for none, which is 1 value; a constant has them all in one.
    let differs = |place: &usize| {
        observe[*place].term != Term::Constant && observe[*place].history != trained[*place].max(1)
    };
    let Some(place) = (0..observe.len()).find(differs) else { return Ok(()) };
    let (term, mine, trained) = (observe[place].term, observe[place].history, trained[place].max(1));
    Err(format!(
        "`history` of the term `{term}` (place {place}) and the model's `observation_history_lengths` differ: the file has {mine}, the model \
         {trained}; write the model's"
    ))
}

/// A name that is another servo's is a joint in the wrong place; one that is no servo's may be what the training calls it.
fn joints(trained: &[&str], config: &PolicyConfig) -> Result<(), String> {
    let mine = &config.joints;
    let belongs = |(place, name): (usize, &&str)| {
        let wanted = mine
            .iter()
            .position(|servo| servo == name)
            .or_else(|| mine.iter().position(|servo| is_called(servo, name)));
        wanted.is_none_or(|wanted| wanted == place)
    };
    let wrong = trained.iter().enumerate().position(|joint| !belongs((joint.0, joint.1)));
    let whose = match wrong {
        _ if trained.len() != mine.len() => "differ in length".to_owned(),
        Some(place) => format!("differ in place {place}"),
        None => return Ok(()),
    };
    Err(format!(
        "`joints` and the model's `joint_names` {whose}: the file has {mine:?}, the model {trained:?}; write `joints`, and every list \
         of joints, in the model's order"
    ))
}
