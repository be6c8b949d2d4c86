//! Policies that do not fit, and what is said of them.

use crate::onnx::Graph;
use crate::rig::{config, echo, prepared, term};
use khz_controllers::policy::settings::{HistoryConfig, Layout, ObserveConfig, PolicyConfig, Term};

#[track_caller]
fn refused(model: &[u8], change: impl FnOnce(&mut PolicyConfig), expected: &str) {
    let mut config = config(vec![term(Term::JointPos)]);
    change(&mut config);
    let error = prepared(model, config).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains(expected), "{error:?}");
}

#[test]
fn the_file() {
    let model = echo(2, 0);
    refused(&model[..40], |_| (), "policy.onnx`: not an ONNX model, or damaged: byte ");
    refused(
        &model,
        |config| config.sha256 = Some("00".into()),
        "is another file than the one that was meant: its SHA-256 is ",
    );
    let sin = Graph::default().input("x", &[1, 2]).output("y", &[]).node("Sin", &["x"], &["y"]);
    refused(&sin.file(), |_| (), "node 0 (`Sin`, named ``): this operator is not evaluated here");
    let mut policy = khz_controllers::Policy::new(PolicyConfig {
        model: "none.onnx".into(),
        ..config(vec![term(Term::JointPos)])
    });
    let error = khz_loop::Controller::prepare(&mut policy, &crate::rig::robot()).unwrap_err().to_string();
    assert!(error.starts_with("`none.onnx` cannot be read: No such file"), "{error}");
}

#[test]
fn the_hash_that_is_meant_is_taken() {
    let model = echo(2, 0);
    let sha256 = Some(khz_policy::sha256(&model).to_uppercase());
    assert!(prepared(&model, PolicyConfig { sha256, ..config(vec![term(Term::JointPos)]) }).is_ok());
}

#[test]
fn inputs_and_outputs() {
    let more = |config: &mut PolicyConfig| {
        config.observe.insert(0, ObserveConfig { history: 2, ..term(Term::BaseAngVel) });
    };
    refused(
        &echo(9, 0),
        more,
        "the model's input `obs` has 9 numbers, and the terms have 8: base_ang_vel 0..6 (3 × 2), joint_pos 6..8",
    );
    let three = Graph::default().input("obs", &[1, 2]).output("actions", &[]).floats("c", &[1], &[1.0]);
    let three = three.node_with("Concat", &["obs", "c2"], &["actions"], &[crate::onnx::whole("axis", 1)]);
    refused(
        &three.floats("c2", &[1, 1], &[1.0]).file(),
        |_| (),
        "the model's output `actions` has 3 numbers, and there are 2 joints",
    );
    let carry = Graph::default().input("obs", &[1, 2]).input("h", &[1, 4]).output("y", &[]).node(
        "Neg",
        &["obs"],
        &["y"],
    );
    refused(
        &carry.file(),
        |_| (),
        "the model's input `h` is carried from decision to decision, and output 1 has not its shape [1, 4]",
    );
}

#[test]
fn joints() {
    let model = echo(2, 0);
    refused(
        &model,
        |config| config.joints[0] = "ankle".into(),
        "no joint is called `ankle`; the joints are `hip`, `knee`",
    );
    refused(&model, |config| config.joints[0] = "hip".into(), "`joints` has `hip` twice");
    refused(&model, |config| config.joints.truncate(1), "`joints` lacks the servo `hip`");
    refused(&model, |config| config.default.truncate(1), "`default` has 1 values for 2 joints");
    refused(
        &model,
        |config| config.action.scale = vec![1.0; 3],
        "`action.scale` has 3 values for 2 joints: write 1 or 2",
    );
    refused(&model, |config| config.action.kp_scale.clear(), "`action.kp_scale` has 0 values for 2 joints");
    refused(&model, |config| config.action.clip = vec![[1.0, -1.0]], "`action.clip` is from 1 to -1");
}

#[test]
fn rates() {
    let model = echo(2, 0);
    refused(&model, |config| config.rate_hz = 30.0, "`rate_hz = 30` does not divide the loop's 1000 Hz");
    refused(&model, |config| config.rate_hz = 2000.0, "`rate_hz = 2000` does not divide the loop's 1000 Hz");
    refused(
        &model,
        |config| config.delay_ticks = 11,
        "`delay_ticks = 11` is longer than the 10 ticks from one decision to the next",
    );
}

#[test]
fn terms() {
    let model = echo(2, 0);
    let change =
        |change: fn(&mut ObserveConfig)| move |config: &mut PolicyConfig| change(&mut config.observe[0]);
    refused(
        &model,
        change(|term| term.scale = vec![1.0; 3]),
        "`scale` of the term `joint_pos` has 3 values; it has 2 numbers: write 1 or 2",
    );
    refused(&model, change(|term| term.scale.clear()), "`scale` of the term `joint_pos` has 0 values");
    refused(
        &model,
        change(|term| term.clip = vec![[1.0, 0.0]]),
        "`clip` of the term `joint_pos` is from 1 to 0",
    );
    refused(
        &model,
        change(|constant| *constant = term(Term::Constant)),
        "the term `constant` has no numbers",
    );
    refused(
        &model,
        |config| {
            config.history = HistoryConfig { layout: Layout::Time, ..HistoryConfig::default() };
            config.observe.push(ObserveConfig { history: 2, ..term(Term::Command) });
        },
        "`layout = \"time\"` needs the same `history` of every term",
    );
}

/// Before anything moves.
#[test]
fn what_it_says_and_wants() {
    let graph = Graph::default().input("x", &[1, 2]).output("y", &[]);
    let logarithm = graph.clone().node("Sqrt", &["x"], &["y"]).file();
    refused(&logarithm, |_| (), "tried with observation 1 of 256 within ±3, it says NaN for the joint `");
    refused(
        &echo(2, 0),
        |config| config.default[1] = 2.5,
        "the default posture is 2.500 rad for the joint `hip`, whose limits are -2 to 2 rad",
    );
    let far = graph.floats("c", &[2], &[0.0, 9.0]).node("Add", &["x", "c"], &["y"]).file();
    refused(
        &far,
        |_| (),
        "what the policy wants in the default posture is 4.700 rad for the joint `hip`, whose limits are -2 to 2 rad",
    );
}
