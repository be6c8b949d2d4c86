//! The fit: Levenberg and Marquardt's method over simulated trajectories, from several seeded starts.
//!
//! Written here because it is 150 lines: the crates that have it bring nalgebra or ndarray, and neither bounds nor the weights that
//! make it fit absolute errors, by which recordings are scored.

use crate::model::{Model, Scale, Step};
use crate::recording::Recording;

/// Errors count by their square up to here and by their size beyond it, rad.
const EDGE: f64 = 0.01;
/// Starts that are tried.
const STARTS: usize = 16;
/// Of those, the best that are followed to their end.
const FINALISTS: usize = 3;
/// Recorded seconds that starts are tried on.
const TRIED_S: f64 = 50.0;
/// Simulated seconds of the last fit over everything: 20 to 30 s of computing.
const LAST_S: f64 = 200_000.0;
/// So many samples count as one that is independent of the others: what is left over changes slowly.
const ALIKE: f64 = 100.0;
/// A share of a value, or of its usual step, by which derivatives are taken.
const NUDGE: f64 = 2e-3;

/// Values, and how far the motion they give is from what was recorded.
#[derive(Clone, Debug)]
pub struct Fit {
    /// One per parameter.
    pub values: Vec<f64>,
    /// Sum over all samples of squares, of absolute values beyond 0.01 rad.
    pub cost: f64,
}

/// Numbers that look random, the same for a seed.
pub(crate) struct Random(pub u64);

impl Random {
    /// 0 to 1.
    pub fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ bits >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Fits the model to the recordings. `progress` is called with the share that is done, 0 to 1. Allocates, and computes for up to a minute.
pub fn fit(model: &Model, recordings: &[&Recording], seed: u64, mut progress: impl FnMut(f64)) -> Fit {
    let few = spread(recordings, TRIED_S);
    let mut random = Random(seed);
    let (coarse, fine) = (Step(500e-6), Step(250e-6));
    let mut tried: Vec<Fit> = (0..STARTS)
        .map(|start| {
            progress(0.3 * start as f64 / STARTS as f64);
            descend(model, &few, start_of(model, &mut random), coarse, 12)
        })
        .collect();
    tried.sort_by(|one, other| one.cost.total_cmp(&other.cost));
    tried.truncate(FINALISTS);
    let followed = tried.into_iter().enumerate().map(|(index, start)| {
        progress(0.3 + 0.3 * index as f64 / FINALISTS as f64);
        descend(model, &few, start.values, coarse, 30)
    });
    let best = followed.min_by(|one, other| one.cost.total_cmp(&other.cost));
    progress(0.6);
    let seconds: f64 = recordings.iter().map(|recording| recording.duration_s()).sum();
    let rounds = (LAST_S / seconds / (model.parameters.len() + 2) as f64).clamp(2.0, 30.0) as usize;
    let values = best.map_or_else(|| start_of(model, &mut random), |best| best.values);
    descend(model, recordings, values, fine, rounds)
}

/// Recordings from all over the list that last so long together; at least one.
fn spread<'a>(recordings: &[&'a Recording], most_s: f64) -> Vec<&'a Recording> {
    let seconds: f64 = recordings.iter().map(|recording| recording.duration_s()).sum();
    let every = (seconds / most_s).max(1.0);
    let count = ((recordings.len() as f64 / every) as usize).max(1);
    (0..count).map(|index| recordings[(index as f64 * every) as usize % recordings.len()]).collect()
}

fn start_of(model: &Model, random: &mut Random) -> Vec<f64> {
    let draw = |parameter: &crate::model::Parameter, share: f64| {
        let [low, high] = parameter.starts;
        match parameter.scale {
            Scale::Log => low * (high / low).powf(share),
            Scale::Linear(_) => low + (high - low) * share,
        }
    };
    model.parameters.iter().map(|parameter| draw(parameter, random.share())).collect()
}

/// How far a value is from where one is expected, in widths of what is expected.
fn surprise(model: &Model, index: usize, value: f64) -> f64 {
    let parameter = &model.parameters[index];
    let [low, high] = parameter.starts;
    match parameter.scale {
        Scale::Log => (value / (low * high).sqrt()).ln() / (high / low).sqrt().ln().max(0.7),
        Scale::Linear(step) => (value - 0.5 * (low + high)) / (high - low).max(step),
    }
}

/// What is expected of the values, beside the data. A value one width away costs as much as one independent sample does now, so
/// it decides only where the data do not.
struct Prior<'a> {
    model: &'a Model,
    weight: f64,
}

impl<'a> Prior<'a> {
    fn beside(model: &'a Model, residuals: &[f64]) -> Self {
        Self { model, weight: cost(residuals) / residuals.len() as f64 * ALIKE }
    }

    fn cost(&self, values: &[f64]) -> f64 {
        let surprises = values.iter().enumerate().map(|(index, value)| surprise(self.model, index, *value));
        self.weight * surprises.map(|surprise| surprise * surprise).sum::<f64>()
    }

    /// Adds it to the normal equations.
    fn join(&self, values: &[f64], normal: &mut [Vec<f64>], slope: &mut [f64]) {
        for (index, value) in values.iter().enumerate() {
            let here = surprise(self.model, index, *value);
            let next = match self.model.parameters[index].scale {
                Scale::Log => value * std::f64::consts::E,
                Scale::Linear(step) => value + step,
            };
            let per_step = surprise(self.model, index, next) - here;
            normal[index][index] += self.weight * per_step * per_step;
            slope[index] += self.weight * per_step * here;
        }
    }
}

/// Moves a value by so many usual steps, within its bounds.
pub(crate) fn moved(model: &Model, index: usize, value: f64, by: f64) -> f64 {
    let parameter = &model.parameters[index];
    let to = match parameter.scale {
        Scale::Log => value * by.clamp(-2.0, 2.0).exp(),
        Scale::Linear(step) => value + by * step,
    };
    to.clamp(parameter.low, parameter.high)
}

/// Simulated minus recorded, all measured samples of all recordings, rad.
pub(crate) fn residuals(model: &Model, recordings: &[&Recording], values: &[f64], step: Step) -> Vec<f64> {
    let mut all = Vec::with_capacity(recordings.iter().map(|recording| recording.samples.len()).sum());
    let mut positions = Vec::new();
    for recording in recordings {
        positions.clear();
        model.simulate(values, recording, step, &mut positions);
        let both = positions.iter().zip(&recording.samples).filter(|(_, sample)| sample.measured);
        all.extend(both.map(|(simulated, sample)| simulated - sample.position));
    }
    all
}

/// How the residuals change per usual step of each parameter: one column each. On a bound, the step goes inwards.
pub(crate) fn jacobian(
    model: &Model,
    recordings: &[&Recording],
    values: &[f64],
    at: &[f64],
    step: Step,
) -> Vec<Vec<f64>> {
    let column = |index: usize| {
        let mut nudged = values.to_vec();
        let up = moved(model, index, values[index], NUDGE);
        let by = if up > values[index] { NUDGE } else { -NUDGE };
        nudged[index] = moved(model, index, values[index], by);
        let there = residuals(model, recordings, &nudged, step);
        there.iter().zip(at).map(|(there, here)| (there - here) / by).collect()
    };
    (0..values.len()).map(column).collect()
}

fn cost(residuals: &[f64]) -> f64 {
    let one = |r: &f64| if r.abs() < EDGE { r * r } else { EDGE * (2.0 * r.abs() - EDGE) };
    residuals.iter().map(one).sum()
}

/// The weight that makes a square grow like [`cost`] there.
fn weight(residual: f64) -> f64 {
    EDGE / residual.abs().max(EDGE)
}

fn descend(model: &Model, recordings: &[&Recording], start: Vec<f64>, step: Step, rounds: usize) -> Fit {
    let mut values = start;
    let mut here = residuals(model, recordings, &values, step);
    let mut damping = 0.1;
    for _ in 0..rounds {
        let columns = jacobian(model, recordings, &values, &here, step);
        let (mut normal, mut slope) = normal_equations(&columns, &here);
        let prior = Prior::beside(model, &here);
        prior.join(&values, &mut normal, &mut slope);
        let before = cost(&here) + prior.cost(&values);
        let mut best = before;
        for _ in 0..6 {
            let Some(steps) = solved(&normal, &slope, damping) else { break };
            let to: Vec<f64> =
                (0..values.len()).map(|index| moved(model, index, values[index], -steps[index])).collect();
            let there = residuals(model, recordings, &to, step);
            let found = cost(&there) + prior.cost(&to);
            if found < best {
                (values, here, best) = (to, there, found);
                damping = (damping * 0.3).max(1e-6);
                break;
            }
            damping *= 4.0;
        }
        if before - best <= 2e-4 * before {
            break;
        }
    }
    Fit { values, cost: cost(&here) }
}

/// JᵀWJ and JᵀWr.
fn normal_equations(columns: &[Vec<f64>], residuals: &[f64]) -> (Vec<Vec<f64>>, Vec<f64>) {
    let weights: Vec<f64> = residuals.iter().map(|residual| weight(*residual)).collect();
    let dot = |one: &[f64], other: &[f64]| -> f64 {
        one.iter().zip(other).zip(&weights).map(|((one, other), weight)| one * other * weight).sum()
    };
    let normal = columns.iter().map(|one| columns.iter().map(|other| dot(one, other)).collect()).collect();
    (normal, columns.iter().map(|column| dot(column, residuals)).collect())
}

/// The step of Levenberg and Marquardt; `None` if there is none.
fn solved(normal: &[Vec<f64>], slope: &[f64], damping: f64) -> Option<Vec<f64>> {
    let mut rows: Vec<Vec<f64>> = normal.to_vec();
    for (index, row) in rows.iter_mut().enumerate() {
        row[index] += damping * row[index] + 1e-12;
        row.push(slope[index]);
    }
    let count = rows.len();
    for pivot in 0..count {
        let greatest =
            (pivot..count).max_by(|a, b| rows[*a][pivot].abs().total_cmp(&rows[*b][pivot].abs()))?;
        rows.swap(pivot, greatest);
        let leading = rows[pivot].clone();
        if leading[pivot] == 0.0 || !leading[pivot].is_finite() {
            return None;
        }
        for (index, row) in rows.iter_mut().enumerate().filter(|(index, _)| *index != pivot) {
            debug_assert!(index != pivot);
            let share = row[pivot] / leading[pivot];
            row.iter_mut().zip(&leading).for_each(|(cell, lead)| *cell -= share * lead);
        }
    }
    let steps: Vec<f64> = (0..count).map(|index| rows[index][count] / rows[index][index]).collect();
    steps.iter().all(|step| step.is_finite()).then_some(steps)
}
