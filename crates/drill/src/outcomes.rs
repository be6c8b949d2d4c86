//! Scenarios one after the other, each with what came of it: for programs that spread a campaign over processes.

use super::campaign::run_caught;
use super::fleet::Fleet;
use super::scenario::{Scenario, Style};
use super::violation::Invariant;
use khz_emu::ConfigError;
use serde::Serialize;

/// What came of one scenario. It depends on fleet and seed alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Draws the scenario again.
    pub seed: u64,
    /// Name of the robot that was drawn.
    pub robot: String,
    /// How it was controlled.
    pub controller: Style,
    /// What happened in it.
    pub scenario: String,
    /// The robot came under control.
    pub armed: bool,
    /// It left control because of a fault.
    pub brought_down: bool,
    /// From a fault on the wire to the last servo's damping command, µs, if nothing else keeps frames or ticks back.
    pub reaction_us: Option<f64>,
    /// What is allowed to `reaction_us`: one tick and the bus cycle, µs.
    pub allowed_us: f64,
    /// Highest speed at which a joint was driven, as a share of what is allowed to it.
    pub peak_speed: f64,
    /// What did not hold.
    pub invariant: Option<Invariant>,
    /// How it did not.
    pub what: Option<String>,
}

/// Runs the scenarios of these seeds, in their order, each when the iterator is asked for it.
///
/// # Errors
/// If a robot of the fleet cannot be emulated.
pub fn outcomes(
    fleet: &Fleet,
    seeds: impl IntoIterator<Item = u64>,
) -> Result<impl Iterator<Item = Outcome>, ConfigError> {
    fleet.emulate()?;
    Ok(seeds.into_iter().map(|seed| Outcome::of(fleet, seed)))
}

impl Outcome {
    fn of(fleet: &Fleet, seed: u64) -> Self {
        let scenario = Scenario::draw(seed, fleet);
        let verdict = run_caught(fleet, &scenario, &super::defect::Sound);
        let text = scenario.to_string();
        let (invariant, what) = verdict.violated.map(|violated| (violated.invariant, violated.what)).unzip();
        Self {
            seed,
            robot: scenario.robot.1,
            controller: scenario.style,
            scenario: text,
            armed: verdict.armed,
            brought_down: verdict.brought_down,
            reaction_us: verdict.reaction_ns.map(|ns| ns as f64 * 1e-3),
            allowed_us: verdict.allowed_ns as f64 * 1e-3,
            peak_speed: verdict.peak_speed,
            invariant,
            what,
        }
    }
}
