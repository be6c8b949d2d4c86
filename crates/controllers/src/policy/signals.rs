//! What programs outside of the run send to a policy: live parameters whose age counts.

use super::settings::ObserveConfig;
use khz_loop::controller::ControlError;
use khz_loop::parameters::Parameter;
use khz_loop::state::{MOST_SIGNALS, RobotState};

/// As far as a signal goes.
const MOST: f64 = 1e9;

/// Names of the signals of all terms, each once, in the order in which they are first named.
pub(super) fn names(terms: &[ObserveConfig]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for name in terms.iter().flat_map(|term| &term.signals) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// The parameters that programs set.
pub(super) fn parameters(terms: &[ObserveConfig]) -> Vec<Parameter> {
    let one = |name: &str| {
        Parameter::float(name, 0.0, -MOST..=MOST).about("What the policy is told, again and again").signal()
    };
    names(terms).into_iter().map(one).collect()
}

/// The places of a term's signals in a state.
///
/// # Errors
/// There are more than a state has.
pub(super) fn places(term: &ObserveConfig, terms: &[ObserveConfig]) -> Result<Vec<usize>, ControlError> {
    let names = names(terms);
    if names.len() > MOST_SIGNALS {
        let text = format!("its terms have {} signals; there is room for {MOST_SIGNALS}", names.len());
        return Err(ControlError(text.into()));
    }
    Ok(term.signals.iter().filter_map(|signal| names.iter().position(|name| name == signal)).collect())
}

/// The signals of a term are there, and not too old.
///
/// # Errors
/// One is not; the text names it.
pub(super) fn fresh(term: &ObserveConfig, places: &[usize], state: &RobotState) -> Result<(), ControlError> {
    let most = (term.max_age_s / state.dt()).round() as u64;
    for (name, &place) in term.signals.iter().zip(places) {
        let text = match state.signals[place].tick {
            Some(tick) if state.tick.saturating_sub(tick) <= most => continue,
            Some(tick) => {
                let age_s = state.tick.saturating_sub(tick) as f64 * state.dt();
                let most_s = term.max_age_s;
                format!(
                    "its signal `{name}` is {age_s:.3} s old, and may be {most_s} s (`max_age_s`): who sends it is silent"
                )
            }
            None => format!("its signal `{name}` was never set: start the program that sends it first"),
        };
        return Err(ControlError(text.into()));
    }
    Ok(())
}
