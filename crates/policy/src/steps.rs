//! What an evaluation does: steps over one arena of floats. Each writes behind all that it reads, so borrowing splits the arena there.

use crate::maths;
use crate::recurrent::{Gru, Lstm};

/// A place in the arena.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) len: usize,
}

impl Span {
    pub(crate) fn of(self, arena: &[f32]) -> &[f32] {
        &arena[self.start..self.start + self.len]
    }
}

/// Of one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    Abs,
    Clip { least: f32, most: f32 },
    Elu { alpha: f32 },
    Exp,
    LeakyRelu { alpha: f32 },
    Neg,
    Power { exponent: u32 },
    Reciprocal,
    Relu,
    Selu { alpha: f32, gamma: f32 },
    Sigmoid,
    Softplus,
    Sqrt,
    Tanh,
}

/// Of two numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operation {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
}

/// Of a row of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reduction {
    Sum,
    Mean,
    Max,
    Min,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Numbers of the arena, by their places.
    Pick {
        places: Box<[u32]>,
        out: Span,
    },
    Each {
        function: Function,
        from: Span,
        out: Span,
    },
    /// A side with one number has it for all.
    Pair {
        operation: Operation,
        left: Span,
        right: Span,
        out: Span,
    },
    Affine(Affine),
    /// Rows of equal length, each to one number.
    Reduce {
        reduction: Reduction,
        from: Span,
        out: Span,
    },
    Normalise(Normalise),
    Lstm(Lstm),
    Gru(Gru),
}

/// out = alpha·(input × weightsᵀ) + bias: a row of weights is one number of a row of `out`.
#[derive(Clone, Debug)]
pub(crate) struct Affine {
    pub(crate) input: Span,
    pub(crate) weights: Span,
    /// For a row, or for all of `out`; already times beta.
    pub(crate) bias: Option<Span>,
    pub(crate) alpha: f32,
    /// Length of a row of `input` and of one of `weights`.
    pub(crate) depth: usize,
    pub(crate) out: Span,
}

/// Each row to mean 0 and variance 1, then times `scale` plus `bias`.
#[derive(Clone, Debug)]
pub(crate) struct Normalise {
    pub(crate) from: Span,
    pub(crate) scale: Span,
    pub(crate) bias: Option<Span>,
    pub(crate) epsilon: f32,
    pub(crate) out: Span,
}

impl Step {
    /// Does it. Neither allocates nor waits; places are those the model was compiled with.
    pub(crate) fn run(&self, arena: &mut [f32]) {
        let out = self.out();
        let (before, after) = arena.split_at_mut(out.start);
        let into = &mut after[..out.len];
        match self {
            Self::Pick { places, .. } => {
                into.iter_mut().zip(places).for_each(|(to, &place)| *to = before[place as usize]);
            }
            Self::Each { function, from, .. } => function.of_all(from.of(before), into),
            Self::Pair { operation, left, right, .. } => {
                operation.of_all(left.of(before), right.of(before), into);
            }
            Self::Affine(affine) => affine.run(before, into),
            Self::Reduce { reduction, from, .. } => reduction.of_all(from.of(before), into),
            Self::Normalise(normalise) => normalise.run(before, into),
            Self::Lstm(lstm) => lstm.run(before, into),
            Self::Gru(gru) => gru.run(before, into),
        }
    }

    fn out(&self) -> Span {
        match self {
            Self::Pick { out, .. }
            | Self::Each { out, .. }
            | Self::Pair { out, .. }
            | Self::Reduce { out, .. }
            | Self::Affine(Affine { out, .. })
            | Self::Normalise(Normalise { out, .. }) => *out,
            Self::Lstm(lstm) => lstm.out,
            Self::Gru(gru) => gru.out,
        }
    }
}

impl Function {
    /// One loop for each function, so that the choice is made once.
    fn of_all(self, from: &[f32], into: &mut [f32]) {
        match self {
            Self::Abs => each(from, into, f32::abs),
            Self::Clip { least, most } => each(from, into, |x| smaller(larger(x, least), most)),
            Self::Elu { alpha } => each(from, into, |x| if x < 0.0 { alpha * maths::exp_m1(x) } else { x }),
            Self::Exp => each(from, into, maths::exp),
            Self::LeakyRelu { alpha } => each(from, into, |x| if x < 0.0 { alpha * x } else { x }),
            Self::Neg => each(from, into, |x| -x),
            Self::Power { exponent } => each(from, into, |x| (1..exponent).fold(x, |power, _| power * x)),
            Self::Reciprocal => each(from, into, |x| 1.0 / x),
            Self::Relu => each(from, into, |x| if x < 0.0 { 0.0 } else { x }),
            Self::Selu { alpha, gamma } => {
                each(from, into, |x| gamma * if x < 0.0 { alpha * maths::exp_m1(x) } else { x });
            }
            Self::Sigmoid => each(from, into, maths::sigmoid),
            Self::Softplus => each(from, into, maths::softplus),
            Self::Sqrt => each(from, into, f32::sqrt),
            Self::Tanh => each(from, into, maths::tanh),
        }
    }
}

fn each(from: &[f32], into: &mut [f32], function: impl Fn(f32) -> f32) {
    into.iter_mut().zip(from).for_each(|(to, &x)| *to = function(x));
}

impl Operation {
    fn of_all(self, left: &[f32], right: &[f32], into: &mut [f32]) {
        match self {
            Self::Add => pairs(left, right, into, |a, b| a + b),
            Self::Sub => pairs(left, right, into, |a, b| a - b),
            Self::Mul => pairs(left, right, into, |a, b| a * b),
            Self::Div => pairs(left, right, into, |a, b| a / b),
            Self::Max => pairs(left, right, into, larger),
            Self::Min => pairs(left, right, into, smaller),
        }
    }
}

fn pairs(left: &[f32], right: &[f32], into: &mut [f32], operation: impl Fn(f32, f32) -> f32) {
    match (left, right) {
        (&[a], right) => each(right, into, |b| operation(a, b)),
        (left, &[b]) => each(left, into, |a| operation(a, b)),
        (left, right) => {
            let both = left.iter().zip(right);
            into.iter_mut().zip(both).for_each(|(to, (&a, &b))| *to = operation(a, b));
        }
    }
}

impl Reduction {
    fn of_all(self, from: &[f32], into: &mut [f32]) {
        let len = from.len() / into.len().max(1);
        for (row, to) in from.chunks_exact(len.max(1)).zip(into) {
            *to = match self {
                Self::Sum => maths::sum(row),
                Self::Mean => maths::sum(row) / len as f32,
                Self::Max => row.iter().fold(row[0], |most, &x| larger(most, x)),
                Self::Min => row.iter().fold(row[0], |least, &x| smaller(least, x)),
            };
        }
    }
}

impl Affine {
    fn run(&self, before: &[f32], into: &mut [f32]) {
        let weights = self.weights.of(before);
        let width = weights.len() / self.depth;
        let rows = self.input.of(before).chunks_exact(self.depth);
        for (row, into) in rows.zip(into.chunks_exact_mut(width)) {
            for (weights, to) in weights.chunks_exact(self.depth).zip(into) {
                *to = self.alpha * maths::dot(row, weights);
            }
        }
        let Some(bias) = self.bias else { return };
        let bias = bias.of(before);
        for into in into.chunks_exact_mut(bias.len()) {
            into.iter_mut().zip(bias).for_each(|(to, bias)| *to += bias);
        }
    }
}

impl Normalise {
    fn run(&self, before: &[f32], into: &mut [f32]) {
        let scale = self.scale.of(before);
        let len = scale.len();
        for (row, into) in self.from.of(before).chunks_exact(len).zip(into.chunks_exact_mut(len)) {
            let mean = maths::sum(row) / len as f32;
            into.iter_mut().zip(row).for_each(|(to, x)| *to = x - mean);
            let variance = maths::dot(into, into) / len as f32;
            let deviation = (variance + self.epsilon).sqrt();
            into.iter_mut().zip(scale).for_each(|(to, scale)| *to = *to / deviation * scale);
            if let Some(bias) = self.bias {
                into.iter_mut().zip(bias.of(before)).for_each(|(to, bias)| *to += bias);
            }
        }
    }
}

/// NaN if one of them is: `f32::max` would take the other.
fn larger(a: f32, b: f32) -> f32 {
    if a.is_nan() || a > b { a } else { b }
}

fn smaller(a: f32, b: f32) -> f32 {
    if a.is_nan() || a < b { a } else { b }
}
