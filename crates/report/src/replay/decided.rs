//! Decisions of a policy made once more, compared with the recorded ones bit by bit.

use super::recorded::Named;
use khz_run::record::{Decision, Policy};
use serde::Serialize;
use std::collections::VecDeque;

/// How far apart the numbers of two engines may be, of the largest number of an action, or of 1.
pub const APART: f64 = 1e-4;

/// How a policy decided on the recorded states.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Decisions {
    /// Decisions in the log.
    pub recorded: u64,
    /// Those that were made again and compared.
    pub compared: u64,
    /// The first difference; what follows it is not compared.
    pub first: Option<DecisionApart>,
    /// SHA-256 of the model that ran and of the one that decides now, if they are not the same.
    pub models: Option<[String; 2]>,
    /// Who evaluated it then and who does now, if that is not Kilohertz both times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engines: Option<[Engine; 2]>,
    /// How far apart numbers may be, of the largest number of an action, or of 1: engines that do not repeat each other's bits; else nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
    /// The largest difference of an action, as the tolerance counts it.
    pub largest: f64,
}

/// Who evaluates a policy, and on what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Engine {
    /// Its name and version; empty: it is not in the log.
    pub name: String,
    /// The kind of CPU.
    pub cpu: String,
}

impl Engine {
    /// Kilohertz, in any version; older logs have no other.
    fn is_own(&self) -> bool {
        self.name.is_empty() || self.name.starts_with("own")
    }

    /// Whether this one and another have the same output for the same input, to the last bit.
    fn repeats(&self, other: &Self) -> bool {
        self.is_own() && other.is_own() || self == other && !self.cpu.is_empty()
    }
}

/// The first difference of two decisions.
#[derive(Clone, Debug, Serialize)]
pub struct DecisionApart {
    /// The number of the decision.
    pub decision: u64,
    /// The tick whose state it is of.
    pub tick: u64,
    /// What is different: `observation`, `action`, or `carried`, a hash of what the model carries to the next one.
    pub what: &'static str,
    /// The term or the joint; empty of what is carried.
    pub name: String,
    /// Which number of the term.
    pub element: usize,
    /// The log's, bit by bit; of what is too short, and of a robot file with other terms or joints, nothing.
    pub recorded: Option<u64>,
    /// The one made now.
    pub replayed: Option<u64>,
}

/// Compares them, one after another.
pub(super) struct Compared {
    left: VecDeque<Decision>,
    named: Named,
    outcome: Decisions,
}

impl Compared {
    /// `cpu` is the kind of this computer's.
    pub fn of(decisions: VecDeque<Decision>, named: Named, policy: &Policy, cpu: &str) -> Self {
        let is_another = !named.sha256.is_empty() && named.sha256 != policy.sha256;
        let models = is_another.then(|| [named.sha256.clone(), policy.sha256.clone()]);
        let recorded = decisions.len() as u64;
        let both = [named.engine.clone(), Engine { name: policy.engine.clone(), cpu: cpu.to_owned() }];
        let tolerance = (!both[0].repeats(&both[1])).then_some(APART);
        let engines = (!both.iter().all(Engine::is_own)).then_some(both);
        let outcome = Decisions { recorded, models, engines, tolerance, ..Decisions::default() };
        Self { left: decisions, named, outcome }
    }

    /// See [`Decisions::tolerance`].
    pub fn tolerance(&self) -> Option<f64> {
        self.outcome.tolerance
    }

    /// A decision that was made now. One of a tick that the log has no decision of is left out.
    pub fn compare(&mut self, replayed: &Decision) {
        while self.left.front().is_some_and(|recorded| recorded.of_tick < replayed.of_tick) {
            self.left.pop_front();
        }
        if self.left.front().is_none_or(|recorded| recorded.of_tick != replayed.of_tick) {
            return;
        }
        let Some(recorded) = self.left.pop_front() else { return };
        if self.outcome.first.is_some() {
            return;
        }
        self.outcome.compared += 1;
        let tolerance = self.outcome.tolerance.unwrap_or(0.0);
        self.outcome.first = apart(&recorded, replayed, &self.named, tolerance);
        let off = largest_off(&recorded.action.0, &replayed.action.0);
        self.outcome.largest = self.outcome.largest.max(off);
    }

    /// In this tick the run ended because a decision was late: the robot was damped, whatever the controller commanded.
    pub fn ended_in(&self, tick: u64) -> bool {
        self.named.lost_in.contains(&tick)
    }

    pub fn finish(self) -> Decisions {
        self.outcome
    }
}

/// The first number that is more than `tolerance` beside the recorded one. With one, what is carried is not compared: the log has its hash.
fn apart(recorded: &Decision, replayed: &Decision, named: &Named, tolerance: f64) -> Option<DecisionApart> {
    let at = |what, name: String, element, recorded_bits, replayed_bits| DecisionApart {
        decision: recorded.number,
        tick: recorded.of_tick,
        what,
        name,
        element,
        recorded: recorded_bits,
        replayed: replayed_bits,
    };
    let (seen, again) = (&recorded.observation.0, &replayed.observation.0);
    // What comes of the decisions before; everything else is of the recorded states.
    let is_fed_back = |place: usize| {
        let name = named.seen.get(place).map_or("", |(name, _)| name);
        ["last_action", "target"].iter().any(|term| name.starts_with(term))
    };
    if let Some((place, bits)) = differ(seen, again, |place| if is_fed_back(place) { tolerance } else { 0.0 })
    {
        let (name, element) = named.seen.get(place).cloned().unwrap_or_default();
        return Some(at("observation", name, element, bits[0], bits[1]));
    }
    let (action, again) = (&recorded.action.0, &replayed.action.0);
    if let Some((place, bits)) = differ(action, again, |_| tolerance) {
        let name = named.actions.get(place).cloned().unwrap_or_default();
        return Some(at("action", name, 0, bits[0], bits[1]));
    }
    let (carried, again) = (recorded.carried, replayed.carried);
    (carried != again && tolerance == 0.0)
        .then(|| at("carried", String::new(), 0, Some(carried), Some(again)))
}

/// The first place where two lists differ by more than the tolerance of that place, with the bits of both; without one, in a bit. What is no
/// number is the same, whatever its bits.
fn differ(
    recorded: &[f32],
    replayed: &[f32],
    tolerance: impl Fn(usize) -> f64,
) -> Option<(usize, [Option<u64>; 2])> {
    let most = largest(recorded);
    let same = |place: usize, a: f32, b: f32| {
        let is_near = || f64::from((a - b).abs()) <= tolerance(place) * most;
        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan() || tolerance(place) > 0.0 && is_near()
    };
    (0..recorded.len().max(replayed.len())).find_map(|place| {
        let both = [recorded, replayed].map(|list| list.get(place).copied());
        let is_same = matches!(both, [Some(a), Some(b)] if same(place, a, b));
        (!is_same).then(|| (place, both.map(|value| value.map(|value| value.to_bits().into()))))
    })
}

/// The largest number, or 1.
fn largest(of: &[f32]) -> f64 {
    of.iter().fold(1.0, |most, value| f64::from(value.abs()).max(most))
}

/// The largest difference of two lists, of the largest number.
fn largest_off(recorded: &[f32], replayed: &[f32]) -> f64 {
    let off = recorded.iter().zip(replayed).map(|(a, b)| f64::from((a - b).abs()));
    off.fold(0.0, f64::max) / largest(recorded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_run::record::Each;

    fn decision(number: u64, seen: &[f32], action: &[f32]) -> Decision {
        let (observation, action) = (Each(seen.to_vec()), Each(action.to_vec()));
        Decision { number, of_tick: number * 20, observation, action, ..Decision::default() }
    }

    fn compared(recorded: &[Decision], replayed: &[Decision]) -> Decisions {
        let seen = vec![("joint_pos".to_owned(), 0), ("joint_pos".to_owned(), 1)];
        let named = Named { sha256: "a".into(), seen, actions: vec!["hip".into()], ..Named::default() };
        compared_by(named, "own 0.1.0", recorded, replayed)
    }

    fn compared_by(named: Named, engine: &str, recorded: &[Decision], replayed: &[Decision]) -> Decisions {
        let policy = Policy { sha256: "a".into(), engine: engine.into(), ..Policy::default() };
        let mut compared = Compared::of(recorded.iter().cloned().collect(), named, &policy, "this CPU");
        replayed.iter().for_each(|decision| compared.compare(decision));
        compared.finish()
    }

    #[test]
    fn one_bit_is_found_with_its_place() {
        let same = [decision(1, &[0.5, f32::NAN], &[1.0]), decision(2, &[0.25, 0.5], &[-0.0])];
        let outcome = compared(&same, &same);
        assert_eq!((outcome.recorded, outcome.compared, outcome.first.is_none()), (2, 2, true));
        for (seen, action, what, name, element) in [
            ([0.25, f32::from_bits(0x3f00_0001)], [-0.0], "observation", "joint_pos", 1),
            ([0.25, 0.5], [0.0], "action", "hip", 0),
        ] {
            let again = [same[0].clone(), decision(2, &seen, &action)];
            let first = compared(&same, &again).first.expect("a difference");
            assert_eq!((first.decision, first.tick, first.what), (2, 40, what));
            assert_eq!((first.name.as_str(), first.element), (name, element));
        }
    }

    #[test]
    fn what_is_carried_counts_and_other_lengths_do() {
        let one = [decision(1, &[0.5], &[1.0])];
        let carried = [Decision { carried: 7, ..one[0].clone() }];
        assert_eq!(compared(&one, &carried).first.map(|first| first.what), Some("carried"));
        let longer = [decision(1, &[0.5, 0.5], &[1.0])];
        let first = compared(&one, &longer).first.expect("a difference");
        assert_eq!((first.recorded, first.replayed), (None, Some(0x3f00_0000)));
    }

    #[test]
    fn decisions_of_which_the_log_lacks_the_other_are_left_out() {
        let all: Vec<Decision> = (1..5).map(|number| decision(number, &[0.5, 0.5], &[1.0])).collect();
        let outcome = compared(&all, &all[2..]);
        assert_eq!((outcome.recorded, outcome.compared, outcome.first.is_none()), (4, 2, true));
    }

    #[test]
    fn engines_that_do_not_repeat_bits_are_compared_within_what_is_reported() {
        let seen = vec![("joint_pos".to_owned(), 0), ("last_action".to_owned(), 0)];
        let by = |name: &str, cpu: &str| Named {
            seen: seen.clone(),
            engine: Engine { name: name.into(), cpu: cpu.into() },
            ..Named::default()
        };
        let recorded = [Decision { carried: 7, ..decision(1, &[0.5, 0.25], &[4.0]) }];
        let near = [decision(1, &[0.5, 0.250_05], &[4.000_3])];
        let far = [decision(1, &[0.5, 0.25], &[4.001])];
        let seen_otherwise = [decision(1, &[0.500_01, 0.25], &[4.0])];
        let [old, new] = ["onnxruntime 1.20.1", "onnxruntime 1.32.0"];
        for (then, cpu, now) in [
            (old, "this CPU", new),
            (new, "another CPU", new),
            (new, "", new),
            ("own 0.1.0", "this CPU", new),
            (new, "this CPU", "own 0.1.0"),
        ] {
            let outcome = |again: &[Decision]| compared_by(by(then, cpu), now, &recorded, again);
            let compared = outcome(&near);
            assert_eq!(
                (compared.tolerance, compared.first.is_none()),
                (Some(APART), true),
                "{then} {cpu} {now}"
            );
            assert!(compared.largest > 7e-5 && compared.largest < 8e-5 && compared.engines.is_some());
            assert_eq!(outcome(&far).first.map(|first| first.what), Some("action"));
            assert_eq!(outcome(&seen_otherwise).first.map(|first| first.what), Some("observation"));
        }
        for (then, cpu, now) in
            [(new, "this CPU", new), ("own 0.1.0", "another CPU", "own 9.0"), ("", "", "own 0.1.0")]
        {
            let compared = compared_by(by(then, cpu), now, &recorded, &near);
            assert_eq!((compared.tolerance, compared.first.is_some()), (None, true), "{then} {cpu} {now}");
            assert_eq!(compared.engines.is_some(), now == new);
        }
    }
}
