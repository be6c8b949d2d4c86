//! What an evaluation is, and what it does not do.

use crate::models::{self, Random};
use crate::onnx::Graph;
use khz_policy::Model;
use khz_rt::alloc_trap::{self, HeapUse};

fn parsed(bytes: &[u8]) -> Model {
    Model::parse(bytes).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn an_evaluation_does_not_allocate() {
    for (name, bytes) in models::all() {
        let mut model = parsed(&bytes);
        let ((), found) = alloc_trap::forbid(|| (0..10).for_each(|_| model.run()));
        assert_eq!(found, HeapUse::default(), "{name}");
    }
}

#[test]
fn a_model_says_what_it_is() {
    let model = parsed(&models::policy(11, 19, 5));
    let port = |port: &khz_policy::Port| (port.name.clone(), port.shape.clone());
    assert_eq!(port(&model.inputs()[0]), ("obs".into(), vec![1, 11]));
    assert_eq!(port(&model.outputs()[0]), ("actions".into(), vec![1, 5]));
    assert_eq!(model.metadata(), [("run_path".into(), "tests/one".into())]);
    assert_eq!((model.producer(), model.opset()), ("tests", 17));
    assert_eq!(model.parameters(), 11 + 19 * 11 + 19 + 19 * 19 + 5 * 19);
    assert!(model.operators().contains(&("Gemm".into(), 3)));
}

/// What depends on constants alone is not computed again.
#[test]
fn constants_are_folded() {
    let graph = Graph::default().input("x", &[1]).output("y", &[1]).floats("c", &[1], &[3.0]);
    let graph =
        graph.node("Exp", &["c"], &["e"]).node("Neg", &["e"], &["n"]).node("Mul", &["x", "n"], &["y"]);
    let mut model = parsed(&graph.file());
    model.input_mut(0)[0] = 2.0;
    model.run();
    assert_eq!(model.output(0), [-2.0 * khz_policy::maths::exp(3.0)]);
    assert!(format!("{model:?}").matches("Each").count() == 0, "{model:?}");
}

#[test]
fn an_evaluation_knows_nothing_of_the_one_before() {
    for (name, bytes) in models::all() {
        let (mut used, mut random) = (parsed(&bytes), Random(5));
        let fresh = used.clone();
        for _ in 0..3 {
            let mut fresh = fresh.clone();
            for input in 0..used.inputs().len() {
                let len = used.input_mut(input).len();
                let numbers = random.floats(len);
                for model in [&mut used, &mut fresh] {
                    model.input_mut(input).copy_from_slice(&numbers);
                }
            }
            used.run();
            fresh.run();
            assert_eq!(used.output(0), fresh.output(0), "{name}");
        }
    }
}

/// One in an observation reaches every action; none is turned into a number.
#[test]
fn nan_stays_nan() {
    for (name, bytes) in models::all() {
        let mut model = parsed(&bytes);
        model.input_mut(0).fill(f32::NAN);
        model.run();
        assert!(model.output(0).iter().all(|value| value.is_nan()), "{name}: {:?}", model.output(0));
    }
}

/// `Identity` and `Reshape` make no numbers of their own, and an output may be called as an input is.
#[test]
fn an_output_that_is_an_input_is_carried_as_it_was() {
    let graph = || {
        let graph = Graph::default().input("x", &[1, 2]).input("h1", &[1, 2]).input("h2", &[1, 2]);
        graph.output("y", &[1, 2]).output("h1o", &[1, 2]).node("Tanh", &["x"], &["h1o"]).node(
            "Neg",
            &["h2"],
            &["y"],
        )
    };
    let renamed = graph().output("h1", &[1, 2]);
    let identity = graph().output("h2o", &[1, 2]).node("Identity", &["h1"], &["h2o"]);
    let reshaped = graph().output("h2o", &[1, 2]).ints("s", &[1, 2]).node("Reshape", &["h1", "s"], &["h2o"]);
    for graph in [renamed, identity, reshaped] {
        let mut model = parsed(&graph.file());
        let outputs = [0.5, 0.0, 0.0].map(|seen: f32| {
            model.input_mut(0).fill(seen);
            model.run();
            (1..3).for_each(|number| model.carry(number, number));
            model.output(0)[0]
        });
        // What was seen first comes out in the third.
        assert_eq!(outputs, [0.0, 0.0, -khz_policy::maths::tanh(0.5)]);
    }
}

/// They were turned once for each node, and a model of 4 MB was refused for it.
#[test]
fn nodes_that_share_weights_share_what_is_made_of_them() {
    let mut random = Random(9);
    let graph = Graph::default().input("x", &[1, 1000]).output("y", &[]).floats(
        "w",
        &[1000, 1000],
        &random.floats(1_000_000),
    );
    let names: Vec<String> =
        std::iter::once("x".to_owned()).chain((1..30).map(|number| format!("h{number}"))).collect();
    let graph =
        names.windows(2).fold(graph, |graph, pair| graph.node("MatMul", &[&pair[0], "w"], &[&pair[1]]));
    let shared = graph.node("MatMul", &[&names[29], "w"], &["y"]).file();
    let model = Model::parse(&shared).unwrap();
    assert_eq!((model.parameters(), model.work()), (1_000_000, 30_000_000));
}
