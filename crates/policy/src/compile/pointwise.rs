//! Operators on each number by itself, and on two that stand in the same place.

use super::builder::{Builder, Call};
use super::value::{Content, Value, View, broadcast};
use crate::ModelError;
use crate::steps::{Function, Operation, Reduction, Step};

/// What the node makes; none if the operator is not one of these.
pub(super) fn build(
    builder: &mut Builder<'_>,
    operator: &str,
    call: &Call<'_, '_>,
) -> Result<Option<Vec<Value>>, ModelError> {
    let node = call.node;
    let function = match operator {
        "Add" => return many(builder, call, Operation::Add),
        "Sub" => return many(builder, call, Operation::Sub),
        "Mul" => return many(builder, call, Operation::Mul),
        "Div" => return many(builder, call, Operation::Div),
        "Max" => return many(builder, call, Operation::Max),
        "Min" => return many(builder, call, Operation::Min),
        "Pow" => return power(builder, call).map(|value| Some(vec![value])),
        "ReduceSum" => return reduce(builder, call, Reduction::Sum),
        "ReduceMean" => return reduce(builder, call, Reduction::Mean),
        "ReduceMax" => return reduce(builder, call, Reduction::Max),
        "ReduceMin" => return reduce(builder, call, Reduction::Min),
        "Abs" => Function::Abs,
        "Clip" => clip(builder, call)?,
        "Elu" => Function::Elu { alpha: node.float("alpha", 1.0) },
        "Exp" => Function::Exp,
        "LeakyRelu" => Function::LeakyRelu { alpha: node.float("alpha", 0.01) },
        "Neg" => Function::Neg,
        "Reciprocal" => Function::Reciprocal,
        "Relu" => Function::Relu,
        "Selu" => selu(call),
        "Sigmoid" => Function::Sigmoid,
        "Softplus" => Function::Softplus,
        "Sqrt" => Function::Sqrt,
        "Tanh" => Function::Tanh,
        _ => return Ok(None),
    };
    each(builder, call, function).map(|value| Some(vec![value]))
}

fn each(builder: &mut Builder<'_>, call: &Call<'_, '_>, function: Function) -> Result<Value, ModelError> {
    let (value, from) = call.floats(0)?;
    builder.emit(call, value.shape.clone(), from.len, |out| Step::Each { function, from, out })
}

/// The defaults are ONNX's, in full.
fn selu(call: &Call<'_, '_>) -> Function {
    Function::Selu {
        alpha: call.node.float("alpha", 1.673_263_2),
        gamma: call.node.float("gamma", 1.050_701),
    }
}

fn clip(builder: &Builder<'_>, call: &Call<'_, '_>) -> Result<Function, ModelError> {
    let bound = |number, name, none: f32| -> Result<f32, ModelError> {
        Ok(call.constant(number, &builder.arena)?.unwrap_or(call.node.float(name, none)))
    };
    Ok(Function::Clip { least: bound(1, "min", f32::NEG_INFINITY)?, most: bound(2, "max", f32::INFINITY)? })
}

/// By a constant, and only where that is a product or a root: there is no logarithm here.
fn power(builder: &mut Builder<'_>, call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let exponent = match &call.input(1)?.content {
        Content::Ints(values) if values.len() == 1 => Some(values[0] as f32),
        _ => call.constant(1, &builder.arena)?,
    };
    let function = match exponent {
        Some(0.5) => Function::Sqrt,
        Some(-1.0) => Function::Reciprocal,
        Some(whole) if whole.fract() == 0.0 && (1.0..=16.0).contains(&whole) => {
            Function::Power { exponent: whole as u32 }
        }
        _ => return Err(call.wrong("its exponent is none of 0.5, -1 and 1 to 16")),
    };
    each(builder, call, function)
}

/// Of two, or of Max and Min as many as there are.
fn many(
    builder: &mut Builder<'_>,
    call: &Call<'_, '_>,
    operation: Operation,
) -> Result<Option<Vec<Value>>, ModelError> {
    let mut sum = call.input(0)?.clone();
    for number in 1..call.inputs.len() {
        sum = two(builder, call, operation, &sum, call.input(number)?)?;
    }
    Ok(Some(vec![sum]))
}

fn two(
    builder: &mut Builder<'_>,
    call: &Call<'_, '_>,
    operation: Operation,
    left: &Value,
    right: &Value,
) -> Result<Value, ModelError> {
    let shape = broadcast(&left.shape, &right.shape).ok_or_else(|| {
        call.unsound(format!("{:?} and {:?} do not fit each other", left.shape, right.shape))
    })?;
    // One number is for all; everything else is stretched.
    let mut fit = |value: &Value| {
        if value.len() == 1 { Ok(value.clone()) } else { builder.stretch(call, value, &shape) }
    };
    let (left, right) = (fit(left)?, fit(right)?);
    match (left.span(), right.span()) {
        (Some(left), Some(right)) => {
            let count = left.len.max(right.len);
            builder.emit(call, shape, count, |out| Step::Pair { operation, left, right, out })
        }
        (None, None) => whole(builder, call, operation, &left, &right, shape),
        _ => Err(call.wrong("it mixes int64 and floats")),
    }
}

/// Of whole numbers: shapes and indices.
fn whole(
    builder: &mut Builder<'_>,
    call: &Call<'_, '_>,
    operation: Operation,
    left: &Value,
    right: &Value,
    shape: Vec<usize>,
) -> Result<Value, ModelError> {
    let (Content::Ints(left), Content::Ints(right)) = (&left.content, &right.content) else {
        return Err(call.wrong("it mixes int64 and floats"));
    };
    let (few, most) = (left.len().min(right.len()), left.len().max(right.len()));
    let place = |values: &[i64], place: usize| values[if values.len() == 1 { 0 } else { place }];
    let one = |number: usize| {
        let (left, right) = (place(left, number), place(right, number));
        match operation {
            Operation::Add => left.checked_add(right),
            Operation::Sub => left.checked_sub(right),
            Operation::Mul => left.checked_mul(right),
            Operation::Div => left.checked_div(right),
            Operation::Max => Some(left.max(right)),
            Operation::Min => Some(left.min(right)),
        }
    };
    let count = if few == 0 { 0 } else { most };
    let values = (0..count).map(one).collect::<Option<Vec<_>>>();
    let values =
        values.ok_or_else(|| call.wrong("its whole numbers are divided by 0, or become too large"))?;
    builder.ints(call, shape, values)
}

/// Over some dimensions: those go to the end, so that each number of the result is of one row.
fn reduce(
    builder: &mut Builder<'_>,
    call: &Call<'_, '_>,
    reduction: Reduction,
) -> Result<Option<Vec<Value>>, ModelError> {
    let (value, _) = call.floats(0)?;
    let rank = value.shape.len();
    let keeps = call.node.int("keepdims", 1) != 0;
    let axes = call.ints_or(1, "axes")?.unwrap_or_default();
    if axes.is_empty() && call.node.int("noop_with_empty_axes", 0) != 0 {
        return Ok(Some(vec![value.clone()]));
    }
    call.node.int("noop_with_empty_axes", 0);
    let axes = axes.iter().map(|&axis| call.axis(axis, rank)).collect::<Result<Vec<_>, _>>()?;
    let goes = |&axis: &usize| axes.is_empty() || axes.contains(&axis);
    let (gone, kept): (Vec<usize>, Vec<usize>) = (0..rank).partition(goes);
    let order = [&kept[..], &gone].concat();
    let rows = if order.is_sorted() {
        value.clone()
    } else {
        builder.view(call, value, &View::whole(&value.shape).permuted(&order))?
    };
    let shape: Vec<usize> = if keeps {
        (0..rank).map(|axis| if goes(&axis) { 1 } else { value.shape[axis] }).collect()
    } else {
        kept.iter().map(|&axis| value.shape[axis]).collect()
    };
    let from = rows.span().ok_or_else(|| call.wrong("it has no floats"))?;
    let value = builder.emit(call, shape, from.len, |out| Step::Reduce { reduction, from, out })?;
    Ok(Some(vec![value]))
}
