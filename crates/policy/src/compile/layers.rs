//! Operators with weights.

use super::builder::{Builder, Call};
use super::value::{Value, View, broadcast};
use crate::ModelError;
use crate::recurrent::{Gru, Lstm, Weights};
use crate::steps::{Affine, Normalise, Operation, Span, Step};

/// What the node makes; none if the operator is not one of these.
pub(super) fn build(
    builder: &mut Builder<'_>,
    operator: &str,
    call: &Call<'_, '_>,
) -> Result<Option<Vec<Value>>, ModelError> {
    Ok(match operator {
        "Gemm" => Some(vec![gemm(builder, call)?]),
        "MatMul" => Some(vec![matmul(builder, call)?]),
        "LayerNormalization" => Some(vec![normalise(builder, call)?]),
        "LSTM" => Some(lstm(builder, call)?),
        "GRU" => Some(gru(builder, call)?),
        _ => None,
    })
}

/// Weights, a row for each number of the output.
fn weights(builder: &mut Builder<'_>, call: &Call<'_, '_>, is_transposed: bool) -> Result<Value, ModelError> {
    let (value, span) = call.floats(1)?;
    if !value.is_constant() || value.shape.len() != 2 {
        return Err(call.wrong("its second factor is no constant matrix"));
    }
    if is_transposed {
        return Ok(value.clone());
    }
    let key = (span.start, value.shape.clone());
    if let Some(turned) = builder.turned.get(&key) {
        return Ok(turned.clone());
    }
    // Of a constant it is done now, whatever the first factor is.
    let alone = Call { node: call.node, inputs: vec![Some(value.clone())] };
    let turned = builder.view(&alone, value, &View::whole(&value.shape).permuted(&[1, 0]))?;
    builder.turned.insert(key, turned.clone());
    Ok(turned)
}

fn gemm(builder: &mut Builder<'_>, call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let (alpha, beta) = (call.node.float("alpha", 1.0), call.node.float("beta", 1.0));
    let (value, mut input) = call.floats(0)?;
    let mut shape = value.shape.clone();
    if shape.len() != 2 {
        return Err(call.unsound(format!("its first factor is {shape:?}, and no matrix")));
    }
    if call.node.int("transA", 0) != 0 {
        let turned = builder.view(call, value, &View::whole(&shape).permuted(&[1, 0]))?;
        (shape, input) = (turned.shape.clone(), turned.span().unwrap_or(input));
    }
    let is_transposed = call.node.int("transB", 0) != 0;
    let weights = weights(builder, call, is_transposed)?;
    let out = vec![shape[0], weights.shape[0]];
    let bias = bias(builder, call, beta, &out)?;
    affine(builder, call, (input, shape[1]), &weights, out, bias, alpha)
}

/// Already times beta: a row, or as large as the output.
fn bias(
    builder: &mut Builder<'_>,
    call: &Call<'_, '_>,
    beta: f32,
    out: &[usize],
) -> Result<Option<Span>, ModelError> {
    let Some(value) = call.maybe(2) else { return Ok(None) };
    let row = [1, out[1]];
    let is_row =
        value.shape.iter().rev().skip(1).all(|&size| size == 1) && value.shape.last() == Some(&out[1]);
    let to = if is_row { &row } else { out };
    if broadcast(&value.shape, to).as_deref() != Some(to) {
        return Err(call.unsound(format!("{:?} cannot be added to {out:?}", value.shape)));
    }
    let alone = Call { node: call.node, inputs: vec![Some(value.clone())] };
    let span =
        builder.stretch(&alone, value, to)?.span().ok_or_else(|| call.wrong("its addend has no floats"))?;
    if beta == 1.0 {
        return Ok(Some(span));
    }
    let right = builder.grow(&[]).ok_or_else(|| call.wrong("the model is larger than any policy"))?;
    builder.arena[right.start] = beta;
    let step = |out| Step::Pair { operation: Operation::Mul, left: span, right, out };
    Ok(builder.emit(&alone, to.to_vec(), span.len, step)?.span())
}

fn matmul(builder: &mut Builder<'_>, call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let (value, input) = call.floats(0)?;
    let weights = weights(builder, call, false)?;
    let Some((&depth, rows)) = value.shape.split_last() else {
        return Err(call.wrong("its first factor is one number"));
    };
    let out = [rows, &weights.shape[..1]].concat();
    affine(builder, call, (input, depth), &weights, out, None, 1.0)
}

fn affine(
    builder: &mut Builder<'_>,
    call: &Call<'_, '_>,
    (input, depth): (Span, usize),
    of: &Value,
    out: Vec<usize>,
    bias: Option<Span>,
    alpha: f32,
) -> Result<Value, ModelError> {
    if of.shape[1] != depth {
        let what = format!("rows of {depth} numbers do not fit weights for {}", of.shape[1]);
        return Err(call.unsound(what));
    }
    let weights = of.span().ok_or_else(|| call.wrong("its second factor has no floats"))?;
    let work = weights.len.saturating_mul(input.len / depth);
    builder.emit(call, out, work, |out| Step::Affine(Affine { input, weights, bias, alpha, depth, out }))
}

fn normalise(builder: &mut Builder<'_>, call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let (value, from) = call.floats(0)?;
    let axis = call.axis(call.node.int("axis", -1), value.shape.len())?;
    let epsilon = call.node.float("epsilon", 1e-5);
    call.node.int("stash_type", 1);
    let row: usize = value.shape[axis..].iter().product();
    let of_row = |number| match call.maybe(number) {
        None => Ok(None),
        Some(_) if call.floats(number)?.1.len == row => Ok(Some(call.floats(number)?.1)),
        Some(_) => Err(call.wrong(format!("its input {number} is not of the {row} numbers of a row"))),
    };
    let scale = of_row(1)?.ok_or_else(|| call.wrong("it has no scale"))?;
    let bias = of_row(2)?;
    let work = from.len.saturating_mul(4);
    builder.emit(call, value.shape.clone(), work, |out| {
        Step::Normalise(Normalise { from, scale, bias, epsilon, out })
    })
}

/// What both kinds of recurrent layer have, and how many steps they take.
fn recurrent(call: &Call<'_, '_>, gates: usize) -> Result<(Weights, usize), ModelError> {
    let node = call.node;
    let (value, input) = call.floats(0)?;
    let [steps, 1, width] = value.shape[..] else {
        return Err(call.wrong(format!("its input is {:?}, and not steps, 1, numbers", value.shape)));
    };
    let (of_hidden, hidden) = call.floats(2)?;
    let size = of_hidden.shape.last().copied().unwrap_or(0);
    let fits = |number: usize, shape: &[usize]| -> Result<Option<Span>, ModelError> {
        match call.maybe(number) {
            None => Ok(None),
            Some(value) if value.shape == shape => Ok(Some(call.floats(number)?.1)),
            Some(value) => {
                Err(call.wrong(format!("its input {number} is {:?}, and not {shape:?}", value.shape)))
            }
        }
    };
    fits(2, &[1, gates * size, size])?;
    let of_input = fits(1, &[1, gates * size, width])?.ok_or_else(|| call.wrong("it has no weights"))?;
    let weights = Weights {
        input,
        of_input,
        of_hidden: hidden,
        bias: fits(3, &[1, 2 * gates * size])?,
        hidden: fits(5, &[1, 1, size])?,
        size,
    };
    let is_default = |name: &str, default: i64| node.int(name, default) == default;
    let forward = node.attribute("direction").is_none_or(|direction| direction.text == b"forward");
    let expected: &[&[u8]] =
        if gates == 4 { &[b"Sigmoid", b"Tanh", b"Tanh"] } else { &[b"Sigmoid", b"Tanh"] };
    let activations = node.attribute("activations").is_none_or(|names| names.texts == expected);
    let is_plain =
        is_default("layout", 0) && is_default("input_forget", 0) && is_default("hidden_size", size as i64);
    if !(forward && activations && is_plain) {
        return Err(
            call.wrong("only the forward direction with the usual activations and layout is evaluated here")
        );
    }
    if call.ints(4)?.is_some_and(|lengths| lengths != [steps as i64]) {
        return Err(call.wrong("its sequence is shorter than its input"));
    }
    Ok((weights, steps))
}

/// All hidden states, the last one, and the cell if there is one, which lie behind each other.
fn states(
    builder: &mut Builder<'_>,
    call: &Call<'_, '_>,
    (weights, steps): (&Weights, usize),
    (cells, gates): (usize, usize),
    step: impl FnOnce(Span) -> Step,
) -> Result<Vec<Value>, ModelError> {
    let size = weights.size;
    let room = Weights::room(steps, size, cells, gates);
    let work = (weights.of_input.len + weights.of_hidden.len * 2).saturating_mul(steps);
    let all = builder.emit(call, vec![room], work, step)?;
    let start = all.span().map_or(0, |span| span.start);
    let part = |shape: Vec<usize>, before: usize| Value::floats(shape, start + before, all.is_constant());
    let last = steps * size;
    let mut parts = vec![part(vec![steps, 1, 1, size], 0), part(vec![1, 1, size], last)];
    parts.extend((0..cells).map(|_| part(vec![1, 1, size], last + size)));
    Ok(parts)
}

fn lstm(builder: &mut Builder<'_>, call: &Call<'_, '_>) -> Result<Vec<Value>, ModelError> {
    let (weights, steps) = recurrent(call, 4)?;
    if call.maybe(7).is_some() {
        return Err(call.wrong("its peepholes are not evaluated here"));
    }
    let cell = match call.maybe(6) {
        None => None,
        Some(value) if value.shape == [1, 1, weights.size] => Some(call.floats(6)?.1),
        Some(value) => return Err(call.wrong(format!("its cell is {:?}", value.shape))),
    };
    let made = weights.clone();
    states(builder, call, (&made, steps), (1, 4), |out| Step::Lstm(Lstm { weights, cell, out }))
}

fn gru(builder: &mut Builder<'_>, call: &Call<'_, '_>) -> Result<Vec<Value>, ModelError> {
    let (weights, steps) = recurrent(call, 3)?;
    let is_reset_last = call.node.int("linear_before_reset", 0) != 0;
    let made = weights.clone();
    states(builder, call, (&made, steps), (0, 3), |out| Step::Gru(Gru { weights, is_reset_last, out }))
}
