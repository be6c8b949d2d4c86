//! Why a model is refused.

use crate::operators::OPERATORS;

/// Why a model is refused. Names out of the file are escaped and cut, whatever is in them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The bytes are no protobuf, or end early.
    #[error("not an ONNX model, or damaged: byte {at}: {what}")]
    Bytes {
        /// Where in the file.
        at: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// An operator that is not evaluated here, and may be elsewhere.
    #[error("{node}: this operator is not evaluated here; known are {}", OPERATORS.join(", "))]
    Operator {
        /// Number, operator and name of the node.
        node: String,
    },
    /// An operator of a list that is not ONNX's own, and that the file does not define.
    #[error(
        "{node}: this operator is its exporter's own, and evaluated nowhere else: export the model with ONNX's operators alone"
    )]
    Foreign {
        /// Number, operator and name of the node.
        node: String,
    },
    /// Operators whose meaning is that of a version that is not known here.
    #[error(
        "{node} is of opset {opset}; {first} to {last} are known: export the model with `opset_version=17`"
    )]
    Opset {
        /// The version.
        opset: u64,
        /// The oldest that is known, …
        first: u64,
        /// … and the newest.
        last: u64,
        /// Number, operator and name of the first node.
        node: String,
    },
    /// A node that is not evaluated here as it is, and may be elsewhere.
    #[error("{node}: {what}")]
    Node {
        /// Number, operator and name of the node.
        node: String,
        /// What is wrong with it.
        what: String,
    },
    /// A node that ONNX does not allow: the model is damaged, or was exported wrong.
    #[error("{node}: {what}")]
    Unsound {
        /// Number, operator and name of the node.
        node: String,
        /// What is wrong with it.
        what: String,
    },
    /// A tensor of constants that cannot be taken.
    #[error("tensor {name}: {what}")]
    Tensor {
        /// Its name.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// A tensor of constants whose elements are of a type that is not taken here, and may be elsewhere.
    #[error("tensor {name}: its elements are of type {kind}; float32 (1) and int64 (7) are taken")]
    Kind {
        /// Its name.
        name: String,
        /// The type, as ONNX counts them.
        kind: u64,
    },
    /// An input or output that cannot be given or taken.
    #[error("{port}: {what}")]
    Port {
        /// Input or output, and its name.
        port: String,
        /// What is wrong with it.
        what: String,
    },
    /// The model as a whole.
    #[error("{0}")]
    Whole(String),
}

impl ModelError {
    /// What of a sound model is not evaluated here, in few words; `None` of one that is refused for another reason: others would
    /// not evaluate it, either.
    #[must_use]
    pub fn beyond(&self) -> Option<String> {
        match self {
            Self::Operator { node } => Some(format!("{node}: this operator is not evaluated here")),
            Self::Opset { node, opset, .. } => {
                Some(format!("{node} is of opset {opset}, which is not evaluated here"))
            }
            Self::Node { node, what } => Some(format!("{node}: {what}")),
            Self::Kind { .. } => Some(self.to_string()),
            _ => None,
        }
    }
}

/// A name out of a file as it may be printed: quoted, escaped, and not longer than a line.
pub(crate) fn shown(name: &str) -> String {
    const LONGEST: usize = 80;
    let mut shown: String = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if name.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}
