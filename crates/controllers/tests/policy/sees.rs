//! Observations: what is in them, and in which order.

use crate::rig::{Ticks, config, echo, prepared, seen, state, term};
use khz_controllers::policy::settings::{Advance, Fill, HistoryConfig, Layout, ObserveConfig, Order, Term};
use khz_loop::controller::Controller;
use khz_loop::state::{RobotState, Signal};

fn nothing(_: &mut RobotState, _: u64) {}

/// As the policy has them in float32.
fn assert_near(found: &[f64], expected: &[f64]) {
    let near = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6);
    assert!(near && found.len() == expected.len(), "{found:?}, {expected:?}");
}

#[test]
fn joints_are_in_the_order_of_the_policy_and_relative_to_its_posture() {
    let terms = vec![term(Term::JointPos), ObserveConfig { relative: false, ..term(Term::JointPos) }];
    assert_near(&seen(config(terms), 4, nothing, 1), &[0.2, 0.3, 0.3, 0.5]);
}

#[test]
fn the_imu_is_in_the_frame_of_the_body() {
    let tilted = |state: &mut RobotState, _| {
        let half = 0.05_f64;
        let Some(imu) = &mut state.imu else { return };
        // Nose down by 0.1 rad: what falls goes forward.
        imu.sample.attitude = [half.cos(), 0.0, half.sin(), 0.0];
        imu.sample.rate = [0.1, 0.2, 0.3];
    };
    let terms = vec![term(Term::ProjectedGravity), term(Term::BaseAngVel)];
    let expected = [0.1_f64.sin(), 0.0, -0.1_f64.cos(), 0.1, 0.2, 0.3];
    assert_near(&seen(config(terms), 6, tilted, 1), &expected);
    // A roll to the right: what falls goes to the right, and y is left.
    let rolled = |state: &mut RobotState, _| {
        let half = 0.05_f64;
        state.imu.iter_mut().for_each(|imu| imu.sample.attitude = [half.cos(), half.sin(), 0.0, 0.0]);
    };
    let expected = [0.0, -0.1_f64.sin(), -0.1_f64.cos(), 1.0];
    let terms =
        vec![term(Term::ProjectedGravity), ObserveConfig { values: vec![1.0], ..term(Term::Constant) }];
    assert_near(&seen(config(terms), 4, rolled, 1), &expected);
}

#[test]
fn a_value_is_clipped_and_then_scaled() {
    let velocity = |state: &mut RobotState, _| {
        (state.servos[0].velocity, state.servos[1].velocity) = (3.0, -0.5);
        state.teleop.forward = 0.7;
    };
    let terms = vec![
        ObserveConfig { clip: vec![[-1.0, 2.0]], scale: vec![0.1, 10.0], ..term(Term::JointVel) },
        ObserveConfig { clip: vec![[-0.5, 0.5], [0.0, 0.0], [0.1, 0.2]], ..term(Term::Command) },
    ];
    assert_near(&seen(config(terms), 5, velocity, 1)[..4], &[-0.05, 20.0, 0.5, 0.0]);
}

/// The hip's position counts decisions.
fn counted(state: &mut RobotState, decision: u64) {
    state.servos[0].position = decision as f64;
    state.servos[1].position = -(decision as f64);
}

fn with_history(history: HistoryConfig) -> Vec<f64> {
    let terms = vec![
        ObserveConfig { history: 3, relative: false, ..term(Term::JointPos) },
        ObserveConfig { history: 3, values: vec![0.9, 0.8], ..term(Term::Constant) },
    ];
    let mut config = config(terms);
    config.history = history;
    seen(config, 12, counted, 2)
}

#[test]
fn a_history_is_ordered_laid_out_and_filled_as_the_file_says() {
    let default = HistoryConfig::default();
    let c = [0.9, 0.8];
    assert_near(&with_history(default.clone()), &[&[0.0, 0.0, 0.0, 0.0, -1.0, 1.0][..], &c, &c, &c].concat());
    let newest = HistoryConfig { order: Order::NewestFirst, ..default.clone() };
    assert_near(&with_history(newest), &[&[-1.0, 1.0, 0.0, 0.0, 0.0, 0.0][..], &c, &c, &c].concat());
    let time = HistoryConfig { layout: Layout::Time, ..default.clone() };
    assert_near(&with_history(time), &[&[0.0, 0.0][..], &c, &[0.0, 0.0], &c, &[-1.0, 1.0], &c].concat());
    let zero = HistoryConfig { fill: Fill::Zero, ..default };
    let z = [0.0, 0.0];
    assert_near(&with_history(zero), &[&[0.0, 0.0, 0.0, 0.0, -1.0, 1.0][..], &z, &c, &c].concat());
}

/// A quarter of a second round, 100 Hz: four hundredths of a turn each.
#[test]
fn a_phase_goes_on_before_or_after_it_is_looked_at() {
    let phase =
        ObserveConfig { period_s: 0.25, offsets: vec![0.0, std::f64::consts::PI], ..term(Term::Phase) };
    let at = |turns: f64| {
        let angle = turns * std::f64::consts::TAU;
        [angle.sin(), -angle.sin(), angle.cos(), -angle.cos()]
    };
    assert_near(&seen(config(vec![phase.clone()]), 4, nothing, 3), &at(0.12));
    let after = ObserveConfig { advance: Advance::After, ..phase };
    assert_near(&seen(config(vec![after]), 4, nothing, 3), &at(0.08));
}

/// It outputs what it sees, and it sees its own output: a constant, then that again, two decisions later.
#[test]
fn the_last_action_is_its_output_before_it_was_scaled() {
    let terms = vec![
        ObserveConfig { values: vec![0.4, 0.6], ..term(Term::Constant) },
        term(Term::LastAction),
        ObserveConfig { age: 1, ..term(Term::LastAction) },
    ];
    let mut config = config(terms);
    config.action.clip = vec![[-0.5, 0.5]];
    // The model outputs the constant; what it sees of it is in places 2 to 5, which only an error would name.
    let (policy, _folder) = prepared(&echo(6, 0), config.clone()).unwrap_or_else(|error| panic!("{error}"));
    assert_near(&Ticks::of(policy).after(2), &[0.2 + 0.5 * 0.5, 0.1 + 0.5 * 0.4]);
    let (policy, _folder) = prepared(&echo(6, 2), config).unwrap_or_else(|error| panic!("{error}"));
    // Its output is its previous output: nothing, from the start on.
    assert_near(&Ticks::of(policy).after(42), &[0.2, 0.1]);
}

#[test]
fn where_the_decision_before_wants_the_joints() {
    let relative = |relative| ObserveConfig { relative, ..term(Term::Target) };
    let terms = vec![relative(true), relative(false), term(Term::JointPos)];
    // The output is the first two numbers, times 1, and no posture is added.
    let numbers = seen(config(terms), 6, |_, _| (), 1);
    for (found, expected) in numbers.iter().zip([0.0, 0.0, 0.1, 0.2, 0.2, 0.3]) {
        assert!((found - expected).abs() < 1e-6, "{numbers:?}");
    }
}

fn named(names: &[&str], of: Term) -> ObserveConfig {
    ObserveConfig { signals: names.iter().map(|&name| name.to_owned()).collect(), ..term(of) }
}

/// Its own are in the order in which they are first named.
#[test]
fn a_program_sends_signals_and_contacts() {
    let terms = vec![named(&["speed", "left"], Term::Signal), named(&["left", "right"], Term::Contact)];
    let set = |state: &mut RobotState, _| {
        for (signal, value) in state.signals.iter_mut().zip([0.25, 0.75, 0.5]) {
            *signal = Signal { value, tick: Some(state.tick) };
        }
    };
    let (policy, _folder) =
        prepared(&echo(4, 0), config(terms.clone())).unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<String> = policy.parameters().into_iter().map(|parameter| parameter.name).collect();
    assert_eq!(names, ["speed", "left", "right"]);
    assert!(policy.parameters().iter().all(|parameter| parameter.is_signal));
    // 0.5 is not greater than the threshold.
    assert_near(&seen(config(terms), 4, set, 1), &[0.25, 0.75, 1.0, 0.0]);
}

#[test]
fn a_signal_that_is_silent_is_an_error_that_names_it() {
    let terms = vec![ObserveConfig { max_age_s: 0.05, ..named(&["speed", "left"], Term::Signal) }];
    let (policy, _folder) = prepared(&echo(2, 0), config(terms)).unwrap_or_else(|error| panic!("{error}"));
    let mut ticks = Ticks::of(policy);
    ticks.state.signals[0] = Signal { value: 0.1, tick: Some(0) };
    let error = (0..2).find_map(|_| ticks.next().err()).expect("an error").to_string();
    assert_eq!(error, "its signal `left` was never set: start the program that sends it first");
    ticks.state.signals[1] = Signal { value: 0.1, tick: Some(1) };
    ticks.policy.start(&state()).expect("a start");
    let error = (0..80).find_map(|_| ticks.next().err()).expect("an error").to_string();
    assert_eq!(
        error,
        "its signal `speed` is 0.051 s old, and may be 0.05 s (`max_age_s`): who sends it is silent"
    );
    let many: Vec<String> = (0..17).map(|number| format!("s{number}")).collect();
    let terms = vec![ObserveConfig { signals: many, ..term(Term::Signal) }];
    let error = prepared(&echo(17, 0), config(terms)).err().expect("an error").to_string();
    assert_eq!(error, "its terms have 17 signals; there is room for 16");
}
