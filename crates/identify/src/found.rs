//! What was found, and how far it can be trusted.

use crate::fit::{self, jacobian, residuals};
use crate::model::{Friction, Model, Scale, Step};
use crate::recording::{Recording, Sample};

/// An uncertainty of so many usual steps, or this share of a positive value, is none any more: the data cannot determine it.
const UNDETERMINED: f64 = 1.0;
/// So near to a bound, as a share of its range, a value is on it.
const NEAR: f64 = 1e-3;
/// More than so many steps of an encoder, which alone makes 0.3, are left over of no motion that is explained.
const MOST_STEPS: f64 = 0.6;
/// Where the step is unknown: this share of how far positions are spread.
const MOST_SHARE: f64 = 0.05;
/// What rounding leaves over is no noise that averages out: over seeded recordings of emulated servos, dry friction was wrong by so much more, in
/// variance.
const CAUTION: f64 = 2.25;
/// No joint that follows positions goes so far, rad.
const FAR: f64 = 30.0;
/// Blocks of time into which what is left over is cut.
const BLOCKS: usize = 50;
/// A limit is reported if without it so many times the square is left over.
const MET: f64 = 2.0;
/// No value is reported more precisely than to this share of it: what is simulated in steps is not the servo itself.
const LEAST: f64 = 0.002;
/// Of an angle it is this share of so many rad.
const LEAST_ANGLE: f64 = 0.5;
/// An angle is reported if it is known to so many rad.
const SURE_ANGLE: f64 = 0.2;
/// A step of a limit of torque, as a share of it.
const LIMIT_STEP: f64 = 0.001;
/// The standard deviation of what is evenly spread between −1 and 1.
const EVEN: f64 = 0.577;
/// Correlation beyond which samples do not count as independent.
const CORRELATED: f64 = 0.05;

/// Which recordings are fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Every other one, beginning with the first; the others are what the fit is judged by.
    #[default]
    EveryOther,
    /// All of them; nothing is left to judge by.
    All,
}

/// A parameter as it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// As robot files name it, where they have it.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What was found.
    pub value: f64,
    /// Standard uncertainty, from the spread of what is left over and how long that stays alike.
    pub uncertainty: f64,
    /// It ended on this bound of its range.
    pub on_bound: bool,
    /// The data determine it.
    pub determined: bool,
}

/// How one recording is met.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// The recording.
    pub name: String,
    /// Its conditions.
    pub condition: String,
    /// It was fitted.
    pub fitted: bool,
    /// Mean absolute error of the position, rad.
    pub error: f64,
    /// Greatest error, rad.
    pub worst: f64,
}

/// Everything that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// What was looked for.
    pub model: Model,
    /// The values, in the model's order.
    pub values: Vec<f64>,
    /// The same, with what is known of them.
    pub parameters: Vec<Value>,
    /// Parameters that the data determine only jointly, with what each contributes to the undetermined direction.
    pub together: Vec<Vec<&'static str>>,
    /// What the recordings have that no servo looked for explains, and what is likely; then no uncertainty is to be believed. `None` if
    /// they are explained.
    pub unexplained: Option<String>,
    /// One per recording, in their order.
    pub scores: Vec<Score>,
}

/// Fits the servo to the recordings, which are in the order of their names; at least one. `progress` is called with the share that is done. Allocates,
/// and computes for up to a minute.
pub fn identify(
    recordings: &[Recording],
    friction: Friction,
    split: Split,
    seed: u64,
    progress: impl FnMut(f64),
) -> Found {
    let is_fitted = |index: usize| split == Split::All || recordings.len() == 1 || index.is_multiple_of(2);
    let fitted: Vec<&Recording> =
        recordings.iter().enumerate().filter(|(index, _)| is_fitted(*index)).map(|(_, r)| r).collect();
    let model = Model::of(&fitted, friction);
    let values = fit::fit(&model, &fitted, seed, progress).values;
    let (parameters, together) = trusted(&model, &fitted, &values);
    let score = |(index, recording): (usize, &Recording)| {
        let errors = residuals(&model, &[recording], &values, FINE);
        Score {
            name: recording.name.clone(),
            condition: recording.condition.clone(),
            fitted: is_fitted(index),
            error: errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64,
            worst: errors.iter().fold(0.0, |worst, error| error.abs().max(worst)),
        }
    };
    let scores = recordings.iter().enumerate().map(score).collect();
    let unexplained = unexplained(&model, &fitted, &values, &parameters);
    Found { parameters, together, unexplained, scores, values, model }
}

/// The step of the emulator.
pub(crate) const FINE: Step = Step(250e-6);

impl Found {
    /// The mean over recordings of their mean absolute errors, rad; `None` if there is none of them.
    pub fn error(&self, wanted: impl Fn(&Score) -> bool) -> Option<f64> {
        let errors: Vec<f64> =
            self.scores.iter().filter(|score| wanted(score)).map(|score| score.error).collect();
        (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
    }

    /// A recording's condition was in none that was fitted.
    pub fn is_unseen(&self, score: &Score) -> bool {
        !self.scores.iter().any(|other| other.fitted && other.condition == score.condition)
    }

    /// The conditions in the order in which they first appear, each with its error over all its recordings, rad.
    pub fn by_condition(&self) -> Vec<(&str, f64)> {
        let mut conditions: Vec<&str> = Vec::new();
        for score in &self.scores {
            if !conditions.contains(&score.condition.as_str()) {
                conditions.push(&score.condition);
            }
        }
        let error = |condition: &str| self.error(|score| score.condition == condition).unwrap_or(f64::NAN);
        conditions.into_iter().map(|condition| (condition, error(condition))).collect()
    }

    /// Positions that the servo found goes through, one per sample of the recording, rad.
    pub fn simulated(&self, recording: &Recording) -> Vec<f64> {
        let mut positions = Vec::with_capacity(recording.samples.len());
        self.model.simulate(&self.values, recording, FINE, &mut positions);
        positions
    }
}

/// What is left over, where it is more than an encoder makes, and what is likely.
fn unexplained(
    model: &Model,
    recordings: &[&Recording],
    values: &[f64],
    parameters: &[Value],
) -> Option<String> {
    let left_over = |recording: &&Recording| {
        let left = residuals(model, &[recording], values, FINE);
        (square_of(&left) / left.len() as f64).sqrt()
    };
    let too_much = |recording: &&Recording| match recording.step {
        step if step > 0.0 => left_over(recording) > MOST_STEPS * step,
        _ => left_over(recording) > MOST_SHARE * recording.spread(),
    };
    let worst = recordings
        .iter()
        .filter(|recording| too_much(recording))
        .max_by(|one, other| left_over(one).total_cmp(&left_over(other)))?;
    let left = left_over(worst);
    let much = match worst.step {
        step if step > 0.0 => format!("{:.1} steps of its encoder, which alone makes 0.3", left / step),
        _ => format!("{:.0} % of its motion", 100.0 * left / worst.spread()),
    };
    let bounds: Vec<&str> =
        parameters.iter().filter(|value| value.on_bound).map(|value| value.name).collect();
    let farthest = worst.samples.iter().fold(0.0, |most: f64, sample| most.max(sample.position.abs()));
    let others = match worst.known {
        Some(_) => "gains, a motor or a supply other than the robot file's",
        None if worst.has_torque_control() => "gains other than the robot file's",
        None => "a gain or a supply that changed",
    };
    let likely = match worst.stands_at() {
        _ if farthest > FAR => {
            format!(
                "its positions go up to {farthest:.0} rad: likely they are degrees, or steps of an encoder"
            )
        }
        Some(at) => format!(
            "it stands at {at:.3} rad while its goal is beyond: if it meets a stop there, write `stops` into its `joint`"
        ),
        None if !bounds.is_empty() => {
            let friction = match model.friction() {
                Friction::M4 => "",
                _ => "more friction at standstill or under load (`--friction m4`), or ",
            };
            format!("{} at a bound: likely is {friction}{others}", bounds.join(", "))
        }
        None => format!("likely are {others}, a load that changed, play, or joints that moved it"),
    };
    Some(format!("{left:.4} rad of {} are left over, {much}; {likely}", worst.name))
}

/// How well the data determine each value, and which of them only jointly.
fn trusted(model: &Model, recordings: &[&Recording], values: &[f64]) -> (Vec<Value>, Vec<Vec<&'static str>>) {
    let at = residuals(model, recordings, values, FINE);
    let columns = jacobian(model, recordings, values, &at, FINE);
    let spread = square_of(&at) / at.len() as f64 * alike_for(&at);
    let whole = LeastSquares::of(columns.iter());
    let LeastSquares { squares, directions, .. } = &whole;
    // In usual steps of each parameter.
    let sigma = |square: f64| (spread / square.max(1e-300)).sqrt();
    let alike = |index: usize| {
        let parts = squares.iter().zip(directions);
        parts.map(|(square, direction)| (direction[index] * sigma(*square)).powi(2)).sum::<f64>()
    };
    // What a change of the residuals does to the parameters.
    let shift = |change: &[f64]| whole.solve(change);
    let by_block = block_shifts(&at, &shift);
    let unsure: Vec<Vec<f64>> =
        unsure(model, recordings, values, &at).iter().map(|change| shift(change)).collect();
    let square =
        |shifts: &[Vec<f64>], index: usize| shifts.iter().map(|shift| shift[index].powi(2)).sum::<f64>();
    let uncertainty =
        |index: usize| (CAUTION * (alike(index) + square(&by_block, index)) + square(&unsure, index)).sqrt();
    let parameters = model.parameters.iter().enumerate().map(|(index, parameter)| {
        let value = values[index];
        let (per_step, near) = match parameter.scale {
            Scale::Log => (value, value * 0.01),
            Scale::Linear(step) => (step, NEAR * step),
        };
        let least = if parameter.name == "gravity_at" { LEAST * LEAST_ANGLE } else { LEAST * value.abs() };
        let steps = uncertainty(index).hypot(least / per_step);
        let on_bound = value - parameter.low < near || parameter.high - value < near;
        let determined = (parameter.name != "goal_speed"
            || is_met(model, recordings, values, index, (&columns, &at)))
            && (steps < UNDETERMINED || steps * per_step < 0.5 * value.abs());
        Value {
            name: parameter.name,
            unit: parameter.unit,
            value,
            uncertainty: steps * per_step,
            on_bound,
            determined,
        }
    });
    let mut parameters: Vec<Value> = parameters.collect();
    // No angle of a pull that is none.
    let hangs = !parameters.iter().any(|it| it.name == "gravity" && it.value < 2.0 * it.uncertainty);
    for angle in parameters.iter_mut().filter(|it| it.name == "gravity_at") {
        angle.determined = hangs && angle.uncertainty < SURE_ANGLE;
    }
    (parameters, jointly(model, &whole, sigma))
}

/// The limit of this index acts. One that goals hardly meet acts as a part of the delay: nothing else is left over without it. `columns` and
/// `at`: the derivatives and what is left over at `values`.
fn is_met(
    model: &Model,
    recordings: &[&Recording],
    values: &[f64],
    index: usize,
    (columns, at): (&[Vec<f64>], &[f64]),
) -> bool {
    let mut without = values.to_vec();
    without[index] = f64::MAX;
    let mut left = residuals(model, recordings, &without, FINE);
    // As far as the other values do not make up for it.
    let others = columns.iter().enumerate().filter(|(other, _)| *other != index);
    let others = LeastSquares::of(others.map(|(_, column)| column));
    for (column, by) in others.columns.iter().zip(others.solve(&left)) {
        left.iter_mut().zip(*column).for_each(|(left, change)| *left -= change * by);
    }
    square_of(&left) > MET * square_of(at)
}

/// The parameters that the data determine only jointly.
fn jointly(model: &Model, whole: &LeastSquares<'_>, sigma: impl Fn(f64) -> f64) -> Vec<Vec<&'static str>> {
    let mut together = Vec::new();
    for (square, direction) in whole.squares.iter().zip(&whole.directions) {
        let parts = model.parameters.iter().zip(direction).filter(|(_, part)| part.abs() > 0.3);
        let names: Vec<&'static str> = parts.map(|(parameter, _)| parameter.name).collect();
        if sigma(*square) > UNDETERMINED && names.len() > 1 {
            together.push(names);
        }
    }
    together
}

/// Columns, and the directions in which they are determined, with the square of each.
struct LeastSquares<'a> {
    columns: Vec<&'a Vec<f64>>,
    squares: Vec<f64>,
    directions: Vec<Vec<f64>>,
}

impl<'a> LeastSquares<'a> {
    fn of(columns: impl Iterator<Item = &'a Vec<f64>>) -> Self {
        let columns: Vec<&Vec<f64>> = columns.collect();
        let normal =
            columns.iter().map(|one| columns.iter().map(|other| dot(one, other)).collect()).collect();
        let (squares, directions) = eigen(normal);
        Self { columns, squares, directions }
    }

    /// By how much of each column a change is met best.
    fn solve(&self, change: &[f64]) -> Vec<f64> {
        let slope: Vec<f64> = self.columns.iter().map(|column| dot(column, change)).collect();
        let mut found = vec![0.0; self.columns.len()];
        for (square, direction) in self.squares.iter().zip(&self.directions) {
            let part = dot(direction, &slope) / square.max(1e-300);
            found.iter_mut().zip(direction).for_each(|(found, share)| *found += share * part);
        }
        found
    }
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

fn square_of(residuals: &[f64]) -> f64 {
    residuals.iter().map(|r| r * r).sum()
}

/// What the residuals of each block of time do to the parameters, so that the sum of the squares is their variance: whatever is alike within
/// a block counts once.
fn block_shifts(at: &[f64], shift: &impl Fn(&[f64]) -> Vec<f64>) -> Vec<Vec<f64>> {
    let each = at.len().div_ceil(BLOCKS);
    let only = |block: usize| {
        let inside = block * each..(block + 1) * each;
        let change: Vec<f64> =
            at.iter().enumerate().map(|(index, r)| if inside.contains(&index) { *r } else { 0.0 }).collect();
        shift(&change)
    };
    (0..at.len().div_ceil(each)).map(only).collect()
}

/// How residuals change by one standard uncertainty of what the fit takes for known: when a position was measured, where the joint began, the
/// supply, limits of torque, and the steps of the simulation.
fn unsure(model: &Model, recordings: &[&Recording], values: &[f64], at: &[f64]) -> Vec<Vec<f64>> {
    let changed = |change: &dyn Fn(&mut Recording), step: Step| {
        let mut others: Vec<Recording> = recordings.iter().map(|recording| (*recording).clone()).collect();
        others.iter_mut().for_each(change);
        let there = residuals(model, &others.iter().collect::<Vec<_>>(), values, step);
        there.iter().zip(at).map(|(there, here)| there - here).collect()
    };
    // A greatest torque travels in steps.
    let less = |sample: &mut Sample| {
        sample.torque.iter_mut().for_each(|command| command.most *= 1.0 - LIMIT_STEP);
    };
    // Somewhere between question and answer; a step, within which the joint's position is unknown; and a voltage in tenths.
    vec![
        changed(&|recording| recording.lead_s += EVEN * (recording.lead_s.abs() + FINE.0), FINE),
        changed(&|recording| recording.samples[0].position += 0.5 * EVEN * recording.step, FINE),
        changed(
            &|recording| recording.supply_v += if recording.known.is_some() { 0.05 * EVEN } else { 0.0 },
            FINE,
        ),
        changed(&|_| {}, Step(0.5 * FINE.0)),
        changed(&|recording| recording.samples.iter_mut().for_each(less), FINE),
    ]
}

/// Over how many samples what is left over stays alike: that many count as one.
fn alike_for(residuals: &[f64]) -> f64 {
    let square = square_of(residuals);
    let mut alike = 1.0;
    for lag in 1..(residuals.len() / 4).min(2000) {
        let both: f64 = residuals.iter().zip(&residuals[lag..]).map(|(a, b)| a * b).sum();
        if both <= CORRELATED * square {
            break;
        }
        alike += 2.0 * both / square;
    }
    alike
}

/// Eigenvalues and eigenvectors of a symmetric matrix, by Jacobi's rotations.
fn eigen(mut matrix: Vec<Vec<f64>>) -> (Vec<f64>, Vec<Vec<f64>>) {
    let count = matrix.len();
    let mut vectors: Vec<Vec<f64>> =
        (0..count).map(|row| (0..count).map(|column| f64::from(u8::from(row == column))).collect()).collect();
    for _ in 0..60 {
        for p in 0..count {
            for q in p + 1..count {
                if matrix[p][q].abs() <= 1e-15 * (matrix[p][p] * matrix[q][q]).abs().sqrt() {
                    continue;
                }
                let slant = (matrix[q][q] - matrix[p][p]) / (2.0 * matrix[p][q]);
                let tangent = slant.signum() / (slant.abs() + slant.hypot(1.0));
                let cosine = 1.0 / tangent.hypot(1.0);
                rotate(&mut matrix, &mut vectors, (p, q), (cosine, tangent * cosine));
            }
        }
    }
    ((0..count).map(|index| matrix[index][index]).collect(), vectors)
}

fn rotate(matrix: &mut [Vec<f64>], vectors: &mut [Vec<f64>], (p, q): (usize, usize), (c, s): (f64, f64)) {
    let turn = |one: f64, other: f64| (c * one - s * other, s * one + c * other);
    for row in matrix.iter_mut() {
        (row[p], row[q]) = turn(row[p], row[q]);
    }
    for rows in [matrix, vectors] {
        let (above, below) = rows.split_at_mut(q);
        for (one, other) in above[p].iter_mut().zip(&mut below[0]) {
            (*one, *other) = turn(*one, *other);
        }
    }
}
