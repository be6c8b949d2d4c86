//! Policies that do not fit, and their errors.

use crate::onnx::Graph;
use crate::rig::{config, echo, prepared, term};
use khz_controllers::policy::Engine;
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
    let own = |config: &mut PolicyConfig| config.engine = Engine::Own;
    refused(&sin.file(), own, "node 0 (`Sin`, named ``): this operator is not evaluated here");
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

/// Of three inputs and outputs with these names.
fn carrying(inputs: [&str; 3], outputs: [&str; 3]) -> Vec<u8> {
    let graph = inputs.iter().fold(Graph::default(), |graph, name| graph.input(name, &[1, 2]));
    let graph = outputs.iter().fold(graph, |graph, name| graph.output(name, &[1, 2]));
    inputs
        .iter()
        .zip(outputs)
        .fold(graph, |graph, (input, output)| graph.node("Neg", &[input], &[output]))
        .file()
}

#[test]
fn what_is_carried_and_has_another_place_than_its_name_says() {
    refused(
        &carrying(["obs", "h_in", "c_in"], ["actions", "c_out", "h_out"]),
        |_| (),
        "input `h_in` has the place 1, and its output `h_out` the place 2",
    );
    refused(
        &carrying(["h_in", "obs", "x"], ["h_out", "actions", "y"]),
        |_| (),
        "input `h_in` has the place 0, and its output `h_out` the place 0: the first input is the observation",
    );
    for (inputs, outputs) in [
        (["obs", "h_in", "c_in"], ["actions", "h_out", "c_out"]),
        (["obs", "a", "b"], ["actions", "c", "d"]),
        (["net_in", "h_in", "c_in"], ["net_out", "h_out", "c_out"]),
    ] {
        assert!(
            prepared(&carrying(inputs, outputs), config(vec![term(Term::JointPos)])).is_ok(),
            "{inputs:?}"
        );
    }
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

/// What the exporter wrote into the model: the file's joints are knee and hip.
#[test]
fn what_contradicts_the_models_metadata() {
    let graph = || Graph::default().input("x", &[1, 2]).output("y", &[]).node("Neg", &["x"], &["y"]);
    let says = |key: &str, value: &str| graph().file_saying(17, &[(key, value)]);
    refused(
        &says("joint_names", "hip_joint, Knee"),
        |_| (),
        "`joints` and the model's `joint_names` differ in place 0: the file has [\"knee\", \"hip\"], the model [\"hip_joint\", \
         \"Knee\"]; write `joints`, and every list of joints, in the model's order",
    );
    refused(&says("joint_names", "knee"), |_| (), "`joint_names` differ in length");
    refused(
        &says("default_joint_pos", "0.100,0.300"),
        |_| (),
        "`default` and the model's `default_joint_pos` differ for the joint `hip`: the file has [0.1, 0.2], the model [0.1, 0.3]; write \
         the model's",
    );
    refused(&says("action_scale", "0.25"), |_| (), "`action.scale` and the model's `action_scale` differ");
    let kp = |config: &mut PolicyConfig| config.action.kp = vec![20.0];
    refused(
        &says("joint_stiffness", "20,21"),
        kp,
        "`action.kp` and the model's `joint_stiffness` differ for the joint `hip`",
    );
    let agrees = [
        ("joint_names", "KNEE_joint,hip"),
        ("joint_names", "left_one,left_two"),
        ("default_joint_pos", "0.1004,0.1996"),
        ("action_scale", "0.5,0.5"),
        ("joint_stiffness", "20,21"),
        ("default_joint_pos", "none"),
    ];
    for (key, value) in agrees {
        assert!(prepared(&says(key, value), config(vec![term(Term::JointPos)])).is_ok(), "{key} {value}");
    }
}

/// The order of the terms and their histories, as far as their names are known here.
#[test]
fn what_contradicts_the_observation_of_the_models_metadata() {
    let says = |metadata: &[(&str, &str)]| {
        let graph = Graph::default().input("x", &[1, 8]).output("y", &[]).ints("places", &[0, 1]);
        graph
            .node_with("Gather", &["x", "places"], &["y"], &[crate::onnx::whole("axis", 1)])
            .file_saying(17, metadata)
    };
    let terms = |config: &mut PolicyConfig| {
        config.observe = vec![
            ObserveConfig { history: 2, ..term(Term::JointPos) },
            term(Term::JointVel),
            ObserveConfig { values: vec![0.0; 2], ..term(Term::Constant) },
        ];
    };
    let names = ("observation_names", "joint_pos, joint_vel, velocity_commands");
    refused(
        &says(&[("observation_names", "joint_vel,joint_pos,velocity_commands")]),
        terms,
        "`observe` and the model's `observation_names` differ in place 0: the file has [\"joint_pos\", \"joint_vel\", \"constant\"], the model \
         [\"joint_vel\", \"joint_pos\", \"velocity_commands\"]; write the terms in the model's order",
    );
    refused(
        &says(&[names, ("observation_history_lengths", "1,1,5")]),
        terms,
        "`history` of the term `joint_pos` (place 0) and the model's `observation_history_lengths` differ: the file has 2, the model 1",
    );
    let alone = |config: &mut PolicyConfig| {
        config.observe = vec![ObserveConfig { history: 4, ..term(Term::JointPos) }];
    };
    refused(
        &says(&[("observation_names", "joint_pos,joint_vel")]),
        alone,
        "`observation_names` differ in length",
    );
    for metadata in [
        &[names, ("observation_history_lengths", "2,0,5")][..],
        &[("observation_names", "joint_pos_rel,joint_vel,anything")],
        &[("observation_names", "height_scan,joint_pos")],
    ] {
        let mut config = config(Vec::new());
        terms(&mut config);
        assert!(prepared(&says(metadata), config).is_ok(), "{metadata:?}");
    }
}

#[test]
fn what_was_guessed() {
    let guessed =
        |config: &mut PolicyConfig| config.not_known = vec!["rate_hz: of the training".into(), "clip".into()];
    refused(&echo(2, 0), guessed, "delete it from the list:\n  rate_hz: of the training\n  clip");
}

#[test]
fn rates() {
    let model = echo(2, 0);
    refused(
        &model,
        |config| config.rate_hz = 30.0,
        "a decision rate of 30 Hz does not divide the loop's 1000 Hz",
    );
    refused(
        &model,
        |config| config.rate_hz = 2000.0,
        "a decision rate of 2000 Hz does not divide the loop's 1000 Hz",
    );
    refused(
        &model,
        |config| config.delay_ticks = 11,
        "`delay_ticks = 11` is not from 1 to the 10 ticks from one decision to the next",
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
    refused(&model, change(|term| term.age = 3), "`age` is no key of the term `joint_pos`");
    refused(
        &model,
        change(|term| term.signals = vec!["a".into()]),
        "`signals` is no key of the term `joint_pos`",
    );
    refused(&model, change(|term| term.values = vec![1.0]), "`values` is no key of the term `joint_pos`");
    refused(&model, change(|term| term.period_s = 2.0), "`period_s` is no key of the term `joint_pos`");
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

#[test]
fn gains_that_the_servos_do_not_have() {
    let model = echo(2, 0);
    refused(
        &model,
        |config| config.action.kp = vec![40.0, 41.0],
        "`action.kp` is 41 for the joint `hip`, whose servo has 40: set the servo's `kp` to that of the training",
    );
    refused(
        &model,
        |config| config.action.kp = vec![20.0, 0.0],
        "`action.kp` is 0 for the joint `hip`, which nothing would hold",
    );
    refused(
        &model,
        |config| (config.action.kp, config.action.kp_scale) = (vec![20.0], vec![0.5]),
        "`action.kp` and `action.kp_scale` are both there: write one of them",
    );
    refused(
        &model,
        |config| config.action.kd = vec![1.0; 3],
        "`action.kd` has 3 values for 2 joints: write 1 or 2",
    );
    let mut robot = crate::rig::robot();
    robot.joints[1].gains = None;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("policy.onnx");
    std::fs::write(&path, model).expect("a file");
    let mut config = config(vec![term(Term::JointPos)]);
    (config.model, config.action.kd) = (path.display().to_string(), vec![1.0]);
    let error = khz_loop::Controller::prepare(&mut khz_controllers::Policy::new(config), &robot).unwrap_err();
    assert!(
        error.to_string().contains("the servo `knee` has its own, which no command changes: leave `kd` out"),
        "{error}"
    );
}

#[test]
fn what_the_trainer_has_otherwise() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pairs.csv").display().to_string();
    let tried = |text: &[u8]| {
        std::fs::write(&path, text).expect("a file");
        let config = PolicyConfig { test: Some(path.clone()), ..config(vec![term(Term::JointPos)]) };
        prepared(&echo(2, 0), config).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(tried(b"# as numpy writes it\n0.5, 0.25, 0.5, 0.25\n1e0 2.0  1.0 2.00005\n\n"), "");
    let refusal = tried(b"0.5,0.25,0.5,0.25\n1,2,1,2.001\n");
    assert!(
        refusal.contains("`test`: pair 1 (line 2) has 2.001 for the joint `hip`, and the model says 2"),
        "{refusal}"
    );
    assert!(tried(b"1,2,1,-inf\n").contains("pair 0 (line 1) has -inf for the joint `hip`"));
    assert!(tried(b"1,2,1,nan\n").contains("pair 0 (line 1) has NaN for the joint `hip`"));
    assert!(tried(b"1,2,1,inf\n").contains("has inf for the joint `hip`"));
    assert!(tried(b"1,2,1\n").contains("has 3 numbers; an observation has 2, and an action 2"));
    assert!(
        tried(b"1,2,1,x\n").contains("line 1 of ") && tried(b"1,2,1,x\n").contains("has what is no number")
    );
    assert!(tried(b"#\n").contains("has no pair"));
    assert!(tried(b"PK\x03\x04\xff\xfe").contains("is no text; write one in Python by `numpy.savetxt("));
}
