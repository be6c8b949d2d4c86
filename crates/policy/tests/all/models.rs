//! Models of every kind of step, with weights of a seed.

use crate::onnx::{Graph, real, whole};

/// Xorshift: the same numbers everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Within ±1, in steps of 2⁻²³.
    pub(crate) fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / 8_388_608.0 - 1.0
    }

    pub(crate) fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.float()).collect()
    }
}

fn weights(graph: Graph, name: &str, shape: &[u64], random: &mut Random) -> Graph {
    let count: u64 = shape.iter().product();
    graph.floats(name, shape, &random.floats(count as usize))
}

/// A name and a file for each of them.
pub(crate) fn all() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("policy", policy(11, 19, 5)),
        ("functions", functions()),
        ("lstm", recurrent("LSTM", 4)),
        ("gru", recurrent("GRU", 3)),
        ("moves", moves()),
    ]
}

/// Normalised, two hidden layers, an end within ±1: what most policies are.
pub(crate) fn policy(inputs: u64, hidden: u64, outputs: u64) -> Vec<u8> {
    let mut random = Random(42);
    let mut graph = Graph::default().input("obs", &[1, inputs]).output("actions", &[1, outputs]);
    let sizes = [
        ("m", vec![inputs]),
        ("w0", vec![hidden, inputs]),
        ("b0", vec![hidden]),
        ("w1", vec![hidden, hidden]),
    ];
    for (name, shape) in sizes {
        graph = weights(graph, name, &shape, &mut random);
    }
    graph = weights(graph, "w2", &[outputs, hidden], &mut random);
    graph
        .node("Sub", &["obs", "m"], &["x"])
        .node_with("Gemm", &["x", "w0", "b0"], &["h0"], &[whole("transB", 1)])
        .node("Elu", &["h0"], &["a0"])
        .node_with("Gemm", &["a0", "w1", "b0"], &["h1"], &[whole("transB", 1)])
        .node("Sigmoid", &["h1"], &["s1"])
        .node("Mul", &["h1", "s1"], &["a1"])
        .node_with("Gemm", &["a1", "w2"], &["h2"], &[whole("transB", 1)])
        .node("Tanh", &["h2"], &["actions"])
        .file()
}

/// Every function of one number, over what is between −20 and 20.
fn functions() -> Vec<u8> {
    const NAMES: [&str; 8] = ["Elu", "Exp", "Relu", "Selu", "Sigmoid", "Softplus", "Tanh", "LeakyRelu"];
    let mut graph = Graph::default().input("x", &[1, 9]).output("y", &[9, 9]).floats("scale", &[1], &[20.0]);
    graph = graph.node("Mul", &["x", "scale"], &["wide"]).node("Identity", &["x"], &["Identity"]);
    for name in NAMES {
        graph = graph.node(name, &["wide"], &[name]);
    }
    let parts = [&["Identity"], &NAMES[..]].concat();
    graph.node_with("Concat", &parts, &["y"], &[whole("axis", 0)]).file()
}

fn recurrent(operator: &str, gates: u64) -> Vec<u8> {
    let (mut random, width, size) = (Random(7), 6, 5);
    let mut graph = Graph::default().input("x", &[1, 1, width]).input("h", &[1, 1, size]);
    for (name, columns) in [("w", width), ("r", size)] {
        graph = weights(graph, name, &[1, gates * size, columns], &mut random);
    }
    graph = weights(graph, "b", &[1, 2 * gates * size], &mut random);
    let size = whole("hidden_size", size as i64);
    let inputs = ["x", "w", "r", "b", "", "h"];
    graph.output("y", &[1, 1, 1, 5]).node_with(operator, &inputs, &["y"], &[size]).file()
}

/// Numbers in other places, sums, means and a normalised row.
fn moves() -> Vec<u8> {
    let graph = weights(Graph::default(), "scale", &[6], &mut Random(3));
    graph
        .input("x", &[4, 6])
        .output("y", &[1, 6])
        .ints("order", &[3, 1, 2])
        .ints("rows", &[0])
        .node_with("Gather", &["x", "order"], &["g"], &[whole("axis", 0)])
        .node_with("LayerNormalization", &["g", "scale"], &["n"], &[real("epsilon", 0.01)])
        .node_with("ReduceSum", &["n", "rows"], &["s"], &[whole("keepdims", 0)])
        .node_with("Flatten", &["s"], &["f"], &[whole("axis", 0)])
        .node_with("Transpose", &["f"], &["t"], &[])
        .node_with("Reshape", &["t", "shape"], &["y"], &[])
        .ints("shape", &[1, -1])
        .file()
}
