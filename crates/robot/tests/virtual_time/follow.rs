//! Two emulated arms, one of which follows the other.

use crate::rig::Rig;
use khz_file::RobotConfig;
use khz_file::config::ControllerConfig;
use khz_loop::supervisor::Phase;
use khz_robot::assemble;
use khz_targets::Follow;

/// Under control, from a text that is changed.
fn pair(change: impl Fn(String) -> String) -> (Rig, RobotConfig) {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/leader_follower.toml");
    let text = change(std::fs::read_to_string(file).unwrap());
    let config = RobotConfig::parse(&text, "pair").unwrap_or_else(|error| panic!("{error}"));
    let ControllerConfig::Follow(follow) = &config.controller else { panic!("{:?}", config.controller) };
    let (mut follow, _) = Follow::new(follow);
    khz_loop::Controller::prepare(&mut follow, &assemble::info(&config)).unwrap();
    let feed = follow.feed();
    let mut machine = assemble::machine(&config, Box::new(follow)).unwrap();
    machine.watch_feed(feed);
    (Rig::under_control(machine), config)
}

/// How far the joints have swung, and how far the followers were from their leaders at the most, rad.
fn followed(rig: &mut Rig, ticks: usize) -> ([f64; 6], [f64; 3]) {
    let (mut low, mut high, mut apart) = ([f64::INFINITY; 6], [f64::NEG_INFINITY; 6], [0.0_f64; 3]);
    for _ in 0..ticks {
        rig.tick_without_heap();
        let at = |joint: usize| rig.machine.state().servos[joint].position;
        for joint in 0..6 {
            (low[joint], high[joint]) = (low[joint].min(at(joint)), high[joint].max(at(joint)));
        }
        for (pair, apart) in apart.iter_mut().enumerate() {
            *apart = apart.max((at(pair) - at(pair + 3)).abs());
        }
    }
    ([0, 1, 2, 3, 4, 5].map(|joint| high[joint] - low[joint]), apart)
}

#[test]
fn an_arm_follows_the_hand_and_no_tick_allocates() {
    let (mut rig, _) = pair(|text| text);
    (0..3000).for_each(|_| rig.tick());
    let (swung, apart) = followed(&mut rig, 5000);
    // The command comes 12 ms after the leader, and each joint gives way to its weight.
    assert!(swung.iter().all(|&swing| swing > 0.6), "{swung:?}");
    assert!(apart.iter().all(|&apart| apart < 0.1), "{apart:?}");
    assert_eq!(
        (rig.machine.phase(), rig.machine.supervisor().clamped()),
        (Phase::Active, 0),
        "{:?}",
        rig.causes
    );
}

/// The hand stays out of it: what comes back alone must not swing the pair up.
#[test]
fn a_pair_that_is_released_comes_to_rest_with_its_feedback() {
    let (mut rig, _) =
        pair(|text| text.replace("hand_rad", "# hand_rad").replace("joint = { #", "joint = {} # {"));
    (0..4000).for_each(|_| rig.tick());
    let (swung, _) = followed(&mut rig, 2000);
    assert!(swung.iter().all(|&swing| swing < 0.02), "{swung:?}");
    assert_eq!(rig.machine.phase(), Phase::Active, "{:?}", rig.causes);
}
