//! Nodes to steps. Shapes are computed as the nodes are read, whatever depends on constants alone is evaluated at once, and every place
//! of the arena is given: what is left for a run are the steps that depend on its inputs.

mod builder;
mod layers;
mod moves;
mod pointwise;
mod value;

use crate::ModelError;
use crate::error::shown;
use crate::onnx::{File, Graph, Node};
use crate::steps::Step;
pub(crate) use builder::Placed;
use builder::{Builder, Call};
use std::collections::HashSet;

/// Versions of ONNX's operators whose meaning is known.
const OPSETS: std::ops::RangeInclusive<u64> = 9..=21;

/// What a file became.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) arena: Vec<f32>,
    pub(crate) steps: Vec<Step>,
    pub(crate) inputs: Vec<Placed>,
    pub(crate) outputs: Vec<Placed>,
    pub(crate) parameters: usize,
    pub(crate) work: u64,
}

/// Compiles a model of so many bytes.
pub(crate) fn compile(file: &File<'_>, bytes: usize) -> Result<Compiled, ModelError> {
    if !OPSETS.contains(&file.opset) {
        let (opset, (first, last)) = (file.opset, OPSETS.into_inner());
        let node = file.graph.nodes.first().map_or_else(|| "the model".to_owned(), Node::title);
        return Err(ModelError::Opset { opset, first, last, node });
    }
    let mut builder = Builder::of(bytes);
    let constants: HashSet<&str> = file.graph.constants.iter().map(|constant| constant.name).collect();
    let inputs = file.graph.inputs.iter().filter(|input| !constants.contains(input.name));
    let inputs = inputs.map(|input| builder.input(input)).collect::<Result<Vec<_>, _>>()?;
    let parameters = builder.constants(&file.graph)?;
    for node in &file.graph.nodes {
        add(&mut builder, node, file)?;
    }
    let outputs = file.graph.outputs.iter().map(|output| builder.output(output)).collect::<Result<_, _>>()?;
    let Builder { arena, steps, work, .. } = builder;
    Ok(Compiled { arena, steps, inputs, outputs, parameters, work })
}

/// Adds what a node does.
fn add<'a>(builder: &mut Builder<'a>, node: &Node<'a>, file: &File<'a>) -> Result<(), ModelError> {
    let graph = &file.graph;
    let find = |&name: &&'a str| match builder.values.get(name) {
        Some(value) => Ok(Some(value.clone())),
        None if name.is_empty() => Ok(None),
        None => Err(node.unsound(missing(name, graph))),
    };
    let inputs = node.inputs.iter().map(find).collect::<Result<_, _>>()?;
    let call = Call { node, inputs };
    let operator = node.known_operator().unwrap_or_default();
    let made = match moves::build(builder, operator, &call)? {
        Some(made) => Some(made),
        None => match pointwise::build(builder, operator, &call)? {
            Some(made) => Some(made),
            None => layers::build(builder, operator, &call)?,
        },
    };
    let made = made.ok_or_else(|| match node.is_foreign() && !file.has_functions {
        true => ModelError::Foreign { node: node.title() },
        false => ModelError::Operator { node: node.title() },
    })?;
    if let Some(name) = node.unread_attribute() {
        return Err(node.wrong(format!("its attribute {} is not known", shown(name))));
    }
    let mut made = made.into_iter();
    for &name in &node.outputs {
        match made.next() {
            Some(value) if !name.is_empty() => {
                builder.define(name, value).map_err(|what| node.unsound(what))?
            }
            None if !name.is_empty() => {
                return Err(node.wrong(format!("its output {} is not made here", shown(name))));
            }
            _ => {}
        }
    }
    Ok(())
}

fn missing(name: &str, graph: &Graph<'_>) -> String {
    let name_shown = shown(name);
    if graph.nodes.iter().any(|node| node.outputs.contains(&name)) {
        format!(
            "its input {name_shown} is made by itself or a later node: nodes must be in order, without loops"
        )
    } else {
        format!("its input {name_shown} is neither an input, nor a constant, nor made by a node")
    }
}
