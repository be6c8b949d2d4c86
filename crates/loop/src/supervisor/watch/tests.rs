use super::tally::ENABLING_NS;
use super::*;
use crate::supervisor::SupervisorSettings;
use khz_servo::Carries;
use proptest::prelude::*;

/// A usual value, or one at a border, or none.
fn near(usual: f64) -> impl Strategy<Value = f64> {
    let borders = [0.0, 0.1, 1.0, 1.1, 2.0, 10.0, 75.0, -1.1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    prop_oneof![4 => Just(usual), 2 => prop::sample::select(borders.to_vec()), 1 => -3.0..3.0]
}

fn reply() -> impl Strategy<Value = ServoState> {
    let values = (near(0.5), near(0.25), near(24.0), near(30.0));
    let does = (prop::sample::select(Doing::ALL.to_vec()), prop::bool::weighted(0.7));
    (values, does, any::<bool>(), 0..2_u32).prop_map(|(values, (doing, follows), is_refused, code)| {
        let (position, velocity, voltage, temperature) = values;
        let doing = if follows { Doing::Following } else { doing };
        let refused = is_refused.then_some(Refused { register: 1, name: "", write: false });
        let fault = Fault { code, text: "" };
        let known = ServoState { at_ns: 0, fresh: true, ..ServoState::UNKNOWN };
        ServoState { position, velocity, voltage, temperature, doing, refused, fault, ..known }
    })
}

/// Commands and replies of some ticks, and those in which nothing came.
fn ticks() -> impl Strategy<Value = Vec<(Commanded, ServoState, bool)>> {
    let commanded =
        prop_oneof![4 => Just(Commanded::Follow), 1 => Just(Commanded::Damp), 1 => Just(Commanded::Stop)];
    prop::collection::vec((commanded, reply(), prop::bool::weighted(0.9)), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn the_short_way_of_a_servo_that_follows_is_the_long_one(
        ticks in ticks(),
        (is_active, let_go) in (prop::bool::weighted(0.8), any::<bool>()),
    ) {
        let (phase, too_much) =
            if is_active { (Phase::Active, Some(ASTRAY)) } else { (Phase::Armed, None) };
        let mut tally = Tally { let_go, ..Tally::default() };
        for (at, (commanded, servo, comes)) in (0..).zip(ticks) {
            let servo = ServoState { fresh: comes, at_ns: at, ..servo };
            (tally.commanded_before, tally.commanded) = (tally.commanded, commanded);
            let mut long = tally;
            long.count_reply(&servo, at, phase, too_much);
            tally.update(&servo, &Joint::UNLIMITED, at, phase, (too_much, 2.0));
            // Both measure in the same way.
            let Tally { unmeasured, track, jump, .. } = tally;
            let long = Tally { unmeasured, track, jump, ..long };
            prop_assert_eq!(counts(tally), counts(long));
        }
    }

    #[test]
    fn nothing_is_found_in_what_is_well(
        ticks in ticks(),
        (low, high, fastest) in (near(-1.0), near(1.0), near(2.0)),
        asked in any::<[bool; 3]>(),
    ) {
        let bounds = crate::supervisor::Bounds { position: [low, high], velocity: fastest, torque: 1.0 };
        let [velocity_asked, voltage_asked, temperature_asked] = asked;
        let carries = Carries { velocity_asked, voltage_asked, temperature_asked, ..Carries::EVERYTHING };
        let joint = Joint { bounds, target: bounds.position, carries, timeout: None };
        let (settings, mut tally) = (Thresholds::of(SupervisorSettings::default()), Tally::default());
        let well = Well::of(&joint, &settings);
        for (at, (commanded, servo, _)) in (0..).zip(ticks) {
            let servo = ServoState { at_ns: at, ..servo };
            (tally.commanded_before, tally.commanded) = (tally.commanded, commanded);
            let (before, mut short) = (tally, tally);
            let goes_on = is_well(&servo, &well, &settings) && short.goes_on(&servo, &joint);
            tally.update(&servo, &joint, at, Phase::Active, (Some(ASTRAY), 2.0));
            prop_assert_eq!(format!("{short:?}"), format!("{:?}", if goes_on { tally } else { before }));
            prop_assert!(!goes_on || tally.is_following);
            if tally.is_following && is_well(&servo, &well, &settings) {
                prop_assert_eq!(servo_trouble(0, &servo, &joint, &tally, at), None);
                let mut found = None;
                look_at_values(0, &servo, &joint, &settings, &mut |cause| found = Some(cause));
                prop_assert_eq!(found, None);
                prop_assert!(tally.missed == 0 && tally.unmeasured == [0; 2]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn a_body_that_is_upright_is_not_tilted_too_far(
        tilt in prop_oneof![3 => 0.01..3.2_f64, 1 => Just(0.01), 1 => Just(3.2)],
        (off, all_round) in (prop_oneof![-3e-6..3e-6, -4.0..4.0_f64], -4.0..4.0_f64),
        rounding in -1e-9..1e-9_f64,
    ) {
        let (half, length): (f64, f64) = ((tilt + off) / 2.0, 1.0 + rounding);
        let (axis, up) = (half.sin() * length, half.cos() * length);
        let attitude = [up, axis * all_round.cos(), axis * all_round.sin(), 0.0];
        let imu = ImuState { sample: ImuSample { attitude, ..ImuState::NONE }, fresh: true };
        let settings = Thresholds::of(SupervisorSettings { tilt, ..SupervisorSettings::default() });
        prop_assert!(imu.cosine_of_tilt() < settings.upright() || imu.tilt() <= tilt);
    }
}

/// What is counted of a servo, as text: NaN is NaN.
fn counts(tally: Tally) -> String {
    format!("{:?}", Tally { is_following: false, ..tally })
}

#[test]
fn a_stall_explains_an_age_only_where_nothing_else_does() {
    let held_up = |held_up_ns, age_ns, limit_ns| {
        let watch = Watch { held_up_ns, ..Watch::of(vec![Tally::default()]) };
        watch.held_up(age_ns, limit_ns, Trigger::Stale).is_some()
    };
    assert!(held_up(100, 120, 20));
    assert!(!held_up(100, 121, 20), "without the stall it would be too old, too");
    assert!(!held_up(60, 120, 60) && held_up(61, 120, 60), "more than half of it");
    assert!(!held_up(50, 120, 70));
}

#[test]
fn silence_after_arming_is_borne_as_long_as_the_state_is_of_use_and_no_restart_is_hidden() {
    let settings = SupervisorSettings { stale_ms: Some(50.0), ..SupervisorSettings::default() };
    let settings = Thresholds::of(settings);
    let bearable = |period_ns, forgiving| bearable_silence(period_ns, &settings, forgiving);
    assert_eq!([bearable(5_000_000, true), bearable(5_000_000, false)], [11, 10]);
    assert_eq!(bearable(1_000_000, true), RESTART_UNSEEN);
    assert_eq!(bearable(50_000_000, true), 10, "never less than later");
}

#[test]
fn a_joint_stands_still_where_its_position_stays_within_what_its_format_blurs() {
    let still = |steps: f64, positions: &[f64]| -> Vec<bool> {
        let carries = Carries { reported_steps: [steps, 0.0], ..Carries::EVERYTHING };
        let joint = Joint { carries, ..Joint::UNLIMITED };
        let mut tally = Tally { stands_at: positions[0], ..Tally::default() };
        let at = |&position| ServoState { position, velocity: 0.0, fresh: true, ..ServoState::UNKNOWN };
        positions[1..].iter().map(|position| tally.is_still(&at(position), &joint, 0.05)).collect()
    };
    // Once it has moved, it may stand there.
    let all = still(0.05, &[1.0, 1.1, 0.9, 1.13, 1.2, 1.0]);
    assert_eq!(all, [true, true, false, true, false]);
    assert_eq!(still(0.0, &[0.0, STILL_WAY, -STILL_WAY, 1.1 * STILL_WAY]), [true, true, false]);
}

#[test]
fn one_that_strays_is_astray_until_all_of_it_is_made_up_for() {
    let mut tally = Tally::default();
    (0..4).for_each(|_| tally.count_astray(Some(ASTRAY), false));
    assert!(!tally.is_astray);
    tally.count_astray(Some(ASTRAY), false);
    let astray = (0..10).map(|_| {
        tally.count_astray(Some(ASTRAY), true);
        tally.is_astray
    });
    assert_eq!(astray.filter(|is_astray| *is_astray).count(), 9);
}

#[test]
fn a_servo_may_take_its_time_to_switch_on_and_no_longer() {
    let tally = Tally { off_since_ns: Some(0), ..Tally::default() };
    let stays_off = [ENABLING_NS - 1, ENABLING_NS, ENABLING_NS + 1, 2 * ENABLING_NS];
    assert_eq!(stays_off.map(|now_ns| tally.stays_off(now_ns)), [false, false, true, true]);
}

/// A watch of no servos, after ticks of this period.
fn watched(period_ns: i64, ticks: &[Observation]) -> Watch {
    let state = RobotState::unknown(0, false, period_ns);
    let settings = Thresholds::of(SupervisorSettings::default());
    let mut watch = Watch::of(Vec::new());
    ticks.iter().for_each(|seen| watch.update(Phase::Active, &[], &state, seen, &settings));
    watch
}

fn found(state: &RobotState, seen: &Observation, settings: &SupervisorSettings, forgiving: bool) -> Findings {
    let mut findings = Findings::none();
    let settings = Thresholds::of(settings.clone());
    Watch::of(Vec::new()).find_causes(&mut findings, &[], state, seen, &settings, forgiving);
    findings
}

fn held_up(held_up_ns: i64) -> Observation {
    Observation { held_up_ns, ..Observation::default() }
}

#[test]
fn at_low_rates_a_long_stall_is_longer() {
    let is_long = |period_ns, held_up_ns| watched(period_ns, &[held_up(held_up_ns)]).was_held_up_long();
    let second = LONGEST_STALL_NS;
    assert_eq!([second - 1, second].map(|ns| is_long(1_000_000, ns)), [false, true]);
    assert_eq!([2 * second - 1, 2 * second].map(|ns| is_long(second / 5, ns)), [false, true]);
    let is_reported = |period_ns, held_up_ns| {
        let state = RobotState::unknown(0, false, period_ns);
        let settings = SupervisorSettings::default();
        let found = found(&state, &held_up(held_up_ns), &settings, false);
        found.of(Trigger::Overruns).is_some()
    };
    assert_eq!([HELD_UP_NS - 1, HELD_UP_NS].map(|ns| is_reported(1_000_000, ns)), [false, true]);
    assert_eq!([149_999_999, 150_000_000].map(|ns| is_reported(50_000_000, ns)), [false, true]);
}

#[test]
fn devices_have_time_to_answer_after_a_stall_and_until_all_have() {
    let period_ns = 1_000_000;
    let just_back = |ticks: &[Observation]| watched(period_ns, ticks).is_just_back();
    let well = Observation::default();
    let missed = |missed, quiet| {
        let cycle = crate::cycle::CycleResult { missed, quiet, ..Default::default() };
        Observation { cycle, ..Observation::default() }
    };
    assert!(!just_back(&[well, well]) && !just_back(&[well, held_up(period_ns)]));
    assert!(just_back(&[well, held_up(period_ns + 1)]));
    assert!(!just_back(&[well, held_up(period_ns + 1), well]), "all have answered");
    assert!(just_back(&[well, held_up(period_ns + 1), missed(1, 1)]), "one of each has not");
    // One that is not asked for some ticks after a missed reply came down by a stall that began then.
    let stall_after_a_miss = Observation { held_up_ns: period_ns + 1, ..missed(0, 1) };
    assert!(just_back(&[well, missed(1, 0), stall_after_a_miss]));
    let mut silent = vec![well];
    silent.extend([stall_after_a_miss; 6]);
    assert!(!just_back(&silent), "held up again and again, it gets no more time");
}

/// Replies in the tick of a stall are to queries of before it: if one of the next is lost, the stall still explains its age.
#[test]
fn a_reply_lost_right_after_a_stall_is_no_older_than_the_stall_made_it() {
    let (period_ns, stall_ns) = (1_000_000, 60_000_000);
    let lost = Observation {
        cycle: crate::cycle::CycleResult { missed: 1, ..Default::default() },
        ..Observation::default()
    };
    let well = Observation::default();
    let after = |ticks: &[Observation]| watched(period_ns, ticks).held_up_ns();
    assert_eq!(after(&[well, held_up(stall_ns), lost]), stall_ns);
    assert_eq!(after(&[well, held_up(stall_ns), well]), stall_ns, "as old as what was asked before");
    assert_eq!(after(&[well, held_up(stall_ns), well, lost]), 0);
}

#[test]
fn a_new_activation_forgets_all_but_which_servos_may_be_on() {
    let mut watch = watched(1_000_000, &[Observation { overrun: true, ..Observation::default() }]);
    watch.tallies = vec![Tally { missed: 3, may_be_on: 2, ..Tally::default() }];
    watch.reset();
    let tally = &watch.tallies[0];
    assert_eq!((watch.overruns, tally.missed, tally.may_be_on), (0, 0, 2));
}

#[test]
fn an_operator_and_a_body_at_their_limit_exactly_are_within_it() {
    let state = RobotState::unknown(0, true, 1_000_000);
    let found = |age_ns| {
        let settings = SupervisorSettings { heartbeat_ms: Some(100.0), ..SupervisorSettings::default() };
        let seen = Observation { heartbeat_age_ns: Some(age_ns), ..Observation::default() };
        let found = found(&state, &seen, &settings, true);
        found.of(Trigger::Heartbeat).is_some()
    };
    assert_eq!([100_000_000, 100_000_001].map(found), [false, true]);
    let sample =
        ImuSample { at_ns: 0, attitude: [0.9, 0.3, 0.3, 0.1], rate: [0.0; 3], acceleration: [0.0; 3] };
    let imu = ImuState { sample, fresh: true };
    let state = RobotState { imu: Some(imu), now_ns: 0, ..state };
    let tilts = |tilt| {
        let (settings, mut found) = (SupervisorSettings { tilt, ..SupervisorSettings::default() }, false);
        look_at_imu(&Watch::of(Vec::new()), &state, &Thresholds::of(settings), true, &mut |cause| {
            found |= matches!(cause, Cause::Tilt { .. });
        });
        found
    };
    assert_eq!([imu.tilt(), 0.99 * imu.tilt()].map(tilts), [false, true]);
}

#[test]
fn refusals_are_counted_in_a_row_and_for_each_link() {
    let down = |links_down| {
        let cycle = crate::cycle::CycleResult { links_down, ..Default::default() };
        Observation { cycle, ..Observation::default() }
    };
    let counted = |ticks: &[Observation]| watched(1_000_000, ticks).refusals[..3].to_vec();
    assert_eq!(counted(&[down(0b101), down(0b100)]), [0, 0, 2]);
    assert_eq!(counted(&[down(0b101), down(0)]), [0, 0, 0]);
}

#[test]
fn time_that_a_controller_waited_for_a_cpu_is_not_its_own_at_the_limit_either() {
    let limit_ns = SupervisorSettings::default().controller_ns();
    let seen = |control_waited_ns| Observation {
        control_ns: limit_ns + 5,
        control_waited_ns,
        ..Observation::default()
    };
    let counts = [5, 4].map(|waited_ns| {
        let watch = watched(1_000_000, &[seen(waited_ns)]);
        (watch.late, watch.slow)
    });
    assert_eq!(counts, [(1, 0), (1, 1)]);
}

#[test]
fn at_a_threshold_exactly() {
    let joint = Joint {
        bounds: crate::supervisor::Bounds { velocity: 6.0, ..crate::supervisor::Bounds::NONE },
        ..Joint::UNLIMITED
    };
    let settings = Thresholds::of(SupervisorSettings::default());
    let found = |servo: ServoState| {
        let mut found = 0;
        look_at_values(0, &servo, &joint, &settings, &mut |_| found += 1);
        found
    };
    let known = ServoState { position: 0.0, velocity: 0.0, ..ServoState::UNKNOWN };
    let (volts, celsius) = (settings.voltage_low_v, settings.temperature_hard_c);
    assert_eq!([volts, volts - 0.1].map(|voltage| found(ServoState { voltage, ..known })), [0, 1]);
    assert_eq!(
        [celsius - 0.1, celsius].map(|temperature| found(ServoState { temperature, ..known })),
        [0, 1]
    );
    assert_eq!([8.9, 9.0, -9.1].map(|velocity| found(ServoState { velocity, ..known })), [0, 0, 1]);
}
