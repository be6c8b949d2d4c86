//! A model, and one evaluation of it.

use crate::ModelError;
use crate::compile::{Compiled, Placed, compile};
use crate::onnx::File;

/// The largest file that is read, bytes.
pub const LARGEST: usize = 64 << 20;

/// A model with all the memory it needs. A clone is another one, with numbers of its own.
///
/// ```no_run
/// let mut model = khz_policy::Model::parse(&std::fs::read("policy.onnx")?)?;
/// model.input_mut(0).fill(0.0);
/// model.run();
/// println!("{:?}", model.output(0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Model {
    compiled: Compiled,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    metadata: Vec<(String, String)>,
    operators: Vec<(String, usize)>,
    producer: String,
    opset: u64,
}

/// An input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name in the file.
    pub name: String,
    /// Its dimensions; one that the file leaves open is 1.
    pub shape: Vec<usize>,
}

impl Model {
    /// Reads a model from the bytes of an ONNX file. Takes time and memory in proportion to them, however they were made.
    ///
    /// # Errors
    /// If they are no such file, or a model that cannot be evaluated here; the text names the node, tensor, input or output.
    pub fn parse(bytes: &[u8]) -> Result<Self, ModelError> {
        if bytes.len() > LARGEST {
            let what = format!("a file of {} bytes is larger than any policy's ({LARGEST})", bytes.len());
            return Err(ModelError::Whole(what));
        }
        let file = File::parse(bytes)?;
        let compiled = compile(&file, bytes.len())?;
        if compiled.inputs.is_empty() || compiled.outputs.is_empty() {
            return Err(ModelError::Whole("the model has no input, or no output".into()));
        }
        let ports = |placed: &[Placed]| {
            placed
                .iter()
                .map(|Placed { name, shape, .. }| Port { name: name.clone(), shape: shape.clone() })
                .collect()
        };
        Ok(Self {
            inputs: ports(&compiled.inputs),
            outputs: ports(&compiled.outputs),
            compiled,
            operators: operators(&file),
            producer: file.producer.into(),
            opset: file.opset,
            metadata: file.metadata,
        })
    }

    /// Its inputs, in the order of the file.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// Its outputs, in the order of the file.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// The numbers of an input, 0 at first; they stay until they are changed. Does not allocate.
    ///
    /// # Panics
    /// If there is no such input.
    pub fn input_mut(&mut self, number: usize) -> &mut [f32] {
        let span = self.compiled.inputs[number].span;
        &mut self.compiled.arena[span.start..span.start + span.len]
    }

    /// The numbers of an input as they are. Does not allocate.
    ///
    /// # Panics
    /// If there is no such input.
    pub fn input(&self, number: usize) -> &[f32] {
        self.compiled.inputs[number].span.of(&self.compiled.arena)
    }

    /// The numbers of an output as the last [`run`](Self::run) made them. Does not allocate.
    ///
    /// # Panics
    /// If there is no such output.
    pub fn output(&self, number: usize) -> &[f32] {
        self.compiled.outputs[number].span.of(&self.compiled.arena)
    }

    /// Evaluates it once. Neither allocates nor waits. Whatever an input has, NaN too, the outputs have what follows from it.
    pub fn run(&mut self) {
        let Compiled { steps, arena, .. } = &mut self.compiled;
        steps.iter().for_each(|step| step.run(arena));
    }

    /// An input has from now on what an output has. Does not allocate.
    ///
    /// # Panics
    /// If there is no such input or output, or they differ in length.
    pub fn carry(&mut self, output: usize, input: usize) {
        let (from, to) = (self.compiled.outputs[output].span, self.compiled.inputs[input].span);
        assert_eq!(from.len, to.len, "an output that is carried to an input of another length");
        self.compiled.arena.copy_within(from.start..from.start + from.len, to.start);
    }

    /// The file's metadata: keys and values as they are.
    pub fn metadata(&self) -> &[(String, String)] {
        &self.metadata
    }

    /// Its operators, each with the number of nodes.
    pub fn operators(&self) -> &[(String, usize)] {
        &self.operators
    }

    /// How many weights it has.
    pub fn parameters(&self) -> usize {
        self.compiled.parameters
    }

    /// About how many multiplications one evaluation takes, and those that were made once.
    pub fn work(&self) -> u64 {
        self.compiled.work
    }

    /// Who wrote the file.
    pub fn producer(&self) -> &str {
        &self.producer
    }

    /// The version of ONNX's operators it is written with.
    pub fn opset(&self) -> u64 {
        self.opset
    }
}

/// The metadata of an ONNX file, whichever engine evaluates it: keys and values as they are.
///
/// # Errors
/// It is no such file, or damaged.
pub fn metadata(bytes: &[u8]) -> Result<Vec<(String, String)>, ModelError> {
    Ok(File::parse(bytes)?.metadata)
}

fn operators(file: &File<'_>) -> Vec<(String, usize)> {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    file.graph.nodes.iter().for_each(|node| *counts.entry(node.operator).or_default() += 1);
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}
