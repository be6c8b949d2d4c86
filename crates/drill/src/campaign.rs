//! Thousands of runs with faults drawn at random, and what must hold in every one of them.
//!
//! A fleet of robots, their controllers, formats and rates are drawn too. Checked on every step, on the wires, at the
//! emulated servos and on the joints they move: what [`Invariant`] lists. The tolerances are in `docs/safety.md`.

use super::defect::{Defect, Sound};
use super::fleet::Fleet;
use super::run::{Verdict, run};
use super::scenario::Scenario;
use super::violation::{Invariant, Violated};
use khz_emu::ConfigError;
use khz_loop::supervisor::Cause;
use khz_page::{Level, counted, grouped};
use serde::Serialize;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;

/// What came of the whole campaign.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Campaign {
    /// Runs.
    pub scenarios: u64,
    /// Seed of the first; the others follow.
    pub seed: u64,
    /// Runs in which something did not hold.
    pub violations: Vec<Violation>,
    /// Runs in which the robot left control because of a fault.
    pub brought_down: u64,
    /// Runs in which the robot came under control.
    pub armed: u64,
    /// Runs that went on after a stall in which servos had timed out.
    pub recovered: u64,
    /// By what was drawn: robots, controllers, and faults.
    pub drawn: BTreeMap<String, Count>,
    /// Runs by what did not hold.
    pub broken: BTreeMap<Invariant, u64>,
    /// From a fault on the wire to the last servo's damping command, µs, over the runs in which nothing else keeps frames or ticks back.
    pub reaction_us: Option<Reaction>,
    /// Highest speed at which a joint was driven, as a share of what is allowed to it.
    pub peak_speed: f64,
}

/// How often something was drawn, and what came of it.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Count {
    /// Runs with it.
    pub runs: u64,
    /// Of these, runs in which the robot came under control.
    pub armed: u64,
    /// Of these, runs in which the robot left control because of a fault.
    pub brought_down: u64,
    /// Of these, runs in which something did not hold.
    pub violations: u64,
}

/// Percentiles.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reaction {
    /// How many.
    pub count: usize,
    /// Median.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// The longest.
    pub max: f64,
    /// What is allowed to the slowest robot: one tick plus the bus cycle.
    pub allowed: f64,
}

/// Something that did not hold.
#[derive(Clone, Debug, Serialize)]
pub struct Violation {
    /// Replays it: `khz drill campaign [ROBOT] --scenarios 1 --seed SEED`, with the robot file of this campaign.
    pub seed: u64,
    /// What happened in it.
    pub scenario: String,
    /// What did not hold.
    pub invariant: Invariant,
    /// How.
    pub what: String,
}

impl Campaign {
    /// The verdict: whether everything that must hold did, and what most often did not.
    #[must_use]
    pub fn verdict(&self) -> khz_page::Verdict {
        let runs = counted(self.scenarios, "scenario");
        let (held, violated) = (self.violations.is_empty(), self.violations.len() as u64);
        let most = self.broken.iter().max_by_key(|(_, count)| **count);
        let verdict = khz_page::Verdict {
            level: if held { Level::Good } else { Level::Bad },
            held,
            headline: if held { "everything held".into() } else { counted(violated, "violation") },
            cause: most.map(|(invariant, count)| format!("of `{invariant}` ({} runs)", grouped(*count))),
            remedy: (!held).then(|| "repeat each with the command that is printed with it".into()),
            ..khz_page::Verdict::default()
        };
        verdict.sentence(&match held {
            true => format!(
                "everything held in {runs}: {} came under control, {} were brought down by an injected fault",
                grouped(self.armed),
                grouped(self.brought_down)
            ),
            false => format!("{} in {runs}", counted(violated, "violation")),
        })
    }
}

/// Runs `scenarios` scenarios with the seeds `seed`, `seed + 1`, …, on all CPUs.
///
/// # Errors
/// If a robot of the fleet cannot be emulated.
pub fn campaign(fleet: &Fleet, scenarios: u64, seed: u64) -> Result<Campaign, ConfigError> {
    runs(fleet, scenarios, seed, &Sound, &AtomicU64::new(0))
}

/// As [`campaign`]; `begun` counts the scenarios that were begun.
///
/// # Errors
/// As [`campaign`].
pub fn campaign_watched(
    fleet: &Fleet,
    scenarios: u64,
    seed: u64,
    begun: &AtomicU64,
) -> Result<Campaign, ConfigError> {
    runs(fleet, scenarios, seed, &Sound, begun)
}

/// The first robot that does not come under control although nothing goes wrong, and why: a campaign with it would show
/// nothing. It is in order otherwise, and can be emulated.
pub fn idle(fleet: &Fleet) -> Option<String> {
    (0..fleet.members.len()).find_map(|robot| {
        let scenario = Scenario::undisturbed(robot, fleet);
        let verdict = run_caught(fleet, &scenario, &Sound);
        let last = verdict.last.map_or("the run ended at once".to_owned(), |cause| cause.to_string());
        let is_explained = verdict.last.is_none_or(Cause::is_trouble);
        let why = verdict.violated.filter(|_| !is_explained).map_or(last, |violated| violated.what);
        (!verdict.armed)
            .then(|| format!("{} does not come under control with nothing broken: {why}", scenario.robot.1))
    })
}

/// As [`campaign`], with a defect planted.
///
/// # Errors
/// As [`campaign`].
#[doc(hidden)]
pub fn campaign_with(
    fleet: &Fleet,
    scenarios: u64,
    seed: u64,
    defect: &dyn Defect,
) -> Result<Campaign, ConfigError> {
    runs(fleet, scenarios, seed, defect, &AtomicU64::new(0))
}

fn runs(
    fleet: &Fleet,
    scenarios: u64,
    seed: u64,
    defect: &dyn Defect,
    begun: &AtomicU64,
) -> Result<Campaign, ConfigError> {
    fleet.emulate()?;
    let work = || {
        let mut results = Vec::new();
        loop {
            let index = begun.fetch_add(1, Ordering::Relaxed);
            if index >= scenarios {
                return results;
            }
            let scenario = Scenario::draw(seed.wrapping_add(index), fleet);
            results.push((run_caught(fleet, &scenario, defect), scenario));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let results = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        // What draws a scenario has no right to panic: without its results everything would seem to have held.
        let results =
            |handle: ScopedJoinHandle<'_, Vec<_>>| handle.join().unwrap_or_else(|panic| resume_unwind(panic));
        handles.into_iter().flat_map(results).collect::<Vec<_>>()
    });
    Ok(summary(scenarios, seed, results))
}

/// A run that panics is a bug, and one violation more.
pub(super) fn run_caught(fleet: &Fleet, scenario: &Scenario, defect: &dyn Defect) -> Verdict {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(fleet, scenario, defect)));
    caught.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
        let violated = Violated { invariant: Invariant::Panics, what: format!("a run panicked: {text}") };
        Verdict { violated: Some(violated), ..Verdict::default() }
    })
}

fn summary(scenarios: u64, seed: u64, results: Vec<(Verdict, Scenario)>) -> Campaign {
    let mut campaign = Campaign { scenarios, seed, ..Campaign::default() };
    let (mut reactions, mut allowed_ns) = (Vec::new(), 0);
    for (verdict, scenario) in results {
        campaign.count(&verdict, &scenario);
        reactions.extend(verdict.reaction_ns);
        allowed_ns = allowed_ns.max(verdict.allowed_ns);
        if let Some(Violated { invariant, what }) = verdict.violated {
            *campaign.broken.entry(invariant).or_default() += 1;
            let (seed, scenario) = (scenario.seed, scenario.to_string());
            campaign.violations.push(Violation { seed, scenario, invariant, what });
        }
    }
    campaign.violations.sort_by_key(|violation| violation.seed);
    campaign.reaction_us = Reaction::of(reactions, allowed_ns);
    campaign
}

impl Campaign {
    fn count(&mut self, verdict: &Verdict, scenario: &Scenario) {
        self.brought_down += u64::from(verdict.brought_down);
        self.armed += u64::from(verdict.armed);
        self.recovered += u64::from(verdict.recovered);
        self.peak_speed = self.peak_speed.max(verdict.peak_speed);
        let mut words: Vec<String> = scenario.faults().map(|fault| variant(&fault)).collect();
        words.push(format!("robot {}", scenario.robot.1));
        words.push(format!("controller {:?}", scenario.style).to_lowercase());
        words.sort_unstable();
        words.dedup();
        for word in words {
            let count = self.drawn.entry(word).or_default();
            count.runs += 1;
            count.armed += u64::from(verdict.armed);
            count.brought_down += u64::from(verdict.brought_down);
            count.violations += u64::from(verdict.violated.is_some());
        }
    }
}

/// A fault without its size: `BusHolds`.
fn variant(fault: &impl std::fmt::Debug) -> String {
    let text = format!("{fault:?}");
    text.split('(').next().unwrap_or_default().to_owned()
}

impl Reaction {
    fn of(mut reactions: Vec<i64>, allowed_ns: i64) -> Option<Self> {
        reactions.sort_unstable();
        let at = |q: f64| nearest_rank(&reactions, q) as f64 * 1e-3;
        (!reactions.is_empty()).then(|| Self {
            count: reactions.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
            allowed: allowed_ns as f64 * 1e-3,
        })
    }
}

/// The smallest of sorted values that at least the share `q` of them does not exceed.
///
/// # Panics
/// If there are none.
fn nearest_rank(sorted: &[i64], q: f64) -> i64 {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_draws_the_same() {
        let fleet = Fleet::built_in();
        let draw = |seed| Scenario::draw(seed, &fleet);
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn percentiles_of_reactions_are_never_rounded_down() {
        let hundred: Vec<i64> = (1..=100).collect();
        assert_eq!([0.0, 0.5, 0.99, 0.999, 1.0].map(|q| nearest_rank(&hundred, q)), [1, 50, 99, 100, 100]);
        assert_eq!([0.5, 0.99].map(|q| nearest_rank(&[3, 9], q)), [3, 9]);
        assert_eq!(nearest_rank(&[7], 0.5), 7);
    }
}
