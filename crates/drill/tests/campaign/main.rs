//! The campaign holds, and finds every repaired defect when it is put back alone. Its own process: what is printed
//! by panics is counted by the process's panic hook.
#![allow(clippy::unwrap_used)]

mod plant;

use khz_drill::campaign::{Violation, campaign, campaign_with, idle};
use khz_drill::fleet::Member;
use khz_drill::{Fleet, Invariant, Outcome, outcomes, watch_prints};
use khz_file::RobotConfig;
use khz_loop::supervisor::Recover;
use plant::Plant;

/// The robots on which a plant shows soonest: none on legs, which takes longest to emulate. Only joints without limits are
/// asked for what their formats cannot carry, and only where there are two buses one can starve the other.
fn fleet(plant: Plant) -> Fleet {
    let mut fleet = Fleet::built_in();
    fleet.members.retain(|member| member.config.body.is_none());
    match plant {
        Plant::SaturatedCommands => fleet.members.retain(|member| member.config.name == "wheels"),
        Plant::SharedInbox => fleet.members.retain(|member| member.config.buses.len() > 1),
        // A joint that falls out of its limits when it is let go, and may be as fast as it likes.
        Plant::PositionTrigger => {
            let falls =
                "joint = { inertia = 0.05, gravity = 2.0, start = 0.3 }\nlimits = { position = [0.0, 0.6] }";
            return joint(1000, falls);
        }
        // Of those that may be switched on again, the one without a body.
        Plant::Recovers => fleet.members.retain(|member| member.config.name == "openarm-like"),
        // The robots with an IMU are on legs.
        Plant::FrozenImu => return joint(1000, "[imu]\nlink = \"emulated\""),
        // Those of moteus servos: the plants forge their replies.
        Plant::OtherModes | Plant::StaysOn | Plant::Unmeasured | Plant::Jumps | Plant::Echoes => {
            fleet.members.retain(|member| ["solo", "pair"].contains(&&*member.config.name));
        }
        _ => {}
    }
    fleet
}

/// The first violation by a planted defect in the seeds' order, as [`shown_by`] finds.
fn find(plant: Plant) -> Violation {
    find_from(plant, 1)
}

/// As [`find`], from this seed on.
fn find_from(plant: Plant, first: u64) -> Violation {
    let (fault, invariants) = shown_by(plant);
    const AT_ONCE: u64 = 40;
    const MOST: u64 = 1_600;
    watch_prints();
    let fleet = fleet(plant);
    for seed in (first..MOST).step_by(AT_ONCE as usize) {
        let found = campaign_with(&fleet, AT_ONCE, seed, &plant).unwrap();
        let is_it = |violation: &&Violation| {
            let is_named = plant != Plant::OwnStops || violation.what.contains("the servo restarted");
            invariants.contains(&violation.invariant) && violation.scenario.contains(fault) && is_named
        };
        if let Some(violation) = found.violations.iter().find(is_it) {
            return violation.clone();
        }
    }
    panic!("{MOST} scenarios do not find {plant:?}");
}

#[test]
fn nothing_is_violated_in_a_short_campaign() {
    watch_prints();
    let campaign = campaign(&Fleet::built_in(), 60, 1).unwrap();
    assert!(campaign.violations.is_empty(), "{:#?}", campaign.violations);
    assert!(campaign.brought_down > 25, "{}", campaign.brought_down);
}

/// A joint without limits that turns beyond what an int8 holds, and a queue that filled in two ticks, because a half-duplex bus
/// hands over one frame at a time: nothing was wrong with the robot.
#[test]
fn what_a_robot_without_limits_on_one_half_duplex_bus_makes_possible_is_no_violation() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/published/rs485.toml");
    let fleet = Fleet::of(&RobotConfig::load(file).unwrap());
    let wrong: Vec<_> = outcomes(&fleet, [369, 910]).unwrap().filter_map(|outcome| outcome.what).collect();
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn scenarios_one_by_one_have_the_results_of_the_campaign() {
    watch_prints();
    // At five times its limit nothing stops the joint.
    let fleet = joint(
        500,
        "limits = { position = [-1.0, 1.0], velocity = 2.0, torque = 3.0 }\n[supervisor]\nvelocity_factor = 5.0",
    );
    let together = campaign(&fleet, 80, 60).unwrap();
    let each: Vec<_> = outcomes(&fleet, 60..140).unwrap().collect();
    assert!(each.iter().map(|outcome| outcome.seed).eq(60..140));
    let count = |is: fn(&Outcome) -> bool| each.iter().filter(|outcome| is(outcome)).count() as u64;
    assert_eq!(count(|outcome| outcome.armed), together.armed);
    assert_eq!(count(|outcome| outcome.brought_down), together.brought_down);
    let found =
        each.iter().filter_map(|outcome| Some((outcome.seed, outcome.invariant?, outcome.what.clone()?)));
    let violations =
        together.violations.iter().map(|found| (found.seed, found.invariant, found.what.clone()));
    assert!(violations.eq(found) && !together.violations.is_empty(), "{:#?}", together.violations);
    assert_eq!(outcomes(&fleet, [71]).unwrap().next().as_ref(), each.get(11));
}

/// A joint alone on its bus, and what its file sets besides.
fn joint(rate_hz: u32, more: &str) -> Fleet {
    let text = format!(
        "[loop]\nrate_hz = {rate_hz}\n[bus.main]\nlink = \"emulated\"\n\
         [[servo]]\nname = \"joint\"\nbus = \"main\"\nid = 1\n{more}"
    );
    Fleet::of(&RobotConfig::parse(&text, "test").unwrap())
}

/// Both were reported as unsound: by formats that do not reach so far from the servo's zero, and by speeds that are read in
/// steps greater than the limit or gained before they are read.
#[test]
fn a_joint_far_from_its_servos_zero_and_a_slow_one_violate_nothing() {
    watch_prints();
    let far = "sign = -1\noffset = 37.0\nlimits = { position = [0.0, 1.0], velocity = 0.3 }";
    let slow = "limits = { position = [-1.0, 1.0], velocity = 0.2 }";
    for fleet in [joint(200, far), joint(1000, slow)] {
        assert_eq!(idle(&fleet), None);
        let campaign = campaign(&fleet, 150, 1).unwrap();
        assert!(campaign.violations.is_empty(), "{:#?}", campaign.violations);
    }
}

/// Reported, too: a joint whose gain brakes it slowly goes beyond its limits by more than they tolerate.
#[test]
fn a_joint_that_lags_behind_its_commands_violates_nothing() {
    watch_prints();
    let lags = "joint.inertia = 0.05\ndevice = { kp = 50.0, kd = 1.0 }\nlimits = { position = [-1.0, 1.0], velocity = 4.0 }";
    let campaign = campaign(&joint(1000, lags), 150, 1).unwrap();
    assert!(campaign.violations.is_empty(), "{:#?}", campaign.violations);
}

/// Reported, too: a joint as fast as this swings beyond a limit at which its target comes to rest.
#[test]
fn a_joint_that_swings_beyond_the_limit_its_target_rests_at_violates_nothing() {
    watch_prints();
    let fast = "joint = { inertia = 0.01, viscous = 0.05 }\nlimits = { position = [-1.5, 1.5], velocity = 20.0, torque = 3.0 }";
    for rate_hz in [200, 1000] {
        let campaign = campaign(&joint(rate_hz, fast), 60, 1).unwrap();
        assert!(campaign.violations.is_empty(), "{:#?}", campaign.violations);
    }
}

#[test]
fn a_robot_left_waiting_in_idle_ends_with_its_time() {
    /// Replies are late from the tick on in which it would be armed.
    const WAITS: u64 = 2702;
    let fleet = joint(200, "limits = { position = [-1.0, 1.0], velocity = 1.0, torque = 3.0 }");
    let campaign = campaign(&fleet, 1, WAITS).unwrap();
    assert!(campaign.violations.is_empty(), "{:#?}", campaign.violations);
}

#[test]
fn a_robot_on_a_bus_that_is_too_full_is_no_subject_of_a_campaign() {
    let servo = |id| format!("[[servo]]\nname = \"joint{id}\"\nbus = \"main\"\nid = {id}\n");
    let bus = "[bus.main]\nlink = \"emulated\"\nwire = \"rs485\"\nbaud = 3000000\n";
    let text = bus.to_owned() + &(1..=40).map(servo).collect::<String>();
    let why = idle(&Fleet::of(&RobotConfig::parse(&text, "test").unwrap())).unwrap();
    assert!(why.contains("does not come under control with nothing broken: "), "{why}");
}

#[test]
fn a_violation_replays_from_its_seed() {
    let first = find(Plant::FoundOutside);
    let again = campaign_with(&fleet(Plant::FoundOutside), 1, first.seed, &Plant::FoundOutside).unwrap();
    assert_eq!((&again.violations[0].what, &again.violations[0].scenario), (&first.what, &first.scenario));
}

/// What shows a planted defect: a fault or controller of the scenario, and the invariants violated.
fn shown_by(plant: Plant) -> (&'static str, &'static [Invariant]) {
    use Invariant::*;
    match plant {
        Plant::FoundOutside => ("FoundOutside", &[Arming]),
        Plant::TargetJumps => ("Steps", &[JointSpeed, Cause]),
        Plant::PositionTrigger => ("", &[LeavesControl, JointLimits]),
        Plant::VelocityTrigger => ("", &[LeavesControl, JointSpeed]),
        Plant::OutwardCommands => ("", &[JointLimits, Cause]),
        Plant::SaturatedReplies => ("FoundBeyondFormat", &[Arming, StateAge]),
        Plant::SaturatedCommands => ("wheels", &[CommandLimits]),
        Plant::StaleCommands => ("Link", &[CommandAge]),
        Plant::LateReplies => ("BusLate", &[StateAge, LeavesControl]),
        Plant::Silence => ("", &[LeavesControl]),
        Plant::RefusedWrites => ("RefusesLimit", &[LeavesControl]),
        Plant::RefusedReads => ("RefusesPosition", &[LeavesControl, StateAge]),
        Plant::SleepingServo => ("Asleep", &[LeavesControl]),
        Plant::OwnStops => ("ControllerStops", &[Cause]),
        Plant::HastyArming => ("LooseContact", &[Arming]),
        Plant::DuplicateIds => ("DuplicateId", &[Arming]),
        Plant::PrintedPanics => ("ControllerPanics", &[Panics]),
        Plant::PaceSpeedsUp => ("PacedTooFast", &[Rate]),
        Plant::SharedInbox => ("BusFlooded", &[Fairness]),
        Plant::OtherModes => ("OtherMode", &[LeavesControl]),
        Plant::StaysOn => ("StaysOn", &[OutputsOff]),
        Plant::Unmeasured => ("Unmeasured", &[LeavesControl]),
        Plant::Jumps => ("Jumps", &[JointSpeed, LeavesControl, StateAge]),
        Plant::Echoes => ("Echoes", &[LeavesControl]),
        Plant::FrozenImu => ("ImuFrozen", &[LeavesControl]),
        Plant::LateRequests => ("AsksLate", &[Arming]),
        Plant::Recovers => ("", &[LeavesControl, Cause]),
    }
}

#[test]
fn finds_a_robot_armed_outside_its_limits() {
    find(Plant::FoundOutside);
}

#[test]
fn finds_targets_that_jump() {
    find(Plant::TargetJumps);
}

#[test]
fn finds_targets_that_jump_in_slow_loops_too() {
    watch_prints();
    for rate_hz in [10.0, 50.0, 200.0] {
        let solo = |member: &Member| member.config.name == "solo";
        let mut robot = fleet(Plant::TargetJumps).members.into_iter().find(solo).unwrap().config;
        robot.timing.rate_hz = rate_hz;
        let found = campaign_with(&Fleet::of(&robot), 200, 1, &Plant::TargetJumps).unwrap();
        let is_it = |violation: &Violation| violation.invariant == Invariant::JointSpeed;
        assert!(found.violations.iter().any(is_it), "{rate_hz} Hz: {found:#?}");
    }
}

#[test]
fn finds_a_joint_left_beyond_its_limits() {
    find(Plant::PositionTrigger);
}

#[test]
fn finds_a_joint_left_too_fast() {
    find(Plant::VelocityTrigger);
}

#[test]
fn finds_commands_that_lead_out_of_the_limits() {
    find(Plant::OutwardCommands);
}

#[test]
fn finds_saturated_positions() {
    find(Plant::SaturatedReplies);
}

#[test]
fn finds_saturated_commands() {
    find(Plant::SaturatedCommands);
}

#[test]
fn finds_commands_that_outlive_their_tick() {
    find(Plant::StaleCommands);
}

#[test]
fn finds_late_replies_taken_for_fresh() {
    find(Plant::LateReplies);
}

#[test]
fn finds_silence_that_is_forgiven() {
    find(Plant::Silence);
}

#[test]
fn finds_refused_writes() {
    find(Plant::RefusedWrites);
}

#[test]
fn finds_refused_reads() {
    find(Plant::RefusedReads);
}

#[test]
fn finds_a_servo_that_stays_off() {
    find(Plant::SleepingServo);
}

#[test]
fn finds_a_controllers_own_stop_taken_for_a_restart() {
    find(Plant::OwnStops);
}

#[test]
fn finds_a_robot_armed_after_one_complete_tick() {
    find(Plant::HastyArming);
}

#[test]
fn finds_a_robot_armed_by_an_old_request() {
    find(Plant::LateRequests);
}

#[test]
fn finds_servos_that_are_switched_on_again_although_they_must_not_be() {
    find(Plant::Recovers);
}

/// Those of each family that may be switched on again.
#[test]
fn nothing_is_violated_by_robots_that_recover_from_stalls() {
    watch_prints();
    let recovers = |member: &Member| ["openarm-like", "quadruped-robstride"].contains(&&*member.config.name);
    let mut fleet = Fleet::built_in();
    fleet.members.retain(recovers);
    assert_eq!(fleet.members.len(), 2);
    for member in &mut fleet.members {
        member.config.supervisor.recover = Recover::On;
        member.config.servos.iter_mut().for_each(|servo| servo.settings.watchdog_s = 0.05);
    }
    let campaign = campaign(&fleet, 120, 1).unwrap();
    assert!(campaign.violations.is_empty(), "{:#?}", campaign.violations);
    assert!(campaign.recovered > 0);
}

/// Nothing shows that they have switched off by themselves but the torque that is missing, so that is not drilled.
#[test]
fn nothing_is_violated_by_servos_that_report_neither_mode_nor_fault() {
    watch_prints();
    let mut fleet = Fleet::built_in();
    fleet.members.retain(|member| member.config.name == "robstride_mit");
    assert_eq!(fleet.members.len(), 1);
    let campaign = campaign(&fleet, 600, 1).unwrap();
    assert!(campaign.violations.is_empty(), "{:#?}", campaign.violations);
}

#[test]
fn finds_duplicate_ids() {
    find(Plant::DuplicateIds);
}

#[test]
fn finds_a_panic_printed_within_the_tick() {
    find(Plant::PrintedPanics);
}

#[test]
fn finds_a_pace_that_speeds_the_loop_up() {
    find(Plant::PaceSpeedsUp);
}

#[test]
fn finds_a_flood_that_starves_other_buses() {
    find(Plant::SharedInbox);
}

/// Servos and sensors that misbehave: each of these defects is a promise that was not kept.
#[test]
fn finds_what_is_believed_of_misbehaving_servos() {
    // They are rare: not far before the first seed with one that shows it.
    let plants = [
        (Plant::OtherModes, 161),
        (Plant::StaysOn, 1),
        (Plant::Unmeasured, 41),
        (Plant::Jumps, 401),
        (Plant::Echoes, 361),
        (Plant::FrozenImu, 1),
    ];
    plants.into_iter().for_each(|(plant, first)| _ = find_from(plant, first));
}
