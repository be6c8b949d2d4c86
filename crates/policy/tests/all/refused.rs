//! Models that cannot be evaluated, and their errors.

use crate::onnx::{Graph, bytes, int, real, whole};
use khz_policy::Model;

#[track_caller]
fn refused(file: &[u8], expected: &str) {
    let error = Model::parse(file).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.starts_with(expected), "{error:?}");
}

/// From `x`, of 4 numbers, to `y`.
fn graph() -> Graph {
    Graph::default().input("x", &[1, 4]).output("y", &[])
}

/// One node, whose second input is `w`.
fn node(operator: &str, more: &[Vec<u8>]) -> Graph {
    graph().node_with(operator, &["x", "w"], &["y"], more)
}

#[test]
fn an_operator_is_named_with_its_node() {
    let sin = graph().node_with("Sin", &["x"], &["y"], &[bytes(3, b"/actor/Sin")]);
    refused(
        &sin.file(),
        "node 0 (`Sin`, named `/actor/Sin`): this operator is not evaluated here; known are Abs, Add,",
    );
    let foreign = graph().node_with("Elu", &["x"], &["y"], &[bytes(7, b"com.microsoft")]);
    refused(
        &foreign.file(),
        "node 0 (`Elu` of `com.microsoft`, named ``): this operator is not evaluated here",
    );
    let looped = graph().node_with("Loop", &["x"], &["y"], &[bytes(5, &bytes(6, &[]))]);
    refused(&looped.file(), "node 0 (`Loop`, named ``): this operator is not evaluated here");
}

/// Another program is a cure only then.
#[test]
fn what_others_may_evaluate_is_told_from_what_nobody_does() {
    let beyond = |graph: Graph| Model::parse(&graph.file()).err().and_then(|error| error.beyond());
    let of = |domain: &[u8]| graph().node_with("Own", &["x"], &["y"], &[bytes(7, domain)]);
    let truth = node("And", &[]).tensor("w", &[1], &[int(2, 9), bytes(9, &[1])].concat());
    assert!(beyond(truth).is_some_and(|what| what.starts_with("tensor `w`: its elements are of type 9")));
    for graph in [graph().node("Sin", &["x"], &["y"]), of(b"com.microsoft"), of(b"ai.onnx.ml")] {
        assert!(beyond(graph).is_some_and(|what| what.contains("is not evaluated here")));
    }
    assert_eq!(beyond(of(b"mine")), None);
    refused(&of(b"mine").file(), "node 0 (`Own` of `mine`, named ``): this operator is its exporter's own");
    assert_eq!(beyond(node("Add", &[])), None, "an input that is not there");
    assert_eq!(beyond(node("Add", &[]).floats("w", &[3, 2], &[1.0; 6])), None, "shapes that do not fit");
    let defined = [of(b"mine").file(), bytes(25, &bytes(1, b"Own"))].concat();
    refused(&defined, "node 0 (`Own` of `mine`, named ``): this operator is not evaluated here");
}

#[test]
fn a_name_is_shown_without_what_it_would_do_to_a_terminal() {
    let evil = graph().node_with("Sin", &["x"], &["y"], &[bytes(3, "\u{1b}[2J\n".repeat(100).as_bytes())]);
    let error = Model::parse(&evil.file()).unwrap_err().to_string();
    assert!(!error.contains(['\u{1b}', '\n']) && error.len() < 1000, "{error}");
}

#[test]
fn what_an_attribute_means_must_be_known() {
    refused(
        &graph().node_with("Elu", &["x"], &["y"], &[real("beta", 1.0)]).file(),
        "node 0 (`Elu`, named ``): its attribute `beta` is not known",
    );
}

#[test]
fn nodes_that_are_in_a_circle_or_miss_something() {
    let circle =
        graph().node("Add", &["x", "b"], &["a"]).node("Neg", &["a"], &["b"]).node("Neg", &["a"], &["y"]);
    refused(
        &circle.file(),
        "node 0 (`Add`, named ``): its input `b` is made by itself or a later node: nodes must be in order",
    );
    refused(
        &node("Add", &[]).file(),
        "node 0 (`Add`, named ``): its input `w` is neither an input, nor a constant",
    );
    refused(&graph().file(), "output `y`: no node makes it");
    refused(&Graph::default().output("y", &[]).file(), "output `y`: no node makes it");
    refused(
        &graph().node("Neg", &["x"], &["x"]).node("Neg", &["x"], &["y"]).file(),
        "node 0 (`Neg`, named ``): `x` is there twice",
    );
    refused(
        &graph().node("Elu", &["x"], &["y", "mask"]).file(),
        "node 0 (`Elu`, named ``): its output `mask` is not made here",
    );
}

#[test]
fn weights_that_are_none() {
    let with = |shape: &[u64], fields: &[u8]| node("Add", &[]).tensor("w", shape, fields).file();
    let raw = |values: &[f32]| -> Vec<u8> {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        [int(2, 1), bytes(9, &raw)].concat()
    };
    refused(&with(&[1, 4], &raw(&[1.0, 2.0, f32::NAN, 4.0])), "tensor `w`: number 2 of it is NaN");
    refused(&with(&[1], &raw(&[f32::INFINITY])), "tensor `w`: number 0 of it is inf");
    refused(&with(&[1, 4], &raw(&[1.0; 3])), "tensor `w`: its shape [1, 4] is of 4 numbers, and 3 are there");
    refused(&with(&[1 << 28], &raw(&[1.0])), "tensor `w`: a shape of [268435456] is of nothing, or larger");
    refused(&with(&[1 << 63], &raw(&[1.0])), "tensor `w`: it has a negative dimension");
    refused(&with(&[1 << 40, 1 << 40], &raw(&[1.0])), "tensor `w`: a shape of");
    refused(
        &with(&[1; 9], &raw(&[1.0])),
        "tensor `w`: a shape of [1, 1, 1, 1, 1, 1, 1, 1, 1] is of nothing, or larger",
    );
    refused(
        &with(&[1], &[int(2, 11), bytes(9, &[0; 8])].concat()),
        "tensor `w`: its elements are of type 11; float32 (1)",
    );
    refused(&with(&[1], &[int(2, 1), int(14, 1)].concat()), "tensor `w`: its numbers are in another file");
    refused(
        &with(&[1], &[int(2, 1), bytes(13, &[])].concat()),
        "tensor `w`: its numbers are in another file",
    );
}

#[test]
fn shapes_that_do_not_fit() {
    let four = |graph: Graph| graph.floats("w", &[3, 2], &[1.0; 6]).file();
    refused(
        &four(node("Gemm", &[])),
        "node 0 (`Gemm`, named ``): rows of 4 numbers do not fit weights for 3",
    );
    refused(&four(node("Add", &[])), "node 0 (`Add`, named ``): [1, 4] and [3, 2] do not fit each other");
    let graph = Graph::default().input("x", &[1, 4]).output("y", &[1, 5]).node("Elu", &["x"], &["y"]);
    refused(&graph.file(), "output `y`: the file says its shape is [1, 5], and its nodes make [1, 4]");
    let both = Graph::default().input("x", &[4, 4]).input("w", &[4, 4]).output("y", &[]);
    refused(
        &both.node("MatMul", &["x", "w"], &["y"]).file(),
        "node 0 (`MatMul`, named ``): its second factor is no constant matrix",
    );
}

#[test]
fn a_dimension_below_nothing() {
    let of = |rows: i64| {
        let graph = Graph::default().input("x", &[rows.cast_unsigned(), 4]).output("y", &[]);
        graph.node("Elu", &["x"], &["y"]).file()
    };
    refused(&of(-5), "input `x`: the file says its shape is [-5, 4], and no dimension is negative");
    let open = khz_policy::Model::parse(&of(-1)).expect("a model");
    assert_eq!(open.inputs()[0].shape, [1, 4]);
}

/// A small file may claim much.
#[test]
fn what_would_take_all_memory_or_all_day() {
    let wide = graph().ints("w", &[1 << 30, 4]).node("Expand", &["x", "w"], &["y"]);
    refused(
        &wide.file(),
        "node 0 (`Expand`, named ``): a tensor of [1073741824, 4] is of nothing, or larger",
    );
    let mut doubled = graph().node_with("Concat", &["x", "x"], &["d0"], &[whole("axis", 0)]);
    for number in 0..30 {
        let (from, to) = (format!("d{number}"), format!("d{}", number + 1));
        doubled = doubled.node_with("Concat", &[&from, &from], &[&to], &[whole("axis", 0)]);
    }
    refused(&doubled.file(), "node 18 (`Concat`, named ``): a tensor of");
    let rows = Graph::default().input("x", &[1 << 20, 1]).output("y", &[]).floats("w", &[1, 1], &[1.0]);
    let mut long = rows.node("MatMul", &["x", "w"], &["m0"]);
    for number in 0..500 {
        let (from, to) = (format!("m{number}"), format!("m{}", number + 1));
        long = long.node("MatMul", &[&from, "w"], &[&to]);
    }
    refused(&long.file(), "node 1 (`MatMul`, named ``): a tensor of [1048576, 1] is of nothing, or larger");
    let deep =
        Graph::default().input("x", &[1000, 500]).output("y", &[]).floats("w", &[500, 500], &[0.0; 250_000]);
    refused(
        &deep.node("MatMul", &["x", "w"], &["y"]).file(),
        "node 0 (`MatMul`, named ``): up to here a decision takes more than 200 million",
    );
}

#[test]
fn versions_and_types() {
    refused(
        &graph().file_of(22),
        "the model is of opset 22; 9 to 21 are known: export the model with `opset_version=17`",
    );
    refused(
        &node("Elu", &[]).file_of(23),
        "node 0 (`Elu`, named ``) is of opset 23; 9 to 21 are known: export the model with `opset_version=17`",
    );
    refused(&graph().with(15, &[]).file(), "the model has sparse weights");
    refused(&[], "not an ONNX model, or damaged: byte 0: there is no graph in it");
    refused(b"#!/usr/bin/env python3\n", "not an ONNX model, or damaged: byte ");
    let double = bytes(11, &[bytes(1, b"x"), bytes(2, &bytes(1, &int(1, 11)))].concat());
    let file = [bytes(7, &double), bytes(8, &int(2, 17))].concat();
    refused(&file, "input `x`: its elements are of type 11, and only float32 (1) is taken");
}
