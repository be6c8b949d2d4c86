//! The parts of an ONNX file that an evaluation needs. Numbers of fields are those of `onnx.proto3`.

use crate::ModelError;
use crate::error::shown;
use crate::protobuf::{Field, Message, floats};
use std::cell::Cell;

/// More of anything is no policy.
const MOST: usize = 4096;
/// Attributes of a node.
const ATTRIBUTES: usize = 64;
/// Whole numbers of one tensor or attribute: shapes, axes and indices.
pub(crate) const INTEGERS: usize = 16_384;

/// `TensorProto.DataType`.
pub(crate) const FLOAT: u64 = 1;
pub(crate) const INT64: u64 = 7;

#[derive(Debug, Default)]
pub(crate) struct File<'a> {
    pub(crate) producer: &'a str,
    pub(crate) opset: u64,
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) graph: Graph<'a>,
    /// It defines operators of its own, of others.
    pub(crate) has_functions: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Graph<'a> {
    pub(crate) nodes: Vec<Node<'a>>,
    pub(crate) constants: Vec<Tensor<'a>>,
    pub(crate) inputs: Vec<Declared<'a>>,
    pub(crate) outputs: Vec<Declared<'a>>,
}

#[derive(Debug, Default)]
pub(crate) struct Node<'a> {
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) outputs: Vec<&'a str>,
    name: &'a str,
    pub(crate) operator: &'a str,
    domain: &'a str,
    number: usize,
    attributes: Vec<Attribute<'a>>,
}

#[derive(Debug, Default)]
pub(crate) struct Attribute<'a> {
    name: &'a str,
    pub(crate) float: f32,
    pub(crate) int: i64,
    pub(crate) text: &'a [u8],
    pub(crate) tensor: Option<Tensor<'a>>,
    pub(crate) floats: Vec<f32>,
    pub(crate) ints: Vec<i64>,
    pub(crate) texts: Vec<&'a [u8]>,
    was_read: Cell<bool>,
}

#[derive(Debug, Default)]
pub(crate) struct Tensor<'a> {
    pub(crate) name: &'a str,
    pub(crate) shape: Vec<i64>,
    pub(crate) kind: u64,
    floats: Vec<f32>,
    ints: Vec<i64>,
    raw: Option<&'a [u8]>,
    /// Its numbers are in another file, or in parts.
    is_elsewhere: bool,
}

/// An input or output of the graph. A dimension without a number is 0.
#[derive(Debug, Default)]
pub(crate) struct Declared<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: u64,
    pub(crate) shape: Vec<i64>,
}

impl<'a> File<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, ModelError> {
        let mut file = Self::default();
        let mut graph = None;
        for field in Message::of_file(bytes).fields() {
            let field = field?;
            match field.number {
                2 => file.producer = field.message()?.text()?,
                7 => graph = Some(Graph::parse(field.message()?)?),
                8 => file.take_opset(field.message()?)?,
                14 => push(&mut file.metadata, MOST, &field, metadata)?,
                25 => file.has_functions = true,
                _ => {}
            }
        }
        file.graph = graph.ok_or_else(|| Message::of_file(bytes).wrong("there is no graph in it"))?;
        Ok(file)
    }

    fn take_opset(&mut self, message: Message<'a>) -> Result<(), ModelError> {
        let (mut domain, mut version) = ("", 0);
        for field in message.fields() {
            let field = field?;
            match field.number {
                1 => domain = field.message()?.text()?,
                2 => version = field.number()?,
                _ => {}
            }
        }
        if is_onnx(domain) {
            self.opset = version;
        }
        Ok(())
    }
}

impl<'a> Graph<'a> {
    fn parse(message: Message<'a>) -> Result<Self, ModelError> {
        let mut graph = Self::default();
        for field in message.fields() {
            let field = field?;
            match field.number {
                1 => push(&mut graph.nodes, MOST, &field, Node::parse)?,
                5 => push(&mut graph.constants, MOST, &field, Tensor::parse)?,
                11 => push(&mut graph.inputs, MOST, &field, Declared::parse)?,
                12 => push(&mut graph.outputs, MOST, &field, Declared::parse)?,
                15 => return Err(ModelError::Whole("the model has sparse weights".into())),
                _ => {}
            }
        }
        graph.nodes.iter_mut().zip(0..).for_each(|(node, number)| node.number = number);
        Ok(graph)
    }
}

impl<'a> Node<'a> {
    fn parse(message: Message<'a>) -> Result<Self, ModelError> {
        let mut node = Self::default();
        for field in message.fields() {
            let field = field?;
            match field.number {
                1 => push(&mut node.inputs, MOST, &field, Message::text)?,
                2 => push(&mut node.outputs, MOST, &field, Message::text)?,
                3 => node.name = field.message()?.text()?,
                4 => node.operator = field.message()?.text()?,
                5 => push(&mut node.attributes, ATTRIBUTES, &field, Attribute::parse)?,
                7 => node.domain = field.message()?.text()?,
                _ => {}
            }
        }
        Ok(node)
    }

    /// The operator; none if it is of another list than ONNX's own.
    pub(crate) fn known_operator(&self) -> Option<&'a str> {
        is_onnx(self.domain).then_some(self.operator)
    }

    /// The operator is of a list that other programs do not know: neither ONNX's nor onnxruntime's.
    pub(crate) fn is_foreign(&self) -> bool {
        !is_onnx(self.domain)
            && !["ai.onnx.", "com.microsoft"].iter().any(|known| self.domain.starts_with(known))
    }

    /// How an error names it.
    pub(crate) fn title(&self) -> String {
        let domain = if is_onnx(self.domain) { String::new() } else { format!(" of {}", shown(self.domain)) };
        format!("node {} ({}{domain}, named {})", self.number, shown(self.operator), shown(self.name))
    }

    pub(crate) fn wrong(&self, what: impl Into<String>) -> ModelError {
        ModelError::Node { node: self.title(), what: what.into() }
    }

    /// ONNX does not allow it.
    pub(crate) fn unsound(&self, what: impl Into<String>) -> ModelError {
        ModelError::Unsound { node: self.title(), what: what.into() }
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&Attribute<'a>> {
        let found = self.attributes.iter().find(|attribute| attribute.name == name)?;
        found.was_read.set(true);
        Some(found)
    }

    pub(crate) fn float(&self, name: &str, default: f32) -> f32 {
        self.attribute(name).map_or(default, |attribute| attribute.float)
    }

    pub(crate) fn int(&self, name: &str, default: i64) -> i64 {
        self.attribute(name).map_or(default, |attribute| attribute.int)
    }

    /// An unknown attribute may change what the node means.
    pub(crate) fn unread_attribute(&self) -> Option<&'a str> {
        self.attributes.iter().find(|attribute| !attribute.was_read.get()).map(|attribute| attribute.name)
    }
}

impl<'a> Attribute<'a> {
    fn parse(message: Message<'a>) -> Result<Self, ModelError> {
        let mut attribute = Self::default();
        for field in message.fields() {
            let field = field?;
            match field.number {
                1 => attribute.name = field.message()?.text()?,
                2 => attribute.float = field.float()?,
                3 => attribute.int = field.number()?.cast_signed(),
                4 => attribute.text = field.message()?.bytes(),
                5 => attribute.tensor = Some(Tensor::parse(field.message()?)?),
                7 => field.floats(&mut attribute.floats)?,
                8 => field.numbers(&mut attribute.ints, INTEGERS)?,
                9 => push(&mut attribute.texts, ATTRIBUTES, &field, |text| Ok(text.bytes()))?,
                _ => {}
            }
        }
        Ok(attribute)
    }
}

impl<'a> Tensor<'a> {
    fn parse(message: Message<'a>) -> Result<Self, ModelError> {
        let mut tensor = Self::default();
        for field in message.fields() {
            let field = field?;
            match field.number {
                1 => field.numbers(&mut tensor.shape, ATTRIBUTES)?,
                2 => tensor.kind = field.number()?,
                4 => field.floats(&mut tensor.floats)?,
                7 => field.numbers(&mut tensor.ints, INTEGERS)?,
                8 => tensor.name = field.message()?.text()?,
                9 => tensor.raw = Some(field.message()?.bytes()),
                14 => tensor.is_elsewhere |= field.number()? != 0,
                3 | 13 => tensor.is_elsewhere = true,
                _ => {}
            }
        }
        Ok(tensor)
    }

    /// Its numbers, if they are floats: as many as its shape has, and all finite.
    pub(crate) fn floats(&self, count: usize) -> Result<Vec<f32>, ModelError> {
        let values: Vec<f32> = match self.raw {
            Some(raw) if raw.len() != count.saturating_mul(4) => {
                return Err(self.miscounted(count, raw.len() / 4));
            }
            Some(raw) => floats(raw).into_iter().flatten().collect(),
            None => self.floats.clone(),
        };
        if values.len() != count {
            return Err(self.miscounted(count, values.len()));
        }
        match values.iter().position(|value| !value.is_finite()) {
            Some(place) => Err(self.wrong(format!("number {place} of it is {}", values[place]))),
            None => Ok(values),
        }
    }

    /// Its numbers, if they are whole.
    pub(crate) fn ints(&self, count: usize) -> Result<Vec<i64>, ModelError> {
        let values: Vec<i64> = match self.raw {
            Some(raw) if raw.len() / 8 > INTEGERS => return Err(self.miscounted(count, raw.len() / 8)),
            Some(raw) => raw.as_chunks::<8>().0.iter().map(|&bytes| i64::from_le_bytes(bytes)).collect(),
            None => self.ints.clone(),
        };
        if values.len() == count { Ok(values) } else { Err(self.miscounted(count, values.len())) }
    }

    /// Its shape, if its numbers are in this file.
    pub(crate) fn shape(&self) -> Result<Vec<usize>, ModelError> {
        if self.is_elsewhere {
            let text = "its numbers are in another file: make it one by `onnx.save(onnx.load(\"policy.onnx\"), \"whole.onnx\")` in Python";
            return Err(self.wrong(text));
        }
        let shape = self.shape.iter().map(|&size| usize::try_from(size).ok()).collect::<Option<Vec<_>>>();
        shape.ok_or_else(|| self.wrong("it has a negative dimension"))
    }

    pub(crate) fn wrong(&self, what: impl Into<String>) -> ModelError {
        ModelError::Tensor { name: shown(self.name), what: what.into() }
    }

    fn miscounted(&self, wanted: usize, found: usize) -> ModelError {
        self.wrong(format!("its shape {:?} is of {wanted} numbers, and {found} are there", self.shape))
    }
}

impl<'a> Declared<'a> {
    fn parse(message: Message<'a>) -> Result<Self, ModelError> {
        let mut declared = Self::default();
        for field in message.fields() {
            let field = field?;
            match field.number {
                1 => declared.name = field.message()?.text()?,
                2 => declared.take_type(field.message()?)?,
                _ => {}
            }
        }
        Ok(declared)
    }

    /// `TypeProto`, of which a tensor is one.
    fn take_type(&mut self, message: Message<'a>) -> Result<(), ModelError> {
        for field in message.fields() {
            let field = field?;
            if field.number != 1 {
                continue;
            }
            for field in field.message()?.fields() {
                let field = field?;
                match field.number {
                    1 => self.kind = field.number()?,
                    2 => self.take_shape(field.message()?)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn take_shape(&mut self, message: Message<'a>) -> Result<(), ModelError> {
        for field in message.fields() {
            let field = field?;
            if field.number == 1 {
                push(&mut self.shape, ATTRIBUTES, &field, dimension)?;
            }
        }
        Ok(())
    }
}

fn dimension(message: Message<'_>) -> Result<i64, ModelError> {
    let mut size = 0;
    for field in message.fields() {
        let field = field?;
        if field.number == 1 {
            size = field.number()?.cast_signed();
        }
    }
    Ok(size)
}

fn metadata(message: Message<'_>) -> Result<(String, String), ModelError> {
    let (mut key, mut value) = ("", "");
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => key = field.message()?.text()?,
            2 => value = field.message()?.text()?,
            _ => {}
        }
    }
    Ok((key.into(), value.into()))
}

fn is_onnx(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx")
}

fn push<'a, T>(
    into: &mut Vec<T>,
    most: usize,
    field: &Field<'a>,
    parse: impl Fn(Message<'a>) -> Result<T, ModelError>,
) -> Result<(), ModelError> {
    let message = field.message()?;
    if into.len() >= most {
        return Err(message.wrong("more parts than any policy has here"));
    }
    into.push(parse(message)?);
    Ok(())
}
