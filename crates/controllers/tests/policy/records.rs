//! The records of decisions: for the log, for the account of a run, and for a replay.

use crate::rig::{Ticks, config, echo, prepared, term};
use khz_controllers::policy::settings::{ActionConfig, ObserveConfig, Term};
use khz_loop::controller::{Controller, Decision};
use std::collections::VecDeque;

fn ticks(action: ActionConfig) -> Ticks {
    let mut config = config(vec![
        ObserveConfig { history: 3, ..term(Term::JointPos) },
        ObserveConfig { scale: vec![2.0], ..term(Term::LastAction) },
        term(Term::JointPos),
    ]);
    config.action = action;
    let (policy, _folder) = prepared(&echo(10, 0), config).unwrap_or_else(|error| panic!("{error}"));
    Ticks::of(policy)
}

fn decision(ticks: &Ticks) -> Decision {
    ticks.policy.decided().cloned().expect("decisions")
}

#[test]
fn a_decision_is_recorded_with_its_ticks_its_newest_frame_and_its_output() {
    let mut ticks = ticks(ActionConfig::default());
    ticks.state.servos[0].position = 0.6;
    ticks.after(1);
    assert_eq!(decision(&ticks).number, 0, "it is under way");
    ticks.after(1);
    let first = decision(&ticks);
    assert!((first.number, first.of_tick, first.in_tick) == (1, 0, 1) && first.begins_in(1), "{first:?}");
    // Knee and hip, less the default posture; the last action; and once more.
    let seen = [0.3 - 0.1_f32, 0.6 - 0.2_f32];
    assert_eq!(first.observation.0, [seen[0], seen[1], 0.0, 0.0, seen[0], seen[1]]);
    assert_eq!(first.action.0, seen, "of the oldest frame, which the first one fills");
    assert_eq!((first.took_ns, first.late, first.missed, first.failed), (0, 0, 0, false));
    ticks.after(10);
    let second = decision(&ticks);
    assert_eq!((second.number, second.of_tick, second.in_tick), (2, 10, 11));
    assert_eq!(second.observation.0[2..4], [2.0 * seen[0], 2.0 * seen[1]]);
}

#[test]
fn the_log_names_its_terms() {
    let policy = ticks(ActionConfig::default()).policy.policy().expect("a policy");
    let named: Vec<_> =
        policy.terms.iter().map(|term| (term.name.as_str(), term.offset, term.len, term.history)).collect();
    assert_eq!(named, [("joint_pos", 0, 2, 3), ("last_action", 6, 2, 1), ("joint_pos_2", 8, 2, 1)]);
    assert_eq!((policy.every, policy.delay, policy.sha256.len()), (10, 1, 64));
    assert_eq!(policy.joints, ["knee", "hip"]);
}

#[test]
fn what_is_clipped_and_what_limits_cut_is_recorded() {
    let clip = vec![[-0.25, 0.25], [-0.3, 0.5]];
    let mut ticks = ticks(ActionConfig { clip, ..ActionConfig::default() });
    ticks.after(2);
    assert_eq!((decision(&ticks).clipped, &decision(&ticks).cut.0[..]), (0, &[false, false][..]));
    // 0.2 and 0.3 are output again; the hip's command is cut once, in the way of a limit.
    ticks.state.servos[1].position = 0.9;
    ticks.after(9);
    ticks.cut(0, -0.001);
    ticks.after(1);
    let second = decision(&ticks);
    assert_eq!((second.number, &second.cut.0[..]), (2, &[false, true][..]));
    // The oldest frame of three is the new one in the third decision after it.
    ticks.after(20);
    let later = decision(&ticks);
    assert_eq!((later.number, later.clipped, &later.cut.0[..]), (4, 1, &[false, false][..]));
}

#[test]
fn a_decision_that_fails_is_recorded_too() {
    let mut ticks = ticks(ActionConfig::default());
    ticks.after(2);
    ticks.state.servos[1].position = f64::NAN;
    ticks.after(9);
    assert!(ticks.next().is_err());
    let failed = decision(&ticks);
    assert!(failed.failed && failed.number == 2 && failed.begins_in(11), "{failed:?}");
    assert!(failed.observation.0[0].is_nan(), "{failed:?}");
}

#[test]
fn a_replay_decides_and_follows_when_the_run_did() {
    let mut ticks = ticks(ActionConfig::default());
    ticks.policy.decide_again(VecDeque::from([[2, 9], [10, 11], [40, 41]]));
    let mut seen = Vec::new();
    for _ in 0..50 {
        let tick = ticks.state.tick;
        ticks.after(1);
        if decision(&ticks).begins_in(tick) {
            seen.push([decision(&ticks).of_tick, tick]);
        }
    }
    assert_eq!(seen, [[2, 9], [10, 11], [40, 41]]);
}
