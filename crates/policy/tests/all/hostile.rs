//! Bytes that are no model: whatever they are, there is an answer.

use crate::models::{self, Random};
use crate::onnx::{Graph, bytes, int};
use khz_policy::Model;
use khz_rt::alloc_trap;

/// Evaluates what is taken for a model.
fn tried(bytes: &[u8]) -> bool {
    Model::parse(bytes).map(|mut model| model.run()).is_ok()
}

#[test]
fn no_part_of_a_file_is_a_model() {
    for (name, bytes) in models::all() {
        assert!(tried(&bytes), "{name}");
        // The last field is the file's metadata, without which it is a model, too.
        let graph = bytes.len() - 32;
        (0..graph).for_each(|len| assert!(!tried(&bytes[..len]), "{name}: the first {len} bytes"));
        for len in graph..bytes.len() {
            tried(&bytes[..len]);
        }
    }
}

/// Of a flipped bit in a weight only a hash could know; of all others there is an answer.
#[test]
fn every_flipped_bit_has_an_answer() {
    for (_, bytes) in models::all() {
        for place in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[place / 8] ^= 1 << (place % 8);
            tried(&flipped);
        }
    }
}

/// Found by thought, not by chance: sizes whose products do not fit, and steps that go far.
#[test]
fn numbers_that_are_too_large_have_an_answer() {
    let graph = || Graph::default().input("x", &[1, 4]).output("y", &[]);
    let huge = [int(1, 0), int(1, 1 << 40), int(1, 1 << 40), int(2, 7), bytes(8, b"w")].concat();
    assert!(!tried(&graph().with(5, &huge).node("Transpose", &["w"], &["y"]).file()));
    for step in [i64::MIN, i64::MAX, 0] {
        let ints = [("from", 0), ("to", i64::MAX), ("axis", 1), ("step", step)];
        let slice = ints.iter().fold(graph(), |graph, (name, value)| graph.ints(name, &[*value]));
        let names = ["x", "from", "to", "axis", "step"];
        assert_eq!(tried(&slice.node("Slice", &names, &["y"]).file()), step == i64::MAX, "{step}");
    }
    let axes = graph().ints("axes", &[0; 16_000]).node("Unsqueeze", &["x", "axes"], &["y"]);
    assert!(!tried(&axes.file()));
    let sizes = graph().ints("sizes", &[i64::MAX, i64::MAX, -1]).node("Reshape", &["x", "sizes"], &["y"]);
    assert!(!tried(&sizes.file()));
}

/// A small file asks for little memory, whatever it claims.
#[test]
fn claims_take_no_memory() {
    let graph = || Graph::default().input("x", &[1, 4]).output("y", &[]).ints("size", &[1 << 22, 4]);
    let claims = [
        graph().node("Expand", &["x", "size"], &["y"]).file(),
        graph().node("ConstantOfShape", &["size"], &["y"]).file(),
        Graph::default()
            .input("x", &[1 << 12, 1 << 12])
            .output("y", &[])
            .node("Transpose", &["x"], &["y"])
            .file(),
        graph()
            .tensor("w", &[1 << 24], &[int(2, 1), bytes(9, &[0; 4])].concat())
            .node("Neg", &["w"], &["y"])
            .file(),
    ];
    for claim in claims {
        let (error, heap) = alloc_trap::forbid(|| Model::parse(&claim).err());
        assert!(error.is_some() && heap.bytes < 1 << 20, "{} bytes: {error:?}", heap.bytes);
    }
}

#[test]
fn random_changes_have_an_answer() {
    let (mut random, models) = (Random(99), models::all());
    for _ in 0..20_000 {
        let mut bytes = models[random.next() as usize % models.len()].1.clone();
        for _ in 0..=random.next() % 8 {
            let place = random.next() as usize % bytes.len().max(1);
            match random.next() % 4 {
                0 => bytes.iter_mut().skip(place).take(1).for_each(|byte| *byte = random.next() as u8),
                1 => drop(bytes.splice(place..place, [0xff, 0xff, 0xff, 0x7f])),
                2 => drop(bytes.drain(place..bytes.len().min(place + 1))),
                _ => bytes.truncate(place),
            }
        }
        tried(&bytes);
    }
}
