//! Several plans compared: all combinations of some choices, measured in turns so that whatever disturbs the
//! machine disturbs all of them.

use super::load::Load;
use super::measure::{Experiment, JitterError, Watch};
use super::plan::{Plan, Work};
use khz_rt::{Policy, Wake};
use std::str::FromStr;
use std::sync::atomic::Ordering;

/// The choices of a matrix; an axis without choices keeps the plan's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Axes {
    policies: Vec<Policy>,
    wakes: Vec<Wake>,
    loads: Vec<Load>,
    works: Vec<Work>,
}

/// The matrix of the periodic-thread assignment: ordinary against real-time, idle and under two loads.
pub const ASSIGNMENT: &str = "policy=other|fifo;load=none|cpu=4,mem=2|cpu=4,mem=6";

impl Axes {
    /// Every combination, the loads outermost: neighbours differ in what the thread is.
    #[must_use]
    pub fn plans(&self, base: &Plan) -> Vec<Plan> {
        let mut plans = vec![base.clone()];
        plans = spread(&plans, &self.loads, |plan, load| plan.load = load);
        plans = spread(&plans, &self.works, |plan, work| plan.work = work);
        plans = spread(&plans, &self.policies, |plan, policy| plan.policy = policy);
        spread(&plans, &self.wakes, |plan, wake| plan.wake = wake)
    }
}

fn spread<T: Clone>(plans: &[Plan], choices: &[T], set: impl Fn(&mut Plan, T)) -> Vec<Plan> {
    if choices.is_empty() {
        return plans.to_vec();
    }
    let chosen = |plan: &Plan, choice: &T| {
        let mut plan = plan.clone();
        set(&mut plan, choice.clone());
        plan
    };
    plans.iter().flat_map(|plan| choices.iter().map(move |choice| chosen(plan, choice))).collect()
}

impl FromStr for Axes {
    type Err = String;

    fn from_str(text: &str) -> Result<Axes, String> {
        let mut axes = Axes::default();
        for axis in text.split(';') {
            let (name, choices) = axis.split_once('=').ok_or_else(|| {
                format!("no axis `{axis}`: write \"{ASSIGNMENT}\"; axes are policy, wake, load and work")
            })?;
            match name.trim() {
                "policy" => axes.policies = parse(choices)?,
                "wake" => axes.wakes = parse(choices)?,
                "load" => axes.loads = parse(choices)?,
                "work" => axes.works = parse(choices)?,
                name => return Err(format!("no axis `{name}`: use policy, wake, load or work")),
            }
        }
        Ok(axes)
    }
}

fn parse<T: FromStr<Err = String>>(choices: &str) -> Result<Vec<T>, String> {
    choices.split('|').map(|choice| choice.trim().parse()).collect()
}

/// Measures all experiments in `rounds` turns, forwards and backwards, until done or stopped.
///
/// # Errors
/// As [`Experiment::measure`].
pub fn measure_in_turns(
    experiments: &mut [Experiment],
    rounds: u64,
    worker: &[String],
    watch: &Watch,
) -> Result<(), JitterError> {
    for round in 0..rounds {
        let count = experiments.len();
        for turn in 0..count {
            let experiment = &mut experiments[if round % 2 == 0 { turn } else { count - 1 - turn }];
            let ticks = share(experiment.plan().ticks, rounds, round);
            if ticks > 0 && !watch.stop.load(Ordering::Relaxed) {
                experiment.measure(ticks, worker, watch)?;
            }
        }
    }
    Ok(())
}

/// How many of `total` ticks fall to a round, so that all rounds together have exactly `total`.
fn share(total: u64, rounds: u64, round: u64) -> u64 {
    let upto = |rounds_done: u64| (u128::from(total) * u128::from(rounds_done) / u128::from(rounds)) as u64;
    upto(round + 1) - upto(round)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_assignment_has_six_plans_with_ordinary_and_real_time_side_by_side() {
        let plans = ASSIGNMENT.parse::<Axes>().unwrap().plans(&Plan { wake: Wake::Sleep, ..Plan::default() });
        let names: Vec<String> = plans.iter().map(Plan::name).collect();
        assert_eq!(
            names,
            [
                "ordinary, sleep, idle",
                "fifo 80, sleep, idle",
                "ordinary, sleep, cpu=4,mem=2",
                "fifo 80, sleep, cpu=4,mem=2",
                "ordinary, sleep, cpu=4,mem=6",
                "fifo 80, sleep, cpu=4,mem=6",
            ]
        );
    }

    #[test]
    fn wrong_axes_are_named() {
        for (bad, word) in [
            ("", "policy"),
            ("cpu=1", "`cpu`"),
            ("policy=rt", "`rt`"),
            ("load=none|x", "`x`"),
            ("wake", "`wake`"),
        ] {
            let error = bad.parse::<Axes>().unwrap_err();
            assert!(error.contains(word), "{bad}: {error}");
        }
    }

    #[test]
    fn rounds_share_all_ticks() {
        for (total, rounds) in [(10_000, 5), (7, 5), (3, 5), (1, 1)] {
            assert_eq!((0..rounds).map(|round| share(total, rounds, round)).sum::<u64>(), total);
        }
    }
}
