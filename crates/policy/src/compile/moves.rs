//! Operators that move numbers, and compute with shapes.

use super::builder::{Builder, Call};
use super::value::{Content, RANK, Value, View, axis_of, broadcast, is_sound};
use crate::ModelError;
use crate::onnx::{FLOAT, INT64};
use crate::steps::Step;

/// What the node makes; none if the operator is not one of these.
pub(super) fn build(
    builder: &mut Builder<'_>,
    operator: &str,
    call: &Call<'_, '_>,
) -> Result<Option<Vec<Value>>, ModelError> {
    let value = match operator {
        "Identity" => call.input(0)?.clone(),
        "Dropout" => dropout(call)?,
        "Cast" => cast(builder, call)?,
        "Constant" => constant(builder, call)?,
        "ConstantOfShape" => filled(builder, call)?,
        "Shape" => shape_of(builder, call)?,
        "Flatten" => flatten(call)?,
        "Reshape" => reshape(call)?,
        "Squeeze" => squeeze(call)?,
        "Unsqueeze" => unsqueeze(call)?,
        "Transpose" => transpose(builder, call)?,
        "Slice" => slice(builder, call)?,
        "Expand" => expand(builder, call)?,
        "Gather" => gather(builder, call)?,
        "Concat" => concat(builder, call)?,
        "Split" => return split(builder, call).map(Some),
        _ => return Ok(None),
    };
    Ok(Some(vec![value]))
}

/// The same numbers in another shape.
fn reshaped(call: &Call<'_, '_>, value: &Value, shape: Vec<usize>) -> Result<Value, ModelError> {
    let fits = is_sound(&shape) && shape.iter().product::<usize>() == value.len();
    if !fits {
        return Err(call.wrong(format!("{:?} cannot take the shape {shape:?}", value.shape)));
    }
    Ok(Value { shape, content: value.content.clone() })
}

/// In use it leaves everything as it is.
fn dropout(call: &Call<'_, '_>) -> Result<Value, ModelError> {
    call.node.float("ratio", 0.5);
    call.node.int("seed", 0);
    if call.maybe(2).is_some() {
        return Err(call.wrong("it has an input that selects training"));
    }
    call.input(0).cloned()
}

fn cast(builder: &mut Builder<'_>, call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let value = call.input(0)?;
    call.node.int("saturate", 1);
    match (u64::try_from(call.node.int("to", 0)), &value.content) {
        (Ok(FLOAT), Content::Ints(values)) => {
            let floats: Vec<f32> = values.iter().map(|&value| value as f32).collect();
            constants(builder, call, value.shape.clone(), &floats)
        }
        (Ok(FLOAT), _) | (Ok(INT64), Content::Ints(_)) => Ok(value.clone()),
        _ => Err(call.wrong("only a cast to float32, and one from int64 to int64, is taken")),
    }
}

/// Floats that are known.
fn constants(
    builder: &mut Builder<'_>,
    call: &Call<'_, '_>,
    shape: Vec<usize>,
    values: &[f32],
) -> Result<Value, ModelError> {
    let count = builder.check(call, &shape)?;
    if values.len() != count {
        return Err(call.wrong(format!("the shape {shape:?} is not of {} numbers", values.len())));
    }
    let span = builder.grow(&shape).ok_or_else(|| call.wrong("the model is larger than any policy"))?;
    builder.arena[span.start..].copy_from_slice(values);
    Ok(Value::floats(shape, span.start, true))
}

fn constant(builder: &mut Builder<'_>, call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let node = call.node;
    if let Some(tensor) = node.attribute("value").and_then(|attribute| attribute.tensor.as_ref()) {
        return builder.constant(tensor).map_err(|error| node.wrong(error.to_string()));
    }
    if let Some(attribute) = node.attribute("value_float") {
        return constants(builder, call, Vec::new(), &[attribute.float]);
    }
    if let Some(attribute) = node.attribute("value_floats") {
        return constants(builder, call, vec![attribute.floats.len()], &attribute.floats);
    }
    if let Some(attribute) = node.attribute("value_int") {
        return builder.ints(call, Vec::new(), vec![attribute.int]);
    }
    let ints =
        node.attribute("value_ints").ok_or_else(|| call.wrong("it has no value that is taken here"))?;
    builder.ints(call, vec![ints.ints.len()], ints.ints.clone())
}

fn filled(builder: &mut Builder<'_>, call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let shape = sizes(call, call.ints(0)?.unwrap_or_default())?;
    let count = builder.check(call, &shape)?;
    match call.node.attribute("value").and_then(|attribute| attribute.tensor.as_ref()) {
        None => constants(builder, call, shape, &vec![0.0; count]),
        Some(tensor) if tensor.kind == FLOAT => {
            let value = tensor.floats(1)?[0];
            constants(builder, call, shape, &vec![value; count])
        }
        Some(tensor) if tensor.kind == INT64 && count <= crate::onnx::INTEGERS => {
            let value = tensor.ints(1)?[0];
            builder.ints(call, shape, vec![value; count])
        }
        Some(_) => Err(call.wrong("its value is neither float32 nor int64, or too large")),
    }
}

/// Sizes as whole numbers of the file have them.
fn sizes(call: &Call<'_, '_>, values: &[i64]) -> Result<Vec<usize>, ModelError> {
    let sizes = values.iter().map(|&size| usize::try_from(size).ok()).collect::<Option<Vec<_>>>();
    sizes.ok_or_else(|| call.wrong(format!("{values:?} is no shape")))
}

fn shape_of(builder: &mut Builder<'_>, call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let shape = &call.input(0)?.shape;
    let sizes: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
    let last = sizes.len() as i64;
    let place =
        |place: i64| (if place < 0 { place.saturating_add(last) } else { place }).clamp(0, last) as usize;
    let (start, end) = (place(call.node.int("start", 0)), place(call.node.int("end", last)));
    let sizes = sizes.get(start..end).unwrap_or_default().to_vec();
    builder.ints(call, vec![sizes.len()], sizes)
}

fn flatten(call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let value = call.input(0)?;
    let (axis, rank) = (call.node.int("axis", 1), value.shape.len());
    let axis = if axis == rank as i64 { rank } else { call.axis(axis, rank)? };
    let product = |sizes: &[usize]| sizes.iter().product();
    reshaped(call, value, vec![product(&value.shape[..axis]), product(&value.shape[axis..])])
}

fn reshape(call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let value = call.input(0)?;
    let wanted = call.ints(1)?.ok_or_else(|| call.wrong("it has no shape"))?;
    let keeps_zero = call.node.int("allowzero", 0) == 0;
    let mut shape = Vec::new();
    for (axis, &size) in wanted.iter().enumerate().take(9) {
        shape.push(match size {
            -1 => 1,
            0 if keeps_zero => {
                *value.shape.get(axis).ok_or_else(|| call.wrong("it keeps a size there is not"))?
            }
            size => usize::try_from(size).map_err(|_| call.wrong(format!("{wanted:?} is no shape")))?,
        });
    }
    if let Some(open) = wanted.iter().take(9).position(|&size| size == -1) {
        let others = shape.iter().try_fold(1_usize, |count, &size| count.checked_mul(size)).unwrap_or(0);
        shape[open] = value.len().checked_div(others).unwrap_or(0);
    }
    reshaped(call, value, shape)
}

fn squeeze(call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let value = call.input(0)?;
    let rank = value.shape.len();
    let axes = call.ints_or(1, "axes")?;
    let axes = axes
        .map(|axes| axes.iter().map(|&axis| call.axis(axis, rank)).collect::<Result<Vec<_>, _>>())
        .transpose()?;
    let goes = |axis: usize| axes.as_ref().map_or(value.shape[axis] == 1, |axes| axes.contains(&axis));
    reshaped(call, value, (0..rank).filter(|&axis| !goes(axis)).map(|axis| value.shape[axis]).collect())
}

fn unsqueeze(call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let value = call.input(0)?;
    let axes = call.ints_or(1, "axes")?.ok_or_else(|| call.wrong("it has no axes"))?;
    if axes.len() > RANK {
        return Err(call.wrong(format!("it adds {} axes", axes.len())));
    }
    let rank = value.shape.len() + axes.len();
    let axes = axes.iter().map(|&axis| call.axis(axis, rank)).collect::<Result<Vec<_>, _>>()?;
    let mut sizes = value.shape.iter();
    let shape = (0..rank).map(|axis| if axes.contains(&axis) { Some(1) } else { sizes.next().copied() });
    reshaped(
        call,
        value,
        shape.collect::<Option<_>>().ok_or_else(|| call.unsound("an axis of it is there twice"))?,
    )
}

fn transpose(builder: &mut Builder<'_>, call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let value = call.input(0)?;
    let rank = value.shape.len();
    let order = match call.node.attribute("perm") {
        None => (0..rank).rev().collect::<Vec<_>>(),
        Some(attribute) => {
            attribute.ints.iter().map(|&axis| call.axis(axis, rank)).collect::<Result<_, _>>()?
        }
    };
    if order.len() != rank || (0..rank).any(|axis| !order.contains(&axis)) {
        return Err(call.unsound(format!("{order:?} is no order of its {rank} dimensions")));
    }
    builder.view(call, value, &View::whole(&value.shape).permuted(&order))
}

fn slice(builder: &mut Builder<'_>, call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let value = call.input(0)?;
    let none = || call.wrong("it has no starts or ends");
    let starts = call.ints_or(1, "starts")?.ok_or_else(none)?;
    let ends = call.ints_or(2, "ends")?.ok_or_else(none)?;
    let axes = call.ints_or(3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = call.ints(4)?.map_or_else(|| vec![1; starts.len()], <[i64]>::to_vec);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Err(call.unsound("its starts, ends, axes and steps are not as many as each other"));
    }
    let mut view = View::whole(&value.shape);
    let mut cut_before = Vec::new();
    for (((start, end), axis), step) in starts.into_iter().zip(ends).zip(axes).zip(steps) {
        let axis = call.axis(axis, value.shape.len())?;
        if cut_before.contains(&axis) {
            return Err(call.wrong("it cuts an axis twice"));
        }
        cut_before.push(axis);
        let size = value.shape[axis] as i64;
        // A longer step takes the first one alone, too.
        let step = step.clamp(-size, size);
        let (first, count) = cut(size, start, end, step)
            .ok_or_else(|| call.wrong(format!("nothing is left of axis {axis}")))?;
        view.cut(axis, first, count, step);
    }
    builder.view(call, value, &view)
}

/// The first place and how many there are, as Python's slices have it; none if there is none.
fn cut(size: i64, start: i64, end: i64, step: i64) -> Option<(usize, usize)> {
    let (least, most) = if step < 0 { (-1, size - 1) } else { (0, size) };
    let place = |place: i64| (if place < 0 { place.saturating_add(size) } else { place }).clamp(least, most);
    let (start, end) = (place(start), place(end));
    let distance = if step < 0 { start - end } else { end - start };
    let count = (distance > 0 && step != 0).then(|| distance.unsigned_abs().div_ceil(step.unsigned_abs()))?;
    Some((usize::try_from(start).ok()?, usize::try_from(count).ok()?))
}

fn expand(builder: &mut Builder<'_>, call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let value = call.input(0)?;
    let wanted = sizes(call, call.ints(1)?.unwrap_or_default())?;
    let shape = broadcast(&value.shape, &wanted)
        .ok_or_else(|| call.unsound(format!("{:?} cannot be stretched to {wanted:?}", value.shape)))?;
    builder.stretch(call, value, &shape)
}

fn gather(builder: &mut Builder<'_>, call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let value = call.input(0)?;
    let axis = call.axis(call.node.int("axis", 0), value.shape.len())?;
    let indices = call.ints(1)?.ok_or_else(|| call.wrong("it has no indices"))?;
    let size = value.shape[axis];
    let index = |&index: &i64| {
        let place = axis_of(index, size);
        place.ok_or_else(|| call.unsound(format!("there is no index {index} on an axis of {size}")))
    };
    let indices = indices.iter().map(index).collect::<Result<Vec<_>, _>>()?;
    let (outer, inner) = (&value.shape[..axis], &value.shape[axis + 1..]);
    let shape = [outer, &call.input(1)?.shape, inner].concat();
    builder.check(call, &shape)?;
    let (outer, inner): (usize, usize) = (outer.iter().product(), inner.iter().product());
    let mut places = Vec::new();
    for outer in 0..outer {
        places.extend(indices.iter().flat_map(|index| {
            let first = (outer * size + index) * inner;
            first..first + inner
        }));
    }
    builder.pick(call, value, shape, &places)
}

fn concat(builder: &mut Builder<'_>, call: &Call<'_, '_>) -> Result<Value, ModelError> {
    let parts = call.inputs.iter().flatten().collect::<Vec<_>>();
    let first = call.input(0)?;
    let axis = call.axis(call.node.int("axis", 0), first.shape.len())?;
    let mut shape = first.shape.clone();
    shape[axis] = 0;
    for part in &parts {
        let others = |shape: &[usize]| [&shape[..axis], &shape[axis + 1..]].concat();
        if part.shape.len() != shape.len() || others(&part.shape) != others(&shape) {
            return Err(call.wrong(format!("{:?} and {:?} do not go together", first.shape, part.shape)));
        }
        shape[axis] = shape[axis].saturating_add(part.shape[axis]);
    }
    let count = builder.check(call, &shape)?;
    let outer: usize = shape[..axis].iter().product();
    let rows = (0..outer).flat_map(|row| parts.iter().map(move |part| (*part, row)));
    if let Content::Ints(_) = first.content {
        let mut values = Vec::with_capacity(count);
        for (part, row) in rows {
            let Content::Ints(of) = &part.content else {
                return Err(call.wrong("it mixes int64 and floats"));
            };
            let len = part.len() / outer;
            values.extend_from_slice(&of[row * len..(row + 1) * len]);
        }
        return builder.ints(call, shape, values);
    }
    let mut places = Vec::with_capacity(count);
    for (part, row) in rows {
        let span = part.span().ok_or_else(|| call.wrong("it mixes int64 and floats"))?;
        let len = span.len / outer;
        places.extend((0..len).map(|number| (span.start + row * len + number) as u32));
    }
    builder.emit(call, shape, 0, |out| Step::Pick { places: places.into(), out })
}

fn split(builder: &mut Builder<'_>, call: &Call<'_, '_>) -> Result<Vec<Value>, ModelError> {
    let value = call.input(0)?;
    let axis = call.axis(call.node.int("axis", 0), value.shape.len())?;
    let (size, parts) = (value.shape[axis], call.node.outputs.len().max(1));
    call.node.int("num_outputs", 0);
    let lengths = match call.ints_or(1, "split")? {
        Some(lengths) => sizes(call, &lengths)?,
        // The last one is shorter if they cannot be equal.
        None => {
            let len = size.div_ceil(parts);
            (0..parts).map(|part| len.min(size.saturating_sub(part * len))).collect()
        }
    };
    if lengths.iter().try_fold(0_usize, |sum, &len| sum.checked_add(len)) != Some(size) {
        return Err(call.unsound(format!("parts of {lengths:?} are not the {size} there are")));
    }
    let mut first = 0;
    let part = |&len: &usize| {
        let mut view = View::whole(&value.shape);
        view.cut(axis, first, len, 1);
        first += len;
        builder.view(call, value, &view)
    };
    lengths.iter().map(part).collect()
}
