//! What is known of a model while its nodes are read, and what each of them asks for.

use super::value::{Content, Value, View, axis_of, elements, is_sound};
use crate::ModelError;
use crate::error::shown;
use crate::onnx::{Declared, FLOAT, Graph, INT64, Node, Tensor};
use crate::steps::{Span, Step};
use std::collections::{HashMap, HashSet};

/// Multiplications of one run: 0.1 s or so, a hundred times those of a large policy.
const WORK: u64 = 200_000_000;
/// Numbers beside those of the file.
const ROOM: usize = 1 << 21;
/// Whole numbers that are computed.
const INTS: usize = 1 << 18;

/// An input or output in the arena.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) span: Span,
}

/// A model on its way.
#[derive(Default)]
pub(super) struct Builder<'a> {
    pub(super) arena: Vec<f32>,
    pub(super) steps: Vec<Step>,
    pub(super) values: HashMap<&'a str, Value>,
    pub(super) work: u64,
    /// Constant matrices that nodes have turned, by where they begin and their shape: several nodes may share one.
    pub(super) turned: HashMap<(usize, Vec<usize>), Value>,
    /// Inputs are in the arena up to here.
    inputs: usize,
    /// Numbers that the arena may still have, and whole ones beside it.
    room: usize,
    ints: usize,
}

/// A node, and what its inputs are.
pub(super) struct Call<'n, 'a> {
    pub(super) node: &'n Node<'a>,
    pub(super) inputs: Vec<Option<Value>>,
}

impl<'a> Builder<'a> {
    /// For a file of so many bytes.
    pub(super) fn of(bytes: usize) -> Self {
        Self { room: bytes / 2 + ROOM, ..Self::default() }
    }

    pub(super) fn input(&mut self, declared: &Declared<'a>) -> Result<Placed, ModelError> {
        let wrong = |what: String| wrong_port("input", declared.name, what);
        if declared.kind != FLOAT {
            return Err(wrong(format!(
                "its elements are of type {}, and only float32 (1) is taken",
                declared.kind
            )));
        }
        is_possible(&declared.shape).map_err(wrong)?;
        // A batch without a number is one observation.
        let shape: Vec<usize> =
            declared.shape.iter().map(|&size| usize::try_from(size).unwrap_or(1).max(1)).collect();
        let span = self
            .grow(&shape)
            .ok_or_else(|| wrong(format!("a shape of {shape:?} is larger than any policy's")))?;
        let value = Value::floats(shape.clone(), span.start, false);
        self.define(declared.name, value).map_err(wrong)?;
        self.inputs = self.arena.len();
        Ok(Placed { name: declared.name.into(), shape, span })
    }

    /// One that is an input, whatever it is called and shaped, is copied: otherwise a number that is carried to that input would change an
    /// output that is still to be carried.
    pub(super) fn output(&mut self, declared: &Declared<'a>) -> Result<Placed, ModelError> {
        let wrong = |what: String| wrong_port("output", declared.name, what);
        is_possible(&declared.shape).map_err(wrong)?;
        let value =
            self.values.get(declared.name).cloned().ok_or_else(|| wrong("no node makes it".into()))?;
        let span = value.span().ok_or_else(|| wrong("it has whole numbers, and no floats".into()))?;
        let fits =
            |(&declared, &size): (&i64, &usize)| declared <= 0 || usize::try_from(declared) == Ok(size);
        let (declared_shape, shape) = (&declared.shape, &value.shape);
        if !declared_shape.is_empty()
            && (declared_shape.len() != shape.len() || !declared_shape.iter().zip(shape).all(fits))
        {
            return Err(wrong(format!(
                "the file says its shape is {declared_shape:?}, and its nodes make {shape:?}"
            )));
        }
        let span = if span.start < self.inputs {
            let out = self
                .grow(shape)
                .ok_or_else(|| wrong(format!("a shape of {shape:?} is larger than any policy's")))?;
            let places = (span.start..span.start + span.len).map(|place| place as u32).collect();
            self.steps.push(Step::Pick { places, out });
            out
        } else {
            span
        };
        Ok(Placed { name: declared.name.into(), shape: shape.clone(), span })
    }

    /// Takes the constants that a node or an output has; gives how many floats they are.
    pub(super) fn constants(&mut self, graph: &Graph<'a>) -> Result<usize, ModelError> {
        let of_nodes = graph.nodes.iter().flat_map(|node| node.inputs.iter().copied());
        let used: HashSet<&str> = of_nodes.chain(graph.outputs.iter().map(|output| output.name)).collect();
        let before = self.arena.len();
        for tensor in graph.constants.iter().filter(|tensor| used.contains(tensor.name)) {
            let value = self.constant(tensor)?;
            self.define(tensor.name, value).map_err(|what| tensor.wrong(what))?;
        }
        Ok(self.arena.len() - before)
    }

    pub(super) fn constant(&mut self, tensor: &Tensor<'_>) -> Result<Value, ModelError> {
        let shape = tensor.shape()?;
        let large =
            || tensor.wrong(format!("a shape of {shape:?} is of nothing, or larger than any policy's"));
        match tensor.kind {
            FLOAT => {
                let values = tensor.floats(elements(&shape).ok_or_else(large)?)?;
                let span = self.grow(&shape).ok_or_else(large)?;
                self.arena[span.start..].copy_from_slice(&values);
                Ok(Value::floats(shape, span.start, true))
            }
            INT64 => {
                let count = if shape == [0] { Some(0) } else { elements(&shape) };
                let values = tensor.ints(count.ok_or_else(large)?)?;
                Ok(Value { shape, content: Content::Ints(values.into()) })
            }
            kind => Err(ModelError::Kind { name: shown(tensor.name), kind }),
        }
    }

    pub(super) fn define(&mut self, name: &'a str, value: Value) -> Result<(), String> {
        match self.values.insert(name, value) {
            None => Ok(()),
            Some(_) => Err(format!("{} is there twice", shown(name))),
        }
    }

    /// A place for a tensor behind all others; none if it is larger than any policy's.
    pub(super) fn grow(&mut self, shape: &[usize]) -> Option<Span> {
        let span = Span { start: self.arena.len(), len: elements(shape)? };
        self.room = self.room.checked_sub(span.len)?;
        self.arena.resize(span.start + span.len, 0.0);
        Some(span)
    }

    /// A step that makes floats of this shape, and so many multiplications; done at once if all it needs is constant.
    pub(super) fn emit(
        &mut self,
        call: &Call<'_, '_>,
        shape: Vec<usize>,
        work: usize,
        step: impl FnOnce(Span) -> Step,
    ) -> Result<Value, ModelError> {
        let large =
            || call.node.wrong(format!("a tensor of {shape:?} is of nothing, or larger than any policy's"));
        let span = self.grow(&shape).ok_or_else(large)?;
        self.work = self.work.saturating_add(work as u64);
        if self.work > WORK {
            let what =
                format!("up to here a decision takes more than {} million multiplications", WORK / 1_000_000);
            return Err(call.node.wrong(what));
        }
        let step = step(span);
        let is_constant = call.inputs.iter().flatten().all(Value::is_constant);
        if is_constant {
            step.run(&mut self.arena);
        } else {
            self.steps.push(step);
        }
        Ok(Value::floats(shape, span.start, is_constant))
    }

    /// Whole numbers of this shape.
    pub(super) fn ints(
        &mut self,
        call: &Call<'_, '_>,
        shape: Vec<usize>,
        values: Vec<i64>,
    ) -> Result<Value, ModelError> {
        self.ints += values.len();
        if self.ints > INTS || !is_sound(&shape) {
            return Err(call.node.wrong("up to here there are more whole numbers than any policy has"));
        }
        Ok(Value { shape, content: Content::Ints(values.into()) })
    }
}

impl Call<'_, '_> {
    pub(super) fn maybe(&self, number: usize) -> Option<&Value> {
        self.inputs.get(number)?.as_ref()
    }

    pub(super) fn input(&self, number: usize) -> Result<&Value, ModelError> {
        self.maybe(number).ok_or_else(|| self.unsound(format!("it has no input {number}")))
    }

    /// An input and where its floats are.
    pub(super) fn floats(&self, number: usize) -> Result<(&Value, Span), ModelError> {
        let value = self.input(number)?;
        let span = value.span().ok_or_else(|| self.wrong(format!("its input {number} has no floats")))?;
        Ok((value, span))
    }

    /// Whole numbers, if there is such an input.
    pub(super) fn ints(&self, number: usize) -> Result<Option<&[i64]>, ModelError> {
        match self.maybe(number).map(|value| &value.content) {
            None => Ok(None),
            Some(Content::Ints(values)) => Ok(Some(values)),
            Some(_) => {
                Err(self.wrong(format!("its input {number} is not known before the first run, or no int64")))
            }
        }
    }

    /// Whole numbers of an input, or in older versions of an attribute.
    pub(super) fn ints_or(&self, number: usize, attribute: &str) -> Result<Option<Vec<i64>>, ModelError> {
        let of_attribute = self.node.attribute(attribute).map(|attribute| attribute.ints.clone());
        Ok(self.ints(number)?.map(<[i64]>::to_vec).or(of_attribute))
    }

    /// One constant float, if there is such an input.
    pub(super) fn constant(&self, number: usize, arena: &[f32]) -> Result<Option<f32>, ModelError> {
        let Some(value) = self.maybe(number) else { return Ok(None) };
        match value.span() {
            Some(span) if value.is_constant() && span.len == 1 => Ok(Some(arena[span.start])),
            _ => Err(self.wrong(format!("its input {number} is not one constant float"))),
        }
    }

    pub(super) fn wrong(&self, what: impl Into<String>) -> ModelError {
        self.node.wrong(what)
    }

    pub(super) fn unsound(&self, what: impl Into<String>) -> ModelError {
        self.node.unsound(what)
    }

    pub(super) fn axis(&self, axis: i64, rank: usize) -> Result<usize, ModelError> {
        axis_of(axis, rank)
            .ok_or_else(|| self.unsound(format!("there is no axis {axis} in {rank} dimensions")))
    }
}

/// Some exporters write -1 for what is open; nothing else below 0 has a meaning.
fn is_possible(shape: &[i64]) -> Result<(), String> {
    match shape.iter().any(|&size| size < -1) {
        true => Err(format!("the file says its shape is {shape:?}, and no dimension is negative")),
        false => Ok(()),
    }
}

fn wrong_port(kind: &str, name: &str, what: String) -> ModelError {
    ModelError::Port { port: format!("{kind} {}", shown(name)), what }
}

impl Builder<'_> {
    /// How many numbers such a tensor has, if it has any, and there is room for them: asked before anything is made of them.
    pub(super) fn check(&self, call: &Call<'_, '_>, shape: &[usize]) -> Result<usize, ModelError> {
        let count = elements(shape).filter(|&count| count <= self.room);
        count.ok_or_else(|| {
            call.wrong(format!("a tensor of {shape:?} is of nothing, or larger than any policy's"))
        })
    }

    /// The numbers of `value` at these places, in this shape.
    pub(super) fn pick(
        &mut self,
        call: &Call<'_, '_>,
        value: &Value,
        shape: Vec<usize>,
        places: &[usize],
    ) -> Result<Value, ModelError> {
        match &value.content {
            Content::Ints(values) => {
                let picked = places.iter().map(|&place| values[place]).collect();
                self.ints(call, shape, picked)
            }
            Content::Floats { start, .. } => {
                let places = places.iter().map(|place| (start + place) as u32).collect();
                self.emit(call, shape, 0, |out| Step::Pick { places, out })
            }
        }
    }

    pub(super) fn view(
        &mut self,
        call: &Call<'_, '_>,
        value: &Value,
        view: &View,
    ) -> Result<Value, ModelError> {
        self.check(call, &view.shape)?;
        self.pick(call, value, view.shape.clone(), &view.places())
    }

    /// Stretched to this shape, if it is not of it already.
    pub(super) fn stretch(
        &mut self,
        call: &Call<'_, '_>,
        value: &Value,
        to: &[usize],
    ) -> Result<Value, ModelError> {
        if value.shape == to {
            return Ok(value.clone());
        }
        self.view(call, value, &View::stretched(&value.shape, to))
    }
}
