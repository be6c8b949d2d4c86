//! The same bits everywhere: models, observations and what follows from them, as `vectors/policy.json` has them.

use crate::models::{self, Random};
use khz_policy::{Model, maths};
use serde_json::{Value, json};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/policy.json");
const ORIGIN: &str = "our own: models as crates/policy/tests/all writes them, observations of a seed, and what crates/policy makes of them, in \
    the bits of float32, big-endian; tests/policy compares them with onnxruntime. UPDATE=1 cargo test -p khz-policy writes this file.";

fn hex(bytes: impl IntoIterator<Item = u8>) -> String {
    bytes.into_iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex"))
        .collect()
}

fn bits(values: &[f32]) -> String {
    hex(values.iter().flat_map(|value| value.to_bits().to_be_bytes()))
}

fn run(model: &mut Model, observation: &str) -> String {
    let bytes = unhex(observation);
    let mut values = bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_bits(u32::from_be_bytes(bytes)));
    for input in 0..model.inputs().len() {
        model
            .input_mut(input)
            .iter_mut()
            .for_each(|value| *value = values.next().expect("as many as the inputs have"));
    }
    model.run();
    bits(model.output(0))
}

fn written() -> Value {
    let vector = |(name, bytes): (&str, Vec<u8>)| {
        let (mut model, mut random) = (Model::parse(&bytes).expect("a model"), Random(11));
        let count: usize = model.inputs().iter().map(|port| port.shape.iter().product::<usize>()).sum();
        let observations: Vec<String> = (0..4).map(|_| bits(&random.floats(count))).collect();
        let outputs: Vec<String> =
            observations.iter().map(|observation| run(&mut model, observation)).collect();
        json!({ "name": name, "bytes": hex(bytes), "observations": observations, "outputs": outputs })
    };
    json!({ "origin": ORIGIN, "vectors": models::all().into_iter().map(vector).collect::<Vec<_>>() })
}

#[test]
fn the_bits_are_those_of_the_vectors() {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(FILE, format!("{:#}\n", written())).unwrap();
    }
    let file: Value = serde_json::from_str(&std::fs::read_to_string(FILE).unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    for vector in file["vectors"].as_array().unwrap() {
        let mut model = Model::parse(&unhex(&text(&vector["bytes"]))).unwrap();
        let outputs = vector["outputs"].as_array().unwrap().iter().map(text);
        for (observation, output) in vector["observations"].as_array().unwrap().iter().map(text).zip(outputs)
        {
            assert_eq!(run(&mut model, &observation), output, "{}", vector["name"]);
        }
    }
}

/// Against the C library's f64, over all sizes: right but where that is halfway between two f32.
#[test]
fn functions_are_within_one_bit() {
    type Pair = (&'static str, fn(f32) -> f32, fn(f64) -> f64);
    let functions: [Pair; 5] = [
        ("exp", maths::exp, f64::exp),
        ("exp_m1", maths::exp_m1, f64::exp_m1),
        ("tanh", maths::tanh, f64::tanh),
        ("sigmoid", maths::sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
        ("softplus", maths::softplus, |x| x.max(0.0) + (-x.abs()).exp().ln_1p()),
    ];
    let mut random = Random(1);
    for _ in 0..200_000 {
        let x = f32::from_bits(random.next() as u32);
        if x.is_nan() {
            continue;
        }
        for (name, ours, exact) in functions {
            let (found, expected) = (ours(x), exact(f64::from(x)) as f32);
            assert!(
                found.to_bits().abs_diff(expected.to_bits()) <= 1,
                "{name}({x:e}): {found:e}, {expected:e}"
            );
        }
    }
}

#[test]
fn sine_and_cosine_are_within_one_bit_of_the_largest() {
    let mut random = Random(4);
    for _ in 0..100_000 {
        let x = f64::from(random.float()) * 100.0;
        for (found, expected) in [(maths::sin(x), x.sin()), (maths::cos(x), x.cos())] {
            assert!((f64::from(found) - expected).abs() < 6e-8, "{x}: {found}, {expected}");
        }
    }
    assert_eq!([maths::sin(0.0), maths::cos(0.0)], [0.0, 1.0]);
}

#[test]
fn functions_end_where_they_end() {
    let infinite = f32::INFINITY;
    assert_eq!([maths::exp(infinite), maths::exp(-infinite), maths::exp(0.0)], [infinite, 0.0, 1.0]);
    assert_eq!(
        [maths::exp_m1(infinite), maths::exp_m1(-infinite), maths::exp_m1(-0.0)],
        [infinite, -1.0, 0.0]
    );
    assert_eq!([maths::tanh(infinite), maths::tanh(-infinite), maths::tanh(0.0)], [1.0, -1.0, 0.0]);
    assert_eq!([maths::sigmoid(infinite), maths::sigmoid(-infinite), maths::sigmoid(0.0)], [1.0, 0.0, 0.5]);
    assert_eq!([maths::softplus(infinite), maths::softplus(-infinite)], [infinite, 0.0]);
    for function in [maths::exp, maths::exp_m1, maths::tanh, maths::sigmoid, maths::softplus] {
        assert!(function(f32::NAN).is_nan());
    }
}

/// In the order that is promised: product i to lane i mod 16.
#[test]
fn a_sum_has_an_order() {
    let (a, b) = (Random(2).floats(37), Random(3).floats(37));
    let mut lanes = [0.0_f32; 16];
    (0..32).for_each(|number| lanes[number % 16] += a[number] * b[number]);
    let sum = lanes.iter().fold(0.0, |sum, lane| sum + lane);
    let expected = (32..37).fold(sum, |sum, number| sum + a[number] * b[number]);
    assert_eq!(maths::dot(&a, &b).to_bits(), expected.to_bits());
    assert_eq!(maths::sum(&a).to_bits(), maths::dot(&a, &[1.0; 37]).to_bits());
}
