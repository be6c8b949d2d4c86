//! LSTM and GRU over a sequence, one direction, a batch of 1. Their outputs lie behind each other: the hidden state after each step, the
//! last of them once more, the cell (LSTM), and then what they compute with.

use crate::maths::{dot, sigmoid, tanh};
use crate::steps::Span;

/// What both have.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    /// Inputs of all steps.
    pub(crate) input: Span,
    /// A row for each gate of each unit.
    pub(crate) of_input: Span,
    pub(crate) of_hidden: Span,
    /// First those of the input's rows, then those of the hidden state's.
    pub(crate) bias: Option<Span>,
    /// The hidden state before the first step; 0 if there is none.
    pub(crate) hidden: Option<Span>,
    /// Units.
    pub(crate) size: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Lstm {
    pub(crate) weights: Weights,
    pub(crate) cell: Option<Span>,
    pub(crate) out: Span,
}

#[derive(Clone, Debug)]
pub(crate) struct Gru {
    pub(crate) weights: Weights,
    /// The hidden part of the new state is multiplied before the reset gate, and not after it.
    pub(crate) is_reset_last: bool,
    pub(crate) out: Span,
}

impl Weights {
    /// How many numbers all of `out` has, for so many gates.
    pub(crate) fn room(steps: usize, size: usize, cells: usize, gates: usize) -> usize {
        steps * size + (1 + cells + 2 * gates) * size
    }

    fn start(from: Option<Span>, before: &[f32], into: &mut [f32]) {
        match from {
            Some(span) => into.copy_from_slice(span.of(before)),
            None => into.fill(0.0),
        }
    }

    /// The gates' sums: of an input into the first half, of a hidden state into the second, each with its bias.
    fn gates(&self, before: &[f32], input: &[f32], hidden: &[f32], into: &mut [f32]) {
        let half = into.len() / 2;
        let (of_input, of_hidden) = into.split_at_mut(half);
        multiply(self.of_input.of(before), input, of_input);
        multiply(self.of_hidden.of(before), hidden, of_hidden);
        if let Some(bias) = self.bias {
            into.iter_mut().zip(bias.of(before)).for_each(|(to, bias)| *to += bias);
        }
    }
}

fn multiply(weights: &[f32], by: &[f32], into: &mut [f32]) {
    let rows = weights.chunks_exact(by.len());
    into.iter_mut().zip(rows).for_each(|(to, row)| *to = dot(row, by));
}

impl Lstm {
    pub(crate) fn run(&self, before: &[f32], into: &mut [f32]) {
        let Weights { input, size, .. } = self.weights;
        let steps = (into.len() - Weights::room(0, size, 1, 4)) / size;
        let (all, rest) = into.split_at_mut(steps * size);
        let (hidden, rest) = rest.split_at_mut(size);
        let (cell, gates) = rest.split_at_mut(size);
        Weights::start(self.weights.hidden, before, hidden);
        Weights::start(self.cell, before, cell);
        let inputs = input.of(before).chunks_exact(input.len / steps);
        for (input, out) in inputs.zip(all.chunks_exact_mut(size)) {
            self.weights.gates(before, input, hidden, gates);
            for unit in 0..size {
                // In ONNX's order: input, output, forget, cell.
                let [i, o, f, c] =
                    [0, 1, 2, 3].map(|gate| gates[gate * size + unit] + gates[(gate + 4) * size + unit]);
                cell[unit] = sigmoid(f) * cell[unit] + sigmoid(i) * tanh(c);
                hidden[unit] = sigmoid(o) * tanh(cell[unit]);
            }
            out.copy_from_slice(hidden);
        }
    }
}

impl Gru {
    pub(crate) fn run(&self, before: &[f32], into: &mut [f32]) {
        let Weights { input, size, .. } = self.weights;
        let steps = (into.len() - Weights::room(0, size, 0, 3)) / size;
        let (all, rest) = into.split_at_mut(steps * size);
        let (hidden, gates) = rest.split_at_mut(size);
        Weights::start(self.weights.hidden, before, hidden);
        let inputs = input.of(before).chunks_exact(input.len / steps);
        for (input, out) in inputs.zip(all.chunks_exact_mut(size)) {
            self.weights.gates(before, input, hidden, gates);
            let (of_input, of_hidden) = gates.split_at_mut(3 * size);
            // In ONNX's order: update, reset, new.
            for unit in 0..2 * size {
                of_input[unit] = sigmoid(of_input[unit] + of_hidden[unit]);
            }
            if !self.is_reset_last {
                self.reset_first(before, hidden, &of_input[size..2 * size], of_hidden);
            }
            for unit in 0..size {
                let (update, reset) = (of_input[unit], of_input[size + unit]);
                let of_hidden = of_hidden[2 * size + unit];
                let of_hidden = if self.is_reset_last { reset * of_hidden } else { of_hidden };
                let new = tanh(of_input[2 * size + unit] + of_hidden);
                hidden[unit] = (1.0 - update) * new + update * hidden[unit];
            }
            out.copy_from_slice(hidden);
        }
    }

    /// The new state's hidden part once more, of the hidden state as the reset gate leaves it.
    fn reset_first(&self, before: &[f32], hidden: &[f32], reset: &[f32], of_hidden: &mut [f32]) {
        let size = hidden.len();
        let (left, sums) = of_hidden.split_at_mut(2 * size);
        let left = &mut left[..size];
        left.iter_mut().zip(hidden.iter().zip(reset)).for_each(|(to, (hidden, reset))| *to = hidden * reset);
        multiply(&self.weights.of_hidden.of(before)[2 * size * size..], left, sums);
        if let Some(bias) = self.weights.bias {
            sums.iter_mut().zip(&bias.of(before)[5 * size..]).for_each(|(to, bias)| *to += bias);
        }
    }
}
