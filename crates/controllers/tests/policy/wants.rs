//! What a policy wants, and when.

use crate::onnx::Graph;
use crate::rig::{Ticks, config, echo, prepared, state, term};
use khz_controllers::Policy;
use khz_controllers::policy::settings::{Between, Kind, Late, ObserveConfig, PolicyConfig, Term};
use khz_loop::ServoCommand;
use khz_loop::controller::Controller;
use khz_rt::alloc_trap;
use tempfile::TempDir;

/// Sees where the joints are, and wants half of that beside the posture.
fn echoing(change: impl FnOnce(&mut PolicyConfig)) -> (Policy, TempDir) {
    let mut config = config(vec![term(Term::JointPos)]);
    change(&mut config);
    prepared(&echo(2, 0), config).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_decision_is_followed_after_its_delay_and_held_until_the_next() {
    let (policy, _folder) = echoing(|config| config.delay_ticks = 3);
    let mut ticks = Ticks::of(policy);
    assert_eq!(ticks.after(3), [0.2, 0.1]);
    let [hip, knee] = ticks.after(1);
    assert!((hip - 0.35).abs() < 1e-6 && (knee - 0.2).abs() < 1e-6, "{hip}, {knee}");
    ticks.state.servos[0].position = 0.7;
    assert_eq!(ticks.after(9), [hip, knee]);
    assert!((ticks.after(1)[0] - 0.45).abs() < 1e-6);
}

#[test]
fn between_two_decisions_a_joint_can_move_evenly() {
    let (policy, _folder) = echoing(|config| config.action.between = Between::Linear);
    let mut ticks = Ticks::of(policy);
    let hips: Vec<f64> = (0..11).map(|_| ticks.after(1)[0]).collect();
    for (tick, hip) in hips.iter().enumerate() {
        assert!((hip - 0.2 - 0.015 * tick as f64).abs() < 1e-6, "{hips:?}");
    }
}

#[test]
fn joints_move_to_the_posture_before_the_first_decision() {
    let (policy, _folder) = echoing(|config| config.start_s = 0.2);
    let mut ticks = Ticks::of(policy);
    let mut before = [0.5, 0.3];
    for _ in 0..199 {
        let now = ticks.after(1);
        assert!((0..2).all(|joint| now[joint] <= before[joint] && before[joint] - now[joint] < 0.003));
        before = now;
    }
    assert!((before[0] - 0.2).abs() < 1e-4);
    assert_eq!(ticks.after(1), [0.2, 0.1]);
    assert!((ticks.after(1)[0] - 0.35).abs() < 1e-6);
}

#[test]
fn a_tick_does_not_allocate() {
    let terms = vec![
        ObserveConfig { history: 5, ..term(Term::JointPos) },
        term(Term::LastAction),
        term(Term::ProjectedGravity),
        term(Term::Phase),
    ];
    let (policy, _folder) = prepared(&echo(17, 0), config(terms)).unwrap_or_else(|error| panic!("{error}"));
    let mut ticks = Ticks::of(policy);
    let ((), heap) = alloc_trap::forbid(|| _ = ticks.after(100));
    heap.assert_untouched();
}

/// Adds what it sees to what it carries.
fn sum() -> Vec<u8> {
    Graph::default()
        .input("obs", &[1, 2])
        .input("h_in", &[1, 2])
        .output("actions", &[1, 2])
        .output("h_out", &[1, 2])
        .node("Add", &["obs", "h_in"], &["h_out"])
        .node("Identity", &["h_out"], &["actions"])
        .file()
}

#[test]
fn what_a_policy_carries_goes_from_decision_to_decision_and_not_beyond_a_start() {
    let (policy, _folder) =
        prepared(&sum(), config(vec![term(Term::JointPos)])).unwrap_or_else(|error| panic!("{error}"));
    let mut ticks = Ticks::of(policy);
    for decision in 1..=4 {
        ticks.after(9);
        let hip = ticks.after(1)[0];
        assert!((hip - 0.2 - 0.15 * f64::from(decision)).abs() < 1e-6, "{hip}");
    }
    ticks.policy.start(&state()).expect("a start");
    ticks.after(9);
    assert!((ticks.after(1)[0] - 0.35).abs() < 1e-6);
}

/// What it carries grows a millionfold with each decision; its output is within ±1.
#[test]
fn what_is_carried_beyond_all_bounds_is_an_error() {
    let grows = Graph::default()
        .input("obs", &[1, 2])
        .input("h", &[1, 2])
        .output("actions", &[1, 2])
        .output("h_out", &[1, 2])
        .floats("million", &[1], &[1e6])
        .floats("one", &[1], &[1.0])
        .node("Mul", &["h", "million"], &["more"])
        .node("Add", &["more", "one"], &["h_out"])
        .node("Tanh", &["h_out"], &["actions"]);
    let (policy, _folder) =
        prepared(&grows.file(), config(vec![term(Term::JointPos)])).unwrap_or_else(|error| panic!("{error}"));
    let mut ticks = Ticks::of(policy);
    let error = (0..200).find_map(|_| ticks.next().err()).expect("an error").to_string();
    assert_eq!(error, "it carries inf to the next decision, in its output `h_out`");
}

/// The root of what it sees.
fn root() -> Vec<u8> {
    let graph = Graph::default().input("obs", &[1, 4]).output("actions", &[1, 2]);
    let graph = graph.ints("first", &[0, 1]).node_with(
        "Gather",
        &["obs", "first"],
        &["two"],
        &[crate::onnx::whole("axis", 1)],
    );
    graph.node("Abs", &["two"], &["size"]).node("Exp", &["size"], &["actions"]).file()
}

#[test]
fn what_is_no_number_is_an_error_that_names_it() {
    let terms = vec![term(Term::JointPos), ObserveConfig { scale: vec![1e6], ..term(Term::JointVel) }];
    let mut ticks =
        Ticks::of(prepared(&root(), config(terms.clone())).unwrap_or_else(|error| panic!("{error}")).0);
    ticks.after(5);
    ticks.state.servos[0].velocity = f64::NAN;
    let error = (0..11).find_map(|_| ticks.next().err()).expect("an error").to_string();
    assert_eq!(error, "its observation has NaN: term `joint_vel`, of the joint `hip`");
    let mut ticks = Ticks::of(prepared(&root(), config(terms)).unwrap_or_else(|error| panic!("{error}")).0);
    ticks.state.servos[1].position = 200.0;
    let error = (0..11).find_map(|_| ticks.next().err()).expect("an error").to_string();
    assert_eq!(error, "it says inf for the joint `knee`");
}

#[test]
fn one_that_sees_the_imu_begins_upright_and_at_rest() {
    let (mut policy, _folder) = prepared(&echo(3, 0), config(vec![term(Term::ProjectedGravity)]))
        .unwrap_or_else(|error| panic!("{error}"));
    let mut tried = |attitude: [f64; 4], rate: f64, at_ns: i64| {
        let mut state = state();
        state.imu.iter_mut().for_each(|imu| {
            (imu.sample.attitude, imu.sample.rate, imu.sample.at_ns) = (attitude, [0.0, rate, 0.0], at_ns);
        });
        policy.start(&state).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let level = [1.0, 0.0, 0.0, 0.0];
    assert_eq!(tried(level, 0.0, 0), "");
    assert!(tried(level, 0.0, i64::MIN).contains("no reading yet"));
    assert!(tried([f64::NAN; 4], 0.0, 0).contains("no reading yet"));
    assert!(tried(level, 1.5, 0).contains("turns by more than 1 rad/s"));
    assert!(tried([0.5_f64.sqrt(), 0.5_f64.sqrt(), 0.0, 0.0], 0.0, 0).contains("tilted by more than 60°"));
}

#[test]
fn a_joint_is_turned_or_pushed_where_the_policy_says_so() {
    let (policy, _folder) = echoing(|config| {
        config.action.kinds = vec![Kind::Velocity, Kind::Torque];
        (config.action.kp_scale, config.action.kd_scale) = (vec![0.5], vec![0.25]);
    });
    let mut ticks = Ticks::of(policy);
    ticks.after(2);
    let [ServoCommand::Position(hip), ServoCommand::Position(knee)] = ticks.commands else {
        panic!("{:?}", ticks.commands)
    };
    // Half of 0.2 and of 0.3, and no posture is added.
    assert!((knee.velocity - 0.1).abs() < 1e-6 && (hip.torque - 0.15).abs() < 1e-6, "{knee:?} {hip:?}");
    assert!(knee.position.is_nan() && hip.position.is_nan(), "{knee:?} {hip:?}");
    assert_eq!([knee.kp_scale, knee.kd_scale, hip.kp_scale, hip.kd_scale], [0.0, 0.25, 0.0, 0.0]);
    assert_eq!((knee.torque, hip.velocity), (0.0, 0.0));
}

#[test]
fn a_target_can_be_filtered() {
    let (policy, _folder) = echoing(|config| config.action.filter_hz = 10.0);
    let mut ticks = Ticks::of(policy);
    assert_eq!(ticks.after(1), [0.2, 0.1]);
    let turned = std::f64::consts::TAU * 0.01;
    let first = ticks.after(1)[0];
    assert!((first - 0.2 - 0.15 * turned / (1.0 + turned)).abs() < 1e-8, "{first}");
    assert!((ticks.after(200)[0] - 0.35).abs() < 1e-4);
}

#[test]
fn gains_of_the_training_are_shares_of_the_servos() {
    let (policy, _folder) =
        echoing(|config| (config.action.kp, config.action.kd) = (vec![20.0, 40.0], vec![0.5]));
    let mut ticks = Ticks::of(policy);
    ticks.after(1);
    let shares = ticks.commands.map(|command| match command {
        ServoCommand::Position(command) => [command.kp_scale, command.kd_scale],
        _ => [f64::NAN; 2],
    });
    assert_eq!(shares, [[1.0, 0.25], [0.5, 0.25]]);
}

#[test]
fn a_late_decision_can_damp_at_once() {
    let (policy, _folder) = echoing(|config| config.late = Late::Damp);
    assert_eq!(policy.policy().map(|policy| policy.max_late), Some(1));
}

#[test]
fn too_many_clipped_decisions_in_a_row_are_an_error() {
    let (policy, _folder) = echoing(|config| {
        config.action.clip = vec![[-0.25, 0.25], [-0.5, 0.5]];
        config.max_clipped = Some(3);
    });
    let mut ticks = Ticks::of(policy);
    ticks.state.servos[1].position = 1.0;
    ticks.after(15);
    // One that is not begins the count anew.
    ticks.state.servos[1].position = 0.3;
    ticks.after(10);
    ticks.state.servos[1].position = 1.0;
    ticks.after(25);
    let error = (0..10).find_map(|_| ticks.next().err()).expect("an error").to_string();
    assert_eq!(
        error,
        "it says more than `action.clip` in 3 decisions in a row (`max_clipped`): 0.9 for the joint `knee`"
    );
    assert!(ticks.policy.decided().is_some_and(|decided| decided.failed && decided.clipped == 1));
}
